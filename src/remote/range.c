/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/range.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/progress.h"
#include "remote/address.h"

#define MAX_REDIRECTS 10
#define TRIES	      4			   /* of an answer that is wrong, or of an unknown host */
#define FIRST_WAIT    0.25		   /* seconds; each wait is twice the one before */
#define LAST_WAIT     16.0		   /* seconds; it grows no longer */
#define MAX_WAIT      60.0		   /* seconds that one answer may ask for */
#define TELL_AFTER    2.0		   /* seconds without an answer before it is said */
#define PROGRESS      ((uint64_t)64 << 10) /* bytes after which a cut connection is no failed try */
#define SLICE	      50000000L		   /* nanoseconds between two looks at the signal */

/* A read of a range, over its requests. */
struct range_read {
	struct client *client;
	struct remote_file *file;
	struct request request; /* what is still to come */
	uint64_t got;		/* bytes since the last progress */
	int tries, wrong;	/* since then: all, and those with a wrong answer */
	double waited;		/* seconds since then */
	bool again;		/* the resolved address was dropped once */
};

enum verdict { VERDICT_DONE, VERDICT_ABSENT, VERDICT_FAILED, VERDICT_MORE, VERDICT_AGAIN };

/* Waits before the next try: as long as the server asks for, else twice as long each time. */
static int wait_for_server(struct range_read *reading, long retry_after, struct err *err)
{
	double asked = (double)retry_after < MAX_WAIT ? (double)retry_after : MAX_WAIT;
	double grown = FIRST_WAIT / 2 * (double)(1u << (reading->tries < 16 ? reading->tries : 16));
	double seconds = retry_after > 0 ? asked : grown < LAST_WAIT ? grown : LAST_WAIT;
	double left = reading->client->retry_time - reading->waited;
	long slices;

	if (left > 0 && left < seconds)
		seconds = left;
	slices = (long)(seconds * 1e9 / (double)SLICE);
	reading->waited += seconds;
	for (long i = 0; i < slices; i++) {
		if (progress_stopped(reading->client->stop, err))
			return -1;
		nanosleep(&(struct timespec){ .tv_nsec = SLICE }, NULL);
	}
	return progress_stopped(reading->client->stop, err);
}

