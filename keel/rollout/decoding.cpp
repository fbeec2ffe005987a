#include "keel/rollout/decoding.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/core/tensor/device.h"
#include "keel/model/network/finite_weights.h"
#include "keel/ops/next_token.h"
#include "keel/ops/sampler.h"

namespace keel {
namespace {

constexpr int64_t kPromptTokensAtOnce = 8192;  // of prompts that start together; bounds what a forward pass holds

/// As many blocks as the sequences can ever hold at a time: the longest prompts, and completions of full length.
int64_t most_blocks(std::span<const Prompt> prompts, const SamplingRequest& request, size_t slots) {
  std::vector<int64_t> of_prompts;
  for (const Prompt& prompt : prompts)
    of_prompts.push_back(BlockStore::blocks_for(static_cast<int64_t>(prompt.tokens.size())));
  std::sort(of_prompts.rbegin(), of_prompts.rend());
  int64_t blocks = static_cast<int64_t>(slots) * BlockStore::blocks_for(request.max_new_tokens);
  for (size_t i = 0; i < std::min(slots, of_prompts.size()); ++i) blocks += of_prompts[i];
  return blocks;
}

/// Refuses what a machine cannot hold before it begins.
int64_t planned_blocks(const CausalLm& model, std::span<const Prompt> prompts, const SamplingRequest& request,
                       size_t slots) {
  const at::Device device = model.device();
  const int64_t blocks = most_blocks(prompts, request, slots);
  const int64_t bytes = BlockStore::bytes(model.config(), blocks, model.compute_type(), device);
  constexpr double kGiB = 1 << 30;
  if (device.is_cpu() && bytes > machine_memory_bytes())
    fail(ExitCode::kBadConfiguration, "rollout: the keys and values of ", slots, " sequences take up to ",
         fixed(static_cast<double>(bytes) / kGiB, 1), " GiB, this machine has ",
         fixed(static_cast<double>(machine_memory_bytes()) / kGiB, 1),
         " GiB; lower rollout.max_sequences (sequences decoded together) or rollout.max_new_tokens");
  return blocks;
}

/// For errors.
std::string token_place(const Prompt& prompt, const Rollout& rollout) {
  return "prompt " + std::to_string(prompt.id) + ", token " + std::to_string(rollout.tokens.size()) +
         " of a completion";
}

}  // namespace

Decoding::Decoding(const CausalLm& model, const Tokenizer& tokenizer, std::span<const Prompt> prompts,
                   const SamplingRequest& request, std::span<Rollout> rollouts, const OnGroup& on_group)
    : model_(model),
      tokenizer_(tokenizer),
      prompts_(prompts),
      request_(request),
      rollouts_(rollouts),
      on_group_(on_group),
      stop_strings_(request.stop_strings),
      slots_(std::min(static_cast<size_t>(request.max_sequences), rollouts.size())),
      groups_(prompts.size(), {.waiting = request.samples_per_prompt, .unfinished = request.samples_per_prompt}),
      store_(model.config(), planned_blocks(model, prompts, request, slots_), model.compute_type(), model.device()),
      states_(static_cast<int64_t>(rollouts.size())) {}

void Decoding::step() {
  const std::vector<int64_t> new_groups = start_sequences();
  draw(states_of_next_tokens(new_groups));
}

/// Fills the free slots; returns the groups whose prompts nobody has computed yet.
std::vector<int64_t> Decoding::start_sequences() {
  std::vector<int64_t> new_groups;
  int64_t prompt_tokens = 0;
  while (running_.size() < slots_ && next_ < rollouts_.size()) {
    const int64_t group = static_cast<int64_t>(next_) / request_.samples_per_prompt;
    if (groups_[group].waiting == request_.samples_per_prompt) {
      const int64_t tokens = static_cast<int64_t>(prompt_of(group).size());
      if (prompt_tokens > 0 && prompt_tokens + tokens > kPromptTokensAtOnce) break;
      prompt_tokens += tokens;
      new_groups.push_back(group);
    }
    running_.push_back({.rollout = static_cast<int64_t>(next_++), .group = group});
    groups_[group].waiting--;
  }
  return new_groups;
}

int32_t Decoding::Tokens::add_table(const std::vector<int32_t>& blocks) {
  const auto begin = static_cast<int32_t>(tables.size());
  tables.insert(tables.end(), blocks.begin(), blocks.end());
  return begin;
}

void Decoding::add_prompt(int64_t group, Tokens& tokens) {
  const std::span<const int32_t> prompt = prompt_of(group);
  const auto length = static_cast<int32_t>(prompt.size());
  std::vector<int32_t>& blocks = groups_[group].blocks;
  for (int64_t i = 0; i < BlockStore::blocks_for(length); ++i) blocks.push_back(store_.take());
  const int32_t table = tokens.add_table(blocks);
  for (int32_t i = 0; i < length; ++i) {
    tokens.tokens.push_back(prompt[i]);
    tokens.positions.push_back(i);
    tokens.rows.push_back({.prompt_table = table, .prompt_keys = i + 1, .own_table = 0, .own_keys = 0});
  }
}

/// The token that was drawn last is the input that the next one is drawn from.
void Decoding::add_newest_token(Sequence& sequence, Tokens& tokens) {
  const std::vector<int32_t>& drawn = rollouts_[sequence.rollout].tokens;
  const auto count = static_cast<int32_t>(drawn.size()),
             prompt_length = static_cast<int32_t>(prompt_of(sequence.group).size());
  if ((count - 1) % kBlockTokens == 0) sequence.blocks.push_back(store_.take());
  tokens.tokens.push_back(drawn.back());
  tokens.positions.push_back(prompt_length + count - 1);
  tokens.rows.push_back({.prompt_table = tokens.add_table(groups_[sequence.group].blocks),
                         .prompt_keys = prompt_length,
                         .own_table = tokens.add_table(sequence.blocks),
                         .own_keys = count});
}

/// The states [running, H] that the next token of every sequence is drawn from: its newest token's, or its prompt's
/// last.
Tensor Decoding::states_of_next_tokens(const std::vector<int64_t>& new_groups) {
  Tokens tokens;
  for (Sequence& sequence : running_)
    if (!rollouts_[sequence.rollout].tokens.empty()) add_newest_token(sequence, tokens);
  const auto going_on = static_cast<int64_t>(tokens.rows.size());
  std::vector<int64_t> last_rows;
  for (const int64_t group : new_groups) {
    add_prompt(group, tokens);
    last_rows.push_back(static_cast<int64_t>(tokens.rows.size()) - 1);
  }
  Tensor states;
  if (!tokens.rows.empty()) {
    const auto on_device = [&](const std::vector<int64_t>& x) { return at::tensor(x, at::kLong).to(model_.device()); };
    const BlockRows rows(std::move(tokens.rows), std::move(tokens.tables), model_.device());
    states =
        model_.forward(on_device(tokens.tokens), on_device(tokens.positions),
                       [&](int64_t layer, const AttentionRule& rule, const Tensor& query, const Tensor& key,
                           const Tensor& value) { return rows.attend(store_.layer(layer), rule, query, key, value); });
  }
  for (size_t i = 0; i < new_groups.size(); ++i)
    groups_[new_groups[i]].last_state = states.narrow(0, last_rows[i], 1).clone();
  // Sequences stand in the order in which they began, so that those that go on come first.
  std::vector<Tensor> parts;
  if (going_on > 0) parts.push_back(states.narrow(0, 0, going_on));
  for (const Sequence& sequence : running_)
    if (rollouts_[sequence.rollout].tokens.empty()) parts.push_back(groups_[sequence.group].last_state);
  for (Group& group : groups_)
    if (group.waiting == 0) group.last_state = Tensor();
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

/// Draws and records a token for every sequence; those that end give their places to others.
void Decoding::draw(const Tensor& states) {
  std::vector<int64_t> rollouts, ids, positions;
  for (const Sequence& sequence : running_) {
    rollouts.push_back(sequence.rollout);
    ids.push_back(static_cast<int64_t>(rollouts_[sequence.rollout].id));
    positions.push_back(static_cast<int64_t>(rollouts_[sequence.rollout].tokens.size()));
  }
  const auto on_device = [&](const std::vector<int64_t>& x) { return at::tensor(x, at::kLong).to(model_.device()); };
  const Tensor rollout_ids = on_device(ids), places = on_device(positions);
  const Tensor logits = with_noise(model_.logits(states), request_.logit_noise, request_.seed, rollout_ids, places);
  if (request_.top_k > 0) record_likeliest(logits);
  if (request_.hidden_states) states_.add(states, rollouts);
  const Drawn drawn = sample(truncated(logits, request_.temperature, request_.truncation), request_.temperature,
                             request_.seed, rollout_ids, places);
  const Tensor tokens = drawn.tokens.cpu(), numbers = at::stack({drawn.logp, drawn.other_logp, drawn.entropy}).cpu();
  const float* const number = numbers.const_data_ptr<float>();
  const size_t count = running_.size();
  std::vector<Sequence> going_on;
  for (size_t i = 0; i < running_.size(); ++i) {
    const bool goes_on = record(running_[i], {.token = static_cast<int32_t>(tokens.const_data_ptr<int64_t>()[i]),
                                              .logp = number[i],
                                              .other_logp = number[count + i],
                                              .entropy = number[2 * count + i]});
    if (goes_on)
      going_on.push_back(std::move(running_[i]));
    else
      finish(running_[i]);
  }
  running_ = std::move(going_on);
}

/// Whether the completion goes on after this token.
bool Decoding::record(const Sequence& sequence, const DrawnToken& drawn) {
  Rollout& rollout = rollouts_[sequence.rollout];
  if (!std::isfinite(drawn.logp)) fail_not_finite(model_, token_place(prompts_[sequence.group], rollout));
  rollout.tokens.push_back(drawn.token);
  rollout.behavior_logp.push_back(drawn.logp);
  rollout.behavior_other_logp.push_back(drawn.other_logp);
  rollout.behavior_entropy.push_back(drawn.entropy);
  const bool stopped = request_.stop_at_eos && ends(drawn.token);
  const std::optional<std::string> before =
      stopped ? std::nullopt : stop_strings_.text_before(tokenizer_, rollout.tokens);
  rollout.text = before.value_or("");
  rollout.finish = stopped ? Finish::kStop : before ? Finish::kStopString : Finish::kLength;
  return rollout.finish == Finish::kLength && static_cast<int64_t>(rollout.tokens.size()) < request_.max_new_tokens;
}

/// The K likeliest tokens of every sequence, at the temperature.
void Decoding::record_likeliest(const Tensor& logits) {
  const Tensor ids = std::get<1>(logits.topk(std::min(request_.top_k, logits.size(1)), -1));
  const Tensor values = NextToken(logits, request_.temperature).logp_of(ids).cpu(), host_ids = ids.cpu().contiguous();
  const int64_t width = host_ids.size(1);
  for (size_t i = 0; i < running_.size(); ++i) {
    Rollout& rollout = rollouts_[running_[i].rollout];
    const int64_t* const first_id = host_ids.const_data_ptr<int64_t>() + static_cast<int64_t>(i) * width;
    const float* const first_value = values.const_data_ptr<float>() + static_cast<int64_t>(i) * width;
    rollout.topk_ids.insert(rollout.topk_ids.end(), first_id, first_id + width);
    rollout.topk_behavior_logp.insert(rollout.topk_behavior_logp.end(), first_value, first_value + width);
  }
}

bool Decoding::ends(int32_t token) const {
  if (request_.stop_ids.empty()) return tokenizer_.eos_id() == token;
  return std::find(request_.stop_ids.begin(), request_.stop_ids.end(), token) != request_.stop_ids.end();
}

void Decoding::finish(const Sequence& sequence) {
  Rollout& rollout = rollouts_[sequence.rollout];
  if (rollout.finish != Finish::kStopString) rollout.text = tokenizer_.decode(rollout.tokens, /*skip_special=*/true);
  if (request_.hidden_states) rollout.hidden_states = states_.take(sequence.rollout);
  store_.give_back(sequence.blocks);
  Group& group = groups_[sequence.group];
  if (--group.unfinished > 0) return;
  store_.give_back(group.blocks);
  if (on_group_)
    on_group_(rollouts_.subspan(sequence.group * request_.samples_per_prompt, request_.samples_per_prompt));
}

}  // namespace keel
