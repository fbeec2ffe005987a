#include "keel/rollout/decoding.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/core/tensor/device.h"
#include "keel/model/network/finite_weights.h"
#include "keel/model/network/packed_forward.h"
#include "keel/ops/packed_flash_attention.h"

namespace keel {
namespace {

constexpr int64_t kMaxPrefillTokens = 8192;  // per forward pass; bounds its activation memory

size_t batch_size_for(std::span<const Prompt> prompts, const SamplingRequest& request) {
  return std::min(static_cast<size_t>(request.max_sequences), prompts.size() * request.samples_per_prompt);
}

int64_t prompt_blocks(const Prompt& prompt) { return KvCache::blocks_for(static_cast<int64_t>(prompt.tokens.size())); }

/// Blocks of a full batch, and the block that padding rows attend to.
int64_t max_blocks(std::span<const Prompt> prompts, const SamplingRequest& request) {
  std::vector<int64_t> lengths, completions;
  for (size_t i = 0; i < prompts.size(); ++i) {
    lengths.push_back(static_cast<int64_t>(prompts[i].tokens.size()));
    completions.insert(completions.end(), static_cast<size_t>(request.samples_per_prompt),
                       request.max_new_tokens_of(i));
  }
  const auto batch_size = static_cast<int64_t>(batch_size_for(prompts, request));
  return KvCache::max_blocks(std::move(lengths), std::move(completions), batch_size) + 1;
}

/// Fails before sampling starts if the machine's memory cannot hold the KV cache.
int64_t checked_max_blocks(const SamplingModel& model, std::span<const Prompt> prompts,
                           const SamplingRequest& request) {
  const int64_t bytes = Decoding::kv_cache_bytes(model, prompts, request);
  constexpr double kGiB = 1 << 30;
  if (model.device().is_cpu() && bytes > machine_memory_bytes())
    fail(ExitCode::kBadConfiguration, "rollout: the keys and values of ", batch_size_for(prompts, request),
         " sequences take up to ", fixed(static_cast<double>(bytes) / kGiB, 1), " GiB, but this machine has ",
         fixed(static_cast<double>(machine_memory_bytes()) / kGiB, 1), " GiB. Fix: ", request.memory_hint);
  return max_blocks(prompts, request);
}

int64_t max_blocks_per_sequence(std::span<const Prompt> prompts, const SamplingRequest& request) {
  int64_t blocks = 0;
  for (size_t i = 0; i < prompts.size(); ++i)
    blocks = std::max(blocks, prompt_blocks(prompts[i]) + KvCache::blocks_for(request.max_new_tokens_of(i)));
  return blocks;
}

Tensor int64_tensor_on(at::Device device, const std::vector<int64_t>& values) {
  return to_device_async(at::tensor(values, at::kLong), device);
}

/// Causal attention within prompts, which also writes their keys and values to the KV cache. With bitwise,
/// sampler and trainer both use paged attention; else this uses flash attention where the trainer does.
class PrefillAttention {
 public:
  PrefillAttention(const SamplingModel& model, const std::vector<Segment>& segments, const PagedAttention& paged,
                   const KvCache& cache)
      : paged_(paged), cache_(cache) {
    if (uses_flash_attention(model) && !model.execution().bitwise) flash_.emplace(segments, model.device());
  }
  Tensor operator()(int64_t layer, const AttentionConfig& attention, const Heads& heads) const {
    if (!flash_) return paged_.attend(cache_.layer(layer), attention, heads);
    const Heads rotated = heads.rotated();
    paged_.store(cache_.layer(layer), rotated);
    return (*flash_)(attention, rotated.query, rotated.key, rotated.value);
  }

