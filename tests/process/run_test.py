"""A program that mdl-inject starts: everything counts from its first instruction on, and its end is the end."""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from harness import MDL_INJECT, PROGRAMS, LiveTest, entries_and_returns, metric, run


class Run(LiveTest):
    def measure(self, *command, options=(), **named):
        plan = self.compile_text(metric("mains", ["main"]) + metric("work", ["t_work"]))
        out = self.folder / "values"
        done = run(MDL_INJECT, "--run", plan, "-m", "mains", *options, "--format", "ndjson", "-o", out, "--",
                   *command, **named)
        lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
        return done, {line["metric"]: line["value"] for line in lines if line["final"]}

    def test_main_is_counted(self):
        done, values = self.measure(PROGRAMS / "churn")  # its input is empty, so that it ends at once
        self.assertEqual((done.returncode, values), (0, {"mains": 1}), done.stderr)
        self.assertIn('{"event":"ready"', done.stdout)

    def test_main_behind_its_cold_part(self):
        plan = self.compile_text(entries_and_returns(["main", "foo"]))
        for level in "123s":
            done = run(MDL_INJECT, "--run", plan, "--format", "ndjson", "-o", self.folder / level, "--",
                       PROGRAMS / f"cold-O{level}")
            values = {line["metric"]: line["value"] for line in map(json.loads, open(self.folder / level))}
            self.assertEqual((done.returncode, values), (0, {"entries_main": 1, "returns_main": 1, "entries_foo": 1,
                                                             "returns_foo": 1}), f"-O{level}: {done.stderr}")

    def test_found_on_the_path_with_its_arguments(self):
        path = f"{PROGRAMS}:{os.environ['PATH']}"
        done, values = self.measure("churn", "5", env={**os.environ, "PATH": path})
        self.assertEqual((done.returncode, values), (0, {"mains": 1}), done.stderr)

    def test_killed_by_a_signal(self):
        plan = self.compile_text(metric("mains", ["main"]))
        process = subprocess.Popen([MDL_INJECT, "--run", plan, "--", PROGRAMS / "churn", "1"], stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        self.assertEqual(process.wait(30), 3)  # its input stays open: SIGALRM ends it
        self.assertIn(b"signal 14", process.stderr.read())
        process.stderr.close()
        process.stdin.close()

    def test_the_injector_is_killed(self):
        """Before the program was let go it ends, too; later it runs on. Never is it left stopped."""
        self.end_injectors(signal.SIGKILL)

    def test_the_injector_is_interrupted(self):
        self.end_injectors(signal.SIGINT)

    def end_injectors(self, how):
        plan = self.compile_text(metric("mains", ["main"]))
        ended = 0
        for moment in (0.001, 0.003, 0.006, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.3):
            process = subprocess.Popen([MDL_INJECT, "--run", plan, "-o", "/dev/null", "--", PROGRAMS / "churn", "20"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            time.sleep(moment)
            process.send_signal(how)
            process.wait()
            started = process.stdout.readline()  # what the program says when it runs; nothing when it has ended
            ended += not started
            process.stdin.close()
            self.assertEqual(process.stdout.read(), b"")  # its end, in both cases
            process.stdout.close()
        self.assertGreater(ended, 0)

    def measure_with_library(self, early):
        environment = {**os.environ, "LD_PRELOAD": str(PROGRAMS / "libearly.so"), "EARLY": early}
        return self.measure(PROGRAMS / "churn", env=environment)

    def test_a_trap_before_the_entry(self):
        """Is the program's own, and no breakpoint of ours."""
        done, values = self.measure_with_library("trap")
        self.assertEqual((done.returncode, values), (0, {"mains": 1}), done.stderr)
        self.assertIn('{"event":"ready"', done.stdout)

    def test_a_fork_before_the_entry(self):
        """The child passes the entry as it would without us, and at once."""
        started = time.monotonic()
        for early in ("fork", "wait"):
            done, values = self.measure_with_library(early)
            self.assertEqual((done.returncode, values), (0, {"mains": 1}), done.stderr)
        self.assertLess(time.monotonic() - started, 15)

    def test_the_auxiliary_vector_and_the_code_are_what_they_were(self):
        plan = self.compile_text(metric("mains", ["main"]))
        done = run(MDL_INJECT, "--run", plan, "-o", "/dev/null", "--", PROGRAMS / "entry")
        self.assertEqual((done.returncode, done.stdout), (0, "as it was\n"), done.stderr)

    def test_another_program_before_the_entry(self):
        """No breakpoint and no register of the first one is set in it."""
        done, _ = self.measure_with_library("exec")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("executed another program", done.stderr)

    def test_what_cannot_be_started(self):
        done, _ = self.measure(self.folder / "nothing")
        self.assertEqual(done.returncode, 1)
        self.assertIn("No such file", done.stderr)

    def test_start_of_a_program_that_has_no_main(self):
        """Whatever it is called, it is found where the entry point names it."""
        renamed = self.folder / "renamed"
        subprocess.run(["objcopy", "--redefine-sym", "main=t_first", PROGRAMS / "timed", renamed], check=True)
        plan = self.compile_text("""
metric begins {
  name "begins"; units Starts; unitsType unnormalized; aggregateOperator sum; style EventCounter; flavor { unix };
  base is counter { append preInsn $start.entry (* begins++; *) }
}
""")
        for program in (renamed, PROGRAMS / "timed"):
            out = self.folder / "values"
            done = run(MDL_INJECT, "--run", plan, "--format", "ndjson", "-o", out, "--", program)
            self.assertEqual(done.returncode, 0, done.stderr)
            final = [line for line in map(json.loads, out.read_text().splitlines()) if line["final"]]
            self.assertEqual([line["value"] for line in final], [1], program)

    def test_a_shell_that_executes_another_program(self):
        """What was instrumented is gone, and what runs in its place is not measured: no success."""
        plan = self.compile_text(metric("writes", ["libc.so.6/write"]))
        sleep = os.path.realpath(shutil.which("sleep"))
        done = run(MDL_INJECT, "--run", plan, "-m", "writes", "-o", "/dev/null", "--", "sh", "-c", "exec sleep 0.7")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"executes another program, {sleep}, which is not measured; ", done.stderr)
        self.assertIn("--follow-fork", done.stderr)

    def test_usage(self):
        plan = self.compile_text(metric("mains", ["main"]))
        self.assertEqual(run(MDL_INJECT, "--run", plan).returncode, 2)
        self.assertEqual(run(MDL_INJECT, "--run").returncode, 2)

    def test_the_plans_process_and_tunables(self):
        """Without a command the plan's own process, as its daemon says where; samples as often as the plan asks."""
        plan = self.compile_text(metric("mains", ["main"]) + f"""
daemon local {{ command ""; dir "{self.folder}"; flavor unix; }}
process echo {{ command "{PROGRAMS}/churn 3"; daemon local; }}
tunable_constant {{ "samplingRate" 0.05; "maxKeys" 10; }}
""")
        with subprocess.Popen([MDL_INJECT, "--run", plan, "--allow-command", "-m", "mains", "--format", "ndjson", "-o",
                               self.folder / "values"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            self.assertIn(b"ready", process.stdout.readline())
            time.sleep(0.5)
            process.stdin.write(b"quit\n")
            process.stdin.close()
            self.assertEqual(process.wait(30), 0)
        lines = [json.loads(line) for line in (self.folder / "values").read_text().splitlines()]
        self.assertGreater(len(lines), 5)
        self.assertEqual(lines[-1]["value"], 1)

    def test_a_tunable_out_of_range(self):
        plan = self.compile_text(metric("mains", ["main"]) + 'tunable_constant "samplingRate" 0;')
        done = run(MDL_INJECT, "--run", plan, "--", PROGRAMS / "churn")
        self.assertEqual(done.returncode, 4)
        self.assertIn("samplingRate", done.stderr)

    def test_a_request_that_fails_leaves_no_program_behind(self):
        plan = self.compile_text(metric("nothing", ["t_none"]))
        done = run(MDL_INJECT, "--run", plan, "-m", "nothing", "--", PROGRAMS / "churn")
        self.assertEqual((done.returncode, done.stdout), (1, ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
