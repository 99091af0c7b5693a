/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenize TOKENIZER.json: the ids of the texts on standard input, for test_tokenizer.py.
 *
 * A text is its size (u32), whether special tokens are added (u32), and its bytes; the answer is
 * the number of ids (u32) and the ids (u32), all little-endian.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/io.h"
#include "base/mem.h"
#include "tokenizer/tokenizer.h"

static int answer(const struct tokenizer *tokenizer, struct err *err)
{
	struct token_ids ids = { 0 };
	uint32_t head[2], n;
	char *text;
	int rc;

	while (fread(head, sizeof head, 1, stdin) == 1) {
		text = xmalloc(head[0]);
		if (head[0] && fread(text, head[0], 1, stdin) != 1)
			return err_set(err, ERR_INPUT, "a text ends early");
		ids.n = 0;
		rc = tokenizer_encode(tokenizer,
				      &(struct tokenizer_text){ text, head[0], head[1], NULL },
				      &ids, err);
		free(text);
		if (rc)
			return -1;
		n = (uint32_t)ids.n;
		fwrite(&n, sizeof n, 1, stdout);
		fwrite(ids.ids, sizeof *ids.ids, ids.n, stdout);
	}
	token_ids_release(&ids);
	return fflush(stdout) ? err_errno(err, "cannot write") : 0;
}

int main(int argc, char **argv)
{
	struct tokenizer *tokenizer = NULL;
	struct buf json = { 0 };
	struct err err = { 0 };
	int rc = -1;

	if (argc == 2 && !io_read_file(&io_system, AT_FDCWD, argv[1], 1u << 28, &json, &err) &&
	    !tokenizer_new(&tokenizer, &json, argv[1], &err))
		rc = answer(tokenizer, &err);
	if (rc)
		fprintf(stderr, "tokenize: %s\n", err.message);
	tokenizer_free(tokenizer);
	buf_release(&json);
	return rc ? 1 : 0;
}
