# SPDX-License-Identifier: Apache-2.0
"""Lists in SPDX 2.3: what a wheel has inside, and what a release consists of.

    sbom.py VERSION EPOCH FOLDER    writes FOLDER/fp8conv-VERSION.spdx.json about the other files there

A wheel is listed with its parts, as its own list has them; a package of Debian with what it depends on."""
from __future__ import annotations

import hashlib
import json
import pathlib
import re
import subprocess
import sys
import time
import urllib.parse
import zipfile

LICENSE = "Apache-2.0"


def reference(id: str) -> str:
    """Returns the identifier of an element, which has letters, digits, dots and hyphens."""
    return "SPDXRef-" + re.sub("[^A-Za-z0-9.-]", "-", id)


def package(id: str, name: str, version: str, license: str, **more: object) -> dict:
    return {"name": name, "SPDXID": reference(id), "versionInfo": version, "licenseConcluded": license, "licenseDeclared": license,
            "copyrightText": "NOASSERTION", "downloadLocation": "NOASSERTION", "filesAnalyzed": False, **more}


def of_debian(name: str, version: str, architecture: str) -> dict:
    """Returns the member of a package that names a package of Debian as scanners of vulnerabilities know it."""
    place = f"pkg:deb/debian/{urllib.parse.quote(name)}" + (f"@{urllib.parse.quote(version)}?arch={architecture}" if version else "")
    return {"externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": place}]}


def relation(a: str, kind: str, b: str) -> dict:
    return {"spdxElementId": reference(a), "relationshipType": kind, "relatedSpdxElement": reference(b)}


def document(version: str, epoch: int, unique: str, packages: list[dict], relations: list[dict]) -> bytes:
    """unique: what differs where the contents differ."""
    return json.dumps({"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"fp8conv-{version}",
                       "documentNamespace": f"urn:fp8conv:{version}:{unique}", "packages": packages, "relationships": relations,
                       "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
                                        "creators": ["Tool: packaging/sbom.py"]}}, indent=1).encode()


def parts_of_wheel(path: pathlib.Path, id: str) -> tuple[list[dict], list[dict]]:
    with zipfile.ZipFile(path) as archive:
        listed = json.loads(archive.read(next(name for name in archive.namelist() if name.endswith("/sboms/fp8conv.spdx.json"))))
    new = {reference("fp8conv"): reference(id)}
    parts = [part for part in listed["packages"] if part["SPDXID"] not in new]
    new.update({part["SPDXID"]: reference(f"{id}-{part['name']}") for part in parts})
    return ([part | {"SPDXID": new[part["SPDXID"]]} for part in parts],
            [row | {"spdxElementId": new[row["spdxElementId"]], "relatedSpdxElement": new[row["relatedSpdxElement"]]}
             for row in listed["relationships"] if row["spdxElementId"] in new])


def needs_of_deb(path: pathlib.Path) -> list[str]:
    """Returns the packages that it depends on; the first of alternatives."""
    text = subprocess.check_output(["dpkg-deb", "--field", path, "Depends"], text=True)
    return [re.match(r"[a-z0-9.+-]+", field.strip())[0] for field in text.split(",") if field.strip()]


def release(version: str, epoch: int, folder: pathlib.Path) -> None:
    made = folder / f"fp8conv-{version}.spdx.json"
    packages, relations, needed, digests = [], [], set(), []
    names = sorted(path.name for path in folder.iterdir() if path != made)
    sources = f"fp8conv-{version}.tar.gz"
    for name in names:
        digests.append(hashlib.sha256((folder / name).read_bytes()).hexdigest())
        more = {"packageFileName": name, "checksums": [{"algorithm": "SHA256", "checksumValue": digests[-1]}]}
        relations.append(relation("DOCUMENT", "DESCRIBES", name))
        if sources in names and name != sources:
            relations.append(relation(name, "GENERATED_FROM", sources))
        packages.append(package(name, name.split("_")[0].split("-" + version)[0], version, LICENSE, **more))
        if name.endswith(".whl"):
            parts, rows = parts_of_wheel(folder / name, name)
            packages += parts
            relations += rows
        if name.endswith(".deb"):
            for need in needs_of_deb(folder / name):
                ours = [other for other in names if other.startswith(f"{need}_")]
                needed.update([] if ours else [need])
                relations.append(relation(name, "DEPENDS_ON", ours[0] if ours else f"debian-{need}"))
    packages += [package(f"debian-{need}", need, "NOASSERTION", "NOASSERTION", **of_debian(need, "", "")) for need in sorted(needed)]
    unique = hashlib.sha256("".join(digests).encode()).hexdigest()
    made.write_bytes(document(version, epoch, unique, packages, relations) + b"\n")


if __name__ == "__main__":
    release(sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3]))
