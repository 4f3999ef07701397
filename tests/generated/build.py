"""How generated programs are compiled and linked: a random choice of compiler, options and layout, and the commands for it.

A choice is plain data, like a program, so that a failure is kept with it and options can be taken away one by one:

    {"compiler", "level", "link", "linker", "script", "strip", "profile", "lto", "flags"}
"""

import pathlib
import shlex
import subprocess

from program import statements

LEVELS = ("-O0", "-O1", "-O2", "-O2", "-O3", "-Os")
BOTH = ("-fomit-frame-pointer", "-fno-omit-frame-pointer", "-mavx2", "-fcf-protection=full", "-fcf-protection=none", "-fno-plt", "-ffunction-sections",
        "-fno-jump-tables", "-fstack-protector-all", "-mno-red-zone", "-fno-optimize-sibling-calls", "-falign-functions=1", "-falign-functions=64",
        "-fno-stack-protector", "-march=x86-64-v3", "-march=x86-64-v2", "-fstack-clash-protection", "-fno-semantic-interposition", "-g1", "-fPIC",
        "-falign-loops=32", "-mpreferred-stack-boundary=5")
GCC = ("-fno-align-functions", "-falign-functions=3", "-fno-reorder-functions", "-freorder-blocks-algorithm=simple", "-fno-reorder-blocks-and-partition",
       "-funroll-all-loops", "-ftracer", "-fno-crossjumping", "-fno-shrink-wrap", "-fconserve-stack", "-mindirect-branch=thunk-inline",
       "-fno-ipa-ra", "-fipa-pta", "-fno-toplevel-reorder", "-fno-ipa-icf", "-mstackrealign", "-mno-push-args -maccumulate-outgoing-args",
       "-fno-tree-switch-conversion", "-fharden-compares", "-fpatchable-function-entry=4,1", "-fno-if-conversion -fno-if-conversion2", "-fno-gcse",
       "-Wa,-mbranches-within-32B-boundaries", "-fno-peephole2 -fno-schedule-insns2", "-fno-align-jumps -fno-align-loops -fno-align-labels",
       "-mcmodel=large -fno-pic -no-pie", "-fno-guess-branch-probability", "-fprofile-reorder-functions", "-fzero-call-used-regs=used")
CLANG = ("-mllvm -align-all-blocks=4", "-mllvm -align-all-functions=5", "-fno-unroll-loops", "-mllvm -enable-block-placement-stats=false", "-mbranches-within-32B-boundaries",
         "-fsplit-machine-functions", "-fpatchable-function-entry=4", "-mretpoline", "-fno-vectorize -fno-slp-vectorize", "-fbasic-block-sections=all",
         "-mllvm -tail-dup-size=6", "-funique-basic-block-section-names -fbasic-block-sections=all")
C_ONLY = ("-fno-asynchronous-unwind-tables -fno-unwind-tables", "-fexceptions")
LINK = ("-Wl,-z,now", "-Wl,-z,lazy", "-Wl,-z,noseparate-code", "-Wl,--gc-sections", "-Wl,-z,norelro", "-Wl,--hash-style=sysv", "-Wl,--build-id=none")

COMPILERS = {"gcc": {"c": "gcc", "c++": "g++"}, "clang": {"c": "clang", "c++": "clang++"}}


def choose(chance, program, compiler):
    """A choice for this program."""
    own = GCC if compiler == "gcc" else CLANG
    flags = chance.sample(BOTH, chance.choice((0, 1, 2, 3)))
    flags += chance.sample(own, chance.choice((0, 0, 1, 1, 2)))
    if program["language"] == "c" and chance.random() < 0.15:
        flags.append(chance.choice(C_ONLY))
    if compiler == "clang":
        flags = [flag for flag in flags if not flag.startswith(("-mpreferred", "-falign-loops", "-fno-semantic"))]
    choice = {"compiler": compiler, "level": chance.choice(LEVELS), "flags": flags, "linked": chance.sample(LINK, chance.choice((0, 0, 1, 2))),
              "link": chance.choice(("pie",) * 5 + ("no-pie",) * 3 + ("static", "static-pie")), "linker": chance.choice(("", "", "", "gold", "lld")),
              "script": chance.random() < 0.25, "strip": chance.choice(("",) * 6 + ("dynamic",) * 3 + ("all",)), "profile": chance.random() < 0.06,
              "lto": chance.random() < 0.1, "seed": chance.randrange(1 << 16)}
    if choice["script"] and chance.random() < 0.5:
        choice["flags"].append("-ffunction-sections")
    return possible(choice, program)


