# SPDX-License-Identifier: Apache-2.0
"""Small tokenizers in the styles of known models, trained by the tokenizers package."""
import json

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
