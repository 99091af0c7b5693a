/* SPDX-License-Identifier: Apache-2.0
 *
 * What the fuzz targets share.  A target is one file fuzz_<name>.c; `make fuzz` links it to
 * libFuzzer, `make check` to replay.c, which runs the inputs in <name>/ of corpus.tar.
 */
#ifndef FP8CONV_TESTS_FUZZ_H
#define FP8CONV_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/io.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold whatever the input: says so and aborts, which both drivers count as a finding. */
#define FUZZ_CHECK(condition)                                      \
	do {                                                       \
		if (!(condition))                                  \
			fuzz_fail(__FILE__, __LINE__, #condition); \
	} while (0)
_Noreturn void fuzz_fail(const char *file, int line, const char *condition);

/* An error message is one line that a terminal can be given. */
void fuzz_check_error(const struct err *err);

/* The input up to its next NUL byte, which is consumed; all of it if there is none. */
struct json_text fuzz_part(const uint8_t **data, size_t *size);

/* io_system without fsync(), which would be all that is measured. */
const struct io *fuzz_io(void);

/* An empty folder of this process, removed at its end.  The same one in each call, emptied. */
const char *fuzz_folder(void);

/* Writes a checkpoint into folder: config.json and hf_quant_config.json where their texts are not
 * empty, and one safetensors file, or several with an index.  `tensors` has a line "NAME TYPE DIM
 * DIM..." for each tensor and a line "/" where the next file begins, so that most of what a fuzzer
 * makes of it is a good checkpoint; text that begins with '{' is a header instead, taken as it is.
 * Data are `pattern`, over and over. */
struct fuzz_checkpoint {
	struct json_text config, hf_quant_config, tensors, pattern;
};
void fuzz_checkpoint_write(const char *folder, const struct fuzz_checkpoint *checkpoint);

#endif
