/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/blocks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define CONNECTIONS 8
#define MIN_BLOCK   ((uint64_t)1 << 20)
#define BLOCK	    ((uint64_t)8 << 20)
#define MAX_BLOCK   ((uint64_t)64 << 20)
#define SLOTS	    8			 /* with less memory, blocks are smaller */
#define MAX_SLOTS   32			 /* with more memory, blocks are larger */
#define FILE_BLOCKS ((uint64_t)128)	 /* of the largest file; else blocks are smaller */
#define SMALL	    ((uint64_t)64 << 10) /* bytes of a read that may come without a block */
#define N_PLACES    64
#define READ_COST   MIN_BLOCK /* bytes that come in about the time of one request */

enum slot_state { SLOT_EMPTY, SLOT_WANTED, SLOT_LOADING, SLOT_READY, SLOT_FAILED };

/* The memory of one block, and what it has. */
struct slot {
	enum slot_state state;
	struct remote_file *file;
	uint64_t index;	 /* of the block in the file */
	uint64_t stamp;	 /* of its last use; the lowest is evicted first */
	uint64_t born;	 /* blocks that were assigned before it */
	uint64_t n_read; /* bytes that readers copied */
	int n_readers;	 /* wait for it or copy it */
	struct err err;	 /* of SLOT_FAILED */
	char *data;
};

/* A block of which small reads came without it. */
struct missed_block {
	const struct remote_file *file;
	uint64_t index;
	uint64_t n_reads;
};

struct blocks {
	struct client *client;
	uint64_t size; /* bytes of a block */
	size_t n_slots;
	struct slot *slots;
	uint64_t stamp, n_born;
	struct missed_block places[N_PLACES]; /* the last ones */
	size_t next_place;
	bool stop;
	int n_threads;
	pthread_t threads[CONNECTIONS];
	pthread_mutex_t lock;
	pthread_cond_t wanted, changed;
};

/* Returns the bytes of a block: few enough for the memory, many enough for few requests, and a
 * small part of the largest file, so that work begins early. */
static uint64_t choose_size(uint64_t memory, uint64_t largest)
{
	uint64_t size = BLOCK;

	while (size > MIN_BLOCK && (memory / size < SLOTS || largest / size < FILE_BLOCKS))
		size /= 2;
	while (size < MAX_BLOCK && memory / size > MAX_SLOTS && largest / size > 2 * FILE_BLOCKS)
		size *= 2;
	return size;
}

struct blocks *blocks_new(struct client *client, uint64_t memory, uint64_t largest)
{
	struct blocks *blocks = xcalloc(1, sizeof *blocks);
	uint64_t size = choose_size(memory, largest), n = memory / size;

	blocks->client = client;
	blocks->size = size;
	blocks->n_slots = n < 2 ? 2 : n < MAX_SLOTS ? (size_t)n : MAX_SLOTS;
	blocks->slots = xcalloc(blocks->n_slots, sizeof *blocks->slots);
	pthread_mutex_init(&blocks->lock, NULL);
	pthread_cond_init(&blocks->wanted, NULL);
	pthread_cond_init(&blocks->changed, NULL);
	return blocks;
}

void blocks_free(struct blocks *blocks)
{
	if (!blocks)
		return;
	pthread_mutex_lock(&blocks->lock);
	blocks->stop = true;
	pthread_cond_broadcast(&blocks->wanted);
	pthread_mutex_unlock(&blocks->lock);
	for (int i = 0; i < blocks->n_threads; i++)
		pthread_join(blocks->threads[i], NULL);
	for (size_t i = 0; i < blocks->n_slots; i++)
		free(blocks->slots[i].data);
	pthread_cond_destroy(&blocks->wanted);
	pthread_cond_destroy(&blocks->changed);
	pthread_mutex_destroy(&blocks->lock);
	free(blocks->slots);
	free(blocks);
}

static uint64_t block_bytes(const struct blocks *blocks, const struct remote_file *file,
			    uint64_t index)
{
	uint64_t rest = file->size - index * blocks->size;

	return rest < blocks->size ? rest : blocks->size;
}

static struct slot *find(struct blocks *blocks, const struct remote_file *file, uint64_t index)
{
	for (size_t i = 0; i < blocks->n_slots; i++) {
		struct slot *slot = &blocks->slots[i];

		if (slot->state != SLOT_EMPTY && slot->file == file && slot->index == index)
			return slot;
	}
	return NULL;
}

