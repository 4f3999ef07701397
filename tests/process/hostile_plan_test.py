"""Plans that somebody made to break the injector, their checksum right: it ends with one of its exit statuses, never
by a signal, and the process that it was aimed at is what it was. The verifier's rules are tested one by one in
tests/unit/runtime/plan/rules_test.cpp, and fuzzed by tests/fuzz/fuzz_plan.cpp; here the whole tool is.
"""

import hashlib
import json
import random
import struct
import sys
import unittest

from harness import CONSTRAINTS, MDL_INJECT, MDLC, LiveTest, metric, run

DONE, FAILED, REJECTED = 0, 1, 4
MUTATIONS = 200
EDGES = (0, 1, 2, 7, 8, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 62, (1 << 63) - 1,
         1 << 63, (1 << 64) - 8, (1 << 64) - 1)


class Elf:
    """A plan taken apart: sections by name, to be changed and put together again."""

    def __init__(self, content):
        self.content = bytearray(content)
        self.start, = struct.unpack_from("<Q", content, 40)
        self.count, names = struct.unpack_from("<HH", content, 60)
        strings = self.header(names)[4]
        self.sections = {}
        for i in range(self.count):
            at = strings + self.header(i)[0]
            self.sections[bytes(content[at:content.index(b"\0", at)]).decode()] = i

    def header(self, index):
        return list(struct.unpack_from("<IIQQQQIIQQ", self.content, self.start + 64 * index))

    def place(self, name):
        header = self.header(self.sections[name])
        return header[4], header[5]

    def get(self, name):
        at, size = self.place(name)
        return bytes(self.content[at:at + size])

    def put(self, name, data):
        """New contents for a section: at the file's end when they are longer."""
        at, size = self.place(name)
        if len(data) > size:
            at = len(self.content)
            self.content += data
        else:
            self.content[at:at + len(data)] = data
        header = self.header(self.sections[name])
        header[4], header[5] = at, len(data)
        struct.pack_into("<IIQQQQIIQQ", self.content, self.start + 64 * self.sections[name], *header)

    def sealed(self):
        try:
            at, size = self.place(".mdl.checksum")
        except struct.error:
            return bytes(self.content)
        if size == 32 and at + 32 <= len(self.content):
            self.content[at:at + 32] = bytes(32)
            self.content[at:at + 32] = hashlib.sha256(self.content).digest()
        return bytes(self.content)


