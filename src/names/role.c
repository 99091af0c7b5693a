/* SPDX-License-Identifier: Apache-2.0
 *
 * The names were read from the checkpoints of Llama, Mistral, Mixtral, Qwen 1 to 3.8, DeepSeek V2
 * to V4, Gemma 1 to 4, GPT-OSS, Phi, GLM, Llama 4, Falcon, GPT-NeoX, GPT-2, Mamba, Jamba, Kimi,
 * BERT, Whisper and of their multimodal variants.  What only one family asks for is a row in
 * select/profile_rows.c.
 */
#include "names/role.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "names/tensor_name.h"

/* pattern: the name of a segment, with a star at its begin or end for any text.  "name@" matches
 * only outside of numbered layers, "name@parent" only below a segment `parent`.  The first matching
 * rule wins. */
struct rule {
	const char *pattern;
	enum role role;
};

/* Rules for any segment: it names a branch of the model, and all tensors below have its role. */
static const struct rule branches[] = {
	{ "lora_*", ROLE_ADAPTER },
	{ "*router*", ROLE_ROUTER },
	{ "altup", ROLE_ALTUP },
	{ "altup_*", ROLE_ALTUP },
	{ "laurel", ROLE_LAUREL },
	{ "*hyper_connection*", ROLE_RESIDUAL },
	{ "ngram_embedding", ROLE_EMBEDDING }, /* tables in parts: shard_0, shard_1 */
	{ "*projector*", ROLE_PROJECTOR },
	{ "*merger*", ROLE_PROJECTOR },
	{ "*resampler*", ROLE_PROJECTOR },
	{ "*connector*", ROLE_PROJECTOR },
	{ "*aligner*", ROLE_PROJECTOR },
	{ "*qformer*", ROLE_PROJECTOR },
	{ "embed_vision*", ROLE_PROJECTOR },
	{ "embed_audio*", ROLE_PROJECTOR },
	{ "img_proj*", ROLE_PROJECTOR },
	{ "vision_proj*", ROLE_PROJECTOR },
	{ "visual_proj*", ROLE_PROJECTOR },
	{ "audio_proj*", ROLE_PROJECTOR },
	{ "text_proj*", ROLE_PROJECTOR },
	{ "language_projection", ROLE_PROJECTOR },
	{ "mlp1@", ROLE_PROJECTOR },  /* InternVL */
	{ "mlp_AR", ROLE_PROJECTOR }, /* PaddleOCR-VL */
	{ "patch_merge_mlp", ROLE_PROJECTOR },
	{ "*vision*", ROLE_VISION },
	{ "visual*", ROLE_VISION },
	{ "image_*", ROLE_VISION },
	{ "img_*@", ROLE_VISION }, /* in layers, a stream of a diffusion model */
	{ "video_*", ROLE_VISION },
	{ "patch_embed*", ROLE_VISION },
	{ "vit", ROLE_VISION },
	{ "vpm", ROLE_VISION },
	{ "sam_model", ROLE_VISION },
	{ "vqmodel", ROLE_VISION },
	{ "*audio*", ROLE_AUDIO },
	{ "*whisper*", ROLE_AUDIO },
	{ "sound_*", ROLE_AUDIO },
	{ "speech*", ROLE_AUDIO },
	{ "apm", ROLE_AUDIO },
	{ "tts", ROLE_AUDIO },
	{ "talker", ROLE_AUDIO },
	{ "token2wav", ROLE_AUDIO },
	{ "code2wav", ROLE_AUDIO },
	{ "*adapter*", ROLE_ADAPTER },
	{ "lm_head", ROLE_LM_HEAD },
	{ "pooler", ROLE_OUTPUT_HEAD },
	{ "cls", ROLE_OUTPUT_HEAD },
	{ "*_head@", ROLE_OUTPUT_HEAD },
	{ "*_heads@", ROLE_OUTPUT_HEAD },
};

/* Rules for the module that owns the tensor, or for the tensor itself where its name does not end
 * in "weight" or "bias". */
