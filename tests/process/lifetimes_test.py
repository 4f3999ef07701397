"""Threads, children, programs and libraries that appear and go while they are measured, and
sleepers that must not notice.
"""

import signal
import time
import unittest

from harness import CONSTRAINTS, MDL_INJECT, LiveTest, entries_and_returns, metric, run, soon
from states_test import state

WORK = "work_calls"


def value(session, name=WORK, focus=""):
    return session.final()[name, focus]["value"]


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


class Sleepers(LiveTest):
    def test_nobody_wakes(self):
        """Five attaches and removals: no call returns, no EINTR, and all can still be woken."""
        program = self.start("sleepers")
        plan = self.compile_text(metric("idle_calls", ["t_sleepers_idle"]))
        before = self.remember(program.pid)
        for _ in range(5):
            session = self.inject(program.pid, plan).wait_inserted()
            self.assert_stopped_well(session)
            report = program.ask("report", "report")
            self.assertEqual((report["woken"], report["interrupted"]), ({}, {}))
        self.assertEqual((report["short_interrupted"], report["short_wrong_length"]), (0, 0))
        self.assertGreater(report["short_done"], 2)
        self.assert_untouched(program.pid, before)
        woken = program.ask("wake", "woken")
        self.assertEqual(woken["awake"], woken["expected"], program.ask("report", "report"))
        self.assertEqual(program.end(), 0)


    def test_nobody_wakes_when_a_vfork_holds_us_up(self):
        """One thread cannot be stopped: the others sleep on, and so do its child and the wait for it."""
        program = self.start("sleepers")
        plan = self.compile_text(metric("idle_calls", ["t_sleepers_idle"]))
        before = self.remember(program.pid)
        for milliseconds, status in ((200, 0), (4500, 1)):  # it tries to stop the threads for 2 s
            program.send(f"vfork {milliseconds}")
            soon(lambda: state(program.pid) == "D", "the thread to wait")
            session = self.inject(program.pid, plan, "-d", "0.1")
            self.assertEqual(session.wait(), status, session.errors)
            self.assertEqual(program.answer("vforked")["interrupted"], 0)
            session = self.inject(program.pid, plan).wait_inserted()
            program.send(f"vfork {milliseconds}")
            soon(lambda: state(program.pid) == "D", "the thread to wait")
            self.assert_stopped_well(session)
            self.assertEqual(program.answer("vforked")["interrupted"], 0)
            report = program.ask("report", "report")
            self.assertEqual((report["woken"], report["interrupted"]), ({}, {}))
            self.assertEqual((report["short_interrupted"], report["short_wrong_length"]), (0, 0))
            self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)


