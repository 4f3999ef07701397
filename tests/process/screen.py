"""A terminal for tests: a session of its own on a pseudo-terminal, and a model of its screen."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from harness import PATIENCE, states

SEQUENCE = re.compile(rb"\x1b\[([0-9;?]*)([@-~])")


class Screen:
    """What stands on it: text, the cursor, and the few sequences that mdl-inject may use; no other ones."""

    def __init__(self, rows, columns):
        self.resize(rows, columns)

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.lines = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.scrolled = []  # lines that have left it at the top

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.lines).rstrip("\n")

    def newline(self):
        if self.row + 1 < self.rows:
            self.row += 1
            return
        self.scrolled.append("".join(self.lines.pop(0)).rstrip())
        self.lines.append([" "] * self.columns)

    def feed(self, data):
        """Returns what is not whole yet."""
        at = 0
        while at < len(data):
            byte = data[at]
            if byte == 0x1b:
                match = SEQUENCE.match(data, at)
                if not match:
                    if len(data) - at < 12:
                        return data[at:]
                    raise AssertionError(data[at:at + 20])
                self.obey(match[1].decode(), match[2].decode())
                at = match.end()
                continue
            if byte == 0x0a:
                self.newline()
            elif byte == 0x0d:
                self.column = 0
            else:
                size = 1 if byte < 0x80 else 2 if byte < 0xe0 else 3 if byte < 0xf0 else 4
                if at + size > len(data):
                    return data[at:]
                assert byte >= 0x20, data[at:at + 20]
                if self.column == self.columns:  # a message may be long; what is drawn in place is not
                    self.column = 0
                    self.newline()
                self.lines[self.row][self.column] = data[at:at + size].decode()
                self.column += 1
                at += size - 1
            at += 1
        return b""

    def obey(self, numbers, what):
        if what == "m":
            assert re.fullmatch("[0-9;]*", numbers), numbers
        elif what == "A":
            self.row = max(0, self.row - int(numbers or 1))
        elif what == "H" and not numbers:
            self.row = self.column = 0
        elif what == "K" and not numbers:
            self.lines[self.row][self.column:] = [" "] * (self.columns - self.column)
        elif what == "J" and numbers in ("", "2"):
            first = self.row + 1 if numbers == "" else 0
            if numbers == "":
                self.lines[self.row][self.column:] = [" "] * (self.columns - self.column)
            for row in range(first, self.rows):
                self.lines[row] = [" "] * self.columns
        else:
            raise AssertionError(f"the sequence ESC [ {numbers} {what}")


FRAME_END = b"\x1b[J"  # everything below is cleared


class Terminal:
    """A command in front on a terminal of its own."""

    def __init__(self, command, rows=24, columns=100, **environment):
        self.ours, theirs = pty.openpty()
        self.screen = Screen(rows, columns)
        self.resize(rows, columns)
        self.before = termios.tcgetattr(theirs)
        self.rest = b""
        self.bytes = b""

        def lead():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        wanted = {"TERM": "xterm", "LC_ALL": "C.UTF-8", **environment}
        inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
        self.process = subprocess.Popen([str(word) for word in command], stdin=theirs, stdout=theirs, stderr=theirs,
                                        preexec_fn=lead, env=inherited | wanted)
        self.theirs = theirs

    def resize(self, rows, columns):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def read(self, seconds):
        """Whether anything came."""
        if not select.select([self.ours], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.ours, 1 << 16)
        except OSError:
            return False
        self.bytes += data
        self.rest = self.screen.feed(self.rest + data)
        return True

    def wait_for(self, pattern, seconds=PATIENCE):
        """Until the screen has it, also when what was being drawn is whole; the match."""
        end = time.monotonic() + seconds
        while True:
            match = re.search(pattern, self.screen.text(), re.M)
            if match and (self.bytes.endswith(FRAME_END) or not self.read(0.1)):
                return match
            assert match or time.monotonic() < end, self.problem(f"no {pattern!r}")
            if not match:
                self.read(0.05)

    def frame(self, seconds=PATIENCE):
        """The screen when a frame is whole, which ends with that everything below is cleared."""
        end = time.monotonic() + seconds
        self.read(0.05)
        while not self.bytes.endswith(FRAME_END):
            assert time.monotonic() < end, self.problem("no whole frame")
            self.read(0.05)
        return self.screen.text()

    def problem(self, what):
        return f"{what}; its threads: {states(self.process.pid)}; the screen:\n{self.screen.text()}"

    def watch(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(0.05)

    def type(self, keys):
        os.write(self.ours, keys.encode("latin-1"))

    def modes(self):
        return termios.tcgetattr(self.theirs)

    def set_modes(self, modes):
        termios.tcsetattr(self.theirs, termios.TCSANOW, modes)

    def end(self, seconds=PATIENCE):
        """Its exit status; what it wrote last is on the screen."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, self.problem("it does not end")
            self.read(0.05)
        self.watch(0.1)
        return self.process.returncode

    def close(self):
        """The terminal itself goes away."""
        for file in ("theirs", "ours"):
            if getattr(self, file) >= 0:
                os.close(getattr(self, file))
                setattr(self, file, -1)

    def give_up(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.close()
