"""What needs privilege stands in runtime/kernel/: no other file of the injector traces, signals or waits for another
process, reads or writes its memory, or opens what /proc shows of it; and that room uses nothing but base/ and the
system's headers. Needs no program."""
import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ROOM = SOURCE / "runtime/kernel"
FILES = [path for folder in ("runtime", "mdl-inject") for path in sorted((SOURCE / folder).rglob("*"))
         if path.suffix in (".h", ".cpp", ".inc", ".def")]

COMMENT_OR_TEXT = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+'""", re.S)
# As names of their own: not kernel::..., not a member.
CALL = re.compile(r"(?<![\w.>:])(?:::)?(ptrace|process_vm_\w+|pidfd_\w+|kcmp|kill|tgkill|tkill|syscall|wait|wait3|wait4|"
                  r"waitid|waitpid)\s*\(")
# The system's own headers, from which such calls come.
HEADER = re.compile(r"#include <(sys/ptrace\.h|linux/ptrace\.h|sys/uio\.h|sys/pidfd\.h|sys/syscall\.h|dirent\.h)>")
# SYS_ numbers are compared with those of the target's calls.
ALLOWED_HEADERS = {("runtime/process/exec_watch.cpp", "sys/syscall.h"), ("runtime/process/target.cpp", "sys/syscall.h")}
# A text that is nothing but a path; messages name files of /proc among other words.
PROC = re.compile(r'"/proc(/[^"\s]*)?"')
# One's own, and the system's settings: everybody may read those.
FREE = re.compile(r'"/proc/(self|self/mountinfo|locks|meminfo|sys/[\w/]+)"')


def name(path):
    return str(path.relative_to(SOURCE))


def others():
    return [path for path in FILES if ROOM not in path.parents]


def code(text):
    """Without comments and texts."""
    return COMMENT_OR_TEXT.sub(lambda found: "" if found[0].startswith("/") else '""', text)


def without_comments(text):
    return COMMENT_OR_TEXT.sub(lambda found: "" if found[0].startswith("/") else found[0], text)


def calls(text):
    return [found[1] for found in CALL.finditer(code(text))]


def paths(text):
    return [found[0] for found in PROC.finditer(without_comments(text)) if not FREE.fullmatch(found[0])]


class Kernel(unittest.TestCase):
    def test_nobody_else_calls(self):
        for path in others():
            text = path.read_text(encoding="utf-8")
            self.assertEqual(calls(text), [], name(path))
            headers = {(name(path), found[1]) for found in HEADER.finditer(text)}
            self.assertEqual(headers - ALLOWED_HEADERS, set())

    def test_nobody_else_opens(self):
        for path in others():
            self.assertEqual(paths(path.read_text(encoding="utf-8")), [], name(path))

    def test_one_place_writes(self):
        """To a process's memory; files are written by name and by stream."""
        writers = [name(path) for path in FILES if re.search(r"\b(pwrite\w*|process_vm_writev)\s*\(", code(path.read_text(encoding="utf-8")))]
        self.assertEqual(writers, ["runtime/kernel/edit.cpp"])

    def test_room_uses_nothing(self):
        files = [path for path in FILES if ROOM in path.parents]
        self.assertGreater(len(files), 8)
        for path in files:
            for include in re.findall(r"#include ([<\"][^>\"]+[>\"])", path.read_text(encoding="utf-8")):
                self.assertRegex(include, r'^("(base|runtime/kernel)/|<(sys/|linux/)?\w+(\.h)?>$)', name(path))
                self.assertNotIn(include, ("<lzma.h>",), name(path))

    def test_room_is_small(self):
        """So that it can be read at once, as what runs with privilege must be. The worker's half has none."""
        workers = {ROOM / "asks.cpp", ROOM / "worker.cpp"}
        lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES if ROOM in path.parents}
        self.assertLess(sum(lines[path] for path in lines if path not in workers), 3150)
        self.assertEqual(workers - set(lines), set())
        self.assertLess(sum(lines[path] for path in workers), 420)

    def test_these_tests_see(self):
        self.assertEqual(calls("a = ptrace(PTRACE_CONT, 1);  // waitpid(1)\n::kill(pid, 9); kernel::kill (1); memory.kill(2)"), ["ptrace", "kill"])
        self.assertEqual(calls('say("it calls ptrace(2)"); return syscall(SYS_kcmp, 1);'), ["syscall"])
        self.assertEqual(paths('open(fmt::format("/proc/{}/mem", pid)); opendir("/proc"); read_text("/proc/self/mountinfo")'),
                         ['"/proc/{}/mem"', '"/proc"'])
        self.assertEqual(paths('"see "\n"/proc/{0}/limits, and raise it"'), [])
        for call in ("ptrace", "syscall", "waitid", "kill", "process_vm_readv"):
            self.assertTrue(any(call in calls(path.read_text(encoding="utf-8")) for path in FILES), call)


if __name__ == "__main__":
    unittest.main(verbosity=2)
