"""Distributions: how often values of each size were observed, against a program that knows all of them."""

import fcntl
import json
import re
import signal
import subprocess
import unittest

import exposition
from harness import CONSTRAINTS, MDL_INJECT, LiveTest, run

SIZES = CONSTRAINTS + """
resourceList sized is procedure { items { "t_size" }; flavor { unix }; }
metric sizes {
  name "Sizes"; units bytes; aggregateOperator sum; style EventCounter; flavor = { unix };
  constraint procedure; constraint module;
  base is histogram { foreach func in sized { append preInsn func.entry constrained (* observe($arg[0]); *) } }
}
"""


def many(function, count):
    head, metric = SIZES.replace("t_size", function).split("metric sizes")
    return head + "".join(f"metric sizes_{i}{metric}" for i in range(count))


LIMIT = 1 << 48  # larger ones are in the last bucket


def outputs(test, program, command, formats, *requests):
    """{format: what is written of the requests while the program does the command, once for each}"""
    shown = {}
    for name in formats:
        injector = subprocess.Popen([MDL_INJECT, str(program.process.pid), *requests, "--format", name, "-o",
                                     test.folder / name, "-i", "60"], stderr=subprocess.PIPE, text=True)
        test.addCleanup(injector.kill)
        test.assertIn("inserted", injector.stderr.readline())
        program.ask(command)
        injector.send_signal(signal.SIGINT)
        test.assertEqual(injector.wait(30), 0)
        injector.stderr.close()
        shown[name] = (test.folder / name).read_text()
    return shown


