#include "keel/rollout/decoding.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/core/tensor/device.h"
#include "keel/model/network/finite_weights.h"
#include "keel/model/network/packed_forward.h"
#include "keel/ops/packed_flash_attention.h"

namespace keel {
namespace {

constexpr int64_t kPromptTokensAtOnce = 8192;  // of prompts that start together; bounds what a forward pass holds

size_t slots_for(std::span<const Prompt> prompts, const SamplingRequest& request) {
  return std::min(static_cast<size_t>(request.max_sequences), prompts.size() * request.samples_per_prompt);
}

int64_t blocks_of(const Prompt& prompt) { return KvCache::blocks_for(static_cast<int64_t>(prompt.tokens.size())); }

/// Of the sequences that run together, and an idle one.
int64_t max_blocks(std::span<const Prompt> prompts, const SamplingRequest& request) {
  std::vector<int64_t> lengths, completions;
  for (size_t i = 0; i < prompts.size(); ++i) {
    lengths.push_back(static_cast<int64_t>(prompts[i].tokens.size()));
    completions.insert(completions.end(), static_cast<size_t>(request.samples_per_prompt),
                       request.max_new_tokens_of(i));
  }
  const auto slots = static_cast<int64_t>(slots_for(prompts, request));
  return KvCache::max_blocks(std::move(lengths), std::move(completions), slots) + 1;
}

/// Refuses what a machine cannot hold before it begins.
int64_t planned_blocks(const SamplingModel& model, std::span<const Prompt> prompts, const SamplingRequest& request) {
  const int64_t bytes = Decoding::kv_cache_bytes(model, prompts, request);
  constexpr double kGiB = 1 << 30;
  if (model.device().is_cpu() && bytes > machine_memory_bytes())
    fail(ExitCode::kBadConfiguration, "rollout: the keys and values of ", slots_for(prompts, request),
         " sequences take up to ", fixed(static_cast<double>(bytes) / kGiB, 1), " GiB, this machine has ",
         fixed(static_cast<double>(machine_memory_bytes()) / kGiB, 1), " GiB; ", request.memory_hint);
  return max_blocks(prompts, request);
}

int64_t max_blocks_per_sequence(std::span<const Prompt> prompts, const SamplingRequest& request) {
  int64_t widest = 0;
  for (size_t i = 0; i < prompts.size(); ++i)
    widest = std::max(widest, blocks_of(prompts[i]) + KvCache::blocks_for(request.max_new_tokens_of(i)));
  return widest;
}

Tensor on_device(const std::vector<int64_t>& numbers, at::Device device) {
  return sent(at::tensor(numbers, at::kLong), device);
}

/// Of whole prompts to themselves, whose keys and values go into blocks; by flash attention where the trainer's
/// layers are, unless both are to have the bits of blocks.
class PromptAttention {
 public:
  PromptAttention(const SamplingModel& model, const std::vector<Segment>& segments, const PagedAttention& rows,
                  const KvCache& store)
      : rows_(rows), store_(store) {
    if (uses_flash_attention(model) && !model.execution().bitwise) flash_.emplace(segments, model.device());
  }
  Tensor operator()(int64_t layer, const AttentionConfig& attention, const Heads& heads) const {
    if (!flash_) return rows_.attend(store_.layer(layer), attention, heads);
    const Heads rotated = heads.rotated();
    rows_.store(store_.layer(layer), rotated);
    return (*flash_)(attention, rotated.query, rotated.key, rotated.value);
  }

