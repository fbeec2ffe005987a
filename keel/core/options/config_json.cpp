#include <string>

#include "keel/core/json_reader.h"
#include "keel/core/options/tree_builder.h"

namespace keel {
namespace {

class ConfigListener final : public JsonSaxHandler {
 public:
  ConfigListener(TreeBuilder& builder, int first_line)
      : JsonSaxHandler(kMaxConfigDepth), builder_(builder), first_line_(first_line) {}

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(number_integer_t value) override { return scalar(value); }
  bool number_unsigned(number_unsigned_t value) override { return scalar(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    // The library turns an integer that is too long into a floating-point number; a seed must not be rounded.
    const bool is_integer = text.find_first_of(".eE") == std::string::npos;
    if (is_integer) builder_.refuse(here(), "got ", text, ", expected an integer that fits 64 bits");
    return scalar(value);
  }
  bool string(string_t& value) override { return scalar(std::move(value)); }
  bool key(string_t& name) override {
    builder_.key(name, here());
    return true;
  }

 private:
  bool begin_object() override {
    builder_.begin_mapping(here());
    return true;
  }
  bool begin_array() override {
    builder_.begin_list(here());
    return true;
  }
  bool finish_object() override { return end(); }
  bool finish_array() override { return end(); }
  [[noreturn]] void refuse(const std::string& reason) const override { builder_.refuse(here(), reason); }

  /// 0, which names no line, where there is but one.
  int here() const { return first_line_ == 0 ? 0 : first_line_ + line() - 1; }
  bool scalar(Json value) {
    builder_.scalar(std::move(value), here());
    return true;
  }
  bool end() {
    builder_.end();
    return true;
  }

  TreeBuilder& builder_;
  int first_line_;
};

}  // namespace

void read_json(std::string_view text, int first_line, TreeBuilder& builder) {
  ConfigListener listener(builder, first_line);
  parse_json_sax(text, listener);
}

}  // namespace keel
