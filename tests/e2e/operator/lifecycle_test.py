#!/usr/bin/env python3
"""The lives of jobs under `coxswain operator` on a real API server, with pods that play scripts.

    tests/cluster/in_cluster.sh DIR tests/e2e/operator/lifecycle_test.py COXSWAIN SCRIPTED_KUBELET
        [CASE...] [--keep]

A case is a namespace; all share one operator and run side by side. Afterwards the laws are checked
over every revision that the API server made. --keep: leave the namespaces.
"""
import concurrent.futures
import os
import sys
import tempfile
import time
import traceback

import harness
import cases_failure
import cases_gang
import cases_gone
import cases_policy
import cases_refusal
import cases_start
import laws

AT_ONCE = 8
# Those that wait longest come first.
CASES = {**cases_gang.CASES, **cases_refusal.CASES, **cases_failure.CASES, **cases_policy.CASES,
         **cases_gone.CASES, **cases_start.CASES}


def play(bed, name):
    """What is wrong; None: nothing."""
    begin = time.monotonic()
    scene = harness.Scene(bed, name)
    try:
        scene.begin()
        CASES[name](scene)
        failure = None
    except AssertionError as error:
        failure = f"{error}\n{scene.report()}"
    except Exception:  # a test that breaks is a failure, too, and the others go on
        failure = f"{traceback.format_exc()}\n{scene.report()}"
    word, seconds = "FAILED" if failure else "ok", time.monotonic() - begin
    sys.stdout.write(f"{word:6} {seconds:5.1f} s  {name}\n")  # in one piece, beside others
    sys.stdout.flush()
    return failure


def run(bed, names):
    bed.wait_ready()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        failures = {name: failure for name, failure in
                    zip(names, pool.map(lambda name: play(bed, name), names)) if failure}
    bed.check_alive()
    for law, failure in laws.broken(bed):
        failures[law] = failure
    return failures


def main():
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    coxswain, kubelet, *names = arguments
    names = names or list(CASES)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        bed = harness.Bed(os.environ["KUBECONFIG"], coxswain, kubelet, names, directory)
        try:
            failures = run(bed, names)
        finally:
            bed.close()
            if "--keep" not in sys.argv:
                with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
                    list(pool.map(bed.sweep, names))
    for name, failure in failures.items():
        print(f"\nFAILED {name}\n{failure}")
    print(f"{len(names)} cases, {len(failures)} failures, {time.monotonic() - begin:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
