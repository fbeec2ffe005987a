#include <algorithm>
#include <cmath>

#include "libs/hftext/jinja/objects/convert.h"
#include "libs/hftext/jinja/objects/format_number.h"
#include "libs/hftext/jinja/objects/operators.h"
#include "libs/hftext/jinja/objects/python_str.h"
#include "libs/hftext/jinja/objects/runtime.h"

namespace keel::jinja {
namespace {

class PercentFormat {
 public:
  PercentFormat(Runtime& runtime, const Value& format, const Value& values)
      : runtime_(runtime), format_(format), text_(format.text()), values_(values) {}

  TracedText run() {
    TracedText result;
    while (at_ < text_.size()) {
      const size_t percent = std::min(text_.find('%', at_), text_.size());
      result.append(format_.traced(), at_, percent);
      at_ = percent;
      if (at_ < text_.size()) {
        ++at_;
        result.append(format_next());
      }
      runtime_.check_text(result);
      runtime_.step();
    }
    const auto* tuple = values_.is(ObjectKind::kTuple) ? values_.as<Sequence>() : nullptr;
    const bool is_mapping = values_.is(ObjectKind::kDict) || values_.is(ObjectKind::kList) ||
                            values_.is(ObjectKind::kRange) || values_.is_undefined();
    if (tuple != nullptr ? used_ < tuple->items.size() : !is_mapping && used_ == 0) {
      runtime_.fail("'%' has more values than the format needs");
    }
    return result;
  }

 private:
  char peek() const {
    if (at_ >= text_.size()) runtime_.fail("a format ends after '%'; write %% for a percent sign");
    return text_[at_];
  }

  Value next_value() {
    if (const auto* tuple = values_.is(ObjectKind::kTuple) ? values_.as<Sequence>() : nullptr) {
      if (used_ >= tuple->items.size()) runtime_.fail("'%' has fewer values than the format needs");
      return tuple->items[used_++];
    }
    if (used_++ > 0) runtime_.fail("'%' has fewer values than the format needs");
    return values_;
  }

  int64_t number_or_star() {
    if (peek() == '*') {
      ++at_;
      const Value value = next_value();
      if (!value.is_integer()) runtime_.fail("'*' in a format expects an integer");
      return value.integer();
    }
    int64_t number = 0;
    while (peek() >= '0' && peek() <= '9') {
      number = number * 10 + (text_[at_++] - '0');
      if (number > INT32_MAX) runtime_.fail("a width in a format is too large");
    }
    return number;
  }

  std::optional<Value> named_value() {
    if (peek() != '(') return std::nullopt;
    const size_t begin = ++at_;
    for (int open = 1; open > 0; ++at_) open += peek() == '(' ? 1 : peek() == ')' ? -1 : 0;
    const auto* dict = values_.as<Dict>();
    if (dict == nullptr) runtime_.fail("a format with names expects a dict, got ", type_name(values_));
    const std::string name = text_.substr(begin, at_ - 1 - begin);
    const Value* found = dict->find(runtime_, name);
    if (found == nullptr) runtime_.fail("the format needs '", name, "', which is missing");
    used_ = 1;
    return *found;
  }

  FormatSpec spec() {
    FormatSpec result;
    for (; std::string_view("-+ #0").find(peek()) != std::string_view::npos; ++at_) {
      if (text_[at_] == '-') result.align = '<';
      if (text_[at_] == '+') result.sign = '+';
      if (text_[at_] == ' ' && result.sign != '+') result.sign = ' ';
      if (text_[at_] == '#') result.alternate = true;
      if (text_[at_] == '0') result.zero = true;
    }
    result.width = number_or_star();
    if (result.width < 0) {
      result.align = '<';
      result.width = -std::max<int64_t>(result.width, -INT32_MAX);
    }
    if (peek() == '.') {
      ++at_;
      result.precision = std::max<int64_t>(number_or_star(), 0);
    }
    if (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
    result.type = peek();
    ++at_;
    return result;
  }

  TracedText format_next() {
    const std::optional<Value> named = named_value();
    FormatSpec format = spec();
    if (format.type == '%') return format_.traced().part(at_ - 1, at_);
    const Value value = named ? *named : next_value();
    switch (format.type) {
      case 's': {
        const TracedText text = to_text(runtime_, value);
        return padded(format_.is_markup() && !value.is_markup() ? escape_html(runtime_, text) : text, format);
      }
      case 'r':
      case 'a': {
        std::string text = repr(runtime_, value);
        return padded(TracedText(std::move(text), contains_untrusted(runtime_, value)), format);
      }
      case 'c':
        return padded(character(value), format);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return TracedText(integer(value, format));
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return TracedText(real(value, format));
      default:
        runtime_.fail("'%", format.type, "' is not a format; use %s, %r, %d, %x, %f, %g or %%");
    }
  }

  TracedText padded(TracedText text, const FormatSpec& format) {
    if (format.precision >= 0 && format.type != 'c') {
      text = text.part(0, byte_of_code_point(text.bytes(), static_cast<size_t>(format.precision)));
    }
    if (format.width == 0) return text;
    return TracedText(pad(runtime_, text.bytes(), format, '>'), text.has_untrusted());
  }

  TracedText character(const Value& value) {
    std::string text;
    if (value.is_text() && code_point_count(value.text()) == 1) return value.traced();
    const bool valid = value.is_integer() && value.integer() >= 0 && value.integer() <= 0x10FFFF &&
                       !(value.integer() >= 0xD800 && value.integer() < 0xE000);
    if (!valid) runtime_.fail("'%c' expects a character, got ", type_name(value));
    append_code_point(text, static_cast<char32_t>(value.integer()));
    return TracedText(std::move(text));
  }

  static void fill_with_zeros(FormatSpec& format) {
    if (!format.zero || format.align == '<') return;
    format.fill.assign(1, '0');
    format.align = '=';
  }

  std::string integer(const Value& value, FormatSpec format) {
    if (value.is_undefined()) runtime_.fail_undefined(value);
    const bool decimal = format.type == 'd' || format.type == 'i' || format.type == 'u';
    if (!value.is_integer() && !(decimal && value.is_float())) {
      runtime_.fail("'%", format.type, "' expects a number, got ", type_name(value));
    }
    if (value.is_float() && !(std::abs(value.number()) < 0x1p63)) runtime_.fail("a number is too large for '%d'");
    fill_with_zeros(format);
    if (decimal) format.type = 'd';
    return format_integer(runtime_, value.is_float() ? static_cast<int64_t>(value.number()) : value.integer(), format);
  }

  std::string real(const Value& value, FormatSpec format) {
    if (value.is_undefined()) runtime_.fail_undefined(value);
    if (!value.is_number()) runtime_.fail("'%", format.type, "' expects a number, got ", type_name(value));
    fill_with_zeros(format);
    return format_float(runtime_, value.number(), format);
  }

  Runtime& runtime_;
  const Value& format_;
  const std::string& text_;
  const Value& values_;
  size_t at_ = 0, used_ = 0;
};

}  // namespace

TracedText format_percent(Runtime& runtime, const Value& format, const Value& values) {
  return PercentFormat(runtime, format, values).run();
}

}  // namespace keel::jinja
