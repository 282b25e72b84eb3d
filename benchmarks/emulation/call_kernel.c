// Calls one kernel of a library that IREE's compiler made, on memory from a file.
//
//   call_kernel FILE RESULTS SHARES SIZE…
//
// FILE holds the bindings of the kernel, one after the other, of so many bytes each;
// the last RESULTS of them are written to standard output after SHARES workgroups ran.
// Exits with 3 if the kernel wrote beyond a binding, 4 if it reports an error. The
// interface is that of iree/hal/local/executable_library.h, version 0.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, GUARD = 64, MARK = 0x5a };

struct dispatch {
  uint32_t size_x, size_y;
  uint16_t size_z, constant_count;
  uint32_t count_x, count_y;
  uint16_t count_z;
  uint8_t concurrency, binding_count;
  const uint32_t *constants;
  void *const *bindings;
  const size_t *lengths;
};

struct workgroup {
  uint32_t x, y;
  uint16_t z, reserved;
  uint32_t processor;
  void *local_memory;
  uint32_t local_memory_size;
};

struct environment {
  const uint32_t *constants;
  void *import_thunk;
  void *const *imports;
  uint64_t processor[8];
};

// the kernel, under a name of C
extern int kernel(const struct environment *, const struct dispatch *,
                  const struct workgroup *) __asm__(KERNEL);

int main(int argc, char **argv) {
  int count = argc - 4, results = atoi(argv[2]), shares = atoi(argv[3]);
  unsigned char *bindings[MOST];
  size_t lengths[MOST];
  FILE *file = fopen(argv[1], "rb");
  if (!file || count > MOST) return 2;
  for (int n = 0; n < count; ++n) {
    lengths[n] = strtoul(argv[4 + n], 0, 10);
    size_t whole = (lengths[n] + GUARD + 63) / 64 * 64;
    bindings[n] = aligned_alloc(64, whole);
    memset(bindings[n], MARK, whole);
    if (fread(bindings[n], 1, lengths[n], file) != lengths[n]) return 2;
  }
  struct environment environment = {0};
  struct dispatch dispatch = {.size_x = 1,
                              .size_y = 1,
                              .size_z = 1,
                              .count_x = (uint32_t)shares,
                              .count_y = 1,
                              .count_z = 1,
                              .concurrency = 1,
                              .binding_count = (uint8_t)count,
                              .bindings = (void *const *)bindings,
                              .lengths = lengths};
  for (int share = 0; share < shares; ++share) {
    struct workgroup workgroup = {.x = (uint32_t)share};
    if (kernel(&environment, &dispatch, &workgroup)) return 4;
  }
  for (int n = 0; n < count; ++n)
    for (int k = 0; k < GUARD; ++k)
      if (bindings[n][lengths[n] + k] != MARK) return 3;
  for (int n = count - results; n < count; ++n)
    fwrite(bindings[n], 1, lengths[n], stdout);
  return 0;
}
