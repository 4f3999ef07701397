"""Entries and returns that have no room for a jump: each is counted exactly by one of the other tactics, or
refused; while threads run through them, signals arrive in them, and injectors are killed.

The shapes are those of tests/programs/tight_asm.S.
"""

import random
import signal
import sys
import time
import unittest

import process_text
from harness import MDL_INJECT, LiveTest, entries_and_returns, run

FUNCTIONS = ["t_call_first", "t_pointer_first", "t_short_entry", "t_punned_entry", "t_inner_head", "t_short_return",
             "t_punned_return", "t_exact_return", "t_turned_return", "t_hosted_return", "t_hosted_twice", "t_hosted_apart",
             "t_behind_cold_1", "t_behind_cold_3", "t_behind_cold_11"]
METRICS = [f"{point}_{name}" for name in FUNCTIONS for point in ("entries", "returns")]

# True while a thread is in t_punned_return: the same number of times up and down, or a count goes wrong.
INSIDE = """
resourceList inside_list is procedure { items { "t_helper" }; flavor { unix }; }
constraint within /Code/*/* is counter {
  append preInsn $constraint[0].entry (* within += 1; *)
  prepend preInsn $constraint[0].return (* within -= 1; *)
}
metric helped {
  name "helped"; units Calls; unitsType unnormalized; aggregateOperator sum; style EventCounter; flavor { unix };
  constraint within;
  base is counter {
    foreach func in inside_list { append preInsn func.entry constrained (* helped++; *) }
  }
}
"""


class Tight(LiveTest):
    flavor = ""  # set by main
    refusable = []  # metrics that may be refused

    def begin(self):
        program = self.start(self.flavor)
        self.before = self.remember(program.pid)
        return program, self.compile_text(entries_and_returns(FUNCTIONS))

    def assert_rounds(self, session, rounds):
        final = session.final()
        wrong = [(metric, line["value"], line["refused"]) for (metric, _), line in final.items()
                 if line["value"] != rounds and not (line["refused"] and metric in self.refusable)]
        self.assertEqual(wrong, [], f"{rounds} rounds")
        self.assertLessEqual(len(METRICS) - len(self.refusable), len(final))

    def test_counts(self):
        program, plan = self.begin()
        session = self.inject(program.pid, plan).wait_inserted()
        done = program.ask("go 100000")
        self.assert_stopped_well(session)
        self.assert_rounds(session, done["rounds"] - program.ready["rounds"])
        self.assertEqual((done["wrong"], program.ready["wrong"]), (0, 0))
        self.assertGreater(done["signals"], 0)
        self.assert_untouched(program.pid, self.before)
        self.assertEqual(program.ask("go 100")["wrong"], 0)
        self.assertEqual(program.end(), 7)

    def test_attached_and_removed_under_load(self):
        program, plan = self.begin()
        for _ in range(6):
            program.ask("start", "running")
            session = self.inject(program.pid, plan).wait_inserted()
            first = program.ask("pause")
            at_first = session.fresh_values()
            program.ask("start", "running")
            last = program.ask("pause")
            at_last = session.fresh_values()
            program.ask("start", "running")
            self.assert_stopped_well(session)
            self.assertEqual(program.ask("pause")["wrong"], 0)
            self.assert_untouched(program.pid, self.before)
            rounds = last["rounds"] - first["rounds"]
            refused = {line["metric"] for line in session.final().values() if line["refused"]}
            for metric, focus in at_last:
                # Given up, when a handler's return lay in a window: rare, and said.
                if metric not in refused:
                    self.assertEqual(at_last[metric, focus] - at_first[metric, focus], rounds, metric)

    def test_killed_injectors(self):
        """Killed at any moment under load: the program runs on, right; --remove makes it what it was."""
        program, plan = self.begin()
        program.ask("start", "running")
        chance = random.Random(4)
        for _ in range(12):
            session = self.inject(program.pid, plan)
            time.sleep(chance.uniform(0, 0.06))
            session.process.send_signal(signal.SIGKILL)
            session.process.wait()
            time.sleep(0.01)
            done = run(MDL_INJECT, "--remove", program.pid)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assert_untouched(program.pid, self.before)
        self.assertEqual(program.ask("pause")["wrong"], 0)
        self.assertEqual(program.ask("go 1000")["wrong"], 0)

    def test_lost_journal(self):
        """Short jumps, their relays, and calls with prefixes are found by comparing the code with its file."""
        program, plan = self.begin()
        session = self.inject(program.pid, plan).wait_inserted()
        session.kill()
        journal = next(mapping for mapping in process_text.leftovers(program.pid) if mapping.access == "r--p")
        with open(f"/proc/{program.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(journal.start)
            memory.write(b"not a journal " * 100)
        self.assertEqual(program.ask("go 100")["wrong"], 0)
        done = run(MDL_INJECT, "--remove", program.pid)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_untouched(program.pid, self.before)
        self.assertEqual(program.ask("go 100")["wrong"], 0)

    def test_flags_stay_even(self):
        """A constraint on functions whose points have no room."""
        program = self.start(self.flavor)
        plan = self.compile_text(INSIDE)
        for function in ("t_call_first", "t_short_entry", "t_pointer_first"):
            session = self.inject(program.pid, plan, "-m", f"helped@/Code/{self.flavor}/{function}").wait_inserted()
            before = program.ask("calm 0")["rounds"]
            after = program.ask("calm 5000")["rounds"]
            self.assert_stopped_well(session)
            (line,) = session.final().values()
            self.assertEqual((line["value"], line["refused"], line.get("anomalies", 0)), (after - before, 0, 0))

    def test_tactics(self):
        """--dry-run says how many of each; only the loop that begins with its function is refused."""
        program, _ = self.begin()
        plan = self.compile_text(entries_and_returns(FUNCTIONS + ["t_loop_entry"]))
        done = run(MDL_INJECT, program.pid, plan, "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        first, *rest = done.stdout.splitlines()
        refused = [line for line in rest if line.startswith("refused:")]
        self.assertEqual([line for line in refused if "t_loop_entry entry" in line], refused[-1:] or None)
        self.assertLessEqual(len(refused), 1 + len(self.refusable))
        for tactic in ("call", "short") + (() if self.refusable else ("punned",)):
            self.assertRegex(first, rf"\d+ by {tactic}")
        self.assert_untouched(program.pid, self.before)

    def test_no_traps(self):
        program, plan = self.begin()
        plain = run(MDL_INJECT, program.pid, plan, "--dry-run")
        permitted = run(MDL_INJECT, program.pid, plan, "--dry-run", "--allow-traps")
        points = [done.stdout.splitlines()[0] for done in (plain, permitted)]
        self.assertEqual((permitted.returncode, points[1]), (plain.returncode, points[0]))
        self.assertIn("sets no traps", permitted.stderr)


if __name__ == "__main__":
    Tight.flavor = sys.argv.pop(1) if len(sys.argv) > 1 else "tight"
    if Tight.flavor.endswith("nopie"):  # punned jumps of a program at a low address lead nowhere
        Tight.refusable = ["entries_t_punned_entry", "returns_t_punned_return", "returns_t_exact_return",
                           "returns_t_turned_return"]
    unittest.main(verbosity=2)
