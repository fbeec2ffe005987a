#pragma once

// Parses all JSON input: model files, dataset rows, replies, runs. No other file calls the library's parser. The parser
// limits nesting while it reads, because trees are copied, compared and printed recursively.

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "keel/core/json.h"

namespace keel {

constexpr size_t kFileDepth = 64;   // maximum nesting of model and run files, more than any of them has
constexpr size_t kDataDepth = 512;  // maximum nesting of rows, answers and replies, which hold arbitrary data

/// SAX handler with limited nesting, for readers that do not build a tree.
class JsonSaxHandler : public nlohmann::json_sax<Json> {
 public:
  explicit JsonSaxHandler(size_t max_depth) : max_depth_(max_depth) {}
  /// Returns the current line, from 1.
  int line() const { return line_; }

  bool binary(binary_t&) final { return refuse("JSON text has no binary values"), false; }
  bool start_object(size_t) final { return enter(), begin_object(); }
  bool start_array(size_t) final { return enter(), begin_array(); }
  bool end_object() final { return --depth_, finish_object(); }
  bool end_array() final { return --depth_, finish_array(); }
  bool parse_error(size_t position, const std::string& token, const Json::exception& error) override;

 protected:
  virtual bool begin_object() = 0;
  virtual bool begin_array() = 0;
  virtual bool finish_object() = 0;
  virtual bool finish_array() = 0;
  /// Throws the exception type that the caller expects.
  [[noreturn]] virtual void refuse(const std::string& reason) const = 0;

 private:
  friend void parse_json_sax(std::string_view text, JsonSaxHandler& handler);
  void enter();

  size_t max_depth_, depth_ = 0;
  int line_ = 1;
};

void parse_json_sax(std::string_view text, JsonSaxHandler& handler);

/// Limits on JSON input in addition to the grammar.
struct JsonRules {
  size_t depth = kFileDepth;
  bool repeated_keys = true;  // allows them; the last one counts, as in Python
  bool exact = false;         // rejects integers beyond 64 bits, which would be rounded
  bool nul = true;            // allows NUL in strings
};

/// A parse error with its line.
class JsonParseError : public std::runtime_error {
 public:
  JsonParseError(const std::string& reason, int line) : std::runtime_error(reason), line_(line) {}
  int line() const { return line_; }
  /// Returns whether the text exceeds the nesting limit. It may be valid JSON.
  bool is_depth() const { return std::string_view(what()).starts_with(kTooDeep); }
  /// Returns whether the text has an integer that would be rounded. It may be valid JSON.
  bool is_inexact() const { return std::string_view(what()).starts_with(kTooLarge); }
  static constexpr std::string_view kTooDeep = "nested deeper than ", kTooLarge = "the integer ";

 private:
  int line_;
};

/// Parses the text in linear time. Throws JsonParseError if it is not JSON under these rules.
Json parse_json(std::string_view text, const JsonRules& rules = {});

/// Parses a text that may not be JSON. Returns nullopt on an error.
std::optional<Json> try_parse_json(std::string_view text, const JsonRules& rules = {});

}  // namespace keel
