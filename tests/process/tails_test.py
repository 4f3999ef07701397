"""Functions that end with a call, by a jump: what happens in the called function is theirs, with the time that it
takes, as their source says.
"""

import sys
import unittest

from harness import CONSTRAINTS, LiveTest, STDLIB, metric

FLAVOR = sys.argv.pop(1) if len(sys.argv) > 1 else "gcc-now"
TIMES = [str(path).replace("code.mdl", "time.mdl") for path in STDLIB if path.endswith("code.mdl")]
CASES = ["t_direct", "t_linked", "t_chain", "t_middle", "t_abroad", "t_frees", "t_branch", "t_deep", "t_even",
         "t_throws", "t_jumps", "t_catches", "t_handled"]
LONG = ["t_direct", "t_chain", "t_middle", "t_abroad"]  # in which the program sleeps
VANISH = {"t_throws", "t_jumps"}  # whose frames vanish, once each time
EVENTS = "events"


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


if __name__ == "__main__":
    unittest.main(verbosity=2)
