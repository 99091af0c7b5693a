/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv verify: what is wrong with an FP8 checkpoint; nothing to say is good news.
 */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/json_out.h"
#include "cli/opts.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "job/verify.h"

#define MAX_THREADS 1024
#define MAX_TP	    1024

enum {
	OPT_SOURCE = 256,
	OPT_TARGET,
	OPT_TP,
	OPT_THREADS,
	OPT_BACKEND,
	OPT_JSON,
	OPT_PROGRESS,
};

struct settings {
	struct verify_params params;
	int progress;
	bool json, quiet, verbose;
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What to check:", 1 },
	{ "source", OPT_SOURCE, "MODEL", 0, "Compare every code and scale with the model it was made from", 1 },
	{ "target", OPT_TARGET, "vllm|sglang|trtllm|transformers", 0, "The rules of this engine too", 1 },
	{ "tp", OPT_TP, "N", 0, "Whether it loads at tensor-parallel size N", 1 },
	{ NULL, 0, NULL, 0, "Running:", 2 },
	{ "threads", OPT_THREADS, "N", 0, "Default: one for each CPU", 2 },
	{ "backend", OPT_BACKEND, "BACKEND", 0, "auto (default), cpu, or one that 'fp8conv version' lists", 2 },
	{ NULL, 0, NULL, 0, "What is told:", 3 },
	{ "json", OPT_JSON, NULL, 0, "Print one JSON object", 3 },
	{ "progress", OPT_PROGRESS, PROGRESS_MODES, 0, "Progress on standard error (default auto)", 3 },
	{ "quiet", 'q', NULL, 0, "No progress, no summary", 3 },
	{ "verbose", 'v', NULL, 0, "What was checked, and with --source the SQNR of each weight, worst first", 3 },
	{ 0 },
};

static int parse_int(const char *option, const char *value, int max, int *n, struct err *err)
{
	uint64_t number;

	if (opt_number(option, value, 1, (uint64_t)max, &number, err))
		return -1;
	*n = (int)number;
	return 0;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
	struct parse_input *input = state->input;
	struct settings *settings = input->settings;
	struct verify_params *params = &settings->params;
	int index;

	switch (key) {
	case OPT_SOURCE:
		params->source = value;
		return 0;
	case OPT_TARGET:
		params->target = value;
		return opt_choice("--target", value, options[2].arg, &index, input->err);
	case OPT_TP:
		return parse_int("--tp", value, MAX_TP, &params->tp, input->err);
	case OPT_THREADS:
		return parse_int("--threads", value, MAX_THREADS, &params->n_threads, input->err);
	case OPT_BACKEND:
		params->backend = value;
		return 0;
	case OPT_JSON:
		settings->json = true;
		return 0;
	case OPT_PROGRESS:
		return opt_choice("--progress", value, PROGRESS_MODES, &settings->progress, input->err);
	case 'q':
		settings->quiet = true;
		return 0;
	case 'v':
		settings->verbose = true;
		return 0;
	case ARGP_KEY_ARG:
		if (params->input)
			return argument_unexpected(value, input->err);
		params->input = value;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp verify_argp = { .options = options, .parser = parse };

static void print_json(const struct verification *verification)
{
	struct json_out out = { .stream = stdout };

	json_out_open(&out, NULL, '{');
	json_out_bool(&out, "ok", verification->problems.n == 0);
	json_out_count(&out, "tensors", verification->n_tensors);
	json_out_text(&out, "recipe", verification->recognition.recipe);
	json_out_text(&out, "format", verification->recognition.format);
	json_out_text(&out, "scale_fmt", verification->recognition.scale_fmt);
	json_out_text(&out, "arithmetic", verification->arithmetic);
	json_out_open(&out, "problems", '[');
	for (size_t i = 0; i < verification->problems.n; i++) {
		const struct problem *problem = &verification->problems.list[i];

		json_out_open(&out, NULL, '{');
		json_out_text(&out, "kind", problem_kind_name(problem->kind));
		json_out_text(&out, "tensor", problem->tensor);
		json_out_text(&out, "file", problem->file);
		json_out_text(&out, "message", problem->message);
		json_out_close(&out, '}');
	}
	json_out_close(&out, ']');
	json_out_open(&out, "weights", '[');
	for (size_t i = 0; i < verification->n_reports; i++) {
		json_out_open(&out, NULL, '{');
		json_out_text(&out, "tensor", verification->reports[i].name);
		json_out_real(&out, "sqnr_db", verification->reports[i].sqnr);
		json_out_close(&out, '}');
	}
	json_out_close(&out, ']');
	json_out_end(&out);
}

static void print_problems(const struct verification *verification)
{
	for (size_t i = 0; i < verification->problems.n; i++) {
		const struct problem *problem = &verification->problems.list[i];

		if (problem->file)
			printf("%s: %s: %s\n", problem->file, problem_kind_name(problem->kind), problem->message);
		else
			printf("%s: %s\n", problem_kind_name(problem->kind), problem->message);
	}
}

static void print_checked(const struct verification *verification, const struct verify_params *params)
{
	const struct recognition *recognition = &verification->recognition;

	if (recognition->format)
		printf("recipe %s, format %s, scales %s\n", recognition->recipe, recognition->format,
		       recognition->scale_fmt);
	else
		printf("not FP8\n");
	printf("%zu tensors, %zu of them FP8 weights; names, types, shapes, configuration, index, every scale and code\n",
	       verification->n_tensors, recognition->n_weights);
	if (!params->source)
		return;
	printf("against the source: arithmetic %s\n", verification->arithmetic ? verification->arithmetic
									       : "unknown, within half a step of each code");
	for (size_t i = 0; i < verification->n_reports; i++) {
		if (isfinite(verification->reports[i].sqnr))
			printf("%6.2f dB  %s\n", verification->reports[i].sqnr, verification->reports[i].name);
		else
			printf("lossless   %s\n", verification->reports[i].name);
	}
}

static int verify(const struct settings *settings, struct err *err)
{
	enum progress_mode mode = settings->quiet ? PROGRESS_NONE : (enum progress_mode)settings->progress;
	struct progress progress = { .stop = signals_watch() };
	struct verification verification;
	struct ticker ticker;
	int rc;

	ticker_start(&ticker, "verify", mode, &progress);
	rc = verify_run(&verification, &settings->params, &progress, err);
	ticker_stop(&ticker);
	if (rc == 0) {
		rc = verification.problems.n > 0;
		if (settings->json)
			print_json(&verification);
		else
			print_problems(&verification);
		if (settings->verbose && !settings->json)
			print_checked(&verification, &settings->params);
	}
	verification_release(&verification);
	return rc;
}

static int run(const struct command *command, int argc, char **argv, struct err *err)
{
	struct settings settings = { .params = { .io = &io_system } };
	int rc = command_parse(command, argc, argv, &settings, err);

	if (rc)
		return rc < 0 ? -1 : 0;
	if (!settings.params.input)
		return err_set(err, ERR_USAGE, "OUT is missing (fp8conv verify OUT)");
	if (!settings.params.n_threads)
		settings.params.n_threads = online_cpus();
	return verify(&settings, err);
}

const struct command command_verify = {
	.name = "verify",
	.args = "OUT",
	.summary = "Find what engines would trip over in an FP8 checkpoint",
	.group = GROUP_LOOK,
	.argp = &verify_argp,
	.run = run,
};
