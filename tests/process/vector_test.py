"""A focus with `*`: one base for all children, each child's value what its own request would have been."""

import re
import time
import unittest

from harness import CONSTRAINTS, MDL_INJECT, MDLC, LiveTest, metric, run, tag_by_argument

HITS = "hits"
ALONE = "hits_alone"  # the same, but made so that one base cannot answer for all

# The temporary does nothing but keep the base from being additive.
NOT_ADDITIVE = metric(ALONE, ["t_hit"], constraints=["procedure", "module"]).replace(
    f"(* {ALONE}++; *)", f"(* {ALONE}++; if (unused == 7) unused = 0; *)").replace("base is", "counter unused; base is")
METRICS = (CONSTRAINTS + metric(HITS, ["t_hit"], constraints=["procedure", "module"]) + NOT_ADDITIVE)
EVERY = "/Code/family/*"
NORMALLY = "/SyncObject/Message/0"


class Vector(LiveTest):
    def begin(self, *requests, **named):
        self.program = self.start("family")
        self.before = self.remember(self.program.pid)
        options = [word for request in requests for word in ("-m", request)]
        self.session = self.inject(self.program.pid, self.compile_text(METRICS), *options, **named).wait_inserted()

    def values(self, name):
        """{function: value} of the last sample."""
        return {focus.split("/")[-1]: line["value"] for (metric_, focus), line in self.session.final().items()
                if metric_ == name and focus}

    def finish(self, last):
        """Ctrl-C; each function's number against the program's own."""
        self.assert_stopped_well(self.session)
        truth = [b - a for a, b in zip(self.program.ready["during"], last["during"])]
        names = [f"t_f{i}" for i in range(len(truth) - 1)] + ["t_signal"]
        values = self.values(HITS)
        wrong = {name: (values.get(name), true) for name, true in zip(names, truth) if values.get(name) != true}
        self.assertEqual(wrong, {}, "(counted, true)")
        self.assertGreater(max(truth), 0)
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)

    def test_walks(self):
        self.begin(f"{HITS}@{EVERY}")
        self.finish(self.program.ask("go 2000"))

    def test_on_the_stack_at_the_attach(self):
        self.begin(f"{HITS}@{EVERY}")
        self.program.ask("go 10")
        last = self.program.ask("wake")
        self.assertEqual(last["during"][5] - self.program.ready["during"][5] > 0, True)
        self.finish(last)

    def test_removed_while_functions_are_active(self):
        self.begin(f"{HITS}@{EVERY}")
        self.program.send("throw 20000")
        time.sleep(0.3)
        self.assert_stopped_well(self.session)
        self.assertGreater(max(self.values(HITS).values()), 0)
        self.assert_untouched(self.program.pid, self.before)
        self.program.answer("done")
        self.assertEqual(self.program.end(), 0)

    def test_exceptions(self):
        self.begin(f"{HITS}@{EVERY}")
        self.program.ask("throw 300")
        self.finish(self.program.ask("go 100"))

    def test_longjmp(self):
        self.begin(f"{HITS}@{EVERY}")
        self.program.ask("jump 300")
        self.finish(self.program.ask("go 100"))

    def test_signals_of_its_own(self):
        self.begin(f"{HITS}@{EVERY}")
        self.program.ask("raise 300")
        self.finish(self.program.ask("go 100"))

    def test_a_storm_of_signals(self):
        self.begin(f"{HITS}@{EVERY}")
        self.finish(self.program.ask("storm 20000"))

    def test_a_signal_at_each_instruction(self):
        """Also between the note of a flag's outermost frame and the flag, and again behind that."""
        for function in ("t_signal", "t_chain"):
            with self.subTest(function):
                self.begin(f"{HITS}@{EVERY}", f"{ALONE}@/Code/family/{function}")
                last = self.program.ask("step 50")
                true = last["during"][-1] - self.program.ready["during"][-1]
                self.finish(last)
                self.assertEqual(self.session.final()[ALONE, f"/Code/family/{function}"]["value"], true)
                self.assertEqual(self.values(HITS)["t_chain"], true)
                self.assertNotIn("without an entry", self.session.errors)

    def test_keys_with_signals_anywhere(self):
        """The handler's key is the one that is raised, filled or settled just then: each hit counts once."""
        for function in ("t_signal", "t_chain"):
            with self.subTest(function):
                self.program = self.start("family")
                text = tag_by_argument(function) + metric(HITS, ["t_hit"], constraints=["tag"])
                session = self.inject(self.program.pid, self.compile_text(text), "-m", f"{HITS}@{NORMALLY[:-1]}*",
                                      "-m", HITS).wait_inserted()
                last = self.program.ask("stumble 100")
                if function == "t_signal":
                    last = self.program.ask("storm 3000")
                true = last["during"][-1] - self.program.ready["during"][-1]
                self.assert_stopped_well(session)
                # One call of the main thread was left by an exception and one by longjmp: these have other keys.
                self.assertEqual(session.final()[HITS, NORMALLY]["value"], true - 2)
                self.assertNotIn("active keys", session.errors)
                self.assertEqual(self.program.end(), 0)

    def test_times_with_a_signal_at_each_instruction(self):
        self.program = self.start("family")
        kinds, functions = ("wall_time", "wall_time_exclusive", "cpu_time"), ("t_signal", "t_hit", "t_chain")
        wanted = [word for kind in kinds for function in functions for word in ("-m", f"{kind}@/Code/family/{function}")]
        session = self.inject(self.program.pid, self.compile("time.mdl"), *wanted, interval="0.1").wait_inserted()
        began = time.monotonic()
        self.program.ask("step 20")
        took = 1e9 * (time.monotonic() - began)
        after, later = session.fresh_values(), session.fresh_values()
        self.assertEqual(after, later)  # no timer runs
        self.assert_stopped_well(session)
        for function in functions:
            wall, exclusive, cpu = (after[kind, f"/Code/family/{function}"] for kind in kinds)
            self.assertTrue(0 <= exclusive <= wall <= took and 0 < cpu <= took and wall > 0, (function, took, after))
        self.assertNotIn("without an entry", session.errors)
        self.assertEqual(self.program.end(), 0)

    def test_as_one_request_each(self):
        """Vectorized and one by one, in the same run of the same process: equal for every function."""
        self.begin(f"{HITS}@{EVERY}", f"{ALONE}@{EVERY}", HITS, interval="0.5")
        for command in ("go 100", "throw 100", "jump 100", "raise 100", "wake"):
            last = self.program.ask(command)
        self.assert_stopped_well(self.session)
        alone = self.values(ALONE)
        self.assertEqual(self.values(HITS), alone)
        self.assertGreater(len(alone), 500)
        self.assertEqual(self.session.final()[HITS, ""]["value"], last["hits"] - self.program.ready["hits"])
        self.assert_untouched(self.program.pid, self.before)

    def test_objects(self):
        self.begin(f"{HITS}@/Code/*", HITS)
        last = self.program.ask("go 500")
        self.assert_stopped_well(self.session)
        hits = last["hits"] - self.program.ready["hits"]
        self.assertEqual(self.session.final()[HITS, ""]["value"], hits)
        self.assertEqual(self.session.final()[HITS, "/Code/family"]["value"], hits)

    def test_values_only_grow(self):
        """While the program runs, a sample is never below the one before."""
        self.begin(f"{HITS}@{EVERY}", interval="0.02")
        self.finish(self.program.ask("go 20000"))
        last = {}
        for line in self.session.lines:
            self.assertGreaterEqual(line["value"], last.get(line["focus"], 0), line["focus"])
            last[line["focus"]] = line["value"]

    def test_without_the_pass(self):
        """--disable-pass=vectorize: the same numbers."""
        source = self.folder / "alone.mdl"
        source.write_text(CONSTRAINTS + metric(HITS, ["t_hit"], constraints=["procedure"]))
        plan = self.folder / "alone.bin"
        self.assertEqual(run(MDLC, "--disable-pass=vectorize", source, "-o", plan).returncode, 0)
        self.program = self.start("family")
        self.before = self.remember(self.program.pid)
        self.session = self.inject(self.program.pid, plan, "-m", f"{HITS}@{EVERY}").wait_inserted()
        self.finish(self.program.ask("go 100"))

    def test_what_is_said_of_it(self):
        self.begin(f"{HITS}@{EVERY}")
        self.program.ask("go 10")
        status = run(MDL_INJECT, "--status", self.program.pid)
        self.assertRegex(status.stdout, rf"{HITS}@{re.escape(EVERY)}: \d+ children, in all = \d+ Calls")
        self.assertRegex(status.stdout, rf"{HITS}@/Code/family/t_f3 = \d+ Calls")
        self.assert_stopped_well(self.session)
        dry = run(MDL_INJECT, self.program.pid, self.folder / "metrics.bin", "-m", f"{HITS}@{EVERY}", "--dry-run")
        self.assertRegex(dry.stdout, rf"{HITS}@{re.escape(EVERY)}: 0 refused, \d+ children")

    def test_a_table_shows_the_largest(self):
        """Of functions that nobody has called one stands for all, unless all are wanted."""
        program = self.start("family")
        plan = self.compile_text(METRICS)
        shown = {}
        for options in (), ("--all",):
            done = run(MDL_INJECT, program.pid, plan, "-m", f"{HITS}@{EVERY}", "-d", "0", "--format", "table", *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            if not options:
                self.assertRegex(done.stdout, r"\(\d{3} with 0\)")
            shown[options] = [line for line in done.stdout.splitlines() if "/Code/family/" in line]
        self.assertEqual(len(shown[()]), 1)
        self.assertIn(shown[()][0].split()[0], {line.split()[0] for line in shown["--all",]})
        self.assertGreater(len(shown["--all",]), 100)


TIMER = """
metric {name} {{
  name "{name}"; units ns; unitsType normalized; aggregateOperator sum; style SampledFunction; flavor {{ unix }};
  constraint procedure; constraint module;
  {temporary}
  base is {kind} {{
    foreach func in {functions} {{
      append preInsn func.entry constrained (* {start}({name}); *)
      prepend preInsn func.return constrained (* {stop}({name}); *)
    }}
    {more}
  }}
}}
"""
PROGRAM = 'resourceList program is module { items { "timed" }; flavor { unix }; }\n'
TIMED = 'resourceList timed is procedure { items { "t_timed" }; flavor { unix }; }\n'
KINDS = {"wall": ("wallTimer", "WallTimer"), "cpu": ("processTimer", "ProcessTimer"),
         "faults": ('hwTimer("MINOR_FAULTS")', "HwTimer")}
RATE = 1e-4  # what the rate of the machine's counter may be wrong by


def timer(name, kind, functions, together=True):
    """A timer that each function starts and stops; with a temporary, one base cannot answer for all."""
    cell, verb = KINDS[kind]
    text = TIMER.format(name=name, kind=cell, functions=functions, start=f"start{verb}", stop=f"stop{verb}",
                        temporary="" if together else "counter unused;",
                        more="" if together else "foreach m in timed { append preInsn m.entry (* unused++; *) }")
    return text if functions != "program" else text.replace("foreach func in program {",
                                                            "foreach m in program { foreach func in m.funcs {").replace(
        f"stop{verb}({name}); *)\n    }}", f"stop{verb}({name}); *)\n    }} }}")


class VectorOfTimers(LiveTest):
    """Each function's time by one timer of the thread, against its own request's and the program's own."""

    def begin(self, text, *metrics, **named):
        self.before = self.remember(self.program.pid)
        options = [word for name in metrics for word in ("-m", f"{name}@/Code/timed/*")]
        plan = self.compile_text(CONSTRAINTS + PROGRAM + TIMED + text)
        # The program's own clock, with which these are compared, runs on while a hit runs.
        self.session = self.inject(self.program.pid, plan, *options, "--raw-times", **named).wait_inserted()
        self.plan = plan

    def values(self, name):
        return {focus.split("/")[-1]: line["value"] for (metric_, focus), line in self.session.final().items()
                if metric_ == name and focus.startswith("/Code/timed/")}

    def finish(self):
        self.assert_stopped_well(self.session)
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)

    def assert_like(self, together, alone, slack):
        """A request of its own reads the clock a moment earlier or later at each call."""
        self.assertEqual(set(together), set(alone))
        wrong = {name: (value, alone[name]) for name, value in together.items()
                 if abs(value - alone[name]) > slack + alone[name] * 0.02}
        self.assertEqual(wrong, {}, "(together, alone)")

    def test_as_one_request_each(self):
        self.program = self.start("timed")
        kinds = ("wall", "cpu", "faults")
        self.begin("".join(timer(kind, kind, "program") + timer(f"{kind}_alone", kind, "program", together=False)
                           for kind in kinds), *kinds, *(f"{kind}_alone" for kind in kinds))
        status = run(MDL_INJECT, "--status", self.program.pid)
        self.assertRegex(status.stdout, r"wall@/Code/timed/\*: \d+ children, in all")
        self.assertRegex(status.stdout, r"wall_alone@/Code/timed/t_timed = \d+ ns")
        for command in ("sleep 20", "spin 20", "fault 20", "nest 20", "throw 20", "jump 20"):
            answer = self.program.ask(command)
        self.finish()
        for kind in kinds:
            together = self.values(kind)
            self.assertGreater(len(together), 10)
            self.assert_like(together, self.values(f"{kind}_alone"), 10e6 if kind != "faults" else 5)
            inner, outer = answer[kind]
            self.assertGreaterEqual(together["t_timed"], inner * (1 - RATE), kind)
            self.assertLessEqual(together["t_timed"], outer * (1 + RATE), kind)
            self.assertEqual(together["t_work"], 0)
        units = {line["metric"]: line["units"] for line in self.session.lines}
        self.assertEqual((units["wall"], units["cpu"]), ("ns", "ns"))

    def test_on_the_stack_at_the_attach_and_while_inside(self):
        self.program = self.start("timed")
        self.program.ask("hold")
        before_attach = time.monotonic()
        self.begin(timer("wall", "wall", "program"), "wall", interval="0.05")
        inserted = time.monotonic()
        time.sleep(0.3)
        sample = self.session.fresh_values()
        now = time.monotonic()
        self.assertGreater(sample["wall", "/Code/timed/t_timed"], 0.29e9)
        self.assertLess(sample["wall", "/Code/timed/t_timed"], (now - before_attach) * 1e9)
        leaves = time.monotonic()
        self.program.ask("release")
        left = time.monotonic()
        self.program.ask("sleep 20")
        slept = time.monotonic()
        self.finish()
        value = self.values("wall")["t_timed"]
        self.assertGreaterEqual(value, (leaves - inserted + 0.02) * 1e9 * (1 - RATE))
        self.assertLessEqual(value, (left - before_attach + slept - left) * 1e9 * (1 + RATE))
        last = {}
        for line in self.session.lines:
            self.assertGreaterEqual(line["value"], last.get(line["focus"], 0), line["focus"])
            last[line["focus"]] = line["value"]

    def test_threads_that_end_inside(self):
        self.program = self.start("timed")
        self.begin(timer("wall", "wall", "program"), "wall")
        self.program.ask("exit 20")
        answer = self.program.ask("sleep 20")
        self.finish()
        value = self.values("wall")["t_timed"]
        self.assertGreaterEqual(value, 20e6)
        self.assertLessEqual(value, sum(answer["wall"]) * (1 + RATE))

    def test_functions_that_do_not_start_it_have_requests_of_their_own(self):
        self.program = self.start("timed")
        self.begin(timer("wall", "wall", "timed"), "wall")
        dry = run(MDL_INJECT, "--status", self.program.pid)
        self.assertRegex(dry.stdout, r"wall@/Code/timed/\*: 1 children, in all")
        answer = self.program.ask("nest 20")
        self.finish()
        values = self.values("wall")
        self.assertGreater(len(values), 10)
        inner, outer = answer["wall"]
        self.assertGreaterEqual(values["t_timed"], inner * (1 - RATE))
        self.assertLessEqual(values["t_timed"], outer * (1 + RATE))
        self.assertGreaterEqual(values["main"], 0)
        self.assertEqual(values["t_work"], 0)


class VectorOfRedis(LiveTest):
    def test_thousands_of_functions_under_load(self):
        """Every function of redis-server at once: those on the way to setCommand have each SET."""
        server = self.start_redis()
        before = self.remember(server.pid)
        plan = self.compile_text(CONSTRAINTS + metric("sets", ["setCommand"], constraints=["procedure", "module"]))
        session = self.inject(server.pid, plan, "-m", "sets@/Code/redis-server/*").wait_inserted()
        with server.connect() as client:
            for i in range(3000):
                client.command("SET", f"key{i % 100}", str(i))
                client.command("GET", f"key{i % 50}")
        self.assert_stopped_well(session)
        values = {focus.split("/")[-1]: line["value"] for (_, focus), line in session.final().items()}
        self.assertGreater(len(values), 2000)
        self.assertEqual({name: values[name] for name in ("main", "aeMain", "processCommand", "call", "setCommand")},
                         dict.fromkeys(("main", "aeMain", "processCommand", "call", "setCommand"), 3000))
        self.assertEqual({values["getCommand"], values["delCommand"]}, {0})
        self.assert_untouched(server.pid, before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
