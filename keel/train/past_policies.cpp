#include "keel/train/past_policies.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "keel/core/error.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

constexpr const char *kPast = "past.", *kUpdates = "updates";
using PastTensors = std::map<int64_t, std::map<std::string, Tensor>>;  // by step, and by what follows it

template <class... Parts>
[[noreturn]] void refuse_past(const std::string& place, const Parts&... parts) {
  fail(ExitCode::kBadInput, place, ": ", parts...,
       "; the checkpoint is damaged or belongs to another run. Move it away ", "to resume from an older one");
}

PastTensors past_tensors(const std::vector<NamedTensor>& state, const std::string& place) {
  PastTensors saved;
  for (const NamedTensor& tensor : state) {
    if (!tensor.name.starts_with(kPast)) continue;
    const char *const digits = tensor.name.data() + std::string_view(kPast).size(), *const end = tensor.name.data() +
                                                                                                 tensor.name.size();
    int64_t step = 0;
    const auto [rest, error] = std::from_chars(digits, end, step);
    if (error != std::errc() || rest == end || *rest != '.')
      refuse_past(place, "tensor \"", tensor.name, "\" has no step");
    saved[step][std::string(rest + 1, end)] = tensor.value;
  }
  return saved;
}

/// Requires the policies of the last `staleness` steps. A first step that was interrupted has added its own already.
void require_past_steps(const PastTensors& saved, int64_t rl_steps, int64_t staleness, const std::string& place) {
  const int64_t first = std::max<int64_t>(rl_steps - staleness, 0);
  const int64_t end = staleness > 0 && rl_steps == 0 && !saved.empty() ? 1 : rl_steps;
  if (std::ssize(saved) == end - first &&
      (saved.empty() || (saved.begin()->first == first && saved.rbegin()->first == end - 1)))
    return;
  std::vector<std::string> steps;
  for (const auto& [step, tensors] : saved) steps.push_back(std::to_string(step));
  refuse_past(place, "after ", rl_steps, " RL steps, with rollout.staleness ", staleness,
              ", it must have the past policies of ", end - first, " steps from ", first, " on, and has those of ",
              steps.empty() ? "none" : joined(steps));
}

int64_t past_updates(const std::map<std::string, Tensor>& tensors, int64_t now, int64_t step,
                     const std::string& place) {
  const auto found = tensors.find(kUpdates);
  const bool is_count =
      found != tensors.end() && found->second.scalar_type() == at::kLong && found->second.numel() == 1;
  const int64_t updates = is_count ? found->second.item<int64_t>() : -1;
  if (updates < 0 || updates > now)
    refuse_past(place, "tensor \"", kPast, step, ".", kUpdates,
                "\" is missing or is not a number of updates from 0 to ", now);
  return updates;
}

void load_weights(const MasterWeights& weights, const std::map<std::string, Tensor>& tensors, int64_t step,
                  const std::string& place) {
  const at::NoGradGuard no_grad;
  for (const NamedTensor& weight : weights.tensors()) {
    const Tensor& master = weight.value;
    const auto found = tensors.find(weight.name);
    if (found == tensors.end() || found->second.sizes() != master.sizes() ||
        found->second.scalar_type() != master.scalar_type())
      refuse_past(place, "tensor \"", kPast, step, ".", weight.name, "\" is missing or has another shape or type");
    master.copy_(found->second);
  }
  weights.update_weights();
  if (tensors.size() != weights.weights().size() + 1)  // and the count of updates
    refuse_past(place, "\"", kPast, step, "\" has tensors of no weight of the model");
}

}  // namespace

PastPolicies::PastPolicies(const Config& config, BatchSampler& sampler, at::Device device) : config_(config) {
  if (config.rollout.staleness > 0) ahead_.emplace(sampler, device, config.run.threads);
}

/// Step n (from 0) trains on a batch sampled with the weights that step n - staleness began with, or step 0. It was
/// requested that many steps ago; now the batch of step n + staleness is requested, with the current weights.
RolloutBatch PastPolicies::next_batch(const TrainState& state, const SamplerWeights& current,
                                      const std::shared_ptr<StepMeters>& meters) {
  const auto add_current = [&] { past_.push_back({state.rl.steps, state.updates, snapshot(current)}); };
  const int64_t step = state.rl.steps, staleness = config_.rollout.staleness;
  const int64_t end = std::max(config_.train.steps, step + 1);  // of the run
  if (past_.empty()) add_current();
  if (ahead_->count() == 0) ahead_->seek(state.rl.prompts);  // the run begins, or is resumed
  request_batches(step, std::min(step + staleness, end), meters);
  RolloutBatch batch = ahead_->take();
  if (past_.back().step < step)
    add_current();  // first: if memory runs out here, a checkpoint still holds what it needs
  std::erase_if(past_, [&](const PastPolicy& past) { return past.step <= step - staleness; });
  request_batches(step + 1, std::min(step + staleness + 1, end), meters);
  return batch;
}

/// Requests the batches up to the step before `end`; the oldest one in flight is that of the step `first`.
void PastPolicies::request_batches(int64_t first, int64_t end, const std::shared_ptr<StepMeters>& meters) {
  for (int64_t next = first + static_cast<int64_t>(ahead_->count()); next < end; ++next) {
    const int64_t began_with = std::max<int64_t>(next - config_.rollout.staleness, 0);
    const PastPolicy& policy = past_.at(static_cast<size_t>(began_with - past_.front().step));
    ahead_->request(policy.weights, static_cast<uint64_t>(policy.updates), meters);
  }
}

SamplerWeights PastPolicies::snapshot(const SamplerWeights& current) const {
  return current.snapshot(/*with_masters=*/current.weights.has_adapter() || config_.rollout.weights != "exact");
}

std::vector<NamedTensor> PastPolicies::state() const {
  std::vector<NamedTensor> state;
  for (const PastPolicy& past : past_) {
    const std::string prefix = kPast + std::to_string(past.step) + ".";
    state.push_back({prefix + kUpdates, at::full({1}, past.updates, at::kLong)});
    for (const NamedTensor& weight : past.weights.masters.tensors())
      state.push_back({prefix + weight.name, weight.value});
  }
  return state;
}

void PastPolicies::load(const std::vector<NamedTensor>& state, const TrainState& at, const SamplerWeights& current,
                        const std::string& place) {
  const PastTensors saved = past_tensors(state, place);
  require_past_steps(saved, at.rl.steps, config_.rollout.staleness, place);
  for (const auto& [step, tensors] : saved) {
    past_.push_back({step, past_updates(tensors, at.updates, step, place), snapshot(current)});
    load_weights(past_.back().weights.masters, tensors, step, place);
  }
}

}  // namespace keel
