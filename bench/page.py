"""The page that scripts/bench writes: docs/benchmarks-run.md, a section for each part, tables and what was run.

A run of some parts leaves the sections of the others as they are. Each section says where and when it was measured.
"""
import datetime
import os
import pathlib
import platform
import re
import subprocess
import textwrap

SOURCE = pathlib.Path(__file__).resolve().parents[1]
PAGE = SOURCE / "docs" / "benchmarks-run.md"
WIDTH = 100
HEAD = """# A run of the benchmarks

`scripts/bench` wrote this page. [benchmarks.md](benchmarks.md), "All of it at once", says what the
tables mean. Compare figures of one section only.
"""


def output(*command):
    """What a command prints first, or nothing where it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except OSError:
        return ""
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0] if lines else ""


def machine():
    """One paragraph: processor, kernel, compilers, commit, date, and how busy the machine was."""
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", info)
    guest = ", a virtual machine" if "hypervisor" in info else ""
    commit = output("git", "-C", str(SOURCE), "rev-parse", "--short", "HEAD")
    changed = " with changes" if output("git", "-C", str(SOURCE), "status", "--porcelain", "-uno") else ""
    return (f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC; {model[1] if model else platform.machine()}, "
            f"{os.cpu_count()} processors{guest}; Linux {platform.release()}; {platform.libc_ver()[1]} libc; "
            f"{output('g++', '--version')}; commit {commit}{changed}; load {os.getloadavg()[0]:.1f} at the beginning.")


def fill(text):
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


def table(head, rows):
    """Markdown."""
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in [head, *rows]]
    return "\n".join(["| " + " | ".join(cells[0]) + " |", "|" + " --- |" * len(head),
                      *("| " + " | ".join(row) + " |" for row in cells[1:])])


def code(text):
    return "\n".join(f"    {line}".rstrip() for line in text.strip("\n").splitlines())


def write(path, sections):
    """sections: {title: text}. Those of the page that are not among them stay, in their places."""
    kept = {}
    if path.exists():
        for part in re.split(r"^(?=## )", path.read_text(), flags=re.M)[1:]:
            title, _, text = part[3:].partition("\n")
            kept[title] = text.strip("\n")
    kept.update(sections)
    path.write_text(HEAD + "".join(f"\n## {title}\n\n{text}\n" for title, text in kept.items()))
