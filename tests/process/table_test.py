"""The table that stays in place on a terminal: what it shows, its keys, and each way out of it, after which the terminal
is as it was and, where mdl-inject lives to do it, nothing of ours is in the process."""

import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

from harness import MDL_INJECT, PROGRAMS, LiveTest, run, soon
from screen import Terminal

BY_KEY = "count t_key by $arg[0]"
KEYS = ("q quit  p pause", "Ctrl-C ends it")


class Tables(LiveTest):
    def setUp(self):
        super().setUp()
        self.program = self.start("keyed")
        self.before = self.remember(self.program.pid)

    def table(self, *words, program=None, command=(), **named):
        """A session on a terminal of its own, when it has drawn something."""
        pid = (program or self.program).pid
        terminal = Terminal([*command, MDL_INJECT, pid, *words, "-i", "0.1"], **named)
        self.addCleanup(terminal.give_up)
        terminal.wait_for(r"^ +(RATE/S|TOTAL)")
        return terminal

    def rows(self, terminal):
        """What stands in the lines of values: (first column, second column, place)."""
        found = re.finditer(r"^[ >]*(\S+(?: \S+)?)  +(\S+(?: \S+)?)  .{16}  (\S.*)$", terminal.frame(), re.M)
        return [match.groups() for match in found if match[1] not in ("RATE/S", "TOTAL", "q quit")]

    def places(self, terminal):
        return [place for _, _, place in self.rows(terminal)]

    def assert_as_before(self, terminal):
        self.assertEqual(terminal.modes(), terminal.before)

    def quit(self, terminal, keys="q", status=0):
        terminal.type(keys)
        self.assertEqual(terminal.end(), status, terminal.screen.text())
        self.assert_as_before(terminal)
        self.assert_untouched(self.program.pid, self.before)


