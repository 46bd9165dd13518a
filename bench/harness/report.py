"""Collects the figures of all rounds and prints them."""

import json
import statistics

from . import table
from .install import say
from .process import CouldNotRun

FIGURES = [
    ("enqueue/s", "enqueue_per_s"), ("drain/s", "drain_per_s"), ("pickup p50 ms", "pickup_p50_ms"),
    ("pickup p95 ms", "pickup_p95_ms"), ("WAL B/job", "wal_bytes_per_job"),
]
OWN_FIGURES = [
    ("single enqueue/s", "enqueue_one_per_s"), ("p50 ms", "enqueue_one_p50_ms"), ("p95 ms", "enqueue_one_p95_ms"),
    ("mixed/s", "mixed_per_s"), ("limit enqueue/s", "limit_enqueue_per_s"), ("limit drain/s", "limit_drain_per_s"),
    ("RSS MB", "rss_mb"),
]
# Above this the WAL and the speed of a run are partly somebody else's.
COMMITS_ELSEWHERE = 100


class Report:
    def __init__(self):
        self.rounds = {}
        self.failures = []
        self.runtimes = []

    def attempt(self, what, action):
        """One system that does not work must not cost the others their row."""
        try:
            return action()
        except CouldNotRun as error:
            self.failures.append(f"{what}: {error}")
            say(f"{what} could not run")
            return None

    def add(self, key, turn, figures):
        """A system may be measured in several parts, which together make its figures of that round."""
        if figures:
            self.rounds.setdefault(key, {}).setdefault(turn, {}).update(figures)

    def medians(self):
        return {key: median(list(turns.values())) for key, turns in self.rounds.items()}


def median(rounds):
    names = {name for figures in rounds for name, value in figures.items() if isinstance(value, (int, float))}
    return {name: statistics.median(f[name] for f in rounds if name in f) for name in sorted(names)}


def print_conditions(facts):
    runtimes = ", ".join([f"PostgreSQL {facts['postgres']}", *facts["runtimes"]])
    print(f"{facts['date']}, {facts['cores']} cores, load {facts['load_before']} before the start, {runtimes}")
    print(f"{facts['jobs']:,} jobs, {facts['repeat']} round(s), no-op handlers, 200-byte payloads")
    if facts["postgres_not_stock"]:
        print("Postgres settings that are not stock: " + ", ".join(facts["postgres_not_stock"]))


def print_tables(results):
    rows = [[*key, *(table.number(f.get(name)) for _, name in FIGURES)] for key, f in results.items()]
    print("\n" + table.render(["system", "version", "store", *(head for head, _ in FIGURES)], rows, left=3))
    own = {key: f for key, f in results.items() if key[0] == "windlass"}
    if own:
        rows = [[key[2], *(table.number(f.get(name)) for _, name in OWN_FIGURES)] for key, f in own.items()]
        print("\n" + table.render(["windlass on", *(head for head, _ in OWN_FIGURES)], rows))


def print_bars(checks):
    head = ["verdict", "bar", "measured", "needed", "from"]
    print("\n" + table.render(head, [bar.row() for bar in checks], left=len(head)))


def print_doubts(results, failures):
    for key, figures in results.items():
        strangers = figures.get("commits_elsewhere", 0)
        if strangers > COMMITS_ELSEWHERE:
            print(f"\ndoubt: {strangers:,.0f} commits in other databases while {' '.join(key)} ran; "
                  "its WAL and speed are not only its own")
    for failure in failures:
        print(f"\ncould not run: {failure}")


def write_json(path, facts, report, results, checks):
    systems = [
        {"system": key[0], "version": key[1], "store": key[2], **figures, "rounds": list(report.rounds[key].values())}
        for key, figures in results.items()
    ]
    document = {
        "conditions": facts,
        "systems": systems,
        "bars": [bar.as_json() for bar in checks],
        "failures": report.failures,
    }
    with open(path, "w") as file:
        json.dump(document, file, indent=2)
        file.write("\n")
