"""Requests that come and go while a session runs (--commands): what stays is exact over all changes, and what
comes is exact from the stop in which it comes to the one in which it goes.

A change writes a sample of the moment of its stop, so the value of a request that came is the growth of one that
counts the same and stayed.
"""

import collections
import itertools
import json
import os
import random
import re
import signal
import sys
import time
import unittest

import process_text
from distributions_test import SIZES
from harness import (CONSTRAINTS, MDL_INJECT, PROGRAMS, LiveTest, entries_and_returns, metric, run,
                     states, tag_by_argument)
from tight_test import FUNCTIONS as TIGHT
from timers_test import TIMER

WORKS, OUTERS, DEEPS, TINIES, RETURNS = "works", "outers", "deeps", "tinies", "returns"
DEEP, OUTER, PROGRAM = "/Code/changing/t_deep", "/Code/changing/t_outer", "/Code/changing"
METRICS = (metric(WORKS, ["t_work"], constraints=["procedure", "module", "tag"]) + metric(OUTERS, ["t_outer"]) +
           metric(DEEPS, ["t_deep"]) + metric(TINIES, ["t_tiny"], constraints=["procedure"]) +
           metric(RETURNS, ["t_work"], "return"))
TIMED = 'resourceList timed is procedure { items { "t_outer" }; flavor { unix }; }\n' + TIMER.format(
    name="took", kind="wallTimer", start="startWallTimer", stop="stopWallTimer", constraints="", constrained="")

DEAR = TIMED + TIMER.format(name="dear", kind="processTimer", start="startProcessTimer", stop="stopProcessTimer",
                            constraints="", constrained="")
TIGHT_COME = ["entries_t_punned_entry", "returns_t_punned_return", "entries_t_call_first", "returns_t_hosted_twice",
              "entries_t_short_entry"]
TIGHT_STAY = [f"{point}_{name}" for name in TIGHT for point in ("entries", "returns")
              if f"{point}_{name}" not in TIGHT_COME]

CALLS = """
resourceList {name}_in is procedure {{ items {{ "t_branchy" }}; flavor {{ unix }}; }}
metric {name} {{
  name "{name}"; units Calls; aggregateOperator sum; style EventCounter; flavor {{ unix }};
  base is counter {{ foreach func in {name}_in {{ foreach site in func.calls {{ append {where} site (* {name}++; *) }} }} }}
}}
"""

# What keeps tables of keys, the calls that run, distributions and extremes.
OBSERVING = """
resourceList {name}_in is procedure {{ items {{ "{function}" }}; flavor {{ unix }}; }}
metric {name} {{
  name "{name}"; units Units; aggregateOperator {operator}; style EventCounter; flavor {{ unix }};
  base is {base} {{ foreach func in {name}_in {{ {code} }} }}
}}
"""


def observing(name, function, base, code, operator="sum"):
    return OBSERVING.format(name=name, function=function, base=base, code=code, operator=operator)


AT_RETURN = "prepend preInsn func.return (* observe($elapsed); *)"
KEYED = (observing("callers", "t_work", "counter keyed by $caller", "append preInsn func.entry (* callers++; *)") +
         observing("took_by", "t_work", "histogram keyed by $caller", AT_RETURN) +
         observing("deep_took", "t_deep", "histogram", AT_RETURN) +
         observing("least", "t_message", "minimum", "append preInsn func.entry (* observe($arg[0]); *)", "min"))

READING = """
resourceList peeked is procedure { items { "t_work" }; flavor { unix }; }
metric peeks { name "Peeks"; units Units; aggregateOperator sum; style EventCounter; flavor { unix };
  base is counter { foreach func in peeked { append preInsn func.entry (* peeks += readAddress($arg[0]); *) } } }
"""


class Commanded(LiveTest):
    """A session that obeys commands from a FIFO."""

    def open(self, pid, plan, *requests, options=(), **named):
        self.commands = self.folder / "commands"
        os.mkfifo(self.commands)
        words = [word for request in requests for word in ("-m", request)]
        self.session = self.inject(pid, plan, "--commands", str(self.commands), *words, *options, **named)
        self.session.wait_inserted()

    def command(self, text, answer="done"):
        with open(self.commands, "w", encoding="ascii") as commands:
            commands.write(text + "\n")
        since = len(self.session.errors)
        self.session.read_until_said(f"{text}: ", since)
        answered = next(line for line in self.session.errors[since:].splitlines() if line.startswith(f"{text}: "))
        if not answered.startswith(f"{text}: {answer}"):
            self.fail(f"{self.session.errors}\nmdl-inject {states(self.session.process.pid)}\nthe program {states(self.program.pid)}")
        return answered

    def samples(self):
        """Each sample, {(metric, focus): value}."""
        out = collections.OrderedDict()
        for line in self.session.lines:
            out.setdefault(line["time_ns"], {})[line["metric"], line["focus"]] = line["value"]
        return list(out.values())

    def lives(self, key, same):
        """For each time that a request was there: the growth of `same` meanwhile, and its own last value."""
        out, before, start = [], None, None
        for sample in self.samples():
            if key in sample and start is None:
                start = before
            if key not in sample and start is not None:
                out.append((before[same] - start[same], before[key]))
                start = None
            before = sample
        if start is not None:
            out.append((before[same] - start[same], before[key]))
        return out

    def check_lives(self, key, same, times):
        lives = self.lives(key, same)
        self.assertEqual(len(lives), times, f"{key}: {lives}")
        for growth, value in lives:
            self.assertEqual(value, growth, key)
        return lives


