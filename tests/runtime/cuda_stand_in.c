// A stand-in for libcuda.so: memory is the host's, copies are made, and kernels are
// counted and do nothing. It has what IREE 3.13 looks up.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define NOTHING(name) EXPORT int name(void) { return 0; }
#define HANDLE(name) EXPORT int name(void **out) { return made(out); }

static long launches, nodes, graphs, graph_launches, allocations;

static int made(void **out) { *out = malloc(64); return 0; }

// What is not allocated cannot be freed, as with NVIDIA's driver: when a process ends,
// IREE 3.13 gives back what its cache holds a second time.
#define MOST 4096
static void *held[MOST];
static int memory(void **out, size_t size) {
  if (posix_memalign(out, 256, size ? size : 1)) return 2;
  for (int n = 0; n < MOST; n++)
    if (!held[n]) { held[n] = *out; return 0; }
  return 2;
}
static int give_back(void *p) {
  for (int n = 0; n < MOST; n++)
    if (p && held[n] == p) { held[n] = NULL; free(p); return 0; }
  return 1;
}

// ---- host functions run on a thread of their own, in their order
struct job { void (*run)(void *); void *data; struct job *next; };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct job *first, *last;
static int running, started;

static void *work(void *unused) {
  pthread_mutex_lock(&lock);
  for (;;) {
    while (!first) pthread_cond_wait(&changed, &lock);
    struct job *job = first;
    first = job->next;
    if (!first) last = NULL;
    running = 1;
    pthread_mutex_unlock(&lock);
    job->run(job->data);
    free(job);
    pthread_mutex_lock(&lock);
    running = 0;
    pthread_cond_broadcast(&changed);
  }
  return unused;
}

EXPORT int cuLaunchHostFunc(void *stream, void (*run)(void *), void *data) {
  struct job *job = malloc(sizeof(*job));
  *job = (struct job){run, data, NULL};
  pthread_mutex_lock(&lock);
  if (!started) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_detach(thread);
    started = 1;
  }
  if (last) last->next = job; else first = job;
  last = job;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return 0;
}

static int settle(void) {
  pthread_mutex_lock(&lock);
  while (first || running) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  return 0;
}

// ---- the device
EXPORT int cuGetErrorName(int code, const char **out) { *out = "error"; return 0; }
EXPORT int cuGetErrorString(int code, const char **out) { *out = "error"; return 0; }
EXPORT int cuDriverGetVersion(int *out) { *out = 13000; return 0; }
EXPORT int cuDeviceGet(int *out, int ordinal) { *out = ordinal; return 0; }
EXPORT int cuDeviceGetCount(int *out) { *out = 1; return 0; }
EXPORT int cuDeviceGetName(char *out, int size, int device) {
  snprintf(out, size, "stand-in"); return 0;
}
EXPORT int cuDeviceGetUuid(void *out, int device) { memset(out, 7, 16); return 0; }
EXPORT int cuDeviceTotalMem_v2(size_t *out, int device) { *out = 8ul << 30; return 0; }
EXPORT int cuDeviceGetAttribute(int *out, int attribute, int device) {
  switch (attribute) {
    case 75: *out = 9; break;       // compute capability 9.0
    case 76: *out = 0; break;
    case 2: case 3: case 4: *out = 1024; break;
    case 5: case 6: case 7: *out = 1 << 30; break;
    case 10: *out = 32; break;
    case 97: case 8: case 81: *out = 232448; break;
    default: *out = 1;
  }
  return 0;
}
NOTHING(cuInit) NOTHING(cuCtxDestroy) NOTHING(cuDevicePrimaryCtxRelease)
NOTHING(cuCtxSetCurrent) NOTHING(cuCtxPushCurrent)
HANDLE(cuCtxCreate)
HANDLE(cuDevicePrimaryCtxRetain)
HANDLE(cuCtxPopCurrent)

