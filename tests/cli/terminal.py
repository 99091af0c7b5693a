# SPDX-License-Identifier: Apache-2.0
"""Runs a command on a terminal.

    terminal.py COMMAND...    on one of 80 columns: prints what the command wrote, exits as it did

As a module: a Terminal shows, by a terminal emulator (pyte), what a person sees at any moment.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

PROMPT = "$ "


class Terminal:
    """A command on a terminal of its own; text holds all bytes that it wrote."""

    def __init__(self, *command, columns=80, lines=24, term="xterm", cwd=None):
        environment = {name: value for name, value in os.environ.items() if name != "TERM"}
        if term is not None:
            environment["TERM"] = term
        self.columns, self.lines, self.text, self.status, self.screen = columns, lines, b"", None, None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))
            for number in (signal.SIGHUP, signal.SIGINT):     # which a test in the background ignores
                signal.signal(number, signal.SIG_DFL)
            os.chdir(cwd or ".")
            os.execvpe(command[0], command, environment)

    def emulate(self):
        """From now on display() can be asked: the screen begins with the prompt and the command of a user."""
        import pyte
        self.screen = pyte.Screen(self.columns, self.lines)
        self.stream = pyte.ByteStream(self.screen)
        self.stream.feed((PROMPT + "command\r\n").encode())
        return self

    def read(self, seconds=0.05):
        """Takes what comes within that time; False: the command's end of the terminal is closed."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:                                       # EIO: the other end is closed
            data = b""
        self.text += data
        if self.screen:
            self.stream.feed(data)
        return bool(data)

    def display(self):
        """The lines of the screen down to the last that holds something, without trailing blanks."""
        lines = [line.rstrip() for line in self.screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def shows(self, pattern):
        """The first match of the pattern on a line of the screen."""
        return next((m for m in (re.search(pattern, line) for line in self.display()) if m), None)

    def wait(self, pattern, seconds=60):
        """Reads until a line shows the pattern; returns the match."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            alive = self.read()
            if match := self.shows(pattern):
                return match
            if not alive:
                break
        raise AssertionError(f"no {pattern!r} on the screen:\n" + "\n".join(self.display()))

    def watch(self, seconds):
        """Reads for that long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.read(0.02):
            pass

    def type(self, text):
        os.write(self.fd, text.encode())

    def kill(self, number):
        os.kill(self.pid, number)

    def resize(self, columns):
        self.columns = columns
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("4H", self.lines, columns, 0, 0))
        self.screen.resize(self.lines, columns)

    def finish(self, seconds=120):
        """Reads until the command ends; returns its status, 128 + n for signal n."""
        end = time.monotonic() + seconds
        while self.read():
            assert time.monotonic() < end, "the command does not end"
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        self.status = code if code >= 0 else 128 - code
        return self.status


if __name__ == "__main__":
    terminal = Terminal(*sys.argv[1:])
    terminal.finish()
    sys.stdout.buffer.write(terminal.text.replace(b"\r\n", b"\n"))
    sys.stdout.flush()
    sys.exit(terminal.status)
