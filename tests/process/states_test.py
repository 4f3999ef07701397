"""Processes in the states of tests/programs/guarded.cpp, stopped ones, and traced ones."""

import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

import process_text
from harness import MDL_INJECT, LiveTest, metric, run, soon

# Seizes a process as a debugger would, says so, and holds it until its input is closed.
TRACER = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
if libc.ptrace(0x4206, int(sys.argv[1]), None, None) != 0:
    sys.exit(1)
print("seized", flush=True)
sys.stdin.read()
"""


def state(pid):
    """The letter of /proc/PID/stat."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0]


class States(LiveTest):
    def begin(self, mode):
        program = self.start("guarded", mode)
        self.plan = self.compile_text(metric("work_calls", ["t_work"]))
        return program, self.remember(self.reader(program, mode))

    @staticmethod
    def reader(program, mode):
        """A thread whose /proc entry can be read: the leader's maps are empty after its end."""
        if mode != "leaderless":
            return program.pid
        return next(tid for tid in os.listdir(f"/proc/{program.pid}/task") if int(tid) != program.pid)

    def measure(self, mode):
        program, before = self.begin(mode)
        session = self.inject(program.pid, self.plan).wait_inserted()
        program.ask("work 321")
        self.assert_stopped_well(session)
        self.assertEqual(session.final()["work_calls", ""]["value"], 321)
        self.assert_untouched(self.reader(program, mode), before)
        self.assertEqual(program.end(), 0)

    def test_plain(self):
        self.measure("plain")

    def test_leader_that_ended(self):
        self.measure("leaderless")

    def test_thread_at_the_end_of_its_stack(self):
        """It makes no calls for us: there is no room for what these push."""
        self.measure("edge")

    def test_thread_at_the_end_of_a_stack_that_grows(self):
        """It has no page below, and makes calls all the same."""
        program, before = self.begin("deep")
        for _ in range(2):
            self.assert_stopped_well(self.inject(program.pid, self.plan).wait_inserted())
            self.assert_untouched(program.pid, before)

    def test_thread_that_raises_signals_all_the_time(self):
        """It stops for nothing else, and takes one before it makes our calls."""
        program, before = self.begin("raising")
        for total in range(1, 11):
            session = self.inject(program.pid, self.plan).wait_inserted()
            self.assertEqual(program.ask("work 1"), {"event": "done", "work": total, "interrupted": 0})
            self.assert_stopped_well(session)
            self.assertEqual(session.final()["work_calls", ""]["value"], 1)
            self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def test_descriptors_of_other_threads(self):
        """None of them sees the one that our memory is mapped by, nor do its calls take another's file for it."""
        program, before = self.begin("crossing")
        for total in range(1, 11):
            session = self.inject(program.pid, self.plan).wait_inserted()
            self.assertEqual(program.ask("work 1"), {"event": "done", "work": total, "interrupted": 0})
            self.assert_stopped_well(session)
            self.assert_untouched(program.pid, before)

    def test_addresses_that_come_and_go(self):
        """What was free when it was looked for is taken when it is to be mapped: other places are found."""
        for attach in range(8):
            if attach % 2 == 0:  # it ends itself after a while, and on a busy machine an attach may take a minute
                program, _ = self.begin("mapping")
            session = self.inject(program.pid, "count malloc by caller", "count free").wait_inserted(90)
            self.assert_stopped_well(session)
            self.assertEqual(process_text.leftovers(program.pid), [])
            if attach % 2:
                self.assertEqual(program.end(), 0)

    def test_file_mapped_again_far_away(self):
        """Code need not be in reach of that mapping."""
        self.measure("remapped")

    def test_file_size_limit(self):
        """A memfd that grows past RLIMIT_FSIZE would kill the process by SIGXFSZ: refused, and named."""
        program, before = self.begin("plain")
        resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        session = self.inject(program.pid, self.plan)
        self.assertEqual(session.wait(), 1)
        self.assertIn("RLIMIT_FSIZE", session.errors)
        self.assert_untouched(program.pid, before)
        program.ask("work 5")
        self.assertEqual(program.end(), 0)

    def test_locked_memory(self):
        """Of a process that locks what it maps, only what is used of the data takes memory."""
        program, before = self.begin("locked")
        session = self.inject(program.pid, self.plan).wait_inserted()
        data = [mapping for mapping in re.split(r"\n(?=[0-9a-f]+-)", pathlib.Path(f"/proc/{program.pid}/smaps").read_text())
                if re.search(r"^\S+ rw-p .*mdl-session", mapping)]
        self.assertEqual(len(data), 1)
        size, resident = (int(re.search(rf"^{name}: +(\d+) kB", data[0], re.M)[1]) for name in ("Size", "Rss"))
        self.assertLess(resident, size / 2)
        program.ask("work 321")
        self.assert_stopped_well(session)
        self.assertEqual(session.final()["work_calls", ""]["value"], 321)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def test_counter_that_may_not_be_read(self):
        """A timer would end it by SIGSEGV: refused, and named; counts are exact."""
        program, before = self.begin("untimed")
        session = self.inject(program.pid, "time /Code/guarded/t_work")
        self.assertEqual(session.wait(), 1)
        self.assertIn("PR_SET_TSC", session.errors)
        self.assert_untouched(program.pid, before)
        session = self.inject(program.pid, self.plan).wait_inserted()
        program.ask("work 321")
        self.assert_stopped_well(session)
        self.assertEqual(session.final()["work_calls", ""]["value"], 321)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def kill_and_remove(self, session, program, status):
        session.kill()
        removed = run(MDL_INJECT, "--remove", program.pid)
        self.assertEqual(removed.returncode, status, removed.stderr)

    def test_code_that_was_moved_away(self):
        """Its jumps go with it: what they lead to stays until the program has moved it back, and they are taken out."""
        plan = self.compile_text(metric("far_calls", ["t_movable"]))
        for killed in (False, True):
            program = self.start("guarded", "plain")
            session = self.inject(program.pid, plan).wait_inserted()
            program.ask("far 20")
            program.ask("away")
            if killed:
                self.kill_and_remove(session, program, status=5)
            else:
                session.process.send_signal(signal.SIGINT)
                self.assertEqual(session.wait(), 5, session.errors)
            program.ask("back")
            self.assertEqual(program.ask("far 10")["work"], 30)
            removed = run(MDL_INJECT, "--remove", program.pid)
            self.assertEqual(removed.returncode, 0, removed.stderr)
            self.assertNotIn("mdl-", pathlib.Path(f"/proc/{program.pid}/maps").read_text())
            self.assertEqual(program.ask("far 300")["work"], 330)
            self.assertEqual(program.end(), 0)

    def test_code_that_was_copied(self):
        """What is in a copy is taken out as well; and who copies first is refused, since what is there is not known."""
        self.plan = self.compile_text(metric("work_calls", ["t_work"]))
        for killed in (False, True):
            program = self.start("guarded", "plain")
            session = self.inject(program.pid, self.plan).wait_inserted()
            program.ask("work 20")
            program.ask("copy")
            program.ask("work 1")
            if killed:
                self.kill_and_remove(session, program, status=0)
            else:
                self.assert_stopped_well(session)
                self.assertEqual(session.final()["work_calls", ""]["value"], 21)
            self.assertNotIn("mdl-", pathlib.Path(f"/proc/{program.pid}/maps").read_text())
            self.assertEqual(program.ask("work 300")["work"], 321)
            refused = run(MDL_INJECT, program.pid, self.plan)
            self.assertEqual(refused.returncode, 1, refused.stderr)
            self.assertIn("huge pages", refused.stderr)
            program.ask("work 1")
            self.assertEqual(program.end(), 0)

    def test_code_that_is_read_from_its_file_again(self):
        """What was written to it is gone, and comes again: what was done in between is missing, and that is said."""
        program, before = self.begin("plain")
        session = self.inject(program.pid, self.plan).wait_inserted()
        program.ask("work 20")
        program.ask("discard")
        program.ask("work 1000")
        session.said("has put its own code back")
        session.said("inserted 1 points")
        program.ask("work 300")
        self.assert_stopped_well(session)
        final = session.final()["work_calls", ""]
        self.assertIs(final["complete"], False)
        self.assertIn(final["value"], range(320, 1321))
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def test_other_limits(self):
        """Files, address space, data, locked memory: refused, with the limit's name, and nothing is left mapped."""
        program, before = self.begin("locked")
        for limit, few in (("RLIMIT_NOFILE", 3), ("RLIMIT_AS", 4096), ("RLIMIT_DATA", 4096), ("RLIMIT_MEMLOCK", 4096)):
            with self.subTest(limit):
                number = getattr(resource, limit)
                whole = resource.prlimit(program.pid, number)
                resource.prlimit(program.pid, number, (few, whole[1]))
                done = run(MDL_INJECT, program.pid, self.plan, "-d", "0.1")
                resource.prlimit(program.pid, number, whole)
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                self.assertIn(limit, done.stderr)
                self.assert_untouched(program.pid, before)
        program.ask("work 5")
        self.assertEqual(program.end(), 0)

    def test_space_that_the_program_may_want(self):
        """Of the address space and data that a limit leaves, most stays the program's: what it allocates would fail."""
        program, before = self.begin("plain")
        for limit, row in (("RLIMIT_AS", "VmSize"), ("RLIMIT_DATA", "VmData")):
            number = getattr(resource, limit)
            whole = resource.prlimit(program.pid, number)
            for room, status in ((256 << 10, 1), (64 << 20, 0)):
                with self.subTest(limit, room=room):
                    now = int(re.search(rf"^{row}:\s+(\d+) kB", pathlib.Path(f"/proc/{program.pid}/status").read_text(), re.M)[1])
                    resource.prlimit(program.pid, number, ((now << 10) + room, whole[1]))
                    done = run(MDL_INJECT, program.pid, self.plan, "-d", "0.1")
                    resource.prlimit(program.pid, number, whole)
                    self.assertEqual(done.returncode, status, done.stderr)
                    self.assertEqual(limit in done.stderr, status == 1, done.stderr)
                    self.assert_untouched(program.pid, before)
        program.ask("work 5")
        self.assertEqual(program.end(), 0)

    def test_room_for_fewer_threads(self):
        """Where a limit leaves little, room is made for fewer threads that may come: dovecot has 256 MiB of addresses."""
        program, before = self.begin("plain")
        query = "latency malloc"
        whole = resource.prlimit(program.pid, resource.RLIMIT_AS)
        now = int(re.search(r"^VmSize:\s+(\d+) kB", pathlib.Path(f"/proc/{program.pid}/status").read_text(), re.M)[1])
        for room, status in ((32 << 20, 1), (256 << 20, 0)):
            with self.subTest(room=room):
                resource.prlimit(program.pid, resource.RLIMIT_AS, ((now << 10) + room, whole[1]))
                done = run(MDL_INJECT, program.pid, query, "-d", "0.1")
                resource.prlimit(program.pid, resource.RLIMIT_AS, whole)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assert_untouched(program.pid, before)
        program.ask("work 5")
        self.assertEqual(program.end(), 0)

    def test_limit_that_children_set_themselves(self):
        """A session of vsftpd has 200 MB of addresses, of which its listener's are a part: queries by key leave them."""
        program = self.start("sessions")
        before = self.remember(program.pid)
        size = lambda: int(re.search(r"^VmSize:\s+(\d+) kB",
                                     pathlib.Path(f"/proc/{program.pid}/status").read_text(), re.M)[1])
        for query in ("count t_serve by caller", "count t_serve by $arg[0]", "hist $arg[0] at t_serve by function",
                      "count open by str($arg[0])"):
            with self.subTest(query):
                untouched = size()
                session = self.inject(program.pid, query)
                session.said("inserted")
                taken = size() - untouched
                self.assertEqual(program.ask("session 40", "session"), {"event": "session", "served": 1})
                self.assert_stopped_well(session)
                self.assert_untouched(program.pid, before)
                self.assertLess(taken, 112 << 10)
        self.assertEqual(program.end(), 0)

    def test_more_keys_than_usual(self):
        """Keys for which there is no room share a line, which is said; as many as are asked for have one of their own."""
        for options, lines, others in (((), 70000, 0), (("--max-keys", "65536"), 65537, 70000 - 65536)):
            with self.subTest(options):
                program = self.start("sessions")
                session = self.inject(program.pid, "count t_serve by $arg[0]", *options)
                session.said("inserted")
                program.ask("allocate 70000")
                self.assert_stopped_well(session)
                values = session.by_key("count t_serve by $arg[0]", program.pid)
                self.assertEqual((len(values), sum(values.values()), values.get("?", 0)), (lines, 70000, others))
                self.assertEqual("--max-keys" in session.errors, others != 0, session.errors)
                self.assertEqual(program.end(), 0)

    def test_mappings_that_the_program_may_want(self):
        """The same of the number of its mappings."""
        limit = int(pathlib.Path("/proc/sys/vm/max_map_count").read_text())
        own = pathlib.Path(f"/proc/{self.start('obstinate').pid}/maps").read_text().count("\n")
        program = self.start("obstinate", f"maps={limit - own - 20}")
        before = self.remember(program.pid)
        plan = self.compile_text(metric("turns", ["turn"]))
        done = run(MDL_INJECT, program.pid, plan, "-d", "0.1")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("vm.max_map_count", done.stderr)
        self.assert_untouched(program.pid, before)
        program.kill()

    def test_thread_without_a_pointer(self):
        self.refused_when_stopped("pointerless", "has no thread pointer")

    def test_threads_with_one_pointer(self):
        """They would count in one block, and lose counts."""
        self.refused_when_stopped("borrowed", "have the same thread pointer")

    def test_a_thread_that_comes_with_the_pointer_of_another(self):
        """From then on counts may be lost: the last good sample is the last."""
        program, before = self.begin("plain")
        session = self.inject(program.pid, self.plan).wait_inserted()
        program.ask("borrow 5")
        self.assertEqual(session.wait(), 1, session.errors)
        self.assertIn("has the thread pointer of another", session.errors)
        self.assertEqual({line["complete"] for line in session.final().values()}, {False})
        self.assert_untouched(program.pid, before)
        program.ask("work 5")
        self.assertEqual(program.end(), 0)

    def test_system_calls_that_come_back_as_signals(self):
        """Ours would, too: here they would end the process, in Wine they would be taken for those of Windows."""
        self.refused_when_stopped("dispatched", "PR_SET_SYSCALL_USER_DISPATCH")
        self.refused_when_stopped("dispatched-beside", "PR_SET_SYSCALL_USER_DISPATCH")

    def test_a_thread_in_32_bit_code(self):
        """It stays there, with other registers and another stack than we know."""
        self.refused_when_stopped("narrow", "32-bit code")

    def refused_when_stopped(self, mode, why):
        """Found when all threads are stopped: what was staged by then is taken back."""
        program, before = self.begin(mode)
        session = self.inject(program.pid, self.plan)
        self.assertEqual(session.wait(), 1)
        self.assertIn(why, session.errors)
        self.assert_untouched(program.pid, before)
        program.ask("work 5")
        self.assertEqual(program.end(), 0)

    def test_memory_deny_write_execute(self):
        """Our code is never writable: nothing is denied, and the numbers are exact."""
        self.measure("nogain")

    def test_system_call_filter(self):
        """Refused, with the reason; and the process, which a forbidden call would kill, lives on (sandbox_test)."""
        program, before = self.begin("filtered")
        done = run(MDL_INJECT, program.pid, self.plan)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("seccomp filter kills the process at", done.stderr)
        self.assertEqual(program.ask("work 3")["work"], 3)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def test_vfork_parent(self):
        """Half a second in a sleep that nothing interrupts: the attach waits or rolls back, and both live."""
        program, before = self.begin("plain")
        program.send("vfork 5")
        soon(lambda: state(program.pid) == "D", "the parent to sleep")
        session = self.inject(program.pid, self.plan, "-d", "0.2")
        self.assertIn(session.wait(), (0, 1), session.errors)
        self.assertEqual(program.answer("done")["work"], 5)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def test_removal_waits_for_a_vfork_parent(self):
        """Ctrl-C while the process sleeps like that, longer than one stop is waited for: it is tried again."""
        program, before = self.begin("plain")
        session = self.inject(program.pid, self.plan).wait_inserted()
        program.send("longvfork 7")
        soon(lambda: state(program.pid) == "D", "the parent to sleep")
        self.assert_stopped_well(session)
        self.assertEqual(session.final()["work_calls", ""]["value"], 7)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.answer("done")["work"], 7)
        self.assertEqual(program.end(), 0)

    def freezer(self):
        """A control group that can be frozen, in a mount of its own; what is in it runs on when the test ends."""
        mount = mount_groups()
        self.addCleanup(unmount, mount)
        group = mount / f"mdl-test-{os.getpid()}"
        group.mkdir()
        self.addCleanup(lambda: soon(lambda: not (group / "cgroup.procs").read_text() and not group.rmdir(), "its end"))
        return group

    def freeze(self, group, program, frozen):
        (group / "cgroup.procs").write_text(str(program.pid))
        (group / "cgroup.freeze").write_text(str(int(frozen)))
        soon(lambda: f"frozen {int(frozen)}" in (group / "cgroup.events").read_text(), "the process to freeze or thaw")

    def test_frozen_process(self):
        """It can be stopped and written to, but makes no call for us: refused, nothing is left behind; and a
        removal is tried for some seconds, and can be repeated."""
        group = self.freezer()
        program, before = self.begin("plain")
        self.freeze(group, program, True)
        done = run(MDL_INJECT, program.pid, self.plan)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("is frozen", done.stderr)
        self.freeze(group, program, False)
        program.ask("work 3")
        self.assert_untouched(program.pid, before)

        session = self.inject(program.pid, self.plan).wait_inserted()
        program.ask("work 7")
        self.freeze(group, program, True)
        self.assertEqual(session.stop(seconds=60), 5, session.errors)
        self.assertIn("--remove", session.errors)
        self.freeze(group, program, False)
        program.ask("work 8")
        self.assertEqual(run(MDL_INJECT, "--remove", program.pid).returncode, 0)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def test_control_group_without_memory(self):
        """The kernel would kill the process for what is put into it: refused before anything is mapped."""
        group, limit = memory_group()
        self.addCleanup(lambda: soon(lambda: not (group / "cgroup.procs").read_text() and not group.rmdir(), "its end"))
        program, before = self.begin("plain")
        (group / "cgroup.procs").write_text(str(program.pid))
        (group / limit).write_text(str(1 << 20))
        done = run(MDL_INJECT, program.pid, self.plan)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn(limit, done.stderr)
        self.assert_untouched(program.pid, before)
        (group / limit).write_text(str(64 << 20))
        session = self.inject(program.pid, self.plan).wait_inserted()
        program.ask("work 3")
        self.assert_stopped_well(session)
        self.assertEqual(session.final()["work_calls", ""]["value"], 3)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def test_priority_is_raised_for_pauses_only(self):
        program, before = self.begin("plain")
        session = self.inject(program.pid, self.plan).wait_inserted()
        for tid in os.listdir(f"/proc/{session.process.pid}/task"):
            self.assertEqual(os.getpriority(os.PRIO_PROCESS, int(tid)), os.getpriority(os.PRIO_PROCESS, 0))
        self.assert_stopped_well(session)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def test_stopped_process_stays_stopped(self):
        program, before = self.begin("plain")
        os.kill(program.pid, signal.SIGSTOP)
        soon(lambda: state(program.pid) == "T", "the process to stop")
        session = self.inject(program.pid, self.plan, "-d", "0.2")
        self.assertIn(session.wait(), (0, 1), session.errors)
        self.assertEqual(state(program.pid), "T")
        self.assert_untouched(program.pid, before)
        os.kill(program.pid, signal.SIGCONT)
        self.assertEqual(program.ask("work 2")["work"], 2)
        self.assertEqual(program.end(), 0)

    def test_traced_by_another(self):
        program, before = self.begin("plain")
        tracer = subprocess.Popen([sys.executable, "-c", TRACER, str(program.pid)], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)
        try:
            self.assertEqual(tracer.stdout.readline(), b"seized\n")
            done = run(MDL_INJECT, program.pid, self.plan)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertIn(str(tracer.pid), done.stderr)
        finally:
            tracer.stdin.close()
            tracer.stdout.close()
            tracer.wait(10)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.ask("work 2")["work"], 2)
        self.assertEqual(program.end(), 0)


