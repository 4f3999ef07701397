"""Questions in one line, against programs that know the answer themselves."""

import collections
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import unittest

from harness import MDL_INJECT, MDLC, PROGRAMS, SOURCE, LiveTest, run, soon


class Queries(LiveTest):
    def ask(self, program, *words, **named):
        """A session of queries; `words` may have options, too."""
        return self.inject(program.pid, words[0], *words[1:], **named).wait_inserted()

    def values(self, session):
        """{(metric, focus): value} of the last sample."""
        self.assert_stopped_well(session)
        self.assertEqual({line["refused"] for line in session.lines if line["final"]}, {0}, session.errors)
        return {key: line["value"] for key, line in session.final().items()}

    def refused(self, program, *words, status=1):
        before = self.remember(program.pid)
        done = run(MDL_INJECT, program.pid, *words, "-d", "0")
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assert_untouched(program.pid, before)
        return done.stderr


class Counts(Queries):
    def test_coroutines(self):
        """The function that makes one, the one in which it runs, and the one that takes it apart."""
        for name, runs in {"coroutines": ".actor", "coroutines-clang": ".resume"}.items():
            program = self.start(name)
            session = self.ask(program, "count co::t_session", "count co::t_session*")
            program.ask("go 100")
            values = self.values(session)
            by_end = {focus.rpartition(".")[2] if "." in focus else "made": value
                      for (metric, focus), value in values.items() if metric == "count co::t_session*"}
            self.assertEqual(values["count co::t_session", ""], 1)
            self.assertEqual((by_end["made"], by_end[runs[1:]], by_end["destroy"]), (1, 100, 1), values)
            self.assertEqual(program.end(), 0)

    def test_functions_lists_and_names(self):
        """The metric of a line is the query as it was typed, or its name; recursion, exceptions and longjmp are in it."""
        program = self.start("counted-gcc-O2")
        before = self.remember(program.pid)
        session = self.ask(program, "count t_fib", "count t_fib, t_ping as both", "count t_fib.return",
                           "count  /Code/counted-gcc-O2/t_throw_deep")
        entered, left = self.counts(program, program.ask("go 30"))
        values = self.values(session)
        self.assertGreater(entered["t_fib"], 1000)
        self.assertEqual(values, {
            ("count t_fib", ""): entered["t_fib"],
            ("both", ""): entered["t_fib"] + entered["t_ping"],
            ("count t_fib.return", ""): left["t_fib"],
            ("count  /Code/counted-gcc-O2/t_throw_deep", ""): entered["t_throw_deep"],
        })
        self.assert_untouched(program.pid, before)

    @staticmethod
    def counts(program, answer):
        """How often each function was entered, and how often left, since the start."""
        return tuple({name: pair[i] - program.ready["counts"][name][i] for name, pair in answer["counts"].items()} for i in (0, 1))

    def test_conditions_and_sums(self):
        program = self.start("arguments")
        session = self.ask(program, "sum $arg[2] at t_six", "sum $return at t_six", "count t_six if $arg[0] >= 0 || $arg[0] < 0",
                           "sum $arg[0] / 3 at t_six", "count t_six if $arg[0] != $arg[0]", "count t_six if long($return) == $return")
        truth = program.ask("go 5000")
        values = self.values(session)
        self.assertEqual(list(values.values()), [truth["third"], truth["result"], truth["calls"], truth["first_thirds"], 0,
                                                 truth["calls"]])

    def test_names_of_cxx(self):
        program = self.start("names")
        session = self.ask(program, 'count "shapes::area(int)"', 'count "shapes::Box<long>::area(long) const"', "count shapes::area as overloads",
                           "count t_second_name", 'count "/Code/names/shapes::area(unsigned long, char)"')
        truth = program.ask("work 500")["calls"]
        self.assertEqual(sorted(self.values(session).values()), [truth] * 4 + [truth * 2])

    def test_within(self):
        """The calls of t_g while t_h is active on the calling thread: also in frames that were active at the attach, and
        after an exception and a longjmp."""
        program = self.start("within")
        start = program.ready
        session = self.ask(program, "count t_g within t_h", "count t_g", "sum 2 at t_g within t_h, t_h as twice")
        for command in ("go 50", "throw 20", "jump 20", "wake"):
            truth = program.ask(command)
        values = self.values(session)
        inside, total = (truth[name] - start[name] for name in ("inside", "total"))
        self.assertEqual(values, {("count t_g within t_h", ""): inside, ("count t_g", ""): total, ("twice", ""): 2 * inside})

    def test_each_function(self):
        """A line for each function: its own calls, and not those below it."""
        program = self.start("counted-gcc-O2")
        session = self.inject(program.pid, "calls /Code/counted-gcc-O2/t_*").wait_inserted()
        entered, _ = self.counts(program, program.ask("go 30"))
        self.assert_stopped_well(session)
        lines = {focus: line for (_, focus), line in session.final().items()}
        self.assertGreater(len(lines), 40)
        compared = 0
        for name, truth in entered.items():
            line = lines.get(f"/Code/counted-gcc-O2/{name}")
            if line and not line["refused"]:
                self.assertEqual((name, line["value"]), (name, truth))
                compared += 1
        self.assertGreater(compared, 40)
        self.assertEqual({line["metric"] for line in lines.values()}, {"calls /Code/counted-gcc-O2/t_*"})

    def test_patterns_of_objects(self):
        """A line for each function in each object that fits, and none of the others, by key as well."""
        program = self.start("counted-gcc-O2")
        queries = ["calls /Code/counted*/t_*", "count /Code/*/t_fib", "calls /Code/count?d*/t_* by caller",
                   "calls /Code/counted-gcc* by function", "calls /Code/counted*/* within t_fib"]
        session = self.ask(program, *queries)
        entered, _ = self.counts(program, program.ask("go 30"))
        self.assert_stopped_well(session)
        sums, refused = collections.defaultdict(collections.Counter), set()
        for (metric, focus), line in session.final().items():
            self.assertTrue(focus.startswith("/Code/counted-gcc-O2/") or line["value"] == 0, line)
        for line in session.lines:
            if not line["final"]:
                continue
            name = line["focus"].removeprefix("/Code/counted-gcc-O2/")
            sums[line["metric"]][name] += line["value"]
            if line["refused"] and line["metric"] == queries[0]:  # by key it is the number of all functions
                refused.add(name)
        self.assertEqual(dict(sums["count /Code/*/t_fib"]), {"t_fib": entered["t_fib"]})
        self.assertEqual(sums["calls /Code/counted*/* within t_fib"]["t_fib"], entered["t_fib"])
        for query in (queries[0], queries[2], queries[3]):
            compared = [name for name, truth in entered.items() if name not in refused and (truth or name in sums[query])]
            self.assertGreater(len(compared), 30, query)
            for name in compared:
                self.assertEqual((query, name, sums[query][name]), (query, name, entered[name]))

    def test_an_object_is_one_line(self):
        program = self.start("observed")
        session = self.inject(program.pid, "count /Code/observed", "calls /Code/observed/*").wait_inserted()
        program.ask("go 2000")
        self.assert_stopped_well(session)
        whole = {line["value"] for (metric, _), line in session.final().items() if metric == "count /Code/observed"}
        each = [line["value"] for (metric, _), line in session.final().items() if metric == "calls /Code/observed/*"]
        self.assertEqual(whole, {sum(each)})
        self.assertGreater(len(each), 5)

    def test_by_thread(self):
        program = self.start("timed")
        session = self.ask(program, "count t_work by thread")
        truth = program.ask("threads 7")["threads"]
        self.assert_stopped_well(session)
        self.assertEqual({focus.removeprefix("/Thread/"): line["value"] for (_, focus), line in session.final().items()
                          if line["value"]}, truth)

    def test_distributions(self):
        program = self.start("observed")
        session = self.ask(program, "hist $arg[0] at t_size", "hist $arg[0] at t_size if $arg[0] >= 0 as positive")
        truth = program.ask("go 5000")
        self.assert_stopped_well(session)
        line = session.final()["hist $arg[0] at t_size", ""]
        self.assertEqual((line["count"], line["sum"]), (truth["count"], truth["sum"]))
        self.assertLess(session.final()["positive", ""]["count"], truth["count"])
        self.assertGreater(session.final()["positive", ""]["sum"], truth["sum"])

    def test_children(self):
        program = self.start("forks")
        session = self.ask(program, "count t_work", "--follow-fork")
        family = program.ask("workers 50")["family"]
        self.assert_stopped_well(session)
        self.assertEqual({line["pid"]: line["value"] for line in session.lines if line["final"]},
                         {one["pid"]: one["work"] for one in family})

    def test_a_program_that_is_started(self):
        done = run(MDL_INJECT, "--run", "count t_work", "count t_timed as timed", "--format", "ndjson", "-o", self.folder / "lines", "--",
                   PROGRAMS / "timed", "1")
        self.assertEqual(done.returncode, 0, done.stderr)  # it has no input, and ends
        lines = (self.folder / "lines").read_text().splitlines()
        self.assertEqual({json.loads(line)["metric"] for line in lines}, {"count t_work", "timed"})


