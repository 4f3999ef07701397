"""What the parts of scripts/bench share: a program that is measured, and a session of mdl-inject on it.

The sessions and servers are those of the live tests (tests/process/harness.py).
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "tests" / "process"))

import harness  # noqa: E402

BIN = pathlib.Path(harness.MDL_INJECT).resolve().parent
LONG = 600.0  # seconds, for what may take its time


class Loops:
    """bench_loops, which knows what its calls take."""

    def __init__(self):
        self.program = harness.Program("bench_loops", command=[str(BIN / "bench_loops")])
        self.pid = self.program.pid

    def run(self, shape, threads, effort, keys=1, spread=0):
        return self.program.ask(f"{shape} {threads} {effort.ms} {effort.repetitions} {keys} {spread}", seconds=LONG)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.program.kill()


class Effort:
    """How long everything is measured."""

    def __init__(self, quick):
        self.quick = quick
        self.ms, self.repetitions = (3, 7) if quick else (20, 31)
        self.rounds = 2 if quick else 5
        self.attaches = 2 if quick else 10
        self.requests = 60_000 if quick else 400_000


class Measured:
    """A session of mdl-inject from its start to its end: `with Measured(pid, "count f") as session:`"""

    def __init__(self, pid, *queries, options=()):
        self.session = harness.Session(pid, *queries, "--timing", "--allow-reads", *options, interval="3600")
        self.session.said("inserted")
        found = re.search(r"inserted (\d+) points in ([\d.]+) ms, paused ([\d.]+) ms", self.session.errors)
        self.points, self.pause_ms = int(found[1]), float(found[3])
        time.sleep(0.2)  # until it has written its first sample, which takes processor time

    def memory_kb(self):
        """The most memory that mdl-inject and its other process took so far."""
        return sum(status_kb(pid, "VmHWM") for pid in family(self.session.process.pid))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        if self.session.process.poll() is not None:
            return
        began = time.monotonic()
        self.session.process.send_signal(signal.SIGINT)
        status = self.session.wait(LONG)
        self.leaving_s = time.monotonic() - began
        if status != 0:
            raise RuntimeError(f"mdl-inject ended with {status}: {self.session.errors}")
        self.phases = {name: float(ms) for ms, name in
                       re.findall(r"^timing: +([\d.]+) +[\d.]+  (\w+)$", self.session.errors, re.M)}

    def total(self, metric=None):
        """The sum of the last values of a metric, of the only one when none is named."""
        return sum(line["value"] or 0 for line in self.session.lines if line["final"] and metric in (None, line["metric"]))

    def counted(self):
        """How many hits the last lines tell of: a distribution's count, else the value."""
        return sum(line.get("count", line["value"]) or 0 for line in self.session.lines if line["final"])


def family(pid):
    out = [pid]
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        out += family(int(child))
    return out


def status_kb(pid, field):
    return int(re.search(rf"^{field}:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1])


def compiled(text):
    """The path of a source of MDL, which lives as long as this program."""
    with tempfile.NamedTemporaryFile("w", suffix=".mdl", prefix="mdl-bench-", delete=False) as file:
        file.write(text)
    FILES.append(pathlib.Path(file.name))
    return file.name


FILES = []


def forget_files():
    while FILES:
        FILES.pop().unlink(missing_ok=True)


def attach_ms(pid, queries, runs):
    """Milliseconds to the first line and of processor time of an attach, medians, by bench/attach."""
    command = [SOURCE / "bench" / "attach", str(pid), queries[0], str(runs)]
    if len(queries) > 1:  # its second line is about an attach with what stands behind --
        command += ["--", *queries[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "MDL_INJECT": harness.MDL_INJECT})
    found = re.findall(r"first line .*?median +([\d.]+);.*?processor .*?median +([\d.]+)", done.stdout)
    if not found:
        raise RuntimeError(done.stderr)
    return float(found[-1][0]), float(found[-1][1])