class Shown(Tables):
    def test_in_place(self):
        """The largest first, of which as many as fit; each frame over the one before, and the last one stays."""
        terminal = self.table(BY_KEY, "count t_key", rows=20)
        self.program.ask("many 500")
        for _ in range(3):
            self.program.ask("one 10")  # the key 7
        self.program.ask("one 200")
        terminal.wait_for(r"2,\d\d\d .*count t_key$")
        text = terminal.screen.text()
        self.assertEqual(len(re.findall("RATE/S", text)), 1)
        self.assertEqual(len(text.split("\n")), 19, "the screen is used, but for the line below")
        terminal.type("a")
        terminal.wait_for(r"^ +TOTAL +DELTA")
        totals = [int(total.replace(",", "")) for total, _, _ in self.rows(terminal)[1:]]
        self.assertEqual(totals, sorted(totals, reverse=True))
        self.assertGreater(totals[0], 1000)
        self.assertEqual(len(totals), 14)
        terminal.wait_for(r"\d+ more$")
        self.quit(terminal)
        self.assertIn("final", terminal.screen.text())
        self.assertEqual(len(re.findall("TOTAL", terminal.screen.text())), 1)
        self.assertEqual([line for line in terminal.screen.scrolled if "TOTAL" in line], [])

    def test_top_sort_and_all(self):
        terminal = self.table(BY_KEY, "--top", "3", "--sort", "name", rows=40)
        self.program.ask("many 30")
        terminal.wait_for("27 more")
        places = self.places(terminal)
        self.assertEqual((len(places), places), (3, sorted(places)))
        self.quit(terminal)

    def test_zeros_are_hidden_and_counted(self):
        hidden = self.table("calls /Code/keyed/t_*", rows=60, columns=120)
        count = int(hidden.wait_for(r"(\d+) with 0")[1])
        self.assertEqual(self.rows(hidden), [])
        self.program.ask("named 5")
        hidden.wait_for(r"^ +[\d,.]+ .*t_called$")
        self.assertIn("t_called", self.places(hidden))
        self.quit(hidden)
        every = self.table("calls /Code/keyed/t_*", "--all", rows=60, columns=120)
        every.wait_for(r"^ +0 +0 .*t_called$")
        self.assertEqual(len(self.places(every)), count)
        self.quit(every)

    def test_sparkline_and_bars(self):
        """The last samples, the largest of them whole; a distribution has its quantiles and a bar for each range."""
        terminal = self.table("count t_key", "hist $arg[1] at t_key", rows=30)
        self.program.ask("go 500")
        terminal.wait_for(r"[\u2581 ]+\u2588[\u2581-\u2588]* +count t_key$")
        terminal.wait_for(r"p50 \S+ .*max ")
        terminal.wait_for(r" to .* \u2588+")
        self.quit(terminal)

    def test_ascii(self):
        terminal = self.table("count t_key", "hist $arg[1] at t_key", LC_ALL="C")
        self.program.ask("go 500")
        terminal.wait_for(r" to .* #+")
        self.quit(terminal)
        self.assertTrue(terminal.bytes.isascii())

    def test_no_colour(self):
        coloured, plain = self.table("count t_key"), None
        self.quit(coloured)
        plain = self.table("count t_key", NO_COLOR="1")
        self.quit(plain)
        self.assertIn(b"\x1b[1m", coloured.bytes)
        self.assertNotRegex(plain.bytes, rb"\x1b\[[0-9;]*m")

    def test_lines_where_nothing_can_be_drawn(self):
        for environment in ({"TERM": "dumb"}, {"TERM": ""}):
            terminal = Terminal([MDL_INJECT, self.program.pid, "count t_key", "-i", "0.1", "-d", "0.3"], **environment)
            self.addCleanup(terminal.give_up)
            self.assertEqual(terminal.end(), 0)
            self.assertIn("TIME", terminal.screen.text())
            self.assertNotRegex(terminal.bytes, rb"\x1b\[\d*[AHJK]")

    def test_resize(self):
        terminal = self.table(BY_KEY, rows=30, columns=100)
        self.program.ask("many 200")
        terminal.wait_for("175 more")
        for rows, columns in ((12, 40), (50, 150), (4, 20), (3, 10), (24, 80)):
            terminal.resize(rows, columns)
            terminal.wait_for("^mdl-injec")
            terminal.watch(0.4)
            lines = terminal.screen.text().split("\n")
            self.assertEqual([line for line in lines if len(line) >= columns], [])
            self.assertLess(len(lines), rows)
            self.assertEqual(terminal.screen.text().count("mdl-injec"), 1)
        terminal.wait_for("181 more")
        self.quit(terminal)

    def test_what_comes_from_the_process_is_harmless(self):
        """The name of a function with what a terminal obeys, in the table; and the same, typed."""
        evil = "\x1b[31mred\x07\x9b31m"
        name = self.folder / "evil"
        subprocess.run([b"objcopy", b"--redefine-sym", b"t_called=t_" + evil.encode("latin-1"), PROGRAMS / "keyed", name],
                       check=True)
        program = self.start("keyed", command=[name, "120"])
        terminal = self.table("calls /Code/evil/t_*", "--all", program=program)
        terminal.wait_for(r"t_\?\[31mred\?\?31m$")
        terminal.type("/" + evil + "\n")
        terminal.wait_for("with `")
        terminal.type("\x1bq")
        self.assertEqual(terminal.end(), 0)
        for one in (b"\x1b[31m", b"\x07", b"\x9b"):
            self.assertNotIn(one, terminal.bytes)

