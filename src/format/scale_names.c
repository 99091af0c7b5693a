/* SPDX-License-Identifier: Apache-2.0 */
#include "format/scale_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "base/text.h"

#define WORD(text) (text), sizeof(text) - 1

/* In the order of the search: of a weight's scales "scale" is the least specific and last. */
static const struct scale_name words[] = {
	{ WORD("k_cache.scale"), SCALE_OF_CACHE, "hy-v3", "k" },
	{ WORD("v_cache.scale"), SCALE_OF_CACHE, "hy-v3", "v" },
	{ WORD("self_attn.q.scale"), SCALE_OF_CACHE, "hy-v3", NULL },
	{ WORD("weight_scale_inv"), SCALE_OF_WEIGHT, NULL, NULL },
	{ WORD("weight_scale"), SCALE_OF_WEIGHT, NULL, NULL },
	{ WORD("scale_weight"), SCALE_OF_WEIGHT, "comfyui", NULL },
	{ WORD("qscale_weight"), SCALE_OF_WEIGHT, "mistral", NULL },
	{ WORD("scale"), SCALE_OF_WEIGHT, "deepseek-v4", NULL },
	{ WORD("input_scale"), SCALE_OF_INPUT, NULL, NULL },
	{ WORD("activation_scale"), SCALE_OF_INPUT, NULL, NULL },
	{ WORD("scale_input"), SCALE_OF_INPUT, "comfyui", NULL },
	{ WORD("qscale_act"), SCALE_OF_INPUT, "mistral", NULL },
	{ WORD("act_scale"), SCALE_OF_INPUT, "autofp8", NULL },
	{ WORD("k_scale"), SCALE_OF_CACHE, NULL, "k" },
	{ WORD("v_scale"), SCALE_OF_CACHE, NULL, "v" },
	{ WORD("kv_scale"), SCALE_OF_CACHE, "autofp8", "kv" },
	{ WORD("k_proj.output_scale"), SCALE_OF_CACHE, "quark", "k" },
	{ WORD("v_proj.output_scale"), SCALE_OF_CACHE, "quark", "v" },
	{ WORD("q_proj.output_scale"), SCALE_OF_CACHE, "quark", NULL },
	{ WORD("prob_output_scale"), SCALE_OF_CACHE, "quark", NULL },
	{ WORD("q_scale"), SCALE_OF_CACHE, NULL, NULL },
	{ WORD("prob_scale"), SCALE_OF_CACHE, NULL, NULL },
	{ WORD("comfy_quant"), SCALE_NOTE, "comfyui", NULL },
	{ WORD("scaled_fp8"), SCALE_NOTE, "comfyui", NULL },
	{ WORD("weight_zero_point"), SCALE_ZERO_POINT, NULL, NULL },
	{ WORD("input_zero_point"), SCALE_ZERO_POINT, NULL, NULL },
	{ WORD("k_zero_point"), SCALE_UNUSED, NULL, NULL },
	{ WORD("v_zero_point"), SCALE_UNUSED, NULL, NULL },
	{ WORD("q_zero_point"), SCALE_UNUSED, NULL, NULL },
	{ WORD("input_scale_ub"), SCALE_UNUSED, NULL, NULL },
};

#define N_WORDS (sizeof words / sizeof *words)

/* Fused experts have no ".weight": their scale is "experts.gate_up_proj_scale_inv". */
static const char weight[] = "weight";

/* A table in parts, "T.shard_0.weight", may have one scale, "T.weight_scale". */
static const char shard[] = ".shard_";

static size_t stem_length(const char *name)
{
	return strlen(name) - (text_ends(name, ".weight") ? strlen(weight) : 0);
}

/* The tensors from the first on whose name begins as a weight's: its scales are among the first n,
 * in the order of names. */
struct siblings {
	const struct tensor_ref *list;
	size_t n;
	const char *stem; /* of all names of scales, with its length */
	size_t n_stem;
	bool fused; /* the weight's name has no ".weight" */
};

