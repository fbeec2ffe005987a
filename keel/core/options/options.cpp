#include "keel/core/options/options.h"

#include <algorithm>
#include <set>

#include "keel/core/error.h"
#include "keel/core/options/yaml_text.h"

namespace keel {

std::string OptionTable::path_of(std::string_view key) const {
  if (key.empty() || key.find('.') != std::string_view::npos) {
    fail(ExitCode::kInternal, "option table: \"", key, "\" in section \"", open_section_, "\" is not a key");
  }
  return open_section_.empty() ? std::string(key) : open_section_ + "." + std::string(key);
}

void OptionTable::add_option(std::string_view key, OptionTarget target, std::string_view help, const Limits& limits) {
  const std::string path = path_of(key);
  if (find(path)) fail(ExitCode::kInternal, "option table: ", path, " is described twice");
  if (!limits_fit(target, limits)) fail(ExitCode::kInternal, "option table: ", path, " has limits of another type");
  options_.push_back({path, std::string(help), limits, target, read_target(target)});
}

std::string OptionTable::begin_section(std::string_view key, std::string_view help) {
  const std::string path = path_of(key);
  for (const Section& section : sections_) {
    if (section.path == path) fail(ExitCode::kInternal, "option table: section ", path, " is described twice");
  }
  sections_.push_back({path, std::string(help)});
  return std::exchange(open_section_, path);
}

void OptionTable::alias(std::string_view name, std::string_view target, std::string_view source,
                        const AliasConverter& converter, std::string_view conversion) {
  aliases_.push_back({std::string(name), std::string(target), std::string(source), converter, std::string(conversion)});
}

void OptionTable::refuse(std::string_view name, std::string_view source, std::string_view reason,
                         const std::vector<Json>& harmless, Fate fate) {
  refusals_.push_back({std::string(name), std::string(source), std::string(reason), harmless, fate});
}

bool Refusal::allows(const Json& value) const {
  const nlohmann::json in_any_order = value;  // of the members of objects
  return std::any_of(harmless.begin(), harmless.end(),
                     [&](const Json& other) { return nlohmann::json(other) == in_any_order; });
}

const Option* OptionTable::find(std::string_view path) const {
  const auto option = std::find_if(options_.begin(), options_.end(), [&](const Option& o) { return o.path == path; });
  return option == options_.end() ? nullptr : &*option;
}

Json OptionTable::get(std::string_view path) const {
  const Option* option = find(path);
  if (!option) fail(ExitCode::kInternal, "option table: there is no option ", path);
  return read_target(option->target);
}

Json OptionTable::dump() const {
  Json tree = Json::object();
  for (const Option& option : options_) {
    Json* node = &tree;
    std::string_view rest = option.path;
    for (size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      node = &(*node)[std::string(rest.substr(0, dot))];
      rest.remove_prefix(dot + 1);
    }
    (*node)[std::string(rest)] = read_target(option.target);
  }
  return tree;
}

std::string OptionTable::dump_yaml(const std::string& heading) const {
  std::string text;
  for (size_t start = 0; start < heading.size();) {
    const size_t end = std::min(heading.find('\n', start), heading.size());
    text += "# " + heading.substr(start, end - start) + "\n";
    start = end + 1;
  }
  return text + yaml_document(dump());
}

void OptionTable::check() const {
  std::set<std::string> ours, theirs;
  const auto is_shorthand = [&](const Alias& alias) {  // `model: path` for model.path
    return !find(alias.name) && alias.target.starts_with(alias.name + ".");
  };
  std::set<std::pair<std::string, std::string>> pairs;
  for (const Option& option : options_) ours.insert(option.path);
  for (const Section& section : sections_) {
    if (!ours.insert(section.path).second) {
      fail(ExitCode::kInternal, "option table: ", section.path, " is both an option and a section");
    }
  }
  for (const Alias& alias : aliases_) {
    if (!find(alias.target)) {
      fail(ExitCode::kInternal, "option table: alias ", alias.name, " leads to ", alias.target, ", which is no option");
    }
    if ((ours.contains(alias.name) && !is_shorthand(alias)) || !pairs.emplace(alias.name, alias.target).second) {
      fail(ExitCode::kInternal, "option table: alias ", alias.name, " is already a name");
    }
    theirs.insert(alias.name);
  }
  for (const Refusal& refusal : refusals_) {
    if (ours.contains(refusal.name) || !theirs.insert(refusal.name).second) {
      fail(ExitCode::kInternal, "option table: refused name ", refusal.name, " is already a name");
    }
  }
  for (const Option& option : options_) {
    const auto complaint = check_value(option.target, option.limits, option.default_value);
    if (complaint) fail(ExitCode::kInternal, "option table: default of ", option.path, ": ", complaint->text);
  }
}

}  // namespace keel
