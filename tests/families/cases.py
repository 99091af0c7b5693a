# SPDX-License-Identifier: Apache-2.0
"""The cases: tensors of released model families, and what `quantize` must do with each; expected.py says how.

Names, data types, config keys and the number of dimensions are the releases'; sizes are cut down to a few hundred, with the
remainders by 128 and 32 that decide (1856 becomes 192, one and a half blocks; a head count stays below a block).  One layer of each
kind, four experts, 512 words.
"""
from expected import CASES, RECIPES, case
from parts import (attention, delta_net, E, ends, experts, fused, GATES, H, HEADS, I, IN_BLOCKS, L, LL, M, mla, mlp,
                   MTP, NB, qkv, REST, text, V, VISION, vision, W)

# ---------------------------------------------------------------- dense, Qwen, DeepSeek, GLM

case("llama", text("llama", architectures=["LlamaForCausalLM"]), ends(), attention(L + "0.self_attn."), mlp(L + "0.mlp."), (L + "0.input_layernorm.weight", (H,)),
     rules=[HEADS, REST], bonds=[qkv(L + "0.self_attn."), [L + "0.mlp.gate_proj.weight", L + "0.mlp.up_proj.weight"]], notes=IN_BLOCKS)

case("phi4mm", text("phi4mm", architectures=["Phi4MMForCausalLM"]), ends(),
     [(L + "0.self_attn.qkv_proj.base_layer.weight", (512, H)), (L + "0.self_attn.qkv_proj.lora_A.speech.weight", (32, H)),
      (L + "0.self_attn.qkv_proj.lora_B.speech.weight", (512, 32)), (L + "0.mlp.gate_up_proj.base_layer.weight", (768, H)),
      ("model.embed_tokens_extend.image_embed.img_processor.encoder.layers.0.self_attn.q_proj.weight", (128, 128)),
      ("model.embed_tokens_extend.image_embed.img_projection.0.weight", (H, 128)),
      ("model.embed_tokens_extend.audio_embed.encoder.encoders.0.self_attn.linear_q.weight", (128, 128))],
     rules=[HEADS, (r"lora_|image_embed|audio_embed", "named"), REST])

case("qwen3_next", text("qwen3_next", architectures=["Qwen3NextForCausalLM"]), ends(),
     [(L + "0.linear_attn.in_proj_qkvz.weight", (1024, H)), (L + "0.linear_attn.in_proj_ba.weight", (64, H)), (L + "0.linear_attn.conv1d.weight", (768, 1, 4)),
      (L + "0.linear_attn.out_proj.weight", (H, 256)), (L + "0.linear_attn.A_log", (32,)), (L + "0.mlp.gate.weight", (E, H)), (L + "0.mlp.shared_expert_gate.weight", (1, H)),
      ("mtp.fc.weight", (H, 2 * H))], mlp(L + "0.mlp.shared_expert.", I), experts(L + "0.mlp.experts."), attention(L + "3.self_attn.", 512, 128, 256),
     attention("mtp.layers.0.self_attn.", 512, 128, 256), rules=[HEADS, GATES, MTP, (r"in_proj_ba", "named"), REST])

case("qwen3_5_moe", {"model_type": "qwen3_5_moe", "architectures": ["Qwen3_5MoeForConditionalGeneration"], "text_config": text("qwen3_5_moe_text")},
     ends("model.language_model."), delta_net(LL + "0.linear_attn."), [(LL + "0.mlp.gate.weight", (E, H)), (LL + "0.mlp.shared_expert_gate.weight", (1, H)), ("mtp.fc.weight", (H, 2 * H))],
     fused(LL + "0.mlp.experts."), mlp(LL + "0.mlp.shared_expert.", I), attention(LL + "3.self_attn.", 512, 128, 256), vision(), fused("mtp.layers.0.mlp.experts."),
     rules=[HEADS, GATES, MTP, VISION, (r"in_proj_[ab]\.", "named"), (r"(mlp|feed_forward)\.experts\.(gate_up|down)_proj", "split"), REST],
     bonds=[[LL + "0.linear_attn.in_proj_qkv.weight", LL + "0.linear_attn.in_proj_z.weight"]])

case("qwen3_5_dense", {"model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"], "text_config": text("qwen3_5_text")}, ends("model.language_model."),
     delta_net(LL + "0.linear_attn."), mlp(LL + "0.mlp."), attention(LL + "3.self_attn.", 512, 128, 256), vision(), [("mtp.fc.weight", (H, 2 * H))], mlp("mtp.layers.0.mlp."),
     rules=[HEADS, MTP, VISION, (r"in_proj_[ab]\.", "named"), REST])

FLASH = "transformers #48349"
case("qwen3_8_flash_next", {"model_type": "qwen4_exp", "architectures": ["Qwen4ExpForConditionalGeneration"], "text_config": text("qwen4_exp_text")}, ends("model.language_model."),
     delta_net(LL + "0.linear_attn."), attention(LL + "3.self_attn.", 512, 128, 256),
     [(LL + "3.self_attn.indexer.index_qk_proj.weight", (384, H)), (LL + "3.self_attn.indexer.q_layernorm.weight", (128,)), (LL + "0.attn_hyper_connection.hc_norm.weight", (4 * H,)),
      (LL + "0.attn_hyper_connection.input_mix_weight_down.weight", (128, 4 * H)), (LL + "0.attn_hyper_connection.input_mix_weight_up.weight", (4 * H, 128)),
      (LL + "0.attn_hyper_connection.block_inject_weight.weight", (4, 4 * H)), ("model.language_model.hyper_connection_mixer.input_mix_weight_down.weight", (128, 4 * H)),
      (LL + "1.ple.key_proj.weight", (4 * H, 128)), (LL + "1.ple.value_proj.weight", (H, 128)), (LL + "1.ple.conv1d.weight", (4 * H, 1, 4)),
      (LL + "1.ple.ple_embedding.ngram_embedding.shard_0.weight", (384, 32)), (LL + "1.ple.ple_embedding.ngram_embedding.shard_1.weight", (384, 32)),
      (LL + "0.mlp.gate.weight", (E, H)), (LL + "0.mlp.shared_expert_gate.weight", (1, H))], fused(LL + "0.mlp.experts."), mlp(LL + "0.mlp.shared_expert.", I), vision(),
     rules=[HEADS, GATES, (r"hyper_connection(_mixer)?\.(?!hc_norm)", "named", "vendor", FLASH), (r"ple\.(key|value)_proj", "named", "vendor", FLASH),
            (r"ngram_embedding\.shard", "free", "engine", "sglang qwen4_exp.py"), VISION, (r"in_proj_[ab]\.", "named"),
            (r"(mlp|feed_forward)\.experts\.(gate_up|down)_proj", "split"), REST],
     by_format=[(r"ngram_embedding\.shard", r + "/hf", "quantize") for r in ("blockwise", "mxfp8", "current")], bare="hyper_connection")

case("qwen3_vl_moe", {"model_type": "qwen3_vl_moe", "architectures": ["Qwen3VLMoeForConditionalGeneration"], "text_config": text("qwen3_vl_moe_text")}, ends("model.language_model."),
     attention(LL + "0.self_attn."), [(LL + "0.mlp.gate.weight", (E, H))], fused(LL + "0.mlp.experts.", transposed=True), vision(),
     rules=[HEADS, GATES, VISION, (r"(mlp|feed_forward)\.experts\.(gate_up|down)_proj", "split"), REST], layout="transposed", notes={r: ["not-loaded"] for r in RECIPES})

