/* SPDX-License-Identifier: Apache-2.0
 *
 * The families and their rows; profile.h has the meaning of each column.  `fp8conv families` and
 * fp8conv-families(7) print this table.  A family that needs no row is not here: the general rules
 * (names/role.c, names/fusion.c) come out right for it.
 *
 * Read in vLLM (017e9f4, 7cfb97e and 0.32.0), SGLang 0.5.23, transformers 5.24, Model-Optimizer
 * a2fbac7 and llm-compressor ab1ba3e; the column `source` has the file or the thread.
 */
#include "select/profile.h"

#define V32	   "deepseek_v32 glm_moe_dsa hy_v4 hy_v4_vl dots3_note* axk2 mistral_large4"
#define GLM5	   "glm5_next glm5_next_text"
#define LING3	   "bailing_hybrid bailing_moe_v3"
#define NEMO	   "nemotron_h nemotron_h_omni NemotronH_*"
#define LATENT_GLM "glm4_moe_lite glm_moe_dsa"
#define MLA	   "deepseek_v2 deepseek_v3 deepseek_v32 " LATENT_GLM " DeepseekV* KimiK2*"
#define QWEN3_5	   "qwen3_5 qwen3_5_moe Qwen3_5*"
#define QWEN4	   "qwen4_exp qwen4_exp_text"
#define STEP	   "step3p5 step3p7"
#define INKLING	   "inkling_mm_model inkling_text inkling2*"
#define MUSE	   "muse_spark muse_glimmer"
#define MAMBA1	   "mamba falcon_mamba"
#define HEADLESS   "llama mistral qwen2 qwen3 gemma2 gemma3_text"
/* transformers has their experts in one tensor, and merges none of a file. */
#define UNMERGED "hy_v4 hy_v4_vl lara_mini mistral4 muse_spark qwen3_vl_moe zaya"
/* SGLang's LlamaForCausalLM and the classes that inherit its load_weights(). */
#define SGLANG_LLAMA "llama mistral ministral3 phi3 internlm3 llama4_text iquestcoder teleflm"
/* SGLang's classes that merge q_a_proj and kv_a_proj_with_mqa. */
#define SGLANG_MLA                                                                       \
	"deepseek_v2 deepseek_v3 deepseek_v32 glm4_moe_lite glm_moe_dsa glm5_next_text " \
	"longcat_flash bailing_hybrid bailing_moe_v3 hy_v4 mistral_large3 DeepseekV* KimiK2*"
/* Their text model has the prefix "language_model.model" in checkpoints. */
#define LLAVA                                                                                \
	"aria aya_vision fuyu gemma3 glmasr got_ocr2 granite_speech granite_speech_plus "    \
	"internvl llava llava_next llava_next_video llava_onevision mistral3 musicflamingo " \
	"audioflamingo3 paligemma pp_chart2table qwen2_audio video_llava vipllava voxtral "  \
	"voxtral_realtime"
#define QWEN_VL	  "qwen2_vl qwen2_5_vl qwen2_5_omni_thinker qwen3_omni_moe_thinker paddleocr_vl"
#define QWEN_OMNI "qwen2_5_omni qwen3_omni_moe"
#define LING2	  "bailing_moe_linear bailing_hybrid"
/* SGLang's classes whose RadixAttention has no scales, and those that do not load them. */
#define SGLANG_NO_CACHE_SCALES                                                            \
	"afmoe bailing_moe cohere2_moe deepseek exaone_moe glm4 glm4_moe gpt_oss "        \
	"granite granitemoe granitemoehybrid hunyuan_v1_dense hunyuan_v1_moe hy_v3 lfm2 " \
	"lfm2_moe llada2_moe llama4_text mellum minicpm minicpm3 mixtral olmo2 "          \
	"phi3small qwen2 qwen2_moe qwen3 qwen3_moe qwen3_vl_text qwen3_vl_moe_text "      \
	"qwen2_5_vl starcoder2 step3_text step3p5 step3p7"
/* SGLang's classes of which the tower has a quantization and VisionAttention's own names. */
#define SGLANG_VISUAL "glm4v glm4v_moe glm_ocr paddleocr_vl qwen2_vl qwen2_5_vl"
#define SGLANG_VISION "ernie4_5_moe_vl ernie4_5_vl_moe mllama"
/* Families of which transformers renames towers and projectors, and the entry for all of these. */
#define RENAMED_TOWERS                                                                  \
	"cosmos3_edge cosmos3_omni dots3_note ernie4_5_vl_moe hy_v4_vl "                \
	"hyperclovax_vision_v2 inkling_mm_model kimi_k25 lfm3_vl minimax_m3_vl "        \
	"mistral_large4 molmo2 nemo_speechlm nemotron_h_omni qianfan_ocr shieldgemma2 " \
	"step3p7 unlimited_ocr vibevoice_asr"