static struct siblings find_siblings(const struct checkpoint *checkpoint, const char *name)
{
	const struct tensor_ref *all = checkpoint->by_name;
	size_t n = stem_length(name), step = 4, first, end;

	SEARCH(first, checkpoint->n_tensors, strncmp(all[first].tensor->name, name, n) < 0);
	while (step < checkpoint->n_tensors - first &&
	       !strncmp(all[first + step].tensor->name, name, n))
		step *= 2;
	end = checkpoint->n_tensors - first;
	return (struct siblings){ all + first, step < end ? step : end, name, n, !name[n] };
}

/* Compares the name of a tensor with the stem, `joint` and `end`. */
static int compare_sibling(const struct siblings *siblings, const char *name, const char *joint,
			   const char *end)
{
	size_t n = strlen(joint);

	return strncmp(name, siblings->stem, siblings->n_stem)
		       ?: strncmp(name + siblings->n_stem, joint, n)
		       ?: strcmp(name + siblings->n_stem + n, end);
}

/* Returns the sibling whose name is the stem, `joint` and `end`, or NULL. */
static const struct tensor_ref *find_sibling(const struct siblings *siblings, const char *joint,
					     const char *end)
{
	const struct tensor_ref *list = siblings->list;
	size_t i;

	SEARCH(i, siblings->n, compare_sibling(siblings, list[i].tensor->name, joint, end) < 0);
	if (i == siblings->n || compare_sibling(siblings, list[i].tensor->name, joint, end) != 0)
		return NULL;
	return &list[i];
}

static const struct tensor_ref *beside(const struct siblings *siblings, const char *word)
{
	if (!siblings->fused)
		return find_sibling(siblings, "", word);
	if (!strncmp(word, weight, sizeof weight - 1))
		return find_sibling(siblings, "", word + sizeof weight - 1);
	return find_sibling(siblings, "_", word);
}

/* Returns "T.weight" for "T.shard_0.weight", a part of a table, or NULL.  The caller frees it. */
static char *table_name(const char *name)
{
	const size_t n_shard = sizeof shard - 1, stem = stem_length(name);
	size_t at = stem - 1; /* of the dot before "weight" */

	if (!stem || !name[stem])
		return NULL;
	while (at && name[at - 1] >= '0' && name[at - 1] <= '9')
		at--;
	if (at + 1 == stem || at < n_shard || strncmp(name + at - n_shard, shard, n_shard) != 0)
		return NULL;
	return xasprintf("%.*s.%s", (int)(at - n_shard), name, weight);
}

char *scale_table(const char *name)
{
	char *table = table_name(name);

	if (table)
		table[stem_length(table) - 1] = '\0'; /* the dot before "weight" */
	return table;
}

bool scale_is_shared(const char *name, const char *scale)
{
	char *table = table_name(name);
	bool shared = table && !strncmp(scale, table, stem_length(table)) &&
		      strncmp(scale, name, stem_length(name)) != 0;

	free(table);
	return shared;
}

/* Returns the first entry of that role by which the weight has a tensor, which becomes *found; or
 * NULL. */
static const struct scale_name *word_beside(const struct checkpoint *checkpoint, const char *name,
					    enum scale_role role, const struct tensor_ref **found)
{
	const struct siblings siblings = find_siblings(checkpoint, name);

	for (size_t i = 0; i < N_WORDS; i++) {
		*found = words[i].role == role ? beside(&siblings, words[i].word) : NULL;
		if (*found)
			return &words[i];
	}
	return NULL;
}

/* Returns the entry of the scale of weight `name`, or else of that of its table; or NULL. */
static const struct scale_name *own_or_shared(const struct checkpoint *checkpoint, const char *name,
					      const struct tensor_ref **found)
{
	const struct scale_name *word = word_beside(checkpoint, name, SCALE_OF_WEIGHT, found);
	char *table = word ? NULL : table_name(name);

	if (table)
		word = word_beside(checkpoint, table, SCALE_OF_WEIGHT, found);
	free(table);
	return word;
}

