#!/usr/bin/env python3
"""Training with servers and shorter pushes, on real digits: every kind learns nearly what exact pushes do, a run is the
same bits again, whatever dies, and goes on from its checkpoint as if it had not stopped."""
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
  strategy: ParameterServer
  launcher: Env
  replicaSpecs: {{Worker: {{replicas: {workers}}}, Server: {{replicas: 2}}}}
  training:
    model: singa-cnn
    data: {{format: mnist, path: {data}}}
    steps: {steps}
    batchSize: 32
    optimizer: {{lr: 0.1}}
    communication: {{{compression}}}
    parameterServer: {{mode: {mode}}}
    evaluate: {{everyEpochs: 0}}
    threads: 1
  checkpoint: {{everySteps: 20}}
  volumes:
    checkpoints: {{persistentVolumeClaim: {{claimName: short}}}}
"""
KINDS = ("none", "fp16", "bf16", "2bit, compressionThreshold: 0.01", "1bit", "topk")
TWO_BIT = KINDS[3]
NEARLY = 0.02  # of the test images
# Of the bytes of an exact push, at most.
SHARE = {"fp16": 0.501, "bf16": 0.501, "2bit": 0.063, "1bit": 0.032, "topk": 0.101}


class Lab:
    def __init__(self, top):
        self.top, self.data = top, harness.first_digits(top / "digits", 4000, 1000)

    def run(self, place, kind, *flags, steps=STEPS, workers=2, mode="sync"):
        text = JOB.format(data=self.data, compression=f"compression: {kind}", steps=steps, workers=workers,
                          mode=mode)
        return run(self.top / place, text, *flags)

    def weights(self, place):
        return weights(self.top / place, STEPS)


def accuracy(said):
    return json.loads(re.search(r'^{"event":"finished".*$', said, re.M)[0])["accuracy"]


def main():
    with tempfile.TemporaryDirectory() as name:
        lab = Lab(pathlib.Path(name))
        exactly = accuracy(lab.run("none", "none"))
        expect(exactly > 0.9, f"exact pushes: {exactly:.1%} are right")
        for kind in KINDS[1:]:
            word = kind.split(",")[0]
            said = lab.run(word, kind)
            right = accuracy(said)
            pushed, exactly_pushed = map(int, re.search(r"pushed as .*: (\d+) bytes a step instead of (\d+)", said).groups())
            expect(pushed < exactly_pushed * SHARE[word], f"{word}: {pushed} bytes a step")
            expect(right > exactly - NEARLY, f"{word}: {right:.1%} are right")
        said = lab.run("apart", TWO_BIT, steps=2 * STEPS, mode="async")  # of half as many images each
        right = accuracy(said)
        expect("pushed as 2bit" in said, "apart: says what is pushed")
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


if __name__ == "__main__":
    main()
