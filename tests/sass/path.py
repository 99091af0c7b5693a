# SPDX-License-Identifier: Apache-2.0
"""The shortest path through a kernel on which given work is done (README.md: the fast path)."""
import functools
import heapq

from machine import WIDE

END = -1  # in the place of a block: the end of the function


class Search:
    """Of paths from block `first`, of a kernel or of a function, to its end.  work: how often a path does each kind of
    work.  A kind is one of machine.py; call@FUNCTION, which is a call of that function; or KIND@FUNCTION, which is how
    often each call of it does a kind."""

    def __init__(self, code, work, first=0):
        self.code, self.first, self.of_call = code, first, {}  # of_call: the work of a call, by function
        for kind, _, function in (name.partition("@") for name in work):
            if function and kind != "call":
                self.of_call.setdefault(function, {})[kind] = work[f"{kind}@{function}"]
        self.kinds = [name for name in work if "@" not in name or name.startswith("call@")]
        self.goal = tuple(work[name] for name in self.kinds)
        self.none = (0,) * len(self.goal)
        self.done = [self.count(at) for at in range(len(code.blocks))]
        self.of_function = {}  # by the index of its first block

    def count(self, at):
        """Returns how often block `at` does each kind of work; None if it does work that the path must not do."""
        block = self.code.blocks[at]
        is_own = block.function == self.code.blocks[self.first].function
        found = [one.work() for one in block.instructions]
        found = [kind for kind in found if kind in WIDE or is_own]
        first = self.code.called(at)
        if first is not None:
            found += [name for name in self.kinds
                      if name.startswith("call@") and self.code.blocks[first].is_of(name.removeprefix("call@"))]
        if any(kind in WIDE and kind not in self.kinds for kind in found):
            return None
        return tuple(found.count(kind) for kind in self.kinds)

    def sum(self, a, b):
        """Returns a + b, or None if that is more than the goal."""
        counts = tuple(x + y for x, y in zip(a, b))
        return None if any(x > most for x, most in zip(counts, self.goal)) else counts

    def after(self, at, end):
        block = self.code.blocks[at]
        return block.after + [END] if block.ends == end else block.after

    @functools.cache
    def called(self, at):
        """Returns the paths through the function that block `at` calls at its end, as shortest() does."""
        first = self.code.called(at)
        if first is None:
            return {self.none: []}
        if first not in self.of_function:
            self.of_function[first] = {}  # for a recursion
            work = next((work for name, work in self.of_call.items() if self.code.blocks[first].is_of(name)), None)
            if work:
                path = Search(self.code, work, first).exact("RET")
                self.of_function[first] = {} if path is None else {self.none: path}
            else:
                self.of_function[first] = self.shortest(first, "RET")
        return self.of_function[first]

    @functools.cache
    def is_plain(self, at):
        """Is no work done in block `at`, nor in the function that it calls?"""
        return at != END and self.done[at] == self.none and list(self.called(at)) == [self.none]

    @functools.cache
    def ways(self, start, end):
        """Returns the blocks with work, and the end, that can follow `start` with nothing but plain blocks between: by
        their indices the length of the shortest way there and its blocks, `start` among them if it is plain."""
        found, before, best, queue, closed = {}, {start: None}, {start: 0}, [(0, start)], set()
        while queue:
            length, at = heapq.heappop(queue)
            if at in closed:
                continue
            closed.add(at)
            if not self.is_plain(at):
                if at == END or self.done[at] is not None:
                    way, one = [], before[at]
                    while one is not None:
                        way.append(one)
                        one = before[one]
                    found[at] = (length, way[::-1])
                continue
            length += len(self.code.blocks[at].instructions) + len(self.called(at)[self.none])
            for after in self.after(at, end):
                if after not in best or length < best[after]:
                    best[after], before[after] = length, at
                    heapq.heappush(queue, (length, after))
        return found

    @functools.cached_property
    def ahead(self):
        """Of each block: the kinds of work that it or a block after it can do, as bits."""
        blocks = self.code.blocks
        ahead, changed = [0] * len(blocks), True
        while changed:
            changed = False
            for at in range(len(blocks) - 1, -1, -1):
                if self.done[at] is None:
                    continue
                bits = self.bits(self.done[at])
                for counts in self.called(at):
                    bits |= self.bits(counts)
                for after in blocks[at].after:
                    bits |= ahead[after]
                changed |= bits != ahead[at]
                ahead[at] = bits
        return ahead

    def bits(self, counts):
        return sum(1 << i for i, n in enumerate(counts) if n)

    def can_reach_goal(self, at, counts):
        missing = self.bits([most - n for most, n in zip(self.goal, counts)])
        return not missing & ~(0 if at == END else self.ahead[at])

    def exact(self, end):
        """Returns the instructions of the shortest path to the end on which exactly the work is done, or None.  end: "EXIT"
        of a kernel, "RET" of a function."""
        return self.shortest(self.first, end, True).get(self.goal)

    def shortest(self, first, end, to_goal=False):
        """Returns the instructions of the shortest path from block `first` to the end, by the work that is done on it: of
        all work that is at most the goal, or until the goal."""
        paths, best, before, queue, closed = {}, {}, {}, [], set()

        def go(length, start, counts, last):
            for at, (more, _) in self.ways(start, end).items():
                state = (at, counts)
                if to_goal and not self.can_reach_goal(at, counts):
                    continue
                if state not in best or length + more < best[state]:
                    best[state], before[state] = length + more, (start, last)
                    heapq.heappush(queue, (length + more, at, counts))

        go(0, first, self.none, None)
        while queue:
            length, at, counts = heapq.heappop(queue)
            if (at, counts) in closed:
                continue
            closed.add((at, counts))
            if at == END:
                paths[counts] = self.instructions((at, counts), before, end)
                if to_goal:
                    break
                continue
            own = self.sum(counts, self.done[at])
            for of_call, path in self.called(at).items() if own else ():
                after_call = self.sum(own, of_call)
                if after_call:
                    longer = length + len(self.code.blocks[at].instructions) + len(path)
                    for after in self.after(at, end):
                        go(longer, after, after_call, (at, counts, of_call))
        return paths

    def instructions(self, state, before, end):
        pieces = []
        while state:
            start, last = before[state]
            for at in reversed(self.ways(start, end)[state[0]][1]):
                pieces.append(self.code.blocks[at].instructions + self.called(at)[self.none])
            state = None
            if last:
                at, counts, of_call = last
                pieces.append(self.code.blocks[at].instructions + self.called(at)[of_call])
                state = (at, counts)
        return [one for piece in reversed(pieces) for one in piece]


def fast_path(code, work):
    """Returns the instructions of the shortest path from the entry to the end on which each kind of work is done exactly
    as often as `work` says: a loop or a branch that has work is taken as often as it must be.  None: there is none."""
    return Search(code, work).exact("EXIT")
