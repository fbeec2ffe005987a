#include <cmath>

#include "keel/core/console.h"
#include "keel/core/strings.h"
#include "keel/record/charts/html.h"
#include "keel/record/report/report_parts.h"

namespace keel {
namespace {

/// With the digits that `keel tokens` prints.
std::string percent(double share) { return std::isfinite(share) ? fixed(100 * share, 2) + " %" : "–"; }

std::string number(double value, int digits) { return std::isfinite(value) ? format_number(value, digits) : "–"; }

/// "0 → 3": held back by the run and by the other method.
std::string differences_of(const Counterfactual& other) {
  std::vector<std::string> parts;
  for (const Counterfactual::Difference& each : other.differences)
    parts.push_back("<code>" + visible_token(each.text) + "</code> " + format_count(each.by_the_run) + " → " +
                    format_count(each.by_it) + " (" + percent(each.change) + ")");
  return parts.empty() ? "none" : joined(parts);
}

std::vector<std::string> shares_of(const Counterfactual& each) {
  return {percent(each.held), percent(each.held_positive), percent(each.held_negative), percent(each.outside)};
}

std::string row_of(const Counterfactual& other) {
  std::vector<std::string> cells = shares_of(other);
  for (const int64_t count : {other.both, other.only_the_run, other.only_it}) cells.push_back(format_count(count));
  for (const std::string& cell : {percent(other.overlap()), percent(other.weight_change), number(other.cosine, 4)})
    cells.push_back(cell);
  cells.push_back(differences_of(other));
  return body_row("<code>" + escape_foreign(other.method) + "</code>", cells);
}

/// Of which tokens the answers are, and which commands give them.
std::string asked_about(const RecordedTokens& tokens, const char* command) {
  const Counterfactuals& all = tokens.counterfactuals;
  const bool some = all.tokens < tokens.tokens;
  const std::string steps =
      some ? " --steps " + std::to_string(all.first_step) + ":" + std::to_string(all.last_step) : std::string();
  return (some ? "Of the newest " + plural(all.steps, "recorded step") + ", " + format_count(all.tokens) + " of " +
                     plural(tokens.tokens, "recorded token") + ": "
               : "Of all recorded tokens: ") +
         "<code>keel " + command + " RUN" + steps + "</code> says the same.";
}

}  // namespace

std::string other_methods(const RecordedTokens& tokens) {
  const Counterfactuals& all = tokens.counterfactuals;
  const std::string title = "<h3>What other methods would have held back</h3>";
  if (!all.refusal.empty()) return title + "<p class=\"note refused\">" + escape_foreign(all.refusal) + "</p>";
  if (all.tokens == 0) return "";
  std::vector<std::string> own = shares_of(all.own);
  own.resize(11);
  std::string rows = body_row("<code>" + escape_foreign(all.own.method) + "</code> (the run)", own);
  for (const Counterfactual& other : all.others) rows += row_of(other);
  std::string out =
      title +
      "<p class=\"note\">From the recorded numbers alone, with each method’s own parameters, on the same tokens. "
      "Outside: "
      "beyond the boundary, held back or not. Overlap: tokens that both hold back, of those that one of them does. "
      "Weight: of the numbers that multiply the gradients, |change| / |the run’s| (2-norms), and the cosine of both. "
      "Tokens: held back by the run → by the other method, and the text’s share of the change. " +
      asked_about(tokens, "tokens") + "</p><div class=\"scroll counterfactuals\"><table>" +
      header_row({"Method", "Held back", "A &gt; 0", "A &lt; 0", "Outside", "Both", "Only the run", "Only it",
                  "Overlap", "Weight change", "Cosine", "Tokens that differ most"}) +
      "<tbody>" + rows + "</tbody></table></div>";
  if (all.not_asked.empty()) return out;
  out += "<details class=\"not-asked\"><summary>" + plural(static_cast<int64_t>(all.not_asked.size()), "other method") +
         " cannot be asked</summary><ul>";
  for (const std::string& reason : all.not_asked) out += "<li>" + escape_foreign(reason) + "</li>";
  return out + "</ul></details>";
}

std::string other_thresholds(const RecordedTokens& tokens) {
  const ThresholdAdvice& advice = tokens.counterfactuals.advice;
  const std::string title = "<h3>What other thresholds would leave outside</h3>";
  if (!advice.refusal.empty()) return title + "<p class=\"note refused\">" + escape_foreign(advice.refusal) + "</p>";
  if (advice.rows.empty()) return "";
  std::string rows;
  for (const ThresholdAdvice::Row& row : advice.rows) {
    std::vector<std::string> texts;
    for (const auto& [text, count] : row.texts)
      texts.push_back("<code>" + visible_token(text) + "</code> " + format_count(count));
    rows += body_row(number(row.threshold, 6),
                     {percent(row.outside), percent(row.positive), percent(row.negative), number(row.mean_mu, 3),
                      number(row.mean_entropy, 3), texts.empty() ? "–" : joined(texts)});
  }
  const std::string advised =
      advice.recommended.empty()
          ? "No threshold leaves a token outside: no update was measured away from the policy that sampled its tokens."
          : "For " + percent(advice.target) + " outside type this, which leaves " + percent(advice.recommended_share) +
                ": <code>" + escape_foreign(advice.recommended) + "</code>";
  return title + "<p class=\"note\">Of <code>" + escape_foreign(advice.method) + "</code>, whose own is " +
         number(advice.own, 3) + ". Mean μ, mean entropy (nats) and texts are of the tokens outside. " +
         asked_about(tokens, "advise") + "</p><p class=\"advised\">" + advised +
         "</p><div class=\"scroll thresholds\"><table>" +
         header_row({"Threshold", "Outside", "A &gt; 0", "A &lt; 0", "Mean μ", "Mean entropy", "Most often"}) +
         "<tbody>" + rows + "</tbody></table></div>";
}

}  // namespace keel
