#include "libs/hftext/tokenizer/normalizer.h"

#include <algorithm>

#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/tokenizer/byte_alphabet.h"

namespace keel::text {
namespace {

/// Keeps, changes or drops each character: `map(text, c)` appends what becomes of it.
template <class Map>
void map_characters(Normalizer::Result& result, const Map& map) {
  std::string text, marks;
  text.reserve(result.text.size());
  size_t front = 0;
  for (size_t at = 0; at < result.text.size();) {
    const CodePoint c = code_point_at(result.text, at);
    map(text, c.value);
    if (!result.marks.empty()) marks.resize(text.size(), result.marks[at]);
    at += c.size;
    if (at <= result.front) front = text.size();
  }
  result.text = std::move(text);
  result.marks = std::move(marks);
  result.front = front;
}

/// The marks of what `form` makes of a text. No character of ASCII is joined to what stands before it, so that each
/// begins a part that can be looked at by itself; characters joined across marks are untrusted.
std::string normal_marks(std::string_view text, std::string_view marks, NormalForm form) {
  std::string result;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    do ++end;
    while (end < text.size() && static_cast<unsigned char>(text[end]) >= 0x80);
    const std::string whole = normalize(text.substr(begin, end - begin), form);
    std::string apart, apart_marks;
    for (size_t run = begin, next = 0; run < end; run = next) {
      for (next = run; next < end && marks[next] == marks[run];) ++next;
      apart += normalize(text.substr(run, next - run), form);
      apart_marks.resize(apart.size(), marks[run]);
    }
    result += apart == whole ? apart_marks : std::string(whole.size(), '\1');
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

Normalizer Normalizer::from_json(const Json& normalizer, const std::string& place) {
  Normalizer result;
  result.place_ = place;
  if (!normalizer.is_null()) result.add(Component(normalizer, place));
  check_steps(result.steps_.size(), place);
  return result;
}

void Normalizer::add(const Component& fields) {
  const std::string type = fields.type();
  if (type == "Sequence") {
    fields.only({"normalizers"});
    for (const Component& part : fields.list("normalizers")) add(part);
    return;
  }
  const auto simple = [&](Step step) {
    fields.only({});
    require_unicode_tables("the normalizer " + type, fields.place());
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
    fields.only({"strip_left", "strip_right"});
    steps_.push_back(Strip{fields.boolean("strip_left"), fields.boolean("strip_right")});
  } else if (type == "Replace") {
    fields.only({"pattern", "content"});
    steps_.push_back(Replace{Pattern::from_json(fields.at("pattern"), fields.place() + ".pattern"),
                             fields.string("content"), fields.place()});
  } else if (type == "Prepend") {
    fields.only({"prepend"});
    steps_.push_back(Prepend{fields.string("prepend")});
  } else {
    fields.refuse_type(
        "Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Replace, Prepend, ByteLevel, Nmt");
  }
}

ByteRanges Normalizer::Result::untrusted() const {
  ByteRanges ranges;
  for (size_t begin = marks.find('\1'), end = 0; begin != std::string::npos; begin = marks.find('\1', end)) {
    end = std::min(marks.find('\0', begin), marks.size());
    ranges.push_back({begin, end});
  }
  return ranges;
}

Normalizer::Result Normalizer::apply(std::string_view text, RegexBudget& budget, std::span<const ByteRange> untrusted,
                                     bool is_continuation) const {
  Result result{std::string(text), text.empty() ? 0 : code_point_at(text, 0).size, text.size(), "", &budget};
  if (!untrusted.empty()) result.marks.assign(text.size(), '\0');
  for (const ByteRange& range : untrusted)
    result.marks.replace(range.begin, range.end - range.begin, range.end - range.begin, '\1');
  for (const Step& step : steps_) {
    if (is_continuation && std::holds_alternative<Prepend>(step)) continue;
    std::visit([&](const auto& s) { run(s, result); }, step);
    check_growth(text.size(), result.text.size(), place_);
  }
  return result;
}

void Normalizer::run(NormalForm form, Result& result) {
  if (!result.marks.empty()) result.marks = normal_marks(result.text, result.marks, form);
  size_t front = normalize(std::string_view(result.text).substr(0, result.front), form).size();
  result.text = normalize(result.text, form);
  // The first character may have joined the marks behind it: what came of it ends where a character ends.
  front = std::min(front, result.text.size());
  while (front < result.text.size() && continues_character(result.text[front])) ++front;
  result.front = front;
}

void Normalizer::run(Lowercase, Result& result) { map_characters(result, append_lower_case); }

void Normalizer::run(StripAccents, Result& result) {
  map_characters(result, [](std::string& text, char32_t c) {
    if (!is_mark(c)) append_utf8(text, c);
  });
}

void Normalizer::run(Bytes, Result& result) {
  std::string text, marks;
  append_byte_characters(text, std::string_view(result.text).substr(0, result.front));
  const size_t front = text.size();
  append_byte_characters(text, std::string_view(result.text).substr(result.front));
  std::string each;
  for (size_t i = 0; i < result.marks.size(); ++i) {
    append_byte_characters(each, std::string_view(result.text).substr(i, 1));
    marks.resize(each.size(), result.marks[i]);
  }
  result.text = std::move(text);
  result.marks = std::move(marks);
  result.front = front;
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
  result.front = result.front > begin ? result.front - begin : 0;
  text = text.substr(begin, end - begin);
  if (!result.marks.empty()) result.marks = result.marks.substr(begin, end - begin);
}

void Normalizer::run(const Replace& replace, Result& result) {
  std::vector<Span> spans;
  replace.pattern.cut(result.text, spans, *result.budget);
  check_growth(result.given, replaced_size(spans, replace.content.size()), replace.place);
  const std::string_view marks = result.marks;
  std::string text, new_marks;
  size_t front = 0;
  for (const Span& span : spans) {
    const size_t begin = text.size();
    if (span.match) {
      text += replace.content;
      if (!marks.empty()) {  // what is put in between two characters belongs to the second
        const std::string_view from =
            marks.substr(std::min(span.begin, marks.size() - 1), std::max<size_t>(span.end - span.begin, 1));
        new_marks.resize(text.size(), from.find('\1') != std::string_view::npos ? '\1' : '\0');
      }
      // Of several characters it is the last that the content comes from.
      if (span.begin < result.front && span.end <= result.front) front = text.size();
    } else {
      text += std::string_view(result.text).substr(span.begin, span.end - span.begin);
      if (!marks.empty()) new_marks += marks.substr(span.begin, span.end - span.begin);
      if (span.begin < result.front) front = begin + std::min(span.end, result.front) - span.begin;
    }
  }
  result.text = std::move(text);
  result.marks = std::move(new_marks);
  result.front = front;
}

void Normalizer::run(const Prepend& prepend, Result& result) {
  if (result.text.empty()) return;
  result.text.insert(0, prepend.content);
  if (!result.marks.empty()) result.marks.insert(0, prepend.content.size(), result.marks[0]);
  result.front += prepend.content.size();
}

}  // namespace keel::text