// ---- events and streams
HANDLE(cuEventCreate)
NOTHING(cuEventDestroy) NOTHING(cuEventQuery) NOTHING(cuEventRecord)
EXPORT int cuEventElapsedTime(float *out) { *out = 0; return 0; }
EXPORT int cuEventSynchronize(void *event) { return settle(); }
HANDLE(cuStreamCreate)
NOTHING(cuStreamDestroy) NOTHING(cuStreamWaitEvent)
EXPORT int cuStreamSynchronize(void *stream) { return settle(); }

// ---- memory
EXPORT int cuMemAlloc(void **out, size_t size) { allocations++; return memory(out, size); }
EXPORT int cuMemAllocManaged(void **out, size_t size, unsigned f) {
  allocations++; return memory(out, size);
}
EXPORT int cuMemHostAlloc(void **out, size_t size, unsigned f) {
  allocations++; return memory(out, size);
}
EXPORT int cuMemAllocFromPoolAsync(void **out, size_t size) { return memory(out, size); }
EXPORT int cuMemFree(void *p) { return give_back(p); }
EXPORT int cuMemFreeHost(void *p) { return give_back(p); }
EXPORT int cuMemFreeAsync(void *p, void *stream) { return give_back(p); }
NOTHING(cuMemHostRegister) NOTHING(cuMemHostUnregister) NOTHING(cuMemPrefetchAsync)
EXPORT int cuMemHostGetDevicePointer(void **out, void *p) { *out = p; return 0; }
HANDLE(cuMemPoolCreate)
NOTHING(cuMemPoolDestroy) NOTHING(cuMemPoolSetAccess) NOTHING(cuMemPoolSetAttribute)
NOTHING(cuMemPoolTrimTo)
EXPORT int cuMemPoolGetAttribute(void *pool, int a, uint64_t *out) { *out = 0; return 0; }
EXPORT int cuMemcpyAsync(void *to, const void *from, size_t n) { memmove(to, from, n); return 0; }
EXPORT int cuMemcpyHtoDAsync(void *to, const void *from, size_t n) { memmove(to, from, n); return 0; }
EXPORT int cuMemsetD8Async(void *to, uint8_t x, size_t n) { memset(to, x, n); return 0; }
EXPORT int cuMemsetD16Async(uint16_t *to, uint16_t x, size_t n) { while (n--) *to++ = x; return 0; }
EXPORT int cuMemsetD32Async(uint32_t *to, uint32_t x, size_t n) { while (n--) *to++ = x; return 0; }

// ---- code
HANDLE(cuModuleLoadDataEx)
HANDLE(cuModuleGetFunction)
EXPORT int cuModuleGetGlobal(void **out, size_t *n) { *n = 64; return made(out); }
NOTHING(cuModuleUnload) NOTHING(cuFuncSetAttribute)
EXPORT int cuLaunchKernel(void) { launches++; return 0; }

// ---- graphs
HANDLE(cuGraphCreate)
NOTHING(cuGraphDestroy) NOTHING(cuGraphExecDestroy) NOTHING(cuGraphGetNodes)
HANDLE(cuGraphAddEmptyNode)
HANDLE(cuGraphAddEventRecordNode)
EXPORT int cuGraphAddMemcpyNode(void **out) { nodes++; return made(out); }
EXPORT int cuGraphAddMemsetNode(void **out) { nodes++; return made(out); }
EXPORT int cuGraphAddKernelNode(void **out) { nodes++; return made(out); }
EXPORT int cuGraphInstantiate(void **out) { graphs++; return made(out); }
EXPORT int cuGraphLaunch(void) { graph_launches++; return 0; }

EXPORT int cuGetProcAddress(const char *name, void **out, int version, uint64_t flags) {
  Dl_info own;
  dladdr((void *)cuGetProcAddress, &own);
  void *library = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  *out = dlsym(library, name);
  if (!*out) fprintf(stderr, "no %s\n", name);
  return *out ? 0 : 500;
}

EXPORT void counts(long out[5]) {
  settle();
  long found[] = {launches, nodes, graphs, graph_launches, allocations};
  memcpy(out, found, sizeof(found));
}
