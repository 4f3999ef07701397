"""Exits that were missed: found when stacks are walked once more, and named. And all that only looks like it:
frames that are active, somewhere else, or gone in a way that is known.
"""

import os
import re
import signal
import unittest

from harness import CONSTRAINTS, MDL_INJECT, LiveTest, metric, run

FUNCTIONS = ["t_held", "t_escapes", "t_hidden", "t_recursive", "t_handler", "t_target", "t_tail", "t_thrown", "t_left",
             "t_left_own", "t_ends"]
TIMER = """
resourceList {name}_timed is procedure {{ items {{ "{name}" }}; flavor {{ unix }}; }}
metric time_{name} {{
  name "time_{name}"; units ns; unitsType normalized; aggregateOperator sum; style SampledFunction; flavor {{ unix }};
  base is wallTimer {{ foreach f in {name}_timed {{
    append preInsn f.entry (* startWallTimer(time_{name}); *) prepend preInsn f.return (* stopWallTimer(time_{name}); *)
  }} }}
}}
"""
SOME = """
resourceList some_list is procedure { items { "t_escapes", "t_recursive" }; flavor { unix }; }
constraint some /Code/* is counter {
  foreach func in some_list { append preInsn func.entry (* some += 1; *) prepend preInsn func.return (* some -= 1; *) }
}
"""
ONE = """
constraint procedure /Code/*/* is counter {
  append preInsn $constraint[0].entry (* procedure += 1; *) prepend preInsn $constraint[0].return (* procedure -= 1; *)
}
"""
SLEEPERS = ["hold", "handled", "alternate", "tail", "ends", "unwinding", "leaving", "coroutine", "embedded", "base"]


class Check(LiveTest):
    def begin(self, *options, before=(), functions=None):
        """The program, with a flag and a timer of each function. `before`: commands that come before the attach."""
        self.program = self.start("exits")
        for command in before:
            self.program.ask(command)
        functions = functions or FUNCTIONS
        text = CONSTRAINTS + metric("work", ["t_work"], constraints=["procedure", "module"])
        text += "".join(TIMER.format(name=name) for name in functions)
        asked = [f"work@/Code/exits/{name}" for name in functions] + [f"time_{name}" for name in functions] + ["work"]
        self.plan = self.compile_text(text)
        self.before = self.remember(self.program.pid)
        self.session = self.inject(self.program.pid, self.plan, *(word for one in asked for word in ("-m", one)),
                                   *options).wait_inserted()

    def finish(self, *suspects, status=0):
        """Ctrl-C: the lines of these functions are suspect, and no others, and so it is said."""
        self.assert_stopped_well(self.session, status)
        self.assert_suspect(*suspects)
        self.assert_untouched(self.program.pid, self.before)

    def assert_suspect(self, *suspects):
        final = self.session.final()
        lines = {key for key, line in final.items() if "suspect" in line}
        self.assertEqual({line["suspect"] for line in final.values() if "suspect" in line}, {True} if suspects else set())
        self.assertEqual(lines, {key for name in suspects for key in (("work", f"/Code/exits/{name}"), (f"time_{name}", ""))},
                         self.session.errors)
        self.assertEqual(set(re.findall(r"warning: process \d+: (\S+) was entered", self.session.errors)),
                         {f"/Code/exits/{name}" for name in suspects}, self.session.errors)
        for name in suspects:
            self.assertRegex(self.session.errors, rf"suspect: .*work@/Code/exits/{name}\b")


