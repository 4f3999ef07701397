"""`by str(VALUE)`: a line for each text that a function was given, whatever becomes of where it stood."""

import collections
import signal
import subprocess
import unittest

from harness import MDL_INJECT, LiveTest, run

ALL = "count t_text as all"
COUNT, SUM = "count t_text by str($arg[0])", "sum $arg[1] at t_text by str($arg[0])"
# In the order of tests/programs/texts.cpp; what cannot be read is one key.
READ = ("alpha", "beta", "", "edge", "unended…", 256 * "x" + "…", r"Zürich\n", "across", "unended")
AMOUNTS = (1, 2, 3, 4, 5, 6, 7, 11, 12)
BAD = "<bad address>"
# Of two and three texts: t_texts is given each text twice, and between them whether its amount is odd.
TWO, THREE = "count t_texts by str($arg[0]), str($arg[1])", "sum $arg[3] at t_texts by str($arg[0]), str($arg[1]), str($arg[2])"
PLACES = tuple(zip((*READ, *[BAD] * 3), (*AMOUNTS, 8, 9, 10)))
MDL = """resourceList texts is procedure { items { "t_text" }; flavor { unix }; }
metric by_text { name "by_text"; units Calls; unitsType unnormalized; aggregateOperator sum; style EventCounter; flavor { unix };
  base is counter keyed by str($arg[0]) { foreach f in texts append preInsn f.entry (* by_text++; *) } }
"""


def counts_of(rounds):
    return {**{text: rounds for text in READ}, BAD: 3 * rounds} if rounds else {}


def sums_of(rounds):
    return {**{text: rounds * amount for text, amount in zip(READ, AMOUNTS)}, BAD: (8 + 9 + 10) * rounds} if rounds else {}


def parity(amount):
    return "odd" if amount % 2 else "even"


def pairs_of(rounds):
    of = {(text, parity(amount)): rounds for text, amount in PLACES}
    of[BAD, "even"] = 2 * rounds
    return of


def triples_of(rounds):
    of = {(text, parity(amount), text): rounds * amount for text, amount in PLACES}
    of[BAD, "even", BAD] = 18 * rounds
    return of


