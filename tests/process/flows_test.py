"""Control flow that is not call and return: tests/programs/flows.cpp. What a debugger and backtrace() see of
an instrumented process, too.
"""

import re
import shutil
import subprocess
import tempfile
import unittest

from harness import CONSTRAINTS, MDL_INJECT, LiveTest, entries_and_returns, metric, run

INSIDE = "/Code/flows/f_inside"
TIMER = """
resourceList timed is procedure { items { "f_inside" }; flavor { unix }; }
metric time {
  name "time"; units ns; unitsType normalized; aggregateOperator sum; style SampledFunction; flavor { unix };
  base is wallTimer { foreach f in timed {
    append preInsn f.entry (* startWallTimer(time); *) prepend preInsn f.return (* stopWallTimer(time); *)
  } }
}
"""
EVERYTHING = """
metric {point}s {{
  name "{point}s"; units Calls; unitsType unnormalized; aggregateOperator sum; style EventCounter; flavor {{ unix }};
  constraint module;
  base is counter {{ foreach f in $procedures {{ append preInsn f.{point} constrained (* {point}s++; *) }} }}
}}
"""


class Flows(LiveTest):
    def begin(self, program="flows"):
        self.program = self.start(program)
        self.before = self.remember(self.program.pid)
        text = (CONSTRAINTS + metric("work", ["f_work"], constraints=["procedure"]) +
                metric("returns", ["f_work"], "return") + metric("others", ["f_other"]) + TIMER)
        self.session = self.inject(self.program.pid, self.compile_text(text), "-m", "work", "-m", f"work@{INSIDE}",
                                   "-m", "returns", "-m", "others", "-m", "time").wait_inserted()

    def finish(self, last, anomalies, inside=True):
        """All of it counted, exactly; `anomalies` frames vanished."""
        self.assert_stopped_well(self.session)
        final = self.session.final()
        self.assertEqual({line["refused"] for line in final.values()}, {0})
        values = {key: line["value"] for key, line in final.items()}
        self.assertEqual((values["work", ""], values["returns", ""]), (last["work"], last["returns"]))
        self.assertEqual(values["others", ""], last["others"])
        if inside:
            self.assertEqual(values["work", INSIDE], last["inside"])
            self.assertIn(max(line.get("anomalies", 0) for line in final.values()), anomalies)
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)

    def test_stacks_that_take_turns(self):
        self.begin()
        self.finish(self.program.ask("switch 2000"), [0])

    def test_a_stack_that_is_left_inside_a_constraint_and_resumed(self):
        self.begin()
        self.finish(self.program.ask("resume 2000"), [0])

    def test_cancelled_threads(self):
        """Deferred and asynchronous. Nothing of theirs is left to the next thread in their place."""
        self.begin()
        self.program.ask("cancel 50")
        self.finish(self.program.ask("async 50"), range(0, 1000))

    def test_threads_that_end_themselves(self):
        self.begin()
        self.finish(self.program.ask("leave 200"), range(0, 2000))

    def test_signals_on_signals(self):
        self.begin()
        last = self.program.ask("storm 1500")
        self.assertGreater(last["inside"], 1500)
        self.finish(last, [0])

    def test_attached_and_removed_in_a_storm(self):
        program = self.start("flows")
        before = self.remember(program.pid)
        plan = self.compile_text(CONSTRAINTS + metric("work", ["f_work"], constraints=["procedure"]) + TIMER)
        program.send("storm 4000")
        for _ in range(6):
            done = run(MDL_INJECT, program.pid, plan, "-m", f"work@{INSIDE}", "-m", "time", "-m", "work", "-d", "0.1")
            self.assertEqual(done.returncode, 0, done.stderr)
        program.answer("done")
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def test_an_exception_on_an_alternate_stack(self):
        """Caught there; frames of the thread's own stack have not vanished."""
        self.begin()
        self.finish(self.program.ask("catch 100"), [0])

    def test_an_exception_on_an_alternate_stack_above(self):
        self.begin()
        self.finish(self.program.ask("above 100"), [0])


