"""The harness and the programs, without the tools: what the other tests rely on.

A stand-in that writes what mdl-inject promises to write takes its place, so that a fault in
the reading of samples shows here and not as a wrong number there.
"""

import json
import pathlib
import tempfile
import unittest

import harness
from harness import LiveTest
from redis_client import Load

FLAVORS = ["gcc-O2", "gcc-O3-stripped", "clang-O2", "static", "nopie-cet", "gcc-Os", "gcc-O0", "clang-O0", "clang-cfi"]

STAND_IN = r"""#!/usr/bin/env python3
import json, signal, sys, time
end = []
signal.signal(signal.SIGINT, lambda *_: end.append(1))
value = 0
while True:
    final = bool(end)
    for name in ("a", "b"):
        line = {"metric": name, "focus": "", "value": value, "final": final, "refused": 0}
        print(json.dumps(line), flush=True)
    if final:
        sys.exit(0)
    value += 1
    time.sleep(0.01)
"""


class Programs(LiveTest):
    def test_every_flavor_counts_and_computes_the_same(self):
        results = set()
        for flavor in FLAVORS:
            with self.subTest(flavor):
                program = self.start(f"counted-{flavor}")
                done = program.ask("go 30")
                self.assertEqual((done["wrong"], done["disturbed"], done["rounds"]), (0, 0, 120))
                results.add(json.dumps(done["results"]))
                entries = {name: numbers[0] - program.ready["counts"][name][0]
                           for name, numbers in done["counts"].items()}
                self.assertEqual(entries["t_ret1"], 120)
                self.assertGreaterEqual(min(n for name, n in entries.items() if "handler" not in name), 120)
                self.assertEqual(program.end(), 7)
        self.assertEqual(len(results), 1)

    def test_nothing_counts_between_an_answer_and_the_next_command(self):
        program = self.start("counted-gcc-O2")
        program.ask("start", "running")
        paused = program.ask("pause", "paused")
        again = program.ask("pause", "paused")
        self.assertEqual(paused, again)

    def test_sleepers_tell_who_woke(self):
        program = self.start("sleepers")
        self.assertEqual(program.ask("report", "report")["woken"], {})
        woken = program.ask("wake", "woken")
        self.assertEqual(woken["awake"], woken["expected"])
        self.assertNotEqual(program.ask("report", "report")["woken"], {})

    def test_sleepers_that_are_killed_leave_nothing_behind(self):
        """Their files are in the test's folder."""
        others = set(pathlib.Path(tempfile.gettempdir()).glob("mdl-sleepers-*"))
        self.start("sleepers").kill()
        self.assertTrue(list(self.folder.glob("mdl-sleepers-*")))
        self.assertEqual(set(pathlib.Path(tempfile.gettempdir()).glob("mdl-sleepers-*")) - others, set())

    def test_text_differs_after_one_byte(self):
        program = self.start("children")
        before = self.remember(program.pid)
        self.assert_untouched(program.pid, before)
        start, _, _ = next(key for key in before if key[2].endswith("children"))
        with open(f"/proc/{program.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            byte = memory.read(1)
            memory.seek(start)
            memory.write(bytes([byte[0] ^ 1]))
        with self.assertRaises(AssertionError):
            self.assert_untouched(program.pid, before)


class Sessions(LiveTest):
    def setUp(self):
        super().setUp()
        tool = self.folder / "stand-in"
        tool.write_text(STAND_IN)
        tool.chmod(0o755)
        before = harness.MDL_INJECT
        harness.MDL_INJECT = str(tool)
        self.addCleanup(setattr, harness, "MDL_INJECT", before)

    def test_values_and_final(self):
        session = self.inject(1, "plan").wait_inserted()
        first = session.fresh_values()
        second = session.fresh_values()
        self.assertGreater(second["a", ""], first["a", ""])
        self.assertEqual(session.stop(), 0)
        self.assertEqual(sorted(session.final()), [("a", ""), ("b", "")])


class Server(LiveTest):
    def test_redis_and_its_load(self):
        server = self.start_redis()
        load = Load(server.port)
        with server.connect() as client:
            harness.soon(lambda: int(client.info("stats")["total_commands_processed"]) > 1000, "commands")
        load.stop()
        self.assertEqual(load.failures, [])
        self.assertGreater(load.requests, 500)

    def test_a_dead_server_is_a_failure(self):
        server = self.start_redis()
        load = Load(server.port, clients=1)
        server.process.kill()
        harness.soon(lambda: load.failures, "the client to notice")
        load.stop()
        self.assertEqual(len(load.failures), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
