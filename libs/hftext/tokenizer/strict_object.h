#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/json.h"

namespace keel::text {

/// Strict reader of one object of tokenizer.json. Each problem is an Error with the file, the path in it, and the
/// actual and expected values. The JSON object must outlive this.
class StrictObject {
 public:
  StrictObject(const Json& object, std::string location);

  const std::string& location() const { return location_; }
  /// True if the key exists and is not null.
  bool has(const char* key) const;
  /// The value at the key; null if it is missing.
  const Json& at(const char* key) const;
  /// Throws for keys that are not listed ("type" is always allowed), because unknown keys could change ids.
  void allow_keys(std::initializer_list<const char*> keys) const;

  std::string type() const;
  std::string string(const char* key) const;
  bool boolean(const char* key) const;
  bool boolean(const char* key, bool default_value) const;
  int64_t integer(const char* key, int64_t low, int64_t high) const;
  std::string character(const char* key) const;
  std::vector<StrictObject> list(const char* key) const;

  /// Throws an Error: the value at `key` is not what is `expected`.
  [[noreturn]] void fail_value(const char* key, std::string_view expected) const;
  /// Throws an Error: the type is not one of `known`.
  [[noreturn]] void fail_unknown_type(std::string_view known) const;

 private:
  const Json* object_;
  std::string location_;
};

/// The first 120 bytes of a value, for error messages.
std::string preview(const Json& value);
std::string preview_text(std::string_view text);

/// Throws if a text grows too much: a file may chain replacements that multiply its size.
void check_growth(size_t before, size_t after, const std::string& location);

/// Throws if a sequence has too many steps.
void check_steps(size_t steps, const std::string& location);

}  // namespace keel::text
