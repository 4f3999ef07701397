"""Kinds of files that a process may run: linked in every way, stripped, with their symbols elsewhere, gone or
replaced on disk, in other namespaces, with functions that are chosen at the start and names of C++.
"""

import os
import shutil
import subprocess
import unittest

from harness import CONSTRAINTS, MDL_INJECT, PROGRAMS, LiveTest, entries_and_returns, metric, put_down, run, soon

WORK = "work_calls"
CALLS = 1000


def addresses(program):
    """{name: address in the file} of a program's functions."""
    lines = run("nm", program).stdout.splitlines()
    return {line.split()[2]: int(line.split()[0], 16) for line in lines if len(line.split()) == 3}


def as_root(*command):
    """Those of another user run it in a user namespace of their own."""
    return [*(["unshare", "--map-root-user"] if os.geteuid() else []), *map(str, command)]


class ImageTest(LiveTest):
    def count(self, program, functions, *options):
        """The calls of these functions while the program works."""
        plan = self.compile_text(metric(WORK, functions))
        before = self.remember(program.pid)
        session = self.inject(program.pid, plan, *options).wait_inserted()
        program.ask(f"work {CALLS}")
        self.assert_stopped_well(session)
        self.assert_untouched(program.pid, before)
        program.ask(f"work {CALLS}")
        return session.final()[WORK, ""]["value"]

    def listed(self, program, glob):
        """{name: names besides} of --list."""
        lines = run(MDL_INJECT, "--list", program.pid, glob).stdout.splitlines()
        return {line.split("  ")[0]: line.split("  ")[1:] for line in lines}


class Linked(ImageTest):
    KINDS = ("images", "images-nopie", "images-static", "images-static-pie", "images-two-segments",
             "images-musl", "images-musl-static")

    def test_kinds(self):
        for kind in self.KINDS:
            with self.subTest(kind):
                program = self.start(kind)
                self.assertEqual(self.count(program, ["t_image_work", "t_image_inner"]), 2 * CALLS)
                work = f"{kind}/t_image_work"
                for name in ("t_image_wor?", work, f"/Code/{work}"):
                    self.assertEqual(list(self.listed(program, name)), [f"/Code/{work}"])
                self.assertEqual(program.end(), 0)

    def test_last_values(self):
        """Each C library has its own way to the end of a process."""
        plan = self.compile_text(metric(WORK, ["t_image_work"]))
        for kind in self.KINDS:
            with self.subTest(kind):
                program = self.start(kind)
                # No sample but the first and the last.
                session = self.inject(program.pid, plan, interval="100").wait_inserted()
                program.ask(f"work {CALLS}")
                self.assertEqual(program.end(), 0)
                self.assertEqual(session.wait(), 0, session.errors)
                line = session.final()[WORK, ""]
                self.assertEqual((line["value"], line.get("complete", True)), (CALLS, True), session.errors)