class Threads(LiveTest):
    def test_ten_thousand_short_lived_threads(self):
        program = self.start("churn")
        plan = self.compile_text(CONSTRAINTS + metric(WORK, ["t_work"], constraints=["procedure"]))
        before = self.remember(program.pid)
        session = self.inject(program.pid, plan, "-m", WORK, "-m", f"{WORK}@/Code/churn/t_outer")
        session.wait_inserted()
        program.ask("go 2000")
        early = resident_kib(program.pid), resident_kib(session.process.pid)
        done = program.ask("go 8000")
        late = resident_kib(program.pid), resident_kib(session.process.pid)
        self.assert_stopped_well(session)
        self.assertLess(late[0] - early[0], 8192, "the process grew with its threads")
        self.assertLess(late[1] - early[1], 8192, "mdl-inject grew with the threads")
        self.assertEqual(value(session), done["work"])
        self.assertEqual(value(session, focus="/Code/churn/t_outer"), done["outer_work"])
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def test_a_line_for_each_thread_and_function(self):
        """There is no end of such lines while threads come and go: some are of thread 0, and no call is lost."""
        program = self.start("churn")
        session = self.inject(program.pid, "calls /Code/libc.so.6/* by thread as libc",
                              "calls /Code/churn/t_work by thread as own", interval="0.5")
        session.wait_inserted()
        done = program.ask("go 8000")
        self.assertLess(resident_kib(session.process.pid), 400 << 10)
        self.assert_stopped_well(session)
        calls = [line["value"] for (name, _), line in session.final().items() if name == "own"]
        self.assertEqual(sum(calls), done["work"])
        self.assertIn("what further threads counted is in those of /Thread/0", session.errors)
        self.assertEqual(program.end(), 0)

    def test_large_blocks_of_threads_that_have_ended(self):
        """Hundreds of distributions, 22 KB of zeros each in the block of each thread: its threads do not damage them."""
        program = self.start("churn")
        session = self.inject(program.pid, "latency /Code/libc.so.6/s*", "count t_work as own", interval="0.5")
        session.wait_inserted()
        program.ask("crowd 60")
        done = program.ask("go 1")
        self.assert_stopped_well(session)
        calls = [line["value"] for (name, _), line in session.final().items() if name == "own"]
        self.assertEqual(calls, [done["work"]])
        self.assertEqual(program.end(), 0)

    def test_a_full_ring_of_ended_threads(self):
        """While nobody takes ended threads' blocks, sums stay exact, and that is said."""
        program = self.start("churn")
        plan = self.compile_text(CONSTRAINTS + metric(WORK, ["t_work"], constraints=["procedure"]))
        session = self.inject(program.pid, plan, "-m", WORK, "-m", f"{WORK}@/Code/churn/t_outer")
        session.wait_inserted()
        session.process.send_signal(signal.SIGSTOP)
        done = program.ask("go 5000")
        session.process.send_signal(signal.SIGCONT)
        self.assert_stopped_well(session)
        self.assertEqual(value(session), done["work"])
        self.assertEqual(value(session, focus="/Code/churn/t_outer"), done["outer_work"])
        self.assertRegex(session.errors, r"\d+ threads ended so fast that only the sums of their values are known")
        self.assertEqual(program.end(), 0)

    # They leave a flag behind that is up, in a block that their thread pointer leads to: it is not the next
    # thread's.
    def test_threads_that_end_inside_a_constraint(self):
        program = self.start("churn")
        plan = self.compile_text(CONSTRAINTS + metric(WORK, ["t_work"], constraints=["procedure"]))
        session = self.inject(program.pid, plan, "-m", WORK, "-m", f"{WORK}@/Code/churn/t_outer")
        session.wait_inserted()
        program.ask("leave 100")
        program.ask("go 1000")
        program.ask("leave 5000")  # more than the ring of ended threads has room for
        done = program.ask("go 1000")
        self.assert_stopped_well(session)
        self.assertEqual(value(session), done["work"])
        self.assertEqual(value(session, focus="/Code/churn/t_outer"), done["outer_work"])
        self.assertEqual(program.end(), 0)

    def test_attach_and_remove_while_threads_come_and_go(self):
        program = self.start("churn")
        plan = self.compile_text(metric(WORK, ["t_work"]))
        before = self.remember(program.pid)
        for command in ("go 10000", "crowd 6000"):
            program.send(command)
            for _ in range(5):
                self.assert_stopped_well(self.inject(program.pid, plan).wait_inserted())
            program.answer("done")
            self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)


