"""What metrics read when another at the same point has used the registers before: a division
takes rax and rdx, which are where the result and the third argument are. And what is in the program's
own registers, all of them, at every kind of point and under every kind of code: tests/programs/registers.cpp.
"""

import pathlib

import unittest

from harness import CONSTRAINTS, LiveTest

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


# The kinds of points, in the order of the program's counts, and one more that it does not count.
POINTS = {
    "entry": "append preInsn f.entry {c} (* {code} *)",
    "return": "prepend preInsn f.return {c} (* {code} *)",
    "before": "foreach p in f.calls {{ append preInsn p {c} (* {code} *) }}",
    "after": "foreach p in f.calls {{ append postInsn p {c} (* {code} *) }}",
    "enter": "foreach l in f.loops {{ append preInsn l.enter {c} (* {code} *) }}",
    "exit": "foreach l in f.loops {{ append preInsn l.exit {c} (* {code} *) }}",
    "start": "foreach l in f.loops {{ append preInsn l.start_iter {c} (* {code} *) }}",
    "end": "foreach l in f.loops {{ append preInsn l.end_iter {c} (* {code} *) }}",
    "block": "foreach p in f.blocks {{ append preInsn p {c} (* {code} *) }}",
}
# What is done there; {a} is something that can be read at the point.
CODES = {
    "count": ("counter", "{m}++;"),
    "divide": ("counter", "{m} += {a} / 3 + {a} % 7;"),
    "choose": ("counter", "if ({a} > 1000 && {a} % 3 != 1) {m}++; else {m} -= {a} << 3;"),
    "variable": ("counter", '{m} += readSymbol("r_variable") * {a};'),
    "memory": ("counter", "{m} += readAddress({a}) + readAddress(&{m});"),
    "call": ("counter", '{m} += Call("r_trash", 1, 2, 3, 4, 5, 6);'),
    "wall": ("wallTimer", "startWallTimer({m}); stopWallTimer({m});"),
    "cpu": ("processTimer", "startProcessTimer({m}); stopProcessTimer({m});"),
    "event": ('hwTimer("MINOR_FAULTS")', "startHwTimer({m}); stopHwTimer({m});"),
    "sample": ('hwCounter("VOLUNTARY_SWITCHES")', "sampleHwCounter({m});"),
}
READABLE = {"entry": "$arg[0]", "before": "$arg[5]", "return": "$return", "after": "$return"}
EACH = """
metric {m} {{
  name "{m}"; units Units; unitsType unnormalized; aggregateOperator sum; style {style}; flavor {{ unix }};
  {constraints}
  base is {type} {{ foreach f in {functions} {{ {where} }} }}
}}
"""
KEYED = """
constraint key /SyncObject/Message/* is counter {
  foreach f in all {
    append preInsn f.entry (* if ($arg[0] == $constraint[0]) key += 1; *)
    prepend preInsn f.return (* if (key > 0) key -= 1; *)
  }
}
"""


