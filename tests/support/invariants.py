"""The laws of the operator, each checked at every revision of a history and every request of a log.

The numbers are those of the list of invariants that the fault sweeps report by.
"""
import dataclasses
import json
import re

import history as h
import request_log

# A create that left before its job was deleted may arrive after it.
IN_FLIGHT_SECONDS = 1.0
MOST_WRITES_BEYOND_PODS = 6


@dataclasses.dataclass
class Violation:
    invariant: str
    message: str
    versions: list

    def __str__(self):
        at = f" (at {', '.join(map(str, self.versions))})" if self.versions else ""
        return f"{self.invariant}: {self.message}{at}"


class Facts:
    """What the laws may ask beside the world: the log, and settings of one check."""

    def __init__(self, log=None, in_flight=IN_FLIGHT_SECONDS):
        self.log, self.in_flight = log, in_flight
        self.sent, self.deleted = {}, set()
        for entry in log or ():
            if not request_log.took_effect(entry):
                continue
            about = request_log.target(entry)
            if entry.method == "POST":
                self.sent[about.kind, about.namespace, about.name,
                          request_log.reply_uid(entry)] = entry.time
            elif entry.method == "DELETE":
                self.deleted.add(request_log.reply_uid(entry))

    def sent_at(self, revision):
        """When the create left, as exactly as is known."""
        return self.sent.get((*revision.key, revision.uid), revision.time)


def is_creation(before, now):
    return before is None and now.event == "ADDED"


# --- laws over revisions: (world after it, state before it, the revision, facts) -> messages ---

def one_live_pod_a_rank(world, before, now, facts):
    """I2"""
    who = h.identity(now.object) if now.kind == "Pod" and now.event != "DELETED" else None
    if who is None:
        return
    same = [name for name, pod in world.live_pods(who.job)
            if h.identity(pod)[1:3] == (who.role, who.index)]
    if len(same) > 1 and now.name in same:
        yield f"{who.role} {who.index} of one job is {' and '.join(sorted(same))}"


def no_child_of_an_ended_job(world, before, now, facts):
    """I3"""
    uid = h.job_uid(now.object)
    if now.kind not in h.CHILD_KINDS or uid is None or not is_creation(before, now):
        return
    job = world.jobs.get(uid)
    if job is None:
        yield f"{now} was created for a job that never was (uid {uid})"
        return
    owner = h.controller(now.object)
    if (owner.get("name"), now.namespace) != (job.name, job.namespace):
        yield f"{now} names its job {owner.get('name')}, which is {job.namespace}/{job.name}"
    if h.is_finished(job.object):
        yield f"{now} was created after its job had finished"
    sent = facts.sent_at(now)
    for ended, word in ((world.gone.get(uid), "gone"), (world.terminating.get(uid), "deleted")):
        if ended and sent - ended.time > facts.in_flight:
            yield f"{now} was created {sent - ended.time:.1f} s after its job was {word}"
            return


def no_finalizer(world, before, now, facts):
    """I4, its first half"""
    for finalizer in h.get(now.object, "metadata", "finalizers") or []:
        if "coxswain" in finalizer and finalizer not in (
                h.get(before, "metadata", "finalizers") or []):
            yield f"{now} has the finalizer {finalizer}"


RESTARTS = ("failure", "preemption", "node", "startup", "resize")


def counts_never_fall(world, before, now, facts):
    """I6"""
    if now.kind != h.JOB_KIND or now.event == "DELETED":
        return
    was, is_now = (before or {}).get("status") or {}, now.object.get("status") or {}
    for field in ("attempt", "observedGeneration"):
        if is_now.get(field, 0) < was.get(field, 0):
            yield f"{now}: {field} fell from {was[field]} to {is_now.get(field, 0)}"
    old, new = was.get("restarts") or {}, is_now.get("restarts") or {}
    for cause in RESTARTS:
        if new.get(cause, 0) < old.get(cause, 0):
            yield f"{now}: restarts.{cause} fell from {old[cause]} to {new.get(cause, 0)}"
    spent = sum(new.get(cause, 0) for cause in RESTARTS)
    if before and spent - sum(old.get(cause, 0) for cause in RESTARTS) > 1:
        yield f"{now}: two restarts were counted at once: {new}"
    if before and is_now.get("attempt", 0) > was.get("attempt", 0) + 1:
        yield f"{now}: attempt leapt from {was.get('attempt', 0)} to {is_now['attempt']}"
    if spent > is_now.get("attempt", 0):
        yield f"{now}: {spent} restarts in {is_now.get('attempt', 0)} new attempts"


