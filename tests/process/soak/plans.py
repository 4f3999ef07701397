"""Random plans for the soak: metrics over random functions of a process, and requests with random foci.

Everything comes from the random generator that is handed in, so that a seed and a process's functions give the same
plans. Half of the functions are such as the load uses (servers.py): most of a program's functions are never called.
"""

import fnmatch
import re

import harness

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.$]*\Z")  # no wildcards, nothing to quote

# (name, how many functions at most, the code at each function); {m} is the metric, {c} `constrained` or nothing.
KINDS = [
    ("entries", 400, "append preInsn f.entry {c} (* {m}++; *)"),
    ("returns", 400, "prepend preInsn f.return {c} (* {m}++; *)"),
    ("arguments", 100, "append preInsn f.entry {c} (* if ($arg[0] > $arg[1]) {m} += $arg[2] / 3; *)"),
    ("results", 100, "prepend preInsn f.return {c} (* if ($return > 0) {m} += $return % 97; *)"),
    ("before", 60, "foreach p in f.calls {{ append preInsn p {c} (* {m}++; *) }}"),
    ("after", 60, "foreach p in f.calls {{ append postInsn p {c} (* {m}++; *) }}"),
    ("around", 30, "foreach p in f.calls {{ append preInsn p {c} (* {m} += $arg[0] & 1; *) "
                   "append postInsn p {c} (* {m} += $return & 1; *) }}"),
    ("blocks", 20, "foreach p in f.blocks {{ append preInsn p {c} (* {m}++; *) }}"),
    ("loops", 30, "foreach l in f.loops {{ append preInsn l.enter {c} (* {m}++; *) "
                  "append preInsn l.exit {c} (* {m}++; *) append preInsn l.start_iter {c} (* {m}++; *) append preInsn l.end_iter {c} (* {m}++; *) }}"),
    ("memory", 5, "append preInsn f.entry {c} (* {m} += readAddress($arg[0]) & 255; *)"),
    ("threads", 50, "append preInsn f.entry {c} (* if ($thread % 2 == 0) {m}++; *)"),
    ("asked", 2, 'append preInsn f.entry {c} (* {m} += Call("getpid") > 0; *)'),
]
TIMERS = [("wall", 60, "wallTimer", "WallTimer"), ("cpu", 4, "processTimer", "ProcessTimer"),
          ("faults", 3, 'hwTimer("MINOR_FAULTS")', "HwTimer")]
METRIC = """
metric {m} {{
  name "{m}"; units Units; unitsType unnormalized; aggregateOperator {fold}; style {style}; flavor {{ unix }};
  {constraints}
  base is {type} {{ foreach f in {m}_list {{ {code} }} }}
}}
"""
LIST = 'resourceList {m}_list is procedure {{ items {{ {items} }}; library true; flavor {{ unix }}; }}'
KEYS = """
constraint key /SyncObject/Message/* is counter {{
  foreach f in key_list {{
    append preInsn f.entry (* if (($arg[0] & 255) == $constraint[0]) key += 1; *)
    prepend preInsn f.return (* if (key > 0) key -= 1; *)
  }}
}}
"""


class Functions:
    """{object: names} of a process, of the objects that are measured, and those that its load uses often."""

    def __init__(self, pid, libraries, busy):
        done = harness.run(harness.MDL_INJECT, "--list", pid, seconds=180)
        if done.returncode != 0:
            raise AssertionError(f"mdl-inject --list: {done.stderr}")
        self.program, self.of = done.stdout.split("/", 3)[2], {}  # the program's own functions come first
        for line in done.stdout.splitlines():
            path = line.split("  ")[0]
            _, _, module, name = path.split("/", 3)
            if PLAIN.match(name) and (module == self.program or module.startswith(libraries)):
                self.of.setdefault(module, []).append(name)
        self.of = {module: sorted(set(names)) for module, names in sorted(self.of.items())}
        pattern = re.compile(busy)
        self.hot = [(module, name) for module, names in self.of.items() for name in names if pattern.fullmatch(name)]
        if len(self.hot) < 10:
            raise AssertionError(f"few of {self.program}'s busy functions are there: {self.hot}")

    def some(self, random, count):
        """Names of functions, half of them such as run often; of one object more than of all."""
        chosen = set()
        for _ in range(count):
            if self.hot and random.random() < 0.5:
                chosen.add(random.choice(self.hot)[1])
            else:
                module = self.program if random.random() < 0.7 else random.choice(list(self.of))
                chosen.add(random.choice(self.of[module]))
        return sorted(chosen)

    def place(self, random):
        """A focus on a function."""
        if self.hot and random.random() < 0.7:
            return "/".join(("/Code", *random.choice(self.hot)))
        module = random.choice(list(self.of))
        return f"/Code/{module}/{random.choice(self.of[module])}"


