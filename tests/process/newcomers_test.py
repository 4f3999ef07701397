"""--follow: processes that come while a session goes on join it, each in a transaction of its own; what they count is in
the sums, those that end keep their last values, and nothing is left anywhere.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import process_text
from harness import MDL_INJECT, PROGRAMS, LiveTest, NginxServer, Program, run, soon
from one_liners_test import Postgres

QUERY = "count t_work as work_calls"
NOBODY = 65534


class Follower:
    """An mdl-inject --follow, whose output and messages are files that are read again and again."""

    def __init__(self, folder, *words, interval="0.05"):
        self.out, self.err = folder / "follower.out", folder / "follower.err"
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen([MDL_INJECT, *map(str, words), "--follow", "--format", "ndjson", "-i", interval],
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def said(self):
        return self.err.read_text()

    def lines(self):
        text = self.out.read_text()
        return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]

    def wait_said(self, text, times=1):
        soon(lambda: self.said().count(text) >= times or self.process.poll() is not None, f"'{text}' to be said")
        if self.said().count(text) < times:
            raise AssertionError(f"it has not said '{text}' {times} times: {self.said()}")

    def wait_for(self, pid):
        self.wait_said(f"process {pid} has come: inserted")

    def measures(self, pid):
        """From the beginning, or since."""
        return re.search(rf"process {pid}(: | has come: )inserted", self.said())

    def last(self):
        """{pid: value}: of the last lines; 0 stands for all."""
        return {line["pid"]: line["value"] for line in self.lines() if line["final"]}

    def wait_sum(self, value):
        soon(lambda: [line["value"] for line in self.lines() if line["pid"] == 0][-1:] == [value], f"the sum {value}")

    def end(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Newcomers(LiveTest):
    def setUp(self):
        super().setUp()
        self.name = f"mdl-{os.getpid()}-new"  # no other test may have it
        self.folder.chmod(0o755)
        self.program = self.folder / self.name
        shutil.copy(PROGRAMS / "children", self.program)

    def follow(self, *words, **options):
        out = Follower(self.folder, *words, **options)
        self.addCleanup(out.kill)
        return out

    def start_one(self, *before):
        out = Program(self.name, command=[*before, self.program, "120"])
        self.addCleanup(out.kill)
        return out

    def assert_ended(self, session, status=0):
        self.assertEqual(session.end(), status, session.said())


class ByName(Newcomers):
    def test_one_after_another(self):
        """Each is measured, and what those have counted that have ended stays in the sum."""
        session = self.follow("-p", self.name, QUERY)
        session.wait_said(f"no process is called {self.name} yet: the first one is waited for")
        truth = {}
        for n in range(1, 6):
            one = self.start_one()
            session.wait_for(one.pid)
            one.ask(f"work {n}00")
            self.assertEqual(one.end(), 0)
            truth[one.pid] = n * 100
        soon(lambda: session.said().count("has ended") == 5, "the last one's end")
        self.assert_ended(session)
        self.assertEqual(session.last(), {**truth, 0: 1500}, session.said())
        self.assertEqual([line["processes"] for line in session.lines() if line["final"] and line["pid"] == 0], [5])
        self.assertEqual(session.said().count("has come"), 5)

    def test_several_at_once_beside_the_first(self):
        first = self.start_one()
        before = self.remember(first.pid)
        session = self.follow("-p", self.name, QUERY)
        session.wait_said(f"process {first.pid}: inserted")
        later = [self.start_one() for _ in range(4)]
        for one in later:
            session.wait_for(one.pid)
        for n, one in enumerate([first, *later], 1):
            one.ask(f"work {n}")
        later[3].ask("work 1000")
        later[3].end()
        first.ask("work 7")
        session.wait_sum(1022)
        self.assert_ended(session)
        self.assertEqual(session.last(), {**{one.pid: n for n, one in enumerate(later[:3], 2)}, first.pid: 8,
                                          later[3].pid: 1005, 0: 1022})
        self.assert_untouched(first.pid, before)
        for one in later[:3]:
            self.assertEqual(process_text.leftovers(one.pid), [])
            self.assertEqual(one.end(), 0)

    def test_nobody_comes(self):
        begun = time.monotonic()
        done = run(MDL_INJECT, "-p", self.name, "--follow", QUERY, "-d", "0.7", "--format", "ndjson")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("no process has come that could be measured", done.stderr)
        self.assertLess(time.monotonic() - begun, 10)
        session = self.follow("-p", self.name, QUERY)
        session.wait_said("the first one is waited for")
        time.sleep(0.5)
        self.assert_ended(session, 1)
        self.assertRegex(session.said(), "no process has come that could be measured|interrupted before anything")

    def test_those_that_come_are_short_and_cannot_be_measured(self):
        """They end before they would be refused for good: the reason is said all the same."""
        session = self.follow("-p", self.name, "count no_such_function_there")
        session.wait_said("the first one is waited for")
        for _ in range(3):
            one = self.start_one()
            time.sleep(0.5)
            one.end()
        time.sleep(0.5)
        self.assert_ended(session, 1)
        self.assertRegex(session.said(), r"no process has come that could be measured; the last one that came has "
                         rf"ended: process \d+ \({self.name[:15]}\) is not measured: .*")

    def test_children_that_are_there_already(self):
        """A note tells of them where only later ones are followed."""
        one = Program(self.name, command=["sh", "-c", f"sleep 20 & exec {self.program} 120"])
        self.addCleanup(one.kill)
        self.addCleanup(os.kill, one.pid, signal.SIGKILL)  # the child
        words, note = (MDL_INJECT, one.process.pid, QUERY, "--follow-fork", "-d", "0.2"), "note: a child is there already"
        self.assertIn(note, run(*words).stderr)
        done = run(*words, "--all-children", "--skip-refused")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(note, done.stderr)

    def test_its_time_is_over_though_others_could_come(self):
        one = self.start_one()
        session = self.follow("-p", self.name, QUERY, "-d", "1.5")
        session.wait_said(f"process {one.pid}: inserted")
        one.ask("work 3")
        self.assertEqual(one.end(), 0)
        self.assertEqual(session.process.wait(20), 0, session.said())
        self.assertEqual(session.last()[0], 3)

    def test_one_that_cannot_be_measured(self):
        """It is named once, and all others are measured."""
        session = self.follow("-p", self.name, QUERY)
        session.wait_said("the first one is waited for")
        other = self.folder / "other"
        other.mkdir()
        shutil.copy("/bin/sleep", other / self.name)
        foreign = subprocess.Popen([other / self.name, "100"])
        self.addCleanup(foreign.wait)
        self.addCleanup(foreign.kill)
        soon(lambda: "libc.so" in pathlib.Path(f"/proc/{foreign.pid}/maps").read_text(), "its libraries")
        before = self.remember(foreign.pid)
        one = self.start_one()
        session.wait_for(one.pid)
        session.wait_said(f"warning: process {foreign.pid} ({self.name[:15]}) is not measured: ")
        one.ask("work 12")
        time.sleep(1)
        self.assert_ended(session)
        self.assertEqual(session.last(), {one.pid: 12, 0: 12})
        self.assertEqual(session.said().count("is not measured"), 1, session.said())
        self.assert_untouched(foreign.pid, before)

    def test_all_formats_have_those_that_come(self):
        truths = {"csv": ",0,work_calls,,10,", "influx": "work_calls,pid=all value=10i", "json": '"pid":0,',
                  "prometheus": 'mdl_all_work_calls_total{focus=""} 10\n', "table": "  all  work_calls     10 "}
        for form, line in truths.items():
            out = self.folder / form
            session = subprocess.Popen([MDL_INJECT, "-p", self.name, "--follow", QUERY, "--format", form, "-o", out, "-i",
                                        "0.1"], stderr=subprocess.PIPE, text=True)
            self.addCleanup(session.stderr.close)
            next(text for text in session.stderr if "the first one is waited for" in text)
            one = self.start_one()
            next(text for text in session.stderr if f"process {one.pid} has come" in text)
            one.ask("work 10")
            session.send_signal(signal.SIGINT)
            self.assertEqual(session.wait(20), 0)
            self.assertIn(line, out.read_text(), form)
            self.assertEqual(one.end(), 0)

    def test_one_of_another_user(self):
        """Anybody may give his program the name: so he does not get into the session of others."""
        mine = self.start_one()
        session = self.follow("-p", self.name, QUERY, "--separate")
        session.wait_said(f"process {mine.pid}: inserted")
        theirs = self.start_one("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        before = self.remember(theirs.pid)
        session.wait_said(f"process {theirs.pid} ({self.name[:15]}) is not measured: it has other rights than those of "
                          "its name that are measured")
        later = self.start_one()
        session.wait_for(later.pid)
        for one in mine, theirs, later:
            one.ask("work 5")
        self.assert_ended(session)
        self.assertEqual(session.last(), {mine.pid: 5, later.pid: 5, 0: 10})
        self.assertEqual(session.said().count("is not measured"), 1, session.said())
        self.assert_untouched(theirs.pid, before)

    def test_the_first_one_says_whose(self):
        session = self.follow("-p", self.name, QUERY, "--separate")
        session.wait_said("the first one is waited for")
        as_nobody = "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"
        first = self.start_one(*as_nobody)
        session.wait_for(first.pid)
        mine = self.start_one()
        session.wait_said(f"process {mine.pid} ({self.name[:15]}) is not measured")
        second = self.start_one(*as_nobody)
        session.wait_for(second.pid)
        for one in first, mine, second:
            one.ask("work 5")
        self.assert_ended(session)
        self.assertEqual(session.last(), {first.pid: 5, second.pid: 5, 0: 10})

    def test_a_process_with_the_id_of_another(self):
        if not os.access("/proc/sys/kernel/ns_last_pid", os.W_OK):
            self.fail("this test chooses the ids of processes: run it as root")
        session = self.follow("-p", self.name, QUERY)
        session.wait_said("the first one is waited for")
        first = self.start_one()
        session.wait_for(first.pid)
        first.ask("work 10")
        self.assertEqual(first.end(), 0)

        def with_its_id():
            pathlib.Path("/proc/sys/kernel/ns_last_pid").write_text(str(first.pid - 1))
            second = self.start_one()
            return second if second.pid == first.pid else second.kill()
        second = soon(with_its_id, "the same id to come again")
        session.wait_said(f"process {first.pid} has come: inserted", 2)
        second.ask("work 5")
        self.assert_ended(session)
        self.assertEqual([line["value"] for line in session.lines() if line["final"] and line["pid"] == first.pid], [10, 5])
        self.assertGreaterEqual(session.last()[0], 15)

    def test_one_is_killed(self):
        session = self.follow("-p", self.name, QUERY)
        session.wait_said("the first one is waited for")
        one = self.start_one()
        session.wait_for(one.pid)
        one.kill()
        session.wait_said("was killed by signal 9")
        later = self.start_one()
        session.wait_for(later.pid)
        later.ask("work 2")
        self.assert_ended(session, 3)
        self.assertEqual(session.last()[later.pid], 2)

    def test_the_same_program_executed_again(self):
        """By a process that is measured: it comes anew, with the values of the new program."""
        first = self.start_one()
        session = self.follow("-p", self.name, QUERY)
        session.wait_said(f"process {first.pid}: inserted")
        first.ask("work 4")
        session.wait_sum(4)  # counts behind the last sample are lost with its memory
        first.send("exec 0")
        session.wait_for(first.pid)
        first.answer("ready")
        first.ask("work 9")
        self.assert_ended(session)
        self.assertEqual(session.last()[0], 13, session.said())

    def test_children_that_are_followed_are_not_attached_to(self):
        session = self.follow("-p", self.name, QUERY, "--follow-fork")
        session.wait_said("the first one is waited for")
        one = self.start_one()
        session.wait_for(one.pid)
        self.assertEqual(one.ask("fork 50")["status"], 0)
        one.ask("daemon 7", "daemon")  # a child that stays, and the parent has ended
        time.sleep(1)
        self.assert_ended(session)
        last = session.last()
        self.assertEqual(last.pop(0), 107, session.said())
        self.assertEqual(session.said().count("has come"), 1, session.said())
        self.assertNotIn("is not measured", session.said())

    def test_a_killed_injector(self):
        """At another moment each time. The next one takes out what it has left, and measures; where it was killed while it
        changed code, --remove does that, as ever."""
        for n in range(6):
            session = self.follow("-p", self.name, QUERY)
            programs = [self.start_one() for _ in range(3)]
            before = {one.pid: self.remember(one.pid) for one in programs}
            time.sleep(0.05 + 0.06 * n)
            session.kill()
            for one in programs:
                one.ask("work 3")
            session = self.follow("-p", self.name, QUERY)
            soon(lambda: session.process.poll() is not None or
                 all(session.measures(one.pid) for one in programs), "all to be measured")
            if session.process.poll() is not None:
                self.assertIn("take it out with mdl-inject --remove", session.said())
                self.assertEqual(run(MDL_INJECT, "--remove", ",".join(str(one.pid) for one in programs)).returncode, 0)
                session = self.follow("-p", self.name, QUERY)
                soon(lambda: all(session.measures(one.pid) for one in programs), "all to be measured")
            for one in programs:
                one.ask("work 5")
            self.assert_ended(session)
            self.assertEqual(session.last()[0], 15)
            for one in programs:
                self.assert_untouched(one.pid, before[one.pid])
                self.assertEqual(one.end(), 0)

    def test_wrong_words(self):
        one = self.start_one()
        for words in ([str(one.pid), QUERY], [f"{one.pid},1", QUERY], ["-p", str(one.pid), QUERY], ["-p", self.name],
                      ["--status", "-p", self.name], ["-p", self.name, QUERY, "--dry-run"],
                      ["-p", self.name, QUERY, "--commands", "/dev/null"], ["top", "-p", self.name]):
            done = run(MDL_INJECT, *words, "--follow")
            self.assertEqual(done.returncode, 2, (words, done.stderr))
            self.assertRegex(done.stderr, "--follow goes with|for one")


class Descendants(Newcomers):
    def start_script(self, count, before=""):
        """Starts the program so many times, one after another, each with commands of a FIFO."""
        self.pipes = [(self.folder / f"in{n}", self.folder / f"out{n}") for n in range(count)]
        for commands, _ in self.pipes:
            os.mkfifo(commands)
        script = "read go; " + "".join(f"{before}{self.program} 120 <{into} >{out}; " for into, out in self.pipes)
        shell = subprocess.Popen(["sh", "-c", script + "true"], stdin=subprocess.PIPE)
        self.addCleanup(shell.wait)
        self.addCleanup(shell.kill)
        self.addCleanup(shell.stdin.close)
        return shell

    def test_the_children_of_a_script(self):
        shell = self.start_script(4)
        session = self.follow(shell.pid, "--all-children", "--skip-refused", QUERY)
        session.wait_said(f"process {shell.pid} is not measured")
        shell.stdin.write(b"go\n")
        shell.stdin.flush()
        for n, (into, out) in enumerate(self.pipes, 1):
            with open(into, "w", encoding="utf-8", buffering=1) as file:
                session.wait_said("has come: inserted", n)
                file.write(f"work {n}0\n")
                soon(lambda: "done" in out.read_text(), "its work")
                file.write("quit\n")
        self.assertEqual(shell.wait(20), 0)
        self.assertEqual(session.process.wait(20), 0, session.said())  # nobody can come any more
        last = session.last()
        self.assertEqual(last.pop(0), 100, session.said())
        self.assertEqual(sorted(last.values()), [10, 20, 30, 40])
        self.assertEqual(session.said().count("is not measured"), 1, session.said())

    def test_a_fork_of_one_that_is_measured_is_told(self):
        """Its first calls are missing, and a note says what has them; with that there is none."""
        script = ("import os, sys, time\nsys.stdin.readline()\nchild = os.fork()\nif child == 0: time.sleep(60)\n"
                  "sys.stdin.readline()\nos.kill(child, 9)\nos.wait()")
        for options, notes in ([], 1), (["--follow-fork"], 0):
            python = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
            self.addCleanup(python.communicate)
            soon(lambda: "libc" in pathlib.Path(f"/proc/{python.pid}/maps").read_text(), "python to run")
            session = self.follow(python.pid, "--all-children", "count getpgid", *options)
            session.wait_said("inserted")
            python.stdin.write(b"go\n")
            python.stdin.flush()
            session.wait_said("was forked")
            time.sleep(0.5)
            python.stdin.write(b"end\n")
            python.stdin.flush()
            self.assertEqual(python.wait(20), 0)
            session.process.wait(20)
            self.assertEqual(session.said().count("with --follow-fork it is counted from the fork on"), notes, session.said())

    def test_one_that_becomes_the_program_later(self):
        """It is a shell when it is seen first, and executes the program in its own place."""
        shell = self.start_script(1, "sh -c 'sleep 1.5; exec \"$0\" \"$@\"' ")
        session = self.follow(shell.pid, "--all-children", "--skip-refused", QUERY)
        session.wait_said(f"process {shell.pid} is not measured")
        shell.stdin.write(b"go\n")
        shell.stdin.flush()
        with open(self.pipes[0][0], "w", encoding="utf-8", buffering=1) as file:
            session.wait_said("has come: inserted")
            file.write("work 33\nquit\n")
        self.assertEqual(shell.wait(20), 0)
        self.assertEqual(session.process.wait(20), 0, session.said())
        self.assertEqual(session.last()[0], 33)


class Groups(Newcomers):
    def group(self, name):
        for parent in pathlib.Path("/sys/fs/cgroup/pids"), pathlib.Path("/sys/fs/cgroup"):
            try:
                (parent / name).mkdir()
            except OSError:  # not ours to make
                continue
            self.addCleanup((parent / name).rmdir)
            return parent / name
        self.skipTest("no control group can be made here")

    def check(self, group, *words):
        first, second, outside = (self.start_one() for _ in range(3))
        self.addCleanup(lambda: [one.kill() for one in (first, second, outside)])
        procs = group / "cgroup.procs"
        if words[0] == "--container":
            procs.write_text(str(first.pid))
        session = self.follow(*words, QUERY)
        if words[0] == "--container":
            session.wait_said(f"process {first.pid}: inserted")
        else:
            session.wait_said("has no process yet: the first one is waited for")
            procs.write_text(str(first.pid))
            session.wait_for(first.pid)
        procs.write_text(str(second.pid))
        session.wait_for(second.pid)
        for one in first, second, outside:
            one.ask("work 5")
        self.assert_ended(session)
        self.assertEqual(session.last(), {first.pid: 5, second.pid: 5, 0: 10}, session.said())

    def test_a_control_group(self):
        self.check(group := self.group(self.name), "--cgroup", group)

    def test_a_container(self):
        label = f"{os.getpid():064x}"
        self.check(self.group(f"docker-{label}.scope"), "--container", label)


class Nginx(LiveTest):
    """A reload ends the workers and starts others: together they have served what the clients have got."""

    def reload(self, *options):
        log = self.folder / "access.log"
        os.chmod(self.folder.parent, 0o755)
        (self.folder / "small.txt").write_text("hello\n")
        server = NginxServer(self.folder, 3, http=f"access_log {log};", events="accept_mutex on;", listen="reuseport")
        self.addCleanup(server.kill)
        soon(lambda: server.get("small.txt") == b"hello\n", "nginx to serve")
        old = server.workers()
        before = {pid: self.remember(pid) for pid in [server.pid, *old]}
        served = len(log.read_text().splitlines())
        session = Follower(self.folder, server.pid, "--all-children", "count ngx_http_free_request", *options)
        self.addCleanup(session.kill)
        for pid in before:
            session.wait_said(f"process {pid}: inserted")
        for _ in range(100):
            self.assertEqual(server.get("small.txt"), b"hello\n")
        server.process.send_signal(signal.SIGHUP)
        soon(lambda: len(server.workers()) == 3 and not set(server.workers()) & set(old), "other workers")
        new = server.workers()
        for pid in new:
            session.wait_said(f"process {pid} has come: inserted" if not options else f"process {pid} was forked")
        for _ in range(200):
            self.assertEqual(server.get("small.txt"), b"hello\n")
        soon(lambda: len(log.read_text().splitlines()) == served + 300, "nginx's own log")
        self.assertEqual(session.end(), 0, session.said())
        last = session.last()
        self.assertEqual(last.pop(0), 300, session.said())
        self.assertEqual(sum(last.values()), 300)
        self.assertEqual(sum(last[pid] for pid in old), 100)
        self.assertEqual(sum(last[pid] for pid in new), 200)
        self.assertNotIn("is not measured", session.said())
        self.assert_untouched(server.pid, before[server.pid])
        for pid in new:  # which have loaded a library or two of their own
            self.assertEqual(process_text.leftovers(pid), [])
            text = self.remember(pid)
            self.assertEqual({key: text[key] for key in before[server.pid]}, before[server.pid])

    def test_a_reload(self):
        self.reload()

    def test_a_reload_whose_forks_are_followed(self):
        self.reload("--follow-fork")


class Backends(LiveTest):
    """A postmaster forks a backend for each connection; each has as many queries as its client has sent."""

    def test_postgres(self):
        postgres = Postgres(self.folder)
        self.addCleanup(postgres.end)
        session = Follower(self.folder, postgres.server.pid, "--all-children", "count pg_parse_query")
        self.addCleanup(session.kill)
        session.wait_said(f"process {postgres.server.pid}: inserted")
        for n in range(1, 4):
            client = subprocess.Popen(postgres.process.args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
            self.addCleanup(client.wait)
            self.addCleanup(client.kill)
            self.addCleanup(client.stdin.close)
            self.addCleanup(client.stdout.close)
            session.wait_said("has come: inserted", n)
            for _ in range(n * 10):
                client.stdin.write("select 1 + 2;\n")
                self.assertEqual(client.stdout.readline(), "3\n")
            client.stdin.write("\\q\n")
            client.wait(20)
        soon(lambda: session.said().count("has ended") == 3, "the last backend's end")
        self.assertEqual(session.end(), 0, session.said())
        last = session.last()
        self.assertEqual(last.pop(0), 60, session.said())
        self.assertEqual(sorted(value for value in last.values() if value), [10, 20, 30])


if __name__ == "__main__":
    unittest.main()