/* Was at least this part of the block read: a half, a 16th?  Small tensors that lie far apart are
 * less. */
static bool was_read(const struct blocks *blocks, const struct slot *slot, uint64_t part)
{
	return slot->n_read >= blocks->size / part;
}

/* Has it been read, or has it waited for a reader for so long that none may come? */
static bool is_spare(const struct blocks *blocks, const struct slot *slot)
{
	return was_read(blocks, slot, 16) || blocks->n_born - slot->born > 2 * blocks->n_slots;
}

/* Returns a slot that can be given another block: the one that was used the longest time ago, and,
 * if a reader waits, one that was read ahead.  NULL where there is none. */
static struct slot *find_oldest(struct blocks *blocks, bool has_reader)
{
	struct slot *oldest = NULL;

	for (size_t i = 0; i < blocks->n_slots; i++) {
		struct slot *slot = &blocks->slots[i];
		bool spare = is_spare(blocks, slot);

		if (slot->state == SLOT_EMPTY)
			return slot;
		if (slot->n_readers || slot->state == SLOT_LOADING || !(spare || has_reader))
			continue;
		if (!oldest || spare > is_spare(blocks, oldest) ||
		    (spare == is_spare(blocks, oldest) && slot->stamp < oldest->stamp))
			oldest = slot;
	}
	return oldest;
}

static void assign(struct blocks *blocks, struct slot *slot, struct remote_file *file,
		   uint64_t index)
{
	slot->state = SLOT_WANTED;
	slot->file = file;
	slot->index = index;
	slot->stamp = ++blocks->stamp;
	slot->born = blocks->n_born++;
	slot->n_read = 0;
	pthread_cond_signal(&blocks->wanted);
}

/* Of the wanted blocks, those with a reader come first, then the oldest wish. */
static struct slot *next_wanted(struct blocks *blocks)
{
	struct slot *next = NULL;

	for (size_t i = 0; i < blocks->n_slots; i++) {
		struct slot *slot = &blocks->slots[i];

		if (slot->state != SLOT_WANTED)
			continue;
		if (!next || !slot->n_readers < !next->n_readers ||
		    (!slot->n_readers == !next->n_readers && slot->stamp < next->stamp))
			next = slot;
	}
	return next;
}

/* Reads the block of a slot that no other thread touches meanwhile. */
static int load(struct blocks *blocks, struct slot *slot)
{
	uint64_t n = block_bytes(blocks, slot->file, slot->index);
	void *data = slot->data;

	if (!data && buffer_alloc(&data, blocks->size, "a block of the model", &slot->err))
		return -1;
	slot->data = data;
	return range_read(blocks->client, slot->file, slot->index * blocks->size, (size_t)n,
			  slot->data, &slot->err);
}

static void *connection(void *context)
{
	struct blocks *blocks = context;

	pthread_mutex_lock(&blocks->lock);
	while (!blocks->stop) {
		struct slot *slot = next_wanted(blocks);
		int rc;

		if (!slot) {
			pthread_cond_wait(&blocks->wanted, &blocks->lock);
			continue;
		}
		slot->state = SLOT_LOADING;
		pthread_mutex_unlock(&blocks->lock);
		rc = load(blocks, slot);
		pthread_mutex_lock(&blocks->lock);
		slot->state = rc ? SLOT_FAILED : SLOT_READY;
		pthread_cond_broadcast(&blocks->changed);
	}
	pthread_mutex_unlock(&blocks->lock);
	return NULL;
}

static int start(struct blocks *blocks, struct err *err)
{
	while (blocks->n_threads < CONNECTIONS &&
	       !pthread_create(&blocks->threads[blocks->n_threads], NULL, connection, blocks))
		blocks->n_threads++;
	if (!blocks->n_threads)
		return err_set(err, ERR_SYSTEM, "cannot start a thread that reads the model");
	return 0;
}

/* Wants a block, unless all memory is in use.  Holds the lock. */
static void want(struct blocks *blocks, struct remote_file *file, uint64_t index)
{
	struct slot *slot;

	if (index * blocks->size >= file->size || find(blocks, file, index))
		return;
	slot = find_oldest(blocks, false);
	if (slot)
		assign(blocks, slot, file, index);
}

