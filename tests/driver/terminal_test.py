"""Nothing of a text that came from elsewhere reaches a terminal as it is: all that the tools say goes through base/say.h,
and mdlc's messages through the same characters. mdl-inject's own are tested in tests/process/hostile_test.py."""
import os
import pathlib
import pty
import re
import subprocess
import tempfile
import tty
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MDLC = os.environ.get("MDLC")
# Other ways to print, and the files that may use them: JSON and rendered messages, and base/say itself.
OTHER_WAYS = re.compile(r"fmt::print|\bf?puts\(|\bf?printf\(|std::c(?:out|err)|\bfwrite\(|STD(?:OUT|ERR)_FILENO")
ALLOWED = {"base/say.cpp", "base/terminal.cpp", "base/watchdog.cpp", "mdlc/main.cpp", "mdlc/output.cpp", "mdl-inject/measure.cpp", "runtime/kernel/broker.cpp", "runtime/kernel/worker.cpp", "runtime/output/live.cpp", "runtime/output/sink.cpp"}
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
EVIL = b"\x1b[31m\xc2\x9b2J\xe2\x80\xae\xff\x07"


def read(terminal):
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the other side is closed
        return b""


class Terminal(unittest.TestCase):
    def test_one_way_out(self):
        found = []
        for folder in ("base", "runtime", "mdl-inject", "mdlc", "compiler", "backend", "format"):
            for path in sorted((SOURCE / folder).rglob("*.cpp")):
                name = str(path.relative_to(SOURCE))
                if name in ALLOWED or name.startswith("mdlc/lsp/"):
                    continue
                for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                    if OTHER_WAYS.search(re.sub(r"//.*", "", line)):
                        found.append(f"{name}:{number}: {line.strip()}")
        self.assertEqual(found, [], "say() of base/say.h is the way out for text")

    def said(self, *command, folder):
        done = subprocess.run([MDLC, *command], capture_output=True, cwd=folder, timeout=60, check=False)
        for text in (done.stdout, done.stderr):
            self.assertEqual(HARMFUL.findall(text.decode()), [], text)
        return done.stderr.decode()

    def test_messages_about_sources(self):
        """Bytes of the source in its excerpt, in names, texts and comments; in the names of files and options."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(os.fsencode(name).decode())
            for number, text in enumerate((b'metric m { name "' + EVIL + b'"; units ' + EVIL + b'; }', EVIL,
                                           b"/* " + EVIL, b'constraint "' + EVIL + b'" x /Code is { }',
                                           b"metric m { base is counter { (* " + EVIL + b"++; *) } }")):
                path = os.path.join(os.fsencode(folder), EVIL + b"%d.mdl" % number)
                with open(path, "wb") as file:
                    file.write(text)
                self.assertIn("error", self.said(path, folder=folder))
                self.assertIn("error", self.said("--std=mdl26", path, folder=folder))
            self.assertIn("cannot", self.said(EVIL, folder=folder))
            self.said(b"--" + EVIL, folder=folder)
            self.said("--explain", EVIL, folder=folder)

    def test_formats_for_programs(self):
        """Diagnostics as JSON, laid out sources and other output of the compiler, on a terminal."""
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name, "x.mdl")
            path.write_bytes(b'// \x1b[31m\xc2\x9b2J\xe2\x80\xae\x7f\nmetric m { name "\xc2\x9b2J\xe2\x80\xae\x7f"; units U; aggregateOperator sum; '
                             b"style EventCounter; flavor { unix }; base is counter { } }\n")
            for words in (("--diagnostics=json", path), ("--diagnostics=sarif", path), ("--reformat", path), ("--emit=ast", path),
                          ("--color=never", "-o", "-", path)):
                ours, theirs = pty.openpty()
                tty.setraw(theirs)
                with subprocess.Popen([MDLC, *words], cwd=name, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL) as process:
                    os.close(theirs)
                    out = b""
                    while chunk := read(ours):
                        out += chunk
                    os.close(ours)
                self.assertIn(process.returncode, (0, 1))
                self.assertNotEqual(out, b"")
                self.assertEqual(HARMFUL.findall(out.decode()), [], words)

    def test_colours_of_our_own(self):
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name, "x.mdl")
            path.write_bytes(EVIL)
            done = subprocess.run([MDLC, "--color=always", path], capture_output=True, timeout=60, check=False)
            self.assertIn(b"\x1b[1;31m", done.stderr)
            text = re.sub(r"\x1b\[(?:0|1|1;3[0-7])m", "", done.stderr.decode())
            self.assertEqual(HARMFUL.findall(text), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
