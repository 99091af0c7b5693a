/* SPDX-License-Identifier: Apache-2.0
 *
 * inspect_make() on a checkpoint: the input is config.json, hf_quant_config.json and the tensors,
 * with NUL bytes between.
 */
#include <string.h>

#include "inspect/inspect.h"
#include "tests/fuzz/fuzz.h"

static void look(const struct inspection *inspection)
{
	const struct checkpoint *checkpoint = &inspection->checkpoint;
	struct weight_scale scale;
	struct err err;

	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->tensors[i];

		FUZZ_CHECK(checkpoint_find(checkpoint, ref->tensor->name)->tensor == ref->tensor);
		if (!detection_is_weight(ref))
			continue;
		if (detection_scale(&inspection->detection, ref, &scale, &err))
			fuzz_check_error(&err);
		else
			FUZZ_CHECK(scale.scale);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *folder = fuzz_folder();
	struct fuzz_checkpoint checkpoint = { 0 };
	struct inspection inspection = { 0 };
	struct progress progress = { 0 };
	struct err err = { 0 };

	checkpoint.config = fuzz_part(&data, &size);
	checkpoint.hf_quant_config = fuzz_part(&data, &size);
	checkpoint.tensors = fuzz_part(&data, &size);
	fuzz_checkpoint_write(folder, &checkpoint);
	if (inspect_make(&inspection, &(struct inspect_params){ fuzz_io(), folder, folder, { 0 } },
			 &progress, &err))
		fuzz_check_error(&err);
	else
		look(&inspection);
	inspect_release(&inspection);
	return 0;
}
