"""What others take to count the calls of one function, in the same run as mdl-inject: by the call, with one thread and with two,
how many of the calls of two threads they count, and whether they can do it to a process that runs.

A peer that this machine cannot run is named with the command that was tried and what it said. Peers' packages are not in
scripts/packages.txt; PACKAGES has them.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from measuring import SOURCE, Measured
from page import code, fill, table

TITLE = "The same count by others"
PACKAGES = ["babeltrace2", "bpftrace", "liblttng-ust-dev", "lttng-tools", "uftrace"]
CYG_PROFILE = "liblttng-ust-cyg-profile-fast.so"
MANY, SOME, FEW = 20_000_000, 100_000, 1_000  # calls, by what one takes; --quick makes a quarter
PATIENCE = 600  # seconds for all runs of one


def install():
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *PACKAGES]
    print("bench: " + " ".join(command), file=sys.stderr)
    subprocess.run(command, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, stdout=sys.stderr, check=True)


class Failed(Exception):
    """A peer cannot be run here: the command and what it said."""


def run(*command, **options):
    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL, **options)
    except FileNotFoundError as error:
        raise Failed(f"{' '.join(command)}\n{error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{' '.join(command)}\nnot done after {error.timeout:.0f} s") from error
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).strip().splitlines() if line.strip()]
        raise Failed("\n".join([" ".join(command), f"status {done.returncode}", *said[-3:]]))
    return done.stdout + done.stderr


def find(pattern, text, what):
    found = re.findall(pattern, text, re.M)
    if not found:
        raise Failed(f"{what}\nno count in what it said: {text.strip()[-200:]}")
    return sum(int(one.replace(",", "")) for one in found)


class Subject:
    """bench/peer_subject.c, compiled in one way, in a folder that goes with it."""

    def __init__(self, folder, name, *flags, compiler="gcc"):
        self.folder, self.path = pathlib.Path(folder), pathlib.Path(folder) / name
        run(compiler, "-O2", "-pthread", *flags, "-o", self.path, SOURCE / "bench" / "peer_subject.c")

    def run(self, calls, threads, *under, **environment):
        """Its answer, and all that was said besides."""
        said = run(*under, self.path, calls, threads, cwd=self.folder, env={**os.environ, **environment})
        return self.answer(said), said

    @staticmethod
    def answer(said):
        found = re.search(r'^\{"ns".*\}$', said, re.M)
        if not found:
            raise Failed(f"no answer of the program: {said.strip()[-300:]}")
        return json.loads(found[0])

    @contextlib.contextmanager
    def waiting(self, calls, threads):
        """A process that waits, and the function that lets it go and has its answer."""
        with subprocess.Popen([self.path, str(calls), str(threads), "wait"], cwd=self.folder, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()

            def go():
                process.stdin.write("\n")
                process.stdin.flush()
                said = process.stdout.read()
                process.wait()  # perf takes one that nobody has waited for as one that runs
                return self.answer(said)
            try:
                yield process.pid, go
            finally:
                if process.poll() is None:
                    process.kill()


@contextlib.contextmanager
def beside(*command):
    """A tracer that runs beside the program, and is gone at the end of the block. What it says comes from one pipe."""
    try:
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError as error:
        raise Failed(f"{' '.join(str(word) for word in command)}\n{error.strerror}") from error
    try:
        yield process.stdout
    finally:
        if sys.exc_info()[0]:
            process.kill()
        process.communicate()


# A peer is a function of the folder, the number of calls and of threads; it returns (ns a call, calls, counted).

def in_source(flag):
    def peer(folder, calls, threads):
        answer, _ = Subject(folder, "source", *flag).run(calls, threads)
        return answer["ns"], answer["calls"], answer["counted"]
    return peer


def by_mdl_inject(query):
    def peer(folder, calls, threads):
        with Subject(folder, "plain").waiting(calls, threads) as (pid, go):
            session = Measured(pid, query)
            answer = go()
            session.session.wait()
            return answer["ns"], answer["calls"], session.counted()
    return peer


def perf_probe(where, *flags):
    def peer(folder, calls, threads):
        subject, event = Subject(folder, "probed", *flags), "mdl_bench:work"
        subprocess.run(["perf", "probe", "-q", "-d", "mdl_bench:*"], capture_output=True, check=False)
        run("perf", "probe", "-q", "-x", subject.path, f"{event}={where}")
        event += "__return" if "return" in where else ""
        try:
            with subject.waiting(calls, threads) as (pid, go):
                with beside("perf", "stat", "-x", ",", "-e", event, "-p", pid) as tells:
                    time.sleep(1)  # until its events are there; it says nothing
                    answer = go()
                    said = tells.read()
            return answer["ns"], answer["calls"], find(r"^(\d+),", said, "perf stat")
        finally:
            subprocess.run(["perf", "probe", "-q", "-d", "mdl_bench:*"], capture_output=True, check=False)
    return peer


def bpftrace(folder, calls, threads):
    subject = Subject(folder, "plain")
    with subject.waiting(calls, threads) as (pid, go):
        script = f'BEGIN {{ printf("begins\\n"); }} uprobe:{subject.path}:work {{ @ = count(); }}'
        with beside("bpftrace", "-B", "line", "-p", pid, "-e", script) as tells:
            said = ""
            while "begins" not in said:
                line = tells.readline()
                if not line:
                    raise Failed(f"bpftrace -B line -p {pid} -e '{script}'\n{said}")
                said += line
            answer = go()
            said = tells.read()  # it ends with the process
    return answer["ns"], answer["calls"], find(r"^@: (\d+)", said, "bpftrace")


def gdb(folder, calls, threads):
    subject = Subject(folder, "plain", "-g")
    with subject.waiting(calls, threads) as (pid, go):
        with beside("gdb", "-q", "-nx", "-batch", "-p", pid, "-ex", "break work", "-ex", "ignore 1 1000000000",
                    "-ex", "echo placed\\n", "-ex", "continue", "-ex", "info breakpoints") as tells:
            for line in tells:
                if "placed" in line:
                    break
            answer = go()
            said = tells.read()
    return answer["ns"], answer["calls"], find(r"already hit (\d+) times", said, "gdb")


def callgrind(folder, calls, threads):
    subject = Subject(folder, "plain")
    out = subject.folder / "callgrind.out"
    answer, _ = subject.run(calls, threads, "valgrind", "-q", "--tool=callgrind", "--fair-sched=yes", f"--callgrind-out-file={out}")
    counted, callee, names = 0, "", {}
    for line in out.read_text().splitlines():
        named = re.match(r"c?fn=\((\d+)\)(?: (.*))?", line)
        if named:
            callee = names.setdefault(named[1], named[2]) if line.startswith("cfn") else names.setdefault(named[1], named[2]) and ""
        elif line.startswith("calls=") and callee == "work":
            counted += int(line[6:].split()[0])
    return answer["ns"], answer["calls"], counted


def gprof(folder, calls, threads):
    subject = Subject(folder, "profiled", "-pg")
    answer, _ = subject.run(calls, threads)
    return answer["ns"], answer["calls"], find(r"^ *[\d.]+ +[\d.]+ +[\d.]+ +(\d+) .*\bwork$", run("gprof", "-b", "-p", subject.path,
                                               subject.folder / "gmon.out"), "gprof -b -p")


def uftrace(*flags):
    def peer(folder, calls, threads):
        subject = Subject(folder, "traced", *flags)
        data = subject.folder / "uftrace.data"
        shutil.rmtree(data, True)
        options = [] if flags else ["-P", "work"]
        answer, _ = subject.run(calls, threads, "uftrace", "record", *options, "-F", "work", "--no-event", "--max-stack=1024", "-d", data)
        return answer["ns"], answer["calls"], find(r"(\d+)  work$", run("uftrace", "report", "-d", data), "uftrace report")
    return peer


def xray(folder, calls, threads):
    subject = Subject(folder, "xray", "-fxray-instrument", "-fxray-instruction-threshold=1", compiler="clang")
    for old in subject.folder.glob("xray-log*"):
        old.unlink()
    answer, _ = subject.run(calls, threads, XRAY_OPTIONS=f"patch_premain=true xray_mode=xray-basic xray_logfile_base={subject.folder}/xray-log",
                            XRAY_BASIC_OPTIONS="func_duration_threshold_us=0")
    log = next(subject.folder.glob("xray-log*"), None)
    if not log:
        raise Failed("XRay wrote no log")
    said = run("llvm-xray", "account", log, f"-instr_map={subject.path}", "-k")
    return answer["ns"], answer["calls"], find(r"^ +\d+ +(\d+) .*: work$", said, "llvm-xray account")


def lttng(folder, calls, threads):
    subject = Subject(folder, "hooked", "-finstrument-functions")
    trace, home = subject.folder / "trace", {**os.environ, "LTTNG_HOME": str(subject.folder)}
    shutil.rmtree(trace, True)
    try:
        daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], env=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise Failed(f"lttng-sessiond --no-kernel\n{error.strerror}") from error
    try:
        time.sleep(1)
        run("lttng", "create", "mdl-bench", f"--output={trace}", env=home)
        run("lttng", "enable-channel", "-u", "--subbuf-size=4M", "--num-subbuf=8", "calls", env=home)
        run("lttng", "enable-event", "-u", "-c", "calls", "lttng_ust_cyg_profile_fast:func_entry", env=home)
        run("lttng", "start", env=home)
        answer, _ = subject.run(calls, threads, LD_PRELOAD=CYG_PROFILE, LTTNG_HOME=str(subject.folder))
        run("lttng", "destroy", "mdl-bench", env=home)
        return answer["ns"], answer["calls"], run("babeltrace2", trace).count("func_entry")
    finally:
        daemon.terminate()
        daemon.wait()


# name, how, calls, whether it attaches to a process that runs
PEERS = [
    ("mdl-inject, count", by_mdl_inject("count work"), MANY, "yes"),
    ("mdl-inject, latency", by_mdl_inject("latency work"), MANY, "yes"),
    ("counter in the source", in_source(["-DCOUNT_GLOBAL"]), MANY, "no"),
    ("… of the thread", in_source(["-DCOUNT_THREAD"]), MANY, "no"),
    ("… atomic", in_source(["-DCOUNT_ATOMIC"]), MANY, "no"),
    ("-finstrument-functions", in_source(["-finstrument-functions", "-DHOOKS"]), MANY, "no"),
    ("-pg, gprof", gprof, MANY, "no"),
    ("XRay, basic log", xray, SOME, "no"),
    ("LTTng-UST, fast cyg-profile", lttng, SOME, "no"),
    ("uftrace -P", uftrace(), SOME, "no"),
    ("uftrace, -pg", uftrace("-pg"), SOME, "no"),
    ("perf stat, uprobe", perf_probe("work"), SOME, "yes"),
    ("… at a push", perf_probe("work", "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"), SOME, "yes"),
    ("… at a nop", perf_probe("work", "-fpatchable-function-entry=1"), SOME, "yes"),
    ("perf stat, uretprobe", perf_probe("work%return"), SOME, "yes"),
    ("bpftrace, uprobe", bpftrace, SOME, "yes"),
    ("valgrind, callgrind", callgrind, SOME, "no"),
    ("gdb, breakpoint", gdb, FEW, "yes"),
]


def rounds(peer, folder, calls, threads, effort):
    """Nanoseconds more than bare, each the least of the rounds, in which the two are measured in turn; and the worst count."""
    plain = Subject(folder, "plain")
    bare, runs = [], []
    for _ in range(effort.rounds):
        bare.append(plain.run(MANY // 4, threads)[0]["ns"])
        runs.append(peer(folder, calls, threads))
    return min(ns for ns, _, _ in runs) - min(bare), *min(((counted, made) for _, made, counted in runs), key=lambda one: one[0] / one[1])


def share(counted, calls):
    return "all" if counted == calls else f"{counted / calls * 100:.2f} %"


def give_up(*_):
    raise Failed(f"not done after {PATIENCE} s")


def report(effort, say):
    rows, failures = [], []
    signal.signal(signal.SIGALRM, give_up)
    with tempfile.TemporaryDirectory(prefix="mdl-bench-") as folder:
        for name, peer, calls, attaches in PEERS:
            say(f"peers: {name}")
            calls = calls // 4 if effort.quick else calls
            signal.alarm(PATIENCE)
            try:
                one, two = (rounds(peer, folder, calls, threads, effort) for threads in (1, 2))
            except (Failed, AssertionError, RuntimeError) as error:
                failures.append(f"{name}:\n" + "\n".join("    " + line for line in str(error).splitlines()))
                rows.append([name, "", "", "", "", attaches])
                continue
            finally:
                signal.alarm(0)
            rows.append([name, f"{one[0]:,.2f}", f"{two[0]:,.2f}", share(*one[1:]), share(*two[1:]), attaches])
    parts = [
        fill(f"""Nanoseconds of wall time that a call takes more than bare, the least of {effort.rounds} runs; how many of the calls were
             counted, the worst run; and whether it can be had for a process that runs already. XRay, LTTng and uftrace write each
             call down; the others count. gdb, perf and bpftrace trap, which takes longer in a virtual machine."""),
        table(["who", "1 thread, ns", "2 threads, ns", "counted, 1", "counted, 2", "attaches"], rows)]
    if failures:
        parts += [fill(f"Rows without figures could not be run here. Packages for them: `apt-get install {' '.join(PACKAGES)}`, or "
                       "`scripts/bench --install`."), code(text_without_folder("\n".join(failures)))]
    return "\n\n".join(parts)


def text_without_folder(text):
    return re.sub(r"/\S*/mdl-bench-\w+/", "", text)
