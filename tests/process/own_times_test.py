"""What functions run themselves, by key and of some calls: against a program that knows it of each of its calls."""

import unittest

from harness import MDL_INJECT, LiveTest, run

# All of whose calls return.
WHOLE = ("o_plain", "o_deep", "o_catches", "o_returns", "o_moves", "o_sleeps", "o_outer", "o_inner", "o_tail")
LEFT = ("o_passes", "o_leaves")  # now and then by an exception, or longjmp
FUNCTIONS = WHOLE + LEFT
KEYS = "0123"


class Asking(LiveTest):
    def ask(self, *queries, of="own_times"):
        self.program = self.start(of)
        self.before = self.remember(self.program.pid)
        self.session = self.inject(self.program.pid, *queries).wait_inserted()

    def finish(self, anomalies=0):
        self.assert_stopped_well(self.session)
        lines = [line for line in self.session.lines if line["final"]]
        self.assertEqual({(line["refused"], line.get("anomalies", 0)) for line in lines}, {(0, anomalies)},
                         self.session.errors)
        self.assert_untouched(self.program.pid, self.before)

    def value(self, metric, focus=""):
        return self.session.final()[metric, focus]["value"]

    def by_key(self, metric):
        return self.session.by_key(metric, self.program.pid)

    def assert_within(self, value, truth, name, part=1.0):
        self.assertLessEqual(value, truth[name + "_most"] * 1.001, name)
        self.assertGreaterEqual(value, truth[name + "_least"] * part * 0.999, name)


class OwnTimes(Asking):
    def test_by_key(self):
        """
        Recursion, exceptions that are caught here and elsewhere, longjmp to here and away, signals, tail calls, threads.
        The program's clocks have what the instrumentation takes in them; so have raw times.
        """
        self.check_by_key("own_times")

    def test_by_key_behind_landing_instructions(self):
        """Where exceptions land and setjmp comes back; frames that are found by the frame pointer."""
        self.check_by_key("own_times-cet")

    def check_by_key(self, of):
        self.ask("--raw-times", "count o_work", *(f"self {function} by $arg[0]" for function in FUNCTIONS), of=of)
        for _ in range(3):  # new threads each time
            truth = self.program.ask("go 100")
            self.session.fresh_values()
        self.finish()
        for function in FUNCTIONS:
            values = self.by_key(f"self {function} by $arg[0]")
            self.assertEqual(sorted(values), [key for key in KEYS if truth[f"{function}_{key}_count"]])
            for key, value in values.items():
                self.assert_within(value, truth, f"{function}_{key}")

    def test_as_the_timer_has_it(self):
        """Where all calls return, they have together what the plain timer has, without the instrumentation."""
        functions = [function for function in WHOLE if function != "o_catches"]  # there the timer has anomalies
        self.ask(*(query for function in functions for query in (f"self {function}", f"self {function} by $arg[0]")))
        truth = self.program.ask("quiet 200")
        self.finish()
        for function in functions:
            values = self.by_key(f"self {function} by $arg[0]")
            calls = sum(truth[f"{function}_{key}_count"] for key in KEYS)
            self.assertAlmostEqual(sum(values.values()), self.value(f"self {function}"), delta=10 * calls, msg=function)

    def test_single_calls(self):
        """As a value at a return, beside others of the same call; of each call that returned."""
        condition = "self o_moves if $arg[0] == 1"
        whole, own = "sum elapsed at o_moves", "sum self_elapsed at o_moves if elapsed >= self_elapsed"
        self.ask(*(f"hist self_elapsed at {function}" for function in FUNCTIONS), condition, whole, own,
                 "self o_moves by $arg[0], caller", "self o_moves by $arg[0], thread")
        truth = self.program.ask("quiet 100")
        self.finish()
        for function in FUNCTIONS:
            line = self.session.final()[f"hist self_elapsed at {function}", ""]
            self.assertEqual((line["units"], line["count"]),
                             ("ns", sum(truth[f"{function}_{key}_count"] for key in KEYS)), function)
            self.assertLessEqual(line["sum"], sum(truth[f"{function}_{key}_most"] for key in KEYS))
        self.assert_within(self.value(condition), truth, "o_moves_1", 0.5)
        total = self.session.final()["hist self_elapsed at o_moves", ""]["sum"]
        self.assertEqual(self.value(own), total)
        self.assertGreater(self.value(whole), total)
        by_caller = self.session.by_keys("self o_moves by $arg[0], caller", self.program.pid)
        self.assertAlmostEqual(sum(by_caller.values()), total, delta=4000)
        self.assertTrue(all("own_times" in caller or "+0x" in caller for _, caller in by_caller))
        by_thread = [line["value"] for line in self.session.lines
                     if line["final"] and line["metric"] == "self o_moves by $arg[0], thread"]
        self.assertAlmostEqual(sum(by_thread), total, delta=4000)

    def test_within_and_patterns(self):
        within, elsewhere = "self o_inner within o_outer", "self o_inner by $arg[0]"
        each, of_each, of_object = "self o_in*", "self /Code/own_times/o_in* by $arg[0]", "self /Code/own_times within o_outer"
        several, of_all = "self o_inner within o_plain, o_outer within o_ou*", "self /Code/own_times/o_* within o_outer"
        self.ask(within, elsewhere, each, of_each, of_object, of_all, several,
                 "count o_inner within o_outer", "self o_inner within o_o* as pattern")
        truth = self.program.ask("quiet 200")
        self.assert_stopped_well(self.session)
        self.assert_untouched(self.program.pid, self.before)
        calls = sum(truth[f"o_inner_{key}_count"] for key in KEYS)
        self.assertEqual(2 * self.value("count o_inner within o_outer"), calls)
        path = "/Code/own_times/o_inner"
        lines = {(line["metric"], line["focus"], *line.get("key", [])): line["value"]
                 for line in self.session.lines if line["final"]}
        total = sum(self.by_key(elsewhere).values())
        self.assertAlmostEqual(sum(value for key, value in lines.items() if key[0] == each and path in key), total,
                               delta=10 * calls)
        self.assertEqual(len([key for key in lines if key[0] == of_each]), 3)
        self.assertLess(self.value(within), total)
        self.assertGreater(self.value(within), 0)
        self.assertAlmostEqual(self.value("pattern"), self.value(within), delta=10 * calls)
        its = {focus or key[2]: value for key, value in lines.items() for focus in [key[1]] if key[0] == of_all}
        self.assertEqual(sorted(its), [f"/Code/own_times/{name}" for name in ("o_inner", "o_outer", "o_work")])
        self.assertAlmostEqual(its[path], self.value(within), delta=10 * calls)
        self.assertGreaterEqual(self.value(of_object), sum(its.values()) - 100 * calls)
        self.assertAlmostEqual(self.value(several), self.value(within), delta=10 * calls)

    def test_active_at_the_attach(self):
        """Nobody knows when that call began: it is no value, but an anomaly."""
        self.ask("hist self_elapsed at o_waits")
        self.program.ask("go 1")
        self.session.fresh_values()
        self.finish(anomalies=1)
        self.assertEqual(self.session.final()["hist self_elapsed at o_waits", ""]["count"], 0)

    def test_frames_that_are_not_known(self):
        """What is not known of a call's frame is refused, as a whole, and with the reason; the plain timer needs none."""
        program = self.start("own_times")
        before = self.remember(program.pid)
        for function in "o_hides", "o_tells_not":
            query = f"self {function} by $arg[0]"
            done = run(MDL_INJECT, program.pid, query, "--dry-run")
            self.assertIn("where the function's frame lies at the call is not known", done.stdout + done.stderr)
            done = run(MDL_INJECT, program.pid, query, "--strict", "-d", "0")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(run(MDL_INJECT, program.pid, f"self {function}", "--strict", "-d", "0").returncode, 0)
        self.assert_untouched(program.pid, before)