const struct scale_name *scale_name_beside(const struct checkpoint *checkpoint, const char *name,
					   enum scale_role role)
{
	const struct tensor_ref *found;

	return role == SCALE_OF_WEIGHT ? own_or_shared(checkpoint, name, &found)
				       : word_beside(checkpoint, name, role, &found);
}

const struct tensor_ref *scale_beside(const struct checkpoint *checkpoint, const char *name)
{
	const struct tensor_ref *found;

	own_or_shared(checkpoint, name, &found);
	return found;
}

const struct tensor_ref *input_scale_beside(const struct checkpoint *checkpoint, const char *name)
{
	const struct tensor_ref *found;

	word_beside(checkpoint, name, SCALE_OF_INPUT, &found);
	return found;
}

/* Returns the offset in a name of n bytes at which word begins, after a dot; else n. */
static size_t word_place(const char *name, size_t n, const struct scale_name *word)
{
	size_t at = n - word->n;

	if (n < word->n || name[n - 1] != word->word[word->n - 1] ||
	    memcmp(name + at, word->word, word->n) != 0 || (at && name[at - 1] != '.'))
		return n;
	return at;
}

/* Returns the length of the weight's name in that of a scale of fused experts,
 * "experts.gate_up_proj_scale_inv"; n where the name of n bytes has not such an end. */
static size_t fused_place(const char *name, size_t n, const struct scale_name *word)
{
	size_t n_cut = word->role == SCALE_OF_WEIGHT ? sizeof weight - 1 : 0;
	size_t n_tail = word->n - n_cut, n_all = n_tail + (word->role == SCALE_OF_INPUT);

	if (word->tool || word->role > SCALE_OF_INPUT || n <= n_all || name[n - n_all] != '_' ||
	    memcmp(name + n - n_tail, word->word + n_cut, n_tail) != 0)
		return n;
	return n - n_all;
}

const struct scale_name *scale_name_find(const char *name)
{
	const struct scale_name *found = NULL;
	const size_t n = strlen(name);
	size_t first = n;

	for (size_t i = 0; i < N_WORDS; i++)
		if (word_place(name, n, &words[i]) < n)
			return &words[i];
	for (size_t i = 0; i < N_WORDS; i++) {
		size_t place = fused_place(name, n, &words[i]);

		if (place < first) { /* "_activation_scale" ends in "_scale" too */
			first = place;
			found = &words[i];
		}
	}
	return found;
}

const struct tensor_ref *scaled_weight(const struct checkpoint *checkpoint, const char *name,
				       const struct scale_name *word)
{
	const struct tensor_ref *found;
	size_t n = strlen(name), at = word_place(name, n, word);
	char *expected;

	if (name[at])
		expected = xasprintf("%.*s%s", (int)at, name, weight);
	else
		expected = xstrndup(name, fused_place(name, n, word));
	found = checkpoint_find(checkpoint, expected);
	free(expected);
	if (found || !name[at] || !at)
		return found;
	expected = xasprintf("%.*s%s0.%s", (int)(at - 1), name, shard, weight);
	found = checkpoint_find(checkpoint, expected);
	free(expected);
	return found;
}

/* The modules below an attention that tools name its scales after.  vLLM's own one, "attn", is told
 * from an attention of that name by what is above it. */
size_t scale_cache(const char *name, const char **cached)
{
	static const char *const modules[] = { ".k_proj", ".v_proj", ".qkv_proj", ".qkqkv_proj" };
	static const char *const above[] = { "attn.attn", "attention.attn", "mixer.attn" };
	const struct scale_name *word = scale_name_find(name);
	size_t n = word && word->cached ? word_place(name, strlen(name), word) : 0;

	if (!n)
		return 0;
	*cached = word->cached;
	n--; /* the dot */
	for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
		if (text_n_ends(name, n, modules[i]))
			return n - strlen(modules[i]);
	for (size_t i = 0; i < sizeof above / sizeof *above; i++)
		if (text_n_ends(name, n, above[i]))
			return n - strlen(".attn");
	return n;
}

