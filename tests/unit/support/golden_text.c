/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/golden_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/sha.h>

#include "num/scale.h"

void text_open(struct text *t, const char *name)
{
	*t = (struct text){ .name = name, .file = fopen(name, "r") };
	if (!t->file)
		fail_msg("cannot open %s (run from the root)", name);
}

bool text_next(struct text *t)
{
	do {
		t->line_no++;
		if (!fgets(t->line, sizeof t->line, t->file)) {
			fclose(t->file);
			return false;
		}
	} while (t->line[0] == '#');
	assert_non_null(strchr(t->line, '\n'));
	t->n_fields = 0;
	for (char *p = strtok_r(t->line, " \n", &t->fields[N_FIELDS - 1]);
	     p && t->n_fields < N_FIELDS - 1; p = strtok_r(NULL, " \n", &t->fields[N_FIELDS - 1]))
		t->fields[t->n_fields++] = p;
	return true;
}

uint32_t text_bits(const char *text)
{
	return (uint32_t)strtoul(text, NULL, 16);
}

size_t text_number(const char *text)
{
	return strtoul(text, NULL, 10);
}

void text_check(const struct text *t, const char *who, unsigned want, unsigned got)
{
	if (want != got)
		fail_msg("%s:%d: %s: %#x, not %#x", t->name, t->line_no, who, got, want);
}

bool hash_is(const char *want, const void *data, size_t n)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	char text[2 * SHA256_DIGEST_LENGTH + 1];

	SHA256(data, n, hash);
	for (size_t i = 0; i < sizeof hash; i++)
		snprintf(text + 2 * i, 3, "%02x", hash[i]);
	return !strcmp(want, text);
}

enum fp8_format golden_format(const char *name)
{
	return strcmp(name, "e5m2") ? FP8_E4M3 : FP8_E5M2;
}

enum dtype golden_dtype(const char *name)
{
	return !strcmp(name, "f32") ? DT_F32 : !strcmp(name, "bf16") ? DT_BF16 : DT_F16;
}

void golden_spec_parse(struct qspec *spec, char **fields)
{
	spec->scale_type = strncmp(fields[0], "e8m0", 4) ? SCALE_F32 : SCALE_E8M0;
	spec->pow2 = !strcmp(fields[0], "pow2");
	spec->mx_rule = strstr(fields[0], "floor")  ? MX_FLOOR
			: strstr(fields[0], "even") ? MX_EVEN
						    : MX_UP;
	spec->arith = !strcmp(fields[1], "deepseek")   ? ARITH_DEEPSEEK
		      : !strcmp(fields[1], "deepgemm") ? ARITH_DEEPGEMM
						       : ARITH_TE;
	spec->amax_epsilon = f32_from_bits(text_bits(fields[2]));
	spec->margin = (int)strtol(fields[3], NULL, 10);
}
