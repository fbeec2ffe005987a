#include "keel/record/tools/csv.h"

#include <set>

namespace keel {

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

std::string csv_table(const ExportedRun& run) {
  std::set<std::string> names;
  for (const ExportedStep& step : run.steps)
    for (const auto& [name, value] : step.values) names.insert(name);
  std::string table = "step,phase";
  for (const std::string& name : names) table += "," + csv_field(name);
  table += "\r\n";
  for (const ExportedStep& step : run.steps) {
    table += std::to_string(step.step) + "," + csv_field(step.phase);
    for (const std::string& name : names) {
      const auto found = step.values.find(name);
      table += "," + (found == step.values.end() ? "" : shortest_exact(found->second));
    }
    table += "\r\n";
  }
  return table;
}

}  // namespace keel
