"""Attach to programs under load and leave them, over and over: what scripts/soak runs.

A seed says which plans and requests there are; it is printed, and `--seed S --only NAME --from K --cycles N`
runs cycles again.
See servers.py for the programs and their loads, plans.py for what is asked, cycles.py for what is checked.
"""

import argparse
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import report  # noqa: E402
from cycles import Soak  # noqa: E402
from servers import SERVERS  # noqa: E402


def parse(words):
    parser = argparse.ArgumentParser(
        prog="scripts/soak", description="Attaches to servers under load and leaves them, over and over. Exit status 1 "
        "when a request failed or a process was not what it was.",
        epilog="Attacks on mdl-inject instead: scripts/soak --hostile [ATTACHES [SEED]], scripts/soak --between [N/M]. "
        "It is killed at each call: scripts/soak --kills [N/M], scripts/soak --changes [N/M].")
    parser.add_argument("--cycles", type=int, default=1000, metavar="N", help="for each program (default 1000)")
    parser.add_argument("--only", default=",".join(SERVERS), metavar="NAMES",
                        help=f"some of {','.join(SERVERS)} (default all)")
    parser.add_argument("--seed", default=None, metavar="S", help="what to choose (default: random, and printed)")
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="K",
                        help="the first cycle's number (default 0)")
    parser.add_argument("--minutes", type=float, default=None, metavar="M",
                        help="end in time; a program has an equal part of what is left")
    parser.add_argument("--report", default=None, metavar="FILE", help="write the report there, too")
    parser.add_argument("--keep", action="store_true", help="keep plans and logs, and say where")
    parser.add_argument("--verbose", action="store_true", help="say what each cycle does")
    arguments = parser.parse_args(words)
    arguments.only = arguments.only.split(",")
    unknown = [name for name in arguments.only if name not in SERVERS]
    if unknown:
        parser.error(f"no program is called {unknown[0]}; there are {', '.join(SERVERS)}")
    arguments.seed = arguments.seed or str(random.SystemRandom().randrange(1 << 32))
    return arguments


def soak_one(name, arguments, folder, seconds):
    """All cycles of one program, or as many as `seconds` allow."""
    server = SERVERS[name](folder)
    soak = Soak(server, arguments.seed, server.folder)
    begun = time.monotonic()
    try:
        server.start()
        soak.prepare()
        for number in range(arguments.first, arguments.first + arguments.cycles):
            if seconds and time.monotonic() - begun > seconds:
                break
            before = len(soak.result.failures)
            soak.run(number)
            if arguments.verbose:
                print(f"{time.monotonic() - begun:7.1f} {name} {soak.last}", flush=True)
            for failure in soak.result.failures[before:]:
                print(f"FAILED {name}: {failure}", flush=True)
            if soak.dead or len(soak.result.failures) > 20:
                break
        if not soak.dead:
            soak.finish()
    finally:
        server.end()
    soak.result.seconds = time.monotonic() - begun
    if soak.result.growth("mapped") > server.growth_mib * 1024:
        soak.fail(f"its address space grew by {soak.result.growth('mapped') // 1024} MiB")
    return soak.result


def soak_all(arguments, folder):
    """One program after the other: a result for each."""
    results, begun = [], time.monotonic()
    for index, name in enumerate(arguments.only):
        share = None
        if arguments.minutes:
            share = (begun + arguments.minutes * 60 - time.monotonic()) / (len(arguments.only) - index)
        results.append(soak_one(name, arguments, folder, share))
        done = results[-1]
        print(f"{name}: {done.cycles} cycles in {done.seconds:.0f} s, {done.requests} requests, "
              f"{len(done.failures)} failures", flush=True)
    return results


def main(words):
    arguments = parse(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the servers, too
    print(f"seed {arguments.seed}", flush=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mdl-soak-"))
    try:
        results = soak_all(arguments, folder)
    finally:
        if arguments.keep:
            print(f"plans and logs are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    command = " ".join(["scripts/soak", *(word for word in words if word not in ("--verbose", "--keep"))])
    text = report.text(results, arguments, command)
    if arguments.report:
        pathlib.Path(arguments.report).write_text(text, encoding="utf-8")
    print(text)
    return 1 if any(result.failures for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
