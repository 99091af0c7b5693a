/* SPDX-License-Identifier: Apache-2.0
 *
 * The problems that `verify` reports.
 */
#ifndef FP8CONV_VERIFY_PROBLEM_H
#define FP8CONV_VERIFY_PROBLEM_H

#include <stdarg.h>
#include <stddef.h>

#include "base/words.h"
#include "ckpt/defect.h"

/* clang-format off */
/* The kinds, the names of which programs read, and their effects in engines.  FAULT: the checkpoint
 * is wrong; NOTE: it is not.  Several kinds of one name differ in their effects.  Source: the
 * loaders of vLLM 7cfb97e, SGLang 0.5.15, TensorRT-LLM, transformers 5.23.0.  NULL: the message has
 * the effect. */
#define PROBLEMS(FAULT, NOTE) \
	FAULT(PROBLEM_SCALE_MISSING, "scale-missing", \
	     "vLLM loads the model silently and computes garbage") \
	FAULT(PROBLEM_SCALE_NAME, "scale-name", NULL) \
	FAULT(PROBLEM_SCALE_STRAY, "scale-stray", "loading stops at a tensor that no layer has") \
	FAULT(PROBLEM_SCALE_SHAPE, "scale-shape", "loading stops at an assertion") \
	FAULT(PROBLEM_SCALE_DTYPE, "scale-dtype", \
	     "vLLM copies the numbers instead of the bits; SGLang refuses") \
	FAULT(PROBLEM_SCALE_VALUE, "scale-value", "the weights become wrong") \
	FAULT(PROBLEM_SCALE_TOO_LARGE, "scale-value", "the outputs of the model become infinite") \
	FAULT(PROBLEM_SCALE_TOO_SMALL, "scale-value", "these weights count for nothing") \
	FAULT(PROBLEM_SCALE_NOT_POW2, "scale-not-pow2", "DeepGEMM computes with other numbers") \
	FAULT(PROBLEM_SCALE_INVERTED, "scale-inverted", \
	     "engines multiply: weights are off by the scale squared") \
	FAULT(PROBLEM_INPUT_SCALES_INVERTED, "scale-inverted", \
	     "engines divide by them: activations round to zero") \
	NOTE(PROBLEM_SCALE_OUTLIER, "scale-outlier", "weights of a model are closer together") \
	NOTE(PROBLEM_INPUT_SCALE_OUTLIER, "scale-outlier", \
	     "calibrate again if it was not measured") \
	FAULT(PROBLEM_CODE_NAN, "code-nan", "the outputs of these rows are NaN") \
	FAULT(PROBLEM_CODE_RANGE, "code-range", "precision is wasted") \
	FAULT(PROBLEM_CODE_ZERO, "code-zero", \
	     "values are missing, as in a file not written to its end") \
	NOTE(PROBLEM_ZERO_ROWS, "code-zero", "right where the model was pruned") \
	NOTE(PROBLEM_CODE_SIGN, "code-sign", "weights of a model have both") \
	FAULT(PROBLEM_CODE_MISMATCH, "code-mismatch", NULL) \
	FAULT(PROBLEM_SCALE_MISMATCH, "scale-mismatch", NULL) \
	FAULT(PROBLEM_DTYPE_MISMATCH, "dtype-mismatch", \
	     "vLLM reads the bytes as the type in the configuration") \
	FAULT(PROBLEM_INPUT_SCALE_MISSING, "input-scale-missing", \
	     "engines use uninitialized memory") \
	FAULT(PROBLEM_INPUT_SCALE_VALUE, "scale-value", \
	     "what the module computes is NaN, infinite or noise") \
	FAULT(PROBLEM_GROUP_PARTIAL, "group-partial", \
	     "vLLM and SGLang merge these weights and refuse") \
	NOTE(PROBLEM_GROUP_SCALES_DIFFER, "group-scales-differ", \
	     "engines merge these weights and quantize them again by the largest scale, " \
	     "with about 1 % of error") \
	FAULT(PROBLEM_GROUP_INPUTS_DIFFER, "group-scales-differ", \
	     "vLLM and SGLang refuse a difference above 1e-05") \
	FAULT(PROBLEM_KV_SCALE_PAIR, "kv-scale-pair", "vLLM stops or uses 1.0") \
	FAULT(PROBLEM_KV_SCALE_NAME, "kv-scale-name", "engines do not load it, and use 1.0") \
	FAULT(PROBLEM_KV_SCALE_MISSING, "kv-scale-missing", "engines use 1.0") \
	NOTE(PROBLEM_KV_SCALE_SOME, "kv-scale-missing", "engines use 1.0 there") \
	FAULT(PROBLEM_CACHE_SCALE_VALUE, "scale-value", \
	     "engines use 1.0, or what they cache is wrong") \
	FAULT(PROBLEM_TP_SPLIT, "tp-split", "engines refuse to load it") \
	FAULT(PROBLEM_PARTIAL_BLOCKS, "partial-blocks", \
	     "quantize without --ragged, or by channelwise") \
	FAULT(PROBLEM_NOT_LOADED, "not-loaded", NULL) \
	FAULT(PROBLEM_CONFIG_KEY, "config-key", NULL) \
	FAULT(PROBLEM_CONFIG_IGNORE, "config-ignore", NULL) \
	FAULT(PROBLEM_CONFIG_CHANGED, "config-changed", NULL) \
	NOTE(PROBLEM_CONFIG_REWRITTEN, "config-changed", NULL) \
	FAULT(PROBLEM_INDEX_MISSING, "index-missing", NULL) \
	FAULT(PROBLEM_INDEX_UNMAPPED, "index-unmapped", "engines do not load it") \
	FAULT(PROBLEM_INDEX_TOTAL_SIZE, "index-total-size", NULL) \
	FAULT(PROBLEM_NAME_DUPLICATE, "name-duplicate", "engines use one or the other") \
	FAULT(PROBLEM_TENSOR_MISSING, "tensor-missing", NULL) \
	FAULT(PROBLEM_TENSOR_LACKING, "tensor-missing", \
	     "engines leave it uninitialized and compute garbage") \
	NOTE(PROBLEM_TENSOR_EXTRA, "tensor-missing", "engines may read it") \
	FAULT(PROBLEM_TENSOR_SHAPE, "tensor-shape", "engines refuse it, or load a part") \
	FAULT(PROBLEM_TENSOR_NAME, "tensor-name", "engines load nothing under such names") \
	FAULT(PROBLEM_LAYER_MISSING, "layer-missing", \
	     "engines build the layers that config.json counts") \
	NOTE(PROBLEM_MTP_MISSING, "mtp-missing", "engines cannot speculate with it") \
	FAULT(PROBLEM_TENSOR_CHANGED, "tensor-changed", NULL) \
	FAULT(PROBLEM_TENSOR_NONFINITE, "tensor-value", "the outputs of the model become NaN") \
	FAULT(PROBLEM_TENSOR_ZERO, "tensor-value", \
	     "values are missing, as in a file not written to its end") \
	FAULT(PROBLEM_TENSOR_HUGE, "tensor-value", \
	     "its square is infinite in fp32, and the next norm takes it") \
	FAULT(PROBLEM_UNFINISHED, "unfinished", NULL) \
	FAULT(PROBLEM_NOTHING_QUANTIZED, "nothing-quantized", \
	     "give the output of a quantization, not its source") \
	FAULT(PROBLEM_FILE_STRAY, "file-stray", "some engines load every .safetensors file") \
	FAULT(PROBLEM_FILE_INVALID, "file-invalid", NULL) \
	FAULT(PROBLEM_FILE_CHANGED, "file-changed", NULL) \
	FAULT(PROBLEM_FILE_MISSING, "file-missing", NULL) \
	FAULT(PROBLEM_FILE_UNLISTED, "file-unlisted", NULL) \
	NOTE(PROBLEM_FILE_UNSIGNED, "file-unsigned", "it may be any file") \
	FAULT(PROBLEM_SIGNATURE, "signature", NULL)

