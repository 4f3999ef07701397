"""Timers and event counters against what the program measured itself: from inside of the timed function,
which is less, and from outside, which is more. No tolerance but the rate of the machine's counter.
"""

import signal
import time
import unittest

from harness import CONSTRAINTS, LiveTest, metric

TIMER = """
metric {name} {{
  name "{name}"; units ns; unitsType normalized; aggregateOperator sum; style SampledFunction;
  flavor {{ unix }};
  {constraints}
  base is {kind} {{
    foreach func in timed {{
      append preInsn func.entry {constrained} (* {start}({name}); *)
      prepend preInsn func.return {constrained} (* {stop}({name}); *)
    }}
  }}
}}
"""
LIST = 'resourceList timed is procedure { items { "t_timed" }; flavor { unix }; }\n'
KINDS = {  # what the program calls it, in MDL
    "wall": ("wallTimer", "WallTimer"),
    "cpu": ("processTimer", "ProcessTimer"),
    "faults": ('hwTimer("MINOR_FAULTS")', "HwTimer"),
    "switches": ('hwTimer("VOLUNTARY_SWITCHES")', "HwTimer"),
}
DISK = {
    "major": ('hwTimer("MAJOR_FAULTS")', "HwTimer"),
    "in": ('hwTimer("BLOCKS_IN")', "HwTimer"),
    "out": ('hwTimer("BLOCKS_OUT")', "HwTimer"),
}
PERF = {  # perf's names: sums of two
    "all_faults": ('hwTimer("page-faults")', "HwTimer"),
    "all_switches": ('hwTimer("context-switches")', "HwTimer"),
}
SAMPLED = """
metric sampled {
  name "sampled"; units faults; unitsType sampled; aggregateOperator sum; style SampledFunction; flavor { unix };
  base is hwCounter("MINOR_FAULTS") {
    foreach func in timed {
      append preInsn func.entry (* sampleHwCounter(sampled); *)
      prepend preInsn func.return (* sampleHwCounter(sampled); *)
    }
  }
}
"""
EXCLUSIVE = """
metric exclusive {
  name "exclusive"; units ns; unitsType normalized; aggregateOperator sum; style SampledFunction; flavor { unix };
  base is wallTimer {
    foreach func in timed {
      append preInsn func.entry (* startWallTimer(exclusive); *)
      prepend preInsn func.return (* stopWallTimer(exclusive); *)
      foreach site in func.calls {
        append preInsn site (* stopWallTimer(exclusive); *)
        prepend postInsn site (* startWallTimer(exclusive); *)
      }
    }
  }
}
"""
RATE = 1e-4  # what the rate may be wrong by
TAKEN = {"wall": 50e3, "cpu": 50e3}  # ns: what nested hits may take, of which timers know nothing


def timer(name, constraints=()):
    kind, verb = (KINDS | DISK | PERF)[name]
    return TIMER.format(name=name, kind=kind, start=f"start{verb}", stop=f"stop{verb}",
                        constraints=" ".join(f"constraint {one};" for one in constraints),
                        constrained="constrained" if constraints else "")


