#!/bin/sh
# Builds the fuzz targets with clang: fuzz/build.sh TARGET... leaves build-fuzz/TARGET (all of them without an argument).
# Only Keel's own sources carry the sanitizers. All but safetensors_fuzz need nothing but libc where they run; that one
# is linked with LibTorch, and KEEL_TORCH or python3 says where it lies.
set -eu
cd "$(dirname "$0")/.."
all="gguf_fuzz safetensors_fuzz tokenizer_json_fuzz chat_template_fuzz math_verifier_fuzz data_rows_fuzz"
# Counters of edges without traces of comparisons, which take half of the time: the dictionaries know the words.
flags="-std=c++20 -O2 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize=vptr
  -fno-sanitize-recover=undefined -fsanitize-coverage=inline-8bit-counters,pc-table -DKEEL_HAS_TOKENIZERS -I."
files="keel/core/file.cpp keel/core/foreign_text.cpp keel/core/json_file.cpp"
mkdir -p build-fuzz/objects

# The sources of a target; what else it is compiled and linked with goes to `headers` and `libraries`.
choose() {
  headers= libraries=
  case $1 in
    gguf_fuzz) headers="-isystem fuzz/tensor"
      sources="fuzz/memory_file.cpp keel/core/foreign_text.cpp keel/core/limits.cpp keel/model/gguf.cpp
        keel/model/gguf_header.cpp keel/model/gguf_model.cpp keel/model/gguf_quants.cpp keel/model/gguf_rope.cpp
        keel/model/gguf_tokenizer.cpp" ;;
    safetensors_fuzz) sources="fuzz/memory_file.cpp keel/core/foreign_text.cpp keel/model/large_pages.cpp
        keel/model/safetensors.cpp keel/model/weight_dtypes.cpp"
      torch=${KEEL_TORCH:-$(scripts/python.sh -c 'import os, torch; print(os.path.dirname(torch.__file__))')}
      headers="-isystem $torch/include" libraries="-L$torch/lib -ltorch_cpu -lc10 -Wl,-rpath,$torch/lib" ;;
    tokenizer_json_fuzz) sources="$(ls keel/text/*.cpp | grep -v chat_) $files"
      libraries="-Wl,-Bstatic -lpcre2-8 -lutf8proc -Wl,-Bdynamic" ;;
    chat_template_fuzz) sources="keel/text/chat_template.cpp keel/text/traced_text.cpp $(ls keel/text/jinja/*.cpp) $files" ;;
    math_verifier_fuzz) sources=$(ls keel/reward/math_*.cpp) ;;
    data_rows_fuzz) sources="fuzz/memory_file.cpp keel/data/line_file.cpp keel/data/row_json.cpp keel/data/schema.cpp
        keel/core/foreign_text.cpp keel/core/hash.cpp keel/core/limits.cpp" ;;
    *) echo "fuzz/build.sh: no target $1; known are $all" >&2; exit 2 ;;
  esac
}

for target in ${*:-$all}; do
  choose "$target"
  objects=
  for source in "fuzz/$target.cpp" $sources; do
    object=build-fuzz/objects/$(echo "$source" | tr / _).o
    clang++ $flags $headers -c "$source" -o "$object"
    objects="$objects $object"
  done
  # At a fixed address: the sanitizer of clang 14 fails at random where addresses are chosen from 2^32 pages.
  clang++ -fsanitize=fuzzer,address,undefined -fno-sanitize=vptr -no-pie -static-libstdc++ -static-libgcc $objects \
    $libraries -o "build-fuzz/$target"
done
