"""Programs under seccomp. Filters are asked before anything is touched: a program that may not make the calls of
an insertion runs on as it was, and a metric whose code would make a denied call is refused by name. The
programs are started under real filters by tests/programs/sandboxed.cpp.
"""

import os
import unittest

from harness import MDL_INJECT, PROGRAMS, LiveTest, Program, RedisServer, metric, run

FAILED = 1

# What a system call at each hit is needed for.
TIMER = """
resourceList work_list is procedure { items { "t_work" }; flavor { unix }; }
metric cpu_time { name "cpu_time"; units Seconds; unitsType normalized; aggregateOperator sum; style EventCounter;
  flavor { unix }; base is processTimer { foreach func in work_list {
    append preInsn func.entry (* startProcessTimer(cpu_time); *)
    prepend preInsn func.return (* stopProcessTimer(cpu_time); *) } } }
"""
ADDRESS = """
resourceList work_list is procedure { items { "t_work" }; flavor { unix }; }
metric words { name "words"; units Words; unitsType unnormalized; aggregateOperator sum; style EventCounter;
  flavor { unix }; base is counter { foreach func in work_list {
    append preInsn func.entry (* words += readAddress($arg[0]); *) } } }
"""


class Sandboxed(Program):
    """A program of tests/programs under a filter: `how` is what sandboxed is told before its command."""

    def __init__(self, *how, command="children"):
        super().__init__("sandboxed", *how, str(PROGRAMS / command), "120", alone=True)


