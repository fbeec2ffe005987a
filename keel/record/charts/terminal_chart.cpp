#include "keel/record/charts/terminal_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "keel/core/console.h"
#include "keel/core/strings.h"
#include "keel/record/charts/chart_scale.h"

namespace keel {
namespace {

/// A grid of dots: 2 x 4 per braille character, 1 x 2 per ASCII character (' . and :).
class Canvas {
 public:
  Canvas(int columns, int rows, bool ascii)
      : columns_(columns),
        rows_(rows),
        ascii_(ascii),
        cells_(static_cast<size_t>(columns) * static_cast<size_t>(rows)) {}

  int dots_across() const { return columns_ * (ascii_ ? 1 : 2); }
  int dots_down() const { return rows_ * (ascii_ ? 2 : 4); }

  void dot(int x, int y) {
    if (x < 0 || y < 0 || x >= dots_across() || y >= dots_down()) return;
    constexpr uint8_t kBraille[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const int column = ascii_ ? x : x / 2, row = ascii_ ? y / 2 : y / 4;
    cells_[static_cast<size_t>(row * columns_ + column)] |=
        ascii_ ? static_cast<uint8_t>(1 << (y % 2)) : kBraille[y % 4][x % 2];
  }

  void line(int x0, int y0, int x1, int y1) {
    const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i) {
      const double t = static_cast<double>(i) / steps;
      dot(static_cast<int>(std::lround(x0 + t * (x1 - x0))), static_cast<int>(std::lround(y0 + t * (y1 - y0))));
    }
  }

  std::string row(int row) const {
    std::string text;
    for (int column = 0; column < columns_; ++column) {
      const uint8_t bits = cells_[static_cast<size_t>(row * columns_ + column)];
      if (ascii_) {
        text += " '.:"[bits];
      } else if (bits == 0) {
        text += ' ';
      } else {  // U+2800 + bits in UTF-8
        text += {'\xE2', static_cast<char>(0xA0 | bits >> 6), static_cast<char>(0x80 | (bits & 0x3F))};
      }
    }
    return text.substr(0, text.find_last_not_of(' ') + 1);
  }

 private:
  int columns_, rows_;
  bool ascii_;
  std::vector<uint8_t> cells_;
};

Axis y_axis(std::span<const double> y, const TerminalChartOptions& options) {
  Axis axis = choose_axis(y, false, std::clamp(options.height / 3 + 1, 2, 6));
  const double low = is_plottable(options.y_min) ? options.y_min : axis.low;
  const double high = is_plottable(options.y_max) ? options.y_max : axis.high;
  if ((low == axis.low && high == axis.high) || !(low < high)) return axis;
  Axis user_axis = linear_axis(low, high, std::clamp(options.height / 3 + 1, 2, 6));
  user_axis.low = low;
  user_axis.high = high;
  std::erase_if(user_axis.ticks, [&](double tick) { return tick < low - 1e-9 || tick > high + 1e-9; });
  if (user_axis.ticks.size() < 2) user_axis.ticks = {low, high};
  return user_axis;
}

void draw(Canvas& canvas, std::span<const double> y, const Axis& axis) {
  bool connected = false;
  int last_x = 0, last_y = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    if (!is_plottable(y[i])) {
      connected = false;
      continue;
    }
    const double across = y.size() > 1 ? static_cast<double>(i) / static_cast<double>(y.size() - 1) : 0;
    const double down = std::clamp(1 - axis.position(y[i]), 0.0, 1.0);
    const int dot_x = static_cast<int>(std::lround(across * (canvas.dots_across() - 1)));
    const int dot_y = static_cast<int>(std::lround(down * (canvas.dots_down() - 1)));
    if (connected) canvas.line(last_x, last_y, dot_x, dot_y);
    canvas.dot(dot_x, dot_y);
    connected = true;
    last_x = dot_x;
    last_y = dot_y;
  }
}

std::string pad_left(const std::string& text, int width) {
  return std::string(static_cast<size_t>(std::max(0, width - display_width(text))), ' ') + text;
}

std::string x_axis_labels(const TerminalChartOptions& options, int columns, size_t values) {
  const double last = is_plottable(options.x_last) ? options.x_last : options.x_first + static_cast<double>(values) - 1;
  const std::string left = format_number(options.x_first, 6), right = format_number(last, 6);
  const std::string middle = options.x_label;
  const int free_columns = columns - display_width(left) - display_width(right) - display_width(middle);
  if (free_columns < 2) return left;
  return left + std::string(static_cast<size_t>(free_columns / 2), ' ') + middle +
         std::string(static_cast<size_t>(free_columns - free_columns / 2), ' ') + right;
}

}  // namespace

std::string terminal_chart(std::span<const double> y, const TerminalChartOptions& options) {
  std::string text;
  if (!options.title.empty()) text += options.title + "\n";
  if (!options.y_label.empty()) text += options.y_label + "\n";
  if (std::none_of(y.begin(), y.end(), is_plottable)) return text + "(no values)\n";

  const Axis axis = y_axis(y, options);
  const std::vector<std::string> labels = tick_labels(axis, false);
  int label_width = 0;
  for (const std::string& label : labels) label_width = std::max(label_width, display_width(label));
  const int rows = std::max(2, options.height), columns = std::max(8, options.width - label_width - 2);

  Canvas canvas(columns, rows, options.ascii);
  draw(canvas, y, axis);
  std::vector<std::string> label_of_row(static_cast<size_t>(rows));
  for (size_t i = 0; i < labels.size(); ++i) {
    const double down = std::clamp(1 - axis.position(axis.ticks[i]), 0.0, 1.0);
    label_of_row[static_cast<size_t>(std::lround(down * (rows - 1)))] = labels[i];
  }
  for (int row = 0; row < rows; ++row) {
    const std::string& label = label_of_row[static_cast<size_t>(row)];
    const char* edge = options.ascii ? (label.empty() ? "|" : "+") : (label.empty() ? "│" : "┤");
    text += pad_left(label, label_width) + " " + edge + canvas.row(row) + "\n";
  }
  text += pad_left("", label_width) + (options.ascii ? " +" : " └");
  for (int column = 0; column < columns; ++column) text += options.ascii ? "-" : "─";
  return text + "\n" + pad_left("", label_width + 2) + x_axis_labels(options, columns, y.size()) + "\n";
}

bool terminal_has_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {  // the first one set takes precedence
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string lower = lower_case(value);
    return lower.find("utf-8") != std::string::npos || lower.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace keel
