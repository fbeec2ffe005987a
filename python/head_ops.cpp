// The LM head as torch operators: log-probabilities and gradients from hidden states and the head's weight, with only
// one chunk of logits in memory. python/keel/_head.py is the public interface and registers autograd.

#include <ATen/ATen.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <tuple>
#include <vector>

#include "keel/objective/checks.h"
#include "keel/ops/lm_head.h"
#include "keel/train/update/policy_tokens.h"
#include "python/op_arguments.h"

namespace keel {
namespace {

void check_matrix(const char* name, const Tensor& matrix) {
  const at::ScalarType type = matrix.scalar_type();
  if (matrix.dim() != 2 || (type != at::kFloat && type != at::kBFloat16 && type != at::kHalf))
    fail(ExitCode::kBadConfiguration, name, " is ", c10::toString(type), " with ", matrix.dim(),
         " dimensions; expected a matrix of float32, bfloat16 or float16");
}

/// Checks token ids, one or K for each row, against the vocabulary.
void check_ids(const char* name, const Tensor& ids, const Tensor& hidden, const Tensor& weight, int64_t dimensions) {
  if (ids.scalar_type() != at::kLong || ids.dim() != dimensions || ids.size(0) != hidden.size(0))
    fail(ExitCode::kBadConfiguration, name, " is ", c10::toString(ids.scalar_type()), " of ", ids.sizes(),
         "; expected int64, ", dimensions == 1 ? "one id" : "K ids", " for each of the ", hidden.size(0), " rows");
  if (ids.numel() == 0) return;
  const int64_t lowest = ids.min().item<int64_t>(), highest = ids.max().item<int64_t>();
  if (lowest < 0 || highest >= weight.size(0))
    fail(ExitCode::kBadConfiguration, name, " has the token ", lowest < 0 ? lowest : highest, "; the head has ",
         weight.size(0), " rows, 0 to ", weight.size(0) - 1);
}

/// The checked inputs of a head operator; hidden states and weight have one dtype.
struct HeadInputs {
  Tensor hidden, weight, targets;
  HeadOptions options;
  std::shared_ptr<GradientSink> sink = {};  // for the gradient of the weight

  HeadInputs(const Tensor& hidden_states, const Tensor& head, const Tensor& target_ids, double temperature,
             double softcap, int64_t chunk_rows)
      : hidden(hidden_states.detach()), weight(head.detach()), targets(target_ids) {
    check_matrix("hidden", hidden);
    check_matrix("weight", weight);
    if (hidden.size(1) != weight.size(1))
      fail(ExitCode::kBadConfiguration, "hidden is ", hidden.sizes(), " and weight is ", weight.sizes(),
           "; expected [N, H] and [V, H] with one H");
    if (hidden.device() != weight.device() || hidden.device() != targets.device())
      fail(ExitCode::kBadConfiguration, "hidden is on ", hidden.device().str(), ", weight on ", weight.device().str(),
           ", targets on ", targets.device().str(), "; expected one device for all of them");
    check_ids("targets", targets, hidden, weight, 1);
    if (!(temperature > 0 && std::isfinite(temperature)))
      fail(ExitCode::kBadConfiguration, "temperature is ", temperature, "; expected a number above 0");
    if (!(softcap >= 0 && std::isfinite(softcap)))
      fail(ExitCode::kBadConfiguration, "softcap is ", softcap, "; expected a number from 0, which means none");
    if (chunk_rows < 0) fail(ExitCode::kBadConfiguration, "chunk_rows is ", chunk_rows, "; expected 0 or more");
    if (hidden.scalar_type() != weight.scalar_type()) {
      hidden = hidden.to(at::kFloat);
      weight = weight.to(at::kFloat);
    }
    options = {.temperature = temperature, .softcap = softcap, .chunk_rows = chunk_rows};
  }

  /// Makes the head. With `gradient`, the weight's gradient is accumulated there in float32 for any dtype of the
  /// weight.
  LmHead head(Tensor* gradient = nullptr) {
    const Weight head_weight(weight);
    if (gradient) {
      *gradient = at::zeros(weight.sizes(), weight.options().dtype(at::kFloat));
      sink = std::make_shared<GradientSink>(*gradient);
      head_weight.set_sink(sink);
    }
    return LmHead(head_weight, options);
  }

