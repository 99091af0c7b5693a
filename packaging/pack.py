#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs fp8conv for pip: wheels, and the sources as pip builds them.

    pack.py wheel WORK VERSION PLATFORM EPOCH OUT    what wheel.sh built in WORK; prints its name
    pack.py sources VERSION OUT                     the commit that is checked out

pyproject.toml names this file as the build backend, so `pip install DIRECTORY` builds by make, with the libraries of the
system. The program is a script of the wheel: pip puts it into bin as it is, and no interpreter starts. Below the prefix
libexec/fp8conv has oneDNN, where the program and the library of the module look for it. The same files give the same bytes."""
from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
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

LICENSE = "Apache-2.0"
BUNDLED = "BSD-2-Clause AND BSD-3-Clause AND MIT AND Zlib AND LGPL-3.0-or-later AND GPL-3.0-or-later WITH GCC-exception-3.1"
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
    "onednn": ("src/onednn/LICENSE", "Apache-2.0", "src/onednn_*.dsc"),
}
TEXTS = {
    "onednn.third-party": "src/onednn/THIRD-PARTY-PROGRAMS",
    "gcc": "/usr/share/doc/gcc-10-base/copyright",
    "lgpl-3": "/usr/share/common-licenses/LGPL-3",
    "gpl-3": "/usr/share/common-licenses/GPL-3",
}


def sbom(work: pathlib.Path, version: str, epoch: int, files: dict[str, bytes]) -> bytes:
    """Returns the list of what is inside, in SPDX 2.3."""
    def package(name: str, version: str, license: str) -> dict:
        return {"name": name, "SPDXID": f"SPDXRef-{name}", "versionInfo": version, "licenseConcluded": license,
                "licenseDeclared": license, "copyrightText": "NOASSERTION", "downloadLocation": "NOASSERTION", "filesAnalyzed": False}

    def relation(a: str, kind: str, b: str) -> dict:
        return {"spdxElementId": f"SPDXRef-{a}", "relationshipType": kind, "relatedSpdxElement": f"SPDXRef-{b}"}

    packages, relations = [package("fp8conv", version, LICENSE)], [relation("DOCUMENT", "DESCRIBES", "fp8conv")]
    for name, (_, license, pattern) in PARTS.items():
        if name == "onednn" and not (work / "libdnnl.so.3").is_file():
            continue
        found = urllib.parse.unquote(next(work.glob(pattern)).name.removesuffix(".dsc").split("_")[1])
        packages.append(package(name, found, license))
        relations.append(relation("fp8conv", "DYNAMIC_LINK" if name == "onednn" else "STATIC_LINK", name))
    if os.environ.get("CUDA_HOME"):
        packages.append(package("cuda-runtime", "NOASSERTION", "NOASSERTION"))
        relations.append(relation("fp8conv", "STATIC_LINK", "cuda-runtime"))
    digest = hashlib.sha256(b"".join(files.values())).hexdigest()
    return json.dumps({"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"fp8conv-{version}",
                       "documentNamespace": f"urn:fp8conv:{version}:{digest}", "packages": packages, "relationships": relations,
                       "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
                                        "creators": ["Tool: packaging/pack.py"]}}, indent=1).encode()


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
    onednn = work / "libdnnl.so.3"
    if bundled:
        license += f" AND {BUNDLED}"
        texts = {name: path for name, (path, _, _) in PARTS.items()} | TEXTS
        licenses.update({f"parts/{name}": (work / path).read_bytes() for name, path in texts.items()})
    if onednn.is_file():
        files[f"{data}/data/libexec/fp8conv/{onednn.name}"] = onednn.read_bytes()
    if os.environ.get("CUDA_HOME"):
        license += f" AND {CUDA}"
        licenses["parts/cuda"] = pathlib.Path("packaging/copyright.cuda").read_bytes()
        extras["cuda"] = "nvidia-cublas>=13"
    if bundled:
        files[f"{info}/sboms/fp8conv.spdx.json"] = sbom(work, version, epoch, files)
    files.update({f"{info}/licenses/{name}": text for name, text in licenses.items()})
    files[f"{info}/METADATA"] = metadata(version, license, list(licenses), extras)
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: fp8conv\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n".encode()
    files = dict(sorted(files.items()))
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD")
    path = out / f"fp8conv-{version}-py3-none-{platform}.whl"
    write_wheel(path, files, epoch)
    return path.name


def sources(version: str, out: pathlib.Path) -> str:
    """Without sample_checkpoints, which are larger than all else."""
    name = f"fp8conv-{version}"
    tar = subprocess.check_output(["git", "archive", f"--prefix={name}/", "HEAD", "--", ":!sample_checkpoints"])
    text = metadata(version, LICENSE, ["LICENSE"], {"numpy": "numpy"})
    item = tarfile.TarInfo(f"{name}/PKG-INFO")
    item.size, item.mtime = len(text), int(subprocess.check_output(["git", "log", "-1", "--format=%ct"]))
    archive = io.BytesIO(tar)
    with tarfile.open(fileobj=archive, mode="a") as opened:
        opened.addfile(item, io.BytesIO(text))
    path = out / f"{name}.tar.gz"
    path.write_bytes(gzip.compress(archive.getvalue(), mtime=item.mtime))
    return path.name


def version_here() -> str:
    return re.search(r"^VERSION +:= (\S+)", pathlib.Path("Makefile").read_text(encoding="utf-8"), re.M)[1]


def build_wheel(directory: str, config_settings: object = None, metadata_directory: str | None = None) -> str:
    """Of PEP 517."""
    build = pathlib.Path(os.environ.get("BUILD", "build"))
    subprocess.check_call(["make", f"-j{os.cpu_count()}", f"BUILD={build}", "all"], stdout=sys.stderr)
    platform = re.sub("[-.]", "_", sysconfig.get_platform())
    return wheel(build, version_here(), platform, int(os.environ.get("SOURCE_DATE_EPOCH", time.time())),
                 pathlib.Path(directory), bundled=False)


def build_sdist(directory: str, config_settings: object = None) -> str:
    """Of PEP 517."""
    return sources(version_here(), pathlib.Path(directory))


def main() -> None:
    what, *rest = sys.argv[1:]
    if what == "wheel":
        work, version, platform, epoch, out = rest
        print(wheel(pathlib.Path(work), version, platform, int(epoch), pathlib.Path(out)))
    else:
        print(sources(rest[0], pathlib.Path(rest[1])))


if __name__ == "__main__":
    main()
