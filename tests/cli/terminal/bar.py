# SPDX-License-Identifier: Apache-2.0
"""The bar in the middle of a job, which takes long: 2 GB by the slowest backend.  It is stopped as soon as a bar is there."""
import os
import signal
import subprocess
import sys
import time

from terminal import Terminal

FP8CONV, CLI = os.environ["FP8CONV"], os.environ["CLI"]
JOB = [FP8CONV, "quantize", "big", "-o", "out", "--backend", "reference", "--threads", "1"]


def stopped(columns, term="xterm", command=JOB, pattern=r"\d%"):
    """A terminal whose job is under way, and stopped."""
    terminal = Terminal(*command, columns=columns, term=term).emulate()
    terminal.wait(pattern)
    terminal.kill(signal.SIGSTOP)
    terminal.watch(0.1)
    return terminal


def finish(terminal):
    terminal.type("\x03")                                    # waits for the job to go on, which then takes it at once
    terminal.kill(signal.SIGCONT)
    status = terminal.finish()
    told = "fp8conv quantize: interrupted by signal 2: nothing was written"
    if status != 130 or "".join(terminal.display()[1:]).replace(" ", "") != told.replace(" ", ""):
        print("after Ctrl-C: status", status, "and:", *terminal.display(), sep="\n  ")


subprocess.run([sys.executable, CLI + "/layers.py", "big", "32", "64"], check=True)
size = r"\d\.\d\d/2\.\d\d GB"
rate, left = r" *[\d.]+ [kMG]?B/s", r" *\d+:\d\d"
for columns, pattern in ((20, r"^ *\d+%$"), (30, rf"^ *\d+%  {size}( {left})?$"), (40, rf"^ *\d+%  {size} {rate} {left}$"),
                         (60, rf"^ *\d+% \[=*>? *\] {size} {rate} {left}"), (80, rf"^ *\d+% \[=*>? *\] {size} {rate} {left}  model$")):
    terminal = stopped(columns)
    bars = terminal.display()[1:]
    if len(bars) != 1 or not terminal.shows(pattern) or len(bars[0]) > columns - len("^C") - 1:
        print(f"{columns} columns:", *bars, sep="\n  ")
    finish(terminal)

# A resize: the next bar has the new width, and nothing of the old one stays.
terminal = stopped(80)
terminal.resize(40)
terminal.kill(signal.SIGCONT)
terminal.watch(0.6)
terminal.kill(signal.SIGSTOP)
terminal.watch(0.1)
if len(terminal.display()) > 2 or any(len(line) > 39 for line in terminal.display()):
    print("after a resize:", *terminal.display(), sep="\n  ")
finish(terminal)

# A terminal that obeys nothing gets whole lines, every 5 seconds: none yet, and no escapes.
for term in ("dumb", None):
    terminal = Terminal(*JOB, term=term).emulate()
    terminal.watch(1)
    terminal.type("\x03")
    terminal.finish()
    if b"\x1b" in terminal.text:
        print("TERM", term, "is sent escapes:", terminal.text)

# After a stop of some periods there is one report, not all that were missed.
terminal = stopped(80, command=JOB + ["--progress=json"], pattern=r'"done"')
time.sleep(4)
before = terminal.text.count(b'"schema"')
terminal.kill(signal.SIGCONT)
terminal.watch(0.5)
if terminal.text.count(b'"schema"') > before + 1:
    print("after a stop of 4 seconds:", terminal.text.count(b'"schema"') - before, "reports at once")
terminal.kill(signal.SIGINT)
terminal.finish()