/* Wants the blocks after one, if it and the one before are read in order: what comes after a block
 * that is read alone may have been read before, by workers that are ahead. */
static void want_next(struct blocks *blocks, const struct slot *slot)
{
	uint64_t index = slot->index;
	const struct slot *last = index ? find(blocks, slot->file, index - 1) : NULL;

	if (index ? !last || !was_read(blocks, last, 2)
		  : slot->file->is_begun || !was_read(blocks, slot, 16))
		return;
	slot->file->is_begun = true;
	for (uint64_t i = 1; i <= blocks->n_slots / 2; i++)
		want(blocks, slot->file, index + i);
}

/* Returns the slot of the block, which counts this reader.  Holds the lock. */
static struct slot *take(struct blocks *blocks, struct remote_file *file, uint64_t index,
			 uint64_t n)
{
	struct slot *slot;

	while (!(slot = find(blocks, file, index))) {
		slot = find_oldest(blocks, true);
		if (slot) {
			assign(blocks, slot, file, index);
			break;
		}
		pthread_cond_wait(&blocks->changed, &blocks->lock);
	}
	if (slot->state == SLOT_FAILED && !slot->n_readers)
		assign(blocks, slot, file, index); /* of a hint: tried again for a reader */
	slot->n_readers++;
	slot->n_read += n;
	slot->stamp = ++blocks->stamp;
	return slot;
}

static bool is_small(const struct blocks *blocks, uint64_t n)
{
	return n <= SMALL && n <= blocks->size / 64;
}

/* Shall these bytes come without their block?  Small tensors lie far apart, and each would cost a
 * block; but lines of a matrix lie in the same one.  Holds the lock. */
static bool is_scattered(struct blocks *blocks, const struct remote_file *file, uint64_t index,
			 uint64_t n)
{
	struct missed_block *place = blocks->places;

	if (!is_small(blocks, n) || find(blocks, file, index))
		return false;
	while (place < blocks->places + N_PLACES && (place->file != file || place->index != index))
		place++;
	if (place == blocks->places + N_PLACES) {
		place = &blocks->places[blocks->next_place++ % N_PLACES];
		*place = (struct missed_block){ .file = file, .index = index };
	}
	return place->n_reads++ < blocks->size / READ_COST;
}

int blocks_read(struct blocks *blocks, struct remote_file *file, uint64_t first, char *data,
		size_t *n, struct err *err)
{
	uint64_t index = first / blocks->size, offset = first % blocks->size;
	uint64_t rest = block_bytes(blocks, file, index) - offset;
	struct slot *slot;
	int rc = -1;

	if (*n > rest)
		*n = (size_t)rest;
	pthread_mutex_lock(&blocks->lock);
	if (is_scattered(blocks, file, index, *n)) {
		pthread_mutex_unlock(&blocks->lock);
		return range_read(blocks->client, file, first, *n, data, err);
	}
	if (!blocks->n_threads && start(blocks, err))
		goto out;
	slot = take(blocks, file, index, *n);
	want_next(blocks, slot);
	while (slot->state == SLOT_WANTED || slot->state == SLOT_LOADING)
		pthread_cond_wait(&blocks->changed, &blocks->lock);
	if (slot->state == SLOT_READY) {
		pthread_mutex_unlock(&blocks->lock);
		memcpy(data, slot->data + offset, *n);
		pthread_mutex_lock(&blocks->lock);
		rc = 0;
	} else {
		*err = slot->err;
	}
	slot->n_readers--;
	pthread_cond_broadcast(&blocks->changed);
out:
	pthread_mutex_unlock(&blocks->lock);
	return rc;
}

void blocks_want(struct blocks *blocks, struct remote_file *file, uint64_t first, uint64_t n)
{
	uint64_t end = first + n < file->size ? first + n : file->size;

	if (is_small(blocks, n))
		return;
	pthread_mutex_lock(&blocks->lock);
	for (uint64_t i = 0, at = first / blocks->size;
	     i < blocks->n_slots / 2 && (at + i) * blocks->size < end; i++)
		want(blocks, file, at + i);
	pthread_mutex_unlock(&blocks->lock);
}
