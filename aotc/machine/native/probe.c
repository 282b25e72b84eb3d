/* aotc-probe: what this Linux machine has, as JSON (schema "aotc.device/1").
 *
 * The same object as aotc/machine/device.py gives, for devices without Python; the fields and
 * the order of the features (LLVM names, sorted) are the same, and a test compares the
 * two. Here the CPU itself is asked where it can be: CPUID and XGETBV on x86-64, the
 * auxiliary vector elsewhere. What cannot be found out is null.
 */

#define _GNU_SOURCE

#include <dlfcn.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { MAX_FEATURES = 64, MAX_TEXT = 256, MAX_CPUS = 4096 };
enum { MAX_NODES = 256, MAX_BANKS = 16 };

#ifndef CGROUPS
#define CGROUPS "/sys/fs/cgroup"
#endif

/* Where the kernel's compute driver for AMD GPUs describes them. */
#ifndef KFD_NODES
#define KFD_NODES "/sys/class/kfd/kfd/topology/nodes"
#endif

typedef struct {
  const char *names[MAX_FEATURES];
  int count;
} Features;

/* ---- CPU features: one table per architecture, sorted by name ------------------ */

#if defined(__x86_64__)

#include <cpuid.h>

typedef enum { LEAF_1, LEAF_7_0, LEAF_7_1, LEAF_EXTENDED, LEAVES } Leaf;
typedef enum { EAX, EBX, ECX, EDX, REGISTERS } Register;

/* Register state that the operating system must save for a feature to be usable. */
enum { ANY = 0, AVX = 0x6, AVX512 = 0xE6, AMX = 0x60000 };

typedef struct {
  const char *name;
  Leaf leaf;
  Register reg;
  unsigned bit;
  uint64_t state;
} X86Feature;

static const X86Feature X86_FEATURES[] = {
    {"adx", LEAF_7_0, EBX, 19, ANY},
    {"aes", LEAF_1, ECX, 25, ANY},
    {"amx-bf16", LEAF_7_0, EDX, 22, AMX},
    {"amx-int8", LEAF_7_0, EDX, 25, AMX},
    {"amx-tile", LEAF_7_0, EDX, 24, AMX},
    {"avx", LEAF_1, ECX, 28, AVX},
    {"avx2", LEAF_7_0, EBX, 5, AVX},
    {"avx512bf16", LEAF_7_1, EAX, 5, AVX512},
    {"avx512bitalg", LEAF_7_0, ECX, 12, AVX512},
    {"avx512bw", LEAF_7_0, EBX, 30, AVX512},
    {"avx512cd", LEAF_7_0, EBX, 28, AVX512},
    {"avx512dq", LEAF_7_0, EBX, 17, AVX512},
    {"avx512f", LEAF_7_0, EBX, 16, AVX512},
    {"avx512fp16", LEAF_7_0, EDX, 23, AVX512},
    {"avx512ifma", LEAF_7_0, EBX, 21, AVX512},
    {"avx512vbmi", LEAF_7_0, ECX, 1, AVX512},
    {"avx512vbmi2", LEAF_7_0, ECX, 6, AVX512},
    {"avx512vl", LEAF_7_0, EBX, 31, AVX512},
    {"avx512vnni", LEAF_7_0, ECX, 11, AVX512},
    {"avx512vpopcntdq", LEAF_7_0, ECX, 14, AVX512},
    {"avxvnni", LEAF_7_1, EAX, 4, AVX},
    {"bmi", LEAF_7_0, EBX, 3, ANY},
    {"bmi2", LEAF_7_0, EBX, 8, ANY},
    {"cmov", LEAF_1, EDX, 15, ANY},
    {"crc32", LEAF_1, ECX, 20, ANY}, /* the bit of SSE4.2, which brings it */
    {"cx16", LEAF_1, ECX, 13, ANY},
    {"cx8", LEAF_1, EDX, 8, ANY},
    {"f16c", LEAF_1, ECX, 29, AVX},
    {"fma", LEAF_1, ECX, 12, AVX},
    {"fma4", LEAF_EXTENDED, ECX, 16, AVX},
    {"fxsr", LEAF_1, EDX, 24, ANY},
    {"gfni", LEAF_7_0, ECX, 8, ANY},
    {"lzcnt", LEAF_EXTENDED, ECX, 5, ANY},
    {"mmx", LEAF_1, EDX, 23, ANY},
    {"movbe", LEAF_1, ECX, 22, ANY},
    {"pclmul", LEAF_1, ECX, 1, ANY},
    {"popcnt", LEAF_1, ECX, 23, ANY},
    {"sahf", LEAF_EXTENDED, ECX, 0, ANY},
    {"sha", LEAF_7_0, EBX, 29, ANY},
    {"sse", LEAF_1, EDX, 25, ANY},
    {"sse2", LEAF_1, EDX, 26, ANY},
    {"sse3", LEAF_1, ECX, 0, ANY},
    {"sse4.1", LEAF_1, ECX, 19, ANY},
    {"sse4.2", LEAF_1, ECX, 20, ANY},
    {"sse4a", LEAF_EXTENDED, ECX, 6, ANY},
    {"ssse3", LEAF_1, ECX, 9, ANY},
    {"vaes", LEAF_7_0, ECX, 9, AVX},
    {"vpclmulqdq", LEAF_7_0, ECX, 10, AVX},
    {"x87", LEAF_1, EDX, 0, ANY},
    {"xop", LEAF_EXTENDED, ECX, 11, AVX},
    {"xsave", LEAF_1, ECX, 26, ANY},
};

