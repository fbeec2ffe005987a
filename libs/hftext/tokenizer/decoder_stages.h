#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "libs/hftext/tokenizer/pattern.h"

namespace keel::text {

/// One stage of decoding. It receives the tokens of a text in order and passes on output that is final. The same stages
/// decode a whole text and, with `per_token`, single tokens for display.
class DecoderStage {
 public:
  virtual ~DecoderStage() = default;
  virtual void push(std::string_view token) = 0;
  /// Called after the last token: passes on held-back output.
  virtual void finish() { next->finish(); }

  DecoderStage* next = nullptr;
  const size_t* input_bytes = nullptr;  // total bytes of all tokens so far
  bool per_token = false;               // each token is passed on at once, even incomplete UTF-8
};

using StagePointer = std::unique_ptr<DecoderStage>;

/// Joins tokens with spaces, the default without a decoder.
StagePointer make_join_stage();
/// Converts GPT-2's byte alphabet to bytes and these to one text. Invalid UTF-8 becomes U+FFFD.
StagePointer make_byte_level_stage();
/// Converts a sequence of tokens such as "<0x41>" to text if all of it is valid UTF-8, else to one U+FFFD per token.
/// Holds the sequence back until it ends.
StagePointer make_byte_fallback_stage();
/// Joins all tokens into one.
StagePointer make_fuse_stage();
/// Removes up to `count` copies of `content` from the start of the whole text.
StagePointer make_strip_start_stage(const std::string& content, size_t count);
/// Removes up to `start` copies of `content` from the start of each token and up to `stop` from its end.
StagePointer make_strip_stage(const std::string& content, size_t start, size_t stop);
StagePointer make_replace_stage(const Pattern& pattern, const std::string& replacement,
                                const std::string& location);
/// Replaces `space_mark` by a space, or by nothing in the first token unless `keeps_first`.
StagePointer make_metaspace_stage(const std::string& space_mark, bool keeps_first);
/// WordPiece: tokens with `prefix` continue a word, others start one.
StagePointer make_word_piece_stage(const std::string& prefix, bool cleanup);
/// Replaces the end-of-word suffix of BPE by a space, or by nothing in the last token.
StagePointer make_suffix_stage(const std::string& suffix);

/// Replaces every `from` by `to`, from left to right.
void replace_all(std::string& text, std::string_view from, std::string_view to);

}  // namespace keel::text
