"""Every construct that the language's page names, in its own spelling, under both standards; what it calls an
extension is refused under --std=classic; its words are names wherever they are not needed. Each wrong file has one
error. Goldens (tests/golden) show what the messages say; here the point is that nothing of the page is forgotten."""
import unittest

from mdlc_case import FAILED, MdlcCase

FIELDS = {"name": 'name "M";', "units": "units ops;", "aggregateOperator": "aggregateOperator sum;",
          "style": "style EventCounter;", "flavor": "flavor { unix };"}
ALL = " ".join(FIELDS.values())
EACH = "foreach f in $procedures"


def metric(base=EACH + " append f.entry (* m++; *)", kind="counter", extra="", fields=ALL, name="m"):
    return f"metric {name} {{ {fields} {extra} base is {kind} {{ {base} }} }}\n"


def code(text, point="f.entry", **more):
    return metric(f"{EACH} append preInsn {point} (* {text} *)", **more)


def timer(kind, event=""):
    verb = kind[0].upper() + kind[1:]
    return metric(f"{EACH} {{ append f.entry (* start{verb}(m); *) prepend f.return (* stop{verb}(m); *) }}",
                  kind + event)


FLOATS = "resourceList l is float { items { 1.5, 2 }; }\n"
CLASSIC = [
    metric(),
    *(f'{word} l is procedure {{ items {{ "a", "b" }}; flavor {{ unix, mpi }}; library true; }}\n' +
      metric("foreach f in l append f.entry (* m++; *)") for word in ("resourceList", "List", "list")),
    'resourceList (procedure, "id", ("a","b"), true, unix);\n' + metric("foreach f in id append f.entry (* m++; *)"),
    *(f"resourceList l is {kind} {{ library FALSE; items {{ {items} }}; }}\n" +
      metric("foreach x in l append $exit.entry (* m++; *)")
      for kind, items in (("procedure", '"a"'), ("module", '"a"'), ("string", '"a"'), ("int", "1, -2"),
                          ("float", "1.5, 2"))),
    "constraint c /Code/*/* is counter { append preInsn $constraint[0].entry (* c += 1; *)\n"
    "  prepend preInsn $constraint[0].return (* c -= 1; *) }\n" + metric(extra="constraint c;"),
    *(f"constraint c {path} is default;\n" + metric(extra="constraint c;")
      for path in ("/Code", "/Code/x", "/Code/*/*", "/Machine", "/Process/*", "/Thread/*", "/SyncObject",
                   "/SyncObject/Message", "/SyncObject/Message/*", "/Message", "/Message/*", "/File/*", "/Memory/*")),
    'daemon d { command "x"; flavor unix; host "h"; user "u"; dir "d"; remoteShell "ssh"; }',
    'daemon d { command "x"; flavor { unix }; MPItype "LAM"; }\ndaemon e { command "x"; flavor = unix; }',
    'process p { command "x"; daemon d; host "h"; user "u"; dir "d"; autoStart true; flavor unix; }',
    'visi v { command "x"; limit 2; force 1; metfocus "a"; host "h"; }',
    'tunable_constant { "name" 20.0; "flag" true; }\ntunable_constant "other" 2.0;',
    'exclude "/Code/libc.so.6/malloc"; exclude noCase regex "abc.*\\.d"; exclude "/Code/libc.so.6";',
    *(metric(fields=ALL.replace("flavor { unix };", text))
      for text in ("flavor = { unix };", "flavor { unix, mpi };", "flavor = { unix, mpi };")),
    metric(fields=" ".join(reversed(FIELDS.values()))),
    *(metric(fields=f"{ALL} {text}") for text in (
        "unitsType normalized;", "unitsType unnormalized;", "unitsType sampled;", "mode developer;", "mode normal;")),
    *(metric(fields=ALL.replace("sum", word)) for word in ("min", "max", "avg")),
    metric(fields=ALL.replace("EventCounter", "SampledFunction")),
    timer("processTimer"), timer("wallTimer"), timer("hwTimer", '("MINOR_FAULTS")'),
    metric(EACH + " append f.entry (* sampleHwCounter(m); *)", 'hwCounter("MAJOR_FAULTS")'),
    metric(EACH + " append f.entry (* t++; *)", "void", "counter t;"),
    metric(extra="constraint r /SyncObject/Message/* is replace counter { " + EACH +
           " append f.entry (* if ($arg[4] == $constraint[0]) r++; *) }"),
    metric("foreach x in $modules if (x.name == \"main\") foreach f in x.funcs append f.entry constrained (* m++; *)"),
    metric(EACH + " foreach c in f.calls { append preInsn c (* m++; *) append postinsn c (* m += $return; *) }"),
    metric(EACH + ' if (f.name == "main") prepend preinsn f.return (* m++; *)'),
    metric("append $start.entry (* m++; *) { append $exit.entry (* m++; *) }"),
    metric('if ($machine == "h" || $globalId >= 3) append $exit.entry (* m++; *)'),
    'append preInsn $exit.entry (* Call("f", 1); *)\n',
    code("if ($arg[0] > 3) m = 5; m += 2; m -= 1; m++; m = -$arg[1] + 3 - 4 * 5 / 6; m = &m; m = (3);"),
    code("m = $arg[0] < 1 || $arg[0] <= 2 && $arg[1] != 3;"),
    code('m += g($arg[0], 2); Call("g"); m += Call("g", 1, 2, 3, 4, 5, 6);'),
    code("m = $return;", "f.return"),
    code('m += readSymbol("v"); m += readAddress($arg[0]);'),
    *(FLOATS + metric(f"foreach x in l if ({condition}) append $exit.entry (* m++; *)")
      for condition in ("x < 2.5", "x <= 2", "x == 2", "x > -1.5", "x != 1.5", "2 >= x", "-x < 0")),
]
EXTENSIONS = [
    code("m = 0x1f;"), code("m = $arg[0] % 2 & 3;"), code("m = 4 ^ ~5 << 1 >> 2 | 1;"), code("m = !m;"),
    code("m--;"), code("m *= 2;"), code("m = $thread;"), code("m = $args.size;"),
    code("if (m) { m++; } else { m = 2; }"), code("if (m) m++; else m = 2;"),
    *(metric(f"{EACH} foreach l in f.loops append l.{point} (* m++; *)")
      for point in ("enter", "exit", "start_iter", "end_iter")),
    metric(EACH + " foreach b in f.blocks append b (* m++; *)"),
    metric(EACH + ' if (f.module.name == "x") append f.entry (* m++; *)'),
]
WRONG = [
    *(f"constraint c {path} is default;\n" for path in ("/Cod", "/Code/*/*/*", "/Machine/*/*")),
    *(f"{word} d {{ dir \"x\"; }}" for word in ("daemon", "process", "visi")),
    *(metric(fields=" ".join(text for key, text in FIELDS.items() if key != left)) for left in FIELDS),
    *(metric(fields=ALL + twice) for twice in FIELDS.values()),
    metric(extra="base is counter { }"), metric(extra="constraint nope;"), metric() + metric(),
    "resourceList l is procedure { flavor { unix }; }", "/* no comment */\n",
    code("m = $return;"), code("m = $elapsed;"), code("m = x;"), code("startWallTimer(m);"),
    code('m = "a";'), code("m += g(1, 2, 3, 4, 5, 6, 7);"), code("m = $constraint[0];"),
    metric(f"{EACH} {{ append f.entry (* startWallTimer(m); t += m; *) append f.return (* stopWallTimer(m); *) }}",
           "wallTimer", "counter t;"),
]
WORDS = """resourceList procedure module string int float flavor items library foreach in metric name units unitsType
normalized unnormalized sampled mode developer normal aggregateOperator sum min max avg style EventCounter
SampledFunction base is append prepend constraint constrained replace default derived counter processTimer wallTimer
hwTimer hwCounter void Call daemon process visi tunable_constant exclude noCase regex command host dir user remoteShell
autoStart force limit metfocus MPItype mrnet_topology""".split()


