#!/usr/bin/env python3
"""Training whose gradients travel in fewer bytes, over servers and over ranks alone, on real digits: every kind learns
nearly what exact ones do, a run is the same bits again, whatever dies, and goes on from its checkpoint as if it had not
stopped."""
import json
import pathlib
import re
import tempfile

import harness
from parameter_server_test import expect, run, weights

STEPS = 100
JOB = """
apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {{name: short}}
spec:
  strategy: {strategy}
  launcher: {launcher}
  replicaSpecs: {{Worker: {{replicas: {workers}}}{servers}}}
  training:
    model: singa-cnn
    data: {{format: mnist, path: {data}}}
    steps: {steps}
    batchSize: 32
    optimizer: {{lr: 0.1}}
    communication: {{{compression}}}
    evaluate: {{everyEpochs: 0}}
    threads: 1{mode}
  checkpoint: {{everySteps: 20}}
  volumes:
    checkpoints: {{persistentVolumeClaim: {{claimName: short}}}}
"""
KINDS = ("none", "fp16", "bf16", "2bit, compressionThreshold: 0.01", "1bit", "topk")
TWO_BIT = KINDS[3]
NEARLY = 0.02  # of the test images
# Of the bytes of an exact push, at most.
SHARE = {"fp16": 0.501, "bf16": 0.501, "2bit": 0.063, "1bit": 0.032, "topk": 0.101, "partial": 0.251}


class Lab:
    def __init__(self, top):
        self.top, self.data = top, harness.first_digits(top / "digits", 4000, 1000)

    def run(self, place, kind, *flags, steps=STEPS, workers=2, mode="sync"):
        """With two servers."""
        return self.start(place, kind, *flags, steps=steps, workers=workers, launcher="Env", strategy="ParameterServer",
                          servers=", Server: {replicas: 2}", mode=f"\n    parameterServer: {{mode: {mode}}}")

    def run_ranks(self, place, kind, *flags, steps=STEPS, workers=2, launcher="Env"):
        """With none."""
        return self.start(place, kind, *flags, steps=steps, workers=workers, launcher=launcher, strategy="AllReduce",
                          servers="", mode="")

    def start(self, place, kind, *flags, **job):
        text = JOB.format(data=self.data, compression=f"compression: {kind}", **job)
        return run(self.top / place, text, *flags)

    def weights(self, place):
        return weights(self.top / place, STEPS)


def accuracy(said):
    return json.loads(re.search(r'^{"event":"finished".*$', said, re.M)[0])["accuracy"]


def expect_near(said, word, exactly):
    """Gradients were as short as they should be, and taught nearly as much."""
    sent, exactly_sent = map(int, re.search(r"sent as .*: (\d+) bytes a step instead of (\d+)", said).groups())
    expect(sent < exactly_sent * SHARE[word], f"{word}: {sent} bytes a step, not {exactly_sent}")
    right = accuracy(said)
    expect(right > exactly - NEARLY, f"{word}: {right:.1%} are right")


def over_ranks(lab):
    exactly = accuracy(lab.run_ranks("exactly", "none"))
    for word, kind in (("fp16", "fp16"), ("bf16", "bf16"), ("topk", "topk"), ("partial", "none, partial: 4")):
        expect_near(lab.run_ranks(f"{word}-tcp", kind), word, exactly)
        lab.run_ranks(f"{word}-mpi", kind, launcher="MPI")
        expect(lab.weights(f"{word}-mpi") == lab.weights(f"{word}-tcp"), f"{word}: the same bits over MPI and TCP")
        said = lab.run_ranks(f"{word}-kill-rank", kind, "--kill", "worker-1@35")
        expect("worker-1 exit=137" in said, f"{word}: worker-1 has died")
        expect(lab.weights(f"{word}-kill-rank") == lab.weights(f"{word}-tcp"), f"{word}: the same bits though it died")
        lab.run_ranks(f"{word}-half", kind, steps=STEPS // 2, launcher="MPI")
        expect("continues bit for bit" in lab.run_ranks(f"{word}-half", kind), f"{word}: a resume says so")
        expect(lab.weights(f"{word}-half") == lab.weights(f"{word}-tcp"), f"{word}: and goes on with what was left out")
    said = lab.run_ranks("topk-half", "topk", steps=STEPS + 4, workers=3)
    expect("continues not bit for bit" in said, "on another number of ranks the bits differ")
    said = lab.run("topk-tcp", "topk", steps=STEPS + 4)
    expect("continues not bit for bit" in said, "servers' sums are others")


def by_servers(lab):
    exactly = accuracy(lab.run("none", "none"))
    expect(exactly > 0.9, f"exact pushes: {exactly:.1%} are right")
    for kind in KINDS[1:]:
        word = kind.split(",")[0]
        expect_near(lab.run(word, kind), word, exactly)
    said = lab.run("apart", TWO_BIT, steps=2 * STEPS, mode="async")  # of half as many images each
    right = accuracy(said)
    expect("sent as 2bit" in said, "apart: says what is sent")
    expect(right > exactly - 2 * NEARLY, f"2bit, apart: {right:.1%} are right")
    for word, dies in (("2bit", "server-1"), ("1bit", "server-0"), ("topk", "worker-1")):
        said = lab.run(f"{word}-kill", next(kind for kind in KINDS if kind.startswith(word)), "--kill", f"{dies}@35")
        expect(f"{dies} exit=137" in said, f"{word}: {dies} has died")
        expect(lab.weights(f"{word}-kill") == lab.weights(word), f"{word}: the same bits though {dies} died")
    lab.run("half", TWO_BIT, steps=STEPS // 2)
    said = lab.run("half", TWO_BIT)
    expect("continues bit for bit" in said, "a resume says so")
    expect(lab.weights("half") == lab.weights("2bit"), "a resume goes on with what was not pushed")
    said = lab.run("half", TWO_BIT, steps=STEPS + 4, workers=1)
    expect("continues not bit for bit" in said, "on another number of ranks the bits differ")


def main():
    with tempfile.TemporaryDirectory() as name:
        lab = Lab(pathlib.Path(name))
        over_ranks(lab)
        by_servers(lab)


if __name__ == "__main__":
    main()
