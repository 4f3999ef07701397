"""`by site(VALUE)`: a line for each place that allocated blocks, whatever became of the addresses meanwhile."""

import collections
import shutil
import unittest

from harness import MDL_INJECT, MDLC, PROGRAMS, LiveTest, run

ALL = "count t_use as all"
COUNT = "count t_use by site($arg[0])"
PAIR = "sum $arg[1] at t_use by site($arg[0]), caller"
UNKNOWN = "<unknown block>"


def by_function(values):
    """Of lines by site, or by site and caller: the sites' functions, which may have several places."""
    out = collections.Counter()
    for key, value in values.items():
        site = key[0] if isinstance(key, tuple) else key
        out["unknown" if site == UNKNOWN else site.split("+")[0]] += value
    return dict(out)


def grown(before, now):
    return {site: uses - before[site] for site, uses in now.items() if uses != before[site]}


class Blocks(LiveTest):
    def check(self, values, truth, tails=("by_calloc",)):
        """What an allocator gives out by a tail call (glibc's calloc to memset) has no site, and no other one."""
        values = by_function(values)
        unseen = {site: truth.get(site, 0) - values.get(site, 0) for site in tails}
        for site, uses in unseen.items():
            self.assertGreaterEqual(uses, 0, site)
        seen = {**truth, "unknown": truth.get("unknown", 0) + sum(unseen.values())}
        seen |= {site: truth.get(site, 0) - uses for site, uses in unseen.items()}
        self.assertEqual(values, {site: uses for site, uses in seen.items() if uses})

    def begin(self, *words, command=None):
        self.program = self.start("blocks", command=command)
        self.before = self.remember(self.program.pid)
        self.session = self.inject(self.program.pid, *words, ALL).wait_inserted()

    def finish(self):
        self.assert_stopped_well(self.session)
        self.assertEqual({line.get("anomalies", 0) for line in self.session.lines}, {0})
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)

    def test_threads_that_give_blocks_to_each_other(self):
        self.begin(COUNT, PAIR)
        last = self.program.ask("go 20000")
        truth = grown(self.program.ready["uses"], last["uses"])
        self.finish()
        self.assertEqual(len(truth), 11)
        self.check(self.session.by_key(COUNT, self.program.pid), truth)
        self.check(self.session.by_keys(PAIR, self.program.pid), truth)

    def test_an_allocator_whose_operators_do_all_themselves(self):
        """jemalloc's operators of C++ call none of those of C. Of blocks of which it has none ready some have no site."""
        lines = run("ldd", shutil.which("redis-server")).stdout.splitlines()
        library = next((line.split()[2] for line in lines if "libjemalloc" in line), None)
        if library is None:
            self.skipTest("redis-server has no jemalloc")
        self.begin(COUNT, command=["env", f"LD_PRELOAD={library}", PROGRAMS / "blocks", "60"])
        last = self.program.ask("go 20000")
        truth = grown(self.program.ready["uses"], last["uses"])
        self.finish()
        values = self.session.by_key(COUNT, self.program.pid)
        self.check(values, truth, [site for site in truth if site != "unknown"])
        seen = by_function(values)
        for site in ("by_new", "by_array", "by_nothrow", "by_array_nothrow", "by_aligned", "by_aligned_array",
                     "by_posix"):
            self.assertGreater(seen.get(site, 0), 0.9 * truth[site], site)

    def test_many_at_a_time(self):
        self.begin(COUNT)
        self.program.ask("hold 300000")
        self.finish()
        self.assertEqual(by_function(self.session.by_key(COUNT, self.program.pid)), {"by_malloc": 300000})

    def test_followed_forks(self):
        self.begin(COUNT, "--follow-fork")
        self.program.ask("go 200")
        child = self.program.ask("fork 2000", event="child")
        last = self.program.answer("done")
        self.finish()
        self.check(self.session.by_key(COUNT, self.program.pid), grown(self.program.ready["uses"], last["uses"]))
        self.check(self.session.by_key(COUNT, child["pid"]), child["uses"])

    def test_the_functions_of_the_heap_themselves(self):
        """A block is known to its allocator's return already, and to what releases it still."""
        made, gone = "count malloc by site($return)", "count free if $arg[0] by site($arg[0])"
        self.begin(made, gone)
        self.program.ask("hold 500")
        self.finish()
        for metric in (made, gone):
            self.assertEqual(by_function(self.session.by_key(metric, self.program.pid)).get("by_malloc"), 500, metric)

    def test_notes_of_blocks_that_take_a_read(self):
        """Blocks of posix_memalign are known where memory may be read only; it makes hits no dearer, as times would."""
        self.program = self.start("blocks")
        self.before = self.remember(self.program.pid)
        plan = self.compile_text(run(MDLC, "--emit=mdl", f"--query={COUNT}", "-o", "-").stdout)
        self.session = self.inject(self.program.pid, plan)
        self.session.said("inserted")
        truth = grown(self.program.ready["uses"], self.program.ask("go 2000")["uses"])
        self.finish()
        values = by_function(self.session.by_key("count_t_use", self.program.pid))
        self.assertGreater(truth["by_posix"], 0)
        self.assertNotIn("by_posix", values)
        self.assertEqual(sum(values.values()), sum(truth.values()))
        self.assertNotIn("overhead", self.session.lines[-1])

    def test_code_that_would_miss_blocks(self):
        """A focus that leaves functions out would leave a block's site to another block."""
        self.program = self.start("blocks")
        self.before = self.remember(self.program.pid)
        refused = run(MDL_INJECT, self.program.pid, "count t_* by site($arg[0])", "-f", "/Code/blocks/t_use", "-d", "0.1")
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("it would miss blocks that come and go elsewhere", refused.stderr)
        self.assert_untouched(self.program.pid, self.before)

    def test_code_without_a_frame(self):
        """A site is where the function returns to, which is known at entries and returns."""
        self.program = self.start("blocks")
        self.before = self.remember(self.program.pid)
        plan = self.compile_text("""
            resourceList users is procedure { items { "by_realloc" }; flavor { unix }; }
            metric at_calls {
              name "at calls"; units Calls; unitsType unnormalized; aggregateOperator sum; style EventCounter; flavor { unix };
              base is counter keyed by site($arg[0]) {
                foreach func in users { foreach call in func.calls { append preInsn call (* at_calls++; *) } }
              }
            }""")
        refused = run(MDL_INJECT, self.program.pid, plan, "-d", "0.1")
        self.assertEqual(refused.returncode, 4, refused.stderr)
        self.assertIn("where the caller is not known", refused.stderr)
        self.assert_untouched(self.program.pid, self.before)


if __name__ == "__main__":
    unittest.main()
