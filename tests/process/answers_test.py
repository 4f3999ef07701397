"""What only a question knows: the time of a hit and the processor time of calls, against a program that knows both."""

import unittest

from harness import LiveTest


class Answers(LiveTest):
    def ask(self, *queries, of="answers", options=()):
        self.program = self.start(of)
        self.before = self.remember(self.program.pid)
        self.session = self.inject(self.program.pid, *queries, *options).wait_inserted()

    def finish(self, anomalies=0):
        self.assert_stopped_well(self.session)
        self.assertEqual({(line["refused"], line.get("anomalies", 0)) for line in self.session.lines if line["final"]},
                         {(0, anomalies)}, self.session.errors)
        self.assert_untouched(self.program.pid, self.before)

    def value(self, metric):
        return self.session.final()[metric, ""]["value"]


class Now(Answers):
    def test_between_the_programs_own_readings(self):
        """$now is CLOCK_MONOTONIC itself: no hit before the program's reading, none behind it, and none far from it."""
        late, early = "count t_stamp if $now < $arg[0]", "count t_stamp.return if $now < $return"
        self.ask("sum $now at t_stamp", "min $now at t_stamp", "max $now at t_stamp.return", late, early,
                 "hist $now - $arg[0] at t_stamp", "count t_stamp by $now / 60000000000 > 0, $arg[0] > 0")
        truth = self.program.ask("stamp 5000")
        self.finish()
        self.assertLess(truth["before"], self.value("sum $now at t_stamp"))
        self.assertLess(self.value("sum $now at t_stamp"), truth["after"])
        self.assertLess(self.value("min $now at t_stamp"), truth["before"] // truth["calls"])
        self.assertGreater(self.value("max $now at t_stamp.return"), truth["before"] // truth["calls"])
        self.assertEqual((self.value(late), self.value(early)), (0, 0))
        line = self.session.final()["hist $now - $arg[0] at t_stamp", ""]
        self.assertEqual(line["count"], truth["calls"])
        self.assertLess(line["sum"], truth["after"] - truth["before"])
        by_key = [line for line in self.session.lines if line["final"] and "key" in line]
        self.assertEqual([(line["key"], line["value"]) for line in by_key], [(["1", "1"], truth["calls"])])


if __name__ == "__main__":
    unittest.main()
