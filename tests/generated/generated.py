"""Generated programs under full instrumentation: grown from a seed, compiled in a way of its choice, run bare and measured.

    generated.py --seed 1 --count 300                  what the tests do; the seed is printed
    generated.py --count 50                            a fresh seed
    generated.py --seed 1 --from 17 --count 1          one of them again
    generated.py --replay FOLDER                       a failure that was kept

A failure is kept in a folder of its own: the program as data and as source, how it was built, what was run and what came out.
It is made smaller first (shrink.py), as long as it fails in the same way. The last line says how many ran and failed, as
Python's unittest does. Exit status 1 when one failed. See docs/generated.md.
"""

import argparse
import collections
import itertools
import json
import multiprocessing
import pathlib
import random
import shutil
import sys
import tempfile
import time
import traceback

import build
import check
import program as programs
import shrink
from grow import grow
from source import sources

FAILURES = pathlib.Path(tempfile.gettempdir()) / "mdl-generated"
WAYS = (("started", "left"), ("paused", "running"))


def case(seed, number, everything):
    """Program `number` of a seed: {"program", "choice", "settings"}."""
    program, compiler = grow(f"{seed}:{number}")
    chance = random.Random(f"how {seed}:{number}")
    choice = build.choose(chance, program, compiler)
    ways = [chance.choice(pair) for pair in WAYS]
    settings = {"ways": ways, "everything": chance.random() < everything}
    return {"name": f"{seed}-{number}", "program": program, "choice": choice, "settings": settings}


def attempt(one, folder):
    """Builds and runs a case in an empty folder; its tally. Raises check.Wrong or check.Unusable."""
    problem = build.build(folder, one["program"], one["choice"], sources(one["program"]))
    if problem:
        raise check.Unusable(problem)
    return check.Check(folder, one["program"], one["choice"], one["settings"]).run()


def outcome(one, work):
    """{"wrong", "unusable", "tally"} of a case, which is run in a fresh folder below `work`."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="case-", dir=work))
    try:
        return {"tally": attempt(one, folder)}
    except check.Unusable as unusable:
        return {"unusable": str(unusable)}
    except check.Wrong as wrong:
        return {"wrong": wrong.what, "detail": str(wrong)}
    except Exception:  # pylint: disable=broad-except
        return {"wrong": "the driver", "detail": traceback.format_exc()}
    finally:
        shutil.rmtree(folder, True)


def keep(one, result, failures):
    """Writes a failing case with all that is needed to repeat it; the folder."""
    folder = failures / one["name"]
    shutil.rmtree(folder, True)
    folder.mkdir(parents=True)
    programs.save(one, folder / "case.json")
    (folder / "failure.txt").write_text(f"{result['detail']}\n")
    again = {}
    try:
        attempt(one, folder)
    except (check.Wrong, check.Unusable) as wrong:
        again = {"detail": str(wrong)}
    (folder / "failure.txt").write_text(f"{result['detail']}\nagain: {again.get('detail', 'it did not fail')}\n")
    return folder


def run_one(task):
    """A worker's task: a case, and, when it fails, a smaller one that is kept."""
    seed, number, arguments = task
    check.adopt_orphans()
    one = case(seed, number, arguments["everything"])
    result = outcome(one, arguments["work"])
    if "wrong" in result:
        if arguments["shrink"]:
            small = shrink.shrink(one, lambda each: outcome(each, arguments["work"]).get("wrong") == result["wrong"], arguments["shrink"])
            result["kept"] = str(keep(small, result, arguments["failures"]))
            programs.save(one, pathlib.Path(result["kept"]) / "whole.json")
        else:
            result["kept"] = str(keep(one, result, arguments["failures"]))
    result["number"], result["how"] = number, [one["program"]["language"], one["choice"]["compiler"], one["choice"]["level"], one["choice"]["link"]]
    return result


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", help="what to grow (default: random, and printed)")
    parser.add_argument("--count", type=int, default=100, help="how many programs (default 100)")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first one's number (default 0)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default 2)")
    parser.add_argument("--minutes", type=float, help="begin none after so many minutes")
    parser.add_argument("--everything", type=float, default=0.01, help="the part in which all libraries are measured, too (default 0.01)")
    parser.add_argument("--shrink", type=float, default=60, help="seconds to make a failure smaller (default 60; 0: not at all)")
    parser.add_argument("--failures", type=pathlib.Path, default=FAILURES, help="where failures are kept")
    parser.add_argument("--replay", type=pathlib.Path, help="run a kept failure again")
    parser.add_argument("--report", type=pathlib.Path, help="write the figures there, as JSON")
    arguments = parser.parse_args(words)
    arguments.seed = arguments.seed or str(random.SystemRandom().randrange(1 << 32))
    return arguments


def replay(folder):
    one = programs.load(folder / "case.json")
    check.adopt_orphans()
    work = pathlib.Path(tempfile.mkdtemp(prefix="mdl-generated-"))
    result = outcome(one, work)
    shutil.rmtree(work, True)
    print(json.dumps(result, indent=1))
    return 1 if "wrong" in result else 0


class Figures:
    """What all programs add up to."""

    def __init__(self):
        self.ran, self.unusable, self.failed = 0, [], []
        self.tally, self.how = collections.Counter(), collections.Counter()

    def add(self, result):
        self.ran += 1
        for word in result["how"]:
            self.how[word] += 1
        if "unusable" in result:
            self.unusable.append(result["number"])
            print(f"unusable {result['number']}: {result['unusable'][:300]}", flush=True)
        elif "wrong" in result:
            self.failed.append(result["number"])
            print(f"FAILED {result['number']} ({' '.join(result['how'])}): {result['detail'][:600]}\n  kept in {result['kept']}", flush=True)
        else:
            self.tally.update(result["tally"])

    def as_data(self):
        return {"ran": self.ran, "unusable": self.unusable, "failed": self.failed, "tally": dict(self.tally), "how": dict(self.how)}


def main(words):
    arguments = parse(words)
    if arguments.replay:
        return replay(arguments.replay)
    print(f"generated: --seed {arguments.seed} --from {arguments.first} --count {arguments.count}", flush=True)
    arguments.failures.mkdir(parents=True, exist_ok=True)
    begun, figures = time.monotonic(), Figures()
    work = pathlib.Path(tempfile.mkdtemp(prefix="mdl-generated-"))
    shared = {"everything": arguments.everything, "shrink": arguments.shrink, "failures": arguments.failures, "work": work}
    tasks = ((arguments.seed, number, shared) for number in range(arguments.first, arguments.first + arguments.count))
    if arguments.minutes:
        tasks = itertools.takewhile(lambda _: time.monotonic() - begun < 60 * arguments.minutes, tasks)
    try:
        with multiprocessing.Pool(arguments.jobs) as pool:
            pending = collections.deque()
            for task in tasks:
                pending.append(pool.apply_async(run_one, (task,)))
                while len(pending) > 2 * arguments.jobs:
                    figures.add(pending.popleft().get())
            while pending:
                figures.add(pending.popleft().get())
    finally:
        shutil.rmtree(work, True)
    if arguments.report:
        arguments.report.write_text(json.dumps(figures.as_data()) + "\n")
    print(json.dumps(figures.as_data()))
    # As unittest says it: scripts/test-summary counts these.
    print(f"\nRan {figures.ran} tests in {time.monotonic() - begun:.1f}s\n")
    too_many = len(figures.unusable) > max(3, figures.ran // 20)
    print(f"FAILED (failures={len(figures.failed)})" if figures.failed else "FAILED (errors=1): too many unusable programs" if too_many else "OK")
    return 1 if figures.failed or too_many else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
