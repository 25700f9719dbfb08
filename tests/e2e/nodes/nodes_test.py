#!/usr/bin/env python3
"""Coxswain on real nodes: the chart by `helm install`, jobs by `kubectl apply`, real pods with their
own network, DNS, limits and volumes. As root, inside tests/cluster/lab.sh.

    lab.sh nodes_test.py DIR [--quick] [--only NAME]... [--keep]

Ends with 77 where this machine can't have such nodes, and says why."""
import argparse
import pathlib
import subprocess
import sys
import time

import cases_beside
import cases_chart
import cases_faults
import cases_refusals
import cases_train
from node_bed import CANT_RUN_HERE, Bed, Failed, Scene, Skipped

GROUPS = [cases_train, cases_faults, cases_refusals, cases_chart, cases_beside]


def chosen(options):
    cases = [case for group in GROUPS for case in (group.QUICK if options.quick else group.ALL)]
    return [case for case in cases if not options.only or case.__name__ in options.only]


def try_case(bed, case):
    """True if it holds; tells what it measured, or what it found wrong."""
    begin = time.monotonic()
    scene = Scene(bed, case.__name__)
    try:
        figures = case(scene) or {}
        told = "".join(f"  {name} {value:.4g}" for name, value in figures.items())
        print(f"ok     {time.monotonic() - begin:6.1f} s  {case.__name__}{told}", flush=True)
        return True
    except (Failed, RuntimeError, subprocess.TimeoutExpired) as failure:
        print(f"FAILED {time.monotonic() - begin:6.1f} s  {case.__name__}\n{failure}\n"
              f"{scene.tell()}", flush=True)
        return False
    finally:
        scene.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="a selection of some minutes")
    parser.add_argument("--only", action="append", help="the case of this name")
    parser.add_argument("--keep", action="store_true",
                        help="leave the cluster as it is; take it if it is there")
    options = parser.parse_args()
    begin = time.monotonic()
    bed = Bed(options.directory)
    try:
        bed.up(sorted({image for case in chosen(options) for image in getattr(case, "images", ())}))
        if "coxswain" not in bed.helm("list", "--short"):
            bed.install()
        print(f"a cluster with the operator after {time.monotonic() - begin:.1f} s", flush=True)
        failures = [case.__name__ for case in chosen(options) if not try_case(bed, case)]
    except Skipped as reason:
        print(f"skipped: {reason}")
        return CANT_RUN_HERE
    finally:
        if not options.keep:
            bed.down()
    print(f"{len(chosen(options))} cases, {len(failures)} failures, "
          f"{time.monotonic() - begin:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
