"""Threads that an attach finds in places where they cannot stay: tests/programs/interrupted.cpp."""

import time
import unittest

from harness import LiveTest, entries_and_returns

RESULT = 8


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

    def test_short_jump(self):
        """What was given up is not the session's: its relay is not looked at for code that was loaded anew."""
        program = self.start("interrupted", "apart")
        before = self.remember(program.pid)
        plan = self.compile_text(entries_and_returns(["t_short"]))
        program.send("interrupt_short 600")
        program.answer("inside")
        session = self.inject(program.pid, plan).wait_inserted()
        self.assertEqual(program.answer("done")["sum"], RESULT)
        time.sleep(0.5)  # many looks at what is loaded
        self.assert_stopped_well(session)
        self.assertGreater(session.final()["entries_t_short", ""]["refused"], 0)
        self.assertNotIn("was loaded", session.errors)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
