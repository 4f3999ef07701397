"""The shapes of functions: what they take and return, and so which registers and stack their calls use.

All code works on two unsigned longs, a and b. A shape says how they come in, how the result goes out, and how a call from
such code looks. To have another shape, add a line to SHAPES.
"""

from typing import NamedTuple


class Shape(NamedTuple):
    result: str      # the type
    parameters: str
    begin: str       # sets a and b
    give: str        # the result, of the expression {0}
    call: str        # a call of {f} as an expression of type u, from the expression {0} and the constant {k}


SHAPES = {
    "plain": Shape("u", "u a, u b", "", "{0}", "{f}({0}, {k})"),
    "tiny": Shape("u", "u a, u b", "", "{0}", "{f}({0}, {k})"),
    "recursive": Shape("u", "u a, u depth", "u b = depth;", "{0}", "{f}({0}, {k} % 6)"),
    "narrow": Shape("int", "unsigned char x, short y", "u a = x, b = (unsigned short)y;", "(int)(({0}) & 0xffff)",
                    "(u){f}((unsigned char)({0}), (short){k})"),
    "real": Shape("double", "double x, float y", "u a = (u)x, b = (u)y;", "(double)(({0}) & 0xffffff)",
                  "(u){f}((double)(({0}) & 0xfffff), {k}.0f)"),
    "long_double": Shape("long double", "long double x, u b", "u a = (u)x;", "(long double)(({0}) & 0xffffffff)",
                         "(u){f}((long double)(({0}) & 0xfffff), {k})"),
    "complex": Shape("pair", "u a, pair p", "u b = p.first + (u)p.second;", "make_pair_of({0})",
                     "(u){f}({0}, make_pair_of({k})).second"),
    "large": Shape("large", "large x", "u a = x.m[0], b = x.m[4];", "make_large({0})", "{f}(make_large({0})).m[3]"),
    "assembly": Shape("u", "u a, u b", "", "{0}", "{f}({0}, {k})"),  # assembly.py
    "many": Shape("u", "u a, u b, u c, u d, u e, u g, u h, u i", "a += c + d; b ^= e + g + h + i;", "{0}",
                  "{f}({0}, {k}, 2, 3, 4, 5, 6, 7)"),
    "vector": Shape("v4", "v4 x, u b", "u a = x[0] + x[3];", "make_v4({0})", "first_of({f}(make_v4({0}), {k}))"),
    "wide": Shape("v8", "v8 x, v8 y", "u a = x[0] + y[3], b = x[1];", "make_v8({0})", "first_of_8({f}(make_v8({0}), make_v8({k})))"),
    "variadic": Shape("u", "u a, ...",
                      "u b = 0; va_list list; va_start(list, a); for (int each = 0; each < 3; each++) b += va_arg(list, u); "
                      "b += (u)va_arg(list, double); va_end(list);",
                      "{0}", "{f}({0}, (u){k}, 2ul, 3ul, 4.5)"),
    "microsoft": Shape("u", "u a, u b", "", "{0}", "{f}({0}, {k})"),
    "method": Shape("u", "u a, u b", "", "{0}", "object_{f}->method({0}, {k})"),
    "handler": Shape("void", "int number", "u a = (u)number, b = 3;", "{0}", ""),
    "worker": Shape("void *", "void *argument", "u a = *(u *)argument, b = 5;", "(void *)({0})", ""),
    # clang evaluates constructors while it compiles, unless something is not to be known then.
    "startup": Shape("void", "void", "volatile u unknown = 7; u a = unknown, b = 9;", "{0}", ""),
}

# Those whose calls may be jumps from each other.
PLAIN = ("plain", "tiny", "method")
# Those that ordinary calls may call.
CALLABLE = [name for name, shape in SHAPES.items() if shape.call]

TYPES = """
typedef unsigned long u;
typedef unsigned v4 __attribute__((vector_size(16)));
typedef unsigned v8 __attribute__((vector_size(32)));
typedef struct { u first; double second; } pair;
typedef struct { u m[5]; } large;
static inline pair make_pair_of(u x) { pair p = {x & 255, (double)(x & 0xffff)}; return p; }
static inline large make_large(u x) { large l = {{x, 1, x >> 3, x ^ 5, 2}}; return l; }
static inline v4 make_v4(u x) { v4 v = {(unsigned)x, 2, 3, (unsigned)(x >> 7)}; return v; }
static inline v8 make_v8(u x) { v8 v = {(unsigned)x, 2, 3, (unsigned)(x >> 7), 5, 6, 7, 8}; return v; }
static inline u first_of(v4 v) { return v[0] + v[2]; }
static inline u first_of_8(v8 v) { return v[0] + v[5]; }
"""
