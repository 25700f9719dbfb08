"""The operator as a process of its own: started with any flags, watched from outside; and a job for
it."""
import json
import pathlib
import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

METRIC = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")


class Process:
    """`coxswain operator` with its endpoint on a port of its own choosing; killed by close()."""

    def __init__(self, program, *flags, kubeconfig=None, metrics="127.0.0.1:0", before=()):
        self._directory = tempfile.TemporaryDirectory(prefix="operator-")
        self._log = pathlib.Path(self._directory.name, "log")
        where = ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
        with self._log.open("wb") as log:
            # It must not outlive a test that is killed.
            self.process = subprocess.Popen(
                [*before, "setpriv", "--pdeathsig", "KILL", program, "operator", *where,
                 "--metrics-address", metrics, "--progress", "false", *flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._port = None

    def log(self):
        return self._log.read_text(errors="replace")

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, seconds=10):
        """Its exit code; raises TimeoutExpired."""
        return self.process.wait(seconds)

    def is_alive(self):
        return self.process.poll() is None

    def get(self, path):
        """(status, body) of its endpoint; (None, "") while there is none."""
        if self._port is None:
            found = re.search(r"metrics port=(\d+)", self.log())
            if not found:
                return None, ""
            self._port = int(found[1])
        try:
            with urllib.request.urlopen(
                    f"http://127.0.0.1:{self._port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return None, ""

    def is_ready(self):
        return self.get("/readyz")[0] == 200

    def metric(self, name, **labels):
        """The sum over the series that carry these labels."""
        wanted = {f'{key}="{value}"' for key, value in labels.items()}
        total = 0.0
        for line in self.get("/metrics")[1].splitlines():
            found = METRIC.match(line)
            if found and found[1] == name and wanted <= set((found[2] or "").split(",")):
                total += float(found[3])
        return total

    def close(self):
        if self.is_alive():
            self.process.kill()
        self.process.wait()
        self._directory.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def until(condition, seconds, every=0.05):
    """The seconds after which it became true; None if it never did."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > seconds:
            return None
        time.sleep(every)
    return time.monotonic() - begin


def submit(api, namespace, name, replicas, life, **fields):
    """Creates a job of workers that are played as scripted_kubelet/life.h tells."""
    annotations = {"coxswain.test/life": json.dumps(life)}
    api.call("POST", f"/apis/coxswain.dev/v1alpha1/namespaces/{namespace}/trainingjobs", {
        "apiVersion": "coxswain.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name},
        "spec": {"replicaSpecs": {"Worker": {"replicas": replicas, "template": {
            "metadata": {"annotations": annotations},
            "spec": {"containers": [{"name": "trainer"}]}}}},
            "training": {"model": "mlp", "data": {"format": "mnist"}}, **fields}})