class Changes(Commanded):
    def begin(self, *requests, threads="4", options=(), text=METRICS):
        self.program = self.start("changing", threads)
        self.before = self.remember(self.program.pid)
        plan = self.compile_text(CONSTRAINTS + tag_by_argument("t_message") + text)
        self.open(self.program.pid, plan, *requests, options=options)

    def finish(self):
        """The last sample, and the truth of the same moment."""
        truth = self.program.ask("pause", "paused")
        self.assert_stopped_well(self.session)
        self.assertEqual(truth["wrong"], 0)
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)
        return truth, {key: line["value"] for key, line in self.session.final().items()}

    def test_fifty_changes_at_full_load(self):
        """New windows, windows of another shape, flags and timers; every request is exact all the time."""
        self.begin(f"{WORKS}", f"{WORKS}@{DEEP}", OUTERS, text=METRICS + TIMED)
        self.program.ask("start", "running")
        turns = [DEEPS, TINIES, RETURNS, f"{WORKS}@{OUTER}", f"{WORKS}@{PROGRAM}", f"{TINIES}@{DEEP}", "took"]
        there = []
        for turn in range(50):
            if len(there) == 4:
                self.command(f"remove {there.pop(0)}")
            else:
                there.append(turns[0])
                turns.append(turns.pop(0))
                self.command(f"add {there[-1]}")
            self.session.next_sample()
        truth, last = self.finish()
        self.assertEqual(last[WORKS, ""], truth["work"])
        self.assertEqual(last[OUTERS, ""], truth["outer"])
        self.assertEqual(last[WORKS, DEEP], truth["inside"])
        self.assertEqual([line for line in self.session.lines if line["anomalies"]] if "anomalies" in
                         self.session.lines[-1] else [], [])

    def begin_armed(self, *requests):
        names = {"befores": "preInsn", "afters": "postInsn", "laters": "postInsn"}
        self.begin(*requests, options=("--max-pause", "500"),
                   text=METRICS + "".join(CALLS.format(name=name, where=where) for name, where in names.items()))
        self.program.ask("start", "running")

    def check_laters(self, times):
        """Those in flight come back to the code behind them: each of four threads may have three at either end."""
        lives = self.lives(("laters", ""), ("befores", ""))
        self.assertEqual(len(lives), times)
        for grown, own in lives:
            self.assertLessEqual(abs(own - grown), 2 * 4 * 3)

    def test_calls_that_stay_armed(self):
        self.begin_armed("befores", "afters")
        for _ in range(10):
            for change in ("add laters", f"add {DEEPS}", "remove laters", f"remove {DEEPS}"):
                self.command(change)
                self.session.next_sample()
        truth, last = self.finish()
        self.assertEqual((last["befores", ""], last["afters", ""]), (truth["branch"], truth["branch"]))
        self.check_laters(10)
        for sample in self.samples():
            self.assertLessEqual(sample["afters", ""], sample["befores", ""])
            self.assertGreaterEqual(sample["afters", ""], sample["befores", ""] - 4 * 3)

    def test_calls_that_come_to_be_armed(self):
        """And are no more: what was armed then is not taken for a call of later."""
        self.begin_armed("befores")
        for _ in range(10):
            for change in ("add laters", f"add {DEEPS}", "remove laters", f"remove {DEEPS}"):
                self.command(change)
                self.session.next_sample()
        truth, last = self.finish()
        self.assertEqual(last["befores", ""], truth["branch"])
        self.check_laters(10)

    def test_values_from_one_change_to_the_other(self):
        """At full load: what came counts just what another request counted meanwhile that was there all the time."""
        self.begin(WORKS, OUTERS)
        self.program.ask("start", "running")
        for _ in range(4):
            for request in (RETURNS, TINIES, f"{WORKS}@{PROGRAM}"):
                self.command(f"add {request}")
            self.session.next_sample()
            for request in (TINIES, f"{WORKS}@{PROGRAM}", RETURNS):
                self.command(f"remove {request}")
            self.session.next_sample()
        truth, last = self.finish()
        self.assertEqual(last[WORKS, ""], truth["work"])
        self.check_lives((WORKS, PROGRAM), (WORKS, ""), 4)
        for growth, value in self.lives((TINIES, ""), (WORKS, "")) + self.lives((RETURNS, ""), (WORKS, "")):
            self.assertLessEqual(abs(growth - value), 4)  # a call of t_work each thread is under way

    def test_a_flag_of_frames_that_are_active(self):
        """A constraint that comes counts frames of now; one that stays is not counted twice."""
        self.begin(WORKS, f"{WORKS}@{OUTER}")
        self.program.ask("hold 5", "held")
        self.command(f"add {WORKS}@{DEEP}")
        self.command(f"add {DEEPS}")
        self.program.ask("let", "out")
        truth, last = self.finish()
        self.assertEqual(truth["inside"], 5)
        self.assertEqual(last, {(WORKS, ""): 5, (WORKS, OUTER): 0, (WORKS, DEEP): 5, (DEEPS, ""): 0})

    def test_a_flag_that_stays_up(self):
        self.begin(WORKS, f"{WORKS}@{DEEP}")
        self.program.ask("hold 5", "held")
        for _ in range(3):
            self.command(f"add {DEEPS}")
            self.command(f"add {RETURNS}")
            self.command(f"remove {DEEPS}")
            self.command(f"remove {RETURNS}")
        self.program.ask("let", "out")
        self.program.ask("start", "running")
        truth, last = self.finish()
        self.assertEqual(last, {(WORKS, ""): truth["work"], (WORKS, DEEP): truth["inside"]})

    def test_a_flag_comes_again(self):
        """The room of a flag that was up when it went is clean for the next one."""
        self.begin(WORKS)
        self.program.ask("hold 5", "held")
        for focus in (DEEP, DEEP, OUTER, DEEP):
            self.command(f"add {WORKS}@{focus}")
            self.command(f"remove {WORKS}@{focus}")
        self.program.ask("let", "out")
        for focus in (OUTER, DEEP):
            self.command(f"add {WORKS}@{focus}")
        self.program.ask("start", "running")
        time.sleep(0.2)
        truth, last = self.finish()
        self.assertEqual(last[WORKS, DEEP], truth["inside"] - 5)
        self.assertEqual(last[WORKS, OUTER], 7 * truth["outer"])

    def test_a_focus_that_is_typed_in_another_way(self):
        self.begin(WORKS)
        self.command(f"add {WORKS}@/Message/2")
        self.program.ask("start", "running")
        self.assertIn("is measured", self.command(f"add {WORKS}@/Message/2", "refused: "))
        self.session.next_sample()
        self.command(f"add {WORKS}@/SyncObject/Message/3")
        self.command(f"remove {WORKS}@/Message/3")
        truth, last = self.finish()
        self.assertEqual(last, {(WORKS, ""): truth["work"], (WORKS, "/SyncObject/Message/2"): truth["rounds"]})

    def test_a_timer_that_stays(self):
        """It runs on over changes: its time is never less than before, and not more than has passed."""
        self.begin("took", text=METRICS + TIMED, threads="1")
        self.program.ask("start", "running")
        began = time.monotonic_ns()
        for request in (WORKS, f"{TINIES}@{DEEP}", OUTERS):
            self.command(f"add {request}")
            self.command(f"remove {request}")
        _, last = self.finish()
        took = [sample["took", ""] for sample in self.samples()]
        self.assertEqual(took, sorted(took))
        self.assertGreater(last["took", ""], 0)
        self.assertLess(last["took", ""], time.monotonic_ns() - began)

    def test_keys_stay(self):
        self.begin(f"{WORKS}@/Message/*", WORKS)
        self.program.ask("start", "running")
        for request in (OUTERS, f"{WORKS}@{DEEP}", RETURNS):
            self.command(f"add {request}")
            self.command(f"remove {request}")
        truth, last = self.finish()
        self.assertEqual(last, {(WORKS, ""): truth["work"],
                                **{(WORKS, f"/SyncObject/Message/{tag}"): truth["rounds"] for tag in (1, 2, 3, 4)}})

    def check_sums(self, metric, same, late):
        """For each time that a request by key was there: what all its lines have, and the growth of `same`."""
        samples = collections.OrderedDict()
        for line in self.session.lines:
            sample = samples.setdefault(line["time_ns"], collections.Counter())
            if line["focus"]:
                continue
            sample[line["metric"]] += line["count"] if "count" in line else line["value"]
            sample[line["metric"], "lines"] += 1
        before, start, lives = None, None, []
        for sample in [*samples.values(), collections.Counter()]:
            if sample[metric, "lines"] and start is None:
                start = before
            elif start is not None and not sample[metric, "lines"]:
                lives.append((before[same] - start[same], before[metric]))
                start = None
            before = sample
        for grown, own in lives:
            self.assertGreater(own, 0)
            self.assertLessEqual(abs(grown - own), late, f"{metric}: {lives}")
        return len(lives)

    def test_keys_come_and_go(self):
        """With their tables, at full load: all lines of one together have what another request counted meanwhile."""
        self.begin(WORKS, RETURNS, text=METRICS + KEYED)
        self.program.ask("start", "running")
        sizes = []
        for _ in range(5):
            self.command("add callers")
            self.command("add took_by")
            self.session.next_sample()
            self.command("remove callers")
            self.command("remove took_by")
            sizes.append(sum(one.end - one.start for one in process_text.leftovers(self.program.pid)))
        self.assertLess(max(sizes) - min(sizes), 1 << 20, "their tables are unmapped")
        self.program.ask("pause", "paused")
        self.command("add callers")
        self.command(f"add {WORKS}@/Message/*")
        first = self.program.ask("start", "running") and self.program.ask("pause", "paused")
        self.program.ask("start", "running")
        truth, last = self.finish()
        callers = collections.Counter()
        for line in self.session.lines:
            if line["metric"] == "callers" and line["time_ns"] == self.session.lines[-1]["time_ns"]:
                callers[line["key"][0].split("+")[0]] += line["value"]
        rounds = callers["t_deep"] // 4
        self.assertGreaterEqual(rounds, truth["rounds"] - first["rounds"])
        self.assertEqual(callers["t_outer"], 3 * rounds)
        self.assertEqual(sum(callers.values()), 11 * rounds)
        self.assertEqual([last[WORKS, f"/SyncObject/Message/{tag}"] for tag in (1, 2, 3, 4)], [rounds] * 4)
        self.assertEqual(last[WORKS, ""], truth["work"])
        self.assertEqual(self.check_sums("callers", WORKS, 0), 6)
        self.assertEqual(self.check_sums("took_by", RETURNS, 4), 5)  # those under way have no duration

    def test_calls_of_a_request_that_went(self):
        """A frame that another request saw begin, whose cell had the same place, has no duration."""
        self.begin(WORKS, text=METRICS + KEYED)
        for name in ("deep_took", "least"):
            self.command(f"add {name}")
        self.program.ask("hold 3", "held")
        self.command("remove deep_took")
        self.command("add deep_took")
        self.program.ask("let", "out")
        values = {}
        while not values.get("deep_took", {}).get("anomalies") and not values.get("deep_took", {}).get("count"):
            self.session.next_sample()
            values = {line["metric"]: line for line in self.session.lines[-3:]}
        self.assertEqual(values["deep_took"]["count"], 0)
        self.assertEqual(values["deep_took"]["anomalies"], 3)
        self.assertIsNone(values["least"]["value"])
        self.program.ask("hold 2", "held")
        self.program.ask("let", "out")
        self.program.ask("start", "running")
        while not values["least"]["count"]:  # a round
            self.session.next_sample()
            values = {line["metric"]: line for line in self.session.lines[-3:]}
        truth, _ = self.finish()
        values = {line["metric"]: line for line in self.session.lines[-3:]}
        self.assertEqual(values["deep_took"]["count"], truth["deep"] - 3)
        self.assertEqual((values["least"]["value"], values["least"]["count"]), (1, 4 * truth["rounds"]))

    def test_children_of_a_focus(self):
        """A line for each function: those that stay, in whose code others come and go; and those that come."""
        self.begin(f"{WORKS}@/Code/changing/t_*", WORKS)
        self.program.ask("start", "running")
        self.assertIn("is measured", self.command(f"add {WORKS}@{DEEP}", "refused: "))
        self.command(f"add {TINIES}@{DEEP}")  # the same flag as a child's
        self.command(f"add {TINIES}@{OUTER}")
        self.command(f"remove {TINIES}@{DEEP}")
        self.program.ask("pause", "paused")
        self.command(f"remove {WORKS}@/Code/changing/t_*")
        first = self.session.next_sample()
        self.command(f"add {WORKS}@/Code/changing/t_*")
        self.program.ask("hold 3", "held")
        self.program.ask("let", "out")
        self.program.ask("start", "running")
        truth, last = self.finish()
        before = list(itertools.takewhile(lambda sample: (WORKS, DEEP) in sample, self.samples()))[-1]
        self.assertEqual(before[WORKS, ""], first[WORKS, ""])
        insides = before[WORKS, DEEP]
        self.assertEqual(insides * 11, before[WORKS, ""] * 4)  # of each round's
        self.assertEqual(last[WORKS, DEEP], truth["inside"] - insides)
        self.assertEqual(last[WORKS, OUTER], 7 * (truth["outer"] - first[WORKS, ""] // 11))
        self.assertEqual(last[WORKS, ""], truth["work"])

    def test_many_threads(self):
        """Somebody is inside at each stop: they come out one by one."""
        self.begin(WORKS, f"{WORKS}@{OUTER}", threads="24")
        self.program.ask("start", "running")
        for _ in range(3):
            self.command(f"add {TINIES}")
            self.command(f"add {DEEPS}")
            self.command(f"remove {TINIES}")
            self.command(f"remove {DEEPS}")
        truth, last = self.finish()
        self.assertEqual(last, {(WORKS, ""): truth["work"], (WORKS, OUTER): 7 * truth["outer"]})

    def test_threads_that_end(self):
        """Their sums stay those of requests that stay, and are not those of requests that come."""
        self.begin(WORKS)
        for turn in range(5):
            self.command(f"add {WORKS}@{DEEP}")
            self.program.ask("hold 4", "held")
            self.program.ask("let", "out")
            values = self.session.next_sample()
            self.assertEqual(values, {(WORKS, ""): 4 * (turn + 1), (WORKS, DEEP): 4})
            self.command(f"remove {WORKS}@{DEEP}")
        truth, last = self.finish()
        self.assertEqual(last, {(WORKS, ""): truth["work"]})

    def test_refused(self):
        """Each with its reason, and nothing changes."""
        self.begin(WORKS, f"{WORKS}@{DEEP}")
        self.program.ask("start", "running")
        for text, why in (("add nothing", "the plan has no metric `nothing`"),
                          (f"add {WORKS}@/Code/changing/t_dep", "did you mean"),
                          (f"add {WORKS}", f"{WORKS} is measured"),
                          (f"remove {OUTERS}", f"{OUTERS} is not measured"),
                          ("more", "a command is"),
                          ("add a b", "a command is")):
            with self.subTest(text):
                self.assertIn(why, self.command(text, "refused: "))
        self.command(f"remove {WORKS}@{DEEP}")
        self.assertIn("a session has at least one request", self.command(f"remove {WORKS}", "refused: "))
        truth, last = self.finish()
        self.assertEqual(last, {(WORKS, ""): truth["work"]})

    def test_a_stop_that_would_be_too_long(self):
        """A change stops the process for no longer than an attach may, or is refused and changes nothing."""
        self.begin(WORKS, threads="1", options=["--max-pause", "5"])
        self.program.ask("hold 50000", "held")
        answer = self.command(f"add {DEEPS}", "refused: ")
        self.assertIn("would have to stand for more than 5 ms", answer)
        self.program.ask("let", "out")
        self.command(f"add {DEEPS}")
        self.program.ask("start", "running")
        self.command(f"remove {DEEPS}")
        truth, last = self.finish()
        self.assertEqual(last, {(WORKS, ""): truth["work"]})

    def test_consents_and_budgets_hold_for_what_comes(self):
        self.begin(WORKS, text=METRICS + DEAR + READING, options=["--budget", "50"])
        self.assertIn("--allow-reads", self.command("add peeks", "refused: "))
        self.assertIn("more than the budget of 50 ns", self.command("add dear", "refused: "))
        _, last = self.finish()
        self.assertEqual(set(last), {(WORKS, "")})

    def test_usage(self):
        for option in ("--follow-fork", "--await"):
            done = run(MDL_INJECT, "1", "plan.bin", "--commands", "x", option)
            self.assertEqual(done.returncode, 2)
            self.assertIn("--commands goes with neither", done.stderr)
        self.begin(WORKS)
        self.finish()
        self.program = self.start("changing")
        done = run(MDL_INJECT, self.program.pid, self.folder / "metrics.bin", "--commands", self.folder / "nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot read commands from", done.stderr)

    def test_a_point_that_the_audit_refuses(self):
        """A request that stays never had it, and loses nothing; one that has no other is refused."""
        self.begin("both", WORKS, text=METRICS + metric("both", ["t_work", "t_marked"]) + metric("marked", ["t_marked"]))
        self.program.ask("start", "running")
        for _ in range(2):
            self.command(f"add {DEEPS}")
            self.assertIn("marked cannot be measured: its points are refused",
                          self.command("add marked", "refused: "))
            self.command(f"remove {DEEPS}")
        truth, last = self.finish()
        self.assertEqual(last, {("both", ""): truth["work"], (WORKS, ""): truth["work"]})
        self.assertEqual({line["refused"] for line in self.session.lines if line["metric"] == "both"}, {1})
        self.assertIn("refused by the audit", self.session.errors)

    def test_a_plain_file_that_grows(self):
        program = self.start("changing")
        plan = self.compile_text(CONSTRAINTS + tag_by_argument("t_message") + METRICS)
        commands = self.folder / "plain"
        commands.write_text(f"# first\n\nadd {DEEPS}\nadd ")
        session = self.inject(program.pid, plan, "--commands", str(commands), "-m", WORKS).wait_inserted()
        session.said(f"add {DEEPS}: done")
        with commands.open("a") as more:
            more.write(f"{OUTERS}\n")
        session.said(f"add {OUTERS}: done")
        self.assert_stopped_well(session)
        self.assertEqual(set(session.final()), {(WORKS, ""), (DEEPS, ""), (OUTERS, "")})

    def test_detached_and_found_again(self):
        """What is left in the process is of the last generation only."""
        self.begin(WORKS, options=["--detach"])
        self.command(f"add {WORKS}@{DEEP}")
        self.command(f"add {DEEPS}")
        self.program.ask("hold 3", "held")
        self.program.ask("let", "out")
        self.assert_stopped_well(self.session)
        status = run(MDL_INJECT, "--status", self.program.pid)
        self.assertEqual((status.returncode, status.stderr), (0, ""))
        for text in (f"{WORKS} = 3", f"{WORKS}@{DEEP} = 3", f"{DEEPS} = 3", "3 requests"):
            self.assertIn(text, status.stdout)
        self.assertNotIn("in place", status.stdout)
        removed = run(MDL_INJECT, "--remove", self.program.pid)
        self.assertEqual((removed.returncode, removed.stderr), (0, ""))
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)


class Tight(Commanded):
    """Functions without room for a jump: for the stub of a punned one there is one place in all the memory."""

    def begin(self):
        self.program = self.start("tight")
        self.before = self.remember(self.program.pid)
        self.open(self.program.pid, self.compile_text(entries_and_returns(TIGHT)), *TIGHT_STAY)

    def values(self):
        return {metric: value for (metric, _), value in self.session.next_sample().items()}

    def check_change(self, more):
        """In rounds, whose handlers interrupt threads anywhere: the requests that stay, and those that came."""
        first, before = self.program.ask("pause", "done"), self.values()
        self.program.ask("start", "running")
        time.sleep(0.05)
        last, after = self.program.ask("pause", "done"), self.values()
        self.program.ask("start", "running")
        self.assertEqual(last["wrong"], 0)
        rounds = last["rounds"] - first["rounds"]
        self.assertGreater(rounds, 0)
        self.assertEqual(set(after), {*TIGHT_STAY, *more})
        self.assertEqual({name: after[name] - before[name] for name in after}, dict.fromkeys(after, rounds))
        self.assertEqual({after[name] for name in TIGHT_STAY}, {last["rounds"] - self.program.ready["rounds"]})

    def test_at_full_load(self):
        self.begin()
        self.program.ask("start", "running")
        there = []
        for turn in range(14):
            if len(there) == 3 or turn > 11:
                self.command(f"remove {there.pop(0)}")
            else:
                there.append(TIGHT_COME[turn % len(TIGHT_COME)])
                self.command(f"add {there[-1]}")
            self.check_change(there)
        self.program.ask("pause", "done")
        self.assert_stopped_well(self.session)
        self.assertEqual({line["refused"] for line in self.session.lines}, {0})
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.ask("go 100", "done")["wrong"], 0)
        self.assertEqual(self.program.end(), 7)


