#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs fp8conv for pip: wheels, and the sources as pip builds them.

    pack.py wheel WORK VERSION PLATFORM EPOCH OUT    what wheel.sh built in WORK; prints its name
    pack.py sources VERSION OUT                     the commit that is checked out, or the archive that was unpacked

pyproject.toml names this file as the build backend, so `pip install DIRECTORY` builds by make, with the libraries of the
system. The program is a script of the wheel: pip puts it into bin as it is, and no interpreter starts. Below the prefix
libexec/fp8conv has oneDNN and libcurl, where the program and the library of the module look for them. The same files give the same bytes."""
from __future__ import annotations

import base64
import hashlib
import io
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tarfile
import time
import urllib.parse
import zipfile

import sbom

LICENSE = sbom.LICENSE
BUNDLED = "BSD-2-Clause AND BSD-3-Clause AND MIT AND Zlib AND curl AND LGPL-3.0-or-later AND GPL-3.0-or-later WITH GCC-exception-3.1"
CUDA = "LicenseRef-NVIDIA-CUDA"

# What is linked in: where its license stands in WORK, its identifier, and a file of Debian whose name has the version.
PARTS = {
    "jansson": ("src/jansson/LICENSE", "MIT", "src/jansson_*.dsc"),
    "pcre2": ("usr/share/doc/libpcre2-dev/copyright", "BSD-3-Clause", "debs/libpcre2-dev_*.deb"),
    "libunistring": ("usr/share/doc/libunistring-dev/copyright", "LGPL-3.0-or-later", "debs/libunistring-dev_*.deb"),
    "openssl": ("usr/share/doc/libssl-dev/copyright", "Apache-2.0", "debs/libssl-dev_*.deb"),
    "isa-l": ("src/libisal/LICENSE", "BSD-3-Clause", "src/libisal_*.dsc"),
    "zlib": ("usr/share/doc/zlib1g-dev/copyright", "Zlib", "debs/zlib1g-dev_*.deb"),
    "zstd": ("usr/share/doc/libzstd-dev/copyright", "BSD-3-Clause", "debs/libzstd-dev_*.deb"),
    "curl": ("src/curl/COPYING", "curl", "src/curl_*.dsc"),
    "onednn": ("src/onednn/LICENSE", "Apache-2.0", "src/onednn_*.dsc"),
}
# Files of their own; oneDNN only where it is wanted.
LOADED = {"curl": "libcurl-fp8conv.so.4", "onednn": "libdnnl.so.3"}
TEXTS = {
    "onednn.third-party": "src/onednn/THIRD-PARTY-PROGRAMS",
    "gcc": "/usr/share/doc/gcc-10-base/copyright",
    "lgpl-3": "/usr/share/common-licenses/LGPL-3",
    "gpl-3": "/usr/share/common-licenses/GPL-3",
}


def parts_list(work: pathlib.Path, version: str, epoch: int, files: dict[str, bytes]) -> bytes:
    """Returns what is inside, in SPDX."""
    packages, relations = [sbom.package("fp8conv", "fp8conv", version, LICENSE)], [sbom.relation("DOCUMENT", "DESCRIBES", "fp8conv")]
    for name, (_, license, pattern) in PARTS.items():
        if name in LOADED and not (work / LOADED[name]).is_file():
            continue
        source, found, *rest = urllib.parse.unquote(next(work.glob(pattern)).stem).split("_")
        packages.append(sbom.package(name, name, found, license, **sbom.of_debian(source, found, *rest or ["source"])))
        relations.append(sbom.relation("fp8conv", "DYNAMIC_LINK" if name in LOADED else "STATIC_LINK", name))
    gcc = subprocess.check_output(["dpkg-query", "--show", "--showformat", "${Version}", "gcc-10-base"], text=True)
    packages.append(sbom.package("gcc", "gcc", gcc, "GPL-3.0-or-later WITH GCC-exception-3.1", **sbom.of_debian("gcc-10", gcc, "source")))
    relations.append(sbom.relation("fp8conv", "STATIC_LINK", "gcc"))
    if os.environ.get("CUDA_HOME"):
        packages.append(sbom.package("cuda-runtime", "cuda-runtime", "NOASSERTION", "NOASSERTION"))
        relations.append(sbom.relation("fp8conv", "STATIC_LINK", "cuda-runtime"))
    return sbom.document(version, epoch, hashlib.sha256(b"".join(files.values())).hexdigest(), packages, relations)


def metadata(version: str, license: str, files: list[str], extras: dict[str, str]) -> bytes:
    lines = ["Metadata-Version: 2.4", "Name: fp8conv", f"Version: {version}",
             "Summary: FP8 checkpoints for vLLM, SGLang, TensorRT-LLM and transformers: convert, calibrate, verify",
             f"License-Expression: {license}", *(f"License-File: {name}" for name in files), "Requires-Python: >=3.9"]
    for extra, package in extras.items():
        lines += [f"Provides-Extra: {extra}", f"Requires-Dist: {package}; extra == '{extra}'"]
    text = pathlib.Path("README.md").read_text(encoding="utf-8")
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", text]).encode()


def installed(work: pathlib.Path, data: str) -> dict[str, bytes]:
    """Returns module, program, pages and completions by their names in the wheel."""
    files = {f"fp8conv/{path.name}": path.read_bytes() for path in pathlib.Path("python/fp8conv").iterdir() if path.is_file()}
    files["fp8conv/libfp8conv.so.1"] = (work / "libfp8conv.so.1").read_bytes()
    files[f"{data}/scripts/fp8conv"] = (work / "fp8conv").read_bytes()
    for page in pathlib.Path("man").glob("*.[1357]"):
        files[f"{data}/data/share/man/man{page.suffix[1:]}/{page.name}"] = page.read_bytes()
    for shell, name in (("bash", "bash-completion/completions/fp8conv"), ("zsh", "zsh/site-functions/_fp8conv"),
                        ("fish", "fish/vendor_completions.d/fp8conv.fish")):
        files[f"{data}/data/share/{name}"] = subprocess.check_output([work / "fp8conv", "completion", shell])
    return files


def record(files: dict[str, bytes], name: str) -> bytes:
    def digest(data: bytes) -> str:
        return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return "".join([*(f"{path},sha256={digest(data)},{len(data)}\n" for path, data in files.items()), f"{name},,\n"]).encode()


def write_wheel(path: pathlib.Path, files: dict[str, bytes], epoch: int) -> None:
    stamp = max(time.gmtime(epoch)[:6], (1980, 1, 1, 0, 0, 0))
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            item = zipfile.ZipInfo(name, stamp)
            item.compress_type, item.create_system = zipfile.ZIP_DEFLATED, 3
            item.external_attr = (0o100755 if data.startswith(b"\x7fELF") else 0o100644) << 16
            archive.writestr(item, data, compresslevel=9)


def wheel(work: pathlib.Path, version: str, platform: str, epoch: int, out: pathlib.Path, bundled: bool = True) -> str:
    data, info = f"fp8conv-{version}.data", f"fp8conv-{version}.dist-info"
    files = installed(work, data)
    licenses, license, extras = {"LICENSE": pathlib.Path("LICENSE").read_bytes()}, LICENSE, {"numpy": "numpy"}
    if bundled:
        license += f" AND {BUNDLED}"
        texts = {name: path for name, (path, _, _) in PARTS.items()} | TEXTS
        licenses.update({f"parts/{name}": (work / path).read_bytes() for name, path in texts.items()})
        files.update({f"{data}/data/libexec/fp8conv/{name}": (work / name).read_bytes()
                      for name in LOADED.values() if (work / name).is_file()})
    if os.environ.get("CUDA_HOME"):
        license += f" AND {CUDA}"
        licenses["parts/cuda"] = pathlib.Path("packaging/copyright.cuda").read_bytes()
        extras["cuda"] = "nvidia-cublas>=13"
    if bundled:
        files[f"{info}/sboms/fp8conv.spdx.json"] = parts_list(work, version, epoch, files)
    files.update({f"{info}/licenses/{name}": text for name, text in licenses.items()})
    files[f"{info}/METADATA"] = metadata(version, license, list(licenses), extras)
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: fp8conv\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n".encode()
    files = dict(sorted(files.items()))
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD")
    path = out / f"fp8conv-{version}-py3-none-{platform}.whl"
    write_wheel(path, files, epoch)
    return path.name


def in_commit(prefix: str) -> dict[str, tuple[bytes, bool]]:
    """Returns contents, and whether it is a program, of each file of the commit, by its name."""
    tar = subprocess.check_output(["git", "-c", "core.autocrlf=false", "archive", f"--prefix={prefix}", "HEAD"])
    with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
        return {item.name: (opened.extractfile(item).read(), bool(item.mode & 0o100)) for item in opened if item.isfile()}


def in_archive(prefix: str) -> dict[str, tuple[bytes, bool]]:
    """The same of an archive of the commit, as it was unpacked here."""
    names = subprocess.check_output(["sh", "tests/files.sh"], text=True).splitlines()
    return {prefix + name: (pathlib.Path(name).read_bytes(), bool(os.stat(name).st_mode & 0o100)) for name in names}


def sources(version: str, epoch: int, out: pathlib.Path) -> str:
    """The same bytes from a clone and from an archive, on every machine."""
    name = f"fp8conv-{version}"
    files = in_commit(f"{name}/") if pathlib.Path(".git").exists() else in_archive(f"{name}/")
    files[f"{name}/PKG-INFO"] = metadata(version, LICENSE, ["LICENSE"], {"numpy": "numpy"}), False
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.GNU_FORMAT) as opened:
        for path, (data, program) in sorted(files.items()):
            item = tarfile.TarInfo(path)
            item.size, item.mtime, item.mode, item.uname, item.gname = len(data), epoch, 0o755 if program else 0o644, "root", "root"
            opened.addfile(item, io.BytesIO(data))
    path = out / f"{name}.tar.gz"
    # The command: zlib makes other bytes in other versions.
    path.write_bytes(subprocess.run(["gzip", "-9n"], input=archive.getvalue(), check=True, stdout=subprocess.PIPE).stdout)
    return path.name


def date_here() -> int:
    return int(subprocess.check_output(["sh", "packaging/date.sh"]))


def version_here() -> str:
    return re.search(r"^VERSION +:= (\S+)", pathlib.Path("Makefile").read_text(encoding="utf-8"), re.M)[1]


def build_wheel(directory: str, config_settings: object = None, metadata_directory: str | None = None) -> str:
    """Of PEP 517."""
    build = pathlib.Path(os.environ.get("BUILD", "build"))
    subprocess.check_call(["make", f"-j{os.cpu_count()}", f"BUILD={build}", "all"], stdout=sys.stderr)
    platform = re.sub("[-.]", "_", sysconfig.get_platform())
    return wheel(build, version_here(), platform, date_here(), pathlib.Path(directory), bundled=False)


def build_sdist(directory: str, config_settings: object = None) -> str:
    """Of PEP 517."""
    return sources(version_here(), date_here(), pathlib.Path(directory))


def main() -> None:
    what, *rest = sys.argv[1:]
    if what == "wheel":
        work, version, platform, epoch, out = rest
        print(wheel(pathlib.Path(work), version, platform, int(epoch), pathlib.Path(out)))
    else:
        print(sources(rest[0], date_here(), pathlib.Path(rest[1])))


if __name__ == "__main__":
    main()
