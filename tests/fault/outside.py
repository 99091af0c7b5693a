# SPDX-License-Identifier: Apache-2.0
"""outside.py FOLDER short|long [COMMAND]: conversions that are killed, interrupted, starved and lied to.
outside.py commands: prints the names of the commands, one a line.

Each command is a row of COMMANDS (runs.py); each check says what was not as promised, and the last line counts by class.
FP8CONV: the program; SAMPLES: sample_checkpoints; SEED: of the random moments.
"""
import os
import pathlib
import random
import sys

from inputs import changed_input, same_places
from kills import kills, second_run, signals
from limits import limits, no_space, streams
from planted import manifests, planted_links
from resume import other_jobs, resume
from runs import COMMANDS, Command, begin, make_model, verdict


def disturb(command: Command, work: pathlib.Path, few: bool) -> None:
    work.mkdir()
    begin("set-up")
    n_shards, mib = (3, 8) if few else (5, 16)
    big = make_model(command, work / "model", n_shards, 2 * mib if command.of_fp8 else mib)
    kills(command, big, work, 8 if few else 200)
    signals(command, big, work, 6 if few else 50)
    second_run(command, big, work)
    changed_input(command, big, work)
    same_places(command, work)
    small = make_model(command, work / "small-model", 3, 1)
    limits(command, small, work, few)
    streams(command, work)
    resume(command, small, work)
    other_jobs(command, small, work)
    manifests(command, small, work)
    planted_links(command, small, work, few)
    no_space(command, work)


def main() -> int:
    if sys.argv[1:] == ["commands"]:
        print("\n".join(command.name for command in COMMANDS))
        return 0
    folder, extent, *which = sys.argv[1:]
    seed = int(os.environ.get("SEED", "1"))
    os.umask(0o022)
    os.environ.pop("TMPDIR", None)
    for command in COMMANDS:
        if not which or command.name in which:
            random.seed(seed)
            disturb(command, pathlib.Path(folder).resolve() / command.name, extent == "short")
    return 0 if verdict(" ".join(["outside", *which, f"(SEED={seed})"])) else 1


if __name__ == "__main__":
    sys.exit(main())
