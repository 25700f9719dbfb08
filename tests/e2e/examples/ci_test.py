#!/usr/bin/env python3
"""The pipeline of examples/ci as it stands, for a job that succeeds and for one that fails: its exit
code, what it says, what it fetches, and that nothing of it stays in the cluster.

    ci_test.py                          on the cluster of KUBECONFIG, whose operator and nodes work
    ci_test.py COXSWAIN KUBELET         on one without: starts both; pods are played, and what a
                                        node's container would answer is made up
"""
import io
import json
import os
import pathlib
import secrets
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "examples/ci/train.sh"
JOB = ROOT / "examples/ci/job.yaml"
PARTS = {"MANIFEST.json", "model.safetensors", "optimizer.safetensors", "state.json"}
MADE = "trainingjobs,persistentvolumeclaims,pods"

# What the parts of a container's end look like to the operator: a trained model, and data that is
# not there.
TRAINED = {"exitCode": 0, "progress": {"epoch": 2, "epochs": 2, "step": 938, "steps": 938,
                                       "accuracy": 0.9912, "samplesPerSecond": 9000},
           "checkpoint": {"step": 938, "path": "step-00000938.g1", "bytes": 3}}
NO_DATA = {"exitCode": 65, "rank": 0, "reason": "BadInput",
           "message": "[data] /nowhere: no such directory"}
ENDS = {"succeeds": TRAINED, "fails": NO_DATA}

# A kubectl that answers for the container of a pod that is only played.
STUB = """#!/bin/sh
for word; do
  case $word in
    exec) exec cat {directory}/checkpoint.tar ;;
    logs) echo made-up log; exit ;;
  esac
done
exec {kubectl} "$@"
"""


class Cluster:
    """A namespace of its own; where there are no nodes, an operator and played pods beside it."""

    def __init__(self, programs, directory):
        self.directory = pathlib.Path(directory)
        self.programs = programs
        self.namespace = f"ci-{secrets.token_hex(3)}"
        self.environment = dict(os.environ)
        self.processes = []
        self.kubectl("create", "namespace", self.namespace)
        self.kubectl("label", "namespace", self.namespace,
                     "pod-security.kubernetes.io/enforce=restricted")
        self.make_kubeconfig()
        if programs:
            self.stub()
            self.start(programs[0], "operator", "--metrics-address", "", "--namespaces",
                       self.namespace, "--progress", "false")

    def kubectl(self, *arguments):
        return subprocess.run(["kubectl", *arguments], check=True, capture_output=True, text=True,
                              timeout=90, env=self.environment).stdout

    def make_kubeconfig(self):
        """The script works in the namespace of the current context."""
        config = self.directory / "kubeconfig"
        config.touch(mode=0o600)
        config.write_text(self.kubectl("config", "view", "--raw", "--flatten"))
        self.environment["KUBECONFIG"] = str(config)
        self.kubectl("config", "set-context", "--current", f"--namespace={self.namespace}")

    def stub(self):
        with tarfile.open(self.directory / "checkpoint.tar", "w") as archive:
            for name in sorted(PARTS):
                member = tarfile.TarInfo(name)
                member.size = 3
                archive.addfile(member, io.BytesIO(b"123"))
        kubectl = self.directory / "bin/kubectl"
        kubectl.parent.mkdir()
        found = subprocess.run(["sh", "-c", "command -v kubectl"], check=True,
                               capture_output=True, text=True).stdout.strip()
        kubectl.write_text(STUB.format(directory=self.directory, kubectl=found))
        kubectl.chmod(kubectl.stat().st_mode | stat.S_IXUSR)

    def start(self, *command):
        with open(self.directory / "processes.log", "ab") as log:
            # It must not outlive a test that is killed.
            self.processes.append(subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command, "--kubeconfig",
                 self.environment["KUBECONFIG"]], stdout=log, stderr=log))
        return self.processes[-1]

    def play(self, case):
        """The node of the pods of this case; nothing where there are real ones."""
        if not self.programs:
            return None
        message = ENDS[case]
        rule = {"role": "worker", "index": 0, "exit_after_ms": 300, "exit": message["exitCode"],
                "message": json.dumps(message)}
        return self.start(self.programs[1], "--namespaces", self.namespace, "--life",
                          json.dumps([rule]))

    def run_script(self, job, directory, **environment):
        path = {"PATH": f"{self.directory}/bin:{os.environ['PATH']}"}
        return subprocess.run([SCRIPT, job, directory], capture_output=True, text=True,
                              timeout=600, check=False,
                              env={**self.environment, **path, **environment})

    def left(self):
        """What is still there, once what was told to go had its time."""
        end = time.monotonic() + 60
        while (names := self.kubectl("get", MADE, "-o", "name").split()) and \
                time.monotonic() < end:
            time.sleep(0.5)
        return names

    def close(self):
        self.kubectl("delete", "namespace", self.namespace, "--wait=false")
        stop(self.processes)