static bool is_redirect(long status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* Returns a copy of the URL that the file's ranges come from. */
static char *url_of(struct client *client, const struct remote_file *file)
{
	char *url;

	pthread_mutex_lock(&client->lock);
	url = xstrdup(file->resolved ? file->resolved : file->url);
	pthread_mutex_unlock(&client->lock);
	return url;
}

/* Keeps the URL to which redirects led; NULL: forgets it. */
static void keep_url(struct client *client, struct remote_file *file, const char *url)
{
	pthread_mutex_lock(&client->lock);
	free(file->resolved);
	file->resolved = url ? xstrdup(url) : NULL;
	pthread_mutex_unlock(&client->lock);
}

/* Sends the request to *url and to where its answers lead; *url becomes the last one. */
static int send_on(struct client *client, struct request *request, char **url,
		   struct answer *answer, struct err *err)
{
	struct shown_address from, to;

	for (int i = 0;; i++) {
		request->url = *url;
		if (request_send(client, request, answer, err))
			return -1;
		if (!is_redirect(answer->status) || !answer->location)
			return 0;
		if (i == MAX_REDIRECTS)
			return err_set(err, ERR_INPUT,
				       "the server leads '%s' on more than %d times: its redirects "
				       "may form a circle",
				       address_show(*url, &from), MAX_REDIRECTS);
		if (!address_may_lead(*url, answer->location))
			return err_set(err, ERR_INPUT,
				       "the server leads '%s' to an address without TLS ('%s')",
				       address_show(*url, &from),
				       address_show(answer->location, &to));
		if (address_check(answer->location, err))
			return -1;
		free(*url);
		*url = answer->location;
		answer->location = NULL;
	}
}

static int changed(const struct remote_file *file, struct err *err)
{
	return err_set(err, ERR_INPUT,
		       "'%s' changed on the server while it was read: run the command again",
		       file->url);
}

/* Fixes the size and version of the file, or compares them. */
static int check_version(struct range_read *reading, const struct answer *answer, struct err *err)
{
	struct remote_file *file = reading->file;
	uint64_t size = answer->status == 200 ? answer->length : answer->total;
	int rc = 0;

	pthread_mutex_lock(&reading->client->lock);
	if (!file->has_size) {
		file->has_size = true;
		file->size = size;
	}
	if (!file->version)
		file->version = xstrdup(answer->version);
	/* Another host may name the same revision otherwise. */
	if (file->size != size ||
	    (strcmp(file->version, answer->version) != 0 && !(file->is_pinned && reading->again)))
		rc = changed(file, err);
	pthread_mutex_unlock(&reading->client->lock);
	return rc;
}

/* Counts a try with a wrong answer.  VERDICT_AGAIN, or VERDICT_FAILED with the error after the
 * last. */
static enum verdict retry_wrong(struct range_read *reading, const char *what, struct err *err)
{
	reading->tries++;
	if (++reading->wrong < TRIES)
		return VERDICT_AGAIN;
	err_set(err, ERR_SYSTEM, "cannot read '%s' at byte %" PRIu64 ": %s (after %d tries)",
		reading->file->url, reading->request.first, what, reading->tries);
	return VERDICT_FAILED;
}

/* Counts a try that the server did not answer, or was too busy for, in the same way: by time. */
static enum verdict retry_lost(struct range_read *reading, const char *what, struct err *err)
{
	struct client *client = reading->client;

	reading->tries++;
	if (reading->waited >= client->retry_time) {
		err_set(err, ERR_SYSTEM,
			"cannot read '%s' at byte %" PRIu64 ": %s (%d tries in %.0f s: "
			"--retry-time gives more)",
			reading->file->url, reading->request.first, what, reading->tries,
			reading->waited);
		return VERDICT_FAILED;
	}
	if (reading->waited > TELL_AFTER && client->tell && !atomic_exchange(&client->told, true))
		client->tell(reading->file->url, what, client->retry_time);
	return VERDICT_AGAIN;
}

static enum verdict refused(const struct range_read *reading, long status, struct err *err)
{
	const char *what = status == 401   ? "a token that may read it is needed: run 'hf auth "
					     "login', or set HF_TOKEN"
			   : status == 403 ? "the server refuses access: accept the model's terms, "
					     "or set HF_TOKEN to a token that may read it"
					   : "check the address";

	err_set(err, ERR_INPUT, "cannot read '%s': the server answers with status %ld; %s",
		reading->file->url, status, what);
	return VERDICT_FAILED;
}

/* Judges an answer whose transfer did not reach its end. */
static enum verdict judge_transfer(struct range_read *reading, const struct answer *answer,
				   struct err *err)
{
	switch (answer->code) {
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
		err_set(err, ERR_SYSTEM,
			"the certificate of the server of '%s' is not trusted (%s): install the "
			"package ca-certificates, or set SSL_CERT_FILE",
			reading->file->url, answer->reason);
		return VERDICT_FAILED;
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_URL_MALFORMAT:
		err_set(err, ERR_INPUT, "cannot read '%s': %s", reading->file->url, answer->reason);
		return VERDICT_FAILED;
	case CURLE_COULDNT_RESOLVE_HOST:
		if (!atomic_load(&reading->client->answered)) /* the name may be wrong */
			return retry_wrong(reading, answer->reason, err);
		return retry_lost(reading, answer->reason, err);
	default:
		return retry_lost(reading, answer->reason, err);
	}
}

/* Judges an answer that has no body of the file. */
static enum verdict judge_status(struct range_read *reading, const struct answer *answer,
				 struct err *err)
{
	long status = answer->status;
	char what[64];

	if (status == 404 || status == 410)
		return VERDICT_ABSENT;
	snprintf(what, sizeof what, "the server answers with status %ld", status);
	if (status == 429 || status == 408 || status >= 500)
		return retry_lost(reading, what, err);
	return refused(reading, status, err);
}

/* A coded answer does not hold the file's bytes. */
static int encoded(const char *url, const struct answer *answer, struct err *err)
{
	if (!*answer->coding)
		return 0;
	return err_set(err, ERR_INPUT,
		       "the server sends '%s' with the encoding '%s', not as it is: store it there "
		       "without one, or download the model and give its directory",
		       url, answer->coding);
}

/* Judges an answer with a body, and takes what came of it. */
static enum verdict judge_body(struct range_read *reading, const struct answer *answer,
			       struct err *err)
{
	struct request *request = &reading->request;
	const struct remote_file *file = reading->file;
	uint64_t size = answer->status == 200 ? answer->length : answer->total;
	size_t want;

	if (answer->status == 200 && (answer->wrong_range || !answer->has_length)) {
		err_set(err, ERR_INPUT,
			"the server of '%s' ignores range requests: download the model and give "
			"its directory",
			file->url);
		return VERDICT_FAILED;
	}
	if (answer->wrong_range || (answer->status == 206 && !answer->has_range))
		return retry_wrong(reading, "the server sends another range than asked for", err);
	if (answer->too_long)
		return retry_wrong(reading, "the server sends more bytes than asked for", err);
	if (encoded(file->url, answer, err) || check_version(reading, answer, err))
		return VERDICT_FAILED;
	/* The first request may ask for more than the file has. */
	want = size < request->first || size - request->first < request->n
		       ? (size_t)(size < request->first ? 0 : size - request->first)
		       : request->n;
	request->first += answer->got;
	request->data += answer->got;
	request->n = want - (answer->got < want ? answer->got : want);
	if (!request->n)
		return VERDICT_DONE;
	reading->got += answer->got;
	if (reading->got >= PROGRESS) { /* of a cut connection: goes on at once */
		reading->got = 0;
		reading->tries = reading->wrong = 0;
		reading->waited = 0;
		return VERDICT_MORE;
	}
	return retry_wrong(reading, "the answer ends early", err);
}

/* Judges an answer with a whole text. */
static enum verdict judge_text(struct range_read *reading, const struct answer *answer,
			       struct err *err)
{
	if (answer->status == 200 && !answer->code)
		return encoded(reading->file->url, answer, err) ? VERDICT_FAILED : VERDICT_DONE;
	if (answer->status == 200 || !answer->status)
		return judge_transfer(reading, answer, err);
	if (answer->status == 404 || answer->status == 410)
		return refused(reading, answer->status, err);
	return judge_status(reading, answer, err);
}

static enum verdict judge(struct range_read *reading, const struct answer *answer, struct err *err)
{
	bool body = answer->status == 200 || answer->status == 206;

	if (!reading->request.ranged)
		return judge_text(reading, answer, err);
	if (answer->status == 416 && answer->has_range && !answer->total &&
	    !reading->request.first) { /* an empty file has no range */
		reading->request.n = 0;
		return check_version(reading, answer, err) ? VERDICT_FAILED : VERDICT_DONE;
	}
	if (!answer->status || (answer->code && !body && !is_redirect(answer->status) &&
				answer->code != CURLE_WRITE_ERROR))
		return judge_transfer(reading, answer, err);
	return body ? judge_body(reading, answer, err) : judge_status(reading, answer, err);
}

/* Requests the remaining bytes and validates the response. */
static enum verdict try_once(struct range_read *reading, long *retry_after, struct err *err)
{
	struct client *client = reading->client;
	char *url = url_of(client, reading->file);
	bool direct = !strcmp(url, reading->file->url);
	struct answer answer = { 0 };
	enum verdict verdict;

	if (reading->request.text)
		buf_release(reading->request.text);
	if (send_on(client, &reading->request, &url, &answer, err) ||
	    progress_stopped(client->stop, err)) {
		verdict = VERDICT_FAILED;
	} else if (!direct && !reading->again && (answer.status == 401 || answer.status == 403)) {
		keep_url(client, reading->file, NULL); /* signed addresses expire */
		reading->again = true;
		verdict = VERDICT_MORE;
	} else {
		if (!answer.status)
			reading->waited += answer.seconds;
		verdict = judge(reading, &answer, err);
		if (answer.status == 206 && strcmp(url, reading->file->url) != 0)
			keep_url(client, reading->file, url);
	}
	*retry_after = answer.retry_after;
	answer_release(&answer);
	free(url);
	return verdict;
}

/* Returns VERDICT_DONE, VERDICT_ABSENT or VERDICT_FAILED. */
static enum verdict read_all(struct range_read *reading, struct err *err)
{
	for (;;) {
		long retry_after = 0;
		enum verdict verdict = try_once(reading, &retry_after, err);

		if (verdict == VERDICT_AGAIN && wait_for_server(reading, retry_after, err))
			verdict = VERDICT_FAILED;
		if (verdict != VERDICT_AGAIN && verdict != VERDICT_MORE)
			return verdict;
	}
}

int range_head(struct client *client, struct remote_file *file, struct err *err)
{
	size_t n = file->has_size && file->size < RANGE_HEAD ? (size_t)file->size : RANGE_HEAD;
	char *head;
	struct range_read reading = { .client = client, .file = file };
	enum verdict verdict;

	if (file->head || (file->has_size && !file->size))
		return 0;
	head = xmalloc(n);
	reading.request = (struct request){ .ranged = true, .n = n, .data = head };
	verdict = read_all(&reading, err);
	file->is_there = verdict == VERDICT_DONE;
	if (verdict != VERDICT_DONE) {
		free(head);
		return verdict == VERDICT_ABSENT ? 0 : -1;
	}
	file->head = head;
	file->n_head = file->size < n ? (size_t)file->size : n;
	return 0;
}

int range_read(struct client *client, struct remote_file *file, uint64_t first, size_t n,
	       char *data, struct err *err)
{
	struct range_read reading = {
		.client = client,
		.file = file,
		.request = { .ranged = true, .first = first, .n = n, .data = data }
	};
	enum verdict verdict = n ? read_all(&reading, err) : VERDICT_DONE;

	if (verdict == VERDICT_ABSENT)
		return changed(file, err);
	return verdict == VERDICT_DONE ? 0 : -1;
}

int range_text(struct client *client, const char *url, size_t limit, struct buf *text,
	       struct err *err)
{
	struct remote_file file = { .url = xstrdup(url) };
	struct range_read reading = { .client = client,
				      .file = &file,
				      .request = { .n = limit, .text = text } };
	enum verdict verdict = read_all(&reading, err);

	remote_file_release(&file);
	return verdict == VERDICT_DONE ? 0 : -1;
}

void remote_file_release(struct remote_file *file)
{
	free(file->name);
	free(file->url);
	free(file->resolved);
	free(file->version);
	free(file->head);
	*file = (struct remote_file){ 0 };
}
