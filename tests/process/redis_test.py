"""A real server under load: Debian's redis-server, stripped, position-independent, with its
background threads. Repeated attaches are soak_test.py.
"""

import unittest

from harness import MDL_INJECT, LiveTest, run
from redis_client import Load

COMMANDS, LOOKUPS, BYTES = ("redis_commands", ""), ("redis_key_lookups", ""), ("redis_bytes_written", "")
ALL = ["-m", "redis_commands", "-m", "redis_key_lookups", "-m", "redis_bytes_written"]


METRIC = """
metric {id} {{
  name "{id}"; units Events; unitsType unnormalized; aggregateOperator sum; style EventCounter; flavor {{ unix }};
  base is counter {{ foreach func in calls_of {{ {statement} }} }}
}}
"""
CALLS_AND_BLOCKS = 'resourceList calls_of is procedure { items { "call" }; flavor { unix }; }' + "".join(
    METRIC.format(id=name, statement=statement) for name, statement in {
        "entered": "append preInsn func.entry (* entered++; *)",
        "before": "foreach place in func.calls { append preInsn place (* before++; *) }",
        "after": "foreach place in func.calls { append postInsn place (* after++; *) }",
        "blocks": "foreach place in func.blocks { append preInsn place (* blocks++; *) }",
    }.items())


class Redis(LiveTest):
    def setUp(self):
        super().setUp()
        self.server = self.start_redis()
        self.plan = self.stdlib()
        self.before = self.remember(self.server.pid)

    def benchmark(self, count=50000, kinds="set,get", clients=20):
        """redis-benchmark to its end, without a word of an error."""
        done = run("redis-benchmark", "-h", "127.0.0.1", "-p", self.server.port, "-n", count // 2, "-c", clients,
                   "-t", kinds, "-q", seconds=120)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertNotIn("rror", done.stdout + done.stderr)

    def stats(self, client):
        return {key: int(value) for key, value in client.info("stats").items() if value.isdigit()}

    def test_counts_equal_the_servers_own(self):
        """50,000 commands. INFO does not count itself: the server's difference between two INFOs
        has the first one in it, which ran before the attach, and not the second."""
        with self.server.connect() as client:
            first = self.stats(client)
            session = self.inject(self.server.pid, self.plan, *ALL).wait_inserted()
            self.benchmark()
            self.assert_stopped_well(session)
            last = self.stats(client)
        final = session.final()
        self.assertEqual({line["refused"] for line in final.values()}, {0})
        processed = last["total_commands_processed"] - first["total_commands_processed"] - 1
        self.assertGreaterEqual(processed, 50000)
        self.assertEqual(final[COMMANDS]["value"], processed)
        # SET looks a key up for writing, GET for reading; hits and misses are GET's alone.
        reads = sum(last[key] - first[key] for key in ("keyspace_hits", "keyspace_misses"))
        self.assertEqual(reads, 25000)
        self.assertEqual(final[LOOKUPS]["value"], 50000)
        # The reply to the first INFO left before the attach, that to the last one after it.
        sent = last["total_net_output_bytes"] - first["total_net_output_bytes"] - first["reply_bytes"]
        self.assertEqual(final[BYTES]["value"], sent)
        self.assert_untouched(self.server.pid, self.before)

    def test_bytes_written_equal_the_replies(self):
        """Exactly what this client got back, for no one else writes."""
        with self.server.connect() as client:
            client.command("SET", "key", "x" * 1000)
            session = self.inject(self.server.pid, self.plan, "-m", "redis_bytes_written").wait_inserted()
            for _ in range(50):
                client.command("GET", "key")
            self.assert_stopped_well(session)
        self.assertEqual(session.final()[BYTES]["value"], 50 * len("$1000\r\n" + "x" * 1000 + "\r\n"))

    def test_at_a_procedure(self):
        """Lookups inside one command's function, and outside."""
        inside = ("redis_key_lookups", "/Code/redis-server/mgetCommand")
        with self.server.connect() as client:
            requests = ["-m", "redis_key_lookups", "-m", "@".join(inside)]
            session = self.inject(self.server.pid, self.plan, *requests).wait_inserted()
            for _ in range(100):
                client.command("MGET", "a", "b", "c")
                client.command("GET", "a")
            self.assert_stopped_well(session)
        final = session.final()
        self.assertEqual((final[inside]["value"], final[LOOKUPS]["value"]), (300, 400))
        self.assert_untouched(self.server.pid, self.before)

    def test_every_function_of_the_server(self):
        """procedure_calls at the server's own object: thousands of points, and it still answers right."""
        load = Load(self.server.port)
        try:
            request = "procedure_calls@/Code/redis-server"
            session = self.inject(self.server.pid, self.plan, "-m", request, interval="0.5").wait_inserted()
            session.fresh_values()
            self.assert_stopped_well(session)
        finally:
            load.stop()
        self.assertEqual(load.failures, [])
        self.assertGreater(session.final()["procedure_calls", "/Code/redis-server"]["value"], 1000)
        self.assert_untouched(self.server.pid, self.before)

    def test_calls_and_blocks_of_a_function(self):
        """`call` executes each command: its calls and blocks under load, the server unharmed."""
        plan = self.compile_text(CALLS_AND_BLOCKS)
        session = self.inject(self.server.pid, plan).wait_inserted()
        self.benchmark(20000)
        self.assert_stopped_well(session)
        final = {metric: line for (metric, _), line in session.final().items()}
        self.assertEqual({line["anomalies"] for line in final.values() if "anomalies" in line} - {0}, set())
        entries, before, after, blocks = (final[name]["value"] for name in ("entered", "before", "after", "blocks"))
        self.assertGreaterEqual(entries, 20000)
        self.assertGreaterEqual(before, entries)  # it calls the command's function at least
        if not final["before"]["refused"] and not final["after"]["refused"]:
            self.assertEqual(before, after)
        self.assertGreater(blocks, entries)
        self.assert_untouched(self.server.pid, self.before)
        self.benchmark(2000)

    def test_dry_run_changes_nothing(self):
        done = run(MDL_INJECT, self.server.pid, self.plan, "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_untouched(self.server.pid, self.before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
