"""docs/one-liners.md on real programs: each command prints what the page says, and its numbers are what the program's
client did meanwhile.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

import shown
from harness import MDL_INJECT, SOURCE, Lines, LiveTest, NginxServer, RedisServer, free_port, put_down, repeating, run, soon

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "soak"))
import servers  # noqa: E402

PAGE, README = SOURCE / "docs" / "one-liners.md", SOURCE / "README.md"
TIMES = 50  # how often the client does its work while it is counted


class Redis:
    name = "redis-server"

    def __init__(self, folder):
        self.server = RedisServer(folder)
        self.client = self.server.connect()
        self.options = [str(self.server.pid)]

    def work(self):
        assert self.client.command("SET", "key", "value") == "OK"
        assert self.client.command("GET", "key") == "value"

    def end(self):
        self.client.close()
        self.server.kill()


class Nginx:
    name = "nginx"

    def __init__(self, folder):
        (folder / "index.html").write_text("<p>hello</p>\n")
        self.server = NginxServer(folder, 3)
        self.options = [str(self.server.pid), "--all-children"]
        soon(lambda: servers.connected(self.server.port), "nginx to listen")

    def work(self):
        assert self.server.get("") == b"<p>hello</p>\n"

    def end(self):
        self.server.kill()


class Answering:
    """A program that does its work for each line, and answers with one."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
        self.answers = Lines(self.process.stdout)
        self.options = [str(self.process.pid)]
        self.work()

    def work(self):
        self.process.stdin.write(self.LINE)
        assert self.answers.next(f"{self.name} to answer") == "3"

    def end(self):
        put_down(self.process)


