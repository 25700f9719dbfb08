"""What is measured. Each row takes the bed and one side, and gives figures by name."""
import collections
import statistics
import time

from api import path_of, wait_for
from audit import READS, is_event
from histogram import Histogram
from processes import Foreign

CHURN_PER_SECOND = 5  # gangs of 4: about 200 writes a second, the kubelet's included
SECONDS_TO_WRITE = 1800  # the most that anything may take


def errors_of(writes):
    count = collections.Counter(f"{w.code} {w.verb} {w.resource}" for w in writes if w.code >= 400)
    return dict(count)


def bulk(bed, side, count, workers, with_kubelet):
    """From the first create until all children exist and every job has a condition."""
    namespace, audit = bed.namespace(), bed.audit()
    (bed.kubelet.start if with_kubelet else bed.kubelet.stop)()
    try:
        side.start()
        time.sleep(1)
        idle, cpu = side.rss_mib(), side.cpu_seconds()
        watch = bed.watch_jobs(side, namespace)
        others = Foreign()
        begin, load_seconds = bed.create_jobs(side, namespace, count, workers)
        last_child = bed.wait_for_children(audit, side, namespace, count, workers, SECONDS_TO_WRITE)
        wait_for(f"{side.name}: a condition of every job", 300, lambda: len(watch.seen) >= count)
        watch.close()
        taken = others.share()
        seconds = max([last_child] + [seen[0] for seen in watch.seen.values()]) - begin
        launchers = count if "jobs" in side.children(workers) else 0
        bed.settle(audit, side, (namespace, count * workers + launchers) if with_kubelet else None)
        writes = audit.by(side.user)
        return {
            "jobs": count, "seconds": seconds, "jobs_per_second": count / seconds,
            "creating_seconds": load_seconds,
            "writes_per_job": len(writes) / count,
            "writes_per_job_without_events": sum(not is_event(w) for w in writes) / count,
            "reads_per_job": len([r for r in audit.reads(side.user) if r.begin >= begin]) / count,
            "cpu_ms_per_job": (side.cpu_seconds() - cpu) / count * 1000,
            "rss_idle_mib": idle, "rss_mib": side.rss_mib(),
            "errors": errors_of(writes), "writes": kinds(writes), "others_share": taken}
    finally:
        side.stop()
        audit.close()
        bed.clear([side], [namespace])


def kinds(writes):
    return dict(collections.Counter(f"{w.verb} {w.resource}" for w in writes).most_common())


def clean_life(bed, side, workers):
    """One job from create to Succeeded; what is written after that is counted apart."""
    namespace, audit = bed.namespace(), bed.audit()
    bed.kubelet.start()
    try:
        side.start()
        running = bed.watch_jobs(side, namespace, "Running")
        succeeded = bed.watch_jobs(side, namespace, "Succeeded")
        bed.create_jobs(side, namespace, 1, workers)
        wait_for(f"{side.name}: Running", 120, lambda: running.seen)
        bed.settle(audit, side)
        [launcher] = side.launcher_pods(bed.pods(namespace))
        bed.load.must(*bed.end_pod(launcher, 0))
        wait_for(f"{side.name}: Succeeded", 120, lambda: succeeded.seen)
        bed.settle(audit, side)
        running.close()
        succeeded.close()
        [(moment, _)] = succeeded.seen.values()
        writes = audit.by(side.user)
        life = [w for w in writes if w.begin <= moment]
        return {"life_writes": len(life),
                "life_writes_without_events": sum(not is_event(w) for w in life),
                "life_writes_after": len(writes) - len(life), "life_kinds": kinds(life)}
    finally:
        side.stop()
        audit.close()
        bed.clear([side], [namespace])


def memory_and_quiet(bed, side, count, workers, foreign, quiet_seconds):
    """Many jobs at rest: memory, foreign objects, silence, a restart."""
    namespace, others, audit = bed.namespace(), bed.namespace(), bed.audit()
    bed.kubelet.start()
    try:
        side.start()
        time.sleep(3)
        figures = {"rss_empty_mib": side.rss_mib()}
        pods = count * sum(side.children(workers).get(kind, 0) for kind in ("pods", "jobs"))
        bed.create_jobs(side, namespace, count, workers)
        bed.wait_for_children(audit, side, namespace, count, workers, SECONDS_TO_WRITE)
        bed.settle(audit, side, (namespace, pods), calm=5)
        figures |= {"rss_loaded_mib": side.rss_mib(), "loaded_jobs": count, "loaded_pods": pods}
        figures |= foreign_objects(bed, side, others, foreign)
        figures |= at_rest(bed, side, quiet_seconds)
        return figures
    finally:
        side.stop()
        audit.close()
        bed.clear([side], [namespace, others])


def foreign_objects(bed, side, namespace, count):
    pod = {"spec": {"containers": [{"name": "main", "image": "example.org/foreign:1"}]}}
    config = {"data": {"text": "x" * 1600}}
    figures = {}
    for plural, body in (("pods", pod), ("configmaps", config)):
        before = side.rss_mib()
        bed.load.send_all(
            ("POST", path_of("v1", namespace, plural), {**body, "metadata": {"name": f"foreign-{i}"}})
            for i in range(count))
        time.sleep(3)
        figures[f"rss_growth_by_{count}_foreign_{plural}_mib"] = side.rss_mib() - before
    figures["rss_with_foreign_mib"] = side.rss_mib()
    return figures


