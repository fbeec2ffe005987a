#include "keel/core/json_reader.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <vector>

#include "keel/core/untrusted_text.h"

namespace keel {
namespace {

constexpr size_t kIndexedKeys = 32;  // from here on, an index replaces the linear search

/// Iterates over text and keeps `line` at the line of the last character read, because nlohmann's SAX interface does
/// not report positions. The character after a newline increments it, not the newline itself: the parser reads one
/// character past the end of a number, often a newline.
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

/// Shortens "[json.exception.parse_error.101] parse error at line 1, column 3: WHAT" to "column 3: WHAT". WHAT quotes
/// the text, which can be long.
std::string without_library_name(std::string message) {
  constexpr size_t kShown = 300;
  if (const size_t end = message.find("] "); end != std::string::npos) message.erase(0, end + 2);
  if (const size_t column = message.find("column "); message.starts_with("parse error at") && column != message.npos)
    message.erase(0, column);
  return message.size() > kShown ? message.substr(0, kShown) + "..." : message;
}

class TreeHandler final : public JsonSaxHandler {
 public:
  explicit TreeHandler(const JsonRules& rules) : JsonSaxHandler(rules.depth), rules_(rules) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    if (rules_.exact && text.find_first_of(".eE") == std::string::npos)
      refuse(std::string(JsonParseError::kTooLarge) + printable(text) + " does not fit 64 bits; write it as a string");
    return put(value);
  }
  bool string(string_t& value) override {
    check_text(value);
    return put(std::move(value));
  }
  bool key(string_t& name) override {
    check_text(name);
    Level& level = levels_.back();
    level.entry_index = level.find_or_reserve(name);
    if (level.entry_index < level.entries().size() && !rules_.repeated_keys)
      refuse("duplicate key " + printable(name) + "; keep one of them");
    level.name = std::move(name);
    return true;
  }

  Json take() { return std::move(root_); }

 private:
  struct Level {
    Json* node;  // stays valid: its parent gets no new child before this level ends
    std::string name;
    size_t entry_index = 0;                                // of the next value
    std::unordered_map<std::string, size_t> index_of_key;  // only for objects with many keys

    /// Returns the entries in insertion order: nlohmann's ordered map is a vector.
    std::vector<Json::object_t::value_type>& entries() { return node->get_ref<Json::object_t&>(); }

    /// Returns the index of the key's entry, or the index of a new one.
    size_t find_or_reserve(const std::string& key) {
      const auto& all = entries();
      if (all.size() < kIndexedKeys)
        return static_cast<size_t>(
            std::find_if(all.begin(), all.end(), [&](const auto& entry) { return entry.first == key; }) - all.begin());
      if (index_of_key.empty())
        for (size_t i = 0; i < all.size(); ++i) index_of_key.emplace(all[i].first, i);
      return index_of_key.emplace(key, all.size()).first->second;
    }
  };

  bool begin_object() override { return begin(Json::object()); }
  bool begin_array() override { return begin(Json::array()); }
  bool finish_object() override { return finish(); }
  bool finish_array() override { return finish(); }
  [[noreturn]] void refuse(const std::string& reason) const override { throw JsonParseError(reason, line()); }

  void check_text(const std::string& text) const {
    if (!rules_.nul && text.find('\0') != std::string::npos) refuse("a NUL character in " + printable(text));
  }

  Json* insert(Json value) {
    if (levels_.empty()) return &(root_ = std::move(value));
    Level& level = levels_.back();
    if (level.node->is_array()) {
      level.node->push_back(std::move(value));
      return &level.node->back();
    }
    // Inserts by index: the usual insertion would search all earlier keys again.
    auto& entries = level.entries();
    if (level.entry_index == entries.size())
      entries.emplace_back(level.name, std::move(value));
    else
      entries[level.entry_index].second = std::move(value);
    return &entries[level.entry_index].second;
  }
  bool put(Json value) {
    insert(std::move(value));
    return true;
  }
  bool begin(Json empty) {
    levels_.push_back({insert(std::move(empty)), "", 0, {}});
    return true;
  }
  bool finish() {
    levels_.pop_back();
    return true;
  }

  JsonRules rules_;
  Json root_;
  std::vector<Level> levels_;
};

}  // namespace

void JsonSaxHandler::enter() {
  if (++depth_ > max_depth_) refuse(std::string(JsonParseError::kTooDeep) + std::to_string(max_depth_) + " levels");
}

bool JsonSaxHandler::parse_error(size_t, const std::string&, const Json::exception& error) {
  return refuse("not valid JSON: " + without_library_name(error.what())), false;
}

void parse_json_sax(std::string_view text, JsonSaxHandler& handler) {
  if (text.find('\0') != std::string_view::npos)  // the parser would treat it as the end
    handler.refuse("a NUL character at byte " + std::to_string(text.find('\0') + 1) + "; JSON has none");
  const char* end = text.data() + text.size();
  Json::sax_parse(LineCounter{text.data(), false, &handler.line_}, LineCounter{end, false, &handler.line_}, &handler);
}

Json parse_json(std::string_view text, const JsonRules& rules) {
  TreeHandler handler(rules);
  parse_json_sax(text, handler);
  return handler.take();
}

std::optional<Json> try_parse_json(std::string_view text, const JsonRules& rules) {
  try {
    return parse_json(text, rules);
  } catch (const JsonParseError&) {
    return std::nullopt;
  }
}

}  // namespace keel
