/* SPDX-License-Identifier: Apache-2.0
 *
 * Low-bit weights of the source as fp32.  A value is its code times the scale of its group, one
 * product in fp32.  That is exact for MXFP4 and INT4, whose codes and scales have few bits; a
 * product beyond fp32 is inf.  The scale of NVFP4 is first the group's E4M3 number times (or over)
 * the number of the tensor, rounded once, as compressed-tensors and ModelOpt compute it.
 */
#ifndef FP8CONV_SOURCE_UNPACK_H
#define FP8CONV_SOURCE_UNPACK_H

#include "source/source.h"

/* Read the tensors that repeat the shape of a weight, or of all.  ERR_INPUT where one says another
 * shape. */
int unpack_check_shape(struct source *source, const struct low_bit_weight *weight, struct err *err);
int unpack_check_shapes(struct source *source, const struct low_bit *low_bit, struct err *err);

/* Reads a rect of a unit with low_bit as source_decode() does. */
int unpack_decode(struct source *source, const struct source_request *request, enum dtype dtype,
		  void *values, struct err *err);

/* Is the rect MXFP4 whose rows are whole groups that lie close enough in the file to be read at
 * once? */
bool unpack_has_fp4(const struct source_request *request);

/* Reads such a rect without decoding it.  *x points into buffers.raw. */
int unpack_read_fp4(struct source *source, const struct source_request *request,
		    struct fp4_matrix *x, struct err *err);

/* Decodes rows [row, row + n) of it. */
void unpack_fp4_rows(const struct unit *unit, const struct fp4_matrix *x, size_t row, size_t n,
		     float *values);

#endif
