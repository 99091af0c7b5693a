/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes against config.json: rows of q, k and v against heads times their dimension, the width of a
 * gated MLP against an intermediate size, rows of a router against experts.
 *
 * Families have their own words, and several numbers of a kind ("swa_num_key_value_heads",
 * "moe_intermediate_size"): a size is right if any number of its kind gives it.  Where config.json
 * states none, the default of the family's class counts, which is not known here.  A class may also
 * have a rule of its own for layers of one kind (MiMo-V2-Flash doubles the heads of its sliding
 * ones): a size is wrong if no layer has it as config.json says.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "expect/steps.h"

#define MAX_NUMBERS 32 /* distinct ones of a kind; with more, none is judged */
#define MAX_DEPTH   2  /* objects in the object of the language model */

#define HIDDEN_TEXT "hidden_size"

enum kind { HEADS, KV_HEADS, HEAD_DIM, WIDTH, N_KINDS };

/* A key that has one of the words, and none of the others, has a number of the kind. */
static const struct {
	const char *words[6], *others[3];
} keys[N_KINDS] = {
	[HEADS] = { { "attention_heads", "n_head", "num_heads", "query_heads" },
		    { "kv", "key_value" } },
	[KV_HEADS] = { { "key_value_head", "kv_head", "head_kv", "kv_n_head", "query_group" },
		       { "shared" } },
	[HEAD_DIM] = { { "head_dim", "head_size", "kv_channels", "d_kv" }, { "rope", "nope" } },
	[WIDTH] = { { "intermediate", "ffn", "inner", "d_ff", "mlp" }, { "layer" } },
};

/* The distinct numbers of a kind. */
struct numbers {
	bool stated; /* of the model's usual layers, and not only of linear attention */
	size_t n;
	uint64_t list[MAX_NUMBERS];
};

struct size_check {
	struct expect *expect;
	struct numbers of[N_KINDS];
	struct numbers shared; /* experts that every token takes, whose widths one matrix has */
	uint32_t *fits; /* of rows and columns of each template: classes that config.json gives */
	bool counts;	/* fits are counted, and nothing is reported */
	const struct expect_layer *layer;
	bool lone; /* there is no other layer of its class */
};

static bool has_any(const char *key, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n && words[i]; i++)
		if (strstr(key, words[i]))
			return true;
	return false;
}

static void add(struct numbers *numbers, const json_t *value)
{
	const uint64_t number = (uint64_t)json_integer_value(value);

	if (!json_is_integer(value) || numbers->n == MAX_NUMBERS)
		return;
	for (size_t i = 0; i < numbers->n; i++)
		if (numbers->list[i] == number)
			return;
	numbers->list[numbers->n++] = number;
}

static void add_member(struct size_check *sizes, const char *key, const json_t *value, bool nested)
{
	const json_t *element;
	size_t i;

	for (int kind = 0; kind < N_KINDS; kind++) {
		struct numbers *numbers = &sizes->of[kind];

		if (!has_any(key, keys[kind].words, 6) || has_any(key, keys[kind].others, 3))
			continue;
		add(numbers, value);
		json_array_foreach(value, i, element) add(numbers, element);
		if (kind == HEADS && nested)
			add(&sizes->of[KV_HEADS], value);
		numbers->stated |= !nested && numbers->n && !strstr(key, "linear");
	}
	if (strstr(key, "shared") && strstr(key, "expert"))
		add(&sizes->shared, value);
}

static void read_numbers(struct size_check *sizes, const json_t *object, int depth)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value)
	{
		add_member(sizes, key, value, depth > 0);
		if (json_is_object(value) && depth < MAX_DEPTH)
			read_numbers(sizes, value, depth + 1);
	}
}

/* Is the size a number of the kind times one of `times`?  Those that are not stated may be any. */
static bool is_product(const struct numbers *numbers, const struct numbers *times, uint64_t size)
{
	if (!numbers->stated || numbers->n == MAX_NUMBERS)
		return true;
	for (size_t i = 0; i < numbers->n; i++) {
		const uint64_t number = numbers->list[i];

		if (!number || size % number)
			continue;
		if (!times->stated || times->n == MAX_NUMBERS)
			return true;
		for (size_t k = 0; k < times->n; k++)
			if (size / number == times->list[k])
				return true;
	}
	return false;
}

