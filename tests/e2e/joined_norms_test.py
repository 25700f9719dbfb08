#!/usr/bin/env python3
"""batchNorm: sync: workers whose norms are of all their images train as one does that has them all, over MPI and TCP
with the same bits, and go on from a checkpoint as if they had not stopped."""
import json
import pathlib
import re
import tempfile

import harness
from parameter_server_test import expect, run, weights

STEPS = 20
JOB = """
apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {{name: norms}}
spec:
  launcher: {launcher}
  replicaSpecs: {{Worker: {{replicas: {workers}}}}}
  training:
    model: cifar-resnet8
    data: {{format: mnist, path: {data}, lastBatch: discard}}
    steps: {steps}
    batchSize: 8
    batchSemantics: global
    batchNorm: {norms}
    optimizer: {{lr: 0.01}}
    evaluate: {{everyEpochs: 0}}
    threads: 1
  checkpoint: {{everySteps: 10}}
  volumes:
    checkpoints: {{persistentVolumeClaim: {{claimName: norms}}}}
"""


def test_loss(said):
    return json.loads(re.search(r'^{"event":"finished".*$', said, re.M)[0])["loss"]


def main():
    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name)
        data = harness.first_digits(top / "digits", 2000, 500)

        def train(place, *, workers=2, norms="sync", launcher="MPI", steps=STEPS):
            return run(top / place, JOB.format(data=data, workers=workers, norms=norms, launcher=launcher, steps=steps))

        alone = test_loss(train("alone", workers=1, norms="local"))
        near = abs(test_loss(train("mpi")) - alone)
        far = abs(test_loss(train("apart", norms="local")) - alone)
        expect(near < 2e-3 and near < far / 10, f"a loss of {alone:.4f} but for {near:.5f}, and apart for {far:.5f}")
        train("tcp", launcher="Env")
        expect(weights(top / "tcp", STEPS) == weights(top / "mpi", STEPS), "the same bits over MPI and TCP")
        train("half", steps=STEPS // 2)
        expect("continues bit for bit" in train("half"), "a resume says so")
        expect(weights(top / "half", STEPS) == weights(top / "mpi", STEPS), "and ends with the same bits")
        expect("continues not bit for bit" in train("half", norms="local", steps=STEPS + 4), "another kind of norm is told")


if __name__ == "__main__":
    main()
