"""Two nodes of one core each: network namespaces with a link between them, whose rate each end shapes."""
import os
import pathlib
import secrets
import subprocess

from commands import TRAINER, environment

SERVER_PORT = 9500
LATENCY = "30us"  # of such a link by itself


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class TwoNodes:
    """Resource. Needs root, and changes nothing outside its two namespaces."""

    def __init__(self, rate):
        self.names = [f"cxw-estimate-{os.getpid()}-{i}" for i in range(2)]
        for name in self.names:
            ip("netns", "add", name)
        ip("-n", self.names[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", self.names[1])
        for i, name in enumerate(self.names):
            ip("-n", name, "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                ip("-n", name, "link", "set", link, "up")
            # What leaves a burst behind is a millisecond's at the most.
            subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst",
                            "1mb" if rate.startswith("10g") else "128kb", "latency", "50ms"], check=True)

    @staticmethod
    def address(node):
        return f"10.77.0.{node + 1}"

    def start(self, directory, config, with_server):
        """A rank on each, on a core of its own, or a rank and the server that holds its weights: the processes, of which
        the first tells how it gets on."""
        directory = pathlib.Path(directory)
        workers = 1 if with_server else 2
        (directory / "training.yaml").write_text(config)
        (directory / "hostfile").write_text("".join(f"{self.address(i)} slots=1\n" for i in range(workers)))
        (directory / "key").write_text(secrets.token_hex(32) + "\n")
        (directory / "key").chmod(0o600)
        told = {"COXSWAIN_JOB": "estimate", "COXSWAIN_ROLE": "worker", "COXSWAIN_WORLD_SIZE": str(workers),
                "COXSWAIN_SLOTS": "1", "COXSWAIN_HOSTFILE": str(directory / "hostfile"),
                "COXSWAIN_KEY": str(directory / "key"), "COXSWAIN_LOG_FORMAT": "json", "WORLD_SIZE": str(workers)}
        if with_server:
            told["COXSWAIN_SERVERS"] = f"{self.address(1)}:{SERVER_PORT}"
        config_flag = ["--config", str(directory / "training.yaml")]
        rank = ["train", *config_flag, "--log-format", "json"]
        processes = [self.run_on(i, rank, {**told, "RANK": str(i), "COXSWAIN_INDEX": str(i)}) for i in range(workers)]
        if with_server:
            server = {**told, "COXSWAIN_ROLE": "server", "COXSWAIN_INDEX": "0", "COXSWAIN_RUN_DIR": str(directory)}
            processes.append(self.run_on(1, ["server", *config_flag], server))
        return processes

    def run_on(self, node, words, variables):
        return subprocess.Popen(
            ["ip", "netns", "exec", self.names[node], "taskset", "-c", str(node), TRAINER, *words],
            stdout=subprocess.PIPE if node == 0 else subprocess.DEVNULL, text=True, env=environment(**variables))

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)
