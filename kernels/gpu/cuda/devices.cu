/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPUs that can be used, found at the first call.
 */
extern "C" {
#include "kernels/gpu/cuda/devices.h"
}

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>

#define MIN_CAPABILITY 80

struct devices devices;
static pthread_once_t devices_once = PTHREAD_ONCE_INIT;

static void devices_find(void)
{
	int n = 0, runtime = 0;
	cudaError_t error = cudaGetDeviceCount(&n);

	if (error != cudaSuccess || n == 0) {
		cudaRuntimeGetVersion(&runtime);
		snprintf(devices.why, sizeof devices.why, "CUDA %d.%d: %s", runtime / 1000,
			 runtime % 1000 / 10, error ? cudaGetErrorString(error) : "no device");
		return;
	}
	for (int i = 0; i < n && devices.n < DEVICES_MOST; i++) {
		int major = 0, minor = 0;

		if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i) ||
		    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, i))
			continue;
		if (10 * major + minor < MIN_CAPABILITY) {
			snprintf(devices.why, sizeof devices.why,
				 "compute capability %d.%d, but the kernels need 8.0", major,
				 minor);
			continue;
		}
		devices.capability[devices.n] = 10 * major + minor;
		devices.number[devices.n++] = i;
	}
}

const char *device_missing(void)
{
	pthread_once(&devices_once, devices_find);
	return devices.n ? NULL : devices.why;
}

int device_count(void)
{
	return device_missing() ? 0 : devices.n;
}

void device_use(const int *chosen, int n)
{
	struct devices all;

	if (device_missing())
		return;
	all = devices;
	devices.n = n;
	for (int i = 0; i < n; i++) {
		devices.number[i] = all.number[chosen[i]];
		devices.capability[i] = all.capability[chosen[i]];
	}
}

int device_numbered(int number)
{
	for (int i = 0; i < device_count(); i++)
		if (devices.number[i] == number)
			return i;
	return -1;
}
