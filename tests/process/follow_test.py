"""--follow-fork: each process of a family that forks in many ways has its own exact numbers, beginning with its
fork, and is what it was in the end.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import unittest

from harness import CONSTRAINTS, MDL_INJECT, PROGRAMS, LiveTest, metric, run, soon, tag_by_argument
from states_test import state
from timers_test import LIST, timer

WORK = "work_calls"
OUTER = "/Code/forks/t_outer"
REQUESTS = ("-m", WORK, "-m", f"{WORK}@{OUTER}")
EVERY = ("-m", WORK, "-m", f"{WORK}@/Code/forks/*")  # many lines: who does not read them holds all up
KEYS = "/SyncObject/Message"
PLAN = CONSTRAINTS + metric(WORK, ["t_work"], constraints=["procedure"])


def alive(pid):
    try:
        return state(pid) != "Z"
    except FileNotFoundError:
        return False


class Family(LiveTest):
    """A program, and the session that measures it."""

    def begin(self, *requests, plan=PLAN, interval="0.5"):
        self.program = self.start("forks")
        self.before = self.remember(self.program.pid)
        self.plan = self.compile_text(plan)
        self.session = self.inject(self.program.pid, self.plan, "--follow-fork", *(requests or REQUESTS),
                                   interval=interval)
        self.session.wait_inserted()

    def last(self, focus="", name=WORK):
        """{pid: line} of each process's last sample."""
        return {line["pid"]: line for line in self.session.lines
                if line["final"] and (line["metric"], line["focus"]) == (name, focus)}

    def check(self, family, complete=True, silent=True):
        """Ctrl-C; each process's numbers are its own."""
        self.assert_stopped_well(self.session)
        self.compare(family, complete)
        self.assert_untouched(self.program.pid, self.before)
        if silent:
            self.assertNotIn("was forked and", self.session.errors)
        self.assertEqual(self.program.end(), 0)

    def compare(self, family, complete=True):
        # A child that counts nothing need not have been seen.
        for focus, key in (("", "work"), (OUTER, "inside")):
            truth = {one["pid"]: one[key] for one in family if one["work"] or one is family[0]}
            found = {pid: line["value"] for pid, line in self.last(focus).items() if pid in truth}
            self.assertEqual(found, truth, self.session.errors)
        if complete:
            self.assertEqual([line for line in self.last().values() if not line.get("complete", True)], [])


