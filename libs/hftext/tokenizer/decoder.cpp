#include "libs/hftext/tokenizer/decoder.h"

namespace keel::text {
namespace {

/// Sequences inside of sequences, as one.
void flatten(const Component& fields, std::vector<Component>& parts) {
  if (fields.type() != "Sequence") return parts.push_back(fields);
  fields.only({"decoders"});
  for (const Component& part : fields.list("decoders")) flatten(part, parts);
}

struct StripFields {
  explicit StripFields(const Component& fields)
      : content(fields.character("content")),
        start(static_cast<size_t>(fields.integer("start", 0, INT32_MAX))),
        stop(static_cast<size_t>(fields.integer("stop", 0, INT32_MAX))) {
    fields.only({"content", "start", "stop"});
  }
  std::string content;
  size_t start, stop;
};

}  // namespace

DecoderRun::DecoderRun(std::vector<std::unique_ptr<DecoderStage>> stages, std::string place, bool one_by_one)
    : stages_(std::move(stages)), place_(std::move(place)) {
  auto output = std::make_unique<Output>();
  output_ = output.get();
  stages_.push_back(std::move(output));
  for (size_t i = 0; i + 1 < stages_.size(); ++i) {
    stages_[i]->next = stages_[i + 1].get();
    stages_[i]->given = &output_->total;
    stages_[i]->one_by_one = one_by_one;
  }
}

void DecoderRun::push(std::string_view token) {
  output_->total += token.size();
  stages_.front()->push(token);
  check_growth(output_->total, taken_ + output_->text.size(), place_);
}

void DecoderRun::finish() {
  stages_.front()->finish();
  check_growth(output_->total, taken_ + output_->text.size(), place_);
}

std::string DecoderRun::take() {
  taken_ += output_->text.size();
  return std::exchange(output_->text, {});
}

Decoder Decoder::from_json(const Json& decoder, const std::string& place) {
  Decoder result;
  result.place_ = place;
  if (decoder.is_null()) {
    result.makers_.push_back(make_join_stage);
    return result;
  }
  std::vector<Component> parts;
  flatten(Component(decoder, place), parts);
  check_steps(parts.size(), place);
  for (size_t i = 0; i < parts.size(); ++i) {
    // Fuse makes one token of the text, and Strip then takes off its beginning: Llama's way. As one stage it can say
    // what each token stands for.
    const bool at_start = i + 2 == parts.size() && parts[i].type() == "Fuse" && parts[i + 1].type() == "Strip";
    if (at_start && parts[i + 1].at("stop") == Json(0)) {
      parts[i].only({});
      const StripFields strip(parts[i + 1]);
      result.makers_.push_back([strip] { return make_strip_start_stage(strip.content, strip.start); });
      break;
    }
    result.makers_.push_back(maker(parts[i]));
  }
  return result;
}

Decoder::Maker Decoder::maker(const Component& fields) {
  const std::string type = fields.type();
  if (type == "ByteLevel") {
    fields.only({"add_prefix_space", "trim_offsets", "use_regex"});
    return make_byte_level_stage;
  }
  if (type == "ByteFallback") {
    fields.only({});
    return make_byte_fallback_stage;
  }
  if (type == "Fuse") {
    fields.only({});
    return make_fuse_stage;
  }
  if (type == "Replace") {
    fields.only({"pattern", "content"});
    const Pattern pattern = Pattern::from_json(fields.at("pattern"), fields.place() + ".pattern");
    return [pattern, content = fields.string("content"), place = fields.place()] {
      return make_replace_stage(pattern, content, place);
    };
  }
  if (type == "Strip") {
    return [strip = StripFields(fields)] { return make_strip_stage(strip.content, strip.start, strip.stop); };
  }
  if (type == "Metaspace") {
    fields.only({"replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
    const bool keeps_first = fields.has("prepend_scheme") && fields.string("prepend_scheme") == "never";
    return [replacement = fields.character("replacement"), keeps_first] {
      return make_metaspace_stage(replacement, keeps_first);
    };
  }
  if (type == "WordPiece") {
    fields.only({"prefix", "cleanup"});
    return [prefix = fields.string("prefix"), cleanup = fields.boolean("cleanup")] {
      return make_word_piece_stage(prefix, cleanup);
    };
  }
  if (type == "BPEDecoder") {
    fields.only({"suffix"});
    if (fields.string("suffix").empty()) fields.refuse("suffix", "a string that is not empty");
    return [suffix = fields.string("suffix")] { return make_suffix_stage(suffix); };
  }
  fields.refuse_type("Sequence, ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace, WordPiece, BPEDecoder");
}

DecoderRun Decoder::start(bool one_by_one) const {
  std::vector<std::unique_ptr<DecoderStage>> stages;
  for (const Maker& make : makers_) stages.push_back(make());
  return DecoderRun(std::move(stages), place_, one_by_one);
}

}  // namespace keel::text
