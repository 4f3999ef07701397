"""The target becomes something else between two system calls of mdl-inject, at each of them that concerns it.

    between_calls_test.py            each change at some of the calls, by chance; it says which
    between_calls_test.py all [N/M]  each of them; of these, every M-th, beginning with the N-th

A pid, a thread's number, a mapping and a program may mean another one at the next call (docs/security.md). Here they do:
tests/programs/killer.cpp stops mdl-inject, which is root, in front of a call; then a process of nobody's changes itself
(tests/programs/changeling.cpp): it executes a program that is set-user-ID for root, gets other credentials, ends and
starts threads, maps something else in place of its code, or ends, and another process gets its id or that of its thread.
Then mdl-inject goes on. Whatever comes in the place of what was looked at notices each change in it
(tests/programs/heir.cpp): there may be none. mdl-inject ends in time, with a status and a message of its own.

The test runs in a pid namespace of its own, where nobody else takes the next id.
"""

import collections
import ctypes
import json
import os
import pathlib
import random
import select
import shutil
import signal
import subprocess
import sys
import time
import unittest

from harness import AS_NOBODY, MDL_INJECT, PROGRAMS, CONSTRAINTS, Lines, LiveTest, metric, run, soon

STATUSES = (0, 1, 3, 5)  # success, failed, the target was killed, something is left inert
IN_TIME = 20.0  # seconds, for what takes half of one
MOMENT = 0.03   # for a change; where the thread stands that is to make it, it comes later

# Changes after which the process runs another program, no program, or the same one.
EXECUTES = ("execute", "first")
ENDS = ("exit", "leave")
STAYS = ("users", "confine", "threads", "alone", "remap", "unload")
CHANGES = (*EXECUTES, *ENDS, *STAYS)


def has_own_ids():
    return os.getpid() == 1


