#!/usr/bin/env python3
"""Training with servers ends in the weights of an all-reduce: the lab of examples/d2l-*.yaml, in short; a smaller model
with any number of servers; with a server that dies, with a worker that dies, with the only server that dies; and each
goes on from the other's checkpoint."""
import hashlib
import pathlib
import re
import shutil
import subprocess
import tempfile

import harness

LAB_STEPS, STEPS = 3, 40
SMALL = """
apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {{name: small}}
spec:
  strategy: {strategy}
  launcher: Env
  replicaSpecs: {{Worker: {{replicas: 2}}{servers}}}
  training:
    model: singa-cnn
    data: {{format: mnist, path: {data}}}
    steps: {steps}
    batchSize: 32
    optimizer: {{name: adam, lr: 0.001}}
    evaluate: {{everyEpochs: 0}}
    threads: 1
  checkpoint: {{everySteps: 10}}
  volumes:
    checkpoints: {{persistentVolumeClaim: {{claimName: small}}}}
"""


def run(directory, text, *flags):
    """`coxswain run` of a job; what it printed."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "job.yaml").write_text(text)
    done = subprocess.run([harness.COXSWAIN, "run", "-f", "job.yaml", "--log-format", "json", *flags], cwd=directory,
                          capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        raise SystemExit(f"{directory.name}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def weights(directory, step):
    """Digests of the checkpoint of a step: weights and what the optimizer keeps."""
    newest = sorted(directory.glob(f"coxswain-volumes/*/step-{step:08d}.*"))[-1]
    return [hashlib.sha256((newest / name).read_bytes()).hexdigest()
            for name in ("model.safetensors", "optimizer.safetensors")]


def expect(truth, what):
    if not truth:
        raise SystemExit(what)
    print(f"ok: {what}", flush=True)


def lab(top):
    """The two files of the lab, as they stand but for their length."""
    digests = []
    for name in ("d2l-all-reduce", "d2l-parameter-server"):
        text, changes = re.subn("steps: [0-9]+", f"steps: {LAB_STEPS}", (harness.ROOT / f"examples/{name}.yaml").read_text())
        expect(changes == 1, f"{name} says how long it is")
        text = text.replace("data: {format: mnist,", f"data: {{format: mnist, path: {top / 'few'},")
        run(top / name, text)
        digests.append(weights(top / name, LAB_STEPS))
    expect(digests[0] == digests[1], f"the lab's weights are the same with and without servers: {digests[0][0][:16]}")


def small(top, strategy, servers=None, steps=STEPS):
    return SMALL.format(strategy=strategy, data=top / "digits", steps=steps,
                        servers="" if servers is None else f", Server: {{replicas: {servers}}}")


def main():
    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name)
        harness.first_digits(top / "digits", 2000, 200)
        harness.first_digits(top / "few", 500, 20)
        lab(top)
        run(top / "all-reduce", small(top, "AllReduce"))
        expected = weights(top / "all-reduce", STEPS)
        cases = {
            "as many servers as workers": (None, (), None),
            "three servers": (3, (), None),
            "a server that dies": (2, ("--kill", "server-1@15"), ("Replacing", "server-1 exit=137")),
            "the first server that dies": (2, ("--kill", "server-0@15"), ("Replacing", "server-0 exit=137")),
            "a worker that dies": (2, ("--kill", "worker-1@15"), ("Restarting", "worker-1 exit=137")),
            "the only server that dies": (1, ("--kill", "server-0@15"), ("Restarting", "server-0 exit=137")),
        }
        for what, (servers, flags, told) in cases.items():
            place = top / what.replace(" ", "-")
            said = run(place, small(top, "ParameterServer", servers), *flags)
            expect(weights(place, STEPS) == expected, f"{what}: the weights of an all-reduce")
            if told:
                event = '"reason":"{}","message":"{}'.format(*told)
                expect(event in said, f"{what}: {' '.join(told)}")
        half = STEPS // 2
        for first, then in (("AllReduce", "ParameterServer"), ("ParameterServer", "AllReduce")):
            place = top / f"{first}-then"
            run(place, small(top, first, steps=half))
            shutil.rmtree(place / "runs", ignore_errors=True)
            run(place, small(top, then))
            expect(weights(place, STEPS) == expected, f"{then} goes on from the checkpoint of {first}")


if __name__ == "__main__":
    main()
