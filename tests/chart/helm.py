"""Helm and kubectl as tests of the chart call them. Importing programs end with code 77, which
ctest takes for "skipped", where Helm is not there and can't be built."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/coxswain"
GOLDEN = ROOT / "tests/golden/chart"
CRD = "trainingjobs.coxswain.dev"
KUBERNETES = "1.34.0"  # whom `helm template` renders for
CACHE = pathlib.Path(os.environ.get("COXSWAIN_CACHE", pathlib.Path.home() / ".cache/coxswain"))
BIN = CACHE / "bin"
CANT_RUN_HERE = 77


def build():
    """Builds what is out of date; a first time takes a minute or two."""
    done = subprocess.run([ROOT / "tests/cluster/build.sh", "helm"], capture_output=True, text=True,
                          check=False)
    if done.returncode == CANT_RUN_HERE:
        print(f"skipped: {done.stderr.strip()}")
        sys.exit(CANT_RUN_HERE)
    if done.returncode != 0:
        sys.exit(f"helm can't be built: {done.stderr.strip()}")


def run(*command, text=None):
    return subprocess.run([str(word) for word in command], input=text, capture_output=True,
                          text=True, timeout=120, check=False)


def helm(*arguments):
    return run(BIN / "helm", *arguments)


def kubectl(*arguments, text=None):
    return run(BIN / "kubectl", *arguments, text=text)


def must(done):
    """What a command that must succeed in silence said."""
    if done.returncode != 0 or done.stderr.strip():
        raise AssertionError(f"{' '.join(done.args)}\nends with {done.returncode}:\n"
                             f"{done.stdout}{done.stderr}")
    return done.stdout


def refusal(done):
    """What a command that must fail said."""
    if done.returncode == 0:
        raise AssertionError(f"{' '.join(done.args)}\nmust fail, and said:\n{done.stdout}")
    return done.stderr


def flags(values=(), files=()):
    """`values` is a list of "key=value"."""
    return [word for value in values for word in ("--set", value)] + [
        word for file in files for word in ("--values", file)]


def template(release="coxswain", namespace="coxswain", values=(), files=(), chart=CHART):
    return helm("template", release, chart, "--namespace", namespace, "--kube-version", KUBERNETES,
                *flags(values, files))


def install(release="coxswain", namespace="coxswain", values=(), files=(), more=()):
    return helm("install", release, CHART, "--namespace", namespace, "--create-namespace",
                *flags(values, files), *more)


def upgrade(release="coxswain", namespace="coxswain", values=(), files=(), more=()):
    return helm("upgrade", release, CHART, "--namespace", namespace, *flags(values, files), *more)


def get(*words):
    """An object or a list of the cluster, as kubectl names it; None if it is not there."""
    said = must(kubectl("get", *words, "--ignore-not-found", "-o", "json"))
    return json.loads(said) if said.strip() else None


def names(kind, *words):
    found = get(kind, *words) or {"items": []}
    return sorted(item["metadata"]["name"] for item in found["items"])
