"""Runs a generated program bare and measured, and compares: the output, the exit status, the text and every count.

Each program is run in some of these ways (a choice of its seed):

    started   mdl-inject --run, from its first instruction to its end
    left      mdl-inject --run; left at a pause deep in calls, where its counts are compared; attached to anew until the end
    paused    attached to at a pause deep in calls, until the end
    running   attached to while it runs, compared between two pauses, and left while it runs

In all of them the entries, returns, calls, loops and blocks of the program and its library are counted at once; with
`everything` those of all its libraries, too.
"""

import ctypes
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time

import build
from source import compared

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "process"))
import process_text  # noqa: E402

BIN = pathlib.Path(__file__).resolve().parents[2] / "build" / "release" / "bin"
MDLC = os.environ.get("MDLC") or str(BIN / "mdlc")
MDL_INJECT = os.environ.get("MDL_INJECT") or str(BIN / "mdl-inject")
PATIENCE = 120.0  # on a machine that others use, too
PR_SET_CHILD_SUBREAPER = 36

HEAD = 'metric {id} {{ name "{id}"; units U; unitsType unnormalized; aggregateOperator sum; style EventCounter; flavor {{ unix }}; base is counter {{ '
EVENTS = {
    "entries": "append preInsn f.entry", "returns": "prepend preInsn f.return",
    "before": "foreach p in f.calls append preInsn p", "after": "foreach p in f.calls append postInsn p",
    "enter": "foreach p in f.loops append preInsn p.enter", "exit": "foreach p in f.loops append preInsn p.exit",
    "start": "foreach p in f.loops append preInsn p.start_iter", "end": "foreach p in f.loops append preInsn p.end_iter",
    "blocks": "foreach p in f.blocks append preInsn p",
}
CODE = "(* {id}++; *) }} }}\n"


class Wrong(Exception):
    """A program that was harmed, or a count that is not true. `what` names the kind of failure, for shrinking."""

    def __init__(self, what, detail):
        super().__init__(f"{what}: {detail}")
        self.what = what


class Late(Exception):
    """The program ended before mdl-inject read its last values, which it says: on a busy machine it may come too late."""


class Unusable(Exception):
    """A program that does not compile, or fails by itself."""


def metrics(names, over, files=("a.out",)):
    """The text of the plan: each event of all functions of `over` ("everything", "files", "named"), and entries and returns of each name."""
    items = ", ".join(f'"{name}"' for name in names)
    objects = ", ".join(f'"{name}"' for name in files)
    text = f"resourceList files is module {{ items {{ {objects} }}; flavor {{ unix }}; }}\n"
    text += f"resourceList named is procedure {{ items {{ {items} }}; flavor {{ unix }}; }}\n" if items else ""
    over = {"everything": "foreach f in $procedures", "files": "foreach o in files foreach f in o.funcs", "named": "foreach f in named"}[over]
    for event, place in EVENTS.items():
        text += (HEAD + over + " " + place + " " + CODE).format(id=f"all_{event}")
    for name in names:
        text += f'resourceList list_{name} is procedure {{ items {{ "{name}" }}; flavor {{ unix }}; }}\n'
        for event in ("entries", "returns"):
            text += (HEAD + f"foreach f in list_{name} " + EVENTS[event] + " " + CODE).format(id=f"{event}_{name}")
    return text


def names_of(folder, program, choice):
    """Which functions can be compared: those whose name the files still have (the linker may remove what nobody calls)."""
    numbers = compared(program)
    if choice["strip"] or "-Wl,--gc-sections" in choice["linked"]:
        files = [file for file in ("a.out", "libpart.so") if (folder / file).exists()]
        kind = ["-D"] if choice["strip"] else []
        table = subprocess.run(["nm", *kind, "--defined-only", *files], cwd=folder, capture_output=True, text=True, check=False).stdout
        there = {line.split()[-1] for line in table.splitlines() if line}
        numbers = [(name, number) for name, number in numbers if name in there]
    return dict(numbers)


def plan_of(folder, names, over):
    files = [name for name in ("a.out", "libpart.so") if (folder / name).exists()]
    (folder / "plan.mdl").write_text(metrics(names, over, files))
    compile_plan(folder)


def compile_plan(folder):
    done = subprocess.run([MDLC, "-o", "plan.bin", "plan.mdl"], cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE)
    if done.returncode:
        raise Wrong("mdlc", done.stderr)


