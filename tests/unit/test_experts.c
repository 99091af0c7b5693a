/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused experts (fp8conv-formats(7)): the orientation follows from sizes or is refused, and every
 * element of every expert's matrix is found where the fused tensor has it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "names/experts.h"

enum result { PLAIN, TRANSPOSED, REFUSED };

static struct model_config config_of(uint64_t hidden, uint64_t moe, uint64_t dense)
{
	struct model_config config = { 0 };

	config.size[CONFIG_HIDDEN_SIZE] = hidden;
	config.size[CONFIG_MOE_INTERMEDIATE_SIZE] = moe;
	config.size[CONFIG_INTERMEDIATE_SIZE] = dense;
	return config;
}

static enum result find(struct experts_layout *layout, const uint64_t *gate_up,
			const uint64_t *down, const struct model_config *config, struct err *err)
{
	struct experts_tensor a = { gate_up[0] ? "l.experts.gate_up_proj" : NULL, gate_up };
	struct experts_tensor b = { down[0] ? "l.experts.down_proj" : NULL, down };

	if (experts_layout_find(layout, &a, &b, config, err)) {
		assert_int_equal(err->kind, ERR_INPUT);
		return REFUSED;
	}
	return layout->transposed ? TRANSPOSED : PLAIN;
}

static const struct {
	uint64_t gate_up[3], down[3]; /* [0] == 0: there is none */
	uint64_t hidden, moe, dense;  /* of config; 0: not said */
	enum result result;
	uint64_t h, i;
} orientations[] = {
	/* Qwen3-MoE and Llama 4, by both tensors, with and without a config */
	{ { 8, 1536, 2048 }, { 8, 2048, 768 }, 2048, 768, 6144, PLAIN, 2048, 768 },
	{ { 8, 1536, 2048 }, { 8, 2048, 768 }, 0, 0, 0, PLAIN, 2048, 768 },
	{ { 16, 5120, 16384 }, { 16, 8192, 5120 }, 5120, 0, 8192, TRANSPOSED, 5120, 8192 },
	{ { 16, 5120, 16384 }, { 16, 8192, 5120 }, 0, 0, 0, TRANSPOSED, 5120, 8192 },
	/* one tensor: by hidden_size */
	{ { 8, 1536, 2048 }, { 0 }, 2048, 0, 0, PLAIN, 2048, 768 },
	{ { 8, 2048, 1536 }, { 0 }, 2048, 0, 0, TRANSPOSED, 2048, 768 },
	{ { 0 }, { 8, 2048, 768 }, 2048, 0, 0, PLAIN, 2048, 768 },
	{ { 0 }, { 8, 768, 2048 }, 2048, 0, 0, TRANSPOSED, 2048, 768 },
	/* H == 2I: the other tensor decides */
	{ { 8, 256, 256 }, { 8, 256, 128 }, 256, 128, 0, PLAIN, 256, 128 },
	{ { 8, 256, 256 }, { 8, 128, 256 }, 256, 128, 0, TRANSPOSED, 256, 128 },
	/* H == I: the same */
	{ { 8, 256, 128 }, { 8, 128, 128 }, 128, 128, 0, PLAIN, 128, 128 },
	{ { 8, 128, 256 }, { 8, 128, 128 }, 128, 128, 0, TRANSPOSED, 128, 128 },
	/* nothing decides */
	{ { 8, 256, 256 }, { 0 }, 256, 128, 0, REFUSED, 0, 0 },
	{ { 0 }, { 8, 128, 128 }, 128, 128, 0, REFUSED, 0, 0 },
	{ { 8, 1536, 2048 }, { 0 }, 0, 0, 0, REFUSED, 0, 0 },
	/* the width, where hidden_size is not said; the dense one only where it is the only
	   one */
	{ { 8, 1536, 2048 }, { 0 }, 0, 768, 6144, PLAIN, 2048, 768 },
	{ { 8, 2048, 1536 }, { 0 }, 0, 0, 768, TRANSPOSED, 2048, 768 },
	{ { 8, 1536, 2048 }, { 0 }, 0, 0, 9, REFUSED, 0, 0 },
	/* latent experts: a pair that fits itself may have another width than hidden_size */
	{ { 8, 1536, 2048 }, { 8, 2048, 768 }, 4096, 768, 0, PLAIN, 2048, 768 },
	{ { 8, 1536, 2048 }, { 8, 2048, 768 }, 1536, 768, 0, PLAIN, 2048, 768 },
	{ { 8, 2048, 1536 }, { 8, 768, 2048 }, 1536, 768, 0, TRANSPOSED, 2048, 768 },
	/* contradictions */
	{ { 8, 1536, 2048 }, { 8, 2048, 769 }, 2048, 768, 0, REFUSED, 0, 0 },
	{ { 8, 1536, 2048 }, { 9, 2048, 768 }, 2048, 768, 0, REFUSED, 0, 0 },
	{ { 8, 1536, 2048 }, { 8, 768, 2048 }, 2048, 768, 0, REFUSED, 0, 0 },
	{ { 8, 1536, 2048 }, { 0 }, 4096, 768, 0, REFUSED, 0, 0 },
	{ { 0 }, { 8, 2048, 768 }, 4096, 768, 0, REFUSED, 0, 0 },
	{ { 8, 1535, 2048 }, { 0 }, 2048, 0, 0, REFUSED, 0, 0 },
	{ { 65537, 2, 1 }, { 65537, 1, 1 }, 1, 1, 0, REFUSED, 0, 0 },
	{ { 65536, 2, 1 }, { 65536, 1, 1 }, 1, 1, 0, PLAIN, 1, 1 },
	{ { 8, 1537, 2048 }, { 8, 2048, 768 }, 2048, 0, 0, REFUSED, 0, 0 },
};

