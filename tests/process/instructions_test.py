"""How many instructions the tools and single hits execute, against bench/instructions.txt: a guard against
regressions that no other work on the machine can move.

    instructions_test.py --update       accept what is counted now; read the difference before committing it

Programs run under callgrind, hits are stepped through by tests/programs/stepped.cpp.
"""
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import unittest

from harness import MDL_INJECT, MDLC, SOURCE, LiveTest, run

TABLE = SOURCE / "bench" / "instructions.txt"
ALLOWED = {"program": 1.03, "alone": 1, "hit": 1}  # times what the table says
UPDATE = "--update" in sys.argv
ACCEPT = "to accept it: python3 -B tests/process/instructions_test.py --update"

METRICS = 100  # of the generated source: callgrind takes fifty times as long, and 5,000 would take minutes

# What is measured at which function of stepped.cpp; `site` and `block` are in POINTS.
HITS = {
    "entry": ["count step_entry"],
    "saving": ["count step_saving"],
    "back": ["count step_back.return"],
    "inside": ["count step_inside within step_outer"],
    "outer": [],  # has the flag of `inside`, and calls it
    "thread": ["count step_thread by thread"],
    "key": ["count step_key by $arg[0]"],
    "keys": ["count step_keys by $arg[0], caller"],
    "text": ["count step_text by str($arg[1])"],
    "caller": ["count step_caller by caller"],
    "sum": ["sum $arg[0] at step_sum"],
    "least": ["min $arg[0] at step_least"],
    "hist": ["hist $arg[0] at step_hist"],
    "latency": ["latency step_latency"],
    "wall": ["time step_wall"],
    "self": ["self step_self"],
    "kept": ["sum $return at step_kept by $arg[0]"],
    "both": ["count step_both", "sum $arg[0] at step_both"],
}
ALONE = ("entry", "saving", "back")
POINTS = """
resourceList {name}_list is procedure {{ items {{ "step_{name}" }}; flavor {{ unix }}; }}
metric {name}_hits {{
  name "{name}"; units Hits; aggregateOperator sum; style EventCounter; flavor {{ unix }};
  base is counter {{ foreach f in {name}_list foreach p in f.{points} append preInsn p (* {name}_hits++; *) }}
}}
"""


class Table:
    """bench/instructions.txt: what was accepted, and what is counted now."""

    def __init__(self):
        self.text = TABLE.read_text()
        self.accepted = {tuple(row[:2]): int(row[2].replace(",", "")) for row in
                         re.findall(r"^(\w+) +(.+?)  +([\d,]+)$", self.text, re.M)}
        self.counted = {}

    def complaint(self, kind, name, count):
        """Why the count is not accepted, or nothing."""
        self.counted[kind, name] = count
        before = self.accepted.get((kind, name))
        if before is None:
            return f"{kind} `{name}` takes {count:,} instructions and has no line in bench/instructions.txt; {ACCEPT}"
        bound = int(before * ALLOWED[kind])
        if count > bound:
            return (f"{kind} `{name}` takes {count:,} instructions; it took {before:,}, and at most {bound:,} are allowed "
                    f"({(count / before - 1) * 100:+.1f} %); {ACCEPT}")
        if count < before and ALLOWED[kind] == 1:
            return f"{kind} `{name}` takes {count:,} instructions, and not {before:,} any more, which is good; {ACCEPT}"
        return None

    def update(self):
        head = "".join(line for line in self.text.splitlines(True) if line.startswith("#"))
        rows = [(kind, name, f"{count:,}") for (kind, name), count in {**self.accepted, **self.counted}.items()]
        rows.sort(key=lambda row: list(ALLOWED).index(row[0]))
        wide = [max(len(row[i]) for row in rows) for i in range(3)]
        TABLE.write_text(head + "".join(f"{k:{wide[0]}}  {n:{wide[1]}}  {c:>{wide[2]}}\n" for k, n, c in rows))


TABLES = Table()


