"""One cycle of the soak after the other on one server: attach, perhaps sample, leave in some way, and look
whether the process is what it was.

What a cycle asks for depends on the seed, the server's name and the cycle's number alone; where in its work a
killed injector is depends on the machine.
"""

import contextlib
import pathlib
import random
import re
import signal
import subprocess
import time

import harness
import plans
import process_text
from harness import MDL_INJECT

# How a session ends, and how often of a hundred.
ENDS = {"interrupt": 25, "sampled": 20, "terminate": 10, "duration": 15, "killed": 20, "killed twice": 10}
PLAN_EVERY = 5  # cycles that a random plan serves
STANDARD = ["code.mdl", "time.mdl", "io.mdl", "memory.mdl", "sync.mdl", "faults.mdl"]
OWN = {"redis": "redis.mdl", "nginx": "nginx.mdl", "postgres": "postgresql.mdl", "memcached": "memcached.mdl",
       "python": "cpython.mdl"}
STDLIB = harness.SOURCE / "stdlib-metrics"


def text_of(pid):
    """{(start, end, path): bytes} of what is executable and from a file; a compiler's own pages are not."""
    found = {}
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for mapping in process_text.mappings(pid):
            if mapping.executable and mapping.path.startswith("/") and not mapping.path.startswith("/memfd:mdl-"):
                chunks, at = [], mapping.start
                while at < mapping.end:
                    memory.seek(at)
                    chunks.append(memory.read(mapping.end - at))
                    if not chunks[-1]:
                        raise OSError(f"{mapping.path}: nothing to read at {at:#x}")
                    at += len(chunks[-1])
                found[(mapping.start, mapping.end, mapping.path)] = b"".join(chunks)
    return found


def memory_of(pid):
    """What the process has: KiB mapped, resident and of its own, mappings, files."""
    lines = dict(line.split(":", 1) for line in
                 pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines() if ":" in line)
    kib = {name: int(lines[field].split()[0]) for name, field in
           (("mapped", "VmSize"), ("resident", "VmRSS"), ("own", "RssAnon"))}
    files = len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))
    return kib | {"mappings": len(process_text.mappings(pid)), "files": files}


class Result:
    """The figures of one server."""

    def __init__(self, name):
        self.name, self.versions, self.seconds = name, [], 0.0
        self.cycles, self.requests = 0, 0
        self.ends = dict.fromkeys(ENDS, 0)
        self.refused = {}  # reason -> how many sessions were refused with it, nothing having been changed
        self.inert = 0  # sessions that left something: exit status 5
        self.points, self.failures, self.notes = 0, [], []
        self.bytes_differing = self.mappings_left = 0
        self.first, self.last = {}, {}  # pid -> memory_of
        self.paused = []  # milliseconds, of each insertion

    def growth(self, what):
        """The largest growth of a process, of those that were looked at twice."""
        return max((self.last[pid][what] - self.first[pid][what] for pid in self.last), default=0)


