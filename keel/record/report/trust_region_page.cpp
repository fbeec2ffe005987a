#include <algorithm>
#include <cmath>

#include "keel/core/console.h"
#include "keel/core/strings.h"
#include "keel/record/charts/histogram_chart.h"
#include "keel/record/charts/html.h"
#include "keel/record/report/region_boundary.h"
#include "keel/record/report/report_parts.h"

namespace keel {
namespace {

/// Labels for what a method does outside of its region. A soft method blocks nothing there.
struct RegionLabels {
  bool blocks = true;
  const char* affected = "blocked";
};

RegionLabels choose_labels(const RecordedTokens& tokens) {
  if (tokens.blocked > 0 || tokens.outside == 0) return {};
  return {false, "outside the region"};
}

double affected_fraction(const TokenCounts& counts, const RegionLabels& labels) {
  if (counts.tokens == 0) return NAN;
  return static_cast<double>(labels.blocks ? counts.blocked : counts.outside) / static_cast<double>(counts.tokens);
}

Chart fraction_chart(const std::string& id, const std::string& title) {
  Chart chart;
  chart.id = id;
  chart.title = title;
  chart.percent = true;
  chart.includes_zero = true;
  chart.lines = {{"positive advantage", {}, 0}, {"negative advantage", {}, 1}};
  return chart;
}

std::string fraction_by_step(const RecordedTokens& tokens, const RegionLabels& labels, const std::string& id) {
  Chart chart = fraction_chart(id + "-affected", std::string("Recorded tokens ") + labels.affected + ", by step");
  for (const RecordedStep& step : tokens.steps)
    for (size_t sign = 0; sign < 2; ++sign)
      chart.lines[sign].points.push_back(
          {static_cast<double>(step.step), affected_fraction(step.counts[sign], labels)});
  return chart_figure(std::move(chart),
                      "Of the recorded tokens of each sign of advantage, over the updates of a recorded step.");
}

/// Each update of a step moves pi further from mu.
std::string fraction_by_update(const RecordedTokens& tokens, const RegionLabels& labels, const std::string& id) {
  if (tokens.by_update.size() < 2) return "";
  Chart chart = fraction_chart(id + "-updates", std::string("Recorded tokens ") + labels.affected + ", by update");
  chart.x_label = "update";
  for (size_t update = 0; update < tokens.by_update.size(); ++update)
    for (size_t sign = 0; sign < 2; ++sign)
      chart.lines[sign].points.push_back(
          {static_cast<double>(update), affected_fraction(tokens.by_update[update][sign], labels)});
  return chart_figure(std::move(chart),
                      "The same by the update’s index in its step. Each update moves π further from μ.");
}

std::string divergence_histogram(const RecordedTokens& tokens, const std::string& id) {
  const LogHistogram& divergences = tokens.divergences;
  HistogramChart histogram{id + "-divergences", "Divergences", "", LogHistogram::lower_edge(0),
                           LogHistogram::lower_edge(1) / LogHistogram::lower_edge(0)};
  histogram.background.assign(divergences.kept.begin(), divergences.kept.end());
  histogram.foreground.assign(divergences.blocked.begin(), divergences.blocked.end());
  histogram.thresholds = tokens.thresholds;
  histogram.description = "Tokens by their divergence, kept and blocked, with the threshold.";
  const std::string drawing = svg_histogram(histogram);
  if (drawing.empty()) return "";
  std::vector<std::string> notes{"By the method’s own measure"};
  if (divergences.zero > 0) notes.push_back(format_count(divergences.zero) + " tokens with divergence 0 are not shown");
  if (divergences.infinite > 0) notes.push_back(format_count(divergences.infinite) + " infinite values are not shown");
  if (tokens.thresholds.empty()) notes.push_back("the method has no threshold");
  if (tokens.thresholds.size() > 2) notes.push_back("thresholds differ between tokens or steps; some are shown");
  return "<figure class=\"card\"><figcaption><h3>Divergences</h3><p>" + joined(notes, "; ") +
         ".</p><ul class=\"legend\"><li><i class=\"key block s0\"></i>kept</li><li><i class=\"key block "
         "affected\"></i>blocked</li></ul></figcaption>" +
         drawing + "</figure>";
}

std::string affected_table(const std::vector<AffectedToken>& affected, const RegionLabels& labels, bool positive) {
  std::string out = "<div class=\"affected\" data-sign=\"" + std::string(positive ? "positive" : "negative") +
                    "\" data-blocked=\"" + (labels.blocks ? "1" : "") + "\"><h4>" +
                    (positive ? "Positive" : "Negative") + " advantage</h4>";
  if (affected.empty()) return out + "<p class=\"note\">None is " + std::string(labels.affected) + ".</p></div>";
  out += "<div class=\"scroll\"><table>" +
         header_row({"Token", labels.blocks ? "Blocked" : "Outside", "of all", "Mean μ", "Mean entropy"}) + "<tbody>";
  for (const AffectedToken& token : affected)
    out += body_row("<code data-token=\"" + escape_html(token.text) + "\">" + format_token(token.text) + "</code>",
                    {format_count(token.affected),
                     format_percent(static_cast<double>(token.affected) / static_cast<double>(token.total)),
                     format_number(token.mean_mu), format_number(token.mean_entropy)});
  return out + "</tbody></table></div></div>";
}

std::string affected_tables(const RecordedTokens& tokens, const RegionLabels& labels) {
  const auto& affected = labels.blocks ? tokens.most_blocked : tokens.most_outside;
  return "<h3>Which tokens are " + std::string(labels.affected) +
         "</h3><p class=\"note\">The most frequent ones for each sign of advantage, over all recorded tokens. Mean μ "
         "and mean entropy (nats) are over those that are " +
         labels.affected + ".</p><div class=\"pair\">" + affected_table(affected[0], labels, true) +
         affected_table(affected[1], labels, false) + "</div>";
}

std::string format_parameters(const RecordedStep& step) {
  std::vector<std::string> parts;
  if (step.parameters.is_object())
    for (const auto& [name, value] : step.parameters.items())
      if (!value.is_null())
        parts.push_back(name + " " +
                        (value.is_number()   ? format_number(value.get<double>(), 4)
                         : value.is_string() ? value.get<std::string>()
                                             : value.dump(-1, ' ', true, Json::error_handler_t::replace)));
  return joined(parts);
}

std::string summary_section(const RecordedTokens& tokens) {
  const RecordedStep& last = tokens.steps.back();
  const auto shown = static_cast<int64_t>(tokens.rows.completions.size());
  std::string out =
      "<h3>Recorded tokens</h3><ul class=\"chips\"><li>method <b>" + escape_untrusted(last.method) + "</b></li>";
  if (const std::string parameters = format_parameters(last); !parameters.empty())
    out += "<li>" + escape_untrusted(shorten(parameters, 300)) + "</li>";
  out += "<li>recorded <b>" + plural(static_cast<int64_t>(tokens.steps.size()), "step") + "</b></li><li><b>" +
         plural(tokens.tokens, "token") + "</b></li><li>blocked <b>" +
         format_percent(static_cast<double>(tokens.blocked) / static_cast<double>(tokens.tokens)) + "</b></li></ul>";
  const bool is_sample = std::ranges::any_of(tokens.steps, [](const RecordedStep& step) { return !step.whole_batch; });
  if (tokens.pending_steps > 0)
    out += "<p class=\"note to-come\">" + plural(tokens.pending_steps, "more recorded step") + " will follow.</p>";
  if (is_sample) out += "<p class=\"note\">The records are a sample of the completions of these steps.</p>";
  if (shown < tokens.completions)
    out +=
        "<p class=\"note thinned\">Curves, histogram and tables use all recorded tokens. The scatter plot and the "
        "reader show " +
        plural(shown, "completion") + " of " + format_count(tokens.completions) +
        ", selected by their ids, to limit the size of this page.</p>";
  return out;
}

std::string records_block(const RunData& run, size_t index) {
  const RecordedTokens& tokens = run.recorded;
  std::string out = notes_on_records(run);
  if (tokens.tokens == 0) return out;
  const RegionLabels labels = choose_labels(tokens);
  const std::string id = "records-" + std::to_string(index);
  out += summary_section(tokens) + "<div class=\"charts\">" + fraction_by_step(tokens, labels, id) +
         fraction_by_update(tokens, labels, id) + divergence_histogram(tokens, id) + "</div>";
  out += "<div class=\"plane\" data-records=\"" + id + "\"><h3>π against μ</h3><p class=\"note\">" +
         escape_html(region_boundary(tokens.steps.back().method, tokens.steps.back().parameters).caption) +
         "</p></div>";
  out += affected_tables(tokens, labels) +
         "<p class=\"note\">For other methods and thresholds: <code>keel tokens RUN</code> and "
         "<code>keel advise RUN</code>.</p>";
  return out + "<div class=\"reader\" data-records=\"" + id +
         "\"><h3>Completions</h3><noscript><p class=\"note\">The scatter plot and the reader of completions need "
         "JavaScript; the rest of the page does not.</p></noscript></div>";
}

}  // namespace

std::string notes_on_records(const RunData& run) {
  const RecordedTokens& tokens = run.recorded;
  std::string out;
  for (const std::string& damage : tokens.damage)
    out += "<p class=\"note damaged\">Not read: " + escape_untrusted(shorten(damage, 600)) + "</p>";
  if (tokens.tokens > 0) return out;
  const std::string records = setting(run, "record.tokens");
  if (!tokens.was_read && !records.empty() && records != "none")
    return out +
           "<p class=\"note missing\">This page was written during the run and lacks the token records: "
           "<code>keel report RUN</code> and the end of the run add them; <code>keel watch RUN</code> shows them "
           "live.</p>";
  return out +
         (tokens.damage.empty()
              ? "<p class=\"note missing\">This run has no token records, which are needed for blocked tokens, their "
                "position relative to the region, and completions with all numbers. <code>keel train CONFIG "
                "record.tokens=sample</code> records 16 completions of every tenth step, also with "
                "<code>--resume</code>; docs/tokens.md lists the costs.</p>"
              : "");
}

std::string render_each_run(const std::vector<RunData>& runs,
                            const std::function<std::string(const RunData&, size_t)>& part) {
  if (runs.size() == 1) return part(runs[0], 0);
  std::string out;
  for (size_t i = 0; i < runs.size(); ++i)
    if (const std::string html = part(runs[i], i); !html.empty())
      out += "<div class=\"of-run\" data-run=\"" + std::to_string(i) + "\"><h2>" + escape_untrusted(runs[i].name) +
             "</h2>" + html + "</div>";
  return out;
}

std::string trust_region_page(const std::vector<RunData>& runs) {
  return "<h2>Trust region</h2>" + trust_region_charts(runs) + render_each_run(runs, records_block);
}

}  // namespace keel