class Others(LiveTest):
    """Other programs, while a change a moment goes on."""

    def begin(self, name, text, *requests):
        self.program = self.start(name)
        self.before = self.remember(self.program.pid)
        plan = self.compile_text(CONSTRAINTS + text)
        self.commands = self.folder / "commands"
        self.commands.write_text("")
        named = [word for request in requests for word in ("-m", request)]
        self.session = self.inject(self.program.pid, plan, "--commands", str(self.commands), *named,
                                   interval="0.3").wait_inserted()

    def change(self, *texts):
        """Without waiting for the answers."""
        with self.commands.open("a") as commands:
            commands.write("".join(text + "\n" for text in texts))

    def finish(self):
        self.assert_stopped_well(self.session)
        self.assertNotIn("refused", self.session.errors)
        self.assert_untouched(self.program.pid, self.before)
        return {key: line["value"] for key, line in self.session.final().items()}

    def test_threads_that_come_and_go(self):
        self.begin("churn", metric("work", ["t_work"], constraints=["procedure", "module"]) + metric("outer", ["t_outer"]),
                   "work", "work@/Code/churn/t_outer")
        for _ in range(4):
            self.change("add outer", "remove outer", "add work@/Code/churn", "remove work@/Code/churn")
            done = self.program.ask("go 2000")
        values = self.finish()
        self.assertEqual((values["work", ""], values["work", "/Code/churn/t_outer"]),
                         (done["work"], done["outer_work"]))

    def test_what_waits_at_tail_jumps(self):
        """Flags of functions that have ended with a jump: those that stay fall at the right return, and those that go
        do not go before."""
        self.begin("tails-gcc-now", metric("events", ["t_event"], constraints=["procedure"]), "events",
                   *(f"events@/Code/tails-gcc-now/{name}" for name in ("t_direct", "t_chain", "t_middle", "t_even")))
        self.program.ask("go 1")  # binds the linkage table
        self.session.next_sample()
        first, before = self.program.ask("go 1"), self.session.next_sample()
        self.program.send("go 60")
        for name in ("t_abroad", "t_deep", "t_branch"):
            self.change(f"add events@/Code/tails-gcc-now/{name}", f"remove events@/Code/tails-gcc-now/{name}")
        self.session.said("remove events@/Code/tails-gcc-now/t_branch: ")
        last = self.program.answer("done")
        values = self.finish()
        for name in ("t_direct", "t_chain", "t_middle", "t_even"):
            key = "events", f"/Code/tails-gcc-now/{name}"
            self.assertEqual(values[key] - before[key], last[name][0] - first[name][0], name)

    def test_histograms_stay(self):
        """With those of threads that have ended; four may come, for a fifth there is no room."""
        self.begin("observed", SIZES.removeprefix(CONSTRAINTS) + metric("calls", ["t_size"], constraints=["module"]),
                   "sizes", "sizes@/Thread/*")
        for _ in range(3):
            self.change("add calls", "add calls@/Code/observed", "remove calls", "remove calls@/Code/observed")
            truth = self.program.ask("go 20000")
        for focus in ("observed", "observed/t_size", "libc.so.6", "observed/main"):
            self.change(f"add sizes@/Code/{focus}")
            self.session.read_until_said(f"sizes@/Code/{focus}: done")
        before, truth = truth, self.program.ask("go 20000")
        self.change("add sizes@/Code/libc.so.6/malloc")
        self.session.read_until_said("malloc: refused: the blocks of the threads have no room left")
        self.assertEqual(self.session.errors.count(": done"), 16)
        self.assert_stopped_well(self.session)
        lines = self.session.final()
        for focus in ("/Code/observed", "/Code/observed/t_size"):
            came = lines.pop(("sizes", focus))
            self.assertEqual(came["count"], truth["count"] - before["count"])
            self.assertEqual((came["sum"] - truth["sum"] + before["sum"]) % (1 << 64), 0)
        for focus in ("/Code/libc.so.6", "/Code/observed/main"):
            lines.pop(("sizes", focus))
        self.assertEqual((lines["sizes", ""]["count"], lines["sizes", ""]["sum"]), (truth["count"], truth["sum"]))
        self.assertEqual(sum(count for _, count in lines["sizes", ""]["buckets"]), truth["count"])
        self.assertEqual(sum(line["count"] for (_, focus), line in lines.items() if focus), truth["count"])
        self.assert_untouched(self.program.pid, self.before)

    def test_frames_that_vanish(self):
        """The first flag comes with a change, and with it what lowers it when an exception takes its frame."""
        self.begin("within", metric("g", ["t_g"], constraints=["procedure"]), "g")
        self.change("add g@/Code/within/t_h")
        self.session.said("t_h: done")
        start = self.program.ask("go 10")
        self.program.ask("throw 100")
        self.program.ask("jump 100")
        self.program.ask("wake")
        last = self.program.ask("go 10")
        values = self.finish()
        self.assertEqual(values["g", ""], last["total"] - self.program.ready["total"])
        self.assertEqual(values["g", "/Code/within/t_h"], last["inside"] - self.program.ready["inside"])
        self.assertGreater(last["inside"], start["inside"])

    def test_the_process_ends_meanwhile(self):
        """Whatever happens first, it is said, and the session ends."""
        for delay in (0, 0.01, 0.02, 0.04, 0.08):
            with self.subTest(delay=delay):
                self.begin("churn", metric("work", ["t_work"], constraints=["procedure"]), "work")
                self.program.ask("go 100")
                self.change(*["add work@/Code/churn/t_outer", "remove work@/Code/churn/t_outer"] * 3)
                time.sleep(delay)
                self.assertEqual(self.program.end(), 0)
                self.assertEqual(self.session.wait(), 0, self.session.errors)
                self.assertIn("has ended", self.session.errors)


