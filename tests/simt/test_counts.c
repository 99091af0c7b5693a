/* SPDX-License-Identifier: Apache-2.0
 *
 * What a calibration asks of a GPU, with limits: launches, bytes that kernels move, copies, waits.
 * Two calibrations differ by one layer, or by one sequence, so their counts differ by what that
 * layer or sequence takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include "backend/dispatch.h"
#include "calibrate/calibrate.h"
#include "num/float16.h"
#include "tests/simt/counts.h"
#include "tests/simt/cublaslt.h"
#include "tests/simt/device.h"
#include "tests/unit/support/scratch.h"

/* An eighth of a layer of Llama-3-8B (4096 x 14336, 32 heads, 8 of keys): all bytes but those of
 * attention's sums are in proportion. */
#define SHARE  8
#define HIDDEN 512
#define WIDTH  1792
#define HEADS  4
#define DIM    128
#define KEYS   (1 * DIM)
#define VOCAB  64

/* Tokens of a sequence: few, as the scores of attention grow with their square. */
#define TOKENS 32

struct tensor {
	const char *name;
	size_t rows, cols; /* cols 0: a vector */
};

struct checkpoint_text {
	FILE *file;
	size_t n_bytes; /* of the tensors so far */
	char header[1 << 15];
	size_t length;
};

static void tensor_add(struct checkpoint_text *text, const char *name, size_t rows, size_t cols)
{
	size_t n = 2 * rows * (cols ? cols : 1);
	char shape[64];

	snprintf(shape, sizeof shape, cols ? "%zu,%zu" : "%zu", rows, cols);
	text->length += (size_t)snprintf(
		text->header + text->length, sizeof text->header - text->length,
		"%c\"%s\":{\"dtype\":\"BF16\",\"shape\":[%s],"
		"\"data_offsets\":[%zu,%zu]}",
		text->n_bytes ? ',' : '{', name, shape, text->n_bytes, text->n_bytes + n);
	text->n_bytes += n;
}

/* What a model is made of. */
struct model_shape {
	size_t n_layers;
	size_t n_experts; /* 0: one mlp */
};

#define EXPERT_WIDTH 64
#define TOP_K	     2

static void experts_add(struct checkpoint_text *text, size_t layer, size_t n_experts)
{
	static const struct tensor rows[] = { { "w1", EXPERT_WIDTH, HIDDEN },
					      { "w2", HIDDEN, EXPERT_WIDTH },
					      { "w3", EXPERT_WIDTH, HIDDEN } };
	char name[160];

	snprintf(name, sizeof name, "model.layers.%zu.block_sparse_moe.gate.weight", layer);
	tensor_add(text, name, n_experts, HIDDEN);
	for (size_t i = 0; i < 3 * n_experts; i++) {
		snprintf(name, sizeof name,
			 "model.layers.%zu.block_sparse_moe.experts.%zu.%s.weight", layer, i / 3,
			 rows[i % 3].name);
		tensor_add(text, name, rows[i % 3].rows, rows[i % 3].cols);
	}
}

static void layer_add(struct checkpoint_text *text, size_t layer, size_t n_experts)
{
	static const struct tensor rows[] = {
		{ "input_layernorm", HIDDEN, 0 },
		{ "post_attention_layernorm", HIDDEN, 0 },
		{ "self_attn.q_proj", HEADS * DIM, HIDDEN },
		{ "self_attn.k_proj", KEYS, HIDDEN },
		{ "self_attn.v_proj", KEYS, HIDDEN },
		{ "self_attn.o_proj", HIDDEN, HEADS * DIM },
		{ "mlp.gate_proj", WIDTH, HIDDEN },
		{ "mlp.up_proj", WIDTH, HIDDEN },
		{ "mlp.down_proj", HIDDEN, WIDTH },
	};
	char name[160];

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		if (n_experts && strncmp(rows[i].name, "mlp", 3) == 0)
			continue;
		snprintf(name, sizeof name, "model.layers.%zu.%s.weight", layer, rows[i].name);
		tensor_add(text, name, rows[i].rows, rows[i].cols);
	}
	if (n_experts)
		experts_add(text, layer, n_experts);
}

static FILE *file_new(const char *folder, const char *name)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "wb");
	assert_non_null(file);
	return file;
}