T = "thinker.model.layers."
case("qwen3_omni", {"model_type": "qwen3_omni_moe", "architectures": ["Qwen3OmniMoeForConditionalGeneration"], "thinker_config": {"text_config": text("qwen3_omni_moe_text")}},
     ends("thinker.model.", "thinker.lm_head.weight"), attention(T + "0.self_attn."), [(T + "0.mlp.gate.weight", (E, H))], experts(T + "0.mlp.experts."),
     [("thinker.audio_tower.layers.0.self_attn.q_proj.weight", (128, 128)), ("thinker.audio_tower.conv_out.weight", (128, 384)), ("thinker.visual.blocks.0.attn.qkv.weight", (384, 128)),
      ("thinker.visual.merger.mlp.0.weight", (512, 512)), ("talker.model.layers.0.self_attn.q_proj.weight", (256, 128)), ("talker.codec_head.weight", (384, 128)),
      ("talker.text_projection.linear_fc1.weight", (256, 256)), ("code2wav.pre_transformer.layers.0.self_attn.q_proj.weight", (128, 128))],
     rules=[HEADS, GATES, (r"audio_tower|visual|talker|code2wav", "named"), REST])

case("deepseek_v3", text("deepseek_v3", architectures=["DeepseekV3ForCausalLM"], n_routed_experts=E, num_key_value_heads=2), ends(), mla(L + "3.self_attn."),
     [(L + "3.mlp.gate.weight", (E, H)), (L + "3.mlp.gate.e_score_correction_bias", (E,), "F32"), (L + "4.eh_proj.weight", (H, 2 * H)), (L + "4.enorm.weight", (H,)),
      (L + "4.shared_head.head.weight", (V, H)), (L + "4.embed_tokens.weight", (V, H))], experts(L + "3.mlp.experts."), mlp(L + "3.mlp.shared_experts.", I),
     rules=[HEADS, GATES, MTP, REST], bonds=[[L + "3.self_attn.q_a_proj.weight", L + "3.self_attn.kv_a_proj_with_mqa.weight"]])

for name, kind, arch in (("deepseek_v32", "deepseek_v32", "DeepseekV32ForCausalLM"), ("glm5", "glm_moe_dsa", "GlmMoeDsaForCausalLM")):
    case(name, text(kind, architectures=[arch], n_routed_experts=E, num_key_value_heads=2), ends(), mla(L + "3.self_attn."),
         [(L + "3.self_attn.indexer.wq_b.weight", (256, 256)), (L + "3.self_attn.indexer.wk.weight", (128, H)), (L + "3.self_attn.indexer.weights_proj.weight", (64, H)),
          (L + "3.self_attn.indexer.k_norm.weight", (128,), "F32"), (L + "3.mlp.gate.weight", (E, H))], experts(L + "3.mlp.experts."), mlp(L + "3.mlp.shared_experts.", I),
         rules=[HEADS, GATES, (r"weights_proj", "named"), (r"indexer\.wk\.", ("quantize", "named", "named"), "engine", "vllm deepseek_v2.py"), REST],
         by_format=[(r"indexer\.wk\.", "channelwise/modelopt", "quantize"), (r"indexer\.wk\.", "blockwise/modelopt", "named")])

A = "layers.0.attn."
case("deepseek_v4", text("deepseek_v4", architectures=["DeepseekV4ForCausalLM"], n_routed_experts=E),
     [("embed.weight", (V, H)), ("head.weight", (V, H)), ("norm.weight", (H,)), ("hc_head_fn", (4, 4 * H), "F32"), ("layers.0.hc_attn_fn", (24, 4 * H), "F32"),
      ("hc_head_scale", (1,), "F32"), ("layers.0.hc_attn_scale", (3,), "F32"), ("layers.0.hc_attn_base", (24,), "F32"),
      (A + "wq_a.weight", (256, H)), (A + "q_norm.weight", (256,)), (A + "wq_b.weight", (512, 256)), (A + "wkv.weight", (128, H)), (A + "wo_a.weight", (256, H)), (A + "wo_b.weight", (H, 256)),
      (A + "attn_sink", (64,), "F32"), (A + "compressor.ape", (4, 128), "F32"), (A + "compressor.wkv.weight", (128, H)), (A + "compressor.wgate.weight", (128, H)),
      (A + "compressor.norm.weight", (128,)), (A + "indexer.wq_b.weight", (256, 256)), (A + "indexer.weights_proj.weight", (64, H)),
      (A + "indexer.compressor.wkv.weight", (128, H)), (A + "indexer.compressor.wgate.weight", (128, H)), ("layers.0.ffn.gate.weight", (E, H)), ("layers.0.ffn.gate.tid2eid", (V, 6), "I32"),
      ("mtp.0.e_proj.weight", (H, H)), ("mtp.0.h_proj.weight", (H, H)), ("mtp.0.enorm.weight", (H,))], experts("layers.0.ffn.experts.", names=W), mlp("layers.0.ffn.shared_experts.", I, names=W),
     rules=[HEADS, GATES, (r"hc_|\.ape$", "named"), (r"compressor\.w", "named", "engine", "vllm deepseek_v4/compressor.py"), (r"weights_proj", "named"), REST],
     bonds=[[A + "wq_a.weight", A + "wkv.weight"]], extra={"expert_dtype": "fp8"}, bare="compressor")

GLM = "sglang #39563"
KDA = [("q_proj", 256), ("k_proj", 256), ("v_proj", 256), ("b_proj", 64), ("f_a_proj", 128), ("g_a_proj", 128)]
case("glm5_3_flash", {"model_type": "glm5_next", "architectures": ["Glm5NextForConditionalGeneration"], "text_config": text("glm5_next_text", n_routed_experts=E)}, ends("model.language_model."),
     [(LL + "0.self_attn.%s.weight" % n, (r, H)) for n, r in KDA], [(LL + "0.self_attn.f_b_proj.weight", (256, 128)), (LL + "0.self_attn.g_b_proj.weight", (256, 128)),
      (LL + "0.self_attn.o_proj.weight", (H, 256)), (LL + "0.self_attn.q_conv1d.weight", (256, 1, 4)), (LL + "0.self_attn.A_log", (64,)), (LL + "0.hc_attn_fn", (24, 4 * H), "F32"),
      (LL + "3.self_attn.indexer.wk.weight", (128, H)), (LL + "3.self_attn.indexer.weights_proj.weight", (32, H)), (LL + "3.self_attn.indexer.index_kpool_compress_gate", (128, H)),
      (LL + "3.mlp.gate.weight", (E, H))], mla(LL + "3.self_attn."), experts(LL + "3.mlp.experts."), mlp(LL + "3.mlp.shared_experts.", I), mlp(LL + "0.mlp."),
     rules=[HEADS, GATES, (r"hc_", "named"), (r"self_attn\.", "named", "vendor", GLM), REST])

# ---------------------------------------------------------------- Kimi, MiniMax, Nemotron

K = "language_model.model.layers."
case("kimi_k25", {"model_type": "kimi_k25", "architectures": ["KimiK25ForConditionalGeneration"], "text_config": text("kimi_k2", n_routed_experts=E)},
     ends("language_model.model.", "language_model.lm_head.weight"), mla(K + "1.self_attn."), [(K + "1.mlp.gate.weight", (E, H))], experts(K + "1.mlp.experts."), mlp(K + "1.mlp.shared_experts.", I),
     [("vision_tower.encoder.blocks.0.wqkv.weight", (384, 128)), ("vision_tower.encoder.blocks.0.mlp.fc0.weight", (336, 128)), ("vision_tower.patch_embed.pos_emb.weight", (64, 64, 128)),
      ("mm_projector.proj.0.weight", (512, 512))], rules=[HEADS, GATES, (r"patch_embed", "named"), VISION, REST])

K3 = "vllm kimi_k3/nvidia/model.py"
S = K + "0.self_attn."
case("kimi_k3", {"model_type": "kimi_k3", "architectures": ["KimiK3ForConditionalGeneration"], "text_config": text("kimi_linear")}, ends("language_model.model.", "language_model.lm_head.weight"),
     attention(S, 256, 256), [(S + "f_a_proj.weight", (128, H)), (S + "f_b_proj.weight", (256, 128)), (S + "b_proj.weight", (96, H)), (S + "g_proj.weight", (256, H)),
      (K + "0.self_attention_res_proj.weight", (1, H)), (K + "0.mlp_res_proj.weight", (1, H)), ("language_model.model.output_attn_res_proj.weight", (1, H)),
      (K + "1.block_sparse_moe.routed_expert_down_proj.weight", (128, H)), (K + "1.block_sparse_moe.routed_expert_up_proj.weight", (H, 128)), (K + "1.block_sparse_moe.gate.weight", (E, H))],
     experts(K + "1.block_sparse_moe.experts.", I, 128, W), mlp(K + "1.block_sparse_moe.shared_experts.", I),
     rules=[HEADS, GATES, (r"_res_proj|routed_expert_(down|up)_proj", "named", "engine", K3), (r"shared_experts", "named", "vendor", "modelopt models/moonshotai/Kimi-K3"),
            (r"layers\.0\.self_attn\.(q|k|v|g|b|f_a)_proj", NB), REST], bonds=[qkv(S, "g_proj", "b_proj", "f_a_proj")], bare="res_proj|routed_expert")

