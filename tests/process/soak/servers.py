"""The six programs of the soak, each with its load.

A Server starts its program and the load, says which process to attach to, how many requests have been answered and
what went wrong, and ends both. `failures` are of the load: a wrong or missing answer, an error, an end that nobody asked for.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

import harness

HERE = pathlib.Path(__file__).resolve().parent
ROOT = os.geteuid() == 0
AS_POSTGRES = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups") if ROOT else ()


def version_of(*command):
    """The first line that a program says of its version."""
    done = harness.run(*command)
    return (done.stdout + done.stderr).strip().splitlines()[0]


# Functions that loads call often, as regular expressions of names: of the C library, and of each program.
LIBC = (r"malloc|free|calloc|realloc|read|write|writev|send|recv|recvmsg|sendmsg|epoll_wait|poll|pthread_mutex_(un)?lock|"
        r"pthread_cond_\w+|close|accept4?|lseek64|pread64|pwrite64|getpid|fcntl64|sigaction|qsort|snprintf|vsnprintf|strtol|")
REDIS = (r"main|ae\w+|readQueryFromClient|process\w+|call|lookupKey\w*|\w+Command|addReply\w*|dict\w+|sds\w+|z(malloc|free)|"
         r"createObject|decrRefCount|writeToClient|beforeSleep|serverCron|lua\w+|string2ll|ll2string|je_\w*(alloc|free)\w*")
NGINX = (r"ngx_http_(process|parse|core|static|output|write|header|finalize|init|send|script|rewrite|gzip)_\w+|ngx_p?c?alloc|"
         r"ngx_(create|destroy|reset)_pool|ngx_process_events\w*|ngx_unix_\w+|ngx_linux_\w+|ngx_event_\w+|ngx_v?slprintf|"
         r"ngx_rbtree_\w+|ngx_hash_\w+|ngx_open_\w+|ngx_close_\w+|pcre2_match_8|deflate|crc32")
POSTGRES = (r"exec_simple_query|PostgresMain|pg_\w+_query|raw_parser|base_yyparse|core_yylex|\w*planner|Executor\w+|Exec[A-Z]\w+|"
            r"heap_\w+|_bt_\w+|ReadBuffer\w*|LockBuffer|LWLock\w+|AllocSet\w+|palloc0?|pfree|SearchCatCache\w*|XLogInsert\w*|"
            r"\w*TransactionCommand|hash_search\w*|ResourceOwner\w+|MemoryContext\w+|errstart|ProcessInterrupts|WaitEventSet\w+|ServerLoop|"
            r"Checkpoint\w+|WalWriterMain|BackgroundWriterMain|BgBufferSync|SyncOneBuffer|epoll_wait")
MEMCACHED = (r"main|event_\w+|evmap_\w+|epoll_\w+|conn_\w+|process_\w+|\w*item_\w+|assoc_\w+|slabs_\w+|try_read_\w+|complete_nread\w*|"
             r"worker_libevent|out_string|add_iov|resp_\w+|hash|MurmurHash3_x86_32|drive_machine")
NODE = (r"uv_\w+|llhttp_\w+|deflate|inflate|crc32|EVP_Digest\w+|SHA256_\w+|"
        r"_ZN2v88internal\w*(Scaveng|Compil|Deoptim|StackFrameIterator|Factory|LookupIterator|JsonParse|RegExp|BigInt|MarkCompact|Sweeper|"
        r"Isolate|HandleScope|Execution|Runtime_)\w*|_ZN4node\w+(Http|HTTP|Zlib|zlib|Worker|Message|Hash|crypto|Timer)\w*")
PYTHON = (r"_?PyEval_\w+|_PyFunction_Vectorcall|_?PyObject_\w+|_?PyDict_\w+|_?PyLong_\w+|_?PyUnicode_\w+|_?PyList_\w+|_?PyErr_\w+|PyNumber_\w+|"
          r"_?PyTuple_\w+|_?PyGen_\w+|sqlite3_\w+|deflate|inflate|crc32|_?PyBytes_\w+|_?PyMem_\w+|PyThread_\w+")


def behind(*command):
    """Servers and loads take what time the injector leaves, so that cycles do not wait for them."""
    return ["nice", "-n", "5", *(str(word) for word in command)]


class Answering:
    """A process that says {"done":N,"failed":[…]} for each line that it is sent: clients.py, work.py, work.js."""

    def __init__(self, *command):
        self.process = subprocess.Popen(behind(*command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        bufsize=0)
        self.pid = self.process.pid
        self._lines = harness.Lines(self.process.stdout)
        self.done, self.failures = 0, []
        self._read(120)

    def _read(self, seconds):
        line = self._lines.next("a load to answer", seconds)
        if line is None:
            raise AssertionError(f"the load ended with {self.process.wait()}")
        return json.loads(line)

    def ask(self):
        """Looks what has been done; an end is a failure."""
        try:
            self.process.stdin.write(b"\n")
            answer = self._read(60)
            self.done, self.failures = answer["done"], answer["failed"]
        except (AssertionError, OSError) as error:
            self.failures = self.failures + [str(error)]
        return self

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Server:
    name = ""
    libraries = ()  # how those begin whose functions are measured, too
    busy = ""  # which functions the load uses
    growth_mib = 64  # what its address space may grow by

    def __init__(self, folder):
        self.folder = folder / self.name
        self.folder.mkdir()
        self.processes, self.loads = [], []

    def serve(self, *command, **options):
        with open(self.folder / "log", "ab") as log:
            process = subprocess.Popen(behind(*command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, **options)
        self.processes.append(process)
        return process

    def clients(self, count, port):
        self.loads.append(Answering(sys.executable, "-B", HERE / "clients.py", self.name, port, count))

    def pids(self):
        """What can be attached to: they stay as long as the load runs."""
        return [process.pid for process in self.processes]

    def progress(self):
        """(requests answered, failures) so far."""
        failures = [failure for load in self.loads for failure in load.ask().failures]
        failures += [f"{process.args[len(behind())]} ended with {process.returncode}" for process in self.processes
                     if process.poll() is not None]
        return sum(load.done for load in self.loads), failures

    def finish(self):
        """Ends the load; what the program knows of it now is part of the last (requests, failures)."""
        return self.progress()

    def end(self):
        for load in self.loads:
            load.end()
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
            process.wait()


def connected(port):
    import socket
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
        return True
    except OSError:
        return False


class Redis(Server):
    """redis-benchmark over and over, and four clients that check."""
    name, libraries = "redis", ("libc.so", "libjemalloc", "liblua")
    busy = LIBC + REDIS

    def start(self):
        self.port = harness.free_port()
        self.serve("redis-server", "--port", self.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                   "--dir", self.folder, "--daemonize", "no", "--io-threads", "2")
        harness.soon(lambda: connected(self.port), "redis-server to listen")
        self.benchmark_failures, self.benchmarked, self.stopping = [], 0, threading.Event()
        self.thread = threading.Thread(target=self.benchmark)
        self.thread.start()
        self.clients(4, self.port)

    def benchmark(self):
        kinds = ["set", "get", "incr", "lpush", "lrange_100", "sadd", "hset", "zadd", "mset"]
        while not self.stopping.is_set():
            done = subprocess.run(behind("redis-benchmark", "-p", self.port, "-n", 1000, "-c", 10, "-P", 4, "-q",
                                         "-r", 1000, "-t", ",".join(kinds)), stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, check=False)
            if done.returncode != 0 or "rror" in done.stdout + done.stderr:
                self.benchmark_failures.append(f"redis-benchmark ({done.returncode}): {done.stderr[-300:]}")
                return
            self.benchmarked += 1000 * len(kinds)
            self.stopping.wait(0.5)

    def progress(self):
        done, failures = super().progress()
        return done + self.benchmarked, failures + self.benchmark_failures

    def finish(self):
        self.stopping.set()
        self.thread.join(60)
        return self.progress()

    def end(self):
        self.stopping.set()
        self.thread.join(60)
        super().end()

    def versions(self):
        return [version_of("redis-server", "--version")]


class Nginx(Server):
    """Master and two workers; clients that keep connections and make new ones."""
    name, libraries = "nginx", ("libc.so", "libpcre", "libz")
    busy = LIBC + NGINX
    program = harness.NginxServer.program

    def start(self):
        port = harness.free_port()
        files = self.folder / "files"
        (files / "folder").mkdir(parents=True)
        (files / "small.txt").write_text("hello\n")
        (files / "large.txt").write_text("".join(f"line {n}\n" for n in range(20000)))
        (files / "folder" / "index.html").write_text("<p>folder</p>\n")
        temporary = "".join(f"{kind}_temp_path {self.folder}/{kind};\n"
                            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        os.chmod(self.folder.parent, 0o755)  # the workers are another user's
        (self.folder / "nginx.conf").write_text(f"""
