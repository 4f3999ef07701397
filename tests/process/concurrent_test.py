"""Several injectors at one process, and processes that share its memory without being threads of it."""

import fcntl
import os
import signal
import subprocess
import threading
import unittest

import harness
from harness import MDL_INJECT, PROGRAMS, LiveTest, metric, run, soon

ROUNDS = 10
# Every function of the program and of the C library.
WHOLE = """
resourceList whole is module { items { "sharers", "libc.so.6" }; flavor { unix }; }
metric returns {
  name "Returns"; units Calls; unitsType unnormalized; aggregateOperator sum; style EventCounter; flavor { unix };
  base is counter {
    foreach object in whole { foreach func in object.funcs { prepend preInsn func.return (* returns++; *) } }
  }
}
"""


class Concurrent(LiveTest):
    def setUp(self):
        super().setUp()
        self.program = self.start("sharers")
        self.before = self.remember(self.program.pid)

    def finish(self):
        """Everything that ran ends; its totals, after which the program must be what it was."""
        done = self.program.ask("stop")
        self.assertEqual((done["wrong"], done["died"]), (0, 0))
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)
        return done

    def race(self, plan):
        """Two that start together; when one has ended, the other gets Ctrl-C. [(status, messages)], sorted."""
        both = [subprocess.Popen([MDL_INJECT, str(self.program.pid), str(plan), "--alone", "-i", "0.05", "-o", "/dev/null"],
                                 stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        try:
            soon(lambda: any(one.poll() is not None for one in both), "one of two to be refused")
            for one in both:
                one.send_signal(signal.SIGINT)  # does nothing to one that has ended
            errors = [one.communicate(timeout=20)[1] for one in both]
        finally:
            for one in both:
                if one.poll() is None:
                    one.kill()
                    one.communicate()
        return sorted(zip([one.returncode for one in both], errors))

    def test_two_at_once(self):
        """One measures, the other is refused and says why; never both, never neither."""
        plan = self.compile_text(metric("work_calls", ["t_work"]) + metric("work_returns", ["t_work"], "return"))
        self.program.ask("threads 4", "running")
        for turn in range(ROUNDS):
            with self.subTest(turn=turn):
                (first, notes), (second, message) = self.race(plan)
                self.assertEqual((first, second), (0, 1), notes + message)
                self.assertIn("mdl-inject: ", message)
                self.assertIn(str(self.program.pid), message)
                self.assert_untouched(self.program.pid, self.before)
        self.assertGreater(self.finish()["work"], 0)

    def test_short_measurements_of_many(self):
        """Nobody takes the jumps of another one for code of the program, also when these come or go while he looks."""
        plan = self.compile_text(metric("all_calls", ["t_work"]) + WHOLE)
        self.program.ask("threads 4", "running")
        results = []

        def measure():
            for _ in range(ROUNDS // 2):
                results.append(run(MDL_INJECT, self.program.pid, plan, "--alone", "-d", "0.02", "-o", "/dev/null", seconds=60))

        users = [threading.Thread(target=measure) for _ in range(4)]
        for user in users:
            user.start()
        for user in users:
            user.join()
        refused = {done.stderr.split(" refused")[0].split()[-1] for done in results if done.returncode == 0}
        self.assertEqual(len(refused), 1, [done.stderr for done in results])
        for done in results:
            if done.returncode != 0:
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(done.stderr, "is being instrumented by|holds the instrumentation|another mdl-inject")
        self.finish()

    def test_killed_injector_that_nobody_waited_for(self):
        """A zombie has a pid and a start time, but measures nothing: what it has left is taken out."""
        plan = self.compile_text(metric("work_calls", ["t_work"]))
        session = self.inject(self.program.pid, plan).wait_inserted()
        os.kill(session.process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, session.process.pid, os.WEXITED | os.WNOWAIT)
        done = run(MDL_INJECT, self.program.pid, plan, "-d", "0.1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"an mdl-inject that was killed ({session.process.pid}, since ", done.stderr)
        self.finish()

    @unittest.skipUnless(os.geteuid() == 0, "it makes a time namespace")
    def test_another_time_namespace(self):
        """Where /proc shows other start times, too, one that measures is known from one that has ended."""
        plan = self.compile_text(metric("work_calls", ["t_work"]))
        self.program.ask("threads 2", "running")
        first = self.inject(self.program.pid, plan).wait_inserted()
        for seconds in ("1000", "-1"):
            elsewhere = ["unshare", "--time", "--boottime", seconds]
            alone = run(*elsewhere, MDL_INJECT, self.program.pid, plan, "--alone", "-d", "0.1")
            self.assertEqual(alone.returncode, 1, alone.stderr)
            self.assertIn("(running)", run(*elsewhere, MDL_INJECT, "--status", self.program.pid).stdout)
            guest = self.inject(self.program.pid, plan, under=elsewhere).wait_inserted()
            self.assert_stopped_well(guest)
            first.fresh_values()
        self.assert_stopped_well(first)
        self.finish()

    @unittest.skipUnless(os.geteuid() == 0, "it makes a pid namespace")
    def test_another_pid_namespace(self):
        """One in a container, or beside it, has another id here. It is known from one that has ended, where it is seen."""
        program = self.start("sharers", command=["unshare", "--pid", "--fork", "--mount-proc", PROGRAMS / "sharers", "120"])
        before = self.remember(program.pid)
        plan = self.compile_text(metric("work_calls", ["t_work"]))
        inner = ["nsenter", "--pid", "--mount", "--target", str(program.pid)]

        def status(*under_and_pid):
            *under, pid = under_and_pid
            return run(*under, MDL_INJECT, "--status", pid).stdout

        def refused(pid, *under):
            done = run(*under, MDL_INJECT, pid, plan, "--alone", "-d", "0.1")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("of another pid namespace", done.stderr)

        session = self.inject(1, plan, under=inner).wait_inserted()
        refused(program.pid)
        self.assertIn("(running)", status(program.pid))
        self.assertNotIn("inherited", status(program.pid))
        session.fresh_values()
        inside = int(run("pgrep", "--parent", session.process.pid).stdout)
        os.kill(inside, signal.SIGKILL)
        session.wait()
        self.assertIn("(ended)", status(program.pid))

        session = self.inject(program.pid, plan).wait_inserted()  # takes out what was left
        refused(1, *inner)
        self.assertIn("not to be seen from here", status(*inner, 1))
        session.fresh_values()
        self.assert_stopped_well(session)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)
        self.finish()

    @unittest.skipUnless(os.geteuid() == 0, "it makes a pid namespace")
    @unittest.skipUnless(harness.HAS_OWN_HANDLES, "handles of all processes are one file (Linux before 6.9)")
    def test_lock_of_another_pid_namespace(self):
        """One in a container waits for one outside of it, which it cannot see, and the other way round."""
        program = self.start("sharers", command=["unshare", "--pid", "--fork", "--mount-proc", PROGRAMS / "sharers", "120"])
        inner = ["nsenter", "--pid", "--mount", "--target", str(program.pid)]
        holds = [PROGRAMS / "obstinate", "60", "call-mdl-inject"]
        for under, holder in ((inner, [*holds, f"handle-of={program.pid}"]), ([], [*inner, *holds, "handle-of=1"])):
            with self.subTest(under=under):
                other = self.start("obstinate", command=holder)
                done = run(*under, MDL_INJECT, 1 if under else program.pid, "count t_work", "-d", "0.1")
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("cannot be seen from here holds the lock" if under else "(mdl-inject, uid 0) holds the lock",
                              done.stderr)
                other.end()
        done = run(*inner, MDL_INJECT, 1, "count t_work", "-d", "0.1", "-o", "/dev/null")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(program.end(), 0)
        self.finish()

    def test_removed_by_another(self):
        """Who measures takes the original code for none that was just loaded: nothing is inserted again, where the data
        are gone. Between two samples it has time for that."""
        plan = self.compile_text(metric("work_calls", ["t_work"]) + metric("work_returns", ["t_work"], "return"))
        self.program.ask("threads 2", "running")
        for turn in range(3):
            with self.subTest(turn=turn):
                session = self.inject(self.program.pid, plan, interval="1.5").wait_inserted()
                removed = run(MDL_INJECT, "--remove", self.program.pid)
                self.assertEqual(removed.returncode, 0, removed.stderr)
                self.assertEqual(session.wait(), 0, session.errors)
                self.assertIn("another mdl-inject has removed it", session.errors)
                self.assertNotIn("was loaded", session.errors)
                self.assert_untouched(self.program.pid, self.before)
        self.assertGreater(self.finish()["work"], 0)

    def test_messages_that_nobody_reads(self):
        """Who looks at code locks out who changes it, but not for as long as somebody reads `--explain` page by page."""
        plan = self.compile_text(metric("work_calls", ["t_work"]))
        pages = self.compile_text("".join(metric(f"{'long_' * 80}{i}", ["t_work"]) for i in range(15)), name="pages")
        self.program.ask("threads 2", "running")
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        slow = subprocess.Popen([MDL_INJECT, str(self.program.pid), str(pages), "--explain", "-d", "0.1", "-o", "/dev/null"],
                                stdin=subprocess.DEVNULL, stderr=writing)
        self.addCleanup(slow.kill)
        os.close(writing)
        with open(reading, "rb", buffering=0) as messages:
            said = messages.read(1)
            session = self.inject(self.program.pid, plan).wait_inserted()
            self.assert_stopped_well(session)
            self.assertIsNone(slow.poll())
            said += messages.readall()
        self.assertEqual(slow.wait(20), 0, said)
        self.assertIn(b"inserted 1 points", said)
        self.finish()

    def test_processes_in_the_same_memory(self):
        """They run the code that is patched, so they must stand still like threads; else they die."""
        plan = self.compile_text(metric("shared_calls", ["t_shared"]) +
                                 metric("shared_returns", ["t_shared"], "return"))
        self.program.ask("clones 3", "running")
        for _ in range(5):
            session = self.inject(self.program.pid, plan, interval="0.02").wait_inserted()
            self.assert_stopped_well(session)
            self.assertEqual(session.final()["shared_calls", ""]["refused"], 0)
            self.assert_untouched(self.program.pid, self.before)
        self.assertGreater(self.finish()["shared"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
