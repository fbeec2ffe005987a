#include "keel/counterfactual/tokens_to_decide.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "keel/core/error.h"
#include "keel/objective/checks.h"

namespace keel {
namespace {

bool begins_unit(const TokenRow& row, const TokenRow& before, Scope scope) {
  return row.update != before.update || (scope != Scope::kBatch && row.rollout != before.rollout);
}

std::string word_of(const TrustRegion& region, const std::string& parameter) {
  for (const auto& [name, word] : choice_parameters(region))
    if (name == parameter) return word;
  return "";
}

}  // namespace

std::vector<TokenRow> TokenPieces::next() {
  while (true) {
    // The first cut makes one update of a piece, the last one as many sequences as are there.
    size_t cut = 0;
    for (size_t i = 1; i < held_.size() && (cut == 0 || scope_ != Scope::kBatch); ++i)
      if (begins_unit(held_[i], held_[i - 1], scope_)) cut = i;
    if (ended_ && (scope_ != Scope::kBatch || cut == 0)) cut = held_.size();
    if (cut > 0 || ended_) {
      std::vector<TokenRow> rest(std::make_move_iterator(held_.begin() + static_cast<std::ptrdiff_t>(cut)),
                                 std::make_move_iterator(held_.end()));
      held_.resize(cut);
      return std::exchange(held_, std::move(rest));
    }
    std::vector<TokenRow> more = reader_.next();
    ended_ = more.empty();
    held_.insert(held_.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
}

void require_scope(const AskedMethod& asked, const StepFacts& facts) {
  const Scope scope = requirements(asked.region).scope;
  if (scope == Scope::kSequence && !facts.whole_sequences)
    fail(ExitCode::kBadConfiguration, asked.name, ": judges whole sequences, and the record of step ", facts.step,
         " has parts of them; leave the method out");
  if (scope == Scope::kBatch && !facts.whole_batch)
    fail(ExitCode::kBadConfiguration, asked.name, ": judges whole updates, and the record of step ", facts.step,
         " has ", facts.recorded_rollouts, " of ", facts.rollouts,
         " completions; leave the method out, or record a run with record.tokens=all");
}

TokensToDecide::TokensToDecide(const std::vector<TokenRow>& rows, const StepFacts& facts) : rows_(rows), facts_(facts) {
  policy_ = {column(&TokenRow::log_pi), column(&TokenRow::log_mu), column(&TokenRow::advantage)};
  policy_.other_logp = column(&TokenRow::log_other_pi);
  policy_.behavior_other_logp = column(&TokenRow::log_other_mu);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i == 0 || begins_unit(rows[i], rows[i - 1], Scope::kSequence)) {
      policy_.lengths.push_back(0);
      policy_.groups.push_back(rows[i].group);
    }
    ++policy_.lengths.back();
  }
}

Tensor TokensToDecide::column(float TokenRow::*member) const {
  Tensor values = at::empty({std::ssize(rows_)}, at::kFloat);
  float* const to = values.mutable_data_ptr<float>();
  for (size_t i = 0; i < rows_.size(); ++i)
    if (std::isnan(to[i] = rows_[i].*member)) return {};
  return values;
}

Tensor TokensToDecide::needed(const AskedMethod& asked, float TokenRow::*member, const char* name,
                              const std::string& way_out) const {
  const Tensor values = column(member);
  if (!values.defined())
    fail(ExitCode::kBadConfiguration, asked.name, ": needs the column ", name, ", which the record of step ",
         facts_.step, " has not; leave the method out, or record a run that asks for it: ", way_out);
  return values;
}

/// Of whole distributions, which were measured when they were at hand.
Tensor TokensToDecide::recorded_divergence(const AskedMethod& asked) const {
  const std::string word = word_of(asked.region, "divergence");
  const std::string way_out = "objective.method=dppo_" + word;
  const Requirements needs = requirements(asked.region);
  if (needs.hidden_states && needs.exact_kl) return needed(asked, &TokenRow::full_kl, "full_kl", way_out);
  if (needs.hidden_states) return needed(asked, &TokenRow::full_tv, "full_tv", way_out);
  const bool replaces = word_of(asked.region, "support") == "replace_last", is_kl = word == "topk_kl";
  const Tensor values =
      is_kl ? needed(asked, replaces ? &TokenRow::topk_kl_replace_last : &TokenRow::topk_kl, "topk_kl", way_out)
            : needed(asked, replaces ? &TokenRow::topk_tv_replace_last : &TokenRow::topk_tv, "topk_tv", way_out);
  if (facts_.top_k != needs.top_k)
    fail(ExitCode::kBadConfiguration, asked.name, ": its divergence is over the ", needs.top_k,
         " likeliest tokens, and the record of step ", facts_.step, " has it over ", facts_.top_k,
         "; ask for k=", facts_.top_k);
  return values;
}

TokenDecision TokensToDecide::decided_by(const AskedMethod& asked) const {
  require_scope(asked, facts_);
  const Requirements needs = requirements(asked.region);
  TrustRegion region = asked.region;
  LossInputs policy = policy_;
  if (needs.recomputed_logp) {
    policy.old_logp = needed(asked, &TokenRow::log_recomputed, "log_recomputed", "objective.method=" + asked.method);
    policy.old_other_logp = column(&TokenRow::log_other_recomputed);
  }
  if (needs.hidden_states || needs.top_k > 0) policy.divergence = recorded_divergence(asked);
  if (needs.top_k > 0)  // an exact divergence is taken as it is given
    set_parameter(region, asked.method, "divergence",
                  word_of(region, "divergence") == "topk_kl" ? "full_kl" : "full_tv");
  try {
    const bool needs_more = needs.recomputed_logp || needs.hidden_states || needs.top_k > 0;
    if (needs_more || !is_checked_) check_loss_inputs(policy, requirements(region));
    is_checked_ = is_checked_ || !needs_more;
    check_region_inputs(region, policy, asked.method);
  } catch (const Error& error) {
    fail(error.code(), asked.name, ": cannot judge the record of step ", facts_.step, ": ", error.what());
  }
  TokenDecision decision = token_coefficients(region, policy);
  if (facts_.kl_coefficient > 0) {
    const Tensor reference = needed(asked, &TokenRow::log_reference, "log_reference", "reference.kl_coefficient");
    decision.coefficient = decision.coefficient +
                           reference_kl_coefficient(facts_.kl_estimator, facts_.kl_coefficient, policy.logp, reference);
  }
  return decision;
}

}  // namespace keel
