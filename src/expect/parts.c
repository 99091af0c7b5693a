/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of matrices that every model has whole: the matrices of a gated MLP, and q, k and v.
 * kinds.c compares layers of one kind; parts.c finds matrices that all of them lack.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "expect/steps.h"
#include "model/model.h"

/* Where a module has the first two, it has the third. */
static const struct {
	const char *have, *beside, *needs;
	bool attention;	      /* in modules that are named after it */
	bool experts;	      /* in the language model, where its experts have it */
	const char *unless;   /* a member of config.json that allows it; NULL: none */
	const char *other[8]; /* names that may stand in the place of the third */
} rows[] = {
	{ "gate_proj", "down_proj", "up_proj", .unless = NULL },
	{ "gate_proj", "up_proj", "down_proj", .unless = NULL },
	{ "up_proj", "down_proj", "gate_proj", .experts = true, .other = { "linear_gate" } },
	{ "w1", "w3", "w2", .unless = NULL },
	{ "q_proj", "v_proj", "k_proj", .attention = true },
	{ "k_proj", "v_proj", "q_proj", .attention = true },
	{ "q_proj", "k_proj", "v_proj", .attention = true, .unless = "attention_k_eq_v" },
	{ "q_proj", "k_proj", "o_proj", .attention = true,
	  .other = { "out_proj", "c_proj", "dense", "proj", "wo", "Wo", "projection_layer" } },
};

size_t expect_parent_len(const char *name, size_t len, const char *word)
{
	static const char weight[] = ".weight";
	size_t n_word = strlen(word), n_end = n_word + sizeof weight - 1;
	size_t parent;

	if (len <= n_end)
		return 0;
	parent = len - n_end;
	return name[parent - 1] == '.' && !memcmp(name + parent, word, n_word) &&
			       !memcmp(name + parent + n_word, weight, sizeof weight - 1)
		       ? parent
		       : 0;
}

const struct expect_member *expect_sibling(struct expect *expect, const struct expect_layer *layer,
					   const char *parent, size_t n, const char *word)
{
	struct buf name = { 0 };
	const struct expect_member *member;

	buf_add(&name, parent, n);
	buf_printf(&name, "%s.weight", word);
	member = expect_member(expect, layer, expect_template(expect, name.data, name.len));
	buf_release(&name);
	return member;
}

static void report(struct expect *expect, const struct expect_layer *layer,
		   const struct expect_member *has, const char *have, const char *beside,
		   const char *needs)
{
	const char *name = expect_tensor(expect, has)->name;
	const char *word = strstr(name + expect->stacks[layer->stack].len, have);
	char parent[256];

	if (!word)
		return;
	for (const char *next; (next = strstr(word + 1, have));)
		word = next;
	snprintf(parent, sizeof parent, "%.*s%s.weight", (int)(word - name), name, needs);
	expect_add(expect, EXPECT_TENSOR, parent, 1,
		   "'%s' is missing: its module has %s and %s, and no model has them alone", parent,
		   have, beside);
}

static bool has_other(struct expect *expect, const struct expect_layer *layer, const char *parent,
		      size_t n, size_t row)
{
	for (size_t i = 0; i < 8 && rows[row].other[i]; i++)
		if (expect_sibling(expect, layer, parent, n, rows[row].other[i]))
			return true;
	return false;
}

/* Is the last segment of the path, before its dot, an attention? */
static bool is_attention(const char *path, size_t n)
{
	size_t begin = n - 1;

	while (begin && path[begin - 1] != '.')
		begin--;
	return memmem(path + begin, n - begin, "att", 3);
}

/* Has a tensor in the layers of the language model such an end of its name? */
static bool has_end(const struct expect *expect, const char *end)
{
	const size_t n = strlen(end);

	for (size_t i = 0; expect->main && i < expect->main->n; i++) {
		const struct expect_layer *layer = &expect->layers[expect->main->first + i];

		for (size_t m = 0; m < layer->n; m++) {
			const struct expect_member *member = &expect->members[layer->first + m];
			size_t len;
			const char *name = expect_template_name(expect, member->template, &len);

			if (len > n && !memcmp(name + len - n, end, n))
				return true;
		}
	}
	return false;
}

