#include "keel/rollout/decode_step.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <bit>

#include "keel/core/error.h"

namespace keel {

DecodeStep::DecodeStep(const SamplingModel& model, const SamplingRequest& request, KvCache store, int64_t slots,
                       int64_t table_width, int64_t rollouts)
    : model_(model),
      request_(request),
      store_(std::move(store)),
      states_(rollouts),
      slots_(slots),
      table_width_(table_width),
      uses_graphs_(CudaGraph::is_supported(model.device())) {
  idle_block_ = store_.take();
  const int64_t rows = rows_for(slots);
  const at::TensorOptions integers = at::TensorOptions(at::kLong).device(model.device());
  const auto room = [&] { return at::zeros({rows}, integers); };
  running_ = {room(), room(), room(), room(), at::zeros({rows, 4}, integers.dtype(at::kInt))};
  rollout_ids_ = room();
  tables_ = at::zeros({rows * table_width}, integers.dtype(at::kInt));
  const std::vector<int32_t>& stops = request.stop_ids;
  stop_ids_ = at::tensor(std::vector<int64_t>(stops.begin(), stops.end()), at::kLong).to(model.device());
}

/// The rows that are computed for so many sequences: on a GPU one of few numbers, so that few graphs are captured.
int64_t DecodeStep::rows_for(int64_t sequences) const {
  if (!uses_graphs_) return sequences;
  const auto doubled = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(sequences)));
  // A step of few rows takes hardly longer than one of a single row: 1, 4, 16, 64.
  if (doubled <= 64) return std::countr_zero(static_cast<uint64_t>(doubled)) % 2 == 0 ? doubled : 2 * doubled;
  return sequences <= doubled / 4 * 3 ? doubled / 4 * 3 : doubled;
}

SampledTokens DecodeStep::draw(const Tensor& states, const Tensor& rollout_ids, const Tensor& places) const {
  const Tensor logits =
      with_logit_noise(model_.logits(states), request_.logit_noise, request_.seed, rollout_ids, places);
  return sample(truncate_logits(logits, request_.temperature, request_.truncation), request_.temperature, request_.seed,
                rollout_ids, places, request_.top_k);
}

SampledTokens DecodeStep::draw_first(const Tensor& states, const std::vector<int64_t>& rollouts,
                                     const Tensor& rollout_ids) {
  if (request_.hidden_states) states_.add(states, rollouts);
  return to_host(draw(states, rollout_ids, at::zeros_like(rollout_ids)));
}

/// Rows are arranged again where that makes a step shorter, or where enough sequences can start to make up for a pause.
bool DecodeStep::should_arrange(int64_t live, int64_t waiting) const {
  if (live == 0 || rows_for(live) < rows_for(static_cast<int64_t>(rollouts_.size()))) return true;
  const int64_t worth_a_pause = uses_graphs_ ? std::max<int64_t>(slots_ / 16, 1) : 1;
  return waiting > 0 && slots_ - live >= std::min(worth_a_pause, waiting);
}

void DecodeStep::arrange(const std::vector<RowStart>& sequences) {
  if (!in_flight_.empty()) fail(ExitCode::kInternal, "rows were arranged while a decode step was in flight");
  const auto count = static_cast<int64_t>(sequences.size()), all = rows_for(count);
  // Rows beyond the sequences attend to one key of the idle block.
  std::vector<int64_t> tokens(all), positions(all), places(all), limits(all), ids(all);
  std::vector<int32_t> tables(all * table_width_, idle_block_);
  std::vector<PagedRow> rows;
  rollouts_.clear();
  for (int64_t i = 0; i < all; ++i) {
    const auto table = static_cast<int32_t>(i * table_width_);
    if (i >= count) {
      rows.push_back({.prompt_table = table, .prompt_keys = 0, .own_table = table, .own_keys = 1});
      continue;
    }
    const RowStart& from = sequences[i];
    const std::vector<int32_t>& drawn = from.rollout.tokens.ids;
    const size_t prompt_keys = from.rollout.tokens.prompt->size();
    tokens[i] = drawn.back(), places[i] = std::ssize(drawn), limits[i] = from.limit;
    positions[i] = static_cast<int64_t>(prompt_keys + drawn.size() - 1);
    ids[i] = static_cast<int64_t>(from.rollout.id);
    rollouts_.push_back(from.index);
    const auto own = std::copy(from.prompt_blocks.begin(), from.prompt_blocks.end(), tables.begin() + table);
    std::copy(from.own_blocks.begin(), from.own_blocks.end(), own);
    rows.push_back({.prompt_table = table,
                    .prompt_keys = static_cast<int32_t>(prompt_keys),
                    .own_table = static_cast<int32_t>(own - tables.begin()),
                    .own_keys = static_cast<int32_t>(drawn.size())});
  }
  const auto put = [](const Tensor& to, const Tensor& from) { to.narrow(0, 0, from.size(0)).copy_(from); };
  put(running_.tokens, at::tensor(tokens, at::kLong));
  put(running_.positions, at::tensor(positions, at::kLong));
  put(running_.places, at::tensor(places, at::kLong));
  put(running_.limits, at::tensor(limits, at::kLong));
  put(running_.rows, tensor_of(rows));
  put(rollout_ids_, at::tensor(ids, at::kLong));
  put(tables_, at::tensor(tables, at::kInt));
}

