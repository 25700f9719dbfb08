"""The lives of jobs that the crash sweep disturbs: scripts of what users and nodes do, each step as
soon as the cluster shows a state. Every state waited for lasts until the script goes on, so that a
crash at any moment leads to the same end."""
import dataclasses
import typing

import history as h
from operator_bed import JOB, merge


@dataclasses.dataclass
class Workload:
    name: str
    steps: list  # of (condition of a World, act with Hands)
    end: typing.Callable  # what must be true of the World at the end of the undisturbed run
    clean: bool = False  # a clean life without deletes: its writes are counted against I13
    most_points: int = 40  # of the long sweep
    is_large: bool = False  # as loads the machine
    unsure: tuple = ()  # fields of the status that depend on what the operator sees in time


def spec(workers, **fields):
    """MPI: worker 0 decides, the others serve it."""
    return merge({
        "image": "example.com/trainer:1", "replicaSpecs": {"Worker": {"replicas": workers}},
        "training": {"model": "mlp", "data": {"format": "mnist"}, "epochs": 1},
        "runPolicy": {"terminationGracePeriodSeconds": 1}}, fields)


def env(workers, **fields):
    """A program of the user's own: all workers must succeed."""
    own = spec(workers, **fields)
    del own["training"]
    own["replicaSpecs"]["Worker"]["template"] = {
        "spec": {"containers": [{"name": "trainer", "command": ["train"]}]}}
    return own


def policy(**fields):
    return {"runPolicy": fields}


def elastic(workers):
    return spec(workers, elasticPolicy={"minReplicas": 1, "maxReplicas": 4})


def size(workers):
    return {"replicaSpecs": {"Worker": {"replicas": workers}}}


# --- states ---

def at_once(world):
    return True


def runs(attempt, workers):
    return lambda world: world.runs(attempt, workers)


def shows(phase, living=0):
    return lambda world: world.phase() == phase and world.living() == living


def has(condition):
    return lambda world: h.is_true(world.job(), condition)


def rests(world):
    return world.phase() == "Suspended" and not world.pods()


def all_gone(world):
    return not world.job() and not world.children()


def end_of(phase, living=0, pods=None, **status):
    """The phase, how many pods live and are there, and what the status says beside."""
    def check(world):
        said = world.status()
        return (shows(phase, living)(world) and pods in (None, len(world.pods()))
                and all(h.get(said, *key.split("__")) == value for key, value in status.items()))
    return check


# --- acts ---

def make(job, life=None):
    return at_once, lambda hands: hands.create(job, life=life)


def worker(index):
    return f"{JOB}-worker-{index}"


def exits(index, code, **options):
    return lambda hands: hands.end_pod(worker(index), code, **options)


def exits_all(workers, code, **options):
    def act(hands):
        for index in range(workers):
            hands.end_pod(worker(index), code, **options)
    return act


def edit(fields):
    return lambda hands: hands.edit(fields)


def delete(propagation="Background"):
    return lambda hands: hands.delete(propagation=propagation)


def both(*acts):
    def act(hands):
        for each in acts:
            each(hands)
    return act


SUSPEND, RESUME = edit(policy(suspend=True)), edit(policy(suspend=False))


def to_success(name, job, steps=(), attempt=0, workers=2, life=None, **status):
    """make, these steps, and success of `attempt`; its first pod stays, as it has ended."""
    return Workload(name, [make(job, life), *steps, (runs(attempt, workers), exits(0, 0))],
                    end_of("Succeeded", pods=1, **status))


def restarts_once(name, act, cause, job=None, life=None):
    return to_success(name, job or spec(2), [(runs(0, 2), act)], attempt=1, life=life,
                      **{f"restarts__{cause}": 1})


# --- the lives ---

def clean_lives():
    yield from (to_success(f"succeeds_{n}", spec(n), workers=n) for n in (1, 2, 8))
    yield dataclasses.replace(to_success("succeeds_64", spec(64), workers=64), most_points=12,
                              is_large=True)
    for n in (1, 4):
        yield Workload(f"all_succeed_{n}", [make(env(n)), (runs(0, n), exits_all(n, 0))],
                       end_of("Succeeded", pods=n), clean=True)
    yield Workload("succeed_one_by_one",
                   [make(env(3)), (runs(0, 3), exits(2, 0)),
                    (lambda world: world.status().get("succeededRanks") == "2", exits(0, 0)),
                    (lambda world: world.status().get("succeededRanks") == "0,2", exits(1, 0))],
                   end_of("Succeeded", pods=3))


