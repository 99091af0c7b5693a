/* SPDX-License-Identifier: Apache-2.0
 *
 * The families and their rows; profile.h has the meaning of each column.  `fp8conv families` and
 * fp8conv-families(7) print this table.  A family that needs no row is not here: the general rules
 * (model/role.c, model/fusion.c) come out right for it.
 *
 * Read in vLLM (017e9f4 and 7cfb97e), SGLang 0.5.23, transformers 5.23, Model-Optimizer a2fbac7 and
 * llm-compressor ab1ba3e; the column `source` has the file or the thread.
 */
#include "select/profile.h"

#define V32		"deepseek_v32 glm_moe_dsa hy_v4"
#define GLM5		"glm5_next glm5_next_text"
#define LING3		"bailing_hybrid bailing_moe_v3"
#define NEMO		"nemotron_h nemotron_h_omni NemotronH_*"
#define LATENT_GLM	"glm4_moe_lite glm_moe_dsa"
#define MLA		"deepseek_v2 deepseek_v3 deepseek_v32 " LATENT_GLM " DeepseekV* KimiK2*"
#define QWEN3_5		"qwen3_5 qwen3_5_moe Qwen3_5*"
#define QWEN4		"qwen4_exp qwen4_exp_text"
#define STEP		"step3p5 step3p7"
#define INKLING		"inkling_mm_model inkling_text"
#define MUSE		"muse_spark muse_glimmer"
#define GRANITE_EXPERTS "*.block_sparse_moe.{input,output}_linear"

/* Reasons to keep a module. */
#define SQUARE	    "loaders read it in square blocks only"
#define BUILT_BARE  "engines build it without quantization"
#define SGLANG_BARE "SGLang builds it without quantization, and skips a scale silently"
#define INTERLEAVED "its rows interleave gate and up, and a scale of both would mix them"

/* Sources. */
#define OF_V32	     "vllm deepseek_v2.py"
#define OF_LING3     "vllm bailing_moe_v3.py"
#define OF_NEMO	     "modelopt mamba_moe_disabled_quantizers"
#define OF_KIMI_K3   "vllm kimi_k3/nvidia/model.py"
#define OF_FLASH     "transformers #48349"
#define OF_GRANITE   "vllm granitemoehybrid.py"
#define OF_INKLING   "vllm inkling"
#define OF_INKLING_2 "transformers conversion_mapping"
#define OF_GIGACHAT  "sglang gigachat35.py"
#define OF_MUSE	     "sglang muse_spark.py"

#define VENDOR true
#define ENGINE false

const struct profile_row profile_rows[] = {
	{ V32, "*.indexer.wk", PROFILE_GENERAL, ENGINE, ON_BLOCKWISE | ON_HF | ON_COMPRESSED, NULL,
	  OF_V32 },
	{ V32, "*.indexer.wk", PROFILE_GENERAL, ENGINE, ON_CHANNELWISE | ON_MODELOPT, NULL,
	  OF_V32 },
	{ V32, "*.indexer.wk", PROFILE_KEEP, ENGINE, 0, SQUARE, OF_V32 },

	{ "deepseek_v4", "expert_dtype=fp8", PROFILE_CONFIG, ENGINE, 0, NULL,
	  "vllm deepseek_v4/quant_config.py" },
	{ "deepseek_v4", "*.compressor.*", PROFILE_BARE, ENGINE, 0, BUILT_BARE,
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

	{ "olmo_hybrid", "*.{q,k,v,g}_proj", PROFILE_BOND, ENGINE, 0, NULL, "vllm olmo_hybrid.py" },
	{ "jet_nemotron", "*.linear_attn.{q,k,v,a,b,g}_proj", PROFILE_BOND, ENGINE, 0, NULL,
	  "sglang jet_nemotron.py" },
	{ "minimax_m3_vl minimax_m3", "*.self_attn.{q,k,v,index_q,index_k}_proj", PROFILE_BOND,
	  ENGINE, 0, NULL, "vllm minimax_m3/nvidia/model.py" },

	{ NEMO, "*.mtp.*", PROFILE_KEEP, VENDOR, 0, "MTP layers, as in the release", OF_NEMO },
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
	{ "granitemoe granitemoeshared granitemoehybrid", "*.block_sparse_moe.*",
	  PROFILE_NOT_LOADED, ENGINE, FOR_TRANSFORMERS,
	  "transformers loads experts of this model in BF16 only",
	  "transformers models/granitemoe" },

	{ MLA, "*.self_attn", PROFILE_CACHE, ENGINE, FOR_VLLM,
	  "from 0.23 on, vLLM does not load the scale of a latent cache: it uses 1.0",
	  "auto-round #2370" },
	{ QWEN3_5, "*.self_attn", PROFILE_CACHE, ENGINE, FOR_VLLM,
	  "vLLM does not load the KV cache scales of this model: it uses 1.0", "vllm #54623" },

	{ "longcat_flash* Longcat*", "*.post_projs.*", PROFILE_KEEP, ENGINE, 0,
	  "vLLM stops at a scale of it", "vllm longcat_flash_ngram.py" },
	{ "spark2_5", "*.self_attn.g_proj", PROFILE_KEEP, ENGINE, FOR_SGLANG, SGLANG_BARE,
	  "sglang spark2_5.py" },
	{ "gigachat35", "*.self_attn.g_proj", PROFILE_KEEP, ENGINE, FOR_SGLANG, SGLANG_BARE,
	  OF_GIGACHAT },
	{ "gigachat35", "*.gate_{up,down}_lowrank", PROFILE_KEEP, ENGINE, FOR_SGLANG, SGLANG_BARE,
	  OF_GIGACHAT },
	{ "granite_speech", "encoder.*", PROFILE_BARE, ENGINE, 0, BUILT_BARE,
	  "vllm granite_speech.py" },
	{ "zaya", "*.mlp.gate.*", PROFILE_KEEP, ENGINE, 0, "router network", "sglang zaya.py" },
	{ 0 },
};
