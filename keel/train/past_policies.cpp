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
using PastTensors = std::map<int64_t, std::map<std::string, Tensor>>;  // by step, then by name

template <class... Parts>
[[noreturn]] void fail_past(const std::string& path, const Parts&... parts) {
  fail(ExitCode::kBadInput, path, ": ", parts...,
       ". The checkpoint is damaged or belongs to another run. Move it away to resume from an older one, if there is "
       "one");
}

PastTensors parse_past_tensors(const std::vector<NamedTensor>& state, const std::string& path) {
  PastTensors saved;
  for (const NamedTensor& tensor : state) {
    if (!tensor.name.starts_with(kPast)) continue;
    const char* const digits = tensor.name.data() + std::string_view(kPast).size();
    const char* const end = tensor.name.data() + tensor.name.size();
    int64_t step = 0;
    const auto [rest, error] = std::from_chars(digits, end, step);
    if (error != std::errc() || rest == end || *rest != '.')
      fail_past(path, "tensor \"", tensor.name, "\" has no step");
    saved[step][std::string(rest + 1, end)] = tensor.value;
  }
  return saved;
}

/// Requires the policies of the last `staleness` steps. If step 0 was interrupted, its policy may be saved, too.
void require_past_steps(const PastTensors& saved, int64_t rl_steps, int64_t staleness, const std::string& path) {
  const int64_t first = std::max<int64_t>(rl_steps - staleness, 0);
  const int64_t end = staleness > 0 && rl_steps == 0 && !saved.empty() ? 1 : rl_steps;
  if (std::ssize(saved) == end - first &&
      (saved.empty() || (saved.begin()->first == first && saved.rbegin()->first == end - 1)))
    return;
  std::vector<std::string> steps;
  for (const auto& [step, tensors] : saved) steps.push_back(std::to_string(step));
  fail_past(path, "after ", rl_steps, " RL steps, with rollout.staleness ", staleness,
            ", past policies are saved for the steps ", steps.empty() ? "(none)" : joined(steps), "; expected ",
            end - first, " steps, starting at step ", first);
}

int64_t read_update_count(const std::map<std::string, Tensor>& tensors, int64_t max, int64_t step,
                          const std::string& path) {
  const auto found = tensors.find(kUpdates);
  const bool is_count =
      found != tensors.end() && found->second.scalar_type() == at::kLong && found->second.numel() == 1;
  const int64_t updates = is_count ? found->second.item<int64_t>() : -1;
  if (updates < 0 || updates > max)
    fail_past(path, "tensor \"", kPast, step, ".", kUpdates, "\" is missing or is not an update count from 0 to ", max);
  return updates;
}

void copy_into_weights(const MasterWeights& weights, const std::map<std::string, Tensor>& tensors, int64_t step,
                       const std::string& path) {
  const at::NoGradGuard no_grad;
  for (const NamedTensor& weight : weights.tensors()) {
    const Tensor& master = weight.value;
    const auto found = tensors.find(weight.name);
    if (found == tensors.end() || found->second.sizes() != master.sizes() ||
        found->second.scalar_type() != master.scalar_type())
      fail_past(path, "tensor \"", kPast, step, ".", weight.name, "\" is missing or has another shape or type");
    master.copy_(found->second);
  }
  weights.update_weights();
  if (tensors.size() != weights.weights().size() + 1)  // + 1 for the update count
    fail_past(path, "\"", kPast, step, "\" has tensors that are not weights of the model");
}

}  // namespace

PastPolicies::PastPolicies(const Config& config, BatchSampler& sampler, at::Device device) : config_(config) {
  if (config.rollout.staleness > 0) sampler_.emplace(sampler, device, config.run.threads);
}

/// Step n (from 0) takes the batch that step max(n - staleness, 0) requested with its weights. Then it requests the
/// batch of step n + staleness with the current weights.
RolloutBatch PastPolicies::next_batch(const TrainState& state, const SamplerWeights& current,
                                      const std::shared_ptr<StepMeters>& meters) {
  const auto add_current = [&] { past_.push_back({state.rl.steps, state.updates, snapshot(current)}); };
  const int64_t step = state.rl.steps, staleness = config_.rollout.staleness;
  const int64_t end = std::max(config_.train.steps, step + 1);  // number of steps; a caller may exceed train.steps
  if (past_.empty()) add_current();
  if (sampler_->pending() == 0) sampler_->seek(state.rl.prompt_position);  // the run was just started or resumed
  request_batches(step, std::min(step + staleness, end), meters);
  RolloutBatch batch = sampler_->take();
  if (past_.back().step < step)
    add_current();  // before erase_if: if memory runs out here, a checkpoint still holds what it needs
  std::erase_if(past_, [&](const PastPolicy& past) { return past.step <= step - staleness; });
  request_batches(step + 1, std::min(step + staleness + 1, end), meters);
  return batch;
}

/// Requests the batches of the steps before `end`. The oldest batch in flight belongs to step `first`.
void PastPolicies::request_batches(int64_t first, int64_t end, const std::shared_ptr<StepMeters>& meters) {
  for (int64_t next = first + static_cast<int64_t>(sampler_->pending()); next < end; ++next) {
    const int64_t policy_step = std::max<int64_t>(next - config_.rollout.staleness, 0);
    const PastPolicy& policy = past_.at(static_cast<size_t>(policy_step - past_.front().step));
    sampler_->request(policy.weights, static_cast<uint64_t>(policy.updates), meters);
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

void PastPolicies::load(const std::vector<NamedTensor>& state, const TrainState& progress,
                        const SamplerWeights& current, const std::string& path) {
  const PastTensors saved = parse_past_tensors(state, path);
  require_past_steps(saved, progress.rl.steps, config_.rollout.staleness, path);
  for (const auto& [step, tensors] : saved) {
    past_.push_back({step, read_update_count(tensors, progress.updates, step, path), snapshot(current)});
    copy_into_weights(past_.back().weights.masters, tensors, step, path);
  }
}

}  // namespace keel
