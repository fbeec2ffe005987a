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

/// Decodes one text incrementally with a chain of stages.
class StreamingDecoder {
 public:
  /// Each push() emits the bytes of its token at once if `per_token`, even a part of a character.
  StreamingDecoder(std::vector<std::unique_ptr<DecoderStage>> stages, std::string location, bool per_token);
  void push(std::string_view token);
  void finish();
  /// Returns the output since the last call.
  std::string take();

 private:
  struct Output : DecoderStage {
    void push(std::string_view token) override { text += token; }
    void finish() override {}
    std::string text;
    size_t input_bytes = 0;
  };
  std::vector<std::unique_ptr<DecoderStage>> stages_;  // the last one is the output
  Output* output_;
  std::string location_;
  size_t taken_ = 0;  // bytes returned by take()
};

/// The "decoder" of tokenizer.json: how tokens become text.
class Decoder {
 public:
  /// Null means the default, which joins tokens with spaces.
  static Decoder from_json(const Json& decoder, const std::string& location);
  StreamingDecoder start(bool per_token = false) const;

 private:
  using StageFactory = std::function<std::unique_ptr<DecoderStage>()>;
  static StageFactory stage_factory(const StrictObject& fields);

  std::string location_;
  std::vector<StageFactory> factories_;
};

}  // namespace keel::text