enum problem_kind { PROBLEMS(WORDS_ID, WORDS_ID) N_PROBLEM_KINDS };
/* clang-format on */

struct problem {
	enum problem_kind kind;
	char *tensor;  /* NULL: not of one tensor */
	char *file;    /* NULL: not of one file */
	char *message; /* tensor or file, numbers, and the effect in engines; one line */
};

/* Problems in an order that does not depend on the number of threads, and apart from them notes:
 * what may be intended, and does not make the checkpoint wrong.  Of a kind the first DEFECTS_LISTED
 * are listed, then one line that counts the others.  Zeroed: empty lists. */
struct problems {
	size_t n_of[N_PROBLEM_KINDS]; /* all of the kind */
	size_t more[N_PROBLEM_KINDS]; /* where the line is that counts */
	size_t n, n_notes;
	struct problem *list, *notes;
};

/* Returns the word that programs read: "scale-missing". */
const char *problem_kind_name(enum problem_kind kind);

/* Adds a problem, or a note where the row of its kind says so, with copies of tensor and file,
 * which may be NULL.  Appends the effect of its kind in engines to the message. */
void problem_add(struct problems *problems, enum problem_kind kind, const char *tensor,
		 const char *file, const char *format, ...) __attribute__((format(printf, 5, 6)));
void problem_addv(struct problems *problems, enum problem_kind kind, const char *tensor,
		  const char *file, const char *format, va_list args);

/* Adds a defect of the container, as struct defects does; context: the problems. */
void problem_add_defect(void *context, enum defect_kind kind, const char *tensor, const char *file,
			const char *message);

/* Counts the defects that were not added. */
void problems_count_defects(struct problems *problems, const struct defects *defects);

void problems_release(struct problems *problems);

#endif