case("minimax_m2", text("minimax_m2", architectures=["MiniMaxM2ForCausalLM"], num_local_experts=E, intermediate_size=I), ends(), attention(L + "0.self_attn."),
     [(L + "0.self_attn.q_norm.weight", (256,)), (L + "0.block_sparse_moe.gate.weight", (E, H)), (L + "0.block_sparse_moe.e_score_correction_bias", (E,))],
     experts(L + "0.block_sparse_moe.experts.", names=W), rules=[HEADS, GATES, REST])

N = "backbone.layers."
NEMO = "modelopt mamba_moe_disabled_quantizers"


def nemotron(name, latent, width, notes=None):
    h = latent or H
    moe = [t for e in range(E) for t in ((N + "1.mixer.experts.%d.up_proj.weight" % e, (width, h)), (N + "1.mixer.experts.%d.down_proj.weight" % e, (h, width)))]
    lat = [(N + "1.mixer.fc1_latent_proj.weight", (latent, H)), (N + "1.mixer.fc2_latent_proj.weight", (H, latent))] if latent else []
    case(name, text("nemotron_h", architectures=["NemotronHForCausalLM"], moe_intermediate_size=width),
         [("backbone.embeddings.weight", (V, H)), ("backbone.norm_f.weight", (H,)), ("lm_head.weight", (V, H)), (N + "0.norm.weight", (H,)), (N + "0.mixer.in_proj.weight", (832, H)),
          (N + "0.mixer.out_proj.weight", (H, 256)), (N + "0.mixer.conv1d.weight", (512, 1, 4)), (N + "0.mixer.A_log", (64,)), (N + "1.mixer.gate.weight", (E, H)),
          (N + "1.mixer.shared_experts.up_proj.weight", (128, H)), (N + "1.mixer.shared_experts.down_proj.weight", (H, 128)),
          ("mtp.layers.0.eh_proj.weight", (H, 2 * H)), ("mtp.layers.1.mixer.gate.weight", (E, H))], moe, lat, attention(N + "5.mixer."), attention("mtp.layers.0.mixer."),
         rules=[HEADS, GATES, (r"^mtp\.", "named", "vendor", NEMO), (r"[qkvo]_proj", "named", "vendor", NEMO), (r"latent_proj", "named", "vendor", NEMO),
                (r"\.experts\.", NB if width % 128 else "quantize"), (r"mixer\.in_proj", NB), REST],
         experts={N + "1.mixer.experts": r"\.experts\."} if width % 128 else None, notes=notes or {})


nemotron("nemotron3_super", 128, 256)
nemotron("nemotron3_nano", None, 960, {"blockwise": ["mostly-kept"]})

# ---------------------------------------------------------------- fused experts under other names

STEP = "TensorRT-LLM #14759"
case("step3p5", text("step3p5", architectures=["Step3p5ForCausalLM"], moe_num_experts=E, num_hidden_layers=45), ends(), attention(L + "3.self_attn."),
     [(L + "3.self_attn.g_proj.weight", (96, H)), (L + "3.moe.gate.weight", (E, H)), (L + "3.moe.router_bias", (E,)), (L + "3.moe.gate_proj.weight", (E, I, H)), (L + "3.moe.up_proj.weight", (E, I, H)),
      (L + "3.moe.down_proj.weight", (E, H, I)), (L + "45.eh_proj.weight", (H, 2 * H)), (L + "45.transformer.shared_head.output.weight", (V, H)),
      (L + "45.transformer.shared_head.norm.weight", (H,))], mlp(L + "3.share_expert.", I), mlp(L + "0.mlp."),
     rules=[(r"moe\.(gate|up|down)_proj", "stack"), (r"self_attn|share_expert|layers\.0\.mlp", "named", "vendor", STEP), (r".", "named")],
     bonds=[[L + "3.moe.%s_proj.weight" % x for x in ("gate", "up", "down")]], experts={L + "3.moe.experts": r"moe\.(gate|up|down)_proj"}, bare="g_proj")

case("granite3_moe", text("granitemoe", architectures=["GraniteMoeForCausalLM"], num_local_experts=E, intermediate_size=I), ends(), attention(L + "0.self_attn."),
     [(L + "0.block_sparse_moe.input_linear.weight", (E, 2 * I, H)), (L + "0.block_sparse_moe.output_linear.weight", (E, H, I)), (L + "0.block_sparse_moe.router.layer.weight", (E, H))],
     rules=[HEADS, GATES, (r"(in|out)put_linear", "split"), REST], notes={r: ["not-loaded"] for r in RECIPES})

case("gemma4_31b", {"model_type": "gemma4", "architectures": ["Gemma4ForConditionalGeneration"], "text_config": text("gemma4_text", intermediate_size=384)},
     [("model.language_model.embed_tokens.weight", (V, H))], attention(LL + "0.self_attn."), [(LL + "5.self_attn.q_proj.weight", (512, H)), (LL + "5.self_attn.k_proj.weight", (128, H)),
      (LL + "5.self_attn.o_proj.weight", (H, 512)), ("model.embed_vision.embedding_projection.weight", (H, 128)), ("model.vision_tower.encoder.layers.0.self_attn.q_proj.linear.weight", (128, 128))],
     mlp(LL + "0.mlp."), rules=[VISION, REST])

case("gemma4_e2b", {"model_type": "gemma4", "architectures": ["Gemma4ForConditionalGeneration"], "text_config": text("gemma4_text", intermediate_size=384)},
     [("model.language_model.embed_tokens.weight", (V, H)), ("model.language_model.embed_tokens_per_layer.weight", (V, 256)), ("model.language_model.per_layer_model_projection.weight", (256, H)),
      (LL + "0.per_layer_input_gate.weight", (128, H)), (LL + "0.per_layer_projection.weight", (H, 128)), ("model.audio_tower.layers.0.feed_forward1.ffw_layer_1.linear.weight", (512, 128)),
      ("model.embed_audio.embedding_projection.weight", (H, H))], attention(LL + "0.self_attn."), mlp(LL + "0.mlp."), rules=[VISION, (r"per_layer_", "named"), REST])

# vllm mistral3.py renames the scales of blocks in hf, and transformers merges no single experts: a note
case("mistral4", {"model_type": "mistral3", "architectures": ["Mistral3ForConditionalGeneration"], "text_config": text("mistral4", n_routed_experts=E)}, ends("model.language_model."),
     mla(LL + "0.self_attn."), [(LL + "0.mlp.gate.weight", (E, H)), ("model.vision_tower.transformer.layers.0.attention.q_proj.weight", (128, 128)),
      ("model.multi_modal_projector.linear_1.weight", (H, 128)), ("model.multi_modal_projector.patch_merger.merging_layer.weight", (128, 512))], fused(LL + "0.mlp.experts."),
     mlp(LL + "0.mlp.shared_experts.", I), rules=[HEADS, GATES, VISION, (r"(mlp|feed_forward)\.experts\.(gate_up|down)_proj", "split"), REST], notes={r: ["not-loaded"] for r in RECIPES})

