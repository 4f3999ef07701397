"""What mdl-inject refuses: with the message and exit status of the contract, and the process
untouched. A message must name what is wrong, not only that something is.
"""

import os
import pathlib
import shutil
import struct
import subprocess
import time
import unittest

import process_text
from harness import AS_NOBODY, CONSTRAINTS, MDL_INJECT, MDLC, PROGRAMS, SOURCE, LiveTest, metric, run

FAILED, USAGE, REJECTED = 1, 2, 4


class Refusals(LiveTest):
    def setUp(self):
        super().setUp()
        self.program = self.start("children")
        self.plan = self.compile_text(metric("work_calls", ["t_work"]))
        self.before = self.remember(self.program.pid)

    def refused(self, status, words, *arguments):
        """Runs mdl-inject; it must fail this way, say each of the words, and print no sample."""
        done = run(MDL_INJECT, *arguments)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(str(word), done.stderr)
        self.assert_untouched(self.program.pid, self.before)
        return done

    def tearDown(self):
        # Whatever was refused, the process still does its work and can be measured.
        self.assertEqual(self.program.ask("work 3")["work"], 3)
        session = self.inject(self.program.pid, self.plan).wait_inserted()
        self.program.ask("work 4")
        self.assert_stopped_well(session)
        self.assertEqual(session.final()["work_calls", ""]["value"], 4)
        self.assertEqual(self.program.end(), 0)

    def test_wrong_pid(self):
        ended = self.start("children")
        ended.end()
        self.refused(FAILED, [ended.pid], ended.pid, self.plan)
        self.refused(FAILED, ["99999999"], "99999999", self.plan)  # more than any process can have

    def test_ends_meanwhile(self):
        """Killed at any moment of an attach: what could not be opened or stopped then is no other trouble."""
        plan = self.compile_text("""
metric every_call {
  name "Calls"; units Calls; unitsType unnormalized; aggregateOperator sum; style EventCounter; flavor { unix };
  base is counter { foreach func in $procedures { append preInsn func.entry (* every_call++; *) } }
}
""", name="every")
        for delay in range(0, 80, 2):
            doomed = self.start("children")
            injector = subprocess.Popen([MDL_INJECT, str(doomed.pid), plan, "-d", "0.01", "-o", "/dev/null"],
                                        stderr=subprocess.PIPE, text=True)
            time.sleep(delay / 1000)
            doomed.kill()
            said = injector.communicate(timeout=30)[1]
            if injector.returncode != 0:  # 0: it was measured before, or its last values were
                self.assertNotIn("kernel thread", said)
                self.assertRegex(said, f"process {doomed.pid} .*(has ended|was killed)|no process {doomed.pid} ",
                                 f"killed after {delay} ms")

    def test_function_that_never_returns(self):
        plan = self.compile_text(metric("ends", ["abort"], point="return"), name="ends")
        self.refused(FAILED, ["no such points", "never returns"], self.program.pid, plan)

    def test_not_a_pid(self):
        self.refused(USAGE, ["12x"], "12x", self.plan)
        self.refused(USAGE, ["0"], "0", self.plan)

    def test_no_permission(self):
        """As uid nobody; or, where the test is not root, at a process of root."""
        if os.geteuid() != 0:
            self.refused(FAILED, ["init"], "1", self.plan)
            return
        public = pathlib.Path("/tmp") / f"{self.folder.name}-public"
        public.mkdir()
        self.addCleanup(shutil.rmtree, public, True)
        for path in (MDL_INJECT, self.plan):
            shutil.copy(path, public)
        public.chmod(0o755)
        done = run(*AS_NOBODY, "--bounding-set=-all", public / pathlib.Path(MDL_INJECT).name, self.program.pid,
                   public / self.plan.name)
        self.assertEqual((done.returncode, done.stdout), (FAILED, ""), done.stderr)
        self.assertIn("permission", done.stderr)
        self.assertIn("uid", done.stderr)
        self.assert_untouched(self.program.pid, self.before)

    def public(self, *files):
        """Copies that any user can reach."""
        public = pathlib.Path("/tmp") / f"{self.folder.name}-public"
        public.mkdir()
        self.addCleanup(shutil.rmtree, public, True)
        public.chmod(0o755)
        return [pathlib.Path(shutil.copy(path, public)) for path in files]

    def start_as_nobody(self, program, *arguments):
        return self.start_by([*AS_NOBODY], program, *arguments)

    def start_by(self, launcher, program, *arguments):
        process = subprocess.Popen([*launcher, program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertIn(b'{"event":"ready"', process.stdout.readline())
        return process

    def refused_as_nobody(self, tool, plan, pid, *words):
        before = self.remember(pid)
        done = run(*AS_NOBODY, tool, pid, plan, "-d", "0.1")
        self.assertEqual((done.returncode, done.stdout), (FAILED, ""), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assert_untouched(pid, before)

    def test_what_another_user_may_not(self):
        """Of the same user, but not dumpable, or with more rights: named, with what would help."""
        if os.geteuid() != 0:
            self.fail("this test starts processes of other users: run it as root")
        tool, plan, program = self.public(MDL_INJECT, self.plan, PROGRAMS / "sandboxed")
        private = self.start_as_nobody(program, "private")
        self.refused_as_nobody(tool, plan, private.pid, "not dumpable", "PR_SET_DUMPABLE", "CAP_SYS_PTRACE")
        os.chown(program, 0, 0)
        program.chmod(0o4755)
        raised = self.start_as_nobody(program, "plain")
        self.refused_as_nobody(tool, plan, raised.pid, "setuid (real uid 65534, effective uid 0", "CAP_SYS_PTRACE")

    def test_capabilities_that_we_lack(self):
        """The process is of the same user, and has one."""
        tool, plan, program = self.public(MDL_INJECT, self.plan, PROGRAMS / "sandboxed")
        capable = self.start_by(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all,+net_admin",
                                 "--ambient-caps=-all,+net_admin"], program, "plain")
        self.refused_as_nobody(tool, plan, capable.pid, "cap_net_admin", "CAP_SYS_PTRACE")

    def test_from_another_user_namespace(self):
        """Root there, and of the same user, has no rights in ours."""
        tool, plan = self.public(MDL_INJECT, self.plan)
        outside = self.start("sandboxed", "plain", alone=True)
        before = self.remember(outside.pid)
        done = run("unshare", "--user", "--map-root-user", tool, outside.pid, plan, "-d", "0.1")
        self.assertEqual((done.returncode, done.stdout), (FAILED, ""), done.stderr)
        self.assertIn("user namespace", done.stderr)
        self.assert_untouched(outside.pid, before)

    def test_in_another_user_namespace(self):
        """Ours has all rights in those that it has made."""
        inside = self.start_by(["unshare", "--user", "--map-root-user"], PROGRAMS / "children")
        before = self.remember(inside.pid)
        session = self.inject(inside.pid, self.plan).wait_inserted()
        inside.stdin.write(b"work 4\n")
        inside.stdin.flush()
        inside.stdout.readline()
        self.assert_stopped_well(session)
        self.assertEqual(session.final()["work_calls", ""]["value"], 4)
        self.assert_untouched(inside.pid, before)

    def test_proc_of_another_pid_namespace(self):
        """What it shows under an id is another process than the one that would be stopped."""
        user = ["--user", "--map-root-user"] if os.geteuid() else []
        before = self.remember(self.program.pid)
        done = run("unshare", *user, "--pid", "--fork", MDL_INJECT, self.program.pid, self.plan, "-d", "0.1")
        self.assertEqual((done.returncode, done.stdout), (FAILED, ""), done.stderr)
        self.assertIn("/proc is that of another pid namespace", done.stderr)
        self.assert_untouched(self.program.pid, before)

    def test_traced_by_another(self):
        tracer = self.start("sandboxed", "tracer", str(self.program.pid), alone=True)
        self.refused(FAILED, [f"already traced by process {tracer.pid} (sandboxed)", "detach"], self.program.pid,
                     self.plan)
        self.refused(FAILED, [f"already traced by process {tracer.pid}"], "--remove", self.program.pid)
        tracer.kill()

    def test_all_that_can_be_read_is_executable(self):
        """A program that has asked for that (personality(2), READ_IMPLIES_EXEC): our data would be code."""
        program = subprocess.Popen(
            ["/usr/bin/python3", "-c", "import ctypes; ctypes.CDLL(None).personality(0x400000); print(1, flush=True); input()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(program.communicate, b"\n")
        program.stdout.readline()
        before = self.remember(program.pid)
        done = run(MDL_INJECT, program.pid, "count malloc", "-d", "0.2")
        self.assertEqual((done.returncode, done.stdout), (FAILED, ""), done.stderr)
        self.assertIn("READ_IMPLIES_EXEC", done.stderr)
        self.assert_untouched(program.pid, before)

    def test_breakpoint(self):
        """Of a debugger that was killed, or a uprobe: what stands behind it is not what runs."""
        symbols = run("nm", PROGRAMS / "children").stdout.splitlines()
        place = next(int(line.split()[0], 16) for line in symbols if line.endswith(" t_work"))
        text = min(one.start - one.offset for one in process_text.mappings(self.program.pid)
                   if one.path.endswith("/children"))
        with open(f"/proc/{self.program.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(text + place)
            original = memory.read(1)
            memory.seek(text + place)
            memory.write(b"\xcc")
            untouched, self.before = self.before, self.remember(self.program.pid)
            self.refused(FAILED, ["t_work", f"breakpoint at {text + place:#x}", "uprobe"], self.program.pid, self.plan)
            memory.seek(text + place)
            memory.write(original)
        self.before = untouched

    def test_processes_that_are_none(self):
        done = run("sh", "-c", 'exec "$0" $$ "$1"', MDL_INJECT, self.plan)
        self.assertEqual(done.returncode, FAILED, done.stderr)
        self.assertIn("cannot instrument itself", done.stderr)
        if os.readlink("/proc/self/ns/pid") == "pid:[4026531836]":
            self.refused(FAILED, ["init"], "1", self.plan)
        zombie = subprocess.Popen(["true"])
        self.addCleanup(zombie.wait)
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        self.refused(FAILED, ["has ended and only waits for its parent"], zombie.pid, self.plan)
        for kernel_thread in self.kernel_threads()[:1]:
            self.refused(FAILED, ["is a kernel thread"], kernel_thread, self.plan)

    @staticmethod
    def kernel_threads():
        """Where they can be seen: not in a container."""
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                status = (folder / "status").read_text(errors="replace")  # any bytes are a name
            except OSError:
                continue  # it has ended
            if "\nPPid:\t2\n" in status and "VmSize" not in status:
                found.append(int(folder.name))
        return found

    def test_already_traced(self):
        """A second session while one holds the process, or after it: never a crash, never a wrong byte."""
        first = self.inject(self.program.pid, self.plan).wait_inserted()
        second = run(MDL_INJECT, self.program.pid, self.plan, "-d", "0.2", "--format", "ndjson")
        self.assertIn(second.returncode, (0, FAILED), second.stderr)
        if second.returncode == FAILED:
            self.assertIn(str(first.process.pid), second.stderr)
        self.assert_stopped_well(first)
        self.assert_untouched(self.program.pid, self.before)

    def changed_plan(self, change):
        """The plan with some bytes changed; `change` edits a bytearray in place."""
        content = bytearray(self.plan.read_bytes())
        change(content)
        path = self.folder / "changed.bin"
        path.write_bytes(content)
        return path

    def test_plan_of_another_architecture(self):
        def aarch64(content):
            content[18:20] = struct.pack("<H", 183)  # e_machine = EM_AARCH64
        plan = self.changed_plan(aarch64)
        self.refused(REJECTED, [plan], self.program.pid, plan)
        self.refused(REJECTED, [plan], "--verify", plan)

    def test_damaged_plan(self):
        size = self.plan.stat().st_size
        for at in range(0, size, max(1, size // 60)):
            with self.subTest(at=at):
                def flip(content, at=at):
                    content[at] ^= 0x41
                self.refused(REJECTED, [], "--verify", self.changed_plan(flip))
        for length in (0, 1, 63, 64, size // 2, size - 1):
            with self.subTest(length=length):
                def cut(content, length=length):
                    del content[length:]
                self.refused(REJECTED, [], self.program.pid, self.changed_plan(cut))

    def test_no_such_plan(self):
        self.refused(FAILED, ["nowhere.bin"], self.program.pid, self.folder / "nowhere.bin")

    def test_unknown_metric(self):
        self.refused(FAILED, ["work_call", "work_calls"], self.program.pid, self.plan, "-m", "work_call")

    def test_what_is_left_out_of_a_plan(self):
        """Metrics that nobody has named: which they are, and with --verbose why."""
        resolve = "_dl_runtime_resolve_xsavec"
        plan = self.compile_text(metric("work_calls", ["t_work"]) + metric("no_calls", ["t_wrok"]) + metric("own_calls", [resolve]))
        for words, said in (([], [f"note: process {self.program.pid} cannot have no_calls, own_calls (--verbose says why)"]),
                            (["--verbose"], ["it looks for t_wrok, which the process does not have",
                                             f"it looks for {resolve} (it does not follow the calling convention), which cannot be"])):
            with self.subTest(words=words):
                session = self.inject(self.program.pid, plan, *words).wait_inserted()
                self.assert_stopped_well(session)
                for text in said:
                    self.assertIn(text, session.errors)
        self.assertIn("cannot have no_calls, own_calls", run(MDL_INJECT, self.program.pid, plan, "--dry-run").stderr)
        self.refused(FAILED, [f"`count {resolve}` cannot be measured in process {self.program.pid}: {resolve} (it does not follow"],
                     self.program.pid, f"count {resolve}")

    def test_focus_without_a_constraint(self):
        focus = "/Code/children/t_work"
        self.refused(FAILED, ["work_calls", "constraint", "/Code/"], self.program.pid, self.plan, "-m",
                     f"work_calls@{focus}")
        self.refused(FAILED, ["constraint"], self.program.pid, self.plan, "-m", "work_calls", "-f", focus)

    def test_focus_that_is_no_path_or_not_there(self):
        text = CONSTRAINTS + metric("work_calls", ["t_work"], constraints=["procedure", "module"])
        plan = self.compile_text(text, "constrained")
        for status, focus, word in ((USAGE, "Code/children", "Code/children"), (USAGE, "/Nowhere/x", "Nowhere"),
                                    (FAILED, "/Code/no_such_object", "no_such_object"),
                                    (FAILED, "/Code/children/t_wrok", "t_wrok")):
            with self.subTest(focus=focus):
                self.refused(status, [word], self.program.pid, plan, "-m", f"work_calls@{focus}")

    def test_usage(self):
        wrong = [[], ["--no-such-option"], [self.program.pid, "-m", "calls"], ["--remove"], ["--status"], ["--verify"]]
        wrong += [[self.program.pid, self.plan, *more]
                  for more in (["-i", "zero"], ["-i", "-1"], ["--format", "xml"], ["third"])]
        for arguments in wrong:
            with self.subTest(arguments=arguments):
                done = run(MDL_INJECT, *arguments)
                self.assertEqual(done.returncode, USAGE, done.stderr)
                self.assertNotEqual(done.stderr, "")


class Compiler(LiveTest):
    """mdlc's exit statuses, and errors at the right place."""

    def wrong(self, text, line, column, word):
        source = self.folder / "wrong.mdl"
        source.write_text(text)
        plan = self.folder / "wrong.bin"
        done = run(MDLC, source, "-o", plan)
        self.assertEqual(done.returncode, FAILED, done.stderr)
        self.assertIn(f"wrong.mdl:{line}:{column}: error: ", done.stderr)
        self.assertIn(word, done.stderr)
        self.assertFalse(plan.exists(), "a plan was written in spite of the error")

    def test_located_errors(self):
        good = metric("m", ["f"])
        self.wrong(good.replace("m++;", "unknown_name++;"), *place(good.replace("m++;", "unknown_name++;"),
                                                                  "unknown_name"), "unknown_name")
        text = good.replace("foreach func in m_list", "foreach func in no_list")
        self.wrong(text, *place(text, "no_list"), "no_list")
        text = good.replace("m++;", "m += $return;")
        self.wrong(text, *place(text, "$return"), "$return")

    def test_usage(self):
        for arguments in ([], ["--no-such-option"], [self.folder / "missing.mdl"]):
            with self.subTest(arguments=arguments):
                done = run(MDLC, *arguments)
                self.assertIn(done.returncode, (FAILED, USAGE))
                self.assertNotEqual(done.stderr, "")

    def test_the_same_source_gives_the_same_bytes(self):
        (self.folder / "elsewhere").mkdir()
        plans = []
        for folder in (self.folder, self.folder / "elsewhere"):
            source = folder / f"{folder.name}.mdl"
            source.write_text(CONSTRAINTS + metric("m", ["f"], constraints=["procedure"]))
            self.assertEqual(run(MDLC, source, "-o", folder / "p.bin", cwd=folder).returncode, 0)
            plans.append((folder / "p.bin").read_bytes())
        self.assertEqual(plans[0], plans[1])

    def test_what_is_in_the_repository_compiles_without_a_word(self):
        """The standard library, every example, and the metric that the README shows."""
        self.stdlib()
        for example in sorted((SOURCE / "examples").glob("*.mdl")):
            self.compile(example)
        readme = (SOURCE / "README.md").read_text()
        shown = readme[readme.index("    resourceList"):]
        self.compile_text(shown[:shown.index("\n\n`")])


def place(text, word):
    """Line and column, from 1, of a word's first appearance."""
    before = text[:text.index(word)]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


class Untyped(LiveTest):
    def test_labels_are_no_functions(self):
        program = self.start("untyped")
        for query in ("count f", "calls /Code/untyped/f"):
            done = run(MDL_INJECT, program.pid, query)
            self.assertEqual(done.returncode, FAILED)
            self.assertIn("nothing says where functions of untyped begin", done.stderr)


class OtherPointers(LiveTest):
    def test_a_thread_pointer_that_changes(self):
        """Code of such an object is refused, since a hit would fault; that of the others is measured."""
        program = self.start("repointed")
        for query in ("count t_meanwhile", "time t_before"):
            done = run(MDL_INJECT, program.pid, query)
            self.assertEqual(done.returncode, FAILED, done.stderr)
            self.assertIn("gives threads another thread pointer", done.stderr)
        session = self.inject(program.pid, "count write").wait_inserted()
        self.assertEqual(program.ask("go 1000")["set"], 1)
        self.assert_stopped_well(session)
        self.assertEqual(session.final()["count write", ""]["value"], 1)  # its answer
        self.assertEqual(program.end(), 0)


if __name__ == "__main__":
    if run("unshare", "--user", "--map-root-user", "true").returncode != 0:  # in a chroot, and in some containers
        print("refusals_test: without user namespaces, because none can be made here", flush=True)
        del Refusals.test_from_another_user_namespace, Refusals.test_in_another_user_namespace
    unittest.main(verbosity=2)
