#pragma once

// Each kernel is compiled for several x86 instruction sets and the loader picks the best one of the machine; elsewhere
// the compiler's baseline is already wide enough (NEON on aarch64).
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define KEEL_CPU_KERNEL __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define KEEL_CPU_KERNEL
#endif
