#!/bin/bash
# up.sh [DIR] [PORT]    start a Kubernetes control plane with our CRDs, without root or containers
#
# DIR (build/cluster) holds all its state; DIR/admin.kubeconfig is for cluster-admin by certificate,
# DIR/admin.token the same by bearer token. Starts what does not run, so it also restarts what
# `down.sh DIR COMPONENT` stopped. PORT is the API server's; the next four are etcd's two, the
# controller manager's and the scheduler's. Without it a port is made of DIR's name.
#
# Environment:
#   COMPONENTS   beside etcd and the API server: "kcm" (the controller manager) by default, or
#                "kcm scheduler", or ""
#   ADDRESS      to serve on (127.0.0.1); nodes need one that they can reach
#   CRDS=        (empty) without our CRDs: whoever comes brings them
#   FSYNC=1      let etcd wait for the disk; off, since a test has nothing to lose
#   APISERVER_FLAGS, KCM_FLAGS, SCHEDULER_FLAGS    more flags
# Exit code 77: its programs are not built, and this machine can't build them (see build.sh).
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case ${1:-} in -*) usage; exit;; esac
[ $# -le 2 ] || usage_error
mkdir -p "${1:-$ROOT/build/cluster}"; DIR=$(cd "${1:-$ROOT/build/cluster}" && pwd)
read_settings
# Below the ports that outgoing connections take.
PORT=${2:-${PORT:-$(( 20000 + 10 * ($(cksum <<<"$DIR" | cut -d' ' -f1) % 1200) ))}}
case $PORT in *[!0-9]*|'') die "not a port: $PORT";; esac
ADDRESS=${ADDRESS:-127.0.0.1} COMPONENTS=${COMPONENTS-kcm}
SERVICE_CIDR=${SERVICE_CIDR:-10.96.0.0/16} SERVICE_IP=${SERVICE_IP:-10.96.0.1}
URL=https://$ADDRESS:$PORT ETCD=http://127.0.0.1:$((PORT+1)) PEER=http://127.0.0.1:$((PORT+2))

check_ports() {
  local port taken
  if alive apiserver || alive etcd; then return; fi
  for port in $(seq "$PORT" $((PORT+4))); do
    taken=$(printf ':%04X$' "$port")
    if awk '$4=="0A"{print $2}' /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q "$taken"; then
      die "port $port is in use: pass another, $0 $DIR PORT (it takes five in a row)"
    fi
  done
}

write_settings() {
  cat >"$DIR/settings" <<END
PORT=$PORT
ADDRESS=$ADDRESS
SERVICE_CIDR=$SERVICE_CIDR
SERVICE_IP=$SERVICE_IP
: "\${COMPONENTS=$COMPONENTS}"
END
}

write_credentials() {
  local names=DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc
  names=$names,DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:$ADDRESS,IP:$SERVICE_IP
  ca ca
  cert apiserver /CN=kube-apiserver serverAuth "$names"
  cert admin /O=system:masters/CN=admin clientAuth
  cert kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client clientAuth
  cert kcm /CN=system:kube-controller-manager clientAuth
  cert scheduler /CN=system:kube-scheduler clientAuth
  if [ ! -f "$DIR/pki/sa.key" ]; then
    openssl genrsa -out "$DIR/pki/sa.key" 2048 2>/dev/null
    openssl rsa -in "$DIR/pki/sa.key" -pubout -out "$DIR/pki/sa.pub" 2>/dev/null
  fi
  [ -f "$DIR/admin.token" ] || openssl rand -hex 24 >"$DIR/admin.token"
  echo "$(cat "$DIR/admin.token"),token-admin,token-admin,system:masters" >"$DIR/pki/tokens.csv"
  for name in admin kcm scheduler; do kubeconfig "$DIR/$name.kubeconfig" $name "$URL"; done
}

start_etcd() {
  local fsync=--unsafe-no-fsync
  [ -z "${FSYNC:-}" ] || fsync=
  start etcd "$BIN/etcd" --name test --data-dir "$DIR/etcd" $fsync --log-level warn \
    --listen-client-urls "$ETCD" --advertise-client-urls "$ETCD" \
    --listen-peer-urls "$PEER" --initial-advertise-peer-urls "$PEER" \
    --initial-cluster "test=$PEER" --quota-backend-bytes $((4<<30)) \
    --auto-compaction-mode periodic --auto-compaction-retention 5m
}

