#include "keel/rollout/engine.h"

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>

#include "keel/core/error.h"
#include "keel/core/foreign_text.h"
#include "keel/core/interrupt.h"
#include "keel/core/options/options.h"
#include "keel/core/strings.h"
#include "keel/ops/cuda_graph.h"
#include "keel/ops/sampler.h"
#include "keel/rollout/sampling_weights.h"

namespace keel {

void RolloutOptions::describe(OptionTable& table) {
  std::vector<std::string> precisions;
  for (const SamplingPrecision& precision : sampling_precisions()) precisions.push_back(precision.name);
  table.add("samples_per_prompt", samples_per_prompt, "Completions sampled for each prompt; they form a group.",
            at_least(1).at_most(1 << 16));
  table.add("temperature", temperature, "Softmax temperature of sampling; it is part of the policy that is trained.",
            at_least(kMinTemperature,
                     "towards 0 sampling is greedy, and a token that is drawn for certain has no ratio pi / mu to "
                     "train with: train at 1, and set eval.temperature=0 where evaluations shall be greedy")
                .at_most(kMaxTemperature));
  table.add("max_new_tokens", max_new_tokens, "Longest completion in tokens; 0 means the task's own limit.",
            at_least(0).at_most(1 << 27));
  table.add("stop_strings", stop_strings,
            "Strings that end a completion, in training and evaluations, beside the model's stop tokens. The tokens up "
            "to the one that completes a string are trained; rewards see the text before it.");
  table.add(
      "weights", weights,
      "What the sampler multiplies with: the model's own weights, or a copy of the linear layers' that is rounded "
      "anew in every step; docs/mismatch.md says how, and which round activations, keys and values too.",
      one_of(precisions));
  table.add("logit_noise", logit_noise,
            "Deviation of normal noise on every logit that the sampler draws from; it is part of the recorded mu, and "
            "the trainer knows nothing of it.",
            at_least(0).at_most(100));
  table.add(
      "bitwise", bitwise,
      "Sampler and trainer add up in one order, so that their log-probabilities are equal to the last bit at equal "
      "weights: in float32 on a CPU, in bf16 and fp16 on a GPU; with exact weights.");
  table.add("max_sequences", max_sequences,
            "Sequences decoded together: the next one starts when one has ended. Bounds the memory of keys and values.",
            at_least(1));
  table.add("staleness", staleness,
            "Steps that the sampler is behind, exactly: each batch is sampled beside the training, with the weights "
            "from so many steps before the ones that it is trained on. 0 samples and trains in turn; each step more "
            "costs a copy of what is trained.",
            at_least(0).at_most(64));
  table.add("dynamic_sampling", dynamic_sampling,
            "Groups whose rewards are all equal are dropped, and further prompts sampled, until a step has "
            "train.prompts_per_step groups (DAPO).");
  table.add("max_batches", max_batches,
            "Batches of prompts that dynamic_sampling samples for a step at the most; it goes on with the groups that "
            "there are then.",
            at_least(1).at_most(1 << 16));
}

namespace {

void check_temperature(double temperature) {
  if (temperature == 0 || (temperature >= kMinTemperature && temperature <= kMaxTemperature)) return;
  fail(ExitCode::kBadConfiguration, "the temperature is ", temperature,
       "; expected 0, which takes the likeliest token, or ", kMinTemperature, " to ", kMaxTemperature);
}

void check_counts(std::span<const Prompt> prompts, const SamplingRequest& request) {
  const auto check = [](int64_t count, const auto&... name) {
    if (count < 1) fail(ExitCode::kBadConfiguration, name..., " is ", count, "; expected 1 or more");
  };
  check(request.samples_per_prompt, "samples_per_prompt");
  check(request.max_sequences, "max_sequences, how many are decoded together,");
  if (!request.prompt_max_new_tokens.empty() && request.prompt_max_new_tokens.size() != prompts.size())
    fail(ExitCode::kBadConfiguration, "there are ", request.prompt_max_new_tokens.size(), " limits for ",
         prompts.size(),
         " prompts; expected one for each in prompt_max_new_tokens, or none and max_new_tokens for all");
  for (size_t i = 0; i < prompts.size(); ++i)
    check(request.max_new_tokens_of(i),
          request.prompt_max_new_tokens.empty() ? "max_new_tokens" : "the limit in prompt_max_new_tokens",
          " of prompt ", prompts[i].id);
}

void check_tokens(const Prompt& prompt, const Tokenizer& tokenizer, int64_t vocab_size) {
  for (const int32_t token : prompt.tokens)
    if (token < 0 || token >= vocab_size)
      fail(ExitCode::kBadInput, "prompt ", prompt.id, " has the token ", token, ", ",
           printable(tokenizer.decode({&token, 1}, /*skip_special=*/false)), ", and the model a vocabulary of ",
           vocab_size, "; the tokenizer and the model do not belong together, or tokens were added without resizing ",
           "the embedding");
}

}  // namespace

Decoding RolloutEngine::submit(std::span<const Prompt> prompts, const SamplingRequest& request) const {
  check_temperature(request.temperature);
  check_counts(prompts, request);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const Prompt& prompt = prompts[i];
    check_tokens(prompt, tokenizer_, model_.config().vocab_size);
    if (prompt.tokens.empty())
      fail(ExitCode::kBadInput, "prompt ", prompt.id, " is empty; a prompt needs at least one token");
    const int64_t length = static_cast<int64_t>(prompt.tokens.size()) + request.max_new_tokens_of(i);
    if (length > model_.config().max_position_embeddings)
      fail(ExitCode::kBadConfiguration, "prompt ", prompt.id, " and a completion may take ", length,
           " tokens, the model has ", model_.config().max_position_embeddings,
           " positions; lower rollout.max_new_tokens or choose a larger model.max_positions");
  }
  SamplingRequest resolved = request;
  if (resolved.stop_ids.empty() && tokenizer_.eos_id()) resolved.stop_ids = {*tokenizer_.eos_id()};
  if (!request.stop_at_eos) resolved.stop_ids.clear();
  return Decoding(model_, tokenizer_, prompts, resolved);
}

