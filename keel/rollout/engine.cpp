#include "keel/rollout/engine.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "keel/core/error.h"
#include "keel/core/foreign_text.h"
#include "keel/core/interrupt.h"
#include "keel/core/options/options.h"
#include "keel/model/network/finite_weights.h"
#include "keel/ops/next_token.h"
#include "keel/ops/packed_attention.h"
#include "keel/ops/sampler.h"
#include "keel/rollout/key_value_store.h"

namespace keel {

void RolloutOptions::describe(OptionTable& table) {
  table.add("samples_per_prompt", samples_per_prompt, "Completions sampled for each prompt; they form a group.",
            at_least(1).at_most(1 << 16));
  table.add("temperature", temperature, "Softmax temperature of sampling; it is part of the policy that is trained.",
            at_least(kMinTemperature).at_most(kMaxTemperature));
  table.add("max_new_tokens", max_new_tokens, "Longest completion in tokens; 0 means the task's own limit.",
            at_least(0).at_most(1 << 27));
  table.add(
      "weights", weights,
      "What the sampler multiplies with: the model's own weights, or a copy rounded to fp8 e4m3 per output channel.",
      one_of({"exact", "fp8"}));
  table.add("max_sequences", max_sequences,
            "Sequences decoded together, though never less than one group; bounds the memory of the key-value cache.",
            at_least(1));
}

namespace {

/// The prompts' keys and values go into the store, their last hidden states [P, H] come back.
Tensor prefill(const CausalLm& model, std::span<const Prompt> prompts, int64_t samples, int64_t slots,
               KeyValueStore& store) {
  std::vector<int64_t> tokens, positions, last_rows;
  std::vector<Segment> segments;
  for (const Prompt& prompt : prompts) {
    const int64_t length = static_cast<int64_t>(prompt.tokens.size());
    segments.push_back({.begin = static_cast<int64_t>(tokens.size()), .length = length});
    for (int64_t i = 0; i < length; ++i) {
      tokens.push_back(prompt.tokens[i]);
      positions.push_back(i);
    }
    last_rows.push_back(static_cast<int64_t>(tokens.size()) - 1);
  }
  const PackedAttention attention(segments, static_cast<int64_t>(tokens.size()), model.config().sliding_window,
                                  model.device());
  const auto attend = [&](int64_t layer, const AttentionRule& rule, const Tensor& query, const Tensor& key,
                          const Tensor& value) {
    for (size_t p = 0; p < segments.size(); ++p)
      store.write_prompt(layer, static_cast<int64_t>(p) * samples, samples, slots,
                         key.narrow(0, segments[p].begin, segments[p].length),
                         value.narrow(0, segments[p].begin, segments[p].length));
    return attention(rule, query, key, value);
  };
  const auto on_device = [&](const std::vector<int64_t>& x) { return at::tensor(x, at::kLong).to(model.device()); };
  return model.forward(on_device(tokens), on_device(positions), attend).index_select(0, on_device(last_rows));
}

/// Records the K likeliest tokens of every row, at the temperature, with its rollout.
void record_topk(const Tensor& logits, double temperature, int64_t k, const std::vector<int64_t>& active,
                 std::span<Rollout> rollouts) {
  const Tensor ids = std::get<1>(logits.topk(std::min(k, logits.size(1)), -1));
  const Tensor host_values = NextToken(logits, temperature).logp_of(ids).cpu(), host_ids = ids.cpu().contiguous();
  const int64_t width = host_ids.size(1);
  for (size_t row = 0; row < active.size(); ++row) {
    Rollout& rollout = rollouts[active[row]];
    const int64_t* first_id = host_ids.const_data_ptr<int64_t>() + static_cast<int64_t>(row) * width;
    const float* first_value = host_values.const_data_ptr<float>() + static_cast<int64_t>(row) * width;
    rollout.topk_ids.insert(rollout.topk_ids.end(), first_id, first_id + width);
    rollout.topk_behavior_logp.insert(rollout.topk_behavior_logp.end(), first_value, first_value + width);
  }
}

void check_temperature(double temperature) {
  if (temperature == 0 || (temperature >= kMinTemperature && temperature <= kMaxTemperature)) return;
  fail(ExitCode::kBadConfiguration, "the temperature is ", temperature,
       "; wanted 0, which takes the likeliest token, or ", kMinTemperature, " to ", kMaxTemperature);
}

void check_tokens(const Prompt& prompt, const Tokenizer& tokenizer, int64_t vocab_size) {
  for (const int32_t token : prompt.tokens)
    if (token < 0 || token >= vocab_size)
      fail(ExitCode::kBadInput, "prompt ", prompt.id, " has the token ", token, ", ",
           printable(tokenizer.decode({&token, 1}, /*skip_special=*/false)), ", and the model a vocabulary of ",
           vocab_size, "; the tokenizer and the model do not belong together, or tokens were added without resizing ",
           "the embedding");
}

/// The sequences that are still being decoded.
struct Active {
  std::vector<int64_t> rollouts;  // index of each row's rollout
  Tensor rollout_ids;             // [S] int64
  Tensor prompt_lengths;          // [S] int64
};

}  // namespace

std::vector<Rollout> RolloutEngine::generate(std::span<const Prompt> prompts, const SamplingRequest& request,
                                             const OnGroup& on_group) const {
  const at::NoGradGuard no_grad;
  const int64_t samples = request.samples_per_prompt;
  check_temperature(request.temperature);
  std::vector<Rollout> rollouts(prompts.size() * samples);
  for (const Prompt& prompt : prompts) check_tokens(prompt, tokenizer_, model_.config().vocab_size);
  for (size_t i = 0; i < rollouts.size(); ++i) {
    const size_t prompt = i / samples;
    if (prompts[prompt].tokens.empty())
      fail(ExitCode::kBadInput, "prompt ", prompts[prompt].id, " is empty; a prompt needs at least one token");
    const int64_t length = static_cast<int64_t>(prompts[prompt].tokens.size()) + request.max_new_tokens;
    if (length > model_.config().max_position_embeddings)
      fail(ExitCode::kBadConfiguration, "prompt ", prompts[prompt].id, " and a completion may take ", length,
           " tokens, the model has ", model_.config().max_position_embeddings,
           " positions; lower rollout.max_new_tokens or choose a larger model.max_positions");
    rollouts[i].id = prompts[prompt].id * samples + i % samples;
    rollouts[i].prompt = static_cast<int64_t>(prompt);
    rollouts[i].policy_version = request.policy_version;
  }
  const size_t prompts_at_once = std::max<int64_t>(1, request.max_sequences / samples);
  for (size_t begin = 0; begin < prompts.size(); begin += prompts_at_once) {
    const size_t count = std::min(prompts_at_once, prompts.size() - begin);
    const std::span<Rollout> mine(rollouts.data() + begin * samples, count * samples);
    decode(prompts.subspan(begin, count), request, mine, on_group);
  }
  return rollouts;
}

void RolloutEngine::decode(std::span<const Prompt> prompts, const SamplingRequest& request, std::span<Rollout> rollouts,
                           const OnGroup& on_group) const {
  const ModelConfig& config = model_.config();
  const int64_t samples = request.samples_per_prompt, sequences = static_cast<int64_t>(rollouts.size());
  int64_t prompt_slots = 0;
  for (const Prompt& prompt : prompts) prompt_slots = std::max<int64_t>(prompt_slots, prompt.tokens.size());

  Active active;
  std::vector<int64_t> starts, ids, lengths;
  for (int64_t s = 0; s < sequences; ++s) {
    const int64_t length = static_cast<int64_t>(prompts[s / samples].tokens.size());
    active.rollouts.push_back(s);
    starts.push_back(prompt_slots - length);
    ids.push_back(static_cast<int64_t>(rollouts[s].id));
    lengths.push_back(length);
  }
  const auto on_device = [&](const std::vector<int64_t>& x) { return at::tensor(x, at::kLong).to(model_.device()); };
  active.rollout_ids = on_device(ids);
  active.prompt_lengths = on_device(lengths);
  KeyValueStore store(config.num_hidden_layers, prompt_slots + request.max_new_tokens, starts,
                      config.num_key_value_heads, config.head_dim, model_.head().options().requires_grad(false));

  const auto ends = [&](int32_t token) {
    if (request.stop_ids.empty()) return tokenizer_.eos_id() == token;
    return std::find(request.stop_ids.begin(), request.stop_ids.end(), token) != request.stop_ids.end();
  };
  Tensor states;  // [sequences, max_new_tokens, H]
  if (request.hidden_states)
    states = at::zeros({sequences, request.max_new_tokens, config.hidden_size},
                       model_.head().options().requires_grad(false));
  std::vector<int64_t> unfinished(prompts.size(), samples);  // of each group
  const auto finish = [&](int64_t s) {
    Rollout& rollout = rollouts[s];
    rollout.text = tokenizer_.decode(rollout.tokens, /*skip_special=*/true);
    if (request.hidden_states)
      rollout.hidden_states = states[s].narrow(0, 0, static_cast<int64_t>(rollout.tokens.size()));
    const int64_t group = s / samples;
    if (--unfinished[group] == 0 && on_group) on_group(rollouts.subspan(group * samples, samples));
  };
  Tensor hidden = prefill(model_, prompts, samples, prompt_slots, store).repeat_interleave(samples, 0);
  for (int64_t step = 0;; ++step) {
    throw_if_stopped();
    const Tensor logits = model_.logits(hidden);
    if (request.top_k > 0) record_topk(logits, request.temperature, request.top_k, active.rollouts, rollouts);
    if (request.hidden_states) states.select(1, step).index_copy_(0, on_device(active.rollouts), hidden);
    const Tensor completion_positions = at::full_like(active.rollout_ids, step);
    const Tensor support =
        nucleus(likeliest(logits, request.temperature, request.only_top_k), request.temperature, request.top_p);
    const Drawn drawn = sample(support, request.temperature, request.seed, active.rollout_ids, completion_positions);

    const Tensor tokens = drawn.tokens.cpu(), logp = drawn.logp.cpu(), other_logp = drawn.other_logp.cpu();
    std::vector<int64_t> going_on;
    for (size_t row = 0; row < active.rollouts.size(); ++row) {
      Rollout& rollout = rollouts[active.rollouts[row]];
      const int32_t token = static_cast<int32_t>(tokens.const_data_ptr<int64_t>()[row]);
      rollout.tokens.push_back(token);
      rollout.behavior_logp.push_back(logp.const_data_ptr<float>()[row]);
      rollout.behavior_other_logp.push_back(other_logp.const_data_ptr<float>()[row]);
      if (!std::isfinite(rollout.behavior_logp.back())) fail_not_finite(model_);
      const bool stopped = request.stop_at_eos && ends(token);
      rollout.finish = stopped ? Finish::kStop : Finish::kLength;
      if (stopped || step + 1 == request.max_new_tokens)
        finish(active.rollouts[row]);
      else
        going_on.push_back(static_cast<int64_t>(row));
    }
    if (going_on.empty()) break;

    Tensor next_tokens = drawn.tokens;
    if (going_on.size() < active.rollouts.size()) {
      const Tensor rows = on_device(going_on);
      std::vector<int64_t> remaining;
      for (const int64_t row : going_on) remaining.push_back(active.rollouts[row]);
      active.rollouts = std::move(remaining);
      active.rollout_ids = active.rollout_ids.index_select(0, rows);
      active.prompt_lengths = active.prompt_lengths.index_select(0, rows);
      next_tokens = next_tokens.index_select(0, rows);
      store.keep(rows);
    }
    const int64_t slot = prompt_slots + step;
    hidden = model_.forward(next_tokens, active.prompt_lengths + step,
                            [&](int64_t layer, const AttentionRule& rule, const Tensor& query, const Tensor& key,
                                const Tensor& value) { return store.attend(layer, rule, slot, query, key, value); });
  }
}

}  // namespace keel