class Stripped(ImageTest):
    def check(self, program, twin):
        """Functions without a name are named by their address."""
        at = addresses(PROGRAMS / twin)
        names = [f"sub_{at[name]:x}" for name in ("t_image_work", "t_image_local")]
        self.assertEqual(self.count(program, names), 2 * CALLS)
        path = f"/Code/{program.name}/"
        listed = self.listed(program, path + "*")
        for name in names:
            self.assertIn(path + name, listed)
        self.assertEqual(program.end(), 0)

    def test_dynamic(self):
        self.check(self.start("images-stripped"), "images")

    def test_static(self):
        self.check(self.start("images-static-stripped"), "images-static")

    def test_switch_with_a_cold_part(self):
        """Labels of a switch are no tail jumps, whatever the first one is."""
        for program, twin in (("images-stripped", "images"), ("images-static-stripped", "images-static")):
            with self.subTest(program):
                name = f"sub_{addresses(PROGRAMS / twin)['t_image_switch']:x}"
                plan = self.compile_text(metric("ins", [name]) + metric("outs", [name], point="return"))
                program = self.start(program)
                session = self.inject(program.pid, plan).wait_inserted()
                program.ask(f"work {CALLS}")
                self.assert_stopped_well(session)
                counts = {key[0]: (line["value"], line["refused"]) for key, line in session.final().items()}
                self.assertEqual(counts, {"ins": (CALLS, 0), "outs": (CALLS, 0)})

    def test_ways_out(self):
        """A part without a name that throws is no return, and a method that is called last is one, beside a switch."""
        functions = ["t_throws", "t_either", "t_method"]
        plan = self.compile_text(entries_and_returns(functions))
        for name in ("parts-gcc-O3-stripped", "parts-gcc-Os-nopie-stripped", "parts-clang-O2-stripped",
                     "parts-clang-Os"):
            with self.subTest(name):
                program = self.start(name)
                session = self.inject(program.pid, plan).wait_inserted()
                done = program.ask(f"go {CALLS}")
                self.assert_stopped_well(session)
                self.assertLess(max(done["returns"]["t_throws"], done["returns"]["t_either"]), CALLS)
                truth = {f"entries_{one}": (CALLS, 0) for one in functions}
                truth.update({f"returns_{one}": (count, 0) for one, count in done["returns"].items()})
                counts = {key[0]: (line["value"], line["refused"]) for key, line in session.final().items()}
                self.assertEqual(counts, truth)
                self.assertEqual(program.end(), 0)

    def test_functions_with_parts_that_nothing_calls_by_name(self):
        """At a fixed address and with packed relocations: their address is taken, or others end with them."""
        for twin, names in (("parts-gcc-O2-nopie", ["listed_in_data", "passed_on", "called_last"]),
                            ("parts-gcc-O2-packed", ["listed_in_data", "called_last"])):
            with self.subTest(twin):
                at = addresses(PROGRAMS / twin)
                self.assertEqual(run("objcopy", "--strip-all", PROGRAMS / twin, self.folder / twin).returncode, 0)
                program = self.start(twin, command=[self.folder / twin, "120"])
                plan = self.compile_text(entries_and_returns([f"sub_{at[name]:x}" for name in names]))
                session = self.inject(program.pid, plan).wait_inserted()
                program.ask(f"go {CALLS}")
                self.assert_stopped_well(session)
                counts = {key[0]: (line["value"], line["refused"]) for key, line in session.final().items()}
                truth = {f"{event}_sub_{at[name]:x}": (CALLS, 0) for event in ("entries", "returns") for name in names}
                self.assertEqual(counts, truth)
                self.assertEqual(program.end(), 0)

    def test_parts_and_stubs_are_no_functions(self):
        program = self.start("images-stripped")
        self.assertIn("/Code/images-stripped/_start", self.listed(program, "*/_start"))
        sections = run("readelf", "-SW", PROGRAMS / "images-stripped").stdout.splitlines()
        plt = [line.split("]")[1].split() for line in sections if " .plt" in line]
        self.assertTrue(plt)
        for fields in plt:
            start, size = int(fields[2], 16), int(fields[4], 16)
            for name in self.listed(program, "/Code/images-stripped/sub_*"):
                self.assertFalse(start <= int(name.rsplit("_", 1)[1], 16) < start + size, name)

    def test_named_stubs_are_no_functions(self):
        """tcc gives the stubs of the linkage table symbols: a call through one was counted twice."""
        named = self.folder / "named"
        stub = "malloc@plt=.plt:16,function,global"
        self.assertEqual(run("objcopy", "--add-symbol", stub, PROGRAMS / "images", named).returncode, 0)
        program = self.start("named", command=[named, "120"])
        self.assertEqual(self.listed(program, "/Code/named/malloc"), {})
        self.assertEqual(program.end(), 0)

    def test_library_without_functions(self):
        """libicudata, say, is all data: the other objects are measured."""
        source, library = self.folder / "data.c", self.folder / "data.so"
        source.write_text('__asm__(".text; nop");')
        done = run("gcc", "-shared", "-nostdlib", source, "-o", library)
        self.assertEqual(done.returncode, 0, done.stderr)
        program = self.start("images", command=["env", f"LD_PRELOAD={library}", PROGRAMS / "images", "120"])
        session = self.inject(program.pid, "calls /Code/*").wait_inserted()
        program.ask(f"work {CALLS}")
        self.assert_stopped_well(session)
        self.assertGreaterEqual(session.final()["calls /Code/*", "/Code/images"]["value"], 2 * CALLS)
        self.assertIn("/Code/data.so cannot be measured", session.errors)
        self.assertEqual(program.end(), 0)

    def test_packed_symbols(self):
        """.gnu_debugdata, as distributions make it."""
        whole, full, small, packed = (self.folder / name for name in ("images", "full", "small", "packed"))
        shutil.copy(PROGRAMS / "images", whole)
        keep = self.folder / "keep"
        keep.write_text("t_image_local\nt_image_work\n")
        for command in (("objcopy", "--only-keep-debug", whole, full),
                        ("objcopy", "-S", "--remove-section", ".gdb_index", f"--keep-symbols={keep}", full, small),
                        ("xz", "-k", small),
                        ("objcopy", "-S", "--add-section", f".gnu_debugdata={small}.xz", whole, packed)):
            done = run(*command)
            self.assertEqual(done.returncode, 0, done.stderr)
        program = self.start("packed", command=[packed, "120"])
        self.assertEqual(self.count(program, ["t_image_local"]), CALLS)
        self.assertEqual(program.end(), 0)

    def test_debug_file_of_the_build_id(self):
        """It is looked for where the process would look: here, below another root."""
        root = self.folder / "root"
        build_id = run("readelf", "-n", PROGRAMS / "images-static").stdout.split("Build ID: ")[1].split()[0]
        place = root / "usr/lib/debug/.build-id" / build_id[:2]
        place.mkdir(parents=True)
        for command in (("objcopy", "--only-keep-debug", PROGRAMS / "images-static", place / f"{build_id[2:]}.debug"),
                        ("objcopy", "-S", PROGRAMS / "images-static", root / "images")):
            self.assertEqual(run(*command).returncode, 0)
        program = self.start("images", command=as_root("chroot", root, "/images", "120"))
        self.assertEqual(self.count(program, ["t_image_local"]), CALLS)
        self.assertEqual(program.end(), 0)
        # Another file of that name says nothing.
        wrong = place / f"{build_id[2:]}.debug"
        wrong.unlink()
        shutil.copy(PROGRAMS / "images", wrong)
        program = self.start("images", command=as_root("chroot", root, "/images", "120"))
        self.assertEqual(self.listed(program, "*t_image_local"), {})
        self.assertEqual(program.end(), 0)


