#include <algorithm>

#include "libs/hftext/jinja/library/text_methods.h"
#include "libs/hftext/jinja/objects/convert.h"
#include "libs/hftext/jinja/objects/format_number.h"
#include "libs/hftext/jinja/objects/operators.h"
#include "libs/hftext/jinja/objects/python_str.h"
#include "libs/hftext/jinja/objects/runtime.h"

namespace keel::jinja {
namespace {

class BraceFormat {
 public:
  BraceFormat(Runtime& runtime, const Value& format, const Arguments& arguments)
      : runtime_(runtime), format_(format), arguments_(arguments) {}

  TracedText run() { return run(format_.traced(), 1); }

 private:
  /// `depth` is the remaining nesting of fields inside format specifications.
  TracedText run(const TracedText& format, int depth) {
    if (depth < 0) runtime_.fail("fields of a format are nested too deeply");
    const std::string_view text = format.bytes();
    runtime_.step_characters(text.size());
    TracedText result;
    for (size_t at = 0; at < text.size();) {
      const char c = text[at++];
      const bool doubled = at < text.size() && text[at] == c;
      if (c != '{' && c != '}') {
        result.append(format, at - 1, at);
      } else if (doubled) {
        result.append(format, at - 1, at);
        ++at;
      } else if (c == '}') {
        runtime_.fail("a single '}' in a format; write '}}'");
      } else {
        const size_t end = field_end(text, at);
        result.append(field(format.part(at, end), depth));
        at = end + 1;
      }
      runtime_.check_text(result);
    }
    return result;
  }

  size_t field_end(std::string_view text, size_t at) const {
    int open = 1;
    bool in_brackets = false;
    for (; at < text.size(); ++at) {
      if (text[at] == '[') in_brackets = true;
      if (text[at] == ']') in_brackets = false;
      if (in_brackets) continue;
      if (text[at] == '{') ++open;
      if (text[at] == '}' && --open == 0) return at;
    }
    runtime_.fail("a '{' in a format has no '}'; write '{{' for a brace");
  }

  TracedText field(const TracedText& field_text, int depth) {
    const std::string_view text = field_text.bytes();
    runtime_.step();
    size_t end = 0;
    for (bool in_brackets = false; end < text.size(); ++end) {
      if (text[end] == '[') in_brackets = true;
      if (text[end] == ']') in_brackets = false;
      if (!in_brackets && (text[end] == '!' || text[end] == ':')) break;
    }
    Value value = lookup(text.substr(0, end));
    if (end < text.size() && text[end] == '!') {
      const char conversion = end + 1 < text.size() ? text[end + 1] : '\0';
      end += 2;
      if (end < text.size() && text[end] != ':') runtime_.fail("expected ':' after the conversion in a format");
      if (conversion == 's') {
        value = runtime_.text(to_text(runtime_, value));
      } else if (conversion == 'r' || conversion == 'a') {
        value = runtime_.text(TracedText(repr(runtime_, value), contains_untrusted(runtime_, value)));
      } else {
        runtime_.fail("unknown conversion in a format; only !s and !r are supported");
      }
    }
    return formatted(value, end < text.size() ? run(field_text.part(end + 1, text.size()), depth - 1) : TracedText());
  }

  Value argument(std::string_view name) {
    const bool is_index = name.find_first_not_of("0123456789") == std::string_view::npos;
    if (!is_index) {
      for (const auto& [key, value] : arguments_.named) {
        runtime_.step();
        if (key == name) return value;
      }
      runtime_.fail("the format needs '", name, "', which is missing");
    }
    const Numbering numbering = name.empty() ? Numbering::kAutomatic : Numbering::kManual;
    if (numbering_ != Numbering::kUnset && numbering_ != numbering) runtime_.fail("a format mixes {} with {0}");
    numbering_ = numbering;
    const std::optional<int64_t> index = name.empty() ? next_++ : parse_integer(runtime_, name);
    if (!index || *index >= std::ssize(arguments_.positional)) {
      runtime_.fail("the format needs more values than it gets");
    }
    return arguments_.positional[static_cast<size_t>(*index)];
  }

  /// Evaluates a field name such as first.attribute[item].
  Value lookup(std::string_view path) {
    size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, end));
    while (end < path.size()) {
      const bool is_item = path[end] == '[';
      if (!is_item && path[end] != '.') runtime_.fail("expected '.' or '[' in a field of a format");
      const size_t begin = end + 1;
      end = std::min(is_item ? path.find(']', begin) : path.find_first_of(".[", begin), path.size());
      const std::string name(path.substr(begin, end - begin));
      if (name.empty() || (is_item && end == path.size()))
        runtime_.fail("an empty or unterminated part in a field of a format");
      const bool is_index = is_item && name.find_first_not_of("0123456789") == std::string::npos;
      const std::optional<int64_t> index = is_index ? parse_integer(runtime_, name) : std::nullopt;
      value = index     ? get_item(runtime_, value, *index)
              : is_item ? get_item(runtime_, value, runtime_.literal(name))
                        : get_attribute(runtime_, value, name);
      if (is_item) ++end;
    }
    return value;
  }