static void read_leaf(unsigned leaf, unsigned subleaf, unsigned regs[REGISTERS]) {
  memset(regs, 0, REGISTERS * sizeof regs[0]);
  __get_cpuid_count(leaf, subleaf, &regs[EAX], &regs[EBX], &regs[ECX], &regs[EDX]);
}

/* XCR0: which registers the operating system saves; 0 without OSXSAVE. */
static uint64_t saved_state(const unsigned leaf_1[REGISTERS]) {
  if (!(leaf_1[ECX] >> 27 & 1)) return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

/* Of the CPU that this runs on. */
static Features cpu_features_here(void) {
  unsigned leaves[LEAVES][REGISTERS];
  read_leaf(1, 0, leaves[LEAF_1]);
  read_leaf(7, 0, leaves[LEAF_7_0]);
  /* EAX of leaf 7 is its highest subleaf; a higher one answers with other data. */
  memset(leaves[LEAF_7_1], 0, sizeof leaves[LEAF_7_1]);
  if (leaves[LEAF_7_0][EAX] >= 1) read_leaf(7, 1, leaves[LEAF_7_1]);
  read_leaf(0x80000001u, 0, leaves[LEAF_EXTENDED]);
  const uint64_t saved = saved_state(leaves[LEAF_1]);

  Features found = {.count = 0};
  for (size_t i = 0; i < sizeof X86_FEATURES / sizeof X86_FEATURES[0]; ++i) {
    const X86Feature *f = &X86_FEATURES[i];
    const bool present = leaves[f->leaf][f->reg] >> f->bit & 1;
    if (present && (saved & f->state) == f->state) found.names[found.count++] = f->name;
  }
  return found;
}

static Features common(const Features *a, const Features *b) {
  Features found = {.count = 0};
  for (int i = 0; i < a->count; ++i)
    for (int j = 0; j < b->count; ++j)
      if (a->names[i] == b->names[j]) found.names[found.count++] = a->names[i];
  return found;
}

/* What all CPUs have: a program may be moved from one to another. */
static Features cpu_features(void) {
  Features found = cpu_features_here();
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return found;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) continue;
    const Features here = cpu_features_here();
    found = common(&found, &here);
  }
  sched_setaffinity(0, sizeof allowed, &allowed);
  return found;
}

#else

typedef struct {
  const char *name;
  unsigned long entry;
  unsigned bit;
} HwcapFeature;

