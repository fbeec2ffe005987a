#include "keel/core/options/options.h"
#include "keel/core/options/yaml_text.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

std::string section_of(const Option& option) {
  const size_t dot = option.path.find_last_of('.');
  return dot == std::string::npos ? "" : option.path.substr(0, dot);
}

/// Groups the options by section. Options without a section come first.
std::vector<std::pair<Section, std::vector<Option>>> grouped(const OptionTable& table) {
  std::vector<std::pair<Section, std::vector<Option>>> groups{{Section{"", ""}, {}}};
  for (const Section& section : table.sections()) groups.push_back({section, {}});
  for (const Option& option : table.options()) {
    for (auto& [section, options] : groups) {
      if (section.path == section_of(option)) options.push_back(option);
    }
  }
  if (groups.front().second.empty()) groups.erase(groups.begin());
  return groups;
}

/// Escapes text for a cell of a Markdown table.
std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

std::string code(const std::string& text) { return "`" + cell(text) + "`"; }

std::string row(const std::vector<std::string>& cells) { return "| " + joined(cells, " | ") + " |\n"; }

std::string table_head(const std::vector<std::string>& titles) {
  return row(titles) + row(std::vector<std::string>(titles.size(), "---"));
}

}  // namespace

std::string OptionTable::help() const {
  std::string text;
  for (const auto& [section, options] : grouped(*this)) {
    if (!text.empty()) text += "\n";
    if (!section.path.empty()) text += section.path + ": " + section.help + "\n";
    for (const Option& option : options) {
      text += "  " + option.path + "=" + yaml_inline(option.default_value) + "\n";
      text += "      " + option.help + " Must be " + expected_text(option.target, option.limits) + ".\n";
    }
  }
  return text;
}

std::string OptionTable::markdown() const {
  std::string text;
  for (const auto& [section, options] : grouped(*this)) {
    if (!text.empty()) text += "\n";
    text += section.path.empty() ? "## Top level\n\n" : "## " + section.path + "\n\n" + section.help + "\n\n";
    if (options.empty()) continue;
    text += table_head({"key", "default", "value", "meaning"});
    for (const Option& option : options) {
      text += row({code(option.path), code(yaml_inline(option.default_value)),
                   cell(expected_text(option.target, option.limits)), cell(option.help)});
    }
  }
  return text;
}

}  // namespace keel