class Timers(LiveTest):
    def begin(self, *names):
        self.program = self.start("timed")
        self.plan = self.compile_text(LIST + "".join(timer(name) for name in names))
        self.before = self.remember(self.program.pid)
        self.session = self.inject(self.program.pid, self.plan).wait_inserted()

    def end(self):
        self.assert_stopped_well(self.session)
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)
        return {name: line["value"] for (name, _), line in self.session.final().items()}

    def assert_between(self, values, answer):
        for name, value in values.items():
            inner, outer = answer[name]
            self.assertGreaterEqual(value, inner * (1 - RATE) - TAKEN.get(name, 0), name)
            self.assertLessEqual(value, outer * (1 + RATE), name)

    def assert_never_falls(self):
        last = {}
        for line in self.session.lines:
            self.assertGreaterEqual(line["value"], last.get(line["metric"], 0), line)
            last[line["metric"]] = line["value"]

    def anomalies(self):
        return max(line.get("anomalies", 0) for line in self.session.lines)

    def test_every_kind_of_timer(self):
        self.begin(*KINDS)
        for command in ("sleep 100", "spin 50", "fault 50", "nest 20"):
            answer = self.program.ask(command)
        values = self.end()
        self.assert_between(values, answer)
        self.assert_never_falls()
        self.assertGreater(values["faults"], 700)
        self.assertEqual(self.anomalies(), 0)
        units = {line["metric"]: line["units"] for line in self.session.lines}
        self.assertEqual((units["wall"], units["cpu"]), ("ns", "ns"))

    def test_frames_that_vanish_stop_their_timers(self):
        self.begin("wall", "cpu", "switches")
        self.program.ask("throw 30")
        answer = self.program.ask("jump 30")
        values = self.end()
        self.assert_between(values, answer)
        self.assertEqual(self.anomalies(), 3 * 60)

    def test_a_running_timer_includes_the_time_so_far(self):
        self.begin("wall", "cpu")
        begun = time.monotonic()
        self.program.ask("hold")
        entered = time.monotonic()
        values = self.session.fresh_values()
        self.assertGreater(values["wall", ""], 10e6)
        time.sleep(0.5)
        values = self.session.fresh_values()
        now = time.monotonic()
        self.assertGreater(values["wall", ""], 0.5e9)
        self.assertLess(values["wall", ""], (now - begun) * 1e9)
        self.assertLess(values["cpu", ""], 0.3e9)
        self.assertLess(entered - begun, 60)
        answer = self.program.ask("release")
        self.assert_between(self.end(), answer)
        self.assert_never_falls()

    def test_frames_on_the_stack_at_the_attach(self):
        self.program = self.start("timed")
        self.plan = self.compile_text(LIST + timer("wall") + timer("cpu"))
        self.before = self.remember(self.program.pid)
        self.program.ask("hold")
        before_attach = time.monotonic()
        self.session = self.inject(self.program.pid, self.plan).wait_inserted()
        inserted = time.monotonic()
        time.sleep(0.3)
        leaves = time.monotonic()
        self.program.ask("release")
        left = time.monotonic()
        values = self.end()
        self.assertGreaterEqual(values["wall"], (leaves - inserted) * 1e9 * (1 - RATE))
        self.assertLessEqual(values["wall"], (left - before_attach) * 1e9 * (1 + RATE))
        self.assertEqual(self.anomalies(), 0)

    def test_events_of_the_disk(self):
        self.begin(*DISK)
        answer = self.program.ask("file 5")
        values = self.end()
        self.assert_between(values, answer)
        self.assertGreater(answer["out"][0] + answer["major"][0] + answer["in"][0], 0)

    def test_events_by_perfs_names(self):
        self.begin(*PERF)
        for command in ("file 5", "sleep 20", "spin 300"):
            answer = self.program.ask(command)
        self.assert_between(self.end(), answer)
        self.assertGreater(answer["all_faults"][0], 100)
        self.assertGreaterEqual(answer["all_switches"][0], 20)

    def test_a_counter_that_is_sampled(self):
        """What the count has grown by from a thread's first sample to its last."""
        self.program = self.start("timed")
        self.before = self.remember(self.program.pid)
        self.session = self.inject(self.program.pid, self.compile_text(LIST + SAMPLED)).wait_inserted()
        answer = self.program.ask("fault 50")
        value = self.end()["sampled"]
        self.assertGreaterEqual(value, answer["faults"][0])
        self.assertLessEqual(value, answer["faults"][1] + 50)  # and between the calls

    def test_exclusive_time(self):
        """In t_around itself there is next to nothing: not in frames that were in its callee at the attach, nor after
        the callee has thrown."""
        self.program = self.start("timed")
        self.program.ask("hold")
        self.plan = self.compile_text(LIST.replace("t_timed", "t_around") + EXCLUSIVE)
        self.before = self.remember(self.program.pid)
        self.session = self.inject(self.program.pid, self.plan).wait_inserted()
        time.sleep(0.3)
        self.program.ask("release")
        for command in ("sleep 20", "nest 20", "throw 20", "jump 20"):
            answer = self.program.ask(command)
        time.sleep(0.3)
        value = self.end()["exclusive"]
        self.assertGreater(answer["wall"][0], 300e6)
        self.assertLess(value, 20e6)

    # A thread that ends with its timers running leaves them to nobody.
    def test_the_wait_for_the_last_values_is_not_the_programs(self):
        """An injector that has seen nothing for half a second looks every 10 ms. The best of some: others may run."""
        times = []
        for _ in range(5):
            program = self.start("timed")
            session = self.inject(program.pid, "time _Exit", "cpu _Exit").wait_inserted()
            time.sleep(0.5)
            self.assertEqual(program.end(), 0)
            self.assertEqual(session.wait(), 0, session.errors)
            times.append([line["value"] for line in session.final().values()])
        for best in map(min, zip(*times)):
            self.assertLess(best, 50_000, times)
            self.assertGreater(best, 0, times)

    def test_threads_that_end_with_a_running_timer(self):
        self.begin("wall")
        self.program.ask("exit 40")
        middle = self.session.fresh_values()["wall", ""]
        time.sleep(0.3)
        self.assertLess(self.session.fresh_values()["wall", ""] - middle, 0.1e9)
        self.program.ask("sleep 20")
        answer = self.program.ask("sleep 20")
        value = self.end()["wall"]
        self.assertLessEqual(value, sum(answer["wall"]) * (1 + RATE))
        self.assertGreaterEqual(value, answer["wall"][0] * (1 - RATE))

    def test_a_child_has_times_of_its_own(self):
        self.begin("wall", "cpu")
        self.program.ask("sleep 10")
        self.program.ask("fork")
        answer = self.program.ask("sleep 10")
        self.assert_between(self.end(), answer)

    def test_timers_inside_a_constraint(self):
        self.program = self.start("timed")
        self.plan = self.compile_text(LIST + CONSTRAINTS + timer("wall", ["procedure", "module"]))
        self.before = self.remember(self.program.pid)
        self.session = self.inject(self.program.pid, self.plan, "-m", "wall@/Code/timed/t_timed",
                                   "-m", "wall@/Code/timed/t_work").wait_inserted()
        answer = self.program.ask("nest 30")
        self.end()
        values = {focus: line["value"] for (_, focus), line in self.session.final().items()}
        inner, outer = answer["wall"]
        self.assertGreaterEqual(values["/Code/timed/t_timed"], inner * (1 - RATE))
        self.assertLessEqual(values["/Code/timed/t_timed"], outer * (1 + RATE))
        self.assertEqual(values["/Code/timed/t_work"], 0)