class Keys(Tables):
    def setUp(self):
        super().setUp()
        self.terminal = self.table(BY_KEY, rows=20)
        self.program.ask("many 100")
        self.program.ask("one 50")
        self.terminal.wait_for(r"4\d\d ")

    def test_sort(self):
        for order in ("delta", "name", "total", "rate"):
            self.terminal.type("s")
            self.terminal.wait_for(f"by {order}$")
            if order == "name":
                self.terminal.watch(0.2)
                self.assertEqual(self.places(self.terminal), sorted(self.places(self.terminal)))
        self.quit(self.terminal)

    def test_filter(self):
        self.terminal.type("/99")
        self.terminal.wait_for("^/99_")
        self.terminal.watch(0.2)
        found = self.places(self.terminal)
        self.assertTrue(found and all("99" in place for place in found), found)
        self.terminal.type("\x7f\x7fqq")  # which are no commands here
        self.terminal.wait_for("^/qq_")
        self.assertEqual(self.places(self.terminal), [])
        self.terminal.type("\x1b")
        self.terminal.wait_for(KEYS[0])
        self.assertEqual(len(self.places(self.terminal)), 15)
        self.quit(self.terminal)

    def test_pause(self):
        self.terminal.type("p")
        self.terminal.wait_for("PAUSED")
        was = self.terminal.frame()
        self.program.ask("one 5000")
        self.terminal.watch(0.5)
        self.assertEqual(self.terminal.screen.text(), was)
        self.terminal.type("p")
        self.terminal.wait_for(r"40,\d\d\d ")
        self.quit(self.terminal)

    def by_name(self):
        """The places that are shown then."""
        self.terminal.type("ss")
        self.terminal.wait_for("by name")
        return self.places(self.terminal)

    def await_places(self, wanted, part=slice(None)):
        soon(lambda: self.places(self.terminal)[part] == wanted, f"{wanted}, not {self.places(self.terminal)}")

    def check_pages(self, first):
        for keys, skipped in (("\x1b[6~", 10), ("\x1b[5~", 0), ("\x1b[6~\x1b[6~\x1b[5~", 10), ("g", 0)):
            self.terminal.type(keys)
            self.await_places(first[skipped:], slice(0, len(first) - skipped))
        for _ in range(30):
            self.terminal.type("\x1b[6~")
        self.terminal.watch(0.6)
        self.assertEqual(len(self.places(self.terminal)), len(first), "the screen stays full")

    def test_scroll(self):
        """By pages, and by a line where none below or above can be chosen."""
        first = self.by_name()
        self.check_pages(first)
        self.terminal.type("g")
        self.await_places(first)
        for keys, chosen in (("\x1b[B", 0), ("j\x1bOB", 2), ("k\x1b[A", 0), ("j" * (len(first) - 1), len(first) - 1)):
            self.terminal.type(keys)
            self.terminal.wait_for(rf"^>.*  {first[chosen]}$")
        self.terminal.type("j")
        self.await_places(first[1:], slice(0, -1))
        self.quit(self.terminal)

    def test_scroll_where_nothing_can_be_asked(self):
        self.quit(self.terminal)
        self.terminal = self.table(BY_KEY, "--follow-fork", rows=18)
        self.program.ask("many 200")
        self.terminal.wait_for(r"\d+ more$")
        first = self.by_name()
        for keys, skipped in (("\x1b[B", 1), ("j\x1bOB", 3), ("\x1b[A", 2)):
            self.terminal.type(keys)
            self.await_places(first[skipped:], slice(0, len(first) - skipped))
        self.terminal.type("g")
        self.check_pages(first)
        last = self.places(self.terminal)
        self.terminal.type("k")
        self.await_places(last[:-1], slice(1, None))  # it has not been scrolled beyond the end
        self.quit(self.terminal)

    def test_a_key_that_comes_in_parts(self):
        first = self.by_name()
        self.terminal.type("\x1b[")
        self.terminal.watch(0.2)
        self.terminal.type("B")
        self.terminal.wait_for(rf"^>.*  {first[0]}$")
        self.quit(self.terminal)


