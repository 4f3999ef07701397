#!/usr/bin/env python3
"""Golden tests: one file per case holds the command, the input and the expected output.

    run.py --mdlc PATH [--update] [FILTER...]    run the cases (whose path contains a FILTER)
    run.py --codes diagnostics.def               every diagnostic code has a case

A case is a file *.test of sections; a section begins with a line `== NAME [ARGUMENT]`:

    == run --check --std=classic      arguments of mdlc; the input files' names come first
    == input [NAME]                   an input file, input.mdl by default; one or several
    == queries                        in their place or besides: a query a line
    == exit 1                         the exit status; 0 when left out
    == stdout, == stderr              what is printed; nothing when left out

In an input, `@@repeat N TEXT` is TEXT N times, for input too long to store, and `@@bytes TEXT` is
TEXT with Python's backslash escapes, for bytes that are not text. --update writes the exit
status and the output sections as they are now; read the difference before committing it.
"""
import argparse
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TIMEOUT_S = 60


class Case:
    def __init__(self, path):
        self.path = path
        self.name = str(path.relative_to(HERE))
        self.head = []  # lines before the outputs, kept as they are
        self.args = []
        self.inputs = {}
        self.queries = []
        self.exit = 0
        self.out = {"stdout": "", "stderr": ""}
        lines, sink = None, None
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            section = re.match(r"== (run|input|queries|exit|stdout|stderr)\b *(.*)\n?$", line)
            if section:
                sink, argument = section.groups()
                if sink == "run":
                    self.args = argument.split()
                elif sink == "exit":
                    self.exit = int(argument)
                elif sink == "input":
                    lines = self.inputs.setdefault(argument or "input.mdl", [])
            elif sink == "input":
                lines.append(line)
            elif sink == "queries":
                self.queries.append(line.rstrip("\n"))
            elif sink in self.out:
                self.out[sink] += line
            if sink is None or sink in ("run", "input", "queries"):
                self.head.append(line)
        if not self.inputs and not self.queries:
            sys.exit(f"{self.name}: there is no `== input`")

    @staticmethod
    def expand(lines):
        result = b""
        for line in lines:
            repeat = re.match(r"@@repeat (\d+) (.*)\n$", line)
            escaped = re.match(r"@@bytes (.*)\n$", line)
            if repeat:
                result += repeat.group(2).encode() * int(repeat.group(1)) + b"\n"
            elif escaped:
                result += escaped.group(1).encode().decode("unicode_escape").encode("latin-1") + b"\n"
            else:
                result += line.encode()
        return result

    def run(self, mdlc):
        """The exit status and outputs of mdlc, run where only the inputs are."""
        with tempfile.TemporaryDirectory() as folder:
            for name, lines in self.inputs.items():
                (pathlib.Path(folder) / name).write_bytes(self.expand(lines))
            done = subprocess.run([mdlc, *self.inputs, *self.args, *(f"--query={query}" for query in self.queries)], cwd=folder, timeout=TIMEOUT_S,
                                  stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return done.returncode, {"stdout": done.stdout.decode("utf-8", "backslashreplace"),
                                 "stderr": done.stderr.decode("utf-8", "backslashreplace")}

    def update(self, status, out):
        text = "".join(self.head)
        if not text.endswith("\n"):
            text += "\n"
        if status != 0:
            text += f"== exit {status}\n"
        for name, content in out.items():
            if content:
                text += f"== {name}\n{content}"
        self.path.write_text(text, encoding="utf-8")


def difference(expected, actual, label):
    return "".join(difflib.unified_diff(expected.splitlines(keepends=True), actual.splitlines(keepends=True),
                                        f"expected {label}", f"actual {label}"))


def run_cases(cases, mdlc, update):
    failed = 0
    for case in cases:
        status, out = case.run(mdlc)
        if update:
            if status < 0 or status > 2:
                sys.exit(f"{case.name}: mdlc ended with {status}; not written")
            case.update(status, out)
            continue
        wrong = "" if status == case.exit else f"exit status {status}, expected {case.exit}\n"
        for name in out:
            wrong += difference(case.out[name], out[name], name)
        if wrong:
            failed += 1
            print(f"FAILED {case.name}\n{wrong}")
    print(f"{len(cases) - failed} of {len(cases)} golden cases {'written' if update else 'passed'}")
    return 1 if failed or not cases else 0


def check_codes(cases, table):
    """Every code of the table is in the expected output of a case, and no other code is."""
    codes = set(re.findall(r'^MDL_DIAGNOSTIC\(\w+, "(\w+)"', pathlib.Path(table).read_text(encoding="utf-8"), re.M))
    seen = set()
    for case in cases:
        seen |= set(re.findall(r"\[([EW]\d{4})(?:, -W[a-z=-]+)?\]$", case.out["stderr"], re.M))
    for code in sorted(codes - seen):
        print(f"{code} has no golden case")
    for code in sorted(seen - codes):
        print(f"{code} is expected by a case but not in the table")
    print(f"{len(codes & seen)} of {len(codes)} diagnostic codes have golden cases")
    return 0 if codes == seen and codes else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mdlc")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--codes", metavar="DEF")
    parser.add_argument("filter", nargs="*")
    options = parser.parse_args()
    cases = [Case(path) for path in sorted(HERE.rglob("*.test"))]
    cases = [c for c in cases if not options.filter or any(f in c.name for f in options.filter)]
    if options.codes:
        return check_codes(cases, options.codes)
    if not options.mdlc:
        parser.error("--mdlc or --codes is needed")
    return run_cases(cases, str(pathlib.Path(options.mdlc).resolve()), options.update)


if __name__ == "__main__":
    sys.exit(main())
