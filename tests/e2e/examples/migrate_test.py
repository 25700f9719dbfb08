#!/usr/bin/env python3
"""docs/migrate.md says nothing that isn't so: each job in it can start and makes the gang that the
foreign job had, and each key in its tables exists, or is known to be of a later version."""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

DOCUMENT = (harness.ROOT / "docs/migrate.md").read_text()
CONFIGURATION = (harness.ROOT / "docs/training-configuration.md").read_text()
CRD = harness.ROOT / "crds/trainingjobs.yaml"

# Each job of the document, in order: what its plan must hold, and how many pods it makes.
PLANS = {
    "pi": (2, ["pi-worker-1.pi.default.svc slots=2", "python3", "/opt/train.py", "image: pi"]),
    "ddp": (3, ['"3"', "name: MASTER_ADDR", "ddp-worker-0.ddp.default.svc", '"23456"',
                "name: RANK"]),
    "torchrun": (2, ['"8"', "name: PET_NPROC_PER_NODE", "name: PET_NODE_RANK"]),
    "nodes": (3, ["name: LOGLEVEL", "cpu: \"2\"", "name: RANK"]),
    "cifar": (2, ["model: cifar-resnet20", "claimName: cifar10", "milestones: [80, 120]",
                  "form: mxnet", "decay: weightsAndGamma"]),
    "gluon": (5, ["name: DMLC_PS_ROOT_URI", "gluon-scheduler-0.gluon.default.svc", "name: DMLC_ROLE"]),
    "horovod": (2, ["slots=4", "model: keras-cnn", "lastBatch: rollover", "scaling: linear"]),
}

KEY = re.compile(r"^[a-z][A-Za-z]*(\.[A-Za-z][A-Za-z]*)*$")
LATER = "not in this version: "


def coxswain(command, job):
    done = subprocess.run([harness.COXSWAIN, command, "-f", "-"], input=job, text=True, timeout=60,
                          capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


def check_jobs(failures):
    blocks = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.S)
    jobs = [block for block in blocks if "kind: TrainingJob\n" in block]
    names = [re.search(r"metadata: {name: (\S+)}", job)[1] for job in jobs]
    if names != list(PLANS):
        failures.append(f"the jobs of the document are {names}, not {list(PLANS)}")
        return
    for name, job in zip(names, jobs):
        code, _, said = coxswain("validate", job)
        if code != 0:
            failures.append(f"{name}: {said}")
            continue
        _, plan, _ = coxswain("plan", job)
        pods, wanted = PLANS[name]
        if plan.count("\nkind: Pod\n") != pods:
            failures.append(f"{name}: makes {plan.count(chr(10) + 'kind: Pod' + chr(10))} pods")
        failures += [f"{name}: its plan lacks {text}" for text in wanted if text not in plan]


def check_commands(failures):
    """Each command of the page prints what the page says."""
    blocks = re.findall(r"^```\n\$ coxswain (convert .*)\n((?:.*\n)*?)```$", DOCUMENT, re.M)
    if len(blocks) < 5:
        failures.append(f"{len(blocks)} commands were read, not one for each of the five labs")
    with tempfile.TemporaryDirectory() as directory:
        pathlib.Path(directory, "hosts").write_text("w1\nw2\n")
        pathlib.Path(directory, "host_file").write_text("localhost:4\n")
        for command, printed in blocks:
            done = subprocess.run([harness.COXSWAIN, *shlex.split(command)], cwd=directory, text=True,
                                  timeout=60, capture_output=True, check=False)
            if done.stderr + done.stdout != printed:
                failures.append(f"coxswain {command} prints {done.stderr}{done.stdout}")
            code, _, said = coxswain("validate", done.stdout)
            if code != 0:
                failures.append(f"coxswain {command}: {said}")


def training_keys():
    """{key: its values' cell}, of the table of all keys."""
    rows = re.findall(r"^\| `([\w.]+)` \| (.*?) \|", CONFIGURATION, re.M)
    return dict(rows)


def later_keys():
    section = CONFIGURATION.split("## Not in this version")[1]
    return set(re.findall(r"^- `(.*)`$", section, re.M))


def spec_paths():
    """Every field below spec in the CRD, as "runPolicy.suspend": a key counts if it stands right
    below a `properties`."""
    paths, stack = set(), []  # (indentation, name) from the root to the line
    for line in CRD.read_text().splitlines():
        found = re.match(r"^( *)([\w.-]+):", line.replace("- ", "  ", 1))
        if not found:
            continue
        while stack and stack[-1][0] >= len(found[1]):
            stack.pop()
        stack.append((len(found[1]), found[2]))
        names = [name for _, name in stack]
        if "openAPIV3Schema" not in names or names[-2] != "properties":
            continue
        schema = names[names.index("openAPIV3Schema"):]
        fields = [name for above, name in zip(schema, schema[1:]) if above == "properties"]
        if fields[0] == "spec":
            paths.add(".".join(fields[1:]))
    return paths


def our_cells():
    """(heading, the middle cell) of every row of the tables."""
    heading = ""
    for line in DOCUMENT.splitlines():
        if line.startswith("## "):
            heading = line[3:]
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 3 and not set(cells[0]) <= set("-") and cells[1] != "here":
            yield heading, cells[1]


def problem_of(token, keys, fields):
    """Why a backticked `key` or `key: value` of ours can't be written; None if it can."""
    key, _, value = token.partition(": ")
    if not KEY.match(key):
        return "is no key"
    if key not in keys and key not in fields:
        return "is neither in training-configuration.md nor in the CRD"
    values = re.findall(r"`([^`]+)`", keys.get(key, "").split("; only with")[0])
    if value and values and value not in values:
        return f"takes {', '.join(values)}"
    return None


def check_tables(failures):
    keys, later, fields = training_keys(), later_keys(), spec_paths()
    rows = list(our_cells())
    if len(rows) < 100 or "runPolicy.suspend" not in fields or "epochs" not in keys:
        failures.append(f"the tables were not read: {len(rows)} rows, {len(fields)} fields")
    for heading, cell in rows:
        if cell.startswith(LATER):
            token = cell.removeprefix(LATER).strip("`")
            if token not in later:
                failures.append(f"{heading}: `{token}` is not known as of a later version")
            continue
        tokens = re.findall(r"`([^`]+)`", cell)
        if not tokens and cell != "none":
            failures.append(f"{heading}: {cell!r}: write keys, none, or {LATER.strip()}")
        for token in tokens:
            if (why := problem_of(token, keys, fields)) is not None:
                failures.append(f"{heading}: `{token}` {why}")


def main():
    failures = []
    check_jobs(failures)
    check_commands(failures)
    check_tables(failures)
    for failure in failures:
        print("FAILED:", failure)
    print(f"{len(PLANS)} jobs, {len(list(our_cells()))} rows, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
