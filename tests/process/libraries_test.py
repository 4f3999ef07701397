"""Libraries that come and go while they are measured."""

import collections
import concurrent.futures
import random
import signal
import threading
import time
import unittest

import process_text
from harness import CONSTRAINTS, MDL_INJECT, LiveTest, metric, run, soon

LOADED = "libplugin.so was loaded: inserted"


class LibraryTest(LiveTest):
    def begin(self, text, *options):
        program = self.start("loads")
        plan = self.compile_text(text)
        self.before = self.remember(program.pid)
        return program, self.inject(program.pid, plan, *options).wait_inserted()

    def value(self, session, name, focus=""):
        return session.final()[name, focus]["value"]


class Loaded(LibraryTest):
    def test_what_is_loaded_later_is_counted(self):
        program, session = self.begin(metric("all_calls", ["t_loader_work", "t_plugin_work"]))
        program.ask("open 0")
        session.said(LOADED)
        program.ask("open 100")
        self.assert_stopped_well(session)
        self.assertEqual(self.value(session, "all_calls"), 200)
        self.assertEqual(process_text.leftovers(program.pid), [])
        self.assertEqual(program.ask("open 10")["calls"], 110)
        self.assertEqual(program.end(), 0)

    def test_keys_are_named_in_what_is_loaded_later(self):
        """The functions of a pattern, and the callers of a function that was there before."""
        program = self.start("loads")
        session = self.inject(program.pid, "count t_*", "count t_plugin_work by caller as callers", "count t_loader_work",
                              "--await").wait_inserted()
        program.ask("open 0")
        session.said(LOADED)
        time.sleep(0.2)
        program.ask("open 10")
        program.ask("outer 100")
        self.assert_stopped_well(session)
        lines = {(line["metric"], line["focus"], *line.get("key", [])): line["value"] for line in session.lines if line["final"]}
        self.assertEqual(lines["count t_*", "/Code/libplugin.so/t_plugin_outer"], 100)
        self.assertEqual(lines["count t_*", "/Code/libplugin.so/t_plugin_work"], 210)
        callers = collections.Counter()
        for key, value in lines.items():
            if key[0] == "callers":
                callers[key[2].split("+")[0]] += value
        self.assertEqual(callers["t_plugin_outer"], 200)
        self.assertEqual(sum(callers.values()), 210)
        self.assertEqual(process_text.leftovers(program.pid), [])

    def test_what_is_loaded_and_moved_away(self):
        """It is not unloaded: what its jumps lead to stays, whoever looks, until it is back and they are taken out."""
        program, session = self.begin(metric("all_calls", ["t_plugin_work", "t_loader_work"]))
        program.ask("open 0")
        session.said(LOADED)
        program.ask("open 10")
        for _ in range(2):
            program.ask("away")
            time.sleep(4)  # it is looked for what was unloaded
            program.ask("back")
            program.ask("open 40")
        program.ask("away")
        session.process.send_signal(signal.SIGINT)
        self.assertEqual(session.wait(), 5, session.errors)
        self.assertEqual(self.value(session, "all_calls"), 180)
        program.ask("back")
        program.ask("open 5")
        removed = run(MDL_INJECT, "--remove", program.pid)
        self.assertEqual(removed.returncode, 0, removed.stderr)
        self.assertEqual(process_text.leftovers(program.pid), [])
        self.assertEqual(program.ask("open 10")["calls"], 105)
        self.assertEqual(program.end(), 0)

    def test_what_is_not_there_is_waited_for(self):
        text = CONSTRAINTS + metric("plugin_calls", ["t_plugin_work"], constraints=["procedure"])
        request = "plugin_calls@/Code/libplugin.so/t_plugin_outer"
        program, session = self.begin(text, "--await", "-m", "plugin_calls", "-m", request)
        program.ask("open 0")
        session.said(LOADED)
        program.ask("open 10")
        program.ask("outer 100")
        self.assert_stopped_well(session)
        self.assertEqual(self.value(session, "plugin_calls"), 210)
        self.assertEqual(self.value(session, "plugin_calls", "/Code/libplugin.so/t_plugin_outer"), 200)
        self.assertEqual(process_text.leftovers(program.pid), [])
        self.assertEqual(program.end(), 0)

    def test_awaited_names_that_are_wrong(self):
        """Of the library, of its function, of what the metric counts: each is said, and is no success."""
        text = (CONSTRAINTS + metric("plugin_calls", ["t_plugin_work"], constraints=["procedure"]) +
                metric("typo_calls", ["t_plugin_wrk"]))
        for wrong, said in (("plugin_calls@/Code/libplug.so/t_plugin_outer", "nothing came that it could count"),
                            ("plugin_calls@/Code/libplugin.so/t_plugin_outr", "did you mean `t_plugin_outer`"),
                            ("typo_calls", "it looks for t_plugin_wrk")):
            with self.subTest(wrong=wrong):
                program, session = self.begin(text, "--await", "-m", "plugin_calls", "-m", wrong)
                program.ask("open 0")
                session.said(LOADED)
                self.assert_stopped_well(session, 1)
                self.assertIn(f"mdl-inject: {wrong} was awaited", session.errors)
                self.assertIn(said, session.errors)
                self.assertNotIn("plugin_calls was awaited", session.errors)
                self.assertNotIn("no metric of flavor", session.errors)
                self.assertEqual(process_text.leftovers(program.pid), [])
                self.assertEqual(program.end(), 0)

    def test_without_await_it_is_an_error(self):
        program = self.start("loads")
        plan = self.compile_text(CONSTRAINTS + metric("loader_calls", ["t_loader_work"], constraints=["procedure"]))
        done = run(MDL_INJECT, program.pid, plan, "-m", "loader_calls@/Code/libplugin.so/t_plugin_work")
        self.assertEqual(done.returncode, 1)
        self.assertIn("libplugin.so", done.stderr)
        self.assertIn("--await", done.stderr)
        self.assertEqual(program.end(), 0)

    def test_left_and_removed(self):
        """What was added is in the journal, too."""
        program, session = self.begin(metric("all_calls", ["t_loader_work", "t_plugin_work"]), "--detach")
        program.ask("open 0")
        session.said(LOADED)
        self.assert_stopped_well(session)
        program.ask("open 20")
        status = run(MDL_INJECT, "--status", program.pid)
        self.assertIn("all_calls = 40 Calls", status.stdout)
        removed = run(MDL_INJECT, "--remove", program.pid)
        self.assertEqual((removed.returncode, removed.stderr), (0, ""))
        self.assertEqual(process_text.leftovers(program.pid), [])
        self.assertEqual(program.ask("open 10")["calls"], 30)
        self.assertEqual(program.end(), 0)


