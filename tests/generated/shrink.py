"""Makes a failing case smaller while it fails in the same way: fewer ways to run, options, functions, attributes and statements.

Each step proposes smaller cases, the boldest first; the first that still fails is taken, and steps begin anew, until none fails or
the time is over. A proposal that would no longer be sound (program.is_sound) is not tried.
"""

import copy
import time

from program import called, children, is_sound, reachable, statements


def shrink(case, fails, seconds):
    """The smallest case found for which fails(case) is true."""
    deadline = time.monotonic() + seconds
    best = case
    for proposals in (fewer_ways, fewer_options, fewer_functions, fewer_statements, fewer_attributes, fewer_options, fewer_statements):
        progress = True
        while progress and time.monotonic() < deadline:
            progress = False
            for smaller in proposals(best):
                if time.monotonic() > deadline:
                    break
                if is_sound(smaller["program"]) and fails(smaller):
                    best, progress = smaller, True
                    break
    return best


def changed(case, edit):
    """A copy of the case after edit(copy)."""
    smaller = copy.deepcopy(case)
    edit(smaller)
    return smaller


def fewer_ways(case):
    if len(case["settings"]["ways"]) > 1:
        for way in case["settings"]["ways"]:
            yield changed(case, lambda c, w=way: c["settings"].update(ways=[w]))
    if case["settings"]["everything"]:
        yield changed(case, lambda c: c["settings"].update(everything=False))


def fewer_options(case):
    choice = case["choice"]
    if choice["flags"] or choice["linked"]:
        yield changed(case, lambda c: c["choice"].update(flags=[], linked=[]))
    for key, plain in (("script", False), ("strip", ""), ("profile", False), ("lto", False), ("linker", ""), ("link", "pie")):
        if choice[key] != plain:
            yield changed(case, lambda c, k=key, v=plain: c["choice"].update({k: v}))
    for key in ("flags", "linked"):
        for number in range(len(choice[key])):
            yield changed(case, lambda c, k=key, n=number: c["choice"][k].pop(n))


def fewer_functions(case):
    """Without one of the functions and all statements that call it."""
    names = [function["name"] for function in reachable(case["program"])]
    used = [function["name"] for function in case["program"]["functions"]]
    if len(names) < len(used):
        yield changed(case, lambda c: c["program"].update(functions=reachable(c["program"])))
    for name in names:
        yield changed(case, lambda c, n=name: without(c["program"], n))
    if case["program"]["units"] == 2:
        yield changed(case, in_one_unit)


def in_one_unit(case):
    case["program"]["units"] = 1
    for function in case["program"]["functions"]:
        function["unit"] = 0


def without(program, name):
    program["functions"] = [function for function in program["functions"] if function["name"] != name]
    program["extra"] = [each for each in program["extra"] if each != name]
    for function in program["functions"] + [program["main"]]:
        drop(function["body"], name)


def drop(body, name):
    for statement in list(body):
        if name in called([dict(statement, body=[], other=[], cases=[])]):
            body.remove(statement)
        else:
            for inner in children(statement):
                drop(inner, name)


def fewer_statements(case):
    """Without one statement, or with what is inside of it in its place."""
    for place in range(len(bodies(case["program"]))):
        body = bodies(case["program"])[place]
        if len(body) > 3:
            for half in (slice(0, len(body) // 2), slice(len(body) // 2, None)):
                yield changed(case, lambda c, p=place, h=half: bodies(c["program"])[p].__delitem__(h))
        for number, statement in enumerate(body):
            yield changed(case, lambda c, p=place, n=number: bodies(c["program"])[p].pop(n))
            for which in range(len(children(statement))):
                yield changed(case, lambda c, p=place, n=number, w=which: unwrap(bodies(c["program"])[p], n, w))


def unwrap(body, number, which):
    body[number:number + 1] = children(body[number])[which]


def bodies(program):
    """All lists of statements, outer ones first."""
    found = []
    for owner in [program["main"], *program["functions"]]:
        found.append(owner["body"])
        for statement in statements(owner["body"]):
            found += children(statement)
    return found


def fewer_attributes(case):
    for place, function in enumerate(case["program"]["functions"]):
        if function["attributes"]:
            yield changed(case, lambda c, p=place: c["program"]["functions"][p].update(attributes=[]))
        if function["static"]:
            yield changed(case, lambda c, p=place: c["program"]["functions"][p].update(static=False))
    for key, plain in (("style", "small"), ("dies", ""), ("place", 0)):
        if case["program"]["main"][key] != plain:
            yield changed(case, lambda c, k=key, v=plain: c["program"]["main"].update({k: v}))
