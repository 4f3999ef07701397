"""mdlc --reformat: on all sources of the project, and on what is hard to lay out."""
import pathlib
import re
import subprocess
import unittest

from mdlc_case import BAD, DONE, FAILED, GOOD, MDLC, SOURCE, USAGE, MdlcCase

PLACES = re.compile(r" @\d+:\d+$", re.M)


def golden_inputs():
    """The MDL in the golden cases, except what stands for other bytes."""
    for case in sorted((SOURCE / "tests/golden").rglob("*.test")):
        parts = re.split(r"^== (\w+).*\n", case.read_text(), flags=re.M)
        for name, text in zip(parts[1::2], parts[2::2]):
            if name == "input" and "@@" not in text:
                yield case.name, text


def sources():
    for folder in ("stdlib-metrics", "examples", "bench", "tests/fuzz/corpus/source"):
        for path in sorted((SOURCE / folder).rglob("*.mdl")):
            yield path.name, path.read_text()
    yield from golden_inputs()


def comments(text):
    """The comments of a source, strings left out."""
    return [c.rstrip() for c in re.findall(r'"[^"\n]*"|(//[^\n]*)', text) if c]


class Reformat(MdlcCase):
    def reformat(self, text, *options, status=DONE):
        self.source("in.mdl", text)
        return self.run_mdlc("--reformat", "in.mdl", *options, status=status).stdout

    def tree(self, text):
        self.source("tree.mdl", text)
        return PLACES.sub("", self.run_mdlc("--emit=ast", "tree.mdl").stdout)

    def is_valid(self, text):
        self.source("in.mdl", text)
        return subprocess.run([MDLC, "--emit=ast", "in.mdl"], cwd=self.folder, capture_output=True).returncode == 0

    def check(self, text):
        once = self.reformat(text)
        self.assertEqual(self.tree(once), self.tree(text))
        self.assertEqual(comments(once), comments(text))
        self.assertEqual(self.reformat(once), once)
        self.assertEqual(self.reformat(once, "--check"), "")
        return once

    def test_all_sources(self):
        formatted = 0
        for name, text in sources():
            with self.subTest(name=name):
                if not self.is_valid(text):
                    self.assertEqual(self.reformat(text, status=FAILED), "")
                    continue
                once = self.check(text)
                formatted += 1
                for line in once.splitlines():
                    self.assertEqual(line, line.rstrip())
                    if '"' not in line and "//" not in line:
                        self.assertLessEqual(len(line), 100)
                # Other white space gives the same layout.
                self.assertEqual(self.reformat(re.sub(r"^[ \t]+", "", text, flags=re.M)), once)
        self.assertGreater(formatted, 40)

    def test_one_line_gives_the_same_as_many(self):
        source = re.sub("//.*", "", (SOURCE / "examples/bytes_requested.mdl").read_text())
        once = self.reformat(" ".join(source.split()))
        self.assertEqual("\n".join(filter(None, source.splitlines())), "\n".join(filter(None, once.splitlines())))

    def test_layout(self):
        text = ('metric m{name "m";units Calls;aggregateOperator sum;style EventCounter;flavor={unix,mpi};'
                "base is counter{foreach f in $procedures if(f.name==\"x\"&&1)append f.entry(*m+=- -1*(2-m);"
                "if(m)m++;else{m--;}*)\n\n\n{;}}};exclude\"/Code/x\";constraint c/Code/*/*is counter{}")
        self.assertEqual(self.check(text), """\
metric m {
  name "m";
  units Calls;
  aggregateOperator sum;
  style EventCounter;
  flavor = { unix, mpi };
  base is counter {
    foreach f in $procedures
      if (f.name == "x" && 1) append f.entry (* m += - -1 * (2 - m); if (m) m++; else { m--; } *)

    {
      ;
    }
  }
};

exclude "/Code/x";
constraint c /Code/*/* is counter { }
""")

    def test_comments_stay_where_they_are(self):
        text = ("// first\n\n\n// second\nmetric m { // behind\n// own\nname \"m\"; // name\nunits // in the middle\nC;\n"
                "aggregateOperator sum; style EventCounter; flavor { unix, // in a list\n// own\nmpi };\n"
                "base is counter { append $start.entry (* // code\nm = 1 + // sum\n2; // end\n\n// last\n*) // after\n}\n"
                "// before the brace\n}\n// the end")
        self.assertEqual(self.check(text), """\
// first

// second
metric m {  // behind
  // own
  name "m";  // name
  units  // in the middle
      C;
  aggregateOperator sum;
  style EventCounter;
  flavor {
    unix,  // in a list
    // own
    mpi
  };
  base is counter {
    append $start.entry (*  // code
      m = 1 +  // sum
          2;  // end

      // last
    *)  // after
  }
  // before the brace
}
// the end
""")

    def test_line_ends_and_the_end_of_the_file(self):
        self.assertEqual(self.reformat(""), "")
        self.assertEqual(self.reformat("// x"), "// x\n")
        (self.folder / "crlf.mdl").write_bytes(b'exclude   "/Code/x";\r\n// y  \r\n')
        done = subprocess.run([MDLC, "--reformat", "crlf.mdl"], cwd=self.folder, capture_output=True, timeout=60)
        self.assertEqual(done.stdout, b'exclude "/Code/x";\r\n// y\r\n')

    def test_in_place(self):
        crowded = GOOD.replace("\n", "").replace("{", " {  ")
        self.source("crowded.mdl", crowded)
        wanted = self.reformat(GOOD)
        self.source("tidy.mdl", wanted)
        stamp = (self.folder / "tidy.mdl").stat().st_mtime_ns
        done = self.run_mdlc("--reformat", "--check", "crowded.mdl", "tidy.mdl", status=FAILED)
        self.assertEqual(done.stderr, "mdlc: crowded.mdl: would be reformatted\n")
        self.assertEqual((self.folder / "crowded.mdl").read_text(), crowded)
        self.assertEqual(self.run_mdlc("--reformat", "-i", "crowded.mdl", "tidy.mdl").stdout, "")
        self.assertEqual((self.folder / "crowded.mdl").read_text(), wanted)
        self.assertEqual((self.folder / "tidy.mdl").stat().st_mtime_ns, stamp)
        self.run_mdlc("--reformat", "--check", "crowded.mdl", "tidy.mdl")

    def test_what_is_wrong_stays_as_it_is(self):
        broken = GOOD.replace("sum;", "sum")
        self.source("broken.mdl", broken)
        done = self.run_mdlc("--reformat", "--in-place", "broken.mdl", "good.mdl", status=FAILED)
        self.assertIn("broken.mdl:2:", done.stderr)
        self.assertEqual((self.folder / "broken.mdl").read_text(), broken)
        self.assertNotEqual((self.folder / "good.mdl").read_text(), GOOD)
        self.reformat(BAD)  # names are not looked at
        self.assertIn("--reformat", self.run_mdlc("-i", "good.mdl", status=USAGE).stderr)

    def test_deep_and_long(self):
        deep = "{" * 150 + ";" + "}" * 150
        self.check(deep)
        self.check("append $start.entry (* " + "if (1) " * 150 + "; *)")
        self.check("append $start.entry (* x = " + " + ".join(["y" * 30] * 300) + "; *)")


if __name__ == "__main__":
    unittest.main(verbosity=2)
