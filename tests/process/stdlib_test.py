"""The standard metrics against what programs know of themselves: tests/programs/standard.cpp for
what any program does, and servers and libraries from Debian's packages for their own.
"""

import http.client
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import time
import unittest

from harness import PROGRAMS, LiveTest, Lines, free_port, run, soon

MS = 1_000_000  # ns


class Standard(LiveTest):
    """One process for each test; every metric is asked for at the function that does the work."""

    def measure(self, files, command, metrics, *options, function=None, suffix=""):
        program = self.start("standard")
        plan = self.compile("code.mdl", *files)
        before = self.remember(program.pid)
        focus = f"/Code/standard/{function or 'do_' + command.split()[0]}{suffix}"
        requests = [word for metric in metrics for word in ("-m", f"{metric}@{focus}")]
        session = self.inject(program.pid, plan, *requests, *options).wait_inserted()
        done = program.ask(command)
        self.assert_stopped_well(session)
        final = {line["metric"]: line for line in session.final().values()}
        self.assertEqual({metric: line["refused"] for metric, line in final.items()}, dict.fromkeys(metrics, 0))
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)
        return {metric: line["value"] for metric, line in final.items()}, done

    def assert_between(self, inside, value, outside):
        """A time that was measured inside of what is timed, and around it; the clocks run apart by 1 in 1000 at most."""
        self.assertGreater(value, inside - inside // 1000)
        self.assertLess(value, outside + outside // 1000)

    def test_io(self):
        values, done = self.measure(["io.mdl"], "io 100", [
            "io_operations", "io_bytes_read", "io_bytes_written", "io_wait", "io_ready_wait", "io_syncs"])
        self.assertEqual(values["io_operations"], done["operations"])
        self.assertEqual(values["io_bytes_read"], done["read"])
        self.assertEqual(values["io_bytes_written"], done["written"])
        self.assertEqual(values["io_syncs"], 0)
        self.assertGreater(values["io_wait"], 0)
        self.assert_between(done["poll_ms"] * MS, values["io_ready_wait"], done["elapsed"])

    def test_locks(self):
        values, done = self.measure(["sync.mdl"], "locks 200", ["lock_acquisitions", "lock_failures", "lock_wait"])
        # The C library takes a lock of its own for each thread that it starts.
        self.assertIn(values["lock_acquisitions"] - done["acquired"], (0, done["threads"]))
        self.assertEqual(values["lock_failures"], done["failed"])
        self.assertGreater(values["lock_wait"], done["waited_ms"] * MS)

    def test_waits(self):
        metrics = ["condition_waits", "condition_wait", "barrier_waits", "barrier_wait"]
        values, done = self.measure(["sync.mdl"], "waits 20", metrics)
        for kind in ("condition", "barrier"):
            self.assertEqual(values[f"{kind}_waits"], done["waits"], kind)
            self.assertGreater(values[f"{kind}_wait"], done["waits"] * MS, kind)

    def test_semaphores(self):
        """By a list of the test's own: sem_wait may have no room for a jump, and is refused then."""
        (self.folder / "semaphores.mdl").write_text("""
resourceList timed is procedure { items { "sem_timedwait" }; library true; }
metric waits {
  name "waits"; units Waits; aggregateOperator sum; style EventCounter; flavor { unix }; constraint procedure;
  base is counter { foreach func in timed { append preInsn func.entry constrained (* waits++; *) } }
}
""")
        values, done = self.measure([self.folder / "semaphores.mdl"], "waits 5", ["waits"])
        self.assertEqual(values["waits"], done["waits"])

    def test_heap(self):
        values, done = self.measure(["memory.mdl"], "heap 1000", ["malloc_calls", "malloc_bytes", "free_calls"])
        self.assertEqual(values, {"malloc_calls": done["calls"], "malloc_bytes": done["bytes"],
                                  "free_calls": done["frees"]})

    def measure_keys(self, file, command, metrics):
        """{metric: {key: value}}, where a metric by key has no line before its first key."""
        program = self.start("standard")
        focus = f"/Code/standard/do_{command.split()[0]}"
        requests = [word for metric in (*metrics, "calls", "latency") for word in ("-m", f"{metric}@{focus}")]
        session = self.inject(program.pid, self.compile("code.mdl", "functions.mdl", file), *requests).wait_inserted()
        done = program.ask(command)
        self.assert_stopped_well(session)
        self.assertEqual(program.end(), 0)
        last = session.final().values()
        self.assertEqual({line["metric"]: line.get("count", line["value"]) for line in last if line["metric"] in ("calls", "latency")},
                         {"calls": 1, "latency": 1})
        return {metric: session.by_key(metric, program.pid) for metric in metrics}, done

    def test_files(self):
        values, done = self.measure_keys("files.mdl", "io 100", ["file_bytes_read", "file_bytes_written", "io_errors"])
        for metric, truth in (("file_bytes_read", "read"), ("file_bytes_written", "written")):
            self.assertEqual(list(values[metric].values()), [done[truth]])
            self.assertRegex(next(iter(values[metric])), r"^\d+ pipe:\[\d+\]$")
        self.assertEqual(values["io_errors"], {"9 EBADF": 100})

    def test_allocations(self):
        values, done = self.measure_keys("allocations.mdl", "heap 1000", ["malloc_calls_by_size", "malloc_calls_by_caller", "malloc_bytes_by_caller"])
        self.assertEqual(values["malloc_calls_by_size"], {"100": 1000})
        for metric, truth in (("malloc_calls_by_caller", "calls"), ("malloc_bytes_by_caller", "bytes")):
            self.assertEqual(sum(values[metric].values()), done[truth])
            self.assertEqual({caller.split("+")[0] for caller in values[metric]}, {"do_heap"})

    def test_live_bytes(self):
        program = self.start("standard")
        plan = self.compile("memory_live.mdl")
        session = self.inject(program.pid, plan, "-m", "malloc_live_bytes", "--allow-calls").wait_inserted()
        done = program.ask("leak 1000")
        self.assert_stopped_well(session)
        value = session.final()[("malloc_live_bytes", "")]["value"]
        self.assertGreaterEqual(value, done["least"])
        self.assertLessEqual(value, done["most"] + 8192)  # and what the talk of protocol.h keeps
        self.assertEqual(program.end(), 0)

    def test_live_bytes_need_leave(self):
        program = self.start("standard")
        done = self.inject(program.pid, self.compile("memory_live.mdl"), "-m", "malloc_live_bytes")
        self.assertEqual(done.wait(), 1)
        self.assertIn("--allow-calls", done.errors)
        self.assertEqual(program.end(), 0)

    def test_time(self):
        values, done = self.measure(["time.mdl"], "sleep 60", [
            "wall_time", "wall_time_exclusive", "cpu_time", "cpu_time_exclusive"],
            "--raw-times")  # as the program's own clock, which runs on while a hit runs
        self.assert_between(done["wall"], values["wall_time"], done["elapsed"])
        self.assert_between(done["cpu"], values["cpu_time"], done["elapsed"])
        # Inside do_sleep itself: all but its callees asleep() and clock_gettime(), whose share is the machine's.
        self.assertLess(values["wall_time_exclusive"], done["wall"] - done["asleep"])
        self.assertGreater(values["wall_time_exclusive"], done["cpu"] // 10)  # not of wall time: a callee may wait for a processor
        self.assertLess(values["cpu_time_exclusive"], done["cpu"])
        self.assertGreater(values["cpu_time_exclusive"], done["cpu"] // 10)

    def test_time_of_a_callee(self):
        values, done = self.measure(["time.mdl"], "sleep 60", ["wall_time", "cpu_time"], function="asleep")
        self.assertLess(values["wall_time"], done["asleep"])
        self.assertGreater(values["wall_time"], 60 * MS)
        self.assertLess(values["cpu_time"], 5 * MS)

    def test_time_of_the_program(self):
        """Without a focus: main is on the stack at the insertion, and counts as entered then."""
        program = self.start("standard")
        plan = self.compile("code.mdl", "time.mdl")
        begun = time.monotonic_ns()
        session = self.inject(program.pid, plan, "-m", "wall_time", "-m", "cpu_time").wait_inserted()
        done = program.ask("sleep 100")
        self.assert_stopped_well(session)
        total = time.monotonic_ns() - begun
        final = session.final()
        self.assert_between(done["wall"], final[("wall_time", "")]["value"], total)
        self.assert_between(done["cpu"], final[("cpu_time", "")]["value"], total)
        self.assertEqual(program.end(), 0)

    def test_faults(self):
        values, done = self.measure(["faults.mdl"], "faults 1000", [
            "page_faults", "major_page_faults", "voluntary_switches", "involuntary_switches"])
        self.assertGreaterEqual(values["page_faults"], done["pages"])
        self.assertLess(values["page_faults"], done["pages"] + 100)
        self.assertGreaterEqual(values["voluntary_switches"], done["sleeps"])
        self.assertLess(values["voluntary_switches"], done["sleeps"] + 50)

    def test_messages(self):
        metrics = ["mpi_messages", "mpi_bytes", "mpi_message_wait"]
        values, done = self.measure(["mpi.mdl"], "messages 100", metrics, "--flavor", "mpi", "--allow-calls")
        self.assertEqual(values["mpi_messages"], done["messages"])
        self.assertEqual(values["mpi_bytes"], done["bytes"])
        self.assertGreater(values["mpi_message_wait"], 0.95 * done["wait"])

    def test_messages_of_a_tag(self):
        program = self.start("standard")
        plan = self.compile("code.mdl", "mpi.mdl")
        foci = ["", "/SyncObject/Message/7", "/Message/9", "/Message/8"]
        requests = [w for f in foci for w in ("-m", f"mpi_messages@{f}" if f else "mpi_messages")]
        session = self.inject(program.pid, plan, *requests, "--flavor", "mpi").wait_inserted()
        done = program.ask("messages 50")
        self.assert_stopped_well(session)
        values = {line["focus"]: line["value"] for line in session.final().values()}
        self.assertEqual(values, {"": done["messages"], "/SyncObject/Message/7": done["tag7"],
                                  "/SyncObject/Message/9": done["tag9"], "/SyncObject/Message/8": 0})
        self.assertEqual(program.end(), 0)


class Layers(LiveTest):
    """A tool is preloaded that wraps the functions under their own names: each call counts once."""

    def measure(self, files, command, requests, *options):
        program = self.start("layered", command=["env", f"LD_PRELOAD={PROGRAMS / 'liblayered_tool.so'}",
                                                 str(PROGRAMS / "layered"), "120"])
        plan = self.compile("code.mdl", *files)
        before = self.remember(program.pid)
        session = self.inject(program.pid, plan, *(word for request in requests for word in ("-m", request)),
                              *options).wait_inserted()
        done = program.ask(command)
        self.assert_stopped_well(session)
        final = session.final().values()
        self.assertEqual([line for line in final if line["refused"]], [])
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)
        return {line["metric"] + line["focus"]: line["value"] for line in final}, done

    def test_messages(self):
        tags = [f"mpi_messages@/SyncObject/Message/{tag}" for tag in (7, 9, 11, 12, -1)]
        values, done = self.measure(["mpi.mdl"], "messages 100", [
            "mpi_messages", "mpi_bytes", "mpi_collectives", *tags], "--flavor", "mpi", "--allow-calls")
        of_tags = {f"mpi_messages/SyncObject/Message/{tag}": done[name] for tag, name in (
            (7, "tag7"), (9, "tag9"), (11, "tag11"), (-1, "any_tag"))}
        self.assertEqual(values, {"mpi_messages": done["messages"], "mpi_bytes": done["bytes"],
                                  "mpi_collectives": done["collectives"], **of_tags,
                                  "mpi_messages/SyncObject/Message/12": 0})

    def test_every_tag(self):
        values, done = self.measure(["mpi.mdl"], "messages 100", ["mpi_messages", "mpi_messages@/Message/*"],
                                    "--flavor", "mpi")
        tags = {"7": done["tag7"], "9": done["tag9"], "11": done["tag11"], "-1": done["any_tag"]}
        self.assertEqual({key: value for key, value in values.items() if value}, {
            "mpi_messages": done["messages"],
            **{f"mpi_messages/SyncObject/Message/{tag}": count for tag, count in tags.items()}})

    def test_heap(self):
        focus = "/Code/layered/do_heap"
        values, done = self.measure(["memory.mdl"], "heap 1000", [
            f"{metric}@{focus}" for metric in ("malloc_calls", "malloc_bytes", "free_calls")])
        self.assertEqual(values, {f"malloc_calls{focus}": done["calls"], f"malloc_bytes{focus}": done["bytes"],
                                  f"free_calls{focus}": done["frees"]})

    def test_io(self):
        focus = "/Code/layered/do_io"
        values, done = self.measure(["io.mdl"], "io 1000", [
            f"{metric}@{focus}" for metric in ("io_operations", "io_bytes_read", "io_bytes_written")])
        self.assertEqual(values, {f"io_operations{focus}": done["operations"], f"io_bytes_read{focus}": done["read"],
                                  f"io_bytes_written{focus}": done["written"]})


class Servers(LiveTest):
    def serve(self, *command, **options):
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)

        def end():
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

        self.addCleanup(end)
        return process

    def connected(self, port):
        def try_it():
            try:
                return socket.create_connection(("127.0.0.1", port), 5)
            except OSError:
                return None
        return soon(try_it, f"a server on port {port}")

    def values(self, session):
        return {line["metric"]: line["value"] for line in session.final().values()}

    def test_redis(self):
        server = self.start_redis()
        plan = self.compile("code.mdl", "redis.mdl")
        with server.connect() as client:
            def spent():
                # Not of INFO, which we ask before the attach as well.
                row = client.info("commandstats").get("cmdstat_eval", "")
                return sum(int(word[5:]) for word in row.split(",") if word.startswith("usec="))
            first = spent()
            session = self.inject(server.pid, plan, "-m", "redis_command_time", "-m", "redis_commands").wait_inserted()
            for _ in range(3000):
                client.command("EVAL", "local s = 0 for i = 1, 300 do s = s + i end return s", "0")
            self.assert_stopped_well(session)
            truth = (spent() - first) * 1000
        self.assertEqual(self.values(session)["redis_commands"], 3000)
        # The server rounds each command down to a microsecond, and reads its clocks inside call().
        self.assertGreater(self.values(session)["redis_command_time"], truth)
        self.assertLess(self.values(session)["redis_command_time"], truth * 2 + 3000 * 3000)

    def test_nginx(self):
        port = free_port()
        config = self.folder / "nginx.conf"
        (self.folder / "page.txt").write_text("hello\n")
        config.write_text(f"""
daemon off; master_process off; pid {self.folder}/nginx.pid; error_log {self.folder}/error.log;
events {{}}
http {{ access_log off; client_body_temp_path {self.folder}; proxy_temp_path {self.folder}; fastcgi_temp_path {self.folder};
uwsgi_temp_path {self.folder}; scgi_temp_path {self.folder};
server {{ listen 127.0.0.1:{port}; root {self.folder}; }} }}
""")
        server = self.serve(shutil.which("nginx", path="/usr/sbin:/usr/bin"), "-c", config)
        self.connected(port).close()
        before = self.remember(server.pid)
        session = self.inject(server.pid, self.compile("code.mdl", "nginx.mdl")).wait_inserted()
        for _ in range(3):
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            for path in ("/page.txt", "/missing", "/page.txt"):
                client.request("GET", path)
                client.getresponse().read()
            client.close()
        self.assert_stopped_well(session)
        values = self.values(session)
        self.assertEqual((values["nginx_requests"], values["nginx_connections"]), (9, 3))
        self.assertEqual(values["nginx_finished_requests"], 9)
        self.assert_untouched(server.pid, before)

    def test_memcached(self):
        port = free_port()
        user = ["-u", "nobody"] if os.geteuid() == 0 else []
        server = self.serve("memcached", "-l", "127.0.0.1", "-p", port, "-U", "0", *user)
        client = self.connected(port)
        lines = client.makefile("rb")
        plan = self.compile("code.mdl", "memcached.mdl")
        session = self.inject(server.pid, plan).wait_inserted()
        sent = received = 0
        for i in range(100):
            for request, answers in ((f"set k{i} 0 0 5\r\nhello\r\n", 1), (f"get k{i}\r\n", 3)):
                client.sendall(request.encode())
                sent += len(request)
                received += sum(len(lines.readline()) for _ in range(answers))
        self.assert_stopped_well(session)
        values = self.values(session)
        self.assertEqual(values["memcached_replies"], 200)
        self.assertEqual(values["memcached_bytes_sent"], received)
        self.assertGreaterEqual(values["memcached_bytes_received"], sent)
        client.close()

    def test_postgresql(self):
        binaries = next(iter(sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))), None)
        self.assertIsNotNone(binaries, "postgresql is not installed")
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        os.chmod(self.folder, 0o777)
        data = self.folder / "data"
        done = run(*as_user, binaries / "initdb", "-D", data, "-A", "trust", "--no-sync", seconds=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        port = free_port()
        self.serve(*as_user, binaries / "postgres", "-D", data, "-p", port, "-k", self.folder, "-c", "fsync=off",
                   "-h", "127.0.0.1")
        self.connected(port).close()
        soon(lambda: run(*as_user, "psql", "-h", self.folder, "-p", port, "-d", "postgres", "-c", "select 1").returncode == 0,
             "the database to accept connections")
        client = subprocess.Popen([*as_user, "psql", "-h", str(self.folder), "-p", str(port), "-d", "postgres", "-AtqX"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.addCleanup(client.kill)
        lines = Lines(client.stdout)

        def ask(text):
            client.stdin.write((text + "\n").encode())
            return lines.next("psql to answer")

        backend = int(ask("select pg_backend_pid();"))
        ask("create table t(i int); select 1;")
        before = self.remember(backend)
        session = self.inject(backend, self.compile("code.mdl", "postgresql.mdl")).wait_inserted(90)
        for i in range(50):
            ask(f"insert into t values ({i}) returning i;")
        self.assertEqual(ask("select count(*) from t;"), "50")
        self.assert_stopped_well(session)
        values = self.values(session)
        self.assertEqual(values["postgresql_statements"], 51)
        self.assertEqual(values["postgresql_parses"], 51)
        self.assertGreaterEqual(values["postgresql_wal_records"], 50)
        self.assertGreater(values["postgresql_execution_time"], 0)
        self.assert_untouched(backend, before)


class Libraries(LiveTest):
    """Libraries in Python's and openssl's processes."""

    def python(self, text):
        """Debian's python3 with a script that reads a line before each step."""
        process = subprocess.Popen(["/usr/bin/python3", "-u", "-c", text], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, bufsize=0)
        self.addCleanup(process.kill)
        lines = Lines(process.stdout)

        def step():
            process.stdin.write(b"\n")
            return lines.next("the script's answer")

        return process.pid, lines.next("the script's first line"), step

    def values(self, session):
        return {line["metric"]: line["value"] for line in session.final().values()}

    def test_sqlite(self):
        pid, ready, step = self.python("""
import sqlite3
db = sqlite3.connect(":memory:"); db.isolation_level = None
print("ready"); input()
db.execute("create table t(i)")
for i in range(100): db.execute("insert into t values (?)", (i,))
rows = sum(1 for _ in db.execute("select i from t"))
print(rows); input()
""")
        self.assertEqual(ready, "ready")
        plan = self.compile("code.mdl", "sqlite.mdl")
        wanted = ["sqlite_rows", "sqlite_steps", "sqlite_statements", "sqlite_time"]
        session = self.inject(pid, plan, *(word for metric in wanted for word in ("-m", metric))).wait_inserted()
        rows = int(step())
        self.assert_stopped_well(session)
        values = self.values(session)
        # sqlite3_step ends misuse with a jump, where a row's value is not known yet.
        refused = {line["metric"]: line["refused"] for line in session.final().values() if line["refused"]}
        self.assertEqual(refused, {"sqlite_rows": 1})
        # CREATE TABLE reads the schema again, by statements of its own.
        ours = 1 + 100 + rows + 1
        self.assertIn(values["sqlite_rows"] - rows, range(0, 5))
        self.assertIn(values["sqlite_steps"] - ours, range(0, 10))
        self.assertIn(values["sqlite_statements"] - 3, range(0, 5))
        self.assertGreater(values["sqlite_time"], 0)

    def test_cpython(self):
        pid, ready, step = self.python("""
import time
print("ready"); input()
for i in range(1000): [].sort(key=lambda x: x)
sum(map(lambda x: x, range(1000)))
for i in range(20): time.sleep(0.001)
for i in range(50): int("5")
for i in range(70):
    try: int("x")
    except ValueError: pass
print("done"); input()
""")
        self.assertEqual(ready, "ready")
        session = self.inject(pid, self.compile("code.mdl", "cpython.mdl")).wait_inserted()
        self.assertEqual(step(), "done")
        self.assert_stopped_well(session)
        values = self.values(session)
        self.assertGreaterEqual(values["cpython_callbacks"], 1000)
        self.assertLess(values["cpython_callbacks"], 1100)
        self.assertGreaterEqual(values["cpython_exceptions"], 70)
        self.assertGreaterEqual(values["cpython_gil_releases"], 20)
        self.assertGreater(values["cpython_gil_wait"], 0)

    def test_openssl(self):
        """openssl s_server, which uses SSL_read and SSL_write; the _ex forms begin with a call in Debian's library
        and have no room for a jump, which the output says."""
        key, certificate = self.folder / "key.pem", self.folder / "cert.pem"
        done = run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                   "-days", "1", "-subj", "/CN=localhost")
        self.assertEqual(done.returncode, 0, done.stderr)
        port = free_port()
        server = subprocess.Popen(["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-quiet", "-key", key, "-cert",
                                   certificate, "-naccept", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.stdin.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE

        def connected():
            try:
                return socket.create_connection(("127.0.0.1", port), 5)
            except OSError:
                return None

        plain = soon(connected, "openssl s_server to listen")
        session = self.inject(server.pid, self.compile("code.mdl", "openssl.mdl"), "-m", "openssl_handshake_calls", "-m",
                              "openssl_bytes_read", "-m", "openssl_bytes_written", "--allow-reads").wait_inserted()
        with context.wrap_socket(plain) as client:
            client.sendall(b"y" * 50000)
            got = 0
            while got < 50000:
                got += len(server.stdout.read(65536))
            server.stdin.write(b"x" * 3000)
            got = 0
            while got < 3000:
                got += len(client.recv(65536))
            self.assert_stopped_well(session)
        final = {line["metric"]: line for line in session.final().values()}
        self.assertGreaterEqual(final["openssl_handshake_calls"]["value"], 1)
        self.assertEqual(final["openssl_bytes_read"]["value"], 50000)
        self.assertEqual(final["openssl_bytes_written"]["value"], 3000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
