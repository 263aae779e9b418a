/* The part of CUDA's runtime that fake_runtime.cc has, for programs that know nothing of CUDA's
 * headers. Results are cudaError_t: 0 is success. Any thread, as CUDA says. */
#ifndef FTAR_TESTS_FAKEGPU_FAKE_RUNTIME_H_
#define FTAR_TESTS_FAKEGPU_FAKE_RUNTIME_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

int cudaGetDeviceCount(int* count);
int cudaSetDevice(int device); /* 0, or 1, which cudaGetDeviceCount does not tell of */
int cudaMalloc(void** out, size_t bytes);
int cudaFree(void* address);
int cudaMallocHost(void** out, size_t bytes);
int cudaFreeHost(void* address);
int cudaMemcpy(void* to, const void* from, size_t bytes, int kind);
int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream);
int cudaMemsetAsync(void* to, int value, size_t bytes, void* stream);
int cudaLaunchHostFunc(void* stream, void (*function)(void*), void* user);
int cudaStreamCreateWithFlags(void** out, unsigned flags);
int cudaStreamDestroy(void* stream);
int cudaDeviceSynchronize(void);
int cudaStreamSynchronize(void* stream);
int cudaStreamBeginCapture(void* stream, int mode);
int cudaStreamEndCapture(void* stream, void** graph);
int cudaGraphInstantiate(void** out, void* graph, unsigned long long flags);
int cudaGraphInstantiateWithFlags(void** out, void* graph, unsigned long long flags);
int cudaGraphLaunch(void* graph, void* stream);
int cudaGraphDestroy(void* graph);
int cudaGraphExecDestroy(void* graph);
const char* cudaGetErrorString(int error);

/* What no real one has. Broken: a sticky error, nothing is done any more. Hung: what runs never
 * ends. */
void fakeGpuBreak(void);
void fakeGpuHang(void);
void fakeGpuHeal(void);
void fakeGpuHealIfHung(void);
/* As CUDA_LAUNCH_BLOCKING=1 does: the copy of an operation's outcome keeps its caller. */
void fakeGpuLetLaunchesBlock(int block);
/* As if the card had no memory left for a context, the next so many times that one is asked for. */
void fakeGpuFailToOpen(int times);
/* As if the next so many blocks of other processes were on a card that this one does not reach. */
void fakeGpuFailToImport(int times);
/* As if somebody's kernels filled the card: the resident kernel does not come. */
void fakeGpuFill(int full);
/* The first launch of a lazily loaded kernel: it holds the driver's lock until the GPU is idle, and
 * so do cudaFree and cudaFreeHost here. A copy from or to pageable memory holds it until its stream
 * is through with it. */
void fakeGpuLoadModule(void);
/* How much is allocated, and how much of other processes has been mapped so far. */
size_t fakeGpuAllocations(void);
size_t fakeGpuImports(void);

#ifdef __cplusplus
}
#endif

#endif /* FTAR_TESTS_FAKEGPU_FAKE_RUNTIME_H_ */