def take_own_ids():
    os.execvp("unshare", ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-B", *sys.argv])


def status_of(pid):
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def living(pid):
    """A thread of it: where the first one has ended, its memory is shown by the others only."""
    threads = [int(tid) for tid in os.listdir(f"/proc/{pid}/task")]
    return next(tid for tid in sorted(threads) if status_of(tid).get("VmSize"))


class Conversation:
    """A process that says JSON lines and is told words."""

    def __init__(self, *command):
        self.process = subprocess.Popen([*(str(word) for word in command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.pid = self.process.pid
        self.lines = Lines(self.process.stdout)

    def say(self, word):
        try:
            self.process.stdin.write(word.encode() + b"\n")
        except BrokenPipeError:
            pass

    def hear(self, what, seconds=IN_TIME):
        line = self.lines.next(what, seconds)
        return json.loads(line) if line else None

    def hears_within(self, seconds):
        """The next line, if it comes so soon."""
        if select.select([self.process.stdout], [], [], seconds)[0]:
            return self.hear("the rest of a line")
        return None

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Heir(Conversation):
    """A process of root's with a given id, if that is free: nothing in it may change."""

    def __init__(self, pid):
        pathlib.Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        super().__init__(PROGRAMS / "heir")
        self.hear("the heir to begin")

    def harm(self):
        self.say("end")
        ended = self.hear("the heir to end")
        return "" if ended == {"event": "ended", "harm": ""} and self.process.wait(IN_TIME) == 0 else f"heir: {ended} {self.process.poll()}"


class Target(Conversation):
    def __init__(self, folder, address, as_root=False, plugin=True):
        under = () if as_root else AS_NOBODY
        words = [folder / "libplugin.so"] if plugin else []
        super().__init__("setarch", "-R", *under, folder / "changeling", folder / "heir", address, *words)
        self.twin = self.hear("the target to begin")["twin"]

    def twin_is_well(self, pid):
        """It runs, is not traced, and has found nothing wrong."""
        found = status_of(pid)
        return found.get("State", "Z")[0] in "RSD" and found["TracerPid"] == "0"

    def end(self):
        super().end()
        for pid in self.twins:
            os.kill(pid, signal.SIGKILL)

    twins = ()


class Struck:
    """What came of one change."""

    def __init__(self):
        self.pending = True     # the thread that was to make it stood
        self.status = None      # of mdl-inject
        self.errors = ""
        self.report = {}
        self.heirs = []         # processes with ids of the target's
        self.inherited = False
        self.executed = None    # what the other program said at its end
        self.answers = []


class Between(LiveTest):
    stops = None  # set by main: which of all, as a slice
    some = 2      # strikes of each change, where not all are asked for
    more = ("--no-separate",)  # options of mdl-inject
    copies = False  # whether only copies of the target get its id

    def setUp(self):
        super().setUp()
        self.address = self.make_set_user_id("heir")[1]
        for name in ("changeling", "libplugin.so"):
            shutil.copy(PROGRAMS / name, self.folder)
        self.plan = self.compile_text(CONSTRAINTS + metric("works", ["t_work"], constraints=["procedure"]) +
                                      metric("returns", ["t_work", "t_plugin_work"], "return"))
        self.seen = collections.Counter()
        # A process of root's with the same code at the same addresses, which nobody names, and which takes no processor.
        self.bystander = self.target(as_root=True, address="0")
        self.bystander_before = self.remember(self.bystander.pid)

    def target(self, address=None, **options):
        target = Target(self.folder, address or self.address, **options)
        target.twins = (target.twin,)
        self.addCleanup(target.end)
        return target

    def command(self, pid):
        return [MDL_INJECT, pid, self.plan, *self.more, "-i", "0.02", "-d", "0.03", "--format", "ndjson", "-o", self.folder / "out",
                "--max-pause", "20000", "-m", "works@/Code/changeling/t_work", "-m", "returns"]

    def strike(self, stop, change, target, command=None):
        """Runs mdl-inject, and lets the target change when it stands at a stop."""
        report = self.folder / "report"
        report.unlink(missing_ok=True)
        words = [PROGRAMS / "killer", report, stop, "ask" if change else "0", *(command or self.command(target.pid))]
        killer = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        struck = Struck()
        try:
            if Lines(killer.stdout).next("mdl-inject to come there", IN_TIME) is not None:
                target.say(change)
                self.meet(target, change, struck)
                killer.stdin.write(b"\n")
            deadline = time.monotonic() + IN_TIME
            while killer.poll() is None:
                self.assertLess(time.monotonic(), deadline, f"{change} at {stop}: mdl-inject does not end")
                if change in ENDS and not struck.heirs and target.process.poll() is not None:
                    self.inherit(target, target.pid, struck)
                time.sleep(0.002)
            struck.errors = killer.stderr.read().decode(errors="replace")
        finally:
            if killer.poll() is None:
                killer.kill()
            killer.wait()
            for pipe in (killer.stdin, killer.stdout, killer.stderr):
                pipe.close()
        self.assertTrue(report.exists(), struck.errors)
        struck.report = json.loads(report.read_text())
        struck.status = struck.report["status"]
        return struck

    def meet(self, target, change, struck):
        """Waits for the change for a moment, and gives the ids that became free to others."""
        if change in ENDS:
            until = time.monotonic() + MOMENT
            while target.process.poll() is None and time.monotonic() < until:
                time.sleep(0.001)
            if target.process.poll() is None:
                return
            struck.pending = False
            return self.inherit(target, target.pid, struck)
        answer = target.hears_within(MOMENT)
        struck.pending = answer is None
        if answer is None:
            return
        struck.answers.append(answer)
        for tid in answer.get("ended", ())[:1]:
            self.inherit(target, tid, struck)

    def inherit(self, target, pid, struck):
        """By turns another program, and a copy of the target, which has all that the kernel gave that at its start."""
        while pid == target.pid and (line := target.hears_within(0)):
            struck.answers.append(line)
        if pid == target.pid and (self.copies or self.seen["inherited"] % 2):
            pathlib.Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
            os.kill(target.twin, signal.SIGUSR1)
            children = pathlib.Path(f"/proc/{target.twin}/task/{target.twin}/children")
            child = int(soon(children.read_text, "the twin to fork").split()[0])
            target.twins = (*target.twins, child)
            struck.heirs.append(child)
            struck.inherited = child == pid
        else:
            heir = Heir(pid)
            self.addCleanup(heir.end)
            struck.heirs.append(heir)
            struck.inherited = heir.pid == pid
        self.seen["inherited"] += struck.inherited

    def check_heirs(self, struck, target):
        for heir in struck.heirs:
            if isinstance(heir, Heir):
                self.assertEqual(status_of(heir.pid)["TracerPid"], "0")
                self.assertEqual(heir.harm(), "")
                heir.end()
        for pid in target.twins:
            self.assertTrue(target.twin_is_well(pid), status_of(pid))

    def check_executed(self, struck, target):
        """The program that it executes begins and ends as if nobody had looked at it."""
        began = next((one for one in struck.answers if one["event"] == "began"), None) or target.hear("the other program to begin")
        self.assertEqual(began, {"event": "began", "pid": target.pid})
        self.assertEqual(status_of(target.pid)["Uid"].split(), ["65534", "0", "0", "0"])
        self.assertEqual(status_of(target.pid)["TracerPid"], "0")
        target.say("end")
        self.assertEqual(target.hear("the other program to end"), {"event": "ended", "harm": ""})
        self.assertEqual(target.process.wait(IN_TIME), 0)

    def check_same(self, struck, change, target, before):
        """It runs on, and what is left in it goes away."""
        if struck.pending:
            struck.answers.append(target.hear("the change"))
        self.assertEqual(struck.answers[0]["event"], "done")
        self.assertEqual(status_of(target.pid)["TracerPid"], "0")
        target.say("report")
        self.assertEqual(target.hear("a report"), {"event": "done", "wrong": 0})
        if change == "confine":
            return  # nobody can unmap anything in it
        removed = run(MDL_INJECT, "--remove", target.pid)
        self.assertEqual((removed.returncode, removed.stderr), (0, ""), struck.errors)
        if change not in ("remap", "unload"):
            self.assert_untouched(living(target.pid), before)
        target.say("report")
        self.assertEqual(target.hear("a report"), {"event": "done", "wrong": 0})

    def check_bystander(self):
        self.assertEqual(status_of(self.bystander.pid)["TracerPid"], "0")
        self.assertTrue(self.bystander.twin_is_well(self.bystander.twin))
        self.assert_untouched(self.bystander.pid, self.bystander_before)
        self.bystander.say("report")
        self.assertEqual(self.bystander.hear("a report"), {"event": "done", "wrong": 0})

    def strike_once(self, stop, change):
        target = self.target(as_root=change == "users")
        try:
            before = self.remember(target.pid)
            struck = self.strike(stop, change, target)
            if not struck.report["sent"]:
                self.assertEqual(struck.status, 0, struck.errors)
                self.seen.update(["not reached"])
                return struck.status
            self.assertIn(struck.status, STATUSES, struck.errors)
            if struck.status:
                self.assertRegex(struck.errors, r"mdl-inject: .+")
            if change in EXECUTES:
                self.check_executed(struck, target)
            elif change in ENDS:
                target.process.wait(IN_TIME)
            else:
                self.check_same(struck, change, target, before)
            self.check_heirs(struck, target)
            self.seen.update([change, f"status {struck.status}", "pending" if struck.pending else "at once"])
            return struck.status
        finally:
            target.end()

    def calm(self, stop=0):
        """How many stops there are when nothing changes."""
        target = self.target()
        calm = self.strike(stop, None, target)
        self.assertEqual((calm.status, calm.errors.count("inserted")), (0, 1), calm.errors)
        target.end()
        return calm.report

    def test_a_change_is_noticed(self):
        """Else the other tests would show nothing."""
        symbols = run("nm", PROGRAMS / "heir").stdout.splitlines()
        addresses = {line.split()[2]: int(line.split()[0], 16) for line in symbols if len(line.split()) == 3}
        for what in ("nothing", "data", "main", "registers"):
            with self.subTest(what=what):
                heir = Heir(3000)
                self.addCleanup(heir.end)
                self.assertEqual(heir.pid, 3000)
                if what == "registers":
                    self.set_register(heir.pid)
                elif what != "nothing":
                    name = next(name for name in addresses if name == what or name.endswith(f"4{what}E"))
                    with open(f"/proc/{heir.pid}/mem", "r+b", buffering=0) as memory:
                        memory.seek(addresses[name])
                        memory.write(b"\xcc")
                self.assertEqual(heir.harm() == "", what == "nothing")
                heir.end()

    @staticmethod
    def set_register(pid):
        """Sets each of r12 to r15, rbx and rbp, as ptrace(2) orders them in struct user."""
        attach, detach, poke = 16, 17, 6
        ptrace = ctypes.CDLL(None).ptrace
        ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        ptrace(attach, pid, None, None)
        os.waitpid(pid, 0)
        for place in range(6):
            ptrace(poke, pid, 8 * place, 12345)
        ptrace(detach, pid, None, None)

    def test_an_execve_while_threads_are_seized(self):
        """It waits for the end of those that are traced already, and the next PTRACE_SEIZE for it: for ever, once."""
        calls = self.calm()["seizes"]
        for stop in range(1, calls + 1, 2):
            for change in EXECUTES:
                with self.subTest(stop=stop, change=change):
                    self.strike_once(f"seizes:{stop}", change)
        self.assertGreater(self.seen["at once"], calls // 4, self.seen)

    def test_a_copy_has_the_id_while_threads_are_seized(self):
        """It is seized itself, and not stopped then: nobody mends the call of another's that a stop interrupts."""
        self.copies = True
        calls = self.calm()["seizes"]
        for stop in range(1, calls + 1):
            with self.subTest(stop=stop):
                self.strike_once(f"seizes:{stop}", ENDS[stop % 2])
        self.assertGreater(self.seen["inherited"], calls // 2, self.seen)

    def test_an_execve_while_registers_are_set(self):
        """In front of each call that sets registers or a signal mask. The execve waits for the thread that is to be set."""
        calls = self.calm()["sets"]
        self.assertGreater(calls, 5)
        for stop in range(1, calls + 1):
            with self.subTest(stop=stop):
                self.strike_once(f"sets:{stop}", EXECUTES[stop % 2])
        self.assertGreater(self.seen["status 1"], 0, "some came before it was done")

    def test_an_unload_is_looked_at_again(self):
        """It was an error that asked to try again: nobody else is in the way of that."""
        touches = self.calm()["touches"]
        for stop in range(touches // 8, touches, touches // 12):
            with self.subTest(stop=stop):
                self.assertEqual(self.strike_once(f"touches:{stop}", "unload"), 0)

    def test_at_each_call(self):
        touches = self.calm()["touches"]
        seed = random.randrange(1 << 32)
        print(f"{touches} calls, seed {seed}", flush=True)
        chance = random.Random(seed)
        if self.stops:
            strikes = [(stop, change) for stop in range(1, touches + 20) for change in CHANGES][self.stops]
        else:
            strikes = [(stop, change) for change in CHANGES for stop in chance.sample(range(1, touches), self.some)]
        for count, (stop, change) in enumerate(strikes):
            with self.subTest(stop=stop, change=change):
                self.strike_once(f"touches:{stop}", change)
            if count % 20 == 19:
                self.check_bystander()
            if self.stops and count % 500 == 499:
                print(f"{count + 1} of {len(strikes)}: {dict(self.seen)}", file=sys.stderr, flush=True)
        self.check_bystander()
        print(f"changed {len(strikes)} times: {dict(self.seen)}", flush=True)


class BetweenFollow(Between):
    """Forks are followed, and more is read of the process meanwhile."""
    some = 1
    more = ("--no-separate", "--follow-fork")
    test_a_change_is_noticed = test_an_execve_while_threads_are_seized = None
    test_an_execve_while_registers_are_set = test_an_unload_is_looked_at_again = None
    test_a_copy_has_the_id_while_threads_are_seized = None


class BetweenSeparate(Between):
    """The calls of the broker: its worker waits meanwhile."""
    some = 1
    more = ("--separate",)
    test_a_change_is_noticed = test_an_execve_while_threads_are_seized = None
    test_an_execve_while_registers_are_set = test_an_unload_is_looked_at_again = None
    test_a_copy_has_the_id_while_threads_are_seized = None


if __name__ == "__main__":
    if not has_own_ids():
        take_own_ids()
    if sys.argv[1:2] == ["all"]:
        first, step = (sys.argv.pop(2) if len(sys.argv) > 2 else "1/1").split("/")
        Between.stops = slice(int(first) - 1, None, int(step))
        sys.argv.pop(1)
    unittest.main(verbosity=2)
