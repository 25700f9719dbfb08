"""Processes that the bench starts: each dies with it."""
import ctypes
import os
import pathlib
import re
import signal
import subprocess
import time

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


def busy_seconds():
    """(of the whole machine, of the processes that we see) since they began. In a process namespace
    of their own, what we see is what we started."""
    first = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _, _, irq, softirq = (int(ticks) for ticks in first[1:8])
    ours = 0.0
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                ours += cpu_seconds(entry.name)
            except OSError:
                pass  # it has ended
    return (user + nice + system + irq + softirq) / TICKS, ours


class Foreign:
    """How much of the machine others took since it was made: 0 to 1. What they take, the measured
    lack."""

    def __init__(self):
        self._begin, self._busy, self._ours = time.monotonic(), *busy_seconds()

    def share(self):
        busy, ours = busy_seconds()
        wall = (time.monotonic() - self._begin) * os.cpu_count()
        return max(0.0, (busy - self._busy - ours + self._ours) / wall)
