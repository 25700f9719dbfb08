#!/usr/bin/env python3
"""Somebody else's parameter server by `coxswain run`: a gluon program on MXNet's kvstore finds scheduler, servers and
workers by our variables alone. Skips where there is no Python with MXNet."""
import json
import os
import pathlib
import re
import subprocess
import sys

import harness

CACHE = pathlib.Path(os.environ.get("COXSWAIN_CACHE", pathlib.Path.home() / ".cache/coxswain"))
PYTHON = CACHE / "mxnet/bin/python"
PROGRAM = pathlib.Path(__file__).with_name("mxnet_digits.py")
JOB = """
apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {{name: gluon}}
spec:
  strategy: ParameterServer
  rendezvous: [MXNet]
  replicaSpecs:
    Worker:
      replicas: 2
      template: {{spec: {{containers: [{{name: trainer, image: mxnet, command: {train}}}]}}}}
    Server:
      replicas: 2
      template: {{spec: {{containers: [{{name: trainer, image: mxnet, command: {serve}}}]}}}}
  runPolicy: {{backoffLimit: 0}}
"""


def run(directory, train):
    directory.mkdir()
    serve = [str(PYTHON), "-c", "import mxnet"]
    (directory / "job.yaml").write_text(JOB.format(train=json.dumps(train), serve=json.dumps(serve)))
    return subprocess.run([harness.COXSWAIN, "run", "-f", "job.yaml", "--log-format", "json"], cwd=directory,
                          capture_output=True, text=True, timeout=300, check=False)


def learns_the_digits(directory):
    done = run(directory, [str(PYTHON), str(PROGRAM), str(harness.DIGITS)])
    said = re.findall(r"worker (\d) of 2: accuracy (\S+)%", done.stdout)
    assert done.returncode == 0, (done.returncode, done.stdout[-3000:], done.stderr[-3000:])
    assert sorted(rank for rank, _ in said) == ["0", "1"], said
    assert min(float(share) for _, share in said) > 90, said
    return f"accuracy {said[0][1]} %"


def fails_when_a_worker_fails(directory):
    done = run(directory, [str(PYTHON), "-c", "import mxnet; mxnet.kv.create('dist_sync'); import os; os._exit(3)"])
    assert done.returncode != 0, done.stdout[-3000:]
    assert "exit=3" in done.stdout + done.stderr, (done.stdout[-3000:], done.stderr[-3000:])
    return "said so"


def main():
    if not PYTHON.exists():
        print(f"skipped: there is no {PYTHON}; tests/e2e/programs/install.sh installs it")
        return 77
    with harness.temporary() as scratch:
        for case in (learns_the_digits, fails_when_a_worker_fails):
            print(f"ok: {case.__name__}: {case(pathlib.Path(scratch, case.__name__))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