class Times(Queries):
    RATE = 0.001  # of the machine's counter

    def assert_between(self, value, pair):
        self.assertGreaterEqual(value, pair[0] * (1 - self.RATE))
        self.assertLessEqual(value, pair[1] * (1 + self.RATE))

    def test_time_and_cpu(self):
        """Between what the program measures inside of the function and outside of it. `self` has not the sleep."""
        program = self.start("timed")
        session = self.ask(program, "time t_timed", "cpu t_timed", "time t_timed, t_around as both", "--raw-times")
        for command in ("sleep 10", "spin 20", "nest 5"):
            truth = program.ask(command)
        values = {metric: value for (metric, _), value in self.values(session).items()}
        self.assert_between(values["time t_timed"], truth["wall"])
        self.assert_between(values["both"], truth["wall"])
        self.assert_between(values["cpu t_timed"], truth["cpu"])

    def test_self(self):
        """Not the time in what a function calls: t_timed sleeps in usleep, and t_around does nothing but to call it."""
        program = self.start("timed")
        session = self.ask(program, "self t_around", "self t_timed", "time t_timed", "self t_timed, t_around as both")
        truth = program.ask("sleep 20")["wall"]
        values = {metric: value for (metric, _), value in self.values(session).items()}
        self.assertLess(values["self t_around"], truth[0] / 10)
        self.assertLess(values["self t_timed"], truth[0] / 4)
        self.assertGreater(values["time t_timed"], 20_000_000)
        self.assertAlmostEqual(values["both"], values["self t_around"] + values["self t_timed"], delta=truth[0] / 10)

    def test_time_within(self):
        """t_timed is in t_around at each call of it; a call that is active at the attach is, too."""
        program = self.start("timed")
        program.ask("hold")
        session = self.ask(program, "time t_timed within /Code/timed/t_around", "time t_timed", "time t_around within /Code/timed/t_timed")
        program.ask("release")
        program.ask("sleep 10")
        values = {metric: value for (metric, _), value in self.values(session).items()}
        self.assertGreater(values["time t_timed"], 10_000_000)
        self.assertAlmostEqual(values["time t_timed within /Code/timed/t_around"] / values["time t_timed"], 1, delta=0.05)
        self.assertEqual(values["time t_around within /Code/timed/t_timed"], 0)

    def test_time_of_some_calls(self):
        """Of those that end in a function without a path, or that a condition is true of: what each of them took."""
        program = self.start("timed")
        within, none = "time t_timed within t_around", "time t_around within t_timed"
        known, slow, fast = "time t_timed within /Code/timed/t_around", "time t_timed if elapsed > 500000", "time t_timed if elapsed <= 500000"
        each, by = "time /Code/timed/t_* within t_around", "time t_timed, t_around by function"
        session = self.ask(program, "time t_timed", within, none, known, slow, fast, each, by, "time t_work within t_around within main")
        program.ask("sleep 10")
        program.ask("spin 10")
        program.ask("nest 5")
        values = self.values(session)
        whole = values["time t_timed", ""]
        self.assertGreater(whole, 20 * 900_000)
        self.assertAlmostEqual(values[within, ""] / whole, 1, delta=0.05)  # nest: only the outermost call
        self.assertAlmostEqual(values[within, ""] / values[known, "/Code/timed/t_around"], 1, delta=0.05)
        self.assertEqual((values[none, ""], values["time t_work within t_around within main", ""]), (0, 0))
        self.assertGreater(values[slow, ""], 20 * 900_000)
        both = values[slow, ""] + values[fast, ""]  # each level of the recursion
        self.assertAlmostEqual(values[by, "/Code/timed/t_timed"] / both, 1, delta=0.05)
        self.assertAlmostEqual(values[each, "/Code/timed/t_timed"] / both, 1, delta=0.05)
        self.assertGreaterEqual(both, whole)

    def test_by_thread_and_each_function(self):
        program = self.start("timed")
        session = self.inject(program.pid, "time /Code/timed/t_*", "self /Code/timed/t_*", "time t_work by thread", "--raw-times").wait_inserted()
        threads = program.ask("threads 3")["threads"]
        truth = program.ask("sleep 10")
        self.assert_stopped_well(session)
        times = {key: line["value"] for key, line in session.final().items()}
        self.assert_between(times["time /Code/timed/t_*", "/Code/timed/t_timed"], truth["wall"])
        self.assertLess(times["self /Code/timed/t_*", "/Code/timed/t_timed"], truth["wall"][0] / 2)
        by_thread = {focus: value for (metric, focus), value in times.items() if metric == "time t_work by thread"}
        those = {f"/Thread/{thread}" for thread in threads}
        self.assertLessEqual(those, set(by_thread))
        # The machine's counter may go in steps of 10 ns, so that a single short call takes 0.
        self.assertLessEqual({focus for focus, value in by_thread.items() if value}, those)
        self.assertGreater(sum(by_thread.values()), 0)

    def test_a_line_for_each_of_many_functions(self):
        """One of them has more calls than all would have room for, if each had as many."""
        program = self.start("wide")
        calls, own = "calls /Code/wide/w_*", "self /Code/wide/w_*"
        session = self.ask(program, calls, own)
        program.ask("go 3")
        values = self.values(session)
        whole = "/Code/wide/w_whole"
        self.assertEqual({focus for metric, focus in values if metric == own},
                         {focus for metric, focus in values if metric == calls})
        self.assertEqual(sorted(value for (metric, focus), value in values.items() if metric == calls and focus != whole), [6] * 1024)
        self.assertEqual(values[calls, whole], 3)
        self.assertGreater(values[own, whole], 0)