class Soak:
    def __init__(self, server, seed, folder):
        self.server, self.seed, self.folder = server, seed, folder
        self.result = Result(server.name)
        self.texts = {}  # pid -> text_of
        self.dead = False  # a process has ended: nothing more can be done
        self.last = ""  # what the last cycle did
        self.insertion = 0.2  # seconds that one takes, so that kills come at all of its moments

    def prepare(self):
        """The functions, the standard plan and what the processes are before anything is done to them."""
        self.result.versions = self.server.versions()
        for pid in set(self.server.pids()):
            self.texts[pid] = text_of(pid)
        pid = self.server.pids()[0]
        self.functions = plans.Functions(pid, self.server.libraries, self.server.busy)
        files = STANDARD + ([OWN[self.server.name]] if self.server.name in OWN else [])
        self.standard = self.compile("standard.bin", *(STDLIB / name for name in files))
        self.metrics = [name for file in files
                        for name in re.findall(r"^metric (\w+)", (STDLIB / file).read_text(encoding="utf-8"), re.M)]

    def compile(self, name, *sources):
        plan = self.folder / name
        done = harness.run(harness.MDLC, "-Wno-unused-constraint", *sources, "-o", plan, seconds=180)
        if done.returncode != 0:
            raise AssertionError(f"mdlc: {done.stderr}")
        return plan

    def request(self, number, chance):
        """The plan of this cycle and what is asked of it."""
        if chance.random() < 0.3:
            return self.standard, plans.standard_requests(chance, self.functions, self.metrics)
        serial = number // PLAN_EVERY
        made = plans.Plan(random.Random(f"{self.seed} {self.server.name} plan {serial}"), self.functions)
        path = self.folder / f"plan{serial}.bin"
        if not path.exists():
            source = self.folder / f"plan{serial}.mdl"
            source.write_text(made.text, encoding="utf-8")
            self.compile(path.name, source)
        return path, made.requests(chance, self.functions)

    def run(self, number):
        """One cycle; failures are in the result."""
        chance = random.Random(f"{self.seed} {self.server.name} {number}")
        plan, words = self.request(number, chance)
        end = chance.choices(list(ENDS), ENDS.values())[0]
        if number == 0:  # so that however few cycles there are, something was inserted
            plan, end = self.standard, "sampled"
            words = [word for module, name in self.functions.hot[:8]
                     for word in ("-m", f"procedure_calls@/Code/{module}/{name}")]
        pid = chance.choice(self.server.pids())
        what = self.last = f"cycle {number}, process {pid} ({end}, {' '.join(words)})"
        try:
            self.session(pid, plan, words, end, chance)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            self.fail(f"{what}: {error}")
            harness.run(MDL_INJECT, "--remove", pid)  # so that one failure is not the next cycle's, too
        self.result.cycles += 1
        self.result.ends[end] += 1
        try:
            self.check(pid, what)
            memory = memory_of(pid)
        except (FileNotFoundError, ProcessLookupError, KeyError) as error:
            self.fail(f"{what}: the process has ended ({error!r}); {self.server.progress()[1]}")
            self.dead = True
            return
        self.result.first.setdefault(pid, memory)
        self.result.last[pid] = memory

    def fail(self, text):
        self.result.failures.append(text)

    def session(self, pid, plan, words, end, chance):
        options = ["--format", "ndjson", "-i", "0.05", *words]
        if end == "duration":
            options += ["-d", f"{chance.uniform(0.01, 0.3):.3f}"]
        begun = time.monotonic()
        with contextlib.ExitStack() as stack:
            output = stack.enter_context(open(self.folder / "samples", "wb"))
            errors = stack.enter_context(open(self.folder / "errors", "wb"))
            injector = subprocess.Popen([MDL_INJECT, str(pid), str(plan), *options], stdin=subprocess.DEVNULL,
                                        stdout=output, stderr=errors)
            stack.callback(lambda: (injector.poll() is None and injector.kill(), injector.wait()))

            def said():
                return pathlib.Path(errors.name).read_text(encoding="utf-8", errors="replace")

            if end.startswith("killed"):
                time.sleep(chance.uniform(0, 1.5 * self.insertion))
            else:
                harness.soon(lambda: injector.poll() is not None or "inserted" in said(), "the insertion", 180)
                if injector.poll() is None:
                    self.insertion += 0.1 * (time.monotonic() - begun - self.insertion)
                if end == "sampled":
                    time.sleep(chance.uniform(0, 0.2))
            if end.startswith("killed"):
                injector.kill()
            elif end in ("interrupt", "sampled", "terminate"):
                with contextlib.suppress(ProcessLookupError):
                    injector.send_signal(signal.SIGTERM if end == "terminate" else signal.SIGINT)
            status, words = injector.wait(180), said()
        self.learn(words)
        if end.startswith("killed"):
            self.clean_up(pid, end, chance)
        elif status == 1:
            reason = re.sub(r"\s+", " ", words).strip()
            self.result.refused[reason] = self.result.refused.get(reason, 0) + 1
        elif status == 5:
            self.result.inert += 1
            self.clean_up(pid, "left", chance)
        elif status != 0:
            raise AssertionError(f"exit status {status}: {words}")

    def learn(self, said):
        """What the injector said that it did."""
        found = re.search(r"inserted (\d+) points in [\d.]+ ms, paused ([\d.]+) ms", said)
        if found:
            self.result.points += int(found[1])
            self.result.paused.append(float(found[2]))

    def clean_up(self, pid, end, chance):
        """What somebody does who finds a process that a killed injector has left."""
        status = harness.run(MDL_INJECT, "--status", pid, seconds=180)
        if status.returncode != 0 or not status.stdout:
            raise AssertionError(f"--status: {status.returncode}, {status.stderr}")
        if end == "killed twice":
            remover = subprocess.Popen([MDL_INJECT, "--remove", str(pid)], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0, 0.06))
            remover.kill()
            remover.wait()
        removed = harness.run(MDL_INJECT, "--remove", pid, seconds=180)
        if removed.returncode != 0:
            raise AssertionError(f"--remove: {removed.returncode}, {removed.stdout}{removed.stderr}")

    def check(self, pid, what):
        """The process's text, its mappings and its requests."""
        failed = self.server.progress()[1]
        if failed:
            self.fail(f"{what}: {failed}")
        now, then = text_of(pid), self.texts[pid]
        for key in now.keys() - then.keys():
            self.result.notes.append(f"{what}: {key[2]} was mapped by the program")
            then[key] = now[key]
        for key in then.keys() - now.keys():
            self.result.notes.append(f"{what}: {key[2]} was unmapped by the program")
            del then[key]
        for key, code in now.items():
            if code != then[key]:
                places = [at for at in range(len(code)) if code[at] != then[key][at]]
                self.result.bytes_differing += len(places)
                self.fail(f"{what}: {len(places)} bytes of {key[2]} differ, the first at {key[0] + places[0]:#x}")
        left = process_text.leftovers(pid)
        if left:
            self.result.mappings_left += len(left)
            self.fail(f"{what}: left mapped: {[f'{m.start:x}-{m.end:x} {m.access} {m.path}' for m in left]}")

    def finish(self):
        requests, failed = self.server.finish()
        self.result.requests = requests
        if failed:
            self.fail(f"at the end: {failed}")
        for pid in set(self.server.pids()):
            if pathlib.Path(f"/proc/{pid}").exists():
                self.check(pid, "at the end") if self.server.name != "postgres" else None
        return self.result
