"""Rust programs, with both kinds of linkage names: their functions by the names that programmers write, and panics that
pass through instrumented frames."""

import unittest

from harness import CONSTRAINTS, LiveTest, metric

FUNCTIONS = {"leaf": ["rusty::leaf"], "twice": ["rusty::twice"], "risky": ["rusty::risky"],
             "area": ["<rusty::Square as rusty::Shape>::area", "<rusty::Line as rusty::Shape>::area"]}
# The newer mangling has the types of an instance in its name.
NEWER = {**FUNCTIONS, "twice": ["rusty::twice::<u32>", "rusty::twice::<f64>"]}


class Rust(LiveTest):
    def measure(self, name, functions, commands):
        program = self.start(name)
        plan = self.compile_text(CONSTRAINTS + metric("inside", functions["leaf"], constraints=["procedure"]) +
                                 "".join(metric(key, names) for key, names in functions.items()) +
                                 "".join(metric(f"{key}_ends", names, "return") for key, names in functions.items()))
        before = self.remember(program.pid)
        wanted = [*functions, *(f"{key}_ends" for key in functions), f"inside@/Code/{name}/rusty::risky"]
        session = self.inject(program.pid, plan, *(word for m in wanted for word in ("-m", m))).wait_inserted()
        for command in commands:
            last = program.ask(command)
        self.assert_stopped_well(session)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)
        self.assertEqual({key: line["refused"] for key, line in session.final().items() if line["refused"]}, {})
        return {key: line["value"] for (key, _), line in session.final().items()}, last

    def check(self, name, functions):
        values, truth = self.measure(name, functions, ["go 2000"])
        self.assertEqual(values, {**{key: truth[key] for key in functions},
                                  **{f"{key}_ends": truth[key] for key in functions}, "inside": truth["inside"]})

    def test_older_names(self):
        self.check("rusty", FUNCTIONS)

    def test_newer_names(self):
        self.check("rusty-v0", NEWER)

    def test_panics(self):
        values, truth = self.measure("rusty", FUNCTIONS, ["panic 100", "go 10", "panic 5"])
        self.assertEqual({key: values[key] for key in ("leaf", "risky", "inside")},
                         {key: truth[key] for key in ("leaf", "risky", "inside")})
        self.assertEqual(values["risky_ends"], truth["risky"] - 105)


if __name__ == "__main__":
    unittest.main(verbosity=2)
