"""What an optimizer leaves out of functions that only their own unit calls, against the program's own sums: a value is
right, or refused with the reason."""

import unittest

from harness import LiveTest

RESULTS = ("t_ignored", "t_used", "t_handed", "t_pointed")
UNREAD = "no caller that was found reads its result"
MOVED = "the compiler did not keep", "its calling convention is one of its own"


class Trimmed(LiveTest):
    def measure(self, flavor, *queries):
        program = self.start(f"trimmed-{flavor}")
        before = self.remember(program.pid)
        session = self.inject(program.pid, *queries, "-v").wait_inserted()
        truth = program.ask("go 1000")
        self.assert_stopped_well(session)
        self.assert_untouched(program.pid, before)
        lines = {line["metric"]: line for line in session.lines if line["final"]}
        values = {metric: line["value"] if line.get("measured", True) else None for metric, line in lines.items()}
        return truth, values, session.errors

    def test_results_that_nobody_reads(self):
        for flavor in "clang", "clang-g":
            for value in "int($return)", "$return & 4294967295":
                with self.subTest(flavor=flavor, value=value):
                    truth, values, said = self.measure(flavor, *(f"sum {value} at {f} as {f}" for f in RESULTS))
                    bits = 64 if value.startswith("int") else 32
                    self.assertIsNone(values["t_ignored"])
                    self.assertIn(UNREAD, said)
                    for function in RESULTS[1:]:
                        self.assertIsNotNone(values[function], function)
                        self.assertEqual((values[function] - truth[function]) % 2**bits, 0, function)

    def test_gcc_leaves_no_result_out_under_the_same_name(self):
        truth, values, said = self.measure("gcc-O1", *(f"sum int($return) at {f} as {f}" for f in RESULTS))
        self.assertEqual(values, {f: truth[f] for f in RESULTS})
        self.assertNotIn(UNREAD, said)

    def test_arguments_that_have_moved(self):
        """t_shifted's `a` is in the first register, where it has debug information, or nothing is said of it."""
        for value in "$arg[1]", "int($arg[1])", "$args.a":
            with self.subTest(value=value):
                _, values, said = self.measure("clang-g", f"sum {value} at t_shifted as moved", "count t_shifted")
                self.assertIsNone(values["moved"])
                self.assertEqual(values["count t_shifted"], 2000)
                self.assertTrue(any(why in said for why in MOVED), said)

    def test_functions_of_ocaml(self):
        """Its arguments are in other registers; its exceptions leave functions unseen."""
        function = "camlTrimmed__add_12"
        _, values, said = self.measure(
            "clang-g", f"sum int($arg[0]) at {function} as moved", f"count {function}",
            f"sum $return at {function} as results", f"count t_scramble within {function} as inside")
        self.assertIsNone(values["moved"])
        self.assertIn("OCaml passes arguments in registers of its own", said)
        self.assertEqual([values[f"count {function}"], values["results"], values["inside"]],
                         [1000, 1000 * 0x1234567890, 1000])
        self.assertIn("exceptions leave functions unseen", said)

    def test_types_behind_instructions_that_do_nothing(self):
        """clang says where an argument is from behind endbr64, or behind room for a patch, on."""
        for flavor in "clang-g", "clang-cet", "clang-patchable":
            with self.subTest(flavor=flavor):
                truth, values, _ = self.measure(flavor, "sum $arg[0] at t_typed as typed",
                                                "sum $args.a at t_typed as named")
                self.assertEqual(values, {"typed": truth["t_typed"], "named": truth["t_typed"]})


if __name__ == "__main__":
    unittest.main()
