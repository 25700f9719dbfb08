"""Figures as one line, as JSON, and as a table with goals."""
import statistics


def number(value):
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"
    return str(value)


def brief(figures):
    return ", ".join(f"{name} {number(value)}" for name, value in figures.items() if value != {})


def summary(results):
    """{side: {figure: value}}: medians over the rounds; figures of bulk without a kubelet carry a
    suffix, and where a figure is no number, its last value."""
    sides = {}
    for side, rows in results.items():
        flat = sides[side] = {}
        for row, rounds in rows.items():
            suffix = "_no_kubelet" if row == "bulk-no-kubelet" else ""
            for name in rounds[0]:
                values = [figures[name] for figures in rounds]
                numbers = all(isinstance(value, (int, float)) for value in values)
                prefix = row + "_" if name == "others_share" else ""
                flat[prefix + name + suffix] = statistics.median(values) if numbers else values[-1]
    return sides


# What it says, the figure, the goal as (relation, bound) where bound may be (factor, peer).
AT_MOST, AT_LEAST = "<=", ">="
GOALS = [
    ("jobs/s, tuned peer x 1.5", "jobs_per_second", AT_LEAST, (1.5, "mpi_operator_tuned")),
    ("jobs/s, default peer x 100", "jobs_per_second", AT_LEAST, (100, "mpi_operator_default")),
    ("jobs/s without a kubelet, tuned peer x 1.5", "jobs_per_second_no_kubelet", AT_LEAST,
     (1.5, "mpi_operator_tuned")),
    ("writes/job, bulk", "writes_per_job", None, None),
    ("  without events", "writes_per_job_without_events", None, None),
    ("writes/job, bulk without a kubelet", "writes_per_job_no_kubelet", None, None),
    ("  without events", "writes_per_job_without_events_no_kubelet", None, None),
    ("reads/job, bulk without a kubelet", "reads_per_job_no_kubelet", None, None),
    ("CPU ms/job, half the tuned peer's", "cpu_ms_per_job", AT_MOST, (0.5, "mpi_operator_tuned")),
    ("CPU ms/job without a kubelet", "cpu_ms_per_job_no_kubelet", AT_MOST,
     (0.5, "mpi_operator_tuned")),
    ("writes of a clean life, 8 workers: pods + 6", "life_writes", None, None),
    ("  without events", "life_writes_without_events", AT_MOST, 14),
    ("  after Succeeded", "life_writes_after", None, None),
    ("MiB idle, nothing there", "rss_empty_mib", AT_MOST, 25),
    ("MiB after bulk", "rss_mib", None, None),
    ("MiB with 1,000 jobs x 8", "rss_loaded_mib", AT_MOST, 40),
    ("MiB more by 5,000 foreign pods", "rss_growth_by_5000_foreign_pods_mib", AT_MOST, 1),
    ("MiB more by 5,000 foreign config maps", "rss_growth_by_5000_foreign_configmaps_mib", AT_MOST,
     1),
    ("writes in 60 s at rest", "quiet_writes", AT_MOST, 0),
    ("CPU ms/s at rest", "quiet_cpu_ms_per_s", None, None),
    ("writes after a restart", "restart_writes", AT_MOST, 0),
    ("s from restart to ready", "ready_after_restart_s", AT_MOST, 2),
    ("MiB after a restart", "rss_after_restart_mib", AT_MOST, 40),
    ("ms a reconcile computes, p99 under churn", "reconcile_cpu_p99_ms", AT_MOST, 5),
    ("ms an event waits in the queue, p99", "queue_wait_p99_ms", AT_MOST, 50),
    ("ms from failure to first request, p99", "failure_to_request_p99_ms", AT_MOST, 50),
    ("s from old pods gone to 8 new, worst", "recovery_worst_s", AT_MOST, 1),
]
PEERS = ("mpi_operator_tuned", "mpi_operator_default")


def goal_of(relation, bound, figure, sides):
    """The bound as a number, or None if it is that of a side that was not measured."""
    if relation is None or not isinstance(bound, tuple):
        return bound
    factor, peer = bound
    value = sides.get(peer, {}).get(figure)
    return None if value is None else factor * value


def verdict(relation, value, goal):
    if goal is None or value is None:
        return ""
    return "ok" if (value <= goal if relation == AT_MOST else value >= goal) else "SHORT"


def text(sides):
    lines = [f"{'':<46}{'ours':>10}{'goal':>12}{'':>7}{'peer tuned':>12}{'peer default':>14}"]
    for label, figure, relation, bound in GOALS:
        values = [sides.get(side, {}).get(figure) for side in ("ours",) + PEERS]
        if all(value is None for value in values):
            continue
        goal = goal_of(relation, bound, figure, sides)
        shown = ["-" if value is None else number(value) for value in values]
        wanted = f"{relation} {number(goal)}" if goal is not None else ""
        lines.append(f"{label:<46}{shown[0]:>10}{wanted:>12}{verdict(relation, values[0], goal):>7}"
                     f"{shown[1]:>12}{shown[2]:>14}")
    return "\n".join(lines)