static const HwcapFeature HWCAP_FEATURES[] = {
#if defined(__aarch64__)
    {"aes", AT_HWCAP, 3},       {"bf16", AT_HWCAP2, 14},
    {"crc", AT_HWCAP, 7},       {"dotprod", AT_HWCAP, 20},
    {"f32mm", AT_HWCAP2, 10},   {"f64mm", AT_HWCAP2, 11},
    {"fp-armv8", AT_HWCAP, 0},  {"fp16fml", AT_HWCAP, 23},
    {"fullfp16", AT_HWCAP, 10}, {"i8mm", AT_HWCAP2, 13},
    {"lse", AT_HWCAP, 8},       {"neon", AT_HWCAP, 1},
    {"rdm", AT_HWCAP, 12},      {"sme", AT_HWCAP2, 23},
    {"sme2", AT_HWCAP2, 37},    {"sve", AT_HWCAP, 22},
    {"sve2", AT_HWCAP2, 1},     {"sve2-bitperm", AT_HWCAP2, 4},
#elif defined(__riscv)
    {"a", AT_HWCAP, 'a' - 'a'}, {"c", AT_HWCAP, 'c' - 'a'},
    {"d", AT_HWCAP, 'd' - 'a'}, {"f", AT_HWCAP, 'f' - 'a'},
    {"m", AT_HWCAP, 'm' - 'a'}, {"v", AT_HWCAP, 'v' - 'a'},
#endif
    {NULL, 0, 0},
};

static Features cpu_features(void) {
  Features found = {.count = 0};
  for (const HwcapFeature *f = HWCAP_FEATURES; f->name; ++f)
    if (getauxval(f->entry) >> f->bit & 1) found.names[found.count++] = f->name;
  return found;
}

#endif

/* ---- CPU level: the best CPU target of aotc/machine/target.py that this machine runs ---- */

typedef struct {
  const char *name, *arch, *features;
} Level;

/* From the most demanding to the least; features with a space after each. */
#define V2 "cx16 popcnt sahf sse3 sse4.1 sse4.2 ssse3 "
#define V3 V2 "avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave "
#define V4 V3 "avx512bw avx512cd avx512dq avx512f avx512vl "
static const Level LEVELS[] = {
    {"x86_64-v4-dot", "x86_64", V4 "avx512bf16 avx512vnni "},
    {"x86_64-v4", "x86_64", V4},
    {"x86_64-v3-dot", "x86_64", V3 "avxvnni "},
    {"x86_64-v3", "x86_64", V3},
    {"x86_64-v2", "x86_64", V2},
    {"aarch64-v8.6", "aarch64", "bf16 dotprod fp-armv8 fullfp16 i8mm neon "},
    {"aarch64-v8.2", "aarch64", "dotprod fp-armv8 fullfp16 neon "},
};

static bool has(const Features *features, const char *name, size_t length) {
  for (int i = 0; i < features->count; ++i)
    if (strlen(features->names[i]) == length &&
        memcmp(features->names[i], name, length) == 0)
      return true;
  return false;
}

static bool has_all(const Features *features, const char *names) {
  for (const char *end; (end = strchr(names, ' ')); names = end + 1)
    if (!has(features, names, (size_t)(end - names))) return false;
  return true;
}

static const char *cpu_level(const Features *features, const char *arch) {
  for (size_t i = 0; i < sizeof LEVELS / sizeof LEVELS[0]; ++i)
    if (strcmp(LEVELS[i].arch, arch) == 0 && has_all(features, LEVELS[i].features))
      return LEVELS[i].name;
  return arch;
}

/* ---- Files of the kernel --------------------------------------------------------- */

static bool read_text(const char *path, char text[MAX_TEXT]) {
  FILE *file = fopen(path, "r");
  if (!file) return false;
  const size_t length = fread(text, 1, MAX_TEXT - 1, file);
  fclose(file);
  text[length] = '\0';
  text[strcspn(text, "\n")] = '\0';
  return length > 0;
}

static bool cpu_model(char text[MAX_TEXT]) {
  char line[4096];
  bool found = false;
  FILE *file = fopen("/proc/cpuinfo", "r");
  while (file && !found && fgets(line, sizeof line, file))
    found = sscanf(line, "model name : %255[^\n]", text) == 1;
  if (file) fclose(file);
  return found || read_text("/sys/firmware/devicetree/base/model", text);
}