def paths(value, path=()):
    """Every place of a JSON text."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from paths(child, path + (key,))


def change_manifest(chance, elf):
    """One to three lies in the manifest."""
    manifest = json.loads(elf.get(".mdl.manifest"))
    for _ in range(chance.randint(1, 3)):
        path = chance.choice(list(paths(manifest))[1:])
        parent = manifest
        for key in path[:-1]:
            parent = parent[key]
        key, old = path[-1], parent[path[-1]]
        kind = chance.randrange(5)
        if kind == 0:
            parent.pop(key)
        elif kind == 1:
            parent[key] = chance.choice([*EDGES, -1, -(1 << 63), 0.5, 1e308, None, True, [], {}, "", "\ufffd", "x" * 4096])
        elif kind == 2 and isinstance(parent, list):
            parent.extend([old] * chance.choice((1, 2, 300)))
        elif kind == 3:
            other = chance.choice(list(paths(manifest))[1:])
            value = manifest
            for step in other:
                value = value[step]
            parent[key] = json.loads(json.dumps(value))
        elif isinstance(old, bool):
            parent[key] = not old
        elif isinstance(old, int):
            parent[key] = old + chance.choice((-1, 1, 8, 1 << 31, 1 << 32))
        elif isinstance(old, str):
            words = [step for step in paths(manifest) if step]
            parent[key] = old[:chance.randrange(len(old) + 1)] + chance.choice(("", ".2", "\\", "\u0000", str(chance.choice(words)[-1])))
    elf.put(".mdl.manifest", json.dumps(manifest, separators=(",", ":")).encode())


def change_numbers(chance, elf, name, entry, fields):
    """Fields of entries of a table: (offset, format)."""
    at, size = elf.place(name)
    for _ in range(chance.randint(1, 3)):
        if size < entry:
            return
        row = at + entry * chance.randrange(size // entry)
        offset, code = chance.choice(fields)
        old, = struct.unpack_from(code, elf.content, row + offset)
        bits = 8 * struct.calcsize(code)
        new = chance.choice([*EDGES, old + 1, old - 1, old + 4, old ^ 1 << chance.randrange(bits)]) % (1 << bits)
        struct.pack_into(code, elf.content, row + offset, new)


def change_text(chance, elf):
    at, size = elf.place(".text")
    for _ in range(chance.randint(1, 4)):
        where = at + chance.randrange(size)
        piece = chance.choice((b"\xcc", b"\xc3", b"\x0f\x05", b"\xeb\xfe", b"\x90", bytes([chance.randrange(256)]), b"\x4d",
                               b"\x48\x89\xfc", b"\xd5", b"\xff\xe0", b"\x62", b"\x0f\x0b"))
        piece = piece[:at + size - where]
        elf.content[where:where + len(piece)] = piece


def change_bytes(chance, elf):
    for _ in range(chance.randint(1, 8)):
        elf.content[chance.randrange(len(elf.content))] = chance.randrange(256)


def mutate(chance, content):
    elf = Elf(content)
    kind = chance.randrange(7)
    if kind <= 1:
        change_manifest(chance, elf)
    elif kind == 2:
        change_text(chance, elf)
    elif kind == 3:
        change_numbers(chance, elf, ".rela.text", 24, ((0, "<Q"), (8, "<I"), (12, "<I"), (16, "<Q")))
    elif kind == 4:
        change_numbers(chance, elf, ".symtab", 24, ((0, "<I"), (4, "<B"), (6, "<H"), (8, "<Q"), (16, "<Q")))
    elif kind == 5:
        fields = ((0, "<I"), (4, "<I"), (24, "<Q"), (32, "<Q"), (40, "<I"), (44, "<I"), (56, "<Q"))
        row = elf.start + 64 * chance.randrange(elf.count)
        offset, code = chance.choice(fields)
        struct.pack_into(code, elf.content, row + offset, chance.choice(EDGES) % (1 << 8 * struct.calcsize(code)))
    else:
        change_bytes(chance, elf)
    return elf.sealed()


class HostilePlans(LiveTest):
    def setUp(self):
        super().setUp()
        self.program = self.start("children")
        names = metric("work_calls", ["t_work"], constraints=["procedure"]) + metric("work_ends", ["t_work"], "return")
        self.plan = self.compile_text(CONSTRAINTS.split("constraint module")[0] + names)
        self.before = self.remember(self.program.pid)

    def attempt(self, content, what):
        plan = self.folder / "hostile.bin"
        plan.write_bytes(content)
        checked = run(MDL_INJECT, "--verify", plan)
        self.assertIn(checked.returncode, (DONE, REJECTED), f"{what}: {checked.stderr}")
        if checked.returncode == REJECTED:
            self.assertNotEqual(checked.stderr, "", what)
        done = run(MDL_INJECT, self.program.pid, plan, "-d", "0", "--format", "ndjson")
        allowed = (REJECTED,) if checked.returncode == REJECTED else (DONE, FAILED, REJECTED)
        self.assertIn(done.returncode, allowed, f"{what}: {done.stderr}")
        return checked.returncode

    def test_mutated_plans(self):
        seed = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 1
        chance = random.Random(seed)
        content = self.plan.read_bytes()
        accepted = 0
        for number in range(MUTATIONS):
            accepted += self.attempt(mutate(chance, content), f"mutation {number} of seed {seed}") == DONE
            if number % 20 == 19:
                self.assert_untouched(self.program.pid, self.before)
        self.assertLess(accepted, MUTATIONS // 2)
        self.works_still(content)

    def works_still(self, content):
        self.assert_untouched(self.program.pid, self.before)
        ran = self.program.ask("work 0")["work"]
        session = self.inject(self.program.pid, self.plan).wait_inserted()
        self.assertEqual(self.program.ask("work 5")["work"], ran + 5)
        self.assert_stopped_well(session)
        self.assertEqual(session.final()["work_calls", ""]["value"], 5)
        self.assertEqual(self.attempt(content, "the plan itself"), DONE)
        self.assert_untouched(self.program.pid, self.before)

    def test_patterns_match_in_linear_time(self):
        """A backreference makes a match take minutes: no such pattern is taken, neither by mdlc nor from a plan."""
        source = 'exclude regex "PATTERN";\n' + metric("calls", ["t_work"])
        for pattern in (r"(_*)*\1\1\1x", r"(a|aa)+\1$", r"^(?=.*x)", r"(((a{99}){99}){99}){99}"):
            name = self.folder / "pattern.mdl"
            name.write_text(source.replace("PATTERN", pattern))
            done = run(MDLC, name, "-o", self.folder / "no.bin")
            self.assertEqual(done.returncode, 1, pattern)
            self.assertIn("[E0110]", done.stderr)
            elf = Elf(self.compile_text(source.replace("PATTERN", "t_nothing")).read_bytes())
            manifest = elf.get(".mdl.manifest").replace(b'"t_nothing"', json.dumps(pattern).encode())
            elf.put(".mdl.manifest", manifest)
            plan = self.folder / "pattern.bin"
            plan.write_bytes(elf.sealed())
            done = run(MDL_INJECT, self.program.pid, plan, "-d", "0")
            self.assertEqual(done.returncode, REJECTED, f"{pattern}: {done.stderr}")
            self.assertIn("which cannot be used", done.stderr)
        self.assert_untouched(self.program.pid, self.before)

    def test_manifests_that_grow(self):
        """Megabytes of brackets: refused in bounded memory and time."""
        for text in (b"[" * 30_000_000, b"{\"a\":" * 6_000_000, b"[" + b"[]," * 10_000_000, b"\"" * 30_000_000,
                     b"\xff" * 30_000_000, b""):
            elf = Elf(self.plan.read_bytes())
            elf.put(".mdl.manifest", text)
            plan = self.folder / "large.bin"
            plan.write_bytes(elf.sealed())
            done = run("prlimit", f"--as={1 << 30}", MDL_INJECT, self.program.pid, plan, "-d", "0")
            self.assertEqual(done.returncode, REJECTED, done.stderr[:300])
        self.works_still(self.plan.read_bytes())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
