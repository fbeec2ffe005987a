#include "keel/train/config/foreign_sizes.h"

#include <cmath>
#include <functional>

#include "keel/core/error.h"
#include "keel/train/config/foreign_names.h"

namespace keel {

int64_t updates_per_step(const OptionTable& table) {
  const auto number = [&](const char* name) { return table.get(name).get<int64_t>(); };
  const int64_t rollouts = number("train.prompts_per_step") * number("rollout.samples_per_prompt"),
                update = number("train.sequences_per_update");
  const bool whole = update < 1 || update > rollouts || rollouts % update != 0;  // told with the contradictions
  return number("train.epochs") * (whole ? 1 : rollouts / update);
}

int64_t count_at(const ConfigTree& tree, const std::string& name, int64_t by_default) {
  constexpr int64_t kMaxCount = int64_t{1} << 20;
  const Json* value = said(tree, name);
  if (value == nullptr) return by_default;
  const int64_t count = value->is_number_integer() ? value->get<int64_t>() : 0;
  if (count < 1 || count > kMaxCount)
    fail(ExitCode::kBadConfiguration, "it is computed with ", name, ", which is ", value->dump(),
         "; wanted an integer from 1 to ", kMaxCount);
  return count;
}

namespace {

// TRL's batches -----------------------------------------------------------------------------------------------------

constexpr const char *kGenerationBatch = "generation_batch_size", *kStepsPerGeneration = "steps_per_generation";
const Names kSizeNames = {kGenerationBatch, kStepsPerGeneration, kPerDevice, kAccumulation, kProcesses};

/// In completions.
struct Batches {
  int64_t sampled, update;
};

/// TRL 1.16.0, GRPOConfig.__post_init__: a device's batch is per_device_train_batch_size; steps_per_generation of them,
/// on all devices, are sampled at once, gradient_accumulation_steps of them make an update.
Batches trl_batches(const ConfigTree& tree) {
  constexpr int64_t kTrlsBatch = 8;
  const int64_t accumulation = count_at(tree, kAccumulation, 1),
                at_once = count_at(tree, kPerDevice, kTrlsBatch) * count_at(tree, kProcesses, 1);
  const Json* sampled = said(tree, kGenerationBatch);
  int64_t steps = count_at(tree, kStepsPerGeneration, accumulation);
  // TRL takes one of the two, and writes down both.
  if (sampled != nullptr && said(tree, kStepsPerGeneration) != nullptr && *sampled != at_once * steps)
    fail(ExitCode::kBadConfiguration, "got ", sampled->dump(), ", but ", kStepsPerGeneration, " (",
         place_of(tree, kStepsPerGeneration), ") says the same in another unit, by ", kPerDevice, " x ", kProcesses,
         ": ", at_once * steps, "; keep one of the two, or set ", kProcesses, " to the GPUs that it is for");
  if (sampled != nullptr) {
    const int64_t batch = sampled->is_number_integer() ? sampled->get<int64_t>() : 0;
    if (batch < 1 || batch % at_once != 0)
      fail(ExitCode::kBadConfiguration, "got ", sampled->dump(), ", wanted a multiple of ", kPerDevice, " x ",
           kProcesses, ", ", at_once);
    steps = batch / at_once;
  }
  if (steps % accumulation != 0)
    fail(ExitCode::kBadConfiguration, kAccumulation, " is ", accumulation, ", but what is sampled at once is cut into ",
         steps, " parts (", sampled != nullptr ? kGenerationBatch : kStepsPerGeneration,
         "), so that an update would be made of several batches; wanted a divisor of ", steps);
  return {steps * at_once, accumulation * at_once};
}

/// Several names make one number: the first that is there gives it.
AliasConverter of_batches(std::string mine, std::function<Json(const Batches&, const OptionTable&)> number,
                          bool needs_update = true) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable& table) -> Json {
    if (value.is_null()) return kSetsNothing;
    bool cuts = false;
    std::string first;
    for (const std::string& name : kSizeNames) {
      if (said(tree, name) == nullptr) continue;
      if (first.empty()) first = name;
      cuts = cuts || name != kGenerationBatch;
    }
    if (first != mine || (needs_update && !cuts)) return kSetsNothing;
    // What is sampled at once need not be cut.
    return number(cuts ? trl_batches(tree) : Batches{value.is_number_integer() ? value.get<int64_t>() : 0, 0}, table);
  };
}

