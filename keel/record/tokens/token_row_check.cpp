#include "keel/record/tokens/token_row_check.h"

#include <cmath>
#include <limits>

#include "keel/core/written.h"

namespace keel {
namespace {

constexpr float kMost = std::numeric_limits<float>::max(), kInfinity = std::numeric_limits<float>::infinity();
constexpr double kRounding = 1e-4;  // of float32 sums over a vocabulary

/// What numbers of a column may be.
struct Range {
  const char* column;
  float TokenRow::*member;
  bool may_be_unknown;
  float least, most;
  const char* wanted;
};

constexpr const char* kLogProbability = "a log-probability: finite and not above 0";
constexpr const char* kOther = "the log-probability of any other token: not above 0";
constexpr const char* kVariation = "a total variation, 0 to 1";
constexpr const char* kDivergence = "a divergence, from 0 on";
constexpr const char* kNumber = "a finite number";
constexpr const char* kEntropy = "an entropy, from 0 on";
constexpr float kSlack = static_cast<float>(kRounding), kOne = 1 + kSlack;

constexpr Range kRanges[] = {{"log_mu", &TokenRow::log_mu, false, -kMost, 0, kLogProbability},
                             {"log_pi", &TokenRow::log_pi, false, -kMost, 0, kLogProbability},
                             {"log_recomputed", &TokenRow::log_recomputed, true, -kMost, 0, kLogProbability},
                             {"log_reference", &TokenRow::log_reference, true, -kMost, 0, kLogProbability},
                             {"log_other_mu", &TokenRow::log_other_mu, true, -kInfinity, 0, kOther},
                             {"log_other_pi", &TokenRow::log_other_pi, true, -kInfinity, 0, kOther},
                             {"log_other_recomputed", &TokenRow::log_other_recomputed, true, -kInfinity, 0, kOther},
                             {"topk_tv", &TokenRow::topk_tv, true, 0, kOne, kVariation},
                             {"topk_tv_replace_last", &TokenRow::topk_tv_replace_last, true, 0, kOne, kVariation},
                             {"full_tv", &TokenRow::full_tv, true, 0, kOne, kVariation},
                             {"topk_kl", &TokenRow::topk_kl, true, 0, kInfinity, kDivergence},
                             {"topk_kl_replace_last", &TokenRow::topk_kl_replace_last, true, 0, kInfinity, kDivergence},
                             {"full_kl", &TokenRow::full_kl, true, 0, kInfinity, kDivergence},
                             {"ratio", &TokenRow::ratio, false, 0, kMost, "a finite ratio, from 0 on"},
                             {"entropy", &TokenRow::entropy, true, -kSlack, kMost, kEntropy},
                             {"entropy_mu", &TokenRow::entropy_mu, true, -kSlack, kMost, kEntropy},
                             {"advantage", &TokenRow::advantage, false, -1e30f, 1e30f, "a number from -1e30 to 1e30"},
                             {"coefficient", &TokenRow::coefficient, false, -kMost, kMost, kNumber},
                             {"weight", &TokenRow::weight, false, -kMost, kMost, kNumber}};

/// log(1 - p) beside log p.
struct Pair {
  const char* column;
  float TokenRow::*other;
  const char* of;
  float TokenRow::*member;
};
constexpr Pair kPairs[] = {
    {"log_other_mu", &TokenRow::log_other_mu, "log_mu", &TokenRow::log_mu},
    {"log_other_pi", &TokenRow::log_other_pi, "log_pi", &TokenRow::log_pi},
    {"log_other_recomputed", &TokenRow::log_other_recomputed, "log_recomputed", &TokenRow::log_recomputed}};

std::string wrong_number(const TokenRow& row) {
  for (const Range& range : kRanges) {
    const float value = row.*range.member;
    if ((value >= range.least && value <= range.most) || (range.may_be_unknown && std::isnan(value))) continue;
    return written("its column ", range.column, " has ", value, "; wanted ", range.wanted);
  }
  for (const Pair& pair : kPairs) {
    const double other = row.*pair.other, logp = row.*pair.member;
    if (std::abs(std::exp(other) + std::exp(logp) - 1) > kRounding)  // not so where one is unknown
      return written("its column ", pair.column, " has ", other, " beside ", pair.of, " ", logp,
                     "; wanted probabilities that add up to 1");
  }
  if (!std::isfinite(row.reward)) return written("its column reward has ", row.reward, "; wanted ", kNumber);
  if (!row.kept && !row.outside)
    return "its column kept has false beside outside false; wanted one that is blocked to be outside";
  return "";
}

std::optional<int64_t> whole_number(const Json& facts, const char* name) {
  const auto found = facts.find(name);
  if (found == facts.end() || !found->is_number_integer()) return {};
  return found->get<int64_t>();
}

}  // namespace

TokenRowCheck::TokenRowCheck(const Json& facts)
    : step_(whole_number(facts, "step")), recorded_(whole_number(facts, "recorded_rollouts")) {}

void TokenRowCheck::begin_at(int64_t row) {
  from_the_first_ = row == 0;
  passes_ = 0;
  all_.clear();
  row_ = row;
  begun_ = false;
  rollouts_.clear();
}

std::string TokenRowCheck::out_of_order(const TokenRow& row) {
  const bool is_same_update = begun_ && row.update == update_;
  const bool goes_on = is_same_update && row.rollout == rollout_;
  const bool knows_none_before = !begun_ && row_ > 0;
  const bool is_next = knows_none_before || row.position == (goes_on ? position_ + 1 : 0);
  const bool falls = begun_ && row.update < update_;
  if (!is_same_update) rollouts_.clear();
  const bool is_fresh = goes_on || rollouts_.insert(row.rollout).second;
  begun_ = true;
  passes_ += !goes_on;
  all_.insert(row.rollout);
  update_ = row.update, rollout_ = row.rollout, position_ = row.position;
  if (is_next && is_fresh && !falls) return "";
  return written("its rows are in another order than they were written in: position ", row.position, " of completion ",
                 row.rollout, " in update ", row.update, " is out of place");
}

std::string TokenRowCheck::wrong_with(const TokenRow& row) {
  std::string wrong = wrong_number(row);
  if (wrong.empty() && step_ && row.step != *step_)
    wrong = written("its column step has ", row.step, "; wanted ", *step_, ", the file's own");
  if (wrong.empty()) wrong = out_of_order(row);
  if (!wrong.empty()) wrong = written("row ", row_ + 1, " (from 1), completion ", row.rollout, ": ", wrong);
  ++row_;
  return wrong;
}

std::string TokenRowCheck::wrong_at_the_end() const {
  if (!from_the_first_ || !recorded_) return "";
  const int64_t seen = std::ssize(all_);
  if (seen != *recorded_)
    return written("it has ", seen, " completions, and by recorded_rollouts of keel.step ", *recorded_);
  if (seen > 0 && passes_ % seen != 0)
    return written("its ", seen, " completions come ", passes_,
                   " times in its updates; wanted each as often as the others");
  return "";
}

}  // namespace keel
