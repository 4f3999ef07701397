"""Files and sockets by descriptor, as they were at each hit, however often a number is used again."""

import json
import re
import shutil
import subprocess
import threading
import time
import unittest

from harness import MDL_INJECT, LiveTest, run
from sandbox_test import Sandboxed

COUNT, SUM = "count t_at by file($arg[0])", "sum $arg[1] at t_at by file($arg[0])"
BYTES, SENT = "bytes write by file", "bytes write by socket"
BAD = "/File/<bad descriptor>"
LONG = 256  # bytes


class Descriptors(LiveTest):
    def begin(self, *words, **named):
        self.program = self.start("descriptors")
        self.folder = self.program.ready["folder"]
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.peer = f"/Socket/127.0.0.1:{self.program.ready['port']}"
        self.before = self.remember(self.program.pid)
        self.session = self.inject(self.program.pid, *words, **named)
        self.session.said("inserted")

    def values(self, metric, pid=None):
        """{focus: value} of the last sample."""
        pid = pid or self.program.pid
        return {line["focus"]: line["value"] for line in self.session.lines
                if line["final"] and line["metric"] == metric and line["pid"] == pid}

    def finish(self):
        self.assert_stopped_well(self.session)
        self.assertLessEqual({(line["refused"], line.get("anomalies", 0)) for line in self.session.lines}, {(0, 0)})
        self.assert_untouched(self.program.pid, self.before)

    def files(self, *values, hierarchy="/File"):
        return {f"{hierarchy}{self.folder}/{name}": value for name, value in zip(("one", "two", "three"), values)}

    def test_one_number_for_several_files(self):
        self.begin(COUNT, SUM, BYTES, SENT, interval="60")
        self.assertEqual(self.program.ask("go 3000")["reused"], 1)
        self.finish()
        self.assertEqual(self.values(COUNT), self.files(3000, 3000, 3000))
        self.assertEqual(self.values(SUM), self.files(3000, 6000, 9000))
        bytes_by_file = self.values(BYTES)
        said = {focus for focus in bytes_by_file if "pipe:[" in focus}  # the answer itself
        local = {focus for focus in bytes_by_file if focus.startswith("/Socket/socket:[")}
        self.assertEqual(len(local), 1)
        sockets = {self.peer: 4 * 3000, **{focus: 5 * 3000 for focus in local}}
        self.assertEqual({focus: value for focus, value in bytes_by_file.items() if focus not in said},
                         self.files(3000, 6000, 9000) | sockets)
        self.assertEqual(self.values(SENT), sockets)
        self.assertEqual(self.program.end(), 0)

    def test_what_has_no_name(self):
        """One that is closed, deleted, long, with a line's end, and what is no file of a path."""
        also = "count t_at by socket($arg[0])"
        self.begin(COUNT, also)
        self.program.ask("odd 50")
        self.finish()
        found = self.values(COUNT)
        pipes = {focus: value for focus, value in found.items() if focus.startswith("/File/pipe:[")}
        self.assertEqual(list(pipes.values()), [50])
        named = f"{self.folder}/{200 * 'd'}/{200 * 'n'}"
        self.assertEqual({focus: value for focus, value in found.items() if focus not in pipes},
                         {BAD: 100, f"/File{named[:LONG]}…": 50, f"/File{self.folder}/gone (deleted)": 50,
                          rf"/File{self.folder}/line\nend": 50})
        sockets = self.values(also)
        self.assertEqual(sockets.pop("/Socket/<bad descriptor>"), 100)
        self.assertEqual([(bool(re.fullmatch(r"/Socket/socket:\[\d+\]", focus)), value) for focus, value in sockets.items()],
                         [(True, 50)])

    def test_signals_at_any_instruction(self):
        self.begin(COUNT, interval="0.01")
        last = self.program.ask("storm 10000")
        self.finish()
        self.assertGreater(last["handled"], 300)
        self.assertEqual(self.values(COUNT), self.files(*3 * [last["rounds"]]) | {f"/File{self.folder}/handled": last["handled"]})

    def test_several_keys(self):
        three = "sum $arg[1] at t_at by $arg[1], file($arg[0]), descriptor($arg[0])"
        self.begin(three)
        self.program.ask("go 100")
        self.finish()
        found = {(line["key"][0], line["focus"]): line["value"] for line in self.session.lines
                 if line["final"] and line["metric"] == three}
        path = lambda name: f"/File{self.folder}/{name}"
        self.assertEqual({(number, focus.split(",")[0]): value for (number, focus), value in found.items()},
                         {("1", path("one")): 100, ("2", path("two")): 200, ("3", path("three")): 300})

    def test_followed_forks(self):
        self.begin(COUNT, "--follow-fork")
        self.program.ask("go 20")
        child = self.program.ask("fork 30", event="child")
        self.program.answer("done")
        self.finish()
        self.assertEqual(self.values(COUNT), self.files(20, 20, 20))
        in_child = {focus: value for focus, value in self.values(COUNT, child["pid"]).items() if value}
        self.assertEqual(in_child, self.files(30, 30, 30))

    def test_no_proc(self):
        """Where the program sees no /proc, no file has a name."""
        self.begin(COUNT, SUM)
        self.program.ask("go 5")
        self.program.ask("root 7")
        self.assert_stopped_well(self.session)
        self.assertEqual(self.values(COUNT), self.files(5, 5, 5) | {"/File/<no /proc>": 7})

    def test_more_than_there_is_room_for(self):
        self.begin("count t_at by socket($arg[0])", "--max-keys", "1")
        self.program.ask("go 5")
        self.program.ask("odd 1")
        self.finish()
        # Files take no room where sockets are asked for.
        self.assertEqual(sorted(self.values("count t_at by socket($arg[0])").values()), [1, 2])

    def test_a_focus_chooses(self):
        for focus, wanted in (("/File/tmp/*/one", ["one"]), ("/File/*/t*", ["two", "three"]), ("/File/nowhere/*", [])):
            with self.subTest(focus=focus):
                self.begin(BYTES, "-f", focus)
                self.program.ask("go 10")
                self.finish()
                expected = self.files(10, 20, 30)
                self.assertEqual({focus: value for focus, value in self.values(BYTES).items()},
                                 {focus: value for focus, value in expected.items() if focus.rsplit("/", 1)[1] in wanted})
                self.assertEqual(self.program.end(), 0)

    def test_sockets_and_files_apart(self):
        for hierarchy in ("/Socket", "/Socket/*", "/File/*"):
            with self.subTest(hierarchy=hierarchy):
                self.begin(BYTES, "-f", hierarchy)
                self.program.ask("go 10")
                self.finish()
                found = self.values(BYTES)
                self.assertEqual({focus.split("/")[1] for focus in found}, {hierarchy.split("/")[1]})
                if hierarchy != "/File/*":
                    self.assertEqual((found[self.peer], len(found)), (40, 2))
                self.assertEqual(self.program.end(), 0)

    def test_standard_metrics(self):
        plan = self.compile("code.mdl", "files.mdl")
        self.begin(plan, "-m", "bytes_written@/File/tmp/*", "-m", "bytes_written@/Socket/*", "-m", "bytes_read@/Socket",
                   "-m", "write_sizes@/File/tmp/*")
        self.program.ask("go 10")
        self.assert_stopped_well(self.session)
        self.assert_untouched(self.program.pid, self.before)
        written = self.values("bytes_written")
        local = [focus for focus in written if focus.startswith("/Socket/socket:[")]
        self.assertEqual(written, self.files(10, 20, 30) | {self.peer: 40, local[0]: 50})
        read = self.values("bytes_read")
        # Of a call that began before, nobody knows the descriptor: it is an anomaly.
        self.assertLessEqual(sum(value for focus, value in read.items() if "127.0.0.1" in focus), 40)
        self.assertEqual([value for focus, value in read.items() if "127.0.0.1" not in focus], [50])
        sizes = {line["focus"]: (line["count"], line["sum"]) for line in self.session.lines
                 if line["final"] and line["metric"] == "write_sizes"}
        self.assertEqual(sizes, self.files((10, 10), (10, 20), (10, 30)))

    def listed(self, glob, *more):
        """What --list prints while the program goes, as {path: (calls, bytes)}."""
        program = self.start("descriptors")
        self.addCleanup(shutil.rmtree, program.ready["folder"], True)
        before = self.remember(program.pid)
        ending = threading.Event()

        def go():
            while not ending.is_set():
                program.ask("go 20")
                time.sleep(0.01)

        going = threading.Thread(target=go)
        going.start()
        try:
            done = run(MDL_INJECT, "--list", program.pid, glob, *more)
        finally:
            ending.set()
            going.join()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_untouched(program.pid, before)
        lines = [re.match(r"(/.+?)  +([\d,]+) calls?((?:  +[\d,]+ (?:read|written))+)$", line) for line in done.stdout.splitlines()]
        self.assertTrue(all(lines), done.stdout)
        number = lambda text: int(text.replace(",", ""))
        return program, {line[1]: (number(line[2]), {kind: number(many) for many, kind in re.findall(r"([\d,]+) (\w+)", line[3])})
                         for line in lines}

    def test_they_are_listed_for_scripts(self):
        program = self.start("descriptors")
        lister = subprocess.Popen([MDL_INJECT, "--list", str(program.pid), "/File/tmp/*", "-d", "1", "--format", "json"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while "inserted" not in lister.stderr.readline():
            pass
        program.ask("go 50")
        out, _ = lister.communicate(timeout=30)
        sizes = {f"/File{program.ready['folder']}/{path}": size for path, size in (("one", 1), ("two", 2), ("three", 3))}
        rows = json.loads(out)
        self.assertEqual({row["path"] for row in rows}, set(sizes))
        for row in rows:
            self.assertGreater(row["calls"], 0)
            self.assertEqual(row["bytes_written"], sizes[row["path"]] * row["calls"])

    def test_they_are_listed(self):
        program, files = self.listed("/File/tmp/*", "-d", "0.5")
        for path, size in (("one", 1), ("two", 2), ("three", 3)):
            calls, moved = files.pop(f"/File{program.ready['folder']}/{path}")
            self.assertGreater(calls, 0)
            self.assertEqual(moved, {"written": calls * size})
        self.assertEqual(files, {})
        program, sockets = self.listed("/Socket", "-d", "0.5")
        calls, moved = sockets[f"/Socket/127.0.0.1:{program.ready['port']}"]
        self.assertEqual(moved, {"written": 4 * calls})
        self.assertEqual({path.split("/")[1] for path in sockets}, {"Socket"})

    def test_a_filter_that_denies(self):
        program = Sandboxed("deny", "readlink", command="descriptors")
        self.addCleanup(program.kill)
        self.addCleanup(shutil.rmtree, program.ready["folder"], True)
        before = self.remember(program.pid)
        done = run(MDL_INJECT, program.pid, COUNT, "-d", "0.1")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        for word in ("readlink", "fd(VALUE)"):
            self.assertIn(word, done.stderr)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.ask("go 5")["reused"], 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
