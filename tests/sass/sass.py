# SPDX-License-Identifier: Apache-2.0
"""Counts what GPU kernels cost, from their machine code (SASS), without a GPU.

    sass.py --cuobjdump PROGRAM --nvdisasm PROGRAM --build DIRECTORY TABLE

TABLE has a row for each path of a kernel that matters (limits.txt explains the columns).  DIRECTORY
has the object of each source.  README.md defines each number.  Prints one line a row;
exit status 1 if a number is beyond its limit.
"""
import argparse
import functools
import pathlib
import re
import subprocess
import sys
import tempfile

from machine import Code
from path import fast_path

ARCHITECTURE = "sm_90a"
# Of a multiprocessor of compute capability 9.0 (CUDA C++ Programming Guide, table of technical specifications).
SM_REGISTERS, SM_WARPS, SM_BLOCKS, SM_SHARED = 65536, 64, 32, 233472
RESERVED_SHARED = 1024  # of each block, for the system
REGISTER_UNIT = 8  # a thread's registers are given out in eights


class Refused(Exception):
    pass


def loads_in_flight(path, width):
    """Returns the loads of this width before the first instruction that reads what one of them loads.  A load under a
    predicate may bring nothing, and is left out."""
    pending, n = set(), 0
    for one in path:
        if one.registers_read() & pending:
            break
        if one.work() == f"load{width}" and not one.guard:
            pending |= one.loaded()
            n += 1
    return n


