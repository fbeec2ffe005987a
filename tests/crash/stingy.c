// A C library that keeps to its word and to no more: put before the real one (LD_PRELOAD), it lets reads and writes in
// the files below $STINGY_FOLDER do only part of what was asked for, or be interrupted (EINTR) before they did anything.
// $STINGY_SEED draws where; the counts are left in $STINGY_REPORT.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned state;
static long shortened, interrupted;

__attribute__((constructor)) static void start(void) {
  const char* seed = getenv("STINGY_SEED");
  state = seed ? (unsigned)atol(seed) * 2654435761u + 1u : 1u;
}

__attribute__((destructor)) static void report(void) {
  const char* path = getenv("STINGY_REPORT");
  FILE* file = path ? fopen(path, "w") : NULL;
  if (file == NULL) return;
  fprintf(file, "shortened %ld\ninterrupted %ld\n", shortened, interrupted);
  fclose(file);
}

static unsigned draw(void) {  // xorshift
  unsigned x = __atomic_load_n(&state, __ATOMIC_RELAXED);
  x ^= x << 13, x ^= x >> 17, x ^= x << 5;
  __atomic_store_n(&state, x, __ATOMIC_RELAXED);
  return x;
}

static int is_ours(int descriptor) {
  const char* folder = getenv("STINGY_FOLDER");
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  const ssize_t length = folder ? readlink(link, path, sizeof(path) - 1) : -1;
  if (length < 0) return 0;
  path[length] = '\0';
  return strncmp(path, folder, strlen(folder)) == 0;
}

static int is_interrupted(int descriptor) {
  if (!is_ours(descriptor) || draw() % 4 != 0) return 0;
  __atomic_add_fetch(&interrupted, 1, __ATOMIC_RELAXED);
  errno = EINTR;
  return 1;
}

static size_t less_of(int descriptor, size_t size) {
  if (size < 2 || !is_ours(descriptor) || draw() % 2 != 0) return size;
  __atomic_add_fetch(&shortened, 1, __ATOMIC_RELAXED);
  return 1 + draw() % (size - 1);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int descriptor, const void* bytes, size_t size) {
  return is_interrupted(descriptor) ? -1 : REAL(write)(descriptor, bytes, less_of(descriptor, size));
}

ssize_t read(int descriptor, void* bytes, size_t size) {
  return is_interrupted(descriptor) ? -1 : REAL(read)(descriptor, bytes, less_of(descriptor, size));
}

ssize_t pread(int descriptor, void* bytes, size_t size, off_t offset) {
  return is_interrupted(descriptor) ? -1 : REAL(pread)(descriptor, bytes, less_of(descriptor, size), offset);
}

ssize_t pread64(int descriptor, void* bytes, size_t size, off64_t offset) {
  return is_interrupted(descriptor) ? -1 : REAL(pread64)(descriptor, bytes, less_of(descriptor, size), offset);
}

int fsync(int descriptor) { return is_interrupted(descriptor) ? -1 : REAL(fsync)(descriptor); }

int ftruncate(int descriptor, off_t size) { return is_interrupted(descriptor) ? -1 : REAL(ftruncate)(descriptor, size); }

int ftruncate64(int descriptor, off64_t size) {
  return is_interrupted(descriptor) ? -1 : REAL(ftruncate64)(descriptor, size);
}