static const struct rule modules[] = {
	{ "e_score_correction_bias", ROLE_ROUTER_BIAS },
	{ "A_log", ROLE_STATE_SPACE },
	{ "D", ROLE_STATE_SPACE },
	{ "dt_bias", ROLE_STATE_SPACE },
	{ "attn_sink*", ROLE_SINK },
	{ "attention_sink*", ROLE_SINK },
	{ "sinks", ROLE_SINK },
	{ "*norm*", ROLE_NORM },
	{ "*Norm*", ROLE_NORM },
	{ "ln_*", ROLE_NORM },
	{ "*_ln", ROLE_NORM },
	{ "ln", ROLE_NORM },
	{ "*conv*", ROLE_CONVOLUTION },
	{ "*Conv*", ROLE_CONVOLUTION },
	{ "gate", ROLE_ROUTER },
	{ "wg", ROLE_ROUTER },
	{ "shared_expert_gate", ROLE_ROUTER },
	{ "embed_out", ROLE_LM_HEAD },
	{ "unembed", ROLE_LM_HEAD },
	{ "output_layer", ROLE_LM_HEAD },
	{ "head", ROLE_LM_HEAD },
	{ "output@", ROLE_LM_HEAD },
	{ "output@shared_head", ROLE_LM_HEAD }, /* of MTP layers in Step-3.5 */
	{ "proj_out@", ROLE_LM_HEAD },
	{ "embed_*", ROLE_EMBEDDING },
	{ "*embed", ROLE_EMBEDDING },
	{ "*embedding", ROLE_EMBEDDING },
	{ "*embeddings", ROLE_EMBEDDING },
	{ "*embeds", ROLE_TABLE },
	{ "*embedder", ROLE_EMBEDDING },
	{ "*embedders", ROLE_EMBEDDING },
	{ "vte", ROLE_EMBEDDING },
	{ "emb", ROLE_TABLE },
	{ "wte", ROLE_EMBEDDING },
	{ "wpe", ROLE_EMBEDDING },
	{ "shared@", ROLE_TABLE }, /* T5, BART */
	{ "*attention_bias", ROLE_TABLE },
	{ "classifier", ROLE_OUTPUT_HEAD },
	{ "score@", ROLE_OUTPUT_HEAD },
	{ "scores@", ROLE_OUTPUT_HEAD },
	{ "qa_outputs", ROLE_OUTPUT_HEAD },
	{ "dt_proj", ROLE_STATE_SPACE },
	{ "x_proj", ROLE_STATE_SPACE },
	{ "in_proj_a", ROLE_LINEAR_ATTENTION_GATE },
	{ "in_proj_b", ROLE_LINEAR_ATTENTION_GATE },
	{ "in_proj_ba", ROLE_LINEAR_ATTENTION_GATE },
	{ "weights_proj", ROLE_INDEXER },
	{ "*_res_proj", ROLE_RESIDUAL },
	{ "eh_proj", ROLE_MTP },
	{ "fc@mtp*", ROLE_MTP },
	{ "input_proj@mtp*", ROLE_MTP },
	{ "mtp_*", ROLE_MTP },
	{ "per_layer_*", ROLE_PER_LAYER_INPUT },
	{ "*_bias", ROLE_PARAMETER },
};

#define ROLE(role, reason, linear) [role] = { reason, linear },

static const struct {
	const char *reason;
	bool linear;
} roles[N_ROLES] = { ROLES(ROLE) };

