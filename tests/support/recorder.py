#!/usr/bin/env python3
"""An independent witness: watches what the operator works on and keeps every revision.

    with Recorder("admin.kubeconfig", namespaces=["plan-1"]) as recorder:
        ... the workload ...
        recorder.settle()                                # it has seen all that is there
        for violation in recorder.check(log=proxy.log):  # invariants.py, over the whole history
            print(violation)
        recorder.final_state("plan-1"), recorder.writes("plan-1")
"""
import http.client
import json
import socket
import sys
import threading
import time
import urllib.parse

import history as h
import invariants
import kube_access

# Path of the collection under /api or /apis, without a namespace -> kind.
RESOURCES = {
    "/apis/coxswain.dev/v1alpha1/trainingjobs": "TrainingJob",
    "/api/v1/pods": "Pod",
    "/api/v1/services": "Service",
    "/api/v1/secrets": "Secret",
    "/api/v1/configmaps": "ConfigMap",
    "/api/v1/persistentvolumeclaims": "PersistentVolumeClaim",
    "/apis/events.k8s.io/v1/events": "Event",
    "/apis/coordination.k8s.io/v1/leases": "Lease",
}
WATCH_SECONDS = 300


class Recorder:
    """namespaces: None for all. labels: {kind: selector}, to leave out foreign objects. resources:
    as RESOURCES, for other kinds (pod groups). A kind whose CRD is not installed yet is not watched.
    listener: called with every revision as it arrives, by one thread at a time.
    Watches run when the constructor returns."""

    def __init__(self, kubeconfig, namespaces=None, labels=None, resources=None, listener=None):
        self._access = kube_access.Access(kubeconfig)
        self._namespaces = set(namespaces) if namespaces is not None else None
        self._labels = labels or {}
        self._resources = resources or RESOURCES
        self._listener = listener or (lambda revision: None)
        self.history = h.History()
        self._current = {}  # kind -> {uid: (version, namespace, name)}, as the watches told
        self._changed = threading.Condition()  # guards history and _current
        self._failures, self._stopped = [], False
        self._connections, self._versions = {}, {}
        self._threads = []
        for path, kind in self._resources.items():
            self._versions[kind] = self._first_list(path, kind)
            if self._versions[kind]:
                self._threads.append(threading.Thread(
                    target=self._record, args=(path, kind), daemon=True))
        for thread in self._threads:
            thread.start()

    # --- what tests ask ---

    def settle(self, timeout=20):
        """Waits until the watches have told all that lists tell; raises TimeoutError."""
        deadline = time.monotonic() + timeout
        for path, kind in self._resources.items():
            while True:
                listed = {item["metadata"]["uid"]: item["metadata"]["resourceVersion"]
                          for item in self._list(path, kind)["items"] if self._is_ours(item)}
                with self._changed:
                    self._raise_failure()
                    told = {uid: row[0] for uid, row in self._current.get(kind, {}).items()}
                    if told == listed:
                        break
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"the watch of {kind} has not told all in {timeout} s")
                    self._changed.wait(0.05)

    def wait_for(self, condition, timeout=30):
        """Waits until condition(current objects as {(kind, namespace, name): object}) is true of
        what was seen; gives whether it became so."""
        deadline, world, read = time.monotonic() + timeout, h.World(), 0
        while True:
            with self._changed:
                self._raise_failure()
                new = self.history.arrived()[read:]
                read += len(new)
            for revision in new:
                world.apply(revision)
            if condition({key: revision.object for key, revision in world.objects.items()}):
                return True
            with self._changed:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                if len(self.history.arrived()) == read:
                    self._changed.wait(left)

    def check(self, log=None, **options):
        """The violations, as invariants.check gives them."""
        with self._changed:
            self._raise_failure()
            return invariants.check(self.history, log, **options)

    def final_state(self, namespace):
        with self._changed:
            return self.history.final_state(namespace)

    def writes(self, namespace):
        with self._changed:
            return self.history.writes(namespace)

    def forget(self, namespace):
        """Drops the history of a plan that is over."""
        with self._changed:
            self.history.forget(namespace)

    def close(self):
        self._stopped = True
        deadline = time.monotonic() + 5
        while any(thread.is_alive() for thread in self._threads) and time.monotonic() < deadline:
            for connection in list(self._connections.values()):
                try:
                    socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)  # wakes its reader
                except (OSError, TypeError):
                    pass  # not connected yet, or not any more
            for thread in self._threads:
                thread.join(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- watching ---

    def _is_ours(self, item):
        return (self._namespaces is None
                or item["metadata"].get("namespace", "") in self._namespaces)

    def _path(self, path, kind, **query):
        if self._namespaces is not None and len(self._namespaces) == 1:
            head, _, plural = path.rpartition("/")
            path = f"{head}/namespaces/{next(iter(self._namespaces))}/{plural}"
        if kind in self._labels:
            query["labelSelector"] = self._labels[kind]
        return f"{path}?{urllib.parse.urlencode(query)}"

    def _list(self, path, kind):
        status, document = self._access.call("GET", self._path(path, kind))
        deadline = time.monotonic() + 30
        while status == 429 and time.monotonic() < deadline:  # of a CRD that has just been made
            time.sleep(0.2)
            status, document = self._access.call("GET", self._path(path, kind))
        if status == 404:  # a kind that this server does not have
            return {"items": [], "metadata": {"resourceVersion": ""}}
        if status != 200:
            raise RuntimeError(f"list of {path}: {status} {document}")
        return document

    def _first_list(self, path, kind):
        document = self._list(path, kind)
        for item in document["items"]:
            self._enter(kind, "LISTED", item)
        return document["metadata"]["resourceVersion"]

    def _enter(self, kind, event, item):
        item["metadata"].pop("managedFields", None)
        if not self._is_ours(item):
            return
        version = item["metadata"]["resourceVersion"]
        revision = h.Revision(int(version), event, kind, item, time.time())
        with self._changed:
            known = self._current.setdefault(kind, {})
            if event == "DELETED":
                known.pop(revision.uid, None)
            else:
                known[revision.uid] = (version, revision.namespace, revision.name)
            self.history.add(revision)
            self._listener(revision)
            self._changed.notify_all()

    def _raise_failure(self):
        if self._failures:
            raise RuntimeError(f"the record has a hole: {self._failures[0]}")

    def _fail(self, what):
        with self._changed:
            self._failures.append(what)
            self._changed.notify_all()

    def _record(self, path, kind):
        while not self._stopped:
            try:
                self._watch(path, kind)
            except LookupError as error:
                return self._fail(f"{kind}: {error}")
            except (OSError, http.client.HTTPException, ValueError):
                # A server that restarts, or our own close(); what was missed comes with the next.
                if not self._stopped:
                    time.sleep(0.1)

    def _watch(self, path, kind):
        """From the last version seen until the server ends it."""
        connection = self._access.connect(timeout=WATCH_SECONDS + 30)
        self._connections[kind] = connection
        try:
            connection.request("GET", self._path(
                path, kind, watch="true", allowWatchBookmarks="true",
                resourceVersion=self._versions[kind], timeoutSeconds=WATCH_SECONDS),
                headers=self._access.headers())
            response = connection.getresponse()
            if response.status == 410:
                raise LookupError(f"version {self._versions[kind]} is gone")
            if response.status != 200:
                raise ValueError(f"watch answered {response.status}")
            while line := response.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise LookupError(f"watch from {self._versions[kind]}: {event['object']}")
                if event["type"] != "BOOKMARK":
                    self._enter(kind, event["type"], event["object"])
                self._versions[kind] = event["object"]["metadata"]["resourceVersion"]
        finally:
            connection.close()


def main():
    """By hand: recorder.py KUBECONFIG [NAMESPACE...] prints every revision, and at Ctrl-C what broke
    an invariant."""
    recorder = Recorder(sys.argv[1], sys.argv[2:] or None)
    shown = 0
    try:
        while True:
            for revision in recorder.history.arrived()[shown:]:
                print(revision.version, revision.event, revision, flush=True)
                shown += 1
            time.sleep(0.2)
    except KeyboardInterrupt:
        violations = recorder.check(settled=False)
        print(*violations, sep="\n")
        sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
