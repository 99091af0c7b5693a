# SPDX-License-Identifier: Apache-2.0
"""Runs that are ended at any moment, and two at once."""
import pathlib
import random
import signal
import time

from runs import (
    Command, INDEX, Model, SLOW, begin, check, check_again, check_golden, check_names, clear,
    counted, end, files, no_partials, one_line, partial, phase, run, start, stop, wait_for
)


def kills(command: Command, model: Model, work: pathlib.Path, n: int) -> None:
    """Random moments, all over the run; every fifth as a name appears."""
    begin("kill -9")
    out = work / "out"
    phases: dict[str, int] = {}
    watched = [partial(out, name) for name in [*model.shards, "tokenizer.json", INDEX, "config.json"]]
    for i in range(n):
        process = start(command, model.folder, out, *SLOW)
        if i % 5 == 4:
            wait_for(watched[i // 5 % len(watched)], process)
        else:
            time.sleep(random.uniform(0, model.seconds))
        process.kill()
        end(process)
        where = phase(out, model)
        phases[where] = phases.get(where, 0) + 1
        check_names(out, model.golden)
        check_again(command, model.folder, out, model.golden)
        clear(out)
        counted()
    print("kill -9 in: " + ", ".join(f"{name} {count}" for name, count in sorted(phases.items())))


def signals(command: Command, model: Model, work: pathlib.Path, n: int) -> None:
    begin("signals")
    out = work / "out"
    for i in range(n):
        number = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)[i % 3]
        hashes = ["--manifest"] if i % 4 == 3 else []
        process = start(command, model.folder, out, *SLOW, *hashes)
        moment = random.uniform(0.05, 1) * model.seconds
        time.sleep(moment)
        process.send_signal(number)
        result = end(process)
        if result.status == -number:
            check(not out.exists(), f"{number.name} ended it in the hard way, with work begun")
        elif result.status == 0:
            check_golden(out, model.golden, not hashes)
        else:
            one_line(result, (128 + number,), "interrupted by signal")
            no_partials(out)
        check_names(out, model.golden)
        check_again(command, model.folder, out, model.golden, manifest=not hashes)
        clear(out)
        counted()


def second_run(command: Command, model: Model, work: pathlib.Path) -> None:
    begin("locked output")
    out = work / "out"
    first = start(command, model.folder, out, *SLOW)
    if wait_for(partial(out, model.shards[0]), first):
        stop(first)
        before = files(out)
        for options in ([], ["--restart"], command.other):
            one_line(run(command, model.folder, out, *options), (4,), "in use by another fp8conv")
            counted()
        check(files(out) == before, "the second run touched the first one's files")
        first.send_signal(signal.SIGCONT)
    check(end(first) == (0, b"", ""), "the first run suffered")
    check_golden(out, model.golden)
    clear(out)