def mount_groups():
    """The control groups of version 2, not in a test's folder, which is removed with all that is in it; or None."""
    mount = pathlib.Path(tempfile.mkdtemp(prefix="mdl-groups-"))
    if subprocess.run(["mount", "-t", "cgroup2", "none", mount], capture_output=True, check=False).returncode == 0:
        try:
            (mount / f"mdl-try-{os.getpid()}").mkdir()
            (mount / f"mdl-try-{os.getpid()}").rmdir()
            return mount
        except OSError:
            unmount(mount)
            return None
    mount.rmdir()
    return None


def memory_group():
    """A control group with a limit of its own, of whatever version is mounted, and the name of the limit; or None."""
    root = pathlib.Path("/sys/fs/cgroup")
    for parent, limit in ((root / "memory", "memory.limit_in_bytes"), (root, "memory.max")):
        group = parent / f"mdl-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / limit).exists():
            return group, limit
        group.rmdir()
    return None


def unmount(mount):
    subprocess.run(["umount", mount], check=False)
    mount.rmdir()


if __name__ == "__main__":
    groups = mount_groups()
    if groups:
        unmount(groups)
    else:  # where no control group can be made, nothing is frozen by one
        print("states_test: without test_frozen_process, because control groups cannot be mounted", flush=True)
        del States.test_frozen_process
    limited = memory_group()
    if limited:
        limited[0].rmdir()
    else:
        print("states_test: without test_control_group_without_memory, because none can be made", flush=True)
        del States.test_control_group_without_memory
    unittest.main(verbosity=2)
