"""Functions that end with a call, by a jump: what happens in the called function is theirs, with the time that it
takes, as their source says.
"""

import sys
import unittest

from harness import CONSTRAINTS, MDL_INJECT, STDLIB, LiveTest, metric, run

FLAVOR = sys.argv.pop(1) if len(sys.argv) > 1 else "gcc-now"
TIMES = [str(path).replace("code.mdl", "time.mdl") for path in STDLIB if path.endswith("code.mdl")]
CASES = ["t_direct", "t_linked", "t_chain", "t_middle", "t_abroad", "t_frees", "t_branch", "t_deep", "t_even",
         "t_throws", "t_jumps", "t_catches", "t_handled"]
LONG = ["t_direct", "t_chain", "t_middle", "t_abroad"]  # in which the program sleeps
VANISH = {"t_throws", "t_jumps"}  # whose frames vanish, once each time
EVENTS = "events"
TAG = """
constraint tag /SyncObject/Message/* is counter {
  foreach f in branches {
    append preInsn f.entry (* if ($arg[0] == $constraint[0]) tag = 1; *)
    prepend preInsn f.return (* if (tag > 0) tag = 0; *)
  }
}
resourceList branches is procedure { items { "t_branch" }; flavor { unix }; }
"""
# Code behind what lowers the flag, at the same return: in the outermost frame the flag is down by then.
BEHIND = """
metric behind {
  name "behind"; units returns; unitsType normalized; aggregateOperator sum; style EventCounter; flavor { unix };
  constraint procedure;
  base is counter { foreach f in deep { append preInsn f.return constrained (* behind++; *) } }
}
resourceList deep is procedure { items { "t_deep" }; flavor { unix }; }
"""


