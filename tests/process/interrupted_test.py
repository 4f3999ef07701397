"""Threads that an attach or a removal finds in places where they cannot stay, or seem to be:
tests/programs/interrupted.cpp, tests/programs/unwalked.cpp."""

import ctypes
import os
import signal
import time
import unittest

import process_text
from harness import MDL_INJECT, LiveTest, entries_and_returns, run, soon

RESULT = 8
CALLS = 50_000_000


def stop_at(pid, address):
    """Lets the thread execute one instruction after the other until it is there, and stops the process."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    libc.ptrace.restype = ctypes.c_long
    seize, interrupt, single_step, peek_user, detach = 0x4206, 0x4207, 9, 3, 17
    rip = 16 * 8  # in struct user
    if libc.ptrace(seize, pid, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    libc.ptrace(interrupt, pid, 0, 0)
    wall = 0x40000000
    os.waitpid(pid, wall)
    while libc.ptrace(peek_user, pid, rip, 0) != address:
        libc.ptrace(single_step, pid, 0, 0)
        os.waitpid(pid, wall)
    os.kill(pid, signal.SIGSTOP)
    libc.ptrace(detach, pid, 0, 0)


class Interrupted(LiveTest):
    def check(self, mode):
        """An attach while the handler sleeps: the function goes on as if nothing had been."""
        program = self.start("interrupted", mode)
        before = self.remember(program.pid)
        plan = self.compile_text(entries_and_returns(["t_window"]))
        program.send("interrupt 600")
        program.answer("inside")
        session = self.inject(program.pid, plan).wait_inserted()
        self.assertEqual(program.answer("done")["sum"], RESULT)
        self.assertEqual(program.ask("work 100")["sum"], 101 * RESULT)
        self.assert_stopped_well(session)
        entries = session.final()["entries_t_window", ""]
        # A point that is refused counts nothing; one that is not counts the calls after the attach.
        self.assertIn((entries["value"], entries["refused"] > 0), ((100, False), (0, True)))
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.ask("work 1")["sum"], 102 * RESULT)
        self.assertEqual(program.end(), 0)

    def test_other_stack_in_the_data(self):
        self.check("apart")

    def test_other_stack_beside_the_own(self):
        """The thread seems to be on its own stack: only its frames tell that it came from another."""
        self.check("beside")

    def start_with_secret_stack(self):
        memfd_secret = 447
        memory = ctypes.CDLL(None).syscall(memfd_secret, 0)
        if memory < 0:
            self.skipTest("no memfd_secret here")
        os.close(memory)
        return self.start("interrupted", "secret")

    def test_attach_beside_a_stack_that_cannot_be_read(self):
        """Where the handler will return to is in memory that only the program reads: nothing is changed."""
        program = self.start_with_secret_stack()
        before = self.remember(program.pid)
        plan = self.compile_text(entries_and_returns(["t_window"]))
        program.send("interrupt 4000")
        program.answer("inside")
        done = run(MDL_INJECT, str(program.pid), plan, "-d", "100ms")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"the stack of thread {program.pid} of process {program.pid} cannot be read", done.stderr)
        self.assertEqual(program.answer("done")["sum"], RESULT)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.ask("work 100")["sum"], 101 * RESULT)
        self.assertEqual(program.end(), 0)

    def test_removal_beside_a_stack_that_cannot_be_read(self):
        """The handler returns to code of ours; another thread could give its memory back meanwhile."""
        program = self.start_with_secret_stack()
        before = self.remember(program.pid)
        session = self.inject(program.pid, self.compile_text(entries_and_returns(["t_window"]))).wait_inserted()
        program.send("interrupt 1500")
        program.answer("inside")
        self.assert_stopped_well(session)
        self.assertEqual(program.answer("done")["sum"], RESULT)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.ask("work 100")["sum"], 101 * RESULT)
        self.assertEqual(program.end(), 0)

    def test_short_jump(self):
        """What was given up is not the session's: its relay is not looked at for code that was loaded anew."""
        program = self.start("interrupted", "apart")
        before = self.remember(program.pid)
        plan = self.compile_text(entries_and_returns(["t_short"]))
        program.send("interrupt_short 4000")  # the attach must come before that
        program.answer("inside")
        session = self.inject(program.pid, plan).wait_inserted()
        self.assertEqual(program.answer("done")["sum"], RESULT)
        time.sleep(0.5)  # many looks at what is loaded
        self.assert_stopped_well(session)
        self.assertGreater(session.final()["entries_t_short", ""]["refused"], 0)
        self.assertNotIn("was loaded", session.errors)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def hosted(self):
        """A process with t_hosted instrumented, whose thread stays away in a handler that interrupted a relay."""
        program = self.start("interrupted", "apart")
        before = self.remember(program.pid)
        session = self.inject(program.pid, self.compile_text(entries_and_returns(["t_hosted"]))).wait_inserted()
        program.send("step 1500")
        program.answer("inside")
        return program, before, session

    def test_relay_in_a_host(self):
        """A removal waits with the code in whose place the thread will execute a jump."""
        program, before, session = self.hosted()
        self.assert_stopped_well(session)
        self.assertEqual(program.answer("done")["sum"], RESULT)
        for point in ("entries", "returns"):
            line = session.final()[f"{point}_t_hosted", ""]
            self.assertEqual((line["value"], line["refused"]), (1, 0), point)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.ask("step 1")["sum"], 2 * RESULT)
        self.assertEqual(program.end(), 0)

    def test_relay_in_a_host_and_a_killed_injector(self):
        for journal_is_lost in (False, True):
            program, before, session = self.hosted()
            session.kill()
            if journal_is_lost:
                self.overwrite_journal(program.pid)
            done = run(MDL_INJECT, "--remove", program.pid)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(program.answer("done")["sum"], RESULT)
            self.assert_untouched(program.pid, before)
            self.assertEqual(program.ask("step 1")["sum"], 2 * RESULT)
            self.assertEqual(program.end(), 0)

    def test_stopped_at_a_relay_in_a_host(self):
        """A thread that is about to execute a jump which a removal takes away goes on where it leads."""
        program = self.start("interrupted", "apart")
        before = self.remember(program.pid)
        session = self.inject(program.pid, self.compile_text(entries_and_returns(["t_hosted"]))).wait_inserted()
        program.send(f"often {CALLS}")
        stop_at(program.pid, program.ready["t_hosted"] + 5)
        session.process.send_signal(signal.SIGINT)
        time.sleep(0.5)  # it waits for the thread to leave what the jump led to
        os.kill(program.pid, signal.SIGCONT)
        self.assertEqual(program.answer("done")["sum"], CALLS * RESULT)
        self.assertEqual(session.wait(), 0, session.errors)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def test_what_calls_have_left_on_a_stack(self):
        """Without frame information each word on a stack may be a return address: of our own none is left."""
        program = self.start("interrupted", "apart")
        before = self.remember(program.pid)
        session = self.inject(program.pid, self.compile_text(entries_and_returns(["t_lingers"]))).wait_inserted()
        program.send("linger 60000")  # the thread's first hit: its block is looked for
        soon(lambda: session.fresh_values()["entries_t_lingers", ""] == 1, "the call")
        self.assert_stopped_well(session)  # it would wait for a frame of ours to end
        self.assert_untouched(program.pid, before)

    def test_a_program_that_steps_through_itself(self):
        """With the trap flag set: a thread of it makes our calls, in which all signals are blocked."""
        program = self.start("family")
        before = self.remember(program.pid)
        plan = self.compile_text(entries_and_returns(["t_signal"]))
        program.send("step 10000000")
        for _ in range(5):
            session = self.inject(program.pid, plan).wait_inserted()
            soon(lambda session=session: session.fresh_values()["entries_t_signal", ""] > 0, "a call")
            self.assert_stopped_well(session)
        self.assert_untouched(program.pid, before)
        self.assertIsNone(program.process.poll())

    def overwrite_journal(self, pid):
        journal = next(mapping for mapping in process_text.leftovers(pid) if mapping.access == "r--p")
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(journal.start)
            memory.write(b"not a journal " * 100)


class Unwalked(LiveTest):
    """A stack whose walk ends at code without frames: tests/programs/unwalked.cpp."""

    def test_what_earlier_calls_have_left_below_known_frames_does_not_hold_a_removal(self):
        program = self.start("unwalked")
        before = self.remember(program.pid)
        for _ in range(3):
            session = self.inject(program.pid, "count t_touch by $arg[0]", "count t_touch").wait_inserted()
            program.send("wait")
            program.answer("inside")
            self.assert_stopped_well(session)
            self.assertEqual(session.final()["count t_touch", ""]["value"], 512)
            self.assert_untouched(program.pid, before)
            program.ask("go on")
        self.assertEqual(program.end(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
