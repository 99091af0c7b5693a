/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs that are none of a tool's: configurations with every known key of every type, and a shard
 * that changes while it is converted.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "format/edit_config.h"
#include "execute/execute.h"
#include "plan/quantize.h"
#include "names/config.h"
#include "support/memory_checkpoint.h"
#include "support/folders.h"
#include "support/selection_check.h"

#define N_ROWS(rows) (sizeof(rows) / sizeof *(rows))

static const char tensors[] = "a.experts.gate_up_proj BF16 2 256 128\n"
			      "a.experts.down_proj BF16 2 128 128\n"
			      "a.o_proj.weight F8_E4M3 128 128\n"
			      "a.o_proj.weight_scale_inv F32 1 1\n"
			      "a.q_proj.weight BF16 128 128\n";

/* Fails, and says how, or succeeds: what is read of it must not matter to anything else. */
static void expect_told(int rc, const struct err *err)
{
	if (rc) {
		assert_true(err->kind == ERR_INPUT || err->kind == ERR_USAGE);
		assert_true(err->message[0] && !strchr(err->message, '\n'));
	}
}

static void try_config(const char *text)
{
	const struct select_options options = { .recipe = recipe_named("channelwise"),
						.requantize = true };
	struct checkpoint checkpoint;
	struct detection detection = { 0 };
	struct selection selection = { 0 };
	struct model_config config = { 0 };
	struct buf edited = { 0 };
	struct err err = { 0 };
	int rc;

	memory_checkpoint_init(&checkpoint, text, tensors);
	rc = model_config_read(&config, &checkpoint.config, &err);
	expect_told(rc, &err);
	if (!rc) { /* good JSON, if nothing else */
		assert_int_equal(config_set_quantization(&checkpoint.config, "{}", &edited, &err),
				 0);
		model_config_release(&config);
	}
	rc = detection_make(&detection, &checkpoint, (struct json_text){ 0 }, &err);
	expect_told(rc, &err);
	if (!rc)
		detection_release(&detection);
	rc = selection_make(&selection, &checkpoint, &options, &err);
	expect_told(rc, &err);
	if (!rc)
		selection_release(&selection);
	buf_release(&edited);
	memory_checkpoint_release(&checkpoint);
}

static const char *const keys[] = {
	"model_type",
	"architectures",
	"dtype",
	"torch_dtype",
	"tie_word_embeddings",
	"hidden_size",
	"n_embd",
	"intermediate_size",
	"n_inner",
	"moe_intermediate_size",
	"num_experts",
	"n_routed_experts",
	"num_hidden_layers",
	"num_attention_heads",
	"num_key_value_heads",
	"head_dim",
	"vocab_size",
	"text_config",
	"llm_config",
	"quantization_config",
	"quant_method",
	"weight_block_size",
	"activation_scheme",
	"fmt",
	"scale_fmt",
	"weight_scale_semantics",
	"meta",
	"quantizer",
	"config_groups",
	"group_0",
	"weights",
	"input_activations",
	"num_bits",
	"type",
	"strategy",
	"block_structure",
	"group_size",
	"dynamic",
	"quantization",
	"quant_algo",
	"ignore",
};

static const char *const values[] = {
	"0",
	"-1",
	"128",
	"1.5",
	"1e400",
	"9223372036854775807",
	"9223372036854775808",
	"18446744073709551616",
	"-0",
	"NaN",
	"null",
	"true",
	"\"\"",
	"\"fp8\"",
	"\"\\ud800\"",
	"\"\\u0000\"",
	"[]",
	"[[],{},null]",
	"[0, 0]",
	"[-1, 128]",
	"[1e9, \"x\"]",
	"[9223372036854775807, 9223372036854775807]",
	"{}",
	"{\"\": {\"\": []}}",
	"{\"x\": 1, \"x\": 2}",
	"[",
	"tru",
	"'x'",
	"",
};

static const char *const places[] = {
	"{\"%s\": %s}",
	"{\"text_config\": {\"%s\": %s}}",
	"{\"quantization_config\": {\"quant_method\": \"fp8\", \"%s\": %s}}",
	"{\"quantization_config\": {\"quant_method\": \"modelopt\", \"%s\": %s}}",
	"{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"config_groups\": "
	"{\"g\": {\"weights\": {\"num_bits\": 8, \"type\": \"float\", \"strategy\": \"group\", "
	"\"%s\": %s}}}}}",
	"{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"config_groups\": "
	"{\"g\": {\"weights\": {\"num_bits\": 8, \"type\": \"float\", \"strategy\": \"block\"}, "
	"\"%s\": %s}}}}",
};