static void config_write(const char *folder, struct model_shape shape)
{
	char experts[128] = "";
	FILE *file = file_new(folder, "config.json");

	if (shape.n_experts)
		snprintf(experts, sizeof experts,
			 "\"num_local_experts\":%zu,\"num_experts_per_tok\":%d,", shape.n_experts,
			 TOP_K);
	fprintf(file,
		"{\"architectures\":[\"%s\",%s"
		"\"hidden_size\":%d,\"intermediate_size\":%d,\"num_attention_heads\":%d,"
		"\"num_key_value_heads\":%d,\"head_dim\":%d,\"num_hidden_layers\":%zu,"
		"\"vocab_size\":%d,\"rms_norm_eps\":1e-6,\"rope_theta\":10000.0,"
		"\"hidden_act\":\"silu\",\"max_position_embeddings\":512,"
		"\"tie_word_embeddings\":true}",
		shape.n_experts ? "MixtralForCausalLM\"],\"model_type\":\"mixtral"
				: "LlamaForCausalLM\"],\"model_type\":\"llama",
		experts, HIDDEN, shape.n_experts ? EXPERT_WIDTH : WIDTH, HEADS, KEYS / DIM, DIM,
		shape.n_layers, VOCAB);
	fclose(file);
}

/* Writes a model of random weights; returns the bytes of its tensors. */
static size_t model_write(const char *folder, struct model_shape shape)
{
	struct checkpoint_text text = { .file = file_new(folder, "model.safetensors") };
	uint32_t random = 1;
	uint64_t length;

	config_write(folder, shape);
	tensor_add(&text, "model.embed_tokens.weight", VOCAB, HIDDEN);
	tensor_add(&text, "model.norm.weight", HIDDEN, 0);
	for (size_t i = 0; i < shape.n_layers; i++)
		layer_add(&text, i, shape.n_experts);
	text.header[text.length++] = '}';
	while (text.length % 8)
		text.header[text.length++] = ' ';
	length = text.length;
	fwrite(&length, sizeof length, 1, text.file);
	fwrite(text.header, 1, text.length, text.file);
	for (size_t i = 0; i < text.n_bytes / 2; i++) {
		uint16_t value;

		random = random * 1664525 + 1013904223;
		value = bf16_from_f32(((float)(random >> 8) / (1 << 23) - 1) / 16);
		fwrite(&value, sizeof value, 1, text.file);
	}
	fclose(text.file);
	return text.n_bytes;
}

static void data_write(const char *folder, size_t n_sequences)
{
	FILE *file = file_new(folder, "data.jsonl");

	for (size_t i = 0; i < n_sequences; i++) {
		fputs("{\"input_ids\": [1", file);
		for (size_t t = 1; t < TOKENS; t++)
			fprintf(file, ", %zu", (i + t * t) % VOCAB);
		fputs("]}\n", file);
	}
	fclose(file);
}

/* A calibration, and what it took. */
struct job {
	const char *model;
	size_t n_sequences;
	int n_threads;
	const char *recipe;  /* of --fp8-forward; NULL: without it */
	uint64_t max_memory; /* 0: the default */
	uint64_t device;     /* bytes that are free there; 0: no limit */
	struct simt_counts counts;
	uint64_t n_products;
	long n_made; /* descriptors of products */
};

static void job_run(const char *folder, struct job *job)
{
	char data[512], output[512];
	const char *const path = data;
	struct err err = { 0 };
	const struct calibrate_params params = { .io = &io_system,
						 .input = job->model,
						 .data = &path,
						 .n_data = 1,
						 .output = output,
						 .backend = backend_select("cuda", &err),
						 .seq_len = TOKENS,
						 .n_threads = job->n_threads,
						 .fp8 = { .forward = job->recipe,
							  .recipe = job->recipe },
						 .max_memory = job->max_memory,
						 .restart = true };
	struct sweep_progress progress = { 0 };
	struct calibrate_result result = { 0 };
	struct amax_stats stats = { 0 };
	struct calibrate_plan plan;

	data_write(folder, job->n_sequences);
	snprintf(data, sizeof data, "%s/data.jsonl", folder);
	snprintf(output, sizeof output, "%s/out.amax", folder);
	assert_non_null(params.backend);
	memset(&simt_counts, 0, sizeof simt_counts);
	simt_lt_products = 0;
	simt_lt_made = 0;
	simt_memory = job->device ? job->device : UINT64_MAX;
	if (calibrate_plan_make(&plan, &params, &err) ||
	    calibrate_run(&plan, &params, &progress, &result, &stats, &err))
		fail_msg("%s", err.message);
	simt_memory = UINT64_MAX;
	job->counts = simt_counts;
	job->n_products = (uint64_t)simt_lt_products;
	job->n_made = simt_lt_made;
	free(result.nll);
	amax_stats_release(&stats);
	calibrate_plan_release(&plan);
	unlink(data);
	unlink(output);
}

struct folder {
	char *path;
};

static struct folder folder_new(void)
{
	struct folder folder = { scratch_new() };

	assert_non_null(folder.path);
	return folder;
}

