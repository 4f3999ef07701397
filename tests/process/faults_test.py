"""A program that makes exceptions of faults: tests/programs/faults.cpp."""

import unittest

from harness import LiveTest, entries_and_returns

FUNCTIONS = ["t_load", "t_store", "t_divide", "t_call", "t_plain"]
MAY_FAULT = {"t_load", "t_store", "t_divide", "t_call"}


class Faults(LiveTest):
    def test_faults_in_measured_functions_are_caught(self):
        """What may fault stays in its place, where the unwinder finds it, and counts are right or refused."""
        program = self.start("faults")
        before = self.remember(program.pid)
        self.assertEqual(program.ask("work 10"), {"event": "done", "rounds": 10, "caught": 25})
        session = self.inject(program.pid, self.compile_text(entries_and_returns(FUNCTIONS))).wait_inserted()
        self.assertEqual(program.ask("work 1000"), {"event": "done", "rounds": 1010, "caught": 2525})
        self.assert_stopped_well(session)
        final = session.final()
        for name in FUNCTIONS:
            entries = final[f"entries_{name}", ""]
            calls = 1500 if name == "t_divide" else 1000
            self.assertIn((entries["value"], entries["refused"] > 0), ((calls, False), (0, True)), name)
            if name not in MAY_FAULT:
                self.assertEqual(entries["refused"], 0, name)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.ask("work 2")["caught"], 2530)
        self.assertEqual(program.end(), 7)


if __name__ == "__main__":
    unittest.main()
