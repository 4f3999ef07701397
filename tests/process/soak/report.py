"""The soak's report: docs/soak.md is one."""

import datetime
import pathlib
import platform
import subprocess

import harness

PROSE = """
Written by `scripts/soak`. Programs run under load while random plans are put into them and taken out again,
over and over. Each cycle attaches to one process with some metrics of a random plan, or of the standard
metrics, at random foci; samples or not; and ends by an interrupt, a SIGTERM, `-d`, or by SIGKILL at a random
moment, after which `--status` and `--remove` are run, and one time in three the first `--remove` is killed,
too. After every cycle each byte of the process's file-backed executable mappings is compared, no mapping of
ours may be left, and no request may have failed. Loads check every answer; python and node check the results
of their own computations, postgres its tables' sums at the end.
"""


def machine():
    """Processor, kernel, C library and revision."""
    lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    cores = sum(1 for line in lines if line.startswith("processor"))
    revision = subprocess.run(["git", "-C", str(harness.SOURCE), "rev-parse", "--short", "HEAD"], capture_output=True,
                              text=True, check=False).stdout.strip() or "unknown"
    return [f"{model}, {cores} cores", f"Linux {platform.release()}", " ".join(platform.libc_ver()),
            f"revision {revision}"]


def row(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def middle(values):
    return sorted(values)[len(values) // 2] if values else 0


def table(results):
    columns = ["program", "cycles", "of them killed", "points inserted", "requests served", "requests failed",
               "text bytes differing", "mappings left", "left inert", "grown by, MiB of address space / of own memory",
               "mappings more", "files more", "paused, ms: median / most", "minutes"]
    lines = [row(columns), row(["---"] * len(columns))]
    for r in results:
        killed = r.ends["killed"] + r.ends["killed twice"]
        lines.append(row([r.name, r.cycles, killed, r.points, r.requests, len(r.failures), r.bytes_differing,
                          r.mappings_left, r.inert,
                          f"{r.growth('mapped') / 1024:.1f} / {r.growth('own') / 1024:.1f}", r.growth("mappings"),
                          r.growth("files"), f"{middle(r.paused):.1f} / {max(r.paused, default=0):.1f}",
                          f"{r.seconds / 60:.1f}"]))
    return lines


def text(results, arguments, command):
    total = sum(r.cycles for r in results)
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    lines = [
        "# Soak", "",
        *PROSE.strip().splitlines(), "",
        f"{date}; `{command}`; seed {arguments.seed}; {total} cycles.", "",
        *[f"- {line}" for line in machine()],
        *[f"- {line}" for r in results for line in r.versions], "",
        *table(results), ""]
    refused = [f"- {r.name}, {count} times: {reason}" for r in results for reason, count in sorted(r.refused.items())]
    if refused:
        lines += ["Sessions that ended with exit status 1, nothing having been changed:", "", *refused, ""]
    failures = [f"- {r.name}: {failure}" for r in results for failure in r.failures]
    lines += ["Failures:", "", *failures] if failures else ["No failures."]
    notes = [f"- {r.name}: {note}" for r in results for note in r.notes]
    lines += ["", "Also seen:", "", *notes] if notes else []
    return "\n".join(lines) + "\n"
