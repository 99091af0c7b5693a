# SPDX-License-Identifier: Apache-2.0
"""site.py FOLDER: the pages as a web site: README.md and all that it links, by cmark-gfm, and the manual, by mandoc.

A link to a file or a heading that is not there is an error."""
import html
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[1]
OUT = pathlib.Path(sys.argv[1])
PARTS = {"1": "Commands", "3": "Library", "5": "Files", "7": "Background"}
STYLE = """
:root { color-scheme: light dark; --line: #8884; --link: light-dark(#0a58ca, #7ab0ff); }
body { font: 1rem/1.55 system-ui, sans-serif; max-width: 54rem; margin: 0 auto; padding: 0 1rem 4rem; overflow-wrap: break-word; }
nav { padding: .8rem 0; border-bottom: 1px solid var(--line); margin-bottom: 1.5rem; }
nav a { margin-right: 1.2rem; }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
img { max-width: 100%; height: auto; }
pre { background: #8881; padding: .7rem 1rem; overflow-x: auto; font-size: .875rem; }
code { background: #8881; padding: .1em .25em; font-size: .875em; } pre code { background: none; padding: 0; font-size: 1em; }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: 1rem 0; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top; }
table.head, table.foot { display: table; width: 100%; } table.head td, table.foot td { border: 0; padding: 0; }
.head-vol { text-align: center; } .head-rtitle, .foot-os { text-align: right; }
h1.Sh { font-size: 1.3rem; } h2.Ss { font-size: 1.1rem; } .permalink { color: inherit; }
.word { white-space: nowrap; }   /* no line ends within --dry-run */
dd { margin-left: 2rem; } dd > p:first-child { margin-top: 0; }
"""
problems, written = [], {}          # of links; of the pages' paths below OUT their ids


def page_path(source: str) -> str:
    """Of a file of the repository below OUT."""
    if source == "README.md":
        return "index.html"
    return re.sub(r"\.md$", ".html", source)


def manual_links(text: str, here: str) -> str:
    """Links names of manual pages: NAME(N), and "man N NAME" in code."""
    def link(name: str, part: str, shown: str) -> str:
        if not (TOP / f"man/{name}.{part}").exists():
            return shown
        return f'<a href="{posixpath.relpath(f"man/{name}.{part}.html", posixpath.dirname(here) or ".")}">{shown}</a>'
    text = re.sub(r"<b>(fp8conv[\w-]*)</b>\((\d)\)", lambda m: link(m[1], m[2], m[0]), text)
    text = re.sub(r"<code>man (\d) (fp8conv[\w-]*)</code>", lambda m: link(m[2], m[1], m[0]), text)
    return re.sub(r"<code>man (fp8conv[\w-]*)</code>", lambda m: link(m[1], "1", m[0]), text)


def write(path: str, title: str, body: str) -> None:
    up = "../" * path.count("/")
    written[path] = set(re.findall(r'\bid="([^"]+)"', body))
    (OUT / path).parent.mkdir(parents=True, exist_ok=True)
    (OUT / path).write_text(f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><link rel="stylesheet" href="{up}style.css"></head><body>
<nav><a href="{up}index.html"><b>fp8conv</b></a><a href="{up}docs/cookbook.html">Cookbook</a><a href="{up}man/index.html">Manual</a></nav>
{body}</body></html>
""")


def slug(heading: str) -> str:
    """The id that GitHub gives a heading."""
    text = html.unescape(re.sub(r"<[^>]*>", "", heading)).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def markdown(source: str, todo: list[str]) -> None:
    """Writes a page, and adds the files that it links to the list."""
    text = re.sub(r"\A---\n.*?^---\n", "", (TOP / source).read_text(), flags=re.M | re.S)
    body = subprocess.run(["cmark-gfm", "-e", "table", "-e", "autolink"], input=text, check=True, capture_output=True, text=True).stdout
    body = re.sub(r"<(h\d)>(.*?)</\1>", lambda m: f'<{m[1]} id="{slug(m[2])}">{m[2]}</{m[1]}>', body)

    def follow(match: re.Match) -> str:
        target, _, heading = match[2].partition("#")
        if "://" in target or not target:
            return match[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if (TOP / file / "README.md").exists():
            file += "/README.md"
        if not (TOP / file).exists():
            problems.append(f"{source}: {target} is not there")
            return ""
        if (TOP / file).is_dir():
            return ""
        todo.append(file)
        linked = posixpath.relpath(page_path(file), posixpath.dirname(page_path(source)) or ".")
        return f'{match[1]}="{linked}{"#" + heading if heading else ""}"'
    body = re.sub(r'\b(href|src)="([^"]+)"', follow, body)
    title = re.search(r"<h1[^>]*>(.*?)</h1>", body)
    write(page_path(source), re.sub(r"<[^>]*>", "", title[1]) if title else source, manual_links(body, page_path(source)))


def manual() -> None:
    shelves: dict[str, list[str]] = {part: [] for part in PARTS}
    for source in sorted((TOP / "man").glob("*.[1357]")):
        name, part = source.stem, source.suffix[1:]
        text = subprocess.run(["mandoc", "-T", "html", "-O", "fragment", source], check=True, capture_output=True, text=True).stdout
        path = f"man/{name}.{part}.html"
        words = re.sub(r"<b>((?:--|fp8conv-)[\w.=-]+)</b>", r'<b class="word">\1</b>', manual_links(text, path))
        write(path, f"{name}({part})", words)
        about = re.search(rf"{name} - (.*?)</p>", text, re.S)
        shelves[part].append(f'<tr><td><a href="{name}.{part}.html">{name}({part})</a></td><td>{" ".join(about[1].split())}</td></tr>')
    write("man/index.html", "Manual of fp8conv", "<h1>Manual</h1>" + "".join(
        f"<h2>{PARTS[part]}</h2><table>{''.join(rows)}</table>" for part, rows in shelves.items()))


def check_links() -> None:
    for path in list(written):
        for link in re.findall(r'\b(?:href|src)="([^"]+)"', (OUT / path).read_text()):
            target, _, heading = link.partition("#")
            if "://" in link or link.startswith("mailto:"):
                continue
            file = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target else path
            if not (OUT / file).exists():
                problems.append(f"{path}: {link} is not there")
            elif heading and html.unescape(heading) not in written.get(file, {heading}):
                problems.append(f"{path}: {link}: there is no such heading")


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    (OUT / "style.css").write_text(STYLE)
    todo, done = ["README.md", "docs/cookbook.md"], set()
    while todo:
        source = todo.pop()
        if source in done:
            continue
        done.add(source)
        if source.endswith(".md"):
            markdown(source, todo)
        else:
            (OUT / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TOP / source, OUT / source)
    manual()
    check_links()
    print(f"{len(written)} pages in {OUT}")
    sys.exit("\n".join(problems) if problems else 0)


main()
