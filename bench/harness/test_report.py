"""Run with `python3 -m unittest discover -s harness -t .` in bench/."""

import unittest

from . import bars, table
from .report import Report, median

OURS = {
    "enqueue_per_s": 130_000, "drain_per_s": 60_000, "pickup_p95_ms": 5, "wal_bytes_per_job": 1228,
    "enqueue_one_per_s": 30_000, "enqueue_one_p95_ms": 4.1, "limit_drain_per_s": 200_001,
    "pickup_in_p95_ms": 5.1, "between_p95_ms": 25, "soak_completed_per_s": 2_970, "soak_depth_max": 3_001,
    "soak_end_to_end_p99_ms": 100, "held_completed_per_s": 2_849, "held_claim_p99_ms_end": 30,
    "retained_share": 90.5, "idle_queries_per_s": 2.1, "idle_rss_mb": 40,
}
RESULTS = {
    ("windlass", "0.1.0", "postgres"): OURS,
    ("windlass", "0.1.0", "sqlite"): OURS,
    ("graphile-worker", "0.17.3", "postgres"): {"enqueue_per_s": 60_000, "drain_per_s": 23_000},
    ("graphile-worker", "0.18.0", "postgres"): {"enqueue_per_s": 59_000, "drain_per_s": 24_000},
    ("pg-boss", "12.38.0", "postgres"): {"enqueue_per_s": 50_000, "drain_per_s": 50_000},
    ("apalis", "1.0.0", "sqlite"): {"enqueue_per_s": 9_000, "drain_per_s": 900_000},
}


def verdicts(results):
    return {bar.what: bar.verdict() for bar in bars.bars(results)}


class Bars(unittest.TestCase):
    def test_each_bar_is_judged_on_its_own_figures(self):
        self.assertEqual(verdicts(RESULTS), {
            "Postgres burn-down, fastest peer": "MISSED",
            "Postgres burn-down, graphile-worker": "ok",
            "Postgres bulk enqueue, graphile-worker": "ok",
            "Postgres pickup p95": "ok",
            "Postgres pickup p95 after enqueue_in": "MISSED",
            "Postgres pickup p95 between processes": "MISSED",
            "Postgres WAL per job": "ok",
            "SQLite burn-down": "ok",
            "SQLite burn-down, share of the limit": "MISSED",
            "SQLite single durable enqueue": "ok",
            "SQLite single enqueue p95": "MISSED",
            "SQLite pickup p95": "ok",
            "SQLite pickup p95 after enqueue_in": "MISSED",
            "SQLite pickup p95 between processes": "ok",
            "Postgres 3,000/s offered, completed": "ok",
            "Postgres 3,000/s offered, deepest": "MISSED",
            "Postgres 3,000/s offered, end-to-end p99": "ok",
            "the same under a held snapshot": "MISSED",
            "the same, claim p99 at the end": "ok",
            "Postgres burn-down, 1,000,000 finished kept": "ok",
            "idle, queries": "MISSED",
            "idle, resident": "ok",
        })

    def test_a_bar_shows_both_numbers_and_the_peer_it_was_set_by(self):
        bar = bars.bars(RESULTS)[1]
        self.assertEqual(bar.row(), [
            "ok", "Postgres burn-down, graphile-worker", "60,000 /s", ">= 60,000 /s",
            "2.5 x 24,000 (graphile-worker 0.18.0)",
        ])

    def test_a_missing_figure_is_never_ok(self):
        self.assertEqual(set(verdicts({}).values()), {"no figure"})


class Rounds(unittest.TestCase):
    def test_parts_of_one_round_are_one_set_of_figures(self):
        report = Report()
        report.add("a", 0, {"drain_per_s": 10})
        report.add("a", 0, {"wal_bytes_per_job": 5})
        report.add("a", 1, None)
        self.assertEqual(report.rounds, {"a": {0: {"drain_per_s": 10, "wal_bytes_per_job": 5}}})

    def test_medians_are_taken_per_figure_and_words_left_out(self):
        rounds = [{"store": "x", "n": 1}, {"store": "x", "n": 9, "m": 2}, {"store": "x", "n": 3}]
        self.assertEqual(median(rounds), {"n": 3, "m": 2})


class Table(unittest.TestCase):
    def test_words_lean_left_and_figures_right(self):
        self.assertEqual(table.render(["a", "b"], [["xx", "1"], ["y", "22"]]), "a    b\n--  --\nxx   1\ny   22")

    def test_numbers(self):
        self.assertEqual([table.number(n) for n in (None, 3.14159, 12345.6)], ["-", "3.14", "12,346"])


if __name__ == "__main__":
    unittest.main()
