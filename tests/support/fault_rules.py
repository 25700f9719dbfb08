"""What a FaultProxy can do to requests and watches, and when.

A rule is a Match and a fault. Faults of requests: Before, After, Replied, Delay, Duplicate,
Answer, Hang, Stale. Faults of watch events: Cut, Hold, Expire, Drop, Repeat.
"""
import dataclasses
import json
import re
import threading
import typing

MUTATING = ("POST", "PUT", "PATCH", "DELETE")


# --- when ---

@dataclasses.dataclass
class Match:
    """Requests number `nth` to `nth + times - 1` among those that fit; times=None: from then on.

    `method` and `path` are regular expressions: of the whole method, of a part of the path with its
    query. `mutating` takes changing requests alone, except those that the proxy ignores (leases and
    events, as configured), so that nth=k is the k-th crash point. `when` is asked with the Entry.
    With a fault of watches, the match picks watches, and nth counts their events of type `event`
    (a regular expression: ADDED|MODIFIED|DELETED|BOOKMARK) that have `text` in them.
    """
    method: str = ".*"
    path: str = ""
    mutating: bool = False
    nth: int = 1
    times: typing.Optional[int] = 1
    when: typing.Optional[typing.Callable] = None
    event: str = "ADDED|MODIFIED|DELETED"
    text: bytes = b""

    def fits(self, entry):
        return ((not self.mutating or entry.number is not None)
                and re.fullmatch(self.method, entry.method) is not None
                and re.search(self.path, entry.path) is not None
                and (self.when is None or self.when(entry)))

    def fits_event(self, kind, line):
        return re.fullmatch(self.event, kind) is not None and self.text in line

    def is_due(self, count):
        return count >= self.nth and (self.times is None or count < self.nth + self.times)


@dataclasses.dataclass
class Rule:
    match: Match
    fault: object
    seen: int = 0   # requests or events that fitted
    fired: int = 0  # those that the fault was done to

    def __post_init__(self):
        self.happened = threading.Event()

    def take(self):
        """Counts one that fits; True if the fault is due."""
        self.seen += 1
        if not self.match.is_due(self.seen):
            return False
        self.fired += 1
        self.happened.set()
        return True


# --- what is done to a request ---

@dataclasses.dataclass
class Before:
    """The request never leaves: callback (kill the client), then the connection closes."""
    callback: typing.Optional[typing.Callable] = None


@dataclasses.dataclass
class After:
    """It takes effect and its reply is lost: forward, wait, callback, close the connection."""
    callback: typing.Optional[typing.Callable] = None


@dataclasses.dataclass
class Replied:
    """It takes effect, the reply is handed on, then callback."""
    callback: typing.Optional[typing.Callable] = None


@dataclasses.dataclass
class Delay:
    """Waits before the request is forwarded."""
    seconds: float


@dataclasses.dataclass
class Duplicate:
    """Sends the request twice; the client gets the first reply, or the second."""
    give_second: bool = False


@dataclasses.dataclass
class Answer:
    """Answers itself. With `forward` the request takes effect first."""
    status: int
    body: bytes = b""
    headers: dict = dataclasses.field(default_factory=dict)
    forward: bool = False
    cut_after: typing.Optional[int] = None  # close after so many bytes of the body


@dataclasses.dataclass
class Hang:
    """Takes the request and never answers, until the proxy's rules are cleared or it closes."""
    forward: bool = False


@dataclasses.dataclass
class Stale:
    """A read answered by the past: by a second server (an Access), or, without one, by the answer
    before the latest that this target got. A first read has no past and goes through."""
    server: object = None


# --- what is done to an event of a watch ---

@dataclasses.dataclass
class Cut:
    """Ends the watch in place of the event: clean, middle (half of the event was sent) or reset."""
    how: str = "clean"


@dataclasses.dataclass
class Hold:
    """Keeps the event and all after it for so long, or until the rules are cleared."""
    seconds: float


@dataclasses.dataclass
class Expire:
    """410 in the stream in place of the event."""


@dataclasses.dataclass
class Drop:
    """The event is lost."""


@dataclasses.dataclass
class Repeat:
    """The event comes twice."""


WATCH_FAULTS = (Cut, Hold, Expire, Drop, Repeat)


# --- answers as an API server gives them ---

def status_answer(code, reason, message, **headers):
    """A Status object: status_answer(409, "Conflict", "the object has been modified")."""
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code}
    return Answer(code, json.dumps(body).encode(),
                  {"Content-Type": "application/json",
                   **{key.replace("_", "-"): value for key, value in headers.items()}})


def conflict():
    return status_answer(409, "Conflict", "the object has been modified; please apply your "
                                          "changes to the latest version and try again")


def already_exists():
    return status_answer(409, "AlreadyExists", "object already exists")


def gone():
    return status_answer(410, "Expired", "too old resource version: 1 (2)")


def too_many_requests(retry_after=None):
    headers = {} if retry_after is None else {"Retry_After": str(retry_after)}
    return status_answer(429, "TooManyRequests", "the server is busy", **headers)


def server_error(code=500):
    reason = {500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}.get(code, "Unknown")
    return status_answer(code, reason, "injected")


def html(code=502):
    return Answer(code, b"<html><body><h1>Bad Gateway</h1></body></html>",
                  {"Content-Type": "text/html"})


def empty():
    return Answer(200, b"", {"Content-Type": "application/json"})


def truncated(size=100):
    """A 200 whose JSON breaks off, with the connection."""
    body = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"' + b"x" * size
    return Answer(200, body + b'"}}', {"Content-Type": "application/json"}, cut_after=size)