#define TOWERS "re:(model\\.)?(vis|audio|word|acoustic|semantic|resam|.*projector).*"
/* Families with a tied head of another name. */
#define TIED_DECODERS                                                               \
	"bert bert-generation big_bird blip camembert data2vec-text electra ernie " \
	"kosmos-2 megatron-bert modernbert-decoder roberta roberta-prelayernorm "   \
	"roc_bert roformer t5gemma t5gemma2 xlm-roberta xlm-roberta-xl xmod"
#define TIED_OUTPUTS	"biogpt canary gpt_neox_japanese moonshine trocr whisper xlm xlnet"
#define GRANITE_EXPERTS "*.block_sparse_moe.{input,output}_linear"

/* Reasons to keep a module. */
#define SQUARE	    "loaders read it in square blocks only"
#define BUILT_BARE  "engines build it without quantization"
#define SGLANG_BARE "SGLang builds it without quantization, and skips a scale silently"
#define VLLM_BARE   "vLLM builds it without quantization, and stops at a scale"
#define INTERLEAVED "its rows interleave gate and up, and a scale of both would mix them"

/* Sources. */
#define OF_V32	      "vllm deepseek_v2.py"
#define OF_LING3      "vllm bailing_moe_v3.py"
#define OF_NEMO	      "modelopt mamba_moe_disabled_quantizers"
#define OF_KIMI_K3    "vllm kimi_k3/nvidia/model.py"
#define OF_FLASH      "transformers #48349"
#define OF_GRANITE    "vllm granitemoehybrid.py"
#define OF_INKLING    "vllm inkling"
#define OF_INKLING_2  "transformers conversion_mapping"
#define OF_GIGACHAT   "sglang gigachat35.py"
#define OF_MERGED     "vllm 0.33 stacked_params_mapping"
#define OF_MUSE	      "sglang muse_spark.py"
#define OF_SG_LLAMA   "sglang llama.py"
#define OF_SG_MLA     "sglang deepseek_weight_loader.py"
#define OF_SG_CACHED  "sglang granitemoehybrid.py"
#define OF_SG_LING3   "sglang bailing_moe_v3.py"
#define OF_SG_LING2   "sglang bailing_moe_linear.py"
#define OF_SG_PIXTRAL "sglang pixtral.py"
#define OF_SG_VISION  "sglang layers/attention/vision.py"
#define OF_SG_PHI3    "sglang phi3_small.py"
#define OF_MAPPING    "transformers conversion_mapping"
#define OF_TIED	      "transformers _tied_weights_keys"
#define OF_MAMBA1     "vllm mamba_mixer.py"

#define VENDOR true
#define ENGINE false

/* A row of PROFILE_NAME. */
#define NAME(families, names, on, source)                               \
	{                                                               \
		families, names, PROFILE_NAME, ENGINE, on, NULL, source \
	}
#define TRANSFORMERS (ON_COMPRESSED | FOR_TRANSFORMERS) /* in hf it maps the list itself */
#define EXPRESSION   (ON_HF | TRANSFORMERS)		/* which it does not map */