/* CPUs that share a core list the same siblings: count those that come first. */
static long physical_cores(void) {
  char path[MAX_TEXT], text[MAX_TEXT];
  long cores = 0;
  for (int cpu = 0; cpu < MAX_CPUS; ++cpu) {
    int first;
    snprintf(path, sizeof path,
             "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    if (!read_text(path, text) || sscanf(text, "%d", &first) != 1) continue;
    if (first == cpu) ++cores;
  }
  return cores;
}

/* Size of the cache that holds data at `level`, or -1. */
static long cache_bytes(int level) {
  char path[MAX_TEXT], text[MAX_TEXT];
  for (int index = 0; index < 10; ++index) {
    const char *const base = "/sys/devices/system/cpu/cpu0/cache/index";
    int found;
    long kilobytes;
    snprintf(path, sizeof path, "%s%d/level", base, index);
    if (!read_text(path, text) || sscanf(text, "%d", &found) != 1 || found != level)
      continue;
    snprintf(path, sizeof path, "%s%d/type", base, index);
    if (!read_text(path, text) || strcmp(text, "Instruction") == 0) continue;
    snprintf(path, sizeof path, "%s%d/size", base, index);
    if (read_text(path, text) && sscanf(text, "%ldK", &kilobytes) == 1)
      return kilobytes * 1024;
  }
  return -1;
}

/* What there is, or what the container may have of it if that is less. */
static long memory_bytes(void) {
  static const char *const LIMITS[] = {
      CGROUPS "/memory.max", /* of control groups, version 2 and 1 */
      CGROUPS "/memory/memory.limit_in_bytes",
  };
  long memory = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE);
  for (size_t i = 0; i < sizeof LIMITS / sizeof LIMITS[0]; ++i) {
    char text[MAX_TEXT];
    unsigned long long limit;
    if (read_text(LIMITS[i], text) && sscanf(text, "%llu", &limit) == 1 &&
        limit < (unsigned long long)memory)
      memory = (long)limit;
  }
  return memory;
}

/* ---- JSON ------------------------------------------------------------------------ */

static void put_text(const char *text) {
  putchar('"');
  for (; *text; ++text) {
    if (*text == '"' || *text == '\\') putchar('\\');
    if ((unsigned char)*text >= ' ') putchar(*text);
  }
  putchar('"');
}

static void put_number(const char *key, long value, const char *after) {
  printf("\"%s\": ", key);
  if (value > 0) printf("%ld", value);
  else printf("null");
  printf("%s", after);
}

static void put_bytes(const char *key, unsigned long long value, const char *after) {
  printf("\"%s\": ", key);
  if (value > 0) printf("%llu", value);
  else printf("null");
  printf("%s", after);
}

/* ---- Drivers --------------------------------------------------------------------- */

/* POSIX gives functions as object pointers, which ISO C does not convert. */
#define LOAD(library, function) (*(void **)&(function) = dlsym(library, #function))

static void put_cuda(void) {
  int (*cuDriverGetVersion)(int *) = NULL, (*cuInit)(unsigned) = NULL;
  int (*cuDeviceGetCount)(int *) = NULL, (*cuDeviceGet)(int *, int) = NULL;
  int (*cuDeviceGetName)(char *, int, int) = NULL;
  int (*cuDeviceGetAttribute)(int *, int, int) = NULL;
  int (*cuDeviceTotalMem_v2)(size_t *, int) = NULL;
  int version = 0, count = 0;

  void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
  const bool complete =
      cuda && LOAD(cuda, cuDriverGetVersion) && LOAD(cuda, cuInit) &&
      LOAD(cuda, cuDeviceGetCount) && LOAD(cuda, cuDeviceGet) &&
      LOAD(cuda, cuDeviceGetName) && LOAD(cuda, cuDeviceGetAttribute) &&
      LOAD(cuda, cuDeviceTotalMem_v2);
  if (!complete || cuDriverGetVersion(&version) != 0) {
    printf("null");
    return;
  }
  /* A driver without a usable GPU fails here; its version is worth reporting still. */
  if (cuInit(0) == 0) cuDeviceGetCount(&count);
  printf("{\"driver_api\": %d, \"devices\": [", version);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    char name[MAX_TEXT] = "";
    int device = 0, major = 0, minor = 0;
    size_t memory = 0;
    cuDeviceGet(&device, ordinal);
    cuDeviceGetName(name, sizeof name, device);
    /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR */
    cuDeviceGetAttribute(&major, 75, device);
    cuDeviceGetAttribute(&minor, 76, device);
    cuDeviceTotalMem_v2(&memory, device);
    printf("%s{\"name\": ", ordinal ? ", " : "");
    put_text(name);
    printf(", \"sm\": \"sm_%d%d\", ", major, minor);
    put_bytes("memory_bytes", memory, "}");
  }
  printf("]}");
}