/* Counts a size that fits, or reports one that does not. */
static void judge(struct size_check *sizes, const struct expect_member *member, int dim, bool fits,
		  const char *what)
{
	const struct st_tensor *tensor = expect_tensor(sizes->expect, member);

	uint32_t *n_fit = &sizes->fits[2 * member->template + (uint32_t)dim];

	if (sizes->counts)
		*n_fit += fits;
	else if (!fits && (!*n_fit || (sizes->lone && !strcmp(what, HIDDEN_TEXT))))
		expect_add(sizes->expect, EXPECT_SHAPE, tensor->name, 1,
			   "'%s' has %" PRIu64 " %s, which no %s of config.json gives",
			   tensor->name, tensor->shape[dim], dim ? "columns" : "rows", what);
}

/* Returns PARENT.word.weight of the layer if it is a matrix. */
static const struct expect_member *find(struct size_check *sizes, const char *parent, size_t n,
					const char *word)
{
	const struct expect_member *member =
		expect_sibling(sizes->expect, sizes->layer, parent, n, word);
	const struct st_tensor *tensor = member ? expect_tensor(sizes->expect, member) : NULL;

	return tensor && tensor->n_dims == 2 && expect_is_plain(tensor) ? member : NULL;
}

static uint64_t side(const struct size_check *sizes, const struct expect_member *member, int dim)
{
	return expect_tensor(sizes->expect, member)->shape[dim];
}

#define HEADS_TEXT "heads times their size"

static void check_attention(struct size_check *sizes, const char *parent, size_t n)
{
	const uint64_t hidden = sizes->expect->config.size[CONFIG_HIDDEN_SIZE];
	const struct numbers *heads = &sizes->of[HEADS], *kv_heads = &sizes->of[KV_HEADS];
	const struct numbers *dims = &sizes->of[HEAD_DIM];
	const struct expect_member *q = find(sizes, parent, n, "q_proj");
	const struct expect_member *k = find(sizes, parent, n, "k_proj");
	const struct expect_member *v = find(sizes, parent, n, "v_proj");
	const struct expect_member *o = find(sizes, parent, n, "o_proj");

	/* linear attention has words of its own */
	if (!q || !k || memmem(parent, n, "linear", 6) ||
	    (side(sizes, q, 1) != hidden && side(sizes, k, 1) != hidden))
		return;
	judge(sizes, q, 1, side(sizes, q, 1) == hidden, HIDDEN_TEXT);
	judge(sizes, k, 1, side(sizes, k, 1) == hidden, HIDDEN_TEXT);
	if (v)
		judge(sizes, v, 1, side(sizes, v, 1) == hidden, HIDDEN_TEXT);
	if (o)
		judge(sizes, o, 0, side(sizes, o, 0) == hidden, HIDDEN_TEXT);
	if (o)
		judge(sizes, o, 1, is_product(heads, dims, side(sizes, o, 1)), HEADS_TEXT);
	/* a gate of the outputs doubles the rows of q */
	judge(sizes, q, 0,
	      is_product(heads, dims, side(sizes, q, 0)) ||
		      (o && side(sizes, q, 0) == 2 * side(sizes, o, 1)),
	      HEADS_TEXT);
	judge(sizes, k, 0, is_product(kv_heads, dims, side(sizes, k, 0)), HEADS_TEXT);
	if (v)
		judge(sizes, v, 0, is_product(kv_heads, dims, side(sizes, v, 0)), HEADS_TEXT);
}

