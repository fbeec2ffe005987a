#include "keel/rollout/decode_step.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <bit>

#include "keel/core/error.h"
#include "keel/ops/kept_rows.h"

namespace keel {

DecodeStep::DecodeStep(const SamplingModel& model, const SamplingRequest& request, KvCache cache,
                       int64_t max_batch_size, int64_t max_blocks_per_sequence, int64_t rollouts)
    : model_(model),
      request_(request),
      cache_(std::move(cache)),
      states_(rollouts),
      max_batch_size_(max_batch_size),
      max_blocks_per_sequence_(max_blocks_per_sequence),
      uses_graphs_(CudaGraph::is_supported(model.device())) {
  padding_block_ = cache_.allocate();
  const int64_t rows = padded_batch_size(max_batch_size);
  const at::TensorOptions integers = at::TensorOptions(at::kLong).device(model.device());
  const auto zeros = [&] { return at::zeros({rows}, integers); };
  batch_ = {zeros(), zeros(), zeros(), zeros(), at::zeros({rows, 4}, integers.dtype(at::kInt))};
  rollout_ids_ = zeros();
  tables_ = at::zeros({rows * max_blocks_per_sequence}, integers.dtype(at::kInt));
  const std::vector<int32_t>& stops = request.stop_ids;
  stop_ids_ = at::tensor(std::vector<int64_t>(stops.begin(), stops.end()), at::kLong).to(model.device());
}

/// Pads batches on a GPU to one of few sizes, so that few CUDA graphs are captured.
int64_t DecodeStep::padded_batch_size(int64_t sequences) const {
  if (!uses_graphs_) return sequences;
  const auto power_of_two = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(sequences)));
  // Small sizes are 1, 4, 16 and 64: a step of few rows takes hardly longer than one of a single row.
  if (power_of_two <= 64)
    return std::countr_zero(static_cast<uint64_t>(power_of_two)) % 2 == 0 ? power_of_two : 2 * power_of_two;
  return sequences <= power_of_two / 4 * 3 ? power_of_two / 4 * 3 : std::min(power_of_two, kMaxSequences);
}

SampledTokens DecodeStep::sample_tokens(const Tensor& states, const Tensor& rollout_ids,
                                        const Tensor& completion_positions) const {
  const Tensor logits =
      with_logit_noise(model_.logits(states), request_.logit_noise, request_.seed, rollout_ids, completion_positions);
  const Tensor filtered = filter_logits(logits, request_.temperature, request_.filter);
  SampledTokens sampled =
      sample(filtered, request_.temperature, request_.seed, rollout_ids, completion_positions, request_.top_k);
  if (request_.max_kept_bytes > 0) sampled.kept = kept_token_bitmaps(filtered);
  return sampled;
}

SampledTokens DecodeStep::sample_first(const Tensor& states, const std::vector<int64_t>& rollouts,
                                       const Tensor& rollout_ids) {
  if (request_.hidden_states) states_.add(states, rollouts);
  return to_host(sample_tokens(states, rollout_ids, at::zeros_like(rollout_ids)));
}

/// A new batch pays if the padded size shrinks, or if enough sequences can start to make up for draining the pipeline.
bool DecodeStep::should_refill(int64_t active, int64_t waiting) const {
  if (active == 0 || padded_batch_size(active) < padded_batch_size(static_cast<int64_t>(rollouts_.size()))) return true;
  const int64_t min_free_rows = uses_graphs_ ? std::max<int64_t>(max_batch_size_ / 16, 1) : 1;
  return waiting > 0 && max_batch_size_ - active >= std::min(min_free_rows, waiting);
}

