"""Grows a program from a seed: which functions, of which shapes, with which statements and calls.

Functions are grown from the last to the first, so that what a call costs and does is known when it is placed. A function's
cost is bounded, so each program ends soon.
"""

import random

from program import JUMPS, PAUSES, THROWS, called, effects_of, statements
from shapes import CALLABLE, PLAIN

MOST = 1500      # steps of one function with all that it calls
MOST_TOP = 6000  # of a round

# Statements that hold no other, and how often each is chosen. Those that call are placed by calls().
SIMPLE = {"arith": 8, "die": 4, "early": 2, "throw": 3, "longjmp": 2, "pause": 1, "thread_local": 1, "library": 1, "assembly": 2}
NESTING = {"conditional": 4, "loop": 5, "switch": 3, "computed": 1, "try": 3, "guard": 3, "array": 1}
CALLS = {"call": 8, "call_if": 4, "table": 3, "setjmp": 1, "sort": 1, "nested": 1, "static_local": 1}
ONLY_CPP = ("throw", "try", "guard", "static_local")

ATTRIBUTES = ("cold", "hot", "flatten", "noipa", "aligned(32)", "aligned(2)", "section(\".text.own\")", "section(\".text.unlikely.own\")",
              "optimize(\"O0\")", "optimize(\"O3\")", "optimize(\"Os\")", "no_reorder", "patchable_function_entry(5,2)", "patchable_function_entry(3)",
              "stack_protect", "zero_call_used_regs(\"all\")", "force_align_arg_pointer", "noplt", "no_split_stack", "minsize",
              "optnone", "target(\"avx2\")", "no_stack_protector", "no_instrument_function", "visibility(\"protected\")", "visibility(\"hidden\")")
# One of GCC's and clang's that the other does not know is a warning.


