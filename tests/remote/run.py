#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models on a server: the output has the bytes that the same model on the disk gives, or there is
one clear error and nothing that an engine would load.  server.py does what servers do wrong.

FP8CONV: the program.
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from server import Server

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "cli"), str(HERE.parent.parent / "sample_checkpoints")]
import broken_torch  # noqa: E402  pylint: disable=wrong-import-position,import-error
import checkpoint  # noqa: E402  pylint: disable=wrong-import-position,import-error

FP8CONV = os.environ["FP8CONV"]
MEMORY = ["--max-memory", "48M", "--threads", "2"]  # blocks of 2 MiB
SHARDS, LAYERS, SIZE = 4, 3, 1024  # each layer of a shard has 2 MiB
failures = []


def make_model(model: Path) -> None:
    """BF16 weights in shards, with the small files that models have."""
    model.mkdir()
    source, table = random.Random(18), bytes(0x3C + (i & 1) + (i & 2) * 0x40 for i in range(256))
    weight_map = {}
    for shard in range(SHARDS):
        name = f"model-{shard + 1:05}-of-{SHARDS:05}.safetensors"
        tensors = {}
        for layer in range(shard * LAYERS, (shard + 1) * LAYERS):
            values = bytearray(source.randbytes(2 * SIZE * SIZE))
            values[1::2] = values[1::2].translate(table)
            key = f"model.layers.{layer}.mlp.down_proj.weight"
            tensors[key] = "BF16", [SIZE, SIZE], bytes(values)
            weight_map[key] = name
        checkpoint.write(model / name, tensors)
    index = {"metadata": {"total_size": SHARDS * LAYERS * 2 * SIZE * SIZE}, "weight_map": weight_map}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    (model / "config.json").write_text(json.dumps({"model_type": "llama", "torch_dtype": "bfloat16"}))
    (model / "tokenizer.json").write_text(json.dumps({"filler": "x" * 3000000}))
    (model / "README.md").write_text("a model\n")
    (model / "LICENSE").write_text("")
    (model / "modules.json").write_text("[]")
    for name in ("1_Pooling", "2_Dense"):
        (model / name).mkdir()
        (model / name / "config.json").write_text("{}")
    checkpoint.write(model / "2_Dense/model.safetensors", {"linear.weight": ("F32", [2, 8], bytes(64))})