class Children(LiveTest):
    def begin(self):
        program = self.start("children")
        plan = self.compile_text(metric(WORK, ["t_work"]))
        return program, self.inject(program.pid, plan).wait_inserted()

    def test_fork_leaves_the_parents_numbers_alone(self):
        program, session = self.begin()
        program.ask("work 10")
        for _ in range(5):
            self.assertEqual(program.ask("fork 1000")["status"], 0)
        done = program.ask("work 10")
        self.assert_stopped_well(session)
        self.assertEqual(value(session), done["work"])
        self.assertEqual(program.end(), 0)

    def test_a_child_can_be_looked_at_and_cleaned(self):
        """A daemon's way: the parent ends, the child runs on with what it has inherited, until it is taken out."""
        program = self.start("children")
        before = self.remember(program.pid)
        plan = self.compile_text(metric(WORK, ["t_work"]))
        session = self.inject(program.pid, plan).wait_inserted()
        program.ask("work 10")
        child = program.ask("daemon 20", "daemon")["pid"]
        self.assertEqual(session.wait(), 0, session.errors)
        self.assertEqual(value(session), 30)
        status = run(MDL_INJECT, "--status", child)
        self.assertEqual(status.returncode, 0, status.stderr)
        self.assertIn(f"inherited from process {program.pid}", status.stdout)
        self.assertRegex(status.stdout, rf"{WORK} = \d+ Calls")
        for _ in range(2):
            removed = run(MDL_INJECT, "--remove", child)
            self.assertEqual((removed.returncode, removed.stderr), (0, ""))
            self.assert_untouched(child, before)
        again = self.inject(child, plan).wait_inserted()
        self.assertEqual(program.ask("work 7")["work"], 37)
        self.assert_stopped_well(again)
        self.assertEqual(value(again), 7)
        program.send("exit 1")

    def test_vfork_and_exec_of_another_program(self):
        program, session = self.begin()
        for _ in range(5):
            self.assertEqual(program.ask("vfork 10")["status"], 0)
        self.assert_stopped_well(session)
        self.assertEqual(value(session), 50)
        self.assertEqual(program.end(), 0)

    def test_exec_ends_the_session(self):
        program, session = self.begin()
        program.ask("work 10")
        program.ask("exec 5", "ready")
        self.assertEqual(session.wait(), 0, session.errors)
        self.assertGreater(len(session.final()), 0)
        self.assertEqual(program.ask("work 3")["work"], 3)
        self.assertEqual(program.end(), 0)

    def test_the_end_of_the_process_keeps_the_last_numbers(self):
        for command, status in (("return", 7), ("exit", 6), ("_exit", 8), ("quick_exit", 9), ("thread_exit", 5),
                                ("syscall_exit", 12)):
            with self.subTest(command):
                program, session = self.begin()
                program.ask("work 100")
                self.assertEqual(program.end(f"{command} 23"), status)
                self.assertEqual(session.wait(), 0, session.errors)
                last = session.final()[WORK, ""]
                self.assertEqual((last["value"], last.get("complete", True)), (123, True), session.errors)

    def test_the_last_lines_are_the_last(self):
        """Also when a sample is due between what the process said at its end and the end."""
        for _ in range(3):
            program = self.start("children")
            plan = self.compile_text(metric(WORK, ["t_work"]))
            session = self.inject(program.pid, plan, interval="0.002").wait_inserted()
            program.ask("work 100")
            program.send("large_exit 23")
            self.assertEqual(session.wait(), 0, session.errors)
            self.assertEqual(program.process.wait(10), 8)
            self.assertEqual([line["final"] for line in session.lines], [False] * (len(session.lines) - 1) + [True])
            elapsed = [line["elapsed_s"] for line in session.lines]
            self.assertEqual(elapsed, sorted(elapsed))
            self.assertEqual((value(session), session.lines[-1].get("complete", True)), (123, True), session.errors)

    def test_an_interrupt_while_the_process_stands_at_its_end(self):
        for option, says in ((), "has ended"), (("--detach",), ""):
            with self.subTest(option):
                program = self.start("children")
                plan = self.compile_text(metric(WORK, ["t_work"]))
                session = self.inject(program.pid, plan, *option).wait_inserted()
                program.ask("work 100")
                session.process.send_signal(signal.SIGSTOP)
                program.send("_exit 23")
                time.sleep(0.1)
                session.process.send_signal(signal.SIGINT)
                session.process.send_signal(signal.SIGCONT)
                self.assertEqual(session.wait(), 0, session.errors)
                self.assertIn(says, session.errors)
                self.assertEqual(program.process.wait(10), 8)
                last = session.final()[WORK, ""]
                self.assertEqual((last["value"], last.get("complete", True)), (123, True), session.errors)

    def test_an_end_that_nobody_announces(self):
        """Past the C library, or by a signal: the last sample again, and it says that it is not the end's."""
        for command, status, end in (("exit_group", 0, 4), ("abort", 3, -signal.SIGABRT), ("kill", 3, -signal.SIGKILL),
                                     ("large_kill", 3, -signal.SIGKILL)):
            with self.subTest(command):
                program, session = self.begin()
                program.ask("work 100")
                self.assertEqual(session.fresh_values()[WORK, ""], 100)
                program.send(f"{command} 23")
                self.assertEqual(session.wait(), status, session.errors)
                self.assertEqual(program.process.wait(10), end)
                last = session.final()[WORK, ""]
                self.assertFalse(last["complete"])
                self.assertIn(last["value"], range(100, 124))

    def test_death_by_a_signal_is_status_3(self):
        program, session = self.begin()
        program.ask("work 5")
        program.send("abort 5")
        # Before its parent learns of the death: afterwards, older kernels tell nobody else.
        self.assertEqual(session.wait(), 3, session.errors)
        self.assertEqual(program.process.wait(10), -signal.SIGABRT)
        self.assertGreater(len(session.final()), 0)


class Vectors(LiveTest):
    """A program that tells the kernel another auxiliary vector than it was given is the program that it was."""
    WAYS = ("forge", "empty")

    def begin(self, *options):
        self.program = self.start("forger")
        self.before = self.remember(self.program.pid)
        plan = self.compile_text(metric("work_calls", ["t_work"]))
        return self.inject(self.program.pid, plan, *options).wait_inserted()

    def rewrite(self, way):
        self.assertEqual(self.program.ask(way, "vector"), {"event": "vector", "forged": 1})

    def test_it_is_measured_on(self):
        for way in self.WAYS:
            with self.subTest(way):
                session = self.begin()
                self.program.ask("work 100")
                self.rewrite(way)
                session.next_sample()
                self.program.ask("work 11")
                self.rewrite(way)
                self.assert_stopped_well(session)
                self.assertEqual(session.final()["work_calls", ""]["value"], 111)
                self.assert_untouched(self.program.pid, self.before)
                self.assertEqual(self.program.end(), 0)

    def test_it_is_cleaned(self):
        """What was left in it, or what a killed mdl-inject has left."""
        for way in self.WAYS:
            for killed in (False, True):
                with self.subTest(way, killed=killed):
                    session = self.begin(*([] if killed else ["--detach"]))
                    if killed:
                        session.kill()
                    else:
                        self.assert_stopped_well(session)
                    self.rewrite(way)
                    self.program.ask("work 1")
                    self.assertEqual(run(MDL_INJECT, "--status", self.program.pid).returncode, 0)
                    done = run(MDL_INJECT, "--remove", self.program.pid)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assert_untouched(self.program.pid, self.before)
                    self.assertEqual(self.program.end(), 0)

    def test_the_next_program_is_another_one(self):
        for way in self.WAYS:
            with self.subTest(way):
                session = self.begin()
                self.rewrite(way)
                session.next_sample()
                self.program.send("execute")
                self.assertEqual(session.wait(), 0, session.errors)
                self.assertIn("executes another program", session.errors)
                self.program.kill()


