"""/Message/* and its kind: one line for each key that is seen, each what its own request would have counted."""

import json
import re
import unittest

from harness import CONSTRAINTS as HARNESS_CONSTRAINTS
from harness import MDL_INJECT, LiveTest, metric, run, tag_by_argument

HITS = "hits"
CONSTRAINTS = tag_by_argument("t_recv", 1) + """
resourceList receivers is procedure { items { "t_recv" }; flavor { unix }; }
resourceList deep is procedure { items { "t_deep" }; flavor { unix }; }
constraint block /Memory/* is counter {
  foreach f in receivers {
    append preInsn f.entry (* if ($arg[0] >= 1048576 && $arg[0] < 1054976 && ($arg[0] - 1048576) / 64 == $constraint[0]) block = 1; *)
    prepend preInsn f.return (* block = 0; *)
  }
}
"""
USER_MAP = """
resourceList deep is procedure { items { "t_deep" }; flavor { unix }; }
constraint parity /SyncObject/Message/* is counter {
  foreach f in deep {
    append preInsn f.entry (* if (($arg[0] & 15) * 10 - 5 == $constraint[0] && $arg[0] != $arg[1]) parity += 1; *)
    prepend preInsn f.return (* parity = 0; *)
  }
}
"""
REFUSED = """
resourceList receivers is procedure { items { "t_recv" }; flavor { unix }; }
constraint odd /SyncObject/Message/* is counter {
  foreach f in receivers { append preInsn f.entry (* if ($arg[1] > $constraint[0]) odd = 1; *) }
}
"""
TAGS, BLOCKS = "/SyncObject/Message/", "/Memory/"


def grown(before, now):
    """{key: how much it grew}, of the program's answers; keys that were not there before count from 0."""
    return {key: value - before.get(key, 0) for key, value in now.items()}