def adopt_orphans():
    """A process whose mdl-inject has ended becomes a child of ours, so that its exit status is seen."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Process:
    """A generated program that runs, by itself or under `mdl-inject --run`."""

    def __init__(self, folder, mode, run=False, interval="0.5"):
        command = ["./a.out", mode]
        self.folder, self.run = folder, run
        if run:
            command = [MDL_INJECT, "--run", "plan.bin", "-o", "run.ndjson", "--format", "ndjson", "-i", interval, "--", *command]
        self.errors = open(folder / "run.err", "w+", encoding="utf-8", errors="replace")  # pylint: disable=consider-using-with
        self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, bufsize=0)
        self.pid = self.process.pid
        self.output = b""
        self.deadline = time.monotonic() + 3 * PATIENCE

    def line(self, beginning):
        """Waits for the line that begins so; the numbers behind it."""
        while True:
            at = self.output.find(beginning.encode() + b" ")
            if at >= 0 and b"\n" in self.output[at:]:
                return [int(word) for word in self.output[at:].split(b"\n")[0].split()[1:]]
            if not self.more():
                raise Wrong("ended early", f"no {beginning}; {self.describe()}")

    def line_of(self, beginning):
        """The numbers of the last line that begins so, which is there."""
        for line in reversed(self.output.split(b"\n")):
            if line.startswith(beginning.encode() + b" "):
                return [int(word) for word in line.split()[1:]]
        raise Wrong("ended early", f"no {beginning}; {self.describe()}")

    def more(self):
        left = self.deadline - time.monotonic()
        if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
            raise Wrong("hangs", self.output.decode(errors="replace")[-300:])
        chunk = os.read(self.process.stdout.fileno(), 1 << 16)
        self.output += chunk
        return bool(chunk)

    def say(self, text):
        try:
            self.process.stdin.write(text.encode())
        except BrokenPipeError:
            pass

    def finish(self):
        """Reads to the end of the output and returns the exit status of what was started."""
        while self.more():
            pass
        try:
            return self.process.wait(max(0.1, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Wrong("hangs", "closed its output, does not end") from None

    def describe(self):
        self.process.poll()
        self.errors.flush()
        said = (self.folder / "run.err").read_text(errors="replace")[-600:]
        return f"status {self.process.returncode}, {said}"

    def kill(self):
        for pid in {self.pid, self.process.pid}:
            try:
                if pid == self.process.pid and self.process.poll() is not None:
                    continue
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()


class Injector:
    """An mdl-inject that is attached to a process."""

    def __init__(self, folder, pid, interval="0.5"):
        self.file = folder / "attach.ndjson"
        self.lines = open(self.file, "wb")  # pylint: disable=consider-using-with
        self.errors = open(folder / "attach.err", "w+", encoding="utf-8", errors="replace")  # pylint: disable=consider-using-with
        self.process = subprocess.Popen([MDL_INJECT, str(pid), "plan.bin", "--format", "ndjson", "-i", interval], cwd=folder,
                                        stdin=subprocess.DEVNULL, stdout=self.lines, stderr=self.errors)
        deadline = time.monotonic() + 2 * PATIENCE
        while not self.samples():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Wrong("attach", f"status {self.process.returncode}: {self.said()}")
            time.sleep(0.004)

    def samples(self):
        return read_samples(self.file)

    def said(self):
        self.errors.seek(0)
        return self.errors.read()[-600:]

    def fresh(self):
        """Values of a sample that was begun after this call: two more than there are."""
        deadline, begin = time.monotonic() + PATIENCE, len(self.samples())
        while len(found := self.samples()) < begin + 2:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Wrong("no samples", self.said())
            time.sleep(0.01)
        return found[-1]

    def end(self, interrupt):
        """Its last sample, and that it ended as it should."""
        if interrupt:
            self.process.send_signal(signal.SIGINT)
        return ended(self.process, self.file, self.said)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.errors.close()
        self.lines.close()


def ended(process, file, said):
    try:
        status = process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        raise Wrong("mdl-inject hangs", said()) from None
    samples = read_samples(file)
    if status or not samples:
        raise Wrong("mdl-inject's status", f"{status}: {said()}")
    return samples[-1]


def read_samples(file):
    """[{metric: line}] of the whole samples in a file."""
    lines = [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1]] if file.exists() else []
    samples = []
    for line in lines:
        if not samples or line["metric"] in samples[-1] or line["time_ns"] != next(iter(samples[-1].values()))["time_ns"]:
            samples.append({})
        samples[-1][line["metric"]] = line
    if len(samples) > 1 and len(samples[-1]) < len(samples[0]):
        samples.pop()
    return samples


class Check:
    """All runs of one program that is built in `folder`."""

    def __init__(self, folder, program, choice, settings):
        self.folder, self.program, self.choice, self.settings = pathlib.Path(folder), program, choice, settings
        self.names = names_of(self.folder, program, choice)
        self.tally = {"compared": 0, "refused": 0, "points": 0, "events": 0, "late": 0}

    def run(self):
        """Raises Wrong or Unusable; else how much was compared."""
        self.bare = self.run_bare()
        # The file of a static program has the C library, too.
        over = "everything" if self.settings["everything"] else "named" if self.names and build.is_static(self.choice) else "files"
        plan_of(self.folder, self.names, over)
        for way in self.settings["ways"]:
            if way in ("started", "left") and build.is_static(self.choice):
                way = "paused"
            self.run_way(getattr(self, way))
        return self.tally

    def run_way(self, way):
        for _ in range(4):
            try:
                return way()
            except Late:
                self.tally["late"] += 1
                if build.is_static(self.choice) and self.choice["strip"]:
                    return None  # nothing says which of its functions is _exit, whose entry is its end
        raise Wrong("incomplete", "four times")

    def run_bare(self):
        try:
            process = Process(self.folder, "n")
            try:
                process.deadline = time.monotonic() + 20
                status = process.finish()
            finally:
                process.kill()
        except Wrong as wrong:
            raise Unusable(str(wrong)) from wrong
        if status != self.program["main"]["status"] or b"wrong 0\n" not in process.output:
            raise Unusable(f"bare: status {status}, {process.output[-100:]!r}")
        return process.output

    def answer(self, process):
        """The result that the program printed must be what it prints bare."""
        for beginning in ("result", "wrong"):
            bare = next(line for line in self.bare.split(b"\n") if line.startswith(beginning.encode()))
            if bare not in process.output.split(b"\n"):
                raise Wrong("answer", f"{process.output[-300:]!r}, bare {bare!r}")

    def compare(self, sample, truth, before=None, base=None):
        """Each count of the sample (less `base`, a sample) is the program's own (less `before`)."""
        for name, number in self.names.items():
            for event, offset in (("entries", 0), ("returns", 1)):
                line = sample.get(f"{event}_{name}")
                if line is None:
                    raise Wrong("no line", f"{event}_{name}")
                value = line["value"] - (base[f"{event}_{name}"]["value"] if base else 0)
                expected = truth[2 * number + offset] - (before[2 * number + offset] if before else 0)
                if line["refused"]:
                    self.tally["refused"] += 1
                if value != expected and (not line["refused"] or value > expected):
                    raise Wrong("count", f"{event} of {name}: {value}, but it was {expected}; refused {line['refused']}")
                self.tally["compared"] += 1
        self.tally["events"] += sum(line["value"] for name, line in sample.items() if name.startswith("all_"))

    def status(self, status):
        if status != self.program["main"]["status"]:
            raise Wrong("status", f"{status} instead of {self.program['main']['status']}")

    def started(self):
        process = Process(self.folder, "n", run=True)
        try:
            status = process.finish()
            if status:
                raise Wrong("killed" if status == 3 else "mdl-inject's status", process.describe())
            self.answer(process)
            sample = read_samples(self.folder / "run.ndjson")[-1]
            self.points(process.describe())
            self.in_time(sample)
            self.compare(sample, process.line_of("counts"))
        finally:
            process.kill()

    def points(self, said):
        """Adds up how many points were inserted, from `inserted N points`."""
        words = said.split()
        self.tally["points"] += sum(int(words[i + 1]) for i, word in enumerate(words[:-1]) if word == "inserted" and words[i + 1].isdigit())

    def left(self):
        process = Process(self.folder, "p", run=True)
        injector = None
        try:
            truth = process.line("pause")
            (self.folder / "attach.ndjson").unlink(missing_ok=True)
            process.process.send_signal(signal.SIGINT)
            sample = ended(process.process, self.folder / "run.ndjson", process.describe)
            process.pid = next(iter(sample.values()))["pid"]
            self.points(process.describe())
            self.compare(sample, truth)
            self.untouched(process.pid)
            injector = Injector(self.folder, process.pid)
            process.say("g")
            self.to_the_end(process, injector, truth, lambda: os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1]))
            process.pid = process.process.pid
        finally:
            self.close(process, injector)

    def paused(self):
        process, injector = Process(self.folder, "p"), None
        try:
            truth = process.line("pause")
            injector = Injector(self.folder, process.pid)
            process.say("g")
            self.to_the_end(process, injector, truth, process.finish)
        finally:
            self.close(process, injector)

    def to_the_end(self, process, injector, before, wait):
        while process.more():
            pass
        status = wait()
        if status != self.program["main"]["status"]:
            raise Wrong("killed" if status < 0 else "status", f"{status}: {injector.said()}")
        self.answer(process)
        sample = injector.end(False)
        self.points(injector.said())
        self.in_time(sample)
        self.compare(sample, process.line_of("counts"), before)

    @staticmethod
    def in_time(sample):
        if not all(line.get("complete", True) for line in sample.values()):
            raise Late()

    def running(self):
        process, injector = Process(self.folder, "l"), None
        try:
            process.say("p")
            process.line("pause")
            before = process_text.digest(process.pid)
            process.output = b""
            process.say("g")
            injector = Injector(self.folder, process.pid, "0.05")
            process.say("p")
            first = process.line("pause")
            base = injector.fresh()
            process.output = b""
            process.say("gp")
            second = process.line("pause")
            sample = injector.fresh()
            self.compare(sample, second, first, base)
            process.say("g")
            injector.end(True)
            self.points(injector.said())
            self.untouched(process.pid, before)
            process.say("q")
            self.status(process.finish())
            self.answer(process)
        finally:
            self.close(process, injector)

    def untouched(self, pid, before=None):
        """Nothing of ours is mapped, and the text is what it was, or that of the program's files."""
        left = process_text.leftovers(pid)
        if left:
            raise Wrong("leftovers", left)
        if before:
            after = process_text.digest(pid)
            changed = [key for key in before if "/" in key[2] and after.get(key) != before[key]]  # a stack may be executable
            if changed:
                raise Wrong("text differs", changed)

    @staticmethod
    def close(process, injector):
        if injector:
            injector.kill()
        process.kill()
