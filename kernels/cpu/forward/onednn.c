/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the library, checks that it can be used, and names the package to install if it is missing.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "base/io.h"
#include "kernels/cpu/forward/onednn.h"

#define TEXT(number)	TEXT_OF(number)
#define TEXT_OF(number) #number
#define LIBRARY		"libdnnl.so." TEXT(DNNL_VERSION_MAJOR)
#define LAST_MINOR	40 /* the last of the names to try */
#define MAX_OS_RELEASE	((size_t)1 << 16)
#define ROOM		((size_t)32 << 20) /* bytes: a thread's heap has them, code a few */

/* The package with oneDNN, by ID and VERSION_ID of os-release(5); version NULL: all versions
 * without a row.  From the package lists of Debian, Ubuntu, Fedora, Arch Linux and openSUSE in
 * 2026.  libdnnl-dev depends on the library of its release, whose name has numbers. */
/* clang-format off */
static const struct distribution {
	const char *id, *version, *package;
	int major; /* of oneDNN; 0: unknown */
} distributions[] = {
	{ "debian", "12",    "libdnnl2",    2 },
	{ "debian", "13",    "libdnnl3.6",  3 },
	{ "debian", NULL,    "libdnnl-dev", 0 },
	{ "ubuntu", "22.04", "libdnnl2",    2 },
	{ "ubuntu", "24.04", "libdnnl3",    3 },
	{ "ubuntu", "26.04", "libdnnl3.6",  3 },
	{ "ubuntu", NULL,    "libdnnl-dev", 0 },
	{ "fedora", NULL,    "onednn",      3 },
	{ "arch",   NULL,    "onednn",      3 },
	{ "opensuse-tumbleweed", NULL, "libdnnl3", 3 },
};
/* clang-format on */

/* Does a line of os-release say that key is value, quoted or not? */
static bool os_release_has(const char *text, const char *key, const char *value)
{
	size_t key_len = strlen(key), len = strlen(value);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, key_len) || line[key_len] != '=')
			continue;
		line += key_len + 1;
		line += *line == '"' || *line == '\'';
		return !strncmp(line, value, len) && strchr("\"'\n", line[len]);
	}
	return false;
}

static const struct distribution *distribution_find(const char *os_release)
{
	for (size_t i = 0; i < sizeof distributions / sizeof *distributions; i++) {
		const struct distribution *row = &distributions[i];

		if (os_release_has(os_release, "ID", row->id) &&
		    (!row->version || os_release_has(os_release, "VERSION_ID", row->version)))
			return row;
	}
	return NULL;
}

void onednn_suggest(char *text, size_t size, const char *os_release, int major)
{
	const struct distribution *row = distribution_find(os_release);

	if (!row)
		snprintf(text, size, "install oneDNN %d (libdnnl.so.%d)", major, major);
	else if (row->major && row->major != major)
		snprintf(text, size,
			 "this distribution has oneDNN %d: build fp8conv on this "
			 "distribution",
			 row->major);
	else
		snprintf(text, size, "install the package %s", row->package);
}

static void suggest(char *text, size_t size)
{
	struct buf buf = { 0 };
	struct err ignored;
	int rc = io_read_file(&io_system, AT_FDCWD, "/etc/os-release", MAX_OS_RELEASE, &buf,
			      &ignored);

	onednn_suggest(text, size, rc || !buf.data ? "" : buf.data, DNNL_VERSION_MAJOR);
	buf_release(&buf);
}

int onednn_check(const dnnl_version_t *version, const char *name, struct err *err)
{
	char suggestion[128];

	if (version->major != DNNL_VERSION_MAJOR) {
		suggest(suggestion, sizeof suggestion);
		return err_set(err, ERR_SYSTEM,
			       "%s is oneDNN %d.%d.%d, but this program was built for oneDNN %d: "
			       "%s",
			       name, version->major, version->minor, version->patch,
			       DNNL_VERSION_MAJOR, suggestion);
	}
	/* Threads of other kinds cannot be limited to one: they would share a product, whose bits
	 * would depend on their number. */
	if (version->cpu_runtime != DNNL_RUNTIME_OMP && version->cpu_runtime != DNNL_RUNTIME_SEQ)
		return err_set(err, ERR_SYSTEM,
			       "%s (oneDNN %d.%d.%d) was built without OpenMP: install a build "
			       "with OpenMP",
			       name, version->major, version->minor, version->patch);
	return 0;
}