class Places(ImageTest):
    def copy(self):
        path = self.folder / "copied"
        shutil.copy(PROGRAMS / "images", path)
        return path

    def test_deleted_file(self):
        path = self.copy()
        program = self.start("copied", command=[path, "120"])
        path.unlink()
        self.assertEqual(self.count(program, ["t_image_work"]), CALLS)
        self.assertEqual(program.end(), 0)

    def test_replaced_file(self):
        """What runs is what counts, not what lies there now."""
        path = self.copy()
        program = self.start("copied", command=[path, "120"])
        path.unlink()
        shutil.copy(PROGRAMS / "names", path)
        self.assertEqual(self.count(program, ["t_image_work"]), CALLS)
        self.assertEqual(program.end(), 0)

    def test_other_namespaces(self):
        """A file system that only the process sees, where it is process 1."""
        inside = self.folder / "inside"
        inside.mkdir()
        script = f"mount -t tmpfs none {inside} && cp {PROGRAMS}/images {inside}/hidden && exec {inside}/hidden 120"
        program = self.start("hidden", command=["unshare", "--mount", "--pid", "--fork", "--kill-child",
                                                *(["--map-root-user"] if os.geteuid() else []), "sh", "-c", script])
        self.assertFalse((inside / "hidden").exists())
        self.assertEqual(self.count(program, ["hidden/t_image_work"]), CALLS)
        self.assertEqual(program.end(), 0)


class Chosen(ImageTest):
    def test_what_an_ifunc_chose_is_counted(self):
        for kind in ("images", "images-static", "images-static-pie"):
            with self.subTest(kind):
                program = self.start(kind)
                program.ask("work 1")
                self.assertEqual(self.count(program, ["strlen"]), CALLS)
                self.assertEqual(program.end(), 0)

    def test_versions_and_aliases(self):
        program = self.start("images")
        program.ask("work 1")
        found = self.listed(program, "memcpy@GLIBC_*")
        self.assertTrue(any("=memcpy@GLIBC_2.14" in names for names in found.values()), found)
        self.assertEqual(program.end(), 0)


