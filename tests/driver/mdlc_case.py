"""What the tests of mdlc's command line share. Needs MDLC in the environment."""
import os
import pathlib
import subprocess
import tempfile
import unittest

MDLC = os.environ["MDLC"]
SOURCE = pathlib.Path(__file__).resolve().parents[2]
DONE, FAILED, USAGE = 0, 1, 2

GOOD = """metric m {
  name "m"; units Calls; aggregateOperator sum; style EventCounter; flavor { unix };
  base is counter { append preInsn $start.entry (* m++; *) }
}
"""
BAD = GOOD.replace("m++", "nobody++")
WARNED = GOOD.replace("m++", "m; m++")


class MdlcCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.source("good.mdl", GOOD)
        self.source("bad.mdl", BAD)
        self.source("warned.mdl", WARNED)

    def source(self, name, text):
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_text(text)

    def run_mdlc(self, *args, status=DONE, **named):
        done = subprocess.run([MDLC, *args], cwd=self.folder, capture_output=True, text=True, timeout=60, **named)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def files(self):
        return sorted(p.name for p in self.folder.iterdir())
