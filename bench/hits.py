"""What a hit takes: every kind of point, value and key, with one thread and with two, against the same calls bare.

Each row is one attach to bench_loops, which alternates between a function that is measured and a copy of it that is not. The
counts that mdl-inject reports are compared with the calls that were made.
"""
import os
import subprocess

import measuring
from measuring import SOURCE, Loops, Measured, compiled
from page import code, fill, table

TITLE = "What a hit takes"
F = "subject_injected"
POINT = """
resourceList places is procedure {{ items {{ "site_injected" }}; flavor {{ unix }}; }}
metric hits {{
  name "hits"; units Hits; aggregateOperator sum; style EventCounter; flavor {{ unix }};
  base is counter {{ foreach f in places foreach p in f.{points} append preInsn p (* hits++; *) }}
}}
"""
NOT_COUNTS = ("sum", "min", "avg", "time", "self", "cpu")  # their values are no numbers of calls

# name, queries or MDL, shape of the calls, keys, whether they are far apart
KINDS = [
    ("entry", [f"count {F}"], "leaf", 1, 0),
    ("return", [f"count {F}.return"], "leaf", 1, 0),
    ("call in a function", POINT.format(points="calls"), "site", 1, 0),
    ("block of a function", POINT.format(points="blocks"), "site", 1, 0),
    ("two metrics at one point", [f"count {F}", f"count {F} as again"], "leaf", 1, 0),
    ("within a function", [f"count {F} within loops_within"], "within", 1, 0),
    ("by thread", [f"count {F} by thread"], "leaf", 1, 0),
    ("sum of an argument", [f"sum $arg[0] at {F}"], "leaf", 16, 0),
    ("least argument", [f"min $arg[0] at {F}"], "leaf", 16, 0),
    ("distribution of an argument", [f"hist $arg[0] at {F}"], "leaf", 16, 0),
    ("latency", [f"latency {F}"], "leaf", 1, 0),
    ("time", [f"time {F}"], "leaf", 1, 0),
    ("time, as the clock has it", [f"time {F}", "--raw-times"], "leaf", 1, 0),
    ("self time", [f"self {F}"], "leaf", 1, 0),
    ("CPU time", [f"cpu {F}"], "leaf", 1, 0),
    ("by key, 16 dense ones", [f"count {F} by $arg[0]"], "leaf", 16, 0),
    ("by key, 16 far apart", [f"count {F} by $arg[0]"], "leaf", 16, 1),
    ("by key, 1,000", [f"count {F} by $arg[0]"], "leaf", 1000, 1),
    ("by key, 1,000,000", [f"count {F} by $arg[0]"], "leaf", 1_000_000, 1),
    ("by two keys", [f"count {F} by $arg[0], caller"], "leaf", 16, 0),
    ("by caller", [f"count {F} by caller"], "leaf", 1, 0),
    ("by text", [f"count {F} by str($arg[1])"], "leaf", 1, 0),
    ("latency by key", [f"latency {F} by $arg[0]"], "leaf", 16, 0),
    ("result by argument", [f"count {F} if $return != 0 by $arg[0]"], "leaf", 16, 1),
]


def row(kind, effort):
    name, what, shape, keys, spread = kind
    queries = [compiled(what)] if isinstance(what, str) else [one for one in what if not one.startswith("--")]
    options = [] if isinstance(what, str) else [one for one in what if one.startswith("--")]
    with Loops() as loops:
        session = Measured(loops.pid, *queries, options=options)
        answers = [loops.run(shape, threads, effort, keys, spread) for threads in (1, 2)]
        session.end()
    one, two = answers
    exact = ""
    if not queries[0].startswith(NOT_COUNTS):
        places = max(1, round(session.counted() / sum(a["calls"] for a in answers)))  # that each call passes
        wrong = session.counted() - places * sum(a["calls"] for a in answers)
        exact = "yes" if wrong == 0 else f"off by {wrong:,}"
    return [name, f"{one['bare']:.2f}", f"{one['more']:.2f}", f"{one['spread']:.2f}", f"{two['more']:.2f}", exact]


def report(effort, say):
    rows = []
    for kind in KINDS:
        say(f"hit: {kind[0]}")
        try:
            rows.append(row(kind, effort))
        except (RuntimeError, AssertionError) as error:
            rows.append([kind[0], "", "", "", "", "could not be measured"])
            say(f"hit: {kind[0]}: {error}")
    say("hit: bench/run")
    calls = ["--calls", "200000", "--repetitions", "7"] if effort.quick else []
    ratios = subprocess.run([SOURCE / "bench" / "run", *calls], capture_output=True, text=True, check=False,
                            env={**os.environ, "MDL_BIN": str(measuring.BIN)})
    return "\n\n".join([
        fill("""Nanoseconds of CPU time that a call takes more when it is measured, medians; *spread* is between the quartiles with
             one thread. A latency, a time and a result by argument have two hits a call. *Exact*: the calls that were reported
             are those that were made."""),
        table(["what is measured", "bare", "1 thread", "spread", "2 threads", "exact"], rows),
        "A counter at an entry against a patch by hand (`bench/run`):",
        code(ratios.stdout + ratios.stderr)])