class Plan:
    """A random plan: its text, and what can be asked of it."""

    def __init__(self, random, functions):
        self.metrics = {}  # name -> whether it has constraints
        keyed = functions.some(random, random.choice((1, 3, 20)))
        text = harness.CONSTRAINTS + KEYS.format() + self.list_of("key", keyed)
        for number in range(random.randint(2, 6)):
            text += self.metric(random, functions, f"m{number}")
        self.text = text
        self.calls = "Call(" in text

    @staticmethod
    def list_of(name, items):
        return LIST.format(m=name, items=", ".join(f'"{item}"' for item in items))

    def metric(self, random, functions, name):
        constrained = random.random() < 0.5
        if random.random() < 0.25:
            _, most, kind, verb = random.choice(TIMERS)
            code = (f"append preInsn f.entry {{c}} (* start{verb}({{m}}); *) "
                    f"prepend preInsn f.return {{c}} (* stop{verb}({{m}}); *)")
            style = "SampledFunction"
        else:
            _, most, code = random.choice(KINDS)
            kind, style = "counter", "EventCounter"
        counter = style == "EventCounter"
        self.metrics[name] = "none" if not constrained else "all" if counter else "code"
        constraints = ["procedure", "module"] + (["key"] if counter else []) if constrained else []
        fold = "sum" if random.random() < 0.8 or constrained else random.choice(("min", "max", "avg"))
        items = functions.some(random, min(most, random.choice((1, 5, 20, 60, 400))))
        return self.list_of(name, items) + METRIC.format(
            m=name, fold=fold, style=style, type=kind,
            constraints=" ".join(f"constraint {one};" for one in constraints),
            code=code.format(m=name, c="constrained" if constrained else ""))

    def requests(self, random, functions):
        """Arguments of mdl-inject: one to five metrics, each somewhere."""
        words = []
        for _ in range(random.randint(1, 5)):
            name = random.choice(list(self.metrics))
            foci = ["", "/Thread/*"]
            if self.metrics[name] != "none":
                foci += [functions.place(random), functions.place(random)]
                module = random.choice(list(functions.of))
                # All at once is for counters; a timer is a request of its own for each.
                most = 5000 if self.metrics[name] == "all" else 500
                if len(functions.of[module]) < most and random.random() < 0.3:
                    foci += [f"/Code/{module}", f"/Code/{module}/*"]
            if self.metrics[name] == "all":
                foci += ["/SyncObject/Message/*"]
            words += ["-m", "@".join(filter(None, (name, random.choice(foci))))]
        return words + ["--allow-reads"] + (["--allow-calls"] if self.calls else [])


def standard_requests(random, functions, metrics):
    """Of the standard metrics: some of a program's own, and now and then every function of an object."""
    words = []
    for pattern in random.sample(["wall_time", "cpu_time*", "procedure_*", "wall_time_exclusive"], 2):
        metric = random.choice(fnmatch.filter(metrics, pattern))
        words += ["-m", f"{metric}@{functions.place(random)}"]
    others = [metric for metric in metrics if not fnmatch.fnmatch(metric, "*_time*") and metric != "malloc_live_bytes"
              and not metric.startswith("procedure_")]
    words += [word for metric in random.sample(others, min(2, len(others))) for word in ("-m", metric)]
    modules = [module for module, names in functions.of.items() if len(names) < 5000]
    if modules and random.random() < 0.3:
        words += ["-m", f"procedure_calls@/Code/{random.choice(modules)}" + random.choice(("", "/*"))]
    return words
