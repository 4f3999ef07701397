"""$args.name: arguments by the names that debug information gives them, against the program's own sums."""

import unittest

from harness import LiveTest

COUNTER = """
resourceList {name}_list is procedure {{ items {{ "{function}" }}; flavor {{ unix }}; }}
metric {name} {{
  name "{name}"; units Units; unitsType unnormalized; aggregateOperator sum; style EventCounter;
  flavor {{ unix }};
  base is counter {{ foreach f in {name}_list {{ {place} (* {code} *) }} }}
}}
"""
ENTRY = "append preInsn f.entry"


def counter(name, function, code, place=ENTRY):
    return COUNTER.format(name=name, function=function, code=code, place=place)


def argument(name, function, argument=None):
    return counter(name, function, f"{name} += $args.{argument or name};")


ALL = [*(argument(name, "t_mixed") for name in ("tiny", "little", "port", "step", "wide", "text")),
       *(argument(name, "t_colors") for name in ("color", "on", "letter", "place")),
       argument("behind", "t_big"),
       argument("self", "Box::t_member", "this"), argument("move", "Box::t_member", "step"),
       argument("flags", "Box::t_member"), argument("amount", "Box::t_static"),
       counter("value", "t_caller", "value += $args.value;", "foreach c in f.calls append preInsn c")]
NAMES = ("tiny", "little", "port", "step", "wide", "text", "color", "on", "letter", "place", "behind", "self",
         "move", "flags", "amount", "value")

# Of each narrow argument, and of each result: the name of the program's own sum, the function, the value in MDL, and
# the conversion that is right without debug information.
VALUES = [("tiny", "t_mixed", "$arg[0]", "char"), ("text", "t_mixed", "$arg[1]", "long"),
          ("little", "t_mixed", "$arg[2]", "short"), ("port", "t_mixed", "$arg[3]", "uint16_t"),
          ("step", "t_mixed", "$arg[4]", "int"), ("wide", "t_mixed", "$arg[5]", "unsigned"),
          ("color", "t_colors", "$arg[0]", "int16_t"), ("letter", "t_colors", "$arg[2]", "uint16_t"),
          ("place", "t_colors", "$arg[3]", "int64_t"),
          ("amount", "Box::t_static", "$arg[0]", "long"), ("r_dotted", "t_dotted.name", "$return", "int"),
          *((f"r_{name}", f"t_{name}", "$return", conversion) for name, conversion in (
              ("int", "int"), ("unsigned", "uint32_t"), ("short", "short"), ("ushort", "uint16_t"), ("char", "int8_t"),
              ("uchar", "uint8_t"), ("bool", "char"), ("color", "int16_t"), ("pointer", "long"), ("ssize", "long")))]
AFTER = "foreach c in f.calls append postInsn c"


def value(name, function, code):
    return counter(name, function, code, "append preInsn f.return" if "$return" in code else ENTRY)


