"""Writes a generated program (program.py) as C or C++: one text for the program, one for a library or second object."""

import assembly
import kinds
from program import reachable, statements
from shapes import PLAIN, SHAPES, TYPES

ROUNDS = 4

BEFORE = """
#include <stdarg.h>
#ifdef JUMPS
#include <setjmp.h>
#endif
#ifdef SIGNALS
#include <signal.h>
#endif
#ifdef THREADS
#include <pthread.h>
#endif
#ifdef __cplusplus
extern "C" {
#endif
""" + TYPES + """
void *memset(void *, int, u); void *memmove(void *, const void *, u); u strlen(const char *); void qsort(void *, u, u, int (*)(const void *, const void *));
int snprintf(char *, u, const char *, ...); void *malloc(u); void free(void *); void exit(int) __attribute__((noreturn)); void _exit(int) __attribute__((noreturn));
void __assert_fail(const char *, const char *, unsigned, const char *) __attribute__((noreturn));
long read(int, void *, u); long write(int, const void *, u); void abort(void) __attribute__((noreturn));
struct pollfd { int fd; short events, revents; }; int poll(struct pollfd *, u, int);
struct count { u entries, returns; };
extern struct count n[];
extern volatile u zero;
extern volatile int pausing;
extern u sink;
extern __thread u mine;
#ifdef JUMPS
extern __thread jmp_buf *place;
#endif
void pause_here(void);
void die(u) __attribute__((noreturn));
void die_cold(u, u) __attribute__((noreturn, cold));
static inline void keep(void *p) { asm volatile("" : : "r"(p) : "memory"); }
u through(u (*f)(u), u x);
#ifdef THREADS
#define ADD(x) __atomic_fetch_add(&(x), 1, __ATOMIC_RELAXED)
#else
#define ADD(x) (x)++
#endif
#define E(k) ADD(n[k].entries)
#define R(k) ADD(n[k].returns)
#ifdef __clang__
#define COUNTED __attribute__((noinline, used))
#else
#define COUNTED __attribute__((noinline, noclone, used))
#endif
"""

# In the unit that the others need: the library, the second object, or the program itself.
SHARED = """
struct count n[{size}];
volatile u zero;
volatile int pausing;
u sink;
__thread u mine;
#ifdef JUMPS
__thread jmp_buf *place;
#endif
static void say(const char *what) {{
  char text[{size} * 50 + 100];
  u at = 0;
  for (const char *c = what; *c; c++) text[at++] = *c;
  for (u i = 0; i < {size} * 2; i++) {{
    u value = i % 2 ? n[i / 2].returns : n[i / 2].entries;
    char digits[24];
    int many = 0;
    do digits[many++] = (char)('0' + value % 10); while (value /= 10);
    text[at++] = ' ';
    while (many) text[at++] = digits[--many];
  }}
  text[at++] = '\\n';
  if (write(1, text, at) < 0) _exit(98);
}}
__attribute__((noinline, used)) void pause_here(void) {{
  char c;
  pausing = 0;
  say("pause");
  if (read(0, &c, 1) != 1) _exit(97);
}}
__attribute__((noinline, used)) void die(u a) {{ sink = a; abort(); }}
__attribute__((noinline, used)) void die_cold(u a, u b) {{ sink = a + b; exit(96); }}
__attribute__((noinline, used)) u through(u (*f)(u), u x) {{ return f(x) + f(x + 1); }}
__attribute__((noinline, used)) void show_counts(void) {{ say("counts"); }}
"""

DRIVER = """
void show_counts(void);
static void show(const char *what, u value) {{
  char text[80];
  if (write(1, text, (u)snprintf(text, 80, "%s %lu\\n", what, value)) < 0) _exit(98);
}}
// Not among the destructors' code, so that main may stand right behind its own cold part.
__attribute__((destructor(101), section(".text"))) static void at_the_end(void) {{ n[{main}].returns = {returns}; show_counts(); }}
__attribute__((noinline, used)) void run(int count, char **arguments) {{
  u first[{rounds}] = {{0}}, wrong = 0;
  char mode = count > 1 ? arguments[1][0] : 'n';
  n[{main}].entries = 1;  // main is counted here, so that it may begin with its call
{signals}
  for (u round = 0;; round++) {{
    u r = round % {rounds};
    mine = 1;
    if (mode == 'p' && round == {half}) pausing = 1;
    u got = top(r * 0x9e3779b9 + {seed}, r);
    if (round < {rounds}) first[r] = got;
    else if (got != first[r]) wrong++;
    if (pausing) pause_here();
    if (mode != 'l' && round == {last}) break;
    if (mode == 'l' && round >= {last}) {{
      struct pollfd in = {{0, 1, 0}};
      if (poll(&in, 1, 0) > 0) {{
        char c;
        if (read(0, &c, 1) != 1 || c == 'q') break;
        pause_here();
      }}
    }}
  }}
  u sum = sink & 0;
  for (u r = 0; r < {rounds}; r++) sum = sum * 31 + first[r];
  show("result", sum);
  show("wrong", wrong);
}}
"""