def environment(**more: str) -> dict:
    unwanted = {"http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "xdg_cache_home"}
    kept = {k: v for k, v in os.environ.items() if k.lower() not in unwanted and not k.startswith("HF_")}
    return kept | {"HF_HOME": "/nonexistent"} | more


def run(*args: str, **env: str) -> subprocess.CompletedProcess:
    return subprocess.run([FP8CONV, *args], env=environment(**env), capture_output=True, text=True,
                          timeout=300, check=False)


def check(name: str, truth: bool, what: object = "") -> None:
    if not truth:
        failures.append(name)
        print(f"FAILED {name}: {what}")


def same(a: Path, b: Path) -> str:
    """What differs besides the record, which has times."""
    names = sorted({str(p.relative_to(top)) for top in (a, b) for p in top.rglob("*") if p.is_file()} - {"fp8conv-manifest.json"})
    return ", ".join(n for n in names if not (a / n).exists() or not (b / n).exists()
                     or (a / n).read_bytes() != (b / n).read_bytes())


def converts(name: str, address: str, work: Path, *args: str, **env: str) -> str:
    """Returns what was said, which is nothing but notes."""
    out = work / f"out-{name}"
    result = run("quantize", address, "-o", str(out), "--quiet", *(args or MEMORY), **env)
    differs = same(out, work / "expected") if not result.returncode else "everything"
    silent = all(line.startswith("fp8conv: note: ") for line in result.stderr.splitlines())
    check(name, not result.returncode and not differs and silent,
          f"exit {result.returncode}, differs: {differs}; {result.stderr}")
    return result.stderr


def fails(name: str, address: str, work: Path, status: int, *words: str, **env: str) -> None:
    out = work / f"out-{name}"
    result = run("quantize", address, "-o", str(out), "--quiet", "--retry-time", "2", *MEMORY, **env)
    loadable = [n for n in ("config.json", "model.safetensors.index.json") if (out / n).exists()]
    check(name, result.returncode == status and result.stderr.count("\n") == 1 and not loadable
          and all(word in result.stderr for word in words) and "secret" not in result.stderr.lower(),
          f"exit {result.returncode}, not {status}; published: {loadable}; {result.stderr}")


def test_headers(server: Server, work: Path) -> None:
    """Looking at a model reads headers alone."""
    for args in (["inspect"], ["quantize", "--dry-run"]):
        name = f"headers/{args[0]}"
        before = sum(int(line[-1]) for line in server.log())
        remote = run(*args, f"{server.url}/good/model")
        n_bytes = sum(int(line[-1]) for line in server.log()) - before
        shown = [[line for line in text.splitlines() if line.split()[0:1] not in (["from"], ["memory"])]
                 for text in (remote.stdout, run(*args, str(work / "model")).stdout)]
        check(name, not remote.returncode and shown[0] and shown[0] == shown[1], remote.stdout + remote.stderr)
        check(f"{name}/bytes", n_bytes < 200000 and "from the server" in remote.stderr, f"{n_bytes}: {remote.stderr}")


def test_folder(server: Server, work: Path) -> None:
    for mode in ("good", "cut", "busy", "patient", "noversion", "moved"):
        said = converts(mode, f"{server.url}/{mode}/model", work)
        check(f"{mode}/note", ("neither ETag nor Last-Modified" in said) == (mode == "noversion"), said)
    converts("slash", f"{server.url}/good/model/", work)
    converts("index", f"{server.url}/good/model/model.safetensors.index.json", work)
    converts("default-memory", f"{server.url}/good/model", work, "--threads", "1")
    name = f"model-00001-of-{SHARDS:05}.safetensors"
    for source, out in ((f"{server.url}/good/model/{name}", "one.safetensors"), (work / "model" / name, "disk.safetensors")):
        result = run("quantize", str(source), "-o", str(work / out), *MEMORY)
        check(out, not result.returncode, result.stderr)
    check("one-file", (work / "one.safetensors").read_bytes() == (work / "disk.safetensors").read_bytes())


def test_other_commands(server: Server, work: Path) -> None:
    for args, name in ((["dequantize"], "dequantize"), (["repack", "--format", "compressed-tensors"], "repack")):
        outs = []
        for place, source in (("remote", f"{server.url}/good/expected"), ("disk", str(work / "expected"))):
            outs.append(work / f"{name}-{place}")
            result = run(*args, source, "-o", str(outs[-1]), *MEMORY)
            check(f"{name}/{place}", not result.returncode, result.stderr)
        check(name, not same(*outs), same(*outs))


def test_two_models(server: Server, work: Path) -> None:
    """Commands that run or compare models: what they print and write is as from the disk, also of two addresses."""
    shutil.copytree(HERE.parent.parent / "sample_checkpoints" / "tiny-llama", work / "tiny")
    result = run("quantize", str(work / "tiny"), "-o", str(work / "tiny-fp8"), "--recipe", "channelwise", "--quiet")
    check("two", not result.returncode, result.stderr)
    (work / "ids.jsonl").write_text(json.dumps({"input_ids": list(range(1, 65))}) + "\n")
    (work / "text.txt").write_text("The quick brown fox jumps over the lazy dog. " * 30)
    data, written = ["--data", str(work / "ids.jsonl"), "--quiet"], ["-o", str(work / "told")]
    commands = {"verify": (["verify", "{}/tiny-fp8", "--source", "{}/tiny", "--json"], []),
                "verify-alone": (["verify", "{}/tiny-fp8"], []),
                "calibrate": (["calibrate", "{}/tiny", *data], written),
                "eval": (["eval", "{}/tiny-fp8", "--source", "{}/tiny", *data], []),
                "eval-text": (["eval", "{}/tiny-fp8", "--data", str(work / "text.txt"), "--quiet"], []),
                "sensitivity": (["sensitivity", "{}/tiny", "--recipe", "channelwise", "--passes", "1", *data], written),
                "families": (["families", "{}/tiny"], []), "diff": (["diff", "{}/tiny", "{}/tiny-fp8", "--all"], [])}
    for name, (words, output) in commands.items():
        told = []
        for place in (str(work), f"{server.url}/good"):
            result = run(*(word.format(place) for word in words), *output)
            check(f"two/{name}", result.returncode == (name == "diff"), f"{place}: {result.stderr}")
            lines = [line for line in result.stdout.replace(place, "").splitlines() if "seconds" not in line]
            told.append((lines, (work / "told").read_bytes().replace(place.encode(), b"") if output else b""))
            (work / "told").unlink(missing_ok=True)
        check(f"two/{name}/same", told[0] == told[1], told)
    run("delta", str(work / "tiny"), str(work / "tiny-fp8"), "-o", str(work / "D.safetensors"))
    for words in (["delta", "{}/tiny", "{}/tiny-fp8"], ["apply", "{}/tiny", str(work / "D.safetensors")]):
        refused = run(*(word.format(f"{server.url}/good") for word in words), "-o", str(work / "told"))
        check(f"two/{words[0]}", refused.returncode == 2 and "is an address" in refused.stderr and not (work / "told").exists(),
              refused.stderr)
    for place in (str(work), f"{server.url}/good"):
        out = work / ("cards-remote" if "://" in place else "cards")
        result = run("report", f"{place}/tiny-fp8", "--source", f"{place}/tiny", "--base-model", "a/b", "-o", str(out), "--quiet")
        check("two/report", not result.returncode, f"{place}: {result.stderr}")
    cards = [(work / name / "README.md").read_text().count("dB") for name in ("cards", "cards-remote")]
    check("two/report/same", cards[0] == cards[1], cards)
    failed = run("verify", f"{server.url}/good/tiny-fp8", "--source", f"{server.url}/plain/tiny")
    check("two/source-fails", failed.returncode == 3 and "ignores range requests" in failed.stderr, failed.stderr)
    failed = run("verify", f"{server.url}/short/tiny-fp8", "--source", f"{server.url}/good/tiny")
    check("two/below-fails", failed.returncode == 4 and "ends early" in failed.stderr, failed.stderr)


def test_refusals(server: Server, work: Path) -> None:
    url = server.url
    fails("plain", f"{url}/plain/model", work, 3, "ignores range requests")
    fails("shifted", f"{url}/shifted/model", work, 4, "another range")
    fails("liar", f"{url}/liar/model", work, 4, "another range")
    fails("short", f"{url}/short/model", work, 4, "ends early")
    fails("changes", f"{url}/changes/model", work, 3, "changed on the server")
    fails("grows", f"{url}/grows/model", work, 3, "changed on the server")
    fails("circle", f"{url}/circle/model", work, 3, "circle")
    fails("absent", f"{url}/good/nothing", work, 3, "found no model.safetensors.index.json")
    fails("absent-file", f"{url}/good/nothing.safetensors", work, 3, "no file")
    fails("no-server", "http://127.0.0.1:9/x", work, 4, "tries in 2 s: --retry-time")
    result = run("families", "http://127.0.0.1:9/x", "--retry-time", "1", "--quiet")
    check("families/no-server", result.returncode == 4 and "tries in 1 s: --retry-time" in result.stderr, result.stderr)
    fails("no-host", "https://model.invalid/x", work, 4, "resolve host", "after 4 tries")
    fails("no-tls", "http://example.com/model", work, 3, "without TLS", "use https")
    fails("loopback-name", "http://127.0.0.1.example.com/model", work, 3, "without TLS")
    fails("user", "https://me:secret@127.0.0.1/model", work, 3, "user name")
    fails("user-space", "https://me:secret @127.0.0.1/model", work, 3, "byte")
    fails("user-hub", "hf://me:secret@org/model", work, 3, "hf://ORG/NAME")
    fails("query", f"{url}/good/model?token=secret", work, 3, "query")
    fails("query-no-tls", "http://example.com/model?token=secret", work, 3, "without TLS")
    fails("query-hub", "hf://org/good?token=secret", work, 3, "hf://ORG/NAME")
    fails("encoded", f"{url}/encoded/model", work, 3, "tokenizer.json' with the encoding 'gzip'")
    fails("drip", f"{url}/drip/model", work, 4, "ends early")
    fails("longline", f"{url}/longline/model", work, 3, f"the server answers '{url}/longline/model/", "header of more than")
    fails("manylines", f"{url}/manylines/model", work, 3, "header of more than")
    fails("form", "hf://model", work, 3, "hf://ORG/NAME")
    fails("up", "hf://org/..", work, 3, "hf://ORG/NAME")
    fails("up-revision", "hf://org/good@..", work, 3, "hf://ORG/NAME", HF_ENDPOINT=url)


def test_many_files(server: Server, work: Path) -> None:
    """An index of more files than any model has would be as many requests; of few files, its shards alternate."""
    (work / "many").mkdir()
    index = work / "many" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {f"t{i}": f"m-{i}.safetensors" for i in range(20100)}}))
    fails("many", f"{server.url}/good/many", work, 3, "names more than 10000 files")
    index.write_text(json.dumps({"weight_map": {f"t{i}": f"m-{i % 2}.safetensors" for i in range(50000)}}))
    before = len(server.log())
    result = run("inspect", f"{server.url}/good/many")
    asked = {line[1] for line in server.log()[before:] if "/m-" in line[1]}
    check("many/alternate", result.returncode == 3 and len(asked) == 2, f"{result.stderr}, {asked}")


