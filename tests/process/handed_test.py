"""What functions are handed and return, where debug information describes them: a value is the number that the source has
there, or refused with the reason."""

import unittest

from harness import LiveTest

FLAVORS = "gcc-O0", "gcc-O2", "clang-O0", "clang-O2"
PLACES = {"0": "$arg[0]", "1": "$arg[1]", "2": "$arg[2]", "return": "$return"}
FUNCTIONS = ("plain", "behind_double", "before_double", "behind_pair", "behind_three", "behind_mixed", "behind_one",
             "behind_named", "behind_wide", "variable", "variable_behind_double", "double", "float", "pair", "three",
             "vector", "named", "wide", "two_names", "nothing", "bool", "char")
# What can be known by the calling convention alone.
KNOWN = {("plain", "0"), ("plain", "1"), ("plain", "2"), ("plain", "return"), ("before_double", "0"),
         ("behind_double", "0"), ("variable", "0"), ("variable_behind_double", "0"),
         ("variable", "return"), ("double", "0"), ("float", "0"), ("nothing", "0"), ("bool", "0"), ("bool", "return"),
         ("char", "0"), ("char", "return")}
# An argument whose number varies, and that no call has: the register is not known to hold nothing.
GIVEN_NOTHING = {("variable", "2"), ("variable_behind_double", "1"), ("variable_behind_double", "2")}
WHY = ("it returns nothing", "it returns a structure", "it returns a floating-point number",
       "its result takes more than one register", "none of its parameters is in its register",
       "its register has the address of its result", "may take several registers or none",
       "`s` is handed over by its address", "which is integer or pointer argument 0 where the first is 0")


class Handed(LiveTest):
    def measure(self, flavor, queries):
        """The sums that the program has, and those that the queries have: None where refused."""
        program = self.start(f"handed-{flavor}")
        before = self.remember(program.pid)
        session = self.inject(program.pid, *queries, "-v").wait_inserted()
        sums = program.ask("go 1000")["sums"]
        self.assert_stopped_well(session)
        self.assert_untouched(program.pid, before)
        lines = {line["metric"]: line for line in session.lines if line["final"]}
        return sums, {metric: line["value"] if line.get("measured", True) else None
                      for metric, line in lines.items()}, session.errors

    def test_each_place(self):
        for flavor in FLAVORS:
            with self.subTest(flavor=flavor):
                asked = [(f, place) for f in FUNCTIONS for place in PLACES if (f, place) not in GIVEN_NOTHING]
                sums, values, said = self.measure(
                    flavor, [f"sum {PLACES[place]} at t_{f} as {f}_{place}" for f, place in asked])
                for f, place in asked:
                    value = values[f"{f}_{place}"]
                    # Nobody says how wide an argument is whose number varies, or which of two names' types is right:
                    # the register holds an int's 32 bits.
                    if (f, place) in (("variable", "1"), ("variable_behind_double", "0"), ("two_names", "0")):
                        self.assertEqual((value - sums[f"t_{f}"][place]) % 2**32, 0)
                    elif (f, place) in KNOWN or value is not None:
                        self.assertEqual(value, sums[f"t_{f}"].get(place) if f"t_{f}" in sums else 0, (f, place))
                for why in WHY:
                    self.assertIn(why, said)

    def test_named_parameters(self):
        """$args.n is the number, or refused, wherever other parameters and the result are."""
        named = [f for f in FUNCTIONS if f not in ("plain", "variable_behind_double")]
        for flavor in FLAVORS:
            with self.subTest(flavor=flavor):
                sums, values, _ = self.measure(flavor, [f"sum $args.n at t_{f} as {f}" for f in named])
                for f in named:
                    truth = sums.get(f"t_{f}", {})
                    if values[f] is not None:
                        self.assertEqual(values[f], truth.get("0" if "1" not in truth or f == "variable" else "1", 0), f)
                for f in ("behind_double", "before_double", "three", "behind_named"):
                    self.assertIsNotNone(values[f], f)

    def test_a_conversion_says_what_the_register_holds(self):
        sums, values, _ = self.measure("gcc-O0", ["sum int($arg[0]) at t_behind_double as behind",
                                                  "count t_three if long($arg[0]) != 0 as results"])
        self.assertEqual(values, {"behind": sums["t_behind_double"]["0"], "results": 1000})


if __name__ == "__main__":
    unittest.main()