class Refused(Queries):
    def test_points_are_named(self):
        """Also of a query by function, and within another one: their lines would read as 0."""
        program = self.start("busy")
        before = self.remember(program.pid)
        program.ask("chain 1")  # there are lines
        for query in ("calls /Code/busy/b_* by function", "calls /Code/busy/b_* within b_chain"):
            for words, is_named in ((["--verbose"], self.assertRegex), ([], self.assertNotRegex)):
                with self.subTest(query=query, words=words):
                    session = self.inject(program.pid, query, *words).wait_inserted()
                    self.assert_stopped_well(session)
                    is_named(session.errors, r"refused: /Code/busy/b_odd entry at 0x\w+: the entry is the head of a loop")
        self.assert_untouched(program.pid, before)


class Redis(Queries):
    def test_a_table_of_all_functions_is_short(self):
        """The largest of thousands of lines; what cannot be measured is one warning, unless all of it is asked for."""
        server = self.start_redis()
        query = "calls /Code/redis-server/*"
        done = run(MDL_INJECT, server.pid, query, "--format", "table", "--top", "5", "-d", "0.5", "-i", "10")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(done.stderr.count("cannot be measured"), 1)
        lines = [line for line in done.stdout.splitlines() if "/Code/" in line and "final" in line]
        self.assertEqual(len(lines), 5, done.stdout)
        totals = [int(line[line.rindex("/"):].split()[1].replace(",", "")) for line in lines]
        self.assertEqual(totals, sorted(totals, reverse=True))
        self.assertGreater(totals[-1], 0)
        self.assertRegex(done.stdout, r"\([\d,]+ more, [\d,]+ with 0\)\n")
        verbose = run(MDL_INJECT, server.pid, query, "--format", "table", "--verbose", "-d", "0")
        if counted := re.search(r"warning: (\d+) of \d+ lines cannot be measured", done.stderr):
            self.assertEqual(verbose.stderr.count("@/Code/redis-server/"), int(counted[1]))

    def test_against_the_servers_statistics(self):
        server = self.start_redis()
        before = self.remember(server.pid)
        with server.connect() as client:
            for i in range(10):
                client.command("SET", f"k{i}", "x" * 100)
            first = client.info("stats")
            session = self.ask(server, "count call as commands", "count lookupKeyReadOrReply within getCommand", "count getCommand",
                               "sum long($return) at /Code/libc.so.6/write.return if long($return) > 0 as written",
                               "calls /Code/redis-server/*Command", "count setCommand, getCommand by thread as both")
            for i in range(500):
                client.command("GET", f"k{i % 20}")
            for i in range(100):
                client.command("SET", f"k{i}", "y" * 10)
            self.assert_stopped_well(session)
            last = client.info("stats")
        final = session.final()
        processed = int(last["total_commands_processed"]) - int(first["total_commands_processed"]) - 1
        self.assertEqual(processed, 600)
        self.assertEqual(final["commands", ""]["value"], processed)
        self.assertEqual(final["count getCommand", ""]["value"], 500)
        self.assertEqual(final["count lookupKeyReadOrReply within getCommand", ""]["value"], 500)
        sent = int(last["total_net_output_bytes"]) - int(first["total_net_output_bytes"]) - int(first["reply_bytes"])
        self.assertEqual(final["written", ""]["value"], sent)
        each = {focus.rsplit("/", 1)[1]: line["value"] for (metric, focus), line in final.items() if metric.startswith("calls")}
        self.assertEqual((each["getCommand"], each["setCommand"], each["lpushCommand"]), (500, 100, 0))
        self.assertEqual(sum(line["value"] for (metric, _), line in final.items() if metric == "both"), 600)
        self.assert_untouched(server.pid, before)


