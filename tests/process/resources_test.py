"""Resources that are known only while a program runs: locks by kind and name, found, listed, and chosen by a focus."""

import pathlib
import re
import threading
import time
import unittest

from harness import MDL_INJECT, LiveTest, run

TIMES = 200
LOCKS = "/SyncObject"
STANDARD = pathlib.Path(__file__).parents[2] / "stdlib-metrics"
SOURCES = [STANDARD / "code.mdl", STANDARD / "locks.mdl"]


class Resources(LiveTest):
    def setUp(self):
        super().setUp()
        self.program = self.start("locks")
        self.before = self.remember(self.program.pid)
        self.heap = f"{LOCKS}/Mutex/{self.program.ready['heap']:#x}"

    def counts(self, *words):
        """{focus: how often it was waited for}, of what was found while the program went."""
        session = self.inject(self.program.pid, *words, 'count main as all').wait_inserted()
        self.program.ask(f"go {TIMES}")
        self.assert_stopped_well(session)
        self.assertEqual({(line["refused"], line.get("anomalies", 0)) for line in session.lines}, {(0, 0)})
        self.assert_untouched(self.program.pid, self.before)
        return {line["focus"]: line.get("count", line["value"]) for line in session.final().values() if line["metric"] != "all"}

    def expected(self):
        return {f"{LOCKS}/Mutex/cache_lock": 3 * TIMES, f"{LOCKS}/Mutex/log_lock": 6 * TIMES, self.heap: 3 * TIMES,
                f"{LOCKS}/RwLock/table_lock": 3 * TIMES + 3, f"{LOCKS}/Barrier/meeting": 3 * TIMES,
                f"{LOCKS}/Semaphore/slots": 3 * TIMES}

    def test_each_lock_has_a_line(self):
        requests = [f"count {function} by {kind}($arg[0])" for function, kind in (
            ("pthread_mutex_lock", "mutex"), ("pthread_rwlock_rdlock, pthread_rwlock_wrlock", "rwlock"),
            ("pthread_barrier_wait", "barrier"), ("pthread_cond_wait", "condition"), ("sem_wait", "semaphore"))]
        found = self.counts(*requests)
        waits = found.pop(f"{LOCKS}/Condition/ready")
        self.assertGreaterEqual(waits, TIMES)  # some may wake up without a signal
        others = {lock for lock in found if "waiting" in lock or "_rtld_global" in lock}
        self.assertTrue(others, found)  # the condition's mutex, and that of the loader, which starting a thread takes
        self.assertEqual({lock: count for lock, count in found.items() if lock not in others}, self.expected())
        self.assertEqual(self.program.end(), 0)

    def test_a_focus_chooses(self):
        for focus, named in (("Mutex/cache_lock", ["cache_lock"]), ("Mutex/*_lock", ["cache_lock", "log_lock"]),
                             ("Mutex/0x*", [self.heap.rsplit("/", 1)[1]]), ("Mutex/absent", [])):
            with self.subTest(focus=focus):
                session = self.inject(self.program.pid, *SOURCES, "count main as all", "-m", f"mutex_latency@{LOCKS}/{focus}",
                                      "-m", f"barrier_latency@{LOCKS}/Barrier").wait_inserted()
                self.program.ask(f"go {TIMES}")
                self.assert_stopped_well(session)
                last = session.final().values()
                mutexes = {line["focus"]: line["count"] for line in last if line["metric"] == "mutex_latency"}
                self.assertEqual(mutexes, {lock: count for lock, count in self.expected().items() if lock in
                                           [f"{LOCKS}/Mutex/{name}" for name in named]})
                self.assertEqual([line["count"] for line in last if line["metric"] == "barrier_latency"], [3 * TIMES])
        self.assert_untouched(self.program.pid, self.before)

    def test_a_thread_and_a_lock(self):
        found = self.counts("count pthread_mutex_lock by mutex($arg[0]), thread")
        threads = {focus for focus in found if focus.startswith(f"{LOCKS}/Mutex/log_lock,/Thread/")}
        self.assertEqual([found[one] for one in threads], [2 * TIMES] * 3)

    def test_while_a_function_runs(self):
        """The condition's mutex is taken elsewhere."""
        found = self.counts(*SOURCES, "-m", "mutex_latency@/Code/locks/t_take")
        self.assertEqual(found, {f"{lock},/Code/locks/t_take": count for lock, count in self.expected().items() if "/Mutex/" in lock})

    def test_variables_are_listed(self):
        done = run(MDL_INJECT, "--list", self.program.pid, "/Memory/*_lock")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(["40", "bytes", "/Memory/cache_lock", "locks"], [line.split() for line in done.stdout.splitlines()])
        named, writable = (int(number.replace(",", "")) for number in re.match(r"([\d,]+) of the ([\d,]+) bytes", done.stderr).groups())
        self.assertTrue(40 < named < writable, done.stderr)
        sizes = [int(line.split()[0].replace(",", "")) for line in run(MDL_INJECT, "--list", self.program.pid, "/Memory").stdout.splitlines()]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        # The names are those of lines, which a focus chooses.
        self.assertEqual(self.counts("count pthread_mutex_lock by memory($arg[0])")["/Memory/cache_lock"], 3 * TIMES)
        self.assertIn("no variable of process", run(MDL_INJECT, "--list", self.program.pid, "/Memory/absent").stderr)
        self.assertIn("there is no /Foo that can be listed", run(MDL_INJECT, "--list", self.program.pid, "/Foo/*").stderr)
        self.assert_untouched(self.program.pid, self.before)

    def test_another_kind_is_an_error(self):
        done = run(MDL_INJECT, self.program.pid, self.compile("code.mdl", "locks.mdl"), "-m", f"mutex_latency@{LOCKS}/RwLock/table_lock", "-d", "0")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"cannot be restricted to {LOCKS}/RwLock/table_lock", done.stderr)

    def listed(self, glob, *more):
        """What --list prints while the program goes, as [path, waits]."""
        ending = threading.Event()

        def go():
            while not ending.is_set():
                self.program.ask("go 20")
                time.sleep(0.01)

        going = threading.Thread(target=go)
        going.start()
        try:
            done = run(MDL_INJECT, "--list", self.program.pid, glob, *more)
        finally:
            ending.set()
            going.join()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_untouched(self.program.pid, self.before)
        return [re.match(r"(/.+?)  +([\d,]+) waits?  +\S+ (?:ns|us|ms|s)$", line).groups() for line in done.stdout.splitlines()]

    def test_they_are_listed(self):
        every = dict(self.listed(LOCKS))
        self.assertLessEqual({*self.expected(), f"{LOCKS}/Condition/ready"}, {*every})
        self.assertEqual({path for path, _ in self.listed(f"{LOCKS}/Mutex/*_lock", "-d", "0.3")},
                         {f"{LOCKS}/Mutex/cache_lock", f"{LOCKS}/Mutex/log_lock"})
        self.assertEqual([path for path, _ in self.listed(f"{LOCKS}/Barrier", "-d", "300ms")], [f"{LOCKS}/Barrier/meeting"])
        wrong = run(MDL_INJECT, "--list", self.program.pid, f"{LOCKS}/Lock")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("/SyncObject/{Mutex,RwLock,Condition,Semaphore,Barrier}", wrong.stderr)

    def test_threads_are_listed(self):
        for glob in ("/Thread", "/Thread/*", f"/Thread/{self.program.pid}", "/Thread/locks"):
            done = run(MDL_INJECT, "--list", self.program.pid, glob)
            self.assertEqual((done.returncode, done.stdout), (0, f"/Thread/{self.program.pid}  locks\n"), done.stderr)
        done = run(MDL_INJECT, "--list", self.program.pid, "/Thread/other")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no thread of process", done.stderr)


if __name__ == "__main__":
    unittest.main()