class Missed(Check):
    """What is planted is found."""

    def test_frames_that_vanish_unseen(self):
        self.begin()
        self.program.ask("escape 7")
        self.finish("t_escapes")
        self.assertEqual(self.program.end(), 0)

    def test_frames_that_vanish_unseen_in_a_thread(self):
        self.begin()
        self.program.ask("escaped 7")
        self.finish("t_escapes")
        self.program.ask("release")
        self.assertEqual(self.program.end(), 0)

    def test_a_jump_over_the_return(self):
        self.begin()
        self.program.ask("hidden 3")
        self.finish("t_hidden")
        self.assertRegex(self.session.errors, "t_hidden was entered 3 times more often than it was left, in 1 thread")

    def test_a_jump_over_the_return_in_two_threads(self):
        self.begin()
        self.program.ask("hidden_too 3")
        self.program.ask("hidden_too 2")
        self.finish("t_hidden")
        self.assertRegex(self.session.errors, "t_hidden was entered 5 times more often than it was left, in 2 threads")

    def test_others_that_are_active_stay_out_of_it(self):
        self.begin()
        for command in ("hold", "tail", "coroutine", "escaped 2", "hidden_too 1", "throw 5", "jump 5"):
            self.program.ask(command)
        self.finish("t_escapes", "t_hidden")

    def test_at_the_end_of_the_process(self):
        """It waits for its last values, and is looked at meanwhile."""
        for options in ((), ("--follow-fork",)):
            with self.subTest(options):
                self.begin(*options)
                for command in ("hold", "escape 7"):
                    self.program.ask(command)
                self.assertEqual(self.program.end(), 0)
                self.assertEqual(self.session.wait(), 0, self.session.errors)
                self.assert_suspect("t_escapes")

    def test_a_flag_of_several_functions(self):
        """They are named together; while another one of them is active, nothing is wrong."""
        self.program = self.start("exits")
        text = SOME + metric("work", ["t_work"], constraints=["some"])
        plan = self.compile_text(text)
        for commands, suspect in (("escaped 3", True), ("recursive 1", False)):
            session = self.inject(self.program.pid, plan, "-m", "work@/Code/exits", "-m", "work").wait_inserted()
            self.program.ask(commands)
            self.assert_stopped_well(session)
            self.assertEqual({key for key, line in session.final().items() if line.get("suspect")},
                             {("work", "/Code/exits")} if suspect else set(), session.errors)
            if suspect:
                self.assertRegex(session.errors, "one of 2 functions, /Code/exits/t_escapes, /Code/exits/t_recursive was entered")

    def test_children(self):
        self.program = self.start("exits")
        text = CONSTRAINTS + metric("work", ["t_work"], constraints=["procedure", "module"])
        self.session = self.inject(self.program.pid, self.compile_text(text), "-m", "work@/Code/exits/t_*").wait_inserted()
        self.program.ask("escaped 3")
        self.program.ask("hold")
        self.assert_stopped_well(self.session)
        suspect = {focus for (_, focus), line in self.session.final().items() if line.get("suspect")}
        self.assertEqual(suspect, {"/Code/exits/t_escapes"}, self.session.errors)


class NotMissed(Check):
    """What only looks like it is not suspected."""

    def test_the_call_that_ends_the_process(self):
        """The process waits at its entry for its last values to be read."""
        program = self.start("exits")
        session = self.inject(program.pid, "time _Exit").wait_inserted()
        self.assertEqual(program.end(), 0)
        self.assertEqual(session.wait(), 0, session.errors)
        self.assertFalse([line for line in session.final().values() if "suspect" in line], session.errors)
        self.assertNotIn("suspect", session.errors)

    def test_asleep_inside(self):
        for command in SLEEPERS:
            with self.subTest(command):
                self.begin()
                self.program.ask(command)
                self.finish()
                if command != "ends":
                    self.program.ask("release")
                self.assertEqual(self.program.end(), 0)

    def test_asleep_inside_since_before_the_attach(self):
        for command in SLEEPERS:
            with self.subTest(command):
                self.begin(before=[command])
                self.finish()
                self.assertEqual(self.program.end(), 0)

    def test_all_at_once(self):
        self.begin()
        for command in SLEEPERS + SLEEPERS:
            self.program.ask(command)
        self.finish()

    def test_frames_that_are_gone(self):
        self.begin()
        for command in ("throw 20", "jump 20", "quit_thread 20", "cancel 20", "throw 1", "hold"):
            self.program.ask(command)
        self.finish()

    def test_an_outermost_frame_that_is_there(self):
        """Inner frames of it have vanished; its return puts that right."""
        self.begin()
        self.program.ask("recursive 1")
        self.finish()
        self.program.ask("release")
        self.assertEqual(self.program.end(), 0)

    def test_a_child(self):
        self.begin()
        child = self.program.ask("fork")["child"]
        self.addCleanup(os.kill, child, signal.SIGKILL)
        self.finish()
        done = run(MDL_INJECT, "--remove", child)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_child_that_is_followed(self):
        self.begin("--follow-fork")
        child = self.program.ask("fork")["child"]
        self.addCleanup(os.kill, child, signal.SIGKILL)
        self.session.said(f"process {child} was forked")
        self.finish()


