"""mdl-inject is killed at one of its system calls: the program runs on, and says so itself.

    killed_test.py            some of the calls, of all phases, and every eighth one that writes to the process; it says
                              which
    killed_test.py all [N/M]  each of them, entry and exit; of these, every M-th, beginning with the N-th. Fewer threads
                              sleep then: for each of them the same calls are made

tests/programs/killer.cpp stops the injector at its system calls and kills it there. One `sleepers` goes through
all of it: three threads that check their own results and counts, and some forty that sleep in a system call each
and notice when it fails. After each kill the program must run on, --status must tell what is in it, --remove must
make it what it was, now and then twice, and now and then a whole measurement must give exact numbers.
"""

import json
import os
import random
import re
import signal
import sys
import unittest

import process_text
from harness import MDL_INJECT, PROGRAMS, CONSTRAINTS, LiveTest, metric, run
from states_test import state

# Calls that the kernel fails with EINTR after a stop, unless who stopped them mends that (signal(7)). Killed in
# between, nobody does. All others go on sleeping whatever happens.
MENDED = {"epoll_wait", "epoll_pwait", "epoll_pwait_with_mask", "epoll_pwait2", "rt_sigtimedwait",
          "rt_sigtimedwait_forever", "semop", "semtimedop", "io_getevents", "recv_with_timeout",
          "recvmsg_with_timeout", "send_with_timeout", "accept_with_timeout", "inotify"}

# What --status says, and so in which state the injector has left the process.
STATES = {
    "nothing": r"^process \d+ is not instrumented\n$",
    "stub": r"^process \d+ is not instrumented\nbehind its code lie 1 parts of a remote call",
    "staged": r"^process \d+ holds \d+ mappings of an mdl-inject, which was killed before it changed any code",
    "damaged": r"^process \d+ holds \d+ mappings of an mdl-inject, whose journal is lost",
    "journal": r"^instrumented by mdl-inject \d+ \(ended\) since (.|\n)*\nin place: 0 points, in 0 of ",
    "partly": r"^instrumented by mdl-inject \d+ \(ended\) since (.|\n)*\nin place: \d+ points, in ",
    "whole": r"^instrumented by mdl-inject \d+ \(ended\) since ",
}
NEEDED = {"nothing", "stub", "staged", "journal", "partly", "whole"}
TOUCHING = 8
JOURNAL_HEAD = 56  # runtime/resident/journal.h
FEW = "epoll_wait,rt_sigtimedwait,read,futex,nanosleep,accept"


