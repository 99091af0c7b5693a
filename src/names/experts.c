/* SPDX-License-Identifier: Apache-2.0 */
#include "names/experts.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "names/tensor_name.h"

#define SUGGESTION  "use --exclude to keep the experts unchanged"
#define MAX_EXPERTS 65536 /* far above any model: each expert becomes a unit */

/* Possible orders of the last two dimensions of a tensor. */
enum orientation { NEITHER = 0, PLAIN = 1, TRANSPOSED = 2, EITHER = 3 };

static enum orientation orientations(bool plain, bool transposed)
{
	return (plain ? PLAIN : NEITHER) | (transposed ? TRANSPOSED : NEITHER);
}

/* Compares the two tensors.  EITHER is impossible with sizes above 0: the width is half of a
 * dimension of gate_up and a whole dimension of down. */
static enum orientation orient_pair(const uint64_t *gate_up, const uint64_t *down)
{
	bool plain = gate_up[2] == down[1] && gate_up[1] % 2 == 0 && gate_up[1] / 2 == down[2];
	bool transposed = gate_up[1] == down[2] && gate_up[2] % 2 == 0 && gate_up[2] / 2 == down[1];

	return orientations(plain, transposed);
}

/* In the plain order hidden is the last dimension of gate_up and the middle dimension of down. */
static enum orientation orient_by_hidden(const uint64_t *shape, bool is_down, uint64_t hidden)
{
	if (!hidden)
		return EITHER;
	return is_down ? orientations(shape[1] == hidden, shape[2] == hidden)
		       : orientations(shape[2] == hidden, shape[1] == hidden);
}

/* The last criterion, which may choose but never refuse: some configs have several widths, of which
 * perhaps no one belongs to the experts. */
static enum orientation orient_by_width(const uint64_t *shape, bool is_down, uint64_t width)
{
	if (is_down)
		return orientations(shape[2] == width, shape[1] == width);
	return orientations(shape[1] % 2 == 0 && shape[1] / 2 == width,
			    shape[2] % 2 == 0 && shape[2] / 2 == width);
}

/* "[8, 1024, 512]" */
struct shape_text {
	char text[72];
};

static struct shape_text shape_text(const struct experts_tensor *tensor)
{
	const uint64_t *shape = tensor->shape;
	struct shape_text text;

	snprintf(text.text, sizeof text.text, "[%" PRIu64 ", %" PRIu64 ", %" PRIu64 "]", shape[0],
		 shape[1], shape[2]);
	return text;
}

static int check_pair(const struct experts_tensor *a, const struct experts_tensor *b,
		      struct err *err)
{
	if (a->shape[0] == b->shape[0] && orient_pair(a->shape, b->shape) != NEITHER)
		return 0;
	return err_set(err, ERR_INPUT,
		       "experts '%s' %s and '%s' %s do not fit each other: " SUGGESTION, a->name,
		       shape_text(a).text, b->name, shape_text(b).text);
}

static int check_hidden(const struct experts_tensor *tensor, bool is_down, uint64_t hidden,
			struct err *err)
{
	if (orient_by_hidden(tensor->shape, is_down, hidden) != NEITHER)
		return 0;
	return err_set(err, ERR_INPUT,
		       "experts '%s' %s do not fit hidden_size %" PRIu64
		       " of config.json: " SUGGESTION,
		       tensor->name, shape_text(tensor).text, hidden);
}

static int refuse_ambiguous(const struct experts_tensor *tensor, const struct model_config *config,
			    struct err *err)
{
	if (model_config_need(config, CONFIG_HIDDEN_SIZE, err))
		return err_wrap(err, "the layout of experts '%s' is ambiguous (" SUGGESTION ")",
				tensor->name);
	return err_set(err, ERR_INPUT, "the layout of experts '%s' %s is ambiguous: " SUGGESTION,
		       tensor->name, shape_text(tensor).text);
}

static int refuse_odd(const struct experts_tensor *tensor, struct err *err)
{
	return err_set(err, ERR_INPUT,
		       "experts '%s' %s do not divide into gate and up: " SUGGESTION, tensor->name,
		       shape_text(tensor).text);
}

static enum orientation orient_alone(const struct experts_tensor *tensor, bool is_down,
				     const struct model_config *config)
{
	enum orientation seen =
		orient_by_hidden(tensor->shape, is_down, config->size[CONFIG_HIDDEN_SIZE]);

	if (seen == EITHER)
		seen = orient_by_width(tensor->shape, is_down, model_config_expert_width(config));
	return seen;
}

int experts_layout_find(struct experts_layout *layout, const struct experts_tensor *gate_up,
			const struct experts_tensor *down, const struct model_config *config,
			struct err *err)
{
	const struct experts_tensor *any = gate_up->name ? gate_up : down;
	bool is_down = any == down;
	enum orientation seen;
	uint64_t out, in;

