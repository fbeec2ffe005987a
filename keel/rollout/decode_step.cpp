#include "keel/rollout/decode_step.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <bit>

namespace keel {

DecodeStep::DecodeStep(const CausalLm& model, const SamplingRequest& request, const BlockStore& store, int64_t slots,
                       int64_t table_width, int32_t idle_block, const std::vector<int32_t>& stop_ids)
    : model_(model),
      request_(request),
      store_(store),
      records_(RecordedWork::possible(model.device())),
      slots_(rows_for(slots)),
      table_width_(table_width),
      idle_block_(idle_block) {
  const at::TensorOptions integers = at::TensorOptions(at::kLong).device(model.device());
  const auto room = [&] { return at::zeros({slots_}, integers); };
  running_ = {room(), room(), room(), room(), at::zeros({slots_, 4}, integers.dtype(at::kInt))};
  rollout_ids_ = room();
  tables_ = at::zeros({slots_ * table_width_}, integers.dtype(at::kInt));
  stop_ids_ = at::tensor(std::vector<int64_t>(stop_ids.begin(), stop_ids.end()), at::kLong).to(model.device());
}

int64_t DecodeStep::rows_for(int64_t sequences) const {
  if (!records_) return sequences;
  const auto doubled = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(sequences)));
  // A step of few rows takes hardly longer than one of a single row: 1, 4, 16, 64.
  if (doubled <= 64) return std::countr_zero(static_cast<uint64_t>(doubled)) % 2 == 0 ? doubled : 2 * doubled;
  return sequences <= doubled / 4 * 3 ? doubled / 4 * 3 : doubled;
}

Drawn DecodeStep::draw(const Tensor& states, const Tensor& rollout_ids, const Tensor& places) const {
  const Tensor logits = with_noise(model_.logits(states), request_.logit_noise, request_.seed, rollout_ids, places);
  return sample(truncated(logits, request_.temperature, request_.truncation), request_.temperature, request_.seed,
                rollout_ids, places, request_.top_k);
}

void DecodeStep::arrange(const std::vector<RowStart>& sequences) {
  const auto count = static_cast<int64_t>(sequences.size());
  rows_ = rows_for(count);
  // Rows beyond the sequences look at one key of the idle block.
  std::vector<int64_t> tokens(rows_), positions(rows_), places(rows_), limits(rows_), ids(rows_);
  std::vector<int32_t> tables(rows_ * table_width_, idle_block_);
  std::vector<BlockRow> rows;
  for (int64_t i = 0; i < rows_; ++i) {
    const auto table = static_cast<int32_t>(i * table_width_);
    if (i >= count) {
      rows.push_back({.prompt_table = table, .prompt_keys = 0, .own_table = table, .own_keys = 1});
      continue;
    }
    const RowStart& from = sequences[i];
    tokens[i] = from.token, positions[i] = from.position, places[i] = from.place, limits[i] = from.limit;
    ids[i] = static_cast<int64_t>(from.rollout_id);
    const auto own = std::copy(from.prompt_blocks.begin(), from.prompt_blocks.end(), tables.begin() + table);
    std::copy(from.own_blocks.begin(), from.own_blocks.end(), own);
    rows.push_back({.prompt_table = table,
                    .prompt_keys = static_cast<int32_t>(from.prompt_keys),
                    .own_table = static_cast<int32_t>(own - tables.begin()),
                    .own_keys = static_cast<int32_t>(from.place)});
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

DecodeStep::Pass DecodeStep::pass(int64_t rows) const {
  const RunningRows running = running_.first(rows);
  const BlockRows block_rows(running.rows, tables_, model_.bitwise());
  Pass result;
  result.states = model_.forward(running.tokens, running.positions,
                                 [&](int64_t layer, const AttentionRule& rule, const Heads& heads) {
                                   return block_rows.attend(store_.layer(layer), rule, heads);
                                 });
  result.drawn = draw(result.states, rollout_ids_.narrow(0, 0, rows), running.places);
  advance(running, result.drawn.tokens, stop_ids_);
  return result;
}

/// Prompts were computed before, and with them all that the device prepares at its first work.
DecodeStep::RecordedPass& DecodeStep::recorded(int64_t rows) {
  const auto found = passes_.find(rows);
  if (found != passes_.end()) return found->second;
  Pass made;
  RecordedWork work([&] { made = pass(rows); }, passes_.empty() ? nullptr : &passes_.begin()->second.work);
  return passes_.emplace(rows, RecordedPass{std::move(work), std::move(made)}).first->second;
}

void DecodeStep::prepare() {
  if (!records_) return;
  int64_t rows = slots_;
  while (rows > 0 && (rows_for(rows) != rows || passes_.contains(rows))) --rows;
  if (rows > 0) recorded(rows);
}

const Tensor& DecodeStep::queue() {
  if (records_) {
    RecordedPass& step = recorded(rows_);
    step.work.queue();
    newest_ = step.pass;
  } else {
    newest_ = pass(rows_);
  }
  UnderWay step{newest_.drawn, std::nullopt};
  if (records_) {
    step.drawn = on_host(newest_.drawn, /*wait=*/false);
    step.done.emplace(at::kCUDA);
    step.done->record(c10::impl::VirtualGuardImpl(at::kCUDA).getStream(model_.device()));
  }
  under_way_.push_back(std::move(step));
  return newest_.states;
}

Drawn DecodeStep::look() {
  UnderWay step = std::move(under_way_.front());
  under_way_.pop_front();
  if (step.done) step.done->synchronize();
  return std::move(step.drawn);
}

}  // namespace keel
