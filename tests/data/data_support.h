#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "keel/core/files/file.h"
#include "keel/data/rows/bad_row.h"
#include "libs/hftext/tokenizer/byte_alphabet.h"
#include "libs/hftext/tokenizer/tokenizer.h"
#include "tests/support/test_folder.h"

namespace keel {

inline std::string bytes_of_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

/// Rows {"prompt":"a","answer":1}, b with 2 and c with 3, compressed by Python's gzip: two members.
inline std::string two_gzip_members() {
  return bytes_of_hex(
      "1f8b0800000000000203ab562a28cacf2d2851b2524a54d2514acc2b2e4f2d52b232ace50200dda5f9921a000000"
      "1f8b0800000000000203ab562a28cacf2d2851b2524a52d2514acc2b2e4f2d52b232aae5aa46c82423c918d77201001be0e5c634000000");
}

/// The same rows, compressed by libzstd in pyarrow: two frames.
inline std::string two_zstd_frames() {
  return bytes_of_hex(
      "28b52ffd201ad100007b2270726f6d7074223a2261222c22616e73776572223a317d0a28b52ffd2034350100f07b2270726f6d7074223a22"
      "62222c22616e73776572223a327d0a63337d0a0200c008db9863");
}

/// Returns the message of the BadRow that `action` throws.
template <class Action>
std::string bad_row_of(const Action& action) {
  try {
    action();
  } catch (const BadRow& bad) {
    return bad.what();
  }
  ADD_FAILURE() << "no row was bad";
  return "";
}

/// A tokenizer whose ids are the bytes (in GPT-2's alphabet) and three special tokens.
inline Tokenizer byte_tokenizer() {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocabulary[std::string(text::byte_character(static_cast<unsigned char>(byte)))] = byte;
  Json added = Json::array();
  for (const char* word : {"<bos>", "<turn>", "<end>"}) {
    added.push_back({{"id", 256 + added.size()},
                     {"content", word},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const Json tree = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", vocabulary},
        {"merges", Json::array()}}}};
  return Tokenizer::from_json(tree, {{"bos_token", "<bos>"}, {"eos_token", "<end>"}}, "byte tokenizer");
}

/// Returns the ids of a text's bytes.
inline std::vector<int32_t> byte_ids(std::string_view text) {
  return {reinterpret_cast<const unsigned char*>(text.data()),
          reinterpret_cast<const unsigned char*>(text.data()) + text.size()};
}

}  // namespace keel