class WaysOut(Tables):
    def modes_are_taken(self, terminal):
        self.assertNotEqual(terminal.modes(), terminal.before)

    def back(self, terminal):
        soon(lambda: terminal.modes() == terminal.before, "the terminal to be as it was")

    def removed(self):
        soon(lambda: self.is_untouched(), "the instrumentation to be taken out")

    def is_untouched(self):
        try:
            self.assert_untouched(self.program.pid, self.before)
        except AssertionError:
            return False
        return True

    def test_keys_and_signals(self):
        """q, Ctrl-C as the terminal sends it, SIGTERM, SIGHUP."""
        for way in ("q", "\x03", signal.SIGTERM, signal.SIGHUP):
            with self.subTest(way):
                terminal = self.table(BY_KEY)
                self.modes_are_taken(terminal)
                if isinstance(way, str):
                    terminal.type(way)
                else:
                    terminal.process.send_signal(way)
                self.assertEqual(terminal.end(), 0)
                self.assert_as_before(terminal)
                self.assert_untouched(self.program.pid, self.before)
                self.assertIn("final", terminal.screen.text())

    def test_the_terminal_is_closed(self):
        terminal = self.table(BY_KEY)
        terminal.close()
        terminal.process.wait(30)
        self.removed()

    def test_the_terminal_is_closed_under_a_shell(self):
        """The shell is the session's leader, and may not tell its children."""
        terminal = self.table(BY_KEY, command=("sh", "-c", '"$@"; true', "sh"))
        terminal.close()
        self.removed()

    def test_without_separate_privileges(self):
        terminal = self.table(BY_KEY, "--no-separate")
        self.quit(terminal)

    def test_killed(self):
        """All that is called mdl-inject is killed at once; the process goes on, and can be rid of what is left."""
        terminal = self.table(BY_KEY)
        self.modes_are_taken(terminal)
        children = pathlib.Path(f"/proc/{terminal.process.pid}/task/{terminal.process.pid}/children").read_text().split()
        for pid in [terminal.process.pid, *map(int, children)]:
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(terminal.end(), -signal.SIGKILL)
        self.back(terminal)
        self.program.ask("one 10")
        again = self.table(BY_KEY)
        again.wait_for("RATE/S")
        self.quit(again)

    def test_the_broker_is_killed(self):
        terminal = self.table(BY_KEY, "--separate")
        for pid in pathlib.Path(f"/proc/{terminal.process.pid}/task/{terminal.process.pid}/children").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        self.assertNotEqual(terminal.end(), 0)
        self.back(terminal)

    def test_the_process_ends(self):
        terminal = self.table(BY_KEY)
        self.program.ask("one 10")
        self.assertEqual(self.program.end(), 0)
        self.assertEqual(terminal.end(), 0)
        self.assert_as_before(terminal)
        self.assertRegex(terminal.screen.text(), r"80 ")

    def test_a_message_while_it_is_drawn(self):
        """Another one takes the session out: that is said in lines of its own, above the table."""
        terminal = self.table("count t_key")
        done = run(MDL_INJECT, "--remove", self.program.pid, "--break-lock")
        self.assertEqual(done.returncode, 0, done.stderr)
        terminal.end()
        self.assert_as_before(terminal)
        self.assertRegex(terminal.screen.text(), r"(?m)^mdl-inject: process \d+ no longer holds[^`]*\nmdl-inject  \d.*final$")
        self.assert_untouched(self.program.pid, self.before)

    def test_stopped_and_sent_to_the_background(self):
        """Ctrl-Z is no signal. Who is stopped by another one and comes back takes the terminal again."""
        terminal = self.table(BY_KEY)
        self.program.ask("one 10")
        terminal.type("\x1a")
        terminal.watch(0.3)
        state = pathlib.Path(f"/proc/{terminal.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        self.assertNotEqual(state, "T")
        terminal.process.send_signal(signal.SIGSTOP)
        terminal.set_modes(terminal.before)  # as a shell does
        terminal.process.send_signal(signal.SIGCONT)
        soon(lambda: terminal.modes() != terminal.before or terminal.watch(0.05), "keys to come one by one again")
        self.quit(terminal)

    def test_without_keys(self):
        """Standard input is something else: it is drawn, and Ctrl-C ends it."""
        terminal = self.table("count t_key", command=("sh", "-c", 'exec "$@" < /dev/null', "sh"))
        terminal.wait_for(KEYS[1])
        self.assert_as_before(terminal)
        self.quit(terminal, "\x03")

    def test_in_the_background_nothing_is_drawn(self):
        terminal = Terminal(["bash", "-c", 'set -m; "$@" & wait', "bash", MDL_INJECT, self.program.pid, "count t_key",
                             "-i", "0.1", "-d", "0.5"])
        self.addCleanup(terminal.give_up)
        self.assertEqual(terminal.end(), 0)
        self.assertNotRegex(terminal.bytes, rb"\x1b\[\d*[AHJK]")
        self.assert_as_before(terminal)
        self.assert_untouched(self.program.pid, self.before)


class Drills(Tables):
    """What is asked for by keys comes and goes, exactly, and without a trace."""

    def turn(self):
        """How often each function is called in a while."""
        before = self.program.ask("rest")
        self.program.ask("chain 1")
        time.sleep(0.2)
        after = self.program.ask("rest")
        return {name: after[name] - before[name] for name in ("chain", "link")}

    def answered(self, what, *answers):
        """All answers so far, above the table; the last one stands below, too."""
        def are_there():
            self.terminal.read(0.05)
            return re.findall(rf"^{what}: (\w+): ", self.terminal.screen.text(), re.M) == [*answers, answers[-1]]

        soon(are_there, f"the answers {answers}")

    def vanishes(self, text):
        soon(lambda: text not in "\n".join(self.terminal.frame().split("\n")[1:-1]), f"{text} to go")


class DrilledTop(Drills):
    def setUp(self):
        super().setUp()
        self.program = self.start("busy")
        self.program.ask("chain 1")
        self.before = self.remember(self.program.pid)
        terminal = Terminal([MDL_INJECT, "top", self.program.pid, "--sample", "300ms", "--top", "1", "-i", "0.1"], rows=40)
        self.addCleanup(terminal.give_up)
        terminal.wait_for(r"^ +[\d,]+ .*\bb_chain\b")
        self.program.ask("rest")
        self.terminal = terminal

    def test_what_a_function_calls(self):
        terminal, calls = self.terminal, "what /Code/busy/b_chain calls"
        terminal.type("\r")  # nothing is chosen yet
        terminal.type("j\r")
        self.answered(calls, "comes")
        counted = self.turn()
        terminal.wait_for(rf" {counted['link']:,}  .*/b_link\b")
        self.assertRegex(terminal.frame(), r"[\d,]+ .*getppid\b")
        self.assertNotIn("b_hidden", terminal.frame())
        terminal.type("\r")
        self.answered(calls, "comes", "goes")
        terminal.type("a")  # the answer stood below, and above
        self.vanishes("b_link")
        self.turn()
        terminal.type("\r")
        self.answered(calls, "comes", "goes", "comes")
        counted = self.turn()
        terminal.wait_for(rf" {counted['link']:,}  .*/b_link\b")
        self.quit(terminal)

    def test_a_line_by_thread(self):
        terminal = self.terminal
        terminal.type("jt")
        terminal.wait_for(r"^calls@/Code/busy/b_chain by thread: comes: ")
        counted = self.turn()
        terminal.wait_for(rf" {counted['chain']:,}  .*/Thread/\d+\b")
        terminal.type("t")
        terminal.wait_for(r"^calls@/Code/busy/b_chain by thread: goes: ")
        terminal.type("a")
        self.vanishes("/Thread/")
        self.quit(terminal)

    def test_what_cannot_be(self):
        """A function that calls nothing; and the arrows stop at the last line."""
        terminal = self.terminal
        terminal.type("j\r")
        terminal.wait_for(r"calls: comes: ")
        for keys, chosen in (("k" * 9, r"calls \(Calls\)\n>"), ("j" * 9, r"call_latency \(time\)\n>.*  b_chain\b")):
            terminal.type(keys)
            terminal.wait_for(chosen)
        terminal.type("/b_link\rj\r")  # nothing is chosen before the frame of these lines is there
        terminal.wait_for(r"with `b_link`$")
        terminal.frame()
        terminal.type("j\r")
        terminal.wait_for(r"^what /Code/busy/b_link calls: comes: ")  # how long its calls take
        self.turn()
        terminal.wait_for(r"^latency \(time\)\n.*b_link\b")
        self.quit(terminal)


class DrilledQuery(Drills):
    """In the table of any query."""

    def begin(self, *queries):
        self.program = self.start("busy")
        self.before = self.remember(self.program.pid)
        self.terminal = self.table(*queries, program=self.program, rows=50)
        return self.terminal

    def row(self, value, place):
        self.terminal.wait_for(rf" {value:,}  .*{place}")

    def test_a_function_of_a_query(self):
        terminal, of = self.begin("count b_chain as chains"), "what chains calls"
        counted = self.turn()
        self.row(counted["chain"], "chains")
        self.assertNotIn("overhead", terminal.frame())  # the hits of a count read no clock
        terminal.type("j\r")
        self.answered(of, "comes")
        more = self.turn()
        self.row(more["link"], r"/b_link\b")
        self.row(more["chain"], r"b_chain$")  # its latency
        self.assertIn("overhead", terminal.frame())
        terminal.wait_for(r"latency \(time\)\n.* b_chain\n +p50 ")
        self.assertRegex(terminal.frame(), r"[\d,]+ .*getppid\b")
        self.row(counted["chain"] + more["chain"], "chains")
        terminal.type("\r")
        self.answered(of, "comes", "goes")
        terminal.type("a")
        self.vanishes("b_link")
        last = self.turn()
        self.row(counted["chain"] + more["chain"] + last["chain"], "chains")
        self.quit(terminal)

    def test_by_caller(self):
        terminal = self.begin("count b_link")
        terminal.type("jc")
        terminal.wait_for(r"^count b_link by caller: comes: ")
        counted = self.turn()
        self.row(counted["link"], "count b_link")
        terminal.wait_for(rf" {counted['chain']:,}  .*b_chain\+0x")
        rows = re.findall(r" ([\d,]+)  .{16}  b_link \[b_chain\+0x", terminal.frame())
        self.assertEqual(len(rows), 4, terminal.frame())  # two calls, of each how many and how long
        self.assertEqual({int(value.replace(",", "")) for value in rows}, {counted["chain"]})
        terminal.type("c")
        self.answered("count b_link by caller", "comes", "goes")
        terminal.type("a")
        self.vanishes("b_chain+")
        terminal.type("c")
        self.answered("count b_link by caller", "comes", "goes", "comes")
        again = self.turn()
        terminal.wait_for(rf" {again['chain']:,}  .*b_chain\+0x")
        self.row(counted["link"] + again["link"], "count b_link")
        self.quit(terminal)

    def test_a_query_of_a_function_each(self):
        terminal = self.begin("calls /Code/busy/b_*")
        counted = self.turn()
        self.row(counted["link"], r"b_link\b")
        terminal.type("/b_link\r")
        terminal.wait_for(r"with `b_link`$")
        terminal.frame()
        terminal.type("j")
        terminal.wait_for(r"^>.*b_link")
        terminal.type("ct")
        terminal.wait_for(r"^/Code/busy/b_link by caller: comes: ")
        terminal.wait_for(r"b_\*@/Code/busy/b_link by thread: (comes|refused)")
        more = self.turn()
        terminal.wait_for(rf" {more['chain']:,}  .*b_chain\+0x")
        self.quit(terminal)

    def test_what_cannot_be_drilled(self):
        """A line of many functions: nothing changes, and it is said why."""
        terminal = self.begin("calls /Code/busy as many")
        for keys in ("jc", "\r"):
            terminal.type(keys)
            terminal.wait_for(r"refused: it stands for \d+ functions: ask for a line for each")
        self.quit(terminal)


if __name__ == "__main__":
    unittest.main()
