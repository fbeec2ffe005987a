#include "libs/hftext/tokenizer/strict_object.h"

#include <algorithm>

#include "keel/core/error.h"
#include "libs/hftext/characters/utf8.h"

namespace keel::text {

StrictObject::StrictObject(const Json& object, std::string location)
    : object_(&object), location_(std::move(location)) {
  if (!object.is_object()) fail(ExitCode::kBadInput, location_, " is ", preview(object), "; it must be an object");
}

bool StrictObject::has(const char* key) const { return !at(key).is_null(); }

const Json& StrictObject::at(const char* key) const {
  static const Json kNull;
  const auto found = object_->find(key);
  return found == object_->end() ? kNull : *found;
}

void StrictObject::allow_keys(std::initializer_list<const char*> keys) const {
  for (const auto& [key, value] : object_->items()) {
    const auto same = [&name = key](const char* known) { return name == known; };
    if (key == "type" || std::any_of(keys.begin(), keys.end(), same)) continue;
    std::string known;
    for (const char* name : keys) known += std::string(known.empty() ? "" : ", ") + name;
    fail(ExitCode::kBadInput, location_, ": \"", preview_text(key), "\" is not known and could change ids; known are ",
         known.empty() ? "no keys" : known, ": remove it if it has no effect, or use another tokenizer");
  }
}

std::string StrictObject::type() const { return string("type"); }

std::string StrictObject::string(const char* key) const {
  const Json& value = at(key);
  if (!value.is_string()) fail_value(key, "a string");
  return value.get<std::string>();
}

bool StrictObject::boolean(const char* key) const {
  if (!at(key).is_boolean()) fail_value(key, "true or false");
  return at(key).get<bool>();
}

bool StrictObject::boolean(const char* key, bool default_value) const {
  return has(key) ? boolean(key) : default_value;
}

int64_t StrictObject::integer(const char* key, int64_t low, int64_t high) const {
  const Json& value = at(key);
  const bool fits = value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX) &&
                    value.get<int64_t>() >= low && value.get<int64_t>() <= high;
  if (!fits) fail_value(key, "an integer from " + std::to_string(low) + " to " + std::to_string(high));
  return value.get<int64_t>();
}

std::string StrictObject::character(const char* key) const {
  const std::string text = string(key);
  if (text.empty() || code_point_at(text, 0).size != text.size()) fail_value(key, "one character");
  return text;
}

std::vector<StrictObject> StrictObject::list(const char* key) const {
  const Json& array = at(key);
  if (!array.is_array()) fail_value(key, "an array");
  std::vector<StrictObject> components;
  for (size_t i = 0; i < array.size(); ++i) {
    components.emplace_back(array[i], location_ + "." + key + "[" + std::to_string(i) + "]");
  }
  return components;
}

void StrictObject::fail_value(const char* key, std::string_view expected) const {
  fail(ExitCode::kBadInput, location_, ".", key, " is ", preview(at(key)), "; it must be ", expected);
}

void StrictObject::fail_unknown_type(std::string_view known) const {
  fail(ExitCode::kBadInput, location_, ".type is ", preview(at("type")), "; supported are ", known,
       ": use a model whose tokenizer has one of these");
}

std::string preview_text(std::string_view text) {
  constexpr size_t kMaxPreview = 120;
  if (text.size() <= kMaxPreview) return std::string(text);
  size_t end = kMaxPreview - std::string_view("...").size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string preview(const Json& value) {
  if (value.is_null()) return "missing";
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array of " + std::to_string(value.size());
  if (value.is_string()) return "\"" + preview_text(value.get_ref<const std::string&>()) + "\"";
  return value.dump();
}

void check_growth(size_t before, size_t after, const std::string& location) {
  if (after <= before * 64 + (size_t{1} << 20)) return;
  fail(ExitCode::kBadInput, location, ": this component turns ", before, " bytes into ", after,
       " bytes; at most 64 times as many plus 1 MiB are allowed: use a tokenizer with fewer replacements");
}

void check_steps(size_t steps, const std::string& location) {
  if (steps > 100) fail(ExitCode::kBadInput, location, ": ", steps, " steps in sequence; at most 100 are allowed");
}

}  // namespace keel::text