class Bytes(Queries):
    # Writes and reads two files, by several functions and threads, once it is told to.
    PROGRAM = '''
import os, sys, threading
first, second = open(sys.argv[1], "wb", buffering=0), open(sys.argv[2], "w+b")
print("ready", flush=True)
sys.stdin.readline()
def write(size):
    for _ in range(1000): first.write(bytes(size))
threads = [threading.Thread(target=write, args=(size,)) for size in (1, 2, 3, 4)]
for one in threads: one.start()
for one in threads: one.join()
second.write(bytes(100000))
second.flush()
os.pwrite(second.fileno(), bytes(10), 5)
os.writev(second.fileno(), [bytes(3), bytes(4)])
second.seek(0)
second.read()
os.sendfile(first.fileno(), second.fileno(), 0, 1000)
try: os.write(first.fileno() + 100, bytes(9))
except OSError: pass
print("done", flush=True)
sys.stdin.readline()
'''
    WRITTEN = {"first": 10 * 1000 + 1000, "second": 100000 + 10 + 7}

    def test_by_file(self):
        """What each descriptor was written and read, whichever function did it; one that fails has moved nothing."""
        files = [str(self.folder / name) for name in self.WRITTEN]
        with subprocess.Popen([sys.executable, "-c", self.PROGRAM, *files], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as program:
            self.addCleanup(program.kill)
            self.assertEqual(program.stdout.readline(), "ready\n")
            session = self.ask(program, "bytes by file", "bytes write, writev, pwrite, sendfile by file as written",
                               "time write by fd($arg[0])", "time write")
            program.stdin.write("go\n")
            program.stdin.flush()
            self.assertEqual(program.stdout.readline(), "done\n")
            self.assert_stopped_well(session)
            program.stdin.close()
        values = collections.defaultdict(dict)
        for line in session.lines:
            if line["final"]:
                name = (line["focus"] or line.get("key", ["all"])[0]).rpartition("/")[2]
                values[line["metric"]][name] = line["value"]
        moved = dict(self.WRITTEN, second=self.WRITTEN["second"] + 100007)
        self.assertEqual({name: values["bytes by file"][name] for name in moved}, moved)
        self.assertEqual({name: values["written"][name] for name in moved}, self.WRITTEN)
        times = values["time write by fd($arg[0])"]
        self.assertTrue({"first", "second"} <= set(times), times)
        self.assertAlmostEqual(sum(times.values()) / values["time write"]["all"], 1, delta=0.3)  # there is no recursion

    def test_those_that_there_are(self):
        """A static program has few functions that read and write, and the query names none; one that does needs all."""
        program = self.start("answers-static")
        session = self.ask(program, "bytes by file", "bytes read by file as taken", "count main")
        command = "fail 10"
        program.ask(command)
        self.assert_stopped_well(session)
        values = collections.defaultdict(list)
        for line in session.lines:
            if line["final"]:
                values[line["metric"]].append(line["value"])
        taken = len(command)  # it reads single bytes, of which it waited for the first one before that was measured
        self.assertEqual(values["taken"], [taken])
        self.assertEqual(len(values["bytes by file"]), 2, values)
        self.assertIn(taken, values["bytes by file"])
        refused = run(MDL_INJECT, program.pid, "bytes read, preadv by file", "-d", "0.1")
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("has no preadv", refused.stderr)


class Refusals(Queries):
    """Nothing is measured where a part of the question has no answer."""

    def test_messages(self):
        program = self.start("timed")
        for query, texts in {
            "count t_timde": ["`count t_timde` cannot be measured", "no t_timde; did you mean `t_timed`"],
            "count t_work, t_wrok": ["no t_wrok; did you mean `t_work`"],
            "count t_work within t_arround": ["no t_arround; did you mean `t_around`"],
            "count nothing_is_called_like_it": ["what a compiler has put into its callers is no function any more"],
            "count /Code/timde": ["no timde"],
            "count /Code/libc/malloc": ["it has no object `libc`; did you mean `libc.so.6`?"],
            "count /Code/libc*/mallok": ["no object that fits has a function `mallok`; did you mean `malloc`,"],
            "count /Code/libc*/mallok by caller": ["no libc*/mallok; did you mean `malloc`,"],
            "count /Code/lbic*/malloc": ["no object of the process fits the pattern; it has `timed`"],
            "count /Code/lbic*/malloc by caller": ["no object fits `lbic*`"],
            "time t_work within /Code/timed/t_arround": ["did you mean `t_around`"],
            "min t_work": ["query:1:1: error:", "min VALUE at FUNCTION"],
            "count t_work if str($arg[0]) == 1": ["query:1:17: error:", "hint: "],
            "count t_work.entry if elapsed > 5": ["query:1:23: error: 'elapsed' does not go with '.entry'"],
            "time t_*": ["query:1:6: error: 't_*' is a pattern", "`time /Code/*/t_*`"],
            "time /Code/timed within t_around": ["query:1:25: error: 'within'", "/Code/OBJECT/F"],
            "count t_work wihtin t_around": ["query:1:14: error: expected", "did you mean 'within'?"],
            "cuont t_work": ["no query begins with 'cuont'", "did you mean 'count'?"],
        }.items():
            with self.subTest(query=query):
                said = self.refused(program, query)
                for text in texts:
                    self.assertIn(text, said)

    def test_a_wrong_one_stops_all(self):
        program = self.start("timed")
        said = self.refused(program, "count t_work", "count t_timed if", "count nothing_like_it")
        self.assertIn("query 2:1:", said)

    def test_a_name_of_an_interpreted_language(self):
        """Names of the C library that are near are not what is meant."""
        python = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
        self.addCleanup(python.communicate)
        soon(lambda: "python" in run(MDL_INJECT, python.pid).stdout, "python to run")
        done = run(MDL_INJECT, python.pid, 'count "shop.sell"', "-d", "0")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"has no shop\.sell; what is written in Python is run by \S*python")

    def test_what_does_not_go_together(self):
        program = self.start("timed")
        plan = self.compile_text("")
        for words, text in {
            ("count t_work", plan): "is compiled already",
            ("one.plan", "two.plan"): "a second plan",
            ("count t_work", "--commands", "x"): "--commands does not go with queries",
        }.items():
            self.assertIn(text, self.refused(program, *words, status=2))
        self.assertIn("it is a query, and needs one in front of it", run(MDL_INJECT, "count t_work", "-d", "0").stderr)

    def test_reads_and_calls(self):
        """Who types an address agrees to read it; a call may change what the program does."""
        program = self.start("outside")
        session = self.ask(program, "sum readAddress($arg[0]) at t_address")
        self.assert_stopped_well(session)
        said = self.refused(program, "sum t_callee(1, 2, 3, 4, 5, 6) at t_call")
        self.assertIn("allow that with --allow-calls", said)
        key, public = self.folder / "key.pem", self.folder / "public.pem"
        run("openssl", "genpkey", "-algorithm", "ed25519", "-out", key)
        run("openssl", "pkey", "-in", key, "-pubout", "-out", public)
        self.assertIn("the query is not signed", self.refused(program, "count t_call", "--require-signed", public, status=4))

    def test_no_compiler(self):
        """Without mdlc beside it, or on PATH."""
        program = self.start("timed")
        tool = self.folder / "bin" / "mdl-inject"
        tool.parent.mkdir()
        shutil.copy(MDL_INJECT, tool)
        done = run(tool, program.pid, "count t_work", "-d", "0", env={"PATH": ".:/nowhere"}, cwd=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("queries and sources are compiled by mdlc, and there is none", done.stderr)
        done = run(tool, program.pid, "count t_work", "-d", "0", env={"PATH": f"/nowhere:{pathlib.Path(MDLC).parent}"})
        self.assertEqual(done.returncode, 0, done.stderr)


class Processes(Queries):
    """-p NAME."""

    def test_by_name(self):
        name = f"only-{os.getpid()}"
        shutil.copy(PROGRAMS / "timed", self.folder / name)
        command = [self.folder / name, "120"]
        program = self.start("timed", command=command)
        done = run(MDL_INJECT, "-p", name, "count t_work", "-d", "0", "--format", "ndjson")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout.splitlines()[0])["pid"], program.pid)
        self.assertEqual(run(MDL_INJECT, "-p", program.pid, "count t_work", "-d", "0").returncode, 0)
        self.assertEqual(run(MDL_INJECT, "--status", "-p", name).returncode, run(MDL_INJECT, "--status", program.pid).returncode)
        other = self.start("timed", command=command)
        done = run(MDL_INJECT, "-p", name, "count t_work", "-d", "0")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf"2 processes are called {name}; name one by its id, or .*--every: {program.pid} \(.*\), {other.pid} \(")
        done = run(MDL_INJECT, "-p", name[:-1] + "x", "count t_work", "-d", "0")
        self.assertRegex(done.stderr, rf"no process is called {name[:-1]}x; did you mean `{name}`")


