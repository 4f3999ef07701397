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

    def attack(self, *arguments, thief=()):
        """With each delay: nothing is stolen, whether the attack came in time or too late. What mdl-inject said."""
        attacks = stolen = 0
        said = []
        for delay in DELAYS:
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
        """The set-user-ID program starts, and runs to its end as if nobody had traced it.

        Where the machine does not admit calls of 32 bits (some hypervisors), the attacker ends by the attempt.
        """
        said = self.attack("--remove", "PID", thief=["session", "call"])
        if run(self.folder / "thief", "int80").returncode < 0:
            self.assertEqual(self.count("began"), 0, said)
            return
        executed = sum("executes another program" in one for one in said)
        self.assertEqual((executed > 0, self.count("began")), (True, self.count("ended")), said)
        self.assertGreaterEqual(self.count("began"), executed)


if __name__ == "__main__":
    unittest.main(verbosity=2)
