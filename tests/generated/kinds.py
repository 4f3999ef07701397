"""The kinds of statements: how each is written in C or C++. One function a kind, called as its statements are.

Each takes the writer (source.py) and the statement, and returns text. `w.block(body)` writes inner statements,
`w.call(name, argument)` a call as an expression, `w.leave(expression)` a return of the function, and `w.fresh()` gives a number
that nothing else in the file has.
"""

ARITHMETIC = (
    "a = a * {n} + b;", "a ^= a >> 7; b += a & {n};", "b = (b << 3) | (a >> 61); a += b;", "if (a & {m}) a += {n}; else b ^= {n};",
    "a = (a >> 1) ^ (-(a & 1) & {n});", "b = a / {n}; a += a % {n};", "a = a > b ? a - b : b - a + {n};", "a += b * b; b = ~b;",
    "a = (u)(unsigned)(a + {n}); b = (u)(signed char)b;", "{{ double t = (double)(a & 0xffff); t = t * 1.5 + (double)(b & 15); a += (u)t; }}",
)


def arith(w, s):
    return ARITHMETIC[s["which"] % len(ARITHMETIC)].format(n=s["number"], m=s["mask"])


def call(w, s):
    return f"a += {w.call(s['callee'], s['argument'], s['constant'])};"


def call_if(w, s):
    return f"if ((a & {s['mask']}) == {s['value']}) b ^= {w.call(s['callee'], s['argument'], s['constant'])};"


def again(w, s):
    """Recursion: never in a tail position, for a compiler would make it a loop."""
    return f"if (depth) a += {w.function['name']}(a + {s['number']}, depth - 1);"


def conditional(w, s):
    return f"if ((a & {s['mask']}) == {s['value']}) {w.block(s['body'])} else {w.block(s['other'])}"


def loop(w, s):
    i, times, body = f"i{w.fresh()}", s["times"], w.block(s["body"])
    leave = f"if ((a & {s['mask']}) == {s['value']}) {s['leave']};" if s["leave"] else ""
    return {
        "for": f"for (u {i} = 0; {i} < {times}; {i}++) {{ {leave} {body} b += {i}; }}",
        "down": f"for (int {i} = {times}; {i} > 0; {i}--) {{ {body} {leave} a ^= (u){i}; }}",
        "do": f"{{ u {i} = 0; do {{ {body} a += {i}; }} while (++{i} < {times}); }}",
        "while": f"{{ u {i} = a % {times}; while ({i}) {{ {i}--; {leave} {body} }} }}",
        "goto": f"{{ u {i} = 0; again_{i}: {body} if (++{i} < {times}) goto again_{i}; }}",
    }[s["style"]]


def switch(w, s):
    cases = s["cases"]
    factor = 1 if s["dense"] else 1000003
    text = f"switch ((a >> {s['shift']}) % {len(cases) + 1} * {factor}) {{"
    for number, body in enumerate(cases):
        through = "" if s["through"] and number % 3 == 1 else "break;"
        text += f" case {number * factor}: {w.block(body)} {through}"
    return text + " default: a ^= 3; }"


def computed(w, s):
    name, cases = f"way{w.fresh()}", s["cases"]
    labels = ", ".join(f"&&{name}_{number}" for number in range(len(cases)))
    text = f"{{ static const void *const {name}[] = {{ {labels} }}; goto *{name}[(a >> {s['shift']}) % {len(cases)}];"
    for number, body in enumerate(cases):
        text += f" {name}_{number}: {w.block(body)} goto {name}_end;"
    return text + f" {name}_end:; }}"


def die(w, s):
    """Never true, but no compiler knows: what stands there makes the cold part."""
    how = {"abort": "__builtin_abort();", "exit": "exit(99);", "function": "die(a);", "trap": "__builtin_trap();", "cold": "die_cold(a, b);",
           "assert": "__assert_fail(\"generated\", \"here\", 1, \"f\");", "throw": "throw (int)a;" if w.cpp else "die(b);"}[s["how"]]
    return {"plain": f"if (zero) {how}", "expected": f"if (__builtin_expect(zero != 0, 0)) {{ b = a + 1; {how} }}",
            "mixed": f"if (a == b * 2 + 1 && zero) {how}"}[s["style"]]


def throw(w, s):
    return f"if ((a & {s['mask']}) == {s['value']}) throw (int)(a & 0xff);"


def try_(w, s):
    x = f"x{w.fresh()}"
    return f"try {w.block(s['body'])} catch (int {x}) {{ a += (u){x}; {w.block(s['other'])} }}"


def guard(w, s):
    name = f"guard{w.fresh()}"
    return (f"{{ struct {name} {{ u *at; ~{name}() {{ u a = *at; *at = a + {w.call(s['callee'], 'a', s['constant'])}; }} }} one = {{&b}}; "
            f"{w.block(s['body'])} }}")


def static_local(w, s):
    """Its constructor runs once, under the lock of the C++ library."""
    name = f"local{w.fresh()}"
    return (f"{{ struct {name} {{ u m; {name}(u a) {{ u before = mine; m = {w.call(s['callee'], 'a', s['constant'])} & 0; mine = before; }} }}; "
            f"static {name} one(a); b += one.m; }}")


def setjmp(w, s):
    n = w.fresh()
    return (f"{{ jmp_buf here{n}; jmp_buf *before{n} = place; volatile u got{n} = 1; place = &here{n}; "
            f"if (!_setjmp(here{n})) got{n} = {w.call(s['callee'], s['argument'], s['constant'])}; else got{n} = 77; place = before{n}; a += got{n}; }}")


