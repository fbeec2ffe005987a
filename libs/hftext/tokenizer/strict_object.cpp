#include "libs/hftext/tokenizer/strict_object.h"

#include <algorithm>

#include "keel/core/error.h"
#include "libs/hftext/characters/utf8.h"

namespace keel::text {

Component::Component(const Json& object, std::string place) : object_(&object), place_(std::move(place)) {
  if (!object.is_object()) fail(ExitCode::kBadInput, place_, " is ", shown(object), "; it must be an object");
}

bool Component::has(const char* key) const { return !at(key).is_null(); }

const Json& Component::at(const char* key) const {
  static const Json kNull;
  const auto found = object_->find(key);
  return found == object_->end() ? kNull : *found;
}

void Component::only(std::initializer_list<const char*> keys) const {
  for (const auto& [key, value] : object_->items()) {
    const auto same = [&name = key](const char* known) { return name == known; };
    if (key == "type" || std::any_of(keys.begin(), keys.end(), same)) continue;
    std::string known;
    for (const char* name : keys) known += std::string(known.empty() ? "" : ", ") + name;
    fail(ExitCode::kBadInput, place_, ": \"", shown_text(key),
         "\" is not known to this version and could change ids; known are ", known.empty() ? "no keys" : known,
         ": remove it if it means nothing, or use another tokenizer");
  }
}

std::string Component::type() const { return string("type"); }

std::string Component::string(const char* key) const {
  const Json& value = at(key);
  if (!value.is_string()) refuse(key, "a string");
  return value.get<std::string>();
}

bool Component::boolean(const char* key) const {
  if (!at(key).is_boolean()) refuse(key, "true or false");
  return at(key).get<bool>();
}

bool Component::boolean(const char* key, bool otherwise) const { return has(key) ? boolean(key) : otherwise; }

int64_t Component::integer(const char* key, int64_t low, int64_t high) const {
  const Json& value = at(key);
  const bool fits = value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX) &&
                    value.get<int64_t>() >= low && value.get<int64_t>() <= high;
  if (!fits) refuse(key, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  return value.get<int64_t>();
}

std::string Component::character(const char* key) const {
  const std::string text = string(key);
  if (text.empty() || code_point_at(text, 0).size != text.size()) refuse(key, "one character");
  return text;
}

std::vector<Component> Component::list(const char* key) const {
  const Json& array = at(key);
  if (!array.is_array()) refuse(key, "an array");
  std::vector<Component> components;
  for (size_t i = 0; i < array.size(); ++i) {
    components.emplace_back(array[i], place_ + "." + key + "[" + std::to_string(i) + "]");
  }
  return components;
}

void Component::refuse(const char* key, std::string_view wanted) const {
  fail(ExitCode::kBadInput, place_, ".", key, " is ", shown(at(key)), "; it must be ", wanted);
}

void Component::refuse_type(std::string_view known) const {
  fail(ExitCode::kBadInput, place_, ".type is ", shown(at("type")), "; this version knows ", known,
       ": use a model whose tokenizer has one of these");
}

std::string shown_text(std::string_view text) {
  if (text.size() <= 120) return std::string(text);
  size_t end = 117;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string shown(const Json& value) {
  if (value.is_null()) return "missing";
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array of " + std::to_string(value.size());
  if (value.is_string()) return "\"" + shown_text(value.get_ref<const std::string&>()) + "\"";
  return value.dump();
}

void check_growth(size_t before, size_t after, const std::string& place) {
  if (after <= before * 64 + (size_t{1} << 20)) return;
  fail(ExitCode::kBadInput, place, ": this component makes ", after, " bytes of ", before,
       "; at most 64 times as many and 1 MiB are allowed: use a tokenizer that replaces less");
}

void check_steps(size_t steps, const std::string& place) {
  if (steps > 100) fail(ExitCode::kBadInput, place, ": ", steps, " steps one after the other; at most 100 are allowed");
}

}  // namespace keel::text