class Libraries(LiveTest):
    def test_a_library_that_came_and_one_that_went(self):
        """What was added for a library is a part of the next generation, and what is gone is of none."""
        program = self.start("loads")
        plan = self.compile_text(metric("all_calls", ["t_loader_work", "t_plugin_work"]) +
                                 metric("loader_calls", ["t_loader_work"]) +
                                 metric("plugin_calls", ["t_plugin_work"]))
        commands = self.folder / "commands"
        os.mkfifo(commands)
        session = self.inject(program.pid, plan, "--commands", str(commands), "-m", "all_calls").wait_inserted()

        def command(text, answer="done"):
            with commands.open("w") as file:
                file.write(text + "\n")
            session.said(f"{text}: {answer}")

        command("add plugin_calls", "refused: ")
        for _ in range(2):
            program.ask("open 0")
            session.said("libplugin.so was loaded: inserted")
            program.ask("open 10")
            command("add plugin_calls")
            command("add loader_calls")
            program.ask("open 10")
            command("remove plugin_calls")
            command("remove loader_calls")
            program.ask("close")
            program.ask("close")
            calls = program.ask("close")["calls"]
            command("add loader_calls")
            command("remove loader_calls")
        program.ask("open 0")
        session.said("libplugin.so was loaded: inserted")
        program.ask("open 5")
        self.assert_stopped_well(session)
        self.assertEqual(session.final()["all_calls", ""]["value"], 2 * calls + 10)
        counts = {}
        for line in session.lines:
            counts[line["metric"]] = max(line["value"], counts.get(line["metric"], 0))
        self.assertEqual(counts["plugin_calls"], 10)
        self.assertEqual(process_text.leftovers(program.pid), [])
        self.assertEqual(program.end(), 0)