def failures_are_counted_before_they_vanish(world, before, now, facts):
    """I6, its second half"""
    if now.kind != "Pod" or now.event != "DELETED" or h.get(before, "status", "phase") != "Failed":
        return
    who = h.identity(now.object)
    job = world.jobs.get(who.job) if who else None
    if job is None or job.uid in world.gone or job.uid in world.terminating:
        return
    if facts.log is not None and now.uid not in facts.deleted:
        return  # someone else did it
    attempt = h.get(job.object, "status", "attempt") or 0
    excused = h.is_finished(job.object) or h.get(job.object, "spec", "runPolicy", "suspend")
    if attempt <= who.attempt and not excused:
        yield f"{now} had failed in attempt {who.attempt} and vanished uncounted"


def an_end_is_an_end(world, before, now, facts):
    """I7"""
    if now.kind != h.JOB_KIND or now.event == "DELETED":
        return
    if h.is_true(now.object, "Succeeded") and h.is_true(now.object, "Failed"):
        yield f"{now} has succeeded and failed"
    for end in ("Succeeded", "Failed"):
        if before and h.is_true(before, end) and not h.is_true(now.object, end):
            yield f"{now} had {end.lower()} and has not any more"
    phases = h.get(before, "status", "phase"), h.get(now.object, "status", "phase")
    if phases[0] in ("Succeeded", "Failed") and phases[0] != phases[1]:
        yield f"{now} went from {phases[0]} to {phases[1]}"


def success_is_earned(world, before, now, facts):
    """I8"""
    if now.kind != h.JOB_KIND or not h.is_true(now.object, "Succeeded"):
        return
    if before and h.is_true(before, "Succeeded"):
        return
    status = now.object["status"]
    attempt, workers = status.get("attempt", 0), status.get("workers", 0)
    policy = h.success_policy(now.object)
    needed = range(1) if policy == "RankZero" else range(workers)
    missing = [i for i in needed
               if 0 not in world.exits.get(h.PodIdentity(now.uid, "worker", i, attempt), ())]
    if missing or not workers:
        yield f"{now} succeeded by {policy} without the success of workers {missing}"


def ranks_fit_the_hostfile(world, before, now, facts):
    """I9"""
    who = h.identity(now.object) if now.kind == "Pod" and is_creation(before, now) else None
    job = world.jobs.get(who.job) if who else None
    if job is None:
        return
    size = world.sizes.get((who.job, who.attempt))
    if who.role == "worker" and (size is None or who.index >= size):
        yield f"{now} has index {who.index} in a gang of {size}"
    for variable, value in (("COXSWAIN_INDEX", who.index), ("COXSWAIN_ATTEMPT", who.attempt)):
        said = environment(now.object).get(variable)
        if said is not None and said != str(value):
            yield f"{now} says {variable}={said}, its label {value}"
    name = hostfile_map(now.object)
    if name is None:
        return
    first = world.config_maps.setdefault((who.job, who.attempt), name)
    if first != name:
        yield f"{now} uses {name}, another pod of its attempt {first}"
    config_map = world.objects.get(("ConfigMap", now.namespace, name))
    if config_map is None:
        yield f"{now} names the ConfigMap {name}, which is not there"
        return
    hosts = (h.get(config_map.object, "data", "hostfile") or "").split("\n")[:-1]
    wanted = [f"{job.name}-worker-{i}." for i in range(size or 0)]
    if len(hosts) != len(wanted) or not all(map(str.startswith, hosts, wanted)):
        yield f"{name} lists {hosts} for {size} workers"


def environment(pod):
    container = h.trainer_of(h.get(pod, "spec", "containers") or [])
    return {variable["name"]: variable.get("value") for variable in container.get("env") or []}


