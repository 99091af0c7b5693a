# SPDX-License-Identifier: Apache-2.0
"""Small tokenizers in the styles of known models, trained by the tokenizers package, and texts that tokenizers disagree
about: bytes, not all of them UTF-8."""
import json
import random

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
COMMON = {*map(chr, range(32, 127)), *"\néèüñß日本語中文한국어Приветαβγ“”—…"}
ADDED = [AddedToken("<mask>", lstrip=True, normalized=False), AddedToken("<word>", single_word=True, normalized=False),
         AddedToken("<lstrip>", lstrip=True, normalized=False), AddedToken("<rstrip>", rstrip=True, normalized=False),
         AddedToken("caf\u00e9<norm>", normalized=True)]


def template(tokenizer, before, after=""):
    special = [(name, tokenizer.token_to_id(name)) for name in (before, after) if name]
    return processors.TemplateProcessing(single=f"{before} $A {after}".strip(), pair=f"{before} $A {before} $B", special_tokens=special)


def train(tokenizer, corpus, size, special, alphabet=()):
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, show_progress=False, initial_alphabet=list(alphabet)))


def changed(tokenizer, drop=(), **model):
    """The tokenizer with other settings of its model, and without some of its added tokens."""
    state = json.loads(tokenizer.to_str())
    state["model"] |= model
    state["added_tokens"] = [token for token in state["added_tokens"] if token["content"] not in drop]
    return Tokenizer.from_str(json.dumps(state))


def byte_level(corpus, size, pre, normalizer=None, special=("<|endoftext|>",), **model):
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    train(tokenizer, corpus, size, list(special), pre_tokenizers.ByteLevel.alphabet())
    return changed(tokenizer, **model)


def split_bytes(*patterns, behavior="isolated"):
    return pre_tokenizers.Sequence([*(pre_tokenizers.Split(Regex(p), behavior) for p in patterns),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_fallback(corpus, size, normalizer=None, pre=None, special=("<unk>", "<s>", "</s>"), unk="<unk>", **model):
    """Trained on words; the characters that are rare stay without a token."""
    tokenizer = Tokenizer(models.BPE(unk_token=unk))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    common = ["".join(c for c in text if c in COMMON) for text in corpus]
    train(tokenizer, common, size, [*special, *BYTES])
    state = json.loads(changed(tokenizer, drop=BYTES, byte_fallback=True, fuse_unk=True, **model).to_str())
    state["pre_tokenizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(state))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre:
        tokenizer.pre_tokenizer = pre
    return tokenizer


def gpt2(corpus, size):
    return byte_level(corpus, size, pre_tokenizers.ByteLevel(add_prefix_space=False))


def gpt2_prefix(corpus, size):
    tokenizer = byte_level(corpus, size, pre_tokenizers.ByteLevel(add_prefix_space=True), special=("<s>", "</s>", "<|endoftext|>"))
    tokenizer.add_tokens(ADDED)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    return tokenizer


def smollm2(corpus, size):
    return byte_level(corpus, size, pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]))


def llama3(corpus, size):
    tokenizer = byte_level(corpus, size, split_bytes(LLAMA3), special=("<|endoftext|>", "<s>", "</s>"), ignore_merges=True)
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), template(tokenizer, "<s>")])
    return tokenizer


def qwen2(corpus, size):
    tokenizer = byte_level(corpus, size, split_bytes(QWEN2), normalizers.NFC(), ("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    tokenizer.add_tokens(ADDED)
    return tokenizer


def gpt_oss(corpus, size):
    return byte_level(corpus, size, split_bytes(O200K), special=("<|endoftext|>", "<s>"), ignore_merges=True)


def deepseek(corpus, size):
    tokenizer = byte_level(corpus, size, split_bytes(*DEEPSEEK), special=("<s>", "</s>"))
    tokenizer.post_processor = template(tokenizer, "<s>")
    return tokenizer


def falcon(corpus, size):
    return byte_level(corpus, size, pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")]))


def llama2(corpus, size):
    tokenizer = byte_fallback(corpus, size, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]))
    tokenizer.post_processor = template(tokenizer, "<s>")
    return tokenizer


def llama2_old(corpus, size):
    """Special tokens that are normalized, as in the first conversions."""
    state = json.loads(llama2(corpus, size).to_str())
    for token in state["added_tokens"]:
        token["normalized"] = True
    return Tokenizer.from_str(json.dumps(state))


def mistral(corpus, size):
    tokenizer = byte_fallback(corpus, size, pre=pre_tokenizers.Metaspace(prepend_scheme="first", split=False))
    tokenizer.add_tokens(ADDED)
    tokenizer.post_processor = template(tokenizer, "<s>", "</s>")
    return tokenizer


def gemma(corpus, size):
    tokenizer = byte_fallback(corpus, size, normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"),
                              special=("<pad>", "<eos>", "<bos>", "<unk>"))
    tokenizer.add_tokens([AddedToken(c * n, normalized=False) for c in "\n▁\t" for n in range(2, 12)])
    tokenizer.post_processor = template(tokenizer, "<bos>")
    return tokenizer


def unknown(corpus, size):
    """No bytes to fall back on, unknown characters one by one; words by white space."""
    tokenizer = byte_fallback(corpus, size, normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip()]),
                              pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(),
                                                       pre_tokenizers.Punctuation("isolated")]))
    return changed(tokenizer, byte_fallback=False, fuse_unk=False)


