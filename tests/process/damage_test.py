"""What is in the target is the target's: it may be damaged, and is never trusted. tests/programs/damages.cpp."""

import unittest

import process_text
from harness import CONSTRAINTS, MDL_INJECT, PROGRAMS, LiveTest, metric, run

SEEDS = 4


class Damage(LiveTest):
    def setUp(self):
        super().setUp()
        self.program = self.start("damages")
        self.plan = self.compile_text(CONSTRAINTS + metric("work_calls", ["t_work"], constraints=["procedure"]) +
                                      metric("returns", ["t_work"], "return"))
        self.before = self.remember(self.program.pid)

    def session(self, *options):
        return self.inject(self.program.pid, self.plan, "-m", "work_calls@/Code/damages/t_work", "-m", "returns",
                           "-m", "work_calls@/Thread/*", *options, interval="0.02").wait_inserted()

    def lives_on(self):
        self.assert_untouched(self.program.pid, self.before)
        self.program.ask("work 3")
        self.assertEqual(self.program.end(), 0)

    def check_sampled(self, command):
        """The injector takes itself out, with the values of the last good sample, or goes on when it saw nothing."""
        for seed in range(SEEDS):
            with self.subTest(command=command, seed=seed):
                session = self.session()
                self.program.ask("work 100")
                self.assertEqual(session.fresh_values()["returns", ""] % 100, 0)
                self.assertGreater(self.program.ask(f"{command} {seed}")["mappings"], 0)
                self.assertEqual(session.wait(), 1, session.errors)
                self.assertIn("damaged", session.errors)
                last = session.final()["returns", ""]
                self.assertEqual((last["value"], last["complete"]), (100, False))
                self.assert_untouched(self.program.pid, self.before)
                self.program = self.start("damages")
                self.before = self.remember(self.program.pid)

    def test_data_overwritten_while_it_is_sampled(self):
        self.check_sampled("data")

    def test_words_overwritten_while_it_is_sampled(self):
        """Single wild words: whatever the numbers are, the injector ends in order and the process is whole."""
        for seed in range(SEEDS):
            with self.subTest(seed=seed):
                session = self.session()
                self.program.ask(f"words {seed}")
                session.process.send_signal(2)
                self.assertIn(session.wait(), (0, 1), session.errors)
                self.assert_untouched(self.program.pid, self.before)
        self.lives_on()

    def test_journal_overwritten_while_it_is_sampled(self):
        self.check_sampled("journal")

    def leave(self):
        """An injector that was killed, and what it has counted."""
        session = self.session()
        self.program.ask("work 5")
        session.kill()

    def test_lost_journal(self):
        """--status says so, and --remove takes the windows from the files; the program never sees a jump to nowhere."""
        self.leave()
        self.program.ask("journal 1")
        status = run(MDL_INJECT, "--status", self.program.pid)
        self.assertEqual(status.returncode, 0, status.stderr)
        self.assertIn("whose journal is lost", status.stdout)
        refused = run(MDL_INJECT, self.program.pid, self.plan)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("--remove", refused.stderr)
        removed = run(MDL_INJECT, "--remove", self.program.pid)
        self.assertEqual(removed.returncode, 0, removed.stderr)
        self.assertIn("restored from its files", removed.stderr)
        self.lives_on()

    def test_damaged_data_of_a_killed_injector(self):
        """The values are not to be had; who, when, which plan, and the removal do not need them."""
        for seed in range(SEEDS):
            with self.subTest(seed=seed):
                self.leave()
                self.program.ask(f"data {seed}")
                status = run(MDL_INJECT, "--status", self.program.pid)
                self.assertEqual(status.returncode, 0, status.stderr)
                self.assertIn("values cannot be read", status.stdout)
                removed = run(MDL_INJECT, "--remove", self.program.pid)
                self.assertEqual(removed.returncode, 0, removed.stderr)
                self.assert_untouched(self.program.pid, self.before)
                self.program = self.start("damages")
                self.before = self.remember(self.program.pid)

    def write(self, address, content):
        """Into the process's memory; what was there."""
        with open(f"/proc/{self.program.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(address)
            before = memory.read(len(content))
            memory.seek(address)
            memory.write(content)
        return before

    def entry(self):
        """Where t_work begins."""
        symbols = run("nm", PROGRAMS / "damages").stdout.splitlines()
        place = next(int(line.split()[0], 16) for line in symbols if line.endswith(" t_work"))
        return place + min(one.start - one.offset for one in process_text.mappings(self.program.pid)
                           if one.path.endswith("/damages"))

    def test_breakpoints_set_in_windows(self):
        """They stay, what is around them is the original code, and nothing of ours is left."""
        original = self.write(self.entry(), b"\x90")
        self.write(self.entry(), original)
        for how in ("session", "killed"):
            with self.subTest(how=how):
                session = self.session()
                first = self.write(self.entry(), b"\xcc")
                self.assertEqual(first, b"\xe9", "the window does not begin at the entry")
                if how == "session":
                    self.assert_stopped_well(session)
                    said = session.errors
                else:
                    session.kill()
                    done = run(MDL_INJECT, "--remove", self.program.pid)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    said = done.stderr
                self.assertIn("breakpoints", said)
                self.assertEqual(self.write(self.entry(), original), b"\xcc")
                self.assert_untouched(self.program.pid, self.before)
                self.program.ask("work 3")

    def test_windows_changed_by_another_tool(self):
        """What leads from there to the instrumentation is not known: it stays until that is undone."""
        session = self.session()
        ours = self.write(self.entry(), b"\x90")
        self.assertEqual(session.stop(), 5, session.errors)
        self.assertIn("another tool", session.errors)
        self.assertNotEqual(process_text.leftovers(self.program.pid), [])
        self.write(self.entry(), ours)
        self.program.ask("work 3")
        done = run(MDL_INJECT, "--remove", self.program.pid)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.lives_on()

    def test_session_of_which_another_removal_has_left_a_part(self):
        """Its session puts nothing in again, and does not say that its numbers are all there is."""
        session = self.session()
        self.program.ask("work 100")
        session.fresh_values()
        ours = self.write(self.entry(), b"\x90")
        removed = run(MDL_INJECT, "--remove", self.program.pid)
        self.assertEqual(removed.returncode, 5, removed.stderr)
        self.write(self.entry(), ours)
        self.program.ask("work 50")
        self.assertEqual(session.wait(), 0, session.errors)
        self.assertIn("another mdl-inject has removed it", session.errors)
        self.assertNotIn("was loaded", session.errors)
        last = session.final()["returns", ""]
        self.assertEqual((last["value"], last["complete"]), (100, False))
        done = run(MDL_INJECT, "--remove", self.program.pid)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.lives_on()

    def test_program_that_sums_its_code(self):
        """It sees the jumps while they are there, and nothing of what is left out."""
        counted = metric("calls", ["t_summed", "t_work"])
        left_out = 'exclude "/Code/damages/t_summed";\n'
        untouched = self.program.ask("work 1")["sum"]
        for text, differs in ((counted, True), (left_out + counted, False)):
            with self.subTest(text=text):
                before = self.program.ask("work 0")["work"]
                session = self.inject(self.program.pid, self.compile_text(text)).wait_inserted()
                self.assertEqual(self.program.ask("work 10")["sum"] != untouched, differs)
                self.assert_stopped_well(session)
                self.assertEqual(session.final()["calls", ""]["value"], 20 if differs else 10)
                self.assertEqual(self.program.ask("work 0"), {"event": "done", "work": before + 10, "mappings": 0,
                                                              "sum": untouched})
        self.lives_on()


if __name__ == "__main__":
    unittest.main(verbosity=2)