 private:
  const PagedAttention& rows_;
  const KvCache& store_;
  std::optional<PackedFlashAttention> flash_;
};

}  // namespace

int64_t Decoding::kv_cache_bytes(const SamplingModel& model, std::span<const Prompt> prompts,
                                 const SamplingRequest& request) {
  return KvCache::bytes(model.config(), max_blocks(prompts, request), model.compute_type(), model.device());
}

Decoding::Decoding(const SamplingModel& model, const Tokenizer& tokenizer, std::span<const Prompt> prompts,
                   const SamplingRequest& request)
    : model_(model),
      tokenizer_(tokenizer),
      prompts_(prompts),
      request_(request),
      stop_strings_(request.stop_strings),
      slots_(slots_for(prompts, request)),
      rollouts_(prompts.size() * request.samples_per_prompt),
      groups_(prompts.size(), {.waiting = request.samples_per_prompt, .unfinished = request.samples_per_prompt}),
      step_(model, request,
            KvCache(model.config(), planned_blocks(model, prompts, request), model.compute_type(), model.device()),
            static_cast<int64_t>(slots_for(prompts, request)), max_blocks_per_sequence(prompts, request),
            std::ssize(prompts) * request.samples_per_prompt) {
  progress_.total = static_cast<int64_t>(rollouts_.size());
  const int64_t samples = request.samples_per_prompt;
  for (size_t i = 0; i < rollouts_.size(); ++i) {
    rollouts_[i].tokens.prompt =
        i % samples == 0 ? prompt_columns(prompts[i / samples].tokens) : rollouts_[i - 1].tokens.prompt;
    rollouts_[i].prompt = static_cast<int64_t>(i) / samples;
    rollouts_[i].id = prompts[i / samples].id * samples + i % samples;
    rollouts_[i].policy_version = request.policy_version;
  }
}

std::vector<std::span<Rollout>> Decoding::poll() {
  const at::NoGradGuard no_grad;
  if (step_.should_arrange(live(), static_cast<int64_t>(rollouts_.size() - next_))) {
    for (const SampledTokens& drawn : step_.drain()) record(drawn);
    arrange();
  }
  if (live() > 0)
    for (const SampledTokens& drawn : step_.step()) record(drawn);
  std::vector<std::span<Rollout>> complete;
  for (const int64_t group : std::exchange(complete_, {}))
    complete.push_back(std::span(rollouts_).subspan(group * request_.samples_per_prompt, request_.samples_per_prompt));
  return complete;
}

/// Fills the free slots and arranges the rows. Sequences may end with their first token.
void Decoding::arrange() {
  drop_ended();
  const auto room = [&] { return running_.size() < slots_ && next_ < rollouts_.size(); };
  while (room()) {
    while (room()) {
      compute_prompts(start_sequences());
      step_.capture_next_graph();
    }
    draw_first_tokens();
    drop_ended();
  }
  if (running_.empty()) return;
  std::vector<RowStart> starts;
  for (const Sequence& sequence : running_)
    starts.push_back({rollouts_[sequence.rollout], sequence.rollout,
                      request_.max_new_tokens_of(static_cast<size_t>(sequence.group)), groups_[sequence.group].blocks,
                      sequence.blocks});
  step_.arrange(starts);
}

/// Fills the free slots, as far as prompts can be computed together; returns the groups whose prompts nobody has
/// computed yet.
std::vector<int64_t> Decoding::start_sequences() {
  std::vector<int64_t> new_groups;
  int64_t prompt_tokens = 0;
  while (running_.size() < slots_ && next_ < rollouts_.size()) {
    const int64_t group = static_cast<int64_t>(next_) / request_.samples_per_prompt;
    if (groups_[group].waiting == request_.samples_per_prompt) {
      const auto tokens = static_cast<int64_t>(prompt_of(group).size());
      if (prompt_tokens > 0 && prompt_tokens + tokens > kPromptTokensAtOnce) break;
      prompt_tokens += tokens;
      new_groups.push_back(group);
    }
    running_.push_back(
        {.rollout = static_cast<int64_t>(next_++),
         .group = group,
         .blocks = step_.store().take(KvCache::blocks_for(request_.max_new_tokens_of(static_cast<size_t>(group))))});
    groups_[group].waiting--;
  }
  return new_groups;
}

/// Puts the prompts' keys and values into blocks, and keeps their last states.
void Decoding::compute_prompts(const std::vector<int64_t>& groups) {
  if (groups.empty()) return;
  std::vector<int64_t> tokens, positions, last_rows;
  std::vector<PagedRow> rows;
  std::vector<int32_t> tables;
  std::vector<Segment> segments;
  for (const int64_t group : groups) {
    const std::span<const int32_t> prompt = prompt_of(group);
    groups_[group].blocks = step_.store().take(blocks_of(prompts_[group]));
    segments.push_back({.begin = static_cast<int64_t>(tokens.size()), .length = static_cast<int64_t>(prompt.size())});
    const auto table = static_cast<int32_t>(tables.size());
    tables.insert(tables.end(), groups_[group].blocks.begin(), groups_[group].blocks.end());
    for (size_t i = 0; i < prompt.size(); ++i) {
      tokens.push_back(prompt[i]);
      positions.push_back(static_cast<int64_t>(i));
      rows.push_back(
          {.prompt_table = table, .prompt_keys = static_cast<int32_t>(i + 1), .own_table = table, .own_keys = 0});
    }
    last_rows.push_back(static_cast<int64_t>(rows.size()) - 1);
  }
  const PagedAttention block_rows(rows, tables, model_.device(), model_.execution().bitwise);
  const PromptAttention attention(model_, segments, block_rows, step_.store());
  const Tensor states =
      model_.forward({on_device(tokens, model_.device()), on_device(positions, model_.device()), std::cref(attention)});
  for (size_t i = 0; i < groups.size(); ++i) groups_[groups[i]].last_state = states.narrow(0, last_rows[i], 1).clone();
}

/// Of the sequences that have none: they are drawn from the last states of their prompts.
void Decoding::draw_first_tokens() {
  std::vector<Tensor> parts;
  std::vector<int64_t> ids, rollouts;
  std::vector<Sequence*> sequences;
  for (Sequence& sequence : running_) {
    if (rollouts_[sequence.rollout].tokens.size() > 0) continue;
    sequences.push_back(&sequence);
    parts.push_back(groups_[sequence.group].last_state);
    rollouts.push_back(sequence.rollout);
    ids.push_back(static_cast<int64_t>(rollouts_[sequence.rollout].id));
  }
  for (Group& group : groups_)
    if (group.waiting == 0) group.last_state = Tensor();
  const SampledTokens drawn = step_.draw_first(at::cat(parts), rollouts, on_device(ids, model_.device()));
  for (size_t i = 0; i < sequences.size(); ++i) record(*sequences[i], drawn, static_cast<int64_t>(i));
}

/// Records the tokens of one decode step.
void Decoding::record(const SampledTokens& drawn) {
  for (size_t i = 0; i < running_.size(); ++i)
    if (!running_[i].ended) record(running_[i], drawn, static_cast<int64_t>(i));
}

void Decoding::record(Sequence& sequence, const SampledTokens& drawn, int64_t row) {
  Rollout& rollout = rollouts_[sequence.rollout];
  TokenColumns& tokens = rollout.tokens;
  const auto number = [row](const Tensor& x) { return x.const_data_ptr<float>()[row]; };
  if (!std::isfinite(number(drawn.logp)))
    fail_non_finite(model_.weights(), "prompt " + std::to_string(prompts_[sequence.group].id) + ", token " +
                                          std::to_string(tokens.size()) + " of a completion");
  const auto token = static_cast<int32_t>(drawn.tokens.const_data_ptr<int64_t>()[row]);
  tokens.append({&token, 1}, /*are_trained=*/true);
  tokens.behavior_logp.push_back(number(drawn.logp));
  tokens.behavior_other_logp.push_back(number(drawn.other_logp));
  tokens.behavior_entropy.push_back(number(drawn.entropy));
  if (drawn.topk_ids.defined()) {
    const int64_t width = drawn.topk_ids.size(1);
    const int64_t* const ids = drawn.topk_ids.const_data_ptr<int64_t>() + row * width;
    const float* const logps = drawn.topk_logp.const_data_ptr<float>() + row * width;
    tokens.topk_ids.insert(tokens.topk_ids.end(), ids, ids + width);
    tokens.topk_behavior_logp.insert(tokens.topk_behavior_logp.end(), logps, logps + width);
  }
  progress_.tokens++;
  const bool stopped = std::ranges::count(request_.stop_ids, token) > 0;
  const std::optional<std::string> before = stopped ? std::nullopt : stop_strings_.text_before(tokenizer_, tokens.ids);
  rollout.text = before.value_or("");
  rollout.finish = stopped ? Finish::kStop : before ? Finish::kStopString : Finish::kLength;
  const int64_t limit = request_.max_new_tokens_of(static_cast<size_t>(sequence.group));
  if (rollout.finish != Finish::kLength || static_cast<int64_t>(tokens.size()) == limit) finish(sequence);
}

void Decoding::finish(Sequence& sequence) {
  Rollout& rollout = rollouts_[sequence.rollout];
  if (rollout.finish != Finish::kStopString)
    rollout.text = tokenizer_.decode(rollout.tokens.ids, /*skip_special=*/true);
  if (request_.hidden_states)
    rollout.tokens.hidden_states = step_.take_states(sequence.rollout, static_cast<int64_t>(rollout.tokens.size()));
  step_.store().give_back(sequence.blocks);
  sequence.ended = true;
  progress_.finished++;
  Group& group = groups_[sequence.group];
  if (--group.unfinished > 0) return;
  step_.store().give_back(group.blocks);
  complete_.push_back(sequence.group);
}

}  // namespace keel
