/* SPDX-License-Identifier: Apache-2.0 */
#include "torch/zip.h"

#include <inttypes.h>
#include <isa-l/crc.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/sort.h"

#define END_SIZE     22 /* bytes, without the comment */
#define COMMENT_MAX  65535
#define LOCATOR_SIZE 20
#define END64_SIZE   56
#define ENTRY_SIZE   46
#define LOCAL_SIZE   30
#define CHUNK	     (1 << 20) /* bytes that are read at once */
#define ENCRYPTED    1	       /* bits of flags */
#define SIZES_FOLLOW 8	       /* the local header may have zeros as sizes */
#define ZIP64	     0x1       /* an extra field */
#define IN_ZIP64(x)  ((x) == UINT32_MAX)

static uint64_t little(const unsigned char *bytes, int n)
{
	uint64_t value = 0;

	while (n-- > 0)
		value = value << 8 | bytes[n];
	return value;
}

/* Where the central directory is. */
struct zip_end {
	uint64_t n, size, offset;
};

static int bad(const struct zip *zip, const char *what, struct err *err)
{
	return err_set(err, ERR_INPUT, "archive at byte %" PRIu64 " of '%s' %s", zip->begin,
		       zip->file->name, what);
}

static int read_at(const struct zip *zip, uint64_t offset, size_t n, void *data, struct err *err)
{
	return io_pread_full(zip->file, data, n, zip->begin + offset, err);
}

/* Reads the end record of large archives, to which the locator before the end record points. */
static int read_end64(const struct zip *zip, uint64_t locator, struct zip_end *end, struct err *err)
{
	unsigned char bytes[END64_SIZE];
	uint64_t offset;

	if (read_at(zip, locator, LOCATOR_SIZE, bytes, err))
		return -1;
	offset = little(bytes + 8, 8);
	if (memcmp(bytes, "PK\6\7", 4) != 0)
		return bad(zip, "has no zip64 locator, but numbers that need one", err);
	if (offset > locator || locator - offset < END64_SIZE)
		return bad(zip, "has its zip64 end record beyond its end", err);
	if (read_at(zip, offset, sizeof bytes, bytes, err))
		return -1;
	if (memcmp(bytes, "PK\6\6", 4) != 0)
		return bad(zip, "has no zip64 end record where the locator says", err);
	*end = (struct zip_end){ little(bytes + 32, 8), little(bytes + 40, 8),
				 little(bytes + 48, 8) };
	if (end->offset > offset || end->size > offset - end->offset)
		return bad(zip, "has a central directory beyond its end", err);
	return 0;
}

/* Reads the end record at an offset; tail: its bytes. */
static int read_end(const struct zip *zip, uint64_t offset, const unsigned char *tail,
		    struct zip_end *end, struct err *err)
{
	*end = (struct zip_end){ little(tail + 10, 2), little(tail + 12, 4), little(tail + 16, 4) };
	if (little(tail + 4, 2) || little(tail + 6, 2) || little(tail + 8, 2) != end->n)
		return bad(zip, "is one of several disks", err);
	if (end->n == UINT16_MAX || IN_ZIP64(end->size) || IN_ZIP64(end->offset)) {
		if (offset < LOCATOR_SIZE)
			return bad(zip, "has no zip64 locator, but numbers that need one", err);
		return read_end64(zip, offset - LOCATOR_SIZE, end, err);
	}
	if (end->offset > offset || end->size > offset - end->offset)
		return bad(zip, "has a central directory beyond its end", err);
	return 0;
}

/* Is the end record at `at` of the last n bytes, with a comment up to their end? */
static bool is_end(const unsigned char *tail, size_t n, size_t at)
{
	return !memcmp(tail + at, "PK\5\6", 4) && little(tail + at + 20, 2) == n - at - END_SIZE;
}

/* Finds the end record behind which there is a comment. */
static int search_end(const struct zip *zip, struct zip_end *end, struct err *err)
{
	size_t n = zip->size < END_SIZE + COMMENT_MAX ? (size_t)zip->size : END_SIZE + COMMENT_MAX;
	unsigned char *tail = xmalloc(n + 1);
	int rc = -1;

	if (read_at(zip, zip->size - n, n, tail, err))
		goto out;
	for (size_t at = n < END_SIZE ? 0 : n - END_SIZE + 1; at-- > 0;) {
		if (!is_end(tail, n, at))
			continue;
		rc = read_end(zip, zip->size - n + at, tail + at, end, err);
		goto out;
	}
	bad(zip,
	    "has no end record, so it is truncated or no zip archive: copy or download it again",
	    err);
out:
	free(tail);
	return rc;
}

