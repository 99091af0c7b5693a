/* SPDX-License-Identifier: Apache-2.0 */
#include "report/place.h"

#include <openssl/sha.h>
#include <string.h>

#include "ckpt/checksum.h"

#define FILE_LIMIT ((size_t)64 << 20) /* bytes; a larger file is not of this program */

static const char mark_begin[] = "<!-- fp8conv report ";
static const char mark_end[] = " -->\n";
#define MARK_LENGTH (sizeof mark_begin - 1 + SHA256_HEX - 1 + sizeof mark_end - 1)

static void hash(const char *text, size_t n, char hex[SHA256_HEX])
{
	unsigned char digest[SHA256_DIGEST_LENGTH];

	SHA256((const unsigned char *)text, n, digest);
	text_hex(hex, digest, sizeof digest);
}

static void add_mark(struct buf *text)
{
	char hex[SHA256_HEX];

	hash(text->data, text->len, hex);
	buf_puts(text, mark_begin);
	buf_puts(text, hex);
	buf_puts(text, mark_end);
}

/* Does a text end in the comment that place_put() adds? */
static bool is_ours(const char *text, size_t n)
{
	struct buf mark = { 0 };
	char hex[SHA256_HEX];
	bool ours;

	if (!text || n < MARK_LENGTH)
		return false;
	hash(text, n - MARK_LENGTH, hex);
	buf_printf(&mark, "%s%s%s", mark_begin, hex, mark_end);
	ours = !memcmp(text + n - MARK_LENGTH, mark.data, MARK_LENGTH);
	buf_release(&mark);
	return ours;
}

int place_open(struct report_place *place, const struct io *io, const char *path, bool restart,
	       struct err *err)
{
	*place = (struct report_place){ .restart = restart };
	return outdir_open(&place->dir, io, path, OUTDIR_LOCK, false, err);
}

int place_check(const struct report_place *place, const char *name, const char *copied,
		struct err *err)
{
	const struct outdir *dir = &place->dir;
	struct buf text = { 0 };
	char hex[SHA256_HEX];
	bool replaceable;

	if (!outdir_has(dir, name))
		return 0;
	if (io_read_file(dir->io, dir->fd, name, FILE_LIMIT, &text, err)) {
		if (err->kind == ERR_SYSTEM)
			return -1;
		*err = (struct err){ 0 };
	}
	hash(text.data ? text.data : "", text.len, hex);
	replaceable =
		place->restart || is_ours(text.data, text.len) || (copied && !strcmp(copied, hex));
	buf_release(&text);
	if (replaceable)
		return 0;
	return err_set(err, ERR_USAGE,
		       "'%s' contains '%s', which is not as fp8conv wrote it: choose another "
		       "output, or --restart to overwrite",
		       dir->path, name);
}

int place_put(const struct report_place *place, const char *name, struct buf *text, struct err *err)
{
	add_mark(text);
	return outdir_put(&place->dir, name, text->data, text->len, err);
}

bool place_is(const struct report_place *place, const char *directory)
{
	struct stat x, y;

	return !fstat(place->dir.fd, &x) && !stat(directory, &y) && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

void place_close(struct report_place *place)
{
	outdir_close(&place->dir);
}
