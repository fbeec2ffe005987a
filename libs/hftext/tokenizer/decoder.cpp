#include "libs/hftext/tokenizer/decoder.h"

namespace keel::text {
namespace {

/// Flattens nested sequences.
void flatten(const StrictObject& fields, std::vector<StrictObject>& parts) {
  if (fields.type() != "Sequence") return parts.push_back(fields);
  fields.allow_keys({"decoders"});
  for (const StrictObject& part : fields.list("decoders")) flatten(part, parts);
}

struct StripFields {
  explicit StripFields(const StrictObject& fields)
      : content(fields.character("content")),
        start(static_cast<size_t>(fields.integer("start", 0, INT32_MAX))),
        stop(static_cast<size_t>(fields.integer("stop", 0, INT32_MAX))) {
    fields.allow_keys({"content", "start", "stop"});
  }
  std::string content;
  size_t start, stop;
};

}  // namespace

StreamingDecoder::StreamingDecoder(std::vector<std::unique_ptr<DecoderStage>> stages, std::string location,
                                   bool per_token)
    : stages_(std::move(stages)), location_(std::move(location)) {
  auto output = std::make_unique<Output>();
  output_ = output.get();
  stages_.push_back(std::move(output));
  for (size_t i = 0; i + 1 < stages_.size(); ++i) {
    stages_[i]->next = stages_[i + 1].get();
    stages_[i]->input_bytes = &output_->input_bytes;
    stages_[i]->per_token = per_token;
  }
}

void StreamingDecoder::push(std::string_view token) {
  output_->input_bytes += token.size();
  stages_.front()->push(token);
  check_growth(output_->input_bytes, taken_ + output_->text.size(), location_);
}

void StreamingDecoder::finish() {
  stages_.front()->finish();
  check_growth(output_->input_bytes, taken_ + output_->text.size(), location_);
}

std::string StreamingDecoder::take() {
  taken_ += output_->text.size();
  return std::exchange(output_->text, {});
}

Decoder Decoder::from_json(const Json& decoder, const std::string& location) {
  Decoder result;
  result.location_ = location;
  if (decoder.is_null()) {
    result.factories_.push_back(make_join_stage);
    return result;
  }
  std::vector<StrictObject> parts;
  flatten(StrictObject(decoder, location), parts);
  check_steps(parts.size(), location);
  for (size_t i = 0; i < parts.size(); ++i) {
    // Llama uses Fuse, then Strip at the start. Combined into one stage, they also work per token.
    const bool at_start = i + 2 == parts.size() && parts[i].type() == "Fuse" && parts[i + 1].type() == "Strip";
    if (at_start && parts[i + 1].at("stop") == Json(0)) {
      parts[i].allow_keys({});
      const StripFields strip(parts[i + 1]);
      result.factories_.push_back([strip] { return make_strip_start_stage(strip.content, strip.start); });
      break;
    }
    result.factories_.push_back(stage_factory(parts[i]));
  }
  return result;
}

Decoder::StageFactory Decoder::stage_factory(const StrictObject& fields) {
  const std::string type = fields.type();
  if (type == "ByteLevel") {
    fields.allow_keys({"add_prefix_space", "trim_offsets", "use_regex"});
    return make_byte_level_stage;
  }
  if (type == "ByteFallback") {
    fields.allow_keys({});
    return make_byte_fallback_stage;
  }
  if (type == "Fuse") {
    fields.allow_keys({});
    return make_fuse_stage;
  }
  if (type == "Replace") {
    fields.allow_keys({"pattern", "content"});
    const Pattern pattern = Pattern::from_json(fields.at("pattern"), fields.location() + ".pattern");
    return [pattern, content = fields.string("content"), location = fields.location()] {
      return make_replace_stage(pattern, content, location);
    };
  }
  if (type == "Strip") {
    return [strip = StripFields(fields)] { return make_strip_stage(strip.content, strip.start, strip.stop); };
  }
  if (type == "Metaspace") {
    fields.allow_keys({"replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
    const bool keeps_first = fields.has("prepend_scheme") && fields.string("prepend_scheme") == "never";
    return [replacement = fields.character("replacement"), keeps_first] {
      return make_metaspace_stage(replacement, keeps_first);
    };
  }
  if (type == "WordPiece") {
    fields.allow_keys({"prefix", "cleanup"});
    return [prefix = fields.string("prefix"), cleanup = fields.boolean("cleanup")] {
      return make_word_piece_stage(prefix, cleanup);
    };
  }
  if (type == "BPEDecoder") {
    fields.allow_keys({"suffix"});
    if (fields.string("suffix").empty()) fields.fail_value("suffix", "a string that is not empty");
    return [suffix = fields.string("suffix")] { return make_suffix_stage(suffix); };
  }
  fields.fail_unknown_type("Sequence, ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace, WordPiece, BPEDecoder");
}

StreamingDecoder Decoder::start(bool per_token) const {
  std::vector<std::unique_ptr<DecoderStage>> stages;
  for (const StageFactory& make : factories_) stages.push_back(make());
  return StreamingDecoder(std::move(stages), location_, per_token);
}

}  // namespace keel::text