class Growth:
    def __init__(self, seed):
        self.chance = random.Random(seed)
        chance = self.chance
        self.cpp = chance.random() < 0.55
        self.compiler = chance.choice(("gcc", "gcc", "clang"))
        self.features = {name for name, part in (("throw", 0.6), ("longjmp", 0.3), ("threads", 0.15), ("signals", 0.25), ("assembly", 0.4),
                                                 ("recursion", 0.5), ("library", 0.5), ("methods", 0.6)) if chance.random() < part}
        self.units = 1 if chance.random() < 0.6 else 2
        self.grown = []      # functions, the last first
        self.known = {}      # what each may do
        self.cost = {}
        self.may = set()

    def program(self):
        chance = self.chance
        for number in range(chance.randrange(4, 14), 0, -1):
            self.function(number)
        extra = [self.special(len(self.grown) + 1 + each, shape) for each, shape in enumerate(self.specials())]
        main = {"style": chance.choice(("small", "small", "small", "large", "exit", "_exit")), "status": chance.choice((0, 7, 42)),
                "dies": chance.choice(("", "abort", "abort", "die")), "seed": chance.randrange(1 << 30), "place": chance.randrange(20)}
        main["body"] = self.top()
        functions = list(reversed(self.grown))
        program = {"language": "c++" if self.cpp else "c", "functions": functions, "main": main, "extra": [], "units": self.units,
                   "alternate_stack": chance.random() < 0.5, "order": [chance.randrange(100) for _ in range(20)]}
        program["extra"] = extra
        settle(program, chance)
        return program

    def specials(self):
        shapes = ["handler"] if "signals" in self.features else []
        shapes += ["worker"] if "threads" in self.features else []
        return shapes + ["startup"] * self.chance.choice((0, 0, 1, 2))

    def record(self, number, shape, body, attributes, counted="self"):
        name = f"f{number}"
        function = {"name": name, "number": number, "shape": shape, "attributes": attributes, "counted": counted, "body": body,
                    "unit": 0, "static": False}
        self.grown.append(function)
        self.known[name] = effects_of(body, self.known)
        return function

    def special(self, number, shape):
        """A function that something else than a call enters: a signal, the start of a thread or of the program."""
        self.may, self.jumps = (set() if shape == "worker" else {PAUSES}), ()
        body, cost = self.body(MOST // 4, 0, shape)
        attributes = [self.chance.choice(("constructor", "constructor", "destructor", "constructor(200)"))] if shape == "startup" else []
        function = self.record(number, shape, body, attributes + self.attributes())
        if shape == "handler":
            function["signal"] = 10 + 2 * self.chance.randrange(2)
        self.cost[function["name"]] = cost
        return function["name"]

    def function(self, number):
        chance = self.chance
        shape = chance.choice(("plain",) * 8 + ("tiny",) * 4 + ("method", "method", "recursive", "assembly", "assembly", "assembly") + tuple(CALLABLE))
        if shape == "method" and not (self.cpp and "methods" in self.features):
            shape = "plain"
        if shape == "recursive" and "recursion" not in self.features:
            shape = "tiny"
        self.may = {effect for effect, part, there in ((THROWS, 0.5, self.cpp and "throw" in self.features), (JUMPS, 0.4, "longjmp" in self.features),
                                                       (PAUSES, 0.3, True)) if there and chance.random() < part}
        if shape == "assembly" and "assembly" not in self.features:
            shape = "tiny"
        counted = "callers" if shape in ("tiny", "assembly") or (shape not in ("method", "recursive") and chance.random() < 0.3) else "self"
        if counted == "self" and shape == "plain" and chance.random() < 0.12:
            counted = "no"
        if shape == "tiny":
            body, cost = self.tiny()
        elif shape == "assembly":
            body, cost = self.in_assembly()
        else:
            body, cost = self.body(MOST, 0, shape)
        if shape == "recursive":
            body.insert(chance.randrange(len(body) + 1), {"kind": "again", "number": chance.randrange(50)})
            cost *= 6
        attributes = self.attributes() if shape != "assembly" else []
        function = self.record(number, shape, body, attributes, counted)
        self.cost[function["name"]] = cost

    def tiny(self):
        """Short ones: nothing, an instruction or two, a jump, or a call as the first instruction and a cold part."""
        callees = self.plain_callees()
        kind = self.chance.randrange(4) if callees else 0
        if kind == 0:
            return ([self.simple("arith")] if self.chance.random() < 0.5 else []), 2
        callee = self.chance.choice(callees)
        cost = 2 + self.cost[callee]
        if kind and self.cpp and "throw" in self.features and self.chance.random() < 0.4:  # a cold part without a frame
            return [dict(self.simple("throw"), mask=self.chance.choice((1, 3, 7))), {"kind": "tail", "callee": callee, "mask": 0, "value": 0, "shift": 0}], cost
        if kind == 1:
            return [{"kind": "tail", "callee": callee, "mask": 0, "value": 0, "shift": 0}], cost
        return [{"kind": "call", "callee": callee, "argument": "a", "constant": 3},
                {"kind": "die", "how": self.chance.choice(("abort", "function", "cold")), "style": "plain"}][:kind], cost

    def plain_callees(self):
        return [f["name"] for f in self.grown if f["shape"] in ("plain", "tiny") and not self.known[f["name"]] and self.cost[f["name"]] < MOST // 4
                and f["counted"] == "self"]

    def in_assembly(self):
        """Its one statement says which text of assembly.py it has."""
        one = {"kind": "assembly_text", "which": self.chance.randrange(1000), "before": self.chance.randrange(1000), "frames": self.chance.random() < 0.6}
        callees = self.plain_callees()
        if callees and self.chance.random() < 0.5:
            one["callee"] = self.chance.choice(callees)
        return [one], 5 + (self.cost[one["callee"]] if "callee" in one else 0)

    def attributes(self):
        chosen = {"hot"} if self.chance.random() < 0.06 else {self.chance.choice(ATTRIBUTES) for _ in range(self.chance.choice((0, 0, 0, 1, 1, 2)))}
        if self.compiler == "clang":  # of which flatten makes copies of functions that are noinline
            chosen.discard("flatten")
        if "hot" in chosen:
            chosen.discard("cold")
        return sorted({one.split("(")[0]: one for one in sorted(chosen)}.values())

    def top(self):
        """What a round does: calls, each inside of what catches what it may do."""
        body, cost = [], 0
        callable_ = [function for function in self.grown if function["shape"] in CALLABLE]
        for function in reversed(callable_):
            name = function["name"]
            if cost + self.cost[name] > MOST_TOP or (self.chance.random() < 0.4 and body):
                continue
            cost += self.cost[name]
            body.append(self.caught({"kind": "call", "callee": name, "argument": self.argument(), "constant": self.chance.randrange(200)}))
        for function in self.grown:
            if function["shape"] == "handler":
                body.insert(self.chance.randrange(len(body) + 1), {"kind": "raise", "signal": function["signal"]})
            elif function["shape"] == "worker":
                body.append({"kind": "spawn", "callee": function["name"]})
        return [one for one in body if one]

    def caught(self, one):
        """The call, inside of what catches what the function that it calls may do; nothing if nothing can."""
        done = self.known[one["callee"]]
        if JUMPS in done and THROWS in done:
            return None
        if JUMPS in done:
            return dict(one, kind="setjmp")
        if THROWS in done:
            return {"kind": "try", "body": [one], "other": [self.simple("arith")]}
        return one

    def argument(self):
        return self.chance.choice(("a", "a", "a + b", "b", "a ^ 21", "a * 3 + 1"))

    def body(self, room, depth, shape, inside=frozenset()):
        """Some statements, and what they cost."""
        chance, body, cost = self.chance, [], 1
        for _ in range(chance.randrange(1, 6 - depth) if depth < 5 else 1):
            which = chance.random()
            if which < 0.4 and self.grown:
                one, more = self.a_call(room - cost, inside)
            elif which < 0.6 and depth < 3:
                one, more = self.a_nest(room - cost, depth, shape, inside)
            else:
                one, more = self.simple(self.pick(SIMPLE, inside)), 3
            if one and cost + more <= room:
                body.append(one)
                cost += more
        if depth == 0 and chance.random() < (0.6 if any(one["kind"] == "switch" for one in body) else 0.35):
            one, more = self.a_tail(room - cost, shape, 0.9 if any(one["kind"] == "switch" for one in body) else 0.4)
            body += [one] if one else []
            cost += more
        return body, cost

    def pick(self, weights, inside):
        while True:
            kind = self.chance.choices(list(weights), list(weights.values()))[0]
            if kind in ONLY_CPP and not self.cpp:
                continue
            if kind == "computed" and self.cpp and self.compiler == "clang":
                continue  # it takes each label of the function for a target, also into and out of scopes
            if kind == "nested" and (self.cpp or self.compiler != "gcc"):
                continue
            if (kind == "throw" and THROWS not in self.may and "try" not in inside or kind == "longjmp" and (JUMPS not in self.may or "fixed" in inside)
                    or kind == "pause" and PAUSES not in self.may or kind == "assembly" and "assembly" not in self.features):
                continue
            if kind in ("try", "guard") and "throw" not in self.features and self.chance.random() < 0.7:
                continue
            return kind

    def simple(self, kind):
        chance = self.chance
        one = {"kind": kind, "mask": chance.choice((1, 3, 7, 15, 31)), "value": chance.randrange(2), "number": chance.randrange(3, 5000),
               "which": chance.randrange(100)}
        if kind == "die":
            one["how"] = chance.choice(("abort", "abort", "exit", "function", "cold", "trap", "assert") + (("throw",) if self.cpp else ()))
            one["style"] = chance.choice(("plain", "plain", "expected", "mixed"))
        if kind == "library":
            one["how"] = chance.choice(("copy", "print", "heap"))
        if kind == "assembly":
            one["which"] = chance.randrange(100)
            if self.cpp and self.compiler == "clang" and one["which"] % 10 == 8:
                one["which"] += 1  # no asm goto: as with labels as values
        return one

    def allowed(self, room, inside, nothing=False):
        may = set() if nothing else set(self.may)
        if "try" in inside and not nothing:
            may.add(THROWS)
        if "fixed" in inside:
            may.discard(JUMPS)
        return [f for f in self.grown if f["shape"] in CALLABLE and self.cost[f["name"]] <= room and self.known[f["name"]] <= may]

    def a_call(self, room, inside):
        chance, kind = self.chance, self.pick(CALLS, inside)
        if kind == "setjmp":
            callees = [f for f in self.grown if f["shape"] in CALLABLE and self.cost[f["name"]] <= room
                       and THROWS not in self.known[f["name"]] and self.known[f["name"]] - {JUMPS} <= self.may]
            callees = [f for f in callees if JUMPS in self.known[f["name"]]] or callees[:1]
        else:
            callees = self.allowed(room if kind != "sort" else room // 20, inside)
        if kind in ("sort", "nested", "static_local"):
            callees = [f for f in callees if not self.known[f["name"]] & {THROWS, JUMPS}]
        if not callees:
            return None, 0
        callee = chance.choice(callees)
        name = callee["name"]
        one = {"kind": kind, "callee": name, "argument": self.argument(), "constant": chance.randrange(200), "mask": chance.choice((1, 3, 7)), "value": 0}
        cost = self.cost[name] * (20 if kind == "sort" else 2 if kind == "nested" else 1) + 3
        if kind == "table":
            del one["callee"]
            like = [f for f in callees if (f["shape"] == "method" if callee["shape"] == "method" else f["shape"] == "plain") and f["counted"] != "callers"]
            if not like:
                return None, 0
            one["callees"] = [f["name"] for f in chance.sample(like, min(len(like), chance.randrange(1, 4)))]
            one["shift"] = chance.randrange(4)
            cost = max(self.cost[each] for each in one["callees"]) + 5
        return one, cost

    def a_nest(self, room, depth, shape, inside):
        chance, kind = self.chance, self.pick(NESTING, inside)
        one = self.simple(kind)
        if kind == "loop":
            one.update(times=chance.choice((1, 2, 3, 5, 9, 20)), style=chance.choice(("for", "down", "do", "while", "goto")),
                       leave=chance.choice(("", "", "break", "continue")))
            one["body"], cost = self.body(room // one["times"], depth + 1, shape, inside)
            return one, cost * one["times"] + 3
        if kind in ("switch", "computed"):
            one.update(dense=chance.random() < 0.7, through=chance.random() < 0.3, shift=chance.randrange(5))
            parts = [self.body(room // 3, depth + 2, shape, inside) for _ in range(chance.choice((2, 3, 5, 7, 9)))]
            one["cases"] = [part[0] for part in parts]
            return one, 2 * max(part[1] for part in parts) + 3
        inner = inside | ({"try", "fixed"} if kind == "try" else {"fixed"} if kind == "guard" else set())
        one["body"], cost = self.body(room // 2, depth + 1, shape, inner)
        if kind in ("try", "conditional"):
            one["other"], more = self.body(room // 2, depth + 1, shape, inside | ({"fixed"} if kind == "try" else set()))
            cost += more
        if kind == "guard":
            callees = [f for f in self.allowed(room // 3, inside, nothing=True)]
            if not callees:
                return None, 0
            one["callee"], one["constant"] = chance.choice(callees)["name"], chance.randrange(200)
            cost += self.cost[one["callee"]]
        if kind == "array":
            one["dynamic"] = chance.choice(("alloca", "length" if self.compiler == "gcc" else "alloca"))
        return one, cost + 4

    def a_tail(self, room, shape, through_table):
        chance = self.chance
        if shape in ("worker", "recursive"):
            return None, 0
        callees = [f for f in self.allowed(room, frozenset(), nothing=True) if f["shape"] in PLAIN or chance.random() < 0.2]
        if not callees:
            return None, 0
        first = chance.choice(callees)
        one = {"kind": "tail", "mask": chance.choice((0, 1, 3)), "value": 1, "shift": chance.randrange(3), "callee": first["name"]}
        cost = self.cost[first["name"]]
        like = [f for f in callees if (f["shape"] == first["shape"] == "method" or f["shape"] == first["shape"] == "plain") and f["counted"] != "callers"]
        if first in like and chance.random() < through_table:
            del one["callee"]
            one["callees"] = list(dict.fromkeys([first["name"]] + [f["name"] for f in chance.sample(like, min(len(like), 2))]))
            cost = max(self.cost[each] for each in one["callees"])
        return one, cost + 2


def settle(program, chance):
    """Which unit each function is in, and which are static: one whose callers are all in its own unit, and no
    library's startup code."""
    functions = program["functions"]
    if program["units"] == 2:
        first = chance.randrange(len(functions)) + 1
        for function in functions:
            if function["number"] > first and function["name"] not in program["extra"] and function["shape"] in CALLABLE:
                function["unit"] = 1
    units = {function["name"]: {function["unit"]} for function in functions}
    for function in functions + [dict(program["main"], unit=0)]:
        for name in called(function["body"]):
            units[name].add(function["unit"])
    if any(one["kind"] == "nested" for function in functions for one in statements(function["body"])):
        program["alternate_stack"] = False  # nested functions run code on the stack, and that one's cannot
    by_assembly = {name for function in functions if function["shape"] == "assembly" for name in called(function["body"])}
    wide = any(function["shape"] == "wide" for function in functions)
    for function in functions:
        if wide:  # with AVX it is passed in other registers than without
            function["attributes"] = [a for a in function["attributes"] if not a.startswith("target")]
        if function["name"] in by_assembly:
            function["attributes"] = [a for a in function["attributes"] if not a.startswith("visibility")]
        protected = [a for a in function["attributes"] if a.startswith("visibility")]
        if len(units[function["name"]]) == 1 and function["name"] not in by_assembly:
            function["static"] = function["shape"] not in ("method", "assembly") and chance.random() < 0.4
        if protected and (function["static"] or len(units[function["name"]]) > 1 or function["shape"] == "method"):
            function["attributes"] = [a for a in function["attributes"] if a not in protected]


def grow(seed):
    """(the program of this seed, the compiler that it is for)."""
    growth = Growth(seed)
    return growth.program(), growth.compiler
