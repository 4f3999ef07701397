"""Programs built with sanitizers: instrumented, sampled and left, they report nothing and count right."""

import subprocess
import unittest

from harness import CONSTRAINTS, PROGRAMS, Lines, LiveTest, Program, metric

G, INSIDE = "calls_of_g", "t_h"
EVERYTHING = """
metric {point}s {{
  name "{point}s"; units Calls; unitsType unnormalized; aggregateOperator sum; style EventCounter; flavor {{ unix }};
  constraint module;
  base is counter {{ foreach f in $procedures {{ append preInsn f.{point} constrained (* {point}s++; *) }} }}
}}
"""


class Sanitized(Program):
    """Without address randomization, which the thread sanitizer of that compiler does not always bear."""

    def __init__(self, name, errors):
        self.name = name
        self.process = subprocess.Popen(["setarch", "-R", str(PROGRAMS / name), "120"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=errors, bufsize=0)
        self.pid = self.process.pid
        self._lines = Lines(self.process.stdout)
        self.ready = self.answer("ready")


class Sanitizers(LiveTest):
    def check(self, name):
        with open(self.folder / "errors", "w+b") as errors:
            program = Sanitized(name, errors)
            self.addCleanup(program.kill)
            before = self.remember(program.pid)
            plan = self.compile_text(CONSTRAINTS + metric(G, ["t_g"], constraints=["procedure"]) +
                                     "".join(EVERYTHING.format(point=point) for point in ("entry", "return")))
            focus = f"/Code/{name}/{INSIDE}"
            for _ in range(3):
                first = program.ask("go 10")
                session = self.inject(program.pid, plan, "-m", G, "-m", f"{G}@{focus}", "-m", f"entrys@/Code/{name}",
                                      "-m", f"returns@/Code/{name}").wait_inserted()
                for command in ("go 200", "throw 20", "jump 20", "go 20"):
                    last = program.ask(command)
                self.assert_stopped_well(session)
                values = {key: line["value"] for key, line in session.final().items()}
                self.assertEqual(values[G, ""], last["total"] - first["total"])
                self.assertEqual(values[G, focus], last["inside"] - first["inside"])
                self.assertGreater(values["entrys", f"/Code/{name}"], values[G, ""])
                self.assert_untouched(program.pid, before)
            program.ask("go 10")
            self.assertEqual(program.end(), 0)
            errors.seek(0)
            self.assertEqual(errors.read().decode(), "")

    def test_addresses(self):
        self.check("within-address")

    def test_threads(self):
        self.check("within-thread")

    def test_undefined_behaviour(self):
        self.check("within-undefined")


if __name__ == "__main__":
    unittest.main(verbosity=2)
