"""What metrics read when another at the same point has used the registers before: a division
takes rax and rdx, which are where the result and the third argument are.
"""

import unittest

from harness import LiveTest

# {statement} at {point} of t_six.
VALUE = """
metric {name} {{
  name "{name}"; units Units; unitsType unnormalized; aggregateOperator sum; style EventCounter;
  flavor {{ unix }};
  base is counter {{ foreach func in six {{ {order} preInsn func.{point} (* {name} += {value}; *) }} }}
}}
"""
LIST = 'resourceList six is procedure { items { "t_six" }; flavor { unix }; }\n'


class Registers(LiveTest):
    def exact(self, *metrics):
        """Runs metrics (name in the program's answer, point, what is added), in this order at their point."""
        program = self.start("arguments")
        before = self.remember(program.pid)
        text = LIST + "".join(
            VALUE.format(name=name, point=point, value=value, order="append" if point == "entry" else "prepend")
            for name, point, value in metrics)
        plan = self.compile_text(text)
        for order in (metrics, metrics[::-1]):
            start = program.ask("go 10")
            session = self.inject(program.pid, plan, *sum([["-m", name] for name, _, _ in order], []))
            session.wait_inserted()
            end = program.ask("go 500")
            self.assert_stopped_well(session)
            values = {metric: line["value"] for (metric, _), line in session.final().items()}
            self.assertEqual(values, {name: end[name] - start[name] for name, _, _ in metrics})
            self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def test_arguments_behind_a_division(self):
        self.exact(("first_thirds", "entry", "$arg[0] / 3"), ("third", "entry", "$arg[2]"))

    def test_result_behind_a_division(self):
        self.exact(("result_thirds", "return", "$return / 3"), ("result", "return", "$return"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
