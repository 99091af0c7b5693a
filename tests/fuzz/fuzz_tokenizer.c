/* SPDX-License-Identifier: Apache-2.0
 *
 * A tokenizer.json and a text (the input, a NUL byte between them): read and encoded, twice with
 * the same result.
 */
#include <string.h>

#include "tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"

static void encode(const struct tokenizer *tokenizer, const char *text, size_t len)
{
	struct token_ids once = { 0 }, again = { 0 };
	struct err err = { 0 };

	if (tokenizer_encode(tokenizer, &(struct tokenizer_text){ text, len, true, NULL }, &once,
			     &err)) {
		fuzz_check_error(&err);
	} else {
		FUZZ_CHECK(!tokenizer_encode(tokenizer,
					     &(struct tokenizer_text){ text, len, true, NULL },
					     &again, &err));
		FUZZ_CHECK(once.n == again.n &&
			   (!once.n || !memcmp(once.ids, again.ids, once.n * sizeof *once.ids)));
		for (size_t i = 0; i < once.n; i++)
			FUZZ_CHECK(once.ids[i] < tokenizer_vocab_size(tokenizer));
	}
	token_ids_release(&once);
	token_ids_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_text json = fuzz_part(&data, &size);
	struct tokenizer *tokenizer;
	struct buf text = { 0 };
	struct err err = { 0 };

	buf_puts(&text, "");
	buf_add(&text, json.data, json.len);
	if (tokenizer_new(&tokenizer, &text, "tokenizer.json", &err)) {
		fuzz_check_error(&err);
	} else {
		encode(tokenizer, (const char *)data, size);
		tokenizer_free(tokenizer);
	}
	buf_release(&text);
	return 0;
}
