"""--run --follow-fork: programs that the processes of a command execute are measured from their first instruction on."""

import collections
import fcntl
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from harness import CONSTRAINTS, MDL_INJECT, PROGRAMS, LiveTest, metric, run

DD = shutil.which("dd")
BYTES = f"{DD} if=/dev/zero of=/dev/null bs=1 status=none count="


class Programs(LiveTest):
    def setUp(self):
        super().setUp()
        self.plan = self.compile_text(CONSTRAINTS + metric("writes", ["libc.so.6/write"]) + metric("held", ["t_hold"]) +
                                      metric("mains", ["main"], constraints=["procedure"]))
        self.out = self.folder / "values"

    separate = ()

    def command(self, *command, options=("-m", "writes"), interval="0.2"):
        return [MDL_INJECT, *self.separate, "--run", self.plan, "--follow-fork", "-i", interval, "--format", "ndjson", "-o", self.out,
                *options, "--", *command]

    def measure(self, *command, status=0, **named):
        """{pid: [values]} of `writes`, as often as a program of it has ended."""
        done = run(*self.command(*command, **named))
        self.assertEqual(done.returncode, status, done.stderr)
        lines = [json.loads(line) for line in self.out.read_text().splitlines()]
        values = collections.defaultdict(list)
        for line in lines:
            if line["final"] and line["metric"] == "writes":
                self.assertTrue(line.get("complete", True), done.stderr)
                values[line["pid"]].append(line["value"])
        self.errors = done.stderr
        return values

    def total(self, *command, **named):
        return sum(sum(values) for values in self.measure(*command, **named).values())

    def test_in_the_place_of_a_shell(self):
        values = self.measure("sh", "-c", f"exec {BYTES}12345")
        self.assertEqual(list(values.values()), [[0, 12345]])
        self.assertRegex(self.errors, f"process \\d+ executes {os.path.realpath(DD)}: inserted 1 points")

    def test_children_of_a_shell(self):
        self.assertEqual(self.total("sh", "-c", f"{BYTES}100; ({BYTES}200) & {BYTES}300; wait; env {BYTES}400"), 1000)

    def test_one_after_the_other(self):
        """Through programs that execute others themselves."""
        self.assertEqual(self.total("env", "A=1", "nice", "nohup", "setsid", "-w", "timeout", "20", *f"{BYTES}77".split()), 77)

    def test_ways_to_execute(self):
        for way in ("threads", "spawn", "vfork", "search", "descriptor", "held"):
            with self.subTest(way=way):
                self.assertEqual(self.total(PROGRAMS / "executes", way, *f"{BYTES}500".split()), 500)

    def test_in_a_signal_handler(self):
        """Every 7 ms: with two processes mdl-inject is too slow for that (docs/security.md)."""
        self.separate = ("--no-separate",)
        started = time.monotonic()
        self.assertEqual(self.total(PROGRAMS / "executes", "handler", *f"{BYTES}500".split()), 500)
        self.assertLess(time.monotonic() - started, 30)

    def test_behind_a_filter(self):
        """Nobody makes a call there that the program does not make."""
        for way in ("prctl", "seccomp"):
            with self.subTest(way=way):
                done = run(*self.command("sh", "-c", f"{PROGRAMS}/executes {way} {BYTES}500; echo $?"))
                self.assertEqual((done.returncode, done.stdout), (0, "0\n"), done.stderr)

    def test_many_at_once(self):
        script = f"seq 40 | xargs -P 8 -I{{}} {BYTES}1{{}}"
        self.assertEqual(self.total("sh", "-c", script) - 1, sum(int(f"1{n}") for n in range(1, 41)))  # one of seq

    def test_python(self):
        script = f"import subprocess\nfor n in range(5): subprocess.run('{BYTES}10'.split(), check=True)"
        self.assertEqual(self.total(sys.executable, "-c", script), 50)
        self.assertEqual(len(self.errors.split(" executes ")), 6)

    def test_what_only_one_of_them_has(self):
        """The others have no lines, and are no failure."""
        options = ("-m", "held", "-m", "mains@/Code/churn/main")
        done = run(*self.command("sh", "-c", f"{PROGRAMS}/executes held {PROGRAMS}/churn </dev/null; true", options=options))
        self.assertEqual(done.returncode, 0, done.stderr)
        last = [json.loads(line) for line in self.out.read_text().splitlines()]
        last = [(line["metric"], line["value"]) for line in last if line["final"]]
        self.assertEqual(sorted(last), [("held", 3), ("mains", 1)])

    def test_what_none_of_them_has(self):
        done = run(*self.command("sh", "-c", "/bin/true; exec env true", options=("-m", "held", "-m", "mains@/Code/nowhere/main")))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("held was awaited, and nothing came that it could count (it looks for t_hold)", done.stderr)
        self.assertIn("/Code/nowhere", done.stderr)
        self.assertEqual(self.out.read_text(), "")

    def test_what_is_there_and_cannot_be_measured(self):
        """One line of a focus with `*`: a warning, as at an attach. It came; nothing was awaited in vain."""
        for option in ("--follow-fork", "--await"):
            done = run(MDL_INJECT, "--run", "calls /Code/changing/t_*", option, "-o", self.out, "--", PROGRAMS / "changing")
            self.assertIn("t_marked cannot be measured: its points are refused", done.stderr)
            self.assertEqual(done.returncode, 0, done.stderr)
        stripped = "parts-gcc-O3-stripped"  # call frame information shows cold parts as functions
        done = run(MDL_INJECT, "--run", f"calls /Code/{stripped}/*", "--await", "-o", self.out, "--", PROGRAMS / stripped)
        self.assertRegex(done.stderr, r"sub_\w+ cannot be measured: it is a part of another function")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run(MDL_INJECT, "--run", "calls t_marked", "--await", "-o", self.out, "--", PROGRAMS / "changing")
        self.assertEqual(done.returncode, 1, done.stderr)

    def test_the_wait_at_an_execve_that_fails_is_not_the_programs(self):
        """execvp tries the folders of PATH one by one, and is followed each time. The best of some: others may run."""
        times = []
        for _ in range(5):
            self.out.unlink(missing_ok=True)
            done = run(MDL_INJECT, "--run", "time execvp", "cpu execvp", "--follow-fork", "-o", self.out, "--",
                       shutil.which("env"), "true", env={**os.environ, "PATH": "/n1:/n2:/n3:/n4:/n5:/usr/bin:/bin"})
            self.assertEqual(done.returncode, 0, done.stderr)
            values = collections.Counter()
            for line in map(json.loads, self.out.read_text().splitlines()):
                if line["final"]:
                    values[line["metric"]] += line["value"]
            times.append([values["time execvp"], values["cpu execvp"]])
        wall, cpu = map(min, zip(*times))
        self.assertLess(wall, 5_000_000, times)
        self.assertLess(cpu, 500_000, times)

    def test_how_the_last_one_ends(self):
        self.assertEqual(run(*self.command("sh", "-c", "exec sh -c 'kill -9 $$'")).returncode, 3)

    def test_programs_that_cannot_be_measured(self):
        """They run as they do without us."""
        done = run(*self.command("sh", "-c", f"{PROGRAMS}/counted-static; echo $?; {BYTES}5"))
        alone = run("sh", "-c", f"{PROGRAMS}/counted-static; echo $?")
        self.assertEqual((done.returncode, done.stdout), (0, alone.stdout), done.stderr)
        self.assertRegex(done.stderr, "executes .*counted-static and is not measured: it has no loader")

    def test_another_user(self):
        """Programs with more rights than their process: root may measure them; others leave them alone."""
        if os.geteuid() != 0:
            self.skipTest("root only")
        self.assertEqual(self.total("su", "nobody", "-s", "/bin/sh", "-c", f"{BYTES}10; {BYTES}20"), 30)
        self.folder.chmod(0o777)
        self.out.unlink()
        self.plan.chmod(0o644)
        done = run("setpriv", "--reuid", "nobody", "--clear-groups", *self.command("sh", "-c", f"su --version; {BYTES}5"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("may get more rights", done.stderr)
        self.assertIn("su from util-linux", done.stdout)

    def test_an_injector_that_is_held_up(self):
        """Programs go on without it; each one that has no line is in a warning."""
        self.separate = ("--no-separate",)  # whose broker would end it after a second
        script = f"for i in $(seq 20); do {BYTES}10; done"
        with subprocess.Popen(self.command("sh", "-c", script), stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
            for _ in range(2):
                time.sleep(random.uniform(0.3, 0.6))
                os.kill(process.pid, signal.SIGSTOP)
                time.sleep(1.5)
                os.kill(process.pid, signal.SIGCONT)
            errors = process.stderr.read()
        lines = [json.loads(line) for line in self.out.read_text().splitlines()]
        measured = sum(line["value"] for line in lines if line["final"] and line["metric"] == "writes") // 10
        unseen = sum(int(n) for n in re.findall(r"(\d+) programs were executed", errors))
        unseen += len(re.findall(r"executes \S*/dd and is not measured|executed a program that ended before", errors))
        if "processes that it made last may be missing" in errors:  # the shell has ended, too, and with it the count
            self.assertLessEqual(measured + unseen, 20, errors)
        else:
            self.assertEqual(measured + unseen, 20, errors)

    def test_a_reader_that_waits(self):
        """Nothing waits for it: the programs run, and each one is measured."""
        command = self.command("sh", "-c", f"for i in $(seq 10); do {BYTES}10; done; echo end >&2", interval="0.01")
        command[command.index("-o") : command.index("-o") + 2] = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
            errors = []
            for line in process.stderr:
                errors.append(line)
                if line == "end\n":
                    break
            time.sleep(0.5)
            lines = [json.loads(line) for line in process.stdout.read().splitlines()]
            errors += process.stderr.readlines()
        measured = [line["value"] for line in lines if line["final"] and line["metric"] == "writes" and line["value"] == 10]
        self.assertEqual(len(measured), 10, "".join(errors))
        self.assertNotIn("held up", "".join(errors))

    def end_the_injector(self, how):
        """At any moment: all that was started runs to its end, and nothing waits for long."""
        script = "for i in $(seq 12); do /bin/echo $i | cat; done; exec /bin/echo end"
        expected = "".join(f"{n}\n" for n in range(1, 13)) + "end\n"
        for _ in range(6):
            with subprocess.Popen(self.command("sh", "-c", script), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) as process:
                said = process.stdout.readline()  # before that the program ends with the injector
                time.sleep(random.uniform(0, 0.6))
                process.send_signal(how)
                began = time.monotonic()
                self.assertEqual(said + process.stdout.read(), expected)
                self.assertLess(time.monotonic() - began, 20)
                process.wait(20)
                yield process

    def test_the_injector_is_interrupted(self):
        for process in self.end_the_injector(signal.SIGINT):
            self.assertEqual(process.returncode, 0, process.stderr.read())

    def test_the_injector_is_killed(self):
        for process in self.end_the_injector(signal.SIGKILL):
            self.assertEqual(process.returncode, -signal.SIGKILL)


if __name__ == "__main__":
    unittest.main(verbosity=2)
