# SPDX-License-Identifier: Apache-2.0
"""Commands of the program in this process."""
from __future__ import annotations

import ctypes as c
import dataclasses
import functools
import json
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from . import _c


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a command has come: done of total (0: unknown) units ("tokens"; None: bytes)."""
    done: float
    total: float
    unit: str | None
    doing: str | None
    item: str


@dataclasses.dataclass(frozen=True)
class Result:
    """status: the exit status, 0, or 1 from a `verify` that found problems.  output: what the program prints, decoded where
    --json was given.  log: its notes and summaries."""
    status: int
    output: Any
    log: list[str]


@functools.cache
def _help(command: str) -> str:
    """Returns the options of a command, as it lists them: "--output=OUT"; "" of one that there is not."""
    try:
        return str(run(command, "--help").output)
    except _c.Error:
        return ""


def _words(command: str, args: tuple, options: dict[str, Any]) -> list[str]:
    words = ["fp8conv", command]
    for key, value in options.items():
        name = "--" + key.replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else (value,):
            one = one.item() if hasattr(one, "item") else one       # a number of numpy
            if one is True:
                if f"{name}=" in _help(command):
                    raise ValueError(f"option '{key}' is True, expected a value")
                words.append(name)
            elif one is not None and one is not False:
                words.append(f"{name}={one}")
    return words + [str(arg) for arg in args]


class _Job:
    """A run in a thread of its own, so that this one can be interrupted."""

    def __init__(self, words: list[str], progress: Callable[[Progress], object] | None) -> None:
        self.words, self.progress = words, progress
        self.argv = (c.c_char_p * len(words))(*(os.fsencode(_c.text(word, "an argument")) for word in words))
        self.cancel = c.c_int(0)
        self.log: list[str] = []
        self.failure = _c.Failure()
        self.raised: BaseException | None = None
        self.run = _c.Run(cancel=c.pointer(self.cancel), log=_c.OnLog(self.on_log))
        if progress:
            self.run.progress = _c.OnProgress(self.on_progress)
        self.lock, self.begun, self.done = threading.Lock(), False, threading.Event()

    def on_log(self, _: Any, line: bytes) -> None:
        self.log.append(line.decode(errors="replace"))

    def on_progress(self, _: Any, at: Any) -> None:
        def text(value: bytes | None) -> str | None:
            return None if value is None else value.decode(errors="replace")
        if self.raised:
            return
        p = at.contents
        try:
            self.progress(Progress(p.done, p.total, text(p.unit), text(p.doing), text(p.item) or ""))
        except BaseException as error:      # it ends the job, and is raised when that ended
            self.raised = error
            self.cancel.value = signal.SIGTERM

    def work(self) -> None:
        with self.lock:
            if self.raised:                 # interrupted before it began
                return
            self.begun = True
        try:
            _c.lib.fp8conv_run(len(self.argv), self.argv, c.byref(self.run), c.byref(self.failure))
        finally:
            self.done.set()

    def wait(self) -> None:
        try:
            threading.Thread(target=self.work, name="fp8conv").start()
            self.done.wait()
        except KeyboardInterrupt as error:
            with self.lock:
                self.raised = error
                self.cancel.value = signal.SIGINT
        while self.begun and not self.done.is_set():
            try:
                self.done.wait()
            except KeyboardInterrupt:       # again
                pass

    def output(self) -> str:
        try:
            return c.string_at(self.run.output, self.run.output_size).decode(errors="replace") if self.run.output else ""
        finally:
            _c.lib.fp8conv_free(self.run.output)


def run(command: str, *args: Any, progress: Callable[[Progress], object] | None = None, **options: Any) -> Result:
    """Runs a command of the program: `run("quantize", "MODEL", output="OUT", recipe="mxfp8")` is
    `fp8conv quantize --output=OUT --recipe=mxfp8 MODEL`.

    options: long options with underscores; True for one without a value, a list for one that is given several times.
    progress: called several times a second with a Progress, from another thread; what it raises ends the job.
    Raises Error with the message of the program.  Ctrl-C ends the job as the program ends by that signal, and raises
    KeyboardInterrupt when it ended; the same command continues what it left.  One run at a time in a process."""
    job = _Job(_words(command, args, options), progress)
    job.wait()
    output = job.output()
    if job.raised:
        raise job.raised
    if job.failure.code:
        raise _c.Error(job.failure.code, job.failure.message.decode(errors="replace"))
    return Result(job.run.status, json.loads(output) if "--json" in job.words and output else output, job.log)
