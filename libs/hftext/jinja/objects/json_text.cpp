#include <algorithm>
#include <cmath>
#include <cstdio>

#include "libs/hftext/jinja/objects/convert.h"
#include "libs/hftext/jinja/objects/python_str.h"
#include "libs/hftext/jinja/objects/runtime.h"
#include "libs/hftext/jinja/objects/sorting.h"

namespace keel::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  std::string take() { return std::move(text_); }

  void write(const Value& value) {
    const Runtime::NestingGuard guard(runtime_);
    runtime_.step();
    if (value.is_none()) {
      text_ += "null";
    } else if (value.is_bool()) {
      text_ += value.boolean() ? "true" : "false";
    } else if (value.is_integer()) {
      text_ += std::to_string(value.integer());
    } else if (value.is_float()) {
      runtime_.step(kFloatSteps);
      text_ += number(value.number());
    } else if (value.is_text()) {
      string(value.text());
    } else if (const auto* sequence = value.as<Sequence>()) {
      array(*sequence);
    } else if (const auto* dict = value.as<Dict>()) {
      object(*dict);
    } else if (value.is_undefined()) {
      runtime_.fail_undefined(value);
    } else {
      runtime_.fail("a ", type_name(value), " cannot be written as JSON; convert it to a list first: x|list|tojson");
    }
    runtime_.check_text(text_.size());
  }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return repr(value);
  }

  void escape(char32_t code) {
    char buffer[16];
    std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(code));
    text_ += buffer;
  }

  void string(std::string_view bytes) {
    constexpr std::string_view kSpecial = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
    runtime_.step_characters(bytes.size());
    text_ += '"';
    for (size_t at = 0; at < bytes.size();) {
      const char32_t code = next_code_point(bytes, at);
      const size_t special = code < 0x80 ? kSpecial.find(static_cast<char>(code)) : std::string_view::npos;
      if (special != std::string_view::npos) {
        text_ += {'\\', kLetters[special]};
      } else if (code < 0x20 || (style_.ensure_ascii && code >= 0x7F && code < 0x10000)) {
        escape(code);
      } else if (style_.ensure_ascii && code >= 0x10000) {
        escape(0xD800 + ((code - 0x10000) >> 10));
        escape(0xDC00 + ((code - 0x10000) & 0x3FF));
      } else {
        append_code_point(text_, code);
      }
    }
    text_ += '"';
  }

  void newline() {
    if (!style_.indent) return;
    text_ += '\n';
    runtime_.check_text(text_.size() + style_.indent->size() * level_);
    for (size_t i = 0; i < level_; ++i) text_ += *style_.indent;
  }

  template <class Items, class Write>
  void container(char open, char close, const Items& items, Write write_item) {
    text_ += open;
    if (!items.empty()) {
      ++level_;
      bool first = true;
      for (const auto& item : items) {
        if (!first) text_ += style_.item_separator;
        first = false;
        newline();
        write_item(item);
      }
      --level_;
      newline();
    }
    text_ += close;
  }

  void array(const Sequence& sequence) {
    container('[', ']', sequence.items, [&](const Value& item) { write(item); });
  }

  void key(const Value& value) {
    if (value.is_text()) return string(value.text());
    if (value.is_float()) return string(number(value.number()));
    if (value.is_bool()) return string(value.boolean() ? "true" : "false");
    if (value.is_integer()) return string(std::to_string(value.integer()));
    if (value.is_none()) return string("null");
    runtime_.fail("a ", type_name(value), " cannot be a key in JSON; use a string");
  }

  void object(const Dict& dict) {
    runtime_.step(dict.items.size());
    std::vector<std::pair<Value, Value>> items = dict.items;
    if (style_.sort_keys) {
      merge_sort(items, [&](const auto& a, const auto& b) { return less(runtime_, a.first, b.first); });
    }
    container('{', '}', items, [&](const std::pair<Value, Value>& item) {
      key(item.first);
      text_ += style_.key_separator;
      write(item.second);
    });
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  std::string text_;
  size_t level_ = 0;
};

}  // namespace

std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  JsonWriter writer(runtime, style);
  writer.write(value);
  return writer.take();
}

}  // namespace keel::jinja