static void folder_remove(struct folder folder)
{
	static const char *const names[] = { "config.json", "model.safetensors" };
	char path[512];

	for (size_t i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s", folder.path, names[i]);
		unlink(path);
	}
	rmdir(folder.path);
	free(folder.path);
}

/* What one more layer takes, for n_sequences.  recipe: as in struct job. */
static struct job fp8_layer_of(const char *folder, size_t n_sequences, size_t n_experts,
			       const char *recipe)
{
	struct job one = { .model = folder,
			   .n_sequences = n_sequences,
			   .n_threads = 1,
			   .recipe = recipe },
		   two = one;

	model_write(folder, (struct model_shape){ 1, n_experts });
	job_run(folder, &one);
	model_write(folder, (struct model_shape){ 2, n_experts });
	job_run(folder, &two);
	two.n_products -= one.n_products;
	two.n_made -= one.n_made;
	two.counts.n_launches -= one.counts.n_launches;
	two.counts.n_read -= one.counts.n_read;
	two.counts.n_written -= one.counts.n_written;
	two.counts.n_copies_in -= one.counts.n_copies_in;
	two.counts.n_bytes_in -= one.counts.n_bytes_in;
	two.counts.n_copies_out -= one.counts.n_copies_out;
	two.counts.n_copies_between -= one.counts.n_copies_between;
	two.counts.n_waits -= one.counts.n_waits;
	return two;
}

static struct job layer_of(const char *folder, size_t n_sequences, size_t n_experts)
{
	return fp8_layer_of(folder, n_sequences, n_experts, NULL);
}

static void at_most(const char *what, double n, double limit)
{
	print_message("%s: %g (at most %g)\n", what, n, limit);
	if (n > limit)
		fail_msg("%s: %g, limit %g", what, n, limit);
}

/* The most of one sequence more, in a layer of Llama's shape. */
#define MAX_LAUNCHES  20   /* with products */
#define MAX_MEGABYTES 0.45 /* of a token, at 4096 x 14336, that kernels read and write */

static double launches_of(const struct job *job)
{
	return (double)(job->counts.n_launches + job->n_products);
}

static double copies_of(const struct job *job)
{
	return (double)(job->counts.n_copies_in + job->counts.n_copies_out);
}

/* The megabytes that kernels move for a token of the sequence that one job has more. */
static double megabytes_between(const struct job *few, const struct job *more)
{
	const struct simt_counts *a = &few->counts, *b = &more->counts;

	return (double)(b->n_read + b->n_written - a->n_read - a->n_written) * SHARE / TOKENS / 1e6;
}

static void a_dense_layer_has_its_limits(void **state)
{
	struct folder folder = folder_new();
	const struct job few = layer_of(folder.path, 2, 0), more = layer_of(folder.path, 3, 0);

	(void)state;
	folder_remove(folder);
	at_most("launches of a layer and sequence", launches_of(&more) - launches_of(&few),
		MAX_LAUNCHES);
	at_most("megabytes of a token and layer", megabytes_between(&few, &more), MAX_MEGABYTES);
	at_most("waits of a layer and sequence", (double)(more.counts.n_waits - few.counts.n_waits),
		1);
	at_most("copies of a layer and sequence", copies_of(&more) - copies_of(&few), 0);
	at_most("descriptors of a layer more", (double)more.n_made, 0);
}

/* The same with --fp8-forward: the 4 inputs of a layer are cast where they are, each once.  Delayed
 * scaling has a step for each sequence: at its end the amaxes of inputs are copied to the host, and
 * the histories there and back. */
