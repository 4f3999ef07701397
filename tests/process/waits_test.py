"""Nobody makes mdl-inject wait: neither the target, nor its user, with locks and with tracers, as an unprivileged
user would. Root attaches and takes out again; a holder that cannot be passed over is named, in time.
"""

import os
import pathlib
import signal
import subprocess
import time
import unittest

import harness
from harness import NOBODY, MDL_INJECT, PROGRAMS, LiveTest, metric, run, soon

FAILED = 1
AS_NOBODY = (*harness.AS_NOBODY, "--bounding-set=-all")
IN_TIME = 20  # seconds: longer than any deadline of one step, and no wait for ever


@unittest.skipUnless(os.geteuid() == 0, "two users are needed")
class Waits(LiveTest):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.plan = self.compile_text(metric("turns", ["turn"]))

    def enemy(self, *does):
        """A program of nobody's that does the named things to itself, from tests/programs/obstinate.cpp."""
        program = self.start("obstinate", command=[*AS_NOBODY, str(PROGRAMS / "obstinate"), "120", *does])
        program.pid = program.process.pid  # not its child
        return program

    def assert_measured(self, program):
        """An attach and a removal, both in time."""
        for options in ([], ["--detach"]):
            done = run(MDL_INJECT, program.pid, self.plan, "-d", "0.1", "--format", "ndjson", *options,
                       seconds=IN_TIME)
            self.assertEqual(done.returncode, 0, done.stderr)
        done = run(MDL_INJECT, "--remove", program.pid, seconds=IN_TIME)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("removed:", done.stdout)

    def test_target_locks_its_memory(self):
        target = self.enemy("lock")
        before = self.remember(target.pid)
        self.assert_measured(target)
        self.assert_untouched(target.pid, before)

    def test_accomplice_locks_its_memory(self):
        self.assert_measured(self.enemy("lock-by-child"))

    def test_accomplice_with_our_name(self):
        """It is waited for, and named; then --break-lock ends it, and says so."""
        target = self.enemy("lock-by-child", "call-mdl-inject")
        accomplice = target.ready["child"]
        for words in ([target.pid, self.plan, "-d", "0.1"], ["--remove", target.pid]):
            begun = time.monotonic()
            done = run(MDL_INJECT, *words)
            self.assertLess(time.monotonic() - begun, IN_TIME)
            self.assertEqual(done.returncode, FAILED, done.stderr)
            self.assertIn(f"process {accomplice} (mdl-inject, uid {NOBODY}) holds the lock", done.stderr)
            self.assertIn("--break-lock", done.stderr)
        none = self.folder / "none.plan"
        none.write_text("no plan")
        for mode in ("--separate", "--no-separate"):  # a plan that is not admitted ends nobody
            done = run(MDL_INJECT, target.pid, none, "-d", "0.1", "--break-lock", mode, seconds=IN_TIME)
            self.assertIn("not a usable plan", done.stderr)
            self.assertNotIn("ended process", done.stderr)
            self.assertEqual(target.ask("child")["alive"], 1)
        done = run(MDL_INJECT, target.pid, self.plan, "-d", "0.1", "--break-lock", seconds=IN_TIME)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"ended process {accomplice} (mdl-inject, uid {NOBODY})", done.stderr)
        self.assertEqual(target.ask("child")["alive"], 0)
        self.assert_measured(target)

    def test_another_users_holder_is_not_ended(self):
        """A user may end only its own."""
        target = self.enemy("call-nothing")
        holder = self.start("obstinate", command=[str(PROGRAMS / "obstinate"), "120", f"lock-of={target.pid}",
                                                  "call-mdl-inject"])
        public = self.public_injector()
        done = run(*AS_NOBODY, public, "--remove", target.pid, "--break-lock", seconds=IN_TIME)
        self.assertEqual(done.returncode, FAILED, done.stderr)
        self.assertIn(f"held by process {holder.pid} (mdl-inject, uid 0)", done.stderr)
        self.assertIsNone(holder.process.poll())

    @unittest.skipUnless(harness.HAS_OWN_HANDLES, "handles of all processes are one file (Linux before 6.9)")
    def test_handle_that_everybody_can_lock(self):
        """Who may not trace the process is passed over, whatever he is called; others are waited for, and named."""
        target = self.enemy("call-nothing")
        stranger = ["setpriv", f"--reuid={NOBODY - 7}", "--clear-groups"]
        for under, words, works in ((stranger, ["call-mdl-inject"], True), ([], [], True), ([], ["call-mdl-inject"], False)):
            with self.subTest(under=under, words=words):
                holder = self.start("obstinate", command=[*under, str(PROGRAMS / "obstinate"), "120",
                                                          f"handle-of={target.pid}", *words])
                if works:
                    self.assert_measured(target)
                else:
                    done = run(MDL_INJECT, target.pid, self.plan, "-d", "0.1", seconds=IN_TIME)
                    self.assertEqual(done.returncode, FAILED, done.stderr)
                    self.assertIn(f"process {holder.process.pid} (mdl-inject, uid 0) holds the lock", done.stderr)
                holder.end()

    def public_injector(self):
        public = self.folder / "mdl-inject"
        public.write_bytes(pathlib.Path(MDL_INJECT).read_bytes())
        public.chmod(0o755)
        return public

    def test_folder_that_somebody_else_made(self):
        """A user's folder in /tmp is not taken from others: the locks of the memory are still there."""
        target = self.enemy("call-nothing")
        folder = pathlib.Path(f"/tmp/mdl-{NOBODY}")
        if folder.exists():
            folder.rmdir()  # empty, or somebody measures as nobody
        folder.symlink_to(self.folder)
        self.addCleanup(folder.unlink)
        self.plan.chmod(0o644)
        done = run(*AS_NOBODY, self.public_injector(), target.pid, self.plan, "-d", "0.1", seconds=IN_TIME)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()),
                         ["mdl-inject", "metrics.bin", "metrics.mdl"])

    def test_killed_holder(self):
        """A lock goes with its holder, and so does its file with the next."""
        target = self.enemy("call-nothing")
        session = self.inject(target.pid, self.plan).wait_inserted()
        session.process.send_signal(signal.SIGKILL)
        session.process.wait()
        done = run(MDL_INJECT, "--remove", target.pid, seconds=IN_TIME)
        self.assertEqual(done.returncode, 0, done.stderr)
        left = [path.name for folder in ("/run/mdl", "/tmp/mdl-0") for path in pathlib.Path(folder).glob("*")]
        self.assertEqual([name for name in left if name.startswith(f"{target.pid}-")], [])

    def test_tracer_with_our_name(self):
        target = self.enemy("trace-by-child", "call-mdl-inject")
        tracer = target.ready["child"]
        for words in ([target.pid, self.plan, "-d", "0.1"], ["--remove", target.pid], ["--list", target.pid],
                      ["--check", target.pid]):
            begun = time.monotonic()
            done = run(MDL_INJECT, *words)
            self.assertLess(time.monotonic() - begun, 10)
            self.assertEqual(done.returncode, FAILED, done.stderr)
            self.assertIn(f"process {tracer} (mdl-inject)", done.stderr)

    def test_page_that_nobody_fills(self):
        """To read it would take for ever, in the kernel, with a thread of the target stopped."""
        target = self.start("obstinate", "threads=1", "unfilled")
        before = self.remember(target.pid)
        target.ask("longest")
        done = run(MDL_INJECT, target.pid, self.plan, "-d", "0.1", seconds=IN_TIME)
        self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
        self.assertIn("a page of it waits for somebody to fill it", done.stderr)
        self.assertEqual(pathlib.Path(f"/proc/{target.pid}/status").read_text().split("TracerPid:")[1].split()[0], "0")
        self.assert_untouched(target.pid, before)
        self.assertEqual(run(MDL_INJECT, "--remove", target.pid, seconds=IN_TIME).returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