static void the_orientation_follows_from_shape_and_config(void **state)
{
	(void)state;
	for (size_t r = 0; r < sizeof orientations / sizeof *orientations; r++) {
		struct model_config config = config_of(orientations[r].hidden, orientations[r].moe,
						       orientations[r].dense);
		struct experts_layout layout = { 0 };
		struct err err = { 0 };
		enum result result =
			find(&layout, orientations[r].gate_up, orientations[r].down, &config, &err);

		if (result != orientations[r].result)
			fail_msg("row %zu: %d %s", r, result, err.message);
		if (result == REFUSED) {
			assert_non_null(strstr(err.message, "l.experts."));
			assert_non_null(strstr(err.message, "--exclude"));
			continue;
		}
		assert_int_equal(layout.hidden, orientations[r].h);
		assert_int_equal(layout.width, orientations[r].i);
	}
}

static void the_message_names_the_bad_key(void **state)
{
	const uint64_t gate_up[3] = { 8, 1536, 2048 }, none[3] = { 0 };
	struct model_config config = { .bad[CONFIG_HIDDEN_SIZE] = true };
	struct experts_layout layout;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(find(&layout, gate_up, none, &config, &err), REFUSED);
	assert_non_null(
		strstr(err.message, "'hidden_size' in config.json is not a positive integer"));
}

/* The fused tensor is built from matrices by the words of fp8conv-formats(7), and read back through
 * slices. Element (r, c) of projection p of expert e is the number e * 1000 + p * 100 + r * 10 +
 * c. */
static int element(uint64_t e, enum expert_part p, uint64_t r, uint64_t c)
{
	return (int)(e * 1000 + p * 100 + r * 10 + c);
}

enum { E = 3, H = 6, I = 4 };

static void check_slices(bool transposed, bool interleaved, enum expert_part part,
			 const int *tensor)
{
	const struct experts_layout layout = { E, H, I, transposed, interleaved };

	for (uint64_t e = 0; e < E; e++) {
		uint64_t rows, cols;
		struct slice s;

		experts_matrix(&layout, part, e, &rows, &cols, &s);
		assert_int_equal(rows, part == EXPERT_DOWN ? H : I);
		assert_int_equal(cols, part == EXPERT_DOWN ? I : H);
		for (uint64_t r = 0; r < rows; r++)
			for (uint64_t c = 0; c < cols; c++)
				assert_int_equal(
					tensor[s.first + r * s.row_stride + c * s.col_stride],
					element(e, part, r, c));
	}
}

static void slices_are_the_matrices_of_each_expert(void **state)
{
	static int gate_up[E][2 * I][H], gate_up_t[E][H][2 * I], down[E][H][I], down_t[E][I][H];

	(void)state;
	for (uint64_t e = 0; e < E; e++)
		for (uint64_t h = 0; h < H; h++)
			for (uint64_t i = 0; i < I; i++) {
				gate_up[e][i][h] = gate_up_t[e][h][i] =
					element(e, EXPERT_GATE, i, h);
				gate_up[e][I + i][h] = gate_up_t[e][h][I + i] =
					element(e, EXPERT_UP, i, h);
				down[e][h][i] = down_t[e][i][h] = element(e, EXPERT_DOWN, h, i);
			}
	check_slices(false, false, EXPERT_GATE, &gate_up[0][0][0]);
	check_slices(false, false, EXPERT_UP, &gate_up[0][0][0]);
	check_slices(false, false, EXPERT_DOWN, &down[0][0][0]);
	check_slices(true, false, EXPERT_GATE, &gate_up_t[0][0][0]);
	check_slices(true, false, EXPERT_UP, &gate_up_t[0][0][0]);
	check_slices(true, false, EXPERT_DOWN, &down_t[0][0][0]);
}