MAINS = {
    "small": "int main(int count, char **arguments) { run(count, arguments); MAYBE_DIE return STATUS; }",
    "large": "int main(int count, char **arguments) { u a = (u)count, b = zero; run(count, arguments); a += top(a, b) & 0; MAYBE_DIE return STATUS + (int)b; }",
    "exit": "int main(int count, char **arguments) { run(count, arguments); MAYBE_DIE exit(STATUS); }",
    "_exit": "int main(int count, char **arguments) { run(count, arguments); MAYBE_DIE show_counts(); _exit(STATUS); }",
}


def is_microsoft(function):
    """GCC 12 loses what it keeps in %rdi over the address of a thread's variable, which is given in %rdi."""
    return function["shape"] == "microsoft" and not {"thread_local", "guard"} & {one["kind"] for one in statements(function["body"])}


class Writer:
    def __init__(self, program):
        self.program = program
        self.cpp = program["language"] == "c++"
        self.written = reachable(program)
        self.functions = {function["name"]: function for function in self.written}
        self.function = None
        self.before = []  # what must stand before the function that is being written
        self._numbers = 0

    def fresh(self):
        self._numbers += 1
        return self._numbers

    def block(self, body):
        return "{ " + " ".join(self.statement(one) for one in body) + " }"

    def statement(self, one):
        return kinds.KINDS[one["kind"]](self, one) + "\n"

    def call(self, name, argument, constant):
        function = self.functions[name]
        text = SHAPES[function["shape"]].call.format(argument, f=name, k=constant % 200)
        if function["counted"] == "callers":
            k = function["number"]
            return f"({{ E({k}); u got_ = {text}; R({k}); got_; }})"
        return text

    def leave(self, expression):
        shape = SHAPES[self.function["shape"]]
        if shape.result == "void":
            return f"{{ sink += {expression}; {self.count('R')} return; }}"
        return f"{{ {shape.result} result_ = {shape.give.format(expression)}; {self.count('R')} return result_; }}"

    def leave_by(self, names, shift):
        """Leaves by a call of one of these, through a pointer where there are several."""
        first = self.functions[names[0]]
        if len(names) > 1:
            call = f"{self.table(names)}[(a >> {shift}) % {len(names)}]"
            call += "->method(a, b)" if first["shape"] == "method" else "(a, b)"
        else:
            call = SHAPES[first["shape"]].call.format("a", f=names[0], k="b") if first["shape"] in PLAIN else \
                SHAPES[first["shape"]].call.format("a", f=names[0], k="7")
        k = first["number"]
        counted = f"E({k}); R({k});" if first["counted"] == "callers" else ""
        own = self.function["shape"]
        given = call if own in PLAIN + ("recursive", "many", "variadic", "microsoft") else SHAPES[own].give.format(call)
        if SHAPES[own].result == "void":
            return f"{{ {self.count('R')} {counted} sink += {call}; return; }}"
        return f"{{ {self.count('R')} {counted} return {given}; }}"

    def count(self, which):
        return f"{which}({self.function['number']});" if self.function["counted"] == "self" else ""

    def table(self, names):
        name = f"table{self.fresh()}"
        if self.functions[names[0]]["shape"] == "method":
            self.before.append(f"static base *volatile {name}[] = {{ {', '.join('&the_' + each for each in names)} }};")
        else:
            self.before.append(f"static u (*volatile {name}[])(u, u) = {{ {', '.join(names)} }};")
        if self.functions[names[0]]["number"] % 2:  # through a pointer to it, as a table of an object's functions is
            self.before.append(f"static __typeof__({name}[0]) *volatile through_{name} = {name};")
            return f"through_{name}"
        return name

    def comparison(self, callee, constant):
        name = f"compare{self.fresh()}"
        self.before.append(f"static int {name}(const void *p, const void *q) {{ u a = *(const u *)p; sink ^= {self.call(callee, 'a', constant)} & 0; "
                           "return a < *(const u *)q ? -1 : a > *(const u *)q; }")
        return name

    def definition(self, function):
        """The text of a function, and what must stand before it."""
        if function["shape"] == "assembly":
            return assembly.text(function["name"], function["body"][0] if function["body"] else None) + "\n"
        self.function, self.before = function, []
        shape = SHAPES[function["shape"]]
        body = "\n".join(self.statement(one).rstrip() for one in function["body"])
        begin = self.count("E") if function["counted"] == "self" else 'asm volatile("");'
        text = f"{begin} {shape.begin}\n{body}\n{self.leave('a ^ b')}\n"
        if function["shape"] == "method":
            head = f"u class_{function['name']}::method(u a, u b)"
        else:
            convention = "__attribute__((ms_abi)) " if is_microsoft(function) else ""
            head = f"{shape.result} {convention}{function['name']}({shape.parameters})"
        return "\n".join(self.before) + f"\n{head} {{\n{text}}}\n"

    def declaration(self, function):
        name, shape = function["name"], SHAPES[function["shape"]]
        attributes = self.attributes(function)
        if function["shape"] == "method":
            return (f"struct class_{name} : base {{ u method(u a, u b) __asm__(\"{name}\") {attributes}; }}; "
                    f"extern class_{name} the_{name}; extern base *volatile object_{name};")
        static = "static " if function["static"] else ""
        return f"{static}{shape.result} {name}({shape.parameters}) {attributes};"

    def attributes(self, function):
        given = list(function["attributes"])
        if is_microsoft(function):
            given.append("ms_abi")
        text = f" __attribute__(({', '.join(given)}))" if given else ""
        if function["counted"] == "no":
            return text  # may be taken in
        return "COUNTED" + text

    def defines(self):
        kinds_used = {one["kind"] for function in self.written for one in statements(function["body"])}
        kinds_used |= {one["kind"] for one in statements(self.program["main"]["body"])}
        return "".join(f"#define {name} 1\n" for name, needs in
                       (("JUMPS", {"setjmp", "longjmp"}), ("SIGNALS", {"raise"}), ("THREADS", {"spawn"})) if needs & kinds_used)

    def unit(self, which, shared):
        """A source: the functions of the unit `which`; with what all share, if this is the place for it."""
        own = [function for function in self.written if function["unit"] == which]
        text = self.defines() + BEFORE
        if self.cpp:
            text += "struct base { virtual u method(u, u) = 0; };\n"
        text += "\n".join(self.declaration(function) for function in self.written if function["unit"] == which or not function["static"]) + "\n"
        if shared:
            text += SHARED.format(size=number_of_main(self.program) + 1)
        definitions = {function["name"]: self.definition(function) for function in own}
        main = self.main() if which == 0 else ""
        objects = "".join(f"class_{f['name']} the_{f['name']}; base *volatile object_{f['name']} = &the_{f['name']};\n"
                          for f in own if f["shape"] == "method")
        order = [own[place % len(own)]["name"] for place in self.program["order"]] if own else []
        names = list(dict.fromkeys(order + [function["name"] for function in own]))
        parts = [definitions[name] for name in names]
        if which == 0:
            parts.insert(self.program["main"]["place"] % (len(parts) + 1), main)
        return text + objects + "\n".join(parts) + "\n#ifdef __cplusplus\n}\n#endif\n"

    def main(self):
        self.function = {"name": "top", "shape": "plain", "counted": "self", "number": 0}
        self.before = []
        settings = self.program["main"]
        body = "\n".join(self.statement(one).rstrip() for one in settings["body"])
        text = "\n".join(self.before) + f"\nCOUNTED u top(u a, u b) {{\n{self.count('E')}\n{body}\n{self.leave('a ^ b')} }}\n"
        text += DRIVER.format(main=number_of_main(self.program), returns=int(settings["style"] in ("small", "large")), rounds=ROUNDS, half=ROUNDS // 2, last=ROUNDS - 1, seed=settings["seed"], signals=self.signals())
        last = {"": "", "abort": "if (zero) __builtin_abort();", "die": "if (zero) die_cold(1, 2);"}[settings["dies"]]
        return text + MAINS[settings["style"]].replace("MAYBE_DIE", last).replace("STATUS", str(settings["status"])) + "\n"

    def signals(self):
        handlers = [function for function in self.written if function["shape"] == "handler"]
        if not handlers or "SIGNALS" not in self.defines():
            return ""
        text = "  struct sigaction action; memset(&action, 0, sizeof action);\n"
        if self.program["alternate_stack"]:
            text += ("  static char room[65536]; stack_t other; memset(&other, 0, sizeof other); other.ss_sp = room; other.ss_size = sizeof room;\n"
                     "  sigaltstack(&other, 0); action.sa_flags = SA_ONSTACK;\n")
        for function in handlers:
            text += f"  action.sa_handler = {function['name']}; sigaction({function['signal']}, &action, 0);\n"
        return text


def sources(program):
    """{name of a file: its text}, the program's own first."""
    extension = "cc" if program["language"] == "c++" else "c"
    writer = Writer(program)
    if program["units"] == 1:
        return {f"program.{extension}": writer.unit(0, True)}
    return {f"program.{extension}": writer.unit(0, False), f"part.{extension}": writer.unit(1, True)}


def number_of_main(program):
    return max([function["number"] for function in program["functions"]] + [0]) + 1


def compared(program):
    """[(name, number)] of the functions whose entries and returns are known."""
    return [("main", number_of_main(program)), ("top", 0)] + [(function["name"], function["number"]) for function in reachable(program) if function["counted"] != "no"]
