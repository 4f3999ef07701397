"""A target that attacks what is put into it, at random, while it is measured by root (tests/programs/turmoil.cpp).

    turmoil_test.py                   5 attaches, of a random seed, which it says; fewer after a minute
    turmoil_test.py COUNT [SEED]      the long form, with 2,000: scripts/soak --hostile

Number N of a seed is the same attach each time, as far as threads and clocks allow: turmoil_test.py 1 SEED+N repeats it.
mdl-inject may refuse, fail or leave something inert. It may not crash, hang, take memory without limit, or touch anybody
else: a process of root's with the same code at the same addresses is what it was.
"""

import collections
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from between_calls_test import Conversation, Target, has_own_ids, status_of, take_own_ids
from harness import MDL_INJECT, PROGRAMS, CONSTRAINTS, LiveTest, metric, run

USER = ("setpriv", "--regid=65534", "--clear-groups")
STATUSES = (0, 1, 3, 5)  # success, failed, the target was killed, something is left inert
IN_TIME = 60.0           # its own deadlines are 15 s for a removal, and 5 or 30 for a page that nobody fills
MOST_MB = 280            # 256 more than for an honest process


class Turmoil(LiveTest):
    count, seed, seconds = 5, None, 60  # set by main

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.fail("run it as root: the target must be another user's")
        self.folder.chmod(0o755)
        for name in ("turmoil", "changeling", "heir", "libplugin.so"):
            shutil.copy(PROGRAMS / name, self.folder)
        self.plan = self.compile_text(CONSTRAINTS + metric("works", ["t_work"], constraints=["procedure"]) +
                                      metric("returns", ["t_work", "t_plugin_work"], "return"))
        self.canary = Target(self.folder, self.address_of_spoil(self.folder / "heir"), as_root=True)
        self.addCleanup(self.canary.end)
        self.before = self.remember(self.canary.pid)
        self.seen = collections.Counter()

    def check_canary(self):
        self.assertEqual(status_of(self.canary.pid)["TracerPid"], "0")
        self.assertTrue(self.canary.twin_is_well(self.canary.twin))
        self.assert_untouched(self.canary.pid, self.before)
        self.canary.say("report")
        self.assertEqual(self.canary.hear("a report"), {"event": "done", "wrong": 0})

    def end_others(self):
        """The target and its children, whatever they are by now."""
        mine = {1, self.canary.pid, self.canary.twin}
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            if pid not in mine:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def run_bounded(self, *words):
        """mdl-inject to its end, which is a proper one."""
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen([MDL_INJECT, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=errors)
            deadline = time.monotonic() + IN_TIME
            while True:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() > deadline:
                    process.kill()
                    os.wait4(process.pid, 0)
                    process.returncode = -9
                    self.fail(f"{words}: it does not end")
                time.sleep(0.005)
            process.returncode = code = os.waitstatus_to_exitcode(status)
            errors.seek(0)
            said = errors.read().decode(errors="replace")
        self.assertIn(code, STATUSES, f"{words}: {said}")
        self.assertTrue(code == 0 or "mdl-inject: " in said, f"{words}: {code} {said}")
        self.assertLess(usage.ru_maxrss / 1024, MOST_MB, f"{words}: {said}")
        self.seen.update([f"{str(words[0]) if str(words[0]).startswith('--') else 'attach'} {code}"])

    def attack(self, number):
        chance = random.Random(number)
        users = chance.choice((("--reuid=65534",), ("--ruid=1234", "--euid=65534")))  # one, or two to change between
        target = Conversation(*USER, *users, "--inh-caps=-all", self.folder / "turmoil", chance.randrange(1 << 32),
                              self.folder / "libplugin.so")
        try:
            target.hear("the target to begin")
            more = ["--separate" if chance.random() < 0.5 else "--no-separate"]
            more += [option for option in ("--follow-fork", "--detach", "--check") if chance.random() < 0.3]
            if chance.random() < 0.5:
                more += ["-m", "works@/Code/turmoil/t_work", "-m", "returns"]
            self.run_bounded(target.pid, self.plan, "-i", "0.01", "-d", chance.choice(("0", "0.05", "0.3")), *more)
            if chance.random() < 0.3:
                self.run_bounded("--status", target.pid)
            if chance.random() < 0.5:
                self.run_bounded("--remove", target.pid)
            self.seen.update(option for option in more if option == "--separate")
        finally:
            target.end()
            self.end_others()

    def test_attaches(self):
        seed = self.seed if self.seed is not None else random.SystemRandom().randrange(1 << 31)
        print(f"turmoil_test.py {self.count} {seed}", flush=True)
        begun, done = time.monotonic(), 0
        for number in range(seed, seed + self.count):
            if self.seconds and time.monotonic() - begun > self.seconds:
                break
            done += 1
            with self.subTest(seed=number):
                self.attack(number)
            if number % 20 == 0:
                self.check_canary()
            if (number - seed) % 200 == 199:
                print(f"{number - seed + 1} of {self.count}: {dict(self.seen)}", file=sys.stderr, flush=True)
        self.check_canary()
        self.assertGreater(done, 2)
        print(f"{done} attaches: {dict(self.seen)}", flush=True)


if __name__ == "__main__":
    if not has_own_ids():
        take_own_ids()
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        Turmoil.count, Turmoil.seconds = int(sys.argv.pop(1)), None
        if len(sys.argv) > 1 and sys.argv[1].isdigit():
            Turmoil.seed = int(sys.argv.pop(1))
    unittest.main(verbosity=2)