enum { VULKAN_1_1 = 1 << 22 | 1 << 12, VULKAN_1_3 = 1 << 22 | 3 << 12 };
enum { MAX_VULKAN_DEVICES = 64 };

/* Vulkan's structures, as far as they are used; the last fields of `Properties` and
 * `Features` are longer than what Vulkan writes there. */
typedef struct {
  uint32_t type;
  const void *next;
  const char *name;
  uint32_t version;
  const char *engine;
  uint32_t engine_version, api;
} ApplicationInfo;

typedef struct {
  uint32_t type;
  const void *next;
  uint32_t flags;
  const ApplicationInfo *application;
  uint32_t layer_count;
  const char *const *layers;
  uint32_t extension_count;
  const char *const *extensions;
} InstanceInfo;

typedef struct {
  uint32_t api, driver, vendor, device, type;
  char name[256];
  uint64_t rest[256];
} Properties;

typedef struct {
  uint32_t type_count;
  struct {
    uint32_t flags, heap;
  } types[32];
  uint32_t heap_count;
  struct {
    uint64_t size;
    uint32_t flags;
  } heaps[16];
} MemoryProperties;

enum { DEVICE_LOCAL = 1 }; /* of a heap of memory: the device's own */

typedef struct {
  uint32_t type;
  void *next;
  uint32_t offered[4];
} SomeFeatures;

typedef struct {
  uint32_t type;
  void *next;
  uint32_t offered[256];
} VulkanFeatures;

/* VkStructureType of structures, and what they tell one after the other: features that
 * IREE's driver wants, and those that code may use. */
static const struct {
  uint32_t type;
  const char *names[2];
} VULKAN_FEATURES[] = {
    {1000221000, {"scalarBlockLayout"}},
    {1000314007, {"synchronization2"}},
    {1000207000, {"timelineSemaphore"}},
    {1000083000,
     {"storageBuffer16BitAccess", "uniformAndStorageBuffer16BitAccess"}},
    {1000177000, {"storageBuffer8BitAccess", "uniformAndStorageBuffer8BitAccess"}},
    {1000082000, {"shaderFloat16", "shaderInt8"}},
};
enum { VULKAN_FEATURE_COUNT = sizeof VULKAN_FEATURES / sizeof VULKAN_FEATURES[0] };

/* The same of VkPhysicalDeviceFeatures. */
static const struct {
  int place;
  const char *name;
} CORE_FEATURES[] = {{39, "shaderFloat64"}, {40, "shaderInt64"}, {41, "shaderInt16"}};
enum { CORE_FEATURE_COUNT = sizeof CORE_FEATURES / sizeof CORE_FEATURES[0] };

static void put_vulkan_version(uint32_t word) {
  printf("\"api\": \"%u.%u.%u\"", word >> 22 & 0x7F, word >> 12 & 0x3FF,
         word & 0xFFF);
}

/* Puts the name of a feature, if it is offered; returns how many are put by now. */
static int put_vulkan_feature(uint32_t offered, const char *name, int count) {
  if (!offered || !name) return count;
  printf("%s\"%s\"", count ? ", " : "", name);
  return count + 1;
}

