/* SPDX-License-Identifier: Apache-2.0
 *
 * Calibrations of models of random weights, and what each asks of a GPU: launches, bytes that
 * kernels move, copies, waits, products.
 */
#ifndef FP8CONV_TESTS_SIMT_COUNTED_JOB_H
#define FP8CONV_TESTS_SIMT_COUNTED_JOB_H

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
#include "tests/unit/support/folders.h"

/* An eighth of a layer of Llama-3-8B (4096 x 14336, 32 heads, 8 of keys): all bytes except
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

static inline void tensor_add(struct checkpoint_text *text, const char *name, size_t rows,
			      size_t cols)
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

static inline void experts_add(struct checkpoint_text *text, size_t layer, size_t n_experts)
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

static inline void layer_add(struct checkpoint_text *text, size_t layer, size_t n_experts)
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

static inline void config_write(const char *folder, struct model_shape shape)
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
static inline size_t model_write(const char *folder, struct model_shape shape)
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

static inline void data_write(const char *folder, size_t n_sequences)
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

static inline void job_run(const char *folder, struct job *job)
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

static inline struct folder folder_new(void)
{
	struct folder folder = { scratch_new() };

	assert_non_null(folder.path);
	return folder;
}

static inline void folder_remove(struct folder folder)
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
static inline struct job fp8_layer_of(const char *folder, size_t n_sequences, size_t n_experts,
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

static inline struct job layer_of(const char *folder, size_t n_sequences, size_t n_experts)
{
	return fp8_layer_of(folder, n_sequences, n_experts, NULL);
}

static inline void at_most(const char *what, double n, double limit)
{
	print_message("%s: %g (at most %g)\n", what, n, limit);
	if (n > limit)
		fail_msg("%s: %g, limit %g", what, n, limit);
}

#endif
