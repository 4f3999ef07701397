"""Children that run in the memory of a process, as its thread, and execute a program or end there (vfork, posix_spawn): what
they leave is over where the parent goes on. tests/programs/launches.cpp."""

import unittest

from harness import LiveTest

ROUNDS = 100
CHILD, EXEC, OUTER = (f"count l_step within {name}" for name in ("l_child", "execve", "l_outer"))
TIME, LATENCY = "time execve", "latency execve"
BY_KEY = "count l_step within execve by $arg[0]"
IN_ROUND = "time l_round"


class Launches(LiveTest):
    def measure(self, how, static=False):
        program = self.start("launches-static" if static else "launches", how)
        before = self.remember(program.pid)
        session = self.inject(program.pid, CHILD, EXEC, OUTER, TIME, LATENCY, BY_KEY, IN_ROUND).wait_inserted()
        program.ask(f"go {ROUNDS}")
        session.next_sample()
        self.assert_stopped_well(session)
        self.assert_untouched(program.pid, before)
        self.assertNotIn("suspect", session.errors)
        self.assertNotIn("not hooked", session.errors)
        self.assertEqual(program.end(), 0)
        return session.final()

    def check(self, how, child, outer=0, **more):
        """Steps within l_child, and l_outer; none is within execve, and execve runs for a part of each round alone."""
        last = self.measure(how, **more)
        values = {metric: line.get("value") for (metric, _), line in last.items()}
        self.assertEqual((values[CHILD], values[EXEC], values[OUTER]), (child, 0, outer))
        self.assertFalse([line for (metric, _), line in last.items() if metric == BY_KEY and line["value"]])
        self.assertGreater(values[TIME], 0)
        self.assertLess(values[TIME], values[IN_ROUND])
        return last

    def test_vfork(self):
        self.check("vfork", ROUNDS)

    def test_programs_that_are_not_there(self):
        last = self.check("absent", ROUNDS)
        self.assertEqual(last[LATENCY, ""]["count"], 3 * ROUNDS)
        self.assertFalse(last[TIME, ""].get("anomalies"))

    def test_a_child_that_has_one(self):
        self.check("nested", ROUNDS, ROUNDS)

    def test_posix_spawn(self):
        for how in ("spawn", "search", "shell"):
            with self.subTest(how=how):
                self.check(how, 0)

    def test_static(self):
        for how, child in (("vfork", ROUNDS), ("search", 0)):
            with self.subTest(how=how):
                self.check(how, child, static=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