  FormatSpec parse_spec(const std::string& text) {
    FormatSpec spec;
    size_t at = 0;
    const auto is_align = [&](size_t i) {
      return i < text.size() && std::string_view("<>^=").find(text[i]) != std::string_view::npos;
    };
    size_t after_first = 0;
    if (!text.empty()) next_code_point(text, after_first);
    if (!text.empty() && is_align(after_first)) {
      spec.fill = text.substr(0, after_first);
      spec.align = text[after_first];
      at = after_first + 1;
    } else if (is_align(0)) {
      spec.align = text[at++];
    }
    const bool explicit_align = spec.align != '\0';
    const auto next_is = [&](std::string_view chars) {
      return at < text.size() && chars.find(text[at]) != std::string_view::npos;
    };
    if (next_is("+- ")) spec.sign = text[at++];
    if (next_is("#")) {
      spec.alternate = true;
      ++at;
    }
    if (next_is("0")) {
      spec.zero = true;
      ++at;
      if (!explicit_align) {
        spec.fill.assign(1, '0');
        spec.align = '=';
      }
    }
    const auto number = [&] {
      int64_t value = 0;
      for (; next_is("0123456789"); ++at) {
        value = value * 10 + (text[at] - '0');
        if (value > INT32_MAX) runtime_.fail("a width in a format is too large");
      }
      return value;
    };
    spec.width = number();
    if (next_is(",_")) spec.grouping = text[at++];
    if (next_is(".")) {
      ++at;
      if (!next_is("0123456789")) runtime_.fail("a format has no precision after '.'");
      spec.precision = number();
    }
    if (at < text.size()) spec.type = text[at++];
    if (at < text.size()) runtime_.fail("'", text, "' is not a format");
    return spec;
  }

  TracedText formatted(const Value& value, const TracedText& spec) {
    if (spec.size() > 0 && !value.is_text()) {
      return TracedText(formatted_number(value, spec.bytes()), spec.has_untrusted());
    }
    TracedText plain = to_text(runtime_, value);
    if (format_.is_markup() && !value.is_markup()) plain = escape_html(runtime_, plain);
    if (spec.size() == 0) return plain;
    return TracedText(formatted_text(plain.bytes(), spec.bytes()), plain.has_untrusted() || spec.has_untrusted());
  }

  std::string formatted_text(std::string plain, const std::string& text) {
    FormatSpec spec = parse_spec(text);
    const bool zero_only = spec.zero && spec.align == '=';
    if ((spec.type != '\0' && spec.type != 's') || (spec.align == '=' && !zero_only) || spec.sign != '-' ||
        spec.alternate || spec.grouping != '\0') {
      runtime_.fail("'", text, "' is not a format for a string");
    }
    if (zero_only) spec.align = '\0';
    if (spec.precision >= 0) plain.resize(byte_of_code_point(plain, static_cast<size_t>(spec.precision)));
    return pad(runtime_, std::move(plain), spec, '<');
  }

  std::string formatted_number(const Value& value, const std::string& text) {
    const FormatSpec spec = parse_spec(text);
    const bool is_integer_type =
        spec.type == '\0' || std::string_view("dxXobn").find(spec.type) != std::string_view::npos;
    if (value.is_integer() && is_integer_type && spec.precision < 0)
      return format_integer(runtime_, value.integer(), spec);
    const bool is_float_type =
        (spec.type == '\0' && value.is_float()) ||
        (spec.type != '\0' && std::string_view("eEfFgGn%").find(spec.type) != std::string_view::npos);
    if (value.is_number() && is_float_type) return format_float(runtime_, value.number(), spec);
    if (value.is_undefined()) runtime_.fail_undefined(value);
    runtime_.fail("'", text, "' is not a format for ", type_name(value));
  }

  Runtime& runtime_;
  const Value& format_;
  const Arguments& arguments_;
  enum class Numbering { kUnset, kAutomatic, kManual } numbering_ = Numbering::kUnset;  // {} or {0}
  int64_t next_ = 0;
};

}  // namespace

TracedText format_braces(Runtime& runtime, const Value& format, const Arguments& arguments) {
  return BraceFormat(runtime, format, arguments).run();
}

}  // namespace keel::jinja
