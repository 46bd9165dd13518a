"""Windlass itself: `bench queue` on both databases, and the WAL of a plain enqueue and worker run."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time

from . import install
from .peers import sqlite_file
from .process import TIMEOUT_SECONDS, CouldNotRun, environment, run, run_json

PAYLOAD_BYTES = 200


# In a folder of its own, so that no server recorded in a data folder answers in place of the named database.
def call(binary, *words):
    return run([binary, *words], cwd=install.work_folder())


def call_json(binary, *words):
    return run_json([binary, *words, "--json"], cwd=install.work_folder())


def version(binary):
    return call(binary, "--version").split()[-1]


def bench_queue(binary, url, jobs, workers):
    return call_json(binary, "bench", "queue", "--database", url, "--jobs", jobs, "--workers", workers)


def measure_sqlite(binary, jobs, workers):
    with sqlite_file() as url:
        return bench_queue(binary, url, jobs, workers)


def measure_postgres(binary, server, jobs, workers):
    with server.database("windlass") as database:
        return bench_queue(binary, server.url_of(database), jobs, workers)


def measure_wal(binary, server, jobs):
    """`bench queue` does much more than enqueue and drain, so WAL is measured on the verbs a user would run."""
    with server.database("windlass") as database, bulk_file(jobs) as file:
        url = server.url_of(database)
        call(binary, "migrate", "up", "--database", url)
        meter = server.wal_meter(database)
        call(binary, "enqueue", "--bulk", file, "--database", url)
        with worker(binary, url) as check:
            wait_until_done(binary, url, jobs, check)
            return meter.read(jobs)


def payload(n):
    bare = len(json.dumps({"n": n, "pad": ""}, separators=(",", ":")))
    return {"n": n, "pad": "x" * (PAYLOAD_BYTES - bare)}


@contextlib.contextmanager
def bulk_file(jobs):
    with tempfile.NamedTemporaryFile("w", suffix=".ndjson", dir=install.work_folder()) as file:
        for n in range(jobs):
            file.write(json.dumps({"kind": "NOOP", "payload": payload(n)}, separators=(",", ":")) + "\n")
        file.flush()
        yield file.name


@contextlib.contextmanager
def worker(binary, url, verb="worker"):
    """Yields a check that fails once the worker is gone, so that nobody waits for its jobs; it knows the pid."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [binary, verb, "--database", url],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(), cwd=install.work_folder(),
        )

        def check():
            if process.poll() is not None:
                log.seek(0)
                raise CouldNotRun(f"windlass {verb} ended early:\n    {log.read()[-800:].strip()}")

        check.pid = process.pid
        try:
            yield check
        finally:
            stop(process)


def stop(process):
    if process.poll() is None:
        os.kill(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def completed(binary, url):
    answer = call_json(binary, "jobs", "count", "--state", "completed", "--database", url)
    if "count" not in answer:
        raise CouldNotRun("windlass jobs count printed no count")
    return answer["count"]


def wait_until_done(binary, url, jobs, check):
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while completed(binary, url) < jobs:
        check()
        if time.monotonic() > deadline:
            raise CouldNotRun(f"windlass worker did not finish {jobs} jobs in {TIMEOUT_SECONDS} s")
        time.sleep(0.5)
