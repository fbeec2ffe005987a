#include "keel/watch/live_page.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "keel/core/console.h"
#include "keel/core/files/json_file.h"
#include "keel/core/strings.h"
#include "keel/record/charts/chart_scale.h"
#include "keel/record/charts/html.h"
#include "keel/record/charts/svg_chart.h"
#include "keel/record/report/report.h"
#include "keel/record/report/report_parts.h"
#include "keel/record/tools/exported_run.h"

namespace keel {
namespace {

constexpr int kCurveWidth = 120, kCurveHeight = 24;
constexpr size_t kCurvePoints = 40;

/// Encodes any bytes for a URL query.
std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (is_letter(c) || is_digit(c) || c == '-' || c == '_' || c == '.') {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

std::string state_cell(const WatchedRun& run) {
  return "<span class=\"state " + std::string(state_name(run.state)) + "\">" +
         escape_untrusted(state_text(run, seconds_since_1970())) + "</span>";
}

std::string link_to(const WatchedRun& run) {
  return "<a href=\"" + query_of({run}) + "\">" + escape_untrusted(run.name) + "</a>";
}

std::string last_reward(const WatchedRun& run) {
  const std::vector<double>& rewards = run.snapshot.rows->rewards;
  return rewards.empty() ? "" : format_number(rewards.back(), 3);
}

/// The points of a polyline that fills kCurveWidth by kCurveHeight: means of equally many steps each.
std::string curve_points(const WatchedRun& run) {
  const std::vector<double>& rewards = run.snapshot.rows->rewards;
  const size_t count = std::min(rewards.size(), kCurvePoints);
  std::vector<double> means;
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = i * rewards.size() / count, end = (i + 1) * rewards.size() / count;
    const double sum =
        std::accumulate(rewards.begin() + static_cast<long>(begin), rewards.begin() + static_cast<long>(end), 0.0);
    means.push_back(sum / static_cast<double>(end - begin));
  }
  if (means.size() < 2) return "";  // one point is no line
  const auto [low, high] = std::ranges::minmax(means);
  std::string points;
  for (size_t i = 0; i < means.size(); ++i) {
    const double x = static_cast<double>(i) / static_cast<double>(means.size() - 1),
                 y = high > low ? (high - means[i]) / (high - low) : 0.5;
    points += (points.empty() ? "" : " ") + svg_number(x * kCurveWidth) + "," + svg_number(y * kCurveHeight);
  }
  return points;
}

std::string curve_svg(const WatchedRun& run) {
  const std::string width = std::to_string(kCurveWidth), height = std::to_string(kCurveHeight);
  return "<svg class=\"curve\" width=\"" + width + "\" height=\"" + height + "\" viewBox=\"0 0 " + width + " " +
         height + "\" role=\"img\" aria-label=\"reward by step\"><polyline points=\"" + curve_points(run) +
         "\"/></svg>";
}

/// Builds the bar at the top. Its data attributes tell the script which URL to poll and the page's version.
std::string bar(const std::string& content, const std::string& query, const std::string& version) {
  return "<div class=\"watch\" role=\"status\" data-state=\"state" + escape_html(query) + "\" data-version=\"" +
         version + "\"><div class=\"runs\">" + content +
         "</div><label><input type=\"checkbox\" class=\"follow\" checked> follow</label>"
         "<button type=\"button\" class=\"newer\" hidden>newer rows: show them</button></div>";
}

Page make_live(Page page) {
  page.style += live_style();
  page.script += live_script();
  page.fetches_from_server = true;
  return page;
}

}  // namespace

std::string query_of(const std::vector<WatchedRun>& runs) {
  std::string query;
  for (const WatchedRun& run : runs) query += (query.empty() ? "?run=" : "&run=") + percent_encoded(run.name);
  return query;
}

Page live_report_page(const LiveReport& report) {
  std::string content = report.is_selection ? "<a href=\"./\">all runs</a>" : "";
  for (const WatchedRun& run : report.shown)
    content += "<p><b>" + (report.shown.size() > 1 ? link_to(run) : escape_untrusted(run.name)) + "</b> " +
               state_cell(run) + "</p>";
  std::string notes;
  for (const std::string& reason : report.errors)
    notes += "<p class=\"note\">" + escape_untrusted(shorten(reason, 600)) + "</p>";
  Page page;
  if (report.read.empty()) {
    page.title = report.shown.size() == 1 ? report.shown[0].name : "runs";
    page.body = "<header><p class=\"eyebrow\">Keel · run report</p><h1>" + escape_untrusted(page.title) +
                "</h1></header>" + (notes.empty() ? "<p class=\"note\">There are no rows yet.</p>" : "");
    page.style = report_style();
  } else {
    page = report_page(report.read);
  }
  page.body = notes + page.body;
  page.before = bar(content, report.is_selection ? query_of(report.shown) : "", report.version);
  return make_live(std::move(page));
}

Page list_page(const std::vector<WatchedRun>& runs, const std::string& version) {
  std::string rows;
  for (const WatchedRun& run : runs)
    rows += "<tr><td><input type=\"checkbox\" name=\"run\" value=\"" + escape_html(run.name) + "\" aria-label=\"" +
            escape_untrusted(run.name) + "\"></td><th>" + link_to(run) + "</th><td>" + state_cell(run) + "</td><td>" +
            escape_untrusted(run.snapshot.method) + "</td><td class=\"reward\">" + last_reward(run) + "</td><td>" +
            curve_svg(run) + "</td></tr>";
  Page page{.title = "runs", .style = report_style()};
  page.before = bar("<p><b>" + format_count(static_cast<int64_t>(runs.size())) + " runs</b></p>", "", version);
  page.body = "<header><p class=\"eyebrow\">Keel · runs</p><h1>Runs</h1></header>";
  if (runs.empty())
    page.body += "<p class=\"note\">The folder has no runs yet. A run appears here when it starts.</p>";
  else
    page.body +=
        "<form method=\"get\" action=\"./\"><p><button>Show the selected runs side by side</button></p><div "
        "class=\"scroll\"><table class=\"text "
        "list\"><thead><tr><th></th><th>Run</th><th>State</th><th>Method</th><th>Last reward</th><th>Reward by "
        "step</th></tr></thead><tbody>" +
        rows + "</tbody></table></div></form>";
  return make_live(std::move(page));
}

std::string state_json(const std::vector<WatchedRun>& runs, const std::string& version) {
  const double now = seconds_since_1970();
  Json list = Json::array();
  for (const WatchedRun& run : runs) {
    const std::string note = run.note.empty() ? "" : "; " + run.note;
    list.push_back({{"name", run.name},
                    {"state", state_name(run.state)},
                    {"phase", run.snapshot.rows->phase},
                    {"step", run.snapshot.rows->step},
                    {"reward", last_reward(run)},
                    {"curve", curve_points(run)},
                    {"heard", run.snapshot.last_write > 0 ? std::max(0.0, now - run.snapshot.last_write) : -1},
                    {"text", escape_controls(state_text(run, now) + note)}});
  }
  return json_line({{"version", version}, {"runs", list}}) + "\n";
}

}  // namespace keel
