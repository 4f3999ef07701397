"""A function that had ended with a jump before the attach is on no stack: what is counted within it lacks that call, and
it is said. tests/programs/left.cpp."""

import unittest

from harness import LiveTest

NOTE = "/Code/{0}/t_leaves ends with a jump to /Code/{0}/t_loop, where a thread was at the attach"


class Left(LiveTest):
    def measure(self, how, query, events=100, of="left", program="left"):
        program = self.start(program, how)
        before = self.remember(program.pid)
        session = self.inject(program.pid, query).wait_inserted()
        program.ask(f"go {events}")
        self.assert_stopped_well(session)
        self.assert_untouched(program.pid, before)
        return next(iter(session.final().values()))["value"], NOTE.format(of) in session.errors

    def test_left_for_what_runs(self):
        self.assertEqual(self.measure("leaves", "count t_event within t_leaves"), (0, True))
        self.assertEqual(self.measure("pointer", "count t_event within t_leaves"), (0, True))
        self.assertTrue(self.measure("leaves", "time t_leaves")[1])

    def test_called_by_way_of_the_linkage_table(self):
        for how, noted in (("leaves", True), ("pointer", True), ("loop", False)):
            self.assertEqual(self.measure(how, "count t_event within t_leaves", of="libleft.so", program="left-library"), (0, noted))

    def test_what_runs_was_called(self):
        self.assertEqual(self.measure("loop", "count t_event within t_leaves"), (0, False))

    def test_functions_that_are_active(self):
        for how in ("leaves", "pointer", "loop"):
            self.assertEqual(self.measure(how, "count t_event within t_loop"), (100, False))
            self.assertEqual(self.measure(how, "count t_event within main"), (100, False))


if __name__ == "__main__":
    unittest.main(verbosity=2)
