"""The policy of a machine, /etc/mdl/policy.toml, and the audit: who may be measured, by whose plans, how dear, and the
lines in the system's log. Each command runs in a mount namespace of its own with an /etc and a /dev of the test's, so
the file has its real name: nothing else names a policy. Root only, because the file must be root's.
"""

import json
import os
import pathlib
import shutil
import socket
import unittest

import process_text
from harness import AS_NOBODY, NOBODY, MDLC, MDL_INJECT, PROGRAMS, LiveTest, Session, metric, run, soon

REJECTED = 4
ALONE = 'mount --bind "$1" /etc && { [ -z "$2" ] || mount --bind "$2" /dev; } && shift 2 && exec "$@"'
READS = """
resourceList work is procedure { items { "t_work" }; flavor { unix }; }
metric words { name "Words"; units Words; aggregateOperator sum; style EventCounter; flavor { unix };
  base is counter { foreach func in work { append preInsn func.entry (* words += readAddress($arg[0]); *) } } }
"""


class PolicyTest(LiveTest):
    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("root only")
        self.etc = self.folder / "etc"
        (self.etc / "mdl").mkdir(parents=True)
        for name in ("passwd", "group", "nsswitch.conf", "ld.so.cache"):
            if pathlib.Path("/etc", name).exists():
                shutil.copy(f"/etc/{name}", self.etc)
        self.file = self.etc / "mdl" / "policy.toml"
        self.dev = ""

    def write(self, text):
        self.file.write_text(text)
        os.chmod(self.file, 0o644)

    def tool(self, *words):
        return run(*self.alone(), MDL_INJECT, *words)

    def alone(self):
        return ("unshare", "-m", "--propagation", "private", "sh", "-c", ALONE, "sh", self.etc, self.dev)

    def refused(self, *words, text, status=REJECTED):
        done = self.tool(*words)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertIn(text, done.stderr)

    def taken(self, *words):
        done = self.tool(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def make_key(self, name):
        """The private key's file, and the public key's name."""
        key = self.folder / f"{name}.pem"
        self.assertEqual(run("openssl", "genpkey", "-algorithm", "ed25519", "-out", key).returncode, 0)
        plan = self.sign(key, "name", metric("calls", ["t_work"]))
        shown = run(MDL_INJECT, "--verify", plan).stdout
        return key, next(line.split()[-1] for line in shown.splitlines() if line.startswith("signed with"))

    def sign(self, key, name, text, *options):
        source, plan = self.folder / f"{name}.mdl", self.folder / f"{name}.plan"
        source.write_text(text)
        done = run(MDLC, source, "-o", plan, "--sign", key, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return plan


class Files(PolicyTest):
    def no_command_measures(self, text):
        plan = self.compile_text(metric("calls", ["t_work"]))
        program = self.start("children")
        before = self.remember(program.pid)
        for words in ((program.pid, plan, "-d", "0"), ("--list", program.pid), ("--check", program.pid),
                      ("--verify", plan), ("--run", plan, "--", "true")):
            self.refused(*words, text=text, status=1)
        # A process can be rid of what is in it, all the same.
        self.assertEqual(run(MDL_INJECT, program.pid, plan, "-d", "0", "--detach").returncode, 0)
        for words, said in ((("--status", program.pid), "instrumented by mdl-inject"), (("--remove", program.pid), "removed: ")):
            done = self.taken(*words)
            self.assertIn(said, done.stdout)
            self.assertIn(text, done.stderr)
            self.assertIn("until that is mended, only --status and --remove work", done.stderr)
        self.assert_untouched(program.pid, before)

    def test_without_one_all_is_as_before(self):
        program = self.start("children")
        self.taken(program.pid, self.compile_text(metric("calls", ["t_work"])), "-d", "0")

    def test_one_that_others_could_change(self):
        self.write("")
        for place in (self.file, self.file.parent):
            with self.subTest(place=place):
                mode = place.stat().st_mode
                shown = f"/etc/{place.relative_to(self.etc)}"
                for bit in (0o020, 0o002):
                    os.chmod(place, mode | bit)
                    self.no_command_measures(f"others may write to {shown}: chmod go-w {shown}")
                os.chmod(place, mode)
                os.chown(place, NOBODY, -1)
                self.no_command_measures(f"{shown} belongs to user {NOBODY}, who could change it: chown 0 {shown}")
                os.chown(place, 0, -1)
        self.file.rename(self.folder / "elsewhere")
        os.chown(self.folder / "elsewhere", NOBODY, -1)
        self.file.symlink_to(self.folder / "elsewhere")
        self.no_command_measures("who could change it")
        self.file.unlink()
        self.file.mkdir()
        self.no_command_measures("directory")

    def test_what_is_wrong_in_it_has_line_and_column(self):
        plan = self.compile_text(metric("calls", ["t_work"]))
        key = "ed25519:" + "A" * 43 + "="
        for text, where, what in (
                ("audit = \"required\"\nsignin = 1\n", "2:10", "'signin' is not known here; known are: audit, budget, keys, "),
                ("[signing]\nrequired = \"yes\"\n", "2:12", "true or false"),
                ("[signing]\nrequierd = true\n", "2:12", "'requierd' is not known here"),
                ("audit = \"sometimes\"", "1:9", "\"required\" or \"optional\""),
                ("[[keys]]\nname = \"a\"\n", "1:1", "needs a `name` and a `key`"),
                ("[[keys]]\nname = \"a\"\nkey = \"ed25519:short\"\n", "3:7", "44 letters"),
                (f"[[keys]]\nname = \"a\"\nkey = \"{key}\"\nmay = [\"reads\", \"all\"]\n", "4:17", "'all' is none of"),
                (f"[[keys]]\nname = \"a\"\nkey = \"{key}\"\nuntil = \"soon\"\n", "4:9", "a day, such as"),
                ("[revoked]\nplans = [\"abc\"]\n", "2:10", "64 hexadecimal digits"),
                ("[least-versions]\nredis = -1\n", "2:9", "a version"),
                ("[targets]\nusers = [\"root\", \"nobody-such\"]\n", "2:18", "there is no user 'nobody-such'"),
                ("[budget]\nmost-ns = \"low\"\n", "2:11", "nanoseconds"),
                ("[budget\n", "1:", ""),
                ("audit = \n", "1:", "")):
            with self.subTest(text=text):
                self.write(text)
                done = self.tool("--verify", plan)
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                self.assertIn(f"mdl-inject: /etc/mdl/policy.toml:{where}", done.stderr)
                self.assertIn(what, done.stderr)
        self.no_command_measures("/etc/mdl/policy.toml:1:")


class Plans(PolicyTest):
    def setUp(self):
        super().setUp()
        self.key, self.name = self.make_key("ours")
        self.other, self.other_name = self.make_key("other")
        self.program = self.start("children")
        self.before = self.remember(self.program.pid)
        self.attach = (self.program.pid, "-d", "0")

    def keys(self, more="", name=None):
        return f"[[keys]]\nname = \"ours\"\nkey = \"{name or self.name}\"\n{more}\n"

    def end(self):
        self.assert_untouched(self.program.pid, self.before)

    def test_signing_required(self):
        self.write("[signing]\nrequired = true\n" + self.keys())
        text = metric("calls", ["t_work"])
        self.refused(*self.attach, self.compile_text(text), text="it is not signed, and the policy wants that")
        self.refused(*self.attach, self.sign(self.other, "foreign", text), text="which is no key of the policy")
        self.refused("--verify", self.sign(self.other, "foreign", text), text="which is no key of the policy")
        self.refused(*self.attach, "code.plan", text="it is not signed")
        self.taken(*self.attach, self.sign(self.key, "good", text))
        self.write("[signing]\nrequired = true\nstandard-plans = true\n")
        self.taken("--verify", "code.plan")
        self.end()

    def test_queries_that_are_typed(self):
        read = "sum readAddress($arg[0]) at t_work"
        source = self.folder / "mine.mdl"
        source.write_text(metric("calls", ["t_work"]))
        self.write("")
        self.taken(*self.attach, "count t_work", read)
        self.write("[signing]\nrequired = true\n")
        self.refused(*self.attach, "count t_work", text="the query: it is not signed, and the policy wants that")
        self.refused(*self.attach, source, text="mine.mdl: it is not signed, and the policy wants that")
        self.write("[signing]\nrequired = true\nqueries = true\n")
        self.taken(*self.attach, "count t_work")
        self.refused(*self.attach, read, text="--allow-reads", status=1)
        self.taken(*self.attach, read, "--allow-reads")
        self.refused(*self.attach, source, text="it is not signed, and the policy wants that")
        self.refused(*self.attach, source, "count t_work", text="it is not signed, and the policy wants that")
        self.end()

    def test_guests(self):
        """The host asks the policy, too, and believes nobody that something was typed or lies in the right place."""
        self.write("[signing]\nrequired = true\nqueries = true\nstandard-plans = true\n" + self.keys('may = ["reads"]'))
        host = Session(self.program.pid, "count t_work", under=self.alone())
        self.addCleanup(host.kill)
        host.wait_inserted()
        named = f"is being measured by mdl-inject {host.process.pid}, which does not take this one's requests"
        for words in (("count t_work",), ("code.plan", "-m", "procedure_calls@/Code/children/t_work")):
            self.refused(*self.attach, *words, text=named, status=1)
            self.refused(*self.attach, *words, text="it is not signed, and the policy wants that", status=1)
        self.taken(*self.attach, self.sign(self.key, "reads", READS), "-m", "words")
        self.assertEqual(host.stop(), 0, host.errors)
        self.end()

    def test_a_key_may_what_the_policy_says(self):
        plan = self.sign(self.key, "reads", READS)
        foreign = self.sign(self.other, "foreign", READS)
        request = (*self.attach, "-m", "words")
        self.write(self.keys())
        self.refused(*request, plan, text="--allow-reads", status=1)
        self.write(self.keys('may = ["calls", "command"]'))
        self.refused(*request, plan, text="--allow-reads", status=1)
        self.write(self.keys('may = ["reads"]'))
        self.taken(*request, plan)
        self.refused(*request, foreign, text="--allow-reads", status=1)
        self.end()

    def test_a_key_may_start_the_plans_command(self):
        text = metric("mains", ["main"]) + f'process own {{ command "{PROGRAMS}/entry"; }}\n'
        plan = self.sign(self.key, "starts", text)
        self.write(self.keys('may = ["reads", "calls"]'))
        self.refused("--run", plan, text="wants to start its own command", status=1)
        self.write(self.keys('may = ["command"]'))
        self.assertIn("as it was\n", self.taken("--run", plan).stdout)

    def test_revoked_keys_and_plans(self):
        good = self.sign(self.key, "good", metric("calls", ["t_work"]))
        self.write(self.keys() + f"[revoked]\nkeys = [\"{self.name}\"]\n")
        self.refused(*self.attach, good, text=f"the key {self.name} is revoked")
        checksum = next(line.split()[1] for line in run(MDL_INJECT, "--verify", good).stdout.splitlines()
                        if line.startswith("checksum "))
        self.write(self.keys() + f"[revoked]\nplans = [\"{checksum}\"]\n")
        self.refused(*self.attach, good, text="this plan is revoked")
        self.taken(*self.attach, self.sign(self.key, "newer", metric("calls", ["t_work"], "return")))
        self.write(self.keys("until = 2020-02-29"))
        self.refused(*self.attach, good, text="the key 'ours' was good until 2020-02-29")
        self.write(self.keys("until = 2999-12-31"))
        self.taken(*self.attach, good)
        self.end()

    def test_no_version_comes_back(self):
        text = metric("calls", ["t_work"])
        old = self.sign(self.key, "old", text, "--edition", "work=2")
        new = self.sign(self.key, "new", text, "--edition", "work=3")
        without = self.sign(self.key, "without", text)
        self.taken(*self.attach, old)
        self.write(self.keys() + "[least-versions]\nwork = 3\n")
        self.refused(*self.attach, old, text="its edition is 2 of 'work', and the least is 3")
        self.taken(*self.attach, new)
        self.taken(*self.attach, without)
        self.write("[signing]\neditions = true\n" + self.keys())
        self.refused(*self.attach, without, text="it is signed, and has no edition")
        self.end()

    def test_the_budget(self):
        plan = self.compile_text(READS)
        request = (*self.attach, "-m", "words", "--allow-reads", plan)
        self.write("[budget]\nmost-ns = 50\n")
        self.refused(*request, text="more than the budget of 50 ns", status=1)
        self.refused(*request, "--budget", "1000000", text="the policy allows at most 50 ns", status=1)
        self.write("[budget]\nmost-ns = 5000\n")
        self.taken(*request)
        self.end()


class Users(PolicyTest):
    def test_whose_processes_may_be_measured(self):
        plan = self.compile_text(metric("calls", ["t_work"]))
        mine = self.start("children")
        theirs = self.start("children", command=[*AS_NOBODY, PROGRAMS / "children", "120"])
        # A set-user-ID program in the making: one of its users is another.
        mixed = self.start("children", command=["setpriv", f"--ruid={NOBODY}", PROGRAMS / "children", "120"])
        for users, allowed, denied in (('["root"]', [mine], [theirs, mixed]), (f"[{NOBODY}]", [theirs], [mine, mixed]),
                                       ('["root", "nobody"]', [mine, theirs, mixed], []), ("[]", [], [mine, theirs])):
            self.write(f"[targets]\nusers = {users}\n")
            for program in denied:
                before = self.remember(program.pid)
                self.refused(program.pid, plan, "-d", "0", text="whose processes the policy does not let be measured",
                             status=1)
                self.assert_untouched(program.pid, before)
            for program in allowed:
                self.taken(program.pid, plan, "-d", "0")

    def test_one_that_changes_its_user(self):
        """No value of afterwards is shown, and the instrumentation is taken out at once."""
        self.write('[targets]\nusers = ["root"]\n')
        plan = self.compile_text(metric("calls", ["t_work"]))
        for interval in ("0.05", "3600"):
            program = self.start("forks")
            before = self.remember(program.pid)
            session = self.inject(program.pid, plan, "-m", "calls", under=self.alone(), interval=interval).wait_inserted()
            program.ask("work 10")
            if interval == "0.05":
                session.fresh_values()
            program.ask("drop 5")
            self.assertEqual(session.wait(), 1)
            self.assertIn(f"runs as user {NOBODY}, whose processes the policy does not let be measured", session.errors)
            self.assertLessEqual(max(line["value"] for line in session.lines), 10)
            self.assertEqual(session.final()[("calls", "")]["value"], 10 if interval == "0.05" else 0)
            self.assert_untouched(program.pid, before)
            self.assertEqual(program.end(), 0)

    def test_a_thread_of_another_user(self):
        self.write('[targets]\nusers = ["root"]\n')
        program = self.start("forks")
        program.ask("thread_drop")
        before = self.remember(program.pid)
        self.refused(program.pid, self.compile_text(metric("calls", ["t_work"])), "-d", "0", status=1,
                     text=f"runs as user {NOBODY}, whose processes the policy does not let be measured")
        self.assert_untouched(program.pid, before)

    def test_a_child_that_changes_its_user(self):
        """It is not measured, and has nothing of the instrumentation any more while its parent is measured on."""
        self.write('[targets]\nusers = ["root"]\n')
        program = self.start("forks")
        before = self.remember(program.pid)
        session = self.inject(program.pid, self.compile_text(metric("calls", ["t_work"])), "-m", "calls", "--follow-fork",
                              under=self.alone()).wait_inserted()
        child = program.ask("user 7")["family"][1]["pid"]
        session.read_until_said(f"process {child} runs as user {NOBODY}, whose processes the policy does not let be measured")
        soon(lambda: process_text.leftovers(child) == [] and process_text.digest(child) == before, "the child to be clean")
        self.assert_untouched(child, before)
        program.ask("work 3")
        self.assert_stopped_well(session)
        # The child may have been looked at before it changed.
        values = {line["pid"]: line["value"] for line in session.lines}
        self.assertEqual((values[program.pid], values.get(child, 0)), (3, 0))
        program.ask("end")
        self.assert_untouched(program.pid, before)


class Audits(PolicyTest):
    def setUp(self):
        super().setUp()
        self.dev = self.folder / "dev"
        self.dev.mkdir()
        for name in ("null", "zero", "urandom"):
            run("cp", "-a", f"/dev/{name}", self.dev / name)
        self.plan = self.compile_text(metric("calls", ["t_work"]))

    def listen(self):
        log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(log.close)
        log.bind(str(self.dev / "log"))
        log.settimeout(0)
        return log

    @staticmethod
    def lines(log):
        out = []
        while True:
            try:
                out.append(log.recv(65536).decode())
            except BlockingIOError:
                return out

    def test_each_attach_and_each_removal_has_its_lines(self):
        log = self.listen()
        program = self.start("children")
        self.taken(program.pid, self.plan, "-m", "calls", "-d", "0")
        checksum = next(line.split()[1] for line in run(MDL_INJECT, "--verify", self.plan).stdout.splitlines()
                        if line.startswith("checksum "))
        lines = self.lines(log)
        for line, action, result in zip(lines, ("attach", "attach", "removal"), ("begins", "done", "done"), strict=True):
            self.assertRegex(line, rf"^<85>\w{{3}} [ \d]\d \d\d:\d\d:\d\d mdl-inject\[\d+\]: {action} uid=0 loginuid=\w+ separate=(yes|no) "
                                   rf'pid={program.pid} program="children" target_uid=0 plan={checksum} signer=none '
                                   rf'requests="calls" result="{result}"$')
        self.taken("--remove", program.pid)
        removal = self.lines(log)
        self.assertEqual([line[line.index(": ") + 2:].split()[0] for line in removal], ["removal", "removal"])

    def test_what_is_refused_has_one_too(self):
        log = self.listen()
        self.write("[signing]\nrequired = true\n")
        program = self.start("children")
        self.refused(program.pid, self.plan, "-d", "0", text="not signed")
        lines = self.lines(log)
        self.assertEqual(len(lines), 1)
        self.assertIn("it is not signed", lines[0])

    def test_each_change_of_requests_has_its_lines(self):
        """A line that is no change has none."""
        log = self.listen()
        program = self.start("children")
        commands = self.folder / "commands"
        commands.write_text('more\nadd a"result=\nadd others\nremove others\n')
        plan = self.compile_text(metric("calls", ["t_work"]) + metric("others", ["t_work"]))
        done = self.taken(program.pid, plan, "-m", "calls", "-d", "1", "-i", "0.1", "--commands", commands)
        changes = [line for line in self.lines(log) if "]: change " in line]
        self.assertEqual(len(changes), 6, done.stderr)
        results = [json.loads(line[line.index(" result=") + 8:]) for line in changes]
        self.assertEqual(results[0], 'add a"result=: begins')
        self.assertIn("has no metric", results[1])
        self.assertEqual(results[2:], [f"{line}: {how}" for line in ("add others", "remove others")
                                       for how in ("begins", "done")])

    def test_guests_have_theirs_and_the_hosts(self):
        log = self.listen()
        program = self.start("children")
        host = Session(program.pid, self.plan, under=self.alone())
        self.addCleanup(host.kill)
        host.wait_inserted()
        self.lines(log)
        self.taken(program.pid, self.plan, "-d", "0")
        lines = [line[line.index("]: ") + 3:] for line in self.lines(log)]
        own = [(line.split()[0], line[line.index(" result="):]) for line in lines if not line.startswith("change ")]
        self.assertEqual(own, [("attach", ' result="begins"'), ("attach", ' result="done"'), ("removal", ' result="done"')])
        changes = [line for line in lines if line.startswith("change ")]
        self.assertEqual(len(changes), 4)
        self.assertRegex(changes[0], r"mdl-inject \d+ comes with plan [0-9a-f]{64}: begins")
        self.assertRegex(changes[3], r"mdl-inject \d+ goes: done")
        self.assertEqual(host.stop(), 0, host.errors)

    def test_no_name_forges_a_line(self):
        """The name of a program is its own choice."""
        log = self.listen()
        evil = self.folder / 'a" uid=7 b="c'
        shutil.copy(PROGRAMS / "children", evil)
        program = self.start("children", command=[evil, "120"])
        self.taken(program.pid, self.plan, "-d", "0")
        lines = self.lines(log)
        self.assertEqual(len(lines), 3)
        for line in lines:
            self.assertNotIn("\n", line)
            name = line[line.index(" program=") + 9:line.index(" target_uid=")]
            self.assertEqual(json.loads(name), evil.name)

    def test_required_where_there_is_no_log(self):
        program = self.start("children")
        before = self.remember(program.pid)
        self.taken(program.pid, self.plan, "-d", "0")
        self.write('audit = "required"\n')
        self.refused(program.pid, self.plan, "-d", "0", text="the policy requires an audit, and /dev/log cannot be reached",
                     status=1)
        self.refused("--remove", program.pid, text="the policy requires an audit", status=1)
        self.assert_untouched(program.pid, before)
        log = self.listen()
        self.taken(program.pid, self.plan, "-d", "0")
        self.assertEqual(len(self.lines(log)), 3)

    def test_whose_processes_may_join(self):
        """The broker looks at the user of each that comes (--follow), and the audit has a line of each that joins."""
        self.write('audit = "required"\n[targets]\nusers = ["root"]\n')
        log = self.listen()
        program = self.folder / f"mdl-{os.getpid()}-join"
        shutil.copy(PROGRAMS / "children", program)
        self.folder.chmod(0o755)
        session = Session(f"-p{program.name}", self.plan, "--follow", under=self.alone())
        self.addCleanup(session.kill)
        session.said("the first one is waited for")
        theirs = self.start("children", command=[*AS_NOBODY, program, "120"])
        before = self.remember(theirs.pid)
        session.said(f"process {theirs.pid} ({program.name[:15]}) is not measured: process {theirs.pid} runs as user {NOBODY}")
        mine = self.start("children", command=[program, "120"])
        session.said(f"process {mine.pid} has come")
        mine.ask("work 4")
        theirs.ask("work 4")
        self.assertEqual(session.stop(), 0, session.errors)
        self.assertEqual({line["pid"]: line["value"] for line in session.lines if line["final"]}, {mine.pid: 4, 0: 4})
        self.assert_untouched(theirs.pid, before)
        lines = self.lines(log)
        of_mine = [line for line in lines if f"pid={mine.pid} " in line]
        self.assertEqual([line.split("]: ")[1].split()[0] for line in of_mine], ["attach", "attach", "removal"], lines)
        self.assertFalse([line for line in lines if f"pid={theirs.pid} " in line])

    def test_a_log_that_nobody_reads_holds_nobody(self):
        log = self.listen()
        filler = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        filler.connect(str(self.dev / "log"))
        filler.setblocking(False)
        with self.assertRaises(BlockingIOError):
            while True:
                filler.send(b"x")
        filler.close()
        program = self.start("children")
        self.taken(program.pid, self.plan, "-d", "0")
        self.write('audit = "required"\n')
        self.refused(program.pid, self.plan, "-d", "0", text="takes no line", status=1)
        self.assertNotEqual(self.lines(log), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
