#include "keel/compat/import.h"

#include <algorithm>

#include "keel/core/console.h"
#include "keel/core/nearest.h"
#include "keel/core/options/read_config.h"
#include "keel/core/options/yaml_text.h"
#include "keel/core/strings.h"

namespace keel::compat {
namespace {

/// Returns the table that knows the most keys of a recipe.
const KeyTable& choose_table(const ConfigTree& recipe) {
  std::vector<std::pair<size_t, const KeyTable*>> key_counts;
  for (const KeyTable* table : key_tables()) {
    const auto count = [&](const auto& self, const std::string& path, const Json& value) -> size_t {
      if (!value.is_object() || value.empty())
        return table->exact(path) || (path.find('.') != path.npos && table->find(path));
      size_t sum = 0;
      for (const auto& [key, child] : value.items()) sum += self(self, path.empty() ? key : path + "." + key, child);
      return sum;
    };
    key_counts.emplace_back(count(count, "", recipe.value), table);
  }
  std::ranges::stable_sort(key_counts, std::ranges::greater(), &std::pair<size_t, const KeyTable*>::first);
  const std::string location = recipe.file.empty() ? kCommandLine : recipe.file;
  if (key_counts[0].first == 0)
    fail(ExitCode::kBadConfiguration, location, ": has no key of TRL (num_generations, learning_rate, ...) or verl ",
         "(actor_rollout_ref, algorithm, ...). For a Keel configuration use `keel train`");
  if (recipe.value.size() == 1 && recipe.value.contains("hydra"))
    fail(ExitCode::kBadConfiguration, location, ": belongs to Hydra. Fix: import .hydra/config.yaml of that run");
  if (key_counts[0].first == key_counts[1].first)
    fail(ExitCode::kBadConfiguration, location, ": the keys belong to several programs. Fix: add SFTConfig={} for a ",
         "recipe of `trl sft`, or GRPOConfig={}. For a Keel configuration use `keel train`");
  return *key_counts[0].second;
}

}  // namespace

Import::Import(const ConfigTree& recipe, const KeyTable& table) : recipe_(recipe), table_(table) {
  config_.describe(options_);
}

const Json* Import::find(const std::string& key) const {
  const Json* value = find_value(recipe_, key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Json Import::value(const std::string& key) const {
  if (const Json* value = find_value(recipe_, key)) return *value;
  const Json* default_value = table_.default_of(key);
  return default_value == nullptr ? Json() : *default_value;
}

std::string Import::text(const std::string& key) const { return as_text(value(key)); }

bool Import::is_true(const std::string& key) const {
  const Json flag = value(key);
  if (!flag.is_boolean() && !flag.is_null()) fail_at(key, "expected true or false");
  return flag == true;
}

int64_t Import::count(const std::string& key) const {
  constexpr int64_t kMax = int64_t{1} << 20;
  const Json number = value(key);
  const int64_t count = number.is_number_integer() ? number.get<int64_t>() : 0;
  if (count < 1 || count > kMax) fail_at(key, "expected an integer from 1 to " + std::to_string(kMax));
  return count;
}

double Import::number(const std::string& key) const {
  const Json number = value(key);
  if (!number.is_number()) fail_at(key, "expected a number");
  return number.get<double>();
}

bool Import::user_sets(const std::string& target) const { return user_.contains(target); }

bool Import::is_set(const std::string& target) const { return user_.contains(target) || lines_.contains(target); }

Json Import::setting(const std::string& target) const {
  if (const auto value = user_.find(target); value != user_.end()) return value->second;
  if (const auto line = lines_.find(target); line != lines_.end()) return line->second.value;
  return options_.get(target);
}

void Import::set(const std::string& target, Json value, const std::string& key, const std::string& note) {
  if (options_.find(target) == nullptr)
    fail(ExitCode::kInternal, key, " is mapped to ", target, ", which is not a setting");
  if (user_sets(target) || value.is_discarded()) return;
  const bool is_default = find_value(recipe_, key) == nullptr;
  const auto [line, is_new] = lines_.try_emplace(target, Line{value, key, note, is_default});
  if (is_new || line->second.value == value || is_default) return;
  if (!line->second.is_default)
    return refuse(key, "sets " + target + " to " + value.dump() + ", but " + line->second.key + " sets it to " +
                           line->second.value.dump() + ". Keep one");
  line->second = {value, key, note, false};
}

std::string Import::key_location(const std::string& key) const {
  const bool is_default = find_value(recipe_, key) == nullptr && table_.default_of(key) != nullptr;
  return is_default ? table_.program() + "'s default of " + key : location_of(recipe_, key) + ": " + key;
}

void Import::fail_at(const std::string& key, const std::string& expected) const {
  fail(ExitCode::kBadConfiguration, key_location(key), ": got ", value(key).dump(), ", ", expected);
}

void Import::refuse(const std::string& key, const std::string& problem) {
  const std::string error = key_location(key) + ": " + problem;
  if (std::ranges::find(errors_, error) == errors_.end()) errors_.push_back(error);
}

void Import::walk(const std::string& path, const Json& value) {
  const bool is_section = path.empty() || table_.has_below(path) ||
                          std::ranges::any_of(options_.sections(), [&](const Section& s) { return s.path == path; });
  if (!value.is_object() || value.empty() || !is_section) return apply(path, value);
  const KeyRow* row = table_.exact(path);
  if (row != nullptr && std::ranges::find(row->harmless, value) != row->harmless.end()) return;
  for (const auto& [key, child] : value.items()) walk(path.empty() ? key : path + "." + key, child);
}

void Import::apply(const std::string& path, const Json& value) {
  const KeyRow* row = table_.exact(path);
  if (row == nullptr && options_.find(path) != nullptr) return static_cast<void>(user_[path] = value);
  if (row == nullptr) row = table_.find(path);
  if (row == nullptr) {
    if (value == Json::object() || (value.is_null() && table_.has_below(path))) return;  // an empty section
    std::vector<std::string> names;
    for (const auto& [name, known] : table_.rows()) names.push_back(name);
    for (const Option& option : options_.options()) names.push_back(option.path);
    const std::optional<std::string> near = nearest_name(path, names);
    return refuse(path, "unknown key of " + table_.program() + ". Fix: " +
                            (near ? "use " + *near + ", or " : std::string()) + "ignore it with --ignore " + path);
  }
  if (row->kind == RowKind::kIgnores && !value.is_null() && value != false) ignored_keys_.push_back(path);
  if (row->kind == RowKind::kIgnores) return;
  if (value.is_string() && value.get_ref<const std::string&>().find("${") != std::string::npos)
    return refuse(path, "the reference " + as_text(value) +
                            " is not resolved. Fix: run verl with --cfg job --resolve, and import " + "its output");
  if (row->kind != RowKind::kRefuses || value.is_null()) return;
  const Json* default_value = table_.default_of(path);
  if ((default_value == nullptr || *default_value != value) && std::ranges::count(row->harmless, value) == 0)
    refuse(path, "got " + shorten(value.dump(), 80) + ": " + row->reason);
}

void Import::map(const std::string& key, const KeyRow& row, const Json& value) try {
  if (user_sets(row.target)) return;
  const Json converted = row.conversion ? row.conversion(value) : value;
  set(row.target, converted, key, converted == value ? "" : row.unit);
} catch (const Error& error) {
  refuse(key, error.what());
}

Imported Import::run() {
  walk("", recipe_.value);
  for (const auto& [key, row] : table_.rows())
    if (const Json* value = find_value(recipe_, key); row.kind == RowKind::kMaps && value != nullptr)
      if (row.conversion || !value->is_null()) map(key, row, *value);
  for (const auto& [key, row] : table_.rows())
    if (const Json* value = table_.default_of(key); row.kind == RowKind::kMaps && value != nullptr)
      if (find_value(recipe_, key) == nullptr && !is_set(row.target)) map(key, row, *value);
  for (const Computation computation : table_.computations()) {
    try {
      computation(*this);
    } catch (const Error& error) {
      errors_.push_back(error.what());
    }
  }
  if (!errors_.empty()) fail(ExitCode::kBadConfiguration, joined(errors_, "\n"));
  if (setting("rollout.top_k") != 0 || setting("rollout.top_p") != 1 || setting("rollout.min_p") != 0)
    remark("truncated sampling: Keel renormalises pi over the kept tokens, TRL and verl use the full softmax" +
           std::string(setting("rollout.min_p") == 0 ? "" : "; evaluations have no min_p"));
  check();
  return {.program = table_.program().substr(0, table_.program().find(' ')),
          .yaml = yaml(),
          .remarks = remarks_,
          .ignored_keys = ignored_keys_,
          .supervised = &table_ == &trl_sft_table()};
}

ConfigTree Import::configuration() const {
  ConfigTree tree;
  tree.file = recipe_.file;
  const auto put = [&](const std::string& target, const Json& value, const std::string& key) {
    tree.value[target.substr(0, target.find('.'))][target.substr(target.find('.') + 1)] = value;
    if (const auto line = recipe_.lines.find(key); line != recipe_.lines.end()) tree.lines[target] = line->second;
  };
  for (const auto& [target, line] : lines_) put(target, line.value, line.key);
  for (const auto& [target, value] : user_) put(target, value, target);
  return tree;
}

/// Validates the configuration. An error about a setting also names the key that it comes from.
void Import::check() try {
  std::vector<std::string> notes;
  load_config(configuration(), notes);
  remarks_.insert(remarks_.end(), notes.begin(), notes.end());
} catch (const Error& error) {
  std::string text = error.what();
  for (const auto& [target, line] : lines_)
    if (std::string(error.what()).find(target) != std::string::npos)
      text += "\n" + target + " comes from " + (line.is_default ? table_.program() + "'s default of " : "") + line.key +
              " " + yaml_inline(value(line.key)) + (line.note.empty() ? "" : " (" + line.note + ")");
  fail(error.code(), text);
}

std::string Import::yaml() const {
  constexpr size_t kColumn = 40;
  std::string text;
  for (const Section& section : options_.sections()) {
    std::string lines;
    for (const Option& option : options_.options()) {
      const auto line = lines_.find(option.path);
      if (!is_set(option.path) || !option.path.starts_with(section.path + ".")) continue;
      std::string entry = "  " + option.path.substr(section.path.size() + 1) + ": " + yaml_inline(setting(option.path));
      entry.resize(std::max(entry.size() + 2, kColumn), ' ');
      std::string origin = "set next to the recipe";
      if (!user_sets(option.path)) {
        const Json original = value(line->second.key);
        origin = (line->second.is_default ? table_.program() + "'s default of " : "") + line->second.key;
        if (original != line->second.value) origin += " " + yaml_inline(original);
        if (!line->second.note.empty()) origin += ": " + line->second.note;
      }
      std::replace(origin.begin(), origin.end(), '\n', ' ');
      lines += entry + "# " + origin + "\n";
    }
    if (!lines.empty()) text += section.path + ":\n" + lines;
  }
  return text;
}

Imported import_recipe(ConfigTree recipe, const std::vector<std::string>& ignored) {
  std::vector<std::string> remarks;
  for (const std::string& key : ignored) {
    if (find_value(recipe, key) == nullptr)
      fail(ExitCode::kBadConfiguration, kCommandLine, ": --ignore ", key, ": the recipe has no such key");
    remarks.push_back("ignored by --ignore: " + key + "=" + find_value(recipe, key)->dump());
    erase_value(recipe, key);
  }
  Imported imported = Import(recipe, choose_table(recipe)).run();
  if (!imported.supervised && find_value(recipe, "objective.anchor") == nullptr)
    remarks.push_back(
        "anchor: ratios are relative to the sampler's log-probs; TRL and verl recompute them by default "
        "(objective.anchor=recomputed)");
  imported.remarks.insert(imported.remarks.begin(), remarks.begin(), remarks.end());
  return imported;
}

}  // namespace keel::compat
