"""mdl-inject top: the busiest functions, found by sampling, of a program that knows them."""

import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

from harness import AS_NOBODY, MDL_INJECT, LiveTest, run, soon

METRICS = ("calls", "self_time", "call_latency")


def foci(session):
    return {focus for metric, focus in session.final()}


class Top(LiveTest):
    def top(self, program, *options, **named):
        return self.inject("top", program.pid, *options, **named)

    def refused(self, *words, status=1, under=()):
        done = run(*under, MDL_INJECT, "top", *words, "-d", "0")
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        return done.stderr

    def busy(self, threads):
        program = self.start("busy")
        program.ask(f"work {threads}")
        return program

    def test_the_busiest_are_measured(self):
        """In their order, exactly, and the process is what it was."""
        program = self.start("busy")
        before = self.remember(program.pid)
        program.ask("work 3")
        session = self.top(program, "-v").wait_inserted()
        session.fresh_values()
        program.ask("rest")
        self.assert_stopped_well(session)
        said = re.findall(r"^ *([\d.]+) %  /Code/busy/(\w+)$", session.errors, re.M)
        self.assertEqual([name for _, name in said[:2]], ["b_much", "b_some"])
        self.assertGreater(float(said[0][0]), 55)  # three parts of four
        self.assertGreater(float(said[1][0]), 10)
        final = session.final()
        self.assertEqual({metric for metric, _ in final}, set(METRICS))
        much, some = (final["calls", f"/Code/busy/b_{name}"]["value"] for name in ("much", "some"))
        self.assertGreater(much, 10)
        self.assertAlmostEqual(some, 2 * much, delta=2 * 3)  # what a thread was in when it was attached to
        self.assertGreater(final["self_time", "/Code/busy/b_much"]["value"], final["self_time", "/Code/busy/b_some"]["value"])
        self.assertEqual({line["refused"] for line in final.values()}, {0})
        self.assert_untouched(program.pid, before)

    def test_as_many_as_asked_for(self):
        program = self.busy(2)
        session = self.top(program, "--top", "1", "--sample", "500ms").wait_inserted()
        self.assert_stopped_well(session)
        self.assertEqual(foci(session), {"/Code/busy/b_much"})
        self.assertRegex(session.errors, r"sampled process \d+ for 0.5 s: \d+ samples")
        self.assertRegex(session.errors, r"left out: [\d.]+ % in \d functions that are less busy")

    def test_what_cannot_be_measured(self):
        """The next one takes its place; where there is none, that is an error."""
        program = self.start("busy")
        before = self.remember(program.pid)
        program.ask("odd 1")
        self.assertIn("none of the functions in which", self.refused(program.pid))
        program.ask("work 1")
        session = self.top(program, "--top", "1").wait_inserted()
        self.assert_stopped_well(session)
        self.assertEqual(foci(session), {"/Code/busy/b_much"})
        self.assertRegex(session.errors, r"left out: [\d.]+ % in /Code/busy/b_odd, which cannot be measured: the entry is the head")
        self.assert_untouched(program.pid, before)

    def test_system_calls(self):
        server = self.start_redis()
        before = self.remember(server.pid)
        benchmark = subprocess.Popen(["redis-benchmark", "-p", str(server.port), "-t", "set", "-n", "100000000", "-q"],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            session = self.top(server, "--sample", "2s").wait_inserted()
            session.fresh_values()
            self.assert_stopped_well(session)
        finally:
            benchmark.kill()
            benchmark.wait()
        self.assertTrue(any(re.search(r"/libc[^/]*/.*(write|read|epoll_wait)", focus) for focus in foci(session)), foci(session))
        self.assert_untouched(server.pid, before)

    def test_idle(self):
        program = self.start("busy")
        before = self.remember(program.pid)
        self.assertRegex(self.refused(program.pid, "--sample", "200ms"),
                         r"nothing of process \d+ ran while it was sampled .* --sample 5s")
        self.assert_untouched(program.pid, before)

    def test_it_ends_or_executes_meanwhile(self):
        for command, text in (("leave", "has ended while it was sampled"), ("execute", "another program")):
            with self.subTest(command=command):
                program = self.busy(2)
                program.send(f"{command} 1500")
                self.assertIn(text, self.refused(program.pid, "--sample", "4s"))

    def test_interrupted_while_it_samples(self):
        program = self.busy(2)
        before = self.remember(program.pid)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(signal=number):
                process = subprocess.Popen([MDL_INJECT, "top", str(program.pid), "--sample", "60s"], stdin=subprocess.DEVNULL,
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.addCleanup(process.kill)
                time.sleep(1)
                process.send_signal(number)
                out, errors = process.communicate(timeout=30)
                if number == signal.SIGKILL:
                    soon(lambda: "TracerPid:\t0" in pathlib.Path(f"/proc/{program.pid}/status").read_text(), "the threads to be let go")
                else:
                    self.assertEqual((process.returncode, out), (1, ""))
                    self.assertIn("interrupted before anything was changed", errors)
        self.assert_untouched(program.pid, before)
        self.assertGreater(program.ask("rest")["much"], 10)

    def test_wrong_words(self):
        self.assertIn("no process is called", self.refused("-p", "nobody-is-called-so"))
        for words, text in ((["1", "count malloc"], "top finds by itself"), (["1", "-m", "calls"], "top finds by itself"),
                            (["1,2"], "for one process"), ([], "process id is needed"), (["1", "--list"], "command of its own"),
                            (["1", "--sample", "0"], "between 10ms and 1h")):
            with self.subTest(words=words):
                self.assertIn(text, self.refused(*words, status=2))
        self.assertIn("--sample goes with top", run(MDL_INJECT, "1", "count malloc", "--sample", "1s").stderr)

    @unittest.skipIf(os.geteuid() != 0, "only root has strangers here")
    def test_a_stranger(self):
        """One whose process this user may not trace."""
        program = self.busy(1)
        before = self.remember(program.pid)
        self.assertIn("permi", self.refused(program.pid, under=AS_NOBODY))
        self.assert_untouched(program.pid, before)

    def test_one_that_is_measured_already(self):
        program = self.busy(1)
        first = self.inject(program.pid, "count b_much").wait_inserted()
        began = time.monotonic()
        self.assertIn("top needs a session of its own", self.refused(program.pid, "--sample", "20s"))
        self.assertIn("instrumented", self.refused(program.pid, "--sample", "20s", "--alone"))
        self.assertLess(time.monotonic() - began, 15)
        self.assert_stopped_well(first)

    def test_what_a_killed_one_has_left(self):
        """It is taken out first: its windows are no reason to leave the busiest functions out."""
        program = self.start("busy")
        before = self.remember(program.pid)
        program.ask("work 1")
        first = self.inject(program.pid, "count b_much", "latency b_some").wait_inserted()
        first.process.kill()
        first.process.wait()
        session = self.top(program, "--top", "2").wait_inserted()
        self.assert_stopped_well(session)
        self.assertEqual(foci(session), {"/Code/busy/b_much", "/Code/busy/b_some"})
        self.assertIn("it was taken out", session.errors)
        self.assertNotIn("cannot be measured", session.errors)
        self.assert_untouched(program.pid, before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
