"""Programs of csmith under full instrumentation, their entries compared with what callgrind counts.

    csmith.py --seed 1 --count 100        the seed is printed; --from, --jobs and --failures are those of generated.py

Needs Debian's packages csmith, libcsmith-dev and valgrind. A program that csmith makes has no calls by which it could count
for itself, so valgrind's callgrind says how often each function of the program was entered. Callgrind takes some jumps to a
function's first instruction for calls: so do we. Programs are compiled as generated.py compiles its own.
"""

import argparse
import collections
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from multiprocessing import Pool

import build
import check
import generated

OPTIONS = ("--no-packed-struct", "--max-funcs", "8", "--max-block-depth", "4", "--concise")
OF_THE_START_FILES = ("_start", "_init", "_fini", "deregister_tm_clones", "register_tm_clones", "__do_global_dtors_aux", "frame_dummy")


def functions(folder):
    """The functions of a.out by name, without parts of others."""
    table = subprocess.run(["nm", "--defined-only", "a.out"], cwd=folder, capture_output=True, text=True, check=True).stdout
    names = [line.split()[2] for line in table.splitlines() if line.split()[1] in "tT"]
    once = [name for name, many in collections.Counter(names).items() if many == 1]
    return [name for name in once if name not in OF_THE_START_FILES and not name.startswith("__llvm_retpoline_")
            and not {"cold", "__part"} & set(name.split("."))]


def callgrind(folder):
    """{function: how often it was called}; raises Unusable when the program takes too long for it."""
    try:
        subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=calls.txt", "--dump-instr=no", "--collect-jumps=no", "./a.out"], cwd=folder,
                       capture_output=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        raise check.Unusable("callgrind takes too long") from None
    names, calls, callee = {}, collections.Counter(), ""
    for line in (folder / "calls.txt").read_text().splitlines():
        found = re.match(r"c?fn=\((\d+)\)(?: (.*))?", line)
        if found:
            if found[2]:
                names[found[1]] = found[2].split("'")[0]
            callee = names[found[1]] if line[0] == "c" else callee
        elif line.startswith("calls="):
            calls[callee] += int(line[6:].split()[0])
    return calls


def run_program(folder, choice):
    """Runs the program in `folder` bare and measured; how many functions were compared."""
    try:
        bare = subprocess.run(["./a.out"], cwd=folder, capture_output=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        raise check.Unusable("takes too long") from None
    names = functions(folder)
    truth = callgrind(folder) if names else {}
    numbered = {name: f"m{number}" for number, name in enumerate(names)}
    text = check.metrics([], "files")
    for name, metric in numbered.items():
        text += f'resourceList list_{metric} is procedure {{ items {{ "{name}" }}; flavor {{ unix }}; }}\n'
        text += (check.HEAD + f"foreach f in list_{metric} " + check.EVENTS["entries"] + " " + check.CODE).format(id=metric)
    (folder / "plan.mdl").write_text(text)
    check.compile_plan(folder)
    process = check.Process(folder, "n", run=True)
    try:
        status = process.finish()
        if status or process.output != bare.stdout:
            raise check.Wrong("answer", f"{process.output[-200:]!r}, bare {bare.stdout[-200:]!r}; {process.describe()}")
    finally:
        process.kill()
    sample = check.read_samples(folder / "run.ndjson")[-1]
    for name, metric in numbered.items():
        if sample[metric]["value"] != truth[name] and not sample[metric]["refused"]:
            raise check.Wrong("count", f"{name}: {sample[metric]['value']}, callgrind {truth[name]}; {choice}")
    return len(names)


def run_one(task):
    seed, number, work, failures = task
    check.adopt_orphans()
    chance = random.Random(f"csmith {seed}:{number}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="csmith-", dir=work))
    program = {"language": "c", "units": 1, "functions": [], "main": {"style": "small"}}
    choice = build.choose(chance, program, chance.choice(("gcc", "gcc", "clang")))
    choice.update(profile=False, strip="")
    choice["link"] = {"static": "no-pie", "static-pie": "pie"}.get(choice["link"], choice["link"])
    choice["flags"] = choice["flags"] + ["-I/usr/include/csmith"]
    try:
        source = subprocess.run(["csmith", "--seed", str(chance.randrange(1 << 31)), *OPTIONS], cwd=folder, capture_output=True, text=True, timeout=60,
                                check=True).stdout
        problem = build.build(folder, program, choice, {"program.c": source})
        if problem:
            raise check.Unusable(problem)
        return {"number": number, "compared": run_program(folder, choice)}
    except (check.Unusable, subprocess.TimeoutExpired) as unusable:
        return {"number": number, "unusable": str(unusable)}
    except check.Wrong as wrong:
        kept = failures / f"csmith-{seed}-{number}"
        shutil.rmtree(kept, True)
        shutil.copytree(folder, kept)
        (kept / "failure.txt").write_text(f"{wrong}\n")
        return {"number": number, "wrong": str(wrong), "kept": str(kept)}
    finally:
        shutil.rmtree(folder, True)


def main(words):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(1 << 32)))
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--failures", type=pathlib.Path, default=generated.FAILURES)
    arguments = parser.parse_args(words)
    print(f"csmith: --seed {arguments.seed} --from {arguments.first} --count {arguments.count}", flush=True)
    arguments.failures.mkdir(parents=True, exist_ok=True)
    begun, counted = time.monotonic(), collections.Counter()
    with tempfile.TemporaryDirectory(prefix="mdl-csmith-") as work, Pool(arguments.jobs) as pool:
        tasks = [(arguments.seed, number, work, arguments.failures) for number in range(arguments.first, arguments.first + arguments.count)]
        for result in pool.imap(run_one, tasks):
            kind = next(key for key in ("wrong", "unusable", "compared") if key in result)
            counted[kind] += 1
            counted["functions"] += result.get("compared", 0)
            if kind != "compared":
                print(kind, result["number"], result[kind][:600], result.get("kept", ""), flush=True)
    print(f"{counted['compared']} right, {counted['wrong']} wrong, {counted['unusable']} unusable; {counted['functions']} functions compared; "
          f"{time.monotonic() - begun:.0f} s")
    return 1 if counted["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
