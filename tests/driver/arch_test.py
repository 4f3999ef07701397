"""Shared code of the injector knows no machine (docs/architecture.md, decision 12): outside of runtime/arch/<target>/
no file includes one of a target's or names a register, an opcode or a relocation of one. What only comments say is not
looked at. Needs no program."""
import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ARCH = SOURCE / "runtime/arch"
TARGETS = sorted(path.name for path in ARCH.iterdir() if path.is_dir())
SHARED = [path for folder in ("runtime", "mdl-inject") for path in sorted((SOURCE / folder).rglob("*"))
          if path.suffix in (".h", ".cpp", ".def", ".inc", ".S") and not (ARCH in path.parents and path.parent != ARCH)]
MACHINE = re.compile(
    r"x86|amd64|aarch64|riscv|R_(?:AARCH64|RISCV)_"  # machines, and their relocations
    r"|\b[re](?:ax|bx|cx|dx|si|di|bp|sp|ip)\b|\br(?:8|9|1[0-5])d?\b|\be?flags_?reg\b|\bfs_base\b|[xyz]mm\d"
    r"|endbr|\bint3\b|\bcpuid\b|rdtsc|modrm|zydis"
    r"|\b0x(?:cc|e8|e9|eb)\b"  # opcodes
    r"|user_regs_struct|user_pt_regs|<(?:asm/[^>]*|sys/(?:user|reg|ucontext)\.h)>", re.IGNORECASE)
# A word of code that no other name can be given to: the names of machines, for messages.
ALLOWED = {"runtime/image/elf.cpp": {"EM_X86_64", "x86_64", "EM_AARCH64", "aarch64", "EM_RISCV", "riscv"}}


def name(path):
    return str(path.relative_to(SOURCE))


def code(path):
    """Lines without comments, by number."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", lambda found: "\n" * found.group().count("\n"), text, flags=re.DOTALL)
    return enumerate((re.sub(r"//.*", "", line) for line in text.splitlines()), 1)


class Arch(unittest.TestCase):
    def test_there_is_something_to_look_at(self):
        self.assertIn("x86_64", TARGETS)
        self.assertGreater(len(SHARED), 200)

    def test_no_target_is_included(self):
        for path in SHARED:
            for number, line in code(path):
                self.assertNotRegex(line, rf'"runtime/arch/(?:{"|".join(TARGETS)})/', f"{name(path)}:{number}")

    def test_no_machine_is_named(self):
        for path in SHARED:
            for number, line in code(path):
                for word in ALLOWED.get(name(path), ()):
                    line = line.replace(word, "")
                self.assertNotRegex(line, MACHINE, f"{name(path)}:{number}")

    def test_each_target_has_all_headers(self):
        """Each of the interface's headers is included by the target's sources, so by those that implement it."""
        facts = {"bytes.h", "target_data.h"}  # there is nothing to implement
        headers = {path.name for path in ARCH.glob("*.h")} - facts
        for folder in [*(ARCH / target for target in TARGETS), SOURCE / "tests/toy"]:
            text = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.[hc]*"))
            missing = [one for one in sorted(headers) if f'"runtime/arch/{one}"' not in text]
            self.assertEqual(missing, [], name(folder))


if __name__ == "__main__":
    unittest.main(verbosity=2)
