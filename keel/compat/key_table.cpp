#include "keel/compat/key_table.h"

#include <sstream>

#include "keel/core/error.h"
#include "keel/core/json_reader.h"
#include "keel/core/strings.h"

namespace keel::compat {
namespace {

/// Expands a list of keys: "a.b.{c d} e" becomes a.b.c, a.b.d and e.
std::vector<std::string> expand_keys(const char* list) {
  std::vector<std::string> keys;
  std::istringstream words(list);
  std::string prefix;
  for (std::string word; words >> word;) {
    if (const size_t open = word.find('{'); open != std::string::npos) {
      prefix = word.substr(0, open);
      word.erase(0, open + 1);
    }
    const bool closes = word.ends_with('}');
    if (closes) word.pop_back();
    keys.push_back(prefix + word);
    if (closes) prefix.clear();
  }
  return keys;
}

/// The part of a name after its last dot.
std::string last_part(const std::string& key) { return key.substr(key.find_last_of('.') + 1); }

std::string describe_row(const KeyTable& table, const std::string& key, const KeyRow& row) {
  const std::string name = table.program() + "'s " + key;
  if (row.kind == RowKind::kMaps) return name + " is " + row.target + (row.unit.empty() ? "" : " (" + row.unit + ")");
  if (row.kind == RowKind::kComputed) return name + " is read together with other keys; in Keel: " + row.target;
  if (row.kind == RowKind::kRefuses) return name + " has no equivalent: " + row.reason;
  return name + " does not change the training, and has no equivalent";
}

}  // namespace

void KeyTable::add(const char* keys, const KeyRow& row) {
  for (const std::string& key : expand_keys(keys))
    if (!rows_.emplace(key, row).second) fail(ExitCode::kInternal, program_, "'s key ", key, " has two rows");
}

void KeyTable::maps(const char* keys, const char* target, Conversion conversion, const char* unit) {
  add(keys, {.kind = RowKind::kMaps, .target = target, .conversion = conversion, .unit = unit, .harmless = {}});
}

void KeyTable::refuses(const char* keys, const char* reason, const char* harmless) {
  const Json values = parse_json(harmless);
  add(keys, {.kind = RowKind::kRefuses, .reason = reason, .harmless = {values.begin(), values.end()}});
}

void KeyTable::ignores(const char* keys) { add(keys, {.kind = RowKind::kIgnores, .harmless = {}}); }

void KeyTable::computes(const char* keys, const char* targets, Computation computation) {
  add(keys, {.kind = RowKind::kComputed, .target = targets, .harmless = {}});
  computations_.push_back(computation);
}

void KeyTable::defaults(const char* json) { defaults_.update(parse_json(json)); }

const KeyRow* KeyTable::exact(const std::string& key) const {
  const auto row = rows_.find(key);
  return row == rows_.end() ? nullptr : &row->second;
}

const KeyRow* KeyTable::find(const std::string& key) const {
  for (size_t end = key.size(); end != std::string::npos && end > 0; end = key.find_last_of('.', end - 1))
    if (const KeyRow* row = exact(key.substr(0, end))) return row;
  return nullptr;
}

bool KeyTable::has_below(const std::string& section) const {
  const auto next = rows_.lower_bound(section + ".");
  return next != rows_.end() && next->first.starts_with(section + ".");
}

const Json* KeyTable::default_of(const std::string& key) const {
  const auto value = defaults_.find(key);
  return value == defaults_.end() ? nullptr : &*value;
}

std::vector<const KeyTable*> key_tables() { return {&trl_grpo_table(), &trl_sft_table(), &verl_table()}; }

std::string describe_key(const std::string& key, Names names) {
  for (const KeyTable* table : key_tables())
    if (const KeyRow* row = table->exact(key))
      return describe_row(*table, key, *row);
    else if (table->has_below(key))
      return key + " is a section of " + table->program();
  for (const KeyTable* table : key_tables())
    for (const auto& [name, row] : table->rows())
      if (names == Names::kSuffixes && last_part(name) == key) return describe_row(*table, name, row);
  return "";
}

}  // namespace keel::compat