static void a_layer_in_fp8_has_its_limits(void **state)
{
	static const struct {
		const char *recipe;
		double max_launches, max_megabytes, max_waits, max_copies;
	} rows[] = {
		{ "blockwise", MAX_LAUNCHES + 4, 0.67, 1, 0 },
		{ "current", MAX_LAUNCHES + 4 * 3, 0.83, 1, 0 },
		{ "delayed", MAX_LAUNCHES + 4 + 7 + 2, 0.88, 3, 4 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct folder folder = folder_new();
		const struct job few = fp8_layer_of(folder.path, 2, 0, rows[i].recipe),
				 more = fp8_layer_of(folder.path, 3, 0, rows[i].recipe);

		folder_remove(folder);
		print_message("%s: ", rows[i].recipe);
		at_most("launches of a layer and sequence", launches_of(&more) - launches_of(&few),
			rows[i].max_launches);
		at_most("megabytes of a token and layer", megabytes_between(&few, &more),
			rows[i].max_megabytes);
		at_most("waits of a layer and sequence",
			(double)(more.counts.n_waits - few.counts.n_waits), rows[i].max_waits);
		at_most("copies of a layer and sequence", copies_of(&more) - copies_of(&few),
			rows[i].max_copies);
	}
}

/* The 7 weights of a layer are copied between the sequences of the layer before it. */
static void weights_are_loaded_beside_sequences(void **state)
{
	struct folder folder = folder_new();
	const struct job layer = layer_of(folder.path, 5, 0);

	(void)state;
	folder_remove(folder);
	at_most("runs of copies of a layer that are missing",
		5 - (double)layer.counts.n_copies_between, 0);
}

/* The most of a layer of experts: of one sequence more, and of a group besides 3 products for each
 * expert: the choice, and batches, of which 2 TOP_K + 1 have room for all tokens. */
#define MAX_ROUTED_LAUNCHES 20
#define MAX_GROUP_LAUNCHES  (3 + 5 * (2 * TOP_K + 1))
#define GROUP		    8 /* sequences that go through experts together */

/* The launches of a sequence more do not depend on the number of experts; those of experts not on
 * the number of sequences.  A group waits to learn how many tokens each expert has, and at the
 * end. */
static void experts_take_all_sequences_at_once(void **state)
{
	struct folder folder = folder_new();
	const struct job two = layer_of(folder.path, 2, 8), four = layer_of(folder.path, 4, 8),
			 group = layer_of(folder.path, GROUP, 8),
			 wide = layer_of(folder.path, 2, 16),
			 groups = layer_of(folder.path, 2 * GROUP, 8);
	double each = (launches_of(&four) - launches_of(&two)) / 2;

	(void)state;
	folder_remove(folder);
	at_most("launches of a layer of experts and sequence", each, MAX_ROUTED_LAUNCHES);
	at_most("launches of a layer's 8 experts", launches_of(&group) - GROUP * each,
		MAX_GROUP_LAUNCHES + 3 * 8);
	at_most("launches of 8 experts more", launches_of(&wide) - launches_of(&two), 3 * 8);
	at_most("waits of sequences of a group",
		(double)(group.counts.n_waits - two.counts.n_waits), 0);
	at_most("copies of sequences of a group",
		(double)(group.counts.n_copies_in + group.counts.n_copies_out -
			 two.counts.n_copies_in - two.counts.n_copies_out),
		0);
	at_most("waits of a group", (double)(groups.counts.n_waits - group.counts.n_waits), 2);
}

/* The same with --fp8-forward: a sequence more has the casts of attention's inputs, and the
 * rounding of the router's; those of experts are cast for all sequences at once. */
static void experts_in_fp8_take_all_sequences_at_once(void **state)
{
	static const struct {
		const char *recipe;
		double max_launches;
	} rows[] = { { "blockwise", MAX_ROUTED_LAUNCHES + 2 + 1 },
		     { "current", MAX_ROUTED_LAUNCHES + 2 * 3 + 1 } };

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct folder folder = folder_new();
		const struct job two = fp8_layer_of(folder.path, 2, 8, rows[i].recipe),
				 four = fp8_layer_of(folder.path, 4, 8, rows[i].recipe);

		folder_remove(folder);
		print_message("%s: ", rows[i].recipe);
		at_most("launches of a layer of experts and sequence",
			(launches_of(&four) - launches_of(&two)) / 2, rows[i].max_launches);
		at_most("waits of sequences of a group",
			(double)four.counts.n_waits - (double)two.counts.n_waits, 0);
	}
}

/* Returns how often the weights of a model of 2 layers are copied to the device, in bytes of
 * them. */
static double loads_of(struct job job)
{
	struct folder folder = folder_new();
	size_t size = model_write(folder.path, (struct model_shape){ 2, 0 });

	job.model = folder.path;
	job_run(folder.path, &job);
	folder_remove(folder);
	return (double)job.counts.n_bytes_in / (double)size;
}

static void weights_are_loaded_once(void **state)
{
	(void)state;
	at_most("loads of the weights", loads_of((struct job){ .n_sequences = 6, .n_threads = 2 }),
		1.1);
	at_most("loads of the weights, in memory for a few sequences",
		loads_of((struct job){ .n_sequences = 6, .n_threads = 1, .max_memory = 1200000 }),
		6.1);
	at_most("loads of the weights, which fit on the device beside a few sequences",
		loads_of((struct job){ .n_sequences = 6, .n_threads = 1, .device = 69600000 }),
		1.1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dense_layer_has_its_limits),
		cmocka_unit_test(a_layer_in_fp8_has_its_limits),
		cmocka_unit_test(weights_are_loaded_beside_sequences),
		cmocka_unit_test(experts_take_all_sequences_at_once),
		cmocka_unit_test(experts_in_fp8_take_all_sequences_at_once),
		cmocka_unit_test(weights_are_loaded_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
