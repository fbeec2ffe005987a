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

double entry(const std::vector<double>& values, size_t i) { return i < values.size() ? values[i] : NAN; }
bool is_kept(const Sample& sample, size_t i) { return i >= sample.kept.size() || sample.kept[i]; }

size_t blocked_count(const Sample& sample) {
  size_t blocked = 0;
  for (size_t i = 0; i < sample.tokens.size(); ++i) blocked += !is_kept(sample, i);
  return blocked;
}

/// What the update did to one token, in the words of the tooltip.
std::string explain(const Sample& sample, size_t i) {
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : " · ") + text; };
  const double logp = entry(sample.logp, i), behavior = entry(sample.behavior_logp, i);
  if (drawable(behavior)) add("μ " + format_number(std::exp(behavior)));
  if (drawable(logp)) add("π " + format_number(std::exp(logp)));
  if (drawable(logp) && drawable(behavior))
    add("π/μ " + format_number(std::exp(std::clamp(logp - behavior, -20.0, 20.0))));
  const double divergence = entry(sample.divergence, i), threshold = entry(sample.threshold, i);
  if (drawable(divergence)) {
    add("divergence " + format_number(divergence) +
        (drawable(threshold) ? " of " + format_number(threshold) + " allowed" : ""));
  }
  if (drawable(entry(sample.coefficient, i))) add("coefficient " + format_signed(sample.coefficient[i]));
  if (!sample.kept.empty()) add(is_kept(sample, i) ? "kept" : "BLOCKED");
  return out;
}

std::string shade_class(double coefficient, double scale) {
  if (!drawable(coefficient) || coefficient == 0 || !(scale > 0)) return "";
  const double level = std::ceil(std::fabs(coefficient) / scale * kShades);
  return std::string(coefficient > 0 ? " u" : " d") +
         std::to_string(static_cast<int>(std::clamp(level, 1.0, double{kShades})));
}

std::string token_text(const std::string& token) {
  std::string out = escape_untrusted(shorten(token, kMaxTokenText));
  for (size_t at = 0; (at = out.find('\n', at)) != std::string::npos; at += 7) out.replace(at, 1, "↵<br>");
  return token.empty() ? "∅" : out;
}

std::string token_strip(const Sample& sample, double scale) {
  std::string out = "<div class=\"strip\">";
  const size_t shown = std::min(sample.tokens.size(), kMaxTokens);
  for (size_t i = 0; i < shown; ++i) {
    const std::string text = token_text(sample.tokens[i]);
    // The break of a newline belongs after the box, or the box would stretch over two lines.
    const bool breaks = text.size() >= 4 && text.ends_with("<br>");
    out += "<span class=\"t" + shade_class(entry(sample.coefficient, i), scale) + (is_kept(sample, i) ? "" : " x") +
           "\" title=\"" + escape_html(explain(sample, i)) + "\">" + (breaks ? text.substr(0, text.size() - 4) : text) +
           "</span>" + (breaks ? "<br>" : "");
  }
  if (shown < sample.tokens.size()) {
    out += "<span class=\"more\"> … " + format_count(static_cast<int64_t>(sample.tokens.size() - shown)) +
           " more tokens</span>";
  }
  return out + "</div>";
}

std::string why_blocked(const Sample& sample, size_t i) {
  std::string out;
  const double logp = entry(sample.logp, i), behavior = entry(sample.behavior_logp, i);
  if (drawable(logp) && drawable(behavior)) {
    out += ": μ " + format_number(std::exp(behavior)) + " → π " + format_number(std::exp(logp));
  }
  const double divergence = entry(sample.divergence, i), threshold = entry(sample.threshold, i);
  if (drawable(divergence)) out += ", divergence " + format_number(divergence);
  if (drawable(divergence) && drawable(threshold))
    out += (divergence > threshold ? " > " : " ≤ ") + format_number(threshold);
  return out;
}

/// The blocked tokens as a list, so that paper and screens without a pointer tell why, too.
std::string blocked_list(const Sample& sample) {
  const size_t blocked = blocked_count(sample);
  if (blocked == 0) return "";
  std::string out = "<ul class=\"blocked\">";
  size_t listed = 0;
  for (size_t i = 0; i < sample.tokens.size() && listed < kMaxBlockedRows; ++i) {
    if (is_kept(sample, i)) continue;
    ++listed;
    out += "<li><code>" + visible_token(sample.tokens[i]) + "</code> #" + format_count(static_cast<int64_t>(i + 1)) +
           escape_html(why_blocked(sample, i)) + "</li>";
  }
  if (blocked > listed) out += "<li>and " + format_count(static_cast<int64_t>(blocked - listed)) + " more</li>";
  return out + "</ul>";
}

std::string facts(const Sample& sample) {
  std::string out = "<p class=\"facts\"><b>" + std::string(sample.phase == "eval" ? "evaluation at step " : "step ") +
                    format_count(sample.step) + "</b>";
  if (drawable(sample.reward)) out += " <span>reward <b>" + format_number(sample.reward) + "</b></span>";
  if (drawable(sample.advantage)) out += " <span>advantage <b>" + format_signed(sample.advantage) + "</b></span>";
  if (!sample.tokens.empty())
    out += " <span>" + format_count(static_cast<int64_t>(sample.tokens.size())) +
           (sample.tokens.size() == 1 ? " token</span>" : " tokens</span>");
  if (const size_t blocked = blocked_count(sample))
    out += " <span class=\"warn\">" + format_count(static_cast<int64_t>(blocked)) + " blocked</span>";
  if (sample.finish == "length") out += " <span class=\"warn\">cut off at the length limit</span>";
  return out + "</p>";
}

