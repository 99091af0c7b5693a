#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train the checkpoint tiny-llama on an English text, in some minutes on one CPU core.

    python train.py TEXT OUT

Trains a byte-level BPE tokenizer of 1024 tokens (Llama 3's way of splitting text) and then a
Llama of 4 layers, on the first nine tenths of the text; the last tenth measures.  Weights are
trained in fp32 and saved in BF16.  Seeded: the same bytes again on the same machine and versions.

Made with torch 2.15.0, transformers 5.23.0 and tokenizers 0.23.3; tests/conformance/venv.sh
makes an environment that has them.
"""
import math
import pathlib
import sys

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCAB, WINDOW, BATCH, STEPS, RATE, NOISE = 1024, 128, 16, 1500, 3e-3, 0.15
END = "<|endoftext|>"
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def train_tokenizer(text):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=[END], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def make_model():
    """Every linear layer has multiples of 128 rows and columns."""
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCAB, hidden_size=128, intermediate_size=256, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2, head_dim=64, max_position_embeddings=512,
        tie_word_embeddings=True, bos_token_id=0, eos_token_id=0))


def unigram_loss(train, held_out):
    """Nats a token when each is guessed by its share of the training text."""
    counts = torch.bincount(train, minlength=VOCAB) + 1
    return -(counts / counts.sum()).log()[held_out].mean().item()


@torch.no_grad()
def model_loss(model, tokens):
    """Nats a token over consecutive windows; the first token of each is only context."""
    model.eval()
    windows = tokens[:len(tokens) // WINDOW * WINDOW].view(-1, WINDOW)
    losses = [model(input_ids=w, labels=w).loss.item() * len(w) for w in windows.split(BATCH)]
    return sum(losses) / len(windows)


def learning_rate(step):
    warm = min(1, (step + 1) / 50)
    return RATE * warm * (0.05 + 0.95 * (1 + math.cos(math.pi * step / STEPS)) / 2)


def fit(model, train, held_out):
    """Some input tokens are replaced by random ones, or so small a text is soon known by heart."""
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.3},
                                   {"params": others, "weight_decay": 0.0}], betas=(0.9, 0.95))
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        starts = torch.randint(0, len(train) - WINDOW, (BATCH, 1))
        batch = train[starts + torch.arange(WINDOW)]
        noise = torch.rand(batch.shape) < NOISE
        noisy = torch.where(noise, torch.randint_like(batch, VOCAB), batch)
        model.train()
        loss = model(input_ids=noisy, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss.item():.3f}, "
                  f"held out {model_loss(model, held_out):.3f}", flush=True)


def main():
    text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    out = pathlib.Path(sys.argv[2])
    cut = text.index("\n\n", len(text) * 9 // 10)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    tokenizer = train_tokenizer(text[:cut])
    train, held_out = (torch.tensor(tokenizer.encode(part).ids)
                       for part in (text[:cut], text[cut:]))
    model = make_model()
    print(f"{model.num_parameters()} parameters, {len(train)} tokens, {len(held_out)} held out")
    fit(model, train, held_out)

    model = model.to(torch.bfloat16)
    model.save_pretrained(out)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END, eos_token=END,
                            model_max_length=512).save_pretrained(out)
    model = model.float()                                   # the saved weights, computed in fp32
    print(f"unigram: {unigram_loss(train, held_out):.3f} nats a token held out")
    print(f"model:   {model_loss(model, held_out):.3f} held out, "
          f"{model_loss(model, train):.3f} training text")


if __name__ == "__main__":
    main()
