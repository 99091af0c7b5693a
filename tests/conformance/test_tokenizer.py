# SPDX-License-Identifier: Apache-2.0
"""Token ids against the tokenizers package: a real tokenizer, the samples' and trained ones in the styles of known models, on
prose (corpus.sh's, where FP8CONV_CORPUS names its folder; else what lies in this repository), code and generated text of
every kind of character, UTF-8 or not; and each character of Unicode by itself."""
import json
import os
import pathlib
import struct
import subprocess
from collections.abc import Iterator

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from harness import SAMPLES, finish, real_model, report, scratch
from tokenizer_inputs import LLAMA3, O200K, STYLES, random_texts, read_as_text, split_bytes, texts

ROOT = SAMPLES.parent
TOKENIZE = pathlib.Path(os.environ["FP8CONV"]).parent / "tests/conformance/tokenize"
VOCAB = 6000


def ours(file: pathlib.Path, documents: list[bytes], special: bool) -> list[list[int]]:
    given = b"".join(struct.pack("<II", len(text), special) + text for text in documents)
    done = subprocess.run([TOKENIZE, file], input=given, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode())
    found, at = [], 0
    while at < len(done.stdout):
        n = struct.unpack_from("<I", done.stdout, at)[0]
        found.append(list(struct.unpack_from(f"<{n}I", done.stdout, at + 4)))
        at += 4 + 4 * n
    return found


def differences(file: pathlib.Path, documents: list[bytes], special: bool) -> Iterator[str]:
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    found = ours(file, documents, special)
    if len(found) != len(documents):
        yield f"{len(found)} answers for {len(documents)} texts"
    for text, ids in zip(documents, found):
        want = tokenizer.encode(read_as_text(text), add_special_tokens=special).ids
        if ids != want:
            first = next((i for i, (a, b) in enumerate(zip(ids, want)) if a != b), min(len(ids), len(want)))
            yield f"{text[:80]!r}...: from token {first} on {ids[first:first + 5]}, not {want[first:first + 5]}"


def corpus() -> list[bytes]:
    folder = os.environ.get("FP8CONV_CORPUS")
    files = sorted(pathlib.Path(folder).glob("*.txt")) if folder else [
        *sorted(ROOT.glob("*.md")), *sorted((ROOT / "man").iterdir()), *sorted((ROOT / "src/plan").glob("*.c"))]
    return [file.read_bytes() for file in files]


def characters(folder: pathlib.Path, name: str, allowed: int, normalizer=None, pre_tokenizer=None) -> None:
    """Each character between letters, and with an accent where no normalizer reorders it.  A vocabulary of all characters shows the text that comes to the model; that 'aa' is
    one token, and "a1", where pieces end.  The package's tables are older than ours for some components: so many may differ."""
    known = [chr(c) for c in (*range(1, 0xd800), *range(0xe000, 0x33000), *range(0x33000, 0x110000, 257), *range(0xe0000, 0xe0200))]
    known = list(dict.fromkeys(known))                     # what lies above has no characters, but for planes 14 to 16
    vocab = {c: i for i, c in enumerate(known)} | {"aa": len(known), "1a": len(known) + 1}
    tokenizer = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    state = json.loads(tokenizer.to_str())
    state["model"] |= {"vocab": vocab, "merges": [["a", "a"], ["1", "a"]]}
    file = folder / "characters.json"
    file.write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(file))
    accent = "" if normalizer else "\u0301"
    lines = ["".join(f"a{c}a1{c} {c}{accent}a\n" for c in known[at:at + 64]) for at in range(0, len(known), 64)]
    found = ours(file, [line.encode() for line in lines], False)
    differing = [line for line, ids in zip(lines, found) if ids != tokenizer.encode(line, add_special_tokens=False).ids]
    each = ["".join(part) for line in differing for part in line.split("\n") if part]
    found = ours(file, [line.encode() for line in each], False)
    differing = [line for line, ids in zip(each, found) if ids != tokenizer.encode(line, add_special_tokens=False).ids]
    report(f"{name}: every character" + (f" but {len(differing)} of at most {allowed}" if allowed else ""),
           [f"U+{ord(line[1]):04X}" for line in differing] if len(differing) > allowed else [])


def main() -> None:
    prose = corpus()
    nasty = texts() + random_texts(1, 3000)
    training = [text.decode("utf-8", "replace") for text in prose + texts() * 3]
    with scratch() as folder:
        for name, style in STYLES.items():
            file = folder / f"{name}.json"
            style(training, VOCAB).save(str(file))
            for special in (False, True):
                report(f"{name}, {'with' if special else 'without'} special tokens", differences(file, prose + nasty, special))
        for name, file in (("SmolLM2", real_model(1) / "tokenizer.json"), ("tiny-llama", SAMPLES / "tiny-llama/tokenizer.json"),
                           ("tiny-moe", SAMPLES / "tiny-moe/per-expert/tokenizer.json")):
            report(name, differences(file, prose + nasty, True))
        for name, allowed in (("NFC", 0), ("NFD", 1), ("NFKC", 72), ("NFKD", 73), ("Lowercase", 64), ("StripAccents", 420)):
            characters(folder, name, allowed, getattr(normalizers, name)())
        characters(folder, "Strip", 0, normalizers.Strip())
        characters(folder, "Digits", 0, pre_tokenizer=pre_tokenizers.Digits(False))
        characters(folder, "Whitespace", 0, pre_tokenizer=pre_tokenizers.Whitespace())
        characters(folder, "WhitespaceSplit", 0, pre_tokenizer=pre_tokenizers.WhitespaceSplit())
        characters(folder, "Punctuation", 150, pre_tokenizer=pre_tokenizers.Punctuation("removed"))
        characters(folder, "ByteLevel", 0, pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False))
        characters(folder, "Llama 3's pattern", 0, pre_tokenizer=split_bytes(LLAMA3))
        characters(folder, "GPT-OSS's pattern", 0, pre_tokenizer=split_bytes(O200K))
        for pattern in (r"\w+", r"\bx|\W", r"\p{Han}+", r"\p{M}|\p{P}|\p{S}", r"[^\d\p{Lu}]", r"(?i:[k-s])"):
            characters(folder, f"pattern {pattern}", 0, pre_tokenizer=pre_tokenizers.Split(Regex(pattern), "removed"))


main()
finish()