class Tails(LiveTest):
    def setUp(self):
        super().setUp()
        self.program = self.start(f"tails-{FLAVOR}")
        self.plan = self.compile_text(CONSTRAINTS + metric(EVENTS, ["t_event"], constraints=["procedure", "module"]) +
                                      metric("frees", ["free"], constraints=["procedure"]) +
                                      metric("returns", CASES, "return"))

    def focus(self, case):
        return f"/Code/tails-{FLAVOR}/{case}"

    def attach(self, *requests, plan=None):
        self.before = self.remember(self.program.pid)
        arguments = [part for request in requests for part in ("-m", request)]
        self.session = self.inject(self.program.pid, plan or self.plan, *arguments).wait_inserted()

    def end(self):
        self.assert_stopped_well(self.session)
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)
        return self.session.final()

    def bind_slots(self):
        """Every slot of the linkage table is bound when it has been used once."""
        return self.program.ask("go 1")

    def test_what_is_called_last_is_theirs(self):
        first = self.bind_slots()
        self.attach(*(f"{EVENTS}@{self.focus(case)}" for case in CASES), f"frees@{self.focus('t_frees')}",
                    f"{EVENTS}@/Code/tails-{FLAVOR}", EVENTS)
        last = self.program.ask("go 40")
        lines = self.end()
        for case in CASES:
            line = lines[EVENTS, self.focus(case)]
            self.assertEqual((line["value"], line["refused"], line.get("complete", True)),
                             (last[case][0] - first[case][0], 0, True), case)
        self.assertEqual(lines["frees", self.focus("t_frees")]["value"], 80)
        self.assertEqual(lines[EVENTS, f"/Code/tails-{FLAVOR}"]["value"], lines[EVENTS, ""]["value"])

    def test_the_time_of_what_is_called_last_is_theirs(self):
        first = self.bind_slots()
        plan = self.compile(*TIMES)
        self.attach(*(f"wall_time@{self.focus(case)}" for case in CASES), plan=plan)
        last = self.program.ask("go 12")
        lines = self.end()
        for case in CASES:
            line, truth = lines["wall_time", self.focus(case)], last[case][1] - first[case][1]
            self.assertEqual((line["refused"], line.get("complete", True)), (0, True))
            self.assertGreater(line["value"], 0, case)
            if case in LONG:
                self.assertLess(abs(line["value"] - truth), 0.03 * truth, case)

    def test_each_way_out_is_a_return_once(self):
        self.bind_slots()
        counted = ["t_direct", "t_chain", "t_even", "t_frees"]
        plan = self.compile_text(CONSTRAINTS + BEHIND +
                                 "".join(metric(f"returns_{name}", [name], "return") for name in counted) +
                                 metric("own", ["t_chain"], "return", constraints=["procedure"]))
        self.attach(*(f"returns_{name}" for name in counted), f"own@{self.focus('t_chain')}",
                    f"behind@{self.focus('t_deep')}", plan=plan)
        self.program.ask("go 10")
        values = {key: line["value"] for key, line in self.end().items()}
        for name, each in {"t_direct": 3, "t_chain": 1, "t_frees": 1}.items():
            self.assertEqual(values[f"returns_{name}", ""], 20 * each, name)
        self.assertEqual(values["returns_t_even", ""], 2 * sum(i + 1 for i in range(10)))
        # A function's own return is in its focus, in front of the constraint's code. Behind that it is not, but for
        # the inner three of four frames.
        self.assertEqual(values["own", self.focus("t_chain")], 20)
        self.assertEqual(values["behind", self.focus("t_deep")], 20 * 3)

    def test_all_functions_at_once(self):
        first = self.bind_slots()
        self.attach(f"{EVENTS}@/Code/tails-{FLAVOR}/*")
        last = self.program.ask("go 12")
        lines = self.end()
        for case in CASES:
            self.assertEqual(lines[EVENTS, self.focus(case)]["value"], last[case][0] - first[case][0], case)

    def test_each_number(self):
        self.bind_slots()
        plan = self.compile_text(TAG + metric(EVENTS, ["t_event"], constraints=["tag"]))
        self.attach(f"{EVENTS}@/SyncObject/Message/*", f"{EVENTS}@/SyncObject/Message/3", plan=plan)
        self.program.ask("go 8")
        lines = self.end()
        # t_branch ends with a call of t_work, which has two events, when its argument is odd.
        self.assertEqual({focus.rpartition("/")[2]: line["value"] for (_, focus), line in lines.items()},
                         {str(i): 4 * (i % 2) for i in range(8)})

    def test_time_of_its_own_ends_at_the_jump(self):
        self.bind_slots()
        plan = self.compile(*TIMES)
        self.attach(f"wall_time_exclusive@{self.focus('t_direct')}", f"wall_time@{self.focus('t_direct')}", plan=plan)
        self.program.ask("go 8")
        lines = self.end()
        own, whole = (lines[name, self.focus("t_direct")] for name in ("wall_time_exclusive", "wall_time"))
        self.assertTrue(own.get("complete", True))
        self.assertGreater(own["value"], 0)
        self.assertLess(own["value"], whole["value"] / 4)

    def test_no_line_where_points_are_refused(self):
        """Calls whose returned value is not known are not denied: the note says that nobody looked there."""
        before = self.remember(self.program.pid)
        sums, calls = "sum $return at t_loose, fork by $arg[0] as sums", "count t_loose as calls"
        self.session = self.inject(self.program.pid, sums, calls).wait_inserted()
        self.program.ask("loose 10")
        self.assert_stopped_well(self.session)
        self.assert_untouched(self.program.pid, before)
        self.assertEqual({key: line["value"] for key, line in self.session.final().items()}, {("calls", ""): 10})
        self.assertRegex(self.session.errors, r"note: `sums` has no line.* [0-9]+ of its points are refused")

    def test_what_is_not_known_ends_early(self):
        self.bind_slots()
        self.attach(f"{EVENTS}@{self.focus('t_loose')}", f"{EVENTS}@{self.focus('t_direct')}", EVENTS)
        self.program.ask("loose 10")
        lines = self.end()
        self.assertEqual({focus: (line["value"], line.get("complete", True)) for (_, focus), line in lines.items()},
                         {self.focus("t_loose"): (0, False), self.focus("t_direct"): (0, True), "": (20, True)})

    def test_what_is_excluded_ends_early(self):
        first = self.bind_slots()
        plan = self.compile_text(CONSTRAINTS + metric(EVENTS, ["t_event"], constraints=["procedure"]) +
                                 f'exclude "/Code/tails-{FLAVOR}/t_work";')
        # In the chain, t_middle ends with t_direct, which ends with t_work.
        looked = run(MDL_INJECT, self.program.pid, plan, "--dry-run", "-m", f"{EVENTS}@{self.focus('t_chain')}")
        self.assertIn(" end early", looked.stdout)
        self.assertIn("t_middle: t_direct: t_work: the plan excludes it", looked.stdout)
        self.attach(f"{EVENTS}@{self.focus('t_chain')}", f"{EVENTS}@{self.focus('t_linked')}", plan=plan)
        last = self.program.ask("go 5")
        lines = self.end()
        chain, linked = (lines[EVENTS, self.focus(name)] for name in ("t_chain", "t_linked"))
        self.assertEqual((chain["value"], chain["complete"]), (10, False))
        self.assertEqual((linked["value"], linked.get("complete", True)),
                         (last["t_linked"][0] - first["t_linked"][0], True))

    def test_a_slot_that_nothing_has_used_yet(self):
        """The dynamic linker binds it at the first jump, to the only function that has the name."""
        self.attach(f"{EVENTS}@{self.focus('t_linked')}", f"{EVENTS}@{self.focus('t_abroad')}")
        last = self.program.ask("go 5")
        lines = self.end()
        for case in ("t_linked", "t_abroad"):
            line = lines[EVENTS, self.focus(case)]
            self.assertEqual((line["value"], line.get("complete", True), line.get("anomalies", 0)),
                             (last[case][0], True, 0), case)


if __name__ == "__main__":
    unittest.main(verbosity=2)