static const struct {
	const char *pattern;
	enum parallel parallel;
} cuts[] = {
	{ "q_proj", PARALLEL_COLUMN },
	{ "k_proj", PARALLEL_COLUMN },
	{ "v_proj", PARALLEL_COLUMN },
	{ "o_proj", PARALLEL_ROW },
	{ "gate_proj", PARALLEL_COLUMN },
	{ "up_proj", PARALLEL_COLUMN },
	{ "down_proj", PARALLEL_ROW },
	{ "gate_up_proj", PARALLEL_GATE_UP },
	{ "input_linear@shared_mlp", PARALLEL_GATE_UP }, /* Granite */
	{ "output_linear", PARALLEL_ROW },
	{ "qkv_proj", PARALLEL_QKV },
	{ "w1", PARALLEL_COLUMN },
	{ "w3", PARALLEL_COLUMN },
	{ "w2", PARALLEL_ROW },
	{ "q_b_proj", PARALLEL_COLUMN },
	{ "kv_b_proj", PARALLEL_COLUMN },
	{ "wq_b@indexer", PARALLEL_REPLICATED },
	{ "wk@indexer", PARALLEL_REPLICATED },
	{ "wq_b", PARALLEL_COLUMN },
	{ "wkv_b", PARALLEL_COLUMN },
	{ "wq", PARALLEL_COLUMN },
	{ "wk", PARALLEL_COLUMN },
	{ "wv", PARALLEL_COLUMN },
	{ "wo", PARALLEL_ROW },
	{ "base_layer@qkv_proj", PARALLEL_QKV }, /* Phi-4-MM, beside its adapters */
	{ "base_layer@gate_up_proj", PARALLEL_GATE_UP },
	{ "base_layer@o_proj", PARALLEL_ROW },
	{ "base_layer@down_proj", PARALLEL_ROW },
	{ "att_proj", PARALLEL_QKV }, /* Molmo */
	{ "ff_proj", PARALLEL_GATE_UP },
	{ "attn_out", PARALLEL_ROW },
	{ "ff_out", PARALLEL_ROW },
	{ "Wi", PARALLEL_GATE_UP }, /* ModernBERT */
	{ "Wo", PARALLEL_ROW },
	{ "wqkv", PARALLEL_QKV },
	{ "Wqkv", PARALLEL_QKV },
	{ "qkv", PARALLEL_QKV },
	{ "query_key_value", PARALLEL_QKV },
	{ "c_attn", PARALLEL_QKV },
	{ "in_proj", PARALLEL_MAMBA },
	{ "in_proj_qkv", PARALLEL_COLUMN },
	{ "in_proj_z", PARALLEL_COLUMN },
	{ "in_proj_qkvz", PARALLEL_COLUMN },
	{ "out_proj", PARALLEL_ROW },
	{ "fc1", PARALLEL_COLUMN },
	{ "fc2", PARALLEL_ROW },
	{ "c_fc", PARALLEL_COLUMN },
	{ "c_proj", PARALLEL_ROW },
	{ "dense_h_to_4h", PARALLEL_COLUMN },
	{ "dense_4h_to_h", PARALLEL_ROW },
	{ "query", PARALLEL_COLUMN },
	{ "key", PARALLEL_COLUMN },
	{ "value", PARALLEL_COLUMN },
	{ "dense@intermediate", PARALLEL_COLUMN },
	{ "dense", PARALLEL_ROW },
};

/* Modules whose last rows are no whole block of 128 in FP8 releases of their vendors: DeepSeek's
 * kv_lora_rank + rope_dim (576). */
static const char *const ragged_rows[] = {
	"kv_a_proj_with_mqa",
	"wkv_a_with_mqa",
};

static bool is_under(const struct path *path, int i, const char *parent)
{
	if (!*parent)
		return !path_in_layer(path, i);
	while (--i >= 0)
		if (segment_matches(parent, strlen(parent), path->segments[i].text,
				    path->segments[i].n))
			return true;
	return false;
}

static bool path_matches(const struct path *path, int i, const char *pattern)
{
	size_t n;

	/* Nearly all patterns fail here, so that this comparison is the cost of a role. */
	if (*pattern != '*' && *pattern != path->segments[i].text[0])
		return false;
	n = strcspn(pattern, "@");
	return segment_matches(pattern, n, path->segments[i].text, path->segments[i].n) &&
	       (!pattern[n] || is_under(path, i, pattern + n + 1));
}

static bool find_branch(const struct path *path, enum role *role)
{
	for (size_t r = 0; r < sizeof branches / sizeof *branches; r++)
		for (int i = 0; i < path->n; i++)
			if (path_matches(path, i, branches[r].pattern)) {
				*role = branches[r].role;
				return true;
			}
	return false;
}

/* Whether the module is of a layer: below a number that follows a name. */
static bool is_in_layer(const struct path *path)
{
	for (int i = 0; i < path->owner; i++) {
		if (segment_is(&path->segments[i], "midlayer")) /* the one of EAGLE-3 */
			return true;
		if (i && segment_is_number(&path->segments[i]) &&
		    !segment_is_number(&path->segments[i - 1]))
			return true;
	}
	return false;
}

/* Returns the role by the name of the owning module or parameter, whatever the branch. */
static enum role find_module(const struct path *path)
{
	for (size_t r = 0; r < sizeof modules / sizeof *modules; r++)
		if (path_matches(path, path->owner, modules[r].pattern))
			return modules[r].role;
	return path->is_weight ? ROLE_LINEAR : ROLE_PARAMETER;
}

/* Experts in one tensor: "...experts.gate_up_proj", with or without ".weight". */
static enum role find_fused_experts(const struct path *path, enum role role)
{
	const struct segment *owner = &path->segments[path->owner];

