"""What the instrumentation itself takes: its metrics against hits that are known, and the budget, which is
kept before anything is changed.
"""

import json
import re
import unittest

from hostile_plan_test import Elf

from harness import LiveTest, MDL_INJECT, metric, run

DEAR = """
resourceList work is procedure { items { "do_heap" }; flavor { unix }; }
metric reads {
  name "Reads"; units Words; aggregateOperator sum; style EventCounter; flavor { unix };
  base is counter { foreach f in work { append preInsn f.entry (* reads +=
      readAddress($arg[0]) + readAddress($arg[1]) + readAddress($arg[0] + 8) + readAddress($arg[0] + 16); *) } }
}
"""


class Cost(LiveTest):
    def setUp(self):
        super().setUp()
        self.program = self.start("standard")
        self.before = self.remember(self.program.pid)

    def end(self):
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)

    def test_hits_and_time(self):
        """Calls and returns of asleep() are the only hits, and each kind of point has one cost."""
        (self.folder / "asleep.mdl").write_text(metric("calls", ["asleep"]) + metric("returns", ["asleep"], "return"))
        session = self.inject(self.program.pid, self.compile(self.folder / "asleep.mdl", "instrumentation.mdl"),
                              "-m", "calls", "-m", "returns", "-m", "instrumentation_hits",
                              "-m", "instrumentation_time").wait_inserted()
        for _ in range(20):
            self.program.ask("sleep 1")
        self.assert_stopped_well(session)
        final = {name: line["value"] for (name, _), line in session.final().items()}
        self.assertEqual((final["calls"], final["returns"]), (20, 20))
        self.assertEqual(final["instrumentation_hits"], 40)
        self.assertEqual(final["instrumentation_time"] % 20, 0)
        # Three counters: between half a nanosecond and ten a hit.
        self.assertGreater(final["instrumentation_time"], 40 * 500)
        self.assertLess(final["instrumentation_time"], 40 * 10_000)
        self.end()

    def test_time_needs_something_to_measure(self):
        done = self.inject(self.program.pid, self.compile("instrumentation.mdl"), "-m", "instrumentation_time")
        self.assertEqual(done.wait(), 1)
        self.assertIn("ask for another one, too", done.errors)
        self.end()

    def test_budget_refuses(self):
        plan = self.compile("code.mdl", "time.mdl")
        request = ("-m", "cpu_time@/Code/standard/asleep")
        done = self.inject(self.program.pid, plan, *request, "--budget", "100")
        self.assertEqual(done.wait(), 1)
        self.assertRegex(done.errors, r"the code at (entry|return) of /Code/standard/asleep is predicted to take "
                                      r"\d+ ns a hit, the dearest of 2 points: more than the budget of 100 ns \(--budget")
        session = self.inject(self.program.pid, plan, *request, "--budget", "5000").wait_inserted()
        self.assert_stopped_well(session)
        self.assertNotIn("predicted", session.errors)
        self.end()

    def lying(self, reads):
        """A plan of so many reads of memory that says that they take no time."""
        body = " ".join(f"reads += readAddress($arg[0] + {8 * i});" for i in range(reads))
        name = self.folder / f"lie{reads}.mdl"
        name.write_text(DEAR[:DEAR.index("reads +=")] + body + " *) } }\n}\n")
        elf = Elf(self.compile(name).read_bytes())
        manifest = json.loads(elf.get(".mdl.manifest"))
        for stencil in manifest["stencils"]:
            stencil["cycles"] = stencil["routine_ns"] = stencil["instructions"] = 0
        elf.put(".mdl.manifest", json.dumps(manifest, separators=(",", ":")).encode())
        plan = self.folder / f"lie{reads}.bin"
        plan.write_bytes(elf.sealed())
        return plan

    def test_a_plan_that_lies_is_not_believed(self):
        """The cost is that of the code: no plan gets below a budget by saying 0, and past a limit none is taken."""
        done = run(MDL_INJECT, self.program.pid, self.lying(4), "--allow-reads", "-d", "0", "--budget", "5")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"is predicted to take 19\d\d ns a hit.*more than the budget of 5 ns")
        done = run(MDL_INJECT, self.program.pid, self.lying(250), "-d", "0", "--budget", "1000000000")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertRegex(done.stderr, r"`reads_entry` is not admissible: .* 120 us in routines \[dear\]")
        self.end()

    def test_code_of_a_millisecond_needs_a_budget(self):
        """No stencil is above its limit; all of them stand at one point."""
        body = " ".join(f"reads += readAddress($arg[0] + {8 * i});" for i in range(200))
        text, part = DEAR[:DEAR.index("metric")], DEAR[DEAR.index("metric"):DEAR.index("reads +=")]
        for i in range(12):
            text += (part + body + " *) } }\n}\n").replace("reads", f"reads{i}")
        (self.folder / "many.mdl").write_text(text)
        plan = self.compile(self.folder / "many.mdl")
        done = run(MDL_INJECT, self.program.pid, plan, "-d", "0", "--allow-reads")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertRegex(done.stderr, r"is predicted to take 11\d{5} ns a hit: more than 1000000 ns need --budget NS")
        done = run(MDL_INJECT, self.program.pid, plan, "-d", "0", "--allow-reads", "--budget", "2000000")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.end()

    def test_dear_code_is_warned_of(self):
        (self.folder / "dear.mdl").write_text(DEAR)
        session = self.inject(self.program.pid, self.compile(self.folder / "dear.mdl"), "--allow-reads").wait_inserted()
        self.assert_stopped_well(session)
        self.assertRegex(session.errors, r"warning: the code at entry of /Code/standard/do_heap is predicted to take "
                                         r"\d{4} ns a hit; --budget NS refuses")
        self.end()

    def test_dry_run_says_what_a_hit_takes(self):
        plan = self.compile("code.mdl")
        done = run(MDL_INJECT, self.program.pid, plan, "-m", "procedure_calls", "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = re.search(r"^predicted: ([\d.]+) to ([\d.]+) ns a hit, most at \w+ of /Code/", done.stdout, re.M)
        self.assertTrue(found, done.stdout)
        self.assertLess(0.1, float(found[1]))
        self.assertLessEqual(float(found[1]), float(found[2]))
        self.assertLess(float(found[2]), 100)
        self.end()


if __name__ == "__main__":
    unittest.main()
