/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/json.h"

#include <inttypes.h>
#include <math.h>
#include <unistr.h>

/* Bytes that are not UTF-8 become U+FFFD: a path on the command line may have any. */
static void put_string(FILE *stream, const char *text)
{
	const unsigned char *p = (const unsigned char *)text;

	fputc('"', stream);
	while (*p) {
		ucs4_t c;
		int n = u8_strmbtouc(&c, p);

		if (n < 1)
			c = 0xfffd;
		if (c == '"' || c == '\\')
			fprintf(stream, "\\%c", (int)c);
		else if (c >= 0x20 && c < 0x7f && c != '<')
			fputc((int)c, stream);
		else if (c < 0x10000)
			fprintf(stream, "\\u%04" PRIx32, c);
		else
			fprintf(stream, "\\u%04" PRIx32 "\\u%04" PRIx32,
				0xd800 + ((c - 0x10000) >> 10), 0xdc00 + (c & 0x3ff));
		p += n < 1 ? 1 : n;
	}
	fputc('"', stream);
}

static void begin(struct json_out *out, const char *key)
{
	if (out->comma)
		fputs(", ", out->stream);
	out->comma = true;
	if (key) {
		put_string(out->stream, key);
		fputs(": ", out->stream);
	}
}

void json_out_open(struct json_out *out, const char *key, char bracket)
{
	begin(out, key);
	fputc(bracket, out->stream);
	out->comma = false;
}

void json_out_close(struct json_out *out, char bracket)
{
	fputc(bracket, out->stream);
	out->comma = true;
}

struct json_out json_out_begin(FILE *stream)
{
	struct json_out out = { .stream = stream };

	json_out_open(&out, NULL, '{');
	json_out_count(&out, "schema", JSON_SCHEMA);
	return out;
}

void json_out_text(struct json_out *out, const char *key, const char *text)
{
	begin(out, key);
	if (text)
		put_string(out->stream, text);
	else
		fputs("null", out->stream);
}

void json_out_count(struct json_out *out, const char *key, uint64_t n)
{
	begin(out, key);
	fprintf(out->stream, "%" PRIu64, n);
}

void json_out_real(struct json_out *out, const char *key, double value)
{
	begin(out, key);
	if (isfinite(value))
		fprintf(out->stream, "%.6f", value);
	else
		fputs("null", out->stream);
}

void json_out_float(struct json_out *out, const char *key, float value)
{
	begin(out, key);
	if (isfinite(value))
		fprintf(out->stream, "%.9g", (double)value);
	else
		fputs("null", out->stream);
}

void json_out_bool(struct json_out *out, const char *key, bool value)
{
	begin(out, key);
	fputs(value ? "true" : "false", out->stream);
}

void json_out_null(struct json_out *out, const char *key)
{
	json_out_text(out, key, NULL);
}

void json_out_counts(struct json_out *out, const char *key, const uint64_t *n, size_t n_n)
{
	json_out_open(out, key, '[');
	for (size_t i = 0; i < n_n; i++)
		json_out_count(out, NULL, n[i]);
	json_out_close(out, ']');
}

void json_out_end(struct json_out *out)
{
	json_out_close(out, '}');
	fputc('\n', out->stream);
}
