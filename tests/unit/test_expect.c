/* SPDX-License-Identifier: Apache-2.0
 *
 * What is missing, and what only looks so.  A model is config.json and tensors in one string, of
 * which each row takes some away or adds some; expected is derived by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "expect/expect.h"
#include "expect/name.h"
#include "support/memory_checkpoint.h"

#define N_OF(array) (sizeof(array) / sizeof *(array))

/* Adds the layers of a dense model of width 64, or of one with n_experts in each. */
static void put_layers(struct buf *text, int n_layers, int n_experts)
{
	static const char *const rows[] = {
		"input_layernorm.weight BF16 64",     "post_attention_layernorm.weight BF16 64",
		"self_attn.q_proj.weight BF16 64 64", "self_attn.k_proj.weight BF16 32 64",
		"self_attn.v_proj.weight BF16 32 64", "self_attn.o_proj.weight BF16 64 64",
	};
	static const char *const mlp[] = { "gate_proj.weight BF16 128 64",
					   "up_proj.weight BF16 128 64",
					   "down_proj.weight BF16 64 128" };

	for (int l = 0; l < n_layers; l++) {
		for (size_t i = 0; i < N_OF(rows); i++)
			buf_printf(text, "model.layers.%d.%s\n", l, rows[i]);
		for (size_t i = 0; i < N_OF(mlp); i++) {
			for (int e = 0; e < n_experts; e++)
				buf_printf(text, "model.layers.%d.mlp.experts.%d.%s\n", l, e,
					   mlp[i]);
			if (!n_experts)
				buf_printf(text, "model.layers.%d.mlp.%s\n", l, mlp[i]);
		}
		if (n_experts)
			buf_printf(text, "model.layers.%d.mlp.gate.weight BF16 %d 64\n", l,
				   n_experts);
	}
	buf_puts(text, "model.embed_tokens.weight BF16 512 64\nmodel.norm.weight BF16 64\n"
		       "lm_head.weight BF16 512 64\n");
}

/* Copies the lines without those that have `less`, and with `more`; in each line `old` becomes
 * `new`.  NULL: nothing. */
static char *change(const char *lines, const char *less, const char *more, const char *old,
		    const char *new)
{
	struct buf text = { 0 };

	for (const char *at = lines, *end; *at; at = end + 1) {
		char *line = xstrndup(at, (size_t)((end = strchr(at, '\n')) - at));
		char *found = old ? strstr(line, old) : NULL;

		if (less && strstr(line, less))
			;
		else if (found)
			buf_printf(&text, "%.*s%s%s\n", (int)(found - line), line, new,
				   found + strlen(old));
		else
			buf_printf(&text, "%s\n", line);
		free(line);
	}
	buf_puts(&text, more ? more : "");
	return text.data;
}

/* Returns the gaps as "KIND NAME; ", of which the caller frees the text. */
static char *gaps_of(const char *config, const char *tensors)
{
	struct checkpoint checkpoint;
	struct expect_gaps gaps;
	struct buf text = { 0 };
	struct err err = { 0 };

	memory_checkpoint_init(&checkpoint, config, tensors);
	assert_int_equal(expect_find(&gaps, &checkpoint, &err), 0);
	for (size_t i = 0; i < gaps.n; i++)
		buf_printf(&text, "%d %s; ", (int)gaps.list[i].kind,
			   gaps.list[i].tensor ? gaps.list[i].tensor : gaps.list[i].message);
	expect_release(&gaps);
	memory_checkpoint_release(&checkpoint);
	return text.data ? text.data : xstrdup("");
}

#define CONFIG(n, more)                                                                   \
	"{\"architectures\": [\"AnyForCausalLM\"], \"hidden_size\": 64, \"vocab_size\": " \
	"512, \"tie_word_embeddings\": false, \"num_hidden_layers\": " #n more "}"

/* expected: the begin of each gap, "" for none. */
struct row {
	const char *less, *more, *old, *new, *config, *expected;
};

static void check_changes(const struct row *rows, size_t n, const char *whole, const char *config)
{
	for (const struct row *row = rows; row < rows + n; row++) {
		char *tensors = change(whole, row->less, row->more, row->old, row->new);
		char *found = gaps_of(row->config ? row->config : config, tensors);

		if (*row->expected ? strncmp(found, row->expected, strlen(row->expected)) : *found)
			fail_msg("less '%s' new '%s': found '%s', expected '%s'",
				 row->less ? row->less : "", row->new ? row->new : "", found,
				 row->expected);
		free(found);
		free(tensors);
	}
}

