"""Real programs under load, measured more and more: nothing, one function, the ten that are called most, all of them counted,
and all of them timed. Each round has all of these in turn, so that what the machine does meanwhile is in all.
"""
import csv
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

import harness
from measuring import Measured
from page import fill, table

TITLE = "Programs under load"


class Redis:
    name, objects, one, unit = "redis-server", "redis-server", "processCommand", "GET"

    def __init__(self, folder, effort):
        self.requests = effort.requests
        self.server = harness.RedisServer(folder)
        self.pid, self.end = self.server.pid, self.server.kill

    def work(self):
        """(requests, requests a second, the 99th percentile of their latency in ms)"""
        done = subprocess.run(["redis-benchmark", "-h", "127.0.0.1", "-p", str(self.server.port), "-n", str(self.requests), "-c", "20",
                               "-t", "get", "--csv"], capture_output=True, text=True, check=True)
        row = list(csv.DictReader(done.stdout.splitlines()))[-1]
        return self.requests, float(row["rps"]), float(row["p99_latency_ms"])


class Nginx:
    """One worker, one connection, and batches of 50 requests that do not wait for each other."""

    name, objects, one, unit = "nginx", "nginx", "ngx_http_process_request", "request"
    BATCH = 50

    def __init__(self, folder, effort):
        self.batches = effort.requests // self.BATCH // 2
        (pathlib.Path(folder) / "page").write_text("x" * 100)
        self.server = harness.NginxServer(pathlib.Path(folder), 1, http="access_log off; keepalive_requests 100000000;")
        self.pid, self.end = self.server.workers()[0], self.server.kill

    def work(self):
        request = b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n" * self.BATCH
        times = []
        with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
            for _ in range(self.batches):
                began, seen, rest = time.perf_counter(), 0, b""
                connection.sendall(request)
                while seen < self.BATCH:
                    rest += connection.recv(1 << 16)
                    seen += rest.count(b"HTTP/1.1 200")
                    rest = rest[-len(b"HTTP/1.1 20"):]  # the last response's begin may be cut
                while not rest.endswith(b"x"):
                    rest = connection.recv(1 << 16)
                times.append(time.perf_counter() - began)
        return self.BATCH * len(times), self.BATCH * len(times) / sum(times), sorted(times)[len(times) * 99 // 100] * 1000


class Worker:
    """A program that reads a line of work and answers with a line."""

    def __init__(self, command, line, amount, steps):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid, self.line, self.amount, self.steps = self.process.pid, line, amount, steps
        self.step()

    def step(self):
        self.process.stdin.write(self.line)
        self.process.stdin.flush()
        self.process.stdout.readline()

    def work(self):
        times = []
        for _ in range(self.steps):
            began = time.perf_counter()
            self.step()
            times.append(time.perf_counter() - began)
        return self.amount * self.steps, self.amount * self.steps / sum(times), None

    def end(self):
        harness.put_down(self.process)


class Sqlite(Worker):
    name, objects, one, unit = "sqlite3", "libsqlite3.so.0.8.6", "sqlite3_step", "row"
    ROWS = 50_000

    def __init__(self, _, effort):
        statement = (f"with recursive c(x) as (select 1 union all select x + 1 from c where x < {self.ROWS}) "
                     "select count(*), sum(length(printf('%d', x))) from c;\n")
        super().__init__([shutil.which("sqlite3") or "sqlite3", "-batch"], statement.encode(), self.ROWS, effort.requests // 10_000)


class Python(Worker):
    name, objects, one, unit = "libpython", "libpython3.11.so.1.0", "PyObject_Malloc", "call"
    SCRIPT = """
import sys
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
words = {str(i): [i] for i in range(200)}
for line in sys.stdin:
    for key, value in words.items(): value[0] = len(key) + sum([1, 2, value[0] % 7])
    print(fib(17), flush=True)
"""

    def __init__(self, _, effort):
        super().__init__([harness.PROGRAMS / "python_in_library", "-c", self.SCRIPT], b"go\n", 5_000, effort.requests // 100)


def most_called(program, count=10):
    with Measured(program.pid, f"calls /Code/{program.objects}/*") as session:
        program.work()
    lines = [line for line in session.session.lines if line["final"]]
    lines.sort(key=lambda line: line["value"], reverse=True)
    return [f'"{line["focus"]}"' for line in lines[:count]]


def cpu_ns(pid):
    return sum(int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


def work(program):
    """(work a second, p99, nanoseconds of the program's CPU time for one piece of work)"""
    before = cpu_ns(program.pid)
    pieces, rate, p99 = program.work()
    return rate, p99, (cpu_ns(program.pid) - before) / pieces


def measure(program, effort):
    """{level: [(rate, p99, CPU time, calls a second)]}"""
    every = f"/Code/{program.objects}/*"
    levels = {"nothing": None, f"count {program.one}": f"count {program.one}", "count the ten most called": "count " + ", ".join(most_called(program)),
              "calls of all": f"calls {every}", "time of all": f"time {every}"}
    out = {level: [] for level in levels}
    for _ in range(effort.rounds):
        for level, query in levels.items():
            if query is None:
                out[level].append((*work(program), None))
                continue
            with Measured(program.pid, query) as session:
                began = time.monotonic()
                done = work(program)
                took = time.monotonic() - began
            out[level].append((*done, session.total() / took if not query.startswith("time") else None))
    return out


def middle(values, form):
    known = [value for value in values if value is not None]
    return form.format(statistics.median(known)) if known else ""


def rows_of(program, effort):
    measured = measure(program, effort)
    bare = statistics.median(cpu for _, _, cpu, _ in measured["nothing"])
    for level, runs in measured.items():
        rates, tails, cpu, calls = zip(*runs)
        yield [program.name, level, middle(calls, "{:,.0f}"), middle(rates, "{:,.0f}") + f" {program.unit}s", middle(tails, "{:.2f}"),
               middle(cpu, "{:,.0f}"), f"{(statistics.median(cpu) / bare - 1) * 100:+.1f} %"]


def report(effort, say):
    rows = []
    for kind in (Redis, Nginx, Sqlite, Python):
        say(f"programs: {kind.name}")
        with tempfile.TemporaryDirectory(prefix="mdl-bench-") as folder:
            os.chmod(folder, 0o755)
            try:
                program = kind(folder, effort)
            except (OSError, AssertionError) as error:
                rows.append([kind.name, f"cannot be started: {error}", "", "", "", "", ""])
                continue
            try:
                rows += rows_of(program, effort)
            finally:
                program.end()
    return "\n\n".join([
        fill(f"""Medians of {effort.rounds} rounds. *Calls* are those that were counted. *CPU* is the program's own, in nanoseconds for one
             piece of its work, and *more* is against nothing measured: it moves less with what else runs than the work does. The load is `redis-benchmark -c 20 -t get`; for
             nginx, batches of {Nginx.BATCH} requests of one connection, of which p99 is; one statement of {Sqlite.ROWS:,} rows; and a
             recursive function of Python of some 5,000 calls. Everything runs on the same processors."""),
        table(["program", "measured", "calls/s", "work/s", "p99 ms", "CPU", "more"], rows)])