def words(corpus, size):
    """Whitespace, decomposed characters, unknown ones fused."""
    tokenizer = byte_fallback(corpus, size, normalizers.NFD(), pre_tokenizers.Whitespace())
    return changed(tokenizer, byte_fallback=False)


STYLES = {f.__name__.replace("_", "-"): f for f in (
    gpt2, gpt2_prefix, smollm2, llama3, qwen2, gpt_oss, deepseek, falcon, llama2, llama2_old, mistral, gemma, unknown, words)}

PROSE = """The Debian Administrator's Handbook isn't the only book we've read: it'll teach you what you're after, they'd say.
In 2021 there were 59,000 packages; "apt" found 1,234,567 bytes (about 3.14 %) on /dev/sda1.

DON'T SHOUT, he'S said. I'M here; WE'LL see. x'y O'Neill rock'n'roll ''quoted'' and 's alone.
"""
CODE = """def f(x_1: int, *args, **kwargs) -> dict[str, list[int]]:
    \t# tabs and spaces\t\t
    return {"a": [x_1 ** 2 for _ in range(0x7fff_ffff)], 'b': f"{x_1!r:>10}"}  # 2 spaces


#include <stdio.h>\r\nint main(void)\r\n{\r\n\treturn printf("%s\\n", "\\u00e9") != 0 && !(a||b) ? 1 : ~0;\r\n}\r\n
SELECT * FROM `t` WHERE a<>'it''s' -- </s> <|endoftext|>
"""
MIXED = [
    "日本語のテキストと、中文文本。한국어 텍스트도! ｶﾀｶﾅ Ａ１２ ㈱ ㍿",
    "naïve café Zoë Ångström — “quotes” … ½ ² ⅷ ①②③ ﬁ ﬂ ß ẞ İıſ",
    "e\u0301 n\u0303 o\u0302\u0301 \u1ea5 a\u0323\u0302 a\u0302\u0323 \u212b \u2126 \u0344 \u0958 q\u0307\u0323",
    "한글 \u1112\u1161\u11ab\u1100\u1173\u11af \u1100 \u1161\u11ab",
    "👩‍👩‍👧‍👦 👍🏽 🇩🇪🇫🇷 ❤️ 🏳️‍🌈 1️⃣ \U0001fae8\U0001faf7",
    "مرحبا بالعالم ١٢٣ שלום עולם नमस्ते दुनिया १२३ สวัสดี ភាសាខ្មែរ",
    "Привет, мир! Ελληνικά ΌΣΟΣ ꙮ 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙𝟚 𐍈 𠀀𠀁 \U00031350\U0002ebf0",
    "\u200bzero\u200cwidth\u200d \ufeffBOM \u00ad \u180e mongolian \u2060 \u061c",
    "a\u00a0b\u2003c\u3000d\u1680e\u2028f\u2029g\u0085h\u202fi\u205fj\u000bk\u000cl",
    "\u0897\ua7cb\ua7da\u1c89\U00010d40\U00010d4a\U0001e4d0\U0001ccf0 newer than Unicode 14",
]
SPACES = ["", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\r", "\t", " \n", "\n ", "  \n  ", " \n \n a", "a ", " a", "a  b", "a   b    ",
          "\t\t a", "a\n", "a\n\n\nb", "a \n\n  b\r\n\r\n c", "x" + " " * 40 + "y", "\n" * 20 + "z", " \t" * 9, "\u3000\u3000", "\u00a0"]
