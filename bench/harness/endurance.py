"""What a burn-down does not show: pickup across processes, a steady rate, old jobs in the tables, an idle process."""

import statistics
import time
from datetime import datetime

from . import windlass
from .peers import sqlite_file

RATE = 3_000
IDLE_SECONDS = 30
# A session of Postgres tells what it did up to ten seconds later.
SETTLE_SECONDS = 15
BETWEEN_SAMPLES = 150
RETAINED = 1_000_000
RETAINED_RUNS = 3


def pickup(binary, url):
    """In one process: after a plain enqueue and after a commit that carries one."""
    figures = windlass.call_json(binary, "bench", "pickup", "--database", url)
    return {"pickup_in_p50_ms": figures["enqueue_in_p50_ms"], "pickup_in_p95_ms": figures["enqueue_in_p95_ms"]}


def between(binary, url):
    """A worker in one process, each job from a new one. Both times are the database's."""
    windlass.call(binary, "migrate", "up", "--database", url)
    with windlass.worker(binary, url) as check:
        windlass.call(binary, "enqueue", "NOOP", "--wait", "--database", url)
        for _ in range(BETWEEN_SAMPLES):
            check()
            windlass.call(binary, "enqueue", "NOOP", "--tag", "between", "--database", url)
        windlass.wait_until_done(binary, url, BETWEEN_SAMPLES + 1, check)
        listed = windlass.call_json(
            binary, "jobs", "list", "--tag", "between", "--limit", BETWEEN_SAMPLES, "--database", url)
    took = [1e3 * (moment(job["started_at"]) - moment(job["created_at"])) for job in listed["items"]]
    cuts = statistics.quantiles(took, n=20, method="inclusive")
    return {"between_p50_ms": cuts[9], "between_p95_ms": cuts[18]}


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def measure_pickup_sqlite(binary):
    with sqlite_file() as url:
        figures = pickup(binary, url)
    with sqlite_file() as url:
        return figures | between(binary, url)


def measure_pickup_postgres(binary, server):
    with server.database("windlass") as database:
        return pickup(binary, server.url_of(database)) | between(binary, server.url_of(database))


def measure_soak(binary, server, minutes, held):
    words = ["bench", "soak", "--rate", RATE, "--for", f"{minutes}m"] + (["--hold-snapshot"] if held else [])
    with server.database("windlass") as database:
        figures = windlass.call_json(binary, *words, "--database", server.url_of(database))
    prefix = "held" if held else "soak"
    names = ("completed_per_s", "depth_max", "depth_end", "end_to_end_p99_ms", "claim_p99_ms_end")
    return {f"{prefix}_{name}": figures[name] for name in names}


def measure_retained(binary, server, jobs, workers):
    """Of the run whose share is the median: a machine may be half as fast a minute later. The burn-downs are longer than
    elsewhere for the same reason."""
    runs = []
    for _ in range(RETAINED_RUNS):
        with server.database("windlass") as database:
            figures = windlass.call_json(
                binary, "bench", "queue", "--jobs", 3 * jobs, "--workers", workers, "--retain", RETAINED,
                "--database", server.url_of(database))
        runs.append((figures["drain_per_s"] / figures["empty_drain_per_s"], figures))
    share, figures = sorted(runs, key=lambda run: run[0])[RETAINED_RUNS // 2]
    return {
        "retained_share": 100 * share,
        "retained_drain_per_s": figures["drain_per_s"],
        "empty_drain_per_s": figures["empty_drain_per_s"],
    }


def measure_idle(binary, server):
    """Transactions of `serve` with everything on and nothing to do; our own look at the counter is one of them."""
    with server.database("windlass") as database:
        url = server.url_of(database)
        windlass.call(binary, "migrate", "up", "--database", url)
        with windlass.worker(binary, url, verb="serve") as check:
            time.sleep(SETTLE_SECONDS)
            before = server.commits(database)
            time.sleep(IDLE_SECONDS)
            check()
            queries = (server.commits(database) - before) / IDLE_SECONDS
            return {"idle_queries_per_s": queries, "idle_rss_mb": resident_mb(check.pid)}


def resident_mb(pid):
    with open(f"/proc/{pid}/status") as status:
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024
