#pragma once

/// Embeds a file of the build into the executable, between the symbols NAME_begin and NAME_end. `file` is a string
/// literal. The build lists the file as a dependency of the source file.
#define KEEL_EMBED(name, file)                                                       \
  asm(".section .rodata\n.balign 16\n" #name "_begin:\n.incbin \"" file "\"\n" #name \
      "_end:\n"                                                                      \
      ".global " #name "_begin\n.global " #name "_end\n.text\n");                    \
  extern "C" const char name##_begin[], name##_end[]
