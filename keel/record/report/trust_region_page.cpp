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

/// The words for what a method does beyond its region: a soft one blocks nothing there.
struct HeldWords {
  bool blocks = true;
  const char* done = "blocked";
  const char* title = "held back";
};

HeldWords words_for(const RecordedTokens& tokens) {
  if (tokens.blocked > 0 || tokens.outside == 0) return {};
  return {false, "beyond the region", "beyond the region"};
}

double share_of(const HeldShare& share, const HeldWords& words) {
  if (share.tokens == 0) return NAN;
  return static_cast<double>(words.blocks ? share.blocked : share.outside) / static_cast<double>(share.tokens);
}

Chart share_chart(const std::string& id, const std::string& title) {
  Chart chart;
  chart.id = id;
  chart.title = title;
  chart.percent = true;
  chart.from_zero = true;
  chart.lines = {{"positive advantage", {}, 0}, {"negative advantage", {}, 1}};
  return chart;
}

std::string share_over_steps(const RecordedTokens& tokens, const HeldWords& words, const std::string& id) {
  Chart chart = share_chart(id + "-held", std::string("Recorded tokens ") + words.title + ", by step");
  for (const RecordedStep& step : tokens.steps)
    for (size_t sign = 0; sign < 2; ++sign)
      chart.lines[sign].points.push_back({static_cast<double>(step.step), share_of(step.held[sign], words)});
  return chart_figure(std::move(chart),
                      "Of the recorded tokens of each sign of advantage, over the updates of a recorded step.");
}

/// Within a step pi moves away from mu with each update.
std::string share_over_updates(const RecordedTokens& tokens, const HeldWords& words, const std::string& id) {
  if (tokens.by_update.size() < 2) return "";
  Chart chart = share_chart(id + "-updates", std::string("Recorded tokens ") + words.title + ", by update");
  chart.x_label = "update";
  for (size_t update = 0; update < tokens.by_update.size(); ++update)
    for (size_t sign = 0; sign < 2; ++sign)
      chart.lines[sign].points.push_back(
          {static_cast<double>(update), share_of(tokens.by_update[update][sign], words)});
  return chart_figure(std::move(chart),
                      "The same by the update’s place in its step: π has moved further from μ with each.");
}

std::string divergence_histogram(const RecordedTokens& tokens, const std::string& id) {
  const SizeHistogram& sizes = tokens.divergences;
  HistogramChart histogram{id + "-divergences", "Divergences", "", SizeHistogram::begin_of(0),
                           SizeHistogram::begin_of(1) / SizeHistogram::begin_of(0)};
  histogram.behind.assign(sizes.kept.begin(), sizes.kept.end());
  histogram.in_front.assign(sizes.blocked.begin(), sizes.blocked.end());
  histogram.thresholds = tokens.thresholds;
  histogram.description = "Tokens by their divergence, kept and blocked, with the threshold.";
  const std::string drawing = svg_histogram(histogram);
  if (drawing.empty()) return "";
  std::vector<std::string> notes{"By the method’s own measure"};
  if (sizes.zero > 0) notes.push_back(format_count(sizes.zero) + " tokens at exactly 0 are not drawn");
  if (sizes.infinite > 0) notes.push_back(format_count(sizes.infinite) + " infinite ones are not drawn");
  if (tokens.thresholds.empty()) notes.push_back("the method has no threshold");
  if (tokens.thresholds.size() > 2) notes.push_back("thresholds differ between tokens or steps; some are drawn");
  return "<figure class=\"card\"><figcaption><h3>Divergences</h3><p>" + joined(notes, "; ") +
         ".</p><ul class=\"legend\"><li><i class=\"key block s0\"></i>kept</li><li><i class=\"key block "
         "held\"></i>blocked"
         "</li></ul></figcaption>" +
         drawing + "</figure>";
}

std::string held_table(const std::vector<HeldToken>& held, const HeldWords& words, bool positive) {
  std::string out = "<div class=\"held\" data-sign=\"" + std::string(positive ? "positive" : "negative") +
                    "\" data-blocked=\"" + (words.blocks ? "1" : "") + "\"><h4>" +
                    (positive ? "Positive" : "Negative") + " advantage</h4>";
  if (held.empty()) return out + "<p class=\"note\">None was " + std::string(words.done) + ".</p></div>";
  out += "<div class=\"scroll\"><table>" +
         header_row({"Token", words.blocks ? "Blocked" : "Beyond", "of its tokens", "Mean μ", "Mean entropy"}) +
         "<tbody>";
  for (const HeldToken& token : held)
    out += body_row(
        "<code data-token=\"" + escape_html(token.text) + "\">" + visible_token(token.text) + "</code>",
        {format_count(token.held), format_percent(static_cast<double>(token.held) / static_cast<double>(token.seen)),
         format_number(token.mean_mu), format_number(token.mean_entropy)});
  return out + "</tbody></table></div></div>";
}

