"""--separate: what reads an enemy's bytes has no privileges. The same exact numbers, the same end when it is killed; and what
each of the two processes has is looked at while they measure."""
import os
import pathlib
import random
import signal
import time
import unittest

from harness import MDL_INJECT, PROGRAMS, CONSTRAINTS, LiveTest, metric, run, soon
from killed_test import Killed


def status(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.split() for key, value in (line.split(":", 1) for line in lines)}


def broker_of(worker):
    """Its first child."""
    children = pathlib.Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
    return int(children[0])


class Separate(LiveTest):
    def setUp(self):
        super().setUp()
        self.plan = self.compile_text(CONSTRAINTS + metric("works", ["t_work"], constraints=["procedure"]))
        self.program = self.start("churn", "3")

    def measured(self, *more):
        return self.inject(self.program.pid, self.plan, "--separate", *more).wait_inserted()

    def test_the_worker_has_nothing(self):
        session = self.measured()
        worker = session.process.pid
        found = status(worker)
        self.assertEqual(found["CapPrm"] + found["CapEff"] + found["CapAmb"], ["0" * 16] * 3)
        self.assertEqual((found["Seccomp"], found["NoNewPrivs"]), (["2"], ["1"]))
        self.assertEqual(status(self.program.pid)["TracerPid"], ["0"])
        if os.geteuid() == 0:
            uid = found["Uid"][0]
            self.assertNotIn(uid, ("0", "65534"))
            self.assertEqual(found["Uid"] + found["Gid"], [uid] * 8)
            self.assertNotIn("Groups" in found and found["Groups"], ("0",))
            self.assertEqual(os.listdir(f"/proc/{worker}/root"), [])
            for space in ("mnt", "net", "ipc"):
                self.assertNotEqual(os.readlink(f"/proc/{worker}/ns/{space}"), os.readlink(f"/proc/self/ns/{space}"))
            self.assertEqual(status(broker_of(worker))["Uid"], ["0"] * 4)
        self.assert_stopped_well(session)

    def test_nobody_of_its_own_may_touch_the_worker(self):
        """Another process without privileges cannot trace it, nor send it a signal."""
        if os.geteuid() != 0:
            self.skipTest("needs two users")
        session = self.measured()
        for user in ("65534", status(session.process.pid)["Uid"][0]):
            done = run("setpriv", f"--reuid={user}", "--clear-groups", "cat", f"/proc/{session.process.pid}/maps")
            self.assertNotEqual(done.returncode, 0)
        self.assert_stopped_well(session)

    def test_the_place_for_guests_ends_with_the_worker(self):
        """Its broker has no copy of it, and others would take that for a session."""
        session = self.measured()
        worker = session.process.pid
        listening = {line.split()[6] for line in pathlib.Path("/proc/net/unix").read_text().splitlines()
                     if "@mdl-inject/" in line}

        def held_by(pid):
            links = (os.readlink(file) for file in pathlib.Path(f"/proc/{pid}/fd").iterdir())
            return {link for link in links if link.strip("socket:[]") in listening}

        self.assertEqual(len(held_by(worker)), 1)
        self.assertEqual(held_by(broker_of(worker)), set())
        self.assert_stopped_well(session)

    def test_one_of_the_two_is_killed(self):
        """Whichever it is: the other ends, the program runs on, and what was left is taken out."""
        for victim in (lambda worker: worker, broker_of):
            with self.subTest(victim=victim):
                before = self.remember(self.program.pid)
                session = self.measured()
                broker = broker_of(session.process.pid)
                os.kill(victim(session.process.pid), signal.SIGKILL)
                session.wait()
                soon(lambda: not os.path.exists(f"/proc/{broker}") or status(broker)["State"][0] == "Z", "the broker to end")
                done = run(MDL_INJECT, "--separate", "--status", self.program.pid)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("(ended)", done.stdout)
                done = run(MDL_INJECT, "--separate", "--remove", self.program.pid)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assert_untouched(self.program.pid, before)

    def test_it_is_the_default_for_who_has_privileges(self):
        """Root is one; privileges_test.py has the others."""
        if os.geteuid() != 0:
            self.skipTest("needs root")
        for options, expected in (((), "2"), (("--no-separate",), "0")):
            with self.subTest(options=options):
                session = self.inject(self.program.pid, self.plan, *options).wait_inserted()
                self.assertEqual(status(session.process.pid)["Seccomp"], [expected])
                self.assert_stopped_well(session)

    def test_it_is_not_left_out_in_silence(self):
        """Where the process cannot be confined, nothing is read: that the plan is none is not found out."""
        if os.geteuid() != 0:
            self.skipTest("needs root")
        plan = self.folder / "none.plan"
        plan.write_text("no plan")
        for options, text in (((), "cannot confine the process that reads"), (("--no-separate",), "not a usable plan")):
            with self.subTest(options=options):
                done = run(PROGRAMS / "sandboxed", "fail", "prctl", MDL_INJECT, *options, "--verify", plan)
                self.assertIn(text, done.stderr)
                self.assertEqual("--no-separate" in done.stderr, not options)
                self.assertNotEqual(done.returncode, 0)

    def test_killed_at_random_moments(self):
        """The worker or the broker, while it attaches or measures: the program runs on, and all can be taken out."""
        before = self.remember(self.program.pid)
        for victim in (lambda worker: worker, broker_of) * 6:
            session = self.inject(self.program.pid, self.plan, "--separate", interval="0.01")
            time.sleep(random.uniform(0, 0.4))
            try:
                os.kill(victim(session.process.pid), signal.SIGKILL)
            except (IndexError, FileNotFoundError):  # there is no broker yet
                session.process.kill()
            session.wait()
            self.program.ask("go 20")
            soon(lambda: run(MDL_INJECT, "--separate", "--remove", self.program.pid).returncode == 0, "a removal")
        self.assert_untouched(self.program.pid, before)

    def test_a_list(self):
        done = run(MDL_INJECT, "--separate", "--list", self.program.pid, "*t_work")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("t_work", done.stdout)

    def test_output_files(self):
        """Made by the broker, written by the worker; as a whole where the format wants that."""
        for form in ("csv", "prometheus"):
            with self.subTest(format=form):
                out = self.folder / form
                done = run(MDL_INJECT, self.program.pid, self.plan, "--separate", "-i", "0.05", "-d", "0.3", "--format", form,
                           "-o", out)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertGreater(len(out.read_text().splitlines()), 5 if form == "csv" else 1)


class KilledSeparate(Killed):
    """At some of the writes; killed_test.py has the rest, for one process."""

    separate = "--separate"

    def spread(self, calm):
        return [f"writes:{n}" for n in range(1, calm["writes"] + 1, 5)] + [calm["first"], calm["first"] + 1]

    def test_killed_at_its_system_calls(self):
        calm = self.strike(0)
        self.assertEqual(calm["status"], 0, calm["errors"])
        for stop in self.spread(calm):
            with self.subTest(stop=stop):
                self.kill_one(stop)
        self.measure()
        self.end_well()

    test_interrupted_at_its_system_calls = test_the_program_is_killed_meanwhile = None
    test_nohup = test_removed_while_it_measures = None


del Killed

if __name__ == "__main__":
    unittest.main(verbosity=2)
