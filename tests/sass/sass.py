# SPDX-License-Identifier: Apache-2.0
"""Counts what GPU kernels cost, from their machine code (SASS), without a GPU.

    sass.py --nvdisasm PROGRAM --cubins DIRECTORY TABLE

TABLE has a row for each path of a kernel that matters (limits.txt explains the columns).  DIRECTORY
has a .cubin and a .log (ptxas -v) for each source.  README.md defines each number.  Prints one line a row;
exit status 1 if a number is beyond its limit.
"""
import argparse
import functools
import heapq
import re
import subprocess
import sys

# Of a multiprocessor of compute capability 9.0 (CUDA C++ Programming Guide, table of technical specifications).
SM_REGISTERS, SM_WARPS, SM_BLOCKS, SM_SHARED = 65536, 64, 32, 233472
RESERVED_SHARED = 1024  # of each block, for the system
REGISTER_UNIT = 8  # a thread's registers are given out in eights

INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:(@!?U?P[T0-9]+)\s+)?([A-Z][A-Z0-9_.]*)\s*(.*?)\s*;")
LABEL = re.compile(r"^([.$\w]+):\s*$")
TARGET = re.compile(r"`\(([^)]*)\)")
REGISTER = re.compile(r"\bR(\d+)(\.64)?\b")


class Refused(Exception):
    pass


