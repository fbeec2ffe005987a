#include <string>

#include "keel/core/json_reader.h"
#include "keel/core/options/tree_builder.h"

namespace keel {
namespace {

class ConfigHandler final : public JsonSaxHandler {
 public:
  ConfigHandler(TreeBuilder& builder, int first_line)
      : JsonSaxHandler(kMaxConfigDepth), builder_(builder), first_line_(first_line) {}

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(number_integer_t value) override { return scalar(value); }
  bool number_unsigned(number_unsigned_t value) override { return scalar(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    // The library converts integers beyond 64 bits to floating point, but a seed must not be rounded.
    const bool is_integer = text.find_first_of(".eE") == std::string::npos;
    if (is_integer) builder_.refuse(current_line(), "got ", text, ", expected an integer that fits 64 bits");
    return scalar(value);
  }
  bool string(string_t& value) override { return scalar(std::move(value)); }
  bool key(string_t& name) override {
    builder_.key(name, current_line());
    return true;
  }

 private:
  bool begin_object() override {
    builder_.begin_mapping(current_line());
    return true;
  }
  bool begin_array() override {
    builder_.begin_list(current_line());
    return true;
  }
  bool finish_object() override { return end(); }
  bool finish_array() override { return end(); }
  [[noreturn]] void refuse(const std::string& reason) const override { builder_.refuse(current_line(), reason); }

  /// Returns the line in the file; 0 (no line number) for a value from the command line.
  int current_line() const { return first_line_ == 0 ? 0 : first_line_ + line() - 1; }
  bool scalar(Json value) {
    builder_.scalar(std::move(value), current_line());
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
  ConfigHandler handler(builder, first_line);
  parse_json_sax(text, handler);
}

}  // namespace keel
