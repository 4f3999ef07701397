"""Durations of single calls: against a program that measures each of them itself."""

import unittest

from harness import LiveTest

FUNCTIONS = ("t_spin", "t_deep", "t_throws", "t_jumps")
OF_FIBERS = ("f_waits", "f_throws", "f_nests")


class Asking(LiveTest):
    def ask(self, *queries, of="durations"):
        program = self.start(of)
        before = self.remember(program.process.pid)
        session = self.inject(program.process.pid, *queries)
        session.wait_inserted()
        return program, session, before

    def assert_is(self, line, truth, function, part=0.5):
        """
        The count is exact, the sum between what clocks inside and outside of the function say. These see what the
        instrumentation of calls inside takes, which the sum leaves out: so it has at least this part.
        """
        self.assertEqual(line["count"], truth[function + "_count"], function)
        self.assertLessEqual(line["sum"], truth[function + "_most"], function)
        # Two readings of a clock inside of each call, which do not see its very beginning and end.
        self.assertGreaterEqual(line["sum"], part * truth[function + "_least"] - 100 * line["count"], function)
        self.assertEqual(sum(count for _, count in line["buckets"]), line["count"])


class Durations(Asking):
    def test_recursion_exceptions_jumps_signals_threads(self):
        program, session, before = self.ask(*(f"latency {function}" for function in FUNCTIONS))
        for _ in range(3):  # new threads each time
            truth = program.ask("go 500")
            session.fresh_values()
        self.assert_stopped_well(session)
        for function in FUNCTIONS:
            line = session.final()[f"latency {function}", ""]
            self.assertEqual(line["units"], "ns")
            self.assert_is(line, truth, function, 0.9 if function == "t_spin" else 0.5)
            self.assertNotIn("anomalies", line)
        self.assert_untouched(program.process.pid, before)

    def test_raw_times(self):
        """With what the instrumentation takes, as the program's clocks have it."""
        program, session, _ = self.ask("--raw-times", *(f"latency {function}" for function in FUNCTIONS))
        truth = program.ask("go 500")
        self.assert_stopped_well(session)
        for function in FUNCTIONS:
            self.assert_is(session.final()[f"latency {function}", ""], truth, function, 0.999)

    def test_forms(self):
        """A line for each function, a condition, another aggregate, a flag; each has entries of its own."""
        program, session, _ = self.ask("latency /Code/durations/t_*", "hist elapsed at t_spin if elapsed >= 10000",
                                       "sum elapsed at t_spin", "count t_deep if elapsed >= 0", "latency t_spin by thread",
                                       "latency t_spin within t_tail as inside",
                                       "sum elapsed at t_spin by $return > 5000 as keyed")
        truth = program.ask("go 200")
        self.assert_stopped_well(session)
        lines = session.final()
        for function in FUNCTIONS:
            # Seven requests: what they take in the calls inside is most of what the program's clocks see of t_deep, and on a
            # machine with other work more than four fifths of it.
            part = 0.1 if function == "t_deep" else 0.25
            self.assert_is(lines["latency /Code/durations/t_*", f"/Code/durations/{function}"], truth, function, part)
        # It ends with its jump to t_spin.
        tail = lines["latency /Code/durations/t_*", "/Code/durations/t_tail"]
        self.assertEqual(tail["count"], truth["t_tail_count"])
        self.assertLess(tail["p50"], 1000)
        some = lines["hist elapsed at t_spin if elapsed >= 10000", ""]
        self.assertGreaterEqual(some["min"], 9900)
        self.assertLess(some["count"], truth["t_spin_count"])
        self.assertGreaterEqual(some["count"], 4 * 200 * 3 // 7)
        summed = lines["sum elapsed at t_spin", ""]["value"]
        self.assertLessEqual(summed, truth["t_spin_most"])
        self.assertGreaterEqual(summed, 0.9 * truth["t_spin_least"])
        keyed = [line for line in session.lines if line["final"] and line["metric"] == "keyed"]
        self.assertEqual(sorted(line["key"] for line in keyed), [["0"], ["1"]])
        self.assertLessEqual(sum(line["value"] for line in keyed), truth["t_spin_most"])
        self.assertGreaterEqual(sum(line["value"] for line in keyed), 0.9 * truth["t_spin_least"])
        self.assertEqual(lines["count t_deep if elapsed >= 0", ""]["value"], truth["t_deep_count"])
        threads = [line for (metric, focus), line in lines.items() if metric == "latency t_spin by thread" and focus]
        self.assertEqual(sum(line["count"] for line in threads), truth["t_spin_count"])
        self.assertGreaterEqual(lines["inside", ""]["count"], truth["t_tail_count"])
        self.assertLess(lines["inside", ""]["count"], truth["t_spin_count"] // 2 + truth["t_tail_count"] // 2)

    def test_active_at_the_attach(self):
        """Nobody knows when that call began: it is no value, but an anomaly."""
        program, session, _ = self.ask("latency t_waits")
        program.ask("go 1")
        session.fresh_values()
        self.assert_stopped_well(session)
        line = session.final()["latency t_waits", ""]
        self.assertEqual((line["count"], line["anomalies"]), (0, 1))

    def test_active_at_a_fork(self):
        """A followed child returns from a call that its parent began: it has no duration there, as counts begin anew."""
        program, session, _ = self.ask("latency t_outer", "latency t_work", "--follow-fork", of="forks")
        own, child = program.ask("inside 50")["family"]
        self.assert_stopped_well(session)
        lines = {(line["pid"], line["metric"]): line for line in session.lines if line["final"]}
        outer, its = lines[own["pid"], "latency t_outer"], lines[child["pid"], "latency t_outer"]
        self.assertEqual((outer["count"], outer.get("anomalies", 0)), (1, 0))
        self.assertEqual((its["count"], its["anomalies"]), (0, 1))
        for one in own, child:
            self.assertEqual(lines[one["pid"], "latency t_work"]["count"], one["work"])

    def test_deeper_than_there_is_room(self):
        """Of calls beyond 49,152 that run at once the oldest have no duration; the others are right."""
        program, session, _ = self.ask("latency t_deep")
        truth = program.ask("deeper 2999")
        session.fresh_values()
        self.assertEqual(session.lines[-1]["count"], 3000)
        truth = program.ask("deeper 59999")
        truth = program.ask("go 100")
        self.assert_stopped_well(session)
        line = session.final()["latency t_deep", ""]
        self.assertEqual(line["count"] + line["anomalies"], truth["t_deep_count"])
        self.assertGreaterEqual(line["anomalies"], 60000 - 49152)
        self.assertLess(line["anomalies"], 60000 - 24576)
        self.assertLessEqual(line["sum"], truth["t_deep_most"])


class Fibers(Asking):
    """Calls that wait in the middle, while others of the same thread begin and end."""

    def assert_are(self, session, truth, part):
        for function in OF_FIBERS:
            line = session.final()[f"latency {function}", ""]
            self.assert_is(line, truth, function, part)
            self.assertNotIn("anomalies", line)
            # No call has the entry of an older one.
            self.assertLessEqual(line["max"], truth[function + "_longest"] * 1.01)

    def test_return_in_another_order(self):
        program, session, before = self.ask("--raw-times", *(f"latency {function}" for function in OF_FIBERS),
                                            of="fibers")
        truth = program.ask("one 20")
        self.assertEqual(truth["moved"], 0)
        truth = program.ask("one 20")
        self.assert_stopped_well(session)
        self.assert_are(session, truth, 0.999)
        self.assert_untouched(program.process.pid, before)

    def test_return_in_another_thread(self):
        program, session, before = self.ask("--raw-times", *(f"latency {function}" for function in OF_FIBERS),
                                            of="fibers")
        for _ in range(3):  # threads and stacks are used again
            truth = program.ask("many 20")
        self.assertGreater(truth["moved"], 1000)
        self.assert_stopped_well(session)
        self.assert_are(session, truth, 0.999)
        self.assert_untouched(program.process.pid, before)

    def test_without_the_instrumentation(self):
        """What other fibers' hits take in the thread meanwhile is left out, too."""
        program, session, _ = self.ask(*(f"latency {function}" for function in OF_FIBERS), of="fibers")
        truth = program.ask("one 20")
        truth = program.ask("many 20")
        self.assert_stopped_well(session)
        self.assert_are(session, truth, 0.5)


if __name__ == "__main__":
    unittest.main()
