"""What can go wrong between the operator and the API server while a job fails once, restarts and
succeeds: one case a fault, each with the time within which the job must still come to its end."""
import dataclasses
import typing

import fault_rules as rules
from fault_rules import Match

STATUS = r"/trainingjobs/[^/]+/status$"
NEW_PODS = r"/pods$"
POD_LIST, JOB_LIST = r"/pods\?(?!.*watch=true)", r"/trainingjobs\?(?!.*watch=true)"
POD_WATCH, JOB_WATCH = r"/pods\?.*watch=true", r"/trainingjobs\?.*watch=true"


@dataclasses.dataclass
class Case:
    name: str
    faults: list  # of (Match, fault)
    seconds: float = 8.0  # from the job's creation to its end; undisturbed it takes 1
    check: typing.Callable = lambda log: []  # what the requests must be like: gives complaints
    long: bool = False


def waited(log, seconds):
    """Nothing of what was told to come back later came back sooner."""
    complaints = []
    for index, entry in enumerate(log):
        if entry.status != 429:
            continue
        again = next((later for later in log[index + 1:] if (later.method, later.path, later.body)
                      == (entry.method, entry.path, entry.body)), None)
        if again and again.time - entry.time < seconds - 0.05:
            complaints.append(f"{entry.method} {entry.path} came again after "
                              f"{again.time - entry.time:.2f} s, not {seconds} s")
    if not any(entry.status == 429 for entry in log):
        complaints.append("nothing was told to come back later")
    return complaints


def answers():
    yield Case("conflict on status patches", [
        (Match("PATCH", STATUS, nth=2, times=3), rules.conflict())])
    yield Case("429 with Retry-After", [
        (Match("POST", NEW_PODS, nth=1), rules.too_many_requests(2)),
        (Match("PATCH", STATUS, nth=3), rules.too_many_requests(2))],
        seconds=14, check=lambda log: waited(log, 2))
    yield Case("429 without Retry-After, often", [
        (Match(mutating=True, nth=3, times=6), rules.too_many_requests())])
    for code in (500, 502, 503, 504):
        yield Case(f"bursts of {code}", [
            (Match(mutating=True, nth=nth, times=2), rules.server_error(code))
            for nth in (1, 5, 9, 13)], seconds=14)
    yield Case("HTML from a gateway", [
        (Match(mutating=True, nth=2, times=2), rules.html()),
        (Match("GET", POD_LIST), rules.html())])
    yield Case("HTML that calls itself 200", [
        # Not two in a row: those would be told, in a condition that stays.
        *((Match(mutating=True, nth=nth), rules.html(200)) for nth in (4, 9)),
        (Match("GET", POD_LIST), rules.html(200))])
    yield Case("200 without a body", [
        (Match(mutating=True, nth=2, times=2), rules.empty()),
        (Match("PATCH", STATUS, nth=3), rules.empty()),
        (Match("GET", JOB_LIST), rules.empty())])
    yield Case("JSON that breaks off", [
        (Match("GET", JOB_LIST), rules.truncated()),
        (Match("POST", NEW_PODS), rules.truncated()),
        (Match("PATCH", STATUS, nth=2), rules.truncated())])
    yield Case("replies lost", [
        (Match(mutating=True, nth=nth), rules.After()) for nth in (1, 3, 5, 7, 9, 11, 13)],
        seconds=12)
    yield Case("requests lost", [
        (Match(mutating=True, nth=nth), rules.Before()) for nth in (1, 3, 5, 7, 9, 11, 13)],
        seconds=12)
    yield Case("every request comes twice", [
        (Match(mutating=True, times=None), rules.Duplicate())])
    yield Case("every request comes twice, the second reply counts", [
        (Match(mutating=True, times=None), rules.Duplicate(give_second=True))], seconds=12)
    yield Case("every request is slow", [(Match(mutating=True, times=None), rules.Delay(0.2))],
               seconds=15)


def lists_and_watches():
    yield Case("410 on lists", [(Match("GET", POD_LIST, times=2), rules.gone()),
                                (Match("GET", JOB_LIST), rules.gone())])
    yield Case("410 in watches", [(Match(path=POD_WATCH, nth=nth), rules.Expire())
                                  for nth in (2, 6, 9)]
               + [(Match(path=JOB_WATCH, nth=3), rules.Expire())])
    for how in ("clean", "middle", "reset"):
        yield Case(f"watches end: {how}", [(Match(path=POD_WATCH, nth=nth), rules.Cut(how))
                                           for nth in (2, 6, 9)]
                   + [(Match(path=JOB_WATCH, nth=2), rules.Cut(how))], seconds=12)
    yield Case("every event comes twice", [
        (Match(path="watch=true", times=None), rules.Repeat())])
    yield Case("events come late", [(Match(path=POD_WATCH, nth=3), rules.Hold(1.5)),
                                    (Match(path=JOB_WATCH, nth=2), rules.Hold(1.5))], seconds=12)
    yield Case("jobs seen late", [(Match(path=JOB_WATCH, nth=2, times=None), rules.Hold(0.5))],
               seconds=12)
    # Never told that the pods of the old attempt are gone.
    yield Case("deletions lost", [
        (Match(path=POD_WATCH, event="DELETED", times=2), rules.Drop())], seconds=14)
    yield Case("bindings lost", [
        (Match(path=POD_WATCH, event="MODIFIED", times=2, text=b'"phase":"Pending"'),
         rules.Drop())])
    yield Case("lists from the past", [(Match(path=POD_WATCH, nth=nth), rules.Expire())
                                       for nth in (4, 8, 10)]
               + [(Match("GET", POD_LIST, nth=2, times=None), rules.Stale())], seconds=12)
    yield Case("reads from the past", [
        (Match(path=JOB_WATCH, nth=nth), rules.Expire()) for nth in (2, 4)]
        + [(Match("PATCH", STATUS, nth=2, times=2), rules.conflict()),
           (Match("GET", r"/trainingjobs", nth=2, times=None,
                  when=lambda entry: not entry.is_watch), rules.Stale())], seconds=12)
    yield Case("a watch falls silent", [
        (Match(path=POD_WATCH, nth=3, event=".*"), rules.Hold(1000))], seconds=70, long=True)
    yield Case("a request is never answered", [
        (Match(mutating=True, nth=4), rules.Hang(forward=True))], seconds=45, long=True)


def cases():
    return [*answers(), *lists_and_watches()]
