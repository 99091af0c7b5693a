/* SPDX-License-Identifier: Apache-2.0
 *
 * The members of a zip archive as torch.save() writes it: stored, not compressed, so that they are
 * read in place.  The archive is a stretch of a file.
 *
 * Source: APPNOTE.TXT 6.3.10 (PKWARE); torch's writer is miniz.
 */
#ifndef FP8CONV_TORCH_ZIP_H
#define FP8CONV_TORCH_ZIP_H

#include <stdint.h>

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/progress.h"

#define ZIP_LIMIT (256u << 20) /* bytes of the central directory */

struct zip_member {
	const char *name;
	uint64_t header; /* of its local header, from the start of the archive */
	uint64_t size;	 /* bytes */
	uint32_t crc;	 /* CRC-32 of them; 0: torch was told to compute none */
	uint16_t flags;
	uint16_t method;
};

struct zip {
	const struct file *file;
	uint64_t begin, size; /* of the archive in the file */
	uint64_t data_end;    /* from the start of the archive: no member goes further */
	size_t n;
	struct zip_member *members; /* by name, bytewise */
	struct arena texts;
};

/* Reads the central directory of the archive at [begin, begin + size) of a file, which must
 * outlive zip.  ERR_INPUT for what is no archive, spans disks, is encrypted, has two members of one
 * name, or members beyond its end.  The caller calls zip_release(), also on failure. */
int zip_open(struct zip *zip, const struct file *file, uint64_t begin, uint64_t size,
	     struct err *err);
void zip_release(struct zip *zip);

/* Returns the member of that name, or NULL. */
const struct zip_member *zip_find(const struct zip *zip, const char *name);

/* Finds the place of a member's bytes in the file.  ERR_INPUT for a compressed member, and where
 * its own header contradicts the central directory. */
int zip_locate(const struct zip *zip, const struct zip_member *member, uint64_t *offset,
	       struct err *err);

/* Compares the CRC-32 that a member states with that of its bytes, all of which the caller has.
 * ERR_INPUT with both. */
int zip_check(const struct zip *zip, const struct zip_member *member, uint32_t crc,
	      struct err *err);

/* Reads all stored members, and compares their CRC-32.  ERR_INTERRUPTED after a signal in stop. */
int zip_check_all(const struct zip *zip, const atomic_int *stop, struct err *err);

#endif
