"""Which clauses of queries go with which heads: all of them are tried, and what is refused says what can be asked instead."""

import os
import re
import subprocess
import unittest

MDLC = os.environ["MDLC"]
HEADS = ("count f", "count f.return", "count f, g", "count get*", "count /Code/a", "count /Code/a/*", "count /Code/*", "sum $arg[0] at f",
         "sum $return at f", "min elapsed at f", "avg $now at /Code/a/*", "hist $cpu_elapsed at f", "time f", "time get*", "time /Code/a",
         "time /Code/a/*", "time /Code/*", "cpu f", "cpu f, g", "cpu get*", "cpu /Code/a", "cpu /Code/a/*", "cpu /Code/*", "self f",
         "self f, g", "self get*", "hist self_elapsed at f", "self /Code/a", "self /Code/a/*", "self /Code/*", "latency f", "latency get*", "latency /Code/a/*", "latency /Code/*", "bytes",
         "bytes read")
CONDITIONS = ("if $arg[0] > 1", "if $return", "if elapsed > 1", "if self_elapsed > 1", "if $now > 1", "if errno")
WITHIN = ("within h", "within h*", "within /Code/b/h", "within h within i")
KEYS = ("by $arg[0]", "by $return", "by caller", "by function", "by str($arg[0])", "by fd($arg[0])", "by mutex($arg[0])", "by memory($arg[0])", "by site($arg[0])", "by file($arg[0])", "by socket($arg[0])", "by descriptor($arg[0])", "by errno", "by $now / 10",
        "by $arg[0], $arg[1]", "by str($arg[0]), caller", "by $arg[0], caller, thread")
CLAUSES = ("", "by thread", *CONDITIONS, *WITHIN, *KEYS, "if $arg[0] by caller within h", "by str($arg[0]), str($arg[1])",
           "by str($arg[0]), str($arg[1]), str($arg[2])")


def is_refused(head, clause):
    """The rules of docs/queries.md."""
    if clause.count("str(") == 3 and head.endswith("*"):
        return True  # the function, or the object, is a key, too
    if head in ("time /Code/*", "cpu /Code/*") and clause in WITHIN:
        return True  # the outermost calls of an object may have begun before
    if head in ("time /Code/a", "cpu /Code/a") and clause in WITHIN and clause != "within /Code/b/h":
        return True  # likewise; with the path there is a timer, which knows when that function begins
    return head in ("time get*", "cpu get*") and clause in ("", "by thread")  # a line for each needs the object


class Matrix(unittest.TestCase):
    def test_every_clause_with_every_head(self):
        for head in HEADS:
            queries = [f"{head} {clause}".rstrip() for clause in CLAUSES]
            done = subprocess.run([MDLC, "--check", *(f"--query={query}" for query in queries)], capture_output=True, text=True, timeout=60)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            said = re.split(r"^query (?=\d+:\d+:\d+: )", done.stderr, flags=re.M)[1:]
            errors = {int(one.split(":")[0]): one for one in said if ": error: " in one.splitlines()[0]}
            for number, clause in enumerate(CLAUSES, 1):
                with self.subTest(query=queries[number - 1]):
                    self.assertEqual(number in errors, is_refused(head, clause), errors.get(number))
                    if number in errors:
                        self.assertIn("\nhint: ", errors[number])


if __name__ == "__main__":
    unittest.main()
