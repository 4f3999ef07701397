"""Attach, sample and remove, over and over, on a redis-server under load.

    soak_test.py CYCLES

After every cycle: no request has failed, the server's executable mappings and every byte in
them are what they were, and nothing of ours is mapped. At the end its memory has not grown
with the number of cycles. Moments vary: some sessions end right after the insertion, some
after a few samples, and one in five is killed and cleaned up with --remove.
"""

import signal
import sys
import unittest

from harness import MDL_INJECT, LiveTest, run
from redis_client import Load

METRICS = ["redis_commands", "redis_key_lookups", "redis_bytes_written"]
KILLED_EVERY = 5


class Soak(LiveTest):
    cycles = 20  # set by main

    def one_cycle(self, server, plan, number):
        requests = [word for name in METRICS for word in ("-m", name)]
        session = self.inject(server.pid, plan, *requests, interval="0.05").wait_inserted()
        if number % KILLED_EVERY == KILLED_EVERY - 1:
            session.kill()
            removed = run(MDL_INJECT, "--remove", server.pid)
            self.assertEqual(removed.returncode, 0, removed.stderr)
            return
        if number % 2:
            session.fresh_values()
        end = signal.SIGTERM if number % 3 == 2 else signal.SIGINT
        self.assertEqual(session.stop(end), 0, session.errors)
        self.assertEqual({line["metric"] for line in session.final().values()}, set(METRICS))
        session.kill()

    def mapped_kib(self, server):
        with open(f"/proc/{server.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmSize:"))

    def test_cycles_under_load(self):
        server = self.start_redis()
        plan = self.stdlib()
        before = self.remember(server.pid)
        load = Load(server.port)
        try:
            for number in range(self.cycles):
                self.one_cycle(server, plan, number)
                self.assertEqual(load.failures, [], f"cycle {number}")
                self.assert_untouched(server.pid, before)
                if number == 4:
                    early = self.mapped_kib(server)
        finally:
            load.stop()
        self.assertEqual(load.failures, [])
        self.assertGreater(load.requests, 10 * self.cycles)
        self.assertLess(self.mapped_kib(server) - early, 65536, "the server's address space grew")
        print(f"{self.cycles} cycles, {load.requests} requests, none failed", flush=True)


if __name__ == "__main__":
    Soak.cycles = max(5, int(sys.argv.pop(1))) if len(sys.argv) > 1 else Soak.cycles
    unittest.main(verbosity=2)