/* The last n (0 to 2) dimensions of a scale, without the experts' dimension and the ones in
 * ModelOpt's [N, 1, K, 1]. */
struct scale_dims {
	int n;
	uint64_t rows, cols;
};

static bool grid_of(const struct st_tensor *scale, uint64_t n_experts, struct scale_dims *grid)
{
	const uint64_t *shape = scale->shape;
	int n = scale->n_dims;

	if (n_experts && n && shape[0] == n_experts) {
		shape++;
		n--;
	}
	*grid = (struct scale_dims){ n, 1, 1 };
	if (n == 4 && shape[1] == 1 && shape[3] == 1) {
		*grid = (struct scale_dims){ 2, shape[0], shape[2] };
	} else if (n == 2) {
		grid->rows = shape[0];
		grid->cols = shape[1];
	} else if (n == 1) {
		grid->rows = shape[0];
	}
	return n <= 2 || grid->n == 2;
}

/* One dimension counts rows, even of a weight with one row, whose [1] could mean the tensor. */
static bool tile_fits(const struct scale_dims *grid, uint64_t rows, uint64_t cols, struct tile tile)
{
	return (grid->n == 2 || (grid->n == 1 && tile.rows == 1 && tile.cols == WHOLE)) &&
	       tile_count(rows, tile.rows) == grid->rows &&
	       tile_count(cols, tile.cols) == grid->cols;
}

/* Tries the usual tilings, most frequent first, then a tile that divides the weight evenly. */
static bool tile_guess(const struct scale_dims *grid, uint64_t rows, uint64_t cols,
		       struct tile *tile)
{
	static const struct tile usual[] = {
		{ 128, 128 }, { 1, 32 }, { 1, 128 }, { 64, 64 }, { 32, 32 }
	};

	for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
		if (tile_fits(grid, rows, cols, usual[i])) {
			*tile = usual[i];
			return true;
		}
	}
	if (!grid->rows || !grid->cols || rows % grid->rows || cols % grid->cols)
		return false;
	*tile = (struct tile){ rows / grid->rows, cols / grid->cols };
	return true;
}

bool scale_tile(const struct st_tensor *weight_tensor, const struct st_tensor *scale,
		struct tile hint, struct tile *tile, enum scale_type *type)
{
	const int n = weight_tensor->n_dims;
	const struct tile block = { 128, 128 };
	uint64_t rows, cols;
	struct scale_dims grid;

	if (n < 2 || n > 3 || !grid_of(scale, n == 3 ? weight_tensor->shape[0] : 0, &grid))
		return false;
	rows = weight_tensor->shape[n - 2];
	cols = weight_tensor->shape[n - 1];
	*type = scale->dtype == DT_U8 || scale->dtype == DT_F8_E8M0 ? SCALE_E8M0 : SCALE_F32;
	if (*type == SCALE_F32 && scale->dtype != DT_F32 && scale->dtype != DT_BF16 &&
	    scale->dtype != DT_F16)
		return false;
	if (hint.rows && tile_fits(&grid, rows, cols, hint))
		*tile = hint;
	/* DeepSeek's name, which no tool uses for scales of channels; also for [1, 1] */
	else if (grid.n == 2 && text_ends(scale->name, "_scale_inv") &&
		 tile_fits(&grid, rows, cols, block))
		*tile = block;
	else if (grid.rows == 1 && grid.cols == 1)
		*tile = (struct tile){ WHOLE, WHOLE };
	else if (grid.rows == rows && grid.cols == 1)
		*tile = (struct tile){ 1, WHOLE };
	else if (grid.rows == 1 && grid.cols == cols)
		*tile = (struct tile){ WHOLE, 1 };
	else
		return grid.n == 2 && tile_guess(&grid, rows, cols, tile);
	return true;
}