def hostfile_map(pod):
    """The ConfigMap with the hostfile: the one whose name is the job's and a hash."""
    owner = re.escape(h.controller(pod).get("name", ""))
    names = re.findall(r'"configMap": {[^{}]*"name": "([^"]+)"',
                       json.dumps(h.get(pod, "spec", "volumes") or []))
    return next((name for name in names if re.fullmatch(owner + "-[0-9a-f]{8,16}", name)), None)


def gangs_never_mix(world, before, now, facts):
    """I10"""
    who = h.identity(now.object) if now.kind == "Pod" else None
    if who is None or now.event == "DELETED" or h.has_ended(now.object):
        return
    phase = "status", "phase"
    starts = h.get(now.object, *phase) == "Running" and h.get(before, *phase) != "Running"
    if not is_creation(before, now) and not starts:
        return
    others = sorted(name for name, pod in world.live_pods(who.job)
                    if h.identity(pod).attempt != who.attempt)
    if others:
        yield f"{now} of attempt {who.attempt} {'runs' if starts else 'came'} beside {others}"


def attempts_are_budgeted(world, before, now, facts):
    """I11"""
    if now.kind == h.JOB_KIND and now.event != "DELETED":
        limit = h.get(now.object, "spec", "runPolicy", "backoffLimit")
        limit = h.DEFAULT_BACKOFF_LIMIT if limit is None else limit
        spent = h.get(now.object, "status", "restarts", "failure") or 0
        if spent > limit and spent > (h.get(before, "status", "restarts", "failure") or 0):
            yield f"{now} restarted {spent} times with backoffLimit {limit}"
    who = h.identity(now.object) if now.kind == "Pod" and is_creation(before, now) else None
    job = world.jobs.get(who.job) if who else None
    if job and who.attempt > (h.get(job.object, "status", "attempt") or 0):
        yield f"{now} is of attempt {who.attempt}, which its job has not recorded"


def claims_belong_to_users(world, before, now, facts):
    """I15, its first half: the collector would delete what we own."""
    if now.kind == "PersistentVolumeClaim" and h.job_uid(now.object):
        yield f"{now} is owned by a TrainingJob"


def transition_times_mean_transitions(world, before, now, facts):
    """I16"""
    if now.kind != h.JOB_KIND or before is None or now.event == "DELETED":
        return
    for new in h.get(now.object, "status", "conditions") or []:
        old = h.condition(before, new["type"])
        if old is None:
            continue
        times = old.get("lastTransitionTime") or "", new.get("lastTransitionTime") or ""
        if old["status"] == new["status"] and times[0] != times[1]:
            yield f"{now}: {new['type']} stayed {new['status']}, its time moved to {times[1]}"
        elif times[1] < times[0]:
            yield f"{now}: the time of {new['type']} went back to {times[1]}"


LAWS = [("I2", one_live_pod_a_rank), ("I3", no_child_of_an_ended_job), ("I4", no_finalizer),
        ("I6", counts_never_fall), ("I6", failures_are_counted_before_they_vanish),
        ("I7", an_end_is_an_end), ("I8", success_is_earned), ("I9", ranks_fit_the_hostfile),
        ("I10", gangs_never_mix), ("I11", attempts_are_budgeted), ("I15", claims_belong_to_users),
        ("I16", transition_times_mean_transitions)]


def check_history(history, facts, namespace=None):
    violations, world = [], h.World()
    for revision in history.revisions(namespace):
        before = world.apply(revision)
        for name, law in LAWS:
            violations += [Violation(name, message, [revision.version])
                           for message in law(world, before, revision, facts)]
    return violations


# --- laws over the end, the log, and what is printed ---

def check_leftovers(history, namespace=None):
    """I4: after a job is gone, so are its children. For a cluster at rest with a collector."""
    world = history.world(namespace)
    return [Violation("I4", f"{child} is left of a job that is gone", [child.version])
            for child in world.objects.values()
            if h.job_uid(child.object) in world.gone]


def owners_by_uid(history):
    return {revision.uid: h.job_uid(revision.object) for revision in history.revisions()}


