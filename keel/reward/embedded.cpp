#include "keel/reward/embedded.h"

// The build says where the files are: KEEL_WORKER_FILE, KEEL_SANDBOX_FILE.
#define KEEL_EMBED(name, file)                                                       \
  asm(".section .rodata\n.balign 16\n" #name "_begin:\n.incbin \"" file "\"\n" #name \
      "_end:\n"                                                                      \
      ".global " #name "_begin\n.global " #name "_end\n.text\n");                    \
  extern "C" const char name##_begin[], name##_end[]

KEEL_EMBED(keel_worker, KEEL_WORKER_FILE);
KEEL_EMBED(keel_sandbox, KEEL_SANDBOX_FILE);

namespace keel {

std::string_view python_worker() { return {keel_worker_begin, keel_worker_end}; }
std::string_view sandbox_program() { return {keel_sandbox_begin, keel_sandbox_end}; }

}  // namespace keel
