"""A session that waits: it makes few calls, and is there at once for whoever needs it."""

import fcntl
import json
import pathlib
import signal
import subprocess
import threading
import time
import unittest

from follow_test import PLAN, REQUESTS, WORK, Family
from harness import MDL_INJECT, LiveTest, soon

QUIET = 7  # seconds, after which mdl-inject expects nobody (heartbeat.cpp: 5 s)
MOST_READS = 7  # of one look at a process: its ends, the news of its family, each of its libraries that has code of ours


def processes(pid):
    """mdl-inject, and the process of it that has the privileges."""
    out = [pid]
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            out += processes(int(child))
    return out


def calls(pid):
    """(reads, writes, waits) of it up to now."""
    reads = writes = waits = 0
    for one in processes(pid):
        io = dict(line.split(": ") for line in pathlib.Path(f"/proc/{one}/io").read_text().splitlines())
        reads, writes = reads + int(io["syscr"]), writes + int(io["syscw"])
        for task in pathlib.Path(f"/proc/{one}/task").iterdir():
            words = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
            waits += int(words["voluntary_ctxt_switches"])
    return reads, writes, waits


class Idle(LiveTest):
    def look_at(self, *options):
        program = self.start("forks")
        session = self.inject(program.pid, self.compile_text(PLAN), *REQUESTS, *options, interval="60")
        session.wait_inserted()
        time.sleep(QUIET)
        before = calls(session.process.pid)
        time.sleep(2)
        reads, writes, waits = (after - then for then, after in zip(before, calls(session.process.pid)))
        self.assertLessEqual(reads, MOST_READS * waits)
        self.assertEqual(writes, 0)  # neither into the process, nor a lock
        self.assert_stopped_well(session)
        self.assertEqual(program.end(), 0)

    def test_one_process(self):
        self.look_at()

    def test_a_family(self):
        self.look_at("--follow-fork")


class AfterThat(Family):
    """Nobody has waited for long. Whoever does now is seen, and waits for as long as it takes."""

    def test_children_and_programs(self):
        self.begin(interval="60")
        time.sleep(QUIET)
        self.program.ask("short 5")
        self.program.ask("exec 3")
        self.check(self.program.ask("workers 1000")["family"])
        self.assertNotIn("held up", self.session.errors)

    def test_while_nobody_reads_the_output(self):
        program = self.start("forks")
        session = subprocess.Popen(
            [MDL_INJECT, str(program.pid), self.compile_text(PLAN), "-m", WORK, "--follow-fork", "--format", "ndjson",
             "-i", "0.001"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(session.kill)
        fcntl.fcntl(session.stdout, fcntl.F_SETPIPE_SZ, 4096)
        session.stdout.readline()
        time.sleep(QUIET)  # the pipe is full
        family = program.ask("short 3")["family"]
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(session.stdout))
        reader.start()
        soon(lambda: len({json.loads(line)["pid"] for line in list(lines)}) > 3, "lines of all children")
        session.send_signal(signal.SIGINT)
        reader.join(30)
        errors = session.stderr.read().decode()
        session.stderr.close(), session.stdout.close()
        self.assertEqual(session.wait(30), 0, errors)
        last = {one["pid"]: one["value"] for one in map(json.loads, lines) if one["final"]}
        self.assertEqual(last, {one["pid"]: one["work"] for one in family}, errors)
        self.assertEqual(program.end(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