class Instructions(LiveTest):
    def compare(self, counts):
        """counts: {(kind, name): instructions}"""
        complaints = [said for key, count in counts.items() if (said := TABLES.complaint(*key, count))]
        if complaints and not UPDATE:
            self.fail("\n  " + "\n  ".join(complaints))


class Programs(Instructions):
    def count(self, *command):
        """Instructions of a command and the processes that it forks."""
        out = self.folder / "callgrind.%p"
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "TMPDIR": str(self.folder)}
        done = run("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *command, seconds=240, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        collected = [int(one) for one in re.findall(r"Collected : (\d+)", done.stderr)]
        self.assertTrue(collected, done.stderr)
        return sum(collected)

    def attach(self, pid, query):
        plan = self.folder / "query.plan"
        self.assertEqual(run(MDLC, f"--query={query}", "-o", plan).returncode, 0)
        return self.count(MDL_INJECT, pid, plan, "--dry-run", "--no-separate")

    def test_compiler(self):
        largest = max((SOURCE / "stdlib-metrics").glob("*.mdl"), key=lambda path: path.stat().st_size)
        loader = importlib.machinery.SourceFileLoader("compile_speed", str(SOURCE / "bench" / "compile_speed"))
        speed = importlib.util.module_from_spec(importlib.util.spec_from_loader("compile_speed", loader))
        loader.exec_module(speed)
        many = self.folder / "many.mdl"
        many.write_text(speed.CONSTRAINT + "".join(speed.METRIC % {"i": i} for i in range(METRICS)))
        self.compare({
            ("program", f"mdlc code.mdl {largest.name}"):
                self.count(MDLC, "code.mdl", largest.name, "-o", self.folder / "library.plan"),
            ("program", f"mdlc on {METRICS} metrics"): self.count(MDLC, many, "-o", self.folder / "many.plan"),
        })

    def test_attach(self):
        program, redis = self.start("standard"), self.start_redis()
        python = subprocess.Popen(["/usr/bin/python3", "-c", "print(1, flush=True); input()"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(python.communicate, b"\n")
        python.stdout.readline()
        self.compare({
            ("program", f"mdl-inject on {name}, {query}"): self.attach(pid, query) for name, pid, query in (
                ("standard", program.pid, "count do_heap"),
                ("redis-server", redis.pid, "latency processCommand"),
                ("python3", python.pid, "count PyObject_Malloc by caller"))})


class Hits(Instructions):
    def setUp(self):
        super().setUp()
        self.program = self.start("stepped")
        self.bare = self.steps()

    def steps(self):
        """{function: instructions of a call}"""
        out = {}
        for number in range(self.program.ready["functions"]):
            answer = self.program.ask(f"step {number}")
            counts = answer["instructions"]
            self.assertEqual(len(set(counts)), 1, f"{answer['name']}: not the same each time: {counts}")
            out[answer["name"]] = counts[0]
        return out

    def measure(self, kind, names, *queries):
        """Compares what each call of these functions takes more than a bare one."""
        session = self.inject(self.program.pid, *queries, "--allow-reads").wait_inserted()
        measured = self.steps()
        self.assert_stopped_well(session)
        more = {name: measured[name] - self.bare[name] for name in names}
        self.assertNotIn(0, more.values())
        self.assertEqual(self.steps(), self.bare)
        self.compare({(kind, name): count for name, count in more.items()})

    def test_each_alone(self):
        """Nothing else is measured in the process."""
        for name in ALONE:
            self.measure("alone", [name], *HITS[name])

    def test_all_at_once(self):
        points = self.folder / "points.mdl"
        points.write_text("".join(POINTS.format(name=name, points=kind)
                                  for name, kind in (("site", "calls"), ("block", "blocks"))))
        self.measure("hit", [*HITS, "site", "block"], points, *(query for queries in HITS.values() for query in queries))


if __name__ == "__main__":
    unittest.main(argv=[one for one in sys.argv if one != "--update"], verbosity=2, exit=not UPDATE)
    TABLES.update()
