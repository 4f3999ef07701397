"""How the two programs are built: what makes a mistake in them hard to use, and their bill of materials. Asks readelf
about the programs themselves; the flags of the build are not looked at."""
import json
import os
import pathlib
import re
import subprocess
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TOOLS = [pathlib.Path(os.environ[name]) for name in ("MDLC", "MDL_INJECT")]


def readelf(tool, *options):
    return subprocess.run(["readelf", "-W", *options, tool], capture_output=True, text=True, timeout=120, check=True).stdout


class Built(unittest.TestCase):
    def each(self):
        for tool in TOOLS:
            with self.subTest(tool=tool.name):
                yield tool

    def test_it_is_placed_anywhere(self):
        for tool in self.each():
            self.assertRegex(readelf(tool, "-h"), r"Type:\s+DYN")
            self.assertIn("PIE", re.search(r"FLAGS_1.*", readelf(tool, "-d"))[0])

    def test_the_tables_of_the_linker_are_read_only(self):
        for tool in self.each():
            self.assertIn("GNU_RELRO", readelf(tool, "-l"))
            dynamic = readelf(tool, "-d")
            self.assertRegex(dynamic, r"BIND_NOW|FLAGS_1.*NOW")
            self.assertNotIn("TEXTREL", dynamic)
            self.assertNotRegex(dynamic, r"R(UN)?PATH")

    def test_no_memory_can_be_written_and_executed(self):
        for tool in self.each():
            segments = readelf(tool, "-l")
            self.assertNotIn("RWE", segments)
            self.assertRegex(segments, r"GNU_STACK.* RW ")

    def test_stacks_and_copies_are_checked(self):
        """In functions that we compile, a library's of headers among them: the linked libraries have such checks, too."""
        for tool in self.each():
            with subprocess.Popen(["objdump", "-d", "--no-show-raw-insn", tool], stdout=subprocess.PIPE, text=True) as process:
                ours, called = False, set()
                for line in process.stdout:
                    if line.endswith(">:\n"):
                        ours = "3mdl" in line or "8nlohmann" in line
                    elif ours and "_chk" in line:
                        called.update(re.findall(r"<(__\w+_chk\w*)@plt>", line))
            self.assertIn("__stack_chk_fail", called)
            self.assertNotEqual(called - {"__stack_chk_fail"}, set())

    def test_the_library_checks_indices(self):
        """_GLIBCXX_ASSERTIONS."""
        for tool in self.each():
            self.assertIn("__glibcxx_assert_fail", readelf(tool, "--dyn-syms"))

    def test_shadow_stacks(self):
        for tool in self.each():
            self.assertRegex(readelf(tool, "-n"), r"x86 feature:.*SHSTK")

    def test_indirect_branches_of_ours_land_on_endbr64(self):
        for tool in self.each():
            functions = [int(line.split()[1], 16) for line in readelf(tool, "-s").splitlines()
                         if re.search(r" FUNC .* _ZN3mdl\w+$", line) and " UND " not in line]
            self.assertGreater(len(functions), 100)
            text = tool.read_bytes()
            loads = [(int(a, 16), int(o, 16), int(s, 16)) for o, a, s in
                     re.findall(r"LOAD\s+(0x\w+) (0x\w+) 0x\w+ (0x\w+)", readelf(tool, "-l"))]

            def begins_well(address):
                start, offset, _ = next(load for load in loads if load[0] <= address < load[0] + load[2])
                return text[address - start + offset:][:4] == b"\xf3\x0f\x1e\xfa"

            # A function that is local and never taken as a value needs none.
            marked = sum(map(begins_well, functions[:2000]))
            self.assertGreater(marked, len(functions[:2000]) * 0.5)


class Materials(unittest.TestCase):
    def setUp(self):
        self.file = TOOLS[0].parents[1] / "share/mdl/sbom.spdx.json"
        self.sbom = json.loads(self.file.read_text())
        self.packages = {package["name"]: package for package in self.sbom["packages"]}

    def test_it_is_of_these_programs(self):
        self.assertEqual(self.sbom["spdxVersion"], "SPDX-2.3")
        for tool in TOOLS:
            self.assertIn(tool.name, self.packages)

    def test_the_same_parts_give_the_same_bytes(self):
        """The only time is that of SOURCE_DATE_EPOCH."""
        def made(**environment):
            out = self.file.parent / f"again-{os.getpid()}.json"
            subprocess.run([SOURCE / "scripts/sbom", out, "1.0", "--program", "mdlc", "--part", "mdlc=/bin/sh"], check=True,
                           timeout=60, env=os.environ | environment)
            text = out.read_text()
            out.unlink()
            return text

        self.assertEqual(made(), made())
        self.assertIn('"created": "2001-09-09T01:46:40Z"', made(SOURCE_DATE_EPOCH="1000000000"))

    def test_each_library_has_its_version(self):
        for name in ("fmt", "nlohmann_json", "CLI11", "libsodium", "re2", "toml11", "liblzma", "zydis", "LLVM",
                     "antlr4-runtime"):
            with self.subTest(name=name):
                self.assertRegex(self.packages[name]["versionInfo"], r"\d")

    def test_ids_are_unique_and_relations_are_of_them(self):
        ids = [package["SPDXID"] for package in self.sbom["packages"]]
        self.assertEqual(len(ids), len(set(ids)))
        for relation in self.sbom["relationships"]:
            self.assertLessEqual({relation["spdxElementId"], relation["relatedSpdxElement"]}, {*ids, "SPDXRef-DOCUMENT"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
