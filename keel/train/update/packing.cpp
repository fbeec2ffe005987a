#include "keel/train/update/packing.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

namespace keel {
namespace {

/// Excludes the last token, which predicts no target.
int64_t packed_length(std::span<const int32_t> completion) {
  return std::max<int64_t>(static_cast<int64_t>(completion.size()) - 1, 0);
}

/// Collects sequences on the host until the batch is full.
class Packer {
 public:
  /// Number of packed tokens that the sequence would add.
  int64_t cost(const TrainingSequence& sequence) const {
    const int64_t prompt = group_of_.contains(sequence.prompt_id) ? 0 : static_cast<int64_t>(sequence.prompt.size());
    return prompt + packed_length(sequence.completion);
  }

  void add(const TrainingSequence& sequence, int64_t index) {
    size_ += cost(sequence);
    const auto [found, inserted] = group_of_.try_emplace(sequence.prompt_id, groups_.size());
    if (inserted) groups_.push_back({.prompt = sequence.prompt, .id = sequence.prompt_id});
    groups_[found->second].members.push_back(sequences_.size());
    sequences_.push_back(sequence);
    indices_.push_back(index);
  }

  int64_t size() const { return size_; }

  /// Layout: the prompts with several completions, then those completions, so that each kind is contiguous; then each
  /// prompt with a single completion, followed by it.
  PackedBatch finish(at::Device device) {
    std::stable_partition(groups_.begin(), groups_.end(), [](const Group& group) { return group.members.size() > 1; });
    for (Group& group : groups_)
      if (group.members.size() > 1) append_prompt(group);
    for (Group& group : groups_) {
      if (group.members.size() == 1) append_prompt(group);
      for (const size_t member : group.members) append_completion(group, member);
    }
    PackedBatch batch;
    batch.segments = std::move(segments_);
    batch.segment_ids = std::move(segment_ids_);
    batch.sequences = std::move(indices_);
    std::vector<int64_t> logits_indices, targets;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const size_t before = targets.size();
      const TrainingSequence& sequence = sequences_[i];
      for (size_t t = 0; t < sequence.completion.size(); ++t) {
        if (!sequence.loss_mask.empty() && sequence.loss_mask[t] == 0) continue;
        logits_indices.push_back(t == 0 ? completions_[i].prefix_begin + completions_[i].prefix_length - 1
                                        : completions_[i].begin + static_cast<int64_t>(t) - 1);
        targets.push_back(sequence.completion[t]);
      }
      batch.lengths.push_back(static_cast<int64_t>(targets.size() - before));
    }
    const auto on_device = [&](const std::vector<int64_t>& x) { return at::tensor(x, at::kLong).to(device); };
    batch.tokens = on_device(tokens_);
    batch.positions = on_device(positions_);
    batch.logits_indices = on_device(logits_indices);
    batch.targets = on_device(targets);
    return batch;
  }

 private:
  /// The sequences of one prompt.
  struct Group {
    std::span<const int32_t> prompt;
    int64_t id = 0;
    std::vector<size_t> members = {};
    Segment segment = {};
  };

  void append_prompt(Group& group) {
    group.segment = {.begin = num_tokens(), .length = static_cast<int64_t>(group.prompt.size())};
    for (int64_t i = 0; i < group.segment.length; ++i) append_token(group.prompt[i], i);
    segments_.push_back(group.segment);
    segment_ids_.push_back(2 * group.id);
  }

  void append_completion(const Group& group, size_t member) {
    const std::span<const int32_t> completion = sequences_[member].completion;
    completions_[member] = {num_tokens(), packed_length(completion), group.segment.begin, group.segment.length};
    for (int64_t t = 0; t < completions_[member].length; ++t) append_token(completion[t], group.segment.length + t);
    segments_.push_back(completions_[member]);
    segment_ids_.push_back(2 * sequences_[member].id + 1);
  }

  void append_token(int32_t token, int64_t position) {
    tokens_.push_back(token);
    positions_.push_back(position);
  }
  int64_t num_tokens() const { return static_cast<int64_t>(tokens_.size()); }

  int64_t size_ = 0;
  std::vector<TrainingSequence> sequences_;
  std::vector<int64_t> indices_;  // of sequences_ in the input
  std::vector<Group> groups_;
  std::map<int64_t, size_t> group_of_;  // by prompt_id
  // Used by finish().
  std::vector<int64_t> tokens_, positions_;
  std::vector<Segment> segments_;
  std::vector<int64_t> segment_ids_;
  std::map<size_t, Segment> completions_;  // segment of each sequence's completion
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
