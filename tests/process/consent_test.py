"""What a plan may do besides counting: reads of memory, calls and a command each need the user's consent, and a plan
that has it by its place has it only where nobody else can write.
"""

import os
import shutil
import unittest

from harness import NOBODY, MDL_INJECT, PROGRAMS, LiveTest, metric, run

READS = """
resourceList reading is procedure { items { "t_address" }; flavor { unix }; }
metric words { name "Words"; units Words; aggregateOperator sum; style EventCounter; flavor { unix };
  base is counter { foreach func in reading { append preInsn func.entry (* words += readAddress($arg[0]); *) } } }
"""
CALLS = """
resourceList calling is procedure { items { "t_call" }; flavor { unix }; }
metric answers { name "Answers"; units Answers; aggregateOperator sum; style EventCounter; flavor { unix };
  base is counter { foreach func in calling { append preInsn func.entry (* answers += t_callee(1, 2, 3, 4, 5, 6); *) } } }
"""
# The same read in the code of a constraint of all keys, in a base under one, and in a base for each function.
READS_OF_KEYS = """
resourceList reading is procedure { items { "t_address" }; flavor { unix }; }
constraint tag /SyncObject/Message/* is counter {
  foreach func in reading {
    append preInsn func.entry (* if (READ_OF_KEY == $constraint[0]) tag += 1; *)
    prepend preInsn func.return (* if (tag > 0) tag -= 1; *)
  }
}
constraint inside /Code/*/* is counter {
  append preInsn $constraint[0].entry (* inside += 1; *)
  prepend preInsn $constraint[0].return (* inside -= 1; *)
}
metric words { name "Words"; units Words; aggregateOperator sum; style EventCounter; flavor { unix };
  constraint tag; constraint inside;
  base is counter { foreach func in reading { append preInsn func.entry constrained (* words += READ_OF_BASE; *) } } }
"""
VARIABLE = """
resourceList going is procedure { items { "t_point" }; flavor { unix }; }
metric levels { name "Levels"; units Units; aggregateOperator sum; style EventCounter; flavor { unix };
  base is counter { foreach func in going { append preInsn func.entry (* levels += readSymbol("v_i32"); *) } } }
"""


