/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands that are put under faults, a row each, and what they convert.
 */
#ifndef FP8CONV_TESTS_FAULT_COMMANDS_H
#define FP8CONV_TESTS_FAULT_COMMANDS_H

#include "execute/execute.h"
#include "plan/dequantize.h"
#include "plan/quantize.h"
#include "plan/repack.h"
#include "tests/fault/deltas.h"
#include "tests/fault/evaluations.h"
#include "tests/fault/histories.h"
#include "tests/fault/reports.h"
#include "tests/fault/tree.h"

/* other: with options that give other bytes. */
typedef int plan_fn(struct plan *plan, const struct convert_params *params, bool other,
		    struct progress *progress, struct err *err);

struct command {
	const char *name;
	plan_fn *plan;
	history_fn *run; /* in place of plan */
	bool of_fp8;	 /* its input is what `quantize` makes of the samples */
	bool preserves;	 /* it has --preserve-high-precision */
	bool reads_only; /* it has nothing to resume */
	bool of_trainer; /* its inputs are what trained.py makes */
	bool makes_delta;
	bool applies; /* a delta: an output that is not whole goes with a journal */
};

static int plan_quantize(struct plan *plan, const struct convert_params *params, bool other,
			 struct progress *progress, struct err *err)
{
	struct quantize_params quantize = { .convert = *params,
					    .recipe = other ? "mxfp8" : "blockwise" };

	return quantize_plan_make(plan, &quantize, progress, err);
}

static int plan_dequantize(struct plan *plan, const struct convert_params *params, bool other,
			   struct progress *progress, struct err *err)
{
	struct dequantize_params dequantize = { .convert = *params,
						.dtype = other ? "f32" : "bf16" };

	return dequantize_plan_make(plan, &dequantize, progress, err);
}

static int plan_repack(struct plan *plan, const struct convert_params *params, bool other,
		       struct progress *progress, struct err *err)
{
	struct repack_params repack = { .convert = *params,
					.format = "compressed-tensors",
					.recipe = other ? "mxfp8" : NULL };

	return repack_plan_make(plan, &repack, progress, err);
}

/* With the history that make_history() made of the input. */
static int plan_static(struct plan *plan, const struct convert_params *params, bool other,
		       struct progress *progress, struct err *err)
{
	struct quantize_params quantize = {
		.convert = *params,
		.recipe = "delayed",
		.tuning = { .margin = other ? "1" : NULL },
		.calibration = { .path = strcmp(params->input, "model") != 0 ? "one.amax"
									     : "model.amax" },
	};

	return quantize_plan_make(plan, &quantize, progress, err);
}

/* With the sequences that make_few_ids() made. */
static int plan_compensated(struct plan *plan, const struct convert_params *params, bool other,
			    struct progress *progress, struct err *err)
{
	static const char *const data[] = { "few.jsonl" };
	struct quantize_params quantize = {
		.convert = *params,
		.recipe = "blockwise",
		.rounding = ROUNDING_COMPENSATED,
		.compensate = { .data = data,
				.n_data = 1,
				.shrink = other ? 0.5f : -1,
				.backend = backends[0],
				.stop = progress->stop },
	};

	return quantize_plan_make(plan, &quantize, progress, err);
}

/* The .bin has an amax history, for static scales. */
static int plan_trained(struct plan *plan, const struct convert_params *params, bool other,
			struct progress *progress, struct err *err)
{
	bool is_bin = !strncmp(params->input, "bin", 3);
	struct quantize_params quantize = {
		.convert = *params,
		.recipe = is_bin ? "delayed" : "blockwise",
		.tuning = { .margin = other ? "1" : NULL },
		.calibration = { .path = is_bin ? params->input : NULL },
	};

	return quantize_plan_make(plan, &quantize, progress, err);
}