daemon off; worker_processes 2; pid {self.folder}/nginx.pid; error_log {self.folder}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off; gzip on; gzip_types text/plain; server_tokens off;
  {temporary}
  server {{
    listen 127.0.0.1:{port}; root {files}; add_header X-Soak $request_uri;
    rewrite ^/rewritten/(.*)$ /small.txt?$1 redirect;
    location ~ \\.txt$ {{ expires 1h; }}
  }}
}}
""")
        self.master = self.serve(self.program, "-c", self.folder / "nginx.conf")
        harness.soon(lambda: connected(port), "nginx to listen")
        harness.soon(lambda: len(self.pids()) == 3, "nginx's workers")
        self.clients(4, port)

    def pids(self):
        children = pathlib.Path(f"/proc/{self.master.pid}/task/{self.master.pid}/children").read_text(encoding="ascii")
        return [int(pid) for pid in children.split()] + [self.master.pid]

    def versions(self):
        return [version_of(self.program, "-v")]


class Postgres(Server):
    """pgbench with three clients; backends, the postmaster and its helpers are attached to."""
    name, libraries = "postgres", ("libc.so",)
    busy = LIBC + POSTGRES

    def start(self):
        binaries = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        self.program = binaries / "postgres"
        self.as_user = AS_POSTGRES
        os.chmod(self.folder.parent, 0o755)
        os.chmod(self.folder, 0o777)
        data = self.folder / "data"
        self.must(binaries / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync")
        port = harness.free_port()
        postmaster = self.serve(*self.as_user, self.program, "-D", data, "-p", port, "-k", self.folder, "-h", "",
                                "-c", "fsync=off", "-c", "autovacuum_naptime=5s", "-c", "jit=off")
        self.connection = ["-h", str(self.folder), "-p", str(port), "-U", "postgres"]
        harness.soon(lambda: harness.run("psql", *self.connection, "-d", "postgres", "-c", "select 1").returncode == 0,
                     "postgres to answer")
        pgbench = shutil.which("pgbench") or binaries / "pgbench"
        self.must(pgbench, *self.connection, "-i", "-q", "postgres")
        self.first = self.transactions()
        with open(self.folder / "pgbench.log", "wb") as log:
            self.load = subprocess.Popen(behind(pgbench, *self.connection, "-n", "-c", 3, "-T", 864000, "-R", 600,
                                                "postgres"), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.processes.append(self.load)
        harness.soon(lambda: len(self.backends()) == 3, "pgbench's connections")
        helpers = [row for row in self.query("select pid from pg_stat_activity where backend_type in "
                                             "('checkpointer', 'walwriter', 'background writer')").split()]
        self.attachable = [int(pid) for pid in self.backends()] * 3 + [int(pid) for pid in helpers] + [postmaster.pid]

    def must(self, *command):
        done = harness.run(*self.as_user, *command, seconds=120)
        if done.returncode != 0:
            raise AssertionError(f"{command[0]}: {done.stderr}")
        return done.stdout

    def query(self, text):
        return self.must("psql", *self.connection, "-d", "postgres", "-AtqXc", text)

    def backends(self):
        return self.query("select pid from pg_stat_activity where application_name = 'pgbench'").split()

    def transactions(self):
        return [int(n) for n in self.query("select xact_commit, xact_rollback from pg_stat_database "
                                           "where datname = 'postgres'").strip().split("|")]

    def pids(self):
        return self.attachable

    def progress(self):
        failures = super().progress()[1]
        log = (self.folder / "pgbench.log").read_text(encoding="utf-8")
        if any(word in log for word in ("abort", "rror", "fail")):
            failures.append("pgbench: " + log[-500:])
        return 0, failures  # asking for the numbers each time would be a load of its own

    def finish(self):
        """Ends pgbench. What its transactions wrote must agree with itself: each adds one amount in four tables."""
        failures = self.progress()[1]
        self.load.kill()
        self.load.wait()
        self.processes.remove(self.load)
        harness.soon(lambda: not self.backends(), "the backends to end")
        time.sleep(1.1)  # a backend tells of its last transactions at its end
        sums = self.query("select (select sum(abalance) from pgbench_accounts), (select sum(bbalance) from "
                          "pgbench_branches), (select sum(tbalance) from pgbench_tellers), (select coalesce(sum(delta), 0) "
                          "from pgbench_history), (select count(*) from pgbench_history)").strip().split("|")
        commits, rollbacks = (now - then for now, then in zip(self.transactions(), self.first))
        if len(set(sums[:4])) != 1:
            failures.append(f"the sums of pgbench's tables differ: {sums[:4]}")
        # Of each client one at most was under way when pgbench was killed.
        if rollbacks > 3 or int(sums[4]) > commits:
            failures.append(f"{rollbacks} transactions were rolled back, {commits} committed, {sums[4]} in the history")
        return int(sums[4]), failures

    def versions(self):
        return [version_of(self.program, "--version")]


class Memcached(Server):
    """Four threads, and four clients that check."""
    name, libraries = "memcached", ("libc.so", "libevent")
    busy = LIBC + MEMCACHED

    def start(self):
        port = harness.free_port()
        self.serve("memcached", "-l", "127.0.0.1", "-p", port, "-U", "0", "-m", "64", *(["-u", "nobody"] if ROOT else []))
        harness.soon(lambda: connected(port), "memcached to listen")
        self.clients(4, port)

    def versions(self):
        return [version_of("memcached", "-V")]


class Node(Server):
    """work.js: two threads of JavaScript that check themselves, and clients of its web server that compare answers."""
    name, libraries, growth_mib = "node", ("libc.so", "libstdc++", "libnode"), 1024  # V8 reserves as it likes
    busy = LIBC + NODE

    def start(self):
        port = harness.free_port()
        work = Answering("node", HERE / "work.js", port)
        self.loads.append(work)
        self.clients(2, port)

    def pids(self):
        return [self.loads[0].pid]

    def versions(self):
        return ["node " + version_of("node", "--version")]


class Python(Server):
    """work.py: two threads of Python that check themselves."""
    name, libraries = "python", ("libc.so", "libsqlite3", "libz", "libpython")
    busy = LIBC + PYTHON

    def start(self):
        self.loads.append(Answering("/usr/bin/python3", "-B", HERE / "work.py"))

    def pids(self):
        return [self.loads[0].pid]

    def versions(self):
        return [version_of("/usr/bin/python3", "--version")]


SERVERS = {server.name: server for server in (Redis, Nginx, Postgres, Memcached, Node, Python)}
