"""The driver of the generated programs finds what it is there to find, and makes it smaller."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import check  # noqa: E402
import generated  # noqa: E402
import kinds  # noqa: E402
import shrink  # noqa: E402
import source  # noqa: E402
from grow import grow  # noqa: E402
from program import effects, is_sound, statements  # noqa: E402


def arith():
    return {"kind": "arith", "which": 0, "number": 5, "mask": 3}


def function(number, body, **other):
    return {"name": f"f{number}", "number": number, "shape": "plain", "attributes": [], "counted": "self", "body": body, "unit": 0,
            "static": False, **other}


def case(functions, body, **main):
    program = {"language": "c", "functions": functions, "extra": [], "units": 1, "alternate_stack": False, "order": [],
               "main": {"style": "small", "status": 7, "dies": "abort", "seed": 1, "place": 0, "body": body, **main}}
    choice = {"compiler": "gcc", "level": "-O2", "flags": [], "linked": [], "link": "pie", "linker": "", "script": False, "strip": "",
              "profile": False, "lto": False, "seed": 0}
    return {"name": "test", "program": program, "choice": choice, "settings": {"ways": ["started"], "everything": False}}


def call(name):
    return {"kind": "call", "callee": name, "argument": "a", "constant": 3}


class Grown(unittest.TestCase):
    def test_a_seed_grows_the_same_program(self):
        self.assertEqual(grow("3:4"), grow("3:4"))
        self.assertNotEqual(grow("3:4"), grow("3:5"))

    def test_all_are_sound_and_all_kinds_of_statements_occur(self):
        seen = set()
        for number in range(400):
            program, _ = grow(f"test:{number}")
            self.assertTrue(is_sound(program), number)
            for each in program["functions"]:
                seen |= {one["kind"] for one in statements(each["body"])}
        self.assertEqual(seen | {"raise", "spawn"}, set(kinds.KINDS) | {"assembly_text"})

    def test_a_return_that_is_counted_before_a_call_that_throws_is_unsound(self):
        throws = function(2, [{"kind": "throw", "mask": 1, "value": 1}])
        caller = function(1, [{"kind": "tail", "callee": "f2", "mask": 0, "value": 0, "shift": 0}])
        program = case([caller, throws], [{"kind": "try", "body": [call("f1")], "other": []}])["program"]
        self.assertEqual(effects(program)["f1"], {"throws"})
        self.assertFalse(is_sound(program))


class Found(unittest.TestCase):
    def setUp(self):
        check.adopt_orphans()
        folder = tempfile.TemporaryDirectory(prefix="mdl-generated-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_program_that_is_right(self):
        one = case([function(1, [arith(), call("f2")]), function(2, [], counted="callers", shape="tiny")], [call("f1")])
        one["settings"]["ways"] = ["started", "left", "paused", "running"]
        tally = generated.attempt(one, self.folder)
        self.assertEqual(tally["refused"], 0)
        self.assertEqual(tally["compared"], 2 * 4 * 5)  # functions, with main and top; left compares twice

    def test_a_wrong_count(self):
        """A function that says it was entered once more than it was."""
        one = case([function(1, [arith()])], [call("f1")])
        kinds.KINDS["lie"] = lambda w, s: "R(1);"
        self.addCleanup(kinds.KINDS.pop, "lie")
        one["program"]["functions"][0]["body"].append({"kind": "lie"})
        with self.assertRaisesRegex(check.Wrong, "^count: returns of f1: 4, but it was 8; refused 0"):
            generated.attempt(one, self.folder)

    def test_a_program_that_fails_bare_is_unusable(self):
        one = case([], [])
        one["program"]["main"]["body"] = [{"kind": "lie"}]
        kinds.KINDS["lie"] = lambda w, s: "__builtin_trap();"
        self.addCleanup(kinds.KINDS.pop, "lie")
        with self.assertRaisesRegex(check.Unusable, "bare: status -4"):
            generated.attempt(one, self.folder)


class Shrunk(unittest.TestCase):
    def test_to_what_matters(self):
        """What fails here is any program in which a function that is called has a switch."""
        def fails(one):
            return any(each["kind"] == "switch" for f in source.reachable(one["program"]) for each in statements(f["body"]))
        one = next(each for each in (generated.case("switch", number, 0) for number in range(100)) if fails(each))
        small = shrink.shrink(one, fails, 60)
        self.assertTrue(fails(small))
        self.assertEqual([len(f["body"]) for f in small["program"]["functions"]][-1], 1)
        self.assertEqual((small["choice"]["flags"], len(small["settings"]["ways"])), ([], 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
