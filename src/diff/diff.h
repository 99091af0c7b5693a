/* SPDX-License-Identifier: Apache-2.0
 *
 * The job `diff`: what differs between checkpoint A, the reference, and checkpoint B, whatever the
 * two are: names, types, shapes, codes, scales and values of tensors, config.json, other files.
 *
 * Tensors are compared as a model has them: codes with their scale are one tensor, in high
 * precision under the same name, and so are low-bit weights; an expert's matrix in a fused tensor
 * is the one that the other side has by itself.
 *
 * Order: diff_run(); diff_release(), also after a failure.
 */
#ifndef FP8CONV_DIFF_DIFF_H
#define FP8CONV_DIFF_DIFF_H

#include "base/progress.h"
#include "base/words.h"
#include "select/select.h"
#include "source/source.h"

struct diff_params {
	const struct io *io;
	const char *paths[2];	    /* A and B, as of checkpoint_open() */
	struct texts renames;	    /* of A's tensors */
	const char *const *include; /* patterns; if there are any, only matching tensors count */
	size_t n_include;
	const char *const *exclude; /* patterns; matching tensors do not count */
	size_t n_exclude;
	const struct backend *backend; /* decodes */
	int n_threads;		       /* >= 1 */
	uint64_t max_memory;	       /* bytes of buffers, for which fewer threads work; 0: any */
};

/* What differs most in a tensor.  What matters most comes first. */
#define DIFF_KINDS(KIND)                                                      \
	KIND(DIFF_ONLY_A, "only-a")                                           \
	KIND(DIFF_ONLY_B, "only-b")                                           \
	KIND(DIFF_SHAPE, "shape")                                             \
	KIND(DIFF_TYPE, "type") /* one of them is packed by another tool */   \
	KIND(DIFF_VALUES, "values")                                           \
	KIND(DIFF_STORED, "stored") /* type, codes or scales, but no value */ \
	KIND(DIFF_NONE, "equal")
enum diff_kind { DIFF_KINDS(WORDS_ID) N_DIFF_KINDS };

/* What comparing elements finds.  Signal and noise are of the elements that are finite on both
 * sides. */
struct diff_counts {
	uint64_t n_codes;  /* elements of one type that differ in a bit */
	uint64_t max_ulp;  /* the most steps of that type between two; NaN is in no step */
	uint64_t n_values; /* elements whose values as fp32 differ in a bit; NaN is NaN */
	double signal, noise, max_error; /* sums of a^2 and (a - b)^2; the largest |a - b| */
	uint64_t n_nan[2], n_inf[2];
};

struct diff_tensor {
	const char *name; /* as the model has it */
	enum diff_kind kind;
	struct unit *units[2]; /* NULL: the side has none */
	bool has_values;       /* both are decoded; else elements are compared as they are */
	bool has_codes;	       /* both have the same type, so that elements can be compared */
	uint64_t n_scales;     /* of each side, if both have scales for the same tiles; else 0 */
	uint64_t scales_off;   /* those that differ */
	uint64_t n_elements;
	struct diff_counts found;
};

/* A member of config.json, or another file. */
struct diff_entry {
	char *name;	 /* "text_config.dtype"; a path below the directory */
	char *values[2]; /* JSON; "1234 bytes"; NULL: the side has none */
};

/* Returns the type of the elements. */
static inline enum dtype diff_type(const struct unit *unit)
{
	return unit->source->tensor->dtype;
}

/* Returns the bytes of an element; types of less than a byte are compared byte by byte. */
static inline size_t diff_element_size(enum dtype dtype)
{
	return dtype_bits(dtype) < 8 ? 1 : dtype_bits(dtype) / 8;
}

struct diff_side {
	struct checkpoint checkpoint;
	struct detection detection;
	struct low_bit low_bit;
	struct source files;
	struct unit *units; /* by name */
	size_t n_units;
	struct selection cut; /* the matrices of fused experts, where they are needed */
};

struct difference {
	struct diff_side sides[2];
	struct diff_tensor *tensors; /* what differs first; the worst first */
	size_t n_tensors;
	size_t n_of[N_DIFF_KINDS];
	struct diff_entry *keys, *files;
	size_t n_keys, n_files;
	bool has_files; /* both sides are directories, so that keys and files were compared */
};

/* Compares.  ERR_INPUT where a side is not a valid checkpoint, truncated or changed meanwhile;
 * ERR_USAGE for patterns; ERR_INTERRUPTED after a signal. */
int diff_run(struct difference *difference, const struct diff_params *params,
	     struct progress *progress, struct err *err);

/* Returns the SQNR of B in dB, with A as the signal: INFINITY without noise, NAN without values. */
double diff_sqnr(const struct diff_counts *counts);

/* Returns whether nothing differs. */
bool diff_is_none(const struct difference *difference);

/* Returns "values" and the like. */
const char *diff_kind_name(enum diff_kind kind);

void diff_release(struct difference *difference);

#endif
