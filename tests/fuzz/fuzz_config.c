/* SPDX-License-Identifier: Apache-2.0
 *
 * config.json and hf_quant_config.json (the input, a NUL byte between them): read, detected with
 * tensors of many schemes, and edited.
 */
#include <string.h>

#include "format/edit_config.h"
#include "format/format.h"
#include "format/detect.h"
#include "names/config.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/support/memory_checkpoint.h"

static const char tensors[] = "model.layers.0.mlp.a_proj.weight F8_E4M3 256 384\n"
			      "model.layers.0.mlp.a_proj.weight_scale_inv F32 2 3\n"
			      "model.layers.0.mlp.b_proj.weight F8_E5M2 64 64\n"
			      "model.layers.0.mlp.b_proj.weight_scale F32\n"
			      "model.layers.0.mlp.b_proj.input_scale F32\n"
			      "model.layers.0.mlp.c_proj.weight F8_E4M3 4 64\n"
			      "model.layers.0.mlp.c_proj.weight_scale U8 4 2\n"
			      "model.layers.0.mlp.d_proj.weight F8_E4M3 0 64\n"
			      "model.layers.0.mlp.d_proj.weight_scale BF16 3 1\n"
			      "model.layers.0.mlp.e_proj.weight BF16 64 64\n";

/* What is set is there, once, and the rest still is what it was. */
static void check_edit(const struct buf *config, bool good)
{
	struct model_config read = { 0 };
	struct buf edited = { 0 };
	struct err err;

	if (config_set_quantization(config, "{\"quant_method\": \"fp8\"}", &edited, &err)) {
		FUZZ_CHECK(!good); /* what can be read can be edited */
		fuzz_check_error(&err);
	} else if (good) {
		FUZZ_CHECK(!model_config_read(&read, &edited, &err));
		FUZZ_CHECK(read.has_quantization && !strcmp(read.quant_method, "fp8"));
		model_config_release(&read);
	}
	buf_release(&edited);
}

static void detect(const struct checkpoint *checkpoint, struct json_text hf_quant_config)
{
	struct detection detection;
	struct weight_scale scale;
	struct err err;

	if (detection_make(&detection, checkpoint, hf_quant_config, &err)) {
		fuzz_check_error(&err);
		return;
	}
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		if (detection_is_weight(&checkpoint->tensors[i]) &&
		    detection_scale(&detection, &checkpoint->tensors[i], &scale, &err))
			fuzz_check_error(&err);
	}
	detection_release(&detection);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_text text = fuzz_part(&data, &size);
	struct json_text hf_quant_config = fuzz_part(&data, &size);
	struct checkpoint checkpoint;
	struct model_config config;
	struct err err;
	bool good;

	if (!text.len)
		return 0;
	memory_checkpoint_init(&checkpoint, NULL, tensors);
	buf_add(&checkpoint.config, text.data, text.len);
	good = !model_config_read(&config, &checkpoint.config, &err);
	if (good)
		model_config_release(&config);
	else
		fuzz_check_error(&err);
	check_edit(&checkpoint.config, good);
	detect(&checkpoint, hf_quant_config);
	memory_checkpoint_release(&checkpoint);
	return 0;
}
