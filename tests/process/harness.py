"""What the live tests share: programs to measure, the two tools, and the proof that a
process is what it was.

A test starts its own process, attaches to it, and ends it; everything has a time limit,
and a process that a test leaves behind is killed by its pid when the test ends. Paths come
from the environment, which tests/process/CMakeLists.txt sets; without it, from the release
build of this repository:

    MDLC, MDL_INJECT   the tools          MDL_PROGRAMS  folder of tests/programs, built
    MDL_REDIS          redis-server (default: on PATH)
    MDL_SEPARATE       yes or no: with or without separated privileges, where a test does not choose

The rule of most tests: nothing counted runs between two numbers that are compared. The
programs promise that between an answer and the next command (tests/programs/protocol.h).
"""

import atexit
import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

import process_text

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = SOURCE / "build" / "release" / "bin"


def with_privileges_as_told(injector):
    """MDL_SEPARATE=yes or no: a script of the same name, which adds --separate or --no-separate."""
    option = {"yes": "--separate", "no": "--no-separate"}.get(os.environ.get("MDL_SEPARATE"))
    if not option:
        return injector
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mdl-injector-"))
    atexit.register(shutil.rmtree, folder, True)
    folder.chmod(0o755)
    script = folder / "mdl-inject"
    script.write_text(f'#!/bin/sh\nexec {injector} {option} "$@"\n')
    script.chmod(0o755)
    return str(script)



def path_from(variable, default):
    """Absolute: tests run the tools in folders of their own, and with a PATH that names them."""
    return os.path.abspath(os.environ.get(variable) or default)


MDLC = path_from("MDLC", BIN / "mdlc")
MDL_INJECT = with_privileges_as_told(path_from("MDL_INJECT", BIN / "mdl-inject"))
PROGRAMS = pathlib.Path(path_from("MDL_PROGRAMS", BIN / "programs"))
STDLIB = [str(SOURCE / "stdlib-metrics" / name) for name in ("code.mdl", "redis.mdl")]

PATIENCE = 30.0  # seconds for anything that should take less than one


def soon(condition, what, seconds=PATIENCE):
    """Waits until condition() is true; its value, or a failure that says what was awaited."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(0.005)


def states(pid):
    """Where each thread of a process and of its children is, for the message of a failure."""
    out = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        try:
            state = task.joinpath("stat").read_text().rpartition(")")[2].split()[0]
            at = " ".join(task.joinpath(name).read_text().split("\n")[0] for name in ("wchan", "syscall"))
            children = task.joinpath("children").read_text().split()
            tracer = re.search(r"TracerPid:\t(\d+)", task.joinpath("status").read_text())[1]
        except OSError:
            continue
        out += [f"{pid}/{task.name} {state} {at}" + (f" traced by {tracer}" if tracer != "0" else ""), *(line for child in children for line in states(child))]
    return out


class Lines:
    """Lines from a pipe, each within a time limit."""

    def __init__(self, pipe):
        self._pipe = pipe
        self._buffer = b""

    def available(self):
        """The whole lines that can be read without waiting."""
        while select.select([self._pipe], [], [], 0)[0]:
            chunk = os.read(self._pipe.fileno(), 1 << 16)
            if not chunk:
                break
            self._buffer += chunk
        *lines, self._buffer = self._buffer.split(b"\n")
        return [line.decode() for line in lines]

    def next(self, what, seconds=PATIENCE):
        """The next line without its end, or None at the end of the output."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._pipe], [], [], left)[0]:
                raise AssertionError(f"waited {seconds:g} s in vain for {what}; so far: {self._buffer!r}")
            chunk = os.read(self._pipe.fileno(), 1 << 16)
            if not chunk:
                return None
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line.decode()


# Most programs of tests work all the time. Beside others on two processors they let the one go first that measures them,
# and what else waits.
BEHIND = ("nice", "-n", "5")


def put_down(process):
    """Ends a process of two pipes, if it has not ended, and closes them."""
    if process.poll() is None:
        process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


