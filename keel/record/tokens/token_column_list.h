#pragma once

#include "keel/record/tokens/token_row.h"

namespace keel {

/// Calls visit(name, member, nullable) for each column, in the order of the files.
template <class Visit>
void for_each_token_column(const Visit& visit) {
  visit("step", &TokenRow::step, false);
  visit("update", &TokenRow::update, false);
  visit("prompt", &TokenRow::prompt, false);
  visit("group", &TokenRow::group, false);
  visit("rollout", &TokenRow::rollout, false);
  visit("policy_version", &TokenRow::policy_version, false);
  visit("position", &TokenRow::position, false);
  visit("token_id", &TokenRow::token_id, false);
  visit("token", &TokenRow::token, false);
  visit("log_mu", &TokenRow::log_mu, false);
  visit("log_pi", &TokenRow::log_pi, false);
  visit("log_other_mu", &TokenRow::log_other_mu, true);
  visit("log_other_pi", &TokenRow::log_other_pi, true);
  visit("log_recomputed", &TokenRow::log_recomputed, true);
  visit("log_other_recomputed", &TokenRow::log_other_recomputed, true);
  visit("log_reference", &TokenRow::log_reference, true);
  visit("topk_tv", &TokenRow::topk_tv, true);
  visit("topk_kl", &TokenRow::topk_kl, true);
  visit("topk_tv_replace_last", &TokenRow::topk_tv_replace_last, true);
  visit("topk_kl_replace_last", &TokenRow::topk_kl_replace_last, true);
  visit("full_tv", &TokenRow::full_tv, true);
  visit("full_kl", &TokenRow::full_kl, true);
  visit("divergence", &TokenRow::divergence, false);
  visit("threshold", &TokenRow::threshold, false);
  visit("ratio", &TokenRow::ratio, false);
  visit("advantage", &TokenRow::advantage, false);
  visit("coefficient", &TokenRow::coefficient, false);
  visit("weight", &TokenRow::weight, false);
  visit("kept", &TokenRow::kept, false);
  visit("outside", &TokenRow::outside, false);
  visit("entropy", &TokenRow::entropy, true);
  visit("entropy_mu", &TokenRow::entropy_mu, true);
  visit("choices", &TokenRow::choices, true);
  visit("reward", &TokenRow::reward, false);
}

}  // namespace keel