def test_trainers(server: Server, work: Path) -> None:
    """A file of torch.save() by its address, or in a list of the Hub; slices of ranks there; .distcp files, which no server lists."""
    name, values = "model.layers.0.mlp.down_proj.weight", random.Random(3).randbytes(2 * 256 * 256).replace(b"\x7f", b"\x3f").replace(b"\xff", b"\x3f")
    tensor = broken_torch.tensor(broken_torch.storage("BFloat16Storage", n=256 * 256), shape=(256, 256), strides=(256, 1))
    for folder in ("pickled", "sliced", "plain-file"):
        (work / folder).mkdir()
        shutil.copy(work / "model/config.json", work / folder)
    (work / "pickled/pytorch_model.bin").write_bytes(broken_torch.archive(broken_torch.state(broken_torch.named(name, tensor)), {"data/0": values}))
    checkpoint.write(work / "plain-file/model.safetensors", {name: ("BF16", [256, 256], values)}, {"format": "pt"})
    for rank in (0, 1):
        where = json.dumps({name: {"saved_offsets": [128 * rank, 0]}})
        checkpoint.write(work / f"sliced/shard-0000{rank + 1}-model-00001-of-00001.safetensors",
                         {name: ("BF16", [128, 256], values[256 * 256 * rank:256 * 256 * (rank + 1)])}, {"DCP_SHARDING_INFO": where})
    result = run("quantize", str(work / "plain-file"), "-o", str(work / "out-plain"), "--quiet")
    check("trainers/disk", not result.returncode, result.stderr)
    wanted = (work / "out-plain/model.safetensors").read_bytes()
    for way, address, args in (("file", f"{server.url}/good/pickled/pytorch_model.bin", []), ("hub", "hf://org/pickled", ["--from-torch"]),
                               ("hub-slices", "hf://org/sliced", [])):
        result = run("quantize", address, "-o", str(work / f"out-trained-{way}"), "--quiet", *args, HF_ENDPOINT=server.url)
        made = work / f"out-trained-{way}/model.safetensors"
        check(f"trainers/{way}", not result.returncode and made.read_bytes() == wanted, result.stderr)
    fails("trainers/metadata", f"{server.url}/good/distcp/.metadata", work, 3, "whose files no server lists")
    fails("trainers/distcp", f"{server.url}/good/distcp/__0_0.distcp", work, 3, "whose files no server lists")
    refused = run("quantize", "hf://org/pickled", "-o", str(work / "out-refused"), HF_ENDPOINT=server.url)
    check("trainers/not-asked", refused.returncode == 3 and "option '--from-torch'" in refused.stderr, refused.stderr)


