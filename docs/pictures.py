# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures of README.md: terminal.svg, what a terminal of 80 columns shows, and report.png, a report's page.

    pictures.py MODEL TEXT      MODEL is converted, and compared with its output on TEXT; its folder's name is shown

FP8CONV: the program.  Needs pyte (tests/cli/requirements.txt) and Chromium.  Both pictures are of real runs.
"""
import html
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests/cli"))
from terminal import Terminal  # noqa: E402

LIMIT = 150_000                         # bytes of a picture
WIDTH, HEIGHT = 1280, 1060              # of the page
CELL, LINE, SIZE, EDGE = 8.43, 19, 14, 16   # of a character


def shown(command, folder):
    """The lines that a terminal shows after a command that a user typed."""
    terminal = Terminal("bash", "-c", command, cwd=folder, lines=48).emulate()
    assert terminal.finish(1200) == 0, "\n".join(terminal.display())
    return [*f"$ {command}".split("\n"), *terminal.display()[1:]]


def svg(lines):
    """An SVG of the lines; a command is bold, with the lines that it goes on in."""
    rows = []
    for row, line in enumerate(lines):
        weight = ' font-weight="bold"' if line.startswith(("$ ", "    --")) else ""
        rows.append(f'<text x="{EDGE}" y="{EDGE + SIZE + row * LINE}"{weight} xml:space="preserve">{html.escape(line, False)}</text>')
    width, height = round(80 * CELL + 2 * EDGE), len(lines) * LINE + 2 * EDGE
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
            f'<rect width="{width}" height="{height}" rx="8" fill="#16181d"/>\n'
            f'<g fill="#e3e5ea" font-family="ui-monospace, \'DejaVu Sans Mono\', Menlo, Consolas, monospace" font-size="{SIZE}">\n'
            + "\n".join(rows) + "\n</g>\n</svg>\n")


def page(folder, path):
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}",
               f"--screenshot={path}", (folder / "OUT/report.html").as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    size = path.stat().st_size
    assert size <= LIMIT, f"{path} has {size} bytes, more than {LIMIT}"


def main():
    model, text = (pathlib.Path(path).resolve() for path in sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "bin").mkdir()
        (folder / "bin/fp8conv").symlink_to(pathlib.Path(os.environ["FP8CONV"]).resolve())
        (folder / model.name).symlink_to(model)
        (folder / "text.txt").symlink_to(text)
        os.environ["PATH"] = f"{folder}/bin:{os.environ['PATH']}"
        lines = []
        for command in (f"fp8conv quantize {model.name} -o OUT --recipe channelwise --target vllm",
                        f"fp8conv verify OUT --source {model.name} --target vllm",
                        f"fp8conv eval OUT --source {model.name} --data text.txt \\\n    --passes 16 --json > E.json"):
            lines += shown(command, folder)
        (HERE / "terminal.svg").write_text(svg(lines))
        subprocess.run(["fp8conv", "report", "OUT", "--source", model.name, "--eval", "E.json", "-o", "OUT"], cwd=folder, check=True)
        page(folder, HERE / "report.png")


main()
