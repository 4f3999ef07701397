"""One session over several processes: each has its own exact numbers and all have their sum; where one cannot be
measured none is, and nothing is left anywhere.
"""

import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

from harness import MDL_INJECT, PROGRAMS, LiveTest, NginxServer, Program, metric, run, soon

WORK = "work_calls"
PLAN = metric(WORK, ["t_work"])
QUERY = "count t_work as work_calls"


def totals(session, final=True):
    """{pid: value} of the last lines; 0 stands for all."""
    return {line["pid"]: line["value"] for line in session.lines if line["final"] == final}


class Several(LiveTest):
    def setUp(self):
        super().setUp()
        self.programs = [self.start("children") for _ in range(3)]
        self.before = {one.pid: self.remember(one.pid) for one in self.programs}
        self.pids = ",".join(str(pid) for pid in self.before)

    def begin(self, *options, what=QUERY):
        return self.inject(self.pids, what, *options).wait_inserted()

    def assert_all_untouched(self):
        for pid, before in self.before.items():
            self.assert_untouched(pid, before)

    def end_all(self):
        for one in self.programs:
            self.assertEqual(one.end(), 0)


class Sums(Several):
    def test_each_and_all(self):
        session = self.begin(what=self.compile_text(PLAN))
        for n, one in enumerate(self.programs, 1):
            one.ask(f"work {n}000")
        soon(lambda: (session.read_on(), totals(session, False).get(0) == 6000)[1], "the sum")
        self.programs[1].ask("work 7")
        self.assert_stopped_well(session)
        truth = {one.pid: value for one, value in zip(self.programs, (1000, 2007, 3000))}
        self.assertEqual(totals(session), {**truth, 0: 6007}, session.errors)
        last = [line for line in session.lines if line["final"]]
        self.assertEqual([line["pid"] for line in last], [*truth, 0])
        self.assertEqual([line.get("processes") for line in last], [None, None, None, 3])
        self.assert_all_untouched()
        self.end_all()

    def test_who_ends_keeps_its_last_values(self):
        session = self.begin()
        self.programs[0].ask("work 100")
        self.programs[1].send("exit 30")
        self.assertEqual(self.programs[1].process.wait(20), 6)  # its own
        session.said("has ended")
        del self.before[self.programs.pop(1).pid]
        self.programs[1].ask("work 5")
        soon(lambda: (session.read_on(), totals(session, False).get(0) == 135)[1], "the sum")
        self.assert_stopped_well(session)
        self.assertEqual(totals(session)[0], 135)
        self.assert_all_untouched()
        self.end_all()

    def test_it_ends_with_the_last_one(self):
        session = self.begin()
        for n, one in enumerate(self.programs, 1):
            one.ask(f"work {n}")
        self.end_all()
        self.assertEqual(session.wait(), 0, session.errors)
        self.assertEqual(totals(session)[0], 6)
        self.assertEqual(len(totals(session)), 4)

    def test_one_is_killed(self):
        session = self.begin()
        self.programs[2].kill()
        del self.before[self.programs.pop().pid]
        session.said("was killed by signal 9")
        self.assertEqual(session.stop(), 3, session.errors)
        self.assert_all_untouched()
        self.end_all()

    def test_keys_and_distributions(self):
        session = self.inject(self.pids, "count t_work by $arg[0]")  # no key, no line
        session.said(f"process {self.programs[2].pid}: inserted")
        self.programs[0].ask("work 3")
        self.programs[2].ask("work 2")
        self.assert_stopped_well(session)
        keys = {(line["pid"], *line["key"]): line["value"] for line in session.lines if line["final"] and line["value"]}
        one, _, three = (program.pid for program in self.programs)
        self.assertEqual(keys, {(one, "0"): 1, (one, "1"): 1, (one, "2"): 1, (three, "0"): 1, (three, "1"): 1,
                                (0, "0"): 2, (0, "1"): 2, (0, "2"): 1})
        session = self.begin(what="hist $arg[0] at t_work")
        self.programs[0].ask("work 4")
        self.programs[1].ask("work 2")
        self.assert_stopped_well(session)
        last = next(line for line in session.lines if line["final"] and line["pid"] == 0)
        self.assertEqual((last["count"], last["sum"], last["buckets"]), (6, 7, [[1, 2], [2, 2], [3, 1], [4, 1]]))
        self.assert_all_untouched()
        self.end_all()

    def test_many(self):
        """Each is stopped for no longer than one alone, also by a broker that knows all of them."""
        many = [subprocess.Popen(["sleep", "100"]) for _ in range(50)]
        for one in many:
            self.addCleanup(one.wait)
            self.addCleanup(one.kill)
        for option in "--separate", "--no-separate":
            done = run(MDL_INJECT, ",".join(str(one.pid) for one in many), "count malloc", option, "-d", "0.1",
                       "--format", "ndjson")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout.splitlines()[-1])["processes"], 50)
        self.end_all()

    def test_children_join(self):
        session = self.begin("--follow-fork")
        self.assertEqual(self.programs[0].ask("fork 50")["status"], 0)
        self.assertEqual(self.programs[2].ask("fork 7")["status"], 0)
        self.assert_stopped_well(session)
        last = totals(session)
        self.assertEqual(last.pop(0), 114, session.errors)
        self.assertEqual(sorted(last.values()), [0, 0, 0, 7, 7, 50, 50])
        self.assert_all_untouched()
        self.end_all()

    def test_all_formats_have_the_sum(self):
        truths = {"csv": ",0,work_calls,,30,", "influx": "work_calls,pid=all value=30i",
                  "prometheus": 'mdl_all_work_calls_total{focus=""} 30\n', "table": "  all  work_calls     30 "}
        for number, (form, line) in enumerate(truths.items()):
            out = self.folder / form
            session = subprocess.Popen([MDL_INJECT, self.pids, QUERY, "--format", form, "-o", out, "-d", "0.6"],
                                       stderr=subprocess.PIPE, text=True)
            self.addCleanup(session.stderr.close)
            next(text for text in session.stderr if str(self.programs[2].pid) in text)
            for one in self.programs:
                one.ask("work 10")
            self.assertEqual(session.wait(20), 0)
            self.assertIn(line, out.read_text(), number)
        self.assert_all_untouched()
        self.end_all()