class Program:
    """A program of tests/programs, which speaks protocol.h."""

    def __init__(self, name, *arguments, alone=False, command=None, folder=None):
        """`alone`: it gets the arguments only, not how many seconds it may live before them.
        `command` starts it in another way: what answers is then that process or its only child.
        `folder`: where it may put files, which it does not remove when it is killed."""
        self.name = name
        seconds = [] if alone else ["120"]
        self.process = subprocess.Popen(command or [*BEHIND, str(PROGRAMS / name), *seconds, *arguments],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                                        env=dict(os.environ, TMPDIR=str(folder)) if folder else None)
        self.pid = self.process.pid
        self._lines = Lines(self.process.stdout)
        self.ready = self.answer("ready")
        children = pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children")
        if command and children.exists() and children.read_text():
            self.pid = int(children.read_text().split()[0])

    def answer(self, event=None, seconds=PATIENCE):
        line = self._lines.next(f"{self.name} to answer", seconds)
        if line is None:
            raise AssertionError(f"{self.name} ended ({self.process.wait()}) instead of answering")
        answer = json.loads(line)
        if event and answer["event"] != event:
            raise AssertionError(f"{self.name} answered {answer['event']}, not {event}")
        return answer

    def send(self, command):
        self.process.stdin.write((command + "\n").encode())

    def ask(self, command, event="done", seconds=PATIENCE):
        self.send(command)
        return self.answer(event, seconds)

    def end(self, command="quit"):
        """Tells it to end and returns its exit status."""
        self.send(command)
        return self.process.wait(PATIENCE)

    def kill(self):
        put_down(self.process)


