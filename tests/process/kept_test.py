"""Arguments beside results: what a call was given at its entry, when it returns. Against a program that counts itself."""

import unittest

from harness import LiveTest

ALL = "count t_keep.return as all"
COUNT, SUM = "count t_keep.return by $arg[0]", "sum $return at t_keep by $arg[0]"
FAILURES = "count t_narrow if int($return) < 0 by int($arg[0])"
BY_TYPE = "count t_narrow if $return < 0 by $args.descriptor"


def grown(before, now):
    return {key: value - before.get(key, 0) for key, value in now.items() if value != before.get(key, 0)}


class Kept(LiveTest):
    def begin(self, *words, of="kept"):
        self.program = self.start(of)
        self.before = self.remember(self.program.process.pid)
        self.session = self.inject(self.program.process.pid, *words, ALL).wait_inserted()

    def lines(self, metric):
        return [line for line in self.session.lines if line["final"] and line["metric"] == metric]

    def values(self, metric):
        return {line["key"][0]: line["value"] for line in self.lines(metric)}

    def finish(self, last):
        self.assert_stopped_well(self.session)
        self.assertEqual({(line["refused"], line.get("anomalies", 0)) for line in self.session.lines}, {(0, 0)})
        truth = {part: grown(self.program.ready[part], last[part]) for part in ("counts", "sums", "failures")}
        self.assertEqual(self.values(COUNT), truth["counts"])
        self.assertEqual({key: value for key, value in self.values(SUM).items() if value}, truth["sums"])
        self.assertEqual(self.values(FAILURES), truth["failures"])
        self.assertEqual(self.values(BY_TYPE), truth["failures"])
        [everything] = self.lines("all")
        self.assertEqual(everything["value"], sum(truth["counts"].values()))
        self.assert_untouched(self.program.process.pid, self.before)
        return truth

    def test_recursion_and_threads(self):
        self.begin(COUNT, SUM, FAILURES, BY_TYPE)
        for _ in range(3):  # new threads each time
            last = self.program.ask("go 500")
        truth = self.finish(last)
        self.assertGreater(len(truth["counts"]), 90)
        self.assertEqual(set(truth["failures"]), set("01234"))

    def test_exceptions_jumps_and_signals(self):
        self.begin(COUNT, SUM, FAILURES, BY_TYPE)
        self.program.ask("throw 600")
        self.program.ask("jump 600")
        self.finish(self.program.ask("raise 600"))

    def test_signals_at_any_instruction(self):
        self.begin(COUNT, SUM, FAILURES, BY_TYPE)
        self.finish(self.program.ask("storm 10000"))

    def test_conditions_and_values(self):
        """Several of each: a value of both sides, two arguments, the duration, each kind of value."""
        some, both = "count t_keep if $arg[1] >= 0 && $return < 0 by $arg[0]", "sum $return + $arg[0] % 7 at t_keep"
        self.begin(SUM, some, both, "hist $return at t_keep if $arg[0] == 3 as three",
                   "max $arg[1] at t_keep.return if $arg[0] == 3 as most",
                   "hist elapsed at t_keep if $arg[0] == 3 && $arg[1] > $arg[0] as durations",
                   "count t_keep.return if $arg[0] == 3 && $arg[1] > $arg[0] as counted",
                   "count t_keep.return within t_keep by $arg[0] as inside",
                   "count t_keep.return by $arg[0], thread as threads")
        last = self.program.ask("go 1000")
        self.assert_stopped_well(self.session)
        lines = self.session.final()
        counts, sums = (grown(self.program.ready[part], last[part]) for part in ("counts", "sums"))
        self.assertEqual({line.get("anomalies", 0) for line in self.session.lines}, {0})
        # result = 3 amount - key % 7: it is below 0 for no amount above 0 beyond 2, and then above -7.
        self.assertTrue(all(int(key) % 7 for key in self.values(some)), self.values(some))
        amounts = {key: value + counts[key] * (int(key) % 7 if int(key) >= 0 else -(-int(key) % 7))
                   for key, value in {**dict.fromkeys(counts, 0), **sums}.items()}
        self.assertEqual(lines[both, ""]["value"], sum(amounts.values()))
        three = lines["three", ""]
        self.assertEqual((three["count"], three["sum"]), (counts["3"], sums["3"]))
        self.assertLess(lines["most", ""]["value"], 1000)
        self.assertEqual(lines["most", ""]["count"], counts["3"])
        self.assertEqual(lines["durations", ""]["count"], lines["counted", ""]["value"])
        self.assertLess(lines["counted", ""]["value"], counts["3"])
        self.assertGreater(lines["counted", ""]["value"], 0)
        self.assertEqual(self.values("inside"), counts)
        threads = {}
        for line in self.lines("threads"):
            threads[line["key"][0]] = threads.get(line["key"][0], 0) + line["value"]
        self.assertEqual(threads, counts)

    def test_durations_by_key(self):
        failing = "hist elapsed at t_narrow if int($return) < 0 by int($arg[0])"
        self.begin("latency t_keep by $arg[0]", "latency t_keep as each", failing)
        for command in ("go 300", "throw 300", "jump 300", "raise 300"):
            last = self.program.ask(command)
        self.assert_stopped_well(self.session)
        counts, failures = (grown(self.program.ready[part], last[part]) for part in ("counts", "failures"))
        keyed = {line["key"][0]: line for line in self.lines("latency t_keep by $arg[0]")}
        self.assertEqual({key: line["count"] for key, line in keyed.items()}, counts)
        [each] = self.lines("each")
        self.assertEqual(each["count"], sum(counts.values()))
        self.assertTrue(all(line["units"] == "ns" and 0 < line["p50"] <= line["p99"] for line in keyed.values()))
        self.assertEqual({line["key"][0]: line["count"] for line in self.lines(failing)}, failures)

    def test_active_at_the_attach(self):
        """Nobody knows what that call was given: it is no value, but one anomaly, however much is asked."""
        self.begin("sum $return at t_waits by $arg[0] as one", "count t_waits.return if $arg[0] > long($arg[1]) by long($arg[2]) as two",
                   "count t_waits.return as known")
        self.program.ask("go 1")
        self.session.fresh_values()
        self.assert_stopped_well(self.session)
        self.assertEqual((self.values("one"), self.values("two")), ({}, {}))
        [known] = self.lines("known")
        self.assertEqual(known["value"], 1)

    def test_one_anomaly_each(self):
        """However many values were to be kept for a call."""
        for query in ("count t_waits.return if $arg[0] > 0 && $return > 0", "sum $return + $arg[0] at t_waits if long($arg[1]) != 7",
                      "hist elapsed + $arg[0] at t_waits if long($arg[1]) != 7 && $arg[0] != elapsed"):
            self.begin(query + " as one")
            self.program.ask("go 1")
            self.assert_stopped_well(self.session)
            [line] = self.lines("one")
            self.assertEqual((line["value"], line["anomalies"]), (0, 1))

    def test_deeper_than_there_is_room(self):
        """The oldest of very many calls that run at once are not known; the others are right."""
        self.begin("count t_keep if $arg[1] == 7 || $return == $return as some")
        last = self.program.ask("deeper 59999")
        last = self.program.ask("go 10")
        self.assert_stopped_well(self.session)
        counts = grown(self.program.ready["counts"], last["counts"])
        [some] = self.lines("some")
        self.assertEqual(some["value"] + some["anomalies"], sum(counts.values()))
        self.assertGreater(some["anomalies"], 10000)
        self.assertGreater(some["value"], 10000)

    def test_fibers(self):
        """Calls return in any order, and in other threads than they were entered in."""
        number, both = "count f_waits.return by $arg[1]", "count f_nests.return if $arg[1] >= 0 as all_nests"
        self.program = self.start("fibers")
        session = self.inject(self.program.process.pid, number, both, "latency f_nests").wait_inserted()
        truth = self.program.ask("one 10")
        truth = self.program.ask("many 10")
        self.assertGreater(truth["moved"], 100)
        self.assert_stopped_well(session)
        self.session = session
        self.assertEqual(sum(self.values(number).values()), truth["f_waits_count"])
        [nests] = self.lines("all_nests")
        self.assertEqual((nests["value"], nests.get("anomalies", 0)), (truth["f_nests_count"], 0))


if __name__ == "__main__":
    unittest.main(verbosity=2)