class Keys(LiveTest):
    def begin(self, *options, text=CONSTRAINTS, constraints=("tag", "block"), **named):
        self.program = self.start("messages")
        self.before = self.remember(self.program.pid)
        plan = self.compile_text(text + metric(HITS, ["t_hit"], constraints=constraints))
        self.session = self.inject(self.program.pid, plan, *options, **named).wait_inserted()

    def values(self, stem):
        """{key: value} of the last sample."""
        return {focus.removeprefix(stem): line["value"] for (_, focus), line in self.session.final().items()
                if focus.startswith(stem)}

    def finish(self, last, tags=True, blocks=True):
        self.assert_stopped_well(self.session)
        if tags:
            self.assertEqual(self.values(TAGS), grown(self.program.ready["tags"], last["tags"]))
        if blocks:
            self.assertEqual(self.values(BLOCKS), grown(self.program.ready["blocks"], last["blocks"]))
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)

    BOTH = ("-m", f"{HITS}@/Message/*", "-m", f"{HITS}@/Memory/*", "-m", HITS)

    def test_tags_and_blocks(self):
        self.begin(*self.BOTH)
        last = self.program.ask("go 2000")
        self.assertGreater(len(last["tags"]), 300)
        self.finish(last)
        self.assertEqual(self.session.final()[HITS, ""]["value"], last["hits"] - self.program.ready["hits"])

    def test_status(self):
        """What --status prints as a total is what it has as JSON."""
        self.begin(*self.BOTH)
        self.program.ask("go 200")
        text, rows = (run(MDL_INJECT, "--status", self.program.pid, *options).stdout
                      for options in ([], ["--format", "json"]))
        values = {row["focus"]: row["value"] for row in json.loads(rows)[0]["requests"]}
        self.assertEqual(len(values), 3)
        for focus, value in values.items():
            self.assertRegex(text, rf"{re.escape(focus)}(: by key, in all)? = {value} ")
        self.finish(self.program.ask("go 1"))

    def test_exceptions(self):
        self.begin(*self.BOTH)
        self.program.ask("throw 500")
        self.finish(self.program.ask("go 100"))

    def test_signals_that_receive(self):
        self.begin(*self.BOTH)
        self.program.ask("raise 500")
        self.finish(self.program.ask("go 100"))

    def test_as_one_request_each(self):
        alone = ["0", "1", "17", "-1", str(-2 ** 63), str(2 ** 63 - 1), "16777216", "31337"]
        plan = CONSTRAINTS + metric("alone", ["t_hit"], constraints=["tag"])
        requests = [word for tag in alone for word in ("-m", f"alone@/Message/{tag}")]
        self.begin("-m", f"{HITS}@/Message/*", "-m", HITS, *requests, text=plan)
        for command in ("go 500", "throw 500", "raise 500"):
            last = self.program.ask(command)
        self.assert_stopped_well(self.session)
        final = self.session.final()
        for tag in alone:
            together = final.get((HITS, TAGS + tag), {"value": 0})["value"]
            self.assertEqual(together, final["alone", TAGS + tag]["value"], tag)
        self.assertEqual(final["alone", TAGS + "31337"]["value"], 0)
        self.assert_untouched(self.program.pid, self.before)

    def test_values_only_grow(self):
        self.begin(*self.BOTH, interval="0.02")
        self.finish(self.program.ask("go 5000"))
        last = {}
        for line in self.session.lines:
            self.assertGreaterEqual(line["value"], last.get(line["focus"], 0), line["focus"])
            last[line["focus"]] = line["value"]

    def test_more_keys_than_allowed(self):
        self.begin("-m", f"{HITS}@/Message/*", "-m", HITS, "--max-keys", "100")
        self.program.ask("many 250")
        self.assert_stopped_well(self.session)
        values = self.values(TAGS)
        self.assertEqual(len(values), 101)
        self.assertEqual(values.pop("?"), 300)
        self.assertEqual(values, {str(i * 7919): 2 for i in range(100)})

    def test_many_keys(self):
        self.begin("-m", f"{HITS}@/Message/*", "-m", HITS, interval="5")
        self.finish(self.program.ask("many 50000"), blocks=False)

    def test_a_map_of_the_user(self):
        self.begin("-m", f"{HITS}@/Message/*", "-m", HITS, text=USER_MAP, constraints=["parity"])
        self.program.ask("deep 6")
        self.assert_stopped_well(self.session)
        # Six are active at the innermost hit; the first return clears them all.
        self.assertEqual(self.values(TAGS), {str(i * 10 - 5): 1 for i in range(6)})

    def test_more_than_eight_active(self):
        self.begin("-m", f"{HITS}@/Message/*", "-m", HITS, text=USER_MAP, constraints=["parity"])
        self.program.ask("deep 11")
        self.assert_stopped_well(self.session)
        self.assertEqual(self.values(TAGS), {str(i * 10 - 5): 1 for i in range(8)})
        self.assertIn("more than 8 active keys 3 times", self.session.errors)
        self.assertEqual({line["anomalies"] for line in self.session.final().values()}, {3})

    def aggregates(self):
        """Metrics that fold over threads in every way, and the requests for them by tag."""
        text, requests = CONSTRAINTS, []
        for how in ("sum", "min", "max", "avg"):
            text += metric(f"hits_{how}", ["t_hit"], constraints=["tag"]).replace(
                "aggregateOperator sum", f"aggregateOperator {how}")
            requests += ["-m", f"hits_{how}@/Message/*"]
        return text, requests

    def test_threads_by_key(self):
        """min, max and avg over threads, and each thread's own value, of every tag."""
        text, requests = self.aggregates()
        self.begin("-m", f"{HITS}@/Message/*,/Thread/*", "-m", HITS, *requests, "-m", "hits_sum@/Thread/*", text=text)
        self.program.ask("go 300")
        last = self.program.ask("raise 300")
        self.assert_stopped_well(self.session)
        final = self.session.final()
        truth = grown(self.program.ready["tags"], last["tags"])
        threads = {focus for (name, focus) in final if name == "hits_sum" and focus.startswith("/Thread/")}
        self.assertGreaterEqual(len(threads), 9)
        for tag, total in truth.items():
            stem = f"{TAGS}{tag}"
            own = [line["value"] for (name, focus), line in final.items()
                   if name == HITS and focus.startswith(stem + ",/Thread/")]
            self.assertEqual(sum(own), total, tag)
            own += [0] * (len(threads) - len(own))
            got = {how: final[f"hits_{how}", stem]["value"] for how in ("sum", "min", "max", "avg")}
            self.assertEqual(got, {"sum": total, "min": min(own), "max": max(own), "avg": total // len(own)}, tag)
        self.assert_untouched(self.program.pid, self.before)

    def test_one_thread_by_key(self):
        program = self.start("messages")
        plan = self.compile_text(CONSTRAINTS + metric(HITS, ["t_hit"], constraints=["tag"]))
        session = self.inject(program.pid, plan, "-m", f"{HITS}@/Thread/{program.pid},/Message/*",
                              "-m", HITS).wait_inserted()
        program.ask("go 100")  # in other threads
        program.ask("many 5")
        self.assert_stopped_well(session)
        values = {focus: line["value"] for (_, focus), line in session.final().items() if focus}
        self.assertEqual(values, {f"/Thread/{program.pid},{TAGS}{i * 7919}": 2 for i in range(5)})

    def test_keys_inside_a_function(self):
        text = HARNESS_CONSTRAINTS + CONSTRAINTS
        self.begin("-m", f"{HITS}@/Code/messages/t_*,/Message/*", "-m", HITS, text=text,
                   constraints=["procedure", "tag"])
        last = self.program.ask("throw 300")
        self.assert_stopped_well(self.session)
        truth = grown(self.program.ready["tags"], last["tags"])
        self.assertEqual(self.values("/Code/messages/t_recv," + TAGS), truth)
        self.assertEqual(self.values("/Code/messages/t_hit," + TAGS), truth)
        self.assertEqual(set(self.values("/Code/messages/t_deep," + TAGS).values()), {0})
        self.assert_untouched(self.program.pid, self.before)

    def test_an_array_by_blocks(self):
        """The paper's map: base, length and block size of an array; addresses outside belong to no block."""
        self.begin("-m", f"{HITS}@/Memory/*", "-m", HITS)
        last = self.program.ask("go 300")
        self.assert_stopped_well(self.session)
        values = {int(block): value for block, value in self.values(BLOCKS).items()}
        self.assertEqual({str(block): value for block, value in values.items()},
                         grown(self.program.ready["blocks"], last["blocks"]))
        self.assertTrue(all(0 <= block < 128 for block in values))

    def test_timers_by_key_are_refused(self):
        program = self.start("messages")
        timer = metric("spent", ["t_hit"], constraints=["tag"]).replace("base is counter", "base is wallTimer")
        timer = timer.replace("(* spent++; *)", "(* startWallTimer(spent); stopWallTimer(spent); *)")
        plan = self.compile_text(CONSTRAINTS + timer)
        done = run(MDL_INJECT, program.pid, plan, "-m", "spent@/Message/*", "-d", "0")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, "a timer that runs when a key is lowered.*name one resource")

    def test_a_condition_that_is_never_true(self):
        """No point is left, and the value is 0."""
        text = """
constraint five /SyncObject/Message/* is counter {
  foreach f in receivers {
    append preInsn f.entry (* if ($constraint[0] == 5) five += 1; *)
    prepend preInsn f.return (* if ($constraint[0] == 5) five -= 1; *)
  }
}
"""
        plain = metric("never", ["t_hit"]).replace("(* never++; *)", "(* if ($globalId == 1) never++; *)")
        self.begin("-m", "never", "-m", f"{HITS}@/Message/5", "-m", f"{HITS}@/Message/6",
                   text=CONSTRAINTS + text + plain, constraints=["five"])
        last = self.program.ask("go 50")
        self.assert_stopped_well(self.session)
        final = self.session.final()
        self.assertEqual(final["never", ""]["value"], 0)
        self.assertEqual(final[HITS, TAGS + "6"]["value"], 0)
        self.assertGreater(final[HITS, TAGS + "5"]["value"], 0)
        self.assertLess(final[HITS, TAGS + "5"]["value"], last["hits"])
        self.assertEqual({line["refused"] for line in final.values()}, {0})
        self.assert_untouched(self.program.pid, self.before)

    def test_nothing_but_a_condition_that_is_never_true(self):
        plan_text = metric("never", ["t_hit"]).replace("(* never++; *)", "(* if ($globalId == 1) never++; *)")
        self.program = self.start("messages")
        self.before = self.remember(self.program.pid)
        self.session = self.inject(self.program.pid, self.compile_text(plan_text)).wait_inserted()
        self.program.ask("go 50")
        self.assert_stopped_well(self.session)
        self.assertEqual(self.session.final()["never", ""]["value"], 0)
        self.assert_untouched(self.program.pid, self.before)

    def test_what_is_not_recognized(self):
        program = self.start("messages")
        plan = self.compile_text(REFUSED + metric(HITS, ["t_hit"], constraints=["odd"]))
        done = run(MDL_INJECT, program.pid, plan, "-m", f"{HITS}@/Message/*", "-d", "0")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("$constraint[0] is used other than by `==`", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
