"""What belongs to an attacker: processes that he forges, under a user id without any right, and an injector as root that
looks at them. It refuses with the cause, in bounded memory and time, and writes nothing that the process did not have.
tests/programs/hostile.cpp.
"""

import hashlib
import json
import os
import pathlib
import pty
import re
import shutil
import string
import struct
import subprocess
import sys
import tempfile
import time
import tty
import unittest

import process_text
from harness import CONSTRAINTS, MDL_INJECT, PROGRAMS, SOURCE, LiveTest, Program, metric, read_terminal, run

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
MOST_MB = 256      # more than for the same process when it is honest
MOST_SECONDS = 10  # a fortieth of that on a quiet machine; the attacks took 20 and more
MIB = 1 << 20
LEFT_INERT = 5


# A process's peak counts its parent's up to execve(), so a small one of its own is the parent.
STARTER = """import os, sys, time
began = time.monotonic()
_, status, usage = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss, time.monotonic() - began, file=sys.stderr)"""


class Done:
    """An mdl-inject to its end: what it said, its status, and what it took."""

    def __init__(self, *command):
        words = [one if isinstance(one, bytes) else str(one) for one in command]
        done = subprocess.run([sys.executable, "-ISc", STARTER, MDL_INJECT, *words], stdin=subprocess.DEVNULL, capture_output=True,
                              check=True)
        *errors, figures = done.stderr.splitlines(keepends=True)
        self.bytes = done.stdout + b"".join(errors)
        self.text = self.bytes.decode(errors="replace")
        status, kb, seconds = figures.split()
        self.status, self.mb, self.seconds = int(status), int(kb) / 1024, float(seconds)


JOURNAL_VERSION = int(re.search(r"kJournalVersion = (\d+)", (SOURCE / "runtime/resident/journal.h").read_text())[1])


WINDOW = struct.Struct("<QQBB16s16s6x")  # runtime/resident/journal_text.cpp


