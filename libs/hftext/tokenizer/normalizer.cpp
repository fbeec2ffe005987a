#include "libs/hftext/tokenizer/normalizer.h"

#include <algorithm>

#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/tokenizer/byte_alphabet.h"

namespace keel::text {
namespace {

/// Maps each character: `map(text, c)` appends its replacement, if any.
template <class Map>
void map_characters(Normalizer::Result& result, const Map& map) {
  std::string text, untrusted_mask;
  text.reserve(result.text.size());
  size_t first_size = 0;
  for (size_t at = 0; at < result.text.size();) {
    const CodePoint c = code_point_at(result.text, at);
    map(text, c.value);
    if (!result.untrusted_mask.empty()) untrusted_mask.resize(text.size(), result.untrusted_mask[at]);
    at += c.size;
    if (at <= result.first_size) first_size = text.size();
  }
  result.text = std::move(text);
  result.untrusted_mask = std::move(untrusted_mask);
  result.first_size = first_size;
}

/// Returns the untrusted mask of normalize(text, form). ASCII characters never combine with preceding ones, so each
/// starts a part that is normalized separately. A part whose normalization combines trusted with untrusted characters
/// is untrusted.
std::string normalize_mask(std::string_view text, std::string_view untrusted_mask, NormalForm form) {
  std::string result;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    do ++end;
    while (end < text.size() && static_cast<unsigned char>(text[end]) >= 0x80);
    const std::string whole = normalize(text.substr(begin, end - begin), form);
    std::string in_parts, in_parts_mask;
    for (size_t part_begin = begin, part_end = 0; part_begin < end; part_begin = part_end) {
      for (part_end = part_begin; part_end < end && untrusted_mask[part_end] == untrusted_mask[part_begin];) ++part_end;
      in_parts += normalize(text.substr(part_begin, part_end - part_begin), form);
      in_parts_mask.resize(in_parts.size(), untrusted_mask[part_begin]);
    }
    result += in_parts == whole ? in_parts_mask : std::string(whole.size(), '\1');
  }
  return result;
}

bool is_nmt_control(char32_t c) {
  return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
}

bool is_nmt_space(char32_t c) {
  return c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
         c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

Normalizer Normalizer::from_json(const Json& normalizer, const std::string& location) {
  Normalizer result;
  result.location_ = location;
  if (!normalizer.is_null()) result.add(StrictObject(normalizer, location));
  check_steps(result.steps_.size(), location);
  return result;
}

void Normalizer::add(const StrictObject& fields) {
  const std::string type = fields.type();
  if (type == "Sequence") {
    fields.allow_keys({"normalizers"});
    for (const StrictObject& part : fields.list("normalizers")) add(part);
    return;
  }
  const auto simple = [&](Step step) {
    fields.allow_keys({});
    require_unicode_tables("the normalizer " + type, fields.location());
    steps_.push_back(std::move(step));
  };
  if (type == "NFC") return simple(NormalForm::kNfc);
  if (type == "NFD") return simple(NormalForm::kNfd);
  if (type == "NFKC") return simple(NormalForm::kNfkc);
  if (type == "NFKD") return simple(NormalForm::kNfkd);
  if (type == "Lowercase") return simple(Lowercase{});
  if (type == "StripAccents") return simple(StripAccents{});
  if (type == "Nmt") return simple(Nmt{});
  if (type == "ByteLevel") return simple(Bytes{});
  if (type == "Strip") {
    fields.allow_keys({"strip_left", "strip_right"});
    steps_.push_back(Strip{fields.boolean("strip_left"), fields.boolean("strip_right")});
  } else if (type == "Replace") {
    fields.allow_keys({"pattern", "content"});
    steps_.push_back(Replace{Pattern::from_json(fields.at("pattern"), fields.location() + ".pattern"),
                             fields.string("content"), fields.location()});
  } else if (type == "Prepend") {
    fields.allow_keys({"prepend"});
    steps_.push_back(Prepend{fields.string("prepend")});
  } else {
    fields.fail_unknown_type(
        "Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Replace, Prepend, ByteLevel, Nmt");
  }
}

ByteRanges Normalizer::Result::untrusted() const {
  ByteRanges ranges;
  for (size_t begin = untrusted_mask.find('\1'), end = 0; begin != std::string::npos;
       begin = untrusted_mask.find('\1', end)) {
    end = std::min(untrusted_mask.find('\0', begin), untrusted_mask.size());
    ranges.push_back({begin, end});
  }
  return ranges;
}

Normalizer::Result Normalizer::apply(std::string_view text, RegexBudget& budget, std::span<const ByteRange> untrusted,
                                     bool is_continuation) const {
  Result result{std::string(text), text.empty() ? 0 : code_point_at(text, 0).size, text.size(), "", &budget};
  if (!untrusted.empty()) result.untrusted_mask.assign(text.size(), '\0');
  for (const ByteRange& range : untrusted)
    result.untrusted_mask.replace(range.begin, range.end - range.begin, range.end - range.begin, '\1');
  for (const Step& step : steps_) {
    if (is_continuation && std::holds_alternative<Prepend>(step)) continue;
    std::visit([&](const auto& s) { run(s, result); }, step);
    check_growth(text.size(), result.text.size(), location_);
  }
  return result;
}

void Normalizer::run(NormalForm form, Result& result) {
  if (!result.untrusted_mask.empty()) result.untrusted_mask = normalize_mask(result.text, result.untrusted_mask, form);
  size_t first_size = normalize(std::string_view(result.text).substr(0, result.first_size), form).size();
  result.text = normalize(result.text, form);
  // The first character may have combined with following marks: round up to a character boundary.
  first_size = std::min(first_size, result.text.size());
  while (first_size < result.text.size() && continues_character(result.text[first_size])) ++first_size;
  result.first_size = first_size;
}

void Normalizer::run(Lowercase, Result& result) { map_characters(result, append_lower_case); }

void Normalizer::run(StripAccents, Result& result) {
  map_characters(result, [](std::string& text, char32_t c) {
    if (!is_mark(c)) append_utf8(text, c);
  });
}

void Normalizer::run(Bytes, Result& result) {
  std::string text, untrusted_mask;
  append_byte_characters(text, std::string_view(result.text).substr(0, result.first_size));
  const size_t first_size = text.size();
  append_byte_characters(text, std::string_view(result.text).substr(result.first_size));
  std::string characters;
  for (size_t i = 0; i < result.untrusted_mask.size(); ++i) {
    append_byte_characters(characters, std::string_view(result.text).substr(i, 1));
    untrusted_mask.resize(characters.size(), result.untrusted_mask[i]);
  }
  result.text = std::move(text);
  result.untrusted_mask = std::move(untrusted_mask);
  result.first_size = first_size;
}

void Normalizer::run(Nmt, Result& result) {
  map_characters(result, [](std::string& text, char32_t c) {
    if (!is_nmt_control(c)) append_utf8(text, is_nmt_space(c) ? U' ' : c);
  });
}

void Normalizer::run(const Strip& strip, Result& result) {
  std::string& text = result.text;
  size_t begin = 0, end = text.size();
  while (strip.right && end > 0 && is_white_space(code_point_before(text, end).value)) {
    end -= code_point_before(text, end).size;
  }
  while (strip.left && begin < end && is_white_space(code_point_at(text, begin).value)) {
    begin += code_point_at(text, begin).size;
  }
  result.first_size = result.first_size > begin ? result.first_size - begin : 0;
  text = text.substr(begin, end - begin);
  if (!result.untrusted_mask.empty()) result.untrusted_mask = result.untrusted_mask.substr(begin, end - begin);
}

void Normalizer::run(const Replace& replace, Result& result) {
  std::vector<Span> spans;
  replace.pattern.split(result.text, spans, *result.budget);
  check_growth(result.input_size, replaced_size(spans, replace.content.size()), replace.location);
  const std::string_view untrusted_mask = result.untrusted_mask;
  std::string text, new_mask;
  size_t first_size = 0;
  for (const Span& span : spans) {
    const size_t begin = text.size();
    if (span.match) {
      text += replace.content;
      if (!untrusted_mask.empty()) {  // an empty match takes the flag of the next character
        const std::string_view from = untrusted_mask.substr(std::min(span.begin, untrusted_mask.size() - 1),
                                                            std::max<size_t>(span.end - span.begin, 1));
        new_mask.resize(text.size(), from.find('\1') != std::string_view::npos ? '\1' : '\0');
      }
      // Content that replaces several characters counts as coming from the last one.
      if (span.begin < result.first_size && span.end <= result.first_size) first_size = text.size();
    } else {
      text += std::string_view(result.text).substr(span.begin, span.end - span.begin);
      if (!untrusted_mask.empty()) new_mask += untrusted_mask.substr(span.begin, span.end - span.begin);
      if (span.begin < result.first_size) first_size = begin + std::min(span.end, result.first_size) - span.begin;
    }
  }
  result.text = std::move(text);
  result.untrusted_mask = std::move(new_mask);
  result.first_size = first_size;
}

void Normalizer::run(const Prepend& prepend, Result& result) {
  if (result.text.empty()) return;
  result.text.insert(0, prepend.content);
  if (!result.untrusted_mask.empty()) result.untrusted_mask.insert(0, prepend.content.size(), result.untrusted_mask[0]);
  result.first_size += prepend.content.size();
}

}  // namespace keel::text
