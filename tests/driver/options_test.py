"""mdlc's options beyond one file in, one file out: response files, the search for files, dependency
files, warnings by name, colours, fixes."""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

from mdlc_case import BAD, FAILED, GOOD, MDLC, SOURCE, USAGE, MdlcCase

OBSOLETE = GOOD.replace("m++;", "setCounter(m, 1 + 2); if (addCounter(m, subCounter(m, 1)) > 0) m++;")
ESCAPE = "\x1b["


class Options(MdlcCase):
    def test_response_files(self):
        self.source("all.rsp", "good.mdl\n  -o 'out file.bin' --emit=ir\n")
        self.run_mdlc("@all.rsp")
        self.assertIn("snippet m_entry", (self.folder / "out file.bin").read_text())
        self.source("inner.rsp", '-o "a\\"b.bin" -mcpu=x86-64')
        self.source("outer.rsp", "@inner.rsp good.mdl")
        self.run_mdlc("@outer.rsp")
        self.assertIn('a"b.bin', self.files())
        self.source("@odd.mdl", GOOD)
        self.run_mdlc("--check", "--", "@odd.mdl")

    def test_response_files_that_are_wrong(self):
        self.source("loop.rsp", "@loop.rsp @loop.rsp")
        self.source("open.rsp", "'good.mdl")
        (self.folder / "nul.rsp").write_bytes(b"good\0.mdl")
        (self.folder / "large.rsp").write_bytes(b" " * (5 << 20))
        for name, word in (("loop", "without end"), ("open", "does not end"), ("nul", "NUL"), ("large", "larger"),
                           ("missing", "No such file")):
            with self.subTest(name=name):
                self.assertIn(word, self.run_mdlc(f"@{name}.rsp", status=USAGE).stderr)
        self.assertIn("Is a directory", self.run_mdlc("@.", status=USAGE).stderr)

    def test_the_standard_metrics_are_found_by_name(self):
        self.run_mdlc("code.mdl", "redis.mdl", "-o", "a.bin")
        library = SOURCE / "stdlib-metrics"
        self.run_mdlc(library / "code.mdl", library / "redis.mdl", "-o", "b.bin")
        self.assertEqual((self.folder / "a.bin").read_bytes(), (self.folder / "b.bin").read_bytes())
        self.assertIn("cannot find 'no/code.mdl'", self.run_mdlc("no/code.mdl", status=FAILED).stderr)

    def test_use_takes_what_is_used(self):
        self.source("mine.mdl", GOOD.replace("base is", "constraint procedure; base is"))
        plan = self.run_mdlc("--use", "code.mdl", "mine.mdl", "--emit=ir", "-o", "-", "-Werror").stdout
        self.assertEqual(sorted(re.findall(r"^snippet (\w+)", plan, re.M)), ["m_entry", "procedure_entry", "procedure_return"])
        self.assertNotIn("procedure_calls", plan)
        self.run_mdlc("--use", "code.mdl", "good.mdl", "-Werror")
        self.run_mdlc("--use", "good.mdl", "good.mdl")
        self.assertIn("no input file", self.run_mdlc("--use", "code.mdl", status=USAGE).stderr)

    def test_many_small_files_take_little_memory(self):
        """A buffer of the largest size that a source may have, for each, took most of the compiler's time."""
        for i in range(64):
            self.source(f"{i}.mdl", re.sub(r"\bm\b", f"m{i}", GOOD))
        names = [f"{i}.mdl" for i in range(64)]
        code = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True);"
                "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        done = subprocess.run([sys.executable, "-c", code, MDLC, "--check", *names], cwd=self.folder, text=True,
                              capture_output=True, check=True)
        self.assertLess(int(done.stdout), 100_000, "KiB")

    def test_nearer_files_hide_the_standard_metrics(self):
        self.source("lib/code.mdl", BAD)
        self.run_mdlc("--check", "code.mdl")
        self.assertIn(f"lib{os.sep}code.mdl:3", self.run_mdlc("-I", "lib", "code.mdl", status=FAILED).stderr)
        self.source("code.mdl", GOOD)
        self.run_mdlc("-I", "lib", "--check", "code.mdl")

    def test_a_missing_file_says_where_it_was_looked_for(self):
        error = self.run_mdlc("-Ione", "-Itwo", "missing.mdl", status=FAILED).stderr
        for place in ("current folder", "one", "two", "stdlib-metrics"):
            self.assertIn(place, error)

    def test_dependency_file(self):
        self.source("with space.mdl", "")
        self.source("a$b#c.mdl", "")
        self.run_mdlc("good.mdl", "with space.mdl", "a$b#c.mdl", "code.mdl", "-o", "out.bin", "-MD", "out.d")
        text = (self.folder / "out.d").read_text()
        self.assertTrue(text.startswith("out.bin: \\\n  good.mdl \\\n  with\\ space.mdl \\\n  a$$b\\#c.mdl \\\n  /"), text)
        self.assertTrue(text.endswith("stdlib-metrics/code.mdl\n"), text)
        # make agrees about what the names are.
        if make := next((p for p in map(pathlib.Path, ("/usr/bin/make", "/bin/make")) if p.exists()), None):
            (self.folder / "Makefile").write_text("out.bin:\n\t@printf '<%s>' $^\ninclude out.d\n")
            (self.folder / "out.bin").unlink()
            done = subprocess.run([make, "-s"], cwd=self.folder, capture_output=True, text=True, check=True)
            self.assertIn("<good.mdl>", done.stdout)

    def test_no_dependency_file_for_errors(self):
        self.run_mdlc("bad.mdl", "-MD", "out.d", status=FAILED)
        self.assertNotIn("out.d", self.files())

    def test_warnings_by_name(self):
        self.assertIn("[W0303, -Wunused-value]", self.run_mdlc("warned.mdl").stderr)
        for quiet in ("-Wno-unused-value", "-Wno-W0303"):
            self.assertEqual(self.run_mdlc(quiet, "warned.mdl").stderr, "")
        self.assertIn("[W0303, -Werror=unused-value]", self.run_mdlc("-Werror", "warned.mdl", status=FAILED).stderr)
        self.run_mdlc("-Werror=unused-value", "warned.mdl", status=FAILED)
        self.run_mdlc("-Werror=set-flag", "warned.mdl")
        self.run_mdlc("-Werror", "-Wno-error=unused-value", "warned.mdl")
        self.run_mdlc("-Wno-error=unused-value", "-Werror", "warned.mdl", status=FAILED)
        self.run_mdlc("-Wno-unused-value", "-Werror", "warned.mdl")
        self.run_mdlc("-Wno-unused-value", "-Wunused-value", "-Werror", "warned.mdl", status=FAILED)

    def test_werror_hides_no_other_warning(self):
        """One is found where the code is checked, the other one only when all of it is."""
        self.source("two.mdl", "constraint idle /Code/* is counter { append preInsn $start.entry (* idle += 1; *) }\n" +
                    GOOD.replace("m++", "m; m++"))
        said = self.run_mdlc("--check", "two.mdl").stderr
        self.assertEqual(re.findall(r"W\d+, -W[a-z-]+", said), ["W0104, -Wunused-constraint", "W0303, -Wunused-value"])
        said = self.run_mdlc("-Werror", "two.mdl", "-MD", "out.d", status=FAILED).stderr
        self.assertEqual(re.findall(r"W\d+, -W[a-z=-]+", said),
                         ["W0104, -Werror=unused-constraint", "W0303, -Werror=unused-value"])
        self.assertEqual([name for name in self.files() if name in ("plan.bin", "out.d")], [])

    def test_unknown_warnings(self):
        self.assertIn("did you mean 'set-flag'?", self.run_mdlc("-Wset-flg", "good.mdl", status=USAGE).stderr)
        self.assertIn("obsolete", self.run_mdlc("-Werror=quite-another", "good.mdl", status=USAGE).stderr)
        self.assertIn("no warning 'E0201'", self.run_mdlc("-Wno-E0201", "good.mdl", status=USAGE).stderr)

    def test_every_warning_has_a_name_that_explain_and_w_take(self):
        table = (SOURCE / "compiler/support/diagnostics.def").read_text()
        warnings = re.findall(r'^MDL_DIAGNOSTIC\((\w+), "(W\d+)"', table, re.M)
        self.assertGreater(len(warnings), 5)
        for word, code in warnings:
            name = word.replace("_", "-")
            self.assertFalse(name.startswith("no-"), name)
            with self.subTest(name=name):
                self.assertEqual(self.run_mdlc("--explain", name).stdout, self.run_mdlc("--explain", code).stdout)
                self.run_mdlc(f"-Wno-{name}", "--check", "good.mdl")

    def test_colours(self):
        self.assertNotIn(ESCAPE, self.run_mdlc("bad.mdl", status=FAILED).stderr)
        self.assertNotIn(ESCAPE, self.run_mdlc("bad.mdl", "--color=never", status=FAILED).stderr)
        self.assertIn(ESCAPE, self.run_mdlc("bad.mdl", "--color=always", status=FAILED).stderr)
        self.assertIn("auto", self.run_mdlc("bad.mdl", "--color=often", status=USAGE).stderr)

    def on_terminal(self, *args, **environment):
        """What mdlc writes to a terminal."""
        ours, theirs = os.openpty()
        env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"} | environment
        subprocess.run([MDLC, *args], cwd=self.folder, stderr=theirs, stdout=theirs, env=env, timeout=60, check=False)
        os.close(theirs)
        text = os.read(ours, 65536).decode()
        os.close(ours)
        return text

    def test_colours_on_a_terminal(self):
        self.assertIn(ESCAPE, self.on_terminal("bad.mdl"))
        self.assertNotIn(ESCAPE, self.on_terminal("bad.mdl", NO_COLOR="1"))
        self.assertIn(ESCAPE, self.on_terminal("bad.mdl", NO_COLOR=""))
        self.assertNotIn(ESCAPE, self.on_terminal("bad.mdl", TERM="dumb"))
        self.assertNotIn(ESCAPE, self.on_terminal("bad.mdl", "--color=never"))

    def test_says_what_it_wrote(self):
        """To a person; a build sees nothing."""
        written = self.on_terminal("good.mdl", "-o", "said.plan")
        self.assertRegex(written, r"mdlc: wrote said\.plan \(\d+ bytes, for x86_64\): mdl-inject PID \./said\.plan")
        self.assertNotIn("wrote", self.on_terminal("good.mdl", "--emit=ir", "-o", "-"))
        self.assertEqual(self.run_mdlc("good.mdl", "-o", "said.plan").stderr, "")

    def fixes(self, name, **named):
        report = json.loads(self.run_mdlc(name, "--check", "--diagnostics=json", **named).stderr)
        return [d["fixes"] for d in report["diagnostics"]]

    def test_fixes_in_json(self):
        self.source("typo.mdl", GOOD.replace("m++", "mm++; m ++ ; m").replace("Calls;", "Calls"))
        [[fix]] = self.fixes("typo.mdl", status=FAILED)
        column = GOOD.splitlines()[1].index("Calls") + len("Calls") + 1
        self.assertEqual(fix, {"file": "typo.mdl", "line": 2, "column": column, "end_line": 2, "end_column": column,
                               "replacement": ";"})

    def test_fixes_in_sarif(self):
        self.source("old.mdl", GOOD.replace("m++", "setCounter(m, 1)"))
        [result] = json.loads(self.run_mdlc("old.mdl", "--diagnostics=sarif").stderr)["runs"][0]["results"]
        [fix] = result["fixes"]
        [change] = fix["artifactChanges"]
        self.assertEqual(change["artifactLocation"]["uri"], "old.mdl")
        self.assertEqual([r["insertedContent"]["text"] for r in change["replacements"]], ["", " = ", ""])

    def test_apply_fixes(self):
        self.source("old.mdl", OBSOLETE)
        before = self.run_mdlc("old.mdl", "--emit=ir", "-Wno-obsolete").stdout
        self.assertIn("old.mdl: ", self.run_mdlc("old.mdl", "--check", "--apply-fixes").stderr)
        for _ in range(3):  # what touches another fix is made by a later run
            self.run_mdlc("old.mdl", "--check", "--apply-fixes")
        text = (self.folder / "old.mdl").read_text()
        self.assertIn("(* m = 1 + 2; if ((m += (m -= 1)) > 0) m++; *)", text)
        self.assertEqual(self.run_mdlc("old.mdl", "--emit=ir", "-Werror").stdout, before)

    def test_apply_fixes_mends_typing_errors(self):
        self.source("typo.mdl", GOOD.replace("m++", "mn++").replace("sum;", "smu;"))
        self.source("semi.mdl", GOOD.replace("Calls;", "Calls").replace("metric m", "metric semi"))
        for name in ("typo.mdl", "semi.mdl"):
            self.run_mdlc(name, "--check", "--apply-fixes", status=FAILED)
        self.assertEqual((self.folder / "typo.mdl").read_text(), GOOD)
        self.assertIn("units Calls;", (self.folder / "semi.mdl").read_text())

    def test_without_fixes_nothing_is_written(self):
        (self.folder / "good.mdl").chmod(0o444)
        stamp = (self.folder / "good.mdl").stat().st_mtime_ns
        self.run_mdlc("good.mdl", "--check", "--apply-fixes")
        self.assertEqual((self.folder / "good.mdl").stat().st_mtime_ns, stamp)


if __name__ == "__main__":
    unittest.main(verbosity=2)
