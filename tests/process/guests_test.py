"""Several mdl-inject at one process: the first serves the others, each is exact over its own time, and each is taken out
alone."""

import json
import os
import pathlib
import random
import signal
import socket
import time
import unittest

import process_text
from harness import AS_NOBODY, CONSTRAINTS, MDL_INJECT, LiveTest, metric, run, soon
from timers_test import TIMER

WORKS, OUTERS, DEEPS = "works", "outers", "deeps"
DEEP = "/Code/changing/t_deep"
METRICS = (CONSTRAINTS + metric(WORKS, ["t_work"], constraints=["procedure"]) + metric(OUTERS, ["t_outer"]) +
           metric(DEEPS, ["t_deep"]))
TIMED = 'resourceList timed is procedure { items { "t_outer" }; flavor { unix }; }\n' + TIMER.format(
    name="took", kind="wallTimer", start="startWallTimer", stop="stopWallTimer", constraints="", constrained="")


def values(session):
    """{(metric, focus): value} of the last sample, which must be there."""
    return {key: line["value"] for key, line in session.final().items()}


def grown(after, before):
    return {key: after[key] - before[key] for key in ("work", "outer", "deep", "inside")}


class Guests(LiveTest):
    def begin(self, *asked, program=("changing", "4"), options=()):
        self.program = self.start(*program)
        self.pid = self.program.pid
        self.before = self.remember(self.pid)
        self.plan = self.compile_text(METRICS + TIMED)
        words = [word for request in asked for word in ("-m", request)]
        self.first = self.inject(self.pid, self.plan, *words, *options).wait_inserted()

    def guest(self, asked, *options, **named):
        """A second one, which has its first sample."""
        return self.inject(self.pid, asked, *options, **named).wait_inserted()

    def pause(self):
        return self.program.ask("pause", "paused")

    def start_work(self):
        self.program.ask("start", "running")

    def status(self):
        return run(MDL_INJECT, "--status", self.pid).stdout

    def wait_alone(self):
        soon(lambda: "(mdl-inject " not in self.status(), "the guest's requests to go")

    def finish(self, truth=None):
        """The first ends, exact over all its time, and nothing is left."""
        truth = truth or self.pause()
        self.assert_stopped_well(self.first)
        self.assert_untouched(self.pid, self.before)
        self.assertEqual(truth["wrong"], 0)
        return truth

    def test_each_over_its_own_time(self):
        """Points of the same functions in both, with constraints of the same names."""
        self.begin(WORKS, f"{WORKS}@{DEEP}")  # with a flag
        self.start_work()
        time.sleep(0.2)
        began = self.pause()
        second = self.guest(self.plan, "-m", WORKS, "-m", f"{WORKS}@{DEEP}", "-m", DEEPS)
        self.assertIn(f"is being measured by mdl-inject {self.first.process.pid}, which takes this in", self.said(second))
        self.start_work()
        time.sleep(0.3)
        ended = self.pause()
        self.assert_stopped_well(second)
        self.start_work()
        time.sleep(0.1)
        own = grown(ended, began)
        self.assertEqual(values(second), {(WORKS, ""): own["work"], (WORKS, DEEP): own["inside"], (DEEPS, ""): own["deep"]})
        truth = self.finish()
        self.assertEqual(values(self.first), {(WORKS, ""): truth["work"], (WORKS, DEEP): truth["inside"]})
        self.assertEqual({line["metric"] for line in self.first.lines}, {WORKS})
        self.assertNotIn("mdl-inject", "".join(line["metric"] + line["focus"] for line in second.lines))

    def said(self, session):
        session.read_until_said("takes this in")
        return session.errors

    def test_a_script_sees_no_difference(self):
        """The lines have the keys, names and times of a session of one's own, in each format."""
        self.begin(WORKS)
        query = "count t_work as mine"
        second = self.guest(query, "-d", "0.3")
        self.assertEqual(second.wait(), 0, second.errors)
        self.finish()
        alone = self.inject(self.pid, query, "-d", "0.3")
        self.assertEqual(alone.wait(), 0, alone.errors)
        self.assertEqual([list(line) for line in second.lines[:1]], [list(line) for line in alone.lines[:1]])
        for one in (second, alone):
            self.assertEqual({(line["metric"], line["focus"], line["pid"]) for line in one.lines}, {("mine", "", self.pid)})
            self.assertEqual([line["final"] for line in one.lines][-2:], [False, True])
            self.assertLess(one.lines[0]["elapsed_s"], 0.2)
            self.assertTrue(0.25 < one.lines[-1]["elapsed_s"] < 2, one.lines[-1])
            self.assertEqual(sum(line["delta"] for line in one.lines), one.lines[-1]["value"])

    def test_formats_and_files(self):
        self.begin(WORKS)
        self.start_work()
        for name in ("json", "csv", "prometheus", "influx", "table"):
            file = self.folder / name
            done = run(MDL_INJECT, self.pid, "count t_outer", "-d", "0.2", "-i", "0.1", "--format", name, "-o", file)
            self.assertEqual(done.returncode, 0, done.stderr)
            text = file.read_text()
            self.assertIn("outer", text)
            self.assertNotIn("(mdl-inject", text)
            if name == "json":
                self.assertTrue(json.loads(text)[-1]["final"])
        truth = self.finish()
        self.assertEqual(values(self.first)[WORKS, ""], truth["work"])

    def test_three_with_keys_and_times(self):
        """Tables of keys, timers and distributions of each, beside those of the others."""
        self.begin(WORKS, "took", options=("--share",))
        second = self.guest("count t_work by caller", "count t_message by int($arg[0])", "time t_outer")
        third = self.guest("latency t_deep", "latency t_work by function", "count t_message by int($arg[0])")
        soon(lambda: self.status().count("(mdl-inject ") == 6, "all to be there")
        began = time.monotonic()
        self.start_work()
        time.sleep(0.4)
        truth = self.pause()
        spent = (time.monotonic() - began) * 4 * 1e9
        for one in (third, second):
            self.assert_stopped_well(one)
        own = values(third)
        of = {line["metric"]: line for line in third.lines if line["final"]}
        self.assertEqual(of["latency t_deep"]["count"], truth["deep"])
        self.assertEqual(of["latency t_work by function"]["count"], truth["work"])
        self.assertGreater(own["latency t_deep", ""], 0)
        self.assertEqual(sum(second.by_key("count t_work by caller", self.pid).values()), truth["work"])
        for one in (second, third):
            self.assertEqual(one.by_key("count t_message by int($arg[0])", self.pid),
                             {str(tag): truth["rounds"] for tag in range(1, 5)})
        self.finish(truth)
        self.assertEqual(values(self.first)[WORKS, ""], truth["work"])
        for took in (values(self.first)["took", ""], values(second)["time t_outer", ""]):
            self.assertTrue(0 < took < spent, (took, spent))

    def test_many_that_come_and_go_under_load(self):
        """At full load the first stays exact, and what each has agrees with what it counts at both ends."""
        self.begin(WORKS, OUTERS)
        self.start_work()
        for turn in range(8):
            second = self.guest(f"count t_{('deep', 'work')[turn % 2]}", "count t_branchy", "count t_branchy.return")
            if turn % 4 == 3:
                second.kill()
                continue
            self.assert_stopped_well(second)
            own = values(second)
            self.assertGreater(own["count t_branchy", ""], 0)
            self.assertLessEqual(abs(own["count t_branchy", ""] - own["count t_branchy.return", ""]), 4)
        self.wait_alone()
        truth = self.finish()
        self.assertEqual(values(self.first), {(WORKS, ""): truth["work"], (OUTERS, ""): truth["outer"]})

    def test_the_second_is_killed(self):
        self.begin(WORKS)
        self.start_work()
        second, third = self.guest("count t_deep"), self.guest("count t_outer")
        began = self.pause()
        before = third.fresh_values()["count t_outer", ""]
        second.kill()
        soon(lambda: self.status().count("(mdl-inject ") == 1, "the killed one's requests to go")
        self.start_work()
        time.sleep(0.1)
        truth = self.pause()
        self.assert_stopped_well(third)
        self.assertEqual(values(third)["count t_outer", ""] - before, truth["outer"] - began["outer"])
        self.finish(truth)
        self.assertEqual(values(self.first)[WORKS, ""], truth["work"])

    def test_the_first_is_killed(self):
        """The second says so, and that nothing is known of what came then; the next one begins with a clean process."""
        self.begin(WORKS)
        self.start_work()
        second = self.guest("count t_work")
        second.fresh_values()
        self.first.kill()
        self.assertEqual(second.wait(), 1)
        self.assertIn(f"mdl-inject {self.first.process.pid}, which measured process {self.pid} for this one, has ended",
                      second.errors)
        last = second.lines[-1]
        self.assertEqual((last["final"], last["complete"]), (True, False))
        self.assertEqual(last["value"], second.lines[-2]["value"])
        third = self.guest("count t_work")
        self.assert_stopped_well(third)
        self.assert_untouched(self.pid, self.before)

    def test_the_first_ends_first(self):
        self.begin(WORKS)
        began = self.pause()
        second = self.guest("count t_work")
        self.start_work()
        time.sleep(0.2)
        truth = self.finish()
        self.assertEqual(second.wait(), 1)
        self.assertIn("has ended: these are the values until then", second.errors)
        self.assertEqual(values(second)["count t_work", ""], truth["work"] - began["work"])
        self.assertNotIn("complete", second.lines[-1])

    def test_the_process_ends(self):
        """Each has its last values."""
        self.begin(WORKS)
        second = self.guest("count t_outer")
        self.start_work()
        time.sleep(0.1)
        truth = self.pause()
        self.assertEqual(self.program.end(), 0)
        self.assertEqual((self.first.wait(), second.wait()), (0, 0), second.errors)
        self.assertEqual(values(self.first)[WORKS, ""], truth["work"])
        self.assertEqual(values(second)["count t_outer", ""], truth["outer"])
        self.assertIn(f"process {self.pid} has ended", second.errors)

    def test_the_process_is_killed(self):
        self.begin(WORKS)
        second = self.guest("count t_outer")
        self.program.kill()
        self.assertEqual((self.first.wait(), second.wait()), (3, 3), second.errors)
        self.assertIn("was killed by a signal", second.errors)

    def test_all_is_taken_out(self):
        """--remove, while two are there: both say that it is gone."""
        self.begin(WORKS)
        second = self.guest("count t_outer")
        self.assertEqual(run(MDL_INJECT, "--remove", self.pid).returncode, 0)
        self.assertEqual(self.first.wait(), second.wait(), second.errors)
        self.assertTrue(second.lines[-1]["final"])
        self.assert_untouched(self.pid, self.before)

    def test_status_tells_of_both(self):
        self.begin(WORKS)
        second = self.guest("count t_outer")
        text = self.status()
        self.assertIn(f"instrumented by mdl-inject {self.first.process.pid} (running)", text)
        self.assertIn(f"  {WORKS} = 0", text)
        self.assertIn(f"  count t_outer (mdl-inject {second.process.pid}) = 0", text)
        self.assert_stopped_well(second)
        self.assertNotIn("t_outer", self.status())
        self.finish()

    def test_what_cannot_be_served(self):
        """The message names the first, and why."""
        self.begin(WORKS)
        named = f"mdl-inject {self.first.process.pid}"
        for options, why in ((("--detach",), "--detach needs a session of its own"),
                             (("--follow-fork",), "--follow-fork needs a session of its own"),
                             (("--raw-times",), "its times are not those of --raw-times"),
                             (("--max-pause", "7"), "its --max-pause is 50 ms"),
                             (("--alone",), "end that one first"),
                             (("--budget", "0.001"), "more than the budget"),
                             (("-f", "/Code/changing/t_dep"), "t_dep")):
            done = run(MDL_INJECT, self.pid, self.plan, "-m", WORKS, "-d", "0", *options)
            self.assertEqual(done.returncode, 1, f"{options}: {done.stdout}{done.stderr}")
            self.assertIn(named, done.stderr)
            self.assertIn(why, done.stderr)
            self.assertEqual(done.stdout, "")
        for query in ("latency t_deep", "time t_deep", "count t_work within t_deep", "count t_work by thread"):
            done = run(MDL_INJECT, self.pid, query, "-d", "0")
            self.assertEqual(done.returncode, 1)
            self.assertIn("--share", done.stderr)
        done = run(MDL_INJECT, self.pid, "count nothing_of_that_name", "-d", "0")
        self.assertIn("nothing_of_that_name", done.stderr)
        self.finish()

    def test_some_lines_that_cannot_be_measured(self):
        """The others come all the same; what has no other line is refused."""
        self.begin(WORKS, options=("--share",))
        done = run(MDL_INJECT, self.pid, "calls /Code/libc.so.6/pthread_spin_*", "-d", "0.1", "--format", "ndjson")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = {line["focus"]: line for line in map(json.loads, done.stdout.splitlines())}
        unmeasured = [focus for focus, line in lines.items() if line.get("measured") is False]
        self.assertIn("/Code/libc.so.6/pthread_spin_lock", unmeasured)
        self.assertLess(len(unmeasured), len(lines))
        self.assertIn(f"{len(unmeasured)} of {len(lines)} lines cannot be measured", done.stderr)
        done = run(MDL_INJECT, self.pid, "count pthread_spin_lock", "-d", "0")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"pthread_spin_lock \(mdl-inject \d+\) cannot be measured: its points are refused")
        self.finish()

    def test_a_host_with_times_serves_times(self):
        """Distributions that are by no key want more."""
        self.begin("took")
        done = run(MDL_INJECT, self.pid, "time t_deep", "latency t_work by function", "max $arg[0] at t_work", "-d", "0.1")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run(MDL_INJECT, self.pid, "latency t_deep", "-d", "0")
        self.assertIn("latency F by function", done.stderr)
        self.assertIn("--share", done.stderr)
        self.finish()

    def test_functions_that_share_a_timer(self):
        """Are told apart: nothing else comes."""
        self.program = self.start("changing", "4")
        self.pid = self.program.pid
        self.before = self.remember(self.pid)
        self.first = self.inject(self.pid, "time t_work, t_deep").wait_inserted()
        done = run(MDL_INJECT, self.pid, "count t_deep", "-d", "0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("functions share a flag or timer", done.stderr)
        self.finish()

    def test_alone(self):
        """One that would be alone is no host."""
        self.begin(WORKS, options=("--alone",))
        done = run(MDL_INJECT, self.pid, "count t_work", "-d", "0")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"is being instrumented by mdl-inject {self.first.process.pid}, since", done.stderr)
        self.finish()

    @unittest.skipUnless(os.geteuid() == 0, "it becomes another user")
    def test_another_user(self):
        """Is refused as ever, by the first's name, and does not reach it."""
        self.begin(WORKS)
        done = run(*AS_NOBODY, MDL_INJECT, self.pid, self.plan, "-d", "0")
        self.assertEqual(done.returncode, 1, done.stderr)
        with self.call() as line:
            line.close()
        truth = self.finish()
        self.assertEqual(values(self.first)[WORKS, ""], truth["work"])

    def call(self):
        """What any program can do that knows how it is called."""
        lines = pathlib.Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()
        name = next(line.split()[-1] for line in lines if f"@mdl-inject/{self.pid}-" in line)
        line = socket.socket(socket.AF_UNIX)
        self.addCleanup(line.close)
        line.connect("\0" + name[1:])
        return line

    def test_the_first_ends_while_it_is_asked(self):
        """Whenever that is: who has asked is taken in, or measures by itself."""
        for turn in range(8):
            self.begin(WORKS)
            self.start_work()
            second = self.inject(self.pid, "count t_deep")
            time.sleep(0.02 * turn)
            truth = self.pause()
            self.assert_stopped_well(self.first)
            self.assertEqual(values(self.first)[WORKS, ""], truth["work"])
            second.wait_inserted()
            second.read_until_said("inserted")
            self.start_work()
            if "which takes this in" in second.errors:
                self.assertEqual(second.wait(), 1)
            else:
                truth = grown(self.pause(), truth)
                self.assert_stopped_well(second)
                self.assertEqual(values(second)["count t_deep", ""], truth["deep"])
            self.assert_untouched(self.pid, self.before)

    def test_a_guest_that_hangs_or_talks_nonsense(self):
        """And one that talks without end, and one that reads nothing: the first is exact, and goes on in time."""
        self.begin(WORKS)
        self.start_work()
        rest = [self.call() for _ in range(20)]  # more than are let in
        chance = random.Random(1)
        for size in (1, 5, 100, 100_000):
            line = self.call()
            try:
                line.sendall(chance.randbytes(size))
            except OSError:
                pass
        flood = self.call()
        flood.setblocking(False)
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            try:
                flood.send(b"\0\0\0\x7f" * 10_000)
            except BlockingIOError:
                time.sleep(0.001)
            except OSError:
                break
        for line in rest:
            line.close()
        stopped = self.guest("count t_deep", interval="0.001")
        stopped.process.send_signal(signal.SIGSTOP)
        self.first.fresh_values()
        times = [line["elapsed_s"] for line in self.first.lines]
        self.assertLess(max(after - before for before, after in zip(times, times[1:])), 3)
        stopped.kill()
        self.wait_alone()
        truth = self.finish()
        self.assertEqual(values(self.first)[WORKS, ""], truth["work"])

    def test_a_race(self):
        """All begin at once: one of them is the first, and all are exact."""
        program = self.start("changing", "4")
        before = self.remember(program.pid)
        self.pid = program.pid
        all_of_them = [self.inject(self.pid, "count t_work") for _ in range(4)]
        for one in all_of_them:
            one.wait_inserted()
        program.ask("start", "running")
        time.sleep(0.2)
        truth = program.ask("pause", "paused")
        owner = int(run(MDL_INJECT, "--status", self.pid).stdout.split("mdl-inject ")[1].split()[0])
        for one in sorted(all_of_them, key=lambda one: one.process.pid == owner):
            self.assert_stopped_well(one)
            self.assertEqual(values(one)["count t_work", ""], truth["work"])
        self.assertEqual(process_text.leftovers(self.pid), [])
        self.assert_untouched(self.pid, before)


if __name__ == "__main__":
    unittest.main()