	if (role != ROLE_LINEAR && role != ROLE_PARAMETER)
		return role;
	if (segment_ends(owner, "bias") || path->is_bias)
		return ROLE_PARAMETER;
	if (path->owner == path->experts + 1 && segment_is(owner, "gate_up_proj"))
		return ROLE_EXPERTS_GATE_UP;
	if (path->owner == path->experts + 1 && segment_is(owner, "down_proj"))
		return ROLE_EXPERTS_DOWN;
	return ROLE_EXPERTS_UNKNOWN;
}

static enum parallel find_parallel(const struct path *path)
{
	for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
		if (path_matches(path, path->owner, cuts[i].pattern))
			return cuts[i].parallel;
	return PARALLEL_REPLICATED;
}

static bool has_ragged_rows(const struct path *path)
{
	for (size_t i = 0; i < sizeof ragged_rows / sizeof *ragged_rows; i++)
		if (path_matches(path, path->owner, ragged_rows[i]))
			return true;
	return false;
}

/* Whether this is a name of GPT-2's Conv1D, which stores [in, out].  Other models use the same
 * names for plain linear layers. */
static bool is_conv1d_name(const struct segment *owner)
{
	static const char *const names[] = { "c_attn", "q_attn", "c_proj", "c_fc" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (segment_is(owner, names[i]))
			return true;
	return false;
}

/* Whether engines know modules of the role by themselves. */
static bool is_free(enum role role)
{
	return role == ROLE_EMBEDDING || role == ROLE_NORM || role == ROLE_CONVOLUTION;
}

static bool is_in_any_experts(const struct path *path)
{
	for (int i = 0; i < path->owner; i++)
		if (segment_ends(&path->segments[i], "experts"))
			return true;
	return false;
}

void role_of_name(struct role_facts *facts, const char *name)
{
	struct path path;
	enum role own, branch;

	path_split(&path, name);
	own = find_module(&path);
	*facts = (struct role_facts){ .in_experts = path.experts >= 0,
				      .in_any_experts = is_in_any_experts(&path),
				      .expert = path.experts >= 0 && path.numbered_expert };
	if (facts->expert && own == ROLE_ROUTER)
		own = ROLE_LINEAR; /* an expert's own gate */
	if (path.experts >= 0 && !facts->expert)
		own = find_fused_experts(&path, own);
	facts->role = find_branch(&path, &branch) ? branch : own;
	facts->linear = path.is_weight && roles[own].linear;
	facts->weight = path.is_weight;
	facts->in_layer = is_in_layer(&path);
	facts->free = is_free(own) || facts->role == ROLE_EMBEDDING;
	facts->tower = facts->role == ROLE_PROJECTOR || facts->role == ROLE_VISION ||
		       facts->role == ROLE_AUDIO;
	facts->parallel = find_parallel(&path);
	facts->ragged_rows = has_ragged_rows(&path);
	facts->conv1d = facts->linear && is_conv1d_name(&path.segments[path.owner]);
}

const char *role_reason(enum role role)
{
	return roles[role].reason;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The key is the name with one byte, which no name contains, in place of each segment that is a
 * number and of three or more digits anywhere: no rule contains those.  Written by hand, because it
 * is half of the cost of a tensor. */
static size_t make_key(struct role_cache *cache, const char *name)
{
	size_t n = strlen(name), length = 0, digits;
	char *key;

	if (n >= cache->key_size)
		cache->key = xreallocarray(cache->key, cache->key_size = 2 * n + 1, 1);
	key = cache->key;
	for (size_t i = 0; i < n; i += digits) {
		for (; i < n && !is_digit(name[i]); i++)
			key[length++] = name[i];
		for (digits = 0; is_digit(name[i + digits]);)
			digits++;
		if (digits >= 3 || (digits && (i == 0 || name[i - 1] == '.') &&
				    (!name[i + digits] || name[i + digits] == '.')))
			key[length++] = '\1';
		else
			for (size_t d = 0; d < digits; d++)
				key[length++] = name[i + d];
	}
	return length;
}

size_t role_cache_add(struct role_cache *cache, const char *name)
{
	size_t known = cache->names.n, length, i;

	length = make_key(cache, name);
	i = intern_add(&cache->names, cache->key, length);
	if (i == known) {
		ARRAY_GROW(cache->facts, known);
		role_of_name(&cache->facts[i], name);
	}
	return i;
}

struct role_facts role_cache_find(struct role_cache *cache, const char *name)
{
	size_t i = role_cache_add(cache, name);

	return cache->facts[i];
}

void role_cache_release(struct role_cache *cache)
{
	intern_release(&cache->names);
	free(cache->facts);
	free(cache->key);
}