static void check_rows(const struct row *rows, size_t n, int n_layers, int n_experts,
		       const char *config)
{
	struct buf whole = { 0 };

	put_layers(&whole, n_layers, n_experts);
	check_changes(rows, n, whole.data, config);
	buf_release(&whole);
}

#define L "model.layers."

static void dense_models_are_whole(void **state)
{
	static const struct row rows[] = {
		{ .expected = "" },
		{ .less = L "1.mlp.down_proj", .expected = "1 " L "1.mlp.down_proj.weight; " },
		{ .less = L "0.self_attn.q_proj", .expected = "1 " L "0.self_attn.q_proj.w" },
		{ .less = L "2.input_layernorm", .expected = "1 " L "2.input_layernorm.weight; " },
		{ .less = L "2.self_attn", .expected = "1 " L "2.self_attn." },
		{ .less = L "1.", .expected = "0 layer 1 of 'model.layers' is missing" },
		{ .less = L "2.", .expected = "0 layer 2 of 'model.layers' is missing" },
		{ .old = L "1.", .new = L "7.", .expected = "0 layer 1 of 'model.layers' is " },
		{ .old = L "1.self_attn",
		  .new = L "1.attention",
		  .expected = "1 " L "1.self_attn." },
		{ .old = L "1.self_attn.q_proj",
		  .new = L "1.self_attn.wq",
		  .expected = "1 " L "1.self_attn.q_proj.weight; " },
		{ .less = "k_proj", .expected = "1 " L "0.self_attn.k_proj.weight; " },
		{ .less = "up_proj", .expected = "1 " L "0.mlp.up_proj.weight; " },
		{ .less = "model.norm", .expected = "1 the norm after the last layer" },
		{ .less = "embed_tokens", .expected = "1 the embedding of the model" },
		{ .less = "lm_head", .expected = "1 lm_head is missing" },
		{ .config = CONFIG(4, ""), .expected = "0 layer 3 of 'model.layers' is missing" },
		{ .config = CONFIG(2, ""), .expected = "0 layer 2 of 'model.layers' is one too" },
		{ .config = CONFIG(3, ", \"num_nextn_predict_layers\": 1"),
		  .expected = "4 config.json has num_nextn" },
		{ .old = "1.mlp.up_proj.weight BF16 128 64",
		  .new = "1.mlp.up_proj.weight BF16 128 32",
		  .expected = "2 " L "1.mlp.up_proj.weight; " },
		{ .old = "model.",
		  .new = "_orig_mod.model.",
		  .expected = "3 _orig_mod.model.embed_tokens.weight; " },
		{ .more = L "0.self_attn.q_proj.bias BF16 64\n" L
			    "1.self_attn.q_proj.bias BF16 64\n",
		  .config = CONFIG(3, ", \"dtype\": \"f16\", \"eos_token_id\": [1, 2, 3]"),
		  .expected = "1 " L "2.self_attn.q_proj.bias; " },
		/* what only looks so */
		{ .less = "lm_head", .config = "{\"num_hidden_layers\": 3}", .expected = "" },
		{ .more = L "1.self_attn.q_proj.weight_scale_inv F32 1 1\n", .expected = "" },
		{ .more = L "1.self_attn.q_norm.weight BF16 32\n", .expected = "" },
		{ .more = L "3.eh_proj.weight BF16 64 128\n" L "3.enorm.weight BF16 64\n" L
			    "3.hnorm.weight BF16 64\n",
		  .expected = "" },
	};

	(void)state;
	check_rows(rows, N_OF(rows), 3, 0, CONFIG(3, ""));
}

