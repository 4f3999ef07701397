"""What an attach takes, by how much is measured: functions, keys and threads."""
import json
import pathlib
import re
import statistics
import subprocess
import tempfile

import harness
from measuring import Loops, Measured, attach_ms
from page import fill, table

TITLE = "How it scales"
F = "subject_injected"


class IdlePython:
    """The interpreter of libpython, which has run a line and waits."""

    def __init__(self):
        self.process = subprocess.Popen([harness.PROGRAMS / "python_in_library", "-c", "print(1, flush=True); input()"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid
        self.process.stdout.readline()

    def kill(self):
        harness.put_down(self.process)


def ours_kb(pid):
    """(address space, memory) of what mdl-inject has mapped in a process."""
    size = rss = 0
    ours = False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            ours = "/memfd:mdl-" in line or "[anon:mdl-" in line
        elif ours and line.startswith("Size:"):
            size += int(line.split()[1])
        elif ours and line.startswith("Rss:"):
            rss += int(line.split()[1])
    return size, rss


def attaches(effort, say):
    rows = []
    with tempfile.TemporaryDirectory(prefix="mdl-bench-") as folder:
        loops, python, redis = Loops(), IdlePython(), harness.RedisServer(folder)
        asked = [("bench_loops", loops, [f"count {F}"]),
                 ("redis-server", redis, ["count processCommand"]),
                 ("redis-server", redis, ["calls /Code/redis-server/*"]),
                 ("redis-server", redis, ["time /Code/redis-server/*"]),
                 ("libpython", python, ["calls /Code/libpython3.11.so.1.0/*"]),
                 ("libpython and libc", python, ["calls /Code/libpython3.11.so.1.0/*", "calls /Code/libc.so.6/*"])]
        try:
            for name, program, queries in asked:
                say(f"scale: {name}, {', '.join(queries)}")
                rows.append(attach(name, program.pid, queries, effort.attaches))
        finally:
            loops.program.kill()
            python.kill()
            redis.kill()
    return table(["program", "query", "points", "first line ms", "CPU ms", "pause ms", "leaving ms", "MB there", "MB here"], rows)


def attach(name, pid, queries, runs):
    first, processor = attach_ms(pid, queries, runs)
    pauses, leaving = [], []
    for _ in range(runs):
        with Measured(pid, *queries) as session:
            there, here = ours_kb(pid)[1], session.memory_kb()
        pauses.append(session.pause_ms)
        leaving.append(session.phases["removal"])
    verb = queries[0].split()[0] + (" of all" if "/*" in queries[0] else " of one")
    return [name, verb, f"{session.points:,}", f"{first:,.0f}", f"{processor:,.0f}", f"{statistics.median(pauses):.1f}",
            f"{statistics.median(leaving):,.0f}", f"{there / 1024:.1f}", f"{here / 1024:.0f}"]


def keys(effort, say):
    rows = []
    for count in (1_000, 10_000, 100_000, 1_000_000):
        say(f"scale: {count:,} keys")
        with Loops() as loops, tempfile.TemporaryDirectory(prefix="mdl-bench-") as folder:
            samples = pathlib.Path(folder) / "samples"
            session = Measured(loops.pid, f"count {F} by $arg[0]", options=["-o", samples])
            answer = loops.run("leaf", 1, effort, count, 1)
            there = ours_kb(loops.pid)[1]
            session.end()
            with samples.open() as lines:
                values = [line["value"] for line in map(json.loads, lines) if line["final"]]
        rows.append([f"{count:,}", f"{len(values):,}", f"{answer['more']:.1f}", f"{there / 1024:.1f}",
                     f"{session.leaving_s * 1000:,.0f}", "yes" if sum(values) == answer["calls"] else "no"])
    return table(["keys", "lines", "ns a hit", "MB there", "last sample and leaving, ms", "exact"], rows)


def threads(effort, say):
    rows = []
    for count in (1, 2, 4, 8, 16, 32, 64):
        say(f"scale: {count} threads")
        row = [str(count)]
        exact = True
        for query, distinct in ((f"count {F}", 1), (f"count {F} by $arg[0]", 16), (f"latency {F}", 1)):
            with Loops() as loops:
                session = Measured(loops.pid, query)
                answer = loops.run("leaf", count, effort, distinct)
                session.end()
            row.append(f"{answer['more']:.2f}")
            exact = exact and session.counted() == answer["calls"]
        rows.append([*row, "yes" if exact else "no"])
    return table(["threads", "count, ns", "by key, ns", "latency, ns", "exact"], rows)


def report(effort, say):
    return "\n\n".join([
        fill("""Attaching to a process that does nothing. *First line*: from the start of mdl-inject, and *CPU* all of its processor
             time up to its end (`bench/attach`). *Pause*: for how long threads stood to insert. *Leaving*: the removal.
             *There*: memory in the process; *here*: the most that mdl-inject had. Medians."""),
        attaches(effort, say),
        "A count by key. *There*: memory of the keys in the process. The last sample goes to a file, as JSON.",
        keys(effort, say),
        fill("""Threads that all call the measured function, on the processors that there are; CPU time of a hit. The 16 keys are the
             same for all threads."""),
        threads(effort, say)])