/* torch writes no comment: its end records are the last bytes. */
static int find_end(const struct zip *zip, struct zip_end *end, struct err *err)
{
	unsigned char last[END_SIZE];

	if (zip->size < END_SIZE)
		return search_end(zip, end, err);
	if (read_at(zip, zip->size - END_SIZE, END_SIZE, last, err))
		return -1;
	return is_end(last, END_SIZE, 0) ? read_end(zip, zip->size - END_SIZE, last, end, err)
					 : search_end(zip, end, err);
}

/* Takes the numbers that are too large for their fields from the extra field. */
static int read_extra(const struct zip *zip, const unsigned char *extra, size_t n,
		      uint64_t *numbers[3], struct err *err)
{
	for (size_t at = 0; n - at >= 4;) {
		size_t id = little(extra + at, 2), size = little(extra + at + 2, 2);

		if (size > n - at - 4)
			break;
		for (size_t i = 0, from = at + 4; id == ZIP64 && i < 3; i++) {
			if (!numbers[i])
				continue;
			if (from + 8 > at + 4 + size)
				return bad(zip, "has a zip64 field that is too short", err);
			*numbers[i] = little(extra + from, 8);
			numbers[i] = NULL;
			from += 8;
		}
		at += 4 + size;
	}
	if (numbers[0] || numbers[1] || numbers[2])
		return bad(zip, "has no zip64 field, but numbers that need one", err);
	return 0;
}

/* Adds the entry at *at of the central directory, and steps over it. */
static int add_entry(struct zip *zip, const struct buf *directory, size_t *at, struct err *err)
{
	const unsigned char *entry = (const unsigned char *)directory->data + *at;
	size_t left = directory->len - *at, n_name, n_extra, n_all;
	uint64_t stored, size, header, *large[3];
	struct zip_member *member;

	if (left < ENTRY_SIZE || memcmp(entry, "PK\1\2", 4) != 0)
		return bad(zip, "has a central directory that is damaged", err);
	n_name = little(entry + 28, 2);
	n_extra = little(entry + 30, 2);
	n_all = ENTRY_SIZE + n_name + n_extra + little(entry + 32, 2);
	if (n_all > left || memchr(entry + ENTRY_SIZE, 0, n_name))
		return bad(zip, "has a central directory that is damaged", err);
	stored = little(entry + 20, 4);
	size = little(entry + 24, 4);
	header = little(entry + 42, 4);
	large[0] = IN_ZIP64(size) ? &size : NULL;
	large[1] = IN_ZIP64(stored) ? &stored : NULL;
	large[2] = IN_ZIP64(header) ? &header : NULL;
	if (read_extra(zip, entry + ENTRY_SIZE + n_name, n_extra, large, err))
		return -1;
	ARRAY_GROW(zip->members, zip->n);
	member = &zip->members[zip->n++];
	*member = (struct zip_member){
		.name = arena_text(&zip->texts, (const char *)entry + ENTRY_SIZE, n_name),
		.header = header,
		.size = size,
		.crc = (uint32_t)little(entry + 16, 4),
		.flags = (uint16_t)little(entry + 8, 2),
		.method = (uint16_t)little(entry + 10, 2),
	};
	if (member->flags & ENCRYPTED)
		return bad(zip, "is encrypted", err);
	if (!member->method && stored != size)
		return err_set(err, ERR_INPUT,
			       "member '%s' of '%s' is stored with %" PRIu64 " bytes, but has "
			       "%" PRIu64,
			       member->name, zip->file->name, stored, size);
	if (header > zip->data_end || stored > zip->data_end - header)
		return err_set(err, ERR_INPUT,
			       "member '%s' of '%s' begins at byte %" PRIu64 " with %" PRIu64
			       " bytes, past the end of the members (%" PRIu64 ")",
			       member->name, zip->file->name, header, stored, zip->data_end);
	*at += n_all;
	return 0;
}

COMPARISON(compare_members, struct zip_member, strcmp(x->name, y->name))

static int read_directory(struct zip *zip, const struct zip_end *end, struct err *err)
{
	struct buf directory = { 0 };
	size_t at = 0;
	int rc = -1;

	if (end->size > ZIP_LIMIT) {
		bad(zip, "has a central directory of more than 256 MiB", err);
		goto out;
	}
	directory.data = xmalloc((size_t)end->size + 1);
	directory.len = (size_t)end->size;
	if (read_at(zip, end->offset, directory.len, directory.data, err))
		goto out;
	zip->data_end = end->offset;
	while (at < directory.len)
		if (add_entry(zip, &directory, &at, err))
			goto out;
	if (zip->n != end->n) {
		err_set(err, ERR_INPUT, "archive in '%s' has %zu members, but states %" PRIu64,
			zip->file->name, zip->n, end->n);
		goto out;
	}
	rc = 0;
out:
	free(directory.data);
	return rc;
}