class EveryRegister(LiveTest):
    """General registers, flags, x87 and MXCSR, vectors and masks up to AVX-512 as this processor has them."""

    def setUp(self):
        super().setUp()
        self.program = self.start("registers")
        self.before = self.remember(self.program.pid)
        self.counts = self.program.ready["counts"]
        self.assertEqual(self.program.ready["wrong"], [])

    def text(self, codes, constraints=()):
        # r_armed calls or not, as its flags say: by itself.
        lists = {"all": list(self.counts), "armed": ["r_armed"], "others": [f for f in self.counts if f != "r_armed"]}
        text = CONSTRAINTS + KEYED + "".join(
            "resourceList {} is procedure {{ items {{ {} }}; flavor {{ unix }}; }}\n".format(
                name, ", ".join(f'"{item}"' for item in items)) for name, items in lists.items())
        for code in codes:
            kind, statement = CODES[code]
            for point, where in POINTS.items():
                for functions in ("others", "armed"):
                    if functions == "armed" and point not in ("before", "after"):
                        continue
                    name = f"{code}_{point}_{functions}"
                    text += EACH.format(
                        m=name, type=kind, functions=functions, constraints=" ".join(f"constraint {c};" for c in constraints),
                        style="EventCounter" if kind == "counter" else "SampledFunction",
                        where=where.format(c="constrained" if constraints else "", code=statement.format(
                            m=name, a=READABLE.get(point, "$thread"))))
        return text

    def truth(self, point, calls):
        number = list(POINTS).index(point)
        return calls * sum(counts[number] for function, counts in self.counts.items() if function != "r_armed")

    def check(self, codes, foci=("",), constraints=(), options=()):
        """The program finds nothing changed, and what is counted is right."""
        plan = self.compile_text(self.text(codes, constraints))
        names = [line.split()[1] for line in (self.folder / "metrics.mdl").read_text().splitlines()
                 if line.startswith("metric ")]
        words = [word for name in names for focus in foci for word in ("-m", f"{name}@{focus}" if focus else name)]
        first = self.program.ask("go 1")
        session = self.inject(self.program.pid, plan, "--allow-calls", "--allow-reads", *options, *words, interval="0.5").wait_inserted()
        done = self.program.ask("go 3")
        self.assert_stopped_well(session)
        self.assertEqual(done["wrong"], [])
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.ask("go 1")["wrong"], [])
        final = session.final()
        # What reads a result has none at the two tail jumps.
        refused = {key: line["refused"] for key, line in final.items() if line["refused"]}
        for (name, focus), count in refused.items():
            if focus.startswith("/Code/") and focus.rpartition("/")[2] not in self.counts:
                continue  # a function of the program's own, which never runs in between
            self.assertTrue("_return_" in name and "{a}" in CODES[name.split("_")[0]][1], (name, focus, count))
        self.assertEqual({line.get("anomalies", 0) for line in final.values()}, {0})
        values = {key: line["value"] for key, line in final.items() if key not in refused}
        return values, done["calls"] - first["calls"]

    def assert_counted(self, values, calls):
        """Code that adds 1: `count` itself and calls that return 1."""
        for code in ("count", "call"):
            for point in POINTS:
                value = values.get((f"{code}_{point}_others", ""))
                if value is not None and point != "block":
                    self.assertEqual(value, self.truth(point, calls), f"{code} {point}")
            if (f"{code}_before_armed", "") in values and (f"{code}_after_armed", "") in values:
                self.assertEqual(values[f"{code}_before_armed", ""], values[f"{code}_after_armed", ""])

    def test_all_that_the_processor_has(self):
        flags = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii").split("flags", 1)[1].split("\n", 1)[0].split()
        components = {"x87", "sse"} | ({"avx"} if "avx" in flags else set()) | (
            {"opmask", "zmm_hi256", "hi16_zmm"} if "avx512f" in flags else set()) | ({"pkru"} if "ospke" in flags else set())
        self.assertEqual(set(self.program.ready["components"]), components)
        print("checked here:", *sorted(components), flush=True)

    def test_each_kind_of_code(self):
        for code in CODES:
            with self.subTest(code):
                values, calls = self.check([code])
                self.assert_counted(values, calls)
                # Start and stop lie a few instructions apart, which without what the hits take is no time at all.
                if CODES[code][0] in ("wallTimer", "processTimer"):
                    values, _ = self.check([code], options=["--raw-times"])
                    self.assertGreater(min(values.values()), 0)

    def test_all_kinds_at_once(self):
        values, calls = self.check(list(CODES))
        self.assert_counted(values, calls)

    def test_guarded_and_spans(self):
        values, calls = self.check(["count", "divide", "call"], ("", "/Code/registers/r_red_zone", "/Code/registers/*"),
                                   ("procedure", "module"))
        self.assert_counted(values, calls)
        for point in ("entry", "return", "start", "end"):
            wanted = calls * self.counts["r_red_zone"][list(POINTS).index(point)]
            self.assertEqual(values[f"count_{point}_others", "/Code/registers/r_red_zone"], wanted, point)

    def test_functions_without_a_symbol(self):
        """Entries and exits of all of the file, parts of r_pieces among them: what is below the stack pointer stays."""
        text = 'resourceList files is module { items { "registers" }; flavor { unix }; }\n'
        for code in ("count", "divide", "wall", "cpu"):
            kind, statement = CODES[code]
            for point in ("entry", "return"):
                name = f"{code}_{point}"
                text += EACH.replace("foreach f in {functions}", "foreach o in files foreach f in o.funcs").format(
                    m=name, type=kind, style="EventCounter" if kind == "counter" else "SampledFunction",
                    constraints="", where=POINTS[point].format(c="", code=statement.format(m=name, a="$thread")))
        session = self.inject(self.program.pid, self.compile_text(text), interval="0.5").wait_inserted()
        done = self.program.ask("go 3")
        self.assert_stopped_well(session)
        self.assertEqual(done["wrong"], [])
        self.assert_untouched(self.program.pid, self.before)

    def test_keys(self):
        values, calls = self.check(["count"], ("", "/SyncObject/Message/*"), ("key",))
        self.assert_counted(values, calls)
        keyed = sum(value for (name, focus), value in values.items() if name == "count_start_others" and focus)
        self.assertEqual(keyed, values["count_start_others", ""])


if __name__ == "__main__":
    unittest.main(verbosity=2)