/* place: a text with %s for the key, and again for the value. */
static void try_member(const char *place, const char *key, const char *value)
{
	const char *first = strstr(place, "%s"), *second = strstr(first + 2, "%s");
	struct buf text = { 0 };

	buf_add(&text, place, (size_t)(first - place));
	buf_printf(&text, "%s", key);
	buf_add(&text, first + 2, (size_t)(second - first - 2));
	buf_printf(&text, "%s%s", value, second + 2);
	try_config(text.data);
	buf_release(&text);
}

static void keys_of_any_type_are_read_or_refused(void **state)
{
	(void)state;
	for (size_t k = 0; k < N_ROWS(keys); k++)
		for (size_t v = 0; v < N_ROWS(values); v++)
			for (size_t p = 0; p < N_ROWS(places); p++)
				try_member(places[p], keys[k], values[v]);
}

/* A file of one weight, and what happens to it at the N-th read of the conversion. */
static struct {
	char *folder, *in, *out;
	int reads_left;
	void (*event)(void);
} scene;

static void shrink(void)
{
	assert_int_equal(truncate(scene.in, 40000), 0);
}

static void touch(void)
{
	int fd = open(scene.in, O_WRONLY);

	assert_int_equal(pwrite(fd, "x", 1, 65536), 1);
	close(fd);
}

static void vanish(void)
{
	assert_int_equal(unlink(scene.in), 0);
}

static ssize_t eventful_pread(const struct io *io, int fd, void *data, size_t n, off_t offset)
{
	(void)io;
	if (scene.reads_left-- == 0)
		scene.event();
	return pread(fd, data, n, offset);
}

static int scene_open(void **state)
{
	static const char header[] = "{\"up_proj.weight\":{\"dtype\":\"F32\",\"shape\":[256,128],"
				     "\"data_offsets\":[0,131072]}}";
	const uint64_t n = strlen(header);
	int fd;

	(void)state;
	scene.folder = scratch_new();
	if (!scene.folder)
		return -1;
	scene.in = xasprintf("%s/in.safetensors", scene.folder);
	scene.out = xasprintf("%s/out.safetensors", scene.folder);
	fd = open(scene.in, O_WRONLY | O_CREAT, 0600);
	if (fd < 0 || write(fd, &n, sizeof n) != sizeof n || write(fd, header, n) != (ssize_t)n ||
	    ftruncate(fd, (off_t)(8 + n + 131072)))
		return -1;
	return close(fd);
}

static int scene_close(void **state)
{
	(void)state;
	unlink(scene.in);
	rmdir(scene.folder);
	free(scene.folder);
	free(scene.in);
	free(scene.out);
	return 0;
}

/* The event at every read there is: an error with these words, or nobody looked any more; never an
 * output of what was not there.  Returns whether the conversion was through before. */
static bool convert_during(int n_reads, void (*event)(void), const char *words)
{
	struct io io = io_system;
	const struct quantize_params params = { .recipe = "current",
						.convert = { .io = &io,
							     .input = scene.in,
							     .output = scene.out,
							     .temp_dir = scene.folder,
							     .backend = backends[0],
							     .n_threads = 1 } };
	struct progress progress = { 0 };
	struct convert_result result;
	struct plan plan;
	struct err err = { 0 };
	int rc;

	io.pread = eventful_pread;
	scene.reads_left = n_reads;
	scene.event = event;
	rc = quantize_plan_make(&plan, &params, &progress, &err);
	if (!rc)
		rc = execute_plan(&plan, &params.convert, &progress, &result, &err);
	plan_release(&plan);
	if (scene.reads_left < 0) {
		assert_int_equal(rc, -1);
		assert_int_equal(err.kind, ERR_INPUT);
		assert_non_null(strstr(err.message, words));
		assert_non_null(strstr(err.message, "in.safetensors"));
		assert_int_equal(access(scene.out, F_OK), -1);
		return false;
	}
	assert_int_equal(rc, 0);
	return true;
}

static void every_read(void (*event)(void), const char *words)
{
	int n = 0;

	for (bool through = false; !through; n++) {
		assert_int_equal(scene_open(NULL), 0);
		through = convert_during(n, event, words);
		unlink(scene.out);
		scene_close(NULL);
	}
	assert_true(n > 4); /* header, amax and codes were among them */
}

static void a_source_that_shrinks_is_an_error(void **state)
{
	(void)state;
	every_read(shrink, "");
}

static void a_source_that_changes_is_an_error(void **state)
{
	(void)state;
	every_read(touch, "changed while it was read");
}

static void a_source_that_vanishes_is_an_error(void **state)
{
	(void)state;
	every_read(vanish, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_of_any_type_are_read_or_refused),
		cmocka_unit_test(a_source_that_shrinks_is_an_error),
		cmocka_unit_test(a_source_that_changes_is_an_error),
		cmocka_unit_test(a_source_that_vanishes_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
