"""mdlc on sources that somebody made to break it: large, deep, of one thing only. It ends with 0 or 1, in
bounded time and memory. `bench/compile_speed` measures; the bounds here are for a busy machine."""
import resource
import subprocess
import unittest

from mdlc_case import MDLC, MdlcCase

LIMIT = 8 << 20
MEMORY_KB = 6 << 20
TIMEOUT_S = 120
IN_CODE = "append $start.entry (* a{}; *)"


def filled(piece, frame="{}"):
    """A source of the largest size, or nearly."""
    return frame.replace("{}", piece * ((LIMIT - len(frame)) // len(piece.encode())), 1)


class Hostile(MdlcCase):
    def ends(self, text, *options):
        path = self.folder / "hostile.mdl"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        done = subprocess.run([MDLC, "--check", *options, path], capture_output=True, timeout=TIMEOUT_S, check=False)
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, MEMORY_KB)
        self.assertIn(done.returncode, (0, 1), done.stderr[-500:])
        self.assertLess(len(done.stderr), 1 << 20)
        return done.stderr.decode(errors="replace")

    def test_one_thing_only(self):
        for piece in ("{", "(", ";", "metric m { ", "\u00e4", "@", '"', "\n", "//"):
            with self.subTest(piece=piece):
                self.ends(filled(piece))

    def test_inside_of_code(self):
        for piece in ("+a", "()", ".a"):
            with self.subTest(piece=piece):
                self.ends(filled(piece, IN_CODE))

    def test_too_many_tokens_are_refused(self):
        self.assertIn("more than 2000000 tokens [E0008]", self.ends(filled("a ")))

    def test_the_largest_string_and_the_largest_comment(self):
        self.assertEqual(self.ends(filled("\u00e4", 'exclude "/Code/{}";')), "")
        self.assertEqual(self.ends(filled("\u00e4", "// {}")), "")

    def test_bytes_that_are_no_text(self):
        for data in (b"\0" * 1000, b"\xff" * 1000, b"exclude \"/Code/\xc3\";", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"):
            with self.subTest(data=data[:10]):
                self.assertIn("[E0007]", self.ends(data))

    def test_the_formatter_too(self):
        for piece in ("{ ", 'exclude "/Code/a"; '):
            self.ends(filled(piece), "--reformat")


if __name__ == "__main__":
    unittest.main(verbosity=2)
