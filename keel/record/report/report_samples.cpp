#include <algorithm>
#include <cmath>
#include <set>

#include "keel/core/console.h"
#include "keel/record/charts/html.h"
#include "keel/record/report/report_parts.h"

namespace keel {
namespace {

constexpr size_t kMaxTokens = 240;     // shown per sample; a page of long completions must stay small
constexpr size_t kMaxText = 3000;      // bytes of a prompt or a completion without tokens
constexpr size_t kMaxTokenText = 200;  // bytes of one token
constexpr size_t kMaxAnswer = 300;     // bytes of a gold answer
constexpr size_t kMaxBlockedRows = 6;
constexpr int kShades = 8;

double value_or_nan(const std::vector<double>& values, size_t i) { return i < values.size() ? values[i] : NAN; }
bool is_kept(const Sample& sample, size_t i) { return i >= sample.kept.size() || sample.kept[i]; }

size_t blocked_count(const Sample& sample) {
  size_t blocked = 0;
  for (size_t i = 0; i < sample.tokens.size(); ++i) blocked += !is_kept(sample, i);
  return blocked;
}

/// The tooltip of a token.
std::string tooltip(const Sample& sample, size_t i) {
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : " · ") + text; };
  const double logp = value_or_nan(sample.logp, i), behavior = value_or_nan(sample.behavior_logp, i);
  if (is_plottable(behavior)) add("μ " + format_number(std::exp(behavior)));
  if (is_plottable(logp)) add("π " + format_number(std::exp(logp)));
  if (is_plottable(logp) && is_plottable(behavior))
    add("π/μ " + format_number(std::exp(std::clamp(logp - behavior, -20.0, 20.0))));
  const double divergence = value_or_nan(sample.divergence, i), threshold = value_or_nan(sample.threshold, i);
  if (is_plottable(divergence)) {
    add("divergence " + format_number(divergence) +
        (is_plottable(threshold) ? " (threshold " + format_number(threshold) + ")" : ""));
  }
  if (is_plottable(value_or_nan(sample.coefficient, i))) add("coefficient " + format_signed(sample.coefficient[i]));
  if (!sample.kept.empty()) add(is_kept(sample, i) ? "kept" : "blocked by the trust region");
  return out;
}

std::string shade_class(double coefficient, double scale) {
  if (!is_plottable(coefficient) || coefficient == 0 || !(scale > 0)) return "";
  const double level = std::ceil(std::fabs(coefficient) / scale * kShades);
  return std::string(coefficient > 0 ? " u" : " d") +
         std::to_string(static_cast<int>(std::clamp(level, 1.0, double{kShades})));
}

std::string token_text(const std::string& token) {
  constexpr std::string_view kBreak = "↵<br>";
  std::string out = escape_untrusted(shorten(token, kMaxTokenText));
  for (size_t at = 0; (at = out.find('\n', at)) != std::string::npos; at += kBreak.size()) out.replace(at, 1, kBreak);
  return token.empty() ? "∅" : out;
}

std::string token_strip(const Sample& sample, double scale) {
  std::string out = "<div class=\"strip\">";
  const size_t shown = std::min(sample.tokens.size(), kMaxTokens);
  for (size_t i = 0; i < shown; ++i) {
    const std::string text = token_text(sample.tokens[i]);
    // The line break goes after the box, which would otherwise span two lines.
    const bool breaks = text.size() >= 4 && text.ends_with("<br>");
    out += "<span class=\"t" + shade_class(value_or_nan(sample.coefficient, i), scale) +
           (is_kept(sample, i) ? "" : " x") + "\" title=\"" + escape_html(tooltip(sample, i)) + "\">" +
           (breaks ? text.substr(0, text.size() - 4) : text) + "</span>" + (breaks ? "<br>" : "");
  }
  if (shown < sample.tokens.size()) {
    out += "<span class=\"more\"> … " + format_count(static_cast<int64_t>(sample.tokens.size() - shown)) +
           " more tokens</span>";
  }
  return out + "</div>";
}

