#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/json.h"
#include "libs/hftext/tokenizer/decoder_stages.h"
#include "libs/hftext/tokenizer/strict_object.h"

namespace keel::text {

/// A chain of stages in the middle of one text.
class DecoderRun {
 public:
  /// `one_by_one`: what push() gives is what that token stands for, be it a part of a character.
  DecoderRun(std::vector<std::unique_ptr<DecoderStage>> stages, std::string place, bool one_by_one);
  void push(std::string_view token);
  void finish();
  /// What came out since the last call.
  std::string take();

 private:
  struct Output : DecoderStage {
    void push(std::string_view token) override { text += token; }
    void finish() override {}
    std::string text;
    size_t total = 0;  // bytes that went in
  };
  std::vector<std::unique_ptr<DecoderStage>> stages_;  // the last one is the output
  Output* output_;
  std::string place_;
  size_t taken_ = 0;  // bytes that came out
};

/// The "decoder" of tokenizer.json: how tokens become text.
class Decoder {
 public:
  /// Null gives the one that puts a space between tokens.
  static Decoder from_json(const Json& decoder, const std::string& place);
  DecoderRun start(bool one_by_one = false) const;

 private:
  using Maker = std::function<std::unique_ptr<DecoderStage>()>;
  static Maker maker(const Component& fields);

  std::string place_;
  std::vector<Maker> makers_;
};

}  // namespace keel::text
