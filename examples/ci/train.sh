#!/usr/bin/env bash
# train.sh JOB.yaml DIRECTORY    run a training job from a pipeline and fetch its model
#
# Creates the job (with metadata.generateName, and CLAIM for the name of its checkpoints' claim), waits for its end and
# copies its last checkpoint to DIRECTORY. Exit code: 0 the job succeeded and the model is there; 1 it did not, standard
# error says why; 2 wrong usage. All that it made in the cluster is deleted in either case, and when it is stopped.
#
# Needs kubectl 1.31 or newer, and an account that may create, read, patch and delete trainingjobs,
# persistentvolumeclaims and pods, read pods/log, and create pods/exec: the cluster role `edit` may, in the namespace of
# the current context.
#
# Environment: WAIT_SECONDS (3600) for the job's end; STORAGE (1Gi), the size of the volume.
set -euo pipefail

if [ $# -ne 2 ] || [ ! -r "$1" ]; then
  echo "usage: train.sh JOB.yaml DIRECTORY (JOB.yaml must be readable)" >&2
  exit 2
fi
job_file=$1 directory=$2
made=()

say() { printf 'train.sh: %s\n' "$*" >&2; }

clean_up() {
  trap - EXIT
  for waiting in $(jobs -p); do kill "$waiting" 2>/dev/null || true; done
  [ ${#made[@]} -eq 0 ] || kubectl delete --ignore-not-found --wait=false "${made[@]}" >&2
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Waits in the background, so that a signal is answered at once.
wait_for() { kubectl wait "$1" --for="$2" --timeout="$3s" >/dev/null & wait $!; }

# The last object made, as kind/name. In `made` before anything else can fail.
create() {
  local name
  name=$(kubectl create -o name -f -)
  made+=("$name")
}

field() { kubectl get "$job" -o "jsonpath={.status.$1}"; }

create <<END
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {generateName: ci-checkpoints-}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: ${STORAGE:-1Gi}}}
END
claim=${made[-1]#*/}

create <<<"$(sed "s/\bCLAIM\b/$claim/" "$job_file")"
job=${made[-1]}
say "created $job"

# The claim goes with the job, whose ttlSecondsAfterFinished holds even if nobody is left to clean up.
uid=$(kubectl get "$job" -o 'jsonpath={.metadata.uid}')
kubectl patch "${made[0]}" --type=merge --patch "{\"metadata\": {\"ownerReferences\": [{\"kind\": \"TrainingJob\",
  \"apiVersion\": \"coxswain.dev/v1alpha1\", \"name\": \"${job#*/}\", \"uid\": \"$uid\"}]}}" >/dev/null

# completionTime is set when the job succeeds and when it fails.
if ! wait_for "$job" "jsonpath={.status.completionTime}" "${WAIT_SECONDS:-3600}"; then
  say "no end after ${WAIT_SECONDS:-3600} s; phase: $(field phase)"
  say "$(field 'conditions[?(@.status=="True")].message')"
  exit 1
fi

phase=$(field phase)
say "phase: $phase, $(field progress)"
if [ "$phase" != Succeeded ]; then
  say "why: $(field 'conditions[?(@.type=="Failed")].message')"
  say "last failure: $(field lastFailure)"
  kubectl logs --selector "coxswain.dev/job=${job#*/}" --prefix --tail=40 --ignore-errors >&2 || true
  exit 1
fi

# The pod of reader.yaml for this run: it mounts its volume, and is of the image that the job ran with.
create <<END
apiVersion: v1
kind: Pod
metadata: {generateName: ci-reader-}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  securityContext:
    {runAsNonRoot: true, runAsUser: 10001, runAsGroup: 10001, fsGroup: 10001, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: reader
    image: $(field image)
    command: [sleep, "3600"]
    resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {cpu: "1", memory: 1Gi}}
    securityContext:
      {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, readOnlyRootFilesystem: true}
    volumeMounts:
    - {name: checkpoints, mountPath: /checkpoints, readOnly: true}
    - {name: tmp, mountPath: /tmp}
  volumes:
  - {name: checkpoints, persistentVolumeClaim: {claimName: $claim}}
  - {name: tmp, emptyDir: {sizeLimit: 1Gi}}
END
reader=${made[-1]}
if ! wait_for "$reader" condition=Ready 300; then
  say "$reader, which would read the volume, is not ready: $(kubectl get "$reader" -o 'jsonpath={.status.conditions}')"
  exit 1
fi
mkdir -p "$directory"
kubectl exec "$reader" -- tar -C "/checkpoints/$(field checkpoint.path)" -cf - . | tar -C "$directory" -xf -
say "the model is in $directory"
