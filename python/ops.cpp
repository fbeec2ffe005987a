// The objectives as torch operators, torch.ops.keel.*; python/keel/__init__.py is the interface that people call.
//
// A plain shared library without Python in it: it is loaded by torch.ops.load_library, so one build serves every
// Python.

#include <ATen/ATen.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/json.h"
#include "keel/objective/advantage.h"
#include "keel/objective/aggregation.h"
#include "keel/objective/certificate.h"
#include "keel/objective/checks.h"
#include "keel/objective/divergence.h"
#include "keel/objective/methods.h"
#include "keel/objective/regions.h"

namespace keel {
namespace {

using OptionalTensor = std::optional<Tensor>;

/// A sequence that nothing else bounds is held below this, so that a slip does not ask for all memory.
constexpr int64_t kMaxTokens = int64_t{1} << 31;

/// Runs the body; an Error becomes Python's ValueError.
template <class Body>
auto for_python(Body body) {
  try {
    const at::NoGradGuard no_grad;
    return body();
  } catch (const Error& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
}

Tensor or_none(const OptionalTensor& tensor) { return tensor.value_or(Tensor()); }

std::vector<int64_t> integers(const char* name, const OptionalTensor& tensor) {
  if (!tensor) return {};
  if (!at::isIntegralType(tensor->scalar_type(), /*includeBool=*/false) || tensor->dim() != 1)
    fail(ExitCode::kBadConfiguration, name, " is ", c10::toString(tensor->scalar_type()), " with ", tensor->dim(),
         " dimensions; wanted integers, one per sequence");
  const Tensor values = tensor->to(at::kCPU, at::kLong).contiguous();
  return {values.data_ptr<int64_t>(), values.data_ptr<int64_t>() + values.numel()};
}

std::vector<double> doubles(const char* name, const OptionalTensor& tensor) {
  if (!tensor) return {};
  check_float_vector(name, *tensor);
  const Tensor values = tensor->to(at::kCPU, at::kDouble).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

/// The mask [tokens] as bytes; everything is valid where it is left out.
std::vector<uint8_t> flags(const OptionalTensor& mask, int64_t tokens) {
  if (!mask) return std::vector<uint8_t>(tokens, 1);
  if (mask->numel() != tokens || mask->dim() != 1)
    fail(ExitCode::kBadConfiguration, "mask has ", mask->numel(), " entries; wanted one for each of the ", tokens,
         " tokens");
  const Tensor values = mask->to(at::kCPU, at::kByte).contiguous();
  return {values.data_ptr<uint8_t>(), values.data_ptr<uint8_t>() + tokens};
}

std::vector<int64_t> lengths_or_one(const OptionalTensor& lengths, int64_t tokens) {
  std::vector<int64_t> result = lengths ? integers("lengths", lengths) : std::vector<int64_t>{tokens};
  check_lengths(result, tokens);
  return result;
}

Tensor tensor_like(const std::vector<double>& values, const Tensor& like) {
  return at::tensor(values, at::kDouble).to(like.device(), like.scalar_type());
}

using Decision = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

Decision token_coefficients_op(const std::string& region_name, const std::string& params, const Tensor& logp,
                               const Tensor& behavior_logp, const Tensor& advantages, const OptionalTensor& mask,
                               const OptionalTensor& lengths, const OptionalTensor& groups,
                               const OptionalTensor& old_logp, const OptionalTensor& topk_behavior_logp,
                               const OptionalTensor& topk_logp, const OptionalTensor& sampled_in_topk,
                               const OptionalTensor& divergence) {
  return for_python([&]() -> Decision {
    const TrustRegion region = make_region(region_name, Json::parse(params));
    const TokenPolicy policy{.logp = logp,
                             .behavior_logp = behavior_logp,
                             .advantages = advantages,
                             .mask = or_none(mask),
                             .lengths = integers("lengths", lengths),
                             .groups = integers("groups", groups),
                             .old_logp = or_none(old_logp),
                             .topk_behavior_logp = or_none(topk_behavior_logp),
                             .topk_logp = or_none(topk_logp),
                             .sampled_in_topk = or_none(sampled_in_topk),
                             .divergence = or_none(divergence)};
    check_token_policy(policy, requirements(region));
    const TokenDecision decision = token_coefficients(region, policy);
    // Copies, because an operator's results may not share memory with its arguments and a region may hand one through.
    const auto copy = [](const Tensor& t) { return t.clone(at::MemoryFormat::Contiguous); };
    return {copy(decision.coefficient), copy(decision.keep),      copy(decision.outside),
            copy(decision.divergence),  copy(decision.threshold), decision.clamped};
  });
}

Tensor divergence_op(const std::string& kind, const Tensor& logp, const Tensor& behavior_logp,
                     const OptionalTensor& topk_behavior_logp, const OptionalTensor& topk_logp,
                     const OptionalTensor& sampled_in_topk, const std::string& support) {
  return for_python([&]() -> Tensor {
    if (kind == "full_tv" || kind == "full_kl") {
      if (logp.dim() != 2 || logp.sizes() != behavior_logp.sizes())
        fail(ExitCode::kBadConfiguration, kind, " wants logp and behavior_logp as whole rows, [N, V] both");
      check_float_vector("logp", logp.flatten());
      check_float_vector("behavior_logp", behavior_logp.flatten(), logp.flatten());
      check_distributions("logp", logp);
      check_distributions("behavior_logp", behavior_logp);
      return kind == "full_tv" ? full_tv(logp, behavior_logp) : full_kl(logp, behavior_logp);
    }
    TokenPolicy policy{.logp = logp, .behavior_logp = behavior_logp, .advantages = at::zeros_like(logp)};
    const bool topk = kind == "topk_tv" || kind == "topk_kl";
    if (topk) {
      policy.topk_behavior_logp = or_none(topk_behavior_logp);
      policy.topk_logp = or_none(topk_logp);
      policy.sampled_in_topk = or_none(sampled_in_topk);
    }
    check_token_policy(policy, {.top_k = topk ? 1 : 0});
    if (!topk) {
      using Function = Tensor (*)(const Tensor&, const Tensor&);
      constexpr std::array<std::pair<const char*, Function>, 5> kBySample{
          {{"binary_tv", binary_tv}, {"binary_kl", binary_kl}, {"k1", k1}, {"k2", k2}, {"k3", k3}}};
      for (const auto& [name, function] : kBySample)
        if (kind == name) return function(logp, behavior_logp);
      fail(ExitCode::kBadConfiguration, "divergence \"", kind,
           "\"; known: binary_tv, binary_kl, topk_tv, topk_kl, full_tv, full_kl, k1, k2, k3");
    }
    if (support != "union" && support != "replace_last")
      fail(ExitCode::kBadConfiguration, "support is \"", support, "\"; known: union, replace_last");
    const TopKSupport which = support == "union" ? TopKSupport::kUnion : TopKSupport::kReplaceLast;
    const TopKLogProbs p{policy.topk_behavior_logp, policy.topk_logp, behavior_logp, logp, policy.sampled_in_topk};
    return kind == "topk_tv" ? topk_tv(p, which) : topk_kl(p, which);
  });
}

/// Advantages, and returns where the kind has them (else empty).
std::tuple<Tensor, Tensor> advantages_op(const std::string& kind, const Tensor& rewards, const OptionalTensor& groups,
                                         const OptionalTensor& lengths, const OptionalTensor& mask,
                                         const OptionalTensor& values, const OptionalTensor& token_rewards,
                                         std::optional<double> gamma, std::optional<double> lambda,
                                         std::optional<double> eps) {
  return for_python([&]() -> std::tuple<Tensor, Tensor> {
    const std::vector<double> reward = doubles("rewards", rewards);
    check_finite("rewards", rewards, {});
    const int64_t sequences = rewards.numel();
    const std::vector<int64_t> group = groups ? integers("groups", groups) : std::vector<int64_t>(sequences, 0);
    if (static_cast<int64_t>(group.size()) != sequences)
      fail(ExitCode::kBadConfiguration, "groups has ", group.size(), " entries; wanted one for each of the ", sequences,
           " rewards");
    const Tensor none = at::empty({0}, rewards.options());
    if (kind == "group_mean") return {tensor_like(group_mean_advantages(reward, group), rewards), none};
    if (kind == "grpo") return {tensor_like(grpo_advantages(reward, group, eps.value_or(1e-6)), rewards), none};
    if (kind == "rloo") return {tensor_like(rloo_advantages(reward, group), rewards), none};
    if (kind != "reinforce_pp" && kind != "reinforce_pp_baseline" && kind != "gae")
      fail(ExitCode::kBadConfiguration, "advantage \"", kind,
           "\"; known: group_mean, grpo, rloo, reinforce_pp, reinforce_pp_baseline, gae");

    if (!lengths) fail(ExitCode::kBadConfiguration, "lengths is not given, but ", kind, " is an advantage per token");
    const std::vector<int64_t> length = integers("lengths", lengths);
    if (static_cast<int64_t>(length.size()) != sequences)
      fail(ExitCode::kBadConfiguration, "lengths has ", length.size(), " entries; wanted one for each of the ",
           sequences, " rewards");
    int64_t tokens = mask ? mask->numel() : 0;
    for (size_t s = 0; !mask && s < length.size(); tokens += length[s++])
      if (length[s] < 0 || length[s] > kMaxTokens)
        fail(ExitCode::kBadConfiguration, "lengths[", s, "] is ", length[s], "; wanted 0 to ", kMaxTokens);
    check_lengths(length, tokens);
    const std::vector<uint8_t> valid = flags(mask, tokens);
    const auto per_token = [&](const char* name, const OptionalTensor& tensor) {
      if (tensor && tensor->numel() != tokens)
        fail(ExitCode::kBadConfiguration, name, " has ", tensor->numel(), " entries; wanted one for each of the ",
             tokens, " tokens");
      if (tensor) check_finite(name, *tensor, mask ? mask->to(at::kBool) : Tensor());
      return doubles(name, tensor);
    };
    const std::vector<double> value = per_token("values", values),
                              token_reward = per_token("token_rewards", token_rewards);
    const TokenRewards batch{reward, group, length, valid, token_reward, value};
    if (kind == "reinforce_pp")
      return {tensor_like(reinforce_pp_advantages(batch, gamma.value_or(1), eps.value_or(1e-8)), rewards), none};
    if (kind == "reinforce_pp_baseline")
      return {tensor_like(reinforce_pp_baseline_advantages(batch, eps.value_or(1e-8)), rewards), none};
    if (!values) fail(ExitCode::kBadConfiguration, "values is not given, but gae is made from a critic's estimates");
    const AdvantagesAndReturns gae = gae_advantages(batch, gamma.value_or(1), lambda.value_or(1));
    return {tensor_like(gae.advantages, rewards), tensor_like(gae.returns, rewards)};
  });
}

/// The weight of every token [N] in the loss.
Tensor aggregation_weights_op(const std::string& kind, const Tensor& values, const OptionalTensor& mask,
                              const OptionalTensor& lengths, std::optional<double> horizon) {
  return for_python([&]() -> Tensor {
    check_float_vector("values", values);
    const std::vector<int64_t> length = lengths_or_one(lengths, values.numel());
    if (kind == "seq_mean_token_sum_norm" && !(horizon.value_or(0) > 0))
      fail(ExitCode::kBadConfiguration, "horizon is ", horizon ? std::to_string(*horizon) : "not given", "; ", kind,
           " divides by it: wanted a number above 0, usually the longest completion");
    const std::vector<double> zeros(values.numel(), 0.0);
    return tensor_like(aggregate(kind, zeros, flags(mask, values.numel()), length, horizon.value_or(1)).weights,
                       values);
  });
}

/// gain, max_penalty, average_penalty, certificate: [4] float64.
Tensor certificate_op(const Tensor& logp, const Tensor& behavior_logp, const Tensor& tv, const Tensor& rewards,
                      const OptionalTensor& lengths, double xi, int64_t horizon, const std::string& divergence) {
  return for_python([&]() -> Tensor {
    check_token_policy({.logp = logp, .behavior_logp = behavior_logp, .advantages = tv}, {});
    const std::vector<int64_t> length = lengths_or_one(lengths, logp.numel());
    if (rewards.numel() != static_cast<int64_t>(length.size()))
      fail(ExitCode::kBadConfiguration, "rewards has ", rewards.numel(), " entries; wanted one for each of the ",
           length.size(), " sequences of lengths");
    check_finite("rewards", rewards, {});
    const std::vector<double> pi = doubles("logp", logp), mu = doubles("behavior_logp", behavior_logp),
                              distance = doubles("tv", tv), reward = doubles("rewards", rewards);
    const ImprovementCertificate result =
        improvement_certificate({pi, mu, distance, reward, length, xi, horizon, divergence});
    return at::tensor({result.gain, result.max_penalty, result.average_penalty, result.certificate}, at::kDouble);
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
    for (const auto& [name, value] : parameters(method.region))
      params[name] = std::isfinite(value) ? Json(value) : Json();
    for (const auto& [name, value] : word_parameters(method.region)) params[name] = value;
    table.push_back({{"name", method.name},
                     {"sentence", method.sentence},
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
      "token_coefficients(str region, str params, Tensor logp, Tensor behavior_logp, Tensor advantages, Tensor? mask, "
      "Tensor? lengths, Tensor? groups, Tensor? old_logp, Tensor? topk_behavior_logp, Tensor? topk_logp, "
      "Tensor? sampled_in_topk, Tensor? divergence) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "divergence(str kind, Tensor logp, Tensor behavior_logp, Tensor? topk_behavior_logp, Tensor? topk_logp, "
      "Tensor? sampled_in_topk, str support) -> Tensor");
  library.def(
      "advantages(str kind, Tensor rewards, Tensor? groups, Tensor? lengths, Tensor? mask, Tensor? values, "
      "Tensor? token_rewards, float? gamma, float? lambda_, float? eps) -> (Tensor, Tensor)");
  library.def("aggregation_weights(str kind, Tensor values, Tensor? mask, Tensor? lengths, float? horizon) -> Tensor");
  library.def(
      "certificate(Tensor logp, Tensor behavior_logp, Tensor tv, Tensor rewards, Tensor? lengths, float xi, "
      "int horizon, str divergence) -> Tensor");
  library.def("methods() -> str", methods_op);
}

TORCH_LIBRARY_IMPL(keel, CompositeExplicitAutograd, library) {
  library.impl("token_coefficients", token_coefficients_op);
  library.impl("divergence", divergence_op);
  library.impl("advantages", advantages_op);
  library.impl("aggregation_weights", aggregation_weights_op);
  library.impl("certificate", certificate_op);
}

// No gradient flows through any of them, by design and not for want of a formula: autograd passes them by.
TORCH_LIBRARY_IMPL(keel, Autograd, library) {
  for (const char* name : {"token_coefficients", "divergence", "advantages", "aggregation_weights", "certificate"})
    library.impl(name, torch::CppFunction::makeFallthrough());
}

}  // namespace keel