def test_kill(server: Server, work: Path) -> None:
    """Killed in the middle over slow connections, a job goes on where it was."""
    out, address = work / "out-kill", f"{server.url}/slow/model"
    process = subprocess.Popen([FP8CONV, "quantize", address, "-o", str(out), "--quiet", *MEMORY], env=environment())
    first = out / f"model-00001-of-{SHARDS:05}.safetensors"
    second = out / f"model-00002-of-{SHARDS:05}.safetensors"
    while not second.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    killed = process.wait() == -signal.SIGKILL
    check("kill/middle", killed and first.exists() and not (out / "config.json").exists())
    before = len(server.log())
    converts("kill", address, work)
    again = [line for line in server.log()[before:] if first.name in line[1] and int(line[-1]) > 100000]
    check("kill/resumed", not again, again)
    before = len(server.log())
    converts("kill", address, work)
    again = [line for line in server.log()[before:] if "safetensors " in line[1] and int(line[-1]) > 100000]
    check("kill/finished", not again, again)


def test_away(_: Server, work: Path) -> None:
    """A server that is away for two seconds costs time; one that stays away ends the job, which goes on when it is back."""
    away = Server(work, "away")
    out = work / "out-away"
    for seconds, status in (("1", 4), ("60", 0)):
        before = len(list(out.glob("*.safetensors")))
        process = subprocess.Popen([FP8CONV, "quantize", f"{away.url}/slow/model", "-o", str(out), "--retry-time", seconds, *MEMORY],
                                   env=environment(), stderr=subprocess.PIPE, text=True)
        while len(list(out.glob("*.safetensors"))) <= before and process.poll() is None:
            time.sleep(0.01)
        away.stop()
        time.sleep(4)
        if status:
            said = process.communicate()[1]
        away = Server(work, "away")
        if not status:
            said = process.communicate()[1]
        check(f"away/{seconds}", process.returncode == status and (not status) == ("tried again for 60" in said)
              and (not status or "files are finished: run the same command to continue" in said), said)
    away.stop()
    check("away/same", not same(out, work / "expected"), same(out, work / "expected"))