class Catalogue(Queries):
    """What can be asked."""

    def test_a_process_alone(self):
        program = self.start("timed")
        before = self.remember(program.pid)
        done = run(MDL_INJECT, program.pid)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for text in (f"Process {program.pid}: timed.", "/Code/timed  ", "/Code/libc.so.6  ", "code.plan (2 of 2)", "memory.plan (3 of 3)"):
            self.assertIn(text, done.stdout)
        for absent in ("nginx.plan", "memcached.plan"):
            self.assertNotIn(absent, done.stdout)
        # Each line that it proposes can be measured.
        proposed = re.findall(rf"^  mdl-inject ({program.pid} '.*)$", done.stdout, re.M)
        self.assertEqual(len(proposed), 3)
        for words in proposed:
            asked = run(MDL_INJECT, *shlex.split(words), "-d", "0")
            self.assertEqual(asked.returncode, 0, asked.stderr)
        self.assert_untouched(program.pid, before)

    def test_a_program_that_is_all_library(self):
        program = self.start("python_in_library", command=[PROGRAMS / "python_in_library", "-c",
                                                           "print('{\"event\":\"ready\"}', flush=True); input()"])
        done = run(MDL_INJECT, program.pid)
        self.assertRegex(done.stdout, r"'calls /Code/libpython3\S*/\*'")

    def test_completion_of_a_query(self):
        """In bash: its verb, and the functions of the process, however that is named."""
        program = self.start("timed")
        script = SOURCE / "scripts" / "completion" / "mdl-inject.bash"

        def completed(*words):
            text = f'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mdl_inject; printf "%s\\n" "${{COMPREPLY[@]}}"'
            done = run("bash", "-c", text, script, MDL_INJECT, *words)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return done.stdout.splitlines()
        self.assertEqual(completed(program.pid, "'la"), ["latency ", "latency /Code/"])
        self.assertEqual(completed(program.pid, "'m"), ["max ", "min "])
        self.assertEqual(completed(program.pid, "'time t_ar"), ["time t_around"])
        self.assertEqual(completed("-p", program.pid, '"count malloc, t_timed if 1 within t_ar'),
                         ["count malloc, t_timed if 1 within t_around"])
        self.assertEqual(completed("-p", "nobody-has-this-name", "'time t_ar"), [""])
        self.assertEqual(completed(program.pid, "mem"), ["memcached.plan", "memory.plan", "memory_live.plan"])

    def test_rows_for_scripts(self):
        """What is said of a process for people, as objects: before, meanwhile and behind."""
        program = self.start("counted-gcc-O2")
        before = self.remember(program.pid)

        def rows(*words):
            one, lines = (run(MDL_INJECT, *words, "--format", form) for form in ("json", "ndjson"))
            self.assertEqual((one.returncode, lines.returncode), (0, 0), one.stderr + lines.stderr)
            self.assertEqual(json.loads(one.stdout), [json.loads(line) for line in lines.stdout.splitlines()])
            return json.loads(one.stdout)

        queries = ["count t_fib", "count t_ping by caller"]
        (dry,) = rows(program.pid, *queries, "--dry-run")
        self.assertEqual((dry["pid"], dry["points"], dry["functions"], dry["patched"], dry["refused"]),
                         (program.pid, 2, 2, 2, []))
        self.assertEqual([one["metric"] for one in dry["requests"]], queries)
        self.assertEqual(rows("--status", program.pid), [{"pid": program.pid, "instrumented": False, "mappings": 0}])
        session = self.ask(program, *queries)
        entered, _ = Counts.counts(program, program.ask("go 30"))
        (status,) = rows("--status", program.pid)
        self.assertEqual((status["instrumented"], status["runs"], status["points"]), (True, True, 2))
        self.assertEqual([(one["metric"], one["value"]) for one in status["requests"]],
                         [(queries[0], entered["t_fib"]), (queries[1], None)])
        self.assert_stopped_well(session)
        self.assert_untouched(program.pid, before)
        metrics = rows("--metrics")
        self.assertIn(("code.plan", "procedure_calls"), {(one["plan"], one["metric"]) for one in metrics})
        self.assertLess(len(rows("--metrics", program.pid)), len(metrics))

    def test_the_standard_metrics(self):
        program = self.start("timed")
        everything, own = run(MDL_INJECT, "--metrics"), run(MDL_INJECT, "--metrics", program.pid)
        self.assertEqual((everything.returncode, own.returncode), (0, 0), everything.stderr + own.stderr)
        names = [set(re.findall(r"^  (\w+) ", done.stdout, re.M)) for done in (everything, own)]
        self.assertLess(names[1], names[0])
        for name in ("redis_commands", "procedure_calls", "malloc_live_bytes"):
            self.assertIn(name, names[0])
        self.assertEqual({"redis_commands", "procedure_calls"} & names[1], {"procedure_calls"})
        self.assertIn("memory_live.plan (needs --allow-calls)", everything.stdout)
        # What it lists is what the plan measures.
        measured = self.inject(program.pid, "memory.plan").wait_inserted()
        self.assert_stopped_well(measured)
        listed = set(re.findall(r"^  (\w+) ", own.stdout.split("memory.plan\n")[1].split(".plan")[0], re.M))
        self.assertEqual({metric for metric, _ in measured.final()}, listed)


