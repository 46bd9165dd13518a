"""The other systems. Each is a command that knows the phases setup, enqueue, drain and pickup."""

import contextlib
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from . import install
from .process import CouldNotRun, run, run_json


@dataclass
class Peer:
    name: str
    version: str
    store: str
    command: list
    env: dict = field(default_factory=dict)

    def key(self):
        return (self.name, self.version, self.store)

    def phase(self, url, phase, count=0):
        return run_json([*self.command, phase, count], env={**self.env, "DATABASE_URL": url})


def node_family():
    node = install.node_peers()
    runtime = "Node " + run([node, "--version"]).strip().lstrip("v")
    script = install.NODE_PEERS
    graphile = [node, script / "graphile.mjs"]
    packages = ("graphile-worker", "graphile-worker-next")
    peers = [
        Peer("graphile-worker", install.node_version(package), "postgres", graphile, {"GRAPHILE_PACKAGE": package})
        for package in packages
    ]
    peers.append(Peer("pg-boss", install.node_version("pg-boss"), "postgres", [node, script / "pgboss.mjs"]))
    return peers, runtime


def apalis_family():
    binary = install.apalis()
    peers = [
        Peer("apalis", install.crate_version(f"apalis-{store}"), store, [binary, store])
        for store in ("postgres", "sqlite")
    ]
    return peers, run(["rustc", "--version"]).strip()


def measure(peer, server, jobs, samples):
    if peer.store == "sqlite":
        return measure_sqlite(peer, jobs, samples)
    label = "peer_" + peer.name.replace("-", "_")
    with server.database(label) as database:
        url = server.url_of(database)
        peer.phase(url, "setup")
        meter = server.wal_meter(database)
        result = enqueue_and_drain(peer, url, jobs)
        result |= meter.read(jobs)
    # A fresh database again: the dead rows of the drain are not what an idle worker meets.
    with server.database(label) as database:
        url = server.url_of(database)
        peer.phase(url, "setup")
        return result | peer.phase(url, "pickup", samples)


def measure_sqlite(peer, jobs, samples):
    with sqlite_file() as url:
        peer.phase(url, "setup")
        result = enqueue_and_drain(peer, url, jobs)
        return result | peer.phase(url, "pickup", samples)


def enqueue_and_drain(peer, url, jobs):
    result = peer.phase(url, "enqueue", jobs) | peer.phase(url, "drain", jobs)
    if result["ran"] != jobs:
        raise CouldNotRun(f"{result['ran']} handler calls for {jobs} jobs")
    return result


@contextlib.contextmanager
def sqlite_file():
    # Under bench/.work and not in the system's temporary folder, which may be memory.
    with tempfile.TemporaryDirectory(dir=install.work_folder()) as folder:
        yield f"sqlite://{Path(folder) / 'queue.db'}"
