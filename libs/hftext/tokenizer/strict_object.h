#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/json.h"

namespace keel::text {

/// One object of tokenizer.json, read strictly: whatever is wrong with it is an Error that names the file, the path in
/// it, the value got and the value wanted. The object must outlive this.
class Component {
 public:
  Component(const Json& object, std::string place);

  const std::string& place() const { return place_; }
  /// Whether the key is there and not null.
  bool has(const char* key) const;
  /// The value at the key; null when it is not there.
  const Json& at(const char* key) const;
  /// Refuses keys that are not listed ("type" is always known): what is not understood could change an id.
  void only(std::initializer_list<const char*> keys) const;

  std::string type() const;
  std::string string(const char* key) const;
  bool boolean(const char* key) const;
  bool boolean(const char* key, bool otherwise) const;
  int64_t integer(const char* key, int64_t low, int64_t high) const;
  /// A string that is one character.
  std::string character(const char* key) const;
  /// The elements of an array of objects.
  std::vector<Component> list(const char* key) const;

  /// Throws: the value at `key` is not what is `wanted`.
  [[noreturn]] void refuse(const char* key, std::string_view wanted) const;
  /// Throws: this component's type is none of the list.
  [[noreturn]] void refuse_type(std::string_view known) const;

 private:
  const Json* object_;
  std::string place_;
};

/// At most 120 bytes of a value, for an error.
std::string shown(const Json& value);
std::string shown_text(std::string_view text);

/// Throws when a text grows out of all proportion: a file may ask for a thousand replacements one after the other.
void check_growth(size_t before, size_t after, const std::string& place);

/// Throws when a sequence has more parts than any tokenizer needs.
void check_steps(size_t steps, const std::string& place);

}  // namespace keel::text