static void check_mlp(struct size_check *sizes, const char *parent, size_t n)
{
	static const struct numbers one = { true, 1, { 1 } };
	const uint64_t hidden = sizes->expect->config.size[CONFIG_HIDDEN_SIZE];
	const struct expect_member *gate = find(sizes, parent, n, "gate_proj");
	const struct expect_member *up = find(sizes, parent, n, "up_proj");
	const struct expect_member *down = find(sizes, parent, n, "down_proj");
	const struct numbers *widths = &sizes->of[WIDTH];
	uint64_t width;

	if (!gate || !up || !down)
		return;
	/* up and down swapped, or matrices of two models; a latent space has widths of its own */
	if (side(sizes, gate, 1) != side(sizes, down, 0) ||
	    (side(sizes, gate, 1) != hidden && side(sizes, gate, 0) == hidden))
		judge(sizes, gate, 1, false, HIDDEN_TEXT);
	if (side(sizes, gate, 1) != hidden)
		return; /* experts in a latent space */
	width = side(sizes, gate, 0);
	judge(sizes, gate, 0,
	      is_product(widths, &one, width) ||
		      (sizes->shared.n && is_product(widths, &sizes->shared, width)),
	      "intermediate size");
	judge(sizes, up, 1, side(sizes, up, 1) == hidden, HIDDEN_TEXT);
	judge(sizes, up, 0, side(sizes, up, 0) == width, "intermediate size");
	judge(sizes, down, 0, side(sizes, down, 0) == hidden, HIDDEN_TEXT);
	judge(sizes, down, 1, side(sizes, down, 1) == width, "intermediate size");
}

/* Checks a norm of the layer itself, as "input_layernorm.weight". */
static void check_norm(struct size_check *sizes, const struct expect_member *member,
		       const char *name, size_t len)
{
	const struct st_tensor *tensor = expect_tensor(sizes->expect, member);

	if (sizes->expect->templates[member->template].facts.role == ROLE_NORM && tensor->n_dims &&
	    memchr(name, '.', len) == name + len - (sizeof ".weight" - 1))
		judge(sizes, member, 0,
		      tensor->n_dims == 1 &&
			      tensor->shape[0] == sizes->expect->config.size[CONFIG_HIDDEN_SIZE],
		      HIDDEN_TEXT);
}

static void check_layer(struct size_check *sizes)
{
	for (size_t m = 0; m < sizes->layer->n; m++) {
		const struct expect_member *member =
			&sizes->expect->members[sizes->layer->first + m];
		size_t len, n;
		const char *name = expect_template_name(sizes->expect, member->template, &len);
		char *copy;

		if (len > 7)
			check_norm(sizes, member, name, len);
		if (len < 13 ||
		    (memcmp(name + len - 13, "q_proj.weight", 13) != 0 &&
		     (len < 16 || memcmp(name + len - 16, "gate_proj.weight", 16) != 0)))
			continue;
		copy = xstrndup(name, len); /* names may move when others are looked up */
		n = expect_parent_len(copy, len, "q_proj");
		if (n)
			check_attention(sizes, copy, n);
		n = expect_parent_len(copy, len, "gate_proj");
		if (n)
			check_mlp(sizes, copy, n);
		free(copy);
	}
}

/* Looks at one layer of each class; first[c] is that of class c, and n[c] their number. */
static void check_classes(struct size_check *sizes, const struct expect_layer *const *first,
			  const uint32_t *n, size_t n_classes)
{
	for (size_t c = 0; c < n_classes; c++) {
		sizes->layer = first[c];
		sizes->lone = n[c] == 1;
		check_layer(sizes);
	}
}

void expect_sizes(struct expect *expect)
{
	struct size_check sizes = { .expect = expect };
	struct intern classes = { 0 };
	const struct expect_layer **first;
	uint32_t *n;

	if (expect_has_pairs(expect) || !expect->main || !expect->main->is_uniform ||
	    !expect->main->is_normed || !expect->config.size[CONFIG_HIDDEN_SIZE])
		return;
	read_numbers(&sizes, expect->level, 0);
	sizes.shared.stated = true;
	sizes.fits = xcalloc(expect->names.n, 2 * sizeof *sizes.fits);
	first = xcalloc(expect->main->n, sizeof *first);
	n = xcalloc(expect->main->n, sizeof *n);
	for (size_t i = 0; i < expect->main->n; i++) {
		const struct expect_layer *layer = &expect->layers[expect->main->first + i];
		size_t class = intern_add(&classes, &layer->class, sizeof layer->class);

		first[class] = first[class] ? first[class] : layer;
		n[class]++;
	}
	sizes.counts = true;
	check_classes(&sizes, first, n, classes.n);
	sizes.counts = false;
	check_classes(&sizes, first, n, classes.n);
	intern_release(&classes);
	free(sizes.fits);
	free(first);
	free(n);
}
