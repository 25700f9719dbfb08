"""Commands whose last line of JSON is their figure."""
import json
import os
import subprocess

COXSWAIN = "build/release/bin/coxswain"
TRAINER = "build/release/bin/coxswain-trainer"
# Two ranks on this machine that share its cores with whatever else is measured.
MPIRUN = ["mpirun", "--bind-to", "none", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-np", "2"]


def environment(**more):
    return {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **more}


def last_json(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, env=environment(**more), timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-400:]}")
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])