class Texts(LiveTest):
    def begin(self, *words, **named):
        self.program = self.start("texts")
        self.before = self.remember(self.program.pid)
        self.session = self.inject(self.program.pid, *words, ALL, **named).wait_inserted()

    def values(self, metric, pid=None):
        return self.session.by_key(metric, pid or self.program.pid)

    def finish(self):
        self.assert_stopped_well(self.session)
        self.assertEqual({(line["refused"], line.get("anomalies", 0)) for line in self.session.lines}, {(0, 0)})
        self.assert_untouched(self.program.pid, self.before)

    def test_what_it_was_given(self):
        self.begin(COUNT, SUM)
        last = self.program.ask("go 700")
        self.finish()
        self.assertEqual(last["rounds"], 2800)
        self.assertEqual(self.values(COUNT), counts_of(2800))
        self.assertEqual(self.values(SUM), sums_of(2800))
        self.assertEqual(self.program.end(), 0)

    def test_signals_at_any_instruction(self):
        self.begin(COUNT)
        last = self.program.ask("storm 20000")
        self.finish()
        self.assertGreater(last["handled"], 300)
        self.assertEqual(self.values(COUNT), counts_of(last["rounds"]) | {"handled": last["handled"]})

    def test_while_it_runs(self):
        """A text is there as soon as its number is, and no number shrinks."""
        self.begin(COUNT, interval="0.01")
        self.program.ask("storm 20000")
        last = self.program.ask("many 20000")
        self.finish()
        known = set(READ) | {BAD, "handled"} | {f"text {i}" for i in range(20000)}
        seen = {}
        for line in self.session.lines:
            if line["metric"] == COUNT:
                self.assertIn(line["key"][0], known)
                self.assertGreaterEqual(line["value"], seen.get(line["key"][0], 0))
                seen[line["key"][0]] = line["value"]
        self.assertEqual(self.values(COUNT), counts_of(last["rounds"]) | {"handled": last["handled"]} | {f"text {i}": 1 for i in range(20000)})

    def test_more_than_there_is_room_for(self):
        self.begin(COUNT, "--max-keys", "10")
        self.program.ask("go 5")
        self.program.ask("many 100")
        self.finish()
        values = self.values(COUNT)
        self.assertEqual(values.pop("?"), 100)
        self.assertEqual(values, counts_of(20))

    def test_observed(self):
        """Each bucket of a distribution, and what is known at a return."""
        hist, latency, least = "hist $arg[1] at t_text by str($arg[0])", "latency t_text by str($arg[0])", "min $arg[1] at t_text by str($arg[0])"
        self.begin(hist, latency, least)
        last = self.program.ask("go 100")
        self.finish()
        for metric in (hist, latency):
            lines = {line["key"][0]: line for line in self.session.lines if line["final"] and line["metric"] == metric}
            self.assertEqual({text: line["count"] for text, line in lines.items()}, counts_of(last["rounds"]))
            if metric == hist:
                self.assertEqual({text: line["sum"] for text, line in lines.items()}, sums_of(last["rounds"]))
        self.assertEqual(self.values(least), dict(zip(READ, AMOUNTS)) | {BAD: 8})

    def test_with_other_keys(self):
        both = "sum $arg[1] at t_text by $arg[1], str($arg[0]), caller"
        self.begin(both)
        rounds = self.program.ask("go 100")["rounds"]
        self.finish()
        values = {(line["key"][0], line["key"][1]): line["value"] for line in self.session.lines
                  if line["final"] and line["metric"] == both}
        self.assertEqual(values, {(str(amount), text): rounds * amount for text, amount in zip((*READ, *[BAD] * 3), (*AMOUNTS, 8, 9, 10))})

    def test_several_texts(self):
        shown, hist = "sum $arg[3] at t_texts by $arg[3], str($arg[1]), str($arg[0])", "hist $arg[3] at t_texts by str($arg[1]), str($arg[2])"
        called, late = "count t_texts by caller, str($arg[1]), str($arg[2])", "latency t_texts by str($arg[1]), str($arg[0])"
        self.begin(TWO, THREE, shown, hist, called, late)
        rounds = self.program.ask("go 300")["rounds"]
        self.finish()
        keys = lambda metric: self.session.by_keys(metric, self.program.pid)
        self.assertEqual(keys(TWO), pairs_of(rounds))
        self.assertEqual(keys(THREE), triples_of(rounds))
        self.assertEqual(keys(shown), {(str(amount), parity(amount), text): rounds * amount for text, amount in PLACES})
        by_text = collections.Counter()
        for (place, of, text), value in keys(called).items():
            self.assertRegex(place, r"\(anonymous namespace\)::(give|round)")
            by_text[text, of] += value
        self.assertEqual(by_text, pairs_of(rounds))
        for metric in (hist, late):
            lines = {tuple(reversed(line["key"])): line for line in self.session.lines if line["final"] and line["metric"] == metric}
            self.assertEqual({of: line["count"] for of, line in lines.items()}, pairs_of(rounds))
            if metric == hist:
                self.assertEqual({(*of, of[0]): line["sum"] for of, line in lines.items()}, triples_of(rounds))

    def test_several_texts_and_signals_at_any_instruction(self):
        self.begin(TWO, THREE, interval="0.01")
        last = self.program.ask("storm 20000")
        self.finish()
        self.assertGreater(last["handled"], 300)
        for metric, of, handled in ((TWO, pairs_of, ("handled", BAD)), (THREE, triples_of, ("handled", BAD, "there"))):
            self.assertEqual(self.session.by_keys(metric, self.program.pid), of(last["rounds"]) | {handled: last["handled"]})
            seen = {}
            for line in self.session.lines:
                if line["metric"] == metric:
                    key = tuple(line["key"])
                    self.assertIn(key, of(1) | {handled: 1})
                    self.assertGreaterEqual(line["value"], seen.get(key, 0))
                    seen[key] = line["value"]

    def test_more_combinations_than_there_is_room_for(self):
        self.begin(TWO, THREE, "--max-keys", "20")
        self.program.ask("go 5")
        self.program.ask("many 100")
        self.finish()
        for metric, of in ((TWO, pairs_of), (THREE, triples_of)):
            values = self.session.by_keys(metric, self.program.pid)
            room, keys = 20 - len(of(1)), len(next(iter(of(1))))
            self.assertEqual(values.pop(("?",) * keys), 100 - room)
            many = {("many", f"text {i}", "many")[:keys]: 1 for i in range(room)}
            self.assertEqual(values, of(20) | many)

    def test_several_texts_in_followed_forks(self):
        self.begin(THREE, "--follow-fork")
        self.program.ask("go 50")
        child = self.program.ask("fork 30", event="child")
        self.program.answer("done")
        self.finish()
        self.assertEqual(self.session.by_keys(THREE, self.program.pid), triples_of(200))
        in_child = {of: value for of, value in self.session.by_keys(THREE, child["pid"]).items() if value}
        self.assertEqual(in_child, triples_of(30))

    def test_followed_forks(self):
        self.begin(COUNT, "--follow-fork")
        self.program.ask("go 50")
        child = self.program.ask("fork 30", event="child")
        self.program.answer("done")
        self.finish()
        self.assertEqual(self.values(COUNT), counts_of(200))
        in_child = {text: value for text, value in self.values(COUNT, child["pid"]).items() if value}
        self.assertEqual(in_child, counts_of(30))

    def test_consent(self):
        """Who types it agrees to read; a source or a plan has to be allowed to, and says so."""
        program = self.start("texts")
        plan = self.compile_text(MDL)
        before = self.remember(program.pid)
        done = run(MDL_INJECT, program.pid, plan, "-d", "0.1", "-o", "/dev/null")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("--allow-reads", done.stderr)
        self.assert_untouched(program.pid, before)
        session = self.inject(program.pid, plan, "--allow-reads")
        session.said("inserted")
        program.ask("go 1")
        self.assert_stopped_well(session)
        self.assertEqual({line["key"][0] for line in session.lines}, set(READ) | {BAD})

    def test_what_is_shown(self):
        """Characters that a terminal obeys are written as in C."""
        program = self.start("texts")
        shown = {"table": (r" Zürich\\n +4 ", ' "" +4 ', " <bad address> +12 "), "csv": (r",Zürich\\n.?$", ",edge.?$"),
                 "prometheus": (r'key="Zürich\\\\n"\} 4$', r'key=""\} 4$')}
        for form, wanted in shown.items():
            with subprocess.Popen([MDL_INJECT, str(program.pid), COUNT, "--format", form, "-i", "60"], text=True, encoding="utf-8",
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as session:
                self.assertIn("inserted", session.stderr.readline())
                program.ask("go 1")
                session.send_signal(signal.SIGINT)
                out, errors = session.communicate(timeout=60)
            self.assertEqual(session.returncode, 0, errors)
            for pattern in wanted:
                self.assertRegex(out, "(?m)" + pattern)


if __name__ == "__main__":
    unittest.main(verbosity=2)
