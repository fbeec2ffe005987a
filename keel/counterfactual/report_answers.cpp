#include "keel/counterfactual/report_answers.h"

#include <algorithm>

#include "keel/core/error.h"
#include "keel/counterfactual/advice.h"

namespace keel {
namespace {

// One of each family, of those whose names a reader knows; some need what few runs record, and the page says what.
const std::vector<std::string> kAsked{"ppo",          "grpo_clip_higher", "dppo_tv", "dppo_kl",
                                      "dppo_topk_tv", "dppo_topk_kl",     "drpo",    "cispo",
                                      "gspo",         "minirl",           "m2po"};
constexpr size_t kMostTexts = 5;  // of tokens that differ

/// The newest of the records that are whole, as many as have no more tokens together.
std::vector<std::filesystem::path> newest(const RecordedTokens& tokens, int64_t most) {
  std::vector<std::filesystem::path> files;
  int64_t rows = 0;
  for (auto step = tokens.steps.rbegin(); step != tokens.steps.rend(); ++step) {
    if (!step->is_whole || step->rows == 0) continue;
    if (rows += step->rows; rows > most) break;
    files.push_back(step->file);
  }
  std::ranges::reverse(files);
  return files;
}

Counterfactual shares_of(const std::string& method, const Decisions& d) {
  Counterfactual shares{.method = method};
  shares.held = d.blocked.all.share();
  shares.held_positive = d.blocked.positive.share();
  shares.held_negative = d.blocked.negative.share();
  shares.outside = d.outside.all.share();
  return shares;
}

Counterfactual counterfactual_of(const MethodAnswer& answer) {
  Counterfactual other = shares_of(answer.asked.name, answer.decisions);
  other.both = answer.both, other.only_the_run = answer.only_run, other.only_it = answer.only_method;
  other.weight_change = answer.weight_change, other.cosine = answer.cosine;
  double change = 0;
  for (const TypeDifference& type : answer.types) change += type.change;
  for (const TypeDifference& type : answer.types) {
    const bool is_same = type.change == 0 && type.blocked_by_run == type.blocked_by_method;
    if (is_same || other.differences.size() == kMostTexts) break;
    const double share = change > 0 ? type.change / change : 0;
    other.differences.push_back({type.token, type.blocked_by_run, type.blocked_by_method, share});
  }
  return other;
}

ThresholdAdvice advice_on(const std::vector<std::filesystem::path>& files) {
  const AskedMethod asked = method_of_run(files.back());
  const Advice advice = advise(files, asked, thresholds_for(asked, 3), kTargetShare);
  ThresholdAdvice shown{.method = asked.method, .own = threshold_of(asked), .target = advice.target};
  for (size_t i = 0; i < advice.shown.size(); ++i) {
    const Decisions& d = advice.shown[i].decisions;
    shown.rows.push_back({advice.thresholds[i], d.outside.all.share(), d.outside.positive.share(),
                          d.outside.negative.share(), d.mu.mean(), d.entropy.mean()});
    for (const TypeDifference* type : most_often_outside(advice.shown[i]))
      shown.rows.back().texts.emplace_back(type->token, type->outside);
  }
  if (advice.best) shown.recommended = setting_for(asked, *advice.best), shown.recommended_share = advice.best_share;
  return shown;
}

/// What keeps an answer from a report is told in it; a machine that fails is an error all the same.
template <class Ask>
std::string refusal_of(bool& is_damaged, const Ask& ask) {
  try {
    ask();
    return "";
  } catch (const Error& error) {
    if (error.code() == ExitCode::kHealthGuard || error.code() == ExitCode::kInternal) throw;
    is_damaged = is_damaged || error.code() == ExitCode::kBadInput;
    return error.what();
  }
}

}  // namespace

void add_counterfactuals(RecordedTokens& tokens, int64_t most) {
  if (tokens.tokens == 0) return;
  Counterfactuals& out = tokens.counterfactuals;
  const std::vector<std::filesystem::path> files = newest(tokens, most);
  if (files.empty()) {
    out.refusal = "no record of a step is whole and has at most " + std::to_string(most) +
                  " tokens, which a report asks about; keel tokens RUN and keel advise RUN ask about any";
    return;
  }
  out.refusal = refusal_of(out.is_damaged, [&] {
    const TokenAnswers answers = answer(files, {.methods = asked_methods(kAsked), .leave_out = true});
    out.tokens = answers.tokens, out.steps = answers.steps;
    out.first_step = answers.first_step, out.last_step = answers.last_step;
    out.own = shares_of(answers.method, answers.own);
    for (const MethodAnswer& each : answers.methods) out.others.push_back(counterfactual_of(each));
    out.not_asked = answers.refused;
  });
  if (out.refusal.empty()) out.advice.refusal = refusal_of(out.is_damaged, [&] { out.advice = advice_on(files); });
}

}  // namespace keel
