"""Pages that show commands and what these print: both are run, so that a page cannot say what is not so.

In an indented block a line `$ mdl-inject -p NAME …` is a command. What stands behind it, up to the next command or the
block's end, are lines of a table that it prints, but for their numbers. `python3 PAGE_test.py --update` writes the
page's tables anew.
"""

import re
import shlex
import subprocess

from harness import MDL_INJECT, SOURCE

COMMAND = re.compile(r"    \$ (mdl-inject -p ([\w-]+) .*)")
NUMBER = r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?: (?:ns|us|ms|s|kB|MB|GB)\b)?"
MOST = 8  # lines that a page shows of a table


class Shown:
    def __init__(self, line, name):
        self.line, self.name = line, name
        self.printed = []
        self.words = shlex.split(line)[3:]

    def options(self, without=()):
        """The words behind -p NAME, without these options and their values."""
        words = iter(self.words)
        return [word for word in words if word not in without or not next(words)]


def read(page):
    """The commands of a page, with what they print."""
    found = []
    for line in page.read_text().splitlines():
        if command := COMMAND.fullmatch(line):
            found.append(Shown(command[1], command[2]))
            inside = True
        elif not line.startswith("    "):
            inside = False
        elif found and inside:
            found[-1].printed.append(line[4:])
    return found


def update(page, tables):
    """The page with the tables of {command: lines}."""
    out, inside = [], False
    for line in page.read_text().splitlines():
        if command := COMMAND.fullmatch(line):
            inside = True
            out += [line, *(f"    {one}".rstrip() for one in tables[command[1]])]
        elif inside and line.startswith("    "):
            continue
        else:
            inside = False
            out.append(line)
    page.write_text("\n".join(out) + "\n")


def masked(line):
    """Its words; numbers, processes' own names of files, and what a load decides are no part of it."""
    line = re.sub(r"^ *[\d.]+ s ", "", re.sub(r"overhead \S+ %,? ?", "", line))
    line = re.sub(r"/tmp/\S+", "FILE", re.sub(r"(socket|pipe):\[\d+\]", r"\1", line))
    line = re.sub(r"/Thread/\d+", "/Thread/N", re.sub(r"\+0x[0-9a-f]+", "+N", line))
    return re.sub(NUMBER, "N", line).replace(" anomalies", "").split()


def missing(shown, printed):
    """The lines that the page shows and the command does not print: [] when all is well."""
    printed = [masked(line) for line in printed]
    out = []
    for line in shown.printed:
        if re.match(r" *\(\d+ (more|with 0)", line):
            continue
        if masked(line) in printed:
            printed.remove(masked(line))
        else:
            out.append(line)
    return out


def table(shown, process, seconds, *more, most=MOST):
    """The table that the command prints at its end, header and all. `process`: a pid, and options that belong to it.
    Nobody knows which lines will be the largest ones: with `--all`, they are among the others."""
    without = ("-d", "-i", "--top") if "--all" in more else ("-d", "-i")
    options = [*shown.options(without), *more, "--format", "table", "-d", str(seconds), "-i", str(seconds)]
    done = subprocess.run([MDL_INJECT, *process, *options], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          check=False, cwd=SOURCE)
    if done.returncode != 0:
        raise AssertionError(f"{shown.line}: {done.stderr}")
    lines = done.stdout.splitlines()
    heads = [i for i, line in enumerate(lines) if line.startswith(" TIME")]
    last = min(i for i, line in enumerate(lines) if re.search(r"\bfinal$", line))  # the last sample begins there
    return [lines[max(i for i in heads if i < last)], *(line.replace("final", "").rstrip(" ,") for line in lines[last:])][:most]