class Elsewhere(Asking):
    def test_fibers(self):
        """What goes on in another thread goes on there, and is no other function's time."""
        self.ask("hist self_elapsed at f_waits", "latency f_waits", "hist self_elapsed at f_nests", of="fibers")
        self.program.ask("one 20")
        truth = self.program.ask("many 20")
        self.assertGreater(truth["moved"], 300)
        self.finish()
        lines = self.session.final()
        for function in "f_waits", "f_nests":
            self.assertEqual(lines[f"hist self_elapsed at {function}", ""]["count"], truth[function + "_count"])
        own, whole = lines["hist self_elapsed at f_waits", ""], lines["latency f_waits", ""]
        self.assertLess(own["sum"], whole["sum"] / 10)
        self.assertLess(own["p50"], 10000)

    def test_active_at_a_fork(self):
        self.ask("hist self_elapsed at t_outer", "hist self_elapsed at t_work", "--follow-fork", of="forks")
        own, child = self.program.ask("inside 50")["family"]
        self.assert_stopped_well(self.session)
        lines = {(line["pid"], line["metric"]): line for line in self.session.lines if line["final"]}
        counts = [(lines[one["pid"], "hist self_elapsed at t_outer"]["count"],
                   lines[one["pid"], "hist self_elapsed at t_outer"].get("anomalies", 0)) for one in (own, child)]
        self.assertEqual(counts, [(1, 0), (0, 1)])
        for one in own, child:
            self.assertEqual(lines[one["pid"], "hist self_elapsed at t_work"]["count"], one["work"])

    def test_deeper_than_there_is_room(self):
        """Of calls beyond 49,152 that run at once the oldest have no value; the others are right."""
        query = "hist self_elapsed at t_deep"
        self.ask(query, of="durations")
        truth = self.program.ask("deeper 59999")
        truth = self.program.ask("go 100")
        self.assert_stopped_well(self.session)
        line = self.session.final()[query, ""]
        self.assertEqual(line["count"] + line["anomalies"], truth["t_deep_count"])
        self.assertGreaterEqual(line["anomalies"], 60000 - 49152)
        self.assertLessEqual(line["sum"], truth["t_deep_most"])


if __name__ == "__main__":
    unittest.main()
