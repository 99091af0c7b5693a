/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/units.h"

/* Adds a value below 2^53 as a decimal; parts is a power of ten: 1.50 is 150 of 100. */
static void put_decimal(struct buf *buf, double value, uint64_t parts)
{
	uint64_t n = (uint64_t)(value * (double)parts + 0.5);

	buf_u64(buf, n / parts);
	if (parts > 1)
		buf_putc(buf, '.');
	for (uint64_t place = parts / 10; place; place /= 10)
		buf_putc(buf, (char)('0' + n / place % 10));
}

/* The unit in which a size has at most three digits before the point, and the parts of it to
 * show. */
struct size_unit {
	const char *name;
	double unit;
	uint64_t parts;
};

static struct size_unit scale_of(uint64_t bytes)
{
	static const char *const names[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB" };
	struct size_unit scale = { .unit = 1 };
	size_t i = 0;
	double value;

	for (; (double)bytes / scale.unit >= 999.5 && i + 1 < sizeof names / sizeof *names; i++)
		scale.unit *= 1000;
	value = (double)bytes / scale.unit;
	scale.name = names[i];
	scale.parts = i == 0 || value >= 99.95 ? 1 : value < 9.995 ? 100 : 10;
	return scale;
}

void units_size(struct buf *buf, uint64_t bytes)
{
	struct size_unit scale = scale_of(bytes);

	put_decimal(buf, (double)bytes / scale.unit, scale.parts);
	buf_putc(buf, ' ');
	buf_puts(buf, scale.name);
}

void units_size_of(struct buf *buf, uint64_t bytes, uint64_t total)
{
	struct size_unit scale = scale_of(total);

	put_decimal(buf, (double)bytes / scale.unit, scale.parts);
	buf_putc(buf, '/');
	units_size(buf, total);
}

void units_memory(struct buf *buf, uint64_t bytes)
{
	uint64_t mib = (bytes >> 20) + ((bytes & 0xfffff) != 0);

	buf_printf(buf, "%llu MiB", (unsigned long long)mib);
}

void units_duration(struct buf *buf, double seconds)
{
	unsigned long s = seconds < 1e9 ? (unsigned long)(seconds + 0.5) : 1000000000;

	if (seconds < 9.95)
		buf_printf(buf, "%.1f s", seconds);
	else if (s < 60)
		buf_printf(buf, "%lu s", s);
	else if (s < 3600)
		buf_printf(buf, "%lu min %02lu s", s / 60, s % 60);
	else
		buf_printf(buf, "%lu h %02lu min", s / 3600, s / 60 % 60);
}

void units_clock(struct buf *buf, double seconds)
{
	unsigned long s = seconds < 3.6e6 ? (unsigned long)(seconds + 0.5) : 3600000;

	if (s < 3600)
		buf_printf(buf, "%lu:%02lu", s / 60, s % 60);
	else
		buf_printf(buf, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
}
