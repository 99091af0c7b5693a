# SPDX-License-Identifier: Apache-2.0
"""Signatures: model_signing of PyPI verifies those of fp8conv, fp8conv verifies its, and both refuse the same damages."""
import json
import pathlib
import shutil
import subprocess
from collections.abc import Iterator

from harness import FP8CONV, finish, report, run, sample, scratch, skip

HERE = pathlib.Path(__file__).resolve().parent
CURVES = ("prime256v1", "secp384r1", "secp521r1")


def keys(folder: pathlib.Path, curve: str) -> tuple[pathlib.Path, pathlib.Path]:
    private, public = folder / f"{curve}.pem", folder / f"{curve}.pub"
    subprocess.run(["openssl", "ecparam", "-name", curve, "-genkey", "-noout", "-out", private], check=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    return private, public


def theirs(python: str, *arguments) -> subprocess.CompletedProcess:
    return subprocess.run([python, "-m", "model_signing", *map(str, arguments)], capture_output=True, text=True)


def accepted(python: str, model: pathlib.Path, public: pathlib.Path) -> tuple[bool, bool]:
    """By fp8conv, by model_signing."""
    ours = subprocess.run([FP8CONV, "verify", model, "--key", public], capture_output=True, text=True)
    other = theirs(python, "verify", "key", model, "--public_key", public, "--signature", model / "model.sig")
    return ours.returncode == 0 and not ours.stdout, other.returncode == 0


def damages(model: pathlib.Path) -> Iterator[str]:
    """Does one damage after the other, and undoes it."""
    for name in ("model.safetensors", "config.json", "fp8conv-manifest.json"):
        data = (model / name).read_bytes()
        (model / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        yield f"a bit of {name}"
        (model / name).unlink()
        yield f"{name} is gone"
        (model / name).write_bytes(data)
    for name in ("extra.bin", ".hidden", ".fp8conv.lock", "more/file"):
        (model / name).parent.mkdir(exist_ok=True)
        (model / name).write_text("x")
        yield f"{name} is new"
        (model / name).unlink()
    (model / "link").symlink_to("config.json")
    yield "a link is new"
    (model / "link").unlink()
    (model / "config.json").rename(model.parent / "elsewhere")
    (model / "config.json").symlink_to(model.parent / "elsewhere")
    yield "a file is a link to one with the same contents"
    (model.parent / "elsewhere").rename(model / "config.json")
    (model / "tokenizer.json").rename(model / "tokenizer2.json")
    yield "a file has another name"
    (model / "tokenizer2.json").rename(model / "tokenizer.json")


def check(python: str, folder: pathlib.Path, source: pathlib.Path, curve: str) -> Iterator[str]:
    model = folder / curve
    private, public = keys(folder, curve)
    other = keys(folder, CURVES[CURVES.index(curve) - 1])[1]
    run("quantize", source, "-o", model, "--recipe", "channelwise", "--sign", private)
    for signer in ("fp8conv", "model_signing"):
        if signer == "model_signing":
            signed = theirs(python, "sign", "key", model, "--private_key", private, "--signature", model / "model.sig")
            if signed.returncode:
                yield f"model_signing does not sign: {signed.stdout}{signed.stderr}"
        if accepted(python, model, public) != (True, True):
            yield f"signed by {signer}: accepted {accepted(python, model, public)}"
        if accepted(python, model, other) != (False, False):
            yield f"signed by {signer}: another key: accepted {accepted(python, model, other)}"
        for damage in damages(model) if curve == CURVES[0] else ():
            if accepted(python, model, public) != (False, False):
                yield f"signed by {signer}: {damage}: accepted {accepted(python, model, public)}"
        if accepted(python, model, public) != (True, True):
            yield f"signed by {signer}: not accepted after the damages were undone"


def left_out(python: str, folder: pathlib.Path, source: pathlib.Path) -> Iterator[str]:
    """Paths that the signer leaves out may change; lists of parts of files are named as what fp8conv does not read."""
    model = folder / "left_out"
    private, public = keys(folder, CURVES[0])
    shutil.copytree(source, model)
    (model / "notes").mkdir()
    (model / "notes" / "a").write_text("a")
    (model / ".gitattributes").write_text("*.safetensors filter=lfs\n")
    theirs(python, "sign", "key", model, "--private_key", private, "--signature", model / "model.sig", "--ignore-paths", model / "notes")
    (model / "notes" / "b").write_text("b")
    (model / ".gitattributes").write_text("")
    ran = subprocess.run([FP8CONV, "verify", model, "--key", public, "--json"], capture_output=True, text=True)
    told = json.loads(ran.stdout)
    if any(problem["kind"] in ("signature", "file-unlisted", "file-changed") for problem in told["problems"]):
        yield ran.stdout
    if [note["file"] for note in told["notes"] if note["kind"] == "file-unsigned"] != ["notes/a", "notes/b"]:
        yield f"notes: {told['notes']}"
    parts = ("import model_signing as m, sys; m.signing.Config().use_elliptic_key_signer(private_key=sys.argv[1])"
             ".set_hashing_config(m.hashing.Config().use_shard_serialization()).sign(sys.argv[2], sys.argv[3])")
    subprocess.run([python, "-c", parts, private, model, model / "model.sig"], check=True, capture_output=True)
    ran = subprocess.run([FP8CONV, "verify", model, "--key", public], capture_output=True, text=True)
    if ran.returncode != 1 or "'method' is 'shards'" not in ran.stdout:
        yield f"parts of files: {ran.stdout}{ran.stderr}"


def whole(python: str, folder: pathlib.Path, source: pathlib.Path) -> Iterator[str]:
    """Outputs whose directory has more in it while it is signed, and keys in another form: both programs accept them."""
    private, public = keys(folder, CURVES[0])
    ids, short = folder / "ids.jsonl", ["--recipe", "channelwise"]
    ids.write_text('{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}\n' * 3)
    (folder / "form").mkdir()
    short_private, short_public = folder / "form" / "private.pem", folder / "form" / "public.pem"
    for name, made in (("-pubout", short_public), ("-param_enc", short_private)):
        subprocess.run(["openssl", "ec", "-in", private, name, *(["named_curve"] if made == short_private else []),
                        "-conv_form", "compressed", "-out", made], check=True, capture_output=True)
    for name, options, private_key, keys_there in (
            ("kept", ["--preserve-high-precision", folder / "kept/kept"], private, [public]),
            ("compensated", [*short, "--rounding", "compensated", "--data", ids], private, [public]),
            ("form of the key", short, short_private, [public, short_public]),
            ("another form of the key", short, private, [short_public])):
        model = folder / name
        run("quantize", source, "-o", model, *options, "--sign", private_key)
        for key in keys_there:
            if accepted(python, model, key) != (True, True):
                yield f"{name}: {key.name}: accepted {accepted(python, model, key)}"
        (model / ".cache/huggingface").mkdir(parents=True)
        (model / ".cache/huggingface/download").write_text("x")
        if accepted(python, model, public) != (True, True):
            yield f"{name}: after a download by the Hub's program: accepted {accepted(python, model, public)}"


def by_certificate(python: str, folder: pathlib.Path, source: pathlib.Path) -> Iterator[str]:
    """What a certificate signed is good for model_signing; fp8conv, which trusts keys alone, names who checks it."""
    model = folder / "certificate"
    private, public = keys(folder, CURVES[0])
    shutil.copytree(source, model)
    chain, made, request = folder / "ca.pem", folder / "made.pem", folder / "request.pem"
    def openssl(*arguments) -> None:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=ca", "-days", 2,
            "-keyout", folder / "ca.key", "-out", chain, "-addext", "keyUsage=critical,keyCertSign")
    openssl("req", "-new", "-key", private, "-subj", "/CN=signer", "-out", request)
    (folder / "extensions").write_text("basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=codeSigning\n")
    openssl("x509", "-req", "-in", request, "-CA", chain, "-CAkey", folder / "ca.key", "-CAcreateserial", "-days", 2,
            "-extfile", folder / "extensions", "-out", made)
    signature = ["--signature", model / "model.sig"]
    signed = theirs(python, "sign", "certificate", model, "--private_key", private, "--signing_certificate", made,
                    "--certificate_chain", chain, *signature)
    checked = theirs(python, "verify", "certificate", model, "--certificate_chain", chain, *signature)
    if signed.returncode or checked.returncode:
        yield f"model_signing: {signed.stdout}{signed.stderr}{checked.stdout}{checked.stderr}"
    ran = subprocess.run([FP8CONV, "verify", model, "--key", public], capture_output=True, text=True)
    if ran.returncode != 1 or "made with a certificate" not in ran.stdout or "'model_signing verify' checks it" not in ran.stdout:
        yield f"by fp8conv: {ran.returncode} {ran.stdout}{ran.stderr}"
    if theirs(python, "verify", "key", model, "--public_key", public, *signature).returncode == 0:
        yield "model_signing takes it for a key's"


made = subprocess.run(["sh", HERE / "venv.sh", HERE / "model_signing.txt"], capture_output=True, text=True)
source = sample("tiny-llama")
if made.returncode:
    skip("signatures", made.stderr.strip().splitlines()[-1])
elif source:
    interpreter = made.stdout.strip() + "/bin/python"
    with scratch() as work:
        for name in CURVES:
            report(f"signatures of {name}", check(interpreter, work, source, name))
        report("whole outputs", whole(interpreter, work, source))
        report("what a signature leaves out", left_out(interpreter, work, source))
        report("a signature by a certificate", by_certificate(interpreter, work, source))
finish()
