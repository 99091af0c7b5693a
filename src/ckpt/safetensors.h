/* SPDX-License-Identifier: Apache-2.0
 *
 * One safetensors file: 8 bytes of header size, a JSON header, tensor data.  Reading trusts
 * nothing: see the rules at st_open().  Writing is a layout, computed before the first byte
 * (st_layout()): the header and every offset that the reference serializer would give the same
 * tensors.
 *
 * Source: safetensors crate 24b0b28 (tensor.rs).
 */
#ifndef FP8CONV_CKPT_SAFETENSORS_H
#define FP8CONV_CKPT_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "num/dtype.h"

#define ST_MAX_HEADER 100000000 /* bytes */
#define ST_MAX_DIMS   64

struct st_tensor {
	char *name;
	enum dtype dtype;
	int n_dims;
	uint64_t *shape;
	uint64_t begin; /* bytes, from the start of the data */
	uint64_t end;
};

struct st_metadata {
	char *key;
	char *value;
};

struct st_file {
	char *path; /* for opening and for messages */
	struct file_identity identity;
	uint64_t data_start; /* file offset of the first tensor byte */
	uint32_t header_crc; /* CRC-32 of the header's text */
	size_t n_tensors;
	struct st_tensor *tensors;	  /* by begin, then end, then the order in the header */
	const struct st_tensor **by_name; /* the same, in the order of their names, bytewise */
	size_t n_metadata;
	struct st_metadata *metadata; /* in the order of the file */
	struct arena texts;	      /* names and shapes, keys and values of the metadata */
};

/* Reads and checks the header of the file at path, and closes the file.  ERR_INPUT with file,
 * tensor, byte offset and both numbers for everything that the reference rejects, and for duplicate
 * or empty names, NUL or control characters in names, tensors in array form, more than ST_MAX_DIMS
 * dimensions, duplicate metadata keys, NUL in metadata and unknown fields of more than 1 MiB.
 * Costs n log n in tensors.  On failure file is empty again. */
int st_open(struct st_file *file, const struct io *io, const char *path, struct err *err);
/* The same for an open file (a spooled stream); path is for messages. */
int st_open_fd(struct st_file *file, const struct io *io, int fd, const char *path,
	       struct err *err);
void st_release(struct st_file *file);

/* Reads and checks the n bytes of header text that follow the 8 bytes of its size, for a file of
 * file_size bytes.  file is zeroed, or has only a path.  For streams and the fuzzer.  The caller
 * calls st_release(), also on failure. */
int st_parse_header(struct st_file *file, const char *header, size_t n, uint64_t file_size,
		    struct err *err);

/* Does a name contain a control character (C0, DEL, or U+0080 to U+009F)? */
bool st_has_control(const char *name);

bool st_same_shape(const struct st_tensor *a, const struct st_tensor *b);
uint64_t st_tensor_size(const struct st_tensor *tensor);   /* bytes */
uint64_t st_n_elements(const uint64_t *shape, int n_dims); /* of a checked shape */
/* Copies a shape into an arena. */
uint64_t *st_shape_copy(struct arena *arena, const uint64_t *shape, int n_dims);
/* Appends a shape as "[1536, 576]" to buf. */
void st_shape_format(struct buf *buf, const uint64_t *shape, int n_dims);

/* The same as a value: st_shape(tensor).text lives until the end of the expression. */
struct st_shape_text {
	char text[ST_MAX_DIMS * sizeof "18446744073709551615, "];
};
struct st_shape_text st_shape(const struct st_tensor *tensor);

/* Returns the value of a key of the metadata, or NULL. */
const char *st_metadata_find(const struct st_file *file, const char *key);

/* Computes the layout of a file to write.  Fills in tensors[i].begin and end; the array keeps its
 * order.  The file has *header_size + *data_size bytes.  metadata is written with sorted keys
 * ({"format":"pt"} is the caller's choice); with none there is no __metadata__.  The caller checks
 * *header_size against ST_MAX_HEADER, above which no reader accepts a file. */
void st_layout(struct st_tensor *tensors, size_t n, const struct st_metadata *metadata,
	       size_t n_metadata, uint64_t *header_size, uint64_t *data_size);

/* Writes the header of tensors that st_layout() has laid out, with the same metadata, to an empty
 * buf: the size, the JSON and the padding, *header_size bytes. */
void st_header(const struct st_tensor *tensors, size_t n, const struct st_metadata *metadata,
	       size_t n_metadata, struct buf *header);

#endif
