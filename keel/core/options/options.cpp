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
  if (!limits_fit(target, limits))
    fail(ExitCode::kInternal, "option table: ", path, " has limits that do not apply to its type");
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

void OptionTable::refuse(std::string_view name, std::string_view fix) {
  refusals_.push_back({std::string(name), std::string(fix)});
}

const Option* OptionTable::find(std::string_view path) const {
  const auto option = std::find_if(options_.begin(), options_.end(), [&](const Option& o) { return o.path == path; });
  return option == options_.end() ? nullptr : &*option;
}

Json OptionTable::get(std::string_view path) const {
  const Option* option = find(path);
  if (!option) fail(ExitCode::kInternal, "option table: unknown option ", path);
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
  std::set<std::string> names;
  for (const Option& option : options_) names.insert(option.path);
  for (const Section& section : sections_) {
    if (!names.insert(section.path).second) {
      fail(ExitCode::kInternal, "option table: ", section.path, " is both an option and a section");
    }
  }
  for (const Refusal& refusal : refusals_) {
    if (!names.insert(refusal.name).second) {
      fail(ExitCode::kInternal, "option table: removed name ", refusal.name, " is still in use");
    }
  }
  for (const Option& option : options_) {
    const auto problem = check_value(option.target, option.limits, option.default_value);
    if (problem) fail(ExitCode::kInternal, "option table: default of ", option.path, ": ", problem->text);
  }
}

}  // namespace keel