class Unloaded(LibraryTest):
    def ours(self, program):
        return len(process_text.leftovers(program.pid))

    def test_it_comes_back_many_times(self):
        """Each time it is counted again, and what was mapped for it does not grow."""
        program, session = self.begin(metric("plugin_calls", ["t_plugin_work"]), "--await", "-m", "plugin_calls")
        mapped = self.ours(program)
        for _ in range(30):
            program.ask("open 0")
            session.said(LOADED)
            program.ask("open 10")
            program.ask("close")
            program.ask("close")
            soon(lambda: self.ours(program) == mapped, "the memory for the library to be given back")
        self.assert_stopped_well(session)
        self.assertEqual(self.value(session, "plugin_calls"), 300)
        self.assert_untouched(program.pid, self.before)
        self.assertEqual(program.end(), 0)

    def test_it_goes_while_others_look(self):
        """What was mapped for it cannot be given back at once; nothing that the program does says when it can be."""
        program, session = self.begin(metric("plugin_calls", ["t_plugin_work"]), "--await", "-m", "plugin_calls")
        mapped = self.ours(program)
        program.ask("open 0")
        session.said(LOADED)
        other = self.start("obstinate", f"lock-of={program.pid}", "call-mdl-inject")
        program.ask("close")
        time.sleep(1)  # many looks at what is loaded
        self.assertGreater(self.ours(program), mapped)
        other.kill()
        soon(lambda: self.ours(program) == mapped, "the memory for the library to be given back")
        self.assert_stopped_well(session)
        self.assert_untouched(program.pid, self.before)
        self.assertEqual(program.end(), 0)

    def test_it_comes_and_goes_while_it_is_instrumented(self):
        """Between what is read of it and the commit it may have gone, and be there again."""
        program, session = self.begin(metric("loader_calls", ["t_loader_work"]) + metric("all_calls", ["t_plugin_work"]),
                                      "--await", "-m", "loader_calls", "-m", "all_calls")
        for _ in range(10):  # on a busy machine it may be gone each time that it would be instrumented
            done = program.ask("churn 1000")
            if session.fresh_values()["all_calls", ""] > 0:
                break
        self.assert_stopped_well(session)
        self.assertEqual(self.value(session, "loader_calls"), done["calls"])
        self.assertIn(LOADED, session.errors)
        self.assertNotIn("audit", session.errors)
        self.assertLessEqual(self.value(session, "all_calls"), done["calls"])
        self.assertEqual(process_text.leftovers(program.pid), [])
        self.assertEqual(program.ask("open 10")["calls"], done["calls"] + 10)
        self.assertEqual(program.end(), 0)

    def test_it_comes_and_goes_while_many_measure_and_remove(self):
        program = self.start("loads")
        plan = self.compile_text(metric("loader_calls", ["t_loader_work"]) + metric("all_calls", ["t_plugin_work"]))
        before = self.remember(program.pid)
        measure = [program.pid, plan, "--await", "-o", "/dev/null", "-i", "0.01", "-d"]
        commands = [[*measure, "0.05"], [*measure, "0.5"], ["--remove", program.pid], ["--status", program.pid]]
        over = threading.Event()

        def use(number):
            choice = random.Random(number)
            while not over.is_set():
                done = run(MDL_INJECT, *choice.choice(commands), seconds=60)
                self.assertIn(done.returncode, (0, 1), done.stderr)

        with concurrent.futures.ThreadPoolExecutor() as pool:
            users = [pool.submit(use, number) for number in range(3)]
            try:
                done = program.ask("churn 700")
            finally:
                over.set()
        for user in users:
            user.result()
        self.assertEqual(done["calls"], 700)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def test_it_was_there_at_the_attach_and_comes_back(self):
        program = self.start("loads")
        program.ask("open 1")
        plan = self.compile_text(metric("all_calls", ["t_loader_work", "t_plugin_work"]))
        session = self.inject(program.pid, plan).wait_inserted()
        program.ask("open 5")
        for _ in range(2):
            program.ask("close")
            program.ask("close")
            program.ask("open 0")
            session.said(LOADED)
            program.ask("open 5")
        self.assert_stopped_well(session)
        self.assertEqual(self.value(session, "all_calls"), 2 * 15)
        self.assertEqual(program.ask("open 2")["calls"], 18)
        self.assertEqual(program.end(), 0)

    def check_squat(self, later):
        """Other memory at the library's place, with the very bytes that were ours: it is not written to."""
        program = self.start("loads")
        if not later:
            program.ask("open 1")
        plan = self.compile_text(metric("all_calls", ["t_loader_work", "t_plugin_work"]))
        session = self.inject(program.pid, plan).wait_inserted()
        if later:
            program.ask("open 0")
            session.said(LOADED)
        program.ask("open 5")
        program.ask("squat")
        self.assertEqual(program.ask("look")["calls"], 1)
        self.assert_stopped_well(session)
        self.assertEqual(self.value(session, "all_calls"), 10)
        self.assertEqual(program.ask("look")["calls"], 1)
        self.assertEqual(program.end(), 0)

    def test_its_place_is_used_by_other_memory(self):
        self.check_squat(later=False)

    def test_the_place_of_a_later_one_is_used_by_other_memory(self):
        self.check_squat(later=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
