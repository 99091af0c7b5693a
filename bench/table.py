# SPDX-License-Identifier: Apache-2.0
"""Rows of the table that run.py prints, and processes to time."""
import os
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Row:
    """One line of the table.  ratio: of the figure to its limit, or the figure itself where the limit is a number."""
    section: str
    what: str
    unit: str
    samples: list[float] = field(default_factory=list)
    limit: str = ""
    limit_samples: list[float] = field(default_factory=list)
    ratio: float | None = None
    target: str = ""  # "<= 0.6"
    cache: str = ""
    state: str = ""  # ok, MISS, SKIPPED, or nothing where there is no target
    note: str = ""

    def judge(self) -> None:
        value = self.ratio if self.ratio is not None else statistics.median(self.samples)
        if self.target:
            sign, bound = self.target.split()
            met = value >= float(bound) if sign == ">=" else value <= float(bound)
            self.state = "ok" if met else "MISS"


def three(samples: list[float]) -> str:
    if not samples:
        return ""
    digits = 0 if min(samples) >= 100 else 1 if min(samples) >= 20 else 3 if max(samples) < 1 else 2
    median, low, high = (f"{x:.{digits}f}" for x in (statistics.median(samples), min(samples), max(samples)))
    return f"{median} [{low}, {high}]"


class Table:
    """Prints rows as they come, and keeps them."""
    LINE = "{:<60} {:>22} {:<5} {:<42} {:>6}  {:<8} {}"

    def __init__(self) -> None:
        self.rows: list[Row] = []
        print(self.LINE.format("", "median [min, max]", "", "limit", "ratio", "target", ""), flush=True)

    def add(self, row: Row) -> None:
        if not row.state:
            row.judge()
        self.rows.append(row)
        limit = f"{row.limit} {three(row.limit_samples)}".strip()
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}" if row.ratio < 10 else f"{row.ratio:.0f}"
        print(self.LINE.format(row.what, three(row.samples), row.unit, limit, ratio, row.target,
                               f"{row.state} {row.note}".strip()), flush=True)

    def skip(self, section: str, what: str, why: str) -> None:
        self.add(Row(section, what, "", state="SKIPPED", note=why))


# --- processes ---

@dataclass
class Ran:
    seconds: float
    peak_mib: float


def run(command: list[object], log: Path, cwd: Path | None = None) -> Ran:
    """A whole process.  Its output goes to the log, which is shown where it fails."""
    argv = [str(word) for word in command]
    with open(log, "wb") as out:
        begin = time.monotonic()
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=cwd)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"run.py: {' '.join(argv)}: exit status {process.returncode}\n{log.read_text(errors='replace')[-2000:]}")
    return Ran(seconds, usage.ru_maxrss / 1024)


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def drop_cache(folder: Path) -> None:
    """Takes the files of a folder out of the page cache."""
    os.sync()
    for path in folder.iterdir():
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def ratios(over: list[float], under: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(over, under))