def at_rest(bed, side, quiet_seconds):
    """Writes while nothing changes, then a restart: until ready, and its writes."""
    quiet = bed.audit()
    cpu = side.cpu_seconds()
    time.sleep(quiet_seconds)
    figures = {"quiet_seconds": quiet_seconds, "quiet_writes": len(quiet.by(side.user)),
               "quiet_kinds": kinds(quiet.by(side.user)),
               "quiet_cpu_ms_per_s": (side.cpu_seconds() - cpu) / quiet_seconds * 1000}
    quiet.close()
    side.stop()
    restart = bed.audit()
    figures["ready_after_restart_s"] = side.start()
    time.sleep(20)
    figures |= {"restart_writes": len(restart.by(side.user)),
                "restart_kinds": kinds(restart.by(side.user)),
                "rss_after_restart_mib": side.rss_mib()}
    restart.close()
    return figures


def churn(bed, side, count, workers, seconds):
    """Running jobs whose pods fail at CHURN_PER_SECOND: how long a reconcile computes, how long an
    event waits for its first request."""
    namespace, audit = bed.namespace(), bed.audit()
    bed.kubelet.start()
    try:
        side.start()
        bed.create_jobs(side, namespace, count, workers)
        bed.wait_for_children(audit, side, namespace, count, workers, 300)
        bed.settle(audit, side, (namespace, count * workers))
        victims = [pod for pod in bed.pods(namespace)
                   if pod["metadata"]["name"].endswith("-worker-1")]
        before, others = side.metrics(), Foreign()
        fails = [bed.end_pod(victims[i % count], 1, also=(404,)) for i in range(CHURN_PER_SECOND * seconds)]
        failing = bed.audit()
        bed.load.send_all(fails, CHURN_PER_SECOND)
        time.sleep(2)
        after = side.metrics()
        waits = first_requests(failing, side)
        failing.close()
        figures = {"failures": len(fails), "answered_failures": len(waits),
                   "failure_to_request_p50_ms": percentile(waits, 0.5) * 1000,
                   "failure_to_request_p99_ms": percentile(waits, 0.99) * 1000,
                   "others_share": others.share()}
        for name in ("coxswain_reconcile_cpu_seconds", "coxswain_queue_wait_seconds",
                     "coxswain_reconcile_seconds"):
            seen = Histogram(after, name) - Histogram(before, name)
            short = name.removeprefix("coxswain_").removesuffix("_seconds")
            figures |= {f"{short}_p50_ms": seen.quantile(0.5) * 1000,
                        f"{short}_p99_ms": seen.quantile(0.99) * 1000, f"{short}_count": seen.count}
        return figures
    finally:
        side.stop()
        audit.close()
        bed.clear([side], [namespace])


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def first_requests(audit, side):
    """From the answer to a pod's failure to the operator's next request about its job."""
    waits, pending = [], {}
    for write in sorted(audit.update(), key=lambda w: w.begin):
        if write.user == "bench-load" and write.resource == "pods/status" and write.code == 200:
            pending[write.name.rsplit("-worker-", 1)[0]] = write.end
        elif write.user == side.user and write.verb not in READS and not is_event(write):
            job = write.name.rsplit("-worker-", 1)[0]
            if job in pending and write.begin >= pending[job]:
                waits.append(write.begin - pending.pop(job))
    return waits


def recovery(bed, side, count, workers):
    """One worker of a running job fails: from the last old pod gone to the last new one made."""
    namespace, audit = bed.namespace(), bed.audit()
    bed.kubelet.start()
    try:
        side.start()
        bed.create_jobs(side, namespace, count, workers)
        bed.wait_for_children(audit, side, namespace, count, workers, 120)
        bed.settle(audit, side, (namespace, count * workers))
        gaps = [recover_one(bed, side, namespace, f"job-{index}", workers) for index in range(count)]
        return {"recoveries": count, "recovery_median_s": statistics.median(g[0] for g in gaps),
                "recovery_worst_s": max(g[0] for g in gaps),
                "failure_to_replaced_median_s": statistics.median(g[1] for g in gaps)}
    finally:
        side.stop()
        audit.close()
        bed.clear([side], [namespace])


def recover_one(bed, side, namespace, job, workers):
    audit = bed.audit()
    begin = time.time()
    victim = bed.load.must("GET", path_of("v1", namespace, f"pods/{job}-worker-3"))
    bed.load.must(*bed.end_pod(victim, 1))

    def made():
        return [w for w in audit.by(side.user) if w.verb == "create" and w.resource == "pods"
                and w.code == 201 and w.namespace == namespace]
    wait_for(f"{job}: its new pods", 60, lambda: len(made()) >= workers)
    time.sleep(0.2)
    gone = max(w.end for w in audit.update() if w.verb == "delete" and w.resource == "pods"
               and w.code == 200 and w.namespace == namespace)
    last = max(w.end for w in made())
    audit.close()
    return last - gone, last - begin