static void put_vulkan_features(void *vulkan, void *device) {
  void (*vkGetPhysicalDeviceFeatures2)(void *, VulkanFeatures *) = NULL;
  SomeFeatures told[VULKAN_FEATURE_COUNT] = {0};
  VulkanFeatures asked = {.type = 1000059000};
  if (!LOAD(vulkan, vkGetPhysicalDeviceFeatures2)) return;
  for (int i = 0; i < VULKAN_FEATURE_COUNT; ++i) {
    told[i] = (SomeFeatures){.type = VULKAN_FEATURES[i].type, .next = asked.next};
    asked.next = &told[i];
  }
  vkGetPhysicalDeviceFeatures2(device, &asked);
  int count = 0;
  for (int i = 0; i < VULKAN_FEATURE_COUNT; ++i)
    for (int j = 0; j < 2; ++j)
      count = put_vulkan_feature(told[i].offered[j], VULKAN_FEATURES[i].names[j], count);
  for (int i = 0; i < CORE_FEATURE_COUNT; ++i)
    count = put_vulkan_feature(asked.offered[CORE_FEATURES[i].place],
                               CORE_FEATURES[i].name, count);
}

/* The device's own memory; of a GPU that shares the computer's, its part of that. */
static unsigned long long vulkan_memory(void *vulkan, void *device) {
  void (*vkGetPhysicalDeviceMemoryProperties)(void *, MemoryProperties *) = NULL;
  MemoryProperties memory = {0};
  unsigned long long bytes = 0;
  if (!LOAD(vulkan, vkGetPhysicalDeviceMemoryProperties)) return 0;
  vkGetPhysicalDeviceMemoryProperties(device, &memory);
  for (uint32_t i = 0; i < memory.heap_count; ++i)
    if (memory.heaps[i].flags & DEVICE_LOCAL) bytes += memory.heaps[i].size;
  return bytes;
}

/* In the order of the loader, which is the order that IREE chooses in. */
static void put_vulkan_devices(void *vulkan) {
  int (*vkCreateInstance)(const InstanceInfo *, const void *, void **) = NULL;
  int (*vkEnumeratePhysicalDevices)(void *, uint32_t *, void **) = NULL;
  void (*vkGetPhysicalDeviceProperties)(void *, Properties *) = NULL;
  void (*vkDestroyInstance)(void *, const void *) = NULL;
  const ApplicationInfo application = {.api = VULKAN_1_3};
  const InstanceInfo create = {.type = 1, .application = &application};
  void *instance = NULL, *devices[MAX_VULKAN_DEVICES];
  uint32_t count = MAX_VULKAN_DEVICES;

  const bool complete = LOAD(vulkan, vkCreateInstance) &&
                        LOAD(vulkan, vkEnumeratePhysicalDevices) &&
                        LOAD(vulkan, vkGetPhysicalDeviceProperties) &&
                        LOAD(vulkan, vkDestroyInstance);
  if (!complete || vkCreateInstance(&create, NULL, &instance) != 0) return;
  if (vkEnumeratePhysicalDevices(instance, &count, devices) < 0) count = 0;
  for (uint32_t i = 0; i < count; ++i) {
    Properties properties = {0};
    vkGetPhysicalDeviceProperties(devices[i], &properties);
    printf("%s{\"name\": ", i ? ", " : "");
    put_text(properties.name);
    printf(", ");
    put_vulkan_version(properties.api);
    printf(", \"features\": [");
    if (properties.api >= VULKAN_1_1) put_vulkan_features(vulkan, devices[i]);
    printf("], ");
    put_bytes("memory_bytes", vulkan_memory(vulkan, devices[i]), "}");
  }
  vkDestroyInstance(instance, NULL);
}

static void put_vulkan(void) {
  int (*vkEnumerateInstanceVersion)(uint32_t *) = NULL;
  uint32_t word = 1u << 22; /* Vulkan 1.0 has no such function. */
  bool versioned = false;

  void *vulkan = dlopen("libvulkan.so.1", RTLD_NOW);
  if (!vulkan) vulkan = dlopen("libvulkan.so", RTLD_NOW); /* as on Android */
  if (!vulkan) {
    printf("null");
    return;
  }
  if (LOAD(vulkan, vkEnumerateInstanceVersion))
    versioned = vkEnumerateInstanceVersion(&word) == 0;
  printf("{");
  put_vulkan_version(word);
  printf(", \"devices\": [");
  if (versioned) put_vulkan_devices(vulkan);
  printf("]}");
}