class Killed(LiveTest):
    """At its calls during a change: windows of one generation, of the other, or none."""

    WRITES = None  # set by main: which of all, as a slice
    OTHERS = 5  # calls of all kinds
    PROGRAM, PAUSED = ("changing", "3600", "3"), "paused"
    TEXT = CONSTRAINTS + tag_by_argument("t_message") + METRICS
    REQUESTS = (WORKS, OUTERS, f"{WORKS}@{DEEP}")
    COMMANDS = (f"add {DEEPS}", f"add {WORKS}@{OUTER}", f"remove {OUTERS}", f"remove {WORKS}@{DEEP}")

    def setUp(self):
        super().setUp()
        self.plan = self.compile_text(self.TEXT)
        self.commands = self.folder / "commands"
        self.commands.write_text("".join(f"{command}\n" for command in self.COMMANDS))
        self.program = self.start(*self.PROGRAM, alone=True)
        self.before = self.remember(self.program.pid)
        self.program.ask("start", "running")
        self.seen = collections.Counter()

    def strike(self, stop):
        report = self.folder / "report"
        done = run(PROGRAMS / "killer", report, stop, int(signal.SIGKILL), MDL_INJECT, "--no-separate",
                   self.program.pid, self.plan,
                   "--format", "ndjson", "-i", "0.05", "-d", "0.1", "--commands", self.commands,
                   *(word for request in self.REQUESTS for word in ("-m", request)), seconds=120)
        found = json.loads(report.read_text())
        report.unlink()
        return found, done.stderr

    def check(self, errors):
        with open(f"/proc/{self.program.pid}/status", encoding="ascii") as status:
            self.assertIn("TracerPid:\t0\n", status.read())
        status = run(MDL_INJECT, "--status", self.program.pid)
        self.assertEqual((status.returncode, status.stderr), (0, ""))
        requests = re.search(r"(\d+) requests", status.stdout)
        place = re.search(r"in place: (\d+) points, in (\d+) of (\d+)", status.stdout)
        self.seen[requests and f"{requests[1]} requests" + (", partly" if place else ""), errors.count(": done")] += 1
        removed = run(MDL_INJECT, "--remove", self.program.pid)
        self.assertEqual((removed.returncode, removed.stderr), (0, ""), status.stdout)
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.ask("pause", self.PAUSED)["wrong"], 0)
        self.program.ask("start", "running")

    def test_killed_while_requests_change(self):
        calm, errors = self.strike(0)
        self.assertEqual((calm["status"], errors.count(": done")), (0, 4), errors)
        first = random.randrange(1, 48)
        writes = range(1, calm["writes"] + 1)[self.WRITES or slice(first, None, 48)]
        others = random.sample(range(calm["first"], calm["stops"]), self.OTHERS)
        for stop in [*(f"writes:{n}" for n in writes), *others]:
            with self.subTest(stop=stop):
                _, errors = self.strike(stop)
                try:
                    self.check(errors)
                except BaseException:
                    run(MDL_INJECT, "--remove", self.program.pid)
                    raise
        print(f"{calm['writes']} writes: {dict(self.seen)}", flush=True)
        self.assertTrue(any(done for _, done in self.seen))
        self.program.ask("pause", self.PAUSED)
        self.assertIn(self.program.end(), (0, 7))


class KilledKeyed(Killed):
    """Likewise, where tables of keys come and go."""

    TEXT = Killed.TEXT + KEYED
    COMMANDS = ("add callers", "add took_by", "remove callers", "remove took_by")


class KilledTight(Killed):
    """Likewise, where the next code has its stubs in the pages of the old one's."""

    PROGRAM, PAUSED = ("tight", "3600"), "done"
    TEXT, REQUESTS = entries_and_returns(TIGHT), TIGHT_STAY
    COMMANDS = [f"{what} {request}" for what in ("add", "remove") for request in TIGHT_COME[:2]]


if __name__ == "__main__":
    if sys.argv[1:2] == ["all"]:  # the kills at each write, of these every M-th from the N-th: all N/M
        number, step = (sys.argv.pop(2) if len(sys.argv) > 2 else "1/1").split("/")
        Killed.WRITES = slice(int(number) - 1, None, int(step))
        sys.argv.pop(1)
    unittest.main(verbosity=2)
