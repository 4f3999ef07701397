"""/Message/* and its kind: one line for each key that is seen, each what its own request would have counted."""

import unittest

from harness import MDL_INJECT, LiveTest, metric, run

HITS = "hits"
CONSTRAINTS = """
resourceList receivers is procedure { items { "t_recv" }; flavor { unix }; }
resourceList deep is procedure { items { "t_deep" }; flavor { unix }; }
constraint tag /SyncObject/Message/* is counter {
  foreach f in receivers {
    append preInsn f.entry (* if ($arg[1] == $constraint[0]) tag += 1; *)
    prepend preInsn f.return (* if (tag > 0) tag -= 1; *)
  }
}
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

    def test_what_is_not_recognized(self):
        program = self.start("messages")
        plan = self.compile_text(REFUSED + metric(HITS, ["t_hit"], constraints=["odd"]))
        done = run(MDL_INJECT, program.pid, plan, "-m", f"{HITS}@/Message/*", "-d", "0")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("$constraint[0] is used other than by `==`", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