P = "layers.0."
case("mistral_native", {}, [("tok_embeddings.weight", (V, H)), ("output.weight", (V, H)), ("norm.weight", (H,)), (P + "attention.wq_a.weight", (256, H)), (P + "attention.q_a_norm.weight", (256,)),
      (P + "attention.wq_b.weight", (384, 256)), (P + "attention.wkv_a_with_mqa.weight", (192, H)), (P + "attention.wkv_b.weight", (512, 128)), (P + "attention.wo.weight", (H, 256)),
      (P + "gate.weight", (E, H)), ("vision_encoder.transformer.layers.0.attention.wq.weight", (128, 128)), ("vision_encoder.patch_conv.weight", (128, 3, 14, 14)),
      ("vision_language_adapter.w_in.weight", (H, 128)), ("patch_merger.merging_layer.weight", (128, 512))], experts(P + "experts.", names=W), mlp(P + "shared_experts.", I, names=W),
     mlp("layers.1.feed_forward.", names=W), rules=[HEADS, (r"layers\.0\.gate", "named"), (r"vision_|patch_merger", "named"), REST])

case("voxtral_native", {}, [("mm_streams_embeddings.embedding_module.tok_embeddings.weight", (V, H)), ("mm_whisper_embeddings.tok_embeddings.weight", (V, H)),
      ("mm_whisper_embeddings.whisper_encoder.transformer.layers.0.attention.wq.weight", (128, 128)), ("mm_whisper_embeddings.whisper_encoder.transformer.layers.0.feed_forward.w1.weight", (512, 128)),
      ("mm_whisper_embeddings.audio_language_projection.0.weight", (H, 512)), (P + "attention.wq.weight", (256, H)), (P + "attention.wk.weight", (128, H)), (P + "attention.wv.weight", (128, H)),
      (P + "attention.wo.weight", (H, 256)), ("output.weight", (V, H))], rules=[HEADS, (r"mm_whisper", "named"), REST])

case("llama4", {"model_type": "llama4", "architectures": ["Llama4ForConditionalGeneration"], "text_config": text("llama4_text", num_local_experts=E, intermediate_size=I)},
     ends("language_model.model.", "language_model.lm_head.weight"), attention(M + "0.self_attn."), [(M + "0.feed_forward.router.weight", (E, H)),
      ("vision_model.model.layers.0.self_attn.q_proj.weight", (128, 128)), ("multi_modal_projector.linear_1.weight", (H, 128))], fused(M + "0.feed_forward.experts.", transposed=True),
     mlp(M + "0.feed_forward.shared_expert.", I), rules=[HEADS, GATES, VISION, (r"(mlp|feed_forward)\.experts\.(gate_up|down)_proj", "split"), REST],
     layout="transposed", notes=IN_BLOCKS)

case("gpt_oss_bf16", text("gpt_oss", architectures=["GptOssForCausalLM"], num_local_experts=E, intermediate_size=I), ends(), attention(L + "0.self_attn."),
     [(L + "0.self_attn.sinks", (64,)), (L + "0.mlp.router.weight", (E, H)), (L + "0.mlp.router.bias", (E,)), (L + "0.mlp.experts.gate_up_proj_bias", (E, 2 * I)), (L + "0.mlp.experts.down_proj_bias", (E, H))],
     fused(L + "0.mlp.experts.", transposed=True), rules=[HEADS, GATES, (r"_bias$", "split"), (r"(mlp|feed_forward)\.experts\.(gate_up|down)_proj", "split"), REST],
     notes={r: ["not-loaded"] for r in RECIPES}, layout="interleaved")

case("inkling", {"model_type": "inkling_mm_model", "architectures": ["InklingForConditionalGeneration"], "text_config": text("inkling_text")},
     [("model.llm.embed.weight", (V, H)), ("model.llm.unembed.weight", (V, H)), ("model.llm.embed_norm.weight", (H,))], [("model.llm.layers.0.attn.%s.weight" % n, s) for n, s in
      (("wq_du", (256, H)), ("wk_dv", (128, H)), ("wv_dv", (128, H)), ("wr_du", (128, H)), ("wo_ud", (H, 256)))], [("model.llm.layers.0.attn.k_sconv.weight", (128, 1, 4)),
      ("model.llm.layers.0.mlp.gate.weight", (E, H)), ("model.llm.layers.0.mlp.experts.w13_weight", (8, 2 * I, H)), ("model.llm.layers.0.mlp.experts.w2_weight", (8, H, I)),
      ("model.llm.layers.0.mlp.shared_experts.shared_w13_weight", (2, 2 * I, H)), ("model.llm.layers.0.mlp.shared_experts.shared_w2_weight", (2, H, I)),
      ("model.llm.layers.1.mlp.w13_dn.weight", (512, H)), ("model.llm.layers.1.mlp.w2_md.weight", (H, 256)), ("model.visual.layers.linear_0.weight", (128, 128))],
     rules=[HEADS, GATES, VISION, (r"shared_w", "named", "engine", "vllm inkling"), (r"experts\.w(13|2)_weight", ("named", "stack", "named"), "engine", "vllm inkling"),
            (r"w13_dn", ("named", "quantize", "quantize"), "engine", "transformers conversion_mapping"), REST],
     experts={"model.llm.layers.0.mlp.experts": r"experts\.w(13|2)_weight"}, notes={"blockwise": ["mostly-kept", "not-loaded"], "mxfp8": ["mostly-kept", "not-loaded"], "channelwise": ["not-loaded"]},
     by_format=[(r"experts\.w(13|2)_weight|w13_dn", "current", "named")])

# ---------------------------------------------------------------- others

case("hunyuan_a13b", text("hunyuan_v1_moe", architectures=["HunYuanMoEV1ForCausalLM"]), ends(), attention(L + "0.self_attn."), [(L + "0.self_attn.query_layernorm.weight", (128,)),
      (L + "0.mlp.gate.wg.weight", (E, H))], experts(L + "0.mlp.experts."), mlp(L + "0.mlp.shared_mlp.", I), rules=[HEADS, GATES, REST])

case("hy3", text("hy_v3", architectures=["HYV3ForCausalLM"]), ends(), attention(L + "1.self_attn."), [(L + "1.mlp.router.gate.weight", (E, H)), (L + "1.mlp.expert_bias", (E,)),
      (L + "4.eh_proj.weight", (H, 2 * H)), (L + "4.enorm.weight", (H,))], experts(L + "1.mlp.experts."), mlp(L + "1.mlp.shared_mlp.", I), rules=[HEADS, GATES, MTP, REST])

case("mimo_v2_flash", text("mimo_v2_flash", architectures=["MiMoV2FlashForCausalLM"]), ends(), [(L + "1.self_attn.q_proj.weight", (384, H)), (L + "1.self_attn.k_proj.weight", (384, H)),
      (L + "1.self_attn.v_proj.weight", (256, H)), (L + "1.self_attn.o_proj.weight", (H, 256)), (L + "1.self_attn.attention_sink_bias", (64,)), (L + "1.mlp.gate.weight", (E, H)),
      ("model.mtp.layers.0.eh_proj.weight", (H, 2 * H))], experts(L + "1.mlp.experts."), rules=[HEADS, GATES, MTP, REST])

case("ling_2", text("bailing_moe_v2", architectures=["BailingMoeV2ForCausalLM"]), ends(embed="word_embeddings"), [(L + "3.attention.query_key_value.weight", (512, H)),
      (L + "3.attention.dense.weight", (H, 256)), (L + "3.mlp.gate.weight", (E, H)), (L + "3.mlp.gate.expert_bias", (E,)), (L + "4.eh_proj.weight", (H, 2 * H))],
     experts(L + "3.mlp.experts."), mlp(L + "3.mlp.shared_experts.", I), rules=[HEADS, GATES, MTP, REST])

B = L + "0.attention."
case("ling_3", text("bailing_hybrid", architectures=["BailingMoeV3ForCausalLM"]), ends(embed="word_embeddings"), attention(B, 256, 256),
     [(B + "b_proj.weight", (32, H)), (B + "f_proj.weight", (256, H)), (B + "g_proj.weight", (256, H)), (B + "q_conv1d.weight", (256, 1, 4)), (L + "3.attention.q_proj.weight", (384, H)),
      (L + "3.attention.kv_a_proj_with_mqa.weight", (192, H)), (L + "3.attention.kv_b_proj.weight", (512, 128)), (L + "3.attention.dense.weight", (H, 256))],
     rules=[HEADS, (r"0\.attention\.b_proj", ("named", "quantize", "quantize"), "engine", "vllm bailing_moe_v3.py"), REST],
     by_format=[(r"0\.attention\.[qkvb]_proj", "blockwise/" + f, "named") for f in ("compressed-tensors", "modelopt")])

