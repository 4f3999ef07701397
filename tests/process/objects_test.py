"""A line for each object, `/Code/*`, by key and within a function, of a program and its library (tests/programs/objects.cpp)."""

import collections
import pathlib
import unittest

from harness import LiveTest

OUTER, APART = 77000001, 77000002
ALL = "count o_back as all"  # which has a line from the beginning
PROGRAM, LIBRARY = "/Code/objects", "/Code/libobjects.so"
IN_PROGRAM, IN_LIBRARY = 2, 5  # calls of a round


class Objects(LiveTest):
    def begin(self, *words):
        self.program = self.start("objects")
        self.before = self.remember(self.program.pid)
        self.session = self.inject(self.program.pid, *words, ALL).wait_inserted()

    def finish(self):
        self.assert_stopped_well(self.session)
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)

    def last(self, metric):
        return [line for line in self.session.lines if line["final"] and line["metric"] == metric]

    def by_object(self, metric, figure="value"):
        """{object: value}, of those that have counted."""
        return {line["focus"]: line[figure] for line in self.last(metric) if line[figure]}

    def of_rounds(self, metric, figure="value"):
        """{(object or function, keys): value} of the calls whose first key is a round's. Other objects have functions without arguments."""
        return {(line["focus"], *map(int, line["key"])): line[figure] for line in self.last(metric)
                if line["key"][0] in map(str, (OUTER, APART)) and line["focus"].startswith((PROGRAM, LIBRARY))}

    def test_by_key(self):
        count, two = "calls /Code/* by $arg[0]", "sum $arg[0] at /Code/* by $arg[0], $arg[1]"
        some, late = "calls /Code/* if $arg[1] == 5 by $arg[0]", "latency /Code/* by $arg[0]"
        function = "count /Code/*.return by function, $arg[0]"
        self.begin(count, two, some, late, function)
        rounds = self.program.ask("go 300")["rounds"]
        self.finish()
        self.assertEqual(rounds, 900)
        calls = {(of, key): number * rounds for key in (OUTER, APART) for of, number in ((PROGRAM, IN_PROGRAM), (LIBRARY, IN_LIBRARY))}
        self.assertEqual(self.of_rounds(count), calls)
        self.assertEqual(self.of_rounds(late, "count"), calls)
        self.assertEqual(self.of_rounds(some), {(PROGRAM, key): rounds for key in (OUTER, APART)})
        sums = self.of_rounds(two)
        for key in (OUTER, APART):
            self.assertEqual({of: sums[of, key, again] for of, first, again in sums if first == key and again < 6 and of == LIBRARY},
                             {LIBRARY: 2 * rounds * key})
            self.assertEqual(sums[LIBRARY, key, 0], 2 * rounds * key)
            self.assertEqual(sums[PROGRAM, key, 5], rounds * key)
        functions = collections.Counter({of[0].rsplit("/", 1)[1]: value for of, value in self.of_rounds(function).items() if of[1] == OUTER})
        self.assertEqual(functions, {"o_outer": rounds, "o_back": rounds, "m_work": rounds, "m_inner": 4 * rounds})

    def test_by_caller(self):
        count = "calls /Code/* by caller"
        self.begin(count)
        rounds = self.program.ask("go 200")["rounds"]
        self.finish()
        called = collections.Counter()
        for line in self.last(count):
            called[line["focus"], line["key"][0].split("+")[0]] += line["value"]
        self.assertEqual({of: called[of] for of in called if of[1] in ("o_outer", "o_apart", "m_work", "m_inner")},
                         {(LIBRARY, "o_outer"): rounds, (LIBRARY, "o_apart"): rounds, (LIBRARY, "m_work"): 4 * rounds,
                          (LIBRARY, "m_inner"): 4 * rounds, (PROGRAM, "m_work"): 2 * rounds})

    def test_within(self):
        calls, late, path = "calls /Code/* within o_outer", "latency /Code/* within o_outer", "calls /Code/* within /Code/objects/o_outer"
        both, some = "calls /Code/* within o_outer within m_work", "sum $arg[1] at /Code/* if $arg[1] < 6 within o_outer"
        keyed, least = "calls /Code/* within o_outer by $arg[0]", "min $arg[0] at /Code/* within o_outer"
        self.begin(calls, late, path, both, some, keyed, least)
        rounds = self.program.ask("go 300")["rounds"]
        self.finish()
        truth = {PROGRAM: IN_PROGRAM * rounds, LIBRARY: IN_LIBRARY * rounds}
        self.assertEqual(self.by_object(calls), truth)
        self.assertEqual(self.by_object(path), truth)
        self.assertEqual(self.by_object(late, "count"), truth)
        self.assertEqual(self.by_object(both), {PROGRAM: rounds, LIBRARY: IN_LIBRARY * rounds})
        self.assertEqual(self.of_rounds(keyed), {(of, OUTER): number for of, number in truth.items()})
        self.assertEqual(len(self.last(keyed)), 2)
        self.assertEqual({line["focus"]: (line["value"], line["count"]) for line in self.last(least) if line["count"]},
                         {of: (OUTER, number) for of, number in truth.items()})
        self.assertEqual(self.by_object(some)[LIBRARY], 2 * rounds)  # o_outer and m_work have no second argument that is known

    def test_times(self):
        """Each call, also those that another one of the object makes."""
        wall, late = "time /Code/* within o_outer by $arg[0]", "latency /Code/* within o_outer by $arg[0]"
        some = "time /Code/* if $arg[0] == 77000001 && $arg[1] == 5 within o_outer"
        self.begin(wall, late, some, "time o_outer")
        self.program.ask("go 10000")  # a third of a second: no wait for a processor is a large part of it
        self.finish()
        outer = self.last("time o_outer")[0]["value"]
        spent, calls = self.of_rounds(wall), self.of_rounds(late, "sum")
        self.assertEqual(spent.keys(), {(PROGRAM, OUTER), (LIBRARY, OUTER)})
        for of, took in spent.items():
            self.assertAlmostEqual(took, calls[of], delta=0.02 * took + 1e6, msg=of)
        self.assertGreater(spent[PROGRAM, OUTER], 0.9 * outer)
        self.assertLess(spent[PROGRAM, OUTER], 1.2 * outer)
        self.assertGreater(spent[LIBRARY, OUTER], 1.5 * outer)  # m_work, the m_inner in it, and those in these
        self.assertEqual(self.by_object(some).keys(), {PROGRAM})
        self.assertLess(self.by_object(some)[PROGRAM], 0.2 * outer)

    def test_a_library_that_comes_and_goes(self):
        program = self.start("loads")
        before = self.remember(program.pid)
        session = self.inject(program.pid, "calls /Code/* by caller", "count t_loader_work as all").wait_inserted()
        for _ in range(2):
            program.ask("open 0")
            session.said("libplugin.so was loaded: inserted ")
            total = program.ask("open 40")["calls"]
            program.ask("close 1")
            program.ask("close 1")
        self.assert_stopped_well(session)
        self.assertEqual(total, 80)
        lines = [line for line in session.lines if line["final"] and "libplugin.so" in line["focus"]]
        self.assertEqual(sum(line["value"] for line in lines if line["key"][0].startswith("main")), total, lines)
        self.assert_untouched(program.pid, before)