class Named(LiveTest):
    def measure(self, flavor, metrics, *options):
        program = self.start(f"named-{flavor}")
        before = self.remember(program.pid)
        session = self.inject(program.pid, self.compile_text("".join(metrics)), *options).wait_inserted()
        answer = program.ask("go 500")
        self.assert_stopped_well(session)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)
        return session.final(), answer

    def refused(self, flavor, metrics, text):
        program = self.start(f"named-{flavor}")
        before = self.remember(program.pid)
        plan = self.compile_text("".join(metrics))
        session = self.inject(program.pid, plan, "-m", "it")
        self.assertEqual(session.wait(), 1, session.errors)
        self.assertIn(text, session.errors)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def test_every_type(self):
        for flavor in ("gcc-O2", "gcc-O0", "clang-O2", "gcc-O2-dwarf4-compressed"):
            with self.subTest(flavor):
                lines, answer = self.measure(flavor, ALL)
                known = [name for name in NAMES if not lines[name, ""]["refused"]]
                self.assertEqual({name: lines[name, ""]["value"] for name in known},
                                 {name: answer[name] for name in known})
                # clang writes nothing on where that one is.
                self.assertEqual(set(NAMES) - set(known), {"on"} if flavor == "clang-O2" else set())

    # The bits above a narrow value are noise, in arguments and in results.
    def test_declared_types_extend_what_is_read(self):
        metrics = [value(name, function, f"{name} += {read};") for name, function, read, _ in VALUES]
        metrics += [value("negative", "t_int", "if ($return < 0) negative++;"),
                    counter("called", "t_int_caller", "called += $return;", AFTER),
                    value("r_twice", "t_twice", "r_twice += $return;")]
        for flavor in ("gcc-O2", "gcc-O0", "clang-O2", "gcc-O2-dwarf4-compressed"):
            with self.subTest(flavor):
                lines, answer = self.measure(flavor, metrics)
                if flavor == "gcc-O0":  # there an int is loaded anew, and nothing is above it
                    del lines["r_twice", ""]
                self.assertEqual({name: line["value"] for (name, _), line in lines.items()},
                                 {name: answer[name] for name, _ in lines})
                self.assertEqual(sum(line["refused"] for line in lines.values()), 0)

    def test_conversions_need_no_debug_information(self):
        metrics = [value(name, function, f"{name} += {conversion}({read});")
                   for name, function, read, conversion in VALUES]
        metrics += [value("negative", "t_int", "if (int($return) < 0) negative++;"),
                    counter("called", "t_int_caller", "called += int($return);", AFTER)]
        lines, answer = self.measure("no-debug", metrics)
        self.assertEqual({name: line["value"] for (name, _), line in lines.items()},
                         {name: answer[name] for name, _ in lines})

    # Nothing is guessed: without a type all 64 bits are the value.
    def test_without_debug_information_all_bits_are_read(self):
        metrics = [value("it", "t_twice", "it += $return;"), value("whole", "t_twice", "whole += long($return);"),
                   value("r_int", "t_int", "if ($return < 0) r_int++;")]
        lines, answer = self.measure("no-debug", metrics)
        self.assertEqual(lines["it", ""]["value"], answer["r_twice"])
        self.assertEqual(lines["whole", ""]["value"], answer["r_twice"])
        self.assertNotEqual(lines["r_int", ""]["value"], answer["negative"])

    # The first name chooses the code, the others choose in it.
    def test_several_names_in_one_expression(self):
        code = "it += $args.step * 3 + $args.tiny * $args.port - $args.step;"
        lines, answer = self.measure("gcc-O2", [counter("it", "t_mixed", code), counter(
            "check", "t_mixed", "check += $arg[4] * 0; if ($args.port > 32767 && $args.tiny < 0) check++;"),
            counter("same", "t_mixed", "same += ($arg[4] << 32 >> 32) * 2 + ($arg[0] << 56 >> 56) * ($arg[3] & 65535);"),
            counter("high", "t_mixed", "if (($arg[3] & 32768) != 0 && ($arg[0] & 128) != 0) high++;")])
        self.assertEqual(lines["it", ""]["value"], lines["same", ""]["value"])
        self.assertEqual(lines["check", ""]["value"], lines["high", ""]["value"])
        self.assertGreater(lines["check", ""]["value"], 50)
        self.assertEqual(answer["calls"], 500)

    # One function has the name, one has not: the sum is that of the first, and the second is not silent.
    def test_refused_where_the_name_is_not_known(self):
        metric = COUNTER.format(name="it", function='t_big", "t_plain', place=ENTRY, code="it += $args.behind;")
        lines, answer = self.measure("gcc-O2", [metric])
        self.assertEqual(lines["it", ""]["value"], answer["behind"])
        self.assertEqual(lines["it", ""]["refused"], 1)

    def test_reasons(self):
        for function, name, why in (("t_plain", "amount", "it has no parameter `amount`: it has `value`"),
                                    ("t_mixed", "real", "`real` is no integer or pointer in one register"),
                                    ("t_mixed", "on_stack", "`on_stack` is on the stack"),
                                    ("t_pair", "after", "its parameter `pair` may take several registers or none")):
            with self.subTest(name):
                self.refused("gcc-O2", [argument("it", function, name)], why)
        self.refused("no-debug", [argument("it", "t_plain", "value")], "no debug information")
        self.refused("gcc-O2", [counter("it", "t_caller", "it += $args.amount;",
                                        "foreach c in f.calls append preInsn c")], "it has no parameter `amount`")

    def test_floats_are_compared_where_code_goes(self):
        lists = "resourceList floats is float { items { 1, 1.5, 2.5, -3.25, 1e3 }; }\n".replace("1e3", "1000.0")
        place = "foreach x in floats {cond} append preInsn f.entry".replace("{cond}", "if ({})")
        conditions = {"less": ("x < 2.5", 3), "least": ("x <= 2.5 && x > -3.25", 3), "whole": ("x >= 1000", 1),
                      "negated": ("-x > 3", 1), "equal": ("x == 1 || x == 2.50", 2), "unequal": ("x != 1.5", 4),
                      "pid": ("x < 1000 && x < $globalId", 4)}
        metrics = [lists] + [counter(name, "t_mixed", f"{name}++;", place.format(condition))
                             for name, (condition, _) in conditions.items()]
        metrics.append(counter("inside", "t_mixed", "if (x < 2.5) inside += 1; else inside += 10;",
                               "foreach x in floats append preInsn f.entry"))
        lines, answer = self.measure("gcc-O2", metrics)
        self.assertEqual({name: line["value"] for (name, _), line in lines.items()},
                         {**{name: n * answer["calls"] for name, (_, n) in conditions.items()},
                          "inside": 23 * answer["calls"]})

    # A flag that would be raised by a name that is not known is not lowered either.
    def test_a_constraint_is_refused_as_a_whole(self):
        source = """
constraint big /Code/*/* is counter {
  append preInsn $constraint[0].entry (* if ($args.nothing > 0) big += 1; *)
  prepend preInsn $constraint[0].return (* big -= 1; *)
}
resourceList l is procedure { items { "t_plain" }; flavor { unix }; }
metric it {
  name "it"; units Units; aggregateOperator sum; style EventCounter; flavor { unix };
  constraint big;
  base is counter { foreach f in l { append preInsn f.entry constrained (* it++; *) } }
}
"""
        program = self.start("named-gcc-O2")
        session = self.inject(program.pid, self.compile_text(source), "-m", "it@/Code/named-gcc-O2/t_caller")
        self.assertEqual(session.wait(), 1, session.errors)
        self.assertIn("it has no parameter `nothing`: it has `value`", session.errors)
        self.assertEqual(program.end(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
