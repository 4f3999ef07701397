"""Functions that a compiler has made of others are not counted with these, and it is said that they are there. One that
stands for several is counted as that, which is said, too."""

import unittest

from harness import LiveTest

NOTE = "further functions of some that are measured"
FOLDED = "functions that have the same code are one, and all calls of it are counted"
COPY = "t_original.constprop.0.isra.0"
PART = "t_original.part.0"
ALONE = "t_lonely_one.isra.0"


class Clones(LiveTest):
    def measure(self, *queries):
        program = self.start("clones")
        before = self.remember(program.pid)
        session = self.inject(program.pid, *queries, "count read as first").wait_inserted()  # a line from the beginning
        program.ask("go 100")
        self.assert_stopped_well(session)
        self.assert_untouched(program.pid, before)
        self.folded = next((line for line in session.errors.splitlines() if FOLDED in line), "")
        values = {(line["metric"], line["focus"].split("/")[-1]): line["value"] for line in session.lines
                  if line["final"] and line["metric"] != "first"}
        return values, next((line for line in session.errors.splitlines() if NOTE in line), "")

    def test_of_a_name(self):
        values, note = self.measure("count t_original")
        self.assertEqual(values, {("count t_original", ""): 100})
        self.assertIn(COPY, note)
        self.assertIn(PART, note)
        self.assertNotIn(ALONE, note)

    def test_one_that_stands_for_two(self):
        for name in ("t_first", "t_second"):
            self.assertEqual(self.measure(f"count {name}")[0], {(f"count {name}", ""): 300})
            self.assertRegex(self.folded, "t_first is t_second$|t_second is (__)?t_first")
        self.measure("count t_original within t_second")
        self.assertIn("t_second", self.folded)
        for query in ("count t_original", "calls /Code/clones/*", "count memcpy"):
            self.measure(query)
            self.assertEqual(self.folded, "", query)

    def test_of_what_is_waited_for(self):
        self.assertIn(COPY, self.measure("count write, t_lonely_two within t_original")[1])

    def test_of_a_pattern_without_the_original(self):
        values, note = self.measure('count "*lonely_???"')
        self.assertEqual(values, {('count "*lonely_???"', "t_lonely_two"): 300})
        self.assertIn(ALONE, note)
        self.assertNotIn(COPY, note)

    def test_as_the_note_says(self):
        for query, focus in ((f'count t_original, "{COPY}", "{PART}" by function', COPY), ("count t_original*", COPY),
                             ("calls /Code/clones/*", ALONE)):
            with self.subTest(query):
                values, note = self.measure(query)
                self.assertEqual(values[query, focus], 300)
                self.assertEqual(note, "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
