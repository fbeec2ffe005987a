#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "libs/hftext/tokenizer/pattern.h"

namespace keel::text {

/// One stage of decoding: takes the tokens of a text one after the other and hands on what is certain. The same stages
/// serve a whole text, and its tokens one by one, for people to look at.
class DecoderStage {
 public:
  virtual ~DecoderStage() = default;
  virtual void push(std::string_view token) = 0;
  /// After the last token: hands on what was held back.
  virtual void finish() { next->finish(); }

  DecoderStage* next = nullptr;
  const size_t* given = nullptr;  // bytes of all tokens so far
  bool one_by_one = false;        // what a token stands for is handed on at once, bytes of a part of a character too
};

using StagePointer = std::unique_ptr<DecoderStage>;

/// A space between tokens: what happens without a decoder.
StagePointer make_join_stage();
/// Characters of GPT-2's alphabet to bytes, bytes to text, as one token; what is no UTF-8 becomes U+FFFD.
StagePointer make_byte_level_stage();
/// A run of tokens "<0x41>" to text, when it is UTF-8 as a whole; else one U+FFFD for each. A run is held back until it
/// ends, for one bad byte spoils all of it.
StagePointer make_byte_fallback_stage();
/// All tokens as one.
StagePointer make_fuse_stage();
/// Takes up to `count` times `content` off the beginning of the text as a whole.
StagePointer make_strip_start_stage(const std::string& content, size_t count);
/// Takes up to `start` and `stop` times `content` off both ends of each token.
StagePointer make_strip_stage(const std::string& content, size_t start, size_t stop);
StagePointer make_replace_stage(const Pattern& pattern, const std::string& content, const std::string& place);
/// `replacement` becomes a space; in the first token it vanishes unless `keeps_first`.
StagePointer make_metaspace_stage(const std::string& replacement, bool keeps_first);
/// WordPiece: tokens with the prefix continue a word, others begin one.
StagePointer make_word_piece_stage(const std::string& prefix, bool cleanup);
/// BPE with a suffix that ends words: it becomes a space, and nothing in the last token.
StagePointer make_suffix_stage(const std::string& suffix);

/// Every `from` becomes `to`, left to right.
void replace_all(std::string& text, std::string_view from, std::string_view to);

}  // namespace keel::text