 private:
  const PagedAttention& paged_;
  const KvCache& cache_;
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
      max_batch_size_(batch_size_for(prompts, request)),
      rollouts_(prompts.size() * request.samples_per_prompt),
      groups_(prompts.size(), {.waiting = request.samples_per_prompt, .unfinished = request.samples_per_prompt}),
      step_(model, request,
            KvCache(model.config(), checked_max_blocks(model, prompts, request), model.compute_type(), model.device()),
            static_cast<int64_t>(batch_size_for(prompts, request)), max_blocks_per_sequence(prompts, request),
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
  if (step_.should_refill(count_active(), static_cast<int64_t>(rollouts_.size() - next_))) {
    for (const SampledTokens& sampled : step_.drain()) record(sampled);
    refill_batch();
  }
  if (count_active() > 0)
    for (const SampledTokens& sampled : step_.step()) record(sampled);
  std::vector<std::span<Rollout>> complete;
  for (const int64_t group : std::exchange(complete_, {}))
    complete.push_back(std::span(rollouts_).subspan(group * request_.samples_per_prompt, request_.samples_per_prompt));
  return complete;
}

/// Starts sequences until the batch is full. Repeats, because a sequence may end with its first token.
void Decoding::refill_batch() {
  remove_ended();
  while (can_start()) {
    while (can_start()) {
      prefill(start_sequences());
      step_.capture_next_graph();
    }
    sample_first_tokens();
    remove_ended();
  }
  if (batch_.empty()) return;
  std::vector<BatchEntry> entries;
  for (const Sequence& sequence : batch_)
    entries.push_back({rollouts_[sequence.rollout], sequence.rollout,
                       request_.max_new_tokens_of(static_cast<size_t>(sequence.group)), groups_[sequence.group].blocks,
                       sequence.blocks});
  step_.set_batch(entries);
}

/// Adds sequences to the batch until it is full or the new prompts fill a prefill pass. Returns the groups to prefill.
std::vector<int64_t> Decoding::start_sequences() {
  std::vector<int64_t> new_groups;
  int64_t prompt_tokens = 0;
  while (can_start()) {
    const int64_t group = static_cast<int64_t>(next_) / request_.samples_per_prompt;
    if (groups_[group].waiting == request_.samples_per_prompt) {
      const auto tokens = static_cast<int64_t>(prompt_of(group).size());
      if (prompt_tokens > 0 && prompt_tokens + tokens > kMaxPrefillTokens) break;
      prompt_tokens += tokens;
      new_groups.push_back(group);
    }
    batch_.push_back({.rollout = static_cast<int64_t>(next_++),
                      .group = group,
                      .blocks = step_.cache().allocate(
                          KvCache::blocks_for(request_.max_new_tokens_of(static_cast<size_t>(group))))});
    groups_[group].waiting--;
  }
  return new_groups;
}

/// Runs the model on the prompts of these groups. Writes their keys and values to the KV cache; keeps the last states.
void Decoding::prefill(const std::vector<int64_t>& groups) {
  if (groups.empty()) return;
  std::vector<int64_t> tokens, positions, last_rows;
  std::vector<PagedRow> rows;
  std::vector<int32_t> tables;
  std::vector<Segment> segments;
  for (const int64_t group : groups) {
    const std::span<const int32_t> prompt = prompt_of(group);
    groups_[group].blocks = step_.cache().allocate(prompt_blocks(prompts_[group]));
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
  const PagedAttention paged(rows, tables, model_.device(), model_.execution().bitwise);
  const PrefillAttention attention(model_, segments, paged, step_.cache());
  const Tensor states = model_.forward(
      {int64_tensor_on(model_.device(), tokens), int64_tensor_on(model_.device(), positions), std::cref(attention)});
  for (size_t i = 0; i < groups.size(); ++i) groups_[groups[i]].last_state = states.narrow(0, last_rows[i], 1).clone();
}

/// Samples the first tokens of new sequences from the last hidden states of their prompts.
void Decoding::sample_first_tokens() {
  std::vector<Tensor> states;
  std::vector<int64_t> ids, rollouts;
  std::vector<Sequence*> sequences;
  for (Sequence& sequence : batch_) {
    if (rollouts_[sequence.rollout].tokens.size() > 0) continue;
    sequences.push_back(&sequence);
    states.push_back(groups_[sequence.group].last_state);
    rollouts.push_back(sequence.rollout);
    ids.push_back(static_cast<int64_t>(rollouts_[sequence.rollout].id));
  }
  for (Group& group : groups_)
    if (group.waiting == 0) group.last_state = Tensor();
  const SampledTokens sampled = step_.sample_first(at::cat(states), rollouts, int64_tensor_on(model_.device(), ids));
  for (size_t i = 0; i < sequences.size(); ++i) record(*sequences[i], sampled, static_cast<int64_t>(i));
}

/// Records the tokens of one decode step.
void Decoding::record(const SampledTokens& sampled) {
  for (size_t i = 0; i < batch_.size(); ++i)
    if (!batch_[i].ended) record(batch_[i], sampled, static_cast<int64_t>(i));
}

void Decoding::record(Sequence& sequence, const SampledTokens& sampled, int64_t row) {
  Rollout& rollout = rollouts_[sequence.rollout];
  TokenColumns& tokens = rollout.tokens;
  const auto value = [row](const Tensor& x) { return x.const_data_ptr<float>()[row]; };
  if (!std::isfinite(value(sampled.logp)))
    fail_non_finite(model_.weights(), "prompt " + std::to_string(prompts_[sequence.group].id) + ", token " +
                                          std::to_string(tokens.size()) + " of a completion");
  const auto token = static_cast<int32_t>(sampled.tokens.const_data_ptr<int64_t>()[row]);
  tokens.append({&token, 1}, /*are_trained=*/true);
  tokens.behavior_logp.push_back(value(sampled.logp));
  tokens.behavior_other_logp.push_back(value(sampled.other_logp));
  tokens.behavior_entropy.push_back(value(sampled.entropy));
  if (sampled.topk_ids.defined()) {
    const int64_t width = sampled.topk_ids.size(1);
    const int64_t* const ids = sampled.topk_ids.const_data_ptr<int64_t>() + row * width;
    const float* const logps = sampled.topk_logp.const_data_ptr<float>() + row * width;
    tokens.topk_ids.insert(tokens.topk_ids.end(), ids, ids + width);
    tokens.topk_behavior_logp.insert(tokens.topk_behavior_logp.end(), logps, logps + width);
  }
  if (sampled.kept.defined()) record_kept_tokens(tokens.kept, sampled.kept.const_data_ptr<int32_t>(), row);
  progress_.tokens++;
  const bool stopped = std::ranges::count(request_.stop_ids, token) > 0;
  const std::optional<std::string> text_before_stop =
      stopped ? std::nullopt : stop_strings_.text_before(tokenizer_, tokens.ids);
  rollout.text = text_before_stop.value_or("");
  rollout.finish = stopped ? Finish::kStop : text_before_stop ? Finish::kStopString : Finish::kLength;
  const int64_t limit = request_.max_new_tokens_of(static_cast<size_t>(sequence.group));
  if (stopped || text_before_stop || static_cast<int64_t>(tokens.size()) == limit) finish(sequence);
}

/// Appends the set of a row. Fails if the sets of the request take more memory than it allows.
void Decoding::record_kept_tokens(KeptTokens& kept, const int32_t* bitmaps, int64_t row) {
  kept.vocab = model_.config().vocab_size;
  const int64_t before = kept.bytes();
  kept.append(reinterpret_cast<const uint32_t*>(bitmaps) + row * bitmap_words(kept.vocab));
  request_.kept_bytes += kept.bytes() - before;
  if (request_.kept_bytes <= request_.max_kept_bytes) return;
  fail(ExitCode::kBadConfiguration, "rollout: the token sets of truncated sampling take ",
       format_bytes(request_.kept_bytes), " after ", progress_.tokens + 1, " tokens of this step; the limit is ",
       format_bytes(request_.max_kept_bytes),
       ", half of this machine's memory, shared by rollout.staleness + 1 batches. Fix: resume on a machine with more ",
       "memory, or start a new run with a lower rollout.top_p, rollout.top_k or train.prompts_per_step, or a higher ",
       "rollout.min_p");
}

void Decoding::finish(Sequence& sequence) {
  Rollout& rollout = rollouts_[sequence.rollout];
  if (rollout.finish != Finish::kStopString)
    rollout.text = tokenizer_.decode(rollout.tokens.ids, /*skip_special=*/true);
  if (request_.hidden_states)
    rollout.tokens.hidden_states = step_.take_states(sequence.rollout, static_cast<int64_t>(rollout.tokens.size()));
  rollout.tokens.kept.words.shrink_to_fit();
  step_.cache().free(sequence.blocks);
  sequence.ended = true;
  progress_.finished++;
  Group& group = groups_[sequence.group];
  if (--group.unfinished > 0) return;
  step_.cache().free(group.blocks);
  complete_.push_back(sequence.group);
}

}  // namespace keel
