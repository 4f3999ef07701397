"""The command lines of mdl-inject that README shows, run as they stand, and what it says that they print.

Every such line of README and docs is in LINES (tests/driver/pages_test.py sees to that). `pidof` is one that knows the
test's own server only.
"""

import os
import re
import signal
import subprocess
import unittest

from harness import MDL_INJECT, MDLC, SOURCE, Lines, LiveTest, metric, run

README = (SOURCE / "README.md").read_text()
LINES = ["mdl-inject $(pidof redis-server) redis.plan",
         "mdl-inject $(pidof redis-server) mine.plan -m key_lookups -m redis_key_lookups@/Code/redis-server/mgetCommand"]
NUMBER = r"-?[\d,]+(?:\.\d+)?"


class Pages(LiveTest):
    def setUp(self):
        super().setUp()
        self.server = self.start_redis()
        tools = self.folder / "tools"
        tools.mkdir()
        for name, path in (("mdlc", MDLC), ("mdl-inject", MDL_INJECT)):
            (tools / name).symlink_to(os.path.realpath(path))
        (tools / "pidof").write_text(f"#!/bin/sh\necho {self.server.pid}\n")
        (tools / "pidof").chmod(0o755)
        self.path = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}

    def said(self, line):
        """The first line that the command writes; then Ctrl-C ends it."""
        process = subprocess.Popen(["sh", "-c", f"exec {line}"], cwd=self.folder, env=self.path, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        try:
            first = Lines(process.stdout).next("the first sample")
            process.send_signal(signal.SIGINT)
            errors = process.communicate(timeout=60)[1].decode()
        finally:
            process.kill()
            process.wait()
        self.assertEqual(process.returncode, 0, errors)
        return first

    def test_readmes_commands(self):
        before = self.remember(self.server.pid)
        (self.folder / "mine.mdl").write_text(metric("key_lookups", ["call"]))
        compiled = next(line.strip() for line in README.splitlines() if line.startswith("    mdlc "))
        done = subprocess.run(["sh", "-c", compiled], cwd=self.folder, env=self.path, capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in LINES:
            with self.subTest(line=line):
                self.assertIn(f"    {line}", README)
                self.assertIn('"metric":"', self.said(line) or "")
        self.assert_untouched(self.server.pid, before)

    def test_what_the_demo_shows(self):
        """The lines of README's example are those of such a run, but for their numbers."""
        shown = README[README.index("    inserted "):README.index("    == afterwards")].splitlines()
        wanted = [re.sub(NUMBER, "N", line).split() for line in shown]
        done = run(MDL_INJECT, self.server.pid, "redis.plan", "-m", "redis_commands", "-m", "redis_key_lookups", "-m",
                   "redis_key_lookups@/Code/redis-server/setCommand", "-m", "redis_bytes_written", "--format", "table", "-i", "0.1", "-d", "0.5")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        second = [line for line in lines if "METRIC" not in line][4:8]  # the first one has no rates
        said = [next(line for line in done.stderr.splitlines() if line.startswith("inserted ")), lines[0], *second]
        said[0] = re.sub(rf", at most {NUMBER} ms at a time", "", said[0])  # of a busy machine
        self.assertEqual([re.sub(NUMBER, "N", line).split() for line in said], wanted)


if __name__ == "__main__":
    unittest.main(verbosity=2)