class LongNames(ImageTest):
    def test_names_are_demangled(self):
        """By a process of its own, which the threads ask that read the files, and others later."""
        program = self.start("long_names")
        session = self.inject(program.pid, "calls /Code/long_names/t_long* as calls")
        session.wait_inserted()
        done = program.ask("go 1000")
        self.assert_stopped_well(session)
        self.assertNotIn("is not one of a compiler", session.errors)
        calls = {focus: line["value"] for (_, focus), line in session.final().items()}
        self.assertEqual(list(calls.values()), [done["calls"]] * 3, calls.keys())
        for focus in calls:
            self.assertRegex(focus, r"^/Code/long_names/.*t_long")


class Haskell(ImageTest):
    """Code of GHC among C code."""

    def test_all_of_the_program(self):
        """Its C functions are counted; of the others nothing is touched, as the counts show, and the answer."""
        program = self.start("haskell")
        before = self.remember(program.pid)
        expected = program.ask("work 1000")["sum"]
        text = "resourceList whole is module { items { \"haskell\" }; flavor { unix }; }\n" + "".join(
            f"""metric all_{point} {{ name "{point}"; units Calls; unitsType unnormalized; aggregateOperator sum;
              style EventCounter; flavor {{ unix }};
              base is counter {{ foreach object in whole {{ foreach func in object.funcs {{
                append preInsn func.{point} (* all_{point}++; *) }} }} }} }}\n""" for point in ("entry", "return"))
        plan = self.compile_text(text + metric("work_entries", ["t_c_work"]) +
                                 metric("work_returns", ["t_c_work"], "return"))
        session = self.inject(program.pid, plan).wait_inserted()
        self.assertEqual(program.ask("work 1000")["sum"], expected)
        self.assert_stopped_well(session)
        values = {name: line["value"] for (name, _), line in session.final().items()}
        self.assertEqual((values["work_entries"], values["work_returns"]), (1000, 1000))
        self.assertLess(values["all_entry"], 2000)  # each of the two functions of Haskell's kind was entered as often
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 7)

    def test_named(self):
        program = self.start("haskell")
        done = run(MDL_INJECT, program.pid, self.compile_text(metric("outer", ["t_outer_info"])))
        self.assertEqual(done.returncode, 1)
        self.assertIn("GHC", done.stderr)
        self.assertEqual(program.ask("work 1")["sum"], 5)
        self.assertEqual(program.end(), 7)


class Mono(ImageTest):
    """A file that Mono has compiled ahead of time, by its mark: the run-time system reads the calls in it."""

    def test_left_out(self):
        marked = self.folder / "marked"
        mark = "mono_aot_file_info=.data:0,global"
        self.assertEqual(run("objcopy", "--add-symbol", mark, PROGRAMS / "images", marked).returncode, 0)
        program = self.start("marked", command=[marked, "120"])
        before = self.remember(program.pid)
        for query in ("count t_image_work", "calls /Code/marked/*", "self /Code/marked/t_image_work"):
            done = run(MDL_INJECT, program.pid, query, "-d", "0.1")
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("it is code of Mono", done.stderr)
        session = self.inject(program.pid, "calls /Code/*").wait_inserted()
        program.ask(f"work {CALLS}")
        self.assert_stopped_well(session)
        self.assertEqual(session.final().get(("calls /Code/*", "/Code/marked"), {"value": 0})["value"], 0)
        self.assertIn("/Code/marked cannot be measured", session.errors)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)


class Immovable(ImageTest):
    """Instructions that may be executed nowhere else."""

    def check(self, program, function, calls, plain, total, reason):
        program = self.start(program)
        before = self.remember(program.pid)
        plan = self.compile_text(metric("entries", [function]) + metric("returns", [function], "return") +
                                 metric("plain", ["t_plain"]))
        session = self.inject(program.pid, plan).wait_inserted()
        self.assertEqual(program.ask(f"work {calls}")["sum"], total)
        self.assert_stopped_well(session)
        final = session.final()
        self.assertEqual(final["plain", ""]["value"], plain)
        self.assertEqual([(final[name, ""]["refused"], final[name, ""]["value"]) for name in ("entries", "returns")],
                         [(1, 0), (1, 0)])
        self.assert_untouched(program.pid, before)
        listed = run(MDL_INJECT, "--dry-run", program.pid, plan)
        self.assertIn(reason, listed.stdout)
        self.assertEqual(program.end(), 0)

    def test_the_last_write_of_a_restartable_sequence(self):
        self.check("restartable", "t_add", 200000, 8 * 200000, 8 * 200000, "restartable sequence")

    def test_what_a_signal_handler_looks_for(self):
        self.check("fetches", "t_fetch", 1000, 1000, 500 * (1 + 7), "takes the address")


