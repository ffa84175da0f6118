"""The case `rolling` of tests/bench/agents: two replicas behind the quickstart's balancer are restarted in turn, with the real
agent and under plain requests, none of which may fail."""

import statistics

from platform_under_test import wait_until
from replicas_under_test import Replicas, calm, load_of, restartable
from rolling_restart import rolling_restart

LOAD_BEFORE = 20  # requests, so that clients have their connections before the first restart
FAILURES_TOLD = 5


def measure(home, build, restarts, report, say, cleanup):
    """Adds its rows to the report, also if a replica does not come back. cleanup: the ExitStack that ends the replicas."""
    say("starting two replicas of their own")
    replicas, times, load = Replicas(home, build), [], None
    cleanup.callback(replicas.reset)
    replicas.start()

    def tell(seconds):
        times.append(seconds)
        say(f"restart {len(times)} of {restarts}: {seconds:.1f} s; {load.done} requests, {len(load.failures)} failed, slowest {load.slowest:.2f} s")

    load = load_of(replicas)
    try:
        with load:
            wait_until(lambda: load.done > LOAD_BEFORE, 30, "requests are answered")
            rolling_restart(restartable(replicas), restarts, lambda: calm(replicas), tell=tell)
    finally:
        add_rows(report, times, load)
        for failure in load.failures[:FAILURES_TOLD]:
            say(f"failed request: {failure}")


def add_rows(report, times, load):
    report.add("restarts", len(times), "", 0)
    report.add("requests made", load.done, "", 0)
    report.add("failed requests", len(load.failures), "", 0, 0, 0)
    report.add("slowest request", load.slowest, "s", 2)
    if times:
        report.add("a restart, from SIGTERM until ready again: median", statistics.median(times), "s")
        report.add("a restart, from SIGTERM until ready again: worst", max(times), "s")