class Reads(LiveTest):
    def setUp(self):
        super().setUp()
        self.program = self.start("outside")
        self.before = self.remember(self.program.pid)

    def refused(self, tool, plan, *options):
        done = run(tool, self.program.pid, plan, "-m", "words", "-d", "0", *options)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("metric `words` reads memory of the application at addresses that its code computes: allow that "
                      "with --allow-reads", done.stderr)
        self.assert_untouched(self.program.pid, self.before)

    def measured(self, tool, plan, *options):
        done = run(tool, self.program.pid, plan, "-m", "words", "-d", "0", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_untouched(self.program.pid, self.before)

    def test_reads_must_be_allowed(self):
        plan = self.compile_text(READS)
        self.refused(MDL_INJECT, plan)
        self.refused(MDL_INJECT, plan, "--allow-calls")
        self.measured(MDL_INJECT, plan, "--allow-reads")

    def test_reads_for_all_children_must_be_allowed(self):
        for of_key, of_base, focus in (("readAddress($arg[0])", "1", "/Message/*"), ("$arg[0]", "readAddress($arg[0])", "/Message/*"),
                                       ("$arg[0]", "readAddress($arg[0])", "/Code/outside/t_a*")):
            with self.subTest(key=of_key, base=of_base, focus=focus):
                plan = self.compile_text(READS_OF_KEYS.replace("READ_OF_KEY", of_key).replace("READ_OF_BASE", of_base))
                owner = "constraint `tag`" if of_base == "1" else "metric `words`"
                done = run(MDL_INJECT, self.program.pid, plan, "-m", f"words@{focus}", "-d", "0")
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                self.assertIn(f"{owner} reads memory of the application at addresses that its code computes: allow that with "
                              "--allow-reads", done.stderr)
                self.assert_untouched(self.program.pid, self.before)
                done = run(MDL_INJECT, self.program.pid, plan, "-m", f"words@{focus}", "-d", "0", "--allow-reads")
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_nobody_asked_for_is_left_out(self):
        session = self.inject(self.program.pid, self.compile_text(READS + metric("points", ["t_point"]))).wait_inserted()
        self.program.ask("go 10")
        self.assert_stopped_well(session)
        self.assertEqual({name for name, _ in session.final()}, {"points"})

    def test_variables_of_the_program_are_named_and_need_no_leave(self):
        session = self.inject(self.program.pid, self.compile_text(VARIABLE), "-m", "levels").wait_inserted()
        self.assert_stopped_well(session)

    def test_a_standard_plan_may_read_where_nobody_else_can_write(self):
        """A plan beside the program is one command away; the same file in another place, or writable, is not."""
        tool, plans = self.folder / "bin" / "mdl-inject", self.folder / "share" / "mdl" / "plans"
        tool.parent.mkdir()
        plans.mkdir(parents=True)
        shutil.copy(MDL_INJECT, tool)
        elsewhere = self.compile_text(READS)
        standard = plans / "mine.plan"
        shutil.copy(elsewhere, standard)
        os.chmod(standard, 0o644)
        self.measured(tool, "mine.plan")
        self.measured(tool, standard)
        self.refused(tool, elsewhere)
        for writable in (standard, plans, self.folder / "share"):
            with self.subTest(writable=writable):
                mode = writable.stat().st_mode
                for bit in (0o020, 0o002):
                    os.chmod(writable, mode | bit)
                    self.refused(tool, "mine.plan")
                os.chmod(writable, mode)
                if os.geteuid() == 0:
                    os.chown(writable, NOBODY, -1)
                    self.refused(tool, "mine.plan")
                    os.chown(writable, 0, -1)
        (plans / "link.plan").symlink_to(elsewhere)
        self.refused(tool, "link.plan")
        (plans / "inside").symlink_to(plans)
        self.refused(tool, plans / "inside" / "mine.plan")
        self.measured(tool, "mine.plan")


class Shown(LiveTest):
    def verify(self, plan):
        done = run(MDL_INJECT, "--verify", plan)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_each_capability_is_shown(self):
        text = self.verify(self.compile_text(READS + CALLS + VARIABLE + 'process app { command "./app --port 1"; }'))
        self.assertIn("reads memory at addresses that it computes (--allow-reads): words\n", text)
        self.assertIn("calls functions of the application (--allow-calls): t_callee\n", text)
        self.assertIn("reads variables of the application: v_i32\n", text)
        self.assertIn("starts a command (--allow-command): ./app --port 1\n", text)

    def test_a_plan_that_only_counts_has_none(self):
        text = self.verify(self.compile_text(metric("points", ["t_point"])))
        for word in ("reads", "calls ", "starts", "lists"):
            self.assertNotIn(word, text)


class Commands(LiveTest):
    STARTED = "as it was\n"  # what the program prints

    def setUp(self):
        super().setUp()
        self.plan = self.compile_text(metric("mains", ["main"]) + f"""
process own {{ command "{PROGRAMS}/entry"; }}
""")

    def start_plan(self, *words):
        return run(MDL_INJECT, "--run", self.plan, "-o", "/dev/null", *words)

    def test_a_plans_own_command_is_shown_and_not_started(self):
        done = self.start_plan()
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn(f"wants to start its own command: {PROGRAMS}/entry: allow that with --allow-command", done.stderr)
        self.assertIn(f"-- {PROGRAMS}/entry\n", done.stderr)

    def test_the_consent_is_for_the_command(self):
        for option in ("--allow-reads", "--allow-calls"):
            done = self.start_plan(option)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        done = self.start_plan("--allow-command")
        self.assertEqual((done.returncode, done.stdout), (0, self.STARTED), done.stderr)

    def test_a_command_of_the_user_needs_none(self):
        done = self.start_plan("--", PROGRAMS / "entry")
        self.assertEqual((done.returncode, done.stdout), (0, self.STARTED), done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
