#include "libs/hftext/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <array>

#include "keel/core/error.h"
#include "libs/hftext/characters/unicode.h"
#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/regex/regex_dialect.h"
#include "libs/hftext/tokenizer/byte_alphabet.h"

namespace keel::text {
namespace {

constexpr const char* kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

SplitBehavior parse_behavior(const StrictObject& fields, bool required) {
  constexpr std::array<std::pair<const char*, SplitBehavior>, 5> kNames = {
      {{"Removed", SplitBehavior::kRemoved},
       {"Isolated", SplitBehavior::kIsolated},
       {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
       {"MergedWithNext", SplitBehavior::kMergedWithNext},
       {"Contiguous", SplitBehavior::kContiguous}}};
  if (!required && !fields.has("behavior")) return SplitBehavior::kIsolated;
  for (const auto& [name, behavior] : kNames) {
    if (fields.at("behavior") == Json(name)) return behavior;
  }
  fields.fail_value("behavior", "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

/// Adds a string with reserved capacity to the storage; views stay valid while it grows up to `size` bytes.
std::string& new_string(Pieces& pieces, size_t size) {
  std::string& text = pieces.storage.emplace_back();
  text.reserve(size);
  return text;
}

}  // namespace

PreTokenizer PreTokenizer::from_json(const Json& pre_tokenizer, const std::string& location) {
  PreTokenizer result;
  result.location_ = location;
  if (!pre_tokenizer.is_null()) result.add(StrictObject(pre_tokenizer, location));
  check_steps(result.steps_.size(), location);
  return result;
}

void PreTokenizer::add(const StrictObject& fields) {
  const std::string type = fields.type();
  const std::string& location = fields.location();
  if (type == "Sequence") {
    fields.allow_keys({"pretokenizers"});
    for (const StrictObject& part : fields.list("pretokenizers")) add(part);
  } else if (type == "ByteLevel") {
    add_byte_level(fields);
  } else if (type == "Metaspace") {
    add_metaspace(fields);
  } else if (type == "Split") {
    fields.allow_keys({"pattern", "behavior", "invert"});
    steps_.push_back(Split{Pattern::from_json(fields.at("pattern"), location + ".pattern"),
                           parse_behavior(fields, true), fields.boolean("invert")});
  } else if (type == "Digits") {
    fields.allow_keys({"individual_digits"});
    require_unicode_tables("the pre-tokenizer Digits", location);
    const bool individual = fields.boolean("individual_digits");
    steps_.push_back(Split{Pattern(is_number), individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous});
  } else if (type == "Punctuation") {
    fields.allow_keys({"behavior"});
    require_unicode_tables("the pre-tokenizer Punctuation", location);
    steps_.push_back(Split{Pattern(is_punctuation), parse_behavior(fields, false)});
  } else if (type == "Whitespace") {
    fields.allow_keys({});
    require_unicode_tables("the pre-tokenizer Whitespace", location);
    const std::string words = rust_word_set(/*negated=*/false) + "+|" + rust_word_set(/*negated=*/true) + "+";
    steps_.push_back(Split{Pattern(Regex::compile_pcre2(words, location)), SplitBehavior::kRemoved, /*invert=*/true});
  } else if (type == "WhitespaceSplit") {
    fields.allow_keys({});
    steps_.push_back(Split{Pattern(is_white_space), SplitBehavior::kRemoved});
  } else if (type == "BertPreTokenizer") {
    fields.allow_keys({});
    require_unicode_tables("the pre-tokenizer BertPreTokenizer", location);
    steps_.push_back(Split{Pattern(is_white_space), SplitBehavior::kRemoved});
    steps_.push_back(Split{Pattern(is_punctuation), SplitBehavior::kIsolated});
  } else if (type == "CharDelimiterSplit") {
    fields.allow_keys({"delimiter"});
    steps_.push_back(Split{Pattern(fields.character("delimiter")), SplitBehavior::kRemoved});
  } else if (type == "FixedLength") {
    fields.allow_keys({"length"});
    steps_.push_back(FixedLength{static_cast<size_t>(fields.integer("length", 1, INT32_MAX))});
  } else {
    fields.fail_unknown_type(
        "Sequence, ByteLevel, Split, Digits, Metaspace, Whitespace, WhitespaceSplit, Punctuation, BertPreTokenizer, "
        "CharDelimiterSplit, FixedLength");
  }
}

void PreTokenizer::add_byte_level(const StrictObject& fields) {
  fields.allow_keys({"add_prefix_space", "trim_offsets", "use_regex"});
  if (fields.boolean("add_prefix_space")) steps_.push_back(PrefixSpace{});
  if (fields.boolean("use_regex", true)) {
    steps_.push_back(Split{Pattern(Regex::compile(kGpt2Words, fields.location()))});
  }
  steps_.push_back(Bytes{});
}

void PreTokenizer::add_metaspace(const StrictObject& fields) {
  using Prepend = Metaspace::Prepend;
  fields.allow_keys({"replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  Metaspace metaspace{fields.character("replacement")};
  if (fields.has("prepend_scheme")) {
    const std::string scheme = fields.string("prepend_scheme");
    if (scheme != "always" && scheme != "first" && scheme != "never") {
      fields.fail_value("prepend_scheme", "always, first or never");
    }
    metaspace.prepend = scheme == "always" ? Prepend::kAlways : scheme == "first" ? Prepend::kFirst : Prepend::kNever;
  }
  if (!fields.boolean("add_prefix_space", true) && metaspace.prepend != Prepend::kNever) {
    fields.fail_value("add_prefix_space", "true, or \"prepend_scheme\" must be never");
  }
  steps_.push_back(metaspace);
  if (fields.boolean("split", true)) {
    steps_.push_back(Split{Pattern(metaspace.replacement), SplitBehavior::kMergedWithNext});
  }
}

bool PreTokenizer::ends_with_byte_level() const {
  return !steps_.empty() && std::holds_alternative<Bytes>(steps_.back());
}

void PreTokenizer::apply(Pieces& pieces, bool keep_bytes) const {
  const size_t step_count = keep_bytes && ends_with_byte_level() ? steps_.size() - 1 : steps_.size();
  const auto total_size = [&] {
    size_t total = 0;
    for (const Piece& piece : pieces.list) total += piece.text.size();
    return total;
  };
  const size_t input_size = total_size();
  for (size_t i = 0; i < step_count && !pieces.list.empty(); ++i) {
    std::visit([&](const auto& step) { run(step, pieces); }, steps_[i]);
    check_growth(input_size, total_size(), location_);
  }
}

void PreTokenizer::run(const Split& split, Pieces& pieces) {
  std::vector<Piece> result;
  std::vector<Span> spans;
  for (const Piece& piece : pieces.list) {
    split.pattern.split(piece.text, spans, pieces.budget);
    apply_behavior(spans, split.behavior, split.invert);
    for (const Span& span : spans) {
      if (span.begin == span.end) continue;
      const bool first = span.begin == 0;
      result.push_back({piece.text.substr(span.begin, span.end - span.begin), piece.at_start && first,
                        piece.is_continuation && first});
    }
  }
  pieces.list = std::move(result);
}

void PreTokenizer::run(PrefixSpace, Pieces& pieces) {
  for (Piece& piece : pieces.list) {
    if (piece.is_continuation || piece.text.starts_with(' ')) continue;
    piece.text = pieces.storage.emplace_back(" " + std::string(piece.text));
  }
}

void PreTokenizer::run(Bytes, Pieces& pieces) {
  size_t size = 0;
  for (const Piece& piece : pieces.list) size += piece.text.size() * 2;
  std::string& text = new_string(pieces, size);
  for (Piece& piece : pieces.list) {
    const size_t begin = text.size();
    append_byte_characters(text, piece.text);
    piece.text = std::string_view(text).substr(begin);
  }
}

void PreTokenizer::run(const Metaspace& metaspace, Pieces& pieces) {
  size_t size = 0;
  for (const Piece& piece : pieces.list) size += (piece.text.size() + 1) * metaspace.replacement.size();
  std::string& text = new_string(pieces, size);
  for (Piece& piece : pieces.list) {
    const size_t begin = text.size();
    const bool prepend = metaspace.prepend == Metaspace::Prepend::kAlways ||
                         (metaspace.prepend == Metaspace::Prepend::kFirst && piece.at_start);
    if (prepend && !piece.is_continuation && !piece.text.starts_with(' ') &&
        !piece.text.starts_with(metaspace.replacement)) {
      text += metaspace.replacement;
    }
    for (const char c : piece.text) {
      if (c == ' ') {
        text += metaspace.replacement;
      } else {
        text += c;
      }
    }
    piece.text = std::string_view(text).substr(begin);
  }
}

void PreTokenizer::run(const FixedLength& fixed, Pieces& pieces) {
  std::vector<Piece> result;
  for (const Piece& piece : pieces.list) {
    for (size_t begin = 0, at = 0; at < piece.text.size(); begin = at) {
      for (size_t i = 0; i < fixed.characters && at < piece.text.size(); ++i) at += code_point_at(piece.text, at).size;
      const bool first = begin == 0;
      result.push_back({piece.text.substr(begin, at - begin), piece.at_start && first, piece.is_continuation && first});
    }
  }
  pieces.list = std::move(result);
}

}  // namespace keel::text
