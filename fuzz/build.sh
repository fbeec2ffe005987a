#!/bin/sh
# Builds fuzz targets with clang: fuzz/build.sh TARGET... writes build-fuzz/TARGET (default: all targets). Only Keel's
# sources are compiled with sanitizers. The programs need only libc. For another machine:
# CXX="clang++ --target=x86_64-linux-gnu --sysroot=..." fuzz/build.sh
set -eu
cd "$(dirname "$0")/.."
all="gguf_fuzz safetensors_fuzz tokenizer_json_fuzz chat_template_fuzz math_verifier_fuzz data_rows_fuzz json_reader_fuzz
  model_config_fuzz reward_reply_fuzz run_files_fuzz configuration_fuzz"
# Edge counters only: comparison tracing takes half of the time, and the dictionaries contain the tokens.
flags="-std=c++20 -O2 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize=vptr
  -fno-sanitize-recover=undefined -fsanitize-coverage=inline-8bit-counters,pc-table -DKEEL_HAS_TOKENIZERS -I."
json="keel/core/json_reader.cpp keel/core/untrusted_text.cpp"
files="keel/core/files/file.cpp keel/core/files/directory_path.cpp keel/core/files/json_file.cpp keel/core/files/line_reader.cpp
  keel/core/console.cpp $json"
options="keel/core/options/*.cpp keel/core/nearest.cpp keel/core/strings.cpp"
tokenizers="libs/hftext/characters/*.cpp libs/hftext/regex/*.cpp libs/hftext/tokenizer/*.cpp"
mkdir -p build-fuzz/objects

# Sets the sources of a target, and its `headers` and `libraries`.
choose() {
  headers= libraries=
  case $1 in
    gguf_fuzz) headers="-isystem fuzz/tensor"
      sources="fuzz/memory_file.cpp keel/core/untrusted_text.cpp keel/core/strings.cpp keel/model/formats/gguf/gguf_architecture.cpp keel/model/formats/gguf/gguf_file.cpp
        keel/model/formats/gguf/gguf_header.cpp keel/model/formats/gguf/gguf_model.cpp keel/model/formats/gguf/gguf_quants.cpp keel/model/formats/gguf/gguf_rope.cpp
        keel/model/formats/gguf/gguf_sentencepiece.cpp keel/model/formats/gguf/gguf_tokenizer.cpp keel/model/formats/gguf/gguf_pre_tokenizers.cpp" ;;
    safetensors_fuzz) headers="-isystem fuzz/tensor"
      sources="fuzz/memory_file.cpp $json keel/model/formats/safetensors/huge_pages.cpp
        keel/model/formats/safetensors/safetensors.cpp keel/model/formats/safetensors/safetensors_format.cpp" ;;
    tokenizer_json_fuzz) sources="$(ls $tokenizers) $files"
      libraries="-Wl,-Bstatic -lpcre2-8 -lutf8proc -Wl,-Bdynamic" ;;
    chat_template_fuzz) sources="libs/hftext/chat/chat_template.cpp libs/hftext/characters/traced_text.cpp $(ls libs/hftext/jinja/*.cpp libs/hftext/jinja/*/*.cpp) $files" ;;
    math_verifier_fuzz) sources=$(ls libs/mathverify/*.cpp libs/mathverify/[!t]*/*.cpp) ;;
    data_rows_fuzz) sources="fuzz/memory_file.cpp keel/data/rows/line_file.cpp keel/data/rows/unchanging_file.cpp
        keel/data/rows/row_json.cpp keel/data/example.cpp keel/data/schema.cpp keel/core/files/hash.cpp keel/core/strings.cpp $json" ;;
    json_reader_fuzz) sources="cli/json_lines.cpp keel/core/interrupt.cpp keel/core/parallel.cpp $files" ;;
    model_config_fuzz) headers="-isystem fuzz/tensor"
      sources="keel/model/network/model_config.cpp keel/model/folder/adapter_config.cpp keel/model/formats/weight_dtypes.cpp
        $(ls keel/model/families/*.cpp $tokenizers $options) $files"
      libraries="-Wl,-Bstatic -lpcre2-8 -lutf8proc -Wl,-Bdynamic" ;;
    reward_reply_fuzz) headers="-isystem fuzz/tensor"
      sources="keel/reward/functions/program_reward.cpp keel/reward/programs/http_response.cpp keel/reward/functions/code_reward.cpp
        keel/reward/reward_sum.cpp keel/core/strings.cpp $files" ;;
    run_files_fuzz) sources="keel/record/run_data.cpp keel/record/charts/chart_scale.cpp keel/train/checkpoint/state.cpp
        keel/core/files/atomic_directory.cpp keel/core/files/hash.cpp keel/core/strings.cpp $files" ;;
    configuration_fuzz) headers="-DKEEL_HAS_YAML"
      sources="$(ls keel/core/options/config_*.cpp keel/core/options/yaml*.cpp) keel/core/options/read_config.cpp
        keel/core/options/tree_builder.cpp keel/core/strings.cpp $files"
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
  # -no-pie: the sanitizer of clang 14 fails at random with address randomisation over 2^32 pages.
  ${CXX:-clang++} -fsanitize=fuzzer,address,undefined -fno-sanitize=vptr -no-pie -static-libstdc++ -static-libgcc $objects \
    $libraries -o "build-fuzz/$target"
done
