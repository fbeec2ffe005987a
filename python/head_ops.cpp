// The LM head as torch operators: from hidden states and a head to log-probabilities, and to gradients, with the logits
// of one chunk of rows alive at a time. python/keel/_head.py is the interface that people call, and has autograd's
// side.

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

/// Token ids, one or K for each row, that the head has.
void check_ids(const char* name, const Tensor& ids, const Tensor& hidden, const Tensor& weight, int64_t dimensions) {
  if (ids.scalar_type() != at::kLong || ids.dim() != dimensions || ids.size(0) != hidden.size(0))
    fail(ExitCode::kBadConfiguration, name, " is ", c10::toString(ids.scalar_type()), " of ", ids.sizes(),
         "; expected int64, ", dimensions == 1 ? "one id" : "K ids", " for each of the ", hidden.size(0), " rows");
  if (ids.numel() == 0) return;
  const int64_t least = ids.min().item<int64_t>(), most = ids.max().item<int64_t>();
  if (least < 0 || most >= weight.size(0))
    fail(ExitCode::kBadConfiguration, name, " has the token ", least < 0 ? least : most, "; the head has ",
         weight.size(0), " rows, 0 to ", weight.size(0) - 1);
}

/// Hidden states and a head of one type, with what is asked of them.
struct HeadProblem {
  Tensor hidden, weight, targets;
  HeadOptions options;
  std::shared_ptr<GradientSink> sink = {};  // of the weight

  HeadProblem(const Tensor& hidden_states, const Tensor& head, const Tensor& target_ids, double temperature,
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

  /// The head. If a gradient is requested, the weight's is summed there in float32, whatever the type of the weight.
  LmHead head(Tensor* gradient = nullptr) {
    const Weight learned(weight);
    if (gradient) {
      *gradient = at::zeros(weight.sizes(), weight.options().dtype(at::kFloat));
      sink = std::make_shared<GradientSink>(*gradient);
      learned.set_sink(sink);
    }
    return LmHead(learned, options);
  }

  Tensor nothing() const { return at::empty({0}, hidden.options().dtype(at::kFloat)); }
};

std::tuple<Tensor, Tensor, Tensor, Tensor> head_log_probs_op(const Tensor& hidden, const Tensor& weight,
                                                             const Tensor& targets, const OptionalTensor& topk_ids,
                                                             double temperature, double softcap, int64_t chunk_rows) {
  return for_python([&]() -> std::tuple<Tensor, Tensor, Tensor, Tensor> {
    HeadProblem problem(hidden, weight, targets, temperature, softcap, chunk_rows);
    if (topk_ids) check_ids("topk_ids", *topk_ids, hidden, weight, 2);
    const TokenStats stats = problem.head().statistics(problem.hidden, targets, {.topk_ids = or_none(topk_ids)});
    const Tensor topk = stats.topk_logp.defined()
                            ? stats.topk_logp
                            : stats.logp.new_empty({hidden.size(0), topk_ids ? topk_ids->size(1) : 0});
    // Copies: of an empty batch all are one tensor, which an operator may not return twice.
    return {stats.logp, stats.other_logp.clone(), stats.entropy.clone(), topk};
  });
}

std::tuple<Tensor, Tensor> head_gradients_op(const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                                             const Tensor& coefficient, const Tensor& entropy_coefficient,
                                             double temperature, double softcap, int64_t chunk_rows,
                                             bool weight_gradient) {
  return for_python([&]() -> std::tuple<Tensor, Tensor> {
    HeadProblem problem(hidden, weight, targets, temperature, softcap, chunk_rows);
    const auto rows = [](const Tensor& x, int64_t begin, int64_t end) { return x.narrow(0, begin, end - begin); };
    Tensor of_weight = problem.nothing();
    const Tensor of_hidden =
        problem.head(weight_gradient ? &of_weight : nullptr)
            .backward(problem.hidden, targets, Scope::kToken,
                      [&](const TokenStats&, int64_t begin, int64_t end) -> HeadCoefficients {
                        return {rows(coefficient, begin, end), rows(entropy_coefficient, begin, end)};
                      });
    return {of_hidden, of_weight};
  });
}

/// Decisions on the rows of the chunks seen so far, and the loss of these rows.
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
    const auto keep = [&](size_t i, const Tensor& part) { parts_[i].push_back(part); };
    keep(0, stats.logp), keep(1, stats.entropy), keep(2, decision.coefficient), keep(3, decision.keep);
    keep(4, decision.outside), keep(5, decision.divergence), keep(6, decision.threshold);
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
  std::array<std::vector<Tensor>, 7> parts_;
  Tensor clamped_;
};

/// What is said about the tokens, checked as if pi were mu: what the head will say needs no check.
void check_known(const TrustRegion& region, const std::string& method, const TokenInputs& known) {
  LossInputs policy = known.policy;
  check_log_probs("behavior_logp", policy.behavior_logp, {});
  policy.logp = policy.behavior_logp;
  policy.topk_logp = policy.topk_behavior_logp;
  const Requirements needs = requirements(region);
  if (needs.hidden_states) policy.divergence = at::zeros_like(policy.logp);
  check_loss_inputs(policy, needs);
  check_region_inputs(region, policy, method);
}