class Page(MdlcCase):
    def check(self, text, *options, status=0):
        self.source("page.mdl", text)
        return self.run_mdlc("page.mdl", "--check", *options, status=status).stderr

    def test_what_is_accepted(self):
        for text in CLASSIC:
            for options in ((), ("--std=classic",)):
                with self.subTest(text=text, options=options):
                    self.assertEqual(self.check(text, *options), "")

    def test_extensions(self):
        for text in EXTENSIONS:
            with self.subTest(text=text):
                self.assertEqual(self.check(text), "")
                self.assertIn("[E0009]", self.check(text, "--std=classic", status=FAILED))

    def test_what_is_refused(self):
        for text in WRONG:
            with self.subTest(text=text):
                self.assertEqual(self.check(text, status=FAILED).count(" error: "), 1)

    def test_obsolete_primitives(self):
        for call, modern in (("setCounter(m, 1)", "m = 1"), ("addCounter(m, 1)", "m += 1"),
                             ("subCounter(m, 1)", "m -= 1"), ('functionCall("f", 1)', 'Call("f", 1)')):
            said = self.check(code(f"{call}; m++;"))
            self.assertIn("[W0302, -Wobsolete]", said)
            self.assertIn(f"write '{modern}'", said)

    def test_words_are_names(self):
        parts = []
        for i, word in enumerate(WORDS):
            parts.append(f'resourceList {word} is procedure {{ items {{ "a" }}; }}\n')
            parts.append(metric(f"foreach f in {word} append f.entry (* {word}++; *)", name=word,
                                fields=ALL.replace("ops", word).replace("{ unix }", f"{{ {word} }}")))
            parts.append(metric(f"foreach {word} in $procedures append {word}.entry (* v{i}++; *)", name=f"v{i}"))
            parts.append(metric(f"{EACH} append f.entry (* {word} += 1; w{i} = {word}; *)", name=f"w{i}",
                                extra=f"counter {word};"))
        for options in ((), ("--std=classic",)):
            self.assertEqual(self.check("".join(parts), *options), "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