	if (any->shape[0] > MAX_EXPERTS)
		return err_set(err, ERR_INPUT,
			       "'%s' has %" PRIu64 " experts, more than %d: " SUGGESTION, any->name,
			       any->shape[0], MAX_EXPERTS);
	if (gate_up->name && down->name) {
		if (check_pair(gate_up, down, err))
			return -1;
		seen = orient_pair(gate_up->shape, down->shape);
	} else {
		if (check_hidden(any, is_down, config->size[CONFIG_HIDDEN_SIZE], err))
			return -1;
		seen = orient_alone(any, is_down, config);
	}
	if (seen != PLAIN && seen != TRANSPOSED)
		return refuse_ambiguous(any, config, err);
	out = any->shape[seen == PLAIN ? 1 : 2];
	in = any->shape[seen == PLAIN ? 2 : 1];
	if (!is_down && out % 2)
		return refuse_odd(any, err);
	*layout = (struct experts_layout){
		.n_experts = any->shape[0],
		.hidden = is_down ? out : in,
		.width = is_down ? in : out / 2,
		.transposed = seen == TRANSPOSED,
	};
	return 0;
}

void experts_matrix(const struct experts_layout *layout, enum expert_part part, uint64_t expert,
		    uint64_t *rows, uint64_t *cols, struct slice *slice)
{
	uint64_t n_parts = part == EXPERT_DOWN ? 1 : 2;
	uint64_t out = part == EXPERT_DOWN ? layout->hidden : layout->width;
	uint64_t in = part == EXPERT_DOWN ? layout->width : layout->hidden;

	uint64_t line = layout->transposed ? 1 : in; /* from one of 2I to the next */
	bool interleaved = layout->interleaved && part != EXPERT_DOWN;

	slice->row_stride = interleaved ? 2 * line : line;
	slice->col_stride = layout->transposed ? n_parts * out : 1;
	slice->first = expert * n_parts * out * in;
	if (part == EXPERT_UP)
		slice->first += interleaved ? line : out * line;
	*rows = out;
	*cols = in;
}

void experts_bias(const struct experts_layout *layout, enum expert_part part, uint64_t expert,
		  uint64_t *rows, struct slice *slice)
{
	uint64_t out = part == EXPERT_DOWN ? layout->hidden : layout->width;
	uint64_t n_parts = part == EXPERT_DOWN ? 1 : 2;
	bool interleaved = layout->interleaved && part != EXPERT_DOWN;

	*slice = (struct slice){ .first = expert * n_parts * out,
				 .row_stride = interleaved ? 2 : 1 };
	if (part == EXPERT_UP)
		slice->first += interleaved ? 1 : out;
	*rows = out;
}

/* Names of tensors that hold all experts, and of each expert's matrices: gate, up, down. */
static const struct {
	const char *module;
	enum experts_content content;
	const char *matrices[3];
} words[] = {
	{ "gate_up_proj", EXPERTS_GATE_UP, { "gate_proj", "up_proj", "down_proj" } },
	{ "gate_proj", EXPERTS_GATE, { "gate_proj", "up_proj", "down_proj" } },
	{ "up_proj", EXPERTS_UP, { "gate_proj", "up_proj", "down_proj" } },
	{ "down_proj", EXPERTS_DOWN, { "gate_proj", "up_proj", "down_proj" } },
	{ "input_linear", EXPERTS_GATE_UP, { "w1", "w3", "w2" } },
	{ "output_linear", EXPERTS_DOWN, { "w1", "w3", "w2" } },
	{ "w13_weight", EXPERTS_INTERLEAVED, { "w1", "w3", "w2" } },
	{ "w2_weight", EXPERTS_DOWN, { "w1", "w3", "w2" } },
};

#define N_WORDS (sizeof words / sizeof *words)

/* Returns the row of a name, or N_WORDS. */
static size_t find_words(const struct path *path)
{
	size_t i = 0;

	while (i < N_WORDS && !segment_is(&path->segments[path->owner], words[i].module))
		i++;
	return i;
}

enum experts_content experts_content(const char *name)
{
	struct path path;
	size_t i;

	path_split(&path, name);
	i = find_words(&path);
	return i < N_WORDS ? words[i].content : EXPERTS_UNKNOWN;
}

int experts_stack_sizes(struct experts_layout *layout, const struct experts_tensor *tensor,
			struct err *err)
{
	enum experts_content content = experts_content(tensor->name);
	bool both = content == EXPERTS_GATE_UP || content == EXPERTS_INTERLEAVED;
	bool down = content == EXPERTS_DOWN;
	const uint64_t *shape = tensor->shape;

	if (both && shape[1] % 2)
		return refuse_odd(tensor, err);
	*layout = (struct experts_layout){
		.n_experts = shape[0],
		.hidden = shape[down ? 1 : 2],
		.width = down ? shape[2] : shape[1] / (both ? 2 : 1),
		.interleaved = content == EXPERTS_INTERLEAVED,
	};
	return 0;
}

char *experts_part_name(const char *name, enum expert_part part, uint64_t expert, const char *what)
{
	struct path path;
	size_t i;

	path_split(&path, name);
	i = find_words(&path);
	return xasprintf("%.*s%s%" PRIu64 ".%s.%s", (int)experts_layer_len(name), name,
			 path.experts < 0 ? "experts." : "", expert,
			 words[i < N_WORDS ? i : 0].matrices[part], what);
}

size_t experts_prefix_len(const char *name)
{
	struct path path;

	path_split(&path, name);
	if (path.experts < 0)
		return 0;
	return (size_t)(path.segments[path.experts + 1].text - name);
}

size_t experts_layer_len(const char *name)
{
	struct path path;

	path_split(&path, name);
	return (size_t)(path.segments[path.experts < 0 ? path.owner : path.experts + 1].text -
			name);
}
