/* SPDX-License-Identifier: Apache-2.0
 *
 * The results of a calibration, pass by pass: for each module the amax of its input x, weight w and
 * output y, for each attention of q, k and v.  In memory a table of sites; on disk one
 * safetensors file, fp8conv-amax(5).  A zeroed table is safe to release.  Nothing here locks: one
 * thread at a time uses a table.
 *
 * Order, to make a file: amax_stats_init(); amax_stats_data() for each sequence; amax_stats_site()
 * and amax_site_append() for each site and pass; amax_stats_put(); amax_stats_release().  To read
 * one: amax_stats_read(); amax_stats_find(); amax_stats_release().
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
#include "num/dtype.h"

#define AMAX_HISTORY_LEN     1024 /* default of passes kept */
#define AMAX_HISTORY_LEN_MAX 1048576

enum amax_kind {
	AMAX_GEMM,	/* columns x, w, y */
	AMAX_ATTENTION, /* columns q, k, v, as the inputs of attention; or of a latent cache */
};

/* What follows the name of latent attention in that of its cache's site: "A.latent_cache". */
#define AMAX_LATENT_CACHE ".latent_cache"

/* Columns of a module's history (w as in the checkpoint, whatever the precision of the pass), and
 * of an attention's.  Of a latent cache: q is 0, k all cached values, v the latent ones of them. */
enum { AMAX_X, AMAX_W, AMAX_Y };
enum { AMAX_Q, AMAX_K, AMAX_V };

/* One module or attention.  n_passes rows are kept, the oldest first. */
struct amax_site {
	char *name; /* module path: "model.layers.0.mlp.down_proj", "model.layers.0.self_attn" */
	enum amax_kind kind;
	uint64_t limit; /* most rows to keep */
	size_t n_passes;
	/* (n_passes, 3): magnitudes; 0 where a pass had no values, infinity possible, never NaN */
	float (*history)[3];
	int64_t *tokens; /* (n_passes): tokens that reached the module */
	/* (AMAX_BINS, 2): counts of |x| and |y| over all passes; NULL: not requested */
	uint64_t (*histogram)[2];
};

/* The place of a history among the data-parallel ranks of one calibration.  A zeroed
 * struct: the history is whole. */
struct amax_rank {
	uint64_t index, n; /* from 1 to n */
	char job[33];	   /* 32 hexadecimal digits, the same for all ranks of one calibration */
};

#define AMAX_RANKS_MAX 1000000

struct amax_stats {
	size_t n_sites;
	/* by name, bytewise; a site keeps its address while the table grows */
	struct amax_site **sites;
	uint64_t history_len; /* most rows to keep of each site */
	char *model;	      /* fingerprint of the checkpoint: source/fingerprint.h */
	char *precision;      /* of the forward pass: "bf16", "f32" */
	char *backend;	      /* of the passes: "cpu"; after a merge of several "cpu+cuda" */
	uint64_t data[2];     /* fingerprint of the data: high, low; see amax_stats_data() */
	uint64_t n_passes;    /* passes that ran, dropped ones included */
	uint64_t n_planned;   /* passes of the whole calibration; at most n_passes: it ended */
	uint64_t n_tokens;    /* of all passes */
	uint64_t seq_len;     /* tokens of the longest sequence */
	struct amax_rank rank;
};

/* Makes an empty table, with copies of the texts.  history_len: 1 to AMAX_HISTORY_LEN_MAX. */
void amax_stats_init(struct amax_stats *stats, const char *model, const char *precision,
		     const char *backend, uint64_t history_len);
void amax_stats_release(struct amax_stats *stats);

/* Returns the site of that name, made if needed; NULL if it has the other kind.  O(log n). */
struct amax_site *amax_stats_site(struct amax_stats *stats, const char *name, enum amax_kind kind);
/* The same, but returns NULL if there is no site of that name and kind. */
struct amax_site *amax_stats_find(const struct amax_stats *stats, const char *name,
				  enum amax_kind kind);

