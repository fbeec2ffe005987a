#include "keel/rollout/engine.h"

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>

#include "keel/core/error.h"
#include "keel/core/interrupt.h"
#include "keel/core/options/options.h"
#include "keel/core/strings.h"
#include "keel/core/untrusted_text.h"
#include "keel/ops/cuda_graph.h"
#include "keel/ops/sampler.h"
#include "keel/rollout/sampling_weights.h"

namespace keel {

void RolloutOptions::describe(OptionTable& table) {
  std::vector<std::string> precisions;
  for (const SamplingPrecision& precision : sampling_precisions()) precisions.push_back(precision.name);
  table.add("samples_per_prompt", samples_per_prompt, "Completions sampled for each prompt; they form a group.",
            at_least(1).at_most(1 << 16));
  table.add(
      "temperature", temperature, "Softmax temperature of sampling; it is part of the policy that is trained.",
      at_least(
          kMinTemperature,
          "greedy samples cannot be trained on: a token of probability 1 has no ratio pi / mu. Train at 1, and set "
          "eval.temperature=0 for greedy evaluations")
          .at_most(kMaxTemperature));
  table.add("top_k", filter.top_k,
            "Samples from this number of most likely tokens. 0: all tokens. The trainer restricts its distributions to "
            "the tokens that top_k, top_p and min_p kept; docs/methods.md has the equation.",
            at_least(0).at_most(1 << 27));
  table.add("top_p", filter.top_p,
            "Samples from the smallest set of most likely tokens whose probabilities reach this sum. 1: all tokens.",
            above(0).at_most(1));
  table.add("min_p", filter.min_p,
            "Samples from tokens with at least this fraction of the highest probability. 0: all tokens.",
            at_least(0).at_most(1));
  table.add("max_new_tokens", max_new_tokens, "Maximum completion length in tokens; 0 means the task's own limit.",
            at_least(0).at_most(1 << 27));
  table.add(
      "stop_strings", stop_strings,
      "Strings that end a completion in training and evaluations, in addition to the model's stop tokens. Tokens up "
      "to the one that completes the string are trained; rewards get the text before the string.");
  table.add("weights", weights,
            "Precision of the sampler: the model's own weights (exact), or a copy of the linear layers rounded in "
            "every step. "
            "Some precisions also round activations, keys and values; docs/mismatch.md has the list.",
            one_of(precisions));
  table.add(
      "logit_noise", logit_noise,
      "Standard deviation of normal noise added to every logit of the sampler. It is part of the recorded mu; the "
      "trainer does not add it.",
      at_least(0).at_most(100));
  table.add("bitwise", bitwise,
            "Sampler and trainer sum in one order, so that their log-probs are bitwise equal at equal weights. Needs "
            "rollout.weights=exact, and float32 on a CPU or bf16 or fp16 on a GPU.");
  table.add("max_sequences", max_sequences,
            "Maximum number of sequences decoded together; a waiting one starts when one ends. Bounds the KV cache.",
            at_least(1).at_most(kMaxSequences));
  table.add(
      "staleness", staleness,
      "Exact number of steps that the sampler's weights are behind the trainer's; sampling runs during training. 0 "
      "samples and trains in turn. Each step costs one more copy of the trained weights.",
      at_least(0).at_most(64));
  table.add("dynamic_sampling", dynamic_sampling,
            "Drops groups whose rewards are all equal and samples further prompts until a step has "
            "train.prompts_per_step groups (DAPO).");
  table.add(
      "max_batches", max_batches,
      "Maximum number of prompt batches that dynamic_sampling samples per step. The step then trains on the groups "
      "that it has.",
      at_least(1).at_most(1 << 16));
}

namespace {

void check_temperature(double temperature) {
  if (temperature == 0 || (temperature >= kMinTemperature && temperature <= kMaxTemperature)) return;
  fail(ExitCode::kBadConfiguration, "the temperature is ", temperature, "; expected 0 (greedy), or ", kMinTemperature,
       " to ", kMaxTemperature);
}

void check_counts(std::span<const Prompt> prompts, const SamplingRequest& request) {
  const auto check = [](int64_t count, const auto&... name) {
    if (count < 1) fail(ExitCode::kBadConfiguration, name..., " is ", count, "; expected 1 or more");
  };
  check(request.samples_per_prompt, "samples_per_prompt");
  check(request.max_sequences, "max_sequences");
  if (!request.prompt_max_new_tokens.empty() && request.prompt_max_new_tokens.size() != prompts.size())
    fail(ExitCode::kBadConfiguration, "prompt_max_new_tokens has ", request.prompt_max_new_tokens.size(),
         " limits for ", prompts.size(), " prompts; expected one for each, or none to use max_new_tokens for all");
  for (size_t i = 0; i < prompts.size(); ++i)
    check(request.max_new_tokens_of(i),
          request.prompt_max_new_tokens.empty() ? "max_new_tokens" : "prompt_max_new_tokens", " of prompt ",
          prompts[i].id);
}

void check_tokens(const Prompt& prompt, const Tokenizer& tokenizer, int64_t vocab_size) {
  for (const int32_t token : prompt.tokens)
    if (token < 0 || token >= vocab_size)
      fail(ExitCode::kBadInput, "prompt ", prompt.id, " has the token ", token, ", ",
           printable(tokenizer.decode({&token, 1}, /*skip_special=*/false)), ", but the model has a vocabulary of ",
           vocab_size, ". The tokenizer and the model do not belong together, or tokens were added without resizing ",
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
      fail(ExitCode::kBadConfiguration, "prompt ", prompt.id, " and its completion may take ", length,
           " tokens, but the model has ", model_.config().max_position_embeddings,
           " positions. Lower rollout.max_new_tokens, or raise model.max_positions.");
  }
  SamplingRequest resolved = request;
  if (resolved.stop_ids.empty() && tokenizer_.eos_id()) resolved.stop_ids = {*tokenizer_.eos_id()};
  if (!request.stop_at_eos) resolved.stop_ids.clear();
  return Decoding(model_, tokenizer_, prompts, resolved);
}

std::vector<Rollout> RolloutEngine::generate(std::span<const Prompt> prompts, const SamplingRequest& request,
                                             const RolloutEvents& events) const {
  SamplingRequest attempt = request;
  for (bool halved = false;; halved = true) {
    bool returned_groups = false;
    try {
      Decoding decoding = submit(prompts, attempt);
      while (!decoding.done()) {
        throw_if_stopped();
        for (const std::span<Rollout> group : decoding.poll()) {
          returned_groups = true;
          if (events.group) events.group(group);
        }
        if (events.progress) events.progress(decoding.progress());
      }
      return decoding.take();
    } catch (const c10::OutOfMemoryError& error) {
      const int64_t batch_size = std::min<int64_t>(attempt.max_sequences, prompts.size() * attempt.samples_per_prompt);
      constexpr double kGiB = 1 << 30;
      const std::string cache_gib =
          fixed(static_cast<double>(Decoding::kv_cache_bytes(model_, prompts, attempt)) / kGiB, 1);
      if (halved || returned_groups || batch_size < 2)
        fail(ExitCode::kBadConfiguration, "rollout: the memory of ", model_.device().str(), " is too small to decode ",
             batch_size, " sequences together: their KV cache alone takes up to ", cache_gib,
             " GiB. Fix: ", attempt.memory_hint, " (", std::string_view(error.what_without_backtrace()).substr(0, 300),
             ")");
      attempt.max_sequences = batch_size / 2;
      {
        const std::scoped_lock lock(cuda_graph_mutex());
        at::accelerator::emptyCache();  // the next attempt needs blocks of other sizes
      }
      if (events.warning)
        events.warning("the device's memory is too small to decode " + std::to_string(batch_size) +
                       " sequences together: their KV cache alone takes up to " + cache_gib + " GiB; continuing with " +
                       std::to_string(attempt.max_sequences));
    }
  }
}

}  // namespace keel