const struct profile_row profile_rows[] = {
	{ V32, "*.indexer.wk", PROFILE_GENERAL, ENGINE, ON_BLOCKWISE | ON_HF | ON_COMPRESSED, NULL,
	  OF_V32 },
	{ V32, "*.indexer.wk", PROFILE_GENERAL, ENGINE, ON_CHANNELWISE | ON_MODELOPT, NULL,
	  OF_V32 },
	{ V32, "*.indexer.wk", PROFILE_KEEP, ENGINE, 0, SQUARE, OF_V32 },

	{ "deepseek_v4 deepseek_v41*", "expert_dtype=fp8", PROFILE_CONFIG, ENGINE, 0, NULL,
	  "vllm deepseek_v4/quant_config.py" },
	{ "deepseek_v4 deepseek_v41*", "*.compressor.*", PROFILE_BARE, ENGINE, 0, BUILT_BARE,
	  "vllm deepseek_v4/compressor.py" },

	{ GLM5, "*.self_attn.*", PROFILE_KEEP, VENDOR, 0, "attention, as in the release",
	  "sglang #39563" },

	{ "kimi_k3", "*.*_res_proj", PROFILE_BARE, ENGINE, 0, BUILT_BARE, OF_KIMI_K3 },
	{ "kimi_k3", "*.routed_expert_{down,up}_proj", PROFILE_BARE, ENGINE, 0, BUILT_BARE,
	  OF_KIMI_K3 },
	{ "kimi_k3", "*.shared_experts.*", PROFILE_KEEP, VENDOR, 0,
	  "shared experts, as in the release", "modelopt models/moonshotai/Kimi-K3" },
	{ "kimi_k3", "*.self_attn.{q,k,v,g,b,f_a}_proj", PROFILE_BOND, ENGINE, 0, NULL,
	  "vllm kimi_k3/nvidia/kda.py" },
	{ "kimi_linear", "*.self_attn.{q,k,v,g,b,f_a}_proj", PROFILE_BOND, ENGINE, 0, NULL,
	  "vllm kimi_gdn_linear_attn.py" },

	{ LING3, "*.b_proj", PROFILE_KEEP, ENGINE, ON_BLOCKWISE | ON_HF,
	  "vLLM loads it apart from q, k and v in blocks", OF_LING3 },
	{ LING3, "*.{q,k,v}_proj", PROFILE_GENERAL, ENGINE, ON_BLOCKWISE | ON_HF, NULL, OF_LING3 },
	{ LING3, "*.{q,k,v,b}_proj", PROFILE_BOND, ENGINE, 0, NULL, OF_LING3 },

	{ GLM5, "*.self_attn.{q,k,v,b,f_a,g_a}_proj", PROFILE_BOND, ENGINE, 0, NULL, OF_MERGED },
	{ "beam", "*.self_attn.{q,k,v,gate}_proj", PROFILE_BOND, ENGINE, 0, NULL, OF_MERGED },
	{ "alice_ai", "*.{q,k,v,g,f_a,b}_proj", PROFILE_BOND, ENGINE, 0, NULL, OF_MERGED },
	{ "step5 step5_vl", "*.self_attn.{q,k,v,index_q,index_k,index_z,g}_proj", PROFILE_BOND,
	  ENGINE, 0, NULL, OF_MERGED },

	{ "olmo_hybrid", "*.{q,k,v,g}_proj", PROFILE_BOND, ENGINE, 0, NULL, "vllm olmo_hybrid.py" },
	{ "jet_nemotron", "*.linear_attn.{q,k,v,a,b,g}_proj", PROFILE_BOND, ENGINE, 0, NULL,
	  "sglang jet_nemotron.py" },
	{ "minimax_m3_vl minimax_m3", "*.self_attn.{q,k,v,index_q,index_k}_proj", PROFILE_BOND,
	  ENGINE, 0, NULL, "vllm minimax_m3/nvidia/model.py" },

	{ NEMO, "*.mtp.*", PROFILE_KEEP, VENDOR, 0, "MTP layers, as in the release", OF_NEMO },
	{ NEMO, "*.mixer.in_proj", PROFILE_GENERAL, ENGINE, FOR_SGLANG, NULL,
	  "sglang mamba_mixer2" },
	{ NEMO, "*.mixer.in_proj", PROFILE_RAGGED, ENGINE, 0, NULL, "vllm mamba_mixer2.py" },
	{ NEMO, "*.mixer.{q,k,v,o}_proj", PROFILE_KEEP, VENDOR, 0, "attention, as in the release",
	  OF_NEMO },
	{ NEMO, "*.mixer.fc{1,2}_latent_proj", PROFILE_KEEP, VENDOR, 0,
	  "latent layers, as in the release", OF_NEMO },

	{ QWEN4, "*.*hyper_connection*.*", PROFILE_KEEP, VENDOR, 0,
	  "hyper-connections, as in the release", OF_FLASH },
	{ QWEN4, "*.ple.{key,value}_proj", PROFILE_KEEP, VENDOR, 0,
	  "per-layer embeddings, as in the release", OF_FLASH },
	{ QWEN4, "*.ngram_embedding.*", PROFILE_TABLE, ENGINE, ON_HF, NULL, "sglang qwen4_exp.py" },
	{ QWEN4, "*.ngram_embedding.*", PROFILE_BARE, ENGINE, 0, "embedding table",
	  "sglang qwen4_exp.py" },

	{ STEP, "*.moe.{gate,up,down}_proj", PROFILE_STACK, ENGINE, 0, NULL,
	  "sglang models/step3p5.py" },
	{ STEP, "*.layers.*", PROFILE_KEEP, VENDOR, 0, "only routed experts are FP8 in the release",
	  "TensorRT-LLM #14759" },
	{ STEP, "*.self_attn.g_proj", PROFILE_KEEP, ENGINE, FOR_SGLANG, SGLANG_BARE,
	  "sglang models/step3p5.py" },

	{ "granitemoehybrid", "compressed-tensors", PROFILE_FORMAT, ENGINE, 0, NULL, OF_GRANITE },
	{ "granitemoehybrid", GRANITE_EXPERTS, PROFILE_KEEP, ENGINE, ON_HF,
	  "no engine reads them in hf", OF_GRANITE },
	{ "granitemoehybrid", GRANITE_EXPERTS, PROFILE_KEEP, ENGINE, ON_MODELOPT,
	  "no engine reads them in modelopt", OF_GRANITE },
	{ "granitemoehybrid", GRANITE_EXPERTS, PROFILE_KEEP, ENGINE, ON_TENSOR,
	  "no engine reads them with one scale per tensor", OF_GRANITE },
	{ "granitemoehybrid", GRANITE_EXPERTS, PROFILE_STACK, ENGINE, ON_COMPRESSED, NULL,
	  OF_GRANITE },
	{ "granitemoe granitemoeshared", GRANITE_EXPERTS, PROFILE_SPLIT, ENGINE, 0, NULL,
	  "vllm granitemoe.py" },

	{ INKLING, "*.shared_w{13,2}_weight", PROFILE_KEEP, ENGINE, 0,
	  "shared experts are BF16 in the engines", OF_INKLING },
	{ INKLING, "*.experts.w{13,2}_weight", PROFILE_STACK, ENGINE, ON_CHANNELWISE, NULL,
	  OF_INKLING },
	{ INKLING, "*.experts.w{13,2}_weight", PROFILE_KEEP, ENGINE, 0, INTERLEAVED, OF_INKLING },
	{ INKLING, "*.w13_dn", PROFILE_GENERAL, ENGINE, ON_CHANNELWISE | ON_MXFP8, NULL,
	  OF_INKLING_2 },
	{ INKLING, "*.w13_dn", PROFILE_KEEP, ENGINE, 0, INTERLEAVED, OF_INKLING_2 },

	{ MUSE, "*.{pre,post}_expert_proj", PROFILE_BARE, ENGINE, 0, BUILT_BARE, OF_MUSE },
	{ "muse_spark", "*", PROFILE_NOT_LOADED, ENGINE, FOR_VLLM | FOR_SGLANG,
	  "SGLang refuses FP8 of this model, and vLLM does not have it", OF_MUSE },
	{ "muse_glimmer", "*", PROFILE_NOT_LOADED, ENGINE, FOR_VLLM,
	  "vLLM does not have this model", OF_MUSE },
	{ "gpt_oss", "*.experts.*", PROFILE_NOT_LOADED, ENGINE, 0,
	  "no engine loads FP8 experts of gpt_oss under these names", "vllm gpt_oss.py" },
	{ UNMERGED, "*.experts.*.gate_proj", PROFILE_NOT_LOADED, ENGINE, FOR_TRANSFORMERS,
	  "transformers finds no single experts of this model, and initializes them at random",
	  OF_MAPPING },
	{ "llama4 llama4_text", "*.experts.*.gate_proj", PROFILE_NOT_LOADED, ENGINE,
	  ON_HF | FOR_TRANSFORMERS,
	  "transformers finds single experts of this model only in compressed-tensors",
	  OF_MAPPING },
	{ "inkling2*", "*.experts.w{13,2}_weight", PROFILE_NOT_LOADED, ENGINE, FOR_TRANSFORMERS,
	  "transformers does not apply the scales of these experts", OF_MAPPING },
	{ "inkling_mm_model", "*", PROFILE_NOT_LOADED, ENGINE, FOR_TRANSFORMERS,
	  "transformers stops where it dequantizes this model, as on a CPU", OF_MAPPING },
	{ "granitemoe granitemoeshared granitemoe_swa granitemoehybrid", "*.block_sparse_moe.*",
	  PROFILE_NOT_LOADED, ENGINE, FOR_TRANSFORMERS,
	  "transformers loads experts of this model in BF16 only",
	  "transformers models/granitemoe" },

	{ MLA, "*.self_attn", PROFILE_CACHE, ENGINE, FOR_VLLM,
	  "from 0.23 on, vLLM does not load the scale of a latent cache: it uses 1.0",
	  "auto-round #2370" },
	{ QWEN3_5, "*.self_attn", PROFILE_CACHE, ENGINE, FOR_VLLM,
	  "vLLM does not load the KV cache scales of this model: it uses 1.0", "vllm #54623" },

	{ "lara_mini", "*.linear_attn.in_proj", PROFILE_KEEP, ENGINE, FOR_TRANSFORMERS,
	  "transformers splits it into four modules, and does not apply its scale", OF_MAPPING },
	{ "longcat_flash* Longcat*", "*.post_projs.*", PROFILE_KEEP, ENGINE, 0,
	  "vLLM stops at a scale of it", "vllm longcat_flash_ngram.py" },
	{ "spark2_5", "*.self_attn.g_proj", PROFILE_KEEP, ENGINE, FOR_SGLANG, SGLANG_BARE,
	  "sglang spark2_5.py" },
	{ "gigachat35 gigachat3_5", "*.self_attn.g_proj", PROFILE_KEEP, ENGINE, FOR_SGLANG,
	  SGLANG_BARE, OF_GIGACHAT },
	{ "gigachat35 gigachat3_5", "*.gate_{up,down}_lowrank", PROFILE_KEEP, ENGINE, FOR_SGLANG,
	  SGLANG_BARE, OF_GIGACHAT },
	{ "granite_speech", "encoder.*", PROFILE_BARE, ENGINE, 0, BUILT_BARE,
	  "vllm granite_speech.py" },
	{ "FluxTransformer*", "{x_embedder,context_embedder,proj_out}", PROFILE_BARE, ENGINE, 0,
	  BUILT_BARE, "sglang multimodal_gen flux.py" },
	{ "mt5 pop2piano t5 udop umt5", "*.wo", PROFILE_KEEP, ENGINE, ON_HF | FOR_TRANSFORMERS,
	  "transformers keeps it in FP32, and takes codes for weights",
	  "transformers _keep_in_fp32_modules" },
	{ "zaya", "*.mlp.gate.*", PROFILE_KEEP, ENGINE, 0, "router network", "sglang zaya.py" },

	{ "bitnet BitNet* Bitnet*", "*", PROFILE_KEEP, ENGINE, 0,
	  "BitNet's layers round weights to -1, 0 and 1 when they run, and FP8 layers do not",
	  "transformers integrations/bitnet.py" },

	/* Mamba mixers that an engine builds without quantization. */
	{ MAMBA1, "*.mixer.{in,out}_proj", PROFILE_KEEP, ENGINE, FOR_VLLM, VLLM_BARE, OF_MAMBA1 },
	{ "jamba", "*.mamba.{in,out}_proj", PROFILE_KEEP, ENGINE, FOR_VLLM, VLLM_BARE, OF_MAMBA1 },
	{ "falcon_h1", "*.mamba.{in,out}_proj", PROFILE_KEEP, ENGINE, FOR_SGLANG,
	  "SGLang builds it without quantization, and stops at a scale", "sglang falcon_h1.py" },

	/* Formats that a class of an engine reads wrong or not at all. */
	{ "mistral3", "compressed-tensors", PROFILE_FORMAT, ENGINE, ON_BLOCKWISE | FOR_VLLM, NULL,
	  "vllm mistral3.py" },
	{ "mistral3", "*", PROFILE_NOT_LOADED, ENGINE, ON_BLOCKWISE | ON_HF | FOR_VLLM,
	  "vLLM renames weight_scale_inv in this model, and stops at block scales of hf",
	  "vllm mistral3.py" },
	{ SGLANG_LLAMA, "compressed-tensors", PROFILE_FORMAT, ENGINE, ON_BLOCKWISE | FOR_SGLANG,
	  NULL, OF_SG_LLAMA },
	{ SGLANG_LLAMA, "*", PROFILE_NOT_LOADED, ENGINE, ON_BLOCKWISE | ON_HF | FOR_SGLANG,
	  "SGLang reads block scales of this model only in compressed-tensors, and drops them "
	  "silently in hf",
	  OF_SG_LLAMA },
	{ SGLANG_LLAMA, "*", PROFILE_NOT_LOADED, ENGINE, ON_MXFP8 | FOR_SGLANG,
	  "SGLang drops MXFP8 scales of this model silently", OF_SG_LLAMA },
	{ SGLANG_MLA, "modelopt", PROFILE_FORMAT, ENGINE, ON_TENSOR | FOR_SGLANG, NULL, OF_SG_MLA },
	{ SGLANG_MLA, "*.self_attn.q_a_proj", PROFILE_NOT_LOADED, ENGINE,
	  ON_TENSOR | ON_HF | ON_COMPRESSED | FOR_SGLANG,
	  "SGLang merges q_a_proj and kv_a_proj_with_mqa, and loads per-tensor scales of both only "
	  "in modelopt, with --calibration",
	  OF_SG_MLA },

	{ "gptj nemotron-nas", "compressed-tensors", PROFILE_FORMAT, ENGINE, FOR_SGLANG, NULL,
	  OF_SG_CACHED },
	{ "granitemoehybrid gptj nemotron-nas", "*", PROFILE_NOT_LOADED, ENGINE,
	  ON_HF | ON_MODELOPT | FOR_SGLANG,
	  "SGLang loads FP8 of this model only in compressed-tensors, and stops at other formats",
	  OF_SG_CACHED },
	{ "qwen3_next", "*.linear_attn.in_proj_qkvz", PROFILE_NOT_LOADED, ENGINE,
	  ON_TENSOR | FOR_SGLANG,
	  "SGLang has a scale for each of its four parts, and stops at one for the tensor",
	  "sglang qwen3_next.py" },

	{ SGLANG_VISUAL, "*", PROFILE_NOT_LOADED, ENGINE, ON_MXFP8 | ON_MODELOPT | FOR_SGLANG,
	  "SGLang builds the tower of this model in FP8 in modelopt, whatever the list says",
	  OF_SG_VISION },

	/* The KV cache. */
	{ "qwen2_5_vl", "*", PROFILE_CACHE_STOP, ENGINE, ON_MODELOPT | FOR_SGLANG,
	  "SGLang has no parameter for the KV cache scales of this model, and stops",
	  "sglang qwen2_5_vl.py" },
	{ "jamba", "*", PROFILE_CACHE_STOP, ENGINE, FOR_VLLM,
	  "vLLM has no parameter for the KV cache scales of this model, and stops",
	  "vllm jamba.py" },
	{ "falcon_h1", "*", PROFILE_CACHE_STOP, ENGINE, FOR_SGLANG,
	  "SGLang has no parameter for the KV cache scales of this model, and stops",
	  "sglang falcon_h1.py" },
	{ SGLANG_NO_CACHE_SCALES, "*", PROFILE_CACHE, ENGINE, FOR_SGLANG,
	  "SGLang does not load the KV cache scales of this model: it uses 1.0",
	  "sglang model classes" },

	/* Modules that an engine asks for by other names. */
	NAME(HEADLESS, "^layers=model.layers", FOR_VLLM, "vllm registry.py"),
	NAME(HEADLESS " cohere2 deepseek_v3 laguna", "^fc=model.fc", FOR_VLLM,
	     "vllm llama_eagle3.py"),
	NAME("granitemoehybrid", "mamba=mixer", FOR_VLLM | FOR_SGLANG, OF_GRANITE),
	NAME("falcon_h1", "^model.layers.#.mamba=model.#+.mixer", FOR_VLLM, "vllm falcon_h1.py"),
	NAME("falcon_h1", "layers.#.self_attn=layers.#", FOR_SGLANG, "sglang falcon_h1.py"),
	NAME("falcon_h1", "feed_forward=mlp", FOR_SGLANG, "sglang falcon_h1.py"),
	NAME("mistral3", "attention.q_proj=attention.qkv_proj", ON_COMPRESSED | FOR_SGLANG,
	     OF_SG_PIXTRAL),
	NAME("mistral3", "attention.o_proj=attention.proj", FOR_SGLANG, OF_SG_PIXTRAL),
	NAME("gemma3 llava", "self_attn.out_proj=self_attn.proj", FOR_SGLANG, "sglang siglip.py"),
	NAME("llava", "self_attn.q_proj=self_attn.qkv_proj", ON_COMPRESSED | FOR_SGLANG,
	     "sglang llava.py"),
	NAME("mistral3", "feed_forward.gate_proj=feed_forward.gate_up_proj",
	     ON_COMPRESSED | FOR_SGLANG, OF_SG_PIXTRAL),
	NAME("minimax_m2", "block_sparse_moe=mlp", FOR_VLLM, "vllm minimax_m2.py"),
	NAME("kimi_linear", "block_sparse_moe=mlp", FOR_SGLANG, "sglang kimi_linear.py"),
	NAME(STEP " step3_vl step3_text", "moe=mlp", FOR_SGLANG, "sglang step3p5.py"),
	NAME(LING2, "attention.query_key_value=attention.q_proj", ON_HF | FOR_SGLANG, OF_SG_LING2),
	NAME(LING2, "attention.query_key_value=attention.k_proj", ON_HF | FOR_SGLANG, OF_SG_LING2),
	NAME(LING2, "attention.query_key_value=attention.v_proj", ON_HF | FOR_SGLANG, OF_SG_LING2),
	NAME("bailing_moe_v3", "attention.g_proj=attention.output_gate", FOR_SGLANG, OF_SG_LING3),
	NAME("bailing_moe_v3", "layers.#.mlp=layers.#", FOR_SGLANG, OF_SG_LING3),
	NAME("bailing_moe_v3", "attention=self_attn", FOR_SGLANG, OF_SG_LING3),
	NAME("grok-1 grok Grok1*", "self_attn=attn", FOR_SGLANG, "sglang grok.py"),
	NAME("phi3small", "query_key_value=q_proj", ON_HF | FOR_SGLANG, OF_SG_PHI3),
	NAME("phi3small", "query_key_value=k_proj", ON_HF | FOR_SGLANG, OF_SG_PHI3),
	NAME("phi3small", "query_key_value=v_proj", ON_HF | FOR_SGLANG, OF_SG_PHI3),
	NAME("phi3small", "query_key_value=qkv_proj", FOR_SGLANG, OF_SG_PHI3),
	NAME("phi3small", "self_attn.dense=self_attn.o_proj", FOR_SGLANG, OF_SG_PHI3),
	NAME("opt", "out_proj=o_proj", FOR_SGLANG, "sglang opt.py"),
	NAME("exaone", "^transformer=model", FOR_VLLM, "vllm exaone.py"),
	NAME("ernie4_5_moe_vl ernie4_5_vl_moe", "mlp.experts=mlp.mlp", FOR_VLLM,
	     "vllm ernie45_vl_moe.py"),
	NAME("bert roberta xlm-roberta camembert", "attention.self=attention.output", FOR_VLLM,
	     "vllm bert.py"),
	NAME("aria", "^language_model.model=language_model.model.model", FOR_VLLM, "vllm aria.py"),
	NAME("lfm2_vl", "^model.language_model=language.model", FOR_VLLM, "vllm lfm2_vl.py"),
	NAME("kanana-1.5-v kanana_v", "^language_model.model=model.model", FOR_VLLM,
	     "vllm kanana_v.py"),

	NAME(LLAVA, "^language_model.model=model.language_model", TRANSFORMERS, OF_MAPPING),
	NAME(LLAVA " minimax_m3_vl qianfan_ocr vibevoice_asr", "^language_model.lm_head=lm_head",
	     TRANSFORMERS, OF_MAPPING),
	NAME(LLAVA, "^vision_tower.vision_model=model.vision_tower", TRANSFORMERS, OF_MAPPING),
	NAME(LLAVA, "^vision_tower=model.vision_tower", TRANSFORMERS, OF_MAPPING),
	NAME(LLAVA, "^image_tower=model.image_tower", TRANSFORMERS, OF_MAPPING),
	NAME(LLAVA, "^video_tower=model.video_tower", TRANSFORMERS, OF_MAPPING),
	NAME(LLAVA, "^audio_tower=model.audio_tower", TRANSFORMERS, OF_MAPPING),
	NAME(LLAVA, "^encoder=model.encoder", TRANSFORMERS, OF_MAPPING),
	NAME(LLAVA, "^projector=model.projector", TRANSFORMERS, OF_MAPPING),
	NAME(LLAVA, "^multi_modal_projector=model.multi_modal_projector", TRANSFORMERS, OF_MAPPING),
	NAME(QWEN_VL, "^model.layers=model.language_model.layers", TRANSFORMERS, OF_MAPPING),
	NAME(QWEN_VL, "^visual=model.visual", TRANSFORMERS, OF_MAPPING),
	NAME(QWEN_VL, "^audio_tower=model.audio_tower", TRANSFORMERS, OF_MAPPING),
	NAME("paddleocr_vl", "^mlp_AR=model.projector", TRANSFORMERS, OF_MAPPING),
	NAME(QWEN_OMNI, "^thinker.model.layers=thinker.model.language_model.layers", TRANSFORMERS,
	     OF_MAPPING),
	NAME(QWEN_OMNI, "^thinker.visual=thinker.model.visual", TRANSFORMERS, OF_MAPPING),
	NAME(QWEN_OMNI, "^thinker.audio_tower=thinker.model.audio_tower", TRANSFORMERS, OF_MAPPING),
	NAME("nemotron_h", "^backbone=model", TRANSFORMERS, OF_MAPPING),
	NAME("nemotron_h_omni", "^language_model.backbone=language_model.model", TRANSFORMERS,
	     OF_MAPPING),
	NAME("nemotron_h_omni", "^mlp1.1=multi_modal_projector.linear_1", TRANSFORMERS, OF_MAPPING),
	NAME("nemotron_h_omni", "^mlp1.3=multi_modal_projector.linear_2", TRANSFORMERS, OF_MAPPING),
	NAME("kimi_linear", "block_sparse_moe=mlp", TRANSFORMERS, OF_MAPPING),
	NAME("bailing_hybrid", "attention.dense=self_attn.o_proj", TRANSFORMERS, OF_MAPPING),
	NAME("bailing_hybrid", "attention=self_attn", TRANSFORMERS, OF_MAPPING),
	NAME("sarvam_moe", "attention.dense=self_attn.o_proj", TRANSFORMERS, OF_MAPPING),
	NAME("gpt_neox", "^embed_out=lm_head", TRANSFORMERS, OF_MAPPING),
	NAME("hy_v3", "mlp.shared_mlp=mlp.shared_experts", TRANSFORMERS, OF_MAPPING),
	NAME("laguna", "mlp.shared_expert=mlp.shared_experts", TRANSFORMERS, OF_MAPPING),
	NAME("shieldgemma2", "^model.language_model.model=model.language_model", TRANSFORMERS,
	     OF_MAPPING),

	NAME("phimoe", "block_sparse_moe.gate=mlp.router", EXPRESSION, OF_MAPPING),
	NAME("step3p7 dots3_note hy_v4_vl", "^model.layers=model.language_model.layers",
	     TRANSFORMERS, OF_MAPPING),
	NAME("mistral_large4", "^layers.#.attention=model.language_model.layers.#.self_attn",
	     TRANSFORMERS, OF_MAPPING),
	NAME("nemo_speechlm", "^llm.lm_head=lm_head", TRANSFORMERS, OF_MAPPING),
	NAME("nemo_speechlm", "^llm.model=model.language_model", TRANSFORMERS, OF_MAPPING),

	/* Entries without which an engine misses kept modules, whatever their names. */
	{ "zamba2", "compressed-tensors", PROFILE_FORMAT, ENGINE, 0, NULL, "vllm zamba2.py" },
	{ SGLANG_VISUAL, "*.visual.*", PROFILE_ENTRY, ENGINE, ON_HF | FOR_SGLANG, "visual",
	  OF_SG_VISION },
	{ SGLANG_VISUAL, "*.visual.*", PROFILE_ENTRY, ENGINE, ON_COMPRESSED | FOR_SGLANG,
	  "re:.*visual\\..*", OF_SG_VISION },
	{ SGLANG_VISION, "*.vision_model.*", PROFILE_ENTRY, ENGINE, ON_HF | FOR_SGLANG,
	  "vision_model", OF_SG_VISION },
	{ SGLANG_VISION, "*.vision_model.*", PROFILE_ENTRY, ENGINE, ON_COMPRESSED | FOR_SGLANG,
	  "re:.*vision_model\\..*", OF_SG_VISION },
	{ "zamba2", "*.mamba.in_proj", PROFILE_ENTRY, ENGINE, ON_COMPRESSED | FOR_VLLM,
	  "re:\\d+\\.mixer\\.in_proj$", "vllm zamba2.py" },
	{ "zamba2", "*.mamba.out_proj", PROFILE_ENTRY, ENGINE, ON_COMPRESSED | FOR_VLLM,
	  "re:\\d+\\.mixer\\.out_proj$", "vllm zamba2.py" },
	{ TIED_DECODERS, "lm_head", PROFILE_ENTRY, ENGINE, EXPRESSION,
	  "re:.*(lm_head(\\.\\w+)?|decoder)$", OF_TIED },
	{ TIED_OUTPUTS, "lm_head", PROFILE_ENTRY, ENGINE, EXPRESSION,
	  "re:(proj_out|output_projection|embed_out|pred_layer\\.proj|lm_loss)$", OF_TIED },
	{ "prophetnet", "lm_head", PROFILE_ENTRY, ENGINE, EXPRESSION,
	  "re:.*\\.relative_pos_embeddings$", "transformers modeling_prophetnet.py" },
	{ "step3p7", "*.share_expert.*", PROFILE_ENTRY, ENGINE, EXPRESSION,
	  "re:.*\\.mlp\\.shared_experts\\..*", OF_MAPPING },
	{ RENAMED_TOWERS, "*.{vis*,vit,perception,acoustic*,blocks}.*", PROFILE_ENTRY, ENGINE,
	  EXPRESSION, TOWERS, OF_MAPPING },
	{ "deepseek_v4", "*.{compressor,indexer}.*", PROFILE_ENTRY, ENGINE, EXPRESSION,
	  "re:.*\\.self_attn\\.compressor\\..*(kv|gate|weights)_proj$", OF_MAPPING },
	{ "glm5_next", "*.self_attn.f_{a,b}_proj", PROFILE_ENTRY, ENGINE, EXPRESSION,
	  "re:.*\\.forget_gate\\..*", OF_MAPPING },
	{ "inkling2*", "*.{visual,attn_sink_proj,*_sconv,controllers}.*", PROFILE_ENTRY, ENGINE,
	  EXPRESSION,
	  "re:.*(\\.sink_proj|sconv\\.weight_proj|_message_gate\\..*|\\.vision_tower\\..*)$",
	  OF_MAPPING },
	{ "lara_mini", "*.linear_attn.in_proj", PROFILE_ENTRY, ENGINE, EXPRESSION,
	  "re:.*\\.linear_attn\\.in_proj_.*", OF_MAPPING },
	{ "pi0", "*.{gemma_expert,vision_tower}.*", PROFILE_ENTRY, ENGINE, EXPRESSION,
	  "re:(embed_action|model\\.(dit|vlm\\.(vis|multi_modal))).*", OF_MAPPING },
	{ "cohere_asr", "model.encoder.*", PROFILE_ENTRY, ENGINE, EXPRESSION,
	  "re:(model\\.(encoder\\..*|decoder\\.proj$)|proj_out$)", OF_MAPPING },
	{ "kyutai_speech_to_text", "codec_model.*", PROFILE_ENTRY, ENGINE, EXPRESSION,
	  "re:codec_model\\..*", OF_MAPPING },
	{ "vision-encoder-decoder", "encoder.*", PROFILE_ENTRY, ENGINE, EXPRESSION,
	  "re:encoder\\..*", OF_MAPPING },
	{ "lfm2_vl muse_* qwen3_asr qwen3_omni_moe* fuyu apertus1p5",
	  "*.{vision_tower,audio_tower,lm_head}.*", PROFILE_ENTRY, ENGINE, EXPRESSION,
	  "re:.*(patch_embedding|conv_out|vision_embed_tokens|quantize\\.embedding)$",
	  "transformers modeling files" }, /* linear, though called embedding and convolution */
	{ "gpt_oss", "*.experts.*", PROFILE_ENTRY, ENGINE, ON_COMPRESSED | FOR_VLLM,
	  "re:.*\\.#\\.mlp\\.experts.*", "vllm gpt_oss.py" },
	{ 0 },
};