# shellcheck disable=SC2086  # *_FLAGS are lists
start_apiserver() {
  # The Endpoints of service "kubernetes" may not be a loopback address.
  local reconciler=
  case $ADDRESS in 127.*) reconciler=--endpoint-reconciler-type=none;; esac
  start apiserver "$BIN/kube-apiserver" --bind-address "$ADDRESS" --secure-port "$PORT" \
    --advertise-address "$ADDRESS" $reconciler --etcd-servers "$ETCD" --cert-dir "$DIR/pki" \
    --tls-cert-file "$DIR/pki/apiserver.crt" --tls-private-key-file "$DIR/pki/apiserver.key" \
    --client-ca-file "$DIR/pki/ca.crt" --token-auth-file "$DIR/pki/tokens.csv" \
    --anonymous-auth=false --authorization-mode Node,RBAC \
    --enable-admission-plugins NodeRestriction,PodSecurity \
    --service-account-issuer https://kubernetes.default.svc.cluster.local \
    --service-account-key-file "$DIR/pki/sa.pub" \
    --service-account-signing-key-file "$DIR/pki/sa.key" \
    --service-cluster-ip-range "$SERVICE_CIDR" --allow-privileged=true \
    --kubelet-certificate-authority "$DIR/pki/ca.crt" \
    --kubelet-client-certificate "$DIR/pki/kubelet-client.crt" \
    --kubelet-client-key "$DIR/pki/kubelet-client.key" \
    --kubelet-preferred-address-types InternalIP \
    --enable-aggregator-routing=true ${APISERVER_FLAGS:-}  # webhooks: dial pods, not cluster IPs
  wait_for 90 "the API server" kc get --raw /readyz ||
    { tail -20 "$DIR/log/apiserver.log" >&2; exit 1; }
}

# controller NAME PROGRAM PORT FLAG...
controller() {
  local name=$1 program=$2 port=$3; shift 3
  start "$name" "$BIN/$program" --kubeconfig "$DIR/$name.kubeconfig" \
    --authentication-kubeconfig "$DIR/$name.kubeconfig" \
    --authorization-kubeconfig "$DIR/$name.kubeconfig" --leader-elect=false \
    --bind-address 127.0.0.1 --secure-port "$port" --cert-dir "$DIR/run/$name" "$@"
}

# shellcheck disable=SC2086
start_controllers() {
  case " $COMPONENTS " in *" kcm "*)
    controller kcm kube-controller-manager $((PORT+3)) --use-service-account-credentials \
      --service-account-private-key-file "$DIR/pki/sa.key" --root-ca-file "$DIR/pki/ca.crt" \
      --cluster-signing-cert-file "$DIR/pki/ca.crt" \
      --cluster-signing-key-file "$DIR/pki/ca.key" ${KCM_FLAGS:-};; esac
  case " $COMPONENTS " in *" scheduler "*)
    controller scheduler kube-scheduler $((PORT+4)) ${SCHEDULER_FLAGS:-};; esac
}

apply_crds() {
  [ -n "${CRDS-ours}" ] || return 0
  kc apply --request-timeout 30s -f "$ROOT/crds" >/dev/null || die "the API server refused the CRDs"
  # Not --timeout alone: kubectl fails at once while a new CRD has no conditions.
  wait_for 30 "established CRDs" kc wait --for condition=Established --timeout 1s \
    --recursive=false -f "$ROOT/crds" || die "the CRDs are not established after 30 s"
}

need openssl openssl
"$HERE/build.sh" kube || exit $?
umask 077
begin=$(now)
check_ports
write_settings
write_credentials
start_etcd
start_apiserver
ready=$(since "$begin")
start_controllers
apply_crds
# A pod is refused until its namespace has a default ServiceAccount.
case " $COMPONENTS " in *" kcm "*)
  wait_for 60 "the default ServiceAccount" kc -n default get serviceaccount default ||
    { tail -20 "$DIR/log/kcm.log" >&2; exit 1; };; esac
log "control plane up at $URL after $(since "$begin") s (API server: $ready s)"
