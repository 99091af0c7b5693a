/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/units.h"

#include <sys/resource.h>
#include <time.h>

void units_size(struct buf *buf, uint64_t bytes)
{
	static const char *const names[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB" };
	double value = (double)bytes;
	size_t i = 0;

	while (value >= 999.5 && i + 1 < sizeof names / sizeof *names) {
		value /= 1000;
		i++;
	}
	if (i == 0)
		buf_printf(buf, "%llu B", (unsigned long long)bytes);
	else
		buf_printf(buf, "%.*f %s",
			   value < 9.995   ? 2
			   : value < 99.95 ? 1
					   : 0,
			   value, names[i]);
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

double units_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

uint64_t units_peak_memory(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage))
		return 0;
	return (uint64_t)usage.ru_maxrss * 1024;
}
