"""An unprivileged process attacks the root user who measures or cleans it (tests/programs/thief.cpp): it wants its
own registers set in a set-user-ID program. Nothing of it may succeed, and what was not instrumented is untouched.
"""

import json
import os
import shutil
import subprocess
import unittest

from harness import AS_NOBODY, MDL_INJECT, PROGRAMS, LiveTest, metric, put_down, run

FAILED, LEFT_INERT = 1, 5
# Microseconds between the moment at which the accomplice sees a remote call and the one at which it writes over it.
DELAYS = (0, 0, 10, 20, 50, 100)


class Thief(LiveTest):
    def setUp(self):
        super().setUp()
        self.victim, self.address = self.make_set_user_id("robbed")
        shutil.copy(PROGRAMS / "thief", self.folder)

    def count(self, name):
        path = self.folder / name
        return path.stat().st_size if path.exists() else 0

    def start_thief(self, delay, *more):
        thief = subprocess.Popen([*AS_NOBODY, "./thief", self.victim, self.address, str(delay), *map(str, more)], cwd=self.folder,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(put_down, thief)
        return thief, json.loads(thief.stdout.readline())["process"]

    def attack(self, *arguments, thief=(), delays=DELAYS, until=None):
        """With each delay: nothing is stolen, whether the attack came in time or too late. What mdl-inject said; it need
        not be attacked any more when it has said `until`."""
        attacks = stolen = 0
        said = []
        for delay in delays:
            if said and until and until in said[-1]:
                break
            program, process = self.start_thief(delay, *thief)
            done = run(MDL_INJECT, *[process if word == "PID" else word for word in arguments])
            program.kill()
            attacks += program.stdout.read().count(b"written")
            put_down(program)
            stolen += (self.folder / "stolen").exists()
            (self.folder / "stolen").unlink(missing_ok=True)
            said.append(done.stderr)
            self.assertIn(done.returncode, (0, FAILED, LEFT_INERT), done.stderr)
            self.assertTrue(done.returncode == 0 or f"process {process}" in done.stderr, done.stderr)
        self.assertGreater(attacks, 0, said)
        self.assertEqual(stolen, 0, said)
        self.assertEqual(self.count("began"), self.count("ended"), "a set-user-ID program was disturbed")
        return said

    def test_the_set_user_id_program_works(self):
        """Else nothing could be stolen, and the other tests would show nothing."""
        done = run(*AS_NOBODY, self.victim, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("began", "ended"):
            self.assertEqual((self.folder / name).stat().st_uid, 0)
            self.assertEqual(self.count(name), 1)

    def test_attach(self):
        plan = self.compile_text(metric("work_calls", ["t_work"]))
        self.attack("PID", plan, "-d", "0.01")

    def test_remove(self):
        self.attack("--remove", "PID", thief=["session"])

    def test_a_call_with_the_number_of_another(self):
        """A call of 32 bits, which has the number and the place of the one that was to be made, is not made.

        Where the machine does not admit such calls (some hypervisors), the attacker ends by the attempt.
        """
        if run(self.folder / "thief", "int80").returncode < 0:
            self.attack("--remove", "PID", thief=["session", "call"])
        else:
            caught = "was about to make system call 11 "
            said = self.attack("--remove", "PID", thief=["session", "call"], delays=[0] * 300, until=caught)
            self.assertIn(caught, said[-1])
        self.assertEqual(self.count("began"), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
