// The objectives as torch operators, torch.ops.keel.*; python/keel/__init__.py is the public interface. The operators
// of the LM head are in head_ops.cpp. torch.ops.load_library loads the library, so one build serves every Python
// version.

#include <ATen/ATen.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <tuple>

#include "keel/objective/advantage.h"
#include "keel/objective/aggregation.h"
#include "keel/objective/centering.h"
#include "keel/objective/certificate.h"
#include "keel/objective/checks.h"
#include "keel/objective/methods.h"
#include "keel/objective/regions/divergence.h"
#include "keel/objective/regions/region_parameters.h"
#include "python/op_arguments.h"

namespace keel {
namespace {

/// Upper bound of sequence lengths without a mask, so that a wrong value does not exhaust the memory.
constexpr int64_t kMaxTokens = int64_t{1} << 31;

std::vector<double> doubles(const char* name, const OptionalTensor& tensor) {
  if (!tensor) return {};
  check_float_vector(name, *tensor);
  const Tensor values = tensor->to(at::kCPU, at::kDouble).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

/// A mask [tokens] as bytes; all valid for an undefined mask.
std::vector<uint8_t> bytes(const Tensor& mask, int64_t tokens) {
  if (!mask.defined()) return std::vector<uint8_t>(static_cast<size_t>(tokens), 1);
  const Tensor values = mask.to(at::kCPU, at::kByte).contiguous();
  return {values.data_ptr<uint8_t>(), values.data_ptr<uint8_t>() + tokens};
}

/// The number, or its default, checked against the bounds.
double number_or(const char* name, std::optional<double> given, double fallback, double min, double max) {
  const double number = given.value_or(fallback);
  if (!(number >= min && number <= max))
    fail(ExitCode::kBadConfiguration, name, " is ", number, "; expected a number from ", min, " to ", max);
  return number;
}

Tensor tensor_like(const std::vector<double>& values, const Tensor& like) {
  return at::tensor(values, at::kDouble).to(like.device(), like.scalar_type());
}

using Decision = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

Decision token_coefficients_op(const std::string& region_name, const Names& names, const Tensor& numbers,
                               const Names& word_names, const Names& words, const Tensor& logp,
                               const Tensor& behavior_logp, const Tensor& advantages, const OptionalTensor& mask,
                               const OptionalTensor& lengths, const OptionalTensor& groups,
                               const OptionalTensor& old_logp, const OptionalTensor& other_logp,
                               const OptionalTensor& behavior_other_logp, const OptionalTensor& old_other_logp,
                               const OptionalTensor& topk_behavior_logp, const OptionalTensor& topk_logp,
                               const OptionalTensor& sampled_in_topk, const OptionalTensor& divergence) {
  return for_python([&]() -> Decision {
    const TrustRegion region = region_of(region_name, names, numbers, word_names, words);
    check_float_vector("logp", logp);
    const std::vector<int64_t> length = lengths_or_one(lengths, logp.numel());
    const LossInputs policy{.logp = logp,
                            .behavior_logp = behavior_logp,
                            .advantages = advantages,
                            .mask = flags("mask", mask, logp),
                            .lengths = length,
                            .groups = groups_or_one(groups, length.size()),
                            .old_logp = or_none(old_logp),
                            .other_logp = or_none(other_logp),
                            .behavior_other_logp = or_none(behavior_other_logp),
                            .old_other_logp = or_none(old_other_logp),
                            .topk_behavior_logp = or_none(topk_behavior_logp),
                            .topk_logp = or_none(topk_logp),
                            .sampled_in_topk = flags("sampled_in_topk", sampled_in_topk, logp),
                            .divergence = or_none(divergence)};
    check_loss_inputs(policy, requirements(region));
    check_region_inputs(region, policy, region_name);
    const TokenDecision decision = token_coefficients(region, policy);
    // Clones, since operator results may not alias arguments, and a region may return an argument.
    const auto copy = [](const Tensor& tensor) { return tensor.clone(at::MemoryFormat::Contiguous); };
    return {copy(decision.coefficient), copy(decision.keep),      copy(decision.outside),
            copy(decision.divergence),  copy(decision.threshold), decision.clamped};
  });
}

/// The coefficients b [N, K] of the centered loss -(g log pi - sum_v b_v log pi_v); 0 for masked tokens.
Tensor centering_coefficients_op(const std::string& region_name, const Names& names, const Tensor& numbers,
                                 const Names& word_names, const Names& words, const std::string& kind,
                                 const Tensor& advantages, const OptionalTensor& mask, const Tensor& logp,
                                 const Tensor& behavior_logp) {
  return for_python([&]() -> Tensor {
    const TrustRegion region = region_of(region_name, names, numbers, word_names, words);
    const Centering centering = parse_centering(kind);
    if (centering == Centering::kNone) fail(ExitCode::kInternal, "no centering");
    if (!token_weights(region))
      fail(ExitCode::kBadConfiguration, "centering is \"", kind, "\", but ", region_name,
           " cannot be centered: ", no_token_weights_reason(region));
    check_float_vector("advantages", advantages);
    const Tensor valid = flags("mask", mask, advantages);
    check_centering_rows(logp, behavior_logp, advantages, valid, centering == Centering::kExact);
    const auto zero_masked = [&](const Tensor& rows) {
      return valid.defined() ? rows.masked_fill(valid.logical_not().unsqueeze(1), -kUnlimited) : rows;
    };
    const Tensor pi = zero_masked(logp), mu = zero_masked(behavior_logp);
    Tensor masses;
    if (centering == Centering::kExact) {
      masses = weighted_behavior(region, advantages, pi, mu);
    } else {
      // The tail is a multiple of pi outside the top K. All of pi has no gradient, so its rest is -pi in the top K.
      const TopKCentering topk = topk_centering(region, advantages, pi, mu);
      masses = topk.masses - topk.others.unsqueeze(1) * pi.to(at::kDouble).exp();
    }
    const Tensor scale = valid.defined() ? advantages.masked_fill(valid.logical_not(), 0) : advantages;
    return (scale.unsqueeze(1) * masses).to(logp.scalar_type());
  });
}

Tensor divergence_op(const std::string& kind, const Tensor& logp, const Tensor& behavior_logp,
                     const OptionalTensor& other_logp, const OptionalTensor& behavior_other_logp,
                     const OptionalTensor& topk_behavior_logp, const OptionalTensor& topk_logp,
                     const OptionalTensor& sampled_in_topk, const std::string& support) {
  return for_python([&]() -> Tensor {
    if (support != "union" && support != "replace_last")
      fail(ExitCode::kBadConfiguration, "support is \"", support, "\"; known: union, replace_last");
    if (kind == "full_tv" || kind == "full_kl") {
      if (logp.dim() != 2 || logp.sizes() != behavior_logp.sizes())
        fail(ExitCode::kBadConfiguration, kind,
             " needs full rows of log-probs; expected logp and behavior_logp of the same shape [N, V]");
      check_float_vector("logp", logp.flatten());
      check_float_vector("behavior_logp", behavior_logp.flatten(), logp.flatten());
      check_distributions("logp", logp);
      check_distributions("behavior_logp", behavior_logp);
      return kind == "full_tv" ? full_tv(logp, behavior_logp) : full_kl(logp, behavior_logp);
    }
    LossInputs policy{.logp = logp, .behavior_logp = behavior_logp, .advantages = at::zeros_like(logp)};
    policy.other_logp = or_none(other_logp);
    policy.behavior_other_logp = or_none(behavior_other_logp);
    const bool topk = kind == "topk_tv" || kind == "topk_kl";
    if (topk) {
      policy.topk_behavior_logp = or_none(topk_behavior_logp);
      policy.topk_logp = or_none(topk_logp);
      policy.sampled_in_topk = flags("sampled_in_topk", sampled_in_topk, logp);
    }
    check_loss_inputs(policy, {.top_k = topk ? 1 : 0});
    if (!topk) {
      using Function = Tensor (*)(const Tensor&, const Tensor&);
      constexpr std::array<std::pair<const char*, Function>, 4> kBySample{
          {{"binary_tv", binary_tv}, {"k1", k1}, {"k2", k2}, {"k3", k3}}};
      if (kind == "binary_kl") return binary_kl(logp, behavior_logp, policy.other_logp, policy.behavior_other_logp);
      for (const auto& [name, function] : kBySample)
        if (kind == name) return function(logp, behavior_logp);
      fail(ExitCode::kBadConfiguration, "divergence \"", kind,
           "\"; known: binary_tv, binary_kl, topk_tv, topk_kl, full_tv, full_kl, k1, k2, k3");
    }
    const TopKSupport topk_support = support == "union" ? TopKSupport::kUnion : TopKSupport::kReplaceLast;
    const TopKLogProbs log_probs{policy.topk_behavior_logp, policy.topk_logp, behavior_logp, logp,
                                 policy.sampled_in_topk};
    return kind == "topk_tv" ? topk_tv(log_probs, topk_support) : topk_kl(log_probs, topk_support);
  });
}

/// The number of tokens: the size of the mask, or the sum of the lengths.
int64_t count_tokens(const std::vector<int64_t>& lengths, const OptionalTensor& mask) {
  int64_t tokens = mask ? mask->numel() : 0;
  for (size_t s = 0; !mask && s < lengths.size(); ++s) {
    if (lengths[s] < 0 || lengths[s] > kMaxTokens)
      fail(ExitCode::kBadConfiguration, "lengths[", s, "] is ", lengths[s], "; expected 0 to ", kMaxTokens);
    tokens += lengths[s];
  }
  check_lengths(lengths, tokens);
  return tokens;
}

/// The inputs of all kinds of advantages. All are checked, even those that a kind does not read.
struct AdvantageInputs {
  std::vector<double> rewards;
  std::vector<int64_t> groups, lengths;
  std::vector<uint8_t> valid;
  std::vector<double> values, token_rewards;

  TokenRewards batch() const { return {rewards, groups, lengths, valid, token_rewards, values}; }
};

AdvantageInputs advantage_inputs(const Tensor& rewards, const OptionalTensor& groups, const OptionalTensor& lengths,
                                 const OptionalTensor& mask, const OptionalTensor& values,
                                 const OptionalTensor& token_rewards) {
  AdvantageInputs inputs;
  inputs.rewards = doubles("rewards", rewards);
  check_finite("rewards", rewards, {});
  check_magnitude("rewards", rewards);
  inputs.groups = groups_or_one(groups, inputs.rewards.size());
  if (!lengths) {
    for (const auto& [name, tensor] :
         {std::pair{"mask", &mask}, {"values", &values}, {"token_rewards", &token_rewards}})
      if (*tensor)
        fail(ExitCode::kBadConfiguration, name, " is given without lengths, which assign the tokens to sequences");
    return inputs;
  }
  inputs.lengths = integers("lengths", lengths);
  if (inputs.lengths.size() != inputs.rewards.size())
    fail(ExitCode::kBadConfiguration, "lengths has ", inputs.lengths.size(), " entries; expected one for each of the ",
         inputs.rewards.size(), " rewards");
  const int64_t tokens = count_tokens(inputs.lengths, mask);
  const Tensor valid_mask = mask ? flags("mask", mask, mask->flatten()) : Tensor();
  inputs.valid = bytes(valid_mask, tokens);
  const auto per_token = [&](const char* name, const OptionalTensor& tensor) {
    if (!tensor) return std::vector<double>{};
    check_float_vector(name, *tensor);
    if (tensor->numel() != tokens)
      fail(ExitCode::kBadConfiguration, name, " has ", tensor->numel(), " entries; expected one for each of the ",
           tokens, " tokens");
    check_finite(name, *tensor, valid_mask.defined() ? valid_mask.to(tensor->device()) : valid_mask);
    return doubles(name, tensor);
  };
  inputs.values = per_token("values", values);
  inputs.token_rewards = per_token("token_rewards", token_rewards);
  return inputs;
}

/// Advantages, and returns if the kind has them (else empty).
std::tuple<Tensor, Tensor> advantages_op(const std::string& kind, const Tensor& rewards, const OptionalTensor& groups,
                                         const OptionalTensor& lengths, const OptionalTensor& mask,
                                         const OptionalTensor& values, const OptionalTensor& token_rewards,
                                         const OptionalTensor& given_gamma, const OptionalTensor& given_lambda,
                                         const OptionalTensor& given_eps) {
  return for_python([&]() -> std::tuple<Tensor, Tensor> {
    const bool per_sequence =
        kind == "group_mean" || kind == "grpo" || kind == "rloo" || kind == "maxrl" || kind == "batch_mean";
    if (!per_sequence && kind != "reinforce_pp" && kind != "reinforce_pp_baseline" && kind != "gae")
      fail(ExitCode::kBadConfiguration, "advantage \"", kind,
           "\"; known: group_mean, grpo, rloo, maxrl, batch_mean, reinforce_pp, reinforce_pp_baseline, gae");
    const AdvantageInputs inputs = advantage_inputs(rewards, groups, lengths, mask, values, token_rewards);
    const double gamma = number_or("gamma", number_of(given_gamma), 1, 0, 1),
                 lambda = number_or("lambda", number_of(given_lambda), 1, 0, 1);
    const double eps = number_or("eps", number_of(given_eps), kind == "grpo" ? kAdvantageEps : 1e-8, 0, 1e20);
    const Tensor none = at::empty({0}, rewards.options());
    const auto result = [&](const std::vector<double>& numbers) { return tensor_like(numbers, rewards); };
    if (kind == "group_mean") return {result(group_mean_advantages(inputs.rewards, inputs.groups)), none};
    if (kind == "grpo") return {result(grpo_advantages(inputs.rewards, inputs.groups, eps)), none};
    if (kind == "rloo") return {result(rloo_advantages(inputs.rewards, inputs.groups)), none};
    if (kind == "maxrl") return {result(maxrl_advantages(inputs.rewards, inputs.groups)), none};
    if (kind == "batch_mean") return {result(batch_mean_advantages(inputs.rewards)), none};
    if (!lengths) fail(ExitCode::kBadConfiguration, "lengths is not given, but ", kind, " is an advantage per token");
    if (kind == "reinforce_pp") return {result(reinforce_pp_advantages(inputs.batch(), gamma, eps)), none};
    if (kind == "reinforce_pp_baseline") return {result(reinforce_pp_baseline_advantages(inputs.batch(), eps)), none};
    if (!values) fail(ExitCode::kBadConfiguration, "gae needs values, the critic's estimates");
    const AdvantagesAndReturns gae = gae_advantages(inputs.batch(), gamma, lambda);
    return {result(gae.advantages), result(gae.returns)};
  });
}

/// The weight of every token [N] in the loss.
Tensor aggregation_weights_op(const std::string& kind, const Tensor& values, const OptionalTensor& mask,
                              const OptionalTensor& lengths, const OptionalTensor& given_horizon,
                              const OptionalTensor& groups) {
  return for_python([&]() -> Tensor {
    check_float_vector("values", values);
    const std::vector<int64_t> length = lengths_or_one(lengths, values.numel());
    const Tensor valid = flags("mask", mask, values);
    const std::optional<double> horizon = number_of(given_horizon);
    if (kind == "seq_mean_token_sum_norm" && !horizon)
      fail(ExitCode::kBadConfiguration, "horizon is not given, and ", kind,
           " divides by it: expected a number above 0, usually the maximum completion length, or another aggregation");
    if (horizon && !(*horizon >= 1e-20 && *horizon <= 1e20))
      fail(ExitCode::kBadConfiguration, "horizon is ", *horizon,
           "; expected a number above 0 (1e-20 to 1e20), usually the maximum completion length");
    const std::vector<double> zeros(static_cast<size_t>(values.numel()), 0.0);
    const std::vector<int64_t> prompts = groups ? integers("groups", groups) : std::vector<int64_t>();
    return tensor_like(
        aggregate(kind, zeros, bytes(valid, values.numel()), length, horizon.value_or(1), prompts).weights, values);
  });
}

/// Checks the conditions of the theorem, with the argument names in errors.
void check_certificate(const Tensor& tv, const Tensor& rewards, const std::vector<int64_t>& lengths,
                       const RewardRange& range, int64_t horizon) {
  const std::vector<double> distances = doubles("tv", tv), reward = doubles("rewards", rewards);
  constexpr double kTolerance = 1e-4;  // for sums over a vocabulary in float32
  for (size_t i = 0; i < distances.size(); ++i)
    if (!(distances[i] >= 0 && distances[i] <= 1 + kTolerance))
      fail(ExitCode::kBadConfiguration, "tv[", i, "] is ", distances[i], "; expected a total variation, 0 to 1");
  if (reward.size() != lengths.size())
    fail(ExitCode::kBadConfiguration, "rewards has ", reward.size(), " entries; expected one for each of the ",
         lengths.size(), " sequences of lengths");
  check_finite("rewards", rewards, {});
  for (size_t s = 0; s < lengths.size(); ++s) {
    if (!(reward[s] >= range.lowest && reward[s] <= range.highest && std::isfinite(range.half_width())))
      fail(ExitCode::kBadConfiguration, "xi is ", range.half_width(), ", but rewards[", s, "] is ", reward[s],
           "; expected a finite bound of every |reward|");
    if (lengths[s] > horizon)
      fail(ExitCode::kBadConfiguration, "horizon is ", horizon, ", but lengths[", s, "] is ", lengths[s],
           "; expected the maximum response length");
  }
}

/// gain, max_penalty, average_penalty, average_penalty_low, certificate, standard_error, improved: [7] float64.
Tensor certificate_op(const Tensor& logp, const Tensor& behavior_logp, const Tensor& tv, const Tensor& rewards,
                      const OptionalTensor& lengths, const OptionalTensor& groups, double lowest, double highest,
                      int64_t horizon, const std::string& divergence) {
  return for_python([&]() -> Tensor {
    check_loss_inputs({.logp = logp, .behavior_logp = behavior_logp, .advantages = at::zeros_like(logp)}, {});
    check_float_vector("tv", tv, logp);
    const std::vector<int64_t> length = lengths_or_one(lengths, logp.numel());
    const RewardRange range{.lowest = lowest, .highest = highest};
    check_certificate(tv, rewards, length, range, horizon);
    const std::vector<int64_t> group = groups ? groups_or_one(groups, length.size()) : std::vector<int64_t>{};
    const std::vector<double> pi = doubles("logp", logp), mu = doubles("behavior_logp", behavior_logp),
                              distance = doubles("tv", tv), reward = doubles("rewards", rewards);
    const double rounding = logp.scalar_type() == at::kDouble ? 0 : kFloatLogProbError;
    const ImprovementCertificate result =
        improvement_certificate({pi, mu, distance, reward, length, group, range, horizon, divergence, rounding});
    return at::tensor({result.gain, result.max_penalty, result.average_penalty, result.average_penalty_low,
                       result.certificate, result.standard_error, result.improved ? 1.0 : 0.0},
                      at::kDouble);
  });
}

Json requirements_json(const Requirements& needs) {
  const char* scope = needs.scope == Scope::kToken ? "token" : needs.scope == Scope::kSequence ? "sequence" : "batch";
  return {{"top_k", needs.top_k},
          {"hidden_states", needs.hidden_states},
          {"recomputed_logp", needs.recomputed_logp},
          {"reference_logp", needs.reference_logp},
          {"value", needs.value},
          {"scope", scope}};
}

/// The table of methods as JSON; an unlimited parameter is null.
std::string methods_op() {
  Json table = Json::array();
  for (const Method& method : methods()) {
    Json params = Json::object();
    for (const auto& [name, value] : number_parameters(method.region))
      params[name] = std::isfinite(value) ? Json(value) : Json();
    for (const auto& [name, value] : choice_parameters(method.region)) params[name] = value;
    table.push_back({{"name", method.name},
                     {"sentence", method.summary},
                     {"equation", method.equation},
                     {"source", method.source},
                     {"advantage", method.advantage},
                     {"aggregation", method.aggregation},
                     {"parameters", params},
                     {"requirements", requirements_json(requirements(method.region))}});
  }
  return table.dump();
}

}  // namespace

TORCH_LIBRARY(keel, library) {
  library.def(
      "token_coefficients(str region, str[] names, Tensor numbers, str[] word_names, str[] words, Tensor logp, "
      "Tensor behavior_logp, Tensor advantages, Tensor? mask, Tensor? lengths, Tensor? groups, Tensor? old_logp, "
      "Tensor? other_logp, Tensor? behavior_other_logp, Tensor? old_other_logp, "
      "Tensor? topk_behavior_logp, Tensor? topk_logp, "
      "Tensor? sampled_in_topk, Tensor? divergence) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "centering_coefficients(str region, str[] names, Tensor numbers, str[] word_names, str[] words, str kind, "
      "Tensor advantages, Tensor? mask, Tensor logp, Tensor behavior_logp) -> Tensor");
  library.def(
      "divergence(str kind, Tensor logp, Tensor behavior_logp, Tensor? other_logp, Tensor? behavior_other_logp, "
      "Tensor? topk_behavior_logp, Tensor? topk_logp, Tensor? sampled_in_topk, str support) -> Tensor");
  library.def(
      "advantages(str kind, Tensor rewards, Tensor? groups, Tensor? lengths, Tensor? mask, Tensor? values, "
      "Tensor? token_rewards, Tensor? gamma, Tensor? lambda_, Tensor? eps) -> (Tensor, Tensor)");
  library.def(
      "aggregation_weights(str kind, Tensor values, Tensor? mask, Tensor? lengths, Tensor? horizon, Tensor? groups) -> "
      "Tensor");
  library.def(
      "certificate(Tensor logp, Tensor behavior_logp, Tensor tv, Tensor rewards, Tensor? lengths, Tensor? groups, "
      "float lowest, float highest, int horizon, str divergence) -> Tensor");
  library.def("methods() -> str", methods_op);
}

TORCH_LIBRARY_IMPL(keel, CompositeExplicitAutograd, library) {
  library.impl("token_coefficients", token_coefficients_op);
  library.impl("centering_coefficients", centering_coefficients_op);
  library.impl("divergence", divergence_op);
  library.impl("advantages", advantages_op);
  library.impl("aggregation_weights", aggregation_weights_op);
  library.impl("certificate", certificate_op);
}

// The operators are not differentiable by design, so autograd skips them.
TORCH_LIBRARY_IMPL(keel, Autograd, library) {
  for (const char* name : {"token_coefficients", "centering_coefficients", "divergence", "advantages",
                           "aggregation_weights", "certificate"})
    library.impl(name, torch::CppFunction::makeFallthrough());
}

}  // namespace keel
