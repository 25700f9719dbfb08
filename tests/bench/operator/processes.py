"""Processes that the bench starts: each dies with it."""
import ctypes
import pathlib
import os
import re
import signal
import subprocess

TICKS = os.sysconf("SC_CLK_TCK")
PR_SET_PDEATHSIG = 1


def start(command, log):
    libc = ctypes.CDLL(None)
    with open(log, "ab") as out:
        return subprocess.Popen(
            [str(word) for word in command], stdout=out, stderr=out, stdin=subprocess.DEVNULL,
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))


def stop(process):
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(15)


def rss_mib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
