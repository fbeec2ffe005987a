#include "keel/data/row_json.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "keel/core/foreign_text.h"
#include "keel/data/bad_row.h"

namespace keel {
namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kManyKeys = 32;  // from here on a search through all earlier keys would take too long

/// "[json.exception.parse_error.101] parse error at line 1, column 3: WHAT" as "column 3: WHAT".
std::string without_library_name(std::string message) {
  if (const size_t column = message.find("column "); column != std::string::npos) return message.substr(column);
  if (const size_t end = message.find("] "); end != std::string::npos) message.erase(0, end + 2);
  return message;
}

/// Builds the tree of one row and refuses what the library would let pass.
class RowBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit RowBuilder(const std::string& place) : place_(place) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    // The library rounds an integer that is too long; an answer must not be rounded.
    if (text.find_first_of(".eE") == std::string::npos)
      refuse("the integer " + printable(text) + " does not fit 64 bits; write it as a string");
    return put(value);
  }
  bool string(string_t& value) override {
    refuse_nul(value);
    return put(std::move(value));
  }
  bool binary(binary_t&) override { refuse("JSON text has no binary values"); }
  bool start_object(std::size_t) override { return begin(Json::object()); }
  bool start_array(std::size_t) override { return begin(Json::array()); }
  bool key(string_t& name) override {
    refuse_nul(name);
    Level& level = levels_.back();
    if (!level.is_new(name)) refuse("duplicate key " + printable(name) + "; keep one of them");
    level.name = std::move(name);
    return true;
  }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    refuse("not valid JSON: " + without_library_name(error.what()));
  }

  Json take() { return std::move(root_); }

 private:
  struct Level {
    Json* node;  // stays where it is: its parent gets no new child before this level ends
    std::string name;
    std::unordered_set<std::string> names;  // of an object with many keys

    bool is_new(const std::string& key) {
      const auto& entries = node->get_ref<const Json::object_t&>();
      if (entries.size() < kManyKeys)
        return std::none_of(entries.begin(), entries.end(), [&](const auto& entry) { return entry.first == key; });
      if (names.empty())
        for (const auto& entry : entries) names.insert(entry.first);
      return names.insert(key).second;
    }
  };

  [[noreturn]] void refuse(const std::string& reason) const { throw BadRow(place_, reason); }
  void refuse_nul(const std::string& text) const {
    if (text.find('\0') != std::string::npos) refuse("a NUL character in " + printable(text));
  }

  Json* place_value(Json value) {
    if (levels_.empty()) return &(root_ = std::move(value));
    Level& level = levels_.back();
    if (level.node->is_array()) {
      level.node->push_back(std::move(value));
      return &level.node->back();
    }
    auto& entries = level.node->get_ref<Json::object_t&>();
    entries.emplace_back(level.name, std::move(value));
    return &entries.back().second;
  }
  bool put(Json value) {
    place_value(std::move(value));
    return true;
  }
  bool begin(Json empty) {
    if (levels_.size() >= kMaxDepth) refuse("nested deeper than " + std::to_string(kMaxDepth) + " levels");
    levels_.push_back({place_value(std::move(empty)), "", {}});
    return true;
  }
  bool end() {
    levels_.pop_back();
    return true;
  }

  const std::string& place_;
  Json root_;
  std::vector<Level> levels_;
};

}  // namespace

Json parse_row(std::string_view text, const std::string& place) {
  // Asked first: the library would pass over a byte order mark, and the lexer's words for a bad byte are many.
  if (text.starts_with("\xef\xbb\xbf")) throw BadRow(place, "a byte order mark inside the file; remove it");
  if (const auto bad = first_bad_utf8(text))
    throw BadRow(place, "not UTF-8: byte " + std::to_string(*bad + 1) + " of the row; save the file as UTF-8");
  if (text.find('\0') != std::string_view::npos) throw BadRow(place, "a NUL character in the row");
  RowBuilder builder(place);
  Json::sax_parse(text, &builder);
  Json row = builder.take();
  if (!row.is_object())
    throw BadRow(place, std::string("a row is an object, {...}; got ") + row.type_name() +
                            (row.is_array() ? "; write a list of rows as one object per line" : ""));
  return row;
}

}  // namespace keel
