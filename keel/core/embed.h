#pragma once

/// A file of the build that travels inside the program: NAME_begin and NAME_end are the ends of its bytes. `file` is a
/// text that is known to the compiler; the build names the file as one that the source depends on.
#define KEEL_EMBED(name, file)                                                       \
  asm(".section .rodata\n.balign 16\n" #name "_begin:\n.incbin \"" file "\"\n" #name \
      "_end:\n"                                                                      \
      ".global " #name "_begin\n.global " #name "_end\n.text\n");                    \
  extern "C" const char name##_begin[], name##_end[]