/// What the reward compared the completion with.
std::string gold_answer(const Sample& sample) {
  if (sample.answer.empty()) return "";
  return "<p class=\"answer\">gold answer <code>" + escape_untrusted(shorten(sample.answer, kMaxAnswer)) +
         "</code></p>";
}

std::string article(const Sample& sample, double scale) {
  const std::string completion = sample.tokens.empty()
                                     ? "<pre>" + escape_untrusted(shorten(sample.completion, kMaxText)) + "</pre>"
                                     : token_strip(sample, scale);
  const char* kind = sample.tokens.size() > 80 || sample.completion.size() > 400 ? "card sample wide" : "card sample";
  return std::string("<article class=\"") + kind + "\">" + facts(sample) + "<pre class=\"prompt\">" +
         escape_untrusted(shorten(sample.prompt, kMaxText)) + "</pre>" + completion + gold_answer(sample) +
         blocked_list(sample) + "</article>";
}

/// Samples spread evenly over the candidates, the last one and the one with most blocked tokens among them.
std::vector<const Sample*> choose(const std::vector<const Sample*>& candidates, size_t most) {
  if (candidates.size() <= most) return candidates;
  std::set<size_t> places;
  for (size_t i = 0; i < most; ++i)
    places.insert(most == 1 ? candidates.size() - 1 : i * (candidates.size() - 1) / (most - 1));
  const auto by_blocked = [](const Sample* a, const Sample* b) { return blocked_count(*a) < blocked_count(*b); };
  const auto busiest = std::max_element(candidates.begin(), candidates.end(), by_blocked);
  const auto place = static_cast<size_t>(busiest - candidates.begin());
  if (blocked_count(**busiest) > 0 && most > 2 && places.insert(place).second) {
    // It takes the place of a neighbour that is neither the first nor the last.
    const auto here = places.find(place);
    places.erase(std::next(here) != std::prev(places.end()) ? std::next(here) : std::prev(here));
  }
  std::vector<const Sample*> chosen;
  for (const size_t i : places) chosen.push_back(candidates[i]);
  return chosen;
}

/// The coefficient that gets the deepest shade: one outlier must not make all others pale.
double shade_scale(const std::vector<const Sample*>& samples) {
  std::vector<double> sizes;
  for (const Sample* sample : samples) {
    for (const double value : sample->coefficient) {
      if (drawable(value) && value != 0) sizes.push_back(std::fabs(value));
    }
  }
  if (sizes.empty()) return 0;
  std::sort(sizes.begin(), sizes.end());
  return sizes[(sizes.size() - 1) * 95 / 100];
}

std::string token_legend(double scale) {
  if (!(scale > 0)) return "";
  std::string shades;
  for (int level = kShades; level > 0; level -= 2) shades += "<i class=\"t d" + std::to_string(level) + "\"></i>";
  shades += "<i class=\"t\"></i>";
  for (int level = 2; level <= kShades; level += 2) shades += "<i class=\"t u" + std::to_string(level) + "\"></i>";
  return "<div class=\"token-legend\"><span>made less likely <b>−" + format_number(scale, 2) +
         "</b> <span class=\"ramp\">" + shades + "</span> <b>+" + format_number(scale, 2) +
         "</b> made more likely</span><span><span class=\"t x\">token</span> blocked by the trust region: left as it "
         "is</span>"
         "<span class=\"hint\">Point at a token, or tap it, for μ, π, its divergence and its coefficient.</span></div>";
}

}  // namespace

std::string visible_token(const std::string& token) {
  std::string out = escape_html(escape_controls(shorten(token, 40)));
  for (size_t at = 0; (at = out.find(' ', at)) != std::string::npos; at += 3) out.replace(at, 1, "␣");
  return out;
}

std::string sample_cards(const std::vector<const Sample*>& samples) {
  const double scale = shade_scale(samples);
  std::string cards;
  for (const Sample* sample : samples) cards += article(*sample, scale);
  return cards.empty() ? "" : token_legend(scale) + "<div class=\"samples\">" + cards + "</div>";
}

std::string samples_section(const RunData& run, size_t most, bool open) {
  std::vector<const Sample*> with_tokens, plain, evals;
  for (const Sample& sample : run.samples) {
    (sample.phase == "eval" ? evals : sample.tokens.empty() ? plain : with_tokens).push_back(&sample);
  }
  const std::vector<const Sample*> trained = choose(with_tokens.empty() ? plain : with_tokens, most);
  std::erase_if(evals, [last = evals.empty() ? 0 : evals.back()->step](const Sample* s) { return s->step != last; });
  const size_t last_evals = std::min<size_t>(evals.size(), (most + 1) / 2);
  const std::vector<const Sample*> evaluated(evals.end() - static_cast<long>(last_evals), evals.end());
  if (trained.empty() && evaluated.empty()) return "";

  const double scale = shade_scale(trained);
  std::string cards;
  for (const Sample* sample : trained) cards += article(*sample, scale);
  if (!evaluated.empty()) cards += "<h3>From the last evaluation</h3>";
  for (const Sample* sample : evaluated) cards += article(*sample, scale);
  if (!open) {
    return "<details><summary>Samples of " + escape_untrusted(run.name) + "</summary>" + token_legend(scale) +
           "<div class=\"samples\">" + cards + "</div></details>";
  }
  return "<section><h2>Samples</h2>" + token_legend(scale) + "<div class=\"samples\">" + cards + "</div></section>";
}

}  // namespace keel