  Tensor empty() const { return at::empty({0}, hidden.options().dtype(at::kFloat)); }
};

std::tuple<Tensor, Tensor, Tensor, Tensor> head_log_probs_op(const Tensor& hidden, const Tensor& weight,
                                                             const Tensor& targets, const OptionalTensor& topk_ids,
                                                             double temperature, double softcap, int64_t chunk_rows) {
  return for_python([&]() -> std::tuple<Tensor, Tensor, Tensor, Tensor> {
    HeadInputs inputs(hidden, weight, targets, temperature, softcap, chunk_rows);
    if (topk_ids) check_ids("topk_ids", *topk_ids, hidden, weight, 2);
    const TokenStats stats = inputs.head().statistics(inputs.hidden, targets, {.topk_ids = or_none(topk_ids)});
    const Tensor topk = stats.topk_logp.defined()
                            ? stats.topk_logp
                            : stats.logp.new_empty({hidden.size(0), topk_ids ? topk_ids->size(1) : 0});
    // Clones, since all may be the same tensor for an empty batch, and operator results may not alias.
    return {stats.logp, stats.other_logp.clone(), stats.entropy.clone(), topk};
  });
}

std::tuple<Tensor, Tensor> head_gradients_op(const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                                             const Tensor& coefficient, const Tensor& entropy_coefficient,
                                             double temperature, double softcap, int64_t chunk_rows,
                                             bool weight_gradient) {
  return for_python([&]() -> std::tuple<Tensor, Tensor> {
    HeadInputs inputs(hidden, weight, targets, temperature, softcap, chunk_rows);
    const auto rows = [](const Tensor& tensor, int64_t begin, int64_t end) {
      return tensor.narrow(0, begin, end - begin);
    };
    Tensor grad_weight = inputs.empty();
    const Tensor grad_hidden =
        inputs.head(weight_gradient ? &grad_weight : nullptr)
            .backward(inputs.hidden, targets, Scope::kToken,
                      [&](const TokenStats&, int64_t begin, int64_t end) -> HeadCoefficients {
                        return {rows(coefficient, begin, end), rows(entropy_coefficient, begin, end)};
                      });
    return {grad_hidden, grad_weight};
  });
}

/// Accumulates the decisions and the loss over chunks of rows.
class PolicyLoss {
 public:
  PolicyLoss(TrustRegion region, TokenInputs known, Tensor token_weights, double entropy_coefficient)
      : region_(std::move(region)),
        known_(std::move(known)),
        token_weights_(std::move(token_weights)),
        entropy_coefficient_(entropy_coefficient) {}

  const TokenInputs& known() const { return known_; }
  Scope scope() const { return requirements(region_).scope; }

  HeadCoefficients operator()(const TokenStats& stats, int64_t begin, int64_t end) {
    const TokenDecision decision =
        token_coefficients(region_, add_statistics(known_, stats, requirements(region_), begin));
    const Tensor weights = token_weights_.narrow(0, begin, end - begin);
    const Tensor coefficient = decision.coefficient * weights;
    loss_ -= (coefficient * stats.logp).sum(at::kDouble).item<double>();
    if (entropy_coefficient_ != 0)
      loss_ -= entropy_coefficient_ * (weights * stats.entropy).sum(at::kDouble).item<double>();
    const auto append = [&](size_t i, const Tensor& part) { parts_[i].push_back(part); };
    append(0, stats.logp), append(1, stats.entropy), append(2, decision.coefficient), append(3, decision.keep);
    append(4, decision.outside), append(5, decision.divergence), append(6, decision.threshold);
    clamped_ = clamped_.defined() ? clamped_ + decision.clamped : decision.clamped;
    return {coefficient, entropy_coefficient_ != 0 ? weights * entropy_coefficient_ : Tensor()};
  }

  double loss() const { return loss_; }
  Tensor rows(size_t i) const { return at::cat(parts_[i]); }
  Tensor clamped() const { return clamped_.clone(); }

