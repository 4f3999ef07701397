"""Requests that come and go in a session of every function of a server under load: some 10,000 points, of which many
have punned jumps.

The server's own statistics (INFO commandstats) say how often each command's function was called.
"""

import re
import threading
import unittest

from changes_test import Commanded
from harness import CONSTRAINTS, metric, run, soon

COMMANDS = ["set", "get", "incr", "lpush", "rpush", "lpop", "rpop", "sadd", "hset", "spop", "zadd", "mset"]
SERVER = "/Code/redis-server"
WHOLE = """
metric {id} {{
  name "{id}"; units Calls; unitsType unnormalized; aggregateOperator sum; style EventCounter; flavor {{ unix }};
  constraint procedure;
  base is counter {{
    foreach object in whole {{
      foreach func in object.funcs {{ {order} preInsn func.{point} constrained (* {id}++; *) }}
    }}
  }}
}}
"""
METRICS = ('resourceList whole is module { items { "redis-server" }; flavor { unix }; }' +
           WHOLE.format(id="calls", order="append", point="entry") +
           WHOLE.format(id="returns", order="prepend", point="return") +
           metric("commands", [f"{name}Command" for name in COMMANDS], constraints=["procedure", "module"]) +
           metric("command_returns", [f"{name}Command" for name in COMMANDS], "return"))
ALL = [f"calls@{SERVER}/*", f"returns@{SERVER}/*", f"commands@{SERVER}/*", "commands"]


class Benchmark:
    """redis-benchmark with all of the commands, over and over."""

    def __init__(self, port):
        self.failures, self.rounds, self._ends = [], 0, threading.Event()
        self._words = ["redis-benchmark", "-h", "127.0.0.1", "-p", port, "-n", 2000, "-c", 20, "-r", 100, "-q", "-t",
                       ",".join(COMMANDS)]
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self):
        while not self._ends.is_set() or not self.rounds:
            done = run(*self._words, seconds=120)
            self.rounds += 1
            if done.returncode != 0 or "rror" in done.stdout + done.stderr:
                self.failures.append(done.stdout + done.stderr)
                return

    def stop(self):
        self._ends.set()
        self._thread.join()


class WholeChanges(Commanded):
    def begin(self, *options):
        self.server = self.start_redis()
        self.before, self.files = self.remember(self.server.pid), self.mapped_files()
        self.first = self.calls()
        self.open(self.server.pid, self.compile_text(CONSTRAINTS + METRICS), *ALL, options=options, interval="5")

    def mapped_files(self):
        """What is mapped of files, and how."""
        with open(f"/proc/{self.server.pid}/maps", encoding="utf-8") as maps:
            return [line for line in maps if len(line.split()) > 5 and "[" not in line]

    def own_memory(self):
        """Of the session: bytes mapped."""
        with open(f"/proc/{self.server.pid}/maps", encoding="utf-8") as maps:
            places = [line.split()[0].split("-") for line in maps if "mdl-session" in line]
        return sum(int(end, 16) - int(start, 16) for start, end in places)

    def calls(self):
        with self.server.connect() as client:
            stats = client.info("commandstats")
        return {name: int(re.match(r"calls=(\d+)", stats[f"cmdstat_{name}"])[1]) if f"cmdstat_{name}" in stats else 0
                for name in COMMANDS}

    def check_totals(self, final):
        """Each command's calls since the attach, by the server itself and by its function."""
        made = {name: count - self.first[name] for name, count in self.calls().items()}
        self.assertGreater(min(made.values()), 0)
        self.assertEqual({name: final["commands", f"{SERVER}/{name}Command"]["value"] for name in COMMANDS}, made)
        self.assertEqual(final["commands", ""]["value"], sum(made.values()))

    def test_requests_come_and_go_under_load(self):
        """Also while a child by fork, with the old code, writes the database."""
        self.begin()
        with self.server.connect() as client:
            for key in range(50):
                client.command("SET", f"kept:{key}", key)
            client.command("CONFIG", "SET", "rdb-key-save-delay", 5000)
        own, load = self.own_memory(), Benchmark(self.server.port)
        for request in (f"commands@{SERVER}", "command_returns", f"commands@{SERVER}", "calls"):
            with self.server.connect() as client:
                client.command("BGSAVE")
                self.command(f"add {request}")
                self.command(f"remove {request}")
                self.assertEqual(self.own_memory(), own)
                soon(lambda: client.info("persistence")["rdb_bgsave_in_progress"] == "0", "the child to end")
                self.assertEqual(client.info("persistence")["rdb_last_bgsave_status"], "ok")
        load.stop()
        self.assertEqual(load.failures, [])
        self.assert_stopped_well(self.session)
        print("".join(line + "\n" for line in self.session.errors.splitlines() if "points in" in line))
        self.check_totals(self.session.final())
        # A command that is under way when a request comes is inside of the server.
        self.check_lives(("commands", SERVER), ("commands", ""), 2)
        self.assert_untouched(self.server.pid, self.before)
        self.assertEqual(self.mapped_files(), self.files)


if __name__ == "__main__":
    unittest.main(verbosity=2)
