/* SPDX-License-Identifier: Apache-2.0
 *
 * The I/O limit of a conversion: threads that only read every byte of the .safetensors files of a
 * directory, piece by piece, and write half of each piece (or another share, perhaps above all of
 * it) to files of the same names in another directory.  What a converter does more is its own cost.
 * Prints the seconds between the first open and the last close.
 */
#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/measure.h"

#define MAX_FILES 4096
#define ALIGN	  4096 /* of direct I/O; a piece's half is a multiple of it */

struct file {
	int in, out;
	int tail; /* the output without O_DIRECT, for what is no whole block */
	uint64_t size, first_piece;
};

static struct {
	const char *from, *to;
	int threads;
	size_t piece;	/* bytes */
	size_t percent; /* of each piece to write */
	bool direct, sync, reserve;
	size_t n_files;
	struct file files[MAX_FILES];
	uint64_t n_pieces;
	_Atomic uint64_t next;
} job = { .piece = 256 << 10, .percent = 50 };

/* Returns the bytes to write for n bytes that are read: whole blocks for a whole piece. */
static size_t share(size_t n)
{
	size_t bytes = n * job.percent / 100;

	return n == job.piece && bytes > ALIGN ? bytes / ALIGN * ALIGN : bytes;
}

/* Returns the bytes of the output of a file of `size` bytes. */
static uint64_t output_size(uint64_t size)
{
	return size / job.piece * share(job.piece) + share((size_t)(size % job.piece));
}

static void fail(const char *what, const char *subject)
{
	fprintf(stderr, "copy_half: cannot %s '%s': %s\n", what, subject, strerror(errno));
	exit(4);
}

static void move(const struct file *file, uint64_t at, char *buffer)
{
	uint64_t left = file->size - at;
	size_t n = left < job.piece ? (size_t)left : job.piece;
	size_t half = share(n);
	uint64_t to = at / job.piece * share(job.piece);
	bool whole = half % ALIGN == 0;

	for (size_t done = 0; done < n;) {
		ssize_t got = pread(file->in, buffer + done, n - done, (off_t)(at + done));

		if (got <= 0)
			fail("read", job.from);
		done += (size_t)got;
	}
	for (size_t done = 0; done < half;) {
		ssize_t put = pwrite(whole ? file->out : file->tail, buffer + done, half - done,
				     (off_t)(to + done));

		if (put <= 0)
			fail("write", job.to);
		done += (size_t)put;
	}
}

static void *work(void *unused)
{
	void *buffer = NULL;
	size_t f = 0;
	size_t size = job.percent > 100 ? share(job.piece) : job.piece;

	if (posix_memalign(&buffer, ALIGN, size))
		abort();
	memset(buffer, 1, size);
	for (;;) {
		uint64_t i = atomic_fetch_add(&job.next, 1);

		if (i >= job.n_pieces)
			break;
		while (f + 1 < job.n_files && job.files[f + 1].first_piece <= i)
			f++;
		move(&job.files[f], (i - job.files[f].first_piece) * job.piece, buffer);
	}
	free(buffer);
	return unused;
}

static void open_pair(int from, int to, const char *name)
{
	const int flags = O_WRONLY | O_CREAT | O_TRUNC;
	struct file *file = &job.files[job.n_files++];
	struct stat st;

	file->in = openat(from, name, O_RDONLY);
	if (file->in < 0 || fstat(file->in, &st))
		fail("open", name);
	file->tail = file->out = openat(to, name, flags, 0666);
	if (job.direct)
		file->out = openat(to, name, O_WRONLY | O_DIRECT);
	if (file->tail < 0 || file->out < 0)
		fail("create", name);
	posix_fadvise(file->in, 0, 0, POSIX_FADV_SEQUENTIAL);
	file->size = (uint64_t)st.st_size;
	if (job.reserve && posix_fallocate(file->tail, 0, (off_t)output_size(file->size)))
		fail("reserve", name);
	file->first_piece = job.n_pieces;
	job.n_pieces += (file->size + job.piece - 1) / job.piece;
}

static void open_files(void)
{
	DIR *directory = opendir(job.from);
	int to;

	if (!directory)
		fail("open", job.from);
	if (mkdir(job.to, 0777) && errno != EEXIST)
		fail("create", job.to);
	to = open(job.to, O_RDONLY | O_DIRECTORY);
	for (struct dirent *entry; (entry = readdir(directory)) && job.n_files < MAX_FILES;) {
		size_t n = strlen(entry->d_name);

		if (n > 12 && !strcmp(entry->d_name + n - 12, ".safetensors"))
			open_pair(dirfd(directory), to, entry->d_name);
	}
	closedir(directory);
	close(to);
}

static void close_files(void)
{
	for (size_t i = 0; i < job.n_files; i++) {
		if (job.sync && fsync(job.files[i].tail))
			fail("write", job.to);
		close(job.files[i].in);
		close(job.files[i].tail);
		if (job.direct)
			close(job.files[i].out);
	}
}

static const struct argp_option descriptions[] = {
	{ "threads", 't', "N", 0, "Default: one for each CPU", 0 },
	{ "piece", 'p', "KIB", 0, "Read at once (default 256)", 0 },
	{ "direct", 'd', NULL, 0, "Write past the page cache (O_DIRECT)", 0 },
	{ "sync", 's', NULL, 0, "fsync each file at the end", 0 },
	{ "reserve", 'r', NULL, 0, "fallocate each file first", 0 },
	{ "percent", 'w', "N", 0, "Write so much of what is read (default 50); 0 only reads", 0 },
	{ 0 },
};

static error_t parse(int key, char *value, struct argp_state *state)
{
	switch (key) {
	case 't':
		job.threads = (int)strtoul(value, NULL, 10);
		break;
	case 'p':
		job.piece = (size_t)strtoul(value, NULL, 10) << 10;
		break;
	case 'd':
		job.direct = true;
		break;
	case 's':
		job.sync = true;
		break;
	case 'r':
		job.reserve = true;
		break;
	case 'w':
		job.percent = (size_t)strtoul(value, NULL, 10);
		break;
	case ARGP_KEY_ARG:
		*(job.from ? &job.to : &job.from) = value;
		break;
	case ARGP_KEY_END:
		if (state->arg_num != 2 || job.threads < 1 || job.piece < 2 * ALIGN)
			argp_usage(state);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct argp argp = { descriptions, parse, "FROM TO", "Read everything, write half.",
				   NULL,	 NULL,	NULL };
	double begin;
	pthread_t threads[256];
	int n = 1;

	job.threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	begin = clock_seconds(CLOCK_MONOTONIC);
	open_files();
	for (; n < job.threads && n < 256; n++)
		if (pthread_create(&threads[n], NULL, work, NULL))
			fail("start", "a thread");
	work(NULL);
	for (int i = 1; i < n; i++)
		pthread_join(threads[i], NULL);
	close_files();
	printf("%.6f\n", clock_seconds(CLOCK_MONOTONIC) - begin);
	return 0;
}