/* Returns NULL if the library cannot be loaded; reason is "" if no library has that name. */
static void *library_try(const char *name, char *reason, size_t size)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	const char *error = library ? NULL : dlerror();

	/* An error begins with the name only if there is no such library.  Else it begins with the
	 * path, or with the name of another library that this one needs. */
	snprintf(reason, size, "%s", error && strncmp(error, name, strlen(name)) ? error : "");
	return library;
}

/* Tries the name without a minor number first, then the numbered names, the newest first.  Most
 * distributions have libdnnl.so.3.  Debian and Ubuntu have libdnnl.so.3.6 since release 3.6, and
 * later releases may have a later number. */
static void *library_open(char *name, size_t size, struct err *err)
{
	char reason[512], suggestion[128];
	void *library;

	snprintf(name, size, LIBRARY);
	library = library_try(name, reason, sizeof reason);
	for (int minor = LAST_MINOR; !library && !*reason && minor >= 0; minor--) {
		snprintf(name, size, LIBRARY ".%d", minor);
		library = library_try(name, reason, sizeof reason);
	}
	if (library)
		return library;
	suggest(suggestion, sizeof suggestion);
	err_set(err, ERR_SYSTEM, "cannot load oneDNN, which multiplies matrices (%s): %s",
		*reason ? reason : LIBRARY " was not found", suggestion);
	return NULL;
}

/* Finds the functions.  Returns NULL, or the name of a function that the library lacks. */
static const char *functions_find(struct onednn *onednn, void *library)
{
#define FIND(name)                                                      \
	if (!(*(void **)&onednn->name = dlsym(library, "dnnl_" #name))) \
		return "dnnl_" #name;
	ONEDNN_FUNCTIONS(FIND)
#undef FIND
	if (onednn->version->cpu_runtime == DNNL_RUNTIME_OMP &&
	    !(*(void **)&onednn->omp_set_num_threads = dlsym(library, "omp_set_num_threads")))
		return "omp_set_num_threads";
	return NULL;
}

static int load(struct onednn *onednn, struct err *err)
{
	char name[64];
	void *library = library_open(name, sizeof name, err);
	__typeof__(&dnnl_version) version;
	const char *missing;

	if (!library)
		return -1;
	if (!(*(void **)&version = dlsym(library, "dnnl_version")))
		return err_set(err, ERR_SYSTEM, "%s has no function dnnl_version: it is not oneDNN",
			       name);
	onednn->version = version();
	if (onednn_check(onednn->version, name, err))
		return -1;
	missing = functions_find(onednn, library);
	if (missing)
		return err_set(
			err, ERR_SYSTEM,
			"%s (oneDNN %d.%d.%d) has no function %s: install oneDNN %d.%d or later",
			name, onednn->version->major, onednn->version->minor,
			onednn->version->patch, missing, DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR);
	return 0;
}

/* The processor was looked at before; the library may be held to fewer instructions. */
void onednn_failed(const char *name, dnnl_status_t status, struct err *err)
{
	err_set(err, ERR_SYSTEM, "oneDNN: %s failed with status %d%s", name, (int)status,
		status == dnnl_unimplemented
			? " (not implemented for the instruction set that it may use): unset the "
			  "environment variables ONEDNN_MAX_CPU_ISA and DNNL_MAX_CPU_ISA"
			: "");
}

int onednn_room(struct err *err)
{
	void *room =
		mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (room == MAP_FAILED)
		return err_set(err, ERR_SYSTEM,
			       "out of memory: cannot reserve %zu bytes for oneDNN", ROOM);
	munmap(room, ROOM);
	return 0;
}

int onednn_init(struct onednn *onednn, struct err *err)
{
	*onednn = (struct onednn){ 0 };
	if (load(onednn, err) || onednn_room(err))
		return -1;
	ONEDNN_CALL(onednn, engine_create, &onednn->engine, dnnl_cpu, 0);
	ONEDNN_CALL(onednn, primitive_attr_create, &onednn->attr);
	ONEDNN_CALL(onednn, primitive_attr_set_scratchpad_mode, onednn->attr,
		    dnnl_scratchpad_mode_user);
	return 0;
out:
	onednn_release(onednn);
	return -1;
}

void onednn_release(struct onednn *onednn)
{
	if (onednn->attr)
		onednn->primitive_attr_destroy(onednn->attr);
	if (onednn->engine)
		onednn->engine_destroy(onednn->engine);
	*onednn = (struct onednn){ 0 };
}