class Asked(Check):
    """--check: of a process that is measured, or was left, and of none."""

    def check(self, status):
        done = run(MDL_INJECT, "--check", self.program.pid)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_while_it_is_measured(self):
        self.begin()
        self.program.ask("hold")
        self.assertIn("up in threads: 2; for active frames 2, for frames that are gone 0, not checked 0",
                      self.check(0).stdout)
        self.program.ask("hidden_too 2")
        done = self.check(1)
        self.assertIn("up in threads: 4; for active frames 2, for frames that are gone 2, not checked 0", done.stdout)
        self.assertIn("/Code/exits/t_hidden was entered 2 times more often than it was left, in 1 thread", done.stderr)
        self.assertIn("suspect: work@/Code/exits/t_hidden, time_t_hidden", done.stderr)
        self.finish("t_hidden")

    def test_what_cannot_be_told(self):
        self.begin("--check")
        self.program.ask("coroutine")
        self.assertIn("2 not checked: ", self.check(0).stdout)
        self.finish()
        self.assertIn("2 not checked: ", self.session.errors)
        self.assertIn("t_left is active in 1 thread on a stack that does not run now", self.session.errors)

    def test_what_was_left(self):
        for option in ("--check", "-d1000"):
            self.begin("--detach", option)
            self.program.ask("escaped 3")
            self.assert_stopped_well(self.session)
            if option == "--check":
                self.assert_suspect("t_escapes")
            else:
                self.assertNotIn("was entered", self.session.errors)
            self.assertIn("t_escapes was entered", self.check(1).stderr)
            done = run(MDL_INJECT, "--remove", self.program.pid)
            self.assertEqual(done.returncode, 0)
            self.assertIn("t_escapes was entered", done.stderr)
            self.assert_untouched(self.program.pid, self.before)

    def test_while_everything_runs(self):
        """Threads that are stopped anywhere, also in code of ours."""
        program = self.start("flows")
        plan = self.compile_text(CONSTRAINTS + metric("work", ["f_work"], constraints=["procedure"]))
        session = self.inject(program.pid, plan, *(word for name in ("f_work", "f_inside", "f_other")
                                                   for word in ("-m", f"work@/Code/flows/{name}"))).wait_inserted()
        program.send("storm 4000")
        for _ in range(40):
            for _ in range(5):  # on a busy machine a thread may get no processor to stop on: it is asked again
                done = run(MDL_INJECT, "--check", program.pid)
                if "did not stop within" not in done.stderr:
                    break
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        program.answer("done")
        self.assert_stopped_well(session)
        self.assertNotIn("was entered", session.errors)
        self.assertEqual(program.end(), 0)

    def test_nothing_is_there(self):
        program = self.start("exits")
        done = run(MDL_INJECT, "--check", program.pid)
        self.assertEqual((done.returncode, done.stdout), (0, f"process {program.pid} is not instrumented\n"))


class Anomalies(LiveTest):
    """They are told apart by request and function."""

    def measure(self, constraints, *foci):
        self.program = self.start("exits")
        plan = self.compile_text(constraints + metric("work", ["t_work"], constraints=["procedure", "module"]))
        asked = [word for focus in foci for word in ("-m", f"work@/Code/exits{focus}")]
        self.session = self.inject(self.program.pid, plan, "-m", "work", *asked).wait_inserted()

    def finish(self):
        """What each line says of its own, and the total, which all have."""
        self.assert_stopped_well(self.session)
        final = self.session.final()
        total, = {line.get("anomalies", 0) for line in final.values()}
        return {focus: line.get("anomalies_of") for (_, focus), line in final.items()}, total

    def test_frames_that_vanished(self):
        self.measure(CONSTRAINTS, "/t_thrown", "/t_held", "")
        for command in ("throw 5", "jump 2", "throw 3"):
            self.program.ask(command)
        of, total = self.finish()
        self.assertEqual(total, 10)
        self.assertEqual(of, {"": None, "/Code/exits/t_held": None, "/Code/exits": None,
                              "/Code/exits/t_thrown": [{"function": "/Code/exits/t_thrown", "vanished": 10, "unmatched": 0}]})
        self.assertIn("/Code/exits/t_thrown: frames that vanished: 10 (work@/Code/exits/t_thrown)", self.session.errors)

    def test_frames_of_several_functions_that_vanished(self):
        self.measure(SOME.replace("some", "module").replace("t_escapes", "t_thrown") + ONE, "")
        self.program.ask("throw 4")
        of, total = self.finish()
        self.assertEqual(total, 4)
        one, = of["/Code/exits"]
        self.assertRegex(one["function"], "^/Code/exits/t_(recursive|thrown) or 1 other$")
        self.assertEqual((one["vanished"], one["unmatched"]), (4, 0))

    def test_timers(self):
        self.program = self.start("exits")
        plan = self.compile_text(TIMER.format(name="t_thrown") + TIMER.format(name="t_held"))
        self.session = self.inject(self.program.pid, plan).wait_inserted()
        self.program.ask("throw 6")
        self.assert_stopped_well(self.session)
        final = {name: line.get("anomalies_of") for (name, _), line in self.session.final().items()}
        self.assertEqual(final, {"time_t_held": None,
                                 "time_t_thrown": [{"function": "/Code/exits/t_thrown", "vanished": 6, "unmatched": 0}]})

    def test_exits_without_an_entry(self):
        """A flag that is lowered twice: by each function of those that share it."""
        twice = SOME.replace("some", "module").replace("t_escapes", "t_held").replace("t_recursive", "t_target")
        twice = twice.replace("(* module -= 1; *)", "(* module -= 1; *) prepend preInsn func.return (* module -= 1; *)")
        self.measure(twice + ONE, "")
        self.program.ask("quit_thread 3")
        self.program.ask("hold")
        self.program.ask("tail")
        self.program.ask("release")
        of, total = self.finish()
        found = {one["function"]: one["unmatched"] for one in of["/Code/exits"] if one["unmatched"]}
        self.assertEqual(sorted(found), ["/Code/exits/t_held", "/Code/exits/t_target"], of)
        self.assertGreaterEqual(total, sum(found.values()))
        self.assertIn("exits without an entry", self.session.errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
