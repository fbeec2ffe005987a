#include "keel/train/update/packing.h"

#include <ATen/ATen.h>

#include <map>

namespace keel {
namespace {

/// Collects sequences on the host until the batch is full.
class Packer {
 public:
  /// How many packed tokens the sequence would add.
  int64_t cost(const TrainingSequence& sequence) const {
    const int64_t prompt = prompts_.contains(sequence.prompt_key) ? 0 : static_cast<int64_t>(sequence.prompt.size());
    return prompt + std::max<int64_t>(static_cast<int64_t>(sequence.completion.size()) - 1, 0);
  }

  void add(const TrainingSequence& sequence, int64_t index) {
    const Segment prompt = place_prompt(sequence);
    // The last token predicts nothing that is trained, so it is not packed.
    const int64_t inputs = std::max<int64_t>(static_cast<int64_t>(sequence.completion.size()) - 1, 0);
    const Segment own{static_cast<int64_t>(tokens_.size()), inputs, prompt.begin, prompt.length};
    for (int64_t t = 0; t < static_cast<int64_t>(sequence.completion.size()); ++t) {
      rows_.push_back(t == 0 ? prompt.begin + prompt.length - 1 : own.begin + t - 1);
      targets_.push_back(sequence.completion[t]);
    }
    for (int64_t t = 0; t < inputs; ++t) place_token(sequence.completion[t], prompt.length + t);
    segments_.push_back(own);
    sequences_.push_back(index);
    lengths_.push_back(static_cast<int64_t>(sequence.completion.size()));
  }

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }

  PackedBatch finish(at::Device device) const {
    const auto on_device = [&](const std::vector<int64_t>& x) { return at::tensor(x, at::kLong).to(device); };
    return {on_device(tokens_),
            on_device(positions_),
            segments_,
            on_device(rows_),
            on_device(targets_),
            sequences_,
            lengths_};
  }

 private:
  Segment place_prompt(const TrainingSequence& sequence) {
    const auto [found, fresh] = prompts_.try_emplace(sequence.prompt_key);
    if (!fresh) return found->second;
    const int64_t length = static_cast<int64_t>(sequence.prompt.size());
    found->second = {.begin = size(), .length = length};
    for (int64_t i = 0; i < length; ++i) place_token(sequence.prompt[i], i);
    segments_.push_back(found->second);
    return found->second;
  }

  void place_token(int32_t token, int64_t position) {
    tokens_.push_back(token);
    positions_.push_back(position);
  }

  std::vector<int64_t> tokens_, positions_, rows_, targets_, sequences_, lengths_;
  std::vector<Segment> segments_;
  std::map<int64_t, Segment> prompts_;
};

}  // namespace

std::vector<PackedBatch> pack(std::span<const TrainingSequence> sequences, int64_t max_tokens, at::Device device) {
  std::vector<PackedBatch> batches;
  Packer packer;
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (packer.size() > 0 && packer.size() + packer.cost(sequences[i]) > max_tokens) {
      batches.push_back(packer.finish(device));
      packer = Packer();
    }
    packer.add(sequences[i], static_cast<int64_t>(i));
  }
  if (packer.size() > 0) batches.push_back(packer.finish(device));
  return batches;
}

Tensor repeat_per_target(const PackedBatch& batch, std::span<const double> values) {
  std::vector<float> result;
  for (size_t s = 0; s < batch.sequences.size(); ++s)
    result.insert(result.end(), batch.lengths[s], static_cast<float>(values[batch.sequences[s]]));
  return at::tensor(result, at::kFloat).to(batch.targets.device());
}

Tensor gather_targets(const PackedBatch& batch, const std::vector<std::span<const float>>& values) {
  std::vector<float> result;
  for (const int64_t sequence : batch.sequences)
    result.insert(result.end(), values[sequence].begin(), values[sequence].end());
  return at::tensor(result, at::kFloat).to(batch.targets.device());
}

}  // namespace keel
