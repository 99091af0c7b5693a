/* SPDX-License-Identifier: Apache-2.0
 *
 * What a calibration leaves behind: for each module the amax of its input x, weight w and output y,
 * for each attention those of q, k and v, pass by pass.  In memory a table of sites; on disk one
 * safetensors file, fp8conv-amax(5). A zeroed table is safe to release.  Nothing here locks: one
 * thread at a time.
 */
#ifndef FP8CONV_AMAX_AMAX_H
#define FP8CONV_AMAX_AMAX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/io.h"
#include "ckpt/outdir.h"
#include "ckpt/safetensors.h"
#include "num/amax_bin.h"

#define AMAX_HISTORY_LEN     1024 /* passes kept, unless another number is asked for */
#define AMAX_HISTORY_LEN_MAX 1048576

enum amax_kind {
	AMAX_GEMM,	/* columns x, w, y */
	AMAX_ATTENTION, /* columns q, k, v, as attention sees them */
};

/* Columns of a module's history (w as the checkpoint holds it, whatever the precision of the pass);
 * of an attention's. */
enum { AMAX_X, AMAX_W, AMAX_Y };
enum { AMAX_Q, AMAX_K, AMAX_V };

/* One module.  n_passes rows are kept, the oldest first. */
struct amax_site {
	char *name; /* its path: "model.layers.0.mlp.down_proj", "model.layers.0.self_attn" */
	enum amax_kind kind;
	uint64_t limit; /* rows kept */
	size_t n_passes;
	/* (n_passes, 3): magnitudes; 0 where nothing came by, infinity possible, never NaN */
	float (*history)[3];
	int64_t *tokens; /* (n_passes): how many reached the module */
	/* (AMAX_BINS, 2): counts of |x| and of |y|, all passes; NULL: not asked for */
	uint64_t (*histogram)[2];
};

struct amax_stats {
	size_t n_sites;
	struct amax_site *
		*sites; /* by name, bytewise; a site stays where it is while the table grows */
	uint64_t history_len; /* rows kept of each */
	char *model;	      /* fingerprint of the checkpoint: source/fingerprint.h */
	char *precision;      /* of the forward pass: "bf16", "f32" */
	char *backend;	      /* what computed it: "cpu"; after a merge of several "cpu+cuda" */
	uint64_t data[2];     /* fingerprint of the data: high, low; see amax_stats_data() */
	uint64_t n_passes;    /* that were run, dropped ones included */
	uint64_t n_tokens;    /* in all of them */
	uint64_t seq_len;     /* tokens of the longest sequence */
};

/* An empty table.  history_len: 1 to AMAX_HISTORY_LEN_MAX. */
void amax_stats_init(struct amax_stats *stats, const char *model, const char *precision,
		     const char *backend, uint64_t history_len);
void amax_stats_release(struct amax_stats *stats);

/* The site of that name, made if need be; NULL: it is of the other kind.  log n to find. */
struct amax_site *amax_stats_site(struct amax_stats *stats, const char *name, enum amax_kind kind);
/* The same, and NULL where there is none of that name and kind. */
struct amax_site *amax_stats_find(const struct amax_stats *stats, const char *name,
				  enum amax_kind kind);

/* Tells the table of one sequence (its token ids as int32, little-endian) of n_tokens tokens that
 * has been, or will be, part of a pass: counts it, and adds its SHA-256 (the first 16 bytes, a
 * big-endian number) to the fingerprint of the data, modulo 2^128: the order of sequences does not
 * count, nor over how many files they were spread. */
void amax_stats_data(struct amax_stats *stats, const void *data, size_t size, uint64_t n_tokens);

/* sum + data, modulo 2^128. */
void amax_data_add(uint64_t sum[2], const uint64_t data[2]);

/* Appends a pass: three magnitudes (none NaN or negative) in the order of the site's columns, and
 * how many tokens reached it.  A module that no token reached in a pass gets its row too (0, w, 0;
 * 0 tokens), so that the rows of all sites are of the same passes.  The oldest row goes where the
 * limit is reached. */
void amax_site_append(struct amax_site *site, const float amax[3], int64_t n_tokens);

/* The site's histogram, all zeros if it had none; counts of x are [bin][0], of y [bin][1]. */
uint64_t (*amax_site_histogram(struct amax_site *site))[2];

/* Whether a safetensors file is one, by its metadata. */
bool amax_is_file(const struct st_file *file);

/* Reads a file into a table that is zeroed or released.  ERR_INPUT, one line naming file and
 * tensor, for what is no safetensors file, other versions, unknown tensors, types and shapes that
 * are not those of fp8conv-amax(5), a history without tokens or the reverse, NaN, negative values,
 * more rows than the metadata allows, missing or bad metadata.  On failure the table is empty. */
int amax_stats_read(struct amax_stats *stats, const struct io *io, const char *path,
		    struct err *err);

/* Where a history goes: its folder, made if need be and held against every other fp8conv while it
 * is open.  Zeroed is safe to close. */
struct amax_place {
	struct outdir dir;
	const char *name; /* in it; the caller's */
};

/* path must outlive it. */
int amax_place_open(struct amax_place *place, const struct io *io, const char *path,
		    struct err *err);
/* Whether the file may be replaced: there is none, or it is an amax file.  ERR_USAGE for another,
 * so that no model, data or dump is lost to a slip of the hand. */
int amax_place_check(const struct amax_place *place, const char *path, struct err *err);
void amax_place_close(struct amax_place *place);

/* Writes the file, whole or not at all, over an old one of that name.  The same table gives the
 * same bytes, in whatever order its sites were made. */
int amax_stats_put(const struct amax_stats *stats, const struct amax_place *place, struct err *err);

/* The same to a path that is held for as long as it takes, and checked as by amax_place_check(). */
int amax_stats_write(const struct amax_stats *stats, const struct io *io, const char *path,
		     struct err *err);

#endif
