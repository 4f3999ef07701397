"""examples/README.md: each command prints what the page says, and counts what the program did.

Each is measured twice: as it stands, for the table, while the program works all the time; and with lines of JSON while
it does as many rounds as it is told, for the numbers.
"""

import json
import subprocess
import sys
import unittest

import shown
from harness import PROGRAMS, SOURCE, Lines, LiveTest, put_down, repeating

PAGE = SOURCE / "examples" / "README.md"
ROUNDS = 5


def one(lines):
    assert len(lines) == 1, lines
    return lines[0]["value"]


def by_key(lines):
    return {line["key"][0]: line["value"] for line in lines}


def by_focus(lines):
    return {line["focus"].rsplit("/", 1)[-1]: line["value"] for line in lines}


def between(value, least, most):
    assert least < value < most, (least, value, most)


S = 1_000_000_000  # ns: no measurement here takes so long
# What each command must have seen while the program did ROUNDS rounds, which answered with `done`.
TRUTH = {
    "'count take_order'": lambda lines, done: (one(lines), done["orders"] + done["refused"]),
    "'calls /Code/workshop/*'": lambda lines, done: (
        {name: value for name, value in by_focus(lines).items() if name.startswith(("_Z5touch", "_Z12send", "_Z10take", "_Z5check"))},
        {"_Z5touchPd": done["cells"], "_Z12send_messageiPKcm": done["messages"],
         "_Z10take_orderiR4Done": done["orders"] + done["refused"], "_Z5checki": done["orders"] + done["refused"]}),
    # Both locks are let go where an order is taken, and the first one where it is refused.
    "'count pthread_mutex_unlock by caller'": lambda lines, done: (
        sum(value for key, value in by_key(lines).items() if key.startswith("take_order")), 2 * done["orders"] + done["refused"]),
    "'count send_message by int($arg[0])'": lambda lines, done: (
        sorted((line["key"][0] if "key" in line else "large", line["value"]) for line in lines),
        sorted([("1", done["messages"] // 3), ("2", done["messages"] // 3), ("3", done["messages"] // 3),
                ("large", 5 * done["messages"] // 20)])),
    "'hist $arg[2] at send_message'": lambda lines, done: (
        [lines[0][name] for name in ("count", "sum", "min", "max")], [done["messages"], done["bytes"], 1, 39]),
    "'count take_order if int($return) < 0'": lambda lines, done: (one(lines), done["refused"]),
    "'latency smooth_row'": lambda lines, done: (lines[0]["count"], done["cells"] // 64),
    "'hist elapsed at take_order if elapsed > 1000'": lambda lines, done: (lines[0]["min"] is None or lines[0]["min"] >= 1000, True),
    "'time work by thread'": lambda lines, done: (sum(line["value"] > 0 for line in lines), 3),
    "'cpu work'": lambda lines, done: between(one(lines), 1000 * ROUNDS, S),
    "'self /Code/workshop/*'": lambda lines, done: between(by_focus(lines)["_Z5touchPd"], 0, S),
    "'count pthread_mutex_lock within take_order'": lambda lines, done: (one(lines), 2 * done["orders"] + done["refused"]),
    "'count pthread_mutex_lock by symbol($arg[0])'": lambda lines, done: (
        {key: value for key, value in by_key(lines).items() if key.endswith("_lock")},
        {"order_lock": done["orders"] + done["refused"], "stock_lock": done["orders"]}),
    "'sum $arg[2] at write by fd($arg[0])'": lambda lines, done: (
        {key.split()[1].split("-")[0]: value for key, value in by_key(lines).items() if "workshop" in key},
        {"/tmp/workshop": done["saved"]}),
    "examples/calls_of_one_function.mdl": lambda lines, done: (one(lines), done["orders"] + done["refused"]),
    "examples/bytes_requested.mdl": lambda lines, done: (by_focus(lines)[""] >= by_focus(lines)["check"] > 40 * done["refused"], True),
    "examples/sizes_requested.mdl": lambda lines, done: (lines[0]["count"] >= done["refused"] and lines[0]["max"] < 4096, True),
    "examples/refused_orders.mdl": lambda lines, done: (one(lines), done["refused"]),
    "examples/lock_use.mdl": lambda lines, done: (
        {key: value for key, value in by_key(lines).items() if key.endswith("_lock")},
        {"order_lock": done["orders"] + done["refused"], "stock_lock": done["orders"]}),
    "examples/message_bytes.mdl": lambda lines, done: (by_focus(lines), {str(tag): done["bytes"] // 3 for tag in (1, 2, 3)}),
    "examples/array_blocks.mdl": lambda lines, done: (by_focus(lines), {str(block): done["cells"] // 8 for block in range(8)}),
    "examples/io_time_under.mdl": lambda lines, done: [
        between(value, 100 * ROUNDS, S) for focus, value in by_focus(lines).items() if focus],
    "examples/cpu_exclusive.mdl": lambda lines, done: between(one(lines), 1000 * ROUNDS, S),
    # A row is smoothed with its columns, the text of a checksum has 44 characters; each thread makes one in a round.
    "examples/loop_rounds.mdl": lambda lines, done: (sorted(line["value"] for line in lines), [3 * ROUNDS, 3 * ROUNDS * 44]),
}


class Workshop:
    def __init__(self):
        self.process = subprocess.Popen([str(PROGRAMS / "workshop"), "--by-line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        bufsize=0)
        self.pid, self.answers = self.process.pid, Lines(self.process.stdout)
        self.round()  # its threads run

    def round(self):
        self.process.stdin.write(b"\n")
        return json.loads(self.answers.next("a round"))

    def rounds(self, count):
        """What all of them did."""
        done = [self.round() for _ in range(count)]
        return {name: sum(one[name] for one in done) for name in done[0]}


class Examples(LiveTest):
    def setUp(self):
        super().setUp()
        self.workshop = Workshop()
        self.addCleanup(put_down, self.workshop.process)

    def tables(self):
        with repeating(self.workshop.round, 0.001):
            return {command.line: shown.table(command, [str(self.workshop.pid)], 2) for command in shown.read(PAGE)}

    def test_what_is_printed(self):
        with repeating(self.workshop.round, 0.001):
            for command in shown.read(PAGE):
                with self.subTest(command=command.line):
                    self.assertTrue(command.printed)
                    for _ in range(3):  # a call that runs at the attach has no duration, which the line says
                        printed = shown.table(command, [str(self.workshop.pid)], 0.4, "--all", most=None)
                        if not any(line.endswith(", 1 anomaly") for line in printed):
                            break
                    self.assertEqual(shown.missing(command, printed), [], "\n".join(printed))

    def test_what_is_counted(self):
        before = self.remember(self.workshop.pid)
        commands = shown.read(PAGE)
        self.assertEqual(len(commands), len(TRUTH))
        for command in commands:
            with self.subTest(command=command.line):
                truth = next(truth for begin, truth in TRUTH.items() if command.line.startswith(f"mdl-inject -p workshop {begin}"))
                options = command.options(("-d", "-i", "--top"))
                session = self.inject(self.workshop.pid, *(SOURCE / word if word.endswith(".mdl") else word for word in options),
                                      interval="60")
                session.said("inserted")
                done = self.workshop.rounds(ROUNDS)
                self.assert_stopped_well(session)
                lines = [line for line in session.lines if line["final"]]
                self.assertTrue(all(line["refused"] == 0 or "self" in line["metric"] for line in lines), lines)
                if isinstance(pair := truth(lines, done), tuple):
                    self.assertEqual(*pair)
        self.assert_untouched(self.workshop.pid, before)


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        test = Examples("test_what_is_printed")
        test.setUp()
        shown.update(PAGE, test.tables())
        test.doCleanups()
    else:
        unittest.main(verbosity=2)