Json prompts_of(const Batches& batches, const OptionTable& table) {
  constexpr int64_t kMaxCount = int64_t{1} << 40;
  const int64_t samples = table.get("rollout.samples_per_prompt").get<int64_t>();
  if (batches.sampled < 1 || batches.sampled > kMaxCount || batches.sampled % samples != 0)
    fail(ExitCode::kBadConfiguration, "got ", batches.sampled,
         " completions, wanted a multiple of rollout.samples_per_prompt, ", samples);
  return batches.sampled / samples;
}

Json update_of(const Batches& batches, const OptionTable&) { return batches.update; }

/// TRL draws the parts of what was sampled from single completions.
Json order_of(const Batches& batches, const OptionTable&) {
  return batches.sampled > batches.update ? Json("rollouts") : kSetsNothing;
}

// How long ----------------------------------------------------------------------------------------------------------

bool is_count(const Json& value) { return value.is_number_integer() && value > 0; }

/// TRL counts updates; nothing above 0 leaves it to num_train_epochs.
Json steps_of_updates(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  if ((value.is_number_integer() && value <= 0) || value.is_null() || passes_are_typed(tree)) return kSetsNothing;
  const int64_t updates = updates_per_step(table);
  if (!is_count(value) || value.get<int64_t>() % updates != 0)
    fail(ExitCode::kBadConfiguration, "got ", value.dump(), " updates, wanted a multiple of ", updates,
         ", the updates of a rollout batch (or -1); Keel counts those: set train.steps");
  return value.get<int64_t>() / updates;
}

/// Some updates as rollout batches, rounded up; below 1 it is a share of max_steps.
int64_t batches_of_updates(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  const Json* all = said(tree, "max_steps");
  const bool is_share = value.is_number() && value > 0 && value < 1 && all != nullptr && is_count(*all);
  if (!is_share && !is_count(value))
    fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted a number of updates, at least 1; a share of ",
         "all steps is read where max_steps says how many they are");
  const int64_t count = is_share ? static_cast<int64_t>(std::ceil(value.get<double>() * all->get<double>()))
                                 : value.get<int64_t>(),
                updates = updates_per_step(table);
  return count / updates + (count % updates > 0 ? 1 : 0);
}

/// An interval in updates, where `strategy` says that it counts ("steps") and is not left to its default.
AliasConverter interval(std::string strategy, std::string by_default) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable& table) -> Json {
    std::string said_there = word_at(tree, strategy);
    if (said_there.empty() && strategy == "eval_strategy") said_there = word_at(tree, "evaluation_strategy");
    if (value.is_null() || (said_there.empty() ? by_default : said_there) != "steps") return kSetsNothing;
    return batches_of_updates(value, tree, table);
  };
}

/// When TRL saves or evaluates: after some updates, which another name counts, or never.
AliasConverter of_strategy(std::string ours, Json never) {
  return [=](const Json& value, const ConfigTree&, const OptionTable&) -> Json {
    const std::string word = word_of(value);
    if (word == "no" || value == false) return never;
    if (!contains({"steps", "epoch", "best"}, word))
      fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted no, steps, epoch or best; or set ", ours,
           ", the rollout batches in between");
    return kSetsNothing;
  };
}

// Without eval_steps it is logging_steps (transformers' TrainingArguments), 10 in GRPOConfig.