class Relocated(ImageTest):
    """Text relocations: what the journal says of such code is not what the file has, so no removal would believe it."""

    def test_it_is_refused_and_the_rest_comes_out(self):
        program = self.start("relocated")
        before = self.remember(program.pid)
        plan = self.compile_text(metric("relocated", ["t_relocated"]) + metric("plain", ["t_plain"]))
        for end in ("killed", "stopped"):
            session = self.inject(program.pid, plan).wait_inserted()
            total = program.ask("work 1000")["sum"]
            if end == "stopped":
                self.assert_stopped_well(session)
                final = session.final()
                self.assertEqual([(final[name, ""]["refused"], final[name, ""]["value"]) for name in ("relocated", "plain")],
                                 [(1, 0), (0, 1000)])
                continue
            session.kill()
            removal = run(MDL_INJECT, "--remove", program.pid)
            self.assertEqual(removal.returncode, 0, removal.stderr)
        self.assertEqual(total, 2000)
        self.assert_untouched(program.pid, before)
        listed = run(MDL_INJECT, "--dry-run", program.pid, plan)
        self.assertIn("not that of its file", listed.stdout)
        self.assertEqual(program.end(), 0)


class SharedCode(ImageTest):
    """Code that the process shares with its file: a jump in it would be in the file, for whoever else has it mapped."""

    def test_the_file_is_left_alone(self):
        plugin, copy = PROGRAMS / "libplugin.so", self.folder / "libshared.so"
        shutil.copy(plugin, copy)
        program = self.start("shares_code", plugin, copy, alone=True)
        session = self.inject(program.pid, "calls /Code/*").wait_inserted()
        program.ask("work 1000")
        self.assertEqual(copy.read_bytes(), plugin.read_bytes())
        self.assert_stopped_well(session)
        line = session.final()["calls /Code/*", "/Code/libshared.so"]
        self.assertEqual(line["value"], 0)
        self.assertGreater(line["refused"], 0)
        alone = self.inject(program.pid, "calls /Code/libshared.so/t_plugin_work")
        self.assertEqual(alone.wait(), 1)
        self.assertIn("MAP_SHARED", alone.errors)
        self.assertEqual(copy.read_bytes(), plugin.read_bytes())
        self.assertEqual(program.end(), 0)


class Rewritten(ImageTest):
    """BOLT leaves code of before, which no name means: where that runs, counts are not whole, and say so."""

    def test_what_old_copies_do_is_missing(self):
        program = self.start("rewritten")
        before = self.remember(program.pid)
        session = self.inject(program.pid, self.compile_text(metric("calls", ["t_old"]))).wait_inserted()
        self.assertEqual(program.ask("work 1000")["sum"], 2000)
        self.assert_stopped_well(session)
        self.assertIn("BOLT", session.errors)
        final = session.final()["calls", ""]
        self.assertEqual((final["value"], final["complete"]), (1000, False))
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)


