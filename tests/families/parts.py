# SPDX-License-Identifier: Apache-2.0
"""Parts of models: the tensors of a layer's parts in small sizes, a configuration, and the rules that most cases share."""
H, I, E, V = 256, 128, 4, 512           # hidden, expert width, experts, vocabulary
NB = ("named", "quantize", "quantize")  # kept by 128 x 128 blocks alone

def ends(prefix="model.", head="lm_head.weight", embed="embed_tokens"):
    return [(prefix + embed + ".weight", (V, H)), (prefix + "norm.weight", (H,)), (head, (V, H))]


def attention(p, q=256, kv=128, o=None, names=("q_proj", "k_proj", "v_proj", "o_proj")):
    return [(p + names[0] + ".weight", (q, H)), (p + names[1] + ".weight", (kv, H)), (p + names[2] + ".weight", (kv, H)), (p + names[3] + ".weight", (H, o or q))]


def mlp(p, width=384, h=None, names=("gate_proj", "up_proj", "down_proj")):
    h = h or H
    return [(p + names[0] + ".weight", (width, h)), (p + names[1] + ".weight", (width, h)), (p + names[2] + ".weight", (h, width))]


W = ("w1", "w3", "w2")


def experts(p, width=I, h=None, names=("gate_proj", "up_proj", "down_proj"), n=E):
    return [t for e in range(n) for t in mlp("%s%d." % (p, e), width, h, names)]


def fused(p, width=I, h=None, transposed=False):
    h = h or H
    a, b = (2 * width, h), (h, width)
    return [(p + "gate_up_proj", (E,) + (a[::-1] if transposed else a)), (p + "down_proj", (E,) + (b[::-1] if transposed else b))]


def mla(p, q_rank=256, kv_rank=128, rope=64, heads=2, nope=128, v=128):
    return [(p + "q_a_proj.weight", (q_rank, H)), (p + "q_a_layernorm.weight", (q_rank,)), (p + "q_b_proj.weight", (heads * (nope + rope), q_rank)),
            (p + "kv_a_proj_with_mqa.weight", (kv_rank + rope, H)), (p + "kv_a_layernorm.weight", (kv_rank,)),
            (p + "kv_b_proj.weight", (heads * (nope + v), kv_rank)), (p + "o_proj.weight", (H, heads * v))]


def delta_net(p):
    """Qwen's gated delta net, 2 heads of 128"""
    return [(p + "in_proj_qkv.weight", (768, H)), (p + "in_proj_z.weight", (256, H)), (p + "in_proj_a.weight", (32, H)), (p + "in_proj_b.weight", (32, H)),
            (p + "conv1d.weight", (768, 1, 4)), (p + "out_proj.weight", (H, 256)), (p + "A_log", (32,)), (p + "dt_bias", (32,)), (p + "norm.weight", (128,))]


def vision(p="model.visual."):
    return [(p + "blocks.0.attn.qkv.weight", (384, 128)), (p + "blocks.0.attn.proj.weight", (128, 128)), (p + "blocks.0.mlp.linear_fc1.weight", (336, 128)),
            (p + "merger.linear_fc1.weight", (512, 512)), (p + "merger.linear_fc2.weight", (H, 512)), (p + "patch_embed.proj.weight", (128, 3, 2, 16, 16)),
            (p + "pos_embed.weight", (256, 128))]


def qkv(p, *more):
    return [p + n + ".weight" for n in ("q_proj", "k_proj", "v_proj") + more]


def text(kind, **keys):
    return dict({"model_type": kind, "hidden_size": H, "moe_intermediate_size": I, "num_experts": E, "num_attention_heads": 2, "num_key_value_heads": 1,
                 "head_dim": 128, "num_hidden_layers": 4, "vocab_size": V, "torch_dtype": "bfloat16"}, **keys)


L = "model.layers."
LL = "model.language_model.layers."
M = "language_model.model.layers."
HEADS = (r"lm_head|shared_head|(^|\.)(head|output|unembed)\.weight$", "named")
GATES = (r"(mlp|moe|block_sparse_moe|feed_forward|ffn|mixer)\.gate(\.wg)?\.weight|shared_expert_gate|router", "named")
VISION = (r"visual|vision|merger|mm_projector|multi_modal_projector|embed_vision|embed_audio|audio|projector", "named")
MTP = (r"eh_proj|mtp\.fc", "named")
REST = (r"\.weight$", "quantize")
IN_BLOCKS = {"blockwise": ["not-loaded"], "mxfp8": ["not-loaded"]}  # SGLang's classes of Llama and Phi drop these scales