class Sonames(LiveTest):
    """A library has one name in all lines, that by which programs are linked with it; its file may have another one."""
    LIBRARY = "libstdc++.so.6"

    def test_one_name(self):
        program = self.start("forger")
        maps = pathlib.Path(f"/proc/{program.pid}/maps").read_text()
        file = next(line.rsplit("/", 1)[1] for line in maps.splitlines() if f"/{self.LIBRARY}" in line)
        self.assertNotEqual(file, self.LIBRARY, "its file has its soname: this test says nothing")
        before = self.remember(program.pid)
        plain, keyed, named = "plain", "keyed", "named"
        session = self.inject(program.pid, f"calls /Code/{self.LIBRARY}/_Znw* as plain", "count _Znwm by function as keyed",
                              f"calls /Code/{file}/_Znw? as named").wait_inserted()
        program.ask("forge", "vector")
        self.assert_stopped_well(session)
        of = {}
        for line in session.lines:
            if line["final"] and line["value"] and line["focus"].endswith("/_Znwm"):
                of[line["metric"]] = line["focus"], line["value"]
        name = f"/Code/{self.LIBRARY}/_Znwm"
        self.assertEqual((of[plain][0], of[keyed][0]), (name, name))
        self.assertEqual(len({value for _, value in of.values()}), 1)
        self.assertIn(named, of)
        self.assert_untouched(program.pid, before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
