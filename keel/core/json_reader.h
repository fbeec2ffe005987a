#pragma once

// The one door for JSON from outside: files of models, rows, answers, replies, runs. Trees are copied, compared and
// printed by recursion, so nesting is bounded while a text is read, before there is a tree; no other file calls the
// library's parser.

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "keel/core/json.h"

namespace keel {

constexpr size_t kFileDepth = 64;   // lists and objects in each other: more than any model's or run's files have
constexpr size_t kDataDepth = 512;  // for rows, answers and replies, which hold data of any form

/// Hears what a JSON text says, part by part, for readers that build no tree of it.
class JsonSaxHandler : public nlohmann::json_sax<Json> {
 public:
  explicit JsonSaxHandler(size_t depth) : most_(depth) {}
  /// Where the reader is, from 1.
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
  /// Throws what the caller of the reader expects.
  [[noreturn]] virtual void refuse(const std::string& reason) const = 0;

 private:
  friend void parse_json_sax(std::string_view text, JsonSaxHandler& listener);
  void enter();

  size_t most_, depth_ = 0;
  int line_ = 1;
};

void parse_json_sax(std::string_view text, JsonSaxHandler& listener);

/// What a tree may hold beyond what JSON says.
struct JsonRules {
  size_t depth = kFileDepth;
  bool repeated_keys = true;  // the last one counts, as in Python
  bool exact = false;         // no integer beyond 64 bits, which would be rounded
  bool nul = true;            // NUL in texts
};

/// Why a text was not read.
class JsonParseError : public std::runtime_error {
 public:
  JsonParseError(const std::string& reason, int line) : std::runtime_error(reason), line_(line) {}
  int line() const { return line_; }
  /// Whether it may well be JSON, and is only nested deeper than is read.
  bool is_depth() const { return std::string_view(what()).starts_with(kTooDeep); }
  /// Whether it may well be JSON, and only has an integer that would be rounded.
  bool is_inexact() const { return std::string_view(what()).starts_with(kTooLarge); }
  static constexpr std::string_view kTooDeep = "nested deeper than ", kTooLarge = "the integer ";

 private:
  int line_;
};

/// The tree of a text; a JsonParseError where it has none under these rules. Takes time in proportion to the text.
Json parse_json(std::string_view text, const JsonRules& rules = {});

/// The same for texts that need not be JSON: nothing where there is a fault.
std::optional<Json> try_parse_json(std::string_view text, const JsonRules& rules = {});

}  // namespace keel
