"""scripts/test-summary, on what GoogleTest and unittest print of cases that pass, fail and are skipped."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
from xml.sax.saxutils import escape

SUMMARY = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "test-summary"
GOOGLE = """
#include <gtest/gtest.h>
TEST(Case, Passes) {}
TEST(Case, Skips) { GTEST_SKIP(); }
TEST(Case, Fails) { FAIL(); }
"""
PYTHON = """
import unittest
class Case(unittest.TestCase):
    def test_passes(self): pass
    @unittest.skip("for once")
    def test_skips(self): pass
    def test_fails(self): self.fail()
unittest.main()
"""


class Summary(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.google = pathlib.Path(cls.folder.name) / "google"
        subprocess.run(["c++", "-x", "c++", "-", "-o", cls.google, "-lgtest_main", "-lgtest", "-pthread"], input=GOOGLE, text=True, check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def summary(self, command, program=None):
        """(exit status, last line) for one CTest entry."""
        done = subprocess.run(command, input=program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        status = "fail" if done.returncode else "run"
        report = pathlib.Path(self.folder.name) / "report.xml"
        report.write_text(f'<testsuite><testcase name="one" status="{status}"><system-out>{escape(done.stdout)}</system-out></testcase></testsuite>',
                          encoding="utf-8")
        said = subprocess.run([SUMMARY, report], stdout=subprocess.PIPE, text=True, check=False)
        return said.returncode, said.stdout.splitlines()[-1]

    def check(self, run):
        self.assertEqual(run("Passes"), (0, "1 passed, 0 failed"))
        self.assertEqual(run("Skips"), (1, "0 passed, 1 failed"))
        self.assertEqual(run("Fails"), (1, "0 passed, 1 failed"))
        self.assertEqual(run(""), (1, "1 passed, 2 failed"))

    def test_googletest(self):
        self.check(lambda case: self.summary([self.google, f"--gtest_filter=*{case}*"]))

    def test_unittest(self):
        self.check(lambda case: self.summary([sys.executable, "-", *([f"Case.test_{case.lower()}"] if case else [])], PYTHON))


if __name__ == "__main__":
    unittest.main(verbosity=2)
