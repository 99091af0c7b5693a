# SPDX-License-Identifier: Apache-2.0
"""terminal.py COMMAND...: runs it on a terminal of 80 columns; prints what it wrote, exits as it did."""
import fcntl
import os
import pty
import struct
import sys
import termios

pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])
written = b""
while True:
    try:
        data = os.read(fd, 65536)
    except OSError:                                           # EIO: the other end is closed
        break
    if not data:
        break
    written += data
sys.stdout.buffer.write(written.replace(b"\r\n", b"\n"))
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