class Libraries(LiveTest):
    def test_a_library_that_was_loaded_before(self):
        program = self.start("loads")
        program.ask("open 3")
        plan = self.compile_text(metric("plugin_calls", ["t_plugin_work"]))
        before = self.remember(program.pid)
        session = self.inject(program.pid, plan).wait_inserted()
        program.ask("open 40")
        self.assert_stopped_well(session)
        self.assertEqual(value(session, "plugin_calls"), 40)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def test_an_unloaded_library_is_never_written_to(self):
        program = self.start("loads")
        program.ask("open 1")
        plan = self.compile_text(metric("plugin_calls", ["t_plugin_work"]) +
                                 metric("loader_calls", ["t_loader_work"]))
        session = self.inject(program.pid, plan).wait_inserted()
        program.ask("open 5")
        program.ask("close")
        program.ask("close")
        self.assert_stopped_well(session)
        self.assertEqual(value(session, "loader_calls"), 5)
        self.assertEqual(program.ask("open 2")["calls"], 8)
        self.assertEqual(program.end(), 0)


class Abandoned(LiveTest):
    """The injector dies at some moment: the program runs on, and --remove cleans up."""

    MOMENTS = [0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.25, 0.4]

    def plan(self, program):
        names = [name for name in program.ready["counts"] if name not in program.ready["refusable"]]
        return self.compile_text(entries_and_returns(names))

    def check_kill(self, with_signal, after):
        """Interrupts an injection `after` seconds, cleans up, and looks at the program."""
        program = self.start("counted-gcc-O2")
        plan = self.plan(program)
        before = self.remember(program.pid)
        program.ask("start", "running")
        session = self.inject(program.pid, plan)
        time.sleep(after)
        session.process.send_signal(with_signal)
        # The output may end in the middle of a line, so the pipe is not read here.
        session.process.communicate()
        return program, before, session

    def test_sigkill_at_many_moments(self):
        for after in self.MOMENTS:
            with self.subTest(after=after):
                program, before, _ = self.check_kill(signal.SIGKILL, after)
                status = run(MDL_INJECT, "--status", program.pid)
                self.assertEqual(status.returncode, 0, status.stderr)
                self.assertNotEqual(status.stdout, "")
                removed = run(MDL_INJECT, "--remove", program.pid)
                self.assertEqual(removed.returncode, 0, removed.stderr)
                self.finish(program, before)

    def test_interrupt_at_many_moments(self):
        for after in self.MOMENTS:
            with self.subTest(after=after):
                program, before, session = self.check_kill(signal.SIGINT, after)
                # Before its handler is installed the signal simply ends it; then, until anything is
                # changed, it is a request that failed.
                self.assertIn(session.process.returncode, (0, 1, -signal.SIGINT))
                self.finish(program, before)

    def finish(self, program, before):
        self.assert_untouched(program.pid, before)
        paused = program.ask("pause", "paused")
        self.assertEqual((paused["wrong"], paused["disturbed"]), (0, 0))
        self.assertEqual(program.end(), 7)

    def test_remove_of_a_clean_process(self):
        program = self.start("children")
        removed = run(MDL_INJECT, "--remove", program.pid)
        self.assertEqual(removed.returncode, 0, removed.stderr)
        self.assertEqual(program.end(), 0)

    def test_detach_leaves_it_inserted_until_removed(self):
        program = self.start("counted-gcc-O2")
        before = self.remember(program.pid)
        done = run(MDL_INJECT, program.pid, self.plan(program), "--detach", "-d", "0.2", "--format", "ndjson")
        self.assertEqual(done.returncode, 0, done.stderr)
        snapshot = program.ask("go 50")
        self.assertEqual((snapshot["wrong"], snapshot["disturbed"]), (0, 0))
        self.assertNotEqual(self.remember(program.pid), before)
        removed = run(MDL_INJECT, "--remove", program.pid)
        self.assertEqual(removed.returncode, 0, removed.stderr)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.ask("go 5")["wrong"], 0)
        self.assertEqual(program.end(), 7)


if __name__ == "__main__":
    unittest.main(verbosity=2)