CONTROLS = ["".join(map(chr, range(1, 32))), "a\0b\0\0", "\x7f\x80\x9f", "\ufffd", "\uffff \ufdd0 \U0010ffff", "\ue000 \U000f0000"]
SPECIAL = ["<s>", "</s>", "<s>hello</s>", " <s> ", "a<s>b", "<unk>", "<|endoftext|>", "x <|endoftext|>  y", "<|endoftext|><|endoftext|>",
           "<|im_start|>user\nhi<|im_end|>\n", "<mask>", "a  <mask>  b", "word<word>word", "<word> a <word>", "é<word>", "<0x0A>",
           "<s", "<<s>>", "<|endoftext", "▁", "▁▁", "▁a", "a▁b", " ▁ ", "<bos>", "Ġ", "aĠb", "Ċ", "strip left", "  both ends both  ",
           "\t\n<lstrip>\n\t<rstrip> \n x", "<rstrip>  <lstrip>", "<rstrip>    y", "Café<norm>É", "cafe\u0301<norm>", "KÄSE käse ka\u0308se"]
LONG = ["a" * 300, "ab" * 200, "supercalifragilisticexpialidocious" * 10, "0123456789" * 30, "!?" * 150, "日" * 200, "é" * 120,
        "e" + "\u0301" * 60, "the" * 100 + " " + "The" * 100, "=" * 100 + "\n" + "-" * 65, "aA" * 60, "1a" * 60]
BROKEN = [b"\xff", b"a\xffb", b"\xc3", b"\xc3(", b"\xe2\x82", b"\xe2\x82x", b"\xe2(\xa1", b"\xf0\x9f\x98", b"\xf0\x9f\x98\xf0\x9f\x98\x80",
          b"\xf0\x9fz", b"\xed\xa0\x80", b"\xed\xb0\x80\xed", b"\xc0\x80", b"\xe0\x80\x80", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80",
          b"\x80\x81\xbf", b"ok\xfe\xfe\xffok", b"\xe2\x82\xac\xe2\x82", b"caf\xe9 latin-1 \xe4\xf6\xfc", b"\xf1\x80\x80\xe1\x80\xc2\x62"]


def texts() -> list[bytes]:
    whole = [PROSE, CODE, *MIXED, *SPACES, *CONTROLS, *SPECIAL, *LONG]
    return [text.encode() for text in whole] + BROKEN


def random_texts(seed: int, n: int) -> list[bytes]:
    """Characters of all kinds, by chance."""
    rng = random.Random(seed)
    pools = ["abcdefghijklmnopqrstuvwxyzABC", " \n\t\r ", "0123456789", ".,;:!?'\"-()[]{}<>|/\\@#$%^&*_=+~`", "'s't're've'm'll'd'S'LL",
             "éèüßñçøåæœ", "日本語漢字かなカナ한국어", "\u0300\u0301\u0308\u0327\u0331\u093c\u064b", "👍👩🏽\u200d❤️🇩🇪", "\u00a0\u2003\u3000\u200b\u2028\u0085",
             "▁Ġ", "αβγДЖж", "العربية", "हिन्दी", "".join(map(chr, range(0x20))), "①½²Ⅷ५"]
    special = ["<s>", "</s>", "<|endoftext|>", "<mask>", "<lstrip>", "<rstrip>", "<word>", "<norm>", "<0x41>"]
    out = []
    for _ in range(n):
        parts = []
        for _ in range(rng.randrange(1, 40)):
            kind = rng.random()
            if kind < 0.06:
                parts.append(rng.choice(special))
            elif kind < 0.12:
                parts.append(chr(rng.choice([rng.randrange(0x80), rng.randrange(0x3000), rng.randrange(0xd800), rng.randrange(0xe000, 0x20000),
                                             rng.randrange(0xe000, 0x110000)])))
            else:
                pool = rng.choice(pools)
                parts.append("".join(rng.choice(pool) for _ in range(rng.randrange(1, 9))))
        text = "".join(parts).encode()
        if rng.random() < 0.2:
            text = bytearray(text)
            for _ in range(rng.randrange(1, 6)):
                text[rng.randrange(len(text))] = rng.randrange(256)
        out.append(bytes(text))
    return out


def read_as_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