static void names_and_shapes_at_the_ends(void **state)
{
	static const struct row rows[] = {
		{ .less = "o_proj", .expected = "1 " L "0.self_attn.o_proj.weight; " },
		{ .old = "model.embed_tokens",
		  .new = "embed_tokens",
		  .expected = "3 embed_tokens.weight; " },
		{ .old = "model.embed_tokens",
		  .new = "model.model.embed_tokens",
		  .expected = "3 model.model.embed_tokens.weight; " },
		{ .old = "model.norm", .new = "norm", .expected = "1 the norm after the last" },
		{ .old = "lm_head.weight", .new = "lm_head.kernel", .expected = "1 lm_head is " },
		{ .old = "lm_head.weight",
		  .new = "lm_head.modules_to_save.default.weight",
		  .expected = "3 lm_head.modules_to_save.default.weight; " },
		{ .old = "1.input_layernorm.weight BF16 64",
		  .new = "1.input_layernorm.weight BF16 1 64",
		  .expected = "2 " L "1.input_layernorm.weight; " },
		{ .old = "model.norm.weight BF16 64",
		  .new = "model.norm.weight BF16 32",
		  .expected = "2 model.norm.weight; " },
		{ .old = "lm_head.weight BF16 512 64",
		  .new = "lm_head.weight BF16 511 64",
		  .expected = "2 lm_head.weight; " },
		{ .config = "{\"num_hidden_layers\": 0}",
		  .expected = "0 num_hidden_layers of config.json is 0" },
	};

	(void)state;
	check_rows(rows, N_OF(rows), 3, 0, CONFIG(3, ""));
}