static const struct command commands[] = {
	{ "quantize", plan_quantize, .preserves = true },
	{ "dequantize", plan_dequantize, .of_fp8 = true },
	{ "repack", plan_repack, .of_fp8 = true },
	{ "static", .plan = plan_static },
	{ "trained", .plan = plan_trained, .of_trainer = true },
	{ "compensated", .plan = plan_compensated },
	{ "merge", .run = run_merge },
	{ "calibrate", .run = run_calibrate },
	{ "eval", .run = run_eval, .of_fp8 = true, .reads_only = true },
	{ "evaluation", .run = run_kept_eval, .of_fp8 = true },
	{ "sensitivity", .run = run_sensitivity },
	{ "report", .run = run_report, .of_fp8 = true, .reads_only = true },
	{ "diff", .run = run_diff, .of_fp8 = true, .reads_only = true },
	{ "delta", .run = run_delta, .of_fp8 = true, .makes_delta = true },
	{ "since", .run = run_since, .of_fp8 = true, .makes_delta = true },
	{ "apply", .run = run_apply, .of_fp8 = true, .applies = true },
};

#define N_COMMANDS (sizeof commands / sizeof *commands)

/* The sample, or what `quantize` makes of it, as folder `to`. */
static inline void make_input(const struct command *command, const char *sample, const char *to)
{
	struct convert_params params = { .io = &io_system,
					 .input = sample,
					 .output = to,
					 .temp_dir = ".",
					 .backend = backends[0],
					 .n_threads = 1,
					 .max_memory = 64 << 20 };
	struct progress progress = { 0 };
	struct convert_result result;
	struct plan plan = { 0 };
	struct err err = { 0 };

	tree_remove(to);
	if (!command->of_fp8) {
		tree_copy(sample, to);
	} else if (plan_quantize(&plan, &params, false, &progress, &err) ||
		   execute_plan(&plan, &params, &progress, &result, &err)) {
		fprintf(stderr, "quantize of '%s': %s\n", sample, err.message);
		exit(2);
	}
	plan_release(&plan);
}

/* As standard input that is no file from its beginning on: one byte, then the bytes of file
 * `from`. */
static inline void make_spool(const char *from)
{
	struct buf data;
	char *spool;

	if (!tree_read(from, &data))
		tree_die("cannot read", from);
	spool = xmalloc(data.len + 1);
	spool[0] = 'x';
	memcpy(spool + 1, data.data, data.len);
	tree_write("spool", spool, data.len + 1);
	free(spool);
	buf_release(&data);
}

static inline void make_models(const struct command *command, const char *samples)
{
	char *model = xasprintf("%s/tiny-moe/per-expert", samples);
	char *one = xasprintf("%s/tiny-moe/fused", samples);

	make_input(command, model, "model");
	make_input(command, one, "one");
	mkdir("model/original", 0777);
	mkdir("model/original/deep", 0777);
	tree_write("model/original/params.json", "{}\n", 3);
	tree_write("model/original/deep/notes.txt", "notes\n", 6);
	make_spool("one/model.safetensors");
	free(model);
	free(one);
}

static inline void make_trained(const char *samples)
{
	char *line = xasprintf("exec python3 '%s/../tests/fault/trained.py'", samples);

	tree_remove("bin");
	tree_remove("distcp");
	if (system(line))
		tree_die("cannot make", "bin");
	free(line);
}

static inline void make_inputs(const struct command *command, const char *samples)
{
	if (command->of_trainer) {
		make_trained(samples);
		return;
	}
	if (command->run) {
		make_history_inputs(samples);
		make_short_ids();
		if (command->of_fp8)
			make_input(command, "llama", "fp8");
		if (command->makes_delta || command->applies)
			make_next("fp8", "next8");
		if (command->makes_delta)
			make_next("llama", "next");
		if (command->applies)
			make_delta();
		return;
	}
	make_models(command, samples);
	if (command->plan == plan_compensated)
		make_few_ids();
	if (command->plan == plan_static) {
		make_history("model", "model.amax", 1);
		make_history("one/model.safetensors", "one.amax", 1);
	}
}

#endif
