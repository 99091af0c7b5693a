/* SPDX-License-Identifier: Apache-2.0
 *
 * card_parse(), evaluation_parse() and all of report/escape.h: the input is a model card, a NUL
 * byte, a result of `eval`.  Text of both is escaped, and a YAML scalar is read again.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "report/card.h"
#include "report/escape.h"
#include "report/evaluation.h"
#include "tests/fuzz/fuzz.h"

/* A scalar that is written means what it was, but for characters that are replaced in a line of
 * plain text as well, none of them ASCII. */
static void check_yaml(const char *text)
{
	struct buf matter = { 0 }, wanted = { 0 };
	struct card card;
	bool ascii = true;

	for (const char *p = text; *p; p++)
		ascii = ascii && (unsigned char)*p < 0x80;
	escape_line(&wanted, text);
	FUZZ_CHECK(!ascii || !strcmp(wanted.data, text));

	buf_puts(&matter, "---\nlicense: ");
	escape_yaml(&matter, text);
	buf_puts(&matter, "\n---\n");
	card_parse(&card, matter.data, matter.len);
	FUZZ_CHECK(card_text(&card, CARD_LICENSE) &&
		   !strcmp(card_text(&card, CARD_LICENSE), wanted.data));
	card_release(&card);
	buf_release(&matter);
	buf_release(&wanted);
}

/* No text can begin or end what is around it. */
static void check_escapes(const char *text)
{
	struct buf out = { 0 };

	escape_markdown(&out, text);
	FUZZ_CHECK(out.data == NULL || !strpbrk(out.data, "<>|`*[]\n"));
	out.len = 0;
	escape_markdown_code(&out, text);
	FUZZ_CHECK(*out.data == '`' ? strcspn(out.data + 1, "`|\n") == out.len - 2
				    : !strpbrk(out.data, "`|*\n"));
	buf_release(&out);
}

static void look_at_card(struct json_text text)
{
	struct card card;

	card_parse(&card, text.data, text.len);
	for (int key = 0; key < N_CARD_KEYS; key++) {
		const struct card_value *value = &card.values[key];

		FUZZ_CHECK(value->n <= CARD_MAX_VALUES);
		for (size_t i = 0; i < value->n; i++) {
			size_t n = strlen(value->texts[i]);

			FUZZ_CHECK(n && n <= CARD_MAX_LENGTH && text_control(value->texts[i]) == n);
			check_yaml(value->texts[i]);
			check_escapes(value->texts[i]);
		}
	}
	card_release(&card);
}

static void look_at_result(struct json_text text)
{
	struct evaluation_file evaluation;
	struct err err = { 0 };

	if (evaluation_parse(&evaluation, text.data, text.len, "result", &err)) {
		fuzz_check_error(&err);
		FUZZ_CHECK(err.kind == ERR_INPUT);
	} else {
		FUZZ_CHECK(isfinite(evaluation.of[QUALITY_PERPLEXITY].value));
		FUZZ_CHECK(strlen(evaluation.data_sha256) == 64);
		FUZZ_CHECK(evaluation.n_data <= EVALUATION_MAX_DATA);
		for (size_t i = 0; i < evaluation.n_data; i++)
			check_escapes(evaluation.data[i]);
		for (size_t i = 0; i < evaluation.n_modules; i++)
			if (evaluation.modules[i].name)
				check_escapes(evaluation.modules[i].name);
	}
	evaluation_release(&evaluation);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_text card = fuzz_part(&data, &size);
	struct json_text result = fuzz_part(&data, &size);

	look_at_card(card);
	look_at_result(result);
	return 0;
}
