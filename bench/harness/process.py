"""Runs one command of one system and reads the JSON object it prints."""

import json
import os
import subprocess

TIMEOUT_SECONDS = 900


class CouldNotRun(Exception):
    """A system, or a part of the measurement, did not work; the report says so and the rest goes on."""


def environment(extra=None):
    """Without the caller's Windlass settings, which would turn the verbs to another server or database."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    return {**kept, **(extra or {})}


def run(command, *, env=None, cwd=None):
    try:
        done = subprocess.run(
            [str(part) for part in command],
            env=environment(env),
            cwd=cwd,
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
        )
    except FileNotFoundError as error:
        raise CouldNotRun(f"{error.filename} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise CouldNotRun(f"{describe(command)} took over {TIMEOUT_SECONDS} s") from error
    if done.returncode != 0:
        tail = "\n    ".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise CouldNotRun(f"{describe(command)} ended with {done.returncode}:\n    {tail}")
    return done.stdout


def run_json(command, *, env=None, cwd=None):
    text = run(command, env=env, cwd=cwd).strip()
    try:
        # A whole document first, for a tool that prints it over several lines; else the last line.
        return json.loads(text)
    except ValueError:
        pass
    try:
        return json.loads(text.splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise CouldNotRun(f"{describe(command)} printed no JSON object") from error


def describe(command):
    parts = [os.path.basename(str(command[0]))] + [str(part) for part in command[1:]]
    return " ".join(part if "://" not in part else "URL" for part in parts)