DecodeStep::Outputs DecodeStep::compute(int64_t rows) const {
  const ActiveSequences running = running_.first(rows);
  const PagedAttention block_rows(running.rows, tables_, model_.execution().bitwise);
  Outputs result;
  const auto attend = [&](int64_t layer, const AttentionConfig& attention, const Heads& heads) {
    return block_rows.attend(store_.layer(layer), attention, heads);
  };
  result.states = model_.forward({running.tokens, running.positions, attend});
  result.drawn = draw(result.states, rollout_ids_.narrow(0, 0, rows), running.places);
  advance(running, result.drawn.tokens, stop_ids_);
  return result;
}

/// Prompts were computed before, and with them all that the device prepares at its first work.
DecodeStep::Graph& DecodeStep::graph_for(int64_t rows) {
  const auto found = graphs_.find(rows);
  if (found != graphs_.end()) return found->second;
  Outputs outputs;
  CudaGraph work([&] { outputs = compute(rows); }, graphs_.empty() ? nullptr : &graphs_.begin()->second.work);
  return graphs_.emplace(rows, Graph{std::move(work), std::move(outputs)}).first->second;
}

void DecodeStep::capture_next_graph() {
  if (!uses_graphs_) return;
  int64_t rows = rows_for(slots_);
  while (rows > 0 && (rows_for(rows) != rows || graphs_.contains(rows))) --rows;
  if (rows > 0) graph_for(rows);
}

/// States are recorded before the next launch overwrites them. The host is one step behind the GPU.
std::vector<SampledTokens> DecodeStep::step() {
  const auto count = static_cast<int64_t>(rollouts_.size()), rows = rows_for(count);
  Outputs newest;
  InFlight step;
  if (uses_graphs_) {
    Graph& graph = graph_for(rows);
    graph.work.queue();
    newest = graph.outputs;
    step.drawn = to_host(newest.drawn, /*wait=*/false);
    step.done.emplace(at::kCUDA);
    step.done->record(c10::impl::VirtualGuardImpl(at::kCUDA).getStream(model_.device()));
  } else {
    newest = compute(rows);
    step.drawn = newest.drawn;
  }
  in_flight_.push_back(std::move(step));
  if (request_.hidden_states) states_.add(newest.states.narrow(0, 0, count), rollouts_);
  return fetch(uses_graphs_ ? 1 : 0);
}

/// Waits for the oldest steps until so many are in flight.
std::vector<SampledTokens> DecodeStep::fetch(size_t in_flight) {
  std::vector<SampledTokens> drawn;
  for (; in_flight_.size() > in_flight; in_flight_.pop_front()) {
    if (in_flight_.front().done) in_flight_.front().done->synchronize();
    drawn.push_back(std::move(in_flight_.front().drawn));
  }
  return drawn;
}

Tensor DecodeStep::take_states(int64_t rollout, int64_t count) {
  std::replace(rollouts_.begin(), rollouts_.end(), rollout, int64_t{-1});
  return states_.take(rollout, count);
}

}  // namespace keel