 private:
  TrustRegion region_;
  TokenInputs known_;
  Tensor token_weights_;
  double entropy_coefficient_;
  double loss_ = 0;
  std::array<std::vector<Tensor>, 7> parts_;  // per chunk; the seven results in the order of operator()
  Tensor clamped_;
};

/// Checks the inputs per token with pi = mu, since the log-probs of the head need no check.
void check_known(const TrustRegion& region, const std::string& method, const TokenInputs& known) {
  LossInputs policy = known.loss_inputs;
  check_log_probs("behavior_logp", policy.behavior_logp, {});
  policy.logp = policy.behavior_logp;
  policy.topk_logp = policy.topk_behavior_logp;
  const Requirements needs = requirements(region);
  if (needs.hidden_states) policy.divergence = at::zeros_like(policy.logp);
  check_loss_inputs(policy, needs);
  check_region_inputs(region, policy, method);
}

/// Adds the sampler's likeliest tokens for top-K methods.
void add_topk(TokenInputs& known, const std::string& method, const HeadInputs& inputs, const OptionalTensor& ids,
              const OptionalTensor& behavior_logp) {
  if (!ids)
    fail(ExitCode::kBadConfiguration, method,
         " needs topk_ids [N, K], the sampler's likeliest tokens, and their log-probabilities topk_behavior_logp");
  check_ids("topk_ids", *ids, inputs.hidden, inputs.weight, 2);
  if (behavior_logp && behavior_logp->sizes() != ids->sizes())
    fail(ExitCode::kBadConfiguration, "topk_behavior_logp is ", behavior_logp->sizes(), ", but topk_ids is ",
         ids->sizes(), "; expected one log-probability for each token");
  const Tensor sorted = std::get<0>(ids->sort(1));
  const Tensor has_duplicate = (sorted.diff(1, 1) == 0).any(1);
  if (has_duplicate.any().item<bool>())
    fail(ExitCode::kBadConfiguration, "topk_ids[", has_duplicate.nonzero()[0].item<int64_t>(),
         "] has a duplicate token; expected distinct tokens");
  known.behavior.topk_ids = *ids;
  known.loss_inputs.topk_behavior_logp = or_none(behavior_logp);
  known.loss_inputs.sampled_in_topk = (*ids == inputs.targets.unsqueeze(1)).any(1);
}

/// Adds the sampler's hidden states and head for methods with exact divergences.
void add_sampler(TokenInputs& known, const std::string& method, const HeadInputs& inputs, const OptionalTensor& hidden,
                 const OptionalTensor& weight) {
  if (!hidden || !weight)
    fail(ExitCode::kBadConfiguration, method,
         " needs behavior_hidden [N, H] and behavior_weight [V, H], the sampler's hidden states and head");
  const HeadOptions& options = inputs.options;
  const HeadInputs sampler(*hidden, *weight, inputs.targets, options.temperature, options.softcap, 0);
  if (sampler.weight.size(0) != inputs.weight.size(0))
    fail(ExitCode::kBadConfiguration, "behavior_weight is ", sampler.weight.sizes(), ", but weight is ",
         inputs.weight.sizes(), "; expected the same vocabulary");
  known.behavior.hidden = sampler.hidden.to(inputs.weight.scalar_type());
  known.behavior.weight = sampler.weight.to(inputs.weight.scalar_type());
}

/// The loss, d loss / d hidden, d loss / d weight, logp, entropy, and the results of token_coefficients.
using PolicyHead = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

PolicyHead policy_head(HeadInputs& inputs, PolicyLoss& loss, bool gradients, bool weight_gradient) {
  const int64_t rows = inputs.hidden.size(0);
  Tensor grad_hidden = inputs.empty(), grad_weight = inputs.empty();
  if (gradients) {
    const LmHead head = inputs.head(weight_gradient ? &grad_weight : nullptr);
    grad_hidden = head.backward(
        inputs.hidden, inputs.targets, loss.scope(),
        [&](const TokenStats& stats, int64_t begin, int64_t end) { return loss(stats, begin, end); },
        loss.known().behavior);
  }
  if (!gradients || rows == 0) {  // the loss was not called for any chunk
    TokenStats stats = inputs.head().statistics(inputs.hidden, inputs.targets, loss.known().behavior);
    if (rows == 0 && loss.known().behavior.topk_ids.defined())  // the head sets none for an empty batch
      stats.topk_logp = stats.logp.new_empty({0, loss.known().behavior.topk_ids.size(1)});
    loss(stats, 0, rows);
  }
  return {at::full({}, loss.loss(), grad_hidden.options()),
          grad_hidden,
          grad_weight,
          loss.rows(0),
          loss.rows(1),
          loss.rows(2),
          loss.rows(3),
          loss.rows(4),
          loss.rows(5),
          loss.rows(6),
          loss.clamped()};
}

PolicyHead policy_head_op(const Tensor& hidden, const Tensor& weight, const Tensor& targets, const std::string& method,
                          const Names& names, const Tensor& numbers, const Names& word_names, const Names& words,
                          const Tensor& behavior_logp, const Tensor& advantages, const Tensor& token_weights,
                          const OptionalTensor& lengths, const OptionalTensor& groups, const OptionalTensor& old_logp,
                          const OptionalTensor& behavior_other_logp, const OptionalTensor& old_other_logp,
                          const OptionalTensor& topk_ids, const OptionalTensor& topk_behavior_logp,
                          const OptionalTensor& behavior_hidden, const OptionalTensor& behavior_weight,
                          double entropy_coefficient, double temperature, double softcap, int64_t chunk_rows,
                          bool gradients, bool weight_gradient) {
  return for_python([&]() -> PolicyHead {
    HeadInputs inputs(hidden, weight, targets, temperature, softcap, chunk_rows);
    if (!std::isfinite(entropy_coefficient))
      fail(ExitCode::kBadConfiguration, "entropy_coefficient is ", entropy_coefficient, "; expected a finite number");
    const TrustRegion region = region_of(method, names, numbers, word_names, words);
    const Requirements needs = requirements(region);
    const Tensor like = at::empty({hidden.size(0)}, hidden.options().dtype(at::kFloat));
    for (const auto& [name, vector] :
         {std::pair{"behavior_logp", &behavior_logp}, {"advantages", &advantages}, {"weights", &token_weights}})
      check_float_vector(name, *vector, like);
    TokenInputs known{.loss_inputs = {.logp = {},
                                      .behavior_logp = behavior_logp,
                                      .advantages = advantages,
                                      .lengths = lengths_or_one(lengths, hidden.size(0)),
                                      .old_logp = or_none(old_logp),
                                      .behavior_other_logp = or_none(behavior_other_logp),
                                      .old_other_logp = or_none(old_other_logp)},
                      .behavior = {},
                      .reference_logp = {}};
    known.loss_inputs.groups = groups_or_one(groups, known.loss_inputs.lengths.size());
    if (needs.top_k > 0) add_topk(known, method, inputs, topk_ids, topk_behavior_logp);
    if (needs.hidden_states) add_sampler(known, method, inputs, behavior_hidden, behavior_weight);
    check_known(region, method, known);
    PolicyLoss loss(region, known, token_weights, entropy_coefficient);
    return policy_head(inputs, loss, gradients, weight_gradient);
  });
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(keel, library) {
  library.def(
      "head_log_probs(Tensor hidden, Tensor weight, Tensor targets, Tensor? topk_ids, float temperature, "
      "float softcap, int chunk_rows) -> (Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "head_gradients(Tensor hidden, Tensor weight, Tensor targets, Tensor coefficient, Tensor entropy_coefficient, "
      "float temperature, float softcap, int chunk_rows, bool weight_gradient) -> (Tensor, Tensor)");
  library.def(
      "policy_head(Tensor hidden, Tensor weight, Tensor targets, str region, str[] names, Tensor numbers, "
      "str[] word_names, str[] words, Tensor behavior_logp, Tensor advantages, Tensor token_weights, Tensor? lengths, "
      "Tensor? groups, Tensor? old_logp, Tensor? behavior_other_logp, Tensor? old_other_logp, Tensor? topk_ids, "
      "Tensor? topk_behavior_logp, Tensor? behavior_hidden, Tensor? behavior_weight, float entropy_coefficient, "
      "float temperature, float softcap, int chunk_rows, bool gradients, bool weight_gradient) -> "
      "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(keel, CompositeExplicitAutograd, library) {
  library.impl("head_log_probs", head_log_probs_op);
  library.impl("head_gradients", head_gradients_op);
  library.impl("policy_head", policy_head_op);
}

TORCH_LIBRARY_IMPL(keel, Autograd, library) { library.impl("head_gradients", torch::CppFunction::makeFallthrough()); }

}  // namespace keel
