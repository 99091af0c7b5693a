#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a shell offers where TAB is pressed.

    complete.py bash|zsh|fish SCRIPT <LINES

Loads SCRIPT (`fp8conv completion SHELL`) into the interactive shell, types each line, and prints
the line and the words that the shell would insert, sorted.  bash and zsh run on a pseudo-terminal
and insert all words into the line, which a key writes to a file; fish answers by itself.
"""
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

# \x01: insert all words there are; \x02: write the line to the file, and empty it.
BASH = """
PS1=
bind 'set bracketed-paste off' 'set completion-ignore-case off' 2>/dev/null
bind '"\\C-a": insert-completions'
dump() { printf '%s\\n' "$READLINE_LINE" >>dump; READLINE_LINE=; READLINE_POINT=0; }
bind -x '"\\C-b": dump'
. SCRIPT
"""
ZSH = """
PS1=
autoload -Uz compinit && compinit -u -D
zmodload zsh/complist
zstyle ':completion:*' completer _all_matches _complete
zstyle ':completion:*' old-matches false
zstyle ':completion:*' insert true
zstyle ':completion:*' insert-tab false
unsetopt AUTO_LIST BEEP
dump() { print -r -- "$BUFFER" >>dump; BUFFER=; }
zle -N dump
zle -C all-words complete-word _generic
zstyle ':completion:all-words:*' completer _all_matches _complete
zstyle ':completion:all-words:*' insert yes
bindkey '^A' all-words
bindkey '^B' dump
"""
SECONDS = 20


def in_terminal(command: list[str], environment: dict[str, str], lines: list[str]) -> list[str]:
    """The lines, each with all words inserted where it ends."""
    dump = Path("dump")
    dump.write_text("")
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(command[0], command, {**os.environ, **environment})
    try:
        for n, line in enumerate(["", *lines]):  # the first one waits for the shell to be ready
            os.write(terminal, line.encode() + (b"\x01\x02" if n else b"\x02"))
            end = time.monotonic() + SECONDS
            while dump.read_text().count("\n") <= n:
                if time.monotonic() > end:
                    sys.exit(f"{command[0]} does not answer: {line!r}")
                if select.select([terminal], [], [], 0.01)[0]:
                    os.read(terminal, 65536)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return dump.read_text().splitlines()[1:]


def bash(script: str, lines: list[str]) -> list[str]:
    Path("rc").write_text(BASH.replace("SCRIPT", shlex.quote(script)))
    command = ["bash", "--noprofile", "--rcfile", "rc", "-i"]
    return in_terminal(command, {"INPUTRC": "/dev/null"}, lines)


def zsh(script: str, lines: list[str]) -> list[str]:
    Path(".functions").mkdir()
    Path(".functions/_fp8conv").write_text(Path(script).read_text())
    Path(".zshrc").write_text(f"fpath=({shlex.quote(os.getcwd())}/.functions $fpath)\n" + ZSH)
    return in_terminal(["zsh", "-d", "-i"], {"ZDOTDIR": os.getcwd()}, lines)


def words_of(line: str, inserted: str) -> list[str]:
    """What stands where the last word of the line stood."""
    return inserted[line.rfind(" ") + 1:].split()


def fish(script: str, line: str) -> list[str]:
    command = f"source {shlex.quote(script)}; complete -C {shlex.quote(line)}"
    done = subprocess.run(["fish", "-c", command], capture_output=True, text=True, check=True,
                          env={**os.environ, "HOME": os.getcwd()})
    return [offer.split("\t")[0] for offer in done.stdout.splitlines()]


def main() -> None:
    shell, script = sys.argv[1], os.path.abspath(sys.argv[2])
    lines = sys.stdin.read().splitlines()
    if shell == "fish":
        offers = [fish(script, line) for line in lines]
    else:
        inserted = {"bash": bash, "zsh": zsh}[shell](script, lines)
        offers = [words_of(line, text) for line, text in zip(lines, inserted)]
    for line, words in zip(lines, offers):
        print(f"{line}|", *sorted(words))


main()