def longjmp(w, s):
    return f"if ((a & {s['mask']}) == {s['value']} && place) longjmp(*place, 1);"


def pause(w, s):
    return "if (pausing) pause_here();"


def table(w, s):
    """Through a pointer that no compiler can know."""
    names = s["callees"]
    name = w.table(names)
    kind = "->method" if w.functions[names[0]]["shape"] == "method" else ""
    return f"a += {name}[(a >> {s['shift']}) % {len(names)}]{kind}(a, {s['constant']});"


def early(w, s):
    return f"if ((a & {s['mask']}) == {s['value']}) {w.leave('a + b')}"


def tail(w, s):
    """The call is the last that the function does; its return is counted before."""
    jump = w.leave_by(s["callees"] if "callees" in s else [s["callee"]], s["shift"])
    return f"if ((a & {s['mask']}) == {s['value']}) {jump}" if s["mask"] else jump


def raise_(w, s):
    return f"a += (u)raise({s['signal']});"


def spawn(w, s):
    n = w.fresh()
    return (f"{{ pthread_t t{n}[2]; u in{n}[2] = {{a & 15, b & 15}}; void *out{n}[2] = {{0, 0}}; "
            f"for (int i = 0; i < 2; i++) pthread_create(&t{n}[i], 0, {s['callee']}, &in{n}[i]); "
            f"for (int i = 0; i < 2; i++) {{ pthread_join(t{n}[i], &out{n}[i]); a += (u)out{n}[i]; }} }}")


def sort(w, s):
    """The C library calls back."""
    n = w.fresh()
    function = w.comparison(s["callee"], s["constant"])
    return f"{{ u list{n}[5] = {{a & 63, 9, b & 63, 4, 7}}; qsort(list{n}, 5, sizeof(u), {function}); a += list{n}[1] + list{n}[3]; }}"


def nested(w, s):
    """GCC's nested functions: their address is that of code on the stack."""
    n = w.fresh()
    return f"{{ u inner{n}(u x) {{ b += x; return {w.call(s['callee'], 'b', s['constant'])}; }} a += through(inner{n}, a & 7); }}"


def array(w, s):
    n = w.fresh()
    size = f"(a & 31) + {s['number'] % 60 + 4}"
    begin = f"char *room{n} = (char *)__builtin_alloca({size});" if s["dynamic"] == "alloca" else f"char room{n}[{size}];"
    return (f"{{ {begin} for (u i = 0; i < 4; i++) room{n}[i] = (char)(a >> i); keep(room{n}); a += (u)(unsigned char)room{n}[a & 3]; "
            f"{w.block(s['body'])} }}")


def thread_local(w, s):
    return f"mine += a; b ^= mine; if (mine & {s['mask']}) mine >>= 3;"


def library(w, s):
    n = w.fresh()
    return {"copy": f"{{ char to{n}[40]; memset(to{n}, (int)(a & 63), 40); memmove(to{n} + 1, to{n}, (a & 31) + 1); keep(to{n}); a += strlen(to{n} + 39 - 39) & 0; }}",
            "print": f"{{ char to{n}[64]; a += (u)snprintf(to{n}, 64, \"%lu %s\", a & 4095, \"x\"); }}",
            "heap": f"{{ u *p{n} = (u *)malloc(64); p{n}[1] = a; keep(p{n}); a += p{n}[1] & 1; free(p{n}); }}"}[s["how"]]


ASSEMBLY = (
    'asm volatile("test %0, %0\\n\\tjz 1f\\n\\tinc %0\\n1:" : "+r"(a) : : "cc");',
    'asm volatile("mov $3, %%ecx\\n1:\\tadd %%rcx, %0\\n\\tdec %%ecx\\n\\tjnz 1b" : "+r"(a) : : "cc", "rcx");',
    'asm volatile("jmp 1f\\n\\tud2\\n1:" : : : "memory");',
    'asm volatile("lock addq $0, (%%rsp)\\n\\tpause" : : : "memory", "cc");',
    'asm volatile(".p2align 4\\n\\tnop\\n\\tnopw 0(%%rax,%%rax,1)\\n\\tadd $1, %0" : "+r"(b) : : "cc");',
    'asm volatile("lea -128(%%rsp), %%rsp\\n\\tpushf\\n\\tpopf\\n\\tlea 128(%%rsp), %%rsp" : : : "memory", "cc");',
    'asm volatile("lea -128(%%rsp), %%rsp\\n\\tcall 1f\\n1:\\tpop %%rcx\\n\\tlea 128(%%rsp), %%rsp" : : : "memory", "rcx");',
    'asm volatile("xor %%ecx, %%ecx\\n\\tjrcxz 1f\\n\\tud2\\n1:\\tcld" : : : "memory", "cc", "rcx");',
    'asm goto("test $1, %0\\n\\tjnz %l[odd{fresh}]" : : "r"((int)a) : "cc" : odd{fresh}); b += 3; odd{fresh}: b ^= 1;',
    'asm volatile("cmp $9, %0\\n\\tja 1f\\n\\tadd $2, %0\\n\\tjmp 2f\\n1:\\tsub $1, %0\\n2:" : "+r"(a) : : "cc");',
)


def assembly(w, s):
    return "{ " + ASSEMBLY[s["which"] % len(ASSEMBLY)].replace("{fresh}", str(w.fresh())) + " }"


KINDS = {name.rstrip("_"): function for name, function in list(globals().items()) if callable(function)}
