"""Builds Windlass and fetches the peers into bench/.work, by name and pinned version."""

import json
import shutil
import sys
from pathlib import Path

from .process import CouldNotRun, run

BENCH = Path(__file__).resolve().parent.parent
ROOT = BENCH.parent
WORK = BENCH / ".work"
NODE_PEERS = WORK / "peers"


def work_folder():
    WORK.mkdir(exist_ok=True)
    return WORK


def windlass():
    say("building windlass")
    run(["cargo", "build", "--release", "--bin", "windlass"], cwd=ROOT)
    metadata = run(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT)
    binary = Path(json.loads(metadata)["target_directory"]) / "release" / "windlass"
    if not binary.exists():
        raise CouldNotRun("cargo build made no windlass binary")
    return binary


def apalis():
    say("building the apalis harness")
    target = WORK / "target"
    run(["cargo", "build", "--release"], cwd=BENCH / "apalis", env={"CARGO_TARGET_DIR": str(target)})
    return target / "release" / "bench-apalis"


def node_peers():
    """Copies the Node harness beside its packages and returns the Node to run it with."""
    NODE_PEERS.mkdir(parents=True, exist_ok=True)
    wanted = (BENCH / "peers" / "package.json").read_text()
    stamp = NODE_PEERS / "installed.json"
    for source in (BENCH / "peers").iterdir():
        shutil.copy(source, NODE_PEERS)
    if not stamp.exists() or stamp.read_text() != wanted:
        say("installing the Node peers")
        run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=NODE_PEERS)
        stamp.write_text(wanted)
    # pg-boss wants a newer Node than many distributions carry, so one comes as a pinned package.
    pinned = sorted(NODE_PEERS.glob("node_modules/node-*/bin/node"))
    return pinned[0] if pinned else Path("node")


def node_version(package):
    return json.loads((NODE_PEERS / "node_modules" / package / "package.json").read_text())["version"]


def crate_version(crate):
    metadata = run(["cargo", "metadata", "--format-version", "1"], cwd=BENCH / "apalis")
    return next(p["version"] for p in json.loads(metadata)["packages"] if p["name"] == crate)


def say(text):
    print(f"… {text}", file=sys.stderr, flush=True)
