"""A target decides neither how long it stands for an attach, nor how long for a removal: 100 threads on deep stacks
whose frames no table describes (tests/programs/obstinate.cpp), which the program itself watches.
"""

import pathlib
import re
import statistics
import time
import unittest

from harness import MDL_INJECT, LiveTest, metric, run

FAILED = 1
# What the target may see of a stop that is limited to 50 ms: a thread that is about to be let go may have to wait for
# the processor, on a machine that does other things. Without a limit it is 20 times that.
SEEN_MS = 400
MOST_READS = 3  # as long as so many take, with what is made of them and the rest of the stop


class Pause(LiveTest):
    def setUp(self):
        super().setUp()
        self.plan = self.compile_text(metric("turns", ["turn"]))

    def measure(self, program, *options):
        return run(MDL_INJECT, program.pid, self.plan, "-d", "0.1", "--format", "ndjson", *options, seconds=60)

    def stood(self, program):
        """Milliseconds, at most, since the last call."""
        return program.ask("longest")["ms"]

    def test_many_threads(self):
        """Of an honest program: they fit into the limit."""
        program = self.start("obstinate", "threads=100")
        done = self.measure(program)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_stacks_that_cannot_be_walked_are_one_warning(self):
        """It was one for each thread: 49 lines at each attach to a Java server."""
        program = self.start("obstinate", "threads=20", "deep=4096")
        done = run(MDL_INJECT, program.pid, "time turn", "-d", "0.1", "--format", "ndjson", seconds=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"the stacks of 2\d of 2\d threads could not be walked to their ends \(thread \d+: ")
        self.assertEqual(done.stderr.count("could not be walked"), 1, done.stderr)

    def test_deep_stacks_are_refused(self):
        for how in ([], ["busy"]):
            program = self.start("obstinate", "threads=100", f"deep={8 << 20}", *how)
            before = self.remember(program.pid)
            self.stood(program)
            for _ in range(5):  # where other work keeps 102 threads from being stopped in time, that is refused, too
                done = self.measure(program)
                if "cannot be stopped within" not in done.stderr:
                    break
            self.assertEqual(done.returncode, FAILED, done.stderr)
            self.assertRegex(done.stderr, r"would have to stand for more than 50 ms .*102 threads .*slowest is thread \d+")
            self.assertIn("--max-pause", done.stderr)
            self.assertLess(self.stood(program), SEEN_MS)
            self.assert_untouched(program.pid, before)
            program.kill()

    def test_the_limit_is_the_users(self):
        """A longer one lets the same process be measured, and a removal takes what it needs, bit by bit."""
        program = self.start("obstinate", "threads=100", f"deep={8 << 20}")
        before = self.remember(program.pid)
        done = self.measure(program, "--max-pause", "20000", "--detach")
        self.assertEqual(done.returncode, 0, done.stderr)
        paused = re.search(r"paused ([\d.]+) ms, at most ([\d.]+) ms at a time \(", done.stderr)
        self.assertGreater(float(paused[1]), 50)
        self.assertGreater(float(paused[2]), 50)
        self.assertLess(float(paused[2]), float(paused[1]))  # memory was mapped in a stop before
        done = run(MDL_INJECT, "--remove", program.pid, seconds=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_untouched(program.pid, before)

    def test_many_mappings(self):
        """The kernel writes 60,000 of them in tens of milliseconds, so a stop reads them once."""
        program = self.start("obstinate", "threads=1", "maps=60000")
        before = self.remember(program.pid)

        def read():
            began = time.monotonic()
            pathlib.Path(f"/proc/{program.pid}/maps").read_bytes()
            return (time.monotonic() - began) * 1000

        tried = []  # (the stop, a read before it and one behind), on a machine whose speed changes
        for _ in range(7):
            done = self.measure(program, "--max-pause", "20000", "--detach")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.stood(program)
            earlier = read()
            done = run(MDL_INJECT, "--remove", program.pid, seconds=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            tried.append((self.stood(program), earlier, read()))
        self.assert_untouched(program.pid, before)
        self.assertLess(statistics.median(stood / max(reads) for stood, *reads in tried), MOST_READS, tried)

    def test_shorter_than_possible(self):
        program = self.start("obstinate", "threads=400")
        before = self.remember(program.pid)
        done = self.measure(program, "--max-pause", "1")
        self.assertEqual(done.returncode, FAILED, done.stderr)
        self.assertIn("more than 1 ms", done.stderr)
        self.assert_untouched(program.pid, before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