class Session:
    """A running mdl-inject with ndjson on a pipe."""

    def __init__(self, pid, plan, *options, interval="0.05", under=()):
        self.process = subprocess.Popen(
            [*under, MDL_INJECT, str(pid), str(plan), "--format", "ndjson", "-i", interval, *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        self.lines = []
        self._lines = Lines(self.process.stdout)
        self._said = Lines(self.process.stderr)
        self.errors = ""

    def wait_inserted(self, seconds=PATIENCE):
        """Returns when everything is inserted: the first sample says so."""
        line = self._lines.next("the first sample", seconds)
        if line is None:
            self._collect()
            raise AssertionError(f"no sample; mdl-inject ended ({self.process.returncode}): {self.errors}")
        self.lines.append(json.loads(line))
        return self

    def read_on(self):
        """Takes what has come, so that it need not wait for room in the pipe."""
        self.lines += [json.loads(line) for line in self._lines.available()]

    def fresh_values(self):
        """{(metric, focus): value} of a sample taken after this call began."""
        keys = {(line["metric"], line["focus"]) for line in self.lines}
        self.read_on()
        # Of what comes now, the first sample, and one more that waited for room in the pipe,
        # may be from before.
        seen = dict.fromkeys(keys, 0)
        values = {}
        while not values or min(seen.values()) < 3:
            line = self._lines.next("another sample")
            if line is None:
                raise AssertionError("mdl-inject ended between two samples")
            self.lines.append(json.loads(line))
            key = (self.lines[-1]["metric"], self.lines[-1]["focus"])
            seen[key] = seen.get(key, 0) + 1
            values[key] = self.lines[-1]["value"]
        return values

    def next_sample(self):
        """{(metric, focus): value} of a sample that was taken after this call began, whatever is measured by then."""
        began = time.time_ns()
        while True:
            line = self._lines.next("another sample")
            if line is None:
                raise AssertionError("mdl-inject ended before another sample")
            self.lines.append(json.loads(line))
            if self.lines[-2:-1] and self.lines[-1]["time_ns"] > self.lines[-2]["time_ns"] > began:
                return {(one["metric"], one["focus"]): one["value"] for one in self.lines
                        if one["time_ns"] == self.lines[-2]["time_ns"]}

    def said(self, text):
        """Waits until it says something with this in it on standard error."""
        while text not in (line := self._said.next(f"mdl-inject to say '{text}'") or ""):
            if not line:
                raise AssertionError(f"mdl-inject ended and did not say '{text}': {self.errors}")
            self.errors += line + "\n"
        self.errors += line + "\n"

    def read_until_said(self, text, since=0):
        """The same, for one that waits for room in the pipe of its samples. `since`: where in `errors`."""
        def is_said():
            self.read_on()
            self.errors += "".join(line + "\n" for line in self._said.available())
            return text in self.errors[since:]
        soon(is_said, f"mdl-inject to say '{text}'")

    def stop(self, with_signal=signal.SIGINT, seconds=PATIENCE):
        """Ends it as Ctrl-C does and returns its exit status."""
        self.process.send_signal(with_signal)
        return self.wait(seconds)

    def wait(self, seconds=PATIENCE):
        """Waits for it to end by itself and returns its exit status."""
        self._collect(seconds)
        return self.process.returncode

    def _collect(self, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        while True:
            line = self._lines.next("mdl-inject to end", max(0.01, deadline - time.monotonic()))
            if line is None:
                break
            self.lines.append(json.loads(line))
        while (line := self._said.next("mdl-inject to end", max(0.01, deadline - time.monotonic()))) is not None:
            self.errors += line + "\n"
        self.process.wait(max(0.01, deadline - time.monotonic()))

    def final(self):
        """{(metric, focus): line} of the last sample."""
        return {(line["metric"], line["focus"]): line for line in self.lines if line["final"]}

    def by_key(self, metric, pid):
        """{key: value} of the last sample, of a metric by one key."""
        return {line["key"][0]: line["value"] for line in self.lines
                if line["final"] and line["metric"] == metric and line["pid"] == pid}

    def by_keys(self, metric, pid):
        """{(key, ...): value} of the last sample, of a metric by several."""
        return {tuple(line["key"]): line["value"] for line in self.lines
                if line["final"] and line["metric"] == metric and line["pid"] == pid}

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


class RedisServer:
    """A redis-server of its own: loopback, a free port, no files."""

    def __init__(self, directory):
        program = os.environ.get("MDL_REDIS") or shutil.which("redis-server")
        self.port = free_port()
        self.process = subprocess.Popen(
            [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--dir", str(directory), "--daemonize", "no", "--logfile", "redis.log"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.pid = self.process.pid
        soon(self._answers, "redis-server to answer")

    def _answers(self):
        try:
            with self.connect() as client:
                return client.command("PING") == "PONG"
        except OSError:
            return False

    def connect(self):
        from redis_client import RedisClient
        return RedisClient(self.port)

    def kill(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


class NginxServer:
    """An nginx of its own: a master and workers, loopback, a free port, files of the folder. `http` and `events` are lines
    of its configuration."""

    program = shutil.which("nginx", path="/usr/sbin:/usr/bin")

    def __init__(self, folder, workers, http="access_log off;", events="", listen=""):
        self.port = free_port()
        temporary = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        configuration = folder / "nginx.conf"
        configuration.write_text(f"""
daemon off; worker_processes {workers}; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 256; {events} }}
http {{ {http} {temporary} server {{ listen 127.0.0.1:{self.port} {listen}; root {folder}; }} }}
""")
        os.chmod(folder, 0o755)  # the workers are another user's
        self.process = subprocess.Popen([self.program, "-c", configuration], stdin=subprocess.DEVNULL)
        self.pid = self.process.pid
        soon(lambda: len(self.workers()) == workers, "nginx's workers")

    def workers(self):
        return [int(pid) for pid in pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def get(self, file):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{file}", timeout=20) as page:
            return page.read()

    def kill(self):
        self.process.terminate()
        self.process.wait()


@contextlib.contextmanager
def repeating(step, pause):
    """Does the step again and again, with so many seconds between, until the block ends; what it raised is raised there."""
    stop, failed = threading.Event(), []

    def run():
        try:
            while not stop.wait(pause):
                step()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failed:
        raise failed[0]


def free_port():
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(*command, seconds=PATIENCE, **options):
    """A command to its end: returncode, stdout and stderr as text."""
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=seconds, check=False, **options)


def read_terminal(ours):
    """All that is written to a pseudo-terminal until its other side is closed; closes this one."""
    shown = b""
    while True:
        try:
            chunk = os.read(ours, 1 << 16)
        except OSError:  # the other side was closed
            break
        if not chunk:
            break
        shown += chunk
    os.close(ours)
    return shown

# A handle of a process (pidfd_open(2)) is a file of its own since Linux 6.9.
HAS_OWN_HANDLES = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2]) >= (6, 9)
NOBODY = 65534
# In front of a command of root's: it runs as nobody, and without what root could hand on.
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all")


class LiveTest(unittest.TestCase):
    """A test with a folder of its own; what it started is gone when it ends."""

    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mdl-test-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def start(self, name, *arguments, **options):
        program = Program(name, *arguments, folder=self.folder, **options)
        self.addCleanup(program.kill)
        return program

    def start_redis(self):
        server = RedisServer(self.folder)
        self.addCleanup(server.kill)
        return server

    def inject(self, pid, plan, *options, **named):
        session = Session(pid, plan, *options, **named)
        self.addCleanup(session.kill)
        return session

    def make_set_user_id(self, name):
        """A copy of a program in the test's folder that is set-user-ID for root, and the address of its spoil()."""
        if os.geteuid() != 0:
            self.fail("this test makes a set-user-ID program and is root to it: run it as root")
        if os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            self.fail(f"{self.folder} does not admit set-user-ID programs (nosuid): set TMPDIR to a place that does")
        self.folder.chmod(0o755)
        program = pathlib.Path(shutil.copy(PROGRAMS / name, self.folder))
        os.chown(program, 0, 0)
        program.chmod(0o4755)
        return program, self.address_of_spoil(program)

    @staticmethod
    def address_of_spoil(program):
        """Of the function that only a thread with another's registers calls."""
        symbols = run("nm", program).stdout.splitlines()
        return next(line.split()[0] for line in symbols if line.endswith(" T spoil"))

    def compile(self, *sources, name="plan.bin"):
        """Compiles MDL files to a plan in the test's folder."""
        plan = self.folder / name
        # A test's metrics need not use every constraint that stands before them, and may ask what is not certain.
        done = run(MDLC, "-Wno-unused-constraint", "-Wno-unknown-sign", *sources, "-o", plan)
        self.assertEqual((done.returncode, done.stderr), (0, ""), f"mdlc {sources}")
        return plan

    def compile_text(self, text, name="metrics"):
        source = self.folder / f"{name}.mdl"
        source.write_text(text)
        return self.compile(source, name=f"{name}.bin")

    def stdlib(self):
        return self.compile(*STDLIB)

    def assert_stopped_well(self, session, status=0):
        """Ctrl-C, and the exit status of the contract."""
        self.assertEqual(session.stop(), status, session.errors)

    def remember(self, pid):
        """What the process is before anything is done to it."""
        return process_text.digest(pid)

    def assert_untouched(self, pid, before):
        """The text is what it was and nothing of ours is mapped."""
        self.assertEqual(process_text.leftovers(pid), [])
        after = process_text.digest(pid)
        self.assertEqual(sorted(after), sorted(before), "executable mappings appeared or went")
        changed = [key for key in before if before[key] != after[key]]
        self.assertEqual(changed, [], "the text of these mappings differs")


METRIC = """
resourceList {id}_list is procedure {{ items {{ {items} }}; flavor {{ unix }}; }}
metric {id} {{
  name "{id}"; units Calls; unitsType unnormalized; aggregateOperator sum; style EventCounter;
  flavor {{ unix }};
  {constraints}
  base is counter {{
    foreach func in {id}_list {{ {order} preInsn func.{point} {constrained} (* {id}++; *) }}
  }}
}}
"""

CONSTRAINTS = """
constraint procedure /Code/*/* is counter {
  append preInsn $constraint[0].entry (* procedure += 1; *)
  prepend preInsn $constraint[0].return (* procedure -= 1; *)
}
constraint module /Code/* is counter {
  foreach func in $constraint[0].funcs {
    append preInsn func.entry (* module += 1; *)
    prepend preInsn func.return (* module -= 1; *)
  }
}
"""


def tag_by_argument(function, argument=0):
    """The constraint `tag`: while a call of the function is active whose argument is the key."""
    return f"""
resourceList tagged is procedure {{ items {{ "{function}" }}; flavor {{ unix }}; }}
constraint tag /SyncObject/Message/* is counter {{
  foreach f in tagged {{
    append preInsn f.entry (* if ($arg[{argument}] == $constraint[0]) tag += 1; *)
    prepend preInsn f.return (* if (tag > 0) tag -= 1; *)
  }}
}}
"""


def entries_and_returns(functions):
    """Two metrics for each function: entries_NAME and returns_NAME."""
    return "".join(metric(f"entries_{name}", [name]) + metric(f"returns_{name}", [name], "return")
                   for name in functions)


def metric(identifier, functions, point="entry", constraints=()):
    """The text of a metric that counts entries or returns of the named functions."""
    return METRIC.format(id=identifier, items=", ".join(f'"{name}"' for name in functions), point=point,
                         order="append" if point == "entry" else "prepend",
                         constraints=" ".join(f"constraint {name};" for name in constraints),
                         constrained="constrained" if constraints else "")
