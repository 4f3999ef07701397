"""Metrics by key: `keyed by EXPR`, `count F by EXPR`: a line for each key, each what the program counted for it."""

import collections
import signal
import subprocess
import unittest

from harness import MDL_INJECT, LiveTest, run

ALL = "count t_key as all"
KEY, SUM, RESULT = "count t_key by $arg[0]", "sum $arg[1] at t_key by $arg[0]", "count t_result by int($return)"


def grown(before, now):
    """{key: how much it grew}, of the program's answers."""
    return {key: value - before.get(key, 0) for key, value in now.items() if value != before.get(key, 0)}


class Keyed(LiveTest):
    def begin(self, *words, **named):
        self.program = self.start("keyed")
        self.before = self.remember(self.program.pid)
        # A metric by key has no line before its first key: another one says that all is inserted.
        self.session = self.inject(self.program.pid, *words, ALL, **named).wait_inserted()

    def values(self, metric, pid=None):
        return self.session.by_key(metric, pid or self.program.pid)

    def finish(self, last, **metrics):
        """`metrics`: of which part of the answers each is."""
        self.assert_stopped_well(self.session)
        self.assertEqual({(line["refused"], line.get("anomalies", 0)) for line in self.session.lines}, {(0, 0)})
        for metric, part in ((KEY, "counts"), (SUM, "sums"), (RESULT, "results")):
            truth = grown(self.program.ready[part], last[part])
            values = self.values(metric)
            if metric == SUM:  # what adds up to 0 has a line, and did not grow
                values = {key: value for key, value in values.items() if value}
            self.assertEqual(values, truth, metric)
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)

    def test_status_behind_a_killed_session(self):
        """The values are with their keys: no number that would not be their sum."""
        self.begin(KEY)
        self.program.ask("go 30")
        self.session.kill()
        status = run(MDL_INJECT, "--status", self.program.pid)
        self.assertEqual(status.returncode, 0, status.stderr)
        self.assertRegex(status.stdout, r"(?m)^  count t_key by \$arg\[0\]: a value for each key$")
        self.assertRegex(status.stdout, r"(?m)^  all = [1-9]\d* Calls$")
        self.assertEqual(run(MDL_INJECT, "--remove", self.program.pid).returncode, 0)
        self.assert_untouched(self.program.pid, self.before)
        self.assertEqual(self.program.end(), 0)

    def test_counts_and_sums(self):
        self.begin(KEY, SUM, RESULT)
        last = self.program.ask("go 3000")
        self.assertGreater(len(last["counts"]), 300)
        self.finish(last)

    def test_exceptions_and_signals(self):
        self.begin(KEY, SUM, RESULT)
        self.program.ask("throw 1000")
        self.finish(self.program.ask("raise 1000"))

    def test_signals_at_any_instruction(self):
        self.begin(KEY, SUM, RESULT)
        self.finish(self.program.ask("storm 20000"))

    def test_threads_that_meet_at_one_key(self):
        self.begin(KEY, SUM, RESULT)
        self.program.ask("short 300")
        self.finish(self.program.ask("one 50000"))

    def test_more_keys_than_there_is_room_for(self):
        self.begin(KEY, SUM, RESULT, "--max-keys", "100")
        self.program.ask("many 150")
        self.assert_stopped_well(self.session)
        self.assertEqual(self.values(KEY), {**{str(i * 7919): 1 for i in range(100)}, "?": 50})

    def test_samples_while_it_runs(self):
        """No sample has less than the one before, or more than in the end."""
        self.begin(KEY, interval="0.02")
        for _ in range(10):
            self.program.ask("go 3000")
        self.assert_stopped_well(self.session)
        last, final = {}, self.values(KEY)
        for line in self.session.lines:
            if line["metric"] == "all":
                continue
            key = line["key"][0]
            self.assertLessEqual(last.get(key, 0), line["value"])
            self.assertLessEqual(line["value"], final[key])
            last[key] = line["value"]
        self.assertGreater(len({line["time_ns"] for line in self.session.lines}), 3)

    def test_conditions_and_within(self):
        text = """
resourceList keys is procedure { items { "t_key" }; flavor { unix }; }
metric outermost {
  name "Outermost"; units Calls; aggregateOperator sum; style EventCounter; flavor { unix };
  flag inside;
  base is counter keyed by $arg[0] & 1 {
    foreach f in keys {
      append preInsn f.entry (* if (!inside) outermost += 2; inside += 1; *)
      prepend preInsn f.return (* inside -= 1; *)
    }
  }
}
"""
        source = self.folder / "outermost.mdl"
        source.write_text(text)
        self.begin(str(source))
        before = self.program.ready
        last = self.program.ask("one 1000")
        self.program.ask("throw 30")  # flags are repaired, and the next calls are outermost ones again
        last = grown(before["counts"], last["counts"])
        self.assert_stopped_well(self.session)
        values = self.values("outermost")
        self.assertEqual(last, {"7": 8000})
        self.assertEqual(sum(values.values()), 2 * (8000 + 8 * 30))

    def test_within_in_a_query(self):
        within, alone = "count t_key within t_key by $arg[0] as inner", "count t_result within t_key by $arg[0] as none"
        self.begin(within, alone, KEY)
        last = self.program.ask("go 300")
        self.assert_stopped_well(self.session)
        self.assertEqual(self.values("none"), {})
        self.assertIn("note: `none` has no line, because no call was seen", self.session.errors)
        truth = grown(self.program.ready["counts"], last["counts"])
        self.assertEqual(self.values(KEY), truth)
        self.assertEqual(self.values("inner"), truth)  # a call is within itself

    def test_by_thread_as_well(self):
        self.begin("count t_key by $arg[0], thread as both", KEY)
        last = self.program.ask("go 300")
        self.assert_stopped_well(self.session)
        truth = grown(self.program.ready["counts"], last["counts"])
        sums = {}
        for line in self.session.lines:
            if line["final"] and line["metric"] == "both":
                self.assertRegex(line["focus"], r"^/Thread/\d+$")
                sums[line["key"][0]] = sums.get(line["key"][0], 0) + line["value"]
        self.assertEqual(sums, truth)
        self.assertEqual(self.values(KEY), truth)

    def test_followed_forks(self):
        """A child begins at 0, also for keys that its parent has met."""
        self.begin(KEY, "--follow-fork")
        self.program.ask("go 200")
        child = self.program.ask("fork 200", event="child")
        last = self.program.answer("done")
        self.assert_stopped_well(self.session)
        self.assertEqual(self.values(KEY), grown(self.program.ready["counts"], last["counts"]))
        own = {key: value for key, value in self.values(KEY, child["pid"]).items() if value}
        self.assertEqual(own, child["counts"])
        self.assert_untouched(self.program.pid, self.before)

    def check_observed(self, *commands):
        """A distribution, a least, a largest and a mean value for each key, against sums and the values of all keys."""
        kinds = {kind: f"{kind} $arg[1] at t_key by $arg[0]" for kind in ("hist", "min", "max", "avg")}
        whole = {kind: f"{kind} $arg[1] at t_key as whole_{kind}" for kind in kinds}
        self.begin(*kinds.values(), *whole.values(), "min int($return) at t_result by int($return)")
        for command in commands:
            last = self.program.ask(command)
        self.assert_stopped_well(self.session)
        self.assertEqual({(line["refused"], line.get("anomalies", 0)) for line in self.session.lines}, {(0, 0)})
        counts, sums = (grown(self.program.ready[part], last[part]) for part in ("counts", "sums"))
        lines = {kind: {line["key"][0]: line for line in self.session.lines if line["final"] and line["metric"] == text}
                 for kind, text in kinds.items()}
        whole = {kind: self.session.final()["whole_" + kind, ""] for kind in whole}
        for kind in kinds:
            self.assertEqual({key: line["count"] for key, line in lines[kind].items()}, counts, kind)
            self.assertEqual(whole[kind]["count"], sum(counts.values()))
        self.assertEqual({key: line["sum"] for key, line in lines["hist"].items() if line["sum"]}, sums)
        for key, line in lines["avg"].items():
            self.assertAlmostEqual(line["value"], sums.get(key, 0) / counts[key])
        self.assertEqual(min(line["value"] for line in lines["min"].values()), whole["min"]["value"])
        self.assertEqual(max(line["value"] for line in lines["max"].values()), whole["max"]["value"])
        buckets = {}
        for line in lines["hist"].values():
            self.assertEqual(sum(count for _, count in line["buckets"]), line["count"])
            self.assertLessEqual(line["p50"], line["p99"])
            for upper, count in line["buckets"]:
                buckets[upper] = buckets.get(upper, 0) + count
        self.assertEqual(sorted(buckets.items()), [tuple(one) for one in whole["hist"]["buckets"]])
        for key in lines["max"]:
            self.assertLessEqual(lines["min"][key]["value"], lines["avg"][key]["value"])
            self.assertLessEqual(lines["avg"][key]["value"], lines["max"][key]["value"])
        for key, value in self.values("min int($return) at t_result by int($return)").items():
            self.assertEqual(int(key), value)
        self.assert_untouched(self.program.pid, self.before)

    def test_observed(self):
        self.check_observed("go 500", "short 100", "throw 300", "raise 300", "one 5000")

    def test_observed_with_signals_at_any_instruction(self):
        self.check_observed("storm 10000")

    def test_observed_in_a_child(self):
        texts = "hist $arg[1] at t_key by $arg[0]", "avg $arg[1] at t_key by $arg[0]"
        self.begin(*texts, "--follow-fork")
        self.program.ask("go 100")
        child = self.program.ask("fork 100", event="child")
        last = self.program.answer("done")
        self.assert_stopped_well(self.session)
        for pid, counts in ((self.program.pid, grown(self.program.ready["counts"], last["counts"])),
                            (child["pid"], child["counts"])):
            for text in texts:
                own = {line["key"][0]: line["count"] for line in self.session.lines
                       if line["final"] and line["metric"] == text and line["pid"] == pid}
                self.assertEqual({key: count for key, count in own.items() if count}, counts)

    def test_observed_by_thread_and_without_room(self):
        self.begin("avg $arg[1] at t_key by $arg[0], thread as threads", "hist $arg[1] at t_key by $arg[0] & 3 as sizes",
                   "max $arg[1] at t_key by $arg[0] as most", "--max-keys", "20")
        last = self.program.ask("go 300")
        self.assert_stopped_well(self.session)
        count = sum(grown(self.program.ready["counts"], last["counts"]).values())
        for name in ("threads", "sizes", "most"):
            lines = [line for line in self.session.lines if line["final"] and line["metric"] == name]
            self.assertEqual(sum(line["count"] for line in lines), count, name)
            self.assertEqual([line["key"] for line in lines].count(["?"]), 1)
            if name == "sizes":
                for line in lines:
                    self.assertEqual(sum(many for _, many in line["buckets"]), line["count"])

    def test_callers(self):
        """Each place of a call has a value, by the function that it is in; at entries and at returns."""
        queries = "count t_called by caller", "count t_called.return by caller", "sum int($return) at t_result by caller"
        self.begin(*queries)
        self.program.ask("named 200")
        last = self.program.ask("go 10")
        self.assert_stopped_well(self.session)
        for query in queries[:2]:
            values = self.values(query)
            self.assertEqual(sum(values.values()), 1200, values)
            of = sorted((key.partition("+0x")[0], value) for key, value in values.items())
            self.assertEqual(of, [("t_from_a", 200), ("t_from_b", 200), ("t_from_b", 200), ("t_inner", 600)])
        self.assertEqual(sum(self.values(queries[2]).values()),
                         sum(int(key) * value for key, value in last["results"].items()))
        self.assert_untouched(self.program.pid, self.before)

    def test_a_focus_chooses_functions(self):
        """Of a metric by function: its lines, and its code stands nowhere else."""
        query = "calls /Code/keyed/* by caller"
        self.program = self.start("keyed")
        self.before = self.remember(self.program.pid)
        self.session = self.inject(self.program.pid, query, "latency t_* by function", "-f", "/Code/keyed/t_called")
        self.session.said("inserted 2 points")
        self.program.ask("named 200")
        self.assert_stopped_well(self.session)
        final = [line for line in self.session.lines if line["final"]]
        self.assertEqual({line["focus"] for line in final}, {"/Code/keyed/t_called"})
        self.assertEqual(sum(line["value"] for line in final if line["metric"] == query), 1200)
        self.assertEqual([line["count"] for line in final if line["metric"] != query], [1200])
        self.assert_untouched(self.program.pid, self.before)

    def test_several_keys(self):
        """Each combination; with the caller, a text, a descriptor or a thread among them."""
        pair, three = "count t_key by $arg[0], $arg[1] & 1", "sum $arg[1] at t_key by $arg[1] & 1, caller, $arg[0]"
        files, least = "count t_file by int($arg[0]) & 1, fd($arg[0])", "max $arg[1] at t_key by $arg[0], $arg[1] & 1"
        self.begin(pair, three, files, least, "count t_key by $arg[0], $arg[1] & 1, thread as threads")
        self.program.ask("storm 5000")
        self.program.ask("raise 500")
        last = self.program.ask("named 300")
        self.assert_stopped_well(self.session)
        lines = {metric: {tuple(line["key"]): line["value"] for line in self.session.lines
                          if line["final"] and line["metric"] == metric} for metric in (pair, three, files, least)}
        counts, sums, totals = collections.Counter(), collections.Counter(), collections.Counter()
        for (key, odd), value in lines[pair].items():
            self.assertIn(odd, "01")
            counts[key] += value
            self.assertEqual(lines[least][key, odd] & 1, int(odd))
        self.assertEqual(counts, last["counts"])
        for (odd, caller, key), value in lines[three].items():
            self.assertIn("+0x", caller)
            sums[key] += value
        self.assertEqual({key: value for key, value in sums.items() if value}, {key: value for key, value in last["sums"].items() if value})
        self.assertEqual(lines[files], {("0", "40 /dev/null"): 100, ("1", "41 /dev/zero"): 100, ("0", "42"): 100})
        for line in self.session.lines:
            if line["final"] and line["metric"] == "threads":
                totals[tuple(line["key"])] += line["value"]
        self.assertEqual(totals, lines[pair])
        self.assert_untouched(self.program.pid, self.before)

    def test_a_line_for_each_function(self):
        """Of each function and key, as the program and a request for each function count; what was not called has none."""
        keyed, within, plain = "calls /Code/keyed/t_* by $arg[0]", "calls /Code/keyed/* within t_from_b", "calls /Code/keyed/t_*"
        listed, pattern = "count t_key, t_result by function", "count t_*"
        threads, callers = "calls /Code/keyed/t_r* by thread, $arg[0]", "count t_call*, t_inner within t_from* by caller"
        self.begin(keyed, within, plain, listed, pattern, threads, callers, "max $arg[1] at t_k* if $arg[1] < 500")
        self.program.ask("storm 5000")
        self.program.ask("throw 100")
        last = self.program.ask("named 300")
        self.assert_stopped_well(self.session)
        values = collections.defaultdict(collections.Counter)
        for line in self.session.lines:
            if line["final"]:
                values[line["metric"]][line["focus"], *line.get("key", [])] += line["value"]
        truth = grown(self.program.ready["counts"], last["counts"])
        path = "/Code/keyed/t_key"
        self.assertEqual({key[1]: value for key, value in values[keyed].items() if key[0] == path}, truth)
        called = {key: value for key, value in values[plain].items() if value}
        sums = collections.Counter()
        for (function, _), value in values[keyed].items():
            sums[(function,)] += value
        self.assertEqual(+sums, called)  # a key that two threads met at once may have a total that stays at 0
        self.assertEqual(+values[pattern], called)
        results = sum(grown(self.program.ready["results"], last["results"]).values())
        self.assertEqual(values[listed], {(path,): sum(truth.values()), ("/Code/keyed/t_result",): results})
        for focus, _ in values[threads]:
            self.assertRegex(focus, r"^/Code/keyed/t_result,/Thread/\d+$")
        self.assertEqual(sum(values[threads].values()), results)
        called, inner = values[plain]["/Code/keyed/t_called",], values[plain]["/Code/keyed/t_inner",]
        own = {focus: value for (focus,), value in values[within].items()}
        self.assertEqual(own, {"/Code/keyed/t_from_b": values[plain]["/Code/keyed/t_from_b",],
                               "/Code/keyed/t_called": called - values[plain]["/Code/keyed/t_from_a",], "/Code/keyed/t_inner": inner})
        self.assertEqual({focus for focus, _ in values[callers]}, {"/Code/keyed/t_called", "/Code/keyed/t_inner"})
        self.assertEqual(sum(values[callers].values()), called + inner)
        self.assertLess(values["max $arg[1] at t_k* if $arg[1] < 500"][path,], 500)
        self.assert_untouched(self.program.pid, self.before)

    def test_addresses_and_descriptors(self):
        at, file = "sum 3 at t_at by symbol($arg[0])", "count t_file by fd($arg[0])"
        self.begin(at, file, "count t_at by $arg[0] as numbers")
        self.program.ask("named 300")
        self.assert_stopped_well(self.session)
        self.assertEqual(self.values(at), {"t_first": 900, "t_pairs+0x10": 1800})
        self.assertEqual(self.values(file), {"40 /dev/null": 100, "41 /dev/zero": 100, "42": 100})
        self.assertEqual(sorted(self.values("numbers").values()), [300, 600])

    def test_places_in_memory(self):
        """Each is a resource, of which a focus chooses."""
        self.program = self.start("keyed")
        self.before = self.remember(self.program.pid)
        query = "sum 3 at t_at by memory($arg[0])"
        truth = {"/Memory/t_first": 900, "/Memory/t_pairs+0x10": 1800}
        for focus in ("", "t_pairs+0x10", "t_first", "t_*", "t_pairs", "t_f*"):
            with self.subTest(focus):
                words = ["-f", f"/Memory/{focus}"] if focus else []
                session = self.inject(self.program.pid, query, *words)
                session.said("inserted 1 points")
                self.program.ask("named 300")
                self.assert_stopped_well(session)
                lines = {line["focus"]: line["value"] for line in session.lines if line["final"]}
                wanted = {"": "/Memory/t_"}.get(focus, f"/Memory/{focus.rstrip('*')}")
                exact = focus and not focus.endswith("*")
                self.assertEqual(lines, {place: value for place, value in truth.items()
                                         if (place == wanted if exact else place.startswith(wanted))})
        self.assert_untouched(self.program.pid, self.before)

    def test_names_in_a_child(self):
        self.begin("count t_key by caller", "--follow-fork")
        child = self.program.ask("fork 20", event="child")
        self.program.answer("done")
        self.assert_stopped_well(self.session)
        values = self.values("count t_key by caller", child["pid"])
        self.assertEqual(sum(values.values()), sum(child["counts"].values()))
        self.assertTrue(any(key.startswith("t_key+0x") for key in values), values)

    def test_what_is_shown(self):
        """The table, CSV and Prometheus have the key."""
        program = self.start("keyed")
        for form, wanted in (("table", r"count t_key by \$arg\[0\] +0 +1 "), ("csv", r"(?m),0\r?$"),
                             ("prometheus", r'mdl_count_t_key_by_arg_0_total\{pid="\d+",focus="",key="0"\} 1')):
            with subprocess.Popen([MDL_INJECT, str(program.pid), KEY, "--format", form, "-i", "0.1"], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as session:
                self.assertIn("inserted", session.stderr.readline())
                program.ask("many 3")
                session.send_signal(signal.SIGINT)
                out, errors = session.communicate(timeout=60)
            self.assertEqual(session.returncode, 0, errors)
            self.assertRegex(out, wanted)

    def test_what_is_refused(self):
        program = self.start("keyed")
        for words, why in ((("count t_key by $arg[0], $arg[1], $arg[2], $arg[3]",), "E0406"),
                           (("count t_key if symbol($arg[0]) == 1",), "E0406")):
            done = run(MDL_INJECT, program.pid, *words, "-d", "0")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