/* Adds one sequence of n_tokens tokens (its ids as int32, little-endian, in size bytes) that is or
 * will be part of a pass: counts it, and adds its SHA-256 (the first 16 bytes, a big-endian number)
 * to the fingerprint of the data, modulo 2^128.  So neither the order of sequences nor their
 * distribution over files matters. */
void amax_stats_data(struct amax_stats *stats, const void *data, size_t size, uint64_t n_tokens);

/* sum += data, modulo 2^128. */
void amax_data_add(uint64_t sum[2], const uint64_t data[2]);

/* Appends a pass: three magnitudes (none NaN or negative) in the order of the site's columns, and
 * the number of tokens that reached it.  A module without tokens in a pass gets a row too (0, w, 0;
 * 0 tokens), so that the rows of all sites are of the same passes.  At the limit the oldest row is
 * dropped. */
void amax_site_append(struct amax_site *site, const float amax[3], int64_t n_tokens);

/* Returns the site's histogram, zeroed if it is new; counts of x are [bin][0], of y [bin][1]. */
uint64_t (*amax_site_histogram(struct amax_site *site))[2];

/* ERR_INPUT, naming the file, for the history of one rank among several. */
int amax_stats_check_whole(const struct amax_stats *stats, const char *path, struct err *err);

/* Is a safetensors file an amax file, by its metadata? */
bool amax_is_file(const struct st_file *file);

/* Reads a file into a table that is zeroed or released.  ERR_INPUT, naming file and tensor, for
 * other files, other versions, unknown tensors, types and shapes that differ from fp8conv-amax(5),
 * a history without tokens or the reverse, NaN, negative values, more rows than the metadata
 * allows, missing or invalid metadata.  On failure the table is empty. */
int amax_stats_read(struct amax_stats *stats, const struct io *io, const char *path,
		    struct err *err);

/* Returns 0 if the file may be replaced: it does not exist, or is an amax file.  ERR_USAGE for any
 * other file, so that a typing error destroys no model, data or dump. */
int amax_outfile_check(const struct outfile *place, const char *path, struct err *err);

/* Writes the file, whole or not at all, and replaces an old one of that name.  The same table gives
 * the same bytes, whatever the order in which its sites were made. */
int amax_stats_put(const struct amax_stats *stats, const struct outfile *place, struct err *err);

/* The same for a path that is locked only for the call, and checked by amax_outfile_check(). */
int amax_stats_write(const struct amax_stats *stats, const struct io *io, const char *path,
		     struct err *err);

#define AMAX_VERSION	 "1"
#define AMAX_VERSION_KEY "fp8conv_amax"
/* of one rank among several: "I/N", and the fingerprint of their common calibration */
#define AMAX_RANK_KEY "rank"
#define AMAX_JOB_KEY  "ranks"

/* The parts of a site, one tensor each. */
enum amax_part {
	AMAX_PART_HISTORY,
	AMAX_PART_QKV,
	AMAX_PART_TOKENS,
	AMAX_PART_HISTOGRAM,
	N_AMAX_PARTS
};

struct amax_tensor {
	const char *suffix; /* appended to the site's name */
	enum dtype dtype;
	int n_dims;
	uint64_t shape[2]; /* the first is 0 where it is the number of passes */
	const char *text;  /* for messages */
};

extern const struct amax_tensor amax_tensors[N_AMAX_PARTS];

/* Returns the site's data of a part; NULL if it has no such tensor, or no memory for it yet. */
void *amax_site_part(const struct amax_site *site, enum amax_part part);

/* A number of the metadata. */
struct amax_count {
	const char *key;
	size_t offset; /* of a uint64_t in struct amax_stats */
	uint64_t min, max;
};

/* A text of the metadata. */
struct amax_text {
	const char *key;
	size_t offset; /* of a char * in struct amax_stats */
};

/* n_planned, which only the history of an interrupted calibration has. */
extern const struct amax_count amax_planned;

extern const struct amax_count amax_counts[]; /* key NULL at the end */
extern const struct amax_text amax_texts[];

#endif