void DecodeStep::set_batch(const std::vector<BatchEntry>& sequences) {
  if (!in_flight_.empty()) fail(ExitCode::kInternal, "the decode batch was replaced while a step was in flight");
  const auto count = static_cast<int64_t>(sequences.size()), padded = padded_batch_size(count);
  std::vector<int64_t> tokens(padded), positions(padded), num_generated(padded), max_new_tokens(padded), ids(padded);
  std::vector<int32_t> tables(padded * max_blocks_per_sequence_, padding_block_);
  std::vector<PagedRow> rows;
  rollouts_.clear();
  for (int64_t i = 0; i < padded; ++i) {
    const auto table = static_cast<int32_t>(i * max_blocks_per_sequence_);
    if (i >= count) {  // A padding row attends to one key of the padding block.
      rows.push_back({.prompt_table = table, .prompt_keys = 0, .own_table = table, .own_keys = 1});
      continue;
    }
    const BatchEntry& sequence = sequences[i];
    const std::vector<int32_t>& generated = sequence.rollout.tokens.ids;
    const size_t prompt_keys = sequence.rollout.tokens.prompt->size();
    tokens[i] = generated.back(), num_generated[i] = std::ssize(generated);
    max_new_tokens[i] = sequence.max_new_tokens;
    positions[i] = static_cast<int64_t>(prompt_keys + generated.size() - 1);
    ids[i] = static_cast<int64_t>(sequence.rollout.id);
    rollouts_.push_back(sequence.rollout_index);
    const auto own = std::copy(sequence.prompt_blocks.begin(), sequence.prompt_blocks.end(), tables.begin() + table);
    std::copy(sequence.completion_blocks.begin(), sequence.completion_blocks.end(), own);
    rows.push_back({.prompt_table = table,
                    .prompt_keys = static_cast<int32_t>(prompt_keys),
                    .own_table = static_cast<int32_t>(own - tables.begin()),
                    .own_keys = static_cast<int32_t>(generated.size())});
  }
  const auto copy = [](const Tensor& to, const Tensor& from) { to.narrow(0, 0, from.size(0)).copy_(from); };
  copy(batch_.tokens, at::tensor(tokens, at::kLong));
  copy(batch_.positions, at::tensor(positions, at::kLong));
  copy(batch_.num_generated, at::tensor(num_generated, at::kLong));
  copy(batch_.max_new_tokens, at::tensor(max_new_tokens, at::kLong));
  copy(batch_.rows, to_tensor(rows));
  copy(rollout_ids_, at::tensor(ids, at::kLong));
  copy(tables_, at::tensor(tables, at::kInt));
}

DecodeStep::Outputs DecodeStep::compute(int64_t batch_size) const {
  const ActiveSequences batch = batch_.first(batch_size);
  const PagedAttention paged(batch.rows, tables_, model_.execution().bitwise);
  Outputs result;
  const auto attend = [&](int64_t layer, const AttentionConfig& attention, const Heads& heads) {
    return paged.attend(cache_.layer(layer), attention, heads);
  };
  result.states = model_.forward({batch.tokens, batch.positions, attend});
  result.sampled = sample_tokens(result.states, rollout_ids_.narrow(0, 0, batch_size), batch.num_generated);
  advance(batch, result.sampled.tokens, stop_ids_);
  return result;
}

/// Prefill runs before the first capture, so that kernels are loaded.
DecodeStep::CapturedStep& DecodeStep::graph_for(int64_t batch_size) {
  const auto found = graphs_.find(batch_size);
  if (found != graphs_.end()) return found->second;
  Outputs outputs;
  CudaGraph graph([&] { outputs = compute(batch_size); }, graphs_.empty() ? nullptr : &graphs_.begin()->second.graph);
  return graphs_.emplace(batch_size, CapturedStep{std::move(graph), std::move(outputs)}).first->second;
}

void DecodeStep::capture_next_graph() {
  if (!uses_graphs_) return;
  int64_t size = padded_batch_size(max_batch_size_);
  while (size > 0 && (padded_batch_size(size) != size || graphs_.contains(size))) --size;
  if (size > 0) graph_for(size);
}

/// The host is one step behind the GPU. Hidden states are copied before the next replay overwrites them.
std::vector<SampledTokens> DecodeStep::step() {
  const auto count = static_cast<int64_t>(rollouts_.size()), batch_size = padded_batch_size(count);
  Outputs newest;
  InFlight step;
  if (uses_graphs_) {
    CapturedStep& captured = graph_for(batch_size);
    captured.graph.replay();
    newest = captured.outputs;
    step.sampled = to_host(newest.sampled, /*wait=*/false);
    step.done.emplace(at::kCUDA);
    step.done->record(c10::impl::VirtualGuardImpl(at::kCUDA).getStream(model_.device()));
  } else {
    newest = compute(batch_size);
    step.sampled = newest.sampled;
  }
  in_flight_.push_back(std::move(step));
  if (request_.hidden_states) states_.add(newest.states.narrow(0, 0, count), rollouts_);
  return fetch(uses_graphs_ ? 1 : 0);
}

/// Waits for the oldest steps until only `in_flight` are left.
std::vector<SampledTokens> DecodeStep::fetch(size_t in_flight) {
  std::vector<SampledTokens> sampled;
  for (; in_flight_.size() > in_flight; in_flight_.pop_front()) {
    if (in_flight_.front().done) in_flight_.front().done->synchronize();
    sampled.push_back(std::move(in_flight_.front().sampled));
  }
  return sampled;
}

Tensor DecodeStep::take_states(int64_t rollout, int64_t count) {
  std::replace(rollouts_.begin(), rollouts_.end(), rollout, int64_t{-1});
  return states_.take(rollout, count);
}

}  // namespace keel
