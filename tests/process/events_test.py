"""Calls, loops and blocks: each count equals the program's own or is refused, however the program was
compiled; it computes what it computes untouched, and its text is what it was afterwards.

One metric for each kind of event of each function of tests/programs/events.def, all in one plan.
"""

import sys
import unittest

from harness import LiveTest

# What is counted: the letter of events.def, the MDL list, the point and where at it.
KINDS = {
    "before": ("c", "calls", "{0}", "preInsn"),
    "after": ("c", "calls", "{0}", "postInsn"),
    "enter": ("l", "loops", "{0}.enter", "preInsn"),
    "exit": ("l", "loops", "{0}.exit", "preInsn"),
    "start": ("l", "loops", "{0}.start_iter", "preInsn"),
    "end": ("l", "loops", "{0}.end_iter", "preInsn"),
    "blocks": ("b", "blocks", "{0}", "preInsn"),
}

METRIC = """
metric {kind}_{name} {{
  name "{kind}_{name}"; units Events; unitsType unnormalized; aggregateOperator sum; style EventCounter;
  flavor {{ unix }};
  base is counter {{
    foreach func in {name}_list {{ foreach place in func.{field} {{
      append {where} {point} (* {kind}_{name}++; *)
    }} }}
  }}
}}
"""


def metrics_of(functions):
    text = ""
    for name, function in functions.items():
        text += f'resourceList {name}_list is procedure {{ items {{ "{name}" }}; flavor {{ unix }}; }}\n'
        for kind, (letter, field, point, where) in KINDS.items():
            if letter in function["known"]:
                text += METRIC.format(kind=kind, name=name, field=field, where=where,
                                      point=point.format("place"))
    return text


class EventCounts(LiveTest):
    flavor = ""  # set by main

    def begin(self):
        program = self.start(self.flavor)
        functions = program.ready["functions"]
        return program, functions, self.compile_text(metrics_of(functions))

    def untouched_results(self):
        """From a process that nobody attaches to."""
        return self.start(self.flavor).ready["results"]

    def assert_exact(self, functions, first, last, values, refused):
        """Each count is the truth; what is refused may be."""
        surprises, wrong, points = [], [], 0
        for name, function in functions.items():
            for kind, (letter, *_) in KINDS.items():
                if letter not in function["known"]:
                    continue
                metric, points = f"{kind}_{name}", points + 1
                truth = last["functions"][name][kind] - first["functions"][name][kind]
                if metric not in values:  # there is none, so nothing is inserted
                    wrong += [f"{metric}: nothing, but it was {truth}"] if truth else []
                elif refused[metric]:
                    if letter not in function["refusable"]:
                        surprises.append(metric)
                elif values[metric] != truth:
                    wrong.append(f"{metric}: {values[metric]}, but it was {truth}")
        self.assertEqual(wrong, [])
        self.assertLessEqual(len(surprises), self.may_refuse(points), f"refused without need: {surprises}")

    def may_refuse(self, points):
        """How many points of the compiler's code may be refused because they are too narrow."""
        return points // 4 if self.flavor == "events-gcc-Os" else points // 10

    def assert_sound(self, snapshot, expected_results):
        self.assertEqual(snapshot["wrong"], 0, "rounds with a wrong result")
        self.assertEqual(snapshot["results"], expected_results)

    def test_attached_while_nothing_runs(self):
        program, functions, plan = self.begin()
        before_text = self.remember(program.pid)
        session = self.inject(program.pid, plan).wait_inserted()
        done = program.ask("go 1000")
        self.assert_stopped_well(session)
        final = {metric: line for (metric, _), line in session.final().items()}
        self.assert_exact(functions, program.ready, done, {name: line["value"] for name, line in final.items()},
                          {name: line["refused"] for name, line in final.items()})
        self.assertEqual({line["anomalies"] for line in final.values() if "anomalies" in line} - {0}, set())
        self.assert_sound(done, self.untouched_results())
        self.assertGreater(done["signals"], 0)
        self.assert_untouched(program.pid, before_text)
        self.assert_sound(program.ask("go 20"), done["results"])
        self.assertEqual(program.end(), 7)

    def test_attached_while_running(self):
        program, functions, plan = self.begin()
        before_text = self.remember(program.pid)
        program.ask("start", "running")
        session = self.inject(program.pid, plan).wait_inserted()
        first = program.ask("pause")
        at_first = session.fresh_values()
        program.ask("go 200")
        program.ask("start", "running")
        last = program.ask("pause")
        at_last = session.fresh_values()
        program.ask("start", "running")
        self.assert_stopped_well(session)
        end = program.ask("pause")
        values = {metric: at_last[metric, focus] - at_first[metric, focus] for metric, focus in at_last}
        refused = {line["metric"]: line["refused"] for line in session.final().values()}
        self.assert_exact(functions, first, last, values, refused)
        self.assert_sound(end, program.ready["results"])
        self.assert_untouched(program.pid, before_text)
        self.assertEqual(program.end(), 7)


if __name__ == "__main__":
    EventCounts.flavor = sys.argv.pop(1)
    unittest.main(verbosity=2)