class Seen(LiveTest):
    """Every function of the program instrumented, entries and returns."""

    def begin(self):
        self.program = self.start("flows")
        self.plan = self.compile_text(CONSTRAINTS + "".join(EVERYTHING.format(point=p) for p in ("entry", "return")))

    def instrument(self):
        session = self.inject(self.program.pid, self.plan, "-m", "entrys@/Code/flows", "-m", "returns@/Code/flows")
        return session.wait_inserted()

    def test_backtrace(self):
        self.begin()
        alone = self.program.ask("trace 1")["trace"]
        session = self.instrument()
        self.assertEqual(self.program.ask("trace 10")["trace"], alone)
        self.assertGreater(len(alone), 4)
        self.assert_stopped_well(session)
        self.assertEqual(self.program.end(), 0)

    def frames(self, *arguments):
        """What gdb says that the thread's functions are, from main's caller's side of f_hold."""
        done = run("gdb", "-nx", "-batch", *arguments, "-ex", "set print frame-arguments none",
                   "-ex", "thread apply all bt", seconds=120)
        found = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\w+)", done.stdout, re.M)
        self.assertIn("f_hold", found, done.stdout + done.stderr)
        place = found.index("f_hold")
        return found[place:place + 3]

    def test_debugger_and_core_file(self):
        self.assertIsNotNone(shutil.which("gdb"), "gdb is not installed")
        self.begin()
        before = self.remember(self.program.pid)
        session = self.instrument()
        self.program.ask("hold")
        self.assertEqual(self.frames("-p", self.program.pid), ["f_hold", "f_middle", "f_outer"])
        core = self.folder / "core"
        done = run("gcore", "-o", core, self.program.pid, seconds=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.frames(f"/proc/{self.program.pid}/exe", f"{core}.{self.program.pid}"),
                         ["f_hold", "f_middle", "f_outer"])
        self.program.ask("release")
        self.assert_stopped_well(session)
        self.assert_untouched(self.program.pid, before)
        self.assertEqual(self.program.end(), 0)

    CHAIN = ["f_work", "f_hold", "f_middle", "f_outer"]

    def chains(self, command):
        """Of each sample that perf takes of the process meanwhile, by frame pointers: the names, the innermost first."""
        data = self.folder / "perf.data"
        # What perf starts begins when it samples, and ends it.
        with subprocess.Popen(["perf", *RECORD, "-o", data, "-p", str(self.program.pid), "--", "sh", "-c", "echo; read end"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as perf:
            perf.stdout.readline()
            self.program.ask(command)
            errors = perf.communicate(timeout=60)[1]
        self.assertTrue(data.exists(), errors)
        done = run("perf", "script", "-i", data, "-F", "ip,sym", "--no-inline", seconds=120)
        samples = [re.findall(r"^\s+[0-9a-f]+ (.+)$", sample, re.M) for sample in done.stdout.split("\n\n")]
        return [sample for sample in samples if sample]

    def test_profiler(self):
        """No chain that the program does not have; the caller of who has no frame yet is passed over, as always."""
        self.begin()
        session = self.instrument()
        chains = self.chains("chain 3000000")
        inside = 0  # of the trampolines: perf has no name for them
        for chain in chains:
            known = [name for name in chain if name in self.CHAIN]
            callers = known[1:]
            self.assertEqual(callers, self.CHAIN[len(self.CHAIN) - len(callers):], chain)
            inside += chain[0] == "[unknown]" and known == self.CHAIN[2:]  # at entries and returns of f_work
        self.assertGreater(inside, 0, chains)
        self.assert_stopped_well(session)
        self.assertEqual(self.program.end(), 0)


RECORD = ["record", "-q", "-e", "cpu-clock:u", "-F", "5000", "-g"]


def perf_works():
    """Here a program may be sampled: not in every container."""
    with tempfile.NamedTemporaryFile() as data:
        return subprocess.run(["perf", *RECORD, "-o", data.name, "true"], capture_output=True, check=False).returncode == 0


class Split(LiveTest):
    def test_functions_that_go_on_on_another_stack(self):
        """tests/programs/split.cpp: entries are exact; a return is none where it may be the first of two."""
        program = self.start("split")
        before = self.remember(program.pid)
        session = self.inject(program.pid, self.compile_text(entries_and_returns(["t_deep"]))).wait_inserted()
        self.assertEqual(program.ask("work 5")["calls"], 15000)
        self.assert_stopped_well(session)
        final = session.final()
        entries, returns = final["entries_t_deep", ""], final["returns_t_deep", ""]
        self.assertEqual((entries["value"], entries["refused"]), (15000, 0))
        self.assertEqual((returns["value"], returns["refused"] > 0), (0, True))
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.ask("work 1")["calls"], 18000)
        program.end()


if __name__ == "__main__":
    if not perf_works():
        print("flows_test: without test_profiler, because perf may not sample here", flush=True)
        del Seen.test_profiler
    unittest.main(verbosity=2)
