"""A short soak (tests/process/soak): some cycles on each program, with everything that a long one checks.

    soak_test.py [CYCLES]     default 1; the long form is scripts/soak
"""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "soak"))
import soak  # noqa: E402


class ShortSoak(unittest.TestCase):
    cycles = 1  # set by main

    def check(self, name):
        """The seed is random; the output has it, so that a failure can be repeated by scripts/soak."""
        arguments = soak.parse(["--only", name, "--cycles", str(self.cycles)])
        print(f"scripts/soak --only {name} --cycles {self.cycles} --seed {arguments.seed}", flush=True)
        with tempfile.TemporaryDirectory(prefix="mdl-soak-", ignore_cleanup_errors=True) as folder:
            result = soak.soak_one(name, arguments, pathlib.Path(folder), seconds=None)
        self.assertEqual(result.failures, [])
        self.assertEqual((result.bytes_differing, result.mappings_left, result.inert), (0, 0, 0))
        self.assertEqual(result.cycles, self.cycles)
        self.assertGreater(result.requests, self.cycles)
        self.assertGreater(result.points, 0)
        self.assertLess(sum(result.refused.values()), max(5, self.cycles // 2), result.refused)

    def test_redis(self):
        self.check("redis")

    def test_nginx(self):
        self.check("nginx")

    def test_postgres(self):
        self.check("postgres")

    def test_memcached(self):
        self.check("memcached")

    def test_node(self):
        self.check("node")

    def test_python(self):
        self.check("python")


if __name__ == "__main__":
    ShortSoak.cycles = int(sys.argv.pop(1)) if len(sys.argv) > 1 else ShortSoak.cycles
    unittest.main(verbosity=2)