case("cohere2_moe", text("cohere2_moe", architectures=["Cohere2MoeForCausalLM"]), ends(), attention(L + "0.self_attn."), [(L + "0.mlp.gate.weight", (E, H))], experts(L + "0.mlp.experts."),
     mlp(L + "0.mlp.shared_experts.", I), rules=[HEADS, GATES, REST])

case("trinity", text("afmoe", architectures=["AfmoeForCausalLM"]), ends(), attention(L + "2.self_attn."), [(L + "2.self_attn.gate_proj.weight", (256, H)), (L + "2.mlp.router.gate.weight", (E, H)),
      (L + "2.mlp.expert_bias", (E,))], experts(L + "2.mlp.experts."), mlp(L + "2.mlp.shared_experts.", I), rules=[HEADS, GATES, REST])

case("lfm2_moe", text("lfm2_moe", architectures=["Lfm2MoeForCausalLM"]), ends(), [(L + "0.conv.in_proj.weight", (768, H)), (L + "0.conv.out_proj.weight", (H, H)), (L + "0.conv.conv.weight", (H, 1, 3)),
      (L + "2.feed_forward.gate.weight", (E, H)), (L + "2.feed_forward.expert_bias", (E,))], attention(L + "2.self_attn.", names=("q_proj", "k_proj", "v_proj", "out_proj")),
     mlp(L + "0.feed_forward.", names=W), experts(L + "2.feed_forward.experts.", names=W), rules=[HEADS, GATES, REST])

case("internvl", {"model_type": "internvl_chat", "architectures": ["InternVLChatModel"], "llm_config": text("qwen3")}, ends("language_model.model.", "language_model.lm_head.weight"),
     attention(M + "0.self_attn."), [("vision_model.encoder.layers.0.attn.qkv.weight", (384, 128)), ("mlp1.1.weight", (H, 512)), ("mlp1.3.weight", (H, H))],
     rules=[HEADS, VISION, (r"^mlp1\.", "named"), REST])

case("spark2_5", text("spark2_5", architectures=["Spark2_5ForCausalLM"]), ends(), attention(L + "0.self_attn."), [(L + "0.self_attn.g_proj.weight", (256, H))], mlp(L + "0.mlp."),
     rules=[HEADS, (r"g_proj", "named", "engine", "sglang spark2_5.py"), REST], bare="g_proj",
     by_format=[(r"g_proj", pair, "quantize|named") for pair in ("mxfp8/compressed-tensors", "channelwise/modelopt", "blockwise/modelopt", "mxfp8/modelopt")])

Q = L + "0.linear_attn."
case("jet_nemotron", text("jet_nemotron", architectures=["JetNemotronForCausalLM"]), ends(), attention(L + "1.self_attn."), [(Q + "q_proj.weight", (256, H)), (Q + "k_proj.weight", (256, H)),
      (Q + "v_proj.weight", (256, H)), (Q + "a_proj.weight", (64, H)), (Q + "b_proj.weight", (64, H)), (Q + "g_proj.weight", (256, H)), (Q + "o_proj.weight", (H, 256))], mlp(L + "0.mlp."),
     rules=[HEADS, (r"linear_attn\.[qkvabg]_proj", NB), REST], bonds=[[Q + "%s_proj.weight" % x for x in "qkvabg"]])

# ---------------------------------------------------------------- hybrids and others of this year

# vllm granitemoehybrid.py
X = L + "0.block_sparse_moe."
case("granite4_h", text("granitemoehybrid", architectures=["GraniteMoeHybridForCausalLM"], num_local_experts=E, intermediate_size=I), ends(),
     [(L + "0.mamba.in_proj.weight", (896, H)), (L + "0.mamba.out_proj.weight", (H, 256)), (L + "0.mamba.conv1d.weight", (384, 1, 4)), (L + "0.mamba.A_log", (64,)),
      (X + "input_linear.weight", (E, 2 * I, H)), (X + "output_linear.weight", (E, H, I)), (X + "router.layer.weight", (E, H)),
      (L + "0.shared_mlp.input_linear.weight", (256, H)), (L + "0.shared_mlp.output_linear.weight", (H, 128))], attention(L + "5.self_attn."),
     rules=[HEADS, GATES, (r"block_sparse_moe\.(in|out)put_linear", "stack"), REST], formats=dict.fromkeys(RECIPES, "compressed-tensors"),
     by_format=[(r"block_sparse_moe\.(in|out)put_linear", key, d) for key, d in [(r + "/hf", "named") for r in RECIPES + ("current",)] + [("current", "named")] +
                [(r + "/modelopt", "named") for r in RECIPES]],
     bonds=[[X + "input_linear.weight", X + "output_linear.weight"]], experts={X + "experts": r"block_sparse_moe\.(in|out)put_linear"}, notes={r: ["not-loaded"] for r in RECIPES})

case("minimax_m3", {"model_type": "minimax_m3_vl", "architectures": ["MiniMaxM3ForConditionalGeneration"], "text_config": text("minimax_m3_text", num_local_experts=E, intermediate_size=I)},
     ends("model.language_model."), attention(LL + "1.self_attn."), [(LL + "1.self_attn.index_q_proj.weight", (256, H)), (LL + "1.self_attn.index_k_proj.weight", (128, H)),
      (LL + "1.block_sparse_moe.gate.weight", (E, H)), ("model.vision_tower.layers.0.self_attn.q_proj.weight", (128, 128)), ("model.multi_modal_projector.linear_1.weight", (H, 128)),
      ("model.patch_merge_mlp.linear_1.weight", (128, 512))], experts(LL + "1.block_sparse_moe.experts.", names=W), mlp(LL + "1.block_sparse_moe.shared_experts.", I),
     rules=[HEADS, GATES, VISION, (r"patch_merge_mlp", "named"), REST], bonds=[qkv(LL + "1.self_attn.", "index_q_proj", "index_k_proj")])

KL = L + "0.self_attn."
case("kimi_linear", text("kimi_linear", architectures=["KimiLinearForCausalLM"]), ends(), attention(KL, 256, 256),
     [(KL + "f_a_proj.weight", (128, H)), (KL + "f_b_proj.weight", (256, 128)), (KL + "g_a_proj.weight", (128, H)), (KL + "g_b_proj.weight", (256, 128)), (KL + "b_proj.weight", (32, H)),
      (KL + "q_conv1d.weight", (256, 1, 4)), (KL + "A_log", (1, 1, 32, 1)), (L + "3.self_attn.q_proj.weight", (384, H)), (L + "3.self_attn.kv_a_proj_with_mqa.weight", (256, H)),
      (L + "3.self_attn.kv_b_proj.weight", (512, 128)), (L + "3.self_attn.o_proj.weight", (H, 256)), (L + "1.block_sparse_moe.gate.weight", (E, H))],
     experts(L + "1.block_sparse_moe.experts.", names=W), mlp(L + "1.block_sparse_moe.shared_experts.", I),
     rules=[HEADS, GATES, (r"layers\.0\.self_attn\.(q|k|v|b|f_a)_proj", NB), REST], bonds=[qkv(KL, "b_proj", "f_a_proj")])

case("olmo_hybrid", text("olmo_hybrid", architectures=["OlmoHybridForCausalLM"]), ends(), [(L + "0.linear_attn.%s_proj.weight" % x, (256, H)) for x in "qkvg"],
     [(L + "0.linear_attn.a_proj.weight", (32, H)), (L + "0.linear_attn.b_proj.weight", (32, H)), (L + "0.linear_attn.o_proj.weight", (H, 256)),
      (L + "0.linear_attn.q_conv1d.weight", (256, 1, 4))], attention(L + "3.self_attn."), mlp(L + "0.mlp."),
     rules=[HEADS, (r"linear_attn\.[ab]_proj", ("named", "named|quantize", "named|quantize")), REST], bonds=[[L + "0.linear_attn.%s_proj.weight" % x for x in "qkvg"]])

