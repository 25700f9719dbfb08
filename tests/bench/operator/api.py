"""Requests to an API server, cheap enough that the load is not what is measured."""
import json
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from kube_access import Access  # noqa: E402

CONNECTIONS = 8


def path_of(group_version, namespace, plural):
    root = "/api/" if "/" not in group_version else "/apis/"
    place = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{group_version}{place}/{plural}"


IDLE_SECONDS = 30


class Api:
    """One user's access. Each thread that calls has its own kept-alive connection. Thread-safe."""

    def __init__(self, kubeconfig):
        self._access = Access(kubeconfig)
        self._context = self._access.context()
        self._local = threading.local()

    def _connection(self):
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._access.connect(60)
        elif time.monotonic() - self._local.used > IDLE_SECONDS:
            connection.close()  # the server may have; the next request opens it again
        self._local.used = time.monotonic()
        return connection

    def send(self, method, path, body=b"", content_type="application/json"):
        """Gives (status, bytes). `body` is bytes, or what becomes JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = self._connection()
        try:
            connection.request(method, path, data, {"Content-Type": content_type})
            response = connection.getresponse()
            return response.status, response.read()
        except OSError as problem:
            connection.close()
            raise type(problem)(f"{method} {path}: {problem}") from problem

    def must(self, method, path, body=b"", content_type="application/json", also=()):
        """The parsed answer; RuntimeError for a status that is neither 2xx nor in `also`."""
        status, answer = self.send(method, path, body, content_type)
        if not 200 <= status < 300 and status not in also:
            raise RuntimeError(f"{method} {path}: {status} {answer[:300].decode(errors='replace')}")
        return json.loads(answer)

    def send_all(self, requests, per_second=None):
        """Sends [(method, path, body, content_type)] over CONNECTIONS connections.

        At most `per_second` a second if given. RuntimeError for the first that is refused.
        """
        requests = list(requests)
        turn = iter(enumerate(requests))
        lock, problems, begin = threading.Lock(), [], time.monotonic()

        def work():
            while not problems:
                with lock:
                    index, request = next(turn, (None, None))
                if request is None:
                    break
                if per_second:
                    time.sleep(max(0, begin + index / per_second - time.monotonic()))
                try:
                    self.must(*request)
                except (RuntimeError, OSError, ValueError) as problem:
                    problems.append(problem)
            connection = getattr(self._local, "connection", None)
            if connection:
                connection.close()

        threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if problems:
            raise RuntimeError(f"{len(requests)} requests: {problems[0]}")

    def stream(self, path, timeout):
        """An open response to read lines from, and its connection to close."""
        connection = self._access.connect(timeout)
        connection.request("GET", path)
        return connection.getresponse(), connection


class Watch:
    """Resource. One watch of a collection; `seen` maps names to (time of arrival, object) when
    `wanted(object)` first held. Close it."""

    def __init__(self, api, path, wanted):
        self.seen = {}
        self._wanted = wanted
        version = api.must("GET", path + "?limit=1")["metadata"]["resourceVersion"]
        self._response, self._connection = api.stream(
            f"{path}?watch=true&resourceVersion={version}", 900)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        try:
            for line in self._response:
                event = json.loads(line)
                name = event["object"].get("metadata", {}).get("name")
                if name not in self.seen and self._wanted(event):
                    self.seen[name] = (time.time(), event["object"])
        except (OSError, ValueError, AttributeError):
            pass  # closed

    def close(self):
        if self._connection.sock:
            self._connection.sock.shutdown(2)
        self._thread.join(5)
        self._connection.close()


def wait_for(what, seconds, done, interval=0.05):
    """Until done() gives something true, which is the result. TimeoutError names `what`."""
    end = time.monotonic() + seconds
    while True:
        result = done()
        if result:
            return result
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(interval)
