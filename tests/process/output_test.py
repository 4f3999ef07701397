"""What users and their scripts read: the formats, -i, -d and -o, and the commands that only
look (--dry-run, --list, --verify).
"""

import csv
import fcntl
import io
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import time
import unittest

import exposition
from harness import BIN, CONSTRAINTS, MDL_INJECT, PROGRAMS, LiveTest, metric, read_terminal, run, soon

KEYS = {"time_ns": int, "elapsed_s": (int, float), "pid": int, "metric": str, "focus": str, "value": int,
        "delta": int, "rate": (int, float, type(None)), "units": str, "refused": int, "final": bool}


class Output(LiveTest):
    def setUp(self):
        super().setUp()
        self.program = self.start("children")
        self.plan = self.compile_text(
            CONSTRAINTS + metric("work_calls", ["t_work"], constraints=["procedure"]) +
            metric("work_returns", ["t_work"], "return", constraints=["procedure"]))
        self.before = self.remember(self.program.pid)

    def tearDown(self):
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)

    def measured(self, *options):
        """mdl-inject for half a second; its result."""
        done = run(MDL_INJECT, self.program.pid, self.plan, "-d", "0.5", "-i", "0.1", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def popen(self, *options, **pipes):
        return subprocess.Popen([MDL_INJECT, str(self.program.pid), str(self.plan), *options],
                                stdin=subprocess.DEVNULL, **pipes)

    def check_line(self, line):
        for key, kind in KEYS.items():
            self.assertIn(key, line)
            self.assertIsInstance(line[key], kind, key)
        self.assertEqual((line["pid"], line["units"], line["focus"], line["refused"]),
                         (self.program.pid, "Calls", "", 0))

    def test_ndjson(self):
        lines = [json.loads(line) for line in self.measured("--format", "ndjson").stdout.splitlines()]
        for line in lines:
            self.check_line(line)
        self.assertEqual([line["metric"] for line in lines if line["final"]], ["work_calls", "work_returns"])
        self.assertTrue(all(line["final"] for line in lines[-2:]))
        self.assertGreaterEqual(len(lines), 6)
        times = [line["time_ns"] for line in lines]
        self.assertEqual(times, sorted(times))
        self.assertEqual({line["value"] for line in lines}, {0})

    def test_a_pipe_gets_ndjson_by_itself(self):
        for line in self.measured().stdout.splitlines():
            self.check_line(json.loads(line))

    def test_values_deltas_and_final(self):
        session = self.inject(self.program.pid, self.plan, "-m", "work_calls").wait_inserted()
        self.program.ask("work 1000")
        session.fresh_values()
        self.program.ask("work 234")
        self.assert_stopped_well(session)
        self.assertEqual(sum(line["delta"] for line in session.lines), 1234)
        running = 0
        for line in session.lines:
            running += line["delta"]
            self.assertEqual(line["value"], running)
        self.assertEqual([line["final"] for line in session.lines].count(True), 1)

    def test_rates(self):
        """The first sample has none, a maximum has never one; the others are the delta by the time."""
        plan = self.compile_text(metric("work_calls", ["t_work"]) +
                                 metric("work_most", ["t_work"]).replace("aggregateOperator sum", "aggregateOperator max"))
        session = self.inject(self.program.pid, plan).wait_inserted()
        self.program.ask("work 1000")
        session.fresh_values()
        self.assert_stopped_well(session)
        counts = [line for line in session.lines if line["metric"] == "work_calls"]
        self.assertIsNone(counts[0]["rate"])
        for before, line in zip(counts, counts[1:-1]):
            expected = line["delta"] / (line["elapsed_s"] - before["elapsed_s"])
            self.assertAlmostEqual(line["rate"], expected, delta=expected * 0.01 + 0.001)
        self.assertEqual({line["rate"] for line in session.lines if line["metric"] == "work_most"}, {None})

    def exposed(self, text):
        """A page's values, by family and focus."""
        return {(name, dict(labels)["focus"]): value
                for name, samples in exposition.parse(text).items() for (_, labels), value in samples.items()
                if name != "mdl_inject_overhead_ratio"}

    def test_prometheus(self):
        """What a pipe gets, and what a file holds at every moment."""
        text = self.measured("--format", "prometheus").stdout
        self.assertEqual(self.exposed(text), {("mdl_work_calls_total", ""): 0, ("mdl_work_returns_total", ""): 0})
        self.assertIn(f'mdl_work_calls_total{{pid="{self.program.pid}",focus=""}} 0\n', text)
        path = self.folder / "mdl.prom"
        process = self.popen("--format", "prometheus", "-i", "0.02", "-o", str(path), stderr=subprocess.DEVNULL)
        soon(lambda: path.exists() and path.read_text(), "the first sample")
        self.program.ask("work 7")
        soon(lambda: self.exposed(path.read_text())["mdl_work_calls_total", ""] == 7, "the file to say so")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 0)
        self.assertEqual(self.exposed(path.read_text())["mdl_work_returns_total", ""], 7)
        self.assertEqual(list(self.folder.glob("mdl.prom*")), [path])

    def test_prometheus_of_queries(self):
        """All kinds of values, with the labels and units that Prometheus wants."""
        source = self.folder / "most.mdl"
        source.write_text(metric("Bytes_count", ["t_work"]).replace("aggregateOperator sum", "aggregateOperator max"))
        path = self.folder / "page"
        process = subprocess.Popen(
            [MDL_INJECT, str(self.program.pid), source, "time t_work as workTime_ns", "calls /Code/children/t_*",
             "latency t_work", "sum $arg[2] at write by thread", "--format", "prometheus", "-o", path, "-i", "60"],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.assertIn("inserted", process.stderr.readline())
        self.program.ask("work 7")
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=30)[1]
        self.assertEqual(process.returncode, 0, errors)
        families = exposition.parse(path.read_text())
        families.pop("mdl_inject_overhead_ratio")
        self.assertEqual(sorted(families), ["mdl_bytescount", "mdl_calls_code_children_t_total",
                                            "mdl_latency_t_work_seconds", "mdl_sum_arg_2_at_write_by_thread_total",
                                            "mdl_work_time_seconds_total"])
        calls, latency = families["mdl_calls_code_children_t_total"], families["mdl_latency_t_work_seconds"]
        whole = (("pid", str(self.program.pid)), ("focus", ""))
        work = (*whole[:1], ("focus", "/Code/children/t_work"), ("object", "children"), ("function", "t_work"))
        self.assertEqual(calls["mdl_calls_code_children_t_total", work], 7)
        self.assertEqual(latency["mdl_latency_t_work_seconds_count", whole], 7)
        (_, time_labels), seconds = next(iter(families["mdl_work_time_seconds_total"].items()))
        self.assertEqual(time_labels, whole)
        self.assertLess(0, seconds)
        self.assertLess(seconds, 1)
        for _, labels in families["mdl_sum_arg_2_at_write_by_thread_total"]:
            self.assertTrue(dict(labels)["thread"].isdigit(), labels)

    def test_strictness(self):
        """What promtool would not take, our own reader does not take either."""
        head = "# HELP mdl_a_total A\n# TYPE mdl_a_total counter\n"
        exposition.parse(head + 'mdl_a_total{pid="1"} 1\n')
        for page in (head, head + 'mdl_a_total{pid="1"} 1', head + 'mdl_b_total{pid="1"} 1\n', head + "mdl_a_total{} x\n",
                     head + 'mdl_a_total{pid="1"} 1\n' * 2, head * 2 + 'mdl_a_total{pid="1"} 1\n',
                     head.replace("_total", "") + 'mdl_a{pid="1"} 1\n', head + 'mdl_a_total{pid="1\\"} 1\n',
                     head.replace("counter", "gauge") + 'mdl_a_total{pid="1"} 1\n',
                     head.replace("_a_", "_aA_") + 'mdl_aA_total{pid="1"} 1\n',
                     head.replace("_a_", "_a_ns_") + 'mdl_a_ns_total{pid="1"} 1\n',
                     head.replace("_a_", "_nanoseconds_") + 'mdl_nanoseconds_total{pid="1"} 1\n',
                     "# HELP mdl_a A\n# TYPE mdl_a histogram\n" + 'mdl_a_bucket{le="+Inf"} 2\nmdl_a_sum{a="1"} 1\n'):
            with self.subTest(page=page), self.assertRaises(exposition.Wrong):
                exposition.parse(page)

    def test_json(self):
        document = json.loads(self.measured("--format", "json").stdout)
        samples = document if isinstance(document, list) else document["samples"]
        self.assertGreaterEqual(len(samples), 6)
        for line in samples:
            self.check_line(line)

    def test_csv(self):
        rows = list(csv.DictReader(io.StringIO(self.measured("--format", "csv").stdout)))
        self.assertGreaterEqual(len(rows), 6)
        for row in rows:
            self.assertTrue(set(KEYS) <= set(row), row)
            self.assertEqual((row["pid"], row["value"]), (str(self.program.pid), "0"))
            self.assertIn(row["metric"], ("work_calls", "work_returns"))

    def test_output_file(self):
        path = self.folder / "samples.ndjson"
        self.assertEqual(self.measured("--format", "ndjson", "-o", path).stdout, "")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        self.assertTrue(lines[-1]["final"])

    def test_output_file_of_a_request_that_fails(self):
        """The old one stays; nothing is left beside it."""
        path = self.folder / "out" / "samples"
        path.parent.mkdir()
        path.write_text("old")
        done = run(MDL_INJECT, self.program.pid, self.plan, "-m", "none", "-d", "0", "-o", path)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(([one.name for one in path.parent.iterdir()], path.read_text()), (["samples"], "old"))

    def test_output_file_is_its_owners(self):
        path = self.folder / "samples"
        self.measured("--format", "ndjson", "-o", path)
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        path.chmod(0o640)
        self.measured("--format", "ndjson", "-o", path)
        self.assertEqual(path.stat().st_mode & 0o777, 0o640)

    def test_output_through_links(self):
        """Through one's own, which stays one; not through another user's."""
        file, link = self.folder / "file", self.folder / "link"
        file.write_text("old")
        link.symlink_to("file")
        self.measured("--format", "ndjson", "-o", link)
        self.assertTrue(link.is_symlink())
        self.assertIn("final", file.read_text())
        if os.geteuid() == 0:
            file.write_text("old")
            os.chown(link, 65534, 65534, follow_symlinks=False)
            done = run(MDL_INJECT, self.program.pid, self.plan, "-d", "0", "-o", link)
            self.assertEqual((done.returncode, file.read_text()), (1, "old"))
            self.assertIn("a symbolic link of another user", done.stderr)

    def test_output_to_what_is_no_file(self):
        for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
            self.assertIn('"final":true', self.measured("--format", "ndjson", "-o", name).stdout)
        self.measured("--format", "ndjson", "-o", "/dev/null")
        self.assertFalse(pathlib.Path("/dev/null").is_file())

    def test_output_file_that_cannot_be_written(self):
        path = self.folder / "no-such-folder" / "samples"
        done = run(MDL_INJECT, self.program.pid, self.plan, "-d", "0.5", "-o", path)
        self.assertIn(done.returncode, (1, 2))
        self.assertIn("no-such-folder", done.stderr)

    def test_table_on_a_terminal(self):
        """The default on a terminal, with the display names."""
        master, slave = pty.openpty()
        process = self.popen("-d", "0.5", "-i", "0.1", stdout=slave, stderr=subprocess.PIPE)
        os.close(slave)
        shown = read_terminal(master)
        errors = process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.wait(10), 0, errors)
        self.assertIn(b"work_calls", shown)
        self.assertNotIn(b'{"', shown)

    def test_closed_pipe(self):
        """`mdl-inject ... | head -1`: the process must not be left instrumented."""
        process = self.popen("-d", "5", "-i", "0.05", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual(process.wait(20), 1)
        errors = process.stderr.read()
        process.stderr.close()
        self.assertNotIn(b"cannot write", errors)  # its reader knows
        self.assert_untouched(self.program.pid, self.before)

    def test_closed_pipe_of_commands_that_only_look(self):
        for command in (["--list", self.program.pid], ["--metrics"]):
            with self.subTest(command=command[0]):
                closed, pipe = os.pipe()
                os.close(closed)
                done = subprocess.run([MDL_INJECT, *(str(word) for word in command)], stdout=pipe, stderr=subprocess.PIPE, timeout=30)
                os.close(pipe)
                self.assertEqual((done.returncode, done.stderr), (1, b""))

    def test_a_reader_that_does_not_read(self):
        """`mdl-inject ... | less`: Ctrl-C takes the instrumentation out all the same."""
        ours, theirs = os.pipe()
        process = self.popen("--format", "ndjson", "-i", "0.001", stdout=theirs, stderr=subprocess.PIPE)
        soon(lambda: not select.select([], [theirs], [], 0)[1], "the pipe to be full")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 1)
        self.assertIn(b"nobody reads it", process.stderr.read())
        process.stderr.close()
        os.close(ours)
        os.close(theirs)
        self.assert_untouched(self.program.pid, self.before)

    def test_a_reader_that_comes_back(self):
        """Its patience begins with the Ctrl-C, however long nobody has read before."""
        process = self.popen("--format", "ndjson", "-i", "0.001", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        process.stdout.readline()
        time.sleep(1.5)  # the pipe is full
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        shown, errors = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 0, errors)
        self.assertTrue(json.loads(shown.splitlines()[-1])["final"])

    def test_full_device(self):
        """What could not be written is no success, also of the commands that only look."""
        for command in (["--status", self.program.pid], ["--list", self.program.pid], ["--verify", self.plan],
                        ["--help"]):
            with self.subTest(command=command[0]), open("/dev/full", "wb") as full:
                done = subprocess.run([MDL_INJECT, *map(str, command)], stdin=subprocess.DEVNULL, stdout=full,
                                      stderr=subprocess.PIPE, text=True, timeout=20, check=False)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("No space left on device", done.stderr)

    def test_closed_error_output(self):
        """An error that cannot be said still has its exit status; nothing ends by a signal."""
        missing = self.folder / "missing.bin"
        damaged = self.folder / "damaged.bin"
        damaged.write_bytes(self.plan.read_bytes()[:200])
        for status, arguments in ((1, [self.program.pid, missing]), (2, ["--no-such-option"]),
                                  (1, [self.program.pid, self.plan, "-m", "no_such_metric"]),
                                  (4, ["--verify", damaged]), (0, ["--verify", self.plan]),
                                  (0, [self.program.pid, self.plan, "-d", "0.05"])):
            with self.subTest(arguments=arguments):
                done = run("sh", "-c", 'exec "$0" "$@" 2>&-', MDL_INJECT, *arguments)
                self.assertEqual((done.returncode, done.stderr), (status, ""))

    def test_closed_output(self):
        """What has no place to go is an error; what is not said there is none."""
        for status, arguments in ((1, ["--verify", self.plan]), (1, [self.program.pid, self.plan, "-d", "0.05"]),
                                  (0, [self.program.pid, self.plan, "-d", "0.05", "-o", self.folder / "values"])):
            with self.subTest(arguments=arguments):
                done = run("sh", "-c", 'exec "$0" "$@" >&-', MDL_INJECT, *arguments)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertEqual("cannot write" in done.stderr, status == 1, done.stderr)
        self.assert_untouched(self.program.pid, self.before)

    def test_dry_run(self):
        done = run(MDL_INJECT, self.program.pid, self.plan, "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout + done.stderr, r"\d")
        self.assertNotIn('"final"', done.stdout)

    def test_dry_run_adds_up(self):
        """What is hooked for the end of the process is no point that somebody asked for."""
        plan = self.compile_text("""
            resourceList ends is procedure { items { "libc.so.6/_exit", "t_work" }; flavor { unix }; }
            metric blocks {
              name "blocks"; units Blocks; unitsType unnormalized; aggregateOperator sum; style EventCounter; flavor { unix };
              base is counter {
                foreach func in ends { foreach block in func.blocks { append preInsn block (* blocks++; *) } }
                foreach func in ends { foreach call in func.calls { append postInsn call (* blocks++; *) } }
              }
            }""" + metric("entered", ["t_work"]), name="ends")
        for name, functions in (("blocks", 2), ("entered", 1)):
            said = run(MDL_INJECT, self.program.pid, plan, "-m", name, "--dry-run").stdout.splitlines()[0]
            points, found, patched = map(int, re.match(r"(\d+) points in (\d+) functions: (\d+) would", said).groups())
            refused = re.search(r"(\d+) refused", said)
            self.assertEqual((points, found), (patched + int(refused[1] if refused else 0), functions), said)

    def test_timing(self):
        """Each phase once, in their order, and their sum."""
        lines = re.findall(r"^timing: +([\d.]+) +([\d.]+)  (\w+)$", self.measured("--timing").stderr, re.MULTILINE)
        self.assertEqual([name for *_, name in lines],
                         ["start", "compile", "separate", "plan", "process", "objects", "binding", "coverage", "clocks",
                          "layout", "audit", "insertion", "measurement", "removal", "all"])
        times = {name: float(wall) for wall, _, name in lines}
        self.assertGreaterEqual(times["measurement"], 490)
        self.assertAlmostEqual(sum(times.values()), 2 * times["all"], delta=1)
        self.assertGreater(sum(float(cpu) for _, cpu, name in lines if name != "all"), 1)

    def test_list(self):
        done = run(MDL_INJECT, "--list", self.program.pid, "/Code/children/t_*")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.split(), ["/Code/children/t_work"])
        of_object = run(MDL_INJECT, "--list", self.program.pid, "/Code/children").stdout
        self.assertEqual(of_object, run(MDL_INJECT, "--list", self.program.pid, "/Code/children/*").stdout)
        everything = run(MDL_INJECT, "--list", self.program.pid)
        self.assertIn("/Code/children/main", everything.stdout.split())
        self.assertTrue(re.search(r"^/Code/libc\.so\.6/", everything.stdout, re.M))

    def test_list_for_scripts(self):
        """--format json is one array, ndjson a line for each; both have what the text has."""
        for glob in ((), ("nosuch",), ("/Thread",), ("/Memory",), ("/SyncObject", "-d", "0.1"), ("/File", "-d", "0.1")):
            with self.subTest(glob=glob):
                text, array, lines = (run(MDL_INJECT, "--list", self.program.pid, *glob, *more)
                                      for more in ((), ("--format", "json"), ("--format", "ndjson")))
                self.assertEqual({text.returncode, array.returncode, lines.returncode}, {1 if glob == ("nosuch",) else 0}, array.stderr)
                rows = json.loads(array.stdout)
                self.assertEqual(rows, [json.loads(line) for line in lines.stdout.splitlines()])
                self.assertEqual(len(rows), len(text.stdout.splitlines()))
                self.assertEqual([row["path"] for row in rows if row["path"] not in text.stdout], [])
        row, = (row for row in json.loads(run(MDL_INJECT, "--list", self.program.pid, "--format", "json").stdout)
                if row["path"] == "/Code/children/main")
        self.assertEqual(row, {"path": "/Code/children/main", "object": "children", "function": "main", "demangled": "main",
                               "aliases": []})

    def test_standard_plans_are_found_by_name(self):
        """One command, in an empty folder; a file of that name there is another one, which wants its folder."""
        request = [MDL_INJECT, str(self.program.pid), "code.plan", "-m", "procedure_calls@/Code/children/t_work", "-d", "0.2"]
        done = subprocess.run(request, cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(done.stdout.splitlines()[-1])["final"])
        (self.folder / "code.plan").write_text("mine")
        done = subprocess.run(request, cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        request[2] = "./code.plan"
        done = subprocess.run(request, cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 4, done.stderr)
        for plan in sorted((BIN.parent / "share" / "mdl" / "plans").iterdir()):
            self.assertEqual(run(MDL_INJECT, "--verify", plan.name).returncode, 0, plan.name)

    def test_verify(self):
        done = run(MDL_INJECT, "--verify", self.plan)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_help_and_version(self):
        for option in ("--help", "--version"):
            done = run(MDL_INJECT, option)
            self.assertEqual(done.returncode, 0)
            self.assertNotEqual(done.stdout, "")


class Unknown(LiveTest):
    """What all points of a line are refused for is not known: each format says so, or has no line."""
    NAME = "counted-gcc-O2"
    TIGHT = f"/Code/{NAME}/t_tight1"  # a `ret` with code right behind it
    ALL = f"calls /Code/{NAME}/t_*"
    WITHIN = "calls t_tight1 within t_switch"
    INSIDE = ["count t_switch within t_tight1", "latency t_switch within t_tight1"]  # what is waited for is refused

    def setUp(self):
        super().setUp()
        self.program = self.start(self.NAME)
        self.before = self.remember(self.program.pid)

    def tearDown(self):
        self.assert_untouched(self.program.pid, self.before)

    def measured(self, *words):
        done = run(MDL_INJECT, self.program.pid, *words, "-d", "0.2")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_objects(self):
        for form in ("ndjson", "json"):
            with self.subTest(form):
                text = self.measured(self.ALL, self.WITHIN, *self.INSIDE, "--format", form).stdout
                lines = json.loads(text) if form == "json" else [json.loads(line) for line in text.splitlines()]
                unknown = [line for line in lines if line["focus"] == self.TIGHT or line["metric"] in [self.WITHIN, *self.INSIDE]]
                self.assertEqual({line["metric"] for line in unknown}, {self.ALL, self.WITHIN, *self.INSIDE})
                for line in unknown:
                    self.assertEqual([line.get(key) for key in ("value", "delta", "measured")], [0, 0, False])
                    self.assertGreater(line["refused"], 0)
                ret = [line for line in lines if line["focus"].endswith("/t_ret1")]
                self.assertTrue(ret and all(line["value"] == 0 and "measured" not in line for line in ret))

    def test_text(self):
        csv = [line for line in self.measured(self.ALL, "--format", "csv").stdout.splitlines() if "t_tight1" in line]
        self.assertTrue(csv and all(f"{self.TIGHT},,,," in line for line in csv), csv)
        table = [line for line in self.measured(self.ALL, "--format", "table").stdout.splitlines() if "t_tight1" in line]
        self.assertTrue(table and all(re.search(r" - .*1 refused", line) for line in table), table)
        for form in ("prometheus", "influx"):
            text = self.measured(self.ALL, "--format", form).stdout
            self.assertIn("t_ret1", text)
            self.assertNotIn("t_tight1", text)

    def test_status(self):
        self.measured(self.ALL, "--detach")
        text = run(MDL_INJECT, "--status", self.program.pid).stdout
        self.assertRegex(text, r"t_tight1 = not known \(1 refused\)")
        self.assertRegex(text, r"t_ret1 = 0 Calls")
        row = json.loads(run(MDL_INJECT, "--status", self.program.pid, "--format", "json").stdout)
        row = row[0] if isinstance(row, list) else row
        self.assertEqual({one["focus"]: one["value"] for one in row["requests"]}[self.TIGHT], None)
        self.assertEqual(run(MDL_INJECT, "--remove", self.program.pid).returncode, 0)

    def test_functions_that_are_keys(self):
        """Such a line begins with the first call that is seen: that there is none says nothing, unless it is said."""
        for query in (f"{self.ALL} by function", f"{self.ALL} within t_switch"):
            with self.subTest(query):
                errors = self.measured(query).stderr
                self.assertRegex(errors, r"no line, because (its|their) points are refused: .*t_tight1")

    def test_parts_that_would_be_keys(self):
        """Likewise, of what the frames of a stripped file show as functions."""
        stripped = "parts-gcc-O3-stripped"
        done = run(MDL_INJECT, "--run", f"calls /Code/{stripped}/* by function", "--", PROGRAMS / stripped)
        self.assertRegex(done.stderr, r"no line, because (it is taken for a part|they are taken for parts).*sub_")


if __name__ == "__main__":
    unittest.main(verbosity=2)
