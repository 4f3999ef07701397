"""The rights that mdl-inject needs, and no others: docs/privileges.md has them as a table. Each row is a user with
just these capabilities, made by setpriv.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from harness import MDL_INJECT, PROGRAMS, LiveTest, metric, run

FAILED = 1
OWNER, OPERATOR = 65534, 1234


def as_user(uid, *capabilities):
    """A command in front of another: as this user, with these capabilities only."""
    more = "".join(f",+{name}" for name in capabilities)
    ambient = [f"--ambient-caps=-all{more}"] if capabilities else []
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", f"--inh-caps=-all{more}", *ambient,
            f"--bounding-set=-all{more}"]


@unittest.skipUnless(os.geteuid() == 0, "users are made by root")
class Privileges(LiveTest):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.plan = self.compile_text(metric("turns", ["turn"]))
        self.plan.chmod(0o644)
        self.injector = self.copy(MDL_INJECT, self.folder)

    def copy(self, program, folder):
        return pathlib.Path(shutil.copy(program, folder))

    def target(self, *under, private=False, uid=OWNER):
        """A program of the user, in a folder that only he may enter."""
        folder = self.folder
        if private:
            folder = self.folder / "private"
            folder.mkdir()
        program = self.copy(PROGRAMS / "obstinate", folder)
        if private:
            os.chown(folder, uid, uid)
            folder.chmod(0o700)
        return self.start("obstinate", command=[*under, *as_user(uid), str(program), "120"])

    def measure(self, who, program):
        return run(*who, self.injector, program.pid, self.plan, "-d", "0.1", "--format", "ndjson")

    def assert_measured(self, who, program):
        before = self.remember(program.pid)
        done = self.measure(who, program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("inserted 1 points", done.stderr)
        done = run(*who, self.injector, "--remove", program.pid)
        self.assertEqual((done.returncode, done.stdout), (0, f"process {program.pid} is not instrumented\n"), done.stderr)
        self.assert_untouched(program.pid, before)

    def test_own_process_needs_nothing(self):
        self.assert_measured(as_user(OWNER), self.target(private=True))

    def test_anothers_process(self):
        self.assert_measured(as_user(OPERATOR, "sys_ptrace", "dac_override"), self.target(private=True))

    def test_capabilities_are_given_up_where_others_files_are_read(self):
        program = self.target()
        for who, filtered in ((as_user(OPERATOR, "sys_ptrace", "dac_override"), "2"), (as_user(OWNER), "0")):
            with self.subTest(who=who):
                with subprocess.Popen([*who, self.injector, str(program.pid), self.plan, "--format", "ndjson"],
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as session:
                    session.stdout.readline()
                    status = pathlib.Path(f"/proc/{session.pid}/status").read_text()
                    session.terminate()
                self.assertIn(f"\nSeccomp:\t{filtered}\n", status)
                self.assertIn("\nCapPrm:\t0000000000000000\n", status)

    def test_tracing_alone_is_not_the_file(self):
        """The cause is named: neither a security module nor a user namespace."""
        program = self.target()
        done = self.measure(as_user(OPERATOR, "sys_ptrace"), program)
        self.assertEqual(done.returncode, FAILED)
        self.assertIn(f"you have CAP_SYS_PTRACE, but its memory is a file that only uid {OWNER} may open", done.stderr)
        self.assertIn("CAP_DAC_OVERRIDE", done.stderr)
        self.assertNotIn("security module", done.stderr)

    def test_tracing_alone_as_its_user(self):
        """Of a process that may not be traced by its own user: it has a capability that he lacks."""
        program = self.start("obstinate", command=[*as_user(OWNER, "net_raw"), str(self.copy(PROGRAMS / "obstinate", self.folder)), "120"])
        done = self.measure(as_user(OWNER), program)
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("it has capabilities that you do not have (cap_net_raw)", done.stderr)
        self.assert_measured(as_user(OWNER, "sys_ptrace"), program)

    def test_not_dumpable(self):
        """Its memory belongs to root then."""
        program = self.start("sandboxed", command=[*as_user(OWNER), str(PROGRAMS / "sandboxed"), "private"])
        plan = self.compile_text(metric("work_calls", ["s_work"]), name="work")
        plan.chmod(0o644)
        words = [self.injector, program.pid, plan, "-d", "0.1", "--dry-run"]
        done = run(*as_user(OWNER, "sys_ptrace"), *words)
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("its memory is a file that only uid 0 may open", done.stderr)
        done = run(*as_user(OPERATOR, "sys_ptrace", "dac_override"), *words)
        self.assertNotIn("permission", done.stderr)

    def test_replaced_program(self):
        """Its file is not there any more under its name."""
        program = self.target()
        (self.folder / "obstinate").unlink()
        done = self.measure(as_user(OPERATOR, "sys_ptrace", "dac_override"), program)
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("CAP_CHECKPOINT_RESTORE", done.stderr)
        self.assert_measured(as_user(OPERATOR, "sys_ptrace", "dac_override", "checkpoint_restore"), program)

    def test_in_another_container(self):
        """Namespaces of its own for pids and mounts, seen from outside."""
        program = self.target("unshare", "--pid", "--mount", "--fork", "--kill-child")
        self.assert_measured(as_user(OPERATOR, "sys_ptrace", "dac_override"), program)

    def test_inside_a_container(self):
        """A root with two capabilities, in the process's own namespaces, where /run may not be written to."""
        program = self.target("unshare", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child", "sh", "-c",
                              'mount -t tmpfs -o ro tmpfs /run && exec "$@"', "sh")
        inside = ["nsenter", "-t", str(program.pid), "--pid", "--mount", *as_user(0, "sys_ptrace", "dac_override")]
        self.assertEqual(run(*inside, "mkdir", "/run/mdl").returncode, 1)
        done = run(*inside, self.injector, 1, self.plan, "-d", "0.1", "--format", "ndjson")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("inserted 1 points", done.stderr)

    def test_child_with_more_rights(self):
        """Of a parent that has given up capabilities, which its child has by executing as root: the cause is named."""
        gives_up = ("import ctypes, subprocess, sys; libc = ctypes.CDLL(None); version_3 = 0x20080522; "
                    "assert libc.capset((ctypes.c_uint32 * 2)(version_3, 0), (ctypes.c_uint32 * 6)()) == 0; "
                    "subprocess.run(sys.argv[1:], check=False)")
        program = self.start("obstinate", command=[sys.executable, "-c", gives_up, str(PROGRAMS / "obstinate"), "120"])
        parent = program.process.pid
        words = [MDL_INJECT, parent, "--all-children", "count malloc", "-d", "0.1"]
        done = run(*words, "--separate")
        self.assertEqual(done.returncode, FAILED)
        self.assertIn(f"it has more rights than process {parent}, from which it descends", done.stderr)
        self.assertNotIn("security module", done.stderr)
        done = run(*words, "--no-separate")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_filters_take_more(self):
        """To read a seccomp filter takes CAP_SYS_ADMIN. Without it nothing is touched, and that is said."""
        program = self.start("sandboxed", "deny", "acct", str(PROGRAMS / "children"), "120", alone=True)
        plan = self.compile_text(metric("work_calls", ["t_work"]), name="work")
        plan.chmod(0o644)
        who = as_user(OPERATOR, "sys_ptrace", "dac_override")
        done = run(*who, self.injector, program.pid, plan, "-d", "0.1")
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("CAP_SYS_ADMIN", done.stderr)
        who = as_user(OPERATOR, "sys_ptrace", "dac_override", "sys_admin")
        done = run(*who, self.injector, program.pid, plan, "-d", "0.1", "--format", "ndjson")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
