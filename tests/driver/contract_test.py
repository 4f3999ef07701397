"""mdlc's command line: the contract of docs/man/mdlc.1."""
import json
import os
import re
import resource
import signal
import subprocess
import unittest

from mdlc_case import BAD, DONE, FAILED, GOOD, MDLC, SOURCE, USAGE, MdlcCase


class Driver(MdlcCase):
    def test_usage_errors_say_what_is_wrong(self):
        for args, word in (
            ([], "no input file"),
            (["--nothing", "good.mdl"], "--nothing"),
            (["--target=vax", "good.mdl"], "x86_64"),
            (["-mcpu=z80", "good.mdl"], "z80"),
            (["-mcpu", "z80", "good.mdl"], "z80"),
            (["--disable-pass=magic", "good.mdl"], "constant-fold"),
            (["--emit=poem", "good.mdl"], "asm, ast, ir, mdl, plan"),
            (["--std=c++", "good.mdl"], "classic"),
            (["--diagnostics=loud", "good.mdl"], "sarif"),
            (["--explain", "E9999"], "E9999"),
        ):
            with self.subTest(args=args):
                done = self.run_mdlc(*args, status=USAGE)
                self.assertIn(word, done.stderr)
                self.assertEqual(done.stdout, "")
        self.assertNotIn("plan.bin", self.files())

    def test_help_and_version(self):
        self.assertIn("--disable-pass", self.run_mdlc("--help").stdout)
        self.assertRegex(self.run_mdlc("--version").stdout, r"^mdlc \d+\.\d+\.\d+ \(plan format 1\)\n$")

    def test_every_code_is_explained(self):
        table = (SOURCE / "compiler/support/diagnostics.def").read_text()
        codes = re.findall(r'^MDL_DIAGNOSTIC\(\w+, "(\w+)"', table, re.M)
        self.assertGreater(len(codes), 30)
        for code in codes:
            with self.subTest(code=code):
                lines = self.run_mdlc("--explain", code).stdout.splitlines()
                self.assertTrue(lines[0].startswith(f"{code}: "))
                self.assertGreater(len(lines), 2)

    def test_output_goes_where_it_is_asked_to(self):
        self.run_mdlc("good.mdl")
        plan = (self.folder / "plan.bin").read_bytes()
        self.assertEqual(plan[:4], b"\x7fELF")
        self.run_mdlc("good.mdl", "-o", "other.bin")
        self.assertEqual((self.folder / "other.bin").read_bytes(), plan)
        piped = subprocess.run([MDLC, "good.mdl", "-o", "-"], cwd=self.folder, capture_output=True, timeout=60)
        self.assertEqual(piped.stdout, plan)
        self.assertIn("snippet m_entry", self.run_mdlc("good.mdl", "--emit=ir").stdout)
        self.run_mdlc("good.mdl", "--emit=asm", "-o", "good.s")
        self.assertIn("addq $1, mdl_cell_0(%r11)", (self.folder / "good.s").read_text())
        self.run_mdlc("good.mdl", "-o", "/dev/null")

    def test_permissions_are_those_of_a_new_file_or_of_the_old_one(self):
        self.run_mdlc("good.mdl", "-o", "new.bin", preexec_fn=lambda: os.umask(0o027))
        self.assertEqual((self.folder / "new.bin").stat().st_mode & 0o777, 0o640)
        (self.folder / "new.bin").chmod(0o604)
        self.run_mdlc("good.mdl", "-o", "new.bin")
        self.assertEqual((self.folder / "new.bin").stat().st_mode & 0o777, 0o604)

        self.run_mdlc("good.mdl", "-o", "all.bin", preexec_fn=lambda: os.umask(0))
        self.assertEqual((self.folder / "all.bin").stat().st_mode & 0o777, 0o644, "nobody else may put code into a plan")

    def test_links(self):
        """The output goes through one's own, which stays one, and not through another user's."""
        file, link = self.folder / "file", self.folder / "link"
        for words in (("good.mdl", "-o", "link"), ("good.mdl", "--emit=ir", "-o", "link"), ("good.mdl", "--depfile", "link"),
                      ("--reformat", "good.mdl", "-o", "link")):
            file.write_text("old")
            link.unlink(missing_ok=True)
            link.symlink_to("file")
            self.run_mdlc(*words)
            self.assertTrue(link.is_symlink())
            self.assertNotEqual(file.read_bytes(), b"old")
            if os.geteuid() == 0:
                file.write_text("old")
                os.chown(link, 65534, 65534, follow_symlinks=False)
                self.assertIn("a symbolic link of another user", self.run_mdlc(*words, status=FAILED).stderr)
                self.assertEqual(file.read_text(), "old")

    def test_a_file_of_another_user_is_replaced(self):
        """Its mode is that one's choice, and his descriptor leads to the old one."""
        if os.geteuid() != 0:
            self.skipTest("root only")
        file = self.folder / "his.bin"
        file.write_text("old")
        os.chown(file, 65534, 65534)
        file.chmod(0o666)
        with open(file, "rb") as his:
            self.run_mdlc("good.mdl", "-o", "his.bin")
            self.assertEqual(his.read(), b"old")
        self.assertEqual((file.stat().st_uid, file.stat().st_mode & 0o777), (0, 0o644))

    def test_a_full_disk_leaves_what_was_there(self):
        def full():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        (self.folder / "plan.bin").write_bytes(b"before")
        before = self.files()
        self.assertIn("cannot write plan.bin: File too large", self.run_mdlc("good.mdl", status=FAILED, preexec_fn=full).stderr)
        self.assertEqual((self.files(), (self.folder / "plan.bin").read_bytes()), (before, b"before"))

    def test_errors_leave_what_was_there(self):
        (self.folder / "plan.bin").write_bytes(b"before")
        before = self.files()
        done = self.run_mdlc("bad.mdl", status=FAILED)
        self.assertIn("bad.mdl:3:", done.stderr)
        self.assertIn("'nobody' is not defined [E0201]", done.stderr)
        self.assertEqual((self.folder / "plan.bin").read_bytes(), b"before")
        self.assertEqual(self.files(), before)
        self.assertIn("missing.mdl", self.run_mdlc("missing.mdl", status=FAILED).stderr)
        self.assertIn("cannot open no/such/folder: ", self.run_mdlc("good.mdl", "-o", "no/such/folder", status=FAILED).stderr)
        self.assertIn("directory", self.run_mdlc("good.mdl", "-o", ".", status=FAILED).stderr)
        self.assertEqual(self.files(), before)
        with open("/dev/full", "w") as full:
            done = subprocess.run([MDLC, "good.mdl", "-o", "-"], cwd=self.folder, stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=60)
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("No space left", done.stderr)

    def test_check_writes_nothing(self):
        before = self.files()
        self.run_mdlc("good.mdl", "--check")
        self.run_mdlc("bad.mdl", "--check", status=FAILED)
        self.assertEqual(self.files(), before)

    def test_warnings(self):
        self.assertIn("warning: ", self.run_mdlc("warned.mdl").stderr)
        self.assertIn("error: ", self.run_mdlc("-Werror", "warned.mdl", status=FAILED).stderr)

    def test_several_files_are_one_program(self):
        self.source("list.mdl", 'resourceList fs is procedure { items { "f" }; flavor { unix }; }\n')
        use = GOOD.replace("append", "foreach f in fs append").replace("$start.entry", "f.entry")
        self.source("use.mdl", use)
        self.run_mdlc("use.mdl", status=FAILED)
        self.run_mdlc("list.mdl", "use.mdl")

    def test_directories(self):
        self.source("lib/inside.mdl", GOOD)
        self.run_mdlc("inside.mdl", status=FAILED)
        self.run_mdlc("-I", "nowhere", "-I", "lib", "inside.mdl")
        self.run_mdlc("-Ilib", "inside.mdl", "--check")

    def test_the_plan_depends_on_nothing_but_the_text(self):
        plans = []
        for name in ("a.mdl", "elsewhere/b.mdl"):
            self.source(name, GOOD)
            self.run_mdlc(name, "-o", "p.bin", env={"TZ": "UTC+5", "LC_ALL": "C", "MALLOC_PERTURB_": str(len(plans) + 1)})
            plans.append((self.folder / "p.bin").read_bytes())
        self.assertEqual(plans[0], plans[1])
        self.assertNotIn(b"b.mdl", plans[1])
        self.assertNotIn(str(self.folder).encode(), plans[1])

    def test_json_diagnostics(self):
        report = json.loads(self.run_mdlc("bad.mdl", "--diagnostics=json", status=FAILED).stderr)
        [one] = report["diagnostics"]
        place = (one["file"], one["line"], one["column"], one["end_line"], one["end_column"])
        column = BAD.splitlines()[2].index("nobody") + 1
        self.assertEqual(place, ("bad.mdl", 3, column, 3, column + len("nobody")))
        self.assertEqual((one["code"], one["severity"]), ("E0201", "error"))
        self.assertEqual(report["dropped"], 0)
        clean = json.loads(self.run_mdlc("good.mdl", "--diagnostics=json", "--check").stderr)
        self.assertEqual(clean, {"diagnostics": [], "dropped": 0})

    def test_sarif_diagnostics(self):
        report = json.loads(self.run_mdlc("warned.mdl", "--diagnostics=sarif").stderr)
        self.assertEqual(report["version"], "2.1.0")
        [run] = report["runs"]
        [result] = run["results"]
        self.assertEqual(result["level"], "warning")
        self.assertIn({"id": result["ruleId"]}, run["tool"]["driver"]["rules"])
        location = result["locations"][0]["physicalLocation"]
        self.assertEqual(location["artifactLocation"]["uri"], "warned.mdl")
        self.assertEqual(location["region"]["startLine"], 3)

    def test_readelf_nm_and_objdump_read_the_plan(self):
        self.run_mdlc("good.mdl")
        def tool(*args):
            return subprocess.run([*args, "plan.bin"], cwd=self.folder, capture_output=True, text=True, check=True)
        sections = tool("readelf", "-SW")
        self.assertEqual(sections.stderr, "")
        for name in (".text", ".rela.text", ".mdl.manifest", ".mdl.checksum"):
            self.assertIn(name, sections.stdout)
        self.assertIn(" T m_entry", tool("nm").stdout)
        code = tool("objdump", "-dr").stdout
        self.assertIn("<m_entry>:", code)
        self.assertIn("R_X86_64_32S\tmdl_cell_0", code)


if __name__ == "__main__":
    unittest.main(verbosity=2)