class Postgres(Answering):
    name, LINE = "postgres", b"select 1 + 2;\n"

    def __init__(self, folder):
        binaries = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        self.user = servers.AS_POSTGRES
        os.chmod(folder, 0o777)
        data, port = folder / "data", str(free_port())
        subprocess.run([*self.user, binaries / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync"], check=True,
                       capture_output=True, timeout=120)
        self.server = subprocess.Popen([*self.user, binaries / "postgres", "-D", data, "-p", port, "-k", folder, "-h", "",
                                        "-c", "fsync=off", "-c", "autovacuum=off"], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        client = ["psql", "-h", folder, "-p", port, "-U", "postgres", "-AtqX"]
        soon(lambda: subprocess.run([*client, "-c", "select"], capture_output=True, check=False, timeout=20).returncode == 0,
             "postgres to answer")
        super().__init__(*client)
        self.options = [str(self.server.pid), "--all-children"]

    def end(self):
        super().end()
        self.server.terminate()
        self.server.wait()


class Sqlite(Answering):
    name, LINE = "sqlite3", b"select 1 + 2;\n"

    def __init__(self, folder):
        super().__init__("sqlite3", "-batch")


class Python(Answering):
    name, LINE = "python3", b"go\n"

    def __init__(self, folder):
        super().__init__(sys.executable, "-c", "import os, sys\nfor line in sys.stdin: os.write(1, b'3\\n')")


class Node(Answering):
    name, LINE = "node", b"go\n"

    def __init__(self, folder):
        super().__init__("node", "-e", """
const fs = require("fs"), line = Buffer.alloc(64);
while (fs.readSync(0, line) > 0) fs.writeSync(1, "3\\n");""")


def value(lines, metric, **what):
    found = [line["value"] for line in lines if line["metric"] == metric and all(line.get(k) == v for k, v in what.items())]
    assert len(found) == 1, (metric, lines)
    return found[0]


# What the last lines of each command must say when the client did its work TIMES times.
TRUTH = {
    "'count call'": lambda lines: (value(lines, "count call"), 2 * TIMES),
    "'calls /Code/redis-server/*etCommand'": lambda lines: (
        {line["focus"].rsplit("/", 1)[-1]: line["value"] for line in lines if line["value"]}, {"setCommand": TIMES, "getCommand": TIMES}),
    "'count lookupKeyReadOrReply": lambda lines: (value(lines, lines[0]["metric"]), TIMES),
    "'sum $arg[2] at write by fd($arg[0])'": lambda lines: (
        sum(line["value"] for line in lines if "socket" in line["key"][0]), TIMES * len(b"+OK\r\n$5\r\nvalue\r\n")),
    "--every": lambda lines: (value(lines, lines[0]["metric"], pid=0), TIMES),
    "'count pg_parse_query'": lambda lines: (
        (value(lines, "count pg_parse_query", pid=0), [line["count"] for line in lines if "p50" in line and line["pid"] == 0]),
        (TIMES, [TIMES])),
    "'count sqlite3_step'": lambda lines: (value(lines, "count sqlite3_step"), 2 * TIMES),  # a row, and the end
    "'latency sqlite3_prepare_v2 by str($arg[1])'": lambda lines: (
        [(line["key"], line["count"]) for line in lines if "p50" in line], [(["select 1 + 2;"], TIMES)]),
    "'count write by int($arg[0])'": lambda lines: (
        [line["value"] for line in lines if line.get("key") == ["1"]] + [line["sum"] for line in lines if "sum" in line],
        [TIMES, 2 * TIMES]),
    "'count uv_fs_write'": lambda lines: (value(lines, "count uv_fs_write"), TIMES),
}


class OneLiners(LiveTest):
    def begin(self, program):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        self.folder.chmod(0o755)  # servers change their user
        running = program(folder)
        self.addCleanup(running.end)
        return running

    def tables(self, page):
        out = {}
        for program in (Redis, Nginx, Postgres, Sqlite, Python, Node):
            if not self.commands(program.name, page):
                continue
            running = self.begin(program)
            with repeating(running.work, 0.002):
                out |= {command.line: shown.table(command, running.options, 2) for command in self.commands(program.name, page)}
        return out

    def commands(self, name, page=PAGE):
        commands = [command for command in shown.read(page) if command.name == name]
        for command in commands:
            command.words = [word for word in command.words if word not in ("--every", "--all-children")]
        return commands

    def check(self, program):
        running = self.begin(program)
        commands = self.commands(program.name) + self.commands(program.name, README)
        self.assertGreater(len(commands), 0)
        for command in commands:
            with self.subTest(command=command.line):
                self.assertTrue(command.printed)
                with repeating(running.work, 0.002):
                    printed = shown.table(command, running.options, 0.5, "--all", most=None)
                self.assertEqual(shown.missing(command, printed), [], "\n".join(printed))
                first, *words = command.options(("-d", "-i", "--top"))
                session = self.inject(running.options[0], first, *words, *running.options[1:], interval="60")
                session.said("inserted")
                for _ in range(TIMES):
                    running.work()
                self.assert_stopped_well(session)
                lines = [line for line in session.lines if line["final"]]
                truth = next(truth for part, truth in TRUTH.items() if part in command.line)
                self.assertEqual(*truth(lines))

    def test_lines_in_the_place_of_other_tools(self):
        """Each is what mdl-inject answers to the tool's name, and measures a redis-server."""
        section = PAGE.read_text().split("## Coming from another tool")[1].split("\n## ")[0]
        lines = re.findall(r"^    # ([a-z, ]+): .*\n    mdl-inject (.*)$", section, re.MULTILINE)
        self.assertGreater(len(lines), 20)
        server = self.start_redis()
        before = self.remember(server.pid)
        for tool, line in [(tool, line) for tools, line in lines for tool in tools.split(", ")]:
            answer = run(MDL_INJECT, tool, server.pid)
            self.assertEqual(answer.returncode, 2, answer.stderr)
            self.assertIn(f"`mdl-inject {line}`", answer.stderr)
            self.assertIn(f"`mdl-inject {line}`", run(MDL_INJECT, server.pid, tool).stderr)
        with server.connect() as client, repeating(lambda: client.command("SET", "key", "value"), 0.0005):
            for _, line in lines:
                words = [str(server.pid) if word == "PID" else word for word in shlex.split(line)]
                done = run(MDL_INJECT, *words, "-d", "0.1", "--no-separate")
                self.assertEqual(done.returncode, 0, (line, done.stderr))
        self.assert_untouched(server.pid, before)

    def test_redis(self):
        self.check(Redis)

    def test_nginx(self):
        self.check(Nginx)

    def test_postgres(self):
        self.check(Postgres)

    def test_sqlite3(self):
        self.check(Sqlite)

    def test_python(self):
        self.check(Python)

    def test_node(self):
        self.check(Node)


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        test = OneLiners("test_redis")
        test.setUp()
        try:
            for page in (PAGE, README):
                shown.update(page, test.tables(page))
        finally:
            test.doCleanups()
    else:
        unittest.main(verbosity=2)
