"""The installed chart, under jobs that run."""
import time

import cases_faults as faults
from node_bed import ROOT, SYSTEM, Failed, expect, run


def resident_mib(bed):
    """Of the operator's process, as its node sees it."""
    pod = bed.operator_pod()
    said = bed.node("exec", pod["spec"]["nodeName"], "sh", "-c",
                    "cat /proc/$(pgrep -f '^/usr/bin/coxswain operator' | head -1)/status")
    return int(next(line for line in said.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def idle(scene):
    resident = resident_mib(scene.bed)
    if resident > 25:
        raise Failed(f"the idle operator holds {resident:.1f} MiB")
    return {"MiB": resident}


def upgraded_and_rolled_back(scene):
    """The job goes on under both."""
    faults.in_training(scene)
    before = scene.bed.operator_pod()["metadata"]["uid"]
    scene.bed.helm("upgrade", "coxswain", ROOT / "charts/coxswain", "--reuse-values",
                   "--set", "logFormat=json", "--wait", "--timeout", "60s")
    after = scene.bed.operator_pod()["metadata"]["uid"]
    if before == after:
        raise Failed("the upgrade changed nothing")
    scene.bed.helm("rollback", "coxswain", "--wait", "--timeout", "60s")
    faults.ends_as_undisturbed(scene)


def uninstalled_and_installed_again(scene):
    """CRD, jobs and pods stay; a job that ended meanwhile is found ended."""
    faults.in_training(scene)
    scene.bed.helm("uninstall", "coxswain", "--wait")
    expect("operator", run("kubectl", "-n", SYSTEM, "get", "deploy", "-o", "name"), "")
    time.sleep(3)
    scene.bed.install()
    faults.ends_as_undisturbed(scene)


QUICK = [idle, upgraded_and_rolled_back]
ALL = [*QUICK, uninstalled_and_installed_again]
