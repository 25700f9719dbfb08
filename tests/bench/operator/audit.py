"""The API server's audit log: who wrote what, when it came in and when it was answered."""
import collections
import datetime
import json

Write = collections.namedtuple("Write", "user verb resource namespace name code begin end")
READS = ("get", "list")


def seconds(stamp):
    return datetime.datetime.fromisoformat(stamp).timestamp()


def parse(line):
    event = json.loads(line)
    target = event.get("objectRef", {})
    resource = target.get("resource", "?")
    if target.get("subresource"):
        resource += "/" + target["subresource"]
    return Write(event["user"]["username"], event["verb"], resource, target.get("namespace", ""),
                 target.get("name", ""), event.get("responseStatus", {}).get("code", 0),
                 seconds(event["requestReceivedTimestamp"]), seconds(event["stageTimestamp"]))


class Audit:
    """Resource. Reads what was appended since it was opened or last asked."""

    def __init__(self, path):
        self._file = open(path, "rb")
        self._file.seek(0, 2)
        self._rest = b""
        self.writes = []

    def update(self):
        """All writes so far, in the order of the log."""
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        self.writes.extend(parse(line) for line in lines)
        return self.writes

    def by(self, user):
        """The user's writes that had an effect or were refused; its Lease apart."""
        return [w for w in self.update()
                if w.user == user and w.resource != "leases" and w.verb not in READS]

    def reads(self, user):
        """The user's, but watches."""
        return [w for w in self.update() if w.user == user and w.verb in READS]

    def close(self):
        self._file.close()


def is_event(write):
    return write.resource == "events"


def done(write):
    return 200 <= write.code < 300
