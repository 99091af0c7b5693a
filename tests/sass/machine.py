# SPDX-License-Identifier: Apache-2.0
"""The machine code of a kernel and of the functions that it calls, as blocks of instructions."""
import re

INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:(@!?U?P[T0-9]+)\s+)?([A-Z][A-Z0-9_.]*)\s*(.*?)\s*;")
LABEL = re.compile(r"^([.$\w]+):\s*$")
TARGET = re.compile(r"`\(([^)]*)\)")
TARGETS = re.compile(r'BRANCH_TARGETS ([^"]*)"')
REGISTER = re.compile(r"\bR(\d+)(\.64)?\b")

ENDS = ("BRA", "CALL", "RET", "EXIT", "BRX", "JMP", "BPT")  # of a block

# Kinds of work that a path has no more of than its row says, named or not; the others count where a row names them.
WIDE = ("load64", "load128", "store64", "store128", "convert")


class Instruction:
    def __init__(self, guard, opcode, operands):
        self.guard, self.opcode, self.operands = guard, opcode, operands
        self.parts = opcode.split(".")
        self.name = self.parts[0]

    def targets(self):
        """The labels that a branch or a call names."""
        found = TARGET.search(self.operands)
        return [found.group(1)] if found else []

    def is_conditional(self):
        """A branch that may fall through: guarded, or with a predicate or a mask among its operands."""
        if self.guard and self.guard not in ("@PT", "@!UPT"):
            return True
        return self.name == "BRA" and (self.operands.split("`")[0].strip() != "" or "DIV" in self.parts)

    def width(self):
        widths = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128}
        return next((widths[part] for part in self.parts if part in widths), 32)

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
        return set(range(int(first.group(1)), int(first.group(1)) + max(self.width() // 32, 1))) if first else set()

    def work(self):
        """Which of the table's kinds of work this is, or None."""
        if self.name in ("LDG", "LD"):
            return f"load{self.width()}"
        if self.name in ("STG", "ST"):
            return f"store{self.width()}"
        if self.name == "F2FP" and ("E4M3" in self.parts or "E5M2" in self.parts):
            return "convert"
        # Not with .FTZ: those belong to divisions and roots.
        return {"FADD": "add", "FMUL": "multiply", "FFMA": "fma", "VIMNMX.U32": "maximum"}.get(self.opcode)


class Block:
    """Instructions of one function without a branch but at the end.  after: indices of the blocks that may follow in it,
    which for a call is the block after it; ends: of "EXIT" and "RET", what may end here."""

    def __init__(self, function):
        self.function, self.instructions, self.after, self.ends = function, [], [], None

    def last(self):
        return self.instructions[-1]

    def is_of(self, function):
        """Is this in the function of that name?  Its label has the mangled name: a length, then the name."""
        return f"{len(function)}{function}" in self.function.split("$")[-1]


class Code:
    """Of a kernel: the blocks, the first first, and the index of each label's block."""

    def __init__(self, lines):
        self.blocks, self.labels = [Block("")], {}
        for line in lines:
            label = LABEL.match(line)
            found = INSTRUCTION.match(line)
            if label:
                self.begin(label.group(1))
            elif found:
                self.add(Instruction(*found.groups()))
        while self.blocks and not self.blocks[-1].instructions:
            self.blocks.pop()
        for at in range(len(self.blocks)):
            self.link(at)

    def begin(self, label):
        function = self.blocks[-1].function if label.startswith(".L") else label
        if self.blocks[-1].instructions:
            self.blocks.append(Block(function))
        self.blocks[-1].function = function
        self.labels[label] = len(self.blocks) - 1

    def add(self, one):
        if one.name != "NOP":
            self.blocks[-1].instructions.append(one)
        if one.name in ENDS:
            self.blocks.append(Block(self.blocks[-1].function))

    def link(self, at):
        block = self.blocks[at]
        last = block.last()
        falls = last.name not in ENDS or last.name == "CALL" or last.is_conditional()
        if last.name == "BRA":
            block.after += [self.labels[name] for name in last.targets()]
        elif last.name == "BRX":
            found = TARGETS.search(last.operands)
            block.after += [self.labels[name.strip()] for name in found.group(1).split(",")] if found else []
        elif last.name in ("EXIT", "RET"):
            block.ends = last.name
        if falls and at + 1 < len(self.blocks):
            block.after.append(at + 1)

    def called(self, at):
        """The index of the first block of the function that a block calls at its end, or None."""
        last = self.blocks[at].last()
        return self.labels[last.targets()[0]] if last.name == "CALL" else None