int zip_open(struct zip *zip, const struct file *file, uint64_t begin, uint64_t size,
	     struct err *err)
{
	struct zip_end end;

	*zip = (struct zip){ .file = file, .begin = begin, .size = size };
	if (find_end(zip, &end, err) || read_directory(zip, &end, err))
		return -1;
	sort(zip->members, zip->n, sizeof *zip->members, compare_members);
	for (size_t i = 1; i < zip->n; i++)
		if (!compare_members(&zip->members[i - 1], &zip->members[i]))
			return err_set(err, ERR_INPUT, "duplicate member '%s' in '%s'",
				       zip->members[i].name, file->name);
	return 0;
}

void zip_release(struct zip *zip)
{
	free(zip->members);
	arena_release(&zip->texts);
	*zip = (struct zip){ 0 };
}

const struct zip_member *zip_find(const struct zip *zip, const char *name)
{
	const struct zip_member key = { .name = name };

	if (!zip->n)
		return NULL;
	return bsearch(&key, zip->members, zip->n, sizeof key, compare_members);
}

static int contradicts(const struct zip *zip, const struct zip_member *member, struct err *err)
{
	return err_set(err, ERR_INPUT,
		       "member '%s' of '%s' has a header at byte %" PRIu64
		       " that contradicts the central directory",
		       member->name, zip->file->name, zip->begin + member->header);
}

int zip_locate(const struct zip *zip, const struct zip_member *member, uint64_t *offset,
	       struct err *err)
{
	size_t n_name = strlen(member->name);
	unsigned char *header;
	uint64_t begin;
	int rc = -1;

	if (member->method)
		return err_set(err, ERR_INPUT,
			       "member '%s' of '%s' is compressed (method %d), but torch.save() "
			       "stores: load the file with torch and save it again",
			       member->name, zip->file->name, member->method);
	if (zip->data_end - member->header < LOCAL_SIZE + n_name)
		return contradicts(zip, member, err);
	header = xmalloc(LOCAL_SIZE + n_name);
	if (read_at(zip, member->header, LOCAL_SIZE + n_name, header, err))
		goto out;
	begin = member->header + LOCAL_SIZE + n_name + little(header + 28, 2);
	if (memcmp(header, "PK\3\4", 4) != 0 || little(header + 8, 2) ||
	    little(header + 26, 2) != n_name ||
	    memcmp(header + LOCAL_SIZE, member->name, n_name) != 0 ||
	    (!(little(header + 6, 2) & SIZES_FOLLOW) && !IN_ZIP64(little(header + 22, 4)) &&
	     little(header + 22, 4) != member->size)) {
		contradicts(zip, member, err);
	} else if (begin > zip->data_end || member->size > zip->data_end - begin) {
		err_set(err, ERR_INPUT,
			"member '%s' of '%s' ends at byte %" PRIu64
			", past the end of the members (%" PRIu64 ")",
			member->name, zip->file->name, begin + member->size, zip->data_end);
	} else {
		*offset = zip->begin + begin;
		rc = 0;
	}
out:
	free(header);
	return rc;
}

int zip_check(const struct zip *zip, const struct zip_member *member, uint32_t crc, struct err *err)
{
	if (!member->crc || member->crc == crc)
		return 0;
	return err_set(err, ERR_INPUT,
		       "member '%s' of '%s' has the CRC-32 %08" PRIx32 ", but states %08" PRIx32
		       ": copy or download it again",
		       member->name, zip->file->name, crc, member->crc);
}

static int check_member(const struct zip *zip, const struct zip_member *member, void *chunk,
			const atomic_int *stop, struct err *err)
{
	uint64_t offset = 0;
	uint32_t crc = 0;

	if (zip_locate(zip, member, &offset, err))
		return -1;
	for (uint64_t at = 0; at < member->size; at += CHUNK) {
		size_t n = member->size - at < CHUNK ? (size_t)(member->size - at) : CHUNK;

		if (progress_stopped(stop, err) ||
		    io_pread_full(zip->file, chunk, n, offset + at, err))
			return -1;
		crc = crc32_gzip_refl(crc, chunk, n);
	}
	return zip_check(zip, member, crc, err);
}

int zip_check_all(const struct zip *zip, const atomic_int *stop, struct err *err)
{
	void *chunk = xmalloc(CHUNK);
	int rc = 0;

	for (size_t i = 0; i < zip->n && !rc; i++)
		if (zip->members[i].crc && !zip->members[i].method)
			rc = check_member(zip, &zip->members[i], chunk, stop, err);
	free(chunk);
	return rc;
}
