#!/bin/sh
# Builds the fuzz targets with clang: fuzz/build.sh TARGET... leaves build-fuzz/TARGET (all of them without an argument).
# Only Keel's own sources carry the sanitizers; LibTorch is linked as it is. KEEL_TORCH or python3 says where it lies.
set -eu
cd "$(dirname "$0")/.."
torch=${KEEL_TORCH:-$(scripts/python.sh -c 'import os, torch; print(os.path.dirname(torch.__file__))')}
flags="-std=c++20 -O2 -g1 -fno-omit-frame-pointer -fno-sanitize-recover=undefined -I. -isystem $torch/include"
checks=address,undefined
mkdir -p build-fuzz/objects

sources() {
  case $1 in
    gguf_fuzz) echo fuzz/gguf_fuzz.cpp keel/core/limits.cpp keel/model/gguf.cpp keel/model/gguf_header.cpp \
      keel/model/gguf_model.cpp keel/model/gguf_quants.cpp keel/model/gguf_rope.cpp keel/model/gguf_tokenizer.cpp ;;
    safetensors_fuzz) echo fuzz/safetensors_fuzz.cpp keel/model/safetensors.cpp ;;
    *) echo "fuzz/build.sh: no target $1; known are gguf_fuzz safetensors_fuzz" >&2; exit 2 ;;
  esac
}

for target in ${*:-gguf_fuzz safetensors_fuzz}; do
  objects=
  for source in fuzz/memory_file.cpp keel/core/foreign_text.cpp $(sources "$target"); do
    object=build-fuzz/objects/$(echo "$source" | tr / _).o
    clang++ $flags -fsanitize=fuzzer-no-link,$checks -fno-sanitize=vptr -c "$source" -o "$object"
    objects="$objects $object"
  done
  clang++ -fsanitize=fuzzer,$checks $objects -L"$torch/lib" -ltorch_cpu -lc10 -Wl,-rpath,"$torch/lib" \
    -o "build-fuzz/$target"
done