def sealed(text, windows=()):
    """A journal of this text and these windows, as an injector would have written it (runtime/resident/journal.h)."""
    records = b"".join(WINDOW.pack(address, points, len(original) // 2, part, bytes.fromhex(original), bytes.fromhex(patched))
                       for address, original, patched, points, part in windows)
    body = struct.pack("<Q", len(windows)) + records + text
    return struct.pack("<8sIIQ", b"MDLJRNL\n", JOURNAL_VERSION, 0, len(body)) + hashlib.sha256(body).digest() + body


def forged_journal(journal):
    """As read_journal() gives it: with its windows."""
    return sealed(json.dumps({key: value for key, value in journal.items() if key != "windows"}, separators=(",", ":")).encode(),
                  journal["windows"])


def read_journal(content):
    length, = struct.unpack_from("<Q", content, 16)
    body = content[56:56 + length]
    count, = struct.unpack_from("<Q", body)
    end = 8 + count * WINDOW.size
    windows = [[address, original[:size].hex(), patched[:size].hex(), points, part]
               for address, points, size, part, original, patched in WINDOW.iter_unpack(body[8:end])]
    return dict(json.loads(body[end:]), windows=windows)


class Hostile(LiveTest):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(0o755)
        return path

    def hostile(self, *what, under=NOBODY):
        program = Program("hostile", command=[*under, str(PROGRAMS / "hostile"), "120", *map(str, what)])
        self.addCleanup(program.kill)
        return program

    def in_bounds(self, done, base=20):
        self.assertLess(done.mb, base + MOST_MB, done.text[:400])
        self.assertLess(done.seconds, MOST_SECONDS, done.text[:400])
        self.assertGreaterEqual(done.status, 0, done.text[:400])
        return done

    def plan(self):
        return self.compile_text(CONSTRAINTS + metric("work_calls", ["t_work"], constraints=["procedure"]) +
                                 metric("returns", ["t_work"], "return"))


class Journals(Hostile):
    def commands(self, pid):
        yield "status", Done("--status", pid)
        yield "attach", Done(pid, self.plan(), "-d", "0")
        yield "remove", Done("--remove", pid)

    def honest(self, *what):
        """A process with what a killed injector has left, and the journal in it."""
        program = self.hostile(*what)
        self.before = self.remember(program.pid)
        session = self.inject(program.pid, self.plan(), "-m", "work_calls@/Code/hostile/t_work", "-m", "returns").wait_inserted()
        session.kill()
        place = process_text.journal(program.pid)
        with open(f"/proc/{program.pid}/mem", "rb", buffering=0) as memory:
            memory.seek(place.start)
            content = memory.read(place.end - place.start)
        return program, read_journal(content)

    def test_texts_that_grow_when_they_are_parsed(self):
        """64 MiB of brackets cost 5 GB and 24 s once."""
        n = 2_400_000
        for name, text, cause in (("brackets", b"[" * (64 * MIB), "more than 32 MiB"), ("deep", b"[" * (31 * MIB), "deep"),
                                  ("numbers", b"[" + b"1," * (8 * MIB) + b"1]", "values"),
                                  ("lists", b"[" + b"[]," * (n // 2) + b"0]", "not valid"),
                                  ("names", b"[" + b'{"a":1},' * (n // 4) + b"0]", "not valid"),
                                  ("words", b"[" + b'["aaaaaaaaaaaaaaaaaaaaaaaa"],' * MIB + b"0]", "not valid")):
            with self.subTest(text=name):
                program = self.hostile("file", self.file(name, sealed(text)))
                for command, done in self.commands(program.pid):
                    self.in_bounds(done)
                    if command == "status":
                        self.assertIn(cause, done.text)
                self.assertEqual(process_text.leftovers(program.pid), [])
                self.assertEqual(program.ask("work 3")["work"], 3)

    def test_many_journals(self):
        """Each of them is within the limits; all of them are not."""
        files = [word for i in range(40)
                 for word in ("file", self.file(f"{i}", sealed(b'{"a":"' + b"x" * MIB + b'"}')))]
        program = self.hostile(*files)
        for _, done in self.commands(program.pid):
            self.in_bounds(done)

    def test_journals_of_valid_lists(self):
        """Lists as long as the budget allows, each of them what a journal may hold."""
        _, journal = self.honest()
        window = journal["windows"][0]
        request = journal["requests"][0]
        data = journal["data"]
        for key, value in (("windows", [window] * 350_000), ("files", [[[4096 * (i + 1), 4096 * (i + 2)], 1, i, 0] for i in range(400_000)]),
                           ("functions", [["f", [0, 1 << 40]]] * 400_000), ("requests", [request] * 100_000),
                           ("tables", [[data, 1, 0, 200, 300, False]] * 200_000),
                           ("raised", [[0, True, True, list(range(1000)), [0] * 1000, 0, 0]] * 1000)):
            with self.subTest(list=key):
                forged = dict(journal, **{key: value})
                program = self.hostile("file", self.file(key, forged_journal(forged)))
                for _, done in self.commands(program.pid):
                    self.in_bounds(done)

    def test_code_is_put_back_from_files_only(self):
        """The journal says that other bytes were there before: the injector would write them for the process."""
        program, journal = self.honest()
        before = self.remember(program.pid)
        forged = json.loads(json.dumps(journal))
        for window in forged["windows"]:
            window[1] = "cc" * (len(window[1]) // 2)
        self.write_journal(program.pid, forged)
        done = Done("--remove", program.pid)
        self.assertEqual(done.status, LEFT_INERT, done.text)
        self.assertIn("says of the code at 0x", done.text)
        self.assertEqual(self.remember(program.pid), before)
        self.write_journal(program.pid, journal)
        self.assertEqual(Done("--remove", program.pid).status, 0)
        self.assertEqual(process_text.leftovers(program.pid), [])
        self.assertEqual(program.ask("work 3")["work"], 3)

    def write_journal(self, pid, journal):
        content = forged_journal(journal)
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(process_text.journal(pid).start)
            memory.write(content)

    def test_a_forged_journal_does_not_hide_a_session(self):
        """Two journals: none is believed, and the code is put back from the files before anything is unmapped."""
        _, journal = self.honest()
        empty = dict(journal, windows=[], files=[], points=0, code=[[0x10000000, 0x10001000]])
        # Its data are those of the honest session, which lie where they lay in the process before.
        program, journal = self.honest("later", self.file("empty", b""))
        before_session = self.before
        empty["data"] = journal["data"]
        self.file("empty", forged_journal(empty))
        program.ask("map")
        status = Done("--status", program.pid)
        self.assertIn("there are two", status.text)
        self.assertEqual(Done(program.pid, self.plan(), "-d", "0").status, 1)
        removed = Done("--remove", program.pid)
        self.assertEqual(removed.status, 0, removed.text)
        self.assert_untouched(program.pid, before_session)
        self.assertEqual(program.ask("work 3")["work"], 3)

    def later_generation(self, windows):
        """A program with a session and a forged journal of a later generation of it, with these windows."""
        program, journal = self.honest("later", self.file("later", b""))
        forged = dict(journal, generation=1, windows=windows(journal["windows"]))
        self.file("later", forged_journal(forged))
        program.ask("map")
        return program

    def test_a_forged_generation_hides_nothing(self):
        program = self.later_generation(lambda windows: [])
        before = self.before
        removed = Done("--remove", program.pid)
        self.assertEqual(removed.status, 0, removed.text)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.ask("work 3")["work"], 3)

    def test_a_generation_is_put_back_from_files_only(self):
        program = self.later_generation(
            lambda windows: [[at, "cc" * (len(old) // 2), *rest] for at, old, *rest in windows])
        now = self.remember(program.pid)
        done = Done("--remove", program.pid)
        self.assertEqual(done.status, LEFT_INERT, done.text)
        self.assertIn("says of the code at 0x", done.text)
        self.assertEqual(self.remember(program.pid), now)

    def test_requests_that_are_not_there(self):
        program, journal = self.honest()
        raised = journal["raised"] or self.fail("nothing is raised")
        raised[0][4] = [1 << 30]
        self.write_journal(program.pid, journal)
        done = Done("--status", program.pid)
        self.assertEqual(done.status, 0, done.text)
        self.assertIn("does not have", done.text)
        self.assertEqual(Done("--remove", program.pid).status, 0)
        self.assertEqual(program.ask("work 3")["work"], 3)


class Links(Hostile):
    """A root folder of the attacker's, whose links lead out of it where somebody else follows them."""

    def start_below(self, link_to):
        """A stripped program in a root in which its debug file is a link."""
        root = self.folder / "root"
        build_id = run("readelf", "-n", PROGRAMS / "images-static").stdout.split("Build ID: ")[1].split()[0]
        place = root / "usr/lib/debug/.build-id" / build_id[:2] / f"{build_id[2:]}.debug"
        place.parent.mkdir(parents=True, exist_ok=True)
        for path in (self.folder / "secret.debug", root / "own.debug"):
            self.assertEqual(run("objcopy", "--only-keep-debug", PROGRAMS / "images-static", path).returncode, 0)
        self.assertEqual(run("objcopy", "-S", PROGRAMS / "images-static", root / "images").returncode, 0)
        place.unlink(missing_ok=True)
        place.symlink_to(link_to)
        program = Program("images", command=["chroot", "--userspec=65534:65534", root, "/images", "120"])
        self.addCleanup(program.kill)
        return program

    def test_links_lead_where_they_lead_the_process(self):
        done = Done("--list", self.start_below("/own.debug").pid, "*t_image_local")
        self.assertIn("t_image_local", done.text)

    def test_no_file_outside_of_the_root_is_opened(self):
        for outside in (self.folder / "secret.debug", pathlib.Path("../../../../../../..", *self.folder.parts[1:], "secret.debug"),
                        "/proc/self/root/proc/1/exe", "/dev/zero"):
            with self.subTest(link=str(outside)):
                done = self.in_bounds(Done("--list", self.start_below(outside).pid, "*t_image_local"))
                self.assertEqual((done.status, "t_image_local" in done.text), (1, True), done.text)
                self.assertIn("no function of process", done.text)

    def test_devices_in_the_place_of_code(self):
        """A program that maps a device as code: it is not opened, and the rest of the program is measured."""
        program = self.hostile("code", "/dev/zero")
        done = Done("--list", program.pid, "*t_work")
        self.assertEqual(done.status, 0, done.text)


class Terminals(Hostile):
    """Names that a terminal would obey, wherever an attacker may choose one."""

    EVIL = b"\x1b[31m\xc2\x9b2J\xe2\x80\xae\x07"
    HARMFUL = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]")

    def start_evil(self):
        """A program of an evil file name, symbol and process name, which a session measures."""
        folder = os.path.join(os.fsencode(self.folder), b"f" + self.EVIL)
        os.mkdir(folder, 0o755)
        path = os.path.join(folder, b"p" + self.EVIL)
        subprocess.run(["objcopy", "--redefine-sym", b"t_work=t_" + self.EVIL + b"\nt_line", PROGRAMS / "hostile", path], check=True)
        os.chmod(path, 0o755)
        program = Program("hostile", command=[*NOBODY, path, "120", "name", b"n" + self.EVIL + b"%nx"])
        self.addCleanup(program.kill)
        return program

    def test_whatever_is_said(self):
        program = self.start_evil()
        plan = self.compile_text(metric("calls", ["t_*"]))
        evil = os.path.join(os.fsencode(self.folder), self.EVIL + b".bin")
        shutil.copy(plan, evil)
        shown = 0
        for words in ((program.pid, evil, "-d", "0", "--explain", "--format", "table"), (program.pid, evil, "--dry-run"),
                      (program.pid, evil, "--detach", "-d", "0", "--format", "table"), ("--status", program.pid),
                      (program.pid, evil, "-d", "0"), ("--check", program.pid), ("--remove", program.pid), ("--list", program.pid),
                      ("--list", program.pid, self.EVIL), ("--verify", evil), (program.pid, self.EVIL), ("--verify", self.EVIL + b"/"),
                      (program.pid, evil, "-m", b"calls@/Code/" + self.EVIL), ("--remove", self.EVIL), (b"--" + self.EVIL,),
                      (program.pid, evil, "-d", "0", "-o", os.path.join(os.fsencode(self.folder), self.EVIL, b"x"))):
            done = Done(*words)
            self.assertEqual(self.HARMFUL.findall(done.bytes), [], (words, done.text))
            shown += done.text.count("?[31m")
        self.assertGreater(shown, 5, "the names were shown")
        self.assertEqual(process_text.leftovers(program.pid), [])

    def on_a_terminal(self, *words):
        ours, theirs = pty.openpty()
        tty.setraw(theirs)
        process = subprocess.Popen([MDL_INJECT, *(one if isinstance(one, bytes) else str(one) for one in words)],
                                   stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                                   env=os.environ | {"NO_COLOR": "1"})
        os.close(theirs)
        out = read_terminal(ours)
        self.assertEqual(process.wait(), 0, out)
        return out

    def test_each_format_on_a_terminal(self):
        """A pipe gets the bytes as the format has them."""
        program = self.start_evil()
        plan = self.compile_text(CONSTRAINTS + metric("calls", ["main"], constraints=["procedure"]))
        request = (program.pid, plan, "-d", "0", "-m", b"calls@/Code/p" + self.EVIL + b"/main", "--format")
        formats = re.findall(r"^MDL_OUTPUT_FORMAT\((\w+)\)", (SOURCE / "runtime/output/formats.def").read_text(), re.M)
        self.assertIn("csv", formats)
        for name in formats:
            with self.subTest(format=name):
                shown = self.on_a_terminal(*request, name)
                self.assertIn(b"?[31m" if name not in ("json", "ndjson") else b"\\u001b[31m", shown)
                self.assertEqual(self.HARMFUL.findall(shown.replace(b"\r\n", b"\n")), [], shown)
                self.assertFalse(any(line.startswith(b"t_line") for line in shown.splitlines()))
        piped = Done(*request, "csv")
        self.assertEqual(piped.status, 0)
        self.assertIn(self.EVIL, piped.bytes)

    def test_names_stay_in_their_line(self):
        program = self.start_evil()
        lines = Done("--list", program.pid).text.splitlines()
        self.assertEqual([line for line in lines if line.startswith("t_line")], [])
        self.assertTrue(any("?t_line" in line for line in lines))


def elf(sections, segments=(), size=0):
    """An ELF file for x86_64 with these section headers (type, flags, offset, size, link), its code at the beginning."""
    segments = [(1, 5, 0, 0x1000), *segments]
    head = 64 + 56 * len(segments)
    out = bytearray(struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, 0, 64, head, 0, 64, 56, len(segments), 64,
                                len(sections) % 0x10000, 0))
    for kind, flags, offset, length in segments:
        out += struct.pack("<IIQQQQQQ", kind, flags, offset, offset, offset, length, length, 0x1000)
    for kind, flags, offset, length, link in sections:
        out += struct.pack("<IIQQQQIIQQ", 0, kind, flags, offset, offset, length, link, 0, 1, 24)
    return bytes(out) + bytes(max(0, size - len(out)))


class Files(Hostile):
    """ELF files of the attacker's that say of more than they hold, mapped as code."""

    RELA, STRTAB, SYMTAB, DYNSYM, ALLOC = 4, 3, 2, 11, 2

    def list_with(self, content, size):
        path = self.file("evil.so", content)
        os.truncate(path, max(size, len(content)))
        program = self.hostile("code", path)
        plan = self.compile_text(metric("calls", ["t_work"]))
        done = [self.in_bounds(Done(*words)) for words in (("--list", program.pid), (program.pid, plan, "-d", "0", "--strict"),
                                                           ("--status", program.pid), ("--remove", program.pid))]
        self.assertIn("t_work", done[0].text)
        self.assertEqual(program.ask("work 3")["work"], 3)
        return done[0].text

    def test_sections_over_one_sparse_range(self):
        """28 KB on the disk cost 390 MB for each header."""
        text = self.list_with(elf([(self.RELA, self.ALLOC, 0x10000, 390 * MIB, 0)] * 200), 400 * MIB)
        self.assertNotIn("/Code/evil.so", text)

    def test_sections_beside_each_other_in_a_sparse_file(self):
        sections = [(self.RELA, self.ALLOC, 0x10000 + i * 400 * MIB, 390 * MIB, 0) for i in range(200)]
        self.list_with(elf(sections), 200 * 400 * MIB + 0x20000)

    def test_symbols_of_one_long_name(self):
        symbols, strings = 40_000, 4 * MIB
        start = 0x10000
        content = bytearray(elf([(0, 0, 0, 0, 0), (self.SYMTAB, 0, start, 24 * symbols, 2),
                                 (self.STRTAB, 0, start + 24 * symbols, strings, 0)], size=start))
        content += b"".join(struct.pack("<IBBHQQ", i % 64, 0x12, 0, 1, 0x200 + i % 512, 1) for i in range(symbols))
        content += b"n" * (strings - 1) + b"\0"
        self.list_with(bytes(content), 0)

    def test_segments_without_end(self):
        for kind in (2, 4, 0x6474e550):
            with self.subTest(type=kind):
                self.list_with(elf([], [(kind, 4, 0x1000, 300 * MIB)] * 1100), 301 * MIB)


def library(code, symbols, more=()):
    """A shared object of this code, with functions (name, offset in the code, size); more: (name, flags, bytes)."""
    names, table = b"\0", struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)
    for name, offset, size in symbols:
        table += struct.pack("<IBBHQQ", len(names), 0x12, 0, 1, 0x1000 + offset, size)
        names += name + b"\0"
    parts = [(b".text", 1, 6, code, 0), (b".symtab", 2, 0, table, 3), (b".strtab", 3, 0, names, 0),
             *((name, 1, flags, content, 0) for name, flags, content in more)]
    titles = b"\0" + b"".join(part[0] + b"\0" for part in parts) + b".shstrtab\0"
    out, heads, title = bytearray(0x1000), [bytes(64)], 1
    for name, kind, flags, content, link in (*parts, (b".shstrtab", 3, 0, titles, 0)):
        out += bytes(-len(out) % 4096)
        heads.append(struct.pack("<IIQQQQIIQQ", title, kind, flags, len(out) if flags & 2 else 0, len(out), len(content), link, 1, 16,
                                 24 if kind == 2 else 0))
        title += len(name) + 1
        out += content
    mapped = min(len(out), MIB)  # as much as tests/programs/hostile.cpp maps
    out[:120] = struct.pack("<16sHHIQQQIHHHHHHIIQQQQQQ", b"\x7fELF\2\1\1", 3, 62, 1, 0, 64, len(out), 0, 64, 56, 1, 64, len(heads),
                            len(heads) - 1, 1, 5, 0, 0, 0, mapped, mapped, 0x1000)
    return bytes(out) + b"".join(heads)


def with_frames(code, symbols, frames):
    """The same, with call frame information (start in the code, size, instructions of each)."""
    def place_of(content):
        heads = struct.unpack_from("<Q", content, 40)[0]
        return struct.unpack_from("<Q", content, heads + 64 * 4 + 24)[0]  # its fourth section
    def section(address):
        cie = struct.pack("<IB", 0, 1) + b"zR\0" + b"\1\x78\x10\1\x1b" + b"\x0c\7\x08\x90\1" + bytes(2)
        out = bytearray(struct.pack("<I", len(cie)) + cie)
        for start, size, instructions in frames:
            body = struct.pack("<Iiib", len(out) + 4, 0x1000 + start - (address + len(out) + 8), size, 0) + instructions
            body += bytes(-len(body) % 4)
            out += struct.pack("<I", len(body)) + body
        return bytes(out) + bytes(4)
    alloc = 2
    empty = library(code, symbols, [(b".eh_frame", alloc, bytes(16))])
    return library(code, symbols, [(b".eh_frame", alloc, section(place_of(empty)))])


class Costs(Hostile):
    """Few bytes that stand for much: each is a refusal that names the cause, and the rest of the process is measured."""

    RETURN = b"\xc3"

    def evil(self, name, *what):
        return self.hostile("code", self.file(name, library(*what)))

    @staticmethod
    def doubled(levels):
        """A name of C++ and one of Rust that are twice as long with each ten letters."""
        def digits(number, letters):
            out = ""
            while True:
                out = letters[number % len(letters)] + out
                number //= len(letters)
                if not number:
                    return out
        def seen(number, letters):
            return "_" if number == 0 else digits(number - 1, letters) + "_"
        cpp, last = "_Z1f1AIiiE", 1
        for level in range(levels):
            cpp += "S_I" + 2 * ("S" + seen(last, string.digits + string.ascii_uppercase)) + "E"
            last = level + 2
        rust = "_RINvC1a1f"
        last = len(rust) - 2
        rust += "TllE"
        for _ in range(levels):
            here = len(rust) - 2
            rust += "T" + 2 * ("B" + seen(last, string.digits + string.ascii_letters)) + "E"
            last = here
        return cpp.encode(), (rust + "E").encode()

    def test_names_that_grow(self):
        """A symbol of some hundred letters took 4 GB and for ever to be shown; one of a million ended mdl-inject."""
        plan = self.plan()
        for name in (*self.doubled(40), *self.doubled(9), b"_Z1f" + b"P" * 1_000_000 + b"i", b"_Z1f" + b"P" * 15_000 + b"i"):
            with self.subTest(name=name[:40], size=len(name)):
                program = self.evil("evil.so", self.RETURN * 64, [(name, 0, 16), (b"_Z5plaini", 16, 16)])
                for words in (("--list", program.pid), ("--list", program.pid, "plain(int)"), (program.pid, plan, "-d", "0"),
                              (program.pid, plan, "--dry-run", "-m", "work_calls@/Code/evil.so/nothing(int)")):
                    done = self.in_bounds(Done(*words), base=40)
                    self.assertEqual(done.status, 1 if "--dry-run" in words else 0, done.text[-400:])
                self.assertIn("plain(int)", Done("--list", program.pid, "plain*").text)
                self.assertEqual(program.ask("work 3")["work"], 3)

    def test_debug_information_of_many_entries(self):
        """A byte an entry: 30 MB were 2 GB, in a process of its own."""
        entries = 30 * MIB
        # A unit with its addresses, and blocks without anything.
        abbreviations = b"\1\x11\1\x11\1\x12\6\0\0" + b"\2\x0b\0\0\0" + b"\0"
        info = struct.pack("<HIB", 4, 0, 8) + b"\1" + struct.pack("<QI", 0x1000, 64) + b"\2" * entries + b"\0"
        program = self.evil("evil.so", self.RETURN * 64, [(b"evil", 0, 16)],
                            [(b".debug_abbrev", 0, abbreviations), (b".debug_info", 0, struct.pack("<I", len(info)) + info)])
        plan = self.compile_text(metric("calls", ["t_work"]) + metric("sums", ["evil"]).replace("sums++", "sums += $args.size"))
        done = self.in_bounds(Done(program.pid, plan, "-d", "0", "-m", "sums"), base=30 * 8 + 150)
        self.assertEqual(done.status, 1)
        self.assertIn("its debug information cannot be read: the reader failed", done.text)
        self.assertEqual(self.in_bounds(Done(program.pid, plan, "-d", "0", "-m", "calls")).status, 0)

    def measure_all_of(self, content, is_too_much=True):
        """Of a file that is too much work: nothing of it is measured, and the rest of its process is. Within the bounds in any case."""
        program = self.hostile("code", self.file("evil.so", content))
        queries = ("count t_work", "calls /Code/evil.so/*")
        self.in_bounds(Done("--list", program.pid, "t_work"))
        done = self.in_bounds(Done(program.pid, *queries, "-d", "0", "--dry-run"), base=60)
        self.assertEqual("evil.so is more work than its size allows" in done.text[-4000:], is_too_much, done.text[-4000:])
        session = self.inject(program.pid, *queries).wait_inserted()
        program.ask("work 3")
        self.assert_stopped_well(session)
        self.assertEqual(session.final()["count t_work", ""]["value"], 3)

    def test_functions_that_overlap(self):
        """Each of them is most of the code: 60 KB were 8 GB."""
        size, functions = 60_000, 3000
        symbols = [(b"f%d" % i, i, size - i) for i in range(functions)]
        self.measure_all_of(library(b"\x90" * size + self.RETURN, symbols))

    def test_one_frame_over_everything(self):
        """It was executed up to each place, and decoded up to each jump: 80 s and more. It is executed once now."""
        functions, size = 16_000, 56
        symbols = [(b"f%d" % i, i * size, size) for i in range(functions)]
        whole = functions * size
        for reach, end, instructions, is_too_much in ((size, whole, b"\x41\x0e\x10" * (whole // 2), False),
                                                      (whole // 2, whole // 2, b"", True)):
            with self.subTest(reach=reach):
                code = bytearray((b"\xe9" + struct.pack("<i", reach + 2 - 5) + b"\x90" * (size - 6) + self.RETURN) * functions)
                for i in range((whole - reach) // size, functions):
                    code[i * size:i * size + 5] = b"\x90" * 5
                self.measure_all_of(with_frames(bytes(code), symbols, [(0, end, instructions)]), is_too_much)

    def test_many_frames(self):
        """30 MB of call frame information took 287 MB."""
        path = self.folder / "evil.so"
        frames = ((i % 4096, 1, b"") for i in range(30 * MIB // 20))
        path.write_bytes(with_frames(self.RETURN * 4096, [(b"evil", 0, 16)], frames))
        path.chmod(0o755)
        program = self.hostile("code", path)
        for words in (("--list", program.pid, "t_work"), (program.pid, self.plan(), "-d", "0")):
            done = Done(*words)
            self.assertEqual(done.status, 0, done.text)
            self.assertLess(done.mb, 250)

    def test_mappings_with_long_paths(self):
        """60,000 lines of 4,000 letters: 800 MB, and 3 s each time."""
        folder = self.folder
        while len(str(folder)) < 3700:
            folder = folder / ("x" * 250)
        folder.mkdir(parents=True)
        path = folder / ("y" * 200)
        path.write_bytes(bytes(8192))
        for one in (path, *path.parents):
            if one == self.folder:
                break
            one.chmod(0o755)
        program = self.hostile("same", f"{path},60000")
        for words in (("--status", program.pid), ("--list", program.pid), ("--remove", program.pid), (program.pid, self.plan(), "-d", "0")):
            done = self.in_bounds(Done(*words))
            self.assertEqual(done.status, 1)
            self.assertIn(f"the list of mappings of process {program.pid} (/proc/{program.pid}/maps) has more than 32 MB", done.text)


class Lists(Hostile):
    """What /proc tells of a process by lines and words that the process itself may choose."""

    def test_many_mappings(self):
        program = self.hostile("ranges", 64000)
        plan = self.compile_text(metric("calls", ["t_work"]))
        for words in (("--list", program.pid, "*t_work"), ("--status", program.pid), ("--remove", program.pid),
                      (program.pid, plan, "-d", "0", "--max-pause", "2000")):  # its list of mappings is read in the stop
            self.assertEqual(self.in_bounds(Done(*words)).status, 0)

    def test_names_that_look_like_other_fields(self):
        """The name of a process stands in its stat between brackets, and in its status in a line of its own."""
        for name in (") R 1 1 1", "a%nUid:%t0", ") Z 0 0 0 0", "%n%n", "((((", "%bn"):
            with self.subTest(name=name):
                program = self.hostile("name", name)
                plan = self.compile_text(metric("calls", ["t_work"]))
                session = self.inject(program.pid, plan).wait_inserted()
                program.ask("work 7")
                self.assert_stopped_well(session)
                self.assertEqual(session.final()["calls", ""]["value"], 7)

    def test_names_of_files(self):
        for name in ("a\nb 7f0000000000-7f0000001000 r-xp 0 00:00 0 x", "a\\012b", "x (deleted)", "\t \v", "\xff"):
            with self.subTest(name=name):
                path = os.path.join(os.fsencode(self.folder), name.encode("latin-1").replace(b"/", b"_"))
                shutil.copy(PROGRAMS / "hostile", path)
                os.chmod(path, 0o755)
                program = Program("hostile", command=[*NOBODY, path, "120"])
                self.addCleanup(program.kill)
                plan = self.compile_text(metric("calls", ["t_work"]))
                session = self.inject(program.pid, plan).wait_inserted()
                program.ask("work 7")
                self.assert_stopped_well(session)
                self.assertEqual(session.final()["calls", ""]["value"], 7)


if __name__ == "__main__":
    unittest.main(verbosity=2)