def test_interrupted(server: Server, work: Path) -> None:
    """A signal names no tensor, which has done nothing wrong.  A shell's background jobs, and this test is one of them perhaps,
    ignore the signal."""
    process = subprocess.Popen([FP8CONV, "quantize", f"{server.url}/slow/model", "-o", str(work / "out-interrupted"), *MEMORY],
                               env=environment(), stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    while not list(work.glob("out-interrupted/*.safetensors")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    check("interrupted", process.returncode == 130 and "quantize: interrupted by signal 2: 1 of 4 files" in said,
          (process.returncode, said))


def test_code(server: Server, work: Path) -> None:
    """The Python files that an auto_map names come with a folder, of this model alone, and those that they import
    (transformers 5.23, get_relative_import_files)."""
    shutil.copytree(work / "model", work / "code")
    (work / "code/config.json").write_text(json.dumps({"model_type": "llama", "auto_map": {
        "AutoConfig": "configuration_x.XConfig", "AutoModel": "org/other--modeling_y.YModel", "AutoModelForCausalLM": "../up.Up"}}))
    (work / "code/tokenizer_config.json").write_text(json.dumps({"auto_map": {"AutoTokenizer": ["tokenization_x.XTokenizer", None]}}))
    imports = {"configuration_x.py": "import os\ntry:\n    from .a import (\n        b)\nexcept ImportError:\n\tfrom\t.c\timport d\n",
               "a.py": "from .a import e\nfrom .f import g\n" + "# from .unnamed import x\n" * 2000 + "from .late import h", "c.py": "",
               "f.py": "from . import unnamed\nfrom ..f import up\nfrom .gone import i\n", "late.py": "pass", "tokenization_x.py": "pass"}
    names = set(imports)
    for name in (*names, "modeling_y.py", "unnamed.py"):
        (work / "code" / name).write_text(imports.get(name, "pass\n"))
    result = run("quantize", f"{server.url}/good/code", "-o", str(work / "out-code"), *MEMORY)
    found = {path.name for path in work.glob("out-code/*.py")}
    check("code", not result.returncode and found == names, f"{found}, {result.stderr}")


def test_cache(server: Server, work: Path) -> None:
    """A snapshot in the Hub's cache that is whole is read, with no server; of one that lacks a shard nothing is."""
    commit, home = "0123456789abcdef0123456789abcdef01234567", work / "home"
    model = home / "hub/models--org--good"
    (model / "refs/refs/pr").mkdir(parents=True)
    for name in ("main", "refs/pr/1"):
        (model / "refs" / name).write_text(commit)
    shutil.copytree(work / "model", model / "blobs")
    (model / "snapshots" / commit).mkdir(parents=True)
    for path in [path.relative_to(model / "blobs") for path in (model / "blobs").rglob("*") if path.is_file()]:
        link = model / "snapshots" / commit / path
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(os.path.relpath(model / "blobs" / path, link.parent))
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    places = {"HF_HOME": str(home)}, {"HF_HUB_CACHE": str(home / "hub")}, {"HF_HOME": "~/home", "HOME": str(work)}
    addresses = "hf://org/good", "hf://org/good@refs/pr/1", f"hf://org/good@{commit}", "https://huggingface.co/org/good/tree/refs%2Fpr%2F1?x=y"
    for i, (place, address) in enumerate([(place, addresses[0]) for place in places] + [(places[0], address) for address in addresses]):
        converts(f"cache-{i}", address, work, **nowhere, **place)
    result = run("inspect", "hf://org/good", **nowhere, **places[0])
    check("cache/note", f"hf://org/good is read from the Hub's cache: {model}/snapshots/{commit}" in result.stderr, result.stderr)
    for address in ("hf://org/good@other", "hf://org/good@../refs/main", "hf://org/other"):
        result = run("inspect", address, "--retry-time", "1", **nowhere, **places[0])
        check(f"cache/{address}", result.returncode == 4 and "cannot read" in result.stderr, result.stderr)
    (model / "blobs" / f"model-00003-of-{SHARDS:05}.safetensors").unlink()
    said = converts("cache-part", "hf://org/good", work, **places[0], HF_ENDPOINT=server.url)
    check("cache/part", "cache" not in said, said)


def test_login(server: Server, work: Path) -> None:
    """The token of `hf auth login` goes to the Hub alone, and no message shows it."""
    (work / "login").mkdir()
    (work / "login/token").write_text("secret\n")
    before = len(server.log())
    for i, place in enumerate(({"HF_HOME": str(work / "login")}, {"HF_TOKEN_PATH": str(work / "login/token")})):
        converts(f"login-{i}", "hf://private/good", work, HF_ENDPOINT=server.url, **place)
        converts(f"login-page-{i}", f"{server.url}/private/good/blob/main/config.json", work, HF_ENDPOINT=server.url, **place)
        converts(f"login-folder-{i}", f"{server.url}/good/model/model.safetensors.index.json", work, **place)
    tokens = {(line[0], line[1].startswith(("/api/", "/private/")), line[3]) for line in server.log()[before:] if line[3] != "-"}
    check("login/origin", tokens == {(str(server.port), True, "secret")}, tokens)
    fails("login-before", "hf://private/good", work, 3, "HF_TOKEN", HF_ENDPOINT=server.url, HF_HOME=str(work / "login"), HF_TOKEN="wrong")
    (work / "login/token").write_text("sec ret\n")
    fails("login-lines", "hf://private/good", work, 2, "login/token has a byte", HF_ENDPOINT=server.url, HF_HOME=str(work / "login"))


def test_memory(server: Server, work: Path) -> None:
    """The job keeps to --max-memory, libraries and stacks of 8 connections aside.

    Its peak is at least the memory of this process at its start: nothing large is read here.
    """
    process = subprocess.Popen([FP8CONV, "quantize", f"{server.url}/good/model", "-o", str(work / "out-memory"), "--quiet", *MEMORY],
                               env=environment())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    check("memory", not status and usage.ru_maxrss < (48 + 24) * 1024, f"{usage.ru_maxrss} KiB")


def test_once(server: Server, work: Path) -> None:
    """Norms, which are written first and lie between the weights, cost no blocks, and no block is read twice."""
    layers, at, header = 24, 0, {}
    for layer in sorted(range(layers), key=str):  # as writers of this format sort names
        for name, shape in (("input_layernorm", [SIZE]), ("mlp.down_proj", [SIZE, SIZE])):
            n = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
            header[f"model.layers.{layer}.{name}.weight"] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
            at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (work / "norms").mkdir()
    with (work / "norms" / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)
    before = len(server.log())
    result = run("quantize", f"{server.url}/good/norms", "-o", str(work / "out-once"), "--quiet", "--max-memory", "40M", "--threads", "2")
    lines = [line for line in server.log()[before:] if "/norms/model.safetensors" in line[1]]
    n_bytes = sum(int(line[-1]) for line in lines)
    check("once", not result.returncode and n_bytes < 1.1 * at, f"{n_bytes} of {at} bytes; {result.stderr}")


def test_hub(server: Server, work: Path) -> None:
    env = {"HF_ENDPOINT": server.url}
    converts("hub", "hf://org/good", work, **env)
    converts("hub-revision", "hf://org/good@refs/pr/1", work, **env)
    converts("hub-expires", "hf://org/slow.expires", work, **env)
    fails("hub-no-revision", "hf://org/good@nothing", work, 3, "status 404", **env)
    fails("hub-no-token", "hf://private/good", work, 3, "HF_TOKEN", **env)
    fails("hub-wrong-token", "hf://private/good", work, 3, "HF_TOKEN", **env, HF_TOKEN="wrong")
    converts("hub-token", "hf://private/good", work, **env, HF_TOKEN="secret")
    tokens = {(line[0], line[3]) for line in server.log() if line[3] != "-"}
    check("token-origin", tokens == {(str(server.port), "secret"), (str(server.port), "wrong")}, tokens)
    fails("endpoint", "hf://org/good", work, 3, "HF_ENDPOINT", HF_ENDPOINT="http://example.com")
    fails("endpoint-query", "hf://org/good", work, 3, "HF_ENDPOINT has a query", HF_ENDPOINT=f"{server.url}?token=secret")
    fails("hub-deep", "hf://org/deep", work, 3, "not a path below the model", **env)
    for token in ("secret\r\nX-More: 1", "secret\n", "sec ret", "secr\x7fet", "s\u00e9cret"):
        fails("token-lines", "hf://private/good", work, 2, "HF_TOKEN has a byte", **env, HF_TOKEN=token)


def test_tls(server: Server, tls: Server, work: Path, cert: str) -> None:
    fails("tls-unknown", f"{tls.url}/good/model", work, 4, "certificate", "not trusted", "SSL_CERT_FILE")
    converts("tls-trusted", f"{tls.url}/good/model", work, SSL_CERT_FILE=cert)
    fails("tls-left", f"{tls.url}/away/model", work, 3, "without TLS", SSL_CERT_FILE=cert)
    fails("tls-signed", f"{tls.url}/signed/model", work, 3, "without TLS", "?...", SSL_CERT_FILE=cert)


def test_proxy(server: Server, tls: Server, work: Path, cert: str) -> None:
    """A proxy is a tunnel for TLS: it sees no token.  What is on the same machine never goes through one."""
    through = {"SSL_CERT_FILE": cert, "https_proxy": server.url, "http_proxy": server.url, "all_proxy": server.url}
    before, before_tls = len(server.log()), len(tls.log())
    converts("proxy-local", f"{tls.url}/good/model", work, **through)
    converts("proxy-local-hub", "hf://private/good", work, **through, HF_ENDPOINT=tls.url, HF_TOKEN="secret")
    check("proxy-local/unused", len(server.log()) == before, server.log()[before:])
    converts("proxy", "https://model.test/good/model", work, **through)
    converts("proxy-hub", "hf://private/good", work, **through, HF_ENDPOINT="https://model.test", HF_TOKEN="secret")
    seen = server.log()[before:]
    check("proxy/used", bool(seen) and all(line[1] == "model.test:443" for line in seen), seen[:3])
    check("proxy/token", all(line[3] == "-" for line in seen), seen[:3])
    check("proxy/tunnel", any(line[3] == "secret" for line in tls.log()[before_tls:]))
    none = {"http_proxy": "http://127.0.0.1:9", "all_proxy": "http://127.0.0.1:9"}
    converts("proxy-loopback", "hf://private/good", work, **none, HF_ENDPOINT=server.url, HF_TOKEN="secret")


def test_no_library(server: Server, work: Path) -> None:
    """Without libcurl the message names its package, and models on the disk are read.  The loader takes the first file of
    the name that it finds, which is none of its format, and looks no further."""
    hidden = work / "hidden"
    hidden.mkdir()
    for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
        (hidden / name).write_text("not a library\n")
    fails("no-library", f"{server.url}/good/model", work, 4, "cannot load libcurl", "install the package libcurl4",
          LD_LIBRARY_PATH=str(hidden))
    wheel = hidden / "libcurl-fp8conv.so.4"
    loader = run("inspect", f"{server.url}/good/model", LD_DEBUG="libs").stderr
    wheel.symlink_to(re.search(r"calling init: (\S+/libcurl\S*)", loader)[1])
    converts("wheel-library", f"{server.url}/good/model", work, LD_LIBRARY_PATH=str(hidden))
    wheel.unlink()
    result = run("inspect", str(work / "model"), LD_LIBRARY_PATH=str(hidden))
    check("no-library/disk", not result.returncode, result.stderr)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="fp8conv-remote-") as place:
        work = Path(place)
        make_model(work / "model")
        result = run("quantize", str(work / "model"), "-o", str(work / "expected"), *MEMORY)
        check("expected", not result.returncode, result.stderr)
        cert, key = str(work / "cert.pem"), str(work / "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                        "-addext", "subjectAltName=IP:127.0.0.1,DNS:model.test", "-keyout", key, "-out", cert],
                       check=True, capture_output=True)
        server, tls = Server(work, "port"), Server(work, "tls-port", cert, key)
        try:
            for test in (test_headers, test_folder, test_other_commands, test_two_models, test_refusals, test_many_files, test_kill, test_away, test_interrupted,
                         test_code, test_cache, test_login, test_memory, test_once, test_hub, test_trainers, test_no_library):
                test(server, work)
            test_tls(server, tls, work, cert)
            test_proxy(server, tls, work, cert)
        finally:
            server.stop()
            tls.stop()
    print(f"remote: {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    if not shutil.which("openssl"):
        sys.exit("remote: openssl is missing: install the package openssl")
    sys.exit(main())