def possible(choice, program):
    """The choice without what does not go together."""
    choice = dict(choice)
    if any(function["shape"] == "assembly" for function in program["functions"]):
        choice["lto"] = False  # it does not know what assembly refers to
    if choice["strip"] == "all":  # nothing would say where a function begins
        choice["flags"] = [flag for flag in choice["flags"] if "unwind-tables" not in flag]
    if choice["lto"] and choice["compiler"] == "gcc":
        choice["linker"] = ""
    if choice["lto"] and choice["compiler"] == "clang":
        choice["linker"] = "lld"
    if choice["lto"]:
        choice["flags"] = [flag for flag in choice["flags"] if "-fbasic-block" not in flag and "split-machine" not in flag]
    if any("-mcmodel=large" in flag for flag in choice["flags"]):
        choice["link"], choice["flags"] = "no-pie", [flag for flag in choice["flags"] if flag != "-fPIC"]
    if choice["linker"]:
        choice["script"] = False
    if choice["linker"] == "gold" and choice["link"] == "static-pie":
        choice["linker"] = ""
    if choice["linker"] == "gold":
        choice["linked"] = [flag for flag in choice["linked"] if "noseparate-code" not in flag]
    if program["language"] == "c++" and choice["link"].startswith("static") and choice["linker"] == "gold":
        choice["linker"] = ""
    if choice["link"].startswith("static") and choice["strip"]:
        choice["strip"] = "all" if choice["seed"] % 8 == 0 else ""  # nothing has a name there, so all of libc is measured
    if choice["compiler"] == "clang" and program["main"]["style"] == "_exit":
        choice["profile"] = False  # it is written by exit
    if choice["script"] and choice["link"] == "static-pie":
        choice["script"] = False
    if any("-mretpoline" in flag or "indirect-branch" in flag for flag in choice["flags"]):
        choice["flags"] = [flag for flag in choice["flags"] if not flag.startswith("-fcf-protection") and "-mcmodel=large" not in flag]
    if any("-fsplit-machine" in flag for flag in choice["flags"]) and choice["level"] == "-O0":
        choice["flags"] = [flag for flag in choice["flags"] if "-fsplit-machine" not in flag]
    return choice


def is_static(choice):
    return choice["link"].startswith("static")


def library(choice, program):
    """Whether the second unit is a library, and not an object of the program."""
    return program["units"] == 2 and not is_static(choice) and choice["seed"] % 3 != 0


def linker_script(folder, choice):
    """The linker's own script without the lines that gather cold, hot and startup code."""
    text = subprocess.run(["ld", "-pie" if choice["link"] == "pie" else "-no-pie", "--verbose"], capture_output=True, text=True, check=True).stdout
    text = text.split("=" * 50)[1]
    lines = [line for line in text.splitlines() if not any(word in line for word in
                                                           (".text.unlikely", ".text.exit", ".text.startup", ".text.hot", "SORT(.text.sorted"))]
    (folder / "layout.ld").write_text("\n".join(lines) + "\n")
    return ["-Wl,-T,layout.ld"]


def commands(folder, program, choice, names):
    """The command lines that make a.out (and libpart.so) in `folder` from the sources `names`; how often the bare program runs between
    them: a line that is None."""
    driver = COMPILERS[choice["compiler"]][program["language"]]
    compile_ = [driver, "-w", "-pipe", "-Wno-psabi", "-pthread", choice["level"], *(word for flag in choice["flags"] for word in flag.split())]
    if choice["lto"]:
        compile_.append("-flto=thin" if choice["compiler"] == "clang" and choice["seed"] % 2 else "-flto")
    pic = {"pie": ["-fPIE"], "static-pie": ["-fPIE"]}.get(choice["link"], ["-fno-pie"])
    if "-fPIC" in choice["flags"]:
        pic = []
    link = {"pie": ["-pie"], "no-pie": ["-no-pie"], "static": ["-static", "-no-pie"], "static-pie": ["-static-pie"]}[choice["link"]] + choice["linked"]
    if choice["linker"]:
        link.append(f"-fuse-ld={choice['linker']}")
    if choice["linker"] == "lld" and choice["seed"] % 2:
        link.append(f"-Wl,--shuffle-sections=.text*={choice['seed']}")
    if choice["script"]:
        link += linker_script(folder, choice)
    if choice["strip"]:
        link.append("-s")
    if choice["strip"] == "dynamic":
        link.append("-rdynamic")
    if any(one["kind"] == "nested" for function in program["functions"] for one in statements(function["body"])):
        link.append("-Wl,-z,execstack")  # what lld does not do by itself
    lines = []
    passes = [[]]
    if choice["profile"]:
        make, use = ["-fprofile-generate", "-fprofile-update=atomic"], ["-fprofile-use", "-Wno-missing-profile"]
        if choice["compiler"] == "clang":
            make, use = ["-fprofile-generate=profile"], ["-fprofile-use=program.profdata"]
        passes = [make, None, use]
    for profile in passes:
        if profile is None:
            lines.append(None)
            if choice["compiler"] == "clang":
                lines.append(["llvm-profdata-14", "merge", "-o", "program.profdata", "profile"])
            continue
        extra = []
        if library(choice, program):
            lines.append([*compile_, *profile, "-fPIC", "-shared", "-o", "libpart.so", names[1], *(w for w in link if "fuse-ld" in w)])
            extra = ["libpart.so", "-Wl,-rpath,$ORIGIN"]
        rest = names[:1] if extra else names
        lines.append([*compile_, *profile, *pic, *link, "-o", "a.out", *rest, *extra])
    return lines


def build(folder, program, choice, texts, seconds=120):
    """Writes the sources and makes the program; what went wrong, or None."""
    folder = pathlib.Path(folder)
    for name, text in texts.items():
        (folder / name).write_text(text)
    lines = commands(folder, program, choice, list(texts))
    (folder / "build.sh").write_text("#!/bin/sh -ex\n" + "".join(f"{shlex.join(line) if line else './a.out'}\n" for line in lines))
    for line in lines:
        try:
            done = subprocess.run(line or ["./a.out"], cwd=folder, capture_output=True, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return "time-out: " + shlex.join(line or ["./a.out"])
        if line and done.returncode:
            return shlex.join(line) + "\n" + done.stderr[:3000]
    return None