def stop(processes):
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait(20)


def expect(truth, what, done):
    if not truth:
        raise AssertionError(f"{what}\n{done.returncode}\n{done.stdout}{done.stderr}")


def succeeds(cluster):
    model = cluster.directory / "model"
    done = cluster.run_script(JOB, model)
    expect(done.returncode == 0, "the job should succeed", done)
    expect("phase: Succeeded" in done.stderr, "the phase is told", done)
    names = {path.name for path in model.iterdir()}
    expect(PARTS <= names, f"the model's files are fetched, not {names}", done)
    expect(done.stdout == "", "standard output is left to the pipeline", done)


def fails(cluster):
    job = cluster.directory / "job.yaml"
    text = JOB.read_text()
    job.write_text(text.replace("format: mnist", "format: mnist\n      path: /nowhere"))
    done = cluster.run_script(job, cluster.directory / "none")
    expect(done.returncode == 1, "the pipeline should fail with the job", done)
    for words in ("phase: Failed", "BadInput", "/nowhere", '"exitCode":65'):
        expect(words in done.stderr, f"it should tell {words}", done)
    expect(not (cluster.directory / "none").exists(), "there is no model to fetch", done)


def gives_up_when_time_is_up(cluster):
    done = cluster.run_script(JOB, cluster.directory / "none", WAIT_SECONDS="1")
    expect(done.returncode == 1, "the pipeline gives up", done)
    expect("no end after 1 s" in done.stderr, "it should say so", done)


def started(cluster, sign):
    """The script, once it has said this."""
    script = subprocess.Popen([SCRIPT, JOB, cluster.directory / "none"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=cluster.environment, start_new_session=True)
    said = ""
    while sign not in said and (line := script.stderr.readline()):
        said += line
    return script, said


def cleans_up_when_it_is_stopped(cluster):
    script, said = started(cluster, "created")
    script.terminate()
    out, err = script.communicate(timeout=30)
    done = subprocess.CompletedProcess([], script.returncode, out, said + err)
    expect(done.returncode == 143, "it should end at once, and say by what", done)


def leaves_a_claim_that_goes_with_the_job(cluster):
    """When it is killed, nothing but the job is left to delete."""
    script, _ = started(cluster, "created")
    end = time.monotonic() + 20
    while "TrainingJob" not in cluster.kubectl("get", "pvc", "-o", "yaml") and \
            time.monotonic() < end:
        time.sleep(0.2)
    os.killpg(script.pid, signal.SIGKILL)
    script.communicate(timeout=30)
    cluster.kubectl("delete", "trainingjobs", "--all")


def refuses_wrong_use(cluster):
    done = cluster.run_script("/nowhere/job.yaml", cluster.directory / "none")
    expect(done.returncode == 2 and "usage:" in done.stderr, "usage is told", done)


def main():
    programs = sys.argv[1:]
    failures = 0
    with tempfile.TemporaryDirectory(prefix="coxswain-ci-") as directory:
        cluster = Cluster(programs, directory)
        try:
            for case in (succeeds, fails, gives_up_when_time_is_up, cleans_up_when_it_is_stopped,
                         leaves_a_claim_that_goes_with_the_job, refuses_wrong_use):
                begin = time.monotonic()
                node = cluster.play(case.__name__) if case.__name__ in ENDS else None
                try:
                    case(cluster)
                    left = cluster.left()
                    expect(not left, f"left in the cluster: {left}",
                           subprocess.CompletedProcess([], 0, "", ""))
                    print(f"ok: {case.__name__}, {time.monotonic() - begin:.1f} s")
                except AssertionError as error:
                    failures += 1
                    print(f"FAILED: {case.__name__}: {error}")
                finally:
                    stop([node] if node else [])
        finally:
            cluster.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
