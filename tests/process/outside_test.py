"""What code of metrics reaches in the program: its variables, its memory, its functions."""

import time
import unittest

from harness import LiveTest

COUNTER = """
resourceList {name}_list is procedure {{ items {{ "{function}" }}; flavor {{ unix }}; }}
metric {name} {{
  name "{name}"; units Units; unitsType unnormalized; aggregateOperator sum; style EventCounter;
  flavor {{ unix }};
  base is counter {{ foreach func in {name}_list {{ {order} preInsn func.{point} (* {code} *) }} }}
}}
"""


def counter(name, function, code, point="entry"):
    return COUNTER.format(name=name, function=function, code=code, point=point,
                          order="append" if point == "entry" else "prepend")


class Outside(LiveTest):
    def measure(self, metrics, *commands, options=()):
        program = self.start("outside")
        before = self.remember(program.pid)
        session = self.inject(program.pid, self.compile_text("".join(metrics)), *options).wait_inserted()
        for command in commands:
            answer = program.ask(command)
        self.assert_stopped_well(session)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)
        return {name: line["value"] for (name, _), line in session.final().items()}, answer, session

    def refused(self, metrics, text, options=()):
        program = self.start("outside")
        before = self.remember(program.pid)
        plan = self.compile_text("".join(metrics))
        session = self.inject(program.pid, plan, "-m", "it", *options)
        self.assertEqual(session.wait(), 1, session.errors)
        self.assertIn(text, session.errors)
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)

    def test_variables_of_every_width_with_their_sign(self):
        names = ("i8", "i16", "i32", "i64")
        values, answer, _ = self.measure(
            [counter(name, "t_point", f'{name} += readSymbol("v_{name}");') for name in names] +
            [counter("inner", "t_point", 'inner += readSymbol("space::v_inner");')], "go 1000")
        self.assertEqual(values, {name: answer[name] for name in (*names, "inner")})

    def test_variables_that_cannot_be_read(self):
        for name, why in (("v_none", "no object of the process has such a symbol"),
                          ("v_thread", "thread-local"),
                          ("v_struct", "it has 5 bytes"),
                          ("v_pad", "it has 3 bytes"),
                          ("v_same", "it is defined 2 times (outside at 0x")):
            with self.subTest(name):
                self.refused([counter("it", "t_point", f'it += readSymbol("{name}");')], why)

    def test_memory_by_address(self):
        values, answer, _ = self.measure([counter("read", "t_address", "read += readAddress($arg[0]);")],
                                         "read 200", options=["--allow-reads"])
        self.assertEqual(values["read"], answer["read"])

    CALL = counter("it", "t_call", "it += t_callee($arg[0], $arg[1], 3, 4, 5, 6);")
    CALL_AT_RETURN = counter("it", "t_call", "it += t_callee($return, 2, 3, 4, 5, 6);", "return")

    def test_calls_into_the_application(self):
        for code in (self.CALL, self.CALL_AT_RETURN):
            values, answer, session = self.measure([code], "call 500", options=["--allow-calls"])
            self.assertEqual((answer["callee"], answer["changed"]), (500, 0))
            self.assertEqual(values["it"], answer["result"])
            self.assertEqual(session.lines[-1].get("anomalies", 0), 0)

    def test_calls_must_be_allowed(self):
        self.refused([self.CALL], "--allow-calls")

    def test_a_function_that_is_not_there(self):
        self.refused([counter("it", "t_call", "it += t_nothing();")], "t_nothing", ["--allow-calls"])

    # The code at t_callee's entry calls t_callee: what is reached again from inside of its own call does nothing.
    def test_a_call_inside_of_itself(self):
        values, answer, _ = self.measure(
            [self.CALL, counter("again", "t_callee", "again += t_callee(1, 0, 0, 0, 0, 0);")], "call 100",
            options=["--allow-calls"])
        self.assertEqual(answer["callee"], 200)
        self.assertEqual(values["again"], 100)

    # As a call of its own: at a call site, before and behind it.
    def test_calls_at_call_sites(self):
        code = """
resourceList callers is procedure { items { "t_through" }; flavor { unix }; }
metric it {
  name "it"; units Units; unitsType unnormalized; aggregateOperator sum; style EventCounter; flavor { unix };
  base is counter { foreach func in callers { foreach site in func.calls {
    append preInsn site (* it += t_callee($arg[0], 0, 0, 0, 0, 0); *)
    append postInsn site (* it += t_callee($return, 1, 0, 0, 0, 0); *)
  } } }
}
"""
        values, answer, _ = self.measure([code], "through 100", options=["--allow-calls"])
        self.assertEqual((answer["callee"], answer["changed"]), (200, 0))
        self.assertEqual(values["it"], answer["result"])

    # Code outside metrics runs with whatever is asked for, before it, and belongs to no line of the output.
    STATEMENT = """
resourceList called is procedure { items { "t_call", "t_nothing" }; flavor { unix }; }
foreach func in called {
  append preInsn func.entry (* if ($arg[0] > 99) Call("t_callee", $arg[0], 1); *)
  append preInsn func.return (* t_callee(1, $return); *)
}
append $exit.entry (* *)
"""

    def test_calls_outside_metrics(self):
        values, answer, session = self.measure([self.STATEMENT, counter("it", "t_call", "it++;")], "call 500",
                                               options=["--allow-calls", "--explain"])
        self.assertEqual((answer["callee"], answer["changed"]), (900, 0))
        self.assertEqual(values, {"it": 500})
        self.assertIn("code outside metrics\n  entry of /Code/outside/t_call: statement_entry", session.errors)

    def test_calls_outside_metrics_must_be_allowed(self):
        self.refused([self.STATEMENT, counter("it", "t_call", "it++;")], "code outside metrics calls functions")

    def test_calls_at_loops_and_blocks(self):
        """Points in the middle of code, where the compiler keeps values in any register."""
        code = """
resourceList looping is procedure {{ items {{ "t_rounds" }}; flavor {{ unix }}; }}
metric it {{
  name "it"; units Units; unitsType unnormalized; aggregateOperator sum; style EventCounter; flavor {{ unix }};
  base is counter {{ foreach func in looping {{ {} }} }}
}}
"""
        at_loops = "foreach l in func.loops { append l.start_iter (* it += t_callee(1, 2, 0, 0, 0, 0); *) }"
        at_blocks = "foreach b in func.blocks { append b (* it += t_callee(7, 0, 0, 0, 0, 0); *) }"
        for where, each in ((at_loops, 5), (at_blocks, 7)):
            values, answer, session = self.measure([code.format(where)], "rounds 300", options=["--allow-calls"])
            self.assertEqual((answer["changed"], values["it"]), (0, answer["result"]))
            self.assertEqual(values["it"], each * answer["callee"])
            self.assertGreaterEqual(answer["callee"], 300)
            self.assertEqual({line["refused"] for line in session.lines} & {0}, {0})

    def test_a_library_that_may_be_unloaded(self):
        """Its variables are not read: dlclose would take them away under the code. Those of libc stay."""
        program = self.start("loads")
        before = self.remember(program.pid)
        program.ask("open 1")
        for code, options in (('it += readSymbol("v_plugin");', []), ("it += t_plugin_work(1);", ["--allow-calls"])):
            plan = self.compile_text(counter("it", "t_loader_work", code))
            session = self.inject(program.pid, plan, "-m", "it", *options)
            self.assertEqual(session.wait(), 1, session.errors)
            self.assertIn("may unload it at any moment", session.errors)
        plan = self.compile_text(counter("it", "t_loader_work",
                                         'it += readSymbol("libc.so.6/program_invocation_name") != 0;'))
        session = self.inject(program.pid, plan).wait_inserted()
        program.ask("open 10")
        program.ask("close")
        program.ask("close")
        program.ask("open 5")
        self.assert_stopped_well(session)
        self.assertEqual(session.final()["it", ""]["value"], 15)
        self.assertEqual(program.end(), 0)

    # What a longjmp leaves behind is put right: the next call is made.
    def test_a_call_that_does_not_come_back(self):
        values, answer, session = self.measure([self.CALL], "leave 20", "call 5", options=["--allow-calls"])
        self.assertEqual((answer["callee"], answer["changed"]), (25, 0))
        self.assertEqual(max(line.get("anomalies", 0) for line in session.lines), 20)

    def test_removal_waits_for_a_call(self):
        program = self.start("outside")
        before = self.remember(program.pid)
        session = self.inject(program.pid, self.compile_text(self.CALL), "--allow-calls").wait_inserted()
        program.send("slow 1500")
        time.sleep(0.5)
        begun = time.monotonic()
        self.assert_stopped_well(session)
        self.assertGreater(time.monotonic() - begun, 0.5)
        answer = program.answer("done")
        self.assertEqual((answer["callee"], answer["changed"]), (1, 0))
        self.assert_untouched(program.pid, before)
        self.assertEqual(program.end(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
