#include "keel/train/config.h"

#include "keel/core/error.h"
#include "keel/task/tasks.h"

namespace keel {

void RunOptions::describe(OptionTable& table) {
  table.add("dir", dir, "Folder of the run: metrics, samples, checkpoints, report.", not_empty());
  table.add("seed", seed, "Seed of everything random: weights, problems, sampling, shuffling.");
  table.add("device", device, "Where tensors live.", one_of({"cpu", "cuda"}));
  table.add("threads", threads, "CPU threads; 0 means one per core. Bitwise equality needs the same number.",
            at_least(0).at_most(1024));
}

void SftOptions::describe(OptionTable& table) {
  table.add("steps", steps, "At most this many supervised updates before RL; 0 skips the warm-up.", at_least(0));
  table.add("batch", batch, "Demonstrations per update.", at_least(1).at_most(1 << 16));
  table.add("lr", lr, "Learning rate on noise-free demonstrations.", at_least(0));
  table.add("stop_loss", stop_loss,
            "Noise-free demonstrations end when the loss's moving average (0.95) is below this; 0 means never.",
            at_least(0));
  table.add("noisy_steps", noisy_steps, "The last updates, on noisy demonstrations; they count towards steps.",
            at_least(0));
  table.add("noisy_lr", noisy_lr, "Learning rate at the first noisy update.", at_least(0));
  table.add("noisy_lr_end", noisy_lr_end, "Learning rate at the last noisy update; linear in between.", at_least(0));
  table.add("beta2", beta2, "AdamW's second-moment decay in the warm-up.", at_least(0).below(1));
  table.add("max_grad_norm", max_grad_norm, "Gradients are scaled down to this global norm.", above(0));
}

void TrainOptions::describe(OptionTable& table) {
  table.add("steps", steps, "RL steps; each samples one batch of rollouts and makes all its updates.", at_least(0));
  table.add("prompts_per_step", prompts_per_step, "Prompts in a rollout batch.", at_least(1).at_most(1 << 24));
  table.add("sequences_per_update", sequences_per_update,
            "Completions in one optimizer update; 0 means the whole rollout batch.", at_least(0));
  table.add("epochs", epochs, "Passes over a rollout batch.", at_least(1).at_most(1 << 16));
  table.add("tokens_per_batch", tokens_per_batch,
            "Packed tokens in one forward and backward; bounds memory and changes no gradient.", at_least(1));
  table.add("max_skipped_updates", max_skipped_updates,
            "Updates in a row that may be skipped for a non-finite gradient before the run stops.", at_least(0));
  table.add("agreement_limit", agreement_limit,
            "Largest |log p| difference between sampler and trainer, at equal weights, with which a run may start.",
            above(0));
}

void EvalOptions::describe(OptionTable& table) {
  table.add("prompts", prompts, "Held-out prompts per evaluation; 0 evaluates nothing.", at_least(0).at_most(1 << 20));
  table.add("every", every, "RL steps between evaluations; 0 means only before and after.", at_least(0));
  table.add("samples", samples, "Completions sampled for each prompt of an evaluation.", at_least(1).at_most(1 << 16));
  table.add("temperature", temperature, "Sampling temperature of evaluations; 0 is greedy.", at_least(0).at_most(100));
  table.add(
      "top_p", top_p,
      "Evaluations sample from the smallest set of likeliest tokens with this much probability; 1 is all of them.",
      above(0).at_most(1));
  table.add("ks", ks, "The k of pass@k and maj@k, each at most eval.samples; none means 1, 2, 4, ... up to it.",
            at_least(1));
}

void CheckpointOptions::describe(OptionTable& table) {
  table.add("every", every, "Steps between checkpoints; 0 saves only between the phases and at the end.", at_least(0));
  table.add("keep", keep, "Newest checkpoints that are kept.", at_least(1));
}

void RecordOptions::describe(OptionTable& table) {
  table.add("samples_per_step", samples_per_step,
            "Completions per step that go to samples.jsonl with every token's numbers.", at_least(0));
  table.add("certificate_every", certificate_every,
            "RL steps between certificates of improvement in metrics.jsonl, from the first step on; each costs one "
            "forward pass over the step's completions. 0 means none.",
            at_least(0));
}

void Config::describe(OptionTable& table) {
  table.section("run", "Where, with which seed, on what.", run);
  table.section("model", "The network that is made when none is loaded.", model);
  table.section("task", "The built-in task.", task);
  table.section("sft", "Supervised warm-up before RL.", sft);
  table.section("rollout", "How completions are sampled.", rollout);
  table.section("objective", "The method and its trust region.", objective);
  table.section("reference", "The pull to the policy that RL starts from.", reference);
  table.section("optimizer", "AdamW in the RL phase.", optimizer);
  table.section("train", "The RL phase.", train);
  table.section("eval", "Accuracy on held-out prompts.", eval);
  table.section("checkpoint", "What is saved, and when.", checkpoint);
  table.section("record", "What is written down about the tokens.", record);
  add_aliases(table);
}

int64_t Config::sequences_per_update() const {
  return train.sequences_per_update > 0 ? train.sequences_per_update : rollouts_per_step();
}

Config load_config(const ConfigTree& tree, std::vector<std::string>& notes) {
  Config config;
  OptionTable table;
  config.describe(table);
  const std::vector<std::string> loaded = table.load(tree);
  notes.insert(notes.end(), loaded.begin(), loaded.end());
  check_consistency(config);
  return config;
}

namespace {

constexpr int64_t kMaxRolloutsPerStep = int64_t{1} << 24;
constexpr uint64_t kPromptsMeasured = 100;

/// A prompt and its completion must fit into the model; found here, and not after the warm-up at the first rollout.
void check_positions(const Config& c, const Task& task) {
  const Tokenizer tokenizer = task.tokenizer();
  int64_t prompt = 0;
  for (uint64_t i = 0; i < kPromptsMeasured; ++i) {
    const auto tokens = tokenizer.encode(task.problem(c.run.seed, i, Split::kTrain).prompt);
    prompt = std::max(prompt, static_cast<int64_t>(tokens.size()));
  }
  const int64_t completion = c.rollout.max_new_tokens > 0 ? c.rollout.max_new_tokens : task.completion_limit();
  const int64_t longest = std::max(completion, c.sft.steps > 0 ? task.completion_limit() : 0);
  const int64_t needed = prompt + longest;
  if (needed > c.model.max_positions)
    fail(ExitCode::kBadConfiguration, "model.max_positions is ", c.model.max_positions, ", but a prompt of the task ",
         c.task.name, " has up to ", prompt, " tokens and a completion up to ", longest,
         "; set model.max_positions to at least ", needed, " or lower rollout.max_new_tokens");
}

}  // namespace

void check_consistency(const Config& c) {
  const auto refuse = [](const auto&... parts) { fail(ExitCode::kBadConfiguration, parts...); };
  if (c.train.steps > 0 && c.rollout.samples_per_prompt < 2)
    refuse("rollout.samples_per_prompt is ", c.rollout.samples_per_prompt,
           "; the advantage compares completions of one prompt, so a group needs at least 2");
  if (c.rollouts_per_step() > kMaxRolloutsPerStep)
    refuse("train.prompts_per_step ", c.train.prompts_per_step, " x rollout.samples_per_prompt ",
           c.rollout.samples_per_prompt, " are ", c.rollouts_per_step(), " completions in one step; at most ",
           kMaxRolloutsPerStep, " are held at once, lower one of the two");
  if (c.rollouts_per_step() % c.sequences_per_update() != 0)
    refuse("train.sequences_per_update is ", c.sequences_per_update(), ", but a step has ", c.rollouts_per_step(),
           " completions (train.prompts_per_step ", c.train.prompts_per_step, " x rollout.samples_per_prompt ",
           c.rollout.samples_per_prompt, "); choose a divisor of ", c.rollouts_per_step());
  if (c.eval.prompts * c.eval.samples > kMaxRolloutsPerStep)
    refuse("eval.prompts ", c.eval.prompts, " x eval.samples ", c.eval.samples, " are more than the ",
           kMaxRolloutsPerStep, " completions that are held at once; lower one of the two");
  for (const int64_t k : c.eval.ks)
    if (k > c.eval.samples)
      refuse("eval.ks has ", k, ", but eval.samples is ", c.eval.samples,
             "; pass@k and maj@k need at least k samples of a prompt, raise eval.samples");
  make_objective(c.objective, 1.0, c.reference);  // refuses what the method does not have or would not read
  check_positions(c, *make_task(c.task));
}

Config quickstart_config() {
  Config c;
  c.run.dir = "runs/quickstart";
  c.run.threads = 1;  // a network this small gains nothing from a second thread and waits for it
  c.model.initializer_range = 0.05;
  c.model.max_positions = 128;
  c.sft.steps = 1150;
  c.sft.stop_loss = 0.31;
  c.sft.noisy_steps = 150;
  c.rollout.weights = "fp8";
  c.optimizer.lr = 2e-4;
  c.train.steps = 100;
  c.train.sequences_per_update = 32;
  c.eval.prompts = 1000;
  c.checkpoint.every = 20;
  c.record.certificate_every = 1;  // so small a network can afford it
  return c;
}

Json to_json(Config config) {
  OptionTable table;
  config.describe(table);
  return table.dump();
}

std::string to_yaml(Config config, const std::string& heading) {
  OptionTable table;
  config.describe(table);
  return table.dump_yaml(heading);
}

}  // namespace keel