std::string why_blocked(const Sample& sample, size_t i) {
  std::string out;
  const double logp = value_or_nan(sample.logp, i), behavior = value_or_nan(sample.behavior_logp, i);
  if (is_plottable(logp) && is_plottable(behavior)) {
    out += ": μ " + format_number(std::exp(behavior)) + " → π " + format_number(std::exp(logp));
  }
  const double divergence = value_or_nan(sample.divergence, i), threshold = value_or_nan(sample.threshold, i);
  if (is_plottable(divergence)) out += ", divergence " + format_number(divergence);
  if (is_plottable(divergence) && is_plottable(threshold))
    out += (divergence > threshold ? " > " : " ≤ ") + format_number(threshold);
  return out;
}

/// Lists the blocked tokens for print and touch screens, which have no tooltips.
std::string blocked_list(const Sample& sample) {
  const size_t blocked = blocked_count(sample);
  if (blocked == 0) return "";
  std::string out = "<ul class=\"blocked\">";
  size_t listed = 0;
  for (size_t i = 0; i < sample.tokens.size() && listed < kMaxBlockedRows; ++i) {
    if (is_kept(sample, i)) continue;
    ++listed;
    out += "<li><code>" + format_token(sample.tokens[i]) + "</code> #" + format_count(static_cast<int64_t>(i + 1)) +
           escape_html(why_blocked(sample, i)) + "</li>";
  }
  if (blocked > listed) out += "<li>and " + format_count(static_cast<int64_t>(blocked - listed)) + " more</li>";
  return out + "</ul>";
}

std::string summary_line(const Sample& sample) {
  std::string out = "<p class=\"facts\"><b>" + std::string(sample.phase == "eval" ? "evaluation at step " : "step ") +
                    format_count(sample.step) + "</b>";
  if (is_plottable(sample.reward)) out += " <span>reward <b>" + format_number(sample.reward) + "</b></span>";
  if (is_plottable(sample.advantage)) out += " <span>advantage <b>" + format_signed(sample.advantage) + "</b></span>";
  if (!sample.tokens.empty())
    out += " <span>" + format_count(static_cast<int64_t>(sample.tokens.size())) +
           (sample.tokens.size() == 1 ? " token</span>" : " tokens</span>");
  if (const size_t blocked = blocked_count(sample))
    out += " <span class=\"warn\">" + format_count(static_cast<int64_t>(blocked)) + " blocked</span>";
  if (sample.finish == "length") out += " <span class=\"warn\">truncated at the length limit</span>";
  return out + "</p>";
}

/// The prompt's correct answer.
std::string gold_answer(const Sample& sample) {
  if (sample.answer.empty()) return "";
  return "<p class=\"answer\">gold answer <code>" + escape_untrusted(shorten(sample.answer, kMaxAnswer)) +
         "</code></p>";
}

std::string sample_card(const Sample& sample, double scale) {
  const std::string completion = sample.tokens.empty()
                                     ? "<pre>" + escape_untrusted(shorten(sample.completion, kMaxText)) + "</pre>"
                                     : token_strip(sample, scale);
  const char* kind = sample.tokens.size() > 80 || sample.completion.size() > 400 ? "card sample wide" : "card sample";
  return std::string("<article class=\"") + kind + "\">" + summary_line(sample) + "<pre class=\"prompt\">" +
         escape_untrusted(shorten(sample.prompt, kMaxText)) + "</pre>" + completion + gold_answer(sample) +
         blocked_list(sample) + "</article>";
}

/// Returns samples spread evenly over the candidates, including the last one and the one with most blocked tokens.
std::vector<const Sample*> spread_evenly(const std::vector<const Sample*>& candidates, size_t max_samples) {
  if (candidates.size() <= max_samples) return candidates;
  std::set<size_t> indices;
  for (size_t i = 0; i < max_samples; ++i)
    indices.insert(max_samples == 1 ? candidates.size() - 1 : i * (candidates.size() - 1) / (max_samples - 1));
  const auto by_blocked = [](const Sample* a, const Sample* b) { return blocked_count(*a) < blocked_count(*b); };
  const auto most_blocked = std::max_element(candidates.begin(), candidates.end(), by_blocked);
  const auto index = static_cast<size_t>(most_blocked - candidates.begin());
  if (blocked_count(**most_blocked) > 0 && max_samples > 2 && indices.insert(index).second) {
    // Drops one neighbour, but neither the first nor the last sample.
    const auto here = indices.find(index);
    indices.erase(std::next(here) != std::prev(indices.end()) ? std::next(here) : std::prev(here));
  }
  std::vector<const Sample*> chosen;
  for (const size_t i : indices) chosen.push_back(candidates[i]);
  return chosen;
}