def blocks_per_sm(registers, shared, threads):
    warps = (threads + 31) // 32
    rounded = (registers + REGISTER_UNIT - 1) // REGISTER_UNIT * REGISTER_UNIT
    by_registers = SM_REGISTERS // (rounded * 32) // warps
    by_shared = SM_SHARED // (shared + RESERVED_SHARED)
    return min(by_registers, by_shared, SM_WARPS // warps, SM_BLOCKS)


def demangle(names):
    out = subprocess.run(["c++filt"], input="\n".join(names), text=True, capture_output=True, check=True).stdout
    # "void f<(granule)0, bf16>(source, cast_args)" becomes "f<0,bf16>"
    plain = (re.sub(r"^void |\(anonymous namespace\)::", "", line) for line in out.splitlines())
    return [re.sub(r"\(\w+\)(?=\d)| ", "", re.sub(r"\((?!\w+\)\d).*$", "", line)) for line in plain]


class Toolkit:
    """Reads the objects of a build by NVIDIA's programs."""

    def __init__(self, cuobjdump, nvdisasm, build):
        self.cuobjdump, self.nvdisasm, self.build = cuobjdump, nvdisasm, build

    def disassembled(self, path):
        """Returns the machine code of an object, as nvdisasm prints it."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([self.cuobjdump, "-xelf", ARCHITECTURE, path], cwd=folder, capture_output=True, check=True)
            cubins = list(pathlib.Path(folder).iterdir())
            if len(cubins) != 1:
                raise Refused(f"{path}: {len(cubins)} parts for {ARCHITECTURE}, not 1")
            return subprocess.run([self.nvdisasm, "-c", *cubins], text=True, capture_output=True, check=True).stdout

    def usage(self, path):
        """Returns (registers, bytes of shared memory) of each kernel of an object."""
        out = subprocess.run([self.cuobjdump, "-arch", ARCHITECTURE, "-res-usage", path],
                             text=True, capture_output=True, check=True).stdout
        return {name: (int(registers), int(shared)) for name, registers, shared in
                re.findall(r"Function (\S+):\s+REG:(\d+) .*?SHARED:(\d+)", out)}

    @functools.cache
    def kernels(self, source):
        """Returns what each kernel of a source has: (registers, shared, code) by its name."""
        path = pathlib.Path(self.build, source + ".o").resolve()
        sections, name = {}, None
        for line in self.disassembled(path).splitlines():
            section = re.match(r"\s*\.section\s+\.text\.([^,\s]+)", line)
            if section:
                name = section.group(1)
                sections[name] = []
            elif name:
                sections[name].append(line)
        usage = self.usage(path)
        return {plain: (*usage[name], Code(sections[name])) for name, plain in zip(sections, demangle(sections))}


def read_table(path):
    """Yields the rows of a table as dictionaries."""
    columns = None
    with open(path, encoding="utf-8") as table:
        for line in table:
            if line.startswith("#") or not line.strip():
                continue
            fields = line.split()
            if columns is None:
                columns = fields
                continue
            if len(fields) != len(columns):
                raise Refused(f"{path}: {len(fields)} fields in place of {len(columns)}: {line.strip()}")
            yield dict(zip(columns, fields))


def measure(row, toolkit):
    """Returns the numbers of a row of the table."""
    kernels = toolkit.kernels(row["source"])
    if row["kernel"] not in kernels:
        raise Refused(f"{row['path']}: no kernel '{row['kernel']}' in {row['source']}: has {' '.join(sorted(kernels))}")
    registers, shared, code = kernels[row["kernel"]]
    numbers = {"registers": registers, "blocks": blocks_per_sm(registers, shared, int(row["threads"]))}
    if row["work"] == "-":
        path = [one for block in code.blocks for one in block.instructions]
        loads = max(loads_in_flight(block.instructions, 128) for block in code.blocks)
    else:
        work = {kind: int(n) for kind, n in (item.split(":") for item in row["work"].split(","))}
        path = fast_path(code, work)
        if path is None:
            raise Refused(f"{row['path']}: no path through {row['kernel']} does the work {row['work']}")
        loads = loads_in_flight(path, max(int(kind.partition("@")[0][4:]) for kind in work if kind.startswith("load")))
        numbers["instructions"] = round(len(path) / int(row["elements"]), 1)
    return numbers | {
        "loads": loads,
        "local": sum(one.name == "STL" for one in path),
        "branches": sum(one.name in ("BRA", "CALL", "BRX") for one in path),
    }


# Column of the table, number, its words, and whether the limit is the smallest allowed.
LIMITS = (
    ("most", "instructions", "instructions an element", False),
    ("loads", "loads", "loads before the first use", True),
    ("local", "local", "stores to local memory", False),
    ("branches", "branches", "branches a thread", False),
    ("blocks", "blocks", "blocks a multiprocessor", True),
)


def check(row, numbers):
    """Yields a message for each number beyond its limit."""
    for column, key, words, smallest in LIMITS:
        if row[column] == "-":
            continue
        limit, number = float(row[column]), numbers[key]
        if number < limit if smallest else number > limit:
            yield (f"{row['path']} ({row['kernel']}): {number:g} {words}, "
                   f"{'at least' if smallest else 'at most'} {limit:g} allowed")


def main():
    options = argparse.ArgumentParser()
    for name in ("--cuobjdump", "--nvdisasm", "--build"):
        options.add_argument(name, required=True)
    options.add_argument("table")
    given = options.parse_args()
    toolkit = Toolkit(given.cuobjdump, given.nvdisasm, given.build)
    failures = []
    print(f"{'path':<30} {'regs':>4} {'blocks':>6} {'instr/el':>8} {'limit':>6} {'loads':>5} {'local':>5} {'branches':>8}")
    for row in read_table(given.table):
        try:
            n = measure(row, toolkit)
        except Refused as e:
            failures.append(str(e))
            continue
        met = "" if row["most"] == row["target"] else f"\n  the target is {row['target']}"
        print(f"{row['path']:<30} {n['registers']:>4} {n['blocks']:>6} {n.get('instructions', '-'):>8} {row['most']:>6} "
              f"{n['loads']:>5} {n['local']:>5} {n['branches']:>8}{met}")
        failures += check(row, n)
    for message in failures:
        print(f"sass: {message}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
