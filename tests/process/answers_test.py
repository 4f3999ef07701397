"""The time of a hit, the processor time of calls and the errors that they leave, against a program that knows all of it."""

import unittest

from harness import MDL_INJECT, LiveTest, run


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


class Cpu(Answers):
    def test_by_key_of_some_calls_and_within(self):
        """Between the thread's own clock inside of each call and outside of it: spinning, asleep, and with another below."""
        by, each = "cpu t_burn by $arg[0]", "hist $cpu_elapsed at t_burn by $arg[0], thread"
        whole, within = "cpu t_burn", "cpu t_burn within main"
        self.ask(by, each, whole, within, options=["--raw-times"])
        truth = self.program.ask("burn 50")
        self.finish()
        values = self.session.by_key(by, self.program.pid)
        for key in "123":
            self.assertLessEqual(truth["least" + key], values[key])
            self.assertLessEqual(values[key], truth["most" + key])
        self.assertEqual({line["key"][0]: line["count"] for line in self.session.lines if line["final"] and line["metric"] == each},
                         {key: truth["count" + key] for key in "123"})
        self.assertAlmostEqual(self.value(within) / self.value(whole), 1, delta=0.02)  # the outermost call

    def test_without_the_instrumentation(self):
        """What a question asks of each inner call is not in the outer one's time."""
        by, asleep = "cpu t_burn by $arg[0]", "cpu t_burn if $arg[0] == 2"
        self.ask(by, asleep)
        truth = self.program.ask("burn 50")
        self.finish()
        values = self.session.by_key(by, self.program.pid)
        self.assertEqual((sorted(values), self.value(asleep)), (["1", "2", "3"], values["2"]))
        for key, value in values.items():
            self.assertLessEqual(value, truth["most" + key])
            self.assertGreaterEqual(value, truth["least" + key] / 2)

    def test_a_call_that_ends_in_another_thread(self):
        """It has no CPU time of its thread's: it counts nowhere, and is said."""
        query = "hist $cpu_elapsed at f_waits"
        self.ask(query, of="fibers")
        self.program.ask("one 20")
        truth = self.program.ask("many 20")
        self.assertGreater(truth["moved"], 300)
        self.finish(anomalies=truth["moved"])
        self.assertEqual(self.session.final()[query, ""]["count"] + truth["moved"], truth["f_waits_count"])


class Errors(Answers):
    # As the kernel's headers have them.
    NAMES = {1: "1 EPERM", 2: "2 ENOENT", 3: "3 ESRCH", 4: "4 EINTR"}

    def check(self, of):
        by, of_two = "count t_fail if $return < 0 by errno", "count t_fail if $return < 0 && errno == 2"
        read, each = "count read if long($return) < 0 by errno, thread", "sum errno at t_fail if $return < 0"
        self.ask(by, of_two, read, each, of=of)
        truth = self.program.ask("fail 500")
        self.finish()
        self.assertEqual(self.session.by_key(by, self.program.pid), {name: truth[f"error{number}"] for number, name in self.NAMES.items()})
        self.assertEqual(self.value(of_two), truth["error2"])
        self.assertEqual(self.value(each), sum(number * truth[f"error{number}"] for number in self.NAMES))
        lines = [line for line in self.session.lines if line["final"] and line["metric"] == read]
        self.assertEqual({line["key"][0] for line in lines}, {"9 EBADF"})
        self.assertEqual(sum(line["value"] for line in lines), truth["unread"])

    def test_of_each_thread(self):
        self.check("answers")

    def test_in_a_static_program(self):
        self.check("answers-static")

    def test_where_it_is_not_known(self):
        """musl keeps errno elsewhere: nothing is guessed, and nothing is touched."""
        program = self.start("images-musl")
        before = self.remember(program.pid)
        done = run(MDL_INJECT, program.pid, "count t_image_work by errno", "-d", "0")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("its C library keeps errno in a way that is not known here", done.stderr)
        self.assert_untouched(program.pid, before)


if __name__ == "__main__":
    unittest.main()
