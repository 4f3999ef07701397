"""Every entry and every return of a whole program counted while it does its own work: it answers what it answers
untouched, and its text is what it was afterwards.

    whole_test.py [ROUNDS [TEST...]]      ROUNDS: how much work while instrumented (default 1)

redis-server serves commands of all kinds; libpython, the python3 program and node run work/work.py and
work/work.js, whose answer is a digest of all their results. The coverage that the architecture wants is
asserted here, too.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from harness import MDL_INJECT, PROGRAMS, Lines, LiveTest, put_down, run

WORK = pathlib.Path(__file__).resolve().parent / "work"
ROUNDS = 1
MOST_REFUSED = {"entries": 0.002, "returns": 0.01}  # of all: docs/injection.md

METRIC = """
metric {id} {{
  name "{id}"; units Calls; unitsType unnormalized; aggregateOperator sum; style EventCounter; flavor {{ unix }};
  base is counter {{
    foreach object in whole {{ foreach func in object.funcs {{ {order} preInsn func.{point} (* {id}++; *) }} }}
  }}
}}
"""
METRICS = (METRIC.format(id="entries", order="append", point="entry") +
           METRIC.format(id="returns", order="prepend", point="return"))

COMMANDS = [
    ("SET", "text", "value"), ("APPEND", "text", "more"), ("GETRANGE", "text", 2, 6), ("SETBIT", "bits", 77, 1),
    ("BITCOUNT", "bits"), ("INCRBYFLOAT", "number", "2.5"), ("MSET", "a", 1, "b", 2), ("MGET", "a", "b", "none"),
    ("LPUSH", "list", *range(300)), ("LRANGE", "list", 10, 20), ("LINSERT", "list", "BEFORE", 5, "x"), ("LPOS", "list", "x"),
    ("SADD", "set", *range(600)), ("SADD", "other", *range(300, 900)), ("SCARD", "set"), ("SINTERCARD", 2, "set", "other"),
    ("SDIFFSTORE", "difference", "set", "other"), ("SCARD", "difference"), ("SORT", "other", "LIMIT", 0, 5, "DESC"),
    ("HSET", "hash", *range(200)), ("HGET", "hash", 4), ("HINCRBY", "hash", 4, 7), ("HSCAN", "small", 0),
    ("ZADD", "sorted", 3, "c", 1, "a", 2, "b"), ("ZRANGEBYSCORE", "sorted", 1, 2, "WITHSCORES"), ("ZRANK", "sorted", "c"),
    ("XADD", "stream", "1-1", "field", "value"), ("XRANGE", "stream", "-", "+"), ("PFADD", "log", *range(50)), ("PFCOUNT", "log"),
    ("GEOADD", "geo", 13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania"), ("GEODIST", "geo", "Palermo", "Catania"),
    ("EVAL", "local t = {} for i = 1, 50 do t[i] = redis.call('GET', KEYS[1]) .. i end return #table.concat(t)", 1, "text"),
    ("SETEX", "gone", 1000, "x"), ("TTL", "text"), ("TYPE", "geo"), ("OBJECT", "ENCODING", "list"), ("RENAME", "a", "z"),
    ("COPY", "hash", "copy"), ("BITFIELD", "bits", "SET", "u8", 0, 200, "GET", "u4", 4), ("EXISTS", "z", "a"),
    ("ACL", "WHOAMI"), ("CONFIG", "GET", "maxmemory"), ("MULTI",), ("INCR", "number2"), ("LLEN", "list"), ("EXEC",),
    ("DBSIZE",), ("FLUSHALL",),
]


class Worker:
    """A process of work/, which answers a digest for each "go"."""

    def __init__(self, *command):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        bufsize=0)
        self.pid = self.process.pid
        self._lines = Lines(self.process.stdout)
        self.digest = self._answer("ready")

    def _answer(self, event):
        line = self._lines.next("the work to be done", 200)
        answer = json.loads(line or '{"event": "its end"}')
        if answer["event"] != event:
            raise AssertionError(f"answered {answer['event']}, not {event}")
        return answer["digest"]

    def go(self, rounds):
        self.process.stdin.write(f"go {rounds}\n".encode())
        return self._answer("done")

    def end(self):
        self.process.stdin.write(b"quit\n")
        return self.process.wait(60)

    def kill(self):
        put_down(self.process)


class Whole(LiveTest):
    def instrument(self, pid, objects, packed=False):
        items = ", ".join(f'"{name}"' for name in objects)
        plan = self.compile_text(f"resourceList whole is module {{ items {{ {items} }}; flavor {{ unix }}; }}\n{METRICS}")
        if not packed:
            self.assert_coverage(pid, plan)
        return self.inject(pid, plan, interval="1").wait_inserted(200)

    def assert_coverage(self, pid, plan):
        for metric, most in MOST_REFUSED.items():
            done = run(MDL_INJECT, pid, plan, "-m", metric, "--dry-run", seconds=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            points = int(done.stdout.split()[0])
            refused = sum(line.startswith("refused:") for line in done.stdout.splitlines())
            print(f"{metric}: {done.stdout.splitlines()[0]}", file=sys.stderr)
            self.assertGreater(points, 1000)
            self.assertLessEqual(refused, max(1, most * points), metric)

    def assert_counted(self, session, packed=False):
        values = {metric: line["value"] for (metric, _), line in session.final().items()}
        self.assertGreater(values["entries"], 10000)
        # What is active, ended by an exception or refused is the difference: a small part.
        if not packed:
            self.assertLess(abs(values["entries"] - values["returns"]), values["entries"] / 20)

    def work(self, objects, *command, packed=False):
        worker = Worker(*command)
        self.addCleanup(worker.kill)
        before = self.remember(worker.pid)
        session = self.instrument(worker.pid, objects(worker.pid), packed)
        self.assertEqual(worker.go(ROUNDS), worker.digest)
        self.assertEqual(session.stop(seconds=60), 0, session.errors)
        self.assert_counted(session, packed)
        self.assert_same_text(worker.pid, before)
        self.assertEqual(worker.go(1), worker.digest)
        self.assertEqual(worker.end(), 7)

    def assert_same_text(self, pid, before):
        """As assert_untouched, but the program may have made code of its own."""
        import process_text
        self.assertEqual(process_text.leftovers(pid), [])
        after = process_text.digest(pid)
        changed = [key for key in before if "/" in str(key) and before[key] != after.get(key)]
        self.assertEqual(changed, [], "the text of these mappings differs")

    @staticmethod
    def object_with(prefix):
        """The library of that name, or the program itself."""
        def find(pid):
            with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
                names = {os.path.basename(line.split()[-1]) for line in maps if "/" in line}
            found = sorted(name for name in names if name.startswith(prefix))
            return found or [os.path.basename(os.readlink(f"/proc/{pid}/exe"))]
        return find

    def test_python_in_a_library(self):
        self.work(self.object_with("libpython3"), PROGRAMS / "python_in_library", WORK / "work.py")

    def test_python(self):
        """Its cold functions are packed without a byte between them, at a low address: more is refused."""
        self.work(self.object_with("libpython3"), "/usr/bin/python3", WORK / "work.py", packed=True)

    def test_node(self):
        self.work(self.object_with("libnode.so"), shutil.which("node"), WORK / "work.js")

    def test_redis(self):
        server = self.start_redis()
        before = self.remember(server.pid)
        with server.connect() as client:
            def serve():
                return [repr(client.command(*(str(word) for word in command))) for command in COMMANDS]
            expected = serve()
            session = self.instrument(server.pid, ["redis-server"])
            for _ in range(20 * ROUNDS):
                self.assertEqual(serve(), expected)
            done = run("redis-benchmark", "-h", "127.0.0.1", "-p", server.port, "-n", 2000 * ROUNDS, "-q", seconds=300)
            self.assertEqual((done.returncode, "rror" in done.stdout + done.stderr), (0, False), done.stdout)
            client.command("FLUSHALL")
            self.assertEqual(serve(), expected)
            self.assert_stopped_well(session)
            self.assertEqual(serve(), expected)
        self.assert_counted(session)
        self.assert_untouched(server.pid, before)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        ROUNDS = int(sys.argv.pop(1))
    unittest.main(verbosity=2)