class Go(ImageTest):
    def refusal(self, program, *options):
        plan = self.compile_text(metric(WORK, ["t_image_work"]) + metric("copies", ["strlen"]))
        done = run(MDL_INJECT, program.pid, plan, "-d", "0.1", *options)
        return done.returncode, done.stderr

    def test_it_is_refused(self):
        program = self.start("images-marked-go")
        status, text = self.refusal(program)
        self.assertEqual(status, 1)
        self.assertIn("is a Go program", text)
        self.assertEqual(program.end(), 0)

    def test_position_independent(self):
        """It has the dynamic linker beside it, which is no C library."""
        program = self.start("go_alone", alone=True)
        status, text = self.refusal(program)
        self.assertEqual(status, 1)
        self.assertIn("is a Go program", text)
        self.assertEqual(program.end(), 0)

    def test_its_c_libraries_are_not(self):
        program = self.start("images-linked-go")
        status, text = self.refusal(program, "-m", WORK)
        self.assertEqual(status, 1)
        self.assertIn("it is Go code", text)
        program.ask("work 1")
        self.assertEqual(self.count(program, ["strlen"]), CALLS)
        self.assertEqual(program.end(), 0)

    def test_focus(self):
        """Calls under Go functions cannot be told: refused, not 0; and `*` has no line for it."""
        program = self.start("images-linked-go")
        program.ask("work 1")
        plan = self.compile_text(CONSTRAINTS + metric("copies", ["strlen"], constraints=["module", "procedure"]))
        name = "/Code/images-linked-go"
        for focus in (name, name + "/*", name + "/t_image_work"):
            with self.subTest(focus):
                done = run(MDL_INJECT, program.pid, plan, "-f", focus, "-d", "0.1")
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                self.assertIn("it is Go code", done.stderr)
        session = self.inject(program.pid, plan, "-f", "/Code/*").wait_inserted()
        program.ask("work 5")
        self.assert_stopped_well(session)
        self.assertEqual({focus: line["value"] for (_, focus), line in session.final().items()}, {"/Code/libc.so.6": 5})
        self.assertIn("images-linked-go is Go code", session.errors)
        self.assertEqual(program.end(), 0)

    def test_real_program(self):
        """fzf, a Go program that Debian links with the C library: its answer is the same, and each of its threads
        was made by one call."""
        fzf = shutil.which("fzf")
        self.assertTrue(fzf, "fzf is not installed: see scripts/packages.txt")
        numbers = "".join(f"{number}\n" for number in range(200000)).encode()
        expected = subprocess.run([fzf, "--filter=777"], input=numbers, stdout=subprocess.PIPE, check=True).stdout
        process = subprocess.Popen([fzf, "--filter=777"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(put_down, process)
        soon(lambda: self.threads(process) > 3, "fzf to start")
        before = self.remember(process.pid)
        plan = self.compile_text(metric("made", ["pthread_create"]) + CONSTRAINTS
                                 + metric("under", ["pthread_create"], constraints=["module"]))
        done = run(MDL_INJECT, process.pid, plan, "-m", "under@/Code/fzf", "-d", "0.1")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("it is Go code", done.stderr)
        session = self.inject(process.pid, plan, "-m", "made").wait_inserted()
        threads = self.threads(process)
        process.stdin.write(numbers[:len(numbers) // 2])
        self.assertEqual(session.fresh_values()["made", ""], self.threads(process) - threads)
        self.assert_stopped_well(session)
        self.assert_untouched(process.pid, before)
        self.assertEqual(process.communicate(numbers[len(numbers) // 2:])[0], expected)

    @staticmethod
    def threads(process):
        return len(os.listdir(f"/proc/{process.pid}/task"))


class Names(ImageTest):
    def test_one_address_is_counted_once(self):
        program = self.start("names")
        self.assertEqual(self.count(program, ["t_first_name", "t_second_name"]), CALLS)
        ((name, others),) = self.listed(program, "*/t_*_name").items()
        self.assertEqual((name, others), ("/Code/names/t_first_name", ["=t_second_name"]))

    def test_demangled_with_and_without_parameters(self):
        program = self.start("names")
        for wanted, times in (("shapes::area", 2), ("shapes::area(int)", 1), ("shapes::area(unsigned long, char)", 1),
                              ("_ZN6shapes4areaEi", 1), ("shapes::Box<long>::area", 1),
                              ("shapes::Box<long>::area(long) const", 1), ("names/shapes::area(int)", 1)):
            with self.subTest(wanted):
                self.assertEqual(self.count(program, [wanted]), times * CALLS)

    def test_patterns_fit_all_forms(self):
        program = self.start("names")
        for glob, count in (("shapes::area*", 2), ("*area(int)", 1), ("_ZN*6shapes*", 3), ("*/_ZN6shapes4area*", 2)):
            with self.subTest(glob):
                self.assertEqual(len(self.listed(program, glob)), count)
        plan = self.stdlib()
        session = self.inject(program.pid, plan, "-m", "procedure_calls@/Code/names/shapes::area(*")
        session.wait_inserted()
        program.ask(f"work {CALLS}")
        self.assert_stopped_well(session)
        self.assertEqual(sorted(line["value"] for line in session.final().values()), [CALLS, CALLS])


if __name__ == "__main__":
    unittest.main(verbosity=2)
