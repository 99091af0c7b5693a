/* SPDX-License-Identifier: Apache-2.0
 *
 * card_parse(), evaluation_parse(), benchmarks_read() and all of report/escape.h: the input is a
 * model card, a result of `eval`, results of lm_eval for the checkpoint and for its source, with
 * NUL bytes between.  Text of all is escaped, and a YAML scalar is read again.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
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

/* Returns a file of the text, and its path. */
static int file_of(struct json_text text, char path[32])
{
	int fd = memfd_create("results", MFD_CLOEXEC);

	FUZZ_CHECK(fd >= 0 && write(fd, text.data, text.len) == (ssize_t)text.len);
	snprintf(path, 32, "/proc/self/fd/%d", fd);
	return fd;
}

static void look_at_benchmarks(struct json_text own, struct json_text source)
{
	char paths[2][32];
	const char *const own_path = paths[0], *const source_path = paths[1];
	int fds[2] = { file_of(own, paths[0]), file_of(source, paths[1]) };
	struct benchmark_paths both = { &own_path, &source_path, 1, source.len != 0 };
	struct benchmarks benchmarks;
	struct err err = { 0 };

	if (benchmarks_read(&benchmarks, &io_system, &both, &err)) {
		fuzz_check_error(&err);
		FUZZ_CHECK(err.kind == ERR_INPUT);
	}
	FUZZ_CHECK(benchmarks.n <= BENCHMARKS_MAX);
	for (size_t i = 0; i < benchmarks.n; i++) {
		check_escapes(benchmarks.list[i].task);
		check_escapes(benchmarks.list[i].metric);
		FUZZ_CHECK(!isinf(benchmarks.list[i].recovery));
	}
	if (benchmarks.model)
		check_escapes(benchmarks.model);
	benchmarks_release(&benchmarks);
	close(fds[0]);
	close(fds[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_text card = fuzz_part(&data, &size);
	struct json_text result = fuzz_part(&data, &size);
	struct json_text own = fuzz_part(&data, &size), source = fuzz_part(&data, &size);

	look_at_card(card);
	look_at_result(result);
	if (own.len)
		look_at_benchmarks(own, source);
	return 0;
}