def failures():
    yield restarts_once("fails_once", exits(1, 137), "failure")
    yield restarts_once("out_of_memory", exits(0, 137, reason="OOMKilled"), "failure")
    yield restarts_once("serving_pod_ends", exits(1, 0), "failure")
    yield restarts_once("preempted_one", exits(1, 137, disruption="PreemptionByScheduler"),
                        "preemption")
    yield restarts_once("preempted_all", exits_all(2, 137, disruption="PreemptionByScheduler"),
                        "preemption")
    yield restarts_once("node_shut_down", exits(0, 137, disruption="DeletionByTaintManager"),
                        "node")
    deleted = restarts_once("pod_deleted_by_user", lambda hands: hands.delete_pod(worker(1)),
                            "preemption")
    # Terminating, or gone: it can tell what it saw.
    yield dataclasses.replace(deleted, unsure=("lastFailure",))
    yield restarts_once("stuck_pod", exits(1, 1), "failure",
                        spec(2, **policy(stuckTerminationSeconds=1)),
                        life={"attempt": 0, "index": 0, "ignore_term": True})
    yield restarts_once(
        "failure_rule", exits(1, 42), "preemption",
        spec(2, runPolicy={"backoffLimit": 0}, failurePolicy={"rules": [
            {"action": "RestartIgnoringBackoffLimit", "onExitCodes": [42]}]}))
    yield Workload("fails_for_good",
                   [make(spec(2, **policy(backoffLimit=1))), (runs(0, 2), exits(1, 137)),
                    (runs(1, 2), exits(1, 137))],
                   end_of("Failed", restarts__failure=1, attempt=1))
    yield Workload("fails_by_rule",
                   [make(spec(2, failurePolicy={"rules": [
                       {"action": "Fail", "onExitCodes": [3]}]})), (runs(0, 2), exits(1, 3))],
                   end_of("Failed", restarts__failure=0))
    for clean, living, pods in (("Running", 0, 1), ("All", 0, 0), ("None", 1, 2)):
        yield Workload(f"clean_{clean}",
                       [make(env(2, **policy(backoffLimit=0, cleanPodPolicy=clean))),
                        (runs(0, 2), exits(0, 1))],
                       end_of("Failed", living=living, pods=pods))


def suspensions():
    saves = {"stop_ms": 50, "stop_exit": 75}
    yield to_success("suspended_and_resumed", spec(2),
                     [(runs(0, 2), SUSPEND), (rests, RESUME)], attempt=1, life=saves)
    yield to_success("suspended_at_creation", spec(2, **policy(suspend=True)),
                     [(rests, RESUME)], attempt=1)
    yield to_success("changed_while_suspended", spec(2),
                     [(runs(0, 2), SUSPEND),
                      (rests, edit({"image": "example.com/trainer:2", **size(3)})),
                      (lambda world: world.status().get("observedGeneration") == 3, RESUME)],
                     attempt=1, workers=3)
    yield Workload("suspended_while_queued",
                   [make(spec(2), {"index": 1, "unschedulable": "no node is free"}),
                    (lambda world: world.living() == 2 and world.phase() == "Queued", SUSPEND)],
                   end_of("Suspended", pods=0))
    yield Workload("deleted_while_suspended",
                   [make(spec(2)), (runs(0, 2), SUSPEND), (rests, delete())], all_gone)


def users():
    yield Workload("deleted", [make(spec(2)), (runs(0, 2), delete())], all_gone)
    yield Workload("deleted_in_the_foreground", [make(spec(2)), (runs(0, 2), delete("Foreground"))],
                   all_gone)
    yield to_success("made_again", spec(2),
                     [(runs(0, 2), both(delete(), lambda hands: hands.create(spec(1))))],
                     workers=1)
    yield to_success("grows", elastic(2), [(runs(0, 2), edit(size(3)))], attempt=1, workers=3)
    yield to_success("shrinks", elastic(3), [(runs(0, 3), edit(size(1)))], attempt=1, workers=1)
    yield to_success("limits_changed", spec(2, **policy(backoffLimit=0)),
                     [(runs(0, 2), edit(policy(backoffLimit=2))),
                      (lambda world: world.status().get("observedGeneration") == 2, exits(1, 1))],
                     attempt=1, restarts__failure=1)
    yield to_success("invalid_and_corrected", spec(2, training={"epoch": 7}),
                     [(has("Invalid"), edit({"training": {"epoch": None}}))])
    yield Workload("time_to_live",
                   [make(spec(2, **policy(ttlSecondsAfterFinished=1))), (runs(0, 2), exits(0, 0))],
                   all_gone)


def deadlines():
    yield Workload("runs_too_long", [make(spec(2, **policy(activeDeadlineSeconds=1)))],
                   end_of("Failed", living=0))
    yield Workload("never_starts",
                   [make(spec(2, **policy(startupDeadlineSeconds=1)),
                         {"index": 1, "waiting": "ImagePullBackOff"})],
                   end_of("Failed", living=0))


def workloads():
    return [*clean_lives(), *failures(), *suspensions(), *users(), *deadlines()]
