#!/usr/bin/env python3
"""The sums of a training step of resnet50 on two machines of four ranks: what they take beyond a compute that is sleep,
beside PyTorch's gloo, over networks of a stated rate. Two network namespaces on this machine: as root.

    machines.py [--only WORDS] [--rounds N]

`each for itself`: as if each rank were on a machine of its own, without adding on each machine first.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess

BENCH = "build/release/bin/step_bench"
PEER = [pathlib.Path.home() / ".cache/coxswain/peers/bin/python", "tests/bench/comm/gloo_peer.py"]
MACHINES, RANKS = 2, 4  # of each
BUCKETS, MEGABYTES = 4, 25.6  # of 25.6 million parameters
NETWORKS = {"1 Gb/s": ("1gbit", 1000), "10 Gb/s": ("10gbit", 300)}  # and ms of compute
STEPS = 5
PATIENCE = 300  # seconds


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Network:
    """Resource. A namespace a machine, each with an address for every rank."""

    def __init__(self, rate):
        self.names = [f"cxw-machines-{os.getpid()}-{i}" for i in range(MACHINES)]
        for name in self.names:
            ip("netns", "add", name)
        ip("-n", self.names[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", self.names[1])
        for machine, name in enumerate(self.names):
            for rank in range(RANKS):
                ip("-n", name, "addr", "add", f"{self.address(machine, rank)}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                ip("-n", name, "link", "set", link, "up")
            subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate,
                            "burst", "1mb" if rate.startswith("10g") else "128kb", "latency", "50ms"], check=True)

    @staticmethod
    def address(machine, rank):
        return f"10.78.0.{10 * (machine + 1) + rank}"

    def run(self, command_of):
        """One process a rank; what rank 0 prints."""
        processes = [subprocess.Popen(["ip", "netns", "exec", self.names[rank // RANKS], *map(str, command_of(rank))],
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                      env={**os.environ, "GLOO_SOCKET_IFNAME": "eth0"})
                     for rank in range(MACHINES * RANKS)]
        try:
            said = processes[0].communicate(timeout=PATIENCE)[0]
            for process in processes:
                if process.wait(timeout=30) != 0:
                    raise RuntimeError(f"{process.args} ended with {process.returncode}")
        finally:
            for process in processes:
                process.kill()
                process.wait()
        return json.loads(said)["exposed"]

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)


def sides(network, compute):
    step = [BUCKETS, MEGABYTES, compute, STEPS]

    def ours(own_address):
        peers = [f"{network.address(rank // RANKS, rank % RANKS if own_address else 0)}:{7000 + rank}"
                 for rank in range(MACHINES * RANKS)]
        return lambda rank: [BENCH, rank, ",".join(peers), *step]

    return {"ours": ours(False), "each for itself": ours(True),
            "PyTorch, gloo": lambda rank: [*PEER, rank, MACHINES * RANKS, network.address(0, 0), *step]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    print(f"{MACHINES} machines x {RANKS} ranks, {BUCKETS} buckets of {MEGABYTES} MB, milliseconds beyond the compute, "
          f"the middle of {options.rounds} x {STEPS} steps; {os.cpu_count()} cores for all")
    for name, (rate, compute) in NETWORKS.items():
        if options.only not in name:
            continue
        network = Network(rate)
        try:
            found = {}
            for _ in range(options.rounds):
                for side, command in sides(network, compute).items():
                    found.setdefault(side, []).extend(network.run(command))
        finally:
            network.close()
        print(f"{name:14} compute {compute} ms: " +
              ", ".join(f"{side} {statistics.median(values):,.0f}" for side, values in found.items()), flush=True)


main()