/* 4 heads of 16 rows, 2 of keys and values, gates of 128 rows. */
#define SIZES(heads, kv_heads, dim, width)                                                     \
	CONFIG(3, ", \"num_attention_heads\": " #heads ", \"num_key_value_heads\": " #kv_heads \
		  ", \"head_dim\": " #dim ", \"intermediate_size\": " #width)

static void sizes_are_those_of_the_configuration(void **state)
{
	static const struct row rows[] = {
		{ .expected = "" },
		{ .config = SIZES(5, 2, 16, 128), .expected = "2 " L "0.self_attn.o_proj.weight" },
		{ .config = SIZES(0, 2, 16, 128), .expected = "2 " L "0.self_attn.o_proj.weight" },
		{ .config = SIZES(2, 2, 16, 128), .expected = "2 " L "0.self_attn.o_proj.weight" },
		{ .config = SIZES(4, 2, 16, [128]), .expected = "" },
		{ .config = SIZES(4, 2, 15, 128), .expected = "2 " L "0.self_attn.o_proj.weight" },
		{ .config = SIZES(4, 4, 16, 128), .expected = "2 " L "0.self_attn.k_proj.weight" },
		{ .config = SIZES(4, 2, 16, 129), .expected = "2 " L "0.mlp.gate_proj.weight" },
		{ .config = SIZES(4, 2, null, 128), .expected = "" },
		{ .config = SIZES(4, null, 16, 128), .expected = "" },
		/* without head_dim, the 64 columns of o_proj are 4 heads of 16 */
		{ .config = SIZES(4, 1, null, 128),
		  .expected = "2 " L "0.self_attn.k_proj.weight" },
		{ .config = SIZES(8, 2, null, 128),
		  .expected = "2 " L "0.self_attn.k_proj.weight" },
		{ .old = "q_proj.weight BF16 64", .new = "q_proj.weight BF16 128", .expected = "" },
		{ .old = "q_proj.weight BF16 64",
		  .new = "q_proj.weight BF16 96",
		  .expected = "2 " L "0.self_attn.q_proj.weight" },
		{ .old = "up_proj.weight BF16 128",
		  .new = "up_proj.weight BF16 64",
		  .expected = "2 " L "0.mlp.up_proj.weight" },
		{ .old = "o_proj.weight BF16 64",
		  .new = "o_proj.weight BF16 32",
		  .expected = "2 " L "0.self_attn.o_proj.weight" },
		{ .config = CONFIG(3, ", \"attention_bias\": true"),
		  .expected = "1 no module has a bias, but attention_bias" },
		{ .config = CONFIG(3, ", \"attention_bias\": \"False\""),
		  .expected = "1 no module has a bias, but attention_bias" },
		{ .more = L "0.self_attn.q_proj.bias BF16 64\n" L
			    "1.self_attn.q_proj.bias BF16 64\n" L
			    "2.self_attn.q_proj.bias BF16 64\n",
		  .config = CONFIG(3, ", \"attention_bias\": false"),
		  .expected = "" },
		{ .old = "self_attn",
		  .new = "linear_attn",
		  .config = SIZES(5, 2, 15, 128),
		  .expected = "" },
	};

	(void)state;
	check_rows(rows, N_OF(rows), 3, 0, SIZES(4, 2, 16, 128));
}

#define EACH(rest) L "0." rest "\n" L "1." rest "\n" L "2." rest "\n"

/* 4 heads of 16 rows, and 8 rotated ones; values of 8; experts of 128 rows. */
#define LATENT(rank, nope, rope, value, shared)                                     \
	CONFIG(3, ", \"num_attention_heads\": 4, \"head_dim\": 16, "                \
		  "\"moe_intermediate_size\": 128, \"kv_lora_rank\": " #rank        \
		  ", \"qk_nope_head_dim\": " #nope ", \"qk_rope_head_dim\": " #rope \
		  ", \"v_head_dim\": " #value ", \"n_shared_experts\": " #shared)

static void sizes_are_sums_of_members(void **state)
{
	static const char latent[] = EACH("self_attn.kv_a_proj_with_mqa.weight BF16 24 64")
		EACH("self_attn.kv_b_proj.weight BF16 96 16")
			EACH("mlp.shared_experts.up_proj.weight BF16 256 64");
	static const char shared[] = "2 " L "0.mlp.shared_experts.up_proj";
	static const char kv_a[] = "2 " L "0.self_attn.kv_a_proj_with_mqa";
	static const char kv_b[] = "2 " L "0.self_attn.kv_b_proj";
	static const struct row rows[] = {
		{ .more = latent, .config = LATENT(16, 16, 8, 8, 2), .expected = "" },
		{ .more = latent, .config = LATENT(null, 16, 8, 8, 2), .expected = "" },
		{ .more = latent, .config = LATENT(17, 16, 8, 8, 2), .expected = kv_a },
		{ .more = latent, .config = LATENT(16, 16, 9, 8, 2), .expected = kv_a },
		{ .more = latent, .config = LATENT(16, 17, 8, 8, 2), .expected = kv_b },
		{ .more = latent, .config = LATENT(16, 16, 8, 9, 2), .expected = kv_b },
		{ .more = latent, .config = LATENT(16, 16, 8, 8, 1), .expected = shared },
		{ .more = EACH("self_attn.qkv_proj.weight BF16 128 64"), .expected = "" },
		{ .more = EACH("self_attn.qkv_proj.weight BF16 96 64"),
		  .expected = "2 " L "0.self_attn.qkv_proj.weight" },
		{ .more = EACH("block.gate_up_proj.weight BF16 256 64"), .expected = "" },
		{ .more = EACH("block.gate_up_proj.weight BF16 128 64"),
		  .expected = "2 " L "0.block.gate_up_proj.weight" },
		{ .more = EACH("block.input_linear.weight BF16 4 256 64"), .expected = "" },
		{ .more = EACH("block.input_linear.weight BF16 4 192 64"),
		  .expected = "2 " L "0.block.input_linear.weight" },
	};

	(void)state;
	check_rows(rows, N_OF(rows), 3, 0, SIZES(4, 2, 16, 128));
}

#define TOWER(layers, hidden, width)                                                        \
	CONFIG(3, ", \"vision_config\": {\"depth\": " #layers ", \"hidden_size\": " #hidden \
		  ", \"intermediate_size\": " #width "}")

static void encoders_have_their_sizes(void **state)
{
	static const struct row rows[] = {
		{ .config = TOWER(4, 48, 96), .expected = "" },
		{ .config = TOWER(5, 48, 96), .expected = "0 depth of vision_config" },
		{ .config = TOWER(4, 96, 96), .expected = "2 hidden_size of vision_config" },
		{ .config = TOWER(4, 48, 95), .expected = "2 intermediate_size of vision" },
		{ .less = "vision_tower", .config = TOWER(5, 50, 90), .expected = "" },
	};
	struct buf whole = { 0 };

	(void)state;
	put_layers(&whole, 3, 0);
	for (int i = 0; i < 4; i++)
		buf_printf(&whole,
			   "vision_tower.layers.%d.norm1.weight BF16 48\n"
			   "vision_tower.layers.%d.mlp.fc1.weight BF16 96 48\n"
			   "vision_tower.layers.%d.mlp.fc2.weight BF16 48 96\n",
			   i, i, i);
	check_changes(rows, N_OF(rows), whole.data, NULL);
	buf_release(&whole);
}

#define OTHER(i, name) L#i "." name ".weight BF16 4 64\n"
#define OTHERS(name)   OTHER(0, name) OTHER(2, name) OTHER(3, name)
/* Layer 1 alone is of its kind: what all others have, it has, unless the whole module differs. */
static void lone_layers_have_their_modules(void **state)
{
	static const struct row rows[] = {
		{ .less = L "1.input_layernorm", .expected = "1 " L "1.input_layernorm.weight; " },
		{ .less = L "1.self_attn.o_proj", .expected = "1 " L "1.self_attn.o_proj.w" },
		{ .less = L "1.mlp.gate_proj", .expected = "1 " L "1.mlp.gate_proj.weight; " },
		{ .less = L "1.self_attn", .expected = "" },
		{ .more = OTHERS("mlp.gate"), .expected = "1 " L "1.mlp.gate.weight; " },
		{ .more = OTHERS("self_attn.index_q_proj"), .expected = "" },
		{ .more = OTHERS("self_attn.index_q_proj") L
		  "1.self_attn.index_k_proj.weight BF16 4 64\n" OTHERS("self_attn.index_k_proj"),
		  .expected = "1 " L "1.self_attn.index_q_proj.weight; " },
		{ .old = L "1.self_attn", .new = L "1.mixer", .expected = "" },
		{ .old = L "1.input_layernorm", .new = L "1.post_norm", .expected = "" },
	};

	(void)state;
	check_rows(rows, N_OF(rows), 4, 0, CONFIG(4, ", \"mlp_only_layers\": [1]"));
}

static void experts_are_all_there(void **state)
{
	static const struct row rows[] = {
		{ .expected = "" },
		{ .less = L "1.mlp.experts.2.",
		  .expected = "1 " L "1.mlp.experts.2.down_proj.weight; " },
		{ .less = L "1.mlp.experts.3.up", .expected = "1 " L "1.mlp.experts.3.up_proj" },
		{ .less = "experts.3.", .expected = "1 " L "0.mlp.experts.3.down_proj.weight; 1 " },
		{ .less = L "0.mlp.gate.", .expected = "1 " L "0.mlp.gate.weight; " },
		/* beside gated experts, an MLP has a gate too */
		{ .more = L "0.mlp.shared.up_proj.weight BF16 128 64\n" L
			    "0.mlp.shared.down_proj.weight BF16 64 128\n",
		  .expected = "1 " L "0.mlp.shared.gate_proj.weight; " },
		{ .config = CONFIG(3, ", \"num_local_experts\": 8"),
		  .expected = "1 " L "0.mlp.experts.4.down_proj.weight; " },
		{ .config = CONFIG(3, ", \"num_local_experts\": 2"),
		  .expected = "2 " L "0.mlp.experts.0.down_proj.weight; " },
		{ .old = "1.mlp.experts.2.up_proj.weight BF16 128 64",
		  .new = "1.mlp.experts.2.up_proj.weight BF16 128 32",
		  .expected = "2 " L "1.mlp.experts.2.up_proj.weight; " },
		{ .less = L "0.mlp.",
		  .more = L "0.mlp.gate_proj.weight BF16 128 64\n" L
			    "0.mlp.up_proj.weight BF16 128 64\n" L
			    "0.mlp.down_proj.weight BF16 64 128\n",
		  .expected = "" },
		{ .less = L "0.mlp.experts",
		  .more = L "0.mlp.experts.gate_up_proj BF16 4 256 64\n" L
			    "0.mlp.experts.down_proj BF16 4 64 128\n",
		  .expected = "" },
		{ .less = L "0.mlp.experts",
		  .more = L "0.mlp.experts.gate_up_proj BF16 3 256 64\n" L
			    "0.mlp.experts.down_proj BF16 4 64 128\n",
		  .expected = "2 " L "0.mlp.experts.gate_up_proj; " },
	};

	(void)state;
	check_rows(rows, N_OF(rows), 3, 4, CONFIG(3, ", \"num_local_experts\": 4"));
}

/* Layers differ where config.json says so, and where several do. */
static void kinds_of_layers_differ(void **state)
{
	static const struct row rows[] = {
		{ .expected = "" },
		{ .less = L "5.self_attn.v_proj", .expected = "" },
		{ .less = L "4.self_attn.v_proj",
		  .expected = "1 " L "4.self_attn.v_proj.weight; " },
		/* the last layers share what others cache */
		{ .less = L "6.self_attn.k_norm",
		  .more = L
		  "0.self_attn.k_norm.weight BF16 32\n" L "1.self_attn.k_norm.weight BF16 32\n" L
		  "2.self_attn.k_norm.weight BF16 32\n" L "3.self_attn.k_norm.weight BF16 32\n",
		  .expected = "" },
	};

	(void)state;
	check_rows(rows, N_OF(rows), 7, 0,
		   CONFIG(7, ", \"attention_k_eq_v\": true, \"layer_types\": [\"s\", \"s\", "
			     "\"s\", \"s\", \"s\", \"f\", \"s\"]"));
}

static void weights_have_elements(void **state)
{
	static const struct {
		const char *tensors;
		bool refused;
	} rows[] = {
		{ "model.layers.0.self_attn.k_proj.weight BF16 0\n", true },
		{ "model.layers.0.self_attn.k_proj.weight BF16 0 512\n", true },
		{ "model.norm.weight BF16 0\n", true },
		{ "model.layers.0.empty_proj.bias BF16 0\n", false },
		{ "model.layers.0.mlp.experts.gate_up_proj BF16 0\n", true },
		{ "model.layers.0.mlp.experts.down_proj BF16 0\n", true },
		{ "model.layers.0.mlp.experts.w13 BF16 0\n", true },
		{ "model.layers.0.empty_proj.weight BF16 0 128\n", false },
		{ "scaled_fp8 F8_E4M3 0\n", false },
		{ "model.layers.0.self_attn.rotary_emb.inv_freq F32 0\n", false },
	};

	(void)state;
	for (size_t i = 0; i < N_OF(rows); i++) {
		struct checkpoint checkpoint;
		struct err err = { 0 };

		memory_checkpoint_init(&checkpoint, NULL, rows[i].tensors);
		assert_int_equal(expect_elements(&checkpoint, &err), rows[i].refused ? -1 : 0);
		memory_checkpoint_release(&checkpoint);
	}
}

/* Names in order, with their parts by hand. */
static void names_are_split(void **cmocka_state)
{
	static const struct {
		const char *name, *stack, *rest; /* NULL: in no layer */
		uint32_t layer;
		const char *expert; /* NULL: of none */
		bool routed;
	} rows[] = {
		{ "layers.1.layers.0.a", "layers.1.layers.", "a", 0, NULL, false },
		{ "layers.1.mlp.experts.0.layers.2.a", "layers.1.mlp.experts.0.layers.", "a", 2,
		  NULL, false },
		{ "layers.1.mlp.experts.0.up", "layers.", "mlp.experts.0.up", 1, "0", true },
		{ "layers.1.mlp.experts.1", "layers.", "mlp.experts.1", 1, NULL, false },
		{ "layers.1.mlp.shared_experts.7.up", "layers.", "mlp.shared_experts.7.up", 1, "7",
		  false },
		{ "layers.1.norm", "layers.", "norm", 1, NULL, false },
		{ "layers.10.h.3.norm", "layers.10.h.", "norm", 3, NULL, false },
		{ "layers.10.norm", "layers.", "norm", 10, NULL, false },
		{ "norm", NULL, NULL, 0, NULL, false },
	};
	struct layer_name split = { 0 };

	(void)cmocka_state;
	for (size_t i = 0; i < N_OF(rows); i++) {
		const char *name = rows[i].name;

		layer_name_next(&split, i ? rows[i - 1].name : NULL, name);
		assert_int_equal(split.stack_len, rows[i].stack ? strlen(rows[i].stack) : 0);
		if (!rows[i].stack)
			continue;
		assert_string_equal(name + split.rest, rows[i].rest);
		assert_int_equal(split.layer, rows[i].layer);
		assert_int_equal(split.expert_at != 0, rows[i].expert != NULL);
		if (rows[i].expert)
			assert_int_equal(name[split.expert_at], *rows[i].expert);
		assert_int_equal(split.routed, rows[i].routed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dense_models_are_whole),
		cmocka_unit_test(names_and_shapes_at_the_ends),
		cmocka_unit_test(sizes_are_those_of_the_configuration),
		cmocka_unit_test(sizes_are_sums_of_members),
		cmocka_unit_test(encoders_have_their_sizes),
		cmocka_unit_test(lone_layers_have_their_modules),
		cmocka_unit_test(experts_are_all_there),
		cmocka_unit_test(kinds_of_layers_differ),
		cmocka_unit_test(weights_have_elements),
		cmocka_unit_test(names_are_split),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