std::string held_tables(const RecordedTokens& tokens, const HeldWords& words) {
  const auto& held = words.blocks ? tokens.most_blocked : tokens.most_outside;
  return "<h3>Which tokens are " + std::string(words.title) +
         "</h3><p class=\"note\">The most frequent ones of each sign of advantage, over all recorded tokens. Mean μ "
         "and mean "
         "entropy (nats) are of those that were " +
         words.done + ".</p><div class=\"pair\">" + held_table(held[0], words, true) +
         held_table(held[1], words, false) + "</div>";
}

std::string parameters_of(const RecordedStep& step) {
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

std::string summary_of(const RecordedTokens& tokens) {
  const RecordedStep& last = tokens.steps.back();
  const auto shown = static_cast<int64_t>(tokens.rows.completions.size());
  std::string out =
      "<h3>Recorded tokens</h3><ul class=\"chips\"><li>method <b>" + escape_untrusted(last.method) + "</b></li>";
  if (const std::string parameters = parameters_of(last); !parameters.empty())
    out += "<li>" + escape_untrusted(shorten(parameters, 300)) + "</li>";
  out += "<li>recorded <b>" + plural(static_cast<int64_t>(tokens.steps.size()), "step") + "</b></li><li><b>" +
         plural(tokens.tokens, "token") + "</b></li><li>blocked <b>" +
         format_percent(static_cast<double>(tokens.blocked) / static_cast<double>(tokens.tokens)) + "</b></li></ul>";
  const bool sampled = std::ranges::any_of(tokens.steps, [](const RecordedStep& step) { return !step.whole_batch; });
  if (tokens.pending_steps > 0)
    out += "<p class=\"note to-come\">" + plural(tokens.pending_steps, "more recorded step") +
           " will follow: they are read some at a time.</p>";
  if (sampled) out += "<p class=\"note\">The records are a sample of the completions of these steps.</p>";
  if (shown < tokens.completions)
    out +=
        "<p class=\"note thinned\">Curves, histogram and tables are of all recorded tokens. The plane and the reader "
        "have " +
        plural(shown, "completion") + " of " + format_count(tokens.completions) +
        ", drawn by their ids: more would make this page too large.</p>";
  return out;
}

std::string records_block(const RunData& run, size_t place) {
  const RecordedTokens& tokens = run.recorded;
  std::string out = notes_on_records(run);
  if (tokens.tokens == 0) return out;
  const HeldWords words = words_for(tokens);
  const std::string id = "records-" + std::to_string(place);
  out += summary_of(tokens) + "<div class=\"charts\">" + share_over_steps(tokens, words, id) +
         share_over_updates(tokens, words, id) + divergence_histogram(tokens, id) + "</div>";
  out += "<div class=\"plane\" data-records=\"" + id + "\"><h3>π against μ</h3><p class=\"note\">" +
         escape_html(region_boundary(tokens.steps.back().method, tokens.steps.back().parameters).words) + "</p></div>";
  out += held_tables(tokens, words) +
         "<p class=\"note\">What other methods and thresholds would have held back: <code>keel tokens RUN</code> and "
         "<code>keel advise RUN</code>.</p>";
  return out + "<div class=\"reader\" data-records=\"" + id +
         "\"><h3>Completions</h3><noscript><p class=\"note\">The plane and the reader of completions need JavaScript; "
         "the "
         "rest of the page does not.</p></noscript></div>";
}

}  // namespace

std::string notes_on_records(const RunData& run) {
  const RecordedTokens& tokens = run.recorded;
  std::string out;
  for (const std::string& damage : tokens.damage)
    out += "<p class=\"note damaged\">Not read: " + escape_untrusted(shorten(damage, 600)) + "</p>";
  if (tokens.tokens > 0) return out;
  const std::string asked = setting(run, "record.tokens");
  if (!tokens.was_read && !asked.empty() && asked != "none")
    return out +
           "<p class=\"note missing\">The token records are not in this page, which was written while the run went "
           "on: <code>keel report RUN</code> puts them in, and so does the end of the run; <code>keel watch RUN</code> "
           "shows "
           "them live.</p>";
  return out +
         (tokens.damage.empty()
              ? "<p class=\"note missing\">This run has no token records, so that single tokens cannot be shown: which "
                "were held back, where they lie against the region, and every completion with its numbers. "
                "<code>keel train CONFIG record.tokens=sample</code> records 16 completions of every tenth step "
                "(<code>--resume</code> may turn it on for the steps to come); docs/tokens.md says what it "
                "costs.</p>"
              : "");
}

std::string of_each_run(const std::vector<RunData>& runs,
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
  return "<h2>Trust region</h2>" + trust_region_charts(runs) + of_each_run(runs, records_block);
}

}  // namespace keel