class EachThread(LiveTest):
    def test_one_line_for_each_thread(self):
        program = self.start("timed")
        plan = self.compile_text(metric("work", ["t_work"]))
        session = self.inject(program.pid, plan, "-m", "work@/Thread/*", "-m", "work",
                              "-m", f"work@/Thread/{program.pid}").wait_inserted()
        truth = {int(thread): count for thread, count in program.ask("threads 50")["threads"].items()}
        self.assert_stopped_well(session)
        final = {focus: line["value"] for (_, focus), line in session.final().items()}
        self.assertEqual(final.pop(""), sum(truth.values()))
        self.assertEqual(final.pop(f"/Thread/{program.pid}"), 0)
        self.assertEqual(final, {f"/Thread/{thread}": count for thread, count in truth.items()})
        self.assertEqual(program.end(), 0)

    def test_no_such_thread(self):
        program = self.start("timed")
        plan = self.compile_text(metric("work", ["t_work"]))
        session = self.inject(program.pid, plan, "-m", "work@/Thread/1")
        self.assertEqual(session.wait(), 1)
        self.assertIn("no such thread", session.errors)


class Killed(LiveTest):
    def test_values_outlive_the_injector(self):
        """Another one finds what threads that have ended had, and the timers of those that live."""
        program = self.start("timed")
        plan = self.compile_text(LIST + timer("wall") + metric("work", ["t_work"]))
        session = self.inject(program.pid, plan).wait_inserted()
        truth = program.ask("threads 20")["threads"]
        answer = program.ask("sleep 20")
        session.fresh_values()
        session.process.send_signal(signal.SIGKILL)
        session.process.wait()
        from harness import MDL_INJECT, run
        status = run(MDL_INJECT, "--status", program.pid)
        self.assertIn(f"work = {sum(truth.values())} ", status.stdout)
        wall = int(status.stdout.split("wall = ")[1].split()[0])
        self.assertGreaterEqual(wall, answer["wall"][0] * (1 - RATE))
        self.assertLessEqual(wall, answer["wall"][1] * (1 + RATE))
        self.assertEqual(run(MDL_INJECT, "--remove", program.pid).returncode, 0)
        self.assertEqual(program.end(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
