/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads cuBLASLt at run time: it has 500 MB of code, which no conversion needs.
 */
extern "C" {
#include "kernels/gpu/cuda/cublaslt.h"
}

#include <dlfcn.h>
#include <pthread.h>

#include <gpu.h>

/* The first version of 12.0, which introduced FP8. */
#define MIN_VERSION 120000

static struct cublaslt library;
static struct err missing;
static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void *open_first(const char *const *files, size_t n)
{
	void *opened = NULL;

	for (size_t i = 0; i < n && !opened; i++)
		opened = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
	return opened;
}

int cublaslt_load(struct cublaslt *lt, const char *const *files, size_t n, struct err *err)
{
	void *opened = open_first(files, n);
	const char *lacks = NULL;
	size_t version;

	if (!opened)
		return err_set(err, ERR_SYSTEM,
			       "cannot load cuBLASLt, which multiplies matrices on a GPU (%s): "
			       "install cuBLASLt of CUDA 12 or 13 (beside a wheel: pip install "
			       "nvidia-cublas), or add its directory to LD_LIBRARY_PATH",
			       dlerror());
#define LT_LOAD(result, name, arguments)                                                   \
	lt->name = reinterpret_cast<result(*) arguments>(dlsym(opened, "cublasLt" #name)); \
	if (!lt->name && !lacks)                                                           \
		lacks = "cublasLt" #name;
	LT_FUNCTIONS(LT_LOAD)
#undef LT_LOAD
	if (lacks)
		return err_set(err, ERR_SYSTEM,
			       "cuBLASLt has no function %s: install version 12.0 or later", lacks);
	version = lt->GetVersion();
	if (version < MIN_VERSION)
		return err_set(err, ERR_SYSTEM,
			       "cuBLASLt is version %zu.%zu: install version 12.0 or later",
			       version / 10000, version / 100 % 100);
	return 0;
}

static void library_find(void)
{
	static const char *const files[] = { GPU_CUBLASLT };

	cublaslt_load(&library, files, sizeof files / sizeof *files, &missing);
}

const struct cublaslt *cublaslt(const char **why)
{
	pthread_once(&library_once, library_find);
	*why = missing.message;
	return missing.kind == ERR_NONE ? &library : NULL;
}
