"""What a generated program is: functions that call each other, made of statements.

A program is plain data (dicts, lists, numbers), so it is kept as JSON, compared, and shrunk by deleting parts of it. The
rules that make its counts exact are here, because growing (grow.py) and shrinking (shrink.py) must both keep them:

- Function number i calls only functions of higher numbers, or itself with a smaller depth: every program ends.
- Each function that is compared is called as often as the source says: it is neither inlined nor cloned, and is counted
  where it begins and before each return, or by those who call it, around the call.
- A call in a tail position may become a jump, so the caller's return is counted before it. What is called there always
  comes back, without a pause in it.

    program   {"language", "seed", "functions", "main", "ending", "rounds", "threads", "alternate_stack", …}
    function  {"name", "shape", "attributes", "counted", "body", "unit", "static", "depth"}
    statement {"kind", …, "body", "other", "cases"}
"""

import json

# How a function may be left, or what it may do, that its callers must know of.
THROWS, JUMPS, PAUSES = "throws", "jumps", "pauses"


def children(statement):
    """The lists of statements inside of one."""
    return [statement[key] for key in ("body", "other") if key in statement] + list(statement.get("cases", []))


def statements(body):
    """All statements of a body, outer ones first."""
    for statement in body:
        yield statement
        for inner in children(statement):
            yield from statements(inner)


def by_name(program):
    return {function["name"]: function for function in program["functions"]}


def called(body):
    """The names that a body refers to, in its calls of all kinds."""
    names = []
    for statement in statements(body):
        names += [statement[key] for key in ("callee",) if key in statement]
        names += statement.get("callees", [])
    return names


def reachable(program):
    """The program's functions that something leads to from main, in their order."""
    functions = by_name(program)
    wanted, seen = called(program["main"]["body"]) + program["extra"], set()
    while wanted:
        name = wanted.pop()
        if name not in seen:
            seen.add(name)
            wanted += called(functions[name]["body"])
    return [function for function in program["functions"] if function["name"] in seen]


def effects_of(body, known):
    """What a body may do to those who run it; `known`: {name of a function: its effects}."""
    found = set()
    for statement in body:
        inside = set()
        for block in children(statement):
            inside |= effects_of(block, known)
        if statement["kind"] == "try":
            inside = (effects_of(statement["body"], known) - {THROWS}) | effects_of(statement["other"], known)
        for name in called([dict(statement, body=[], other=[], cases=[])]):
            inside |= known.get(name, set())
        if statement["kind"] == "setjmp":
            inside -= {JUMPS}
        own = {"throw": {THROWS}, "longjmp": {JUMPS}, "pause": {PAUSES}}
        found |= inside | own.get(statement["kind"], set())
    return found


def effects(program):
    """{name: what it may do}, from the functions that are called to those that call."""
    known = {}
    for function in reversed(program["functions"]):
        known[function["name"]] = effects_of(function["body"], known)
    return known


def is_sound(program):
    """Whether counts are exact and the program's behavior is defined: what a shrunk program must still be."""
    known = effects(program)
    for function in program["functions"]:
        if not body_is_sound(function["body"], known):
            return False
    main = program["main"]
    return body_is_sound(main["body"], known) and not effects_of(main["body"], known) & {THROWS, JUMPS}


def body_is_sound(body, known):
    for statement in statements(body):
        kind = statement["kind"]
        done = set().union(*(known[name] for name in called([dict(statement, body=[], other=[], cases=[])])), set())
        if kind in ("tail", "spawn", "assembly_text") and done:
            return False
        if kind in ("raise", "sort", "nested", "static_local", "guard") and done & {THROWS, JUMPS}:
            return False
        if kind == "setjmp" and THROWS in done:
            return False
        # A jump would pass over destructors and handlers.
        inside = set().union(*(effects_of(block, known) for block in children(statement)), set())
        if kind in ("try", "guard") and JUMPS in inside:
            return False
    return True


def save(program, path):
    path.write_text(json.dumps(program, indent=1) + "\n")


def load(path):
    return json.loads(path.read_text())
