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
#include "base/text.h"
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
		    { "kv", "key_value", "linear" } },
	[KV_HEADS] = { { "key_value_head", "kv_head", "head_kv", "kv_n_head", "query_group" },
		       { "shared", "linear" } },
	[HEAD_DIM] = { { "head_dim", "head_size", "kv_channels", "d_kv" },
		       { "rope", "nope", "linear" } },
	[WIDTH] = { { "intermediate", "ffn", "inner", "d_ff", "mlp" },
		    { "layer", "multiple", "shared_expert" } },
};

/* The distinct numbers of a kind. */
struct numbers {
	bool stated; /* on the level of the language model itself */
	size_t n;
	uint64_t list[MAX_NUMBERS];
};

struct size_check {
	struct expect *expect;
	struct numbers of[N_KINDS];
	struct numbers shared; /* experts that every token takes, whose widths one matrix has */
	uint32_t *fits; /* of rows and columns of each template: classes that config.json gives */
	size_t n_fits, first_fit; /* of one kind of rule; of the one at work */
	bool counts;		  /* fits are counted, and nothing is reported */
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
		numbers->stated |= !nested && numbers->n;
	}
	if (strstr(key, "share") && strstr(key, "expert"))
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

/* Returns the rows or columns of a matrix, or of each one in a tensor of several. */
static uint64_t side(const struct size_check *sizes, const struct expect_member *member, int dim)
{
	const struct st_tensor *tensor = expect_tensor(sizes->expect, member);

	return tensor->shape[dim + (tensor->n_dims > 2 ? tensor->n_dims - 2 : 0)];
}

