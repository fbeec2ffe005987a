#include "cli/text_table.h"

#include <algorithm>
#include <cmath>

#include "keel/core/console.h"
#include "keel/core/strings.h"
#include "keel/record/charts/chart_scale.h"

namespace keel::cli {

std::string text_table(std::vector<std::vector<std::string>> rows, const std::vector<size_t>& left_aligned) {
  std::vector<int> widths(rows[0].size(), 0);
  for (auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = escape_controls(row[i]);
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(static_cast<size_t>(widths[i] - display_width(row[i])), ' ');
      const bool is_left = std::ranges::find(left_aligned, i) != left_aligned.end();
      line += "  " + (is_left ? row[i] + blanks : blanks + row[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string percent(double fraction) { return std::isfinite(fraction) ? fixed(100 * fraction, 2) + " %" : "-"; }

std::string number_or_dash(double value, int digits) {
  return std::isfinite(value) ? format_number(value, digits) : "-";
}

std::string quote_token(const std::string& text) {
  constexpr int kColumns = 24;
  return "\"" + clip_to_width(escape_controls(text), kColumns) + "\"";
}

}  // namespace keel::cli