case("falcon_h1", text("falcon_h1", architectures=["FalconH1ForCausalLM"]), ends(), [(L + "0.mamba.in_proj.weight", (1152, H)), (L + "0.mamba.out_proj.weight", (H, 256)),
      (L + "0.mamba.conv1d.weight", (512, 1, 4)), (L + "0.mamba.A_log", (64,))], attention(L + "0.self_attn."), mlp(L + "0.feed_forward."),
     rules=[HEADS, (r"mamba", "named", "engine", "sglang falcon_h1.py"), REST],
     engine_names={"vllm": {L + "0.mamba.in_proj": "model.4.mixer.in_proj", L + "0.mamba.out_proj": "model.4.mixer.out_proj"}})

case("jamba", text("jamba", architectures=["JambaForCausalLM"], intermediate_size=I), ends(), [(L + "0.mamba.in_proj.weight", (512, H)), (L + "0.mamba.out_proj.weight", (H, 256)),
      (L + "0.mamba.x_proj.weight", (128, 256)), (L + "0.mamba.dt_proj.weight", (256, 128)), (L + "0.mamba.conv1d.weight", (256, 1, 4)), (L + "0.mamba.A_log", (256, 16)),
      (L + "1.feed_forward.router.weight", (E, H))], mlp(L + "0.feed_forward."), experts(L + "1.feed_forward.experts."), attention(L + "4.self_attn."),
     rules=[HEADS, GATES, (r"mamba\.(in|out)_proj", "named", "engine", "vllm mamba_mixer.py"), (r"x_proj|dt_proj|A_log", "named"), REST], bare="A_log")

# ---------------------------------------------------------------- modules that an engine names in another way

# vllm granitemoehybrid.py and sglang granitemoehybrid.py: self.mamba has the prefix "mixer"
case("granite4_h_tiny", text("granitemoehybrid", architectures=["GraniteMoeHybridForCausalLM"]), ends(),
     [(L + "0.mamba.in_proj.weight", (832, H)), (L + "0.mamba.out_proj.weight", (H, 256)), (L + "0.mamba.conv1d.weight", (512, 1, 4)), (L + "0.mamba.A_log", (64,)),
      (L + "0.shared_mlp.input_linear.weight", (256, H)), (L + "0.shared_mlp.output_linear.weight", (H, 128))], attention(L + "5.self_attn."),
     rules=[HEADS, (r"in_proj", NB), REST], formats=dict.fromkeys(RECIPES, "compressed-tensors"),
     engine_names={"vllm": {L + "0.mamba.in_proj": L + "0.mixer.in_proj"}, "sglang": {L + "0.mamba.in_proj": L + "0.mixer.in_proj"}})

# vllm mamba_mixer2.py: in_proj is merged of 256, 256, 64, 64 and 128 rows
case("granite4_h_narrow", text("granitemoehybrid", architectures=["GraniteMoeHybridForCausalLM"], mamba_n_heads=128, mamba_n_groups=1, mamba_d_state=64), ends(),
     [(L + "0.mamba.in_proj.weight", (768, H)), (L + "0.mamba.out_proj.weight", (H, 256)), (L + "0.mamba.conv1d.weight", (384, 1, 4)), (L + "0.mamba.A_log", (128,))],
     attention(L + "5.self_attn."), rules=[HEADS, (r"in_proj", NB), REST], formats=dict.fromkeys(RECIPES, "compressed-tensors"),
     engine_names={"vllm": {L + "0.mamba.in_proj": L + "0.mixer.in_proj"}, "sglang": {L + "0.mamba.in_proj": L + "0.mixer.in_proj"}})

# sglang falcon_h1.py: attention lies in the layer, and feed_forward has the prefix "mlp"
case("falcon_h1_kept", text("falcon_h1", architectures=["FalconH1ForCausalLM"]), ends(), attention(L + "0.self_attn."), attention(L + "1.self_attn."), mlp(L + "0.feed_forward."),
     rules=[HEADS, (r"layers\.0\.", "named"), REST], arguments=["--exclude", r"layers\.0\."],
     engine_names={"sglang": dict({L + "0.self_attn.%s_proj" % x: L + "0.%s_proj" % x for x in "qkvo"},
                                  **{L + "0.feed_forward.%s_proj" % x: L + "0.mlp.%s_proj" % x for x in ("gate", "up", "down")})})

# vllm minimax_m2.py: self.block_sparse_moe has the prefix "mlp"
case("minimax_m2_kept", text("minimax_m2", architectures=["MiniMaxM2ForCausalLM"], num_local_experts=E, intermediate_size=I), ends(), attention(L + "0.self_attn."),
     experts(L + "0.block_sparse_moe.experts.", names=W), rules=[HEADS, (r"experts", "named"), REST], arguments=["--exclude", "experts"],
     engine_names={"vllm": {L + "0.block_sparse_moe.experts": L + "0.mlp.experts"}})

# sglang kimi_linear.py
case("kimi_linear_kept", text("kimi_linear", architectures=["KimiLinearForCausalLM"]), ends(), attention(L + "3.self_attn."),
     mlp(L + "1.block_sparse_moe.shared_experts.", I), rules=[HEADS, (r"shared_experts", "named"), REST], arguments=["--exclude", "shared_experts"],
     engine_names={"sglang": {L + "1.block_sparse_moe.shared_experts.%s_proj" % x: L + "1.mlp.shared_experts.%s_proj" % x for x in ("gate", "up", "down")}})

# vllm registry.py: LlamaModel is LlamaForCausalLM, whose layers have the prefix "model"
case("llama_base", text("llama", architectures=["LlamaModel"]), [("embed_tokens.weight", (V, H)), ("norm.weight", (H,))], attention("layers.0.self_attn.", kv=64), attention("layers.1.self_attn."),
     rules=[(r"layers\.0\..*[qkv]_proj", NB), REST], bonds=[qkv("layers.0.self_attn.")],
     engine_names={"vllm": {"layers.0.self_attn.%s_proj" % x: "model.layers.0.self_attn.%s_proj" % x for x in "qkv"}}, notes=IN_BLOCKS)

# e5-mistral-7b-instruct: an embedding model saved without its head
case("e5_mistral", text("mistral", architectures=["MistralModel"]), [("embed_tokens.weight", (V, H)), ("norm.weight", (H,))], attention("layers.0.self_attn."),
     mlp("layers.0.mlp."), rules=[REST], bonds=[qkv("layers.0.self_attn.")], notes=IN_BLOCKS)

# transformers conversion_mapping.py, of a checkpoint as the hub has it
case("llava", {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "text_config": text("llama"), "vision_config": {"model_type": "clip_vision_model"}},
     ends(M[:-7], "language_model.lm_head.weight"), attention(M + "0.self_attn."), [("vision_tower.vision_model.encoder.layers.0.self_attn.k_proj.weight", (128, 128)),
      ("multi_modal_projector.linear_1.weight", (H, 128))], rules=[HEADS, VISION, REST],
     engine_names={"transformers/compressed-tensors": {"language_model.lm_head": "lm_head", "multi_modal_projector.linear_1": "model.multi_modal_projector.linear_1",
                   "vision_tower.vision_model.encoder.layers.0.self_attn.k_proj": "model.vision_tower.encoder.layers.0.self_attn.k_proj"}}, notes=IN_BLOCKS)

