#include "keel/counterfactual/recorded_token_batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "keel/core/error.h"
#include "keel/objective/checks.h"

namespace keel {
namespace {

/// Returns whether a row is the first of an update or, unless the scope is the batch, of a sequence.
bool begins_unit(const TokenRow& row, const TokenRow& before, Scope scope) {
  return row.update != before.update || (scope != Scope::kBatch && row.rollout != before.rollout);
}

std::string choice_of(const TrustRegion& region, const std::string& parameter) {
  for (const auto& [name, choice] : choice_parameters(region))
    if (name == parameter) return choice;
  return "";
}

}  // namespace

std::vector<TokenRow> TokenBatches::next() {
  while (true) {
    // kBatch cuts after the first update; other scopes cut after the last whole sequence.
    size_t cut = 0;
    for (size_t i = 1; i < pending_.size() && (cut == 0 || scope_ != Scope::kBatch); ++i)
      if (begins_unit(pending_[i], pending_[i - 1], scope_)) cut = i;
    if (ended_ && (scope_ != Scope::kBatch || cut == 0)) cut = pending_.size();
    if (cut > 0 || ended_) {
      std::vector<TokenRow> rest(std::make_move_iterator(pending_.begin() + static_cast<std::ptrdiff_t>(cut)),
                                 std::make_move_iterator(pending_.end()));
      pending_.resize(cut);
      return std::exchange(pending_, std::move(rest));
    }
    std::vector<TokenRow> more = reader_.next();
    ended_ = more.empty();
    pending_.insert(pending_.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
}

void require_scope(const MethodSpec& spec, const StepFacts& facts) {
  const Scope scope = requirements(spec.region).scope;
  if (scope == Scope::kSequence && !facts.whole_sequences)
    fail(ExitCode::kBadConfiguration, spec.name, ": decides on whole sequences, but the record of step ", facts.step,
         " has parts of them. Fix: leave the method out");
  if (scope == Scope::kBatch && !facts.whole_batch)
    fail(ExitCode::kBadConfiguration, spec.name, ": decides on whole updates, but the record of step ", facts.step,
         " has ", facts.recorded_rollouts, " of ", facts.rollouts,
         " completions. Fix: leave the method out, or record a run with record.tokens=all");
}

RecordedTokenBatch::RecordedTokenBatch(const std::vector<TokenRow>& rows, const StepFacts& facts)
    : rows_(rows), facts_(facts) {
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

Tensor RecordedTokenBatch::column(float TokenRow::*member) const {
  Tensor values = at::empty({std::ssize(rows_)}, at::kFloat);
  float* const data = values.mutable_data_ptr<float>();
  for (size_t i = 0; i < rows_.size(); ++i) {
    data[i] = rows_[i].*member;
    if (std::isnan(data[i])) return {};
  }
  return values;
}

Tensor RecordedTokenBatch::require_column(const MethodSpec& spec, float TokenRow::*member, const char* name,
                                          const std::string& fix) const {
  const Tensor values = column(member);
  if (!values.defined())
    fail(ExitCode::kBadConfiguration, spec.name, ": needs the column ", name, ", which the record of step ",
         facts_.step, " does not have. Fix: leave the method out, or record a run that has it: ", fix);
  return values;
}

/// The recorded divergence over the vocabulary or the top K tokens, which cannot be recomputed.
Tensor RecordedTokenBatch::recorded_divergence(const MethodSpec& spec) const {
  const std::string kind = choice_of(spec.region, "divergence");
  const std::string fix = "objective.method=dppo_" + kind;
  const Requirements needs = requirements(spec.region);
  if (needs.hidden_states && needs.exact_kl) return require_column(spec, &TokenRow::full_kl, "full_kl", fix);
  if (needs.hidden_states) return require_column(spec, &TokenRow::full_tv, "full_tv", fix);
  const bool replaces_last = choice_of(spec.region, "support") == "replace_last", is_kl = kind == "topk_kl";
  const Tensor values =
      is_kl
          ? require_column(spec, replaces_last ? &TokenRow::topk_kl_replace_last : &TokenRow::topk_kl, "topk_kl", fix)
          : require_column(spec, replaces_last ? &TokenRow::topk_tv_replace_last : &TokenRow::topk_tv, "topk_tv", fix);
  if (facts_.top_k != needs.top_k)
    fail(ExitCode::kBadConfiguration, spec.name, ": its divergence is over the ", needs.top_k,
         " likeliest tokens, and the record of step ", facts_.step, " has it over ", facts_.top_k,
         ". Fix: use k=", facts_.top_k);
  return values;
}

TokenDecision RecordedTokenBatch::decide(const MethodSpec& spec) const {
  require_scope(spec, facts_);
  const Requirements needs = requirements(spec.region);
  TrustRegion region = spec.region;
  LossInputs policy = policy_;
  if (needs.recomputed_logp) {
    policy.old_logp =
        require_column(spec, &TokenRow::log_recomputed, "log_recomputed", "objective.method=" + spec.method);
    policy.old_other_logp = column(&TokenRow::log_other_recomputed);
  }
  if (needs.hidden_states || needs.top_k > 0) policy.divergence = recorded_divergence(spec);
  if (needs.top_k > 0)  // the recorded divergence is used like an exact one
    set_parameter(region, spec.method, "divergence",
                  choice_of(region, "divergence") == "topk_kl" ? "full_kl" : "full_tv");
  try {
    const bool needs_more = needs.recomputed_logp || needs.hidden_states || needs.top_k > 0;
    if (needs_more || !is_checked_) check_loss_inputs(policy, requirements(region));
    is_checked_ = is_checked_ || !needs_more;
    check_region_inputs(region, policy, spec.method);
  } catch (const Error& error) {
    fail(error.code(), spec.name, ": cannot be evaluated on the record of step ", facts_.step, ": ", error.what());
  }
  TokenDecision decision = token_coefficients(region, policy);
  if (facts_.kl_coefficient > 0) {
    const Tensor reference =
        require_column(spec, &TokenRow::log_reference, "log_reference", "reference.kl_coefficient");
    decision.coefficient = decision.coefficient +
                           reference_kl_coefficient(facts_.kl_estimator, facts_.kl_coefficient, policy.logp, reference);
  }
  return decision;
}

}  // namespace keel
