#pragma once

// For kernels with explicit vectors: a template over the vector width, inlined into one function per instruction set.
// (target.h is for loops that the compiler vectorises.)

#define KEEL_INLINE __attribute__((always_inline)) inline

namespace keel::cpu {

template <int Width>
struct Lanes {
  typedef float Vector __attribute__((vector_size(Width * sizeof(float))));
  typedef float InMemory __attribute__((vector_size(Width * sizeof(float)), aligned(4), may_alias));
};

}  // namespace keel::cpu

// KEEL_FOR_EACH_WIDTH(NAME, PARAMETERS, (ARGUMENTS)) defines best_NAME(). It returns the function that calls
// NAME<Width>(ARGUMENTS) with the widest vectors of this machine.
#if defined(__x86_64__)
#define KEEL_FOR_EACH_WIDTH(name, parameters, arguments)                                          \
  __attribute__((target("avx512f"))) static void name##_avx512(parameters) { name<16> arguments; } \
  __attribute__((target("avx2,fma"))) static void name##_avx2(parameters) { name<8> arguments; }   \
  static void name##_baseline(parameters) { name<4> arguments; }                                   \
  static auto best_##name() {                                                                      \
    if (__builtin_cpu_supports("avx512f")) return name##_avx512;                                   \
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return name##_avx2;       \
    return name##_baseline;                                                                        \
  }
#else
#define KEEL_FOR_EACH_WIDTH(name, parameters, arguments)           \
  static void name##_baseline(parameters) { name<4> arguments; }   \
  static auto best_##name() { return name##_baseline; }
#endif
