"""Jobs to try: `mpi` trains with our program, `env` runs a program of the user's own."""
import json

LIFE = "coxswain.test/life"
TRAINING = {"model": "mlp", "data": {"format": "mnist"}, "epochs": 1}


def job(name, workers, template, run_policy, spec):
    worker = {"replicas": workers, **({"template": template} if template else {})}
    return {"apiVersion": "coxswain.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": {"replicaSpecs": {"Worker": worker},
                     "runPolicy": {"terminationGracePeriodSeconds": 2, **(run_policy or {})},
                     **spec}}


def template(container, life=None, **pod):
    metadata = {"metadata": {"annotations": {LIFE: json.dumps(life)}}} if life else {}
    return {**metadata, "spec": {"containers": [container], **pod}}


def mpi(name="a", workers=2, life=None, run_policy=None, **spec):
    """`life`: rules of the scripted kubelet."""
    return job(name, workers, template({"name": "trainer"}, life) if life else None, run_policy,
               {"training": TRAINING, **spec})


def env(name="a", workers=2, life=None, run_policy=None, pod=None, container=None, **spec):
    own = {"name": "main", "image": "example.org/train:1", "command": ["train"],
           **(container or {})}
    return job(name, workers, template(own, life, **(pod or {})), run_policy, spec)


def said(code, reason, rank=0, **fields):
    """A termination message of ours."""
    return json.dumps({"exitCode": code, "rank": rank, "reason": reason, "message": "because",
                       **fields})