/// The gradient weight with the darkest shade: the 95th percentile, so that outliers do not fade the others.
double shade_scale(const std::vector<const Sample*>& samples) {
  std::vector<double> magnitudes;
  for (const Sample* sample : samples) {
    for (const double value : sample->coefficient) {
      if (is_plottable(value) && value != 0) magnitudes.push_back(std::fabs(value));
    }
  }
  if (magnitudes.empty()) return 0;
  std::sort(magnitudes.begin(), magnitudes.end());
  return magnitudes[(magnitudes.size() - 1) * 95 / 100];
}

std::string token_legend(double scale) {
  if (!(scale > 0)) return "";
  std::string shades;
  for (int level = kShades; level > 0; level -= 2) shades += "<i class=\"t d" + std::to_string(level) + "\"></i>";
  shades += "<i class=\"t\"></i>";
  for (int level = 2; level <= kShades; level += 2) shades += "<i class=\"t u" + std::to_string(level) + "\"></i>";
  return "<div class=\"token-legend\"><span>made less likely <b>−" + format_number(scale, 2) +
         "</b> <span class=\"ramp\">" + shades + "</span> <b>+" + format_number(scale, 2) +
         "</b> made more likely</span><span><span class=\"t x\">token</span> blocked by the trust region: no "
         "update</span>"
         "<span class=\"hint\">Point at or tap a token for μ, π, its divergence and its coefficient.</span></div>";
}

}  // namespace

std::string format_token(const std::string& token) {
  constexpr std::string_view kSpace = "␣";
  std::string out = escape_html(escape_controls(shorten(token, 40)));
  for (size_t at = 0; (at = out.find(' ', at)) != std::string::npos; at += kSpace.size()) out.replace(at, 1, kSpace);
  return out;
}

std::string sample_cards(const std::vector<const Sample*>& samples) {
  const double scale = shade_scale(samples);
  std::string cards;
  for (const Sample* sample : samples) cards += sample_card(*sample, scale);
  return cards.empty() ? "" : token_legend(scale) + "<div class=\"samples\">" + cards + "</div>";
}

std::string samples_section(const RunData& run, size_t max_samples, bool expanded) {
  std::vector<const Sample*> with_tokens, plain, evals;
  for (const Sample& sample : run.samples) {
    (sample.phase == "eval" ? evals : sample.tokens.empty() ? plain : with_tokens).push_back(&sample);
  }
  const std::vector<const Sample*> trained = spread_evenly(with_tokens.empty() ? plain : with_tokens, max_samples);
  const int64_t last_eval_step = evals.empty() ? 0 : evals.back()->step;
  std::erase_if(evals, [&](const Sample* sample) { return sample->step != last_eval_step; });
  const size_t last_evals = std::min<size_t>(evals.size(), (max_samples + 1) / 2);
  const std::vector<const Sample*> evaluated(evals.end() - static_cast<long>(last_evals), evals.end());
  if (trained.empty() && evaluated.empty()) return "";

  const double scale = shade_scale(trained);
  std::string cards;
  for (const Sample* sample : trained) cards += sample_card(*sample, scale);
  if (!evaluated.empty()) cards += "<h3>From the last evaluation</h3>";
  for (const Sample* sample : evaluated) cards += sample_card(*sample, scale);
  if (!expanded) {
    return "<details><summary>Samples of " + escape_untrusted(run.name) + "</summary>" + token_legend(scale) +
           "<div class=\"samples\">" + cards + "</div></details>";
  }
  return "<section><h2>Samples</h2>" + token_legend(scale) + "<div class=\"samples\">" + cards + "</div></section>";
}

}  // namespace keel