class Sandboxes(LiveTest):
    def sandboxed(self, *how):
        program = Sandboxed(*how)
        self.addCleanup(program.kill)
        return program

    def alone(self, *how):
        """sandboxed itself, which answers `work`."""
        return self.start("sandboxed", *how, alone=True)

    def counted(self, program, plan, value=7):
        """An insertion that works, with exact numbers, and leaves nothing."""
        before = self.remember(program.pid)
        session = self.inject(program.pid, plan)
        session.said("inserted")
        program.ask(f"work {value}")
        self.assert_stopped_well(session)
        self.assertEqual({line["value"] for line in session.lines if line["final"]}, {value})
        self.assert_untouched(program.pid, before)
        return session

    def refused(self, program, plan, *words):
        before = self.remember(program.pid)
        done = run(MDL_INJECT, program.pid, plan, "-d", "0.1", "--allow-reads")
        self.assertEqual((done.returncode, done.stdout), (FAILED, ""), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assert_untouched(program.pid, before)
        self.assertEqual(run(MDL_INJECT, "--status", program.pid).stdout,
                         f"process {program.pid} is not instrumented\n")
        return done

    def test_denied_calls_of_an_insertion(self):
        """Each call in turn, killed or answered: named, with what happens, and the program lives."""
        plan = self.compile_text(metric("calls", ["t_work"]))
        for call in ("memfd_create", "ftruncate", "mmap", "munmap", "getpid", "rt_sigprocmask"):
            with self.subTest(how="killed", call=call):
                program = self.alone("self", call)
                self.refused(program, plan, f"kills the process at {call}", "nothing was changed")
                self.assertEqual(program.ask("work 3")["work"], 3)
        for call in ("memfd_create", "ftruncate", "munmap", "getpid"):
            with self.subTest(how="answered", call=call):
                program = self.sandboxed("fail", call)
                self.refused(program, plan, f"answers with EPERM at {call}", "nothing was changed")
                self.assertEqual(program.ask("work 3")["work"], 3)
                self.assertEqual(program.end(), 0)

    def test_a_filter_that_looks_at_addresses(self):
        plan = self.compile_text(metric("calls", ["t_work"]))
        program = self.sandboxed("address", "munmap")
        self.refused(program, plan, "munmap", "not known before")
        self.assertEqual(program.ask("work 3")["work"], 3)

    def test_strict_mode(self):
        plan = self.compile_text(metric("calls", ["t_work"]))
        program = self.alone("strict")
        self.assertEqual(program.ask("work 3")["work"], 3)
        self.refused(program, plan, "strict mode")
        self.assertEqual(program.ask("work 4")["work"], 7)

    def test_a_thread_that_may(self):
        """The first thread dies at memfd_create; the other maps the memory, and unmaps it."""
        plan = self.compile_text(metric("calls", ["t_work"]))
        program = self.alone("half", "memfd_create")
        self.counted(program, plan)
        self.counted(program, plan)

    def test_a_thread_id_is_not_asked_for_where_that_is_denied(self):
        plan = self.compile_text(metric("calls", ["t_work"]))
        program = self.sandboxed("deny", "gettid")
        self.counted(program, plan)

    def test_whether_the_counter_may_be_read_is_not_asked_where_that_is_denied(self):
        for how in ("deny", "fail"):
            program = self.sandboxed(how, "prctl")
            before = self.remember(program.pid)
            session = self.inject(program.pid, "time t_work").wait_inserted()
            program.ask("work 7")
            self.assert_stopped_well(session)
            self.assertGreater(session.final()["time t_work", ""]["value"], 0)
            self.assert_untouched(program.pid, before)

    def test_code_that_makes_denied_calls(self):
        """Refused by name where it was asked for, left out where it was not; the others are counted."""
        timer, both = self.compile_text(TIMER, "timer"), self.compile_text(TIMER + metric("calls", ["t_work"]))
        address = self.compile_text(ADDRESS, "address")
        program = self.sandboxed("deny", "clock_gettime,process_vm_readv")
        self.refused(program, timer, "cpu_time", "kills the process at clock_gettime")
        self.refused(program, address, "words", "kills the process at process_vm_readv", "readAddress")
        self.refused(program, "count t_work by str($arg[0])", "kills the process at process_vm_readv", "str")
        session = self.counted(program, both)
        self.assertEqual(set(session.final()), {("calls", "")})
        self.counted(program, "count t_work by site($arg[0])")  # posix_memalign's blocks have to be read
        allowed = self.start("children")
        session = self.inject(allowed.pid, both).wait_inserted()
        allowed.ask("work 5")
        self.assert_stopped_well(session)
        self.assertEqual({name for name, _ in session.final()}, {"calls", "cpu_time"})

    def test_a_filter_that_comes_later(self):
        """No call is made there any more that it might not allow: the measurement ends, not the process."""
        queries = ("count t_work", "cpu t_work", "hist $now at t_work", "count t_work by str($arg[0])")
        cases = [(query, how) for query in queries for how in ("late", "dispatched")] + [("count t_work", "raw")]
        for query, how in cases:
            with self.subTest(query=query, how=how):
                program = self.alone(how, "gettid,getpid,clock_gettime,process_vm_readv")
                before = self.remember(program.pid)
                session = self.inject(program.pid, query)
                session.said("inserted")
                program.ask("confine")
                self.assertEqual(program.ask("work 3")["work"], 3)
                self.assertEqual(session.wait(), FAILED, session.errors)
                self.assertIn("has put itself under a seccomp filter", session.errors)
                self.assertTrue(all(line["value"] == 0 and line["complete"] is False for line in session.final().values()))
                self.assert_untouched(program.pid, before)
                self.assertEqual(program.ask("work 4")["work"], 7)
                self.assertEqual(program.end(), 0)

    def test_a_filter_that_comes_later_and_denies_nothing_that_is_needed(self):
        """A thread that has counted before makes no calls: it is counted on, exactly."""
        program = self.alone("late", "gettid,getpid,clock_gettime,process_vm_readv")
        before = self.remember(program.pid)
        session = self.inject(program.pid, "count t_work").wait_inserted()
        program.ask("work 3")
        program.ask("confine")
        self.assertEqual(program.ask("work 4")["work"], 7)
        self.assert_stopped_well(session)
        self.assertEqual([line["value"] for line in session.final().values()], [7])
        self.assert_untouched(program.pid, before)

    def test_a_filter_that_cannot_be_read(self):
        """Without CAP_SYS_ADMIN: refused, with the capability that is missing."""
        plan = self.compile_text(metric("calls", ["t_work"]))
        program = self.sandboxed("deny", "acct")
        before = self.remember(program.pid)
        done = run("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", MDL_INJECT, program.pid, plan)
        self.assertEqual((done.returncode, done.stdout), (FAILED, ""), done.stderr)
        self.assertIn("CAP_SYS_ADMIN", done.stderr)
        self.assert_untouched(program.pid, before)
        self.counted(program, plan)


class DebiansRedis(LiveTest):
    """redis-server under what Debian's redis-server.service sets: instrumented, not refused."""

    def setUp(self):
        super().setUp()
        launcher = self.folder / "redis-server"
        server = os.environ.get("MDL_REDIS") or "redis-server"
        launcher.write_text(f'#!/bin/sh\nexec {PROGRAMS / "sandboxed"} redis-unit {server} "$@"\n')
        launcher.chmod(0o755)
        before = os.environ.get("MDL_REDIS")
        os.environ["MDL_REDIS"] = str(launcher)
        try:
            self.server = RedisServer(self.folder)
        finally:
            os.environ["MDL_REDIS"] = before or ""
        self.addCleanup(self.server.kill)
        self.plan = self.stdlib()

    def test_it_is_confined(self):
        """The launcher does what it says: or the tests here would show nothing."""
        with open(f"/proc/{self.server.pid}/status", encoding="ascii") as file:
            status = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
        self.assertEqual((status["Seccomp"], status["NoNewPrivs"]), ("2", "1"))
        self.assertGreaterEqual(int(status["Seccomp_filters"]), 8)
        self.assertTrue(os.readlink(f"/proc/{self.server.pid}/exe").endswith("redis-check-rdb")
                        or "redis" in os.readlink(f"/proc/{self.server.pid}/exe"))

    def test_commands_are_counted_exactly(self):
        before = self.remember(self.server.pid)
        with self.server.connect() as client:
            for _ in range(3):
                session = self.inject(self.server.pid, self.plan, "-m", "redis_commands", "-m",
                                      "redis_key_lookups").wait_inserted()
                for i in range(500):
                    client.command("SET", f"key:{i}", "value")
                    self.assertEqual(client.command("GET", f"key:{i}"), "value")
                self.assert_stopped_well(session)
                final = session.final()
                self.assertEqual(final["redis_commands", ""]["value"], 1000)
                self.assertEqual(final["redis_key_lookups", ""]["value"], 1000)
                self.assert_untouched(self.server.pid, before)

    def test_code_with_system_calls(self):
        """readAddress and processTimer at each command: the unit allows process_vm_readv and clock_gettime."""
        text = TIMER + ADDRESS.split("}\n", 1)[1]  # one list for both
        plan = self.compile_text(text.replace('"t_work"', '"call"'))
        before = self.remember(self.server.pid)
        session = self.inject(self.server.pid, plan, "--allow-reads").wait_inserted()
        with self.server.connect() as client:
            for _ in range(100):
                self.assertEqual(client.command("PING"), "PONG")
            self.assert_stopped_well(session)
            self.assertEqual(client.command("PING"), "PONG")
        final = session.final()
        self.assertGreater(final["cpu_time", ""]["value"], 0)
        self.assertNotEqual(final["words", ""]["value"], 0)
        self.assert_untouched(self.server.pid, before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
