#!/bin/sh
# Builds the fuzz targets with clang: fuzz/build.sh TARGET... leaves build-fuzz/TARGET (all of them without an argument).
# Only Keel's own sources carry the sanitizers. The programs need nothing but libc where they run. For another machine:
# CXX="clang++ --target=x86_64-linux-gnu --sysroot=..." fuzz/build.sh
set -eu
cd "$(dirname "$0")/.."
all="gguf_fuzz safetensors_fuzz tokenizer_json_fuzz chat_template_fuzz math_verifier_fuzz data_rows_fuzz json_reader_fuzz
  model_config_fuzz reward_reply_fuzz run_files_fuzz configuration_fuzz"
# Counters of edges without traces of comparisons, which take half of the time: the dictionaries know the words.
flags="-std=c++20 -O2 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize=vptr
  -fno-sanitize-recover=undefined -fsanitize-coverage=inline-8bit-counters,pc-table -DKEEL_HAS_TOKENIZERS -I."
json="keel/core/json_reader.cpp keel/core/foreign_text.cpp"
files="keel/core/file.cpp keel/core/json_file.cpp $json"
options="keel/core/option*.cpp keel/core/config_*.cpp keel/core/tree_builder.cpp keel/core/yaml*.cpp keel/core/limits.cpp
  keel/core/nearest.cpp"
mkdir -p build-fuzz/objects

# The sources of a target; what else it is compiled and linked with goes to `headers` and `libraries`.
choose() {
  headers= libraries=
  case $1 in
    gguf_fuzz) headers="-isystem fuzz/tensor"
      sources="fuzz/memory_file.cpp keel/core/foreign_text.cpp keel/core/limits.cpp keel/model/gguf.cpp
        keel/model/gguf_header.cpp keel/model/gguf_model.cpp keel/model/gguf_quants.cpp keel/model/gguf_rope.cpp
        keel/model/gguf_tokenizer.cpp" ;;
    safetensors_fuzz) headers="-isystem fuzz/tensor"
      sources="fuzz/memory_file.cpp $json keel/core/limits.cpp keel/model/large_pages.cpp
        keel/model/safetensors.cpp keel/model/safetensors_format.cpp" ;;
    tokenizer_json_fuzz) sources="$(ls keel/text/*.cpp | grep -v chat_) $files"
      libraries="-Wl,-Bstatic -lpcre2-8 -lutf8proc -Wl,-Bdynamic" ;;
    chat_template_fuzz) sources="keel/text/chat_template.cpp keel/text/traced_text.cpp $(ls keel/text/jinja/*.cpp) $files" ;;
    math_verifier_fuzz) sources=$(ls keel/reward/math_*.cpp) ;;
    data_rows_fuzz) sources="fuzz/memory_file.cpp keel/data/line_file.cpp keel/data/unchanging_file.cpp
        keel/data/row_json.cpp keel/data/schema.cpp keel/core/hash.cpp keel/core/limits.cpp $json" ;;
    json_reader_fuzz) sources="cli/json_lines.cpp keel/core/interrupt.cpp keel/core/parallel.cpp $files" ;;
    model_config_fuzz) headers="-isystem fuzz/tensor"
      sources="keel/model/model_config.cpp keel/model/adapter_config.cpp keel/model/weight_dtypes.cpp
        $(ls keel/model/families*.cpp keel/model/families/*.cpp keel/text/*.cpp $options | grep -v chat_) $files"
      libraries="-Wl,-Bstatic -lpcre2-8 -lutf8proc -Wl,-Bdynamic" ;;
    reward_reply_fuzz) headers="-isystem fuzz/tensor"
      sources="keel/reward/program_reward.cpp keel/reward/http_response.cpp keel/reward/code_reward.cpp
        keel/reward/reward.cpp $files" ;;
    run_files_fuzz) sources="keel/record/run_data.cpp keel/record/chart_scale.cpp keel/train/state.cpp
        keel/train/whole_folder.cpp keel/core/hash.cpp $files" ;;
    configuration_fuzz) headers="-DKEEL_HAS_YAML"
      sources="$(ls keel/core/config_*.cpp keel/core/tree_builder.cpp keel/core/yaml*.cpp) $json"
      libraries="-Wl,-Bstatic -lyaml-cpp -Wl,-Bdynamic" ;;
    *) echo "fuzz/build.sh: no target $1; known are $all" >&2; exit 2 ;;
  esac
}

for target in ${*:-$all}; do
  choose "$target"
  objects=
  for source in "fuzz/$target.cpp" $sources; do
    object=build-fuzz/objects/$(echo "$source" | tr / _).o
    ${CXX:-clang++} $flags $headers -c "$source" -o "$object"
    objects="$objects $object"
  done
  # At a fixed address: the sanitizer of clang 14 fails at random where addresses are chosen from 2^32 pages.
  ${CXX:-clang++} -fsanitize=fuzzer,address,undefined -fno-sanitize=vptr -no-pie -static-libstdc++ -static-libgcc $objects \
    $libraries -o "build-fuzz/$target"
done
