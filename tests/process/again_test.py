"""What an attach finds of another mdl-inject: of one that was killed it takes out what was left; one that measures, or
has left its code on purpose, is named, and nothing is done.
"""

import signal
import time
import unittest

from harness import MDL_INJECT, LiveTest, run

QUERY = "count t_work as work_calls"


class Again(LiveTest):
    def setUp(self):
        super().setUp()
        self.program = self.start("children")
        self.before = self.remember(self.program.pid)

    def measure(self, *options):
        """Another attach counts exactly, and leaves the process as it was."""
        session = self.inject(self.program.pid, QUERY, *options).wait_inserted()
        self.program.ask("work 7")
        self.assert_stopped_well(session)
        self.assertEqual(session.final()[("work_calls", "")]["value"], 7, session.errors)
        self.assert_untouched(self.program.pid, self.before)
        return session.errors

    def test_behind_one_that_was_killed(self):
        session = self.inject(self.program.pid, QUERY).wait_inserted()
        time.sleep(0.2)
        session.kill()
        self.program.ask("work 100")
        said = self.measure()
        self.assertRegex(said, rf"process {self.program.pid} held what an mdl-inject that was killed "
                               rf"\({session.process.pid}, since .* UTC\) had left: it was taken out \(\d windows restored\)")
        self.assertNotIn("held what", self.measure())
        self.assertEqual(self.program.end(), 0)

    def test_killed_at_any_moment(self):
        for n in range(10):
            session = self.inject(self.program.pid, QUERY)
            time.sleep(0.015 * n)
            session.kill()
            self.program.ask("work 3")
            # Killed while the code was changed, or right behind that, it is not known from one that was left.
            if "take it out with mdl-inject --remove" in run(MDL_INJECT, self.program.pid, QUERY, "-d", "0").stderr:
                self.assertEqual(run(MDL_INJECT, "--remove", self.program.pid).returncode, 0)
            self.measure()
        self.assertEqual(self.program.end(), 0)

    def test_in_a_child_of_its_family(self):
        session = self.inject(self.program.pid, QUERY, "--follow-fork").wait_inserted()
        self.program.ask("work 1")
        session.kill()
        self.program.ask("fork 2")  # it waits in vain, and goes on
        self.assertIn("held what an mdl-inject that was killed", self.measure("--follow-fork"))
        self.assertEqual(self.program.end(), 0)

    def test_what_was_left_on_purpose_stays(self):
        session = self.inject(self.program.pid, QUERY, "--detach", "-d", "0.2").wait_inserted()
        self.assertEqual(session.wait(), 0)
        self.program.ask("work 5")
        done = run(MDL_INJECT, self.program.pid, QUERY, "-d", "0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("holds the instrumentation of an mdl-inject that has ended", done.stderr)
        self.assertIn("work_calls = 5 Calls", run(MDL_INJECT, "--status", self.program.pid).stdout)
        self.assertEqual(run(MDL_INJECT, "--remove", self.program.pid).returncode, 0)
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)

    def test_one_that_measures_is_named(self):
        session = self.inject(self.program.pid, QUERY).wait_inserted()
        done = run(MDL_INJECT, self.program.pid, "count t_work", "-d", "0", "--alone")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf"is being instrumented by mdl-inject {session.process.pid}, since .* UTC, "
                                      "which measures work_calls: end that one first")
        self.program.ask("work 9")
        self.assert_stopped_well(session)
        self.assertEqual(session.final()[("work_calls", "")]["value"], 9)
        # A stopped one is alive, too.
        session = self.inject(self.program.pid, QUERY).wait_inserted()
        session.process.send_signal(signal.SIGSTOP)
        self.assertIn("is being instrumented by", run(MDL_INJECT, self.program.pid, QUERY, "-d", "0").stderr)
        session.process.send_signal(signal.SIGCONT)
        self.assert_stopped_well(session)
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)

    def test_a_rehearsal_changes_nothing(self):
        session = self.inject(self.program.pid, QUERY).wait_inserted()
        time.sleep(0.2)
        session.kill()
        self.assertEqual(run(MDL_INJECT, self.program.pid, QUERY, "--dry-run").returncode, 1)
        self.assertIn("(ended)", run(MDL_INJECT, "--status", self.program.pid).stdout)
        self.measure()
        self.assertEqual(self.program.end(), 0)


if __name__ == "__main__":
    unittest.main()