# Forks so many that they are N, of which number n waits for a file and calls a64l 100 * (n + 1) times. The last one has
# other bytes at the beginning of strfry, which nobody calls.
FORKS = """
import ctypes, os, sys, time
libc, count, go = ctypes.CDLL(None), int(sys.argv[1]), sys.argv[2]
number = 0
for n in range(1, count):
    if os.fork() == 0:
        number = n
        break
if number == count - 1 > 0:
    at = ctypes.cast(libc.strfry, ctypes.c_void_p).value
    page = at & ~4095
    assert libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(8192), 7) == 0
    ctypes.memset(at, 0x90, 1)
    assert libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(8192), 5) == 0
os.write(1, f"{number} {os.getpid()}\\n".encode())
while not os.path.exists(go):
    time.sleep(0.02)
for _ in range(100 * (number + 1)):
    libc.a64l(b"x")
os.write(1, b"done\\n")
time.sleep(1000)
"""


class Forked(LiveTest):
    """What was found out about one process is taken over for others that were forked with it (likeness.h)."""

    def start_forks(self, count):
        """{pid: number}; of the first one the others are children."""
        output, self.go = self.folder / "output", self.folder / "go"
        script = self.folder / "forks.py"
        script.write_text(FORKS, encoding="utf-8")
        with open(output, "wb") as into:
            first = subprocess.Popen(["/usr/bin/python3", script, str(count), self.go], stdout=into, process_group=0)
        self.addCleanup(first.wait)
        self.addCleanup(os.killpg, first.pid, signal.SIGKILL)
        self.output = output
        soon(lambda: len(output.read_text().splitlines()) == count, "the forks")
        lines = [line.split() for line in output.read_text().splitlines()]
        return first.pid, {int(pid): int(number) for number, pid in lines}

    def test_each_is_counted(self):
        """The one with other code is looked at by itself."""
        first, forks = self.start_forks(5)
        before = {pid: self.remember(pid) for pid in forks}
        session = self.inject(first, "calls /Code/libc.so.6/*", "--all-children").wait_inserted(120)
        self.go.touch()
        soon(lambda: self.output.read_text().count("done") == 5, "their calls")
        self.assert_stopped_well(session)
        lines = [line for line in session.lines if line["final"] and line["pid"]]
        self.assertEqual({line["pid"]: line["value"] for line in lines if line["focus"] == "/Code/libc.so.6/a64l"},
                         {pid: 100 * (number + 1) for pid, number in forks.items()})
        others = [pid for pid, number in forks.items() if number < 4]
        self.assertEqual({line["pid"]: line["refused"] for line in lines if line["focus"] == "/Code/libc.so.6/strfry"},
                         {pid: int(number == 4) for pid, number in forks.items()})
        for pid, text in before.items():
            self.assert_untouched(pid, text)

    def most_memory(self, count):
        """Of mdl-inject, in MB."""
        first, _ = self.start_forks(count)
        with subprocess.Popen([MDL_INJECT, str(first), "calls /Code/libc.so.6/*", "--all-children", "--skip-refused",
                               "-d", "0.01"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as injector:
            _, status, usage = os.wait4(injector.pid, 0)
            injector.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(injector.returncode, 0)
        os.killpg(first, signal.SIGKILL)
        return usage.ru_maxrss / 1024

    def test_many_take_little_memory(self):
        one, many = self.most_memory(1), self.most_memory(11)
        self.assertLess((many - one) / 10, one / 3)


class Refused(Several):
    def refused(self, *words, status=1):
        done = run(MDL_INJECT, *words, "--format", "ndjson", "-d", "0.2")
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        return done.stderr

    def test_none_where_one_is_measured_already(self):
        other = self.inject(self.programs[2].pid, QUERY).wait_inserted()
        said = self.refused(self.pids, QUERY)
        self.assertIn(f"none of the 3 processes is measured, because of process {self.programs[2].pid} (children)", said)
        for one in self.programs[:2]:
            self.assert_untouched(one.pid, self.before[one.pid])
        session = self.begin("--skip-refused")
        for one in self.programs:
            one.ask("work 10")
        self.assert_stopped_well(session)
        self.assertEqual(totals(session), {**{one.pid: 10 for one in self.programs[:2]}, 0: 20})
        self.assertIn(f"warning: process {self.programs[2].pid} is not measured", session.errors)
        self.assert_stopped_well(other)
        self.assert_all_untouched()
        self.end_all()

    def test_none_where_one_is_not_there(self):
        self.programs[1].process.kill()
        self.programs[1].process.wait()
        said = self.refused(self.pids, QUERY)
        self.assertIn(f"because of process {self.programs[1].pid}", said)
        del self.before[self.programs.pop(1).pid]
        self.assert_all_untouched()
        self.end_all()

    def test_one_ends_meanwhile(self):
        """At a moment of the attach that is another one each time."""
        for n in range(8):
            self.programs[1].kill()
            self.before.pop(self.programs.pop(1).pid, None)
            self.programs.insert(1, self.start("children"))
            # The first is the last to be attached to, so that others are instrumented already.
            order = [self.programs[0], self.programs[2], self.programs[1]]
            session = self.inject(",".join(str(one.pid) for one in order), QUERY)
            time.sleep(0.02 * n)
            self.programs[1].process.kill()
            try:
                session.wait_inserted()
                self.programs[0].ask("work 1")
                session.stop()
            except AssertionError:
                self.assertIn(session.process.returncode, (1, 3), session.errors)
            self.assert_all_untouched()

    def test_an_injector_that_is_killed(self):
        """At such a moment, too; then all are rid of it at once."""
        for n in range(6):
            session = self.inject(self.pids, QUERY)
            time.sleep(0.03 * n)
            session.kill()
            for one in self.programs:
                one.ask("work 10")
            done = run(MDL_INJECT, "--remove", self.pids)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assert_all_untouched()
        self.end_all()

    def test_status_of_each(self):
        session = self.begin()
        done = run(MDL_INJECT, "--status", self.pids)
        self.assertEqual(done.stdout.count("instrumented by mdl-inject"), 3, done.stdout)
        self.assertEqual(run(MDL_INJECT, "--list", self.pids).returncode, 2)
        self.assertEqual(run(MDL_INJECT, self.pids, QUERY, "--commands", "/dev/null").returncode, 2)
        self.assert_stopped_well(session)
        self.assert_all_untouched()
        self.end_all()


class Choices(LiveTest):
    """-p with --every and --all-children, and --cgroup."""

    def setUp(self):
        super().setUp()
        self.name = f"mdl-{os.getpid()}-many"  # no other test may have it
        self.program = self.folder / self.name
        shutil.copy(PROGRAMS / "children", self.program)

    def begin(self, *words):
        session = subprocess.Popen([MDL_INJECT, *words, "--format", "ndjson"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        for end in session.stdout.close, session.stderr.close, session.wait, session.kill:
            self.addCleanup(end)
        if not session.stdout.readline():
            self.fail(session.stderr.read())
        return session

    def last(self, session):
        session.send_signal(signal.SIGINT)
        text, errors = session.communicate(timeout=20)
        self.assertEqual(session.returncode, 0, errors)
        lines = [json.loads(line) for line in text.splitlines()]
        return {line["pid"]: line["value"] for line in lines if line["final"]}

    def start_copies(self, count):
        out = [Program(self.name, command=[self.program, "120"]) for _ in range(count)]
        for one in out:
            self.addCleanup(one.kill)
        return out

    def test_a_name_of_several(self):
        copies = self.start_copies(2)
        done = run(MDL_INJECT, "-p", self.name, QUERY)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"2 processes are called {self.name}; name one by its id, or measure each of them in one "
                      "session with --every:", done.stderr)
        session = self.begin("-p", self.name, "--every", QUERY)
        for one in copies:
            one.ask("work 21")
        self.assertEqual(self.last(session), {copies[0].pid: 21, copies[1].pid: 21, 0: 42})

    def test_children_of_a_script(self):
        """The shell itself has no such function: that is said, and left out on request."""
        pipes = [(self.folder / f"in{n}", self.folder / f"out{n}") for n in range(2)]
        for commands, _ in pipes:
            os.mkfifo(commands)
        script = "".join(f"{self.program} 120 <{into} >{out} & " for into, out in pipes)
        shell = subprocess.Popen(["sh", "-c", script + "wait"])
        self.addCleanup(shell.wait)
        self.addCleanup(shell.kill)
        files = [open(into, "w", encoding="utf-8", buffering=1) for into, _ in pipes]
        for file in files:
            self.addCleanup(file.close)
        soon(lambda: all("ready" in out.read_text() for _, out in pipes if out.exists()), "the children")
        done = run(MDL_INJECT, str(shell.pid), "--all-children", QUERY)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"none of the 3 processes is measured, because of process {shell.pid} (sh)", done.stderr)
        session = self.begin(str(shell.pid), "--all-children", "--skip-refused", QUERY)
        for n, file in enumerate(files, 1):
            file.write(f"work {n}0\n")
        soon(lambda: all("done" in out.read_text() for _, out in pipes), "their work")
        last = self.last(session)
        self.assertEqual(last.pop(0), 30)
        self.assertEqual(sorted(last.values()), [10, 20])
        for file in files:
            file.write("quit\n")
        self.assertEqual(shell.wait(20), 0)

    def test_a_control_group(self):
        done = run(MDL_INJECT, "--cgroup", str(self.folder), QUERY)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is no control group", done.stderr)
        copies = self.start_copies(3)
        for parent in pathlib.Path("/sys/fs/cgroup/pids"), pathlib.Path("/sys/fs/cgroup"):
            group = parent / self.name
            try:
                (group / "below").mkdir(parents=True)
                break
            except OSError:  # not ours to make
                continue
        else:
            return
        self.addCleanup(group.rmdir)
        self.addCleanup((group / "below").rmdir)
        self.addCleanup(lambda: [one.kill() for one in copies])
        (group / "cgroup.procs").write_text(str(copies[0].pid))
        (group / "below" / "cgroup.procs").write_text(str(copies[1].pid))
        session = self.begin("--cgroup", str(group), QUERY)
        for one in copies:
            one.ask("work 5")
        self.assertEqual(self.last(session), {copies[0].pid: 5, copies[1].pid: 5, 0: 10})

    def test_a_container(self):
        """Its control group is named as Docker names it, with its id; the process of another container is left out."""
        done = run(MDL_INJECT, "--container", "no-such-container", QUERY)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no container is called no-such-container", done.stderr)
        copies = self.start_copies(3)
        ids = [hashlib.sha256(f"{self.name} {n}".encode()).hexdigest() for n in range(2)]
        for parent in pathlib.Path("/sys/fs/cgroup/pids"), pathlib.Path("/sys/fs/cgroup"):
            groups = [parent / f"docker-{one}.scope" for one in ids]
            try:
                for group in groups:
                    group.mkdir()
                break
            except OSError:  # not ours to make
                continue
        else:
            return
        for group in groups:
            self.addCleanup(group.rmdir)
        self.addCleanup(lambda: [one.kill() for one in copies])
        for copy, group in zip(copies, (groups[0], groups[0], groups[1])):
            with open(group / "cgroup.procs", "w", encoding="ascii") as file:
                file.write(str(copy.pid))
        for name in ids[0], ids[0][:12]:
            session = self.begin("--container", name, QUERY)
            for one in copies:
                one.ask("work 5")
            self.assertEqual(self.last(session), {copies[0].pid: 5, copies[1].pid: 5, 0: 10})

    def test_nginx(self):
        """The master and three workers under load: together they have served what the clients have got."""
        log = self.folder / "access.log"
        os.chmod(self.folder.parent, 0o755)
        (self.folder / "small.txt").write_text("hello\n")
        server = NginxServer(self.folder, 3, http=f"access_log {log};", events="accept_mutex on;", listen="reuseport")
        self.addCleanup(server.kill)
        pids = [server.pid, *server.workers()]
        soon(lambda: server.get("small.txt") == b"hello\n", "nginx to serve")
        before = {pid: self.remember(pid) for pid in pids}
        served = len(log.read_text().splitlines())
        session = self.begin(str(server.pid), "--all-children", "count ngx_http_free_request")
        for _ in range(300):
            self.assertEqual(server.get("small.txt"), b"hello\n")
        soon(lambda: len(log.read_text().splitlines()) == served + 300, "nginx's own log")
        last = self.last(session)
        self.assertEqual(last.pop(0), 300, last)
        self.assertEqual(sum(last.values()), 300)
        self.assertEqual(sorted(last), sorted(pids))
        self.assertGreater(sum(value > 0 for value in last.values()), 1, "one worker has done it all")
        for pid in pids:
            self.assert_untouched(pid, before[pid])


if __name__ == "__main__":
    unittest.main()