Json eval_strategy(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  constexpr int64_t kTrlsLoggingSteps = 10;
  const bool says_no_steps = said(tree, "eval_steps") == nullptr && said(tree, "logging_steps") == nullptr;
  if (word_of(value) == "steps" && says_no_steps) return batches_of_updates(kTrlsLoggingSteps, tree, table);
  return of_strategy("eval.every", kSetsNothing)(value, tree, table);
}

Json logging_steps(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  return said(tree, "eval_steps") == nullptr ? interval("eval_strategy", "no")(value, tree, table) : kSetsNothing;
}

// What says again what another name says ----------------------------------------------------------------------------

/// Sets nothing where it is what the setting has; refused where it differs.
AliasConverter same_as(std::string ours) {
  return [=](const Json& value, const ConfigTree&, const OptionTable& table) -> Json {
    if (value.is_null() || value == table.get(ours)) return kSetsNothing;
    fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", but ", ours, " is ", table.get(ours).dump(),
         ", and there is no other such limit; set that, and remove it");
  };
}

Json all_below_zero(const Json& value, const ConfigTree&, const OptionTable&) {
  return value == -1 || value.is_null() ? kSetsNothing : value;
}

}  // namespace

void add_interval_aliases(OptionTable& t, const std::string& steps, const std::string& every,
                          const std::string& conversion) {
  const std::string rounded = conversion.empty() ? "" : conversion + ", rounded up", never = "no is 0; see save_steps";
  t.alias("max_steps", steps, "TRL", steps_of_updates, conversion);
  t.alias("save_steps", "checkpoint.every", "TRL", interval("save_strategy", "steps"), rounded);
  t.alias("eval_steps", every, "TRL", interval("eval_strategy", "no"),
          (rounded.empty() ? "" : rounded + "; ") + "nothing where eval_strategy is not steps");
  t.alias("save_strategy", "checkpoint.every", "TRL", of_strategy("checkpoint.every", 0), never);
  for (const char* name : {"eval_strategy", "evaluation_strategy"})
    t.alias(name, every, "TRL", eval_strategy, "steps without eval_steps is logging_steps, or 10 updates");
  t.alias("logging_steps", every, "TRL", logging_steps,
          "where eval_strategy is steps without eval_steps; else nothing: every step is in metrics.jsonl");
}

void add_size_aliases(OptionTable& t) {
  const std::string parts = "per_device_train_batch_size x num_processes x steps_per_generation";
  for (const std::string& name : kSizeNames) {
    t.alias(name, "train.prompts_per_step", "TRL", of_batches(name, prompts_of, /*needs_update=*/false),
            name == kGenerationBatch ? "divided by rollout.samples_per_prompt" : parts + " / num_generations");
    t.alias(name, "train.sequences_per_update", "TRL", of_batches(name, update_of),
            "per_device_train_batch_size x num_processes x gradient_accumulation_steps");
    t.alias(name, "train.shuffle", "TRL", of_batches(name, order_of),
            "rollouts where a batch has several updates, which TRL draws from single completions");
  }
  add_interval_aliases(t, "train.steps", "eval.every", "divided by the updates of a rollout batch");
  for (const char* name : {"reward_model.reward_kwargs.max_resp_len", "reward.reward_kwargs.max_resp_len",
                           "actor_rollout_ref.rollout.response_length"})
    t.alias(name, "rollout.max_new_tokens", "verl", same_as("rollout.max_new_tokens"),
            "sets nothing where it is the same; all else is refused");
  t.alias("actor_rollout_ref.rollout.prompt_length", "data.max_prompt_tokens", "verl",
          same_as("data.max_prompt_tokens"), "sets nothing where it is the same; all else is refused");
  t.alias("data.val_max_samples", "eval.prompts", "verl", all_below_zero, "-1 is all");
  t.alias("actor_rollout_ref.rollout.val_kwargs.top_k", "eval.top_k", "verl", all_below_zero, "-1 is 0, all tokens");
}

}  // namespace keel