/* The number behind `key` in a file of the compute driver; 0 if there is none. */
static unsigned long long property(const char *path, const char *key) {
  char line[MAX_TEXT], name[MAX_TEXT];
  unsigned long long value, found = 0;
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "%255s %llu", name, &value) == 2 && strcmp(name, key) == 0)
      found = value;
  if (file) fclose(file);
  return found;
}

/* The AMD GPU's own memory, visible to the CPU (1) or not (2). */
static unsigned long long kfd_memory(int node) {
  char path[MAX_TEXT];
  unsigned long long bytes = 0;
  for (int bank = 0; bank < MAX_BANKS; ++bank) {
    snprintf(path, sizeof path, KFD_NODES "/%d/mem_banks/%d/properties", node, bank);
    const unsigned long long kind = property(path, "heap_type");
    if (kind == 1 || kind == 2) bytes += property(path, "size_in_bytes");
  }
  return bytes;
}

/* The driver numbers processors as major, minor and stepping: 90402 is gfx942, and
 * 90010 is gfx90a. A node with the number 0 is a CPU. */
static void put_rocm(void) {
  char path[MAX_TEXT], name[MAX_TEXT];
  int count = 0;
  if (access(KFD_NODES, R_OK) != 0) {
    printf("null");
    return;
  }
  printf("{\"devices\": [");
  for (int node = 0; node < MAX_NODES; ++node) {
    snprintf(path, sizeof path, KFD_NODES "/%d/properties", node);
    const unsigned gfx = (unsigned)property(path, "gfx_target_version");
    if (!gfx) continue;
    printf("%s{\"name\": ", count++ ? ", " : "");
    snprintf(path, sizeof path, KFD_NODES "/%d/name", node);
    if (read_text(path, name)) put_text(name);
    else printf("null");
    printf(", \"gfx\": \"gfx%u%x%x\", ", gfx / 10000, gfx / 100 % 100, gfx % 100);
    put_bytes("memory_bytes", kfd_memory(node), "}");
  }
  /* What IREE's driver `hip` loads, without which it runs nothing on them. */
  const bool hip = count && dlopen("libamdhip64.so", RTLD_NOW);
  printf("], \"hip\": %s}", hip ? "true" : "false");
}

/* ---- The object ------------------------------------------------------------------ */

static void put_cpu(const char *arch) {
  const Features features = cpu_features();
  char model[MAX_TEXT];
  printf("{\n    \"model\": ");
  if (cpu_model(model)) put_text(model);
  else printf("null");
  printf(",\n    \"features\": [");
  for (int i = 0; i < features.count; ++i)
    printf("%s\"%s\"", i ? ", " : "", features.names[i]);
  printf("],\n    \"level\": \"%s\",\n    ", cpu_level(&features, arch));
  put_number("cores_logical", sysconf(_SC_NPROCESSORS_ONLN), ",\n    ");
  put_number("cores_physical", physical_cores(), ",\n    \"caches\": {");
  put_number("l1d", cache_bytes(1), ", ");
  put_number("l2", cache_bytes(2), ", ");
  put_number("l3", cache_bytes(3), "}\n  }");
}

int main(void) {
  struct utsname system;
  if (uname(&system) != 0) {
    perror("uname");
    return 1;
  }
  printf("{\n  \"schema\": \"aotc.device/1\",\n  \"os\": {\"name\": \"linux\", ");
  printf("\"release\": ");
  put_text(system.release);
  printf("},\n  \"arch\": ");
  put_text(system.machine);
  printf(",\n  \"cpu\": ");
  put_cpu(system.machine);
  printf(",\n  \"memory\": {");
  put_number("total_bytes", memory_bytes(), "},\n");
  printf("  \"cuda\": ");
  put_cuda();
  printf(",\n  \"vulkan\": ");
  put_vulkan();
  printf(",\n  \"rocm\": ");
  put_rocm();
  printf("\n}\n");
  return 0;
}
