#!/usr/bin/env python3
"""What `coxswain run` tells other people's programs, which need no framework to try it: each finds the others by its
variables, on ports of their own, and two jobs at a time don't meet. A killed pod of torchrun, where there is a torch."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import harness

# Every pod listens where TF_CONFIG says that it does, and calls all others there.
MEET = """
import json, os, socket, time
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
def place(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)
own = place(config["cluster"][task["type"]][task["index"]])
listener = socket.create_server(own)
listener.settimeout(60)
peers = [place(text) for some in config["cluster"].values() for text in some]
assert len(set(peers)) == len(peers), peers
for peer in peers:
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(peer, 5).close()
            break
        except OSError:
            if time.monotonic() > deadline: raise
            time.sleep(0.05)
for peer in peers:
    listener.accept()[0].close()  # nobody leaves before all have come
said = f"{task['type']} {task['index']} met {len(peers)} {os.environ['WISH']} port {own[1]}\\n"
os.write(1, said.encode())  # at once: lines of several processes don't mix
if task["type"] in ("ps", "worker") and "chief" in config["cluster"]:
    time.sleep(600)  # as theirs do: they never end
"""


def job(command, **spec):
    container = {"name": "trainer", "image": "python", "command": command,
                 "env": [{"name": "WISH", "value": "granted"}]}
    template = {"spec": {"containers": [container]}}
    roles = {role: {"replicas": count, "template": template} for role, count in spec.pop("roles").items()}
    return {"apiVersion": "coxswain.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "theirs"},
            "spec": {"replicaSpecs": roles, "runPolicy": {"backoffLimit": 0}, **spec}}


def start(directory, made, **environment):
    directory.mkdir(parents=True)
    (directory / "job.json").write_text(json.dumps(made))
    return subprocess.Popen([harness.COXSWAIN, "run", "-f", "job.json", "--log-format", "json"], cwd=directory,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env={**os.environ, **environment})


def finish(running):
    said = running.communicate(timeout=120)[0]
    assert running.returncode == 0, (running.returncode, said[-3000:])
    return said


def two_jobs_of_workers_do_not_meet(directory):
    made = job([sys.executable, "-c", MEET], roles={"Worker": 3}, launcher="Env", rendezvous=["TensorFlow"])
    said = [finish(running) for running in [start(directory / str(i), made) for i in range(2)]]
    for text in said:
        met = re.findall(r"worker (\d) met 3 granted port \d+", text)
        assert sorted(met) == ["0", "1", "2"], text
    ports = re.findall(r"port (\d+)", "".join(said))
    assert len(set(ports)) == 6, ports


def the_chief_ends_the_job(directory):
    made = job([sys.executable, "-c", MEET], roles={"Worker": 3, "Server": 2}, launcher="Env",
               strategy="ParameterServer", rendezvous=["TensorFlow"], successPolicy="RankZero")
    said = finish(start(directory, made))
    met = re.findall(r"(chief|worker|ps) (\d) met 5 granted", said)
    assert ("chief", "0") in met, said
    assert set(met) <= {("chief", "0"), ("worker", "0"), ("worker", "1"), ("ps", "0"), ("ps", "1")}, said


def mpirun_takes_the_program_that_the_user_would(directory):
    """A virtual environment's python3, though mpirun's directory has one too."""
    mine = directory / "bin"
    mine.mkdir(parents=True)
    (mine / "python3").write_text("#!/bin/sh\necho mine as rank $OMPI_COMM_WORLD_RANK\n")
    (mine / "python3").chmod(0o755)
    made = job(["python3"], roles={"Worker": 2}, launcher="MPI")
    said = finish(start(directory / "run", made, PATH=f"{mine}:{os.environ['PATH']}"))
    assert sorted(re.findall(r"mine as rank (\d)", said)) == ["0", "1"], said


def kill_tree(pid):
    """A pod that is killed takes with it all that it started."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(pid, signal.SIGKILL)
    for child in children:
        kill_tree(int(child))


def pod_of(coxswain, index):
    """The process that is this worker of attempt 0."""
    for pid in pathlib.Path(f"/proc/{coxswain}/task/{coxswain}/children").read_text().split():
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if f"COXSWAIN_INDEX={index}".encode() in environment:
            return int(pid)
    raise AssertionError(f"no worker {index}")


def torchrun_goes_on_after_a_kill(directory):
    found = harness.python_with("peers", "torch")
    if found is None:
        return "skipped: no python3 with torch; tests/e2e/programs/install.sh brings one"
    directory.mkdir()
    example = harness.ROOT / "examples/torchrun.yaml"
    running = subprocess.Popen([harness.COXSWAIN, "run", "-f", example, "--log-format", "json"], cwd=directory,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env={**os.environ, "PATH": f"{found}:{os.environ['PATH']}"})
    said = ""
    for line in running.stdout:
        said += line
        if "epoch 1: saved" in line:
            kill_tree(pod_of(running.pid, 1))
            break
    said += finish(running)
    begun = {int(epoch) for epoch in re.findall(r"rank \d of world 4: begins with epoch (\d+)", said)}
    assert len(begun) == 2 and 0 in begun, said[-3000:]
    assert re.search(r'"restarts":1\b', said), said[-3000:]
    assert len(re.findall(r"of world 4: 100.0% of the test images", said)) == 4, said[-3000:]
    return f"from epoch {max(begun)}"


# Each rank's gradient is its own; after the average and one step all have the same weights.
AVERAGE = """
import torch
import horovod.torch as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()
assert hvd.mpi_built() and not hvd.gloo_built()
mean = hvd.allreduce(torch.full((1000,), float(rank)), name="mean")
assert torch.allclose(mean, torch.full((1000,), (size - 1) / 2)), mean[:3]
torch.manual_seed(rank)
model = torch.nn.Linear(20, 4)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
for _ in range(20):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(torch.randn(8, 20)), torch.ones(8, 4)).backward()
    optimizer.step()
all_weights = hvd.allgather(model.weight.detach().reshape(1, -1))
assert (all_weights == all_weights[0]).all()
print(f"horovod: rank {rank} of {size} ends as the others", flush=True)
"""


def horovod_over_mpi(directory):
    found = harness.python_with("horovod", "horovod", "torch")
    if found is None:
        return "skipped: no python3 with horovod; tests/e2e/programs/horovod.sh builds one"
    made = job(["python3", "-c", AVERAGE], roles={"Worker": 2}, launcher="MPI", slotsPerWorker=2)
    said = finish(start(directory, made, PATH=f"{found}:{os.environ['PATH']}"))
    assert sorted(re.findall(r"horovod: rank (\d) of 4 ends as the others", said)) == ["0", "1", "2", "3"], said[-3000:]
    return "4 ranks"


QUICK = [two_jobs_of_workers_do_not_meet, the_chief_ends_the_job, mpirun_takes_the_program_that_the_user_would]
FULL = [torchrun_goes_on_after_a_kill, horovod_over_mpi]


def main():
    with harness.temporary() as scratch:
        for case in FULL if "--full" in sys.argv else QUICK:
            print(f"ok: {case.__name__}: {case(pathlib.Path(scratch, case.__name__)) or 'yes'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