static void check_member(struct expect *expect, const struct expect_layer *layer,
			 const struct expect_member *member)
{
	for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
		size_t len, n;
		const char *name = expect_template_name(expect, member->template, &len);
		char *parent;

		n = expect_parent_len(name, len, rows[row].have);
		if (!n || (rows[row].experts && &expect->stacks[layer->stack] != expect->main) ||
		    (rows[row].attention && !is_attention(name, n)) ||
		    (rows[row].unless &&
		     json_is_true(json_object_get(expect->level, rows[row].unless))))
			continue;
		parent = xstrndup(name, n);
		if (expect_sibling(expect, layer, parent, n, rows[row].beside) &&
		    !expect_sibling(expect, layer, parent, n, rows[row].needs) &&
		    !has_other(expect, layer, parent, n, row) &&
		    (!rows[row].experts || has_end(expect, ".experts.*.gate_proj.weight")))
			report(expect, layer, member, rows[row].have, rows[row].beside,
			       rows[row].needs);
		free(parent);
	}
}

/* Members of config.json by which modules have biases. */
static const char *const biases[] = { "attention_bias", "mlp_bias" };

/* Is the value true for Python? */
static bool is_truthy(const json_t *value)
{
	return json_is_true(value) || json_string_length(value) || json_number_value(value) != 0;
}

static void check_biases(struct expect *expect)
{
	for (size_t i = 0; i < sizeof biases / sizeof *biases; i++) {
		const json_t *value = json_object_get(expect->level, biases[i]);

		if (is_truthy(value) && !has_end(expect, ".bias"))
			expect_add(expect, EXPECT_TENSOR, NULL, 1,
				   "no module has a bias, but %s of config.json is true",
				   biases[i]);
	}
}

void expect_parts(struct expect *expect)
{
	/* one layer of each class speaks for all */
	struct intern classes = { 0 };

	for (size_t i = 0; i < expect->n_layers; i++) {
		const struct expect_layer *layer = &expect->layers[i];
		size_t n = classes.n;

		if (!expect->stacks[layer->stack].is_uniform)
			continue;
		if (intern_add(&classes, &layer->class, sizeof layer->class) < n)
			continue;
		for (size_t m = 0; m < layer->n; m++)
			check_member(expect, layer, &expect->members[layer->first + m]);
	}
	intern_release(&classes);
	if (expect->main && expect->main->is_uniform && !expect_has_pairs(expect))
		check_biases(expect);
}

/* --- what only a row of the architecture knows --- */

/* Has the checkpoint the module of a missing "MODULE.weight" in another form, as packed codes? */
static bool has_module(const struct checkpoint *checkpoint, const char *name)
{
	const size_t n = strlen(name) - (text_ends(name, ".weight") ? sizeof "weight" - 1 : 0);

	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		if (!strncmp(checkpoint->by_name[i].tensor->name, name, n))
			return true;
	return false;
}

/* Is it a parameter that no layer may have beside its own?  Adapters and buffers are none. */
static bool is_parameter(const char *name)
{
	struct role_facts facts;

	role_of_name(&facts, name);
	return text_ends(name, ".weight") && !strstr(name, "lora") &&
	       (facts.role == ROLE_NORM || facts.role == ROLE_LINEAR);
}

static void report_misfit(struct expect *expect, enum model_misfit misfit, const char *name,
			  const char *message)
{
	const struct tensor_ref *ref = checkpoint_find(expect->checkpoint, name);
	size_t n = expect->main->len;

	/* of a model in another one, embedding and norm may be elsewhere */
	if (expect->config.n_model_types == 1)
		for (n--; n && expect->main->name[n - 1] != '.';)
			n--;
	/* shapes may follow from members that config.json leaves to the class */
	if (misfit == MISFIT_SHAPE || strncmp(name, expect->main->name, n) != 0 ||
	    (ref ? !expect_is_plain(ref->tensor) : has_module(expect->checkpoint, name)) ||
	    (misfit == MISFIT_UNEXPECTED && !is_parameter(name)))
		return;
	expect_add(expect, misfit == MISFIT_MISSING ? EXPECT_TENSOR : EXPECT_NAME, name, 1, "%s",
		   message);
}

void expect_model(struct expect *expect)
{
	struct checkpoint outline = *expect->checkpoint;
	struct err err = { 0 };
	const char *begin = err.message + sizeof MISFIT_BEGIN - 1;
	char *name;

	if (expect->gaps->n || !expect->main || !expect->main->is_uniform ||
	    !arch_of(&expect->config))
		return;
	/* experts after the first are like it, or expect_experts() has said so */
	outline.by_name = expect->outline;
	outline.n_tensors = expect->n_outline;
	if (!model_check(&outline, &err) || !err.detail)
		return; /* or the forward pass cannot compute what config.json asks for */
	name = xstrndup(begin, strcspn(begin, "'"));
	report_misfit(expect, (enum model_misfit)err.detail, name, err.message);
	free(name);
}