# transformers conversion_mapping.py: Split makes in_proj_qkv, _z, _b and _a of one in_proj, and nothing merges single experts
case("lara_mini", text("lara_mini", architectures=["LaraMiniForCausalLM"]), ends(), [(L + "0.linear_attn.in_proj.weight", (1028, H)), (L + "0.linear_attn.out_proj.weight", (H, 256)),
      (L + "0.linear_attn.conv1d.weight", (768, 1, 4)), (L + "0.mlp.gate.weight", (E, H))], fused(L + "0.mlp.experts."), mlp(L + "0.mlp.shared_expert.", I), attention(L + "3.self_attn."),
     rules=[HEADS, GATES, (r"linear_attn\.in_proj", "named", "engine", "transformers conversion_mapping"), (r"experts\.(gate_up|down)_proj", "split"), REST],
     engine_names={"transformers": {L + "0.linear_attn.in_proj": L + "0.linear_attn.in_proj_b"}}, notes={r: ["not-loaded"] for r in RECIPES})

# the same, and modeling_hy_v4_vl.py: model.language_model, and vit below model.vision_tower
case("hy_v4_vl", {"model_type": "hy_v4_vl", "architectures": ["HYV4VLForConditionalGeneration"], "text_config": text("hy_v4_vl_text")}, ends(),
     [(L + "1.self_attn.indexer.wq_b.weight", (256, 256)), (L + "1.self_attn.indexer.weights_proj.weight", (32, H)), (L + "1.self_attn.linear_gate.weight", (256, H)), (L + "1.mlp.gate.weight", (E, H)),
      ("vit.layers.0.mlp.dense_h_to_4h.weight", (512, 128))], experts(L + "1.mlp.experts."), rules=[HEADS, GATES, (r"weights_proj|^vit\.", "named"), REST],
     engine_names={"transformers/compressed-tensors": {L + "1.self_attn.indexer.weights_proj": LL + "1.self_attn.indexer.weights_proj",
                   L + "1.mlp.gate": LL + "1.mlp.gate", "vit.layers.0.mlp.dense_h_to_4h": "model.vision_tower.layers.0.mlp.fc1"}}, notes={r: ["not-loaded"] for r in RECIPES})

# vllm gpt_oss.py: hf_to_vllm_mapper maps the entries too
case("gpt_oss_kept", text("gpt_oss", architectures=["GptOssForCausalLM"], num_local_experts=E, intermediate_size=I), ends(), attention(L + "0.self_attn."),
     [(L + "0.mlp.router.weight", (E, H)), (L + "0.mlp.experts.gate_up_proj", (E, H, 2 * I)), (L + "0.mlp.experts.down_proj", (E, I, H))],
     rules=[HEADS, GATES, (r"experts", "named"), REST], arguments=["--exclude", "experts"], experts={L + "0.mlp.experts": r"experts"},
     mappers={"vllm/compressed-tensors": {".gate_up_proj": ".w13_weight", ".down_proj": ".w2_weight"}})

case("nemotron_omni", {"model_type": "NemotronH_Nano_Omni_Reasoning_V3", "architectures": ["NemotronH_Nano_Omni_Reasoning_V3"], "llm_config": text("nemotron_h")},
     [("language_model.backbone.embeddings.weight", (V, H)), ("language_model.lm_head.weight", (V, H)), ("language_model.backbone.layers.0.mixer.in_proj.weight", (896, H)),
      ("language_model.backbone.layers.0.mixer.out_proj.weight", (H, 256)), ("language_model.backbone.layers.1.mixer.gate.weight", (E, H)), ("mlp1.1.weight", (H, 512)),
      ("vision_model.radio_model.model.blocks.0.attn.qkv.weight", (384, 128)), ("sound_encoder.encoder.layers.0.self_attn.q_proj.weight", (128, 128)),
      ("sound_projection.linear1.weight", (H, 128))], [t for e in range(E) for t in (("language_model.backbone.layers.1.mixer.experts.%d.up_proj.weight" % e, (I, H)),
      ("language_model.backbone.layers.1.mixer.experts.%d.down_proj.weight" % e, (H, I)))], attention("language_model.backbone.layers.5.mixer."),
     rules=[HEADS, GATES, (r"[qkvo]_proj|sound_|mlp1|vision", "named"), REST], bare="sound_|mlp1|vision")

case("ernie_vl", {"model_type": "ernie4_5_moe_vl", "architectures": ["Ernie4_5_VLMoeForConditionalGeneration"], "hidden_size": H, "moe_num_experts": [E, E], "num_attention_heads": 2, "head_dim": 128}, ends(),
     attention(L + "1.self_attn."), [(L + "1.mlp.gate.weight", (H, E), "F32"), (L + "1.mlp.gate.weight_1", (H, E), "F32"), ("model.resampler_model.spatial_linear.0.weight", (512, 512)),
      ("vision_model.blocks.0.attn.qkv.weight", (384, 128)), ("model.mtp_linear_proj.0.weight", (H, 2 * H))], experts(L + "1.mlp.experts."), mlp(L + "1.mlp.shared_experts.", I),
     attention("model.mtp_block.0.self_attn."), mlp("model.mtp_block.0.mlp."), rules=[HEADS, (r"mlp\.gate\.|resampler|vision|mtp_linear", "named"), REST], bare="weight_1")

case("longcat_ngram", text("longcat_flash_ngram", architectures=["LongcatFlashNgramForCausalLM"], n_routed_experts=E), ends(), [("model.ngram_embeddings.embedders.0.weight", (384, 64)),
      ("model.ngram_embeddings.post_projs.0.weight", (H, 64)), (L + "0.mlp.router.classifier.weight", (E, H), "F32"), ("model.mtp.layers.0.eh_proj.weight", (H, 2 * H))],
     experts(L + "0.mlp.experts."), mlp(L + "0.mlps.0."), [(L + "0.self_attn.0.%s" % t[0], t[1]) for t in mla("", kv_rank=192)], rules=[HEADS, GATES, MTP, (r"post_projs", "named"),
      (r"kv_b_proj", ("named", "quantize", "quantize")), REST])

case("muse_glimmer", text("muse_glimmer", architectures=["MuseGlimmerForCausalLM"], moe_hidden_size=128), ends(), attention(L + "0.self_attn."), [(L + "0.self_attn.gate_proj.weight", (256, H)),
      (L + "0.mlp.gate.weight", (E, H)), (L + "0.mlp.pre_expert_proj.weight", (128, H)), (L + "0.mlp.post_expert_proj.weight", (H, 128))], fused(L + "0.mlp.experts.", h=128),
     rules=[HEADS, GATES, (r"expert_proj", "named"), (r"mlp\.experts\.(gate_up|down)_proj", "split"), REST], notes={r: ["not-loaded"] for r in RECIPES}, bare="expert_proj")

case("phi3", text("phi3", architectures=["Phi3ForCausalLM"]), ends(), [(L + "0.self_attn.qkv_proj.weight", (512, H)), (L + "0.self_attn.o_proj.weight", (H, 256)), (L + "0.mlp.gate_up_proj.weight", (768, H)),
      (L + "0.mlp.down_proj.weight", (H, 384)), (L + "1.self_attn.qkv_proj.weight", (512, H)), (L + "1.mlp.gate_up_proj.weight", (704, H)), (L + "1.mlp.down_proj.weight", (H, 352))],
     rules=[HEADS, (r"1\.mlp\.(gate_up|down)_proj", NB), REST], notes=IN_BLOCKS)

case("glm4_moe", text("glm4_moe", architectures=["Glm4MoeForCausalLM"], n_routed_experts=E), ends(), attention(L + "1.self_attn."), mlp(L + "0.mlp."), [(L + "1.mlp.gate.weight", (E, H)),
      (L + "1.mlp.gate.e_score_correction_bias", (E,)), (L + "46.eh_proj.weight", (H, 2 * H)), (L + "46.shared_head.head.weight", (V, H)), (L + "46.embed_tokens.weight", (V, H)),
      (L + "46.shared_head.norm.weight", (H,))], experts(L + "1.mlp.experts."), mlp(L + "1.mlp.shared_experts.", I), rules=[HEADS, GATES, MTP, REST])