def check_writes_to_others(history, log):
    """I5 and I15: what the log's program changed was its own, and it made sure of that."""
    violations, owners = [], owners_by_uid(history)
    for entry in log:
        about = request_log.target(entry)
        if entry.method not in ("PUT", "PATCH", "DELETE") or not request_log.took_effect(entry):
            continue
        what = f"{entry.method} {about.kind} {about.namespace}/{about.name}"
        if about.kind == "PersistentVolumeClaim":
            violations.append(Violation("I15", f"{what}: claims are the users'", []))
        elif about.kind in h.CHILD_KINDS and owners.get(request_log.reply_uid(entry)) is None:
            violations.append(Violation("I5", f"{what}: controlled by no TrainingJob", []))
        if entry.method != "DELETE" or about.kind not in (*h.CHILD_KINDS, h.JOB_KIND):
            continue
        needed = ["uid", "resourceVersion"] if about.kind == h.JOB_KIND else ["uid"]
        given = h.get(entry.json, "preconditions") or {}
        if not about.name or not all(given.get(field) for field in needed):
            violations.append(Violation("I5", f"{what}: without preconditions {needed}", []))
    return violations


def check_quiet(log, since, until):
    """I12: nothing but watches and what the proxy was told to ignore between the two times."""
    return [Violation("I12", f"{entry.method} {entry.path} in a time of rest", [])
            for entry in log if since <= entry.time < until and not entry.is_watch
            and (entry.number is not None or entry.method == "GET")
            and request_log.target(entry).kind not in ("Lease", "Event")]


def check_writes_of_clean_life(history, log, namespace, job, beyond=MOST_WRITES_BEYOND_PODS):
    """I13: a job's clean life costs no more changing requests than its pods and some."""
    uids = {r.uid for r in history.revisions(namespace) if r.kind == h.JOB_KIND and r.name == job}
    children = {r.key for r in history.revisions(namespace)
                if r.uid in uids or h.job_uid(r.object) in uids}
    pods = sum(1 for key in children if key[0] == "Pod")
    mine = [entry for entry in log
            if entry.number is not None and tuple(request_log.target(entry)[:3]) in children]
    if len(mine) <= pods + beyond:
        return []
    return [Violation("I13", f"{namespace}/{job}: {len(mine)} writes for {pods} pods", [])]


def check_secrecy(history, texts, canaries=(), namespace=None):
    """I18: private parts of Secrets, and `canaries`, are in no other object and in no text (a dict:
    what it is -> its text, such as the operator's log and metrics)."""
    revisions = history.revisions(namespace)
    secret = {}  # namespace -> texts
    for revision in revisions:
        if revision.kind == "Secret":
            secret.setdefault(revision.namespace, set()).update(h.secret_texts(revision.object))
    violations = []
    for revision in revisions:
        if revision.kind == "Secret":
            continue
        text = json.dumps(revision.object)
        if any(word in text for word in (*canaries, *secret.get(revision.namespace, ()))):
            violations.append(
                Violation("I18", f"{revision} holds secret bytes", [revision.version]))
    every = [*canaries, *(word for words in secret.values() for word in words)]
    violations += [Violation("I18", f"{name} holds secret bytes", [])
                   for name, text in texts.items() if any(word in text for word in every)]
    return violations


def check(history, log=None, *, namespace=None, clean_jobs=(), quiet=None, texts=None, canaries=(),
          settled=True, in_flight=IN_FLIGHT_SECONDS):
    """All of it. `log` is a FaultProxy's (without it I5, I12, I13 and a part of I15 are not seen);
    clean_jobs: (namespace, name) of those whose life met no fault (I13); quiet: (since, until) of a
    time of rest (I12); settled: the cluster is at rest and its collector has run (I4)."""
    violations = check_history(history, Facts(log, in_flight), namespace)
    if settled:
        violations += check_leftovers(history, namespace)
    if log is not None:
        violations += check_writes_to_others(history, log)
        for job in clean_jobs:
            violations += check_writes_of_clean_life(history, log, *job)
        if quiet:
            violations += check_quiet(log, *quiet)
    return violations + check_secrecy(history, texts or {}, canaries, namespace)