/* Counts a size that fits, or reports one that does not. */
static void judge(struct size_check *sizes, const struct expect_member *member, int dim, bool fits,
		  const char *what)
{
	const struct st_tensor *tensor = expect_tensor(sizes->expect, member);

	uint32_t *n_fit =
		&sizes->fits[sizes->first_fit + 2 * (size_t)member->template + (size_t)dim];

	if (sizes->counts)
		*n_fit += fits;
	else if (!fits && (!*n_fit || (sizes->lone && !strcmp(what, HIDDEN_TEXT))))
		expect_add(sizes->expect, EXPECT_SHAPE, tensor->name, 1,
			   "'%s' has %" PRIu64 " %s, which no %s of config.json gives",
			   tensor->name, side(sizes, member, dim), dim ? "columns" : "rows", what);
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

#define HEADS_TEXT "heads times their size"

static void check_attention(struct size_check *sizes, const char *parent, size_t n)
{
	const uint64_t *size = sizes->expect->config.size, hidden = size[CONFIG_HIDDEN_SIZE];
	const struct numbers *heads = &sizes->of[HEADS], *kv_heads = &sizes->of[KV_HEADS];
	const struct numbers *dims = &sizes->of[HEAD_DIM];
	const struct expect_member *q = find(sizes, parent, n, "q_proj");
	const struct expect_member *k = find(sizes, parent, n, "k_proj");
	const struct expect_member *v = find(sizes, parent, n, "v_proj");
	const struct expect_member *o = find(sizes, parent, n, "o_proj");

	/* linear attention has words of its own, and where its name does not say so, a beta */
	if (!q || !k || memmem(parent, n, "linear", 6) || find(sizes, parent, n, "b_proj") ||
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
	/* without a stated size of heads, keys have that of queries */
	judge(sizes, k, 0,
	      is_product(kv_heads, dims, side(sizes, k, 0)) &&
		      (dims->stated || !heads->stated || !kv_heads->stated || !o ||
		       !size[CONFIG_HEADS] || !size[CONFIG_KV_HEADS] ||
		       side(sizes, k, 0) * size[CONFIG_HEADS] ==
			       side(sizes, o, 1) * size[CONFIG_KV_HEADS]),
	      HEADS_TEXT);
	if (v)
		judge(sizes, v, 0, is_product(kv_heads, dims, side(sizes, v, 0)), HEADS_TEXT);
}

/* Checks q, k and v in one matrix. */
static void check_fused(struct size_check *sizes, const char *parent, size_t n)
{
	const uint64_t heads = sizes->expect->config.size[CONFIG_HEADS];
	const uint64_t kv_heads = sizes->expect->config.size[CONFIG_KV_HEADS];
	const struct expect_member *qkv = find(sizes, parent, n, "qkv_proj");
	const struct expect_member *o = find(sizes, parent, n, "o_proj");

	if (qkv && o && sizes->of[HEADS].stated && sizes->of[KV_HEADS].stated && heads && kv_heads)
		judge(sizes, qkv, 0,
		      side(sizes, qkv, 0) * heads == side(sizes, o, 1) * (heads + 2 * kv_heads),
		      HEADS_TEXT);
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
		      (memmem(parent, n, "share", 5) && sizes->shared.n &&
		       (is_product(widths, &sizes->shared, width) ||
			is_product(&sizes->shared, &sizes->shared, width) ||
			is_product(&sizes->shared, &one, width))),
	      "intermediate size");
	judge(sizes, up, 1, side(sizes, up, 1) == hidden, HIDDEN_TEXT);
	judge(sizes, up, 0, side(sizes, up, 0) == width, "intermediate size");
	judge(sizes, down, 0, side(sizes, down, 0) == hidden, HIDDEN_TEXT);
	judge(sizes, down, 1, side(sizes, down, 1) == width, "intermediate size");
}

/* Ends of names of matrices of an MLP, and how many widths they have beside hidden_size. */
static const struct {
	const char *end;
	uint64_t times;
} widths[] = {
	{ ".gate_up_proj", 2 },
	{ ".gate_proj", 1 },
	{ ".up_proj", 1 },
	{ ".down_proj", 1 },
	{ ".input_linear", 2 },
	{ ".output_linear", 1 },
	{ ".w1", 1 },
	{ ".w2", 1 },
	{ ".w3", 1 },
	{ ".mlp.fc1", 1 },
	{ ".mlp.c_fc", 1 },
	{ ".dense_h_to_4h", 1 },
	{ ".dense_4h_to_h", 1 },
};

/* Rows and columns that are a sum of products of members of config.json. */
static const struct {
	const char *end;
	int dim;
	const char *sum;
} sums[] = {
	{ ".q_a_proj", 0, "q_lora_rank" },
	{ ".q_b_proj", 1, "q_lora_rank" },
	{ ".q_b_proj", 0,
	  "num_attention_heads*qk_nope_head_dim+num_attention_heads*qk_rope_head_dim" },
	{ ".kv_a_proj_with_mqa", 0, "kv_lora_rank+qk_rope_head_dim" },
	{ ".kv_b_proj", 1, "kv_lora_rank" },
	{ ".kv_b_proj", 0, "num_attention_heads*qk_nope_head_dim+num_attention_heads*v_head_dim" },
	{ ".indexer.wq_b", 0, "index_n_heads*index_head_dim" },
	{ ".shared_experts.up_proj", 0, "moe_intermediate_size*n_shared_experts" },
	{ ".shared_expert.up_proj", 0, "shared_expert_intermediate_size" },
	{ ".share_expert.up_proj", 0, "share_expert_dim" },
	{ ".linear_attn.out_proj", 1, "linear_num_value_heads*linear_value_head_dim" },
};

/* Returns the sum, or 0 where a member is missing or no number. */
static uint64_t sum_of(const json_t *object, const char *sum)
{
	uint64_t total = 0, product = 1;

	for (size_t n; *sum; sum += n + (sum[n] != 0)) {
		json_int_t value;

		n = strcspn(sum, "*+");
		value = json_integer_value(json_object_getn(object, sum, n));
		if (value <= 0 || value > INT32_MAX)
			return 0;
		product *= (uint64_t)value;
		if (sum[n] == '*')
			continue;
		total += product;
		product = 1;
	}
	return total;
}

/* Is the matrix of a module that check_mlp() looks at? */
static bool is_gated(struct size_check *sizes, const struct expect_member *member)
{
	size_t len;
	const char *name = expect_template_name(sizes->expect, member->template, &len);
	const char *end = memrchr(name, '.', len), *dot;
	const struct expect_member *gate = NULL;

	dot = end ? memrchr(name, '.', (size_t)(end - name)) : NULL;
	if (dot) {
		char *parent = xstrndup(name, (size_t)(dot - name) + 1);

		gate = find(sizes, parent, strlen(parent), "gate_proj");
		free(parent);
	}
	return gate;
}

/* Checks a matrix by the end of its name alone. */
static void check_matrix(struct size_check *sizes, const struct expect_member *member)
{
	const uint64_t hidden = sizes->expect->config.size[CONFIG_HIDDEN_SIZE];
	const struct st_tensor *tensor = expect_tensor(sizes->expect, member);
	const size_t n = strlen(tensor->name);
	char *name = xstrndup(tensor->name, n - (text_ends(tensor->name, ".weight") ? 7 : 0));
	const bool elsewhere = strstr(name, "shared_expert") || strstr(name, "attn.") ||
			       strstr(name, ".gate.") || strstr(name, ".feed_forward.") ||
			       is_gated(sizes, member);

	sizes->first_fit = sizes->n_fits;
	for (size_t i = 0; i < sizeof widths / sizeof *widths && !elsewhere; i++) {
		const struct numbers times = { true, 1, { widths[i].times } };
		const int dim = side(sizes, member, 1) == hidden ? 0 : 1;

		if (text_ends(name, widths[i].end) &&
		    (side(sizes, member, 0) == hidden) != (dim == 0))
			judge(sizes, member, dim,
			      is_product(&sizes->of[WIDTH], &times, side(sizes, member, dim)),
			      "intermediate size");
	}
	sizes->first_fit *= 2;
	for (size_t i = 0; i < sizeof sums / sizeof *sums && tensor->n_dims == 2; i++) {
		const uint64_t sum = text_ends(name, sums[i].end)
					     ? sum_of(sizes->expect->level, sums[i].sum)
					     : 0;

		/* shared experts may have a width of their own */
		if (sum && (!strstr(sums[i].sum, "n_shared") || sizes->shared.n == 1))
			judge(sizes, member, sums[i].dim, side(sizes, member, sums[i].dim) == sum,
			      sums[i].sum);
	}
	sizes->first_fit = 0;
	free(name);
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

/* Checks the module that a weight is of by its name. */
static void check_module(struct size_check *sizes, const char *name, size_t len)
{
	size_t n = expect_parent_len(name, len, "q_proj");

	if (n)
		check_attention(sizes, name, n);
	n = expect_parent_len(name, len, "qkv_proj");
	if (n)
		check_fused(sizes, name, n);
	n = expect_parent_len(name, len, "gate_proj");
	if (n)
		check_mlp(sizes, name, n);
}

static void check_layer(struct size_check *sizes)
{
	for (size_t m = 0; m < sizes->layer->n; m++) {
		const struct expect_member *member =
			&sizes->expect->members[sizes->layer->first + m];
		const struct st_tensor *tensor = expect_tensor(sizes->expect, member);
		size_t len;
		const char *text = expect_template_name(sizes->expect, member->template, &len);
		char *name = xstrndup(text, len); /* names move when others are looked up */

		if (tensor->n_dims >= 2 && expect_is_plain(tensor))
			check_matrix(sizes, member);
		if (len > 7)
			check_norm(sizes, member, name, len);
		if (text_ends(name, "_proj.weight"))
			check_module(sizes, name, len);
		free(name);
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
	sizes.n_fits = 2 * expect->names.n;
	sizes.fits = xcalloc(3 * sizes.n_fits, sizeof *sizes.fits);
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
