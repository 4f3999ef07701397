"""Entry and return counts equal the program's own, exactly, however it was compiled, and the
program computes what it computes untouched.

One metric for the entries and one for the returns of each function, all in one plan, all
inserted at once: more than ninety requests and two points in most functions.
"""

import random
import signal
import sys
import time
import unittest

from harness import MDL_INJECT, LiveTest, entries_and_returns, run

# A flavor whose functions are not aligned: a `ret` that a branch leads to, with the next function
# right behind it, leaves no room for a jump and may be refused.
WITHOUT_ROOM = ("counted-gcc-Os",)
# What is attached to over and over: of the first, most returns have room for a short jump only, whose relay other code
# hosts. tight_test.py does the same where there is room.
AGAIN = ("counted-gcc-O0", "counted-gcc-O2")


def counted(before, after):
    """What the program says it did: {metric: number}."""
    numbers = {}
    for name, (entries, returns) in after["counts"].items():
        numbers[f"entries_{name}"] = entries - before["counts"][name][0]
        numbers[f"returns_{name}"] = returns - before["counts"][name][1]
    return numbers


class Counted(LiveTest):
    flavor = ""  # set by main

    def untouched_results(self):
        """From a process that nobody attaches to."""
        return self.start(self.flavor).ready["results"]

    def begin(self):
        program = self.start(self.flavor)
        functions = list(program.ready["counts"])
        return program, functions, self.compile_text(entries_and_returns(functions))

    def assert_exact(self, truth, values, refused, refusable):
        """Every metric equals the truth; only what may be refused may have been."""
        for name, value in truth.items():
            point, function = name.split("_", 1)
            if not refused[name]:
                self.assertEqual(values[name], value, name)
            elif not (self.flavor in WITHOUT_ROOM and point == "returns"):
                self.assertIn(function, refusable, f"{name} was refused")
        most = len(truth) // 5 if self.flavor in WITHOUT_ROOM else 2 * len(refusable)
        self.assertLessEqual(sum(1 for name in truth if refused[name]), most)

    def assert_sound(self, snapshot, expected_results):
        self.assertEqual(snapshot["wrong"], 0, "rounds with a wrong result")
        self.assertEqual(snapshot["disturbed"], 0, "registers or flags found changed")
        self.assertEqual(snapshot["results"], expected_results)

    def attach_while_running(self, program, plan, before_text, *commands):
        """Attached to and left while it runs, it is right and its numbers are; how many there were."""
        program.ask("start", "running")
        session = self.inject(program.pid, plan).wait_inserted()
        first = program.ask("pause", "paused")
        at_first = session.fresh_values()
        for command in commands:
            program.ask(command)
        program.ask("start", "running")
        last = program.ask("pause", "paused")
        at_last = session.fresh_values()
        program.ask("start", "running")
        self.assert_stopped_well(session)
        end = program.ask("pause", "paused")
        values = {name: at_last[name, focus] - at_first[name, focus] for name, focus in at_last}
        refused = {line["metric"]: line["refused"] for line in session.final().values()}
        self.assert_exact(counted(first, last), values, refused, last["refusable"])
        self.assert_sound(end, program.ready["results"])
        self.assert_untouched(program.pid, before_text)
        return len(values)


class Once(Counted):
    def test_attached_while_asleep(self):
        program, functions, plan = self.begin()
        before_text = self.remember(program.pid)
        session = self.inject(program.pid, plan).wait_inserted()
        done = program.ask("go 150")
        self.assert_stopped_well(session)

        final = {key[0]: line for key, line in session.final().items()}
        self.assertEqual(len(final), 2 * len(functions))
        self.assert_exact(counted(program.ready, done), {name: line["value"] for name, line in final.items()},
                          {name: line["refused"] for name, line in final.items()}, done["refusable"])
        self.assert_sound(done, self.untouched_results())
        self.assertGreater(done["signals"], 0)
        self.assert_untouched(program.pid, before_text)
        self.assert_sound(program.ask("go 20"), done["results"])
        self.assertEqual(program.end(), 7)

    def test_attached_while_running(self):
        program, functions, plan = self.begin()
        before_text = self.remember(program.pid)
        self.assertEqual(self.attach_while_running(program, plan, before_text, "go 100"), 2 * len(functions))
        self.assertEqual(program.end(), 7)


class Again(Counted):
    def test_attached_and_removed_under_load(self):
        program, _, plan = self.begin()
        before_text = self.remember(program.pid)
        for _ in range(5):
            self.attach_while_running(program, plan, before_text)

    def test_killed_injectors(self):
        """At any moment, also while it removes: the program runs on, right, no signal of the ten thousand a second is
        lost (it waits for each), and --remove makes it what it was."""
        program, _, plan = self.begin()
        before_text = self.remember(program.pid)
        chance = random.Random(8)
        program.ask("start", "running")
        for turn in range(12):
            session = self.inject(program.pid, plan)
            if turn % 2:
                session.wait_inserted().process.send_signal(signal.SIGINT)
                time.sleep(chance.uniform(0, 0.03))
            else:
                time.sleep(chance.uniform(0, 0.15))
            session.process.send_signal(signal.SIGKILL)
            session.process.wait()
            time.sleep(0.01)
            done = run(MDL_INJECT, "--remove", program.pid)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assert_untouched(program.pid, before_text)
        self.assert_sound(program.ask("pause", "paused"), program.ready["results"])
        self.assert_sound(program.ask("go 50"), program.ready["results"])


if __name__ == "__main__":
    Counted.flavor = sys.argv.pop(1)
    if Counted.flavor not in AGAIN:
        del Again
    unittest.main(verbosity=2)
