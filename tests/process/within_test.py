"""A metric at /Code/OBJECT/FUNCTION counts what happens while that function is on the thread's
stack: with recursion, and from the first moment when it is there at the attach.
"""

import unittest

from harness import CONSTRAINTS, LiveTest, metric

G = "calls_of_g"
INSIDE = "/Code/within/t_h"


class Within(LiveTest):
    def begin(self):
        """The program with thread B asleep in t_h, and the metric at t_h, at the object and everywhere."""
        program = self.start("within")
        plan = self.compile_text(CONSTRAINTS + metric(G, ["t_g"], constraints=["procedure", "module"]) +
                                 metric("calls_of_h", ["t_h"]))
        before = self.remember(program.pid)
        session = self.inject(program.pid, plan, "-m", G, "-m", f"{G}@{INSIDE}", "-m", f"{G}@/Code/within",
                              "-m", "calls_of_h").wait_inserted()
        return program, session, before

    def finish(self, program, session, before, last):
        """Ctrl-C; then all four numbers against the program's own."""
        self.assert_stopped_well(session)
        values = {key: line["value"] for key, line in session.final().items()}
        # At the object, functions that have nothing to do with t_g and t_h may be refused.
        self.assertEqual({line["refused"] for line in session.lines if line["focus"] != "/Code/within"}, {0})
        truth = {name: last[name] - program.ready[name] for name in ("inside", "total", "h_entries")}
        self.assertEqual(values, {
            (G, ""): truth["total"],
            (G, INSIDE): truth["inside"],
            (G, "/Code/within"): truth["total"],
            ("calls_of_h", ""): truth["h_entries"],
        })
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def test_recursion(self):
        program, session, before = self.begin()
        last = program.ask("go 1000")
        self.assertEqual(last["inside"] - program.ready["inside"], 9000)
        self.finish(program, session, before, last)

    def test_on_the_stack_at_the_attach(self):
        program, session, before = self.begin()
        last = program.ask("wake")
        self.assertEqual(last["inside"] - program.ready["inside"], 2)
        self.finish(program, session, before, last)

    def test_both_threads(self):
        program, session, before = self.begin()
        program.ask("go 10")
        program.ask("wake")
        self.finish(program, session, before, program.ask("go 10"))

    # Frames that vanish lower their flag, and that is counted (docs/events.md, "Frames that vanish").
    def test_frames_removed_by_an_exception(self):
        program, session, before = self.begin()
        program.ask("throw 50")
        program.ask("go 10")
        self.finish(program, session, before, program.ask("throw 1"))
        self.assertEqual({line.get("anomalies") for line in session.final().values()}, {51})

    def test_frames_removed_by_longjmp(self):
        program, session, before = self.begin()
        program.ask("jump 50")
        program.ask("go 10")
        self.finish(program, session, before, program.ask("jump 1"))
        self.assertEqual({line.get("anomalies") for line in session.final().values()}, {51})

    def test_frames_removed_by_exceptions_of_other_languages(self):
        """Ada, D (two compilers), Objective-C, Rust: what their code calls where it has caught lowers the flags."""
        for catch in ("__gnat_begin_handler_v1", "__gdc_begin_catch", "_d_eh_enter_catch", "objc_begin_catch",
                      "__rust_panic_cleanup"):
            program = self.start("catches")
            before = self.remember(program.pid)
            plan = self.compile_text(CONSTRAINTS + metric("leaves", ["t_leaf"], constraints=["procedure"]))
            session = self.inject(program.pid, plan, "-m", "leaves", "-m",
                                  "leaves@/Code/catches/t_left").wait_inserted()
            program.ask(f"{catch} 100")
            self.assert_stopped_well(session)
            final = session.final()
            self.assertEqual(final["leaves", ""]["value"], 200, catch)
            inside = final["leaves", "/Code/catches/t_left"]
            self.assertEqual((inside["value"], inside["anomalies"]), (100, 50), catch)
            # Nothing tells that a function is called where this program has caught.
            self.assertEqual((inside["complete"], final["leaves", ""].get("complete")), (False, None))
            self.assert_untouched(program.pid, before)
            self.assertEqual(program.end(), 7)

    def test_functions_of_the_program_that_are_called_as_those_of_the_c_library(self):
        """Its longjmp takes no buffer, its _Exit comes back, its prctl(22) is no filter of seccomp."""
        queries = ("count t_leaf within t_outer", "time t_outer", "cpu t_leaf")
        for options in ([], ["--follow-fork"]):
            program = self.start("own_names")
            before = self.remember(program.pid)
            session = self.inject(program.pid, *queries, *options).wait_inserted()
            program.ask("go 100")
            self.assert_stopped_well(session)
            final = {line["metric"]: line for line in session.lines if line.get("final")}
            self.assertEqual(final[queries[0]]["value"], 100)
            for query in queries:
                self.assertGreater(final[query]["value"], 0, query)
                self.assertEqual({final[query].get(what) for what in ("anomalies", "complete")}, {None}, query)
            self.assert_untouched(program.pid, before)
            self.assertEqual(program.end(), 7)

    def test_panics_that_are_caught_unseen(self):
        """Link-time optimization has taken in what Rust's catch_unwind calls: times of the program are not whole."""
        for name, whole in (("rust_catch", True), ("rust_catch-lto", False)):
            program = self.start(name)
            before = self.remember(program.pid)
            session = self.inject(program.pid, f"time /Code/{name}/t_work", "time write", "count t_work").wait_inserted()
            program.ask("go 100")
            self.assert_stopped_well(session)
            final = {line["metric"]: line for line in session.lines if line.get("final")}
            self.assertEqual(final["count t_work"]["value"], 100)
            self.assertEqual([final[one].get("complete") for one in (f"time /Code/{name}/t_work", "time write", "count t_work")],
                             [None if whole else False, None, None])
            self.assertEqual("catches panics of Rust" in session.errors, not whole)
            self.assert_untouched(program.pid, before)
            self.assertEqual(program.end(), 7)

    def test_what_cleans_up_is_outside_of_what_was_left(self):
        left, cleans, key = "count l_step within l_left", "count l_step within l_cleans", "count l_step within l_left by $arg[0]"
        for name in ("landings", "landings-static", "landings-stripped"):  # the last one has libgcc without names
            with self.subTest(name):
                program = self.start(name)
                before = self.remember(program.pid)
                session = self.inject(program.pid, left, cleans, key).wait_inserted()
                inside = program.ask("go 1000")["inside"]
                self.assert_stopped_well(session)
                self.assert_untouched(program.pid, before)
                last = {line["metric"]: line for line in session.lines if line["final"]}
                self.assertEqual((last[left]["value"], last[cleans]["value"]), (inside, 2 * inside))
                self.assertEqual((last[key]["key"], last[key]["value"]), (["1"], inside))
                self.assertEqual(program.end(), 0)

    def test_removed_while_the_function_is_active(self):
        program, session, before = self.begin()
        self.assert_stopped_well(session)
        self.assert_untouched(program.pid, before)
        program.ask("wake")
        program.ask("go 10")
        self.assertEqual(program.end(), 0)

    def test_unknown_function(self):
        program = self.start("within")
        plan = self.compile_text(CONSTRAINTS + metric(G, ["t_g"], constraints=["procedure", "module"]))
        session = self.inject(program.pid, plan, "-m", f"{G}@/Code/within/t_hh")
        self.assertEqual(session.wait(), 1, session.errors)
        self.assertIn("t_h", session.errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
