"""Source files as names for their part of an object, as debug information has it."""

import unittest

from harness import MDL_INJECT, LiveTest, run

N = 1000
NOTE = "note: the compiler has inlined some calls of what is measured, and these are not counted"
LISTED = """
resourceList files is module { items { "sources_more.cpp", "nothing.cpp" }; flavor { unix }; }
resourceList functions is procedure { items { "sources.cpp/twin" }; flavor { unix }; }
metric listed {
  name "listed"; units Calls; aggregateOperator sum; style EventCounter; flavor { unix };
  base is counter { foreach m in files foreach f in m.funcs { append preInsn f.entry (* listed++; *) } }
}
metric one {
  name "one"; units Calls; aggregateOperator sum; style EventCounter; flavor { unix };
  base is counter { foreach f in functions { append preInsn f.entry (* one++; *) } }
}
"""


class Sources(LiveTest):
    def measure(self, flavor, plan, *options):
        program = self.start(f"sources-{flavor}")
        before = self.remember(program.pid)
        session = self.inject(program.pid, plan, *options).wait_inserted()
        program.ask(f"go {N}")
        self.assert_stopped_well(session)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)
        return {key: line["value"] for key, line in session.final().items()}

    def test_foci(self):
        for flavor in ("gcc-O2", "gcc-lto", "clang-O2"):
            with self.subTest(flavor):
                foci = {"/Code/sources.cpp/twin": 2, "/Code/sources_more.cpp/twin": 3, f"/Code/sources-{flavor}/twin": 5,
                        "/Code/sources_more.cpp": 4, "/Code/sources.cpp/s_first": 1}
                counts = self.measure(flavor, self.compile("code.mdl"),
                                      *(word for focus in foci for word in ("-m", f"procedure_calls@{focus}")))
                self.assertEqual(counts, {("procedure_calls", focus): n * N for focus, n in foci.items()})

    def test_children(self):
        counts = self.measure("gcc-O2", self.compile("code.mdl"), "-m",
                              "procedure_calls@/Code/sources_more.cpp/*")
        self.assertEqual({focus: count for (_, focus), count in counts.items()},
                         {"/Code/sources_more.cpp/_ZL4twinl": 3 * N, "/Code/sources_more.cpp/_Z7s_therev": 4 * N})  # with what it calls

    def test_lists(self):
        self.assertEqual(self.measure("gcc-O2", self.compile_text(LISTED)),
                         {("listed", ""): 4 * N, ("one", ""): 2 * N})

    def test_a_file_that_is_not_there(self):
        program = self.start("sources-gcc-O2")
        session = self.inject(program.pid, self.compile("code.mdl"), "-m", "procedure_calls@/Code/nobody.cpp")
        self.assertEqual(session.wait(), 1, session.errors)
        self.assertIn("has no object `nobody.cpp` and no debug information that has such a source file", session.errors)
        self.assertEqual(program.end(), 0)

    def test_an_inlined_function(self):
        """The message names who holds it, in all objects and in one that was named. (GCC's LTO does not note it.)"""
        for flavor in ("gcc-O2", "clang-O2"):
            with self.subTest(flavor):
                program = self.start(f"sources-{flavor}")
                for plan, focus in ((self.compile("code.mdl"), f"procedure_calls@/Code/sources-{flavor}/s_keep"),
                                    (self.compile_text(LISTED.replace("sources.cpp/twin", "s_keep")), "one")):
                    session = self.inject(program.pid, plan, "-m", focus)
                    self.assertEqual(session.wait(), 1, session.errors)
                    self.assertRegex(session.errors, "s_keep.*; the compiler has inlined it into `(s_there|main)`"
                                                     ", and calls of it cannot be counted")
                self.assertEqual(program.end(), 0)

    def test_one_that_is_inlined_in_places(self):
        """It has code, which is counted; that copies are not is said as soon as it has been found out, but not of others."""
        for flavor in ("gcc-O2", "clang-O2"):
            with self.subTest(flavor):
                program = self.start(f"sources-{flavor}")
                session = self.inject(program.pid, "count s_both", "count s_first as first").wait_inserted()
                session.read_until_said(NOTE)
                program.ask(f"go {N}")
                self.assert_stopped_well(session)
                self.assertRegex(session.errors, f"{NOTE}: s_both into (main|.*lambda.*)\n")
                self.assertEqual({focus: line["value"] for focus, line in session.final().items()},
                                 {("count s_both", ""): N, ("first", ""): N})
                self.assertIn(NOTE, run(MDL_INJECT, program.pid, "count s_both within main", "--dry-run").stderr)
                self.assertNotIn(NOTE, run(MDL_INJECT, program.pid, f"calls /Code/sources-{flavor}/*", "--dry-run").stderr)
                self.assertEqual(program.end(), 0)

    def test_names_of_classes_and_templates(self):
        """As people write them: without the namespace, without template arguments, as a pattern."""
        program = self.start("sources-gcc-O2")
        for query, said in (("count serve", "has no serve; did you mean `shop::Clerk::serve`?"),
                            ("count /Code/sources-gcc-O2/serve", "; did you mean `shop::Clerk::serve`?"),
                            ("count shop::Shelf::put", "; the compiler has inlined it into `shop::Clerk::serve`"),
                            ("count shop::Shelf<*>::put", "; the compiler has inlined it into `shop::Clerk::serve`")):
            with self.subTest(query):
                session = self.inject(program.pid, query)
                self.assertEqual(session.wait(), 1, session.errors)
                self.assertIn(said, session.errors)
        # People read them as they are written, programs as the linker has them.
        session = self.inject(program.pid, "sum $args.nothing at shop::Clerk::serve")
        self.assertEqual(session.wait(), 1, session.errors)
        self.assertRegex(session.errors, r"\$args.nothing is not known in shop::Clerk::serve\(.*\): it has ")
        self.assertNotIn("_ZN", session.errors)
        looked = run(MDL_INJECT, program.pid, "calls /Code/sources-gcc-O2/shop::*::serve", "--dry-run").stdout
        self.assertIn("/Code/sources-gcc-O2/shop::Clerk::serve(", looked)
        self.assertNotIn("_ZN", looked)
        shown = {form: run(MDL_INJECT, program.pid, "calls /Code/sources-gcc-O2/shop::*::serve", "-d", "0", "--format", form).stdout
                 for form in ("table", "ndjson")}
        self.assertIn("/Code/sources-gcc-O2/shop::Clerk::serve(", shown["table"])
        self.assertIn('"focus":"/Code/sources-gcc-O2/_ZN', shown["ndjson"])
        session = self.inject(program.pid, "count shop::*::serve", "count s_first").wait_inserted()
        program.ask(f"go {N}")
        self.assert_stopped_well(session)
        self.assertEqual([line["value"] for line in session.final().values()], [N, N])
        self.assertEqual(program.end(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