case("granite_speech", {"model_type": "granite_speech", "architectures": ["GraniteSpeechForConditionalGeneration"], "text_config": text("granite")},
     ends("language_model.model.", "language_model.lm_head.weight"), attention(M + "0.self_attn."), mlp(M + "0.mlp."), [("encoder.layers.0.attn.to_q.weight", (128, 128)),
      ("encoder.layers.0.ff1.up_proj.weight", (512, 128)), ("projector.linear.weight", (H, 128)), ("projector.qformer.encoder.layer.0.attention.attention.query.weight", (128, 128))],
     rules=[HEADS, (r"^encoder|^projector", "named"), REST], bare="^encoder",
     engine_names={"transformers/compressed-tensors": {"language_model.lm_head": "lm_head", "projector": "model.projector"}})

# ---------------------------------------------------------------- low-bit sources

case("gpt_oss_mxfp4", text("gpt_oss", architectures=["GptOssForCausalLM"], num_local_experts=E, intermediate_size=I,
     quantization_config={"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}),
     ends(), attention(L + "0.self_attn."), [(L + "0.mlp.router.weight", (E, H)), (L + "0.mlp.experts.gate_up_proj_blocks", (E, 2 * I, H // 32, 16), "U8"), (L + "0.mlp.experts.gate_up_proj_scales", (E, 2 * I, H // 32), "U8"),
      (L + "0.mlp.experts.gate_up_proj_bias", (E, 2 * I)), (L + "0.mlp.experts.down_proj_blocks", (E, H, I // 32, 16), "U8"), (L + "0.mlp.experts.down_proj_scales", (E, H, I // 32), "U8"),
      (L + "0.mlp.experts.down_proj_bias", (E, H))], rules=[HEADS, GATES, (r"experts\.(gate_up|down)_proj_", "split"), REST], arguments=["--requantize"], notes={r: ["not-loaded"] for r in RECIPES})

case("kimi_k2_int4", text("kimi_k2", architectures=["DeepseekV3ForCausalLM"], n_routed_experts=E, quantization_config={"quant_method": "compressed-tensors", "format": "pack-quantized",
     "config_groups": {"group_0": {"targets": ["re:.*experts\\..*"], "weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32, "dynamic": False}}}, "ignore": ["lm_head"]}),
     ends(), mla(L + "1.self_attn."), [x for e in range(E) for n, r, c in (("gate", I, H), ("up", I, H), ("down", H, I)) for x in (
         (L + "1.mlp.experts.%d.%s_proj.weight_packed" % (e, n), (r, c // 8), "I32"), (L + "1.mlp.experts.%d.%s_proj.weight_scale" % (e, n), (r, c // 32)),
         (L + "1.mlp.experts.%d.%s_proj.weight_shape" % (e, n), (2,), "I32"))], rules=[HEADS, (r"weight_(packed|scale|shape)$", "split"), REST], arguments=["--requantize"])

# ---------------------------------------------------------------- outside of the layers: plain linear modules in the engines' classes

case("colqwen2_5", {"model_type": "qwen2_5_vl", "architectures": ["ColQwen2_5"], "text_config": text("qwen2_5_vl_text")}, ends("model.language_model."),
     attention(LL + "0.self_attn."), mlp(LL + "0.mlp."), vision(), [("custom_text_proj.weight", (128, H)), ("embedding_proj_layer.weight", (128, H))],
     rules=[HEADS, VISION, (r"custom_text_proj|embedding_proj_layer", "named"), REST])

case("eagle3", text("llama", architectures=["LlamaForCausalLMEagle3"], num_hidden_layers=1), [("lm_head.weight", (V, H)), ("norm.weight", (H,)), ("fc.weight", (H, 3 * H)), ("d2t", (V,), "I64")],
     attention("midlayer.self_attn."), mlp("midlayer.mlp."), rules=[HEADS, (r"^fc\.", "named"), REST],
     engine_names={"vllm": {"fc": "model.fc"}}, notes=IN_BLOCKS)     # vllm llama_eagle3.py

case("xlm_roberta", text("xlm-roberta", architectures=["XLMRobertaForSequenceClassification"], num_hidden_layers=1), [("roberta.embeddings.word_embeddings.weight", (V, H))],
     attention("roberta.encoder.layer.0.attention.self.", 256, 256, names=("query", "key", "value", "dense")),
     [("classifier.dense.weight", (H, H)), ("classifier.out_proj.weight", (1, H))], rules=[(r"classifier", "named"), REST])

# A conformer of the language model's width, and a text model within it; vLLM's classes give them no quantization.
case("cohere_asr", {"model_type": "cohere_asr", "architectures": ["CohereAsrForConditionalGeneration"], "is_encoder_decoder": True,
                    "encoder_config": {"model_type": "parakeet_encoder", "hidden_size": H, "num_hidden_layers": 2}, **{k: v for k, v in text("cohere_asr").items() if k != "model_type"},
                    "num_hidden_layers": 1}, [("model.decoder.embed_tokens.weight", (V, H))],
     attention("model.decoder.layers.0.self_attn."), [("model.encoder.layers.%d.feed_forward1.linear1.weight" % i, (512, H)) for i in range(2)],
     [("model.encoder_decoder_proj.weight", (H, H))], rules=[(r"encoder\.layers|encoder_decoder_proj", "named"), REST])

case("mimo_audio", text("qwen2", architectures=["MiMoAudioModel"], num_hidden_layers=1), ends(), attention(L + "0.self_attn."), mlp(L + "0.mlp."),
     [("local_transformer.layers.0.self_attn.o_proj.weight", (128, 128)), ("hidden_states_downcast.weight", (128, H)), ("speech_group_downcast.weight", (H, 512))],
     rules=[HEADS, (r"local_transformer|downcast", "named"), REST])

# Transformers of diffusers: SGLang 0.5.23, multimodal_gen/runtime/models/dits/{flux,qwen_image}.py.  "proj_out" is the end of the name of a quantized
# module, which SGLang's matcher would skip, so that the list must not have it; the class builds it without quantization.
DIT = "sglang multimodal_gen flux.py"
case("flux", {"_class_name": "FluxTransformer2DModel", "num_layers": 1, "num_attention_heads": 2},
     [("x_embedder.weight", (H, 64)), ("context_embedder.weight", (H, H)), ("time_text_embed.timestep_embedder.linear_1.weight", (H, H)), ("norm_out.linear.weight", (2 * H, H)),
      ("proj_out.weight", (128, H)), ("transformer_blocks.0.norm1.linear.weight", (6 * H, H)), ("transformer_blocks.0.attn.to_q.weight", (H, H)),
      ("single_transformer_blocks.0.proj_mlp.weight", (4 * H, H)), ("single_transformer_blocks.0.proj_out.weight", (H, 5 * H))],
     rules=[(r"^proj_out\.", "free", "engine", DIT), (r"^x_embedder", "free"), (r"^context_embedder", "free"), (r"^(time_text_embed|norm_out)", "named"), REST])

case("qwen_image", {"_class_name": "QwenImageTransformer2DModel", "num_layers": 1, "num_attention_heads": 2},
     [("img_in.weight", (H, 64)), ("txt_in.weight", (H, H)), ("norm_out.linear.weight", (2 * H, H)), ("proj_out.weight", (64, H))],
     [("transformer_blocks.0." + n + ".weight", s) for n, s in (("img_mod.1", (6 * H, H)), ("txt_mod.1", (6 * H, H)), ("attn.to_q", (H, H)), ("attn.add_q_proj", (H, H)),
                                                                ("img_mlp.net.0.proj", (4 * H, H)), ("img_mlp.net.2", (H, 4 * H)), ("txt_mlp.net.2", (H, 4 * H)))],
     rules=[(r"^(img_in|txt_in|norm_out|proj_out)", "named"), REST])

case("flux_bfl", {"num_layers": 1}, [("img_in.weight", (H, 64)), ("final_layer.linear.weight", (64, H))],
     [("double_blocks.0." + n + ".weight", s) for n, s in (("img_attn.qkv", (3 * H, H)), ("img_attn.proj", (H, H)), ("img_mlp.0", (4 * H, H)), ("img_mod.lin", (6 * H, H)), ("txt_attn.proj", (H, H)))],
     rules=[(r"^(img_in|final_layer)", "named"), REST])
