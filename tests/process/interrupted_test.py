"""Threads that an attach finds in places where they cannot stay: tests/programs/interrupted.cpp."""

import unittest

from harness import LiveTest, entries_and_returns

RESULT = 8


class Interrupted(LiveTest):
    def test_window_seen_from_another_stack(self):
        """The return into the patch window lies on the stack that the thread has left for the handler's."""
        program = self.start("interrupted")
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