/* GPT-OSS: rows of gate and up take turns, with and without the transpose. */
static void interleaved_rows_are_told_apart(void **state)
{
	static int gate_up[E][2 * I][H], gate_up_t[E][H][2 * I], down_t[E][I][H];

	(void)state;
	for (uint64_t e = 0; e < E; e++)
		for (uint64_t h = 0; h < H; h++)
			for (uint64_t i = 0; i < I; i++) {
				gate_up[e][2 * i][h] = gate_up_t[e][h][2 * i] =
					element(e, EXPERT_GATE, i, h);
				gate_up[e][2 * i + 1][h] = gate_up_t[e][h][2 * i + 1] =
					element(e, EXPERT_UP, i, h);
				down_t[e][i][h] = element(e, EXPERT_DOWN, h, i);
			}
	check_slices(false, true, EXPERT_GATE, &gate_up[0][0][0]);
	check_slices(false, true, EXPERT_UP, &gate_up[0][0][0]);
	check_slices(true, true, EXPERT_GATE, &gate_up_t[0][0][0]);
	check_slices(true, true, EXPERT_UP, &gate_up_t[0][0][0]);
	check_slices(true, true, EXPERT_DOWN, &down_t[0][0][0]);
}

/* Granite's are as Mixtral's. */
static void experts_get_the_names_of_modules(void **state)
{
	static const struct {
		const char *fused, *name;
		enum expert_part part;
		uint64_t expert;
	} rows[] = {
		{ "a.mlp.experts.gate_up_proj", "a.mlp.experts.0.gate_proj.weight", EXPERT_GATE,
		  0 },
		{ "a.mlp.experts.gate_up_proj", "a.mlp.experts.17.up_proj.weight", EXPERT_UP, 17 },
		{ "a.experts.down_proj.weight", "a.experts.2.down_proj.weight", EXPERT_DOWN, 2 },
		{ "a.moe.input_linear.weight", "a.moe.experts.0.w1.weight", EXPERT_GATE, 0 },
		{ "a.moe.input_linear.weight", "a.moe.experts.3.w3.weight", EXPERT_UP, 3 },
		{ "a.moe.output_linear.weight", "a.moe.experts.3.w2.weight", EXPERT_DOWN, 3 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char *made =
			experts_part_name(rows[i].fused, rows[i].part, rows[i].expert, "weight");

		assert_string_equal(made, rows[i].name);
		free(made);
	}
}

static void stacks_are_known_by_their_last_words(void **state)
{
	static const uint64_t shape[] = { 8, 256, 384 }, odd[] = { 8, 255, 384 };
	static const struct {
		const char *name;
		enum experts_content content;
		uint64_t hidden, width;
		size_t layer; /* length of what the layer's experts have in common */
	} rows[] = {
		{ "l.3.moe.gate_proj.weight", EXPERTS_GATE, 384, 256, 8 },
		{ "l.3.moe.up_proj.weight", EXPERTS_UP, 384, 256, 8 },
		{ "l.3.moe.down_proj.weight", EXPERTS_DOWN, 256, 384, 8 },
		{ "l.m.input_linear.weight", EXPERTS_GATE_UP, 384, 128, 4 },
		{ "l.m.output_linear.weight", EXPERTS_DOWN, 256, 384, 4 },
		{ "l.experts.w13_weight", EXPERTS_INTERLEAVED, 384, 128, 10 },
		{ "l.experts.w2_weight", EXPERTS_DOWN, 256, 384, 10 },
		{ "l.experts.gate_up_proj", EXPERTS_GATE_UP, 384, 128, 10 },
	};
	struct experts_layout layout;
	struct err err = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct experts_tensor tensor = { rows[i].name, shape };

		assert_int_equal(experts_content(rows[i].name), rows[i].content);
		assert_int_equal(experts_stack_sizes(&layout, &tensor, &err), 0);
		assert_int_equal(layout.n_experts, 8);
		assert_int_equal(layout.hidden, rows[i].hidden);
		assert_int_equal(layout.width, rows[i].width);
		assert_int_equal(experts_layer_len(rows[i].name), rows[i].layer);
	}
	assert_int_equal(experts_content("l.moe_bank.w_in"), EXPERTS_UNKNOWN);
	assert_int_equal(
		experts_stack_sizes(&layout, &(struct experts_tensor){ rows[3].name, odd }, &err),
		-1);
	assert_string_equal(err.message,
			    "experts 'l.m.input_linear.weight' [8, 255, 384] do not divide into "
			    "gate and up: use --exclude to keep the experts unchanged");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_orientation_follows_from_shape_and_config),
		cmocka_unit_test(the_message_names_the_bad_key),
		cmocka_unit_test(slices_are_the_matrices_of_each_expert),
		cmocka_unit_test(interleaved_rows_are_told_apart),
		cmocka_unit_test(experts_get_the_names_of_modules),
		cmocka_unit_test(stacks_are_known_by_their_last_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