std::vector<Rollout> RolloutEngine::generate(std::span<const Prompt> prompts, const SamplingRequest& request,
                                             const RolloutEvents& events) const {
  SamplingRequest asked = request;
  for (bool halved = false;; halved = true) {
    bool handed_over = false;
    try {
      Decoding decoding = submit(prompts, asked);
      while (!decoding.done()) {
        throw_if_stopped();
        for (const std::span<Rollout> group : decoding.poll()) {
          handed_over = true;
          if (events.group) events.group(group);
        }
        if (events.progress) events.progress(decoding.progress());
      }
      return decoding.take();
    } catch (const c10::OutOfMemoryError& error) {
      const int64_t slots = std::min<int64_t>(asked.max_sequences, prompts.size() * asked.samples_per_prompt);
      constexpr double kGiB = 1 << 30;
      const std::string need = fixed(static_cast<double>(Decoding::kv_cache_bytes(model_, prompts, asked)) / kGiB, 1);
      if (halved || handed_over || slots < 2)
        fail(ExitCode::kBadConfiguration, "rollout: the memory of ", model_.device().str(), " does not hold ", slots,
             " sequences together, whose keys and values alone take up to ", need, " GiB; ", asked.memory_hint, " (",
             std::string_view(error.what_without_backtrace()).substr(0, 300), ")");
      asked.max_sequences = slots / 2;
      {
        const std::scoped_lock lock(cuda_graph_mutex());
        at::accelerator::emptyCache();  // blocks of another size, of which halves would remain
      }
      if (events.warning)
        events.warning("the device's memory does not hold " + std::to_string(slots) +
                       " sequences together, whose keys and values alone take up to " + need + " GiB: going on with " +
                       std::to_string(asked.max_sequences));
    }
  }
}

}  // namespace keel