class Killed(LiveTest):
    stops = None  # set by main: which of all, as a slice
    separate = "--no-separate"

    def setUp(self):
        super().setUp()
        self.plan = self.compile_text(CONSTRAINTS + metric("work_calls", ["t_sleepers_work"], constraints=["procedure"]) +
                                      metric("outer_calls", ["t_sleepers_outer"]) +
                                      metric("outer_returns", ["t_sleepers_outer"], "return"))
        self.begin()
        self.seen = {}
        self.interrupted = 0
        self.unmended = False
        self.removals = 0

    def begin(self):
        self.program = self.start("sleepers", "0", FEW, alone=True) if self.stops else self.start("sleepers")
        if self.stops:  # its workers never sleep: behind everybody else they leave the time to the injectors
            for tid in os.listdir(f"/proc/{self.program.pid}/task"):
                os.setpriority(os.PRIO_PROCESS, int(tid), 15)
        self.program.ask("start", "running")
        self.before = self.remember(self.program.pid)

    def command(self, *more):
        # killer.cpp makes each call of the injector long, so a stop is long, too.
        return [MDL_INJECT, self.separate, str(self.program.pid), str(self.plan), "-i", "0.02", "-d", "0.03", "--format", "ndjson",
                "--max-pause", "20000",
                "-m", "work_calls@/Code/sleepers/t_sleepers_outer", "-m", "outer_calls", "-m", "outer_returns", *more]

    def strike(self, stop, with_signal=signal.SIGKILL, command=None, at=None):
        """Sends the signal at a stop, to the injector or to process `at`; what killer.cpp reports."""
        report = self.folder / "report"
        blow = f"{int(with_signal)}@{at}" if at else str(int(with_signal))
        done = run(PROGRAMS / "killer", report, stop, blow, *(command or self.command()))
        self.assertTrue(report.exists(), done.stderr)
        found = json.loads(report.read_text())
        report.unlink()
        found["errors"] = done.stderr
        return found

    def check_running(self, struck):
        """The program has been disturbed by nothing."""
        self.assertIn(state(self.program.pid), "RS", "it does not run")
        with open(f"/proc/{self.program.pid}/status", encoding="ascii") as status:
            self.assertIn("TracerPid:\t0\n", status.read())
        report = self.program.ask("report", "report")
        # A sleep may be too long: killer.cpp is slow, and what it stops may hold all threads.
        self.assertEqual((report["woken"], report["short_interrupted"], report["short_too_early"]), ({}, 0, 0))
        # A thread may say so only when it has run again, which on a busy machine may be after the next kill.
        self.unmended, before = struck["mending"], self.unmended
        if report["interrupted"]:
            self.assertLessEqual(set(report["interrupted"]), MENDED)
            self.assertTrue(struck["mending"] or before, f"{struck}: {report['interrupted']}")
            self.interrupted += 1

    def status(self):
        done = run(MDL_INJECT, "--status", self.program.pid)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for name, pattern in STATES.items():
            if re.match(pattern, done.stdout):
                self.seen[name] = self.seen.get(name, 0) + 1
                return name, done.stdout
        raise AssertionError(done.stdout)

    def check_whole(self, text):
        """Owner, time, plan, points and values."""
        self.assertRegex(text, r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\nplan [0-9a-f]{64}, 3 points, 3 requests\n")
        counts = [int(n) for n in re.findall(r" = (\d+) Calls", text)]
        self.assertEqual(len(counts), 3, text)

    def remove(self):
        done = run(MDL_INJECT, "--remove", self.program.pid)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assert_untouched(self.program.pid, self.before)
        self.removals += 1
        if self.removals % 5:
            return
        again = run(MDL_INJECT, "--remove", self.program.pid)
        self.assertEqual((again.returncode, again.stderr), (0, ""))
        self.assertRegex(again.stdout, "is not instrumented")
        self.assert_untouched(self.program.pid, self.before)

    def measure(self):
        """Exact numbers, as if nothing had been."""
        first = self.program.ask("pause", "paused")
        session = self.inject(self.program.pid, self.plan, *self.command()[-6:]).wait_inserted()
        self.program.ask("start", "running")
        last = self.program.ask("pause", "paused")
        self.assert_stopped_well(session)
        session.kill()
        self.assertEqual(last["wrong"], 0)
        values = {line["metric"]: line["value"] for line in session.final().values()}
        outer = last["outer"] - first["outer"]
        self.assertEqual(values, {"work_calls": 3 * outer, "outer_calls": outer, "outer_returns": outer})
        self.assertEqual(last["work"] - first["work"], 3 * outer)
        self.program.ask("start", "running")

    def kill_at(self, stop):
        struck = self.strike(stop)
        if not struck["sent"]:
            self.assertEqual(struck["status"], 0, struck["errors"])
        self.check_running(struck)
        name, text = self.status()
        if name in ("journal", "partly", "whole"):
            self.check_whole(text)
        self.assertNotEqual(name, "damaged")
        self.remove()
        self.check_running(struck)

    def kill_one(self, stop):
        try:
            self.kill_at(stop)
        except BaseException:  # the next one is judged by itself
            run(MDL_INJECT, "--remove", self.program.pid)
            raise

    def end_well(self):
        woken = self.program.ask("wake", "woken")
        self.assertEqual(woken["awake"], woken["expected"])
        self.assertEqual(self.program.end(), 0)

    def test_killed_at_its_system_calls(self):
        calm = self.strike(0)
        self.assertEqual(calm["status"], 0, calm["errors"])
        self.check_running(calm)
        chosen = range(1, calm["stops"] + 200)[self.stops] if self.stops else self.spread(calm)
        for count, stop in enumerate(chosen):
            with self.subTest(stop=stop):
                self.kill_one(stop)
            if count % 15 == 14:
                self.measure()
            if self.stops and count % 500 == 499:
                print(f"{count + 1} of {len(chosen)} kills", file=sys.stderr, flush=True)
        killed = len(chosen)
        more = [f"writes:{n}" for n in range(1, calm["writes"] + 1)]
        random.shuffle(more)
        while not self.stops and more and not NEEDED <= set(self.seen):  # one of eight may have missed a short state
            with self.subTest(stop=more[-1]):
                self.kill_one(more.pop())
            killed += 1
        self.measure()
        self.end_well()
        print(f"killed {killed} times of {calm['stops']} stops: {self.seen}, {self.interrupted} times a sleeper "
              "was not mended", flush=True)
        if not self.stops:  # every N-th stop may miss the few at which code is half written
            self.assertLessEqual(NEEDED, set(self.seen))

    def has_half_a_journal(self):
        """All but its head, which is written last: a large one takes long."""
        place = process_text.journal(self.program.pid)
        if not place:
            return False
        with open(f"/proc/{self.program.pid}/mem", "rb", buffering=0) as memory:
            memory.seek(place.start)
            start = memory.read(4096)
        return not any(start[:JOURNAL_HEAD]) and any(start[JOURNAL_HEAD:])

    def test_the_next_one_takes_out_what_is_there(self):
        """Whatever state it is in, and measures; the first time that it is seen."""
        states = ["nothing", "staged", "half a journal", "journal", "partly", "whole"]
        seen = set()
        for stop in range(1, self.strike(0)["writes"] + 1):
            self.check_running(self.strike(f"writes:{stop}"))
            name = "half a journal" if self.has_half_a_journal() else self.status()[0]
            if name in seen:
                self.remove()
                continue
            with self.subTest(state=name):
                self.measure()
                self.assert_untouched(self.program.pid, self.before)
            seen.add(name)
            if seen >= set(states):
                break
        self.assertLessEqual(set(states), seen)
        self.assertEqual(self.program.end(), 0)

    def test_interrupted_at_its_system_calls(self):
        """Ctrl-C and SIGTERM are waited for while threads are stopped: nobody sees an EINTR, and it ends in order."""
        calm = self.strike(0)
        some = range(1, calm["writes"] + 1, 8)
        for turn, stop in enumerate([calm["first"] // 2, *(f"writes:{n}" for n in some)]):
            with self.subTest(stop=stop):
                struck = self.strike(stop, signal.SIGTERM if turn % 2 else signal.SIGINT)
                self.assertIn(struck["status"], (0, 1), struck["errors"])
                self.assert_untouched(self.program.pid, self.before)
                self.check_running({"mending": False})
        self.measure()
        self.assertEqual(self.program.end(), 0)

    def test_the_program_is_killed_meanwhile(self):
        """At calls of the injector: it says so, and the process is gone when it has ended."""
        calm = self.strike(0)
        self.assertEqual(self.program.end(), 0)
        stops = range(calm["first"], calm["stops"], (calm["stops"] - calm["first"]) // 12)
        for stop in [*stops, *(f"writes:{n}" for n in range(2, calm["writes"], max(1, calm["writes"] // 12)))]:
            with self.subTest(stop=stop):
                self.program = self.start("sleepers", "0", FEW, alone=True)
                self.program.ask("start", "running")
                struck = self.strike(stop, at=self.program.pid)
                if not struck["sent"]:
                    self.program.process.kill()
                elif struck["status"] != 0:  # which means that all was out when it was killed
                    self.assertIn(struck["status"], (1, 3), struck["errors"])
                    self.assertRegex(struck["errors"], "was killed by signal 9|has ended")
                self.assertEqual(self.program.process.wait(5), -signal.SIGKILL)

    def test_nohup(self):
        """A terminal that goes away ends a measurement, but not one under nohup."""
        session = self.inject(self.program.pid, self.plan).wait_inserted()
        self.assertEqual(session.stop(signal.SIGHUP), 0, session.errors)
        self.assert_untouched(self.program.pid, self.before)
        session = self.inject(self.program.pid, self.plan, under=["nohup"]).wait_inserted()
        session.process.send_signal(signal.SIGHUP)
        session.fresh_values()
        self.assert_stopped_well(session)
        self.assert_untouched(self.program.pid, self.before)
        self.measure()
        self.assertEqual(self.program.end(), 0)

    def test_removed_while_it_measures(self):
        """By another mdl-inject: the one that measures ends in order, and says so."""
        for _ in range(3):
            session = self.inject(self.program.pid, self.plan, interval="0.02").wait_inserted()
            status = run(MDL_INJECT, "--status", self.program.pid)
            self.assertIn(f"instrumented by mdl-inject {session.process.pid} (running)", status.stdout)
            removed = run(MDL_INJECT, "--remove", self.program.pid)
            self.assertEqual((removed.returncode, removed.stderr), (0, ""))
            self.assertIn(f"mdl-inject {session.process.pid} was still measuring", removed.stdout)
            self.assertEqual(session.wait(), 0, session.errors)
            self.assertIn("another mdl-inject has removed it", session.errors)
            self.assertFalse(session.final()["outer_calls", ""]["complete"])
            self.assert_untouched(self.program.pid, self.before)
            self.check_running({"mending": False})
        self.measure()
        self.assertEqual(self.program.end(), 0)

    def spread(self, calm):
        """Every eighth one that changes the process, some that touch it, and a few that only read."""
        first = random.randrange(1, 9)
        # The first and the last few leave what no others do.
        writes = sorted({1, 2, 3, *range(first, calm["writes"] + 1, 8), *range(calm["writes"] - 2, calm["writes"] + 1)})
        print(f"writes {first}, {first + 8}, ... of {calm['writes']}", flush=True)
        reading = range(1, calm["first"], calm["first"] // 3)
        touching = range(calm["first"], calm["stops"], (calm["stops"] - calm["first"]) // TOUCHING)
        return [*reading, *(f"writes:{n}" for n in writes), *touching]


if __name__ == "__main__":
    if sys.argv[1:2] == ["all"]:
        first, step = (sys.argv.pop(2) if len(sys.argv) > 2 else "1/1").split("/")
        Killed.stops = slice(int(first) - 1, None, int(step))
        sys.argv.pop(1)
    unittest.main(verbosity=2)