class Forks(Family):
    def test_workers(self):
        self.begin()
        self.program.ask("work 10")
        self.program.ask("workers 10000")
        self.check(self.program.ask("workers 1")["family"])

    def test_of_a_program_that_is_started(self):
        plan = self.compile_text(PLAN)
        out, commands = self.folder / "values", self.folder / "commands"
        commands.write_text("work 10\nworkers 1000\nshort 5\ninside 7\nquit\n")
        with open(commands, "rb") as words:
            done = subprocess.run([MDL_INJECT, "--run", plan, "--follow-fork", *REQUESTS, "--format", "ndjson", "-o", out,
                                   "--", PROGRAMS / "forks"], stdin=words, capture_output=True, text=True, timeout=60,
                                  check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        family = json.loads(done.stdout.splitlines()[-1])["family"]
        self.assertEqual([one["work"] for one in family], [31, *[1000] * 4, *[1] * 5, 14])
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        for focus, key in (("", "work"), (OUTER, "inside")):
            self.assertEqual({line["pid"]: line["value"] for line in lines if line["final"] and line["focus"] == focus},
                             {one["pid"]: one[key] for one in family}, done.stderr)

    def test_keys(self):
        """A key that is active at the fork is active in the child, and each counts its own."""
        self.begin("-m", WORK, "-m", f"{WORK}@{KEYS}/*",
                   plan=tag_by_argument("t_outer") + metric(WORK, ["t_work"], constraints=["tag"]))
        self.program.ask("inside 100")
        pids = [one["pid"] for one in self.program.ask("inside 7")["family"]]
        self.assert_stopped_well(self.session)
        values = {(line["pid"], line["focus"]): line["value"] for line in self.session.lines
                  if line["final"] and line["focus"] and line["value"]}  # a child knows its parent's keys, too
        self.assertEqual(values, {(pids[0], f"{KEYS}/100"): 200, (pids[0], f"{KEYS}/7"): 14,
                                  (pids[1], f"{KEYS}/100"): 100, (pids[2], f"{KEYS}/7"): 7}, self.session.errors)
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)

    def test_a_hundred_that_live_for_a_moment(self):
        self.begin()
        family = self.program.ask("short 100")["family"]
        self.assertEqual(len(family), 101)
        self.check(family)

    def test_children_of_children(self):
        self.begin()
        self.check(self.program.ask("deep 1000")["family"])

    def test_inside_of_a_constraint(self):
        """The frames that were active at the fork are active in the child."""
        self.begin()
        self.program.ask("inside 100")
        family = self.program.ask("inside 7")["family"]
        self.assertEqual([one["inside"] for one in family], [214, 100, 7])
        self.assertEqual([one["work"] for one in family], [321, 200, 14])
        self.check(family)

    def test_children_that_have_not_run_yet(self):
        """On a busy processor a child exists for a while before it runs, and is its parent's thread by its memory."""
        hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
        for hog in hogs:
            self.addCleanup(hog.wait)
            self.addCleanup(hog.kill)
            os.sched_setaffinity(hog.pid, {min(os.sched_getaffinity(0))})
        self.begin()
        os.sched_setaffinity(self.program.pid, {min(os.sched_getaffinity(0))})
        os.setpriority(os.PRIO_PROCESS, self.program.pid, 15)
        for _ in range(60):
            family = self.program.ask("inside 2")["family"]
        self.assert_stopped_well(self.session)
        # The injector, too, may come late: then that is said.
        measured = [one for one in family if f"process {one['pid']} was forked and" not in self.session.errors]
        self.assertGreater(len(measured), 30)
        self.compare(measured)
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)

    def test_inside_of_one_of_many(self):
        """The same by one base for all functions."""
        self.begin(*EVERY)
        self.check(self.program.ask("inside 100")["family"])

    def test_from_a_thread_while_others_count(self):
        self.begin()
        self.program.ask("thread 20000")
        self.check(self.program.ask("thread 20000")["family"])

    def test_end_by_another_program(self):
        self.begin()
        self.program.ask("exec 100")
        family = self.program.ask("exec 3")["family"]
        self.check(family)
        self.assertIn("no longer holds the instrumentation: it executes another program", self.session.errors)

    def test_programs_that_end_at_once(self):
        """Of some of them the kernel does not say any more which they were; no message has a hole there."""
        shell = subprocess.Popen(["bash", "-c", "while read n; do for ((i = 0; i < n; i++)); do /bin/true; done; "
                                  "echo done; done"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(shell.wait)
        self.addCleanup(shell.stdout.close)
        self.addCleanup(shell.stdin.close)
        session = self.inject(shell.pid, "count malloc", "--follow-fork", interval="0.5")
        session.wait_inserted()
        shell.stdin.write("300\n")
        shell.stdin.flush()
        self.assertEqual(shell.stdout.readline(), "done\n")
        self.assert_stopped_well(session)
        self.assertNotIn("program, ,", session.errors)

    def test_a_program_that_cannot_be_executed(self):
        self.begin()
        for _ in range(20):
            family = self.program.ask("failed 50")["family"]
        self.assertEqual([one["work"] for one in family], [0] + 20 * [100])
        self.check(family)

    def test_vfork_and_spawn_are_not_forks(self):
        self.begin()
        family = self.program.ask("spawn 20")["family"]
        self.check(family)
        self.assertEqual(list(self.last()), [self.program.pid])

    def test_processes_that_share_the_memory(self):
        """They are no children: they count as threads, and none waits."""
        program = self.start("sharers")
        before = self.remember(program.pid)
        plan = self.compile_text(metric(WORK, ["t_work"]) + metric("shared_calls", ["t_shared"]))
        session = self.inject(program.pid, plan, "--follow-fork").wait_inserted()
        program.ask("threads 2", "running")
        program.ask("clones 4", "running")
        soon(lambda: session.fresh_values()["shared_calls", ""], "the clones to count")
        done = program.ask("stop")
        self.assertEqual((done["wrong"], done["died"]), (0, 0))
        self.assert_stopped_well(session)
        self.assertEqual({line["pid"] for line in session.lines}, {program.pid})
        self.assertEqual(session.final()[WORK, ""]["value"], done["work"])
        self.assertNotIn("was forked", session.errors)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def test_a_child_that_is_killed(self):
        """What it counted since the last sample nobody knows: that is said."""
        self.begin(interval="0.05")
        family = self.program.ask("kill 100")["family"]
        self.check(family, complete=False)
        self.assertFalse(self.last()[family[1]["pid"]]["complete"])
        self.assertIn(f"process {family[1]['pid']} was killed by signal 9", self.session.errors)

    def test_a_child_that_its_library_does_not_know(self):
        self.begin()
        family = self.program.ask("raw 100")["family"]
        self.check(family[:1], silent=False)
        self.assertIn(f"process {family[1]['pid']} was forked and is not measured: it was not made by its C library",
                      self.session.errors)

    def test_a_family_without_its_middle(self):
        """The child that joins the others ends at once, and has counted nothing."""
        self.begin()
        family = self.program.ask("early 100")["family"]
        self.assertEqual([one["work"] for one in family], [0, 100])
        self.check(family, silent=False)  # of the middle one it may be said that it has ended

    def test_a_daemon(self):
        self.begin()
        self.program.ask("work 3")
        family = self.program.ask("daemon 100")["family"]
        time.sleep(0.5)
        family = self.program.ask("work 5")["family"]
        daemon = family[-1]["pid"]
        self.assertEqual([one["work"] for one in family], [103, 1, 105])
        self.assertIsNone(self.session.process.poll())
        self.assert_stopped_well(self.session)
        self.compare(family)
        self.assert_untouched(daemon, self.before)
        self.program.send("quit")

    def test_a_daemon_that_ends(self):
        """The session ends with the last of the family, by itself."""
        self.begin()
        self.program.ask("daemon 100")
        family = self.program.ask("workers 9")["family"]
        self.program.send("quit")
        self.assertEqual(self.session.wait(), 0, self.session.errors)
        self.compare(family)

    def test_a_child_that_counts_nothing(self):
        self.begin()
        self.program.ask("work 4")
        idle = self.program.ask("idle")["family"][1]["pid"]
        self.session.said(f"process {idle} was forked")
        self.program.ask("work 4")
        self.assert_stopped_well(self.session)
        self.assertEqual({pid: line["value"] for pid, line in self.last().items()}, {self.program.pid: 8, idle: 0})
        for pid in (self.program.pid, idle):
            self.assert_untouched(pid, self.before)
        self.program.ask("end")
        self.assertEqual(self.program.end(), 0)

    def test_the_end_comes_before_the_child_was_seen(self):
        self.begin()
        idle = self.program.ask("idle")["family"][1]["pid"]
        self.assert_stopped_well(self.session)
        for pid in (self.program.pid, idle):
            self.assert_untouched(pid, self.before)
        self.program.ask("end")
        self.assertEqual(self.program.end(), 0)

    def test_without_the_option_nothing_follows(self):
        program = self.start("forks")
        session = self.inject(program.pid, self.compile_text(PLAN), "-m", WORK).wait_inserted()
        family = program.ask("short 5")["family"]
        self.assert_stopped_well(session)
        self.assertEqual({line["pid"] for line in session.lines}, {program.pid})
        self.assertEqual(len(family), 6)
        self.assertIn(f"note: nothing was seen in process {program.pid}, but children of it have ended", session.errors)
        session = self.inject(program.pid, self.compile_text(PLAN), "-m", WORK).wait_inserted()
        program.ask("work 5")
        program.ask("short 5")
        self.assert_stopped_well(session)
        self.assertNotIn("children of it have ended", session.errors)
        self.assertEqual(program.end(), 0)


class Times(Family):
    def test_a_timer_that_runs_at_the_fork(self):
        """CPU time from the fork, wall time from the child's first hit."""
        self.begin("-m", "cpu", "-m", "wall", plan=LIST + timer("cpu") + timer("wall"))
        family = self.program.ask("timed 60")["family"]
        child = family[1]
        self.assert_stopped_well(self.session)
        cpu, wall = (self.last(name=name)[child["pid"]]["value"] for name in ("cpu", "wall"))
        self.assertGreaterEqual(cpu, child["cpu"])
        self.assertLess(cpu, child["cpu"] + 20_000_000)
        self.assertGreaterEqual(wall, 0)
        self.assertLess(wall, 1_000_000_000)
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)

    def test_the_first_call_lasts_as_long_as_others(self):
        """It has waited for its data to be the child's own: that is taken out once."""
        program = self.start("forks")
        session = self.inject(program.pid, "time t_lasts", "cpu t_lasts", "--follow-fork").wait_inserted()
        for _ in range(5):
            time.sleep(0.3)  # who has seen nothing for a while looks less often
            family = program.ask("lasts 40")["family"]
        self.assert_stopped_well(session)
        for child in family[1:]:
            for kind, least in (("time", child["wall"]), ("cpu", 0)):
                value = next(line["value"] for line in session.lines
                             if line["final"] and (line["pid"], line["metric"]) == (child["pid"], f"{kind} t_lasts"))
                self.assertGreater(value, 0.999 * least, child)
                self.assertLess(value, child["wall"] + 20_000_000, child)
        self.assertEqual(len(family), 6)
        self.assertEqual(program.end(), 0)


class Killed(Family):
    MOMENTS = [0.001, 0.01, 0.03, 0.1, 0.3]

    def test_nobody_is_left_waiting(self):
        """mdl-inject is killed while it follows: the family goes on, and is cleaned one by one."""
        for after in self.MOMENTS:
            with self.subTest(after=after):
                self.begin("-m", WORK, interval="0.02")
                self.program.ask("idle")
                self.program.send("short 200")
                time.sleep(after)
                self.session.process.send_signal(signal.SIGKILL)
                self.session.process.communicate()
                self.program.answer("done")
                begun = time.monotonic()
                family = self.program.ask("short 50")["family"]
                # One of them waits in vain, and perhaps one at its end; nobody else.
                self.assertLess(time.monotonic() - begun, 5)
                self.assertEqual(sum(one["work"] for one in family), 250)
                idle = next(one["pid"] for one in family[1:] if alive(one["pid"]))
                for pid in (self.program.pid, idle):
                    removed = run(MDL_INJECT, "--remove", pid)
                    self.assertEqual((removed.returncode, removed.stderr), (0, ""))
                    self.assert_untouched(pid, self.before)
                self.program.ask("end")
                self.assertEqual(self.program.end(), 0)

    def test_a_reader_that_does_not_read(self):
        """Who stops our output (less, Ctrl-S) must not stop the children of the process."""
        program = self.start("forks")
        plan = self.compile_text(PLAN)
        injector = subprocess.Popen(
            [MDL_INJECT, str(program.pid), plan, *EVERY, "--follow-fork", "--format", "ndjson", "-i", "0.01"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(injector.kill)
        fcntl.fcntl(injector.stdout, fcntl.F_SETPIPE_SZ, 4096)
        injector.stdout.readline()
        time.sleep(1)  # the pipe is full
        begun = time.monotonic()
        program.ask("short 3")
        self.assertLess(time.monotonic() - begun, 20)
        injector.stdout.close()
        injector.wait(30)
        self.assertEqual(program.end(), 0)

    def test_held_up(self):
        """Stopped for a while: children that waited in vain are not measured, and that is said."""
        self.begin("-m", WORK)
        self.session.process.send_signal(signal.SIGSTOP)
        soon(lambda: state(self.session.process.pid) == "T", "mdl-inject to stop")
        self.program.ask("short 3")
        idle = self.program.ask("idle")["family"][-1]["pid"]
        self.session.process.send_signal(signal.SIGCONT)
        self.session.said(f"process {idle} was forked: it is measured")
        family = self.program.ask("short 3")["family"]
        self.assert_stopped_well(self.session)
        seen = {pid: line["value"] for pid, line in self.last().items()}
        self.assertEqual(seen, {family[0]["pid"]: 0, idle: 0, **{one["pid"]: 1 for one in family[-3:]}})
        self.assertRegex(self.session.errors, r"was forked and has ended before it could be measured")
        for pid in (self.program.pid, idle):
            self.assert_untouched(pid, self.before)
        self.program.ask("end")
        self.assertEqual(self.program.end(), 0)

    def test_interrupted_while_children_come_and_go(self):
        for after in self.MOMENTS:
            with self.subTest(after=after):
                self.begin("-m", WORK, interval="0.02")
                self.program.send("short 400")
                time.sleep(after)
                self.assert_stopped_well(self.session)
                family = self.program.answer("done")["family"]
                self.assertEqual(sum(one["work"] for one in family), 400)
                values = {pid: line["value"] for pid, line in self.last().items()}
                self.assertEqual({pid: value for pid, value in values.items() if value not in (0, 1)}, {})
                self.assert_untouched(self.program.pid, self.before)
                self.assertEqual(self.program.end(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
