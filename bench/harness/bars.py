"""The bars the project set itself. Each compares two numbers of one run and shows both."""

from dataclasses import dataclass

from .endurance import RATE
from .table import number


@dataclass
class Bar:
    what: str
    value: float | None
    needed: float | None
    at_least: bool
    unit: str
    how: str = ""

    def verdict(self):
        if self.value is None or self.needed is None:
            return "no figure"
        met = self.value >= self.needed if self.at_least else self.value <= self.needed
        return "ok" if met else "MISSED"

    def row(self):
        sign = ">=" if self.at_least else "<="
        needed = f"{sign} {number(self.needed)} {self.unit}"
        return [self.verdict(), self.what, f"{number(self.value)} {self.unit}", needed, self.how]

    def as_json(self):
        return {"bar": self.what, "value": self.value, "needed": self.needed, "at_least": self.at_least,
                "unit": self.unit, "how": self.how, "verdict": self.verdict()}


def bars(results):
    """`results` maps (system, version, store) to figures."""
    ours = {store: figures for (name, _, store), figures in results.items() if name == "windlass"}
    postgres, sqlite = ours.get("postgres", {}), ours.get("sqlite", {})
    peers = {key: figures for key, figures in results.items() if key[0] != "windlass" and key[2] == "postgres"}
    graphile = {key: figures for key, figures in peers.items() if key[0] == "graphile-worker"}
    return [
        against("Postgres burn-down, fastest peer", postgres, peers, "drain_per_s", 1.3),
        against("Postgres burn-down, graphile-worker", postgres, graphile, "drain_per_s", 2.5),
        against("Postgres bulk enqueue, graphile-worker", postgres, graphile, "enqueue_per_s", 2.0),
        Bar("Postgres pickup p95", postgres.get("pickup_p95_ms"), 5, False, "ms"),
        Bar("Postgres pickup p95 after enqueue_in", postgres.get("pickup_in_p95_ms"), 5, False, "ms"),
        Bar("Postgres pickup p95 between processes", postgres.get("between_p95_ms"), 5, False, "ms"),
        Bar("Postgres WAL per job", postgres.get("wal_bytes_per_job"), 1.2 * 1024, False, "B", "1.2 KiB"),
        Bar("SQLite burn-down", sqlite.get("drain_per_s"), 40_000, True, "/s"),
        share_of_limit(sqlite),
        Bar("SQLite single durable enqueue", sqlite.get("enqueue_one_per_s"), 30_000, True, "/s"),
        Bar("SQLite single enqueue p95", sqlite.get("enqueue_one_p95_ms"), 4, False, "ms"),
        Bar("SQLite pickup p95", sqlite.get("pickup_p95_ms"), 5, False, "ms"),
        Bar("SQLite pickup p95 after enqueue_in", sqlite.get("pickup_in_p95_ms"), 5, False, "ms"),
        Bar("SQLite pickup p95 between processes", sqlite.get("between_p95_ms"), 25, False, "ms"),
        *endurance(postgres),
    ]


def endurance(postgres):
    kept, empty = postgres.get("retained_drain_per_s"), postgres.get("empty_drain_per_s")
    return [
        Bar("Postgres 3,000/s offered, completed", postgres.get("soak_completed_per_s"), 0.99 * RATE, True, "/s"),
        Bar("Postgres 3,000/s offered, deepest", postgres.get("soak_depth_max"), RATE, False, "jobs", "a second's worth"),
        Bar("Postgres 3,000/s offered, end-to-end p99", postgres.get("soak_end_to_end_p99_ms"), 100, False, "ms"),
        Bar("the same under a held snapshot", postgres.get("held_completed_per_s"), 0.95 * RATE, True, "/s"),
        Bar("the same, claim p99 at the end", postgres.get("held_claim_p99_ms_end"), 30, False, "ms"),
        Bar("Postgres burn-down, 1,000,000 finished kept", postgres.get("retained_share"), 90, True, "%",
            f"{number(kept)} of {number(empty)} on empty tables"),
        Bar("idle, queries", postgres.get("idle_queries_per_s"), 2, False, "/s"),
        Bar("idle, resident", postgres.get("idle_rss_mb"), 40, False, "MB"),
    ]


def against(what, ours, peers, figure, factor):
    best = max((key for key in peers if peers[key].get(figure)), key=lambda key: peers[key][figure], default=None)
    if best is None:
        return Bar(what, ours.get(figure), None, True, "/s", "no peer ran")
    theirs = peers[best][figure]
    how = f"{factor} x {number(theirs)} ({best[0]} {best[1]})"
    return Bar(what, ours.get(figure), factor * theirs, True, "/s", how)


def share_of_limit(sqlite):
    limit = sqlite.get("limit_drain_per_s")
    needed = 0.3 * limit if limit else None
    return Bar("SQLite burn-down, share of the limit", sqlite.get("drain_per_s"), needed, True, "/s",
               f"30 % of {number(limit)}")