class Distributions(LiveTest):
    def assert_is(self, line, truth):
        """Sums are exact, buckets too; quantiles are off by less than 1 %."""
        self.assertEqual((line["count"], line["sum"], line["value"]), (truth["count"],) + (truth["sum"],) * 2)
        for name in ("p50", "p90", "p99", "p999"):
            exact = truth[name + "0" * (4 - len(name))]
            self.assertLessEqual(abs(line[name] - min(exact, LIMIT)), 0.01 * exact, (name, line[name], exact))
        self.assertEqual(sum(count for _, count in line["buckets"]), truth["count"])
        below = 1
        for power, count in enumerate(truth["powers"][:48]):
            inside = sum(n for upper, n in line["buckets"] if below // 2 < upper <= below)
            self.assertEqual(inside, count, f"below {below}")
            below *= 2

    def test_exact_under_threads_and_signals(self):
        program = self.start("observed")
        before = self.remember(program.process.pid)
        session = self.inject(program.process.pid, self.compile_text(SIZES))
        session.wait_inserted()
        for _ in range(3):  # new threads each time
            truth = program.ask("go 20000")
            session.fresh_values()
        self.assert_stopped_well(session)
        self.assert_is(session.final()["sizes", ""], truth)
        self.assert_untouched(program.process.pid, before)

    def test_by_thread_and_by_function(self):
        program = self.start("observed")
        session = self.inject(program.process.pid, self.compile_text(SIZES), "-m", "sizes@/Thread/*", "-m",
                              "sizes@/Code/observed/*", "-m", "sizes")
        session.wait_inserted()
        truth = program.ask("go 5000")
        self.assert_stopped_well(session)
        lines = session.final().values()
        whole = [line for line in lines if line["focus"] == ""]
        threads = [line for line in lines if line["focus"].startswith("/Thread/")]
        self.assert_is(whole[0], truth)
        self.assertEqual(len([line for line in threads if line["count"]]), 4)
        for key in ("count", "sum"):
            self.assertEqual(sum(line[key] for line in threads), truth[key])
        # A function with t_size inside of it has its own distribution.
        inner = [line for line in lines if line["focus"].startswith("/Code/") and line["count"]]
        self.assertTrue(inner)
        for line in inner:
            self.assertLessEqual(line["count"], truth["count"])

    def test_formats(self):
        program = self.start("observed")
        plan = self.compile_text(SIZES)
        shown = outputs(self, program, "go 1000", ("table", "prometheus", "csv", "json"), plan)
        size = r"[\d,]+(\.\d+ [MGTPE]B)?"
        self.assertRegex(shown["table"], rf"[\d,]+ values: p50 {size}, p90 {size}, p99 {size}, p999 {size}, max {size}\n")
        text = shown["prometheus"]
        exposition.parse(text)
        self.assertIn("# TYPE mdl_sizes_bytes histogram", text)
        labels = rf'pid="{program.process.pid}",focus=""'
        counts = [int(n) for n in re.findall(rf'mdl_sizes_bytes_bucket\{{{labels},le="\d+"\}} (\d+)', text)]
        self.assertEqual(counts, sorted(counts))
        self.assertEqual(len(counts), 48, "the same bounds each time")
        whole = int(re.search(rf'mdl_sizes_bytes_bucket\{{{labels},le="\+Inf"\}} (\d+)', text)[1])
        self.assertGreaterEqual(whole, counts[-1])
        self.assertRegex(text, rf"mdl_sizes_bytes_sum\{{{labels}\}} -?\d+\nmdl_sizes_bytes_count\{{{labels}\}} {whole}\n")
        self.assertIn("sizes", shown["csv"])
        self.assertEqual(json.loads(shown["json"])[-1]["metric"], "sizes")

    def test_children_begin_at_nothing(self):
        """A fork's child has a copy of its parent's histograms."""
        program = self.start("children")
        text = SIZES.replace("t_size", "t_work").replace("$arg[0]", "700")
        session = self.inject(program.process.pid, self.compile_text(text), "--follow-fork")
        session.wait_inserted()
        program.ask("work 30", None)
        program.ask("fork 20", None)
        self.assert_stopped_well(session)
        lines = [line for line in session.lines if line["final"]]
        self.assertEqual(sorted((line["count"], line["sum"]) for line in lines),
                         [(20, 14000), (20, 14000), (30, 21000)])
        for line in lines:
            self.assertEqual(line["buckets"], [[704, line["count"]]])

    def test_more_than_a_thread_has_room_for(self):
        """Refused before anything is mapped, and the process is not blamed."""
        program = self.start("observed")
        before = self.remember(program.process.pid)
        plan = self.compile_text(many("t_size", 800))
        refused = run(MDL_INJECT, program.process.pid, plan, "-d", "0")
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertRegex(refused.stderr, r"would take 16\.\d MB of memory for each thread .* ask for fewer")
        self.assertNotIn("damaged", refused.stderr)
        self.assert_untouched(program.process.pid, before)

    def test_children_that_run_are_admitted(self):
        """A child that begins to count in the very moment in which its data are made its own."""
        program = self.start("children")
        session = self.inject(program.process.pid, self.compile_text(many("t_work", 20)), "--follow-fork", interval="60")
        session.wait_inserted()
        for _ in range(10):
            program.ask("fork 200", None)
            session.read_on()
        self.assert_stopped_well(session)
        self.assertNotIn("cannot be measured", session.errors)
        counts = [line["count"] for line in session.lines if line["final"] and line["metric"] == "sizes_1"]
        self.assertEqual(sorted(counts)[-20:], [200] * 20, session.errors)

    def test_ends_do_not_wait_for_the_reader(self):
        """The grandchild's last sample does not fit into the pipe, and meanwhile its parent ends."""
        program = self.start("children")
        session = self.inject(program.process.pid, self.compile_text(many("t_work", 20)), "--follow-fork", interval="60")
        session.wait_inserted()
        fcntl.fcntl(session.process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        program.ask("fork 200", None)
        self.assert_stopped_well(session)
        self.assertNotIn("could not be read", session.errors)
        lines = [line for line in session.lines if line["final"]]
        self.assertEqual(sorted(line["count"] for line in lines), [0] * 20 + [200] * 40)
        self.assertFalse([line for line in lines if "complete" in line])

    def test_status_and_what_is_refused(self):
        program = self.start("observed")
        plan = self.compile_text(SIZES)
        session = self.inject(program.process.pid, plan, "--detach", "-d", "0")
        session.wait()
        program.ask("go 100")
        status = run(MDL_INJECT, "--status", program.process.pid)
        self.assertIn("sizes = ", status.stdout)
        self.assertEqual(run(MDL_INJECT, "--remove", program.process.pid).returncode, 0)


SUMMARIES = ("min $arg[0] at t_size", "max $arg[0] at t_size", "avg $arg[0] at t_size")


class Summaries(LiveTest):
    """The least value, the largest and the mean, which are exact."""

    def assert_are(self, session, truth):
        least, largest, mean = (session.final()[query, ""] for query in SUMMARIES)
        self.assertEqual((least["value"], largest["value"]), (truth["min"], truth["max"]))
        self.assertAlmostEqual(mean["value"] * truth["count"] / truth["sum"], 1, 12)
        for line in least, largest, mean:
            self.assertEqual((line["count"], line["rate"]), (truth["count"], None))

    def test_exact_under_threads_and_signals(self):
        program = self.start("observed")
        before = self.remember(program.process.pid)
        session = self.inject(program.process.pid, *SUMMARIES, "max $arg[0] at t_size by thread as each",
                              "min $arg[0] at t_size if $arg[0] > 5000 as some", "max $arg[0] at t_size within t_size as inside",
                              "max $arg[0] at /Code/observed/t_* as of")
        session.wait_inserted()
        for _ in range(3):  # new threads each time
            truth = program.ask("go 20000")
            session.fresh_values()
        self.assert_stopped_well(session)
        self.assert_are(session, truth)
        lines = session.final()
        each = [line for line in session.lines if line["final"] and line["metric"] == "each" and line["count"]]
        self.assertGreaterEqual(len(each), 4)
        self.assertEqual(max(line["value"] for line in each), truth["max"])
        self.assertEqual(sum(line["count"] for line in each), truth["count"])
        self.assertEqual(lines["some", ""]["value"], truth["above"])
        self.assertEqual(lines["inside", ""]["value"], truth["max"])
        self.assertEqual(lines["of", "/Code/observed/t_size"]["value"], truth["max"])
        self.assert_untouched(program.process.pid, before)

    def test_many_threads_that_end(self):
        """More of them than the ring has room for, between two looks."""
        program = self.start("observed")
        session = self.inject(program.process.pid, *SUMMARIES, interval="60")
        session.wait_inserted()
        session.process.send_signal(signal.SIGSTOP)
        for _ in range(400):
            truth = program.ask("go 3")
        session.process.send_signal(signal.SIGCONT)
        self.assert_stopped_well(session)
        self.assertIn("threads ended so fast that only the sums of their values are known", session.errors)
        self.assert_are(session, truth)

    def test_nothing_observed(self):
        """There is no number, and not 0."""
        program = self.start("observed")
        shown = {}
        for name in ("json", "csv", "table", "prometheus", "influx"):
            done = run(MDL_INJECT, program.process.pid, *SUMMARIES, "-d", "0", "--format", name)
            self.assertEqual(done.returncode, 0, done.stderr)
            shown[name] = done.stdout
        for line in json.loads(shown["json"]):
            self.assertEqual((line["value"], line["delta"], line["rate"], line["count"]), (None, None, None, 0))
        for line in shown["csv"].splitlines()[1:]:
            self.assertRegex(line, r"^\d+,[\d.]+,\d+,[^,]+,,,,,Values,")
        self.assertRegex(shown["table"], r"min \$arg\[0\] at t_size +- +Values")
        self.assertNotRegex(shown["prometheus"], r"(?m)^mdl_min")
        for line in shown["influx"].splitlines():
            self.assertRegex(line, r" count=0i \d+$")

    def test_formats(self):
        program = self.start("observed")
        shown = outputs(self, program, "go 10", ("csv", "table", "prometheus", "influx"), *SUMMARIES)
        self.assertRegex(shown["csv"], r",min \$arg\[0\] at t_size,,-?\d+,-?\d+,,Values,")
        self.assertRegex(shown["csv"], r",avg \$arg\[0\] at t_size,,-?[\d.e+]+,-?\d+,,Values,")
        self.assertRegex(shown["table"], r"max \$arg\[0\] at t_size +[\d,]+")
        self.assertIn("# TYPE mdl_min_arg_0_at_t_size gauge", shown["prometheus"])
        self.assertRegex(shown["prometheus"], r"(?m)^mdl_max[^ ]* \d+$")
        self.assertRegex(shown["influx"], r" count=\d+i,value=\d+i,delta=\d+i \d+\n")

    def test_children_begin_at_nothing(self):
        program = self.start("children")
        session = self.inject(program.process.pid, "max 700 at t_work", "--follow-fork")
        session.wait_inserted()
        program.ask("work 30", None)
        program.ask("fork 20", None)
        self.assert_stopped_well(session)
        lines = [line for line in session.lines if line["final"]]
        self.assertEqual(sorted((line["count"], line["value"]) for line in lines), [(20, 700), (20, 700), (30, 700)])

    def test_all_processes_together(self):
        """Their least and largest, the mean of all values, and nothing of one that has observed nothing."""
        programs = [self.start("observed") for _ in range(3)]
        session = self.inject(",".join(str(one.pid) for one in programs), *SUMMARIES)
        session.wait_inserted()
        truths = [programs[0].ask("go 100"), programs[1].ask("go 3000")]
        self.assert_stopped_well(session)
        all_of = {line["metric"]: line for line in session.lines if line["final"] and line["pid"] == 0}
        count, total = (sum(truth[what] for truth in truths) for what in ("count", "sum"))
        least, largest, mean = (all_of[query] for query in SUMMARIES)
        self.assertEqual((least["value"], largest["value"]),
                         (min(truth["min"] for truth in truths), max(truth["max"] for truth in truths)))
        self.assertAlmostEqual(mean["value"] * count / total, 1, 12)
        self.assertEqual([line["count"] for line in all_of.values()], [count] * 3)
        none = [line["value"] for line in session.lines if line["final"] and line["pid"] == programs[2].pid]
        self.assertEqual(none, [None] * 3)

    def test_durations(self):
        program = self.start("observed")
        session = self.inject(program.process.pid, "min elapsed at t_size", "max elapsed at t_size", "avg elapsed at t_size")
        session.wait_inserted()
        truth = program.ask("go 100")
        self.assert_stopped_well(session)
        least, largest, mean = (session.final()[f"{verb} elapsed at t_size", ""] for verb in ("min", "max", "avg"))
        self.assertEqual((least["count"], least["units"]), (truth["count"], "ns"))
        self.assertLessEqual(least["value"], mean["value"])
        self.assertLessEqual(mean["value"], largest["value"])

    def test_status(self):
        program = self.start("observed")
        self.inject(program.process.pid, *SUMMARIES, "--detach", "-d", "0").wait()
        self.assertIn("nothing observed", run(MDL_INJECT, "--status", program.process.pid).stdout)
        truth = program.ask("go 100")
        self.assertIn(f" = {truth['max']} Values", run(MDL_INJECT, "--status", program.process.pid).stdout)
        self.assertEqual(run(MDL_INJECT, "--remove", program.process.pid).returncode, 0)


if __name__ == "__main__":
    unittest.main()
