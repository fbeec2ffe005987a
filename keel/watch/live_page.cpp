#include "keel/watch/live_page.h"

#include <algorithm>

#include "keel/core/console.h"
#include "keel/core/files/json_file.h"
#include "keel/core/strings.h"
#include "keel/record/charts/html.h"
#include "keel/record/report/report.h"
#include "keel/record/report/report_parts.h"
#include "keel/record/tools/exported_run.h"

namespace keel {
namespace {

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
            escape_untrusted(run.name) + "\"></td><th>" + link_to(run) + "</th><td>" + state_cell(run) + "</td></tr>";
  Page page{.title = "runs", .style = report_style()};
  page.before = bar("<p><b>" + format_count(static_cast<int64_t>(runs.size())) + " runs</b></p>", "", version);
  page.body = "<header><p class=\"eyebrow\">Keel · runs</p><h1>Runs</h1></header>";
  if (runs.empty())
    page.body += "<p class=\"note\">The folder has no runs yet. A run appears here when it starts.</p>";
  else
    page.body +=
        "<form method=\"get\" action=\"./\"><p><button>Show the selected runs side by side</button></p><div "
        "class=\"scroll\"><table class=\"text list\"><tbody>" +
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
                    {"phase", run.snapshot.phase},
                    {"step", run.snapshot.step},
                    {"heard", run.snapshot.last_write > 0 ? std::max(0.0, now - run.snapshot.last_write) : -1},
                    {"text", escape_controls(state_text(run, now) + note)}});
  }
  return json_line({{"version", version}, {"runs", list}}) + "\n";
}

}  // namespace keel