/// The sampler's likeliest tokens, for the rows that are judged by them.
void add_topk(TokenInputs& known, const std::string& method, const HeadProblem& problem, const OptionalTensor& ids,
              const OptionalTensor& behavior_logp) {
  if (!ids)
    fail(ExitCode::kBadConfiguration, method,
         " needs topk_ids [N, K], the sampler's likeliest tokens, and their log-probabilities topk_behavior_logp");
  check_ids("topk_ids", *ids, problem.hidden, problem.weight, 2);
  if (behavior_logp && behavior_logp->sizes() != ids->sizes())
    fail(ExitCode::kBadConfiguration, "topk_behavior_logp is ", behavior_logp->sizes(), " beside topk_ids of ",
         ids->sizes(), "; expected one log-probability for each token");
  const Tensor sorted = std::get<0>(ids->sort(1));
  const Tensor twice = (sorted.diff(1, 1) == 0).any(1);
  if (twice.any().item<bool>())
    fail(ExitCode::kBadConfiguration, "topk_ids[", twice.nonzero()[0].item<int64_t>(),
         "] names a token twice; expected distinct tokens, whose probabilities add up");
  known.behavior.topk_ids = *ids;
  known.policy.topk_behavior_logp = or_none(behavior_logp);
  known.policy.sampled_in_topk = (*ids == problem.targets.unsqueeze(1)).any(1);
}

/// The sampler's whole distribution, for the rows that measure exact divergences.
void add_sampler(TokenInputs& known, const std::string& method, const HeadProblem& problem,
                 const OptionalTensor& hidden, const OptionalTensor& weight) {
  if (!hidden || !weight)
    fail(ExitCode::kBadConfiguration, method,
         " needs behavior_hidden [N, H] and behavior_weight [V, H], the sampler's hidden states and head");
  const HeadOptions& options = problem.options;
  const HeadProblem sampler(*hidden, *weight, problem.targets, options.temperature, options.softcap, 0);
  if (sampler.weight.size(0) != problem.weight.size(0))
    fail(ExitCode::kBadConfiguration, "behavior_weight is ", sampler.weight.sizes(), " beside a weight of ",
         problem.weight.sizes(), "; expected one vocabulary");
  known.behavior.hidden = sampler.hidden.to(problem.weight.scalar_type());
  known.behavior.weight = sampler.weight.to(problem.weight.scalar_type());
}

/// The loss, d loss / d hidden, d loss / d weight; logp, entropy; what token_coefficients returns.
using PolicyHead = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

PolicyHead policy_head(HeadProblem& problem, PolicyLoss& loss, bool gradients, bool weight_gradient) {
  const int64_t rows = problem.hidden.size(0);
  Tensor of_hidden = problem.nothing(), of_weight = problem.nothing();
  if (gradients) {
    const LmHead head = problem.head(weight_gradient ? &of_weight : nullptr);
    of_hidden = head.backward(
        problem.hidden, problem.targets, loss.scope(),
        [&](const TokenStats& stats, int64_t begin, int64_t end) { return loss(stats, begin, end); },
        loss.known().behavior);
  }
  if (!gradients || rows == 0) {  // no chunk has asked for anything
    TokenStats stats = problem.head().statistics(problem.hidden, problem.targets, loss.known().behavior);
    if (rows == 0 && loss.known().behavior.topk_ids.defined())  // of no rows no head has looked for them
      stats.topk_logp = stats.logp.new_empty({0, loss.known().behavior.topk_ids.size(1)});
    loss(stats, 0, rows);
  }
  return {at::full({}, loss.loss(), of_hidden.options()),
          of_hidden,
          of_weight,
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
    HeadProblem problem(hidden, weight, targets, temperature, softcap, chunk_rows);
    if (!std::isfinite(entropy_coefficient))
      fail(ExitCode::kBadConfiguration, "entropy_coefficient is ", entropy_coefficient, "; expected a finite number");
    const TrustRegion region = region_of(method, names, numbers, word_names, words);
    const Requirements needs = requirements(region);
    const Tensor like = at::empty({hidden.size(0)}, hidden.options().dtype(at::kFloat));
    for (const auto& [name, vector] :
         {std::pair{"behavior_logp", &behavior_logp}, {"advantages", &advantages}, {"weights", &token_weights}})
      check_float_vector(name, *vector, like);
    TokenInputs known{.policy = {.logp = {},
                                 .behavior_logp = behavior_logp,
                                 .advantages = advantages,
                                 .lengths = lengths_or_one(lengths, hidden.size(0)),
                                 .old_logp = or_none(old_logp),
                                 .behavior_other_logp = or_none(behavior_other_logp),
                                 .old_other_logp = or_none(old_other_logp)},
                      .behavior = {},
                      .reference_logp = {}};
    known.policy.groups = groups_or_one(groups, known.policy.lengths.size());
    if (needs.top_k > 0) add_topk(known, method, problem, topk_ids, topk_behavior_logp);
    if (needs.hidden_states) add_sampler(known, method, problem, behavior_hidden, behavior_weight);
    check_known(region, method, known);
    PolicyLoss loss(region, known, token_weights, entropy_coefficient);
    return policy_head(problem, loss, gradients, weight_gradient);
  });
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(keel, library) {
  library.def(
      "head_log_probs(Tensor hidden, Tensor weight, Tensor targets, Tensor? topk_ids, float temperature, float "
      "softcap, "
      "int chunk_rows) -> (Tensor, Tensor, Tensor, Tensor)");
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