class Instruction:
    def __init__(self, guard, opcode, operands):
        self.guard, self.opcode, self.operands = guard, opcode, operands
        self.parts = opcode.split(".")
        self.name = self.parts[0]
        target = TARGET.search(operands)
        self.target = target.group(1) if target else None

    def is_conditional(self):
        """A branch that may fall through: guarded, or with a predicate or a mask among its operands."""
        if self.guard and self.guard not in ("@PT", "@!UPT"):
            return True
        return self.name == "BRA" and (self.operands.split("`")[0].strip() != "" or "DIV" in self.parts)

    def width(self):
        return next((int(p) for p in self.parts if p in ("64", "128")), 32)

    def registers_read(self):
        """Registers among the operands but the destination; of a wide memory operand its first alone."""
        text = self.operands
        if self.name not in ("STG", "STS", "STL", "ST", "RED", "BRA", "EXIT", "BAR") and "," in text:
            text = text.split(",", 1)[1]
        found = set()
        for number, wide in REGISTER.findall(text):
            found.add(int(number))
            if wide or (self.name in ("STG", "STS", "STL") and self.width() > 32):
                found.update(range(int(number), int(number) + (2 if wide else self.width() // 32)))
        return found

    def loaded(self):
        """The registers that a load from global memory fills."""
        first = REGISTER.search(self.operands)
        return set(range(int(first.group(1)), int(first.group(1)) + self.width() // 32)) if first else set()

    def work(self):
        """Which of the table's kinds of work this is, or None."""
        if self.name in ("LDG", "LD") and self.width() > 32:
            return f"load{self.width()}"
        if self.name in ("STG", "ST") and self.width() > 32:
            return f"store{self.width()}"
        if self.name == "F2FP" and ("E4M3" in self.parts or "E5M2" in self.parts):
            return "convert"
        return None


class Block:
    """Instructions without a branch but at the end."""

    def __init__(self):
        self.instructions, self.next = [], None

    def last(self):
        return self.instructions[-1]


def cut_blocks(lines):
    """Returns the blocks of one section of code, the first first, and the index of each label's block."""
    blocks, labels = [Block()], {}
    for line in lines:
        label = LABEL.match(line)
        found = INSTRUCTION.match(line)
        if label:
            if blocks[-1].instructions:
                blocks.append(Block())
            labels[label.group(1)] = len(blocks) - 1
        elif found:
            one = Instruction(*found.groups())
            if one.name != "NOP":
                blocks[-1].instructions.append(one)
            if one.name in ("BRA", "CALL", "RET", "EXIT", "BRX", "JMP", "BPT"):
                blocks.append(Block())
    while blocks and not blocks[-1].instructions:
        blocks.pop()
    return blocks, labels


def next_places(blocks, labels, at, returns):
    """Yields (block, returns) that may follow a block; (None, ()) is the end of the kernel."""
    last = blocks[at].last()
    falls = True
    if last.name == "EXIT":
        falls = last.is_conditional()
        yield None, ()
    elif last.name == "BRA":
        falls = last.is_conditional()
        yield labels[last.target], returns
    elif last.name == "CALL":
        falls = False
        if len(returns) < 4:
            yield labels[last.target], (*returns, at + 1)
    elif last.name == "RET":
        falls = last.is_conditional()
        if returns:
            yield returns[-1], returns[:-1]
    elif last.name in ("BRX", "JMP", "BPT"):
        return
    if falls and at + 1 < len(blocks):
        yield at + 1, returns


def fast_path(blocks, labels, work):
    """Returns the instructions of the shortest path from the entry to the end on which each kind of work
    is done exactly as often as `work` says: a loop or a branch that has work is taken as often as it must be."""
    kinds = sorted(work)
    goal = tuple(work[kind] for kind in kinds)
    done = []
    for block in blocks:
        counts = [0] * len(kinds)
        for one in block.instructions:
            kind = one.work()
            if kind in work:
                counts[kinds.index(kind)] += 1
            elif kind:  # work that the path must not do
                counts = [99999] * len(kinds)
                break
        done.append(tuple(counts))

    start = (0, (), (0,) * len(kinds))
    before, best, queue, serial = {start: None}, {start: 0}, [(0, 0, start)], 0
    closed = set()
    while queue:
        cost, _, state = heapq.heappop(queue)
        if state in closed:
            continue
        closed.add(state)
        at, returns, counts = state
        if at is None:
            path = []
            state = before[state]
            while state:
                path[:0] = blocks[state[0]].instructions
                state = before[state]
            return path
        counts = tuple(a + b for a, b in zip(counts, done[at]))
        if any(a > b for a, b in zip(counts, goal)):
            continue
        cost += len(blocks[at].instructions)
        for place, stack in next_places(blocks, labels, at, returns):
            if place is None and counts != goal:
                continue
            after = (place, stack, counts)
            if after not in best or cost < best[after]:
                best[after], before[after] = cost, state
                serial += 1
                heapq.heappush(queue, (cost, serial, after))
    return None


def loads_in_flight(path, width):
    """Returns the loads of this width before the first instruction that reads what one of them loads."""
    pending, n = set(), 0
    for one in path:
        if one.registers_read() & pending:
            break
        if one.work() == f"load{width}":
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


@functools.cache
def read_source(nvdisasm, directory, source):
    """Returns what each kernel of a source has: (registers, shared, stack, blocks, labels) by its name."""
    stem = f"{directory}/{source}"
    code = subprocess.run([nvdisasm, "-c", stem + ".cubin"], text=True, capture_output=True, check=True).stdout
    sections, name = {}, None
    for line in code.splitlines():
        section = re.match(r"\s*\.section\s+\.text\.([^,\s]+)", line)
        if section:
            name = section.group(1)
            sections[name] = []
        elif name:
            sections[name].append(line)
    with open(stem + ".log", encoding="utf-8") as log:
        text = log.read()
    facts = {}
    for entry, rest in re.findall(r"entry function '(\S+)'(.*?)Used (?=\d)", text, re.S):
        used = text[text.index(f"entry function '{entry}'"):]
        used = used[used.index("Used "):].splitlines()[0]
        number = lambda pattern: int((re.search(pattern, used) or [0, "0"])[1])
        facts[entry] = (number(r"(\d+) registers"), number(r"(\d+) bytes smem"),
                        int((re.search(r"(\d+) bytes stack frame", rest) or [0, "0"])[1]))
    names = list(sections)
    return {plain: (*facts[name], *cut_blocks(sections[name])) for name, plain in zip(names, demangle(names))}


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


def measure(row, nvdisasm, directory):
    """Returns the numbers of a row of the table."""
    kernels = read_source(nvdisasm, directory, row["source"])
    if row["kernel"] not in kernels:
        raise Refused(f"{row['path']}: no kernel '{row['kernel']}' in {row['source']}: has {' '.join(sorted(kernels))}")
    registers, shared, _, blocks, labels = kernels[row["kernel"]]
    work = {kind: int(n) for kind, n in (item.split(":") for item in row["work"].split(","))}
    path = fast_path(blocks, labels, work)
    if path is None:
        raise Refused(f"{row['path']}: no path through {row['kernel']} does the work {row['work']}")
    width = max(int(kind[4:]) for kind in work if kind.startswith("load"))
    return {
        "registers": registers,
        "blocks": blocks_per_sm(registers, shared, int(row["threads"])),
        "instructions": round(len(path) / int(row["elements"]), 1),
        "loads": loads_in_flight(path, width),
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
        limit, number = float(row[column]), numbers[key]
        if number < limit if smallest else number > limit:
            yield (f"{row['path']} ({row['kernel']}): {number:g} {words}, "
                   f"{'at least' if smallest else 'at most'} {limit:g} allowed")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--nvdisasm", required=True)
    options.add_argument("--cubins", required=True)
    options.add_argument("table")
    given = options.parse_args()
    failures = []
    print(f"{'path':<32} {'registers':>9} {'blocks/SM':>9} {'instr/el':>8} {'limit':>6} {'in flight':>9} "
          f"{'local':>5} {'branches':>8}")
    for row in read_table(given.table):
        try:
            n = measure(row, given.nvdisasm, given.cubins)
        except Refused as e:
            failures.append(str(e))
            continue
        met = "" if float(row["most"]) <= float(row["target"]) else f"  held; the target is {row['target']}"
        print(f"{row['path']:<32} {n['registers']:>9} {n['blocks']:>9} {n['instructions']:>8} {row['most']:>6} "
              f"{n['loads']:>9} {n['local']:>5} {n['branches']:>8}{met}")
        failures += check(row, n)
    for message in failures:
        print(f"sass: {message}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