class Sources(Queries):
    MINE = """
resourceList worked is procedure { items { "t_work", "t_absent" }; flavor { unix }; }
metric works { name "Works"; units Calls; aggregateOperator sum; style EventCounter; flavor { unix };
  base is counter { foreach f in worked { append preInsn f.entry (* works++; *) } } }
metric absent { name "Absent"; units Calls; aggregateOperator sum; style EventCounter; flavor { unix };
  base is counter { foreach f in lost { append preInsn f.entry (* absent++; *) } } }
resourceList lost is procedure { items { "t_absent" }; flavor { unix }; }
"""

    def test_sources_and_queries_together(self):
        """All of a source that the process can have, and all that is typed."""
        program = self.start("timed")
        source = self.folder / "mine.mdl"
        source.write_text(self.MINE)
        session = self.ask(program, source, "count t_timed", "count t_work as again")
        program.ask("threads 4")
        self.assertEqual(self.values(session), {("works", ""): 10, ("count t_timed", ""): 0, ("again", ""): 10})
        session = self.ask(program, source, "-m", "works@/Thread/*", "count t_work as all")
        program.ask("threads 3")
        self.assert_stopped_well(session)
        self.assertEqual(sum(line["value"] for (metric, _), line in session.final().items() if metric == "works"), 6)
        self.assertEqual(session.final()["all", ""]["value"], 6)

    def test_the_page_shows_what_is_shown(self):
        """The block of docs/queries.md behind `$ mdl-inject --show-mdl`."""
        page = (SOURCE / "docs/queries.md").read_text()
        command, block = re.search(r"^    \$ mdl-inject (--show-mdl .*)\n((?:    .*\n|\n)+)", page, re.M).groups()
        self.assertEqual(run(MDL_INJECT, *shlex.split(command)).stdout, textwrap.dedent(block).rstrip() + "\n")

    def test_what_is_shown_is_what_is_measured(self):
        """The MDL of a query compiles by itself to the same plan, and measures the same."""
        queries = ("count t_timed if $arg[0] == 1 within t_around", "calls /Code/timed/t_*", "time t_work by thread", "hist $arg[0] at t_work")
        shown = run(MDL_INJECT, "--show-mdl", *queries)
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        source = self.folder / "kept.mdl"
        source.write_text(shown.stdout)
        kept = self.compile(source)
        direct = self.folder / "direct.bin"
        self.assertEqual(run(MDLC, *(f"--query={query}" for query in queries), "-o", direct).returncode, 0)
        self.assertEqual(kept.read_bytes(), direct.read_bytes())
        program = self.start("timed")
        session = self.inject(program.pid, kept, "--raw-times").wait_inserted()
        threads = program.ask("threads 5")["threads"]
        self.assert_stopped_well(session)
        by_thread = {focus: line["value"] for (metric, focus), line in session.final().items() if metric == "time_t_work" and line["value"]}
        self.assertEqual(set(by_thread), {f"/Thread/{thread}" for thread in threads})
        self.assertEqual(session.final()["calls_timed_t", "/Code/timed/t_work"]["value"], 15)


if __name__ == "__main__":
    unittest.main(verbosity=2)
