"""A focus with `*`: one base for all children, each child's value what its own request would have been."""

import re
import time
import unittest

from harness import CONSTRAINTS, MDL_INJECT, MDLC, LiveTest, metric, run

HITS = "hits"
ALONE = "hits_alone"  # the same, but made so that one base cannot answer for all

# The temporary does nothing but keep the base from being additive.
NOT_ADDITIVE = metric(ALONE, ["t_hit"], constraints=["procedure", "module"]).replace(
    f"(* {ALONE}++; *)", f"(* {ALONE}++; if (unused == 7) unused = 0; *)").replace("base is", "counter unused; base is")
METRICS = (CONSTRAINTS + metric(HITS, ["t_hit"], constraints=["procedure", "module"]) + NOT_ADDITIVE)
EVERY = "/Code/family/*"


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
        program = self.start("family")
        plan = self.compile_text(METRICS)
        done = run(MDL_INJECT, program.pid, plan, "-m", f"{HITS}@{EVERY}", "-d", "0", "--format", "table")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line for line in done.stdout.splitlines() if "/Code/family/" in line]
        self.assertEqual(len(rows), 20)
        self.assertRegex(done.stdout, r"\(\d{3} more\)")


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
