#include <cstddef>
#include <iterator>
#include <string>

#include "keel/core/tree_builder.h"

namespace keel {
namespace {

/// Walks over text and keeps `line` at the line of the last character read, because the SAX interface of nlohmann-json
/// says nothing about places. The character after a newline moves it on, not the newline itself: a number is only known
/// to be complete after the character behind it, often a newline, has been read.
struct LineCounter {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  bool after_newline;
  int* line;

  reference operator*() const { return *at; }
  LineCounter& operator++() {
    if (after_newline) ++*line;
    after_newline = *at++ == '\n';
    return *this;
  }
  LineCounter operator++(int) {
    const LineCounter before = *this;
    ++*this;
    return before;
  }
  bool operator==(const LineCounter& other) const { return at == other.at; }
  bool operator!=(const LineCounter& other) const { return at != other.at; }
};

/// "[json.exception.parse_error.101] parse error at line 2, column 3: WHAT" without our own line and the library's
/// name.
std::string without_place(std::string message) {
  if (const size_t end = message.find("] "); end != std::string::npos) message.erase(0, end + 2);
  if (message.starts_with("parse error at")) message.erase(0, message.find(": ") + 2);
  return message;
}

class JsonEvents : public nlohmann::json_sax<Json> {
 public:
  JsonEvents(TreeBuilder& builder, const int& line) : builder_(builder), line_(line) {}

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(number_integer_t value) override { return scalar(value); }
  bool number_unsigned(number_unsigned_t value) override { return scalar(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    // The library turns an integer that is too long into a floating-point number; a seed must not be rounded.
    const bool is_integer = text.find_first_of(".eE") == std::string::npos;
    if (is_integer) builder_.refuse(line_, "got ", text, ", wanted an integer that fits 64 bits");
    return scalar(value);
  }
  bool string(string_t& value) override { return scalar(std::move(value)); }
  bool binary(binary_t&) override { builder_.refuse(line_, "JSON text has no binary values"); }
  bool start_object(std::size_t) override {
    builder_.begin_mapping(line_);
    return true;
  }
  bool start_array(std::size_t) override {
    builder_.begin_list(line_);
    return true;
  }
  bool key(string_t& name) override {
    builder_.key(name, line_);
    return true;
  }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    builder_.refuse(line_, "not valid JSON: ", without_place(error.what()));
  }

 private:
  bool scalar(Json value) {
    builder_.scalar(std::move(value), line_);
    return true;
  }
  bool end() {
    builder_.end();
    return true;
  }

  TreeBuilder& builder_;
  const int& line_;
};

}  // namespace

void read_json(std::string_view text, int first_line, TreeBuilder& builder) {
  int line = first_line;
  JsonEvents events(builder, line);
  const char* end = text.data() + text.size();
  Json::sax_parse(LineCounter{text.data(), false, &line}, LineCounter{end, false, &line}, &events);
}

}  // namespace keel
