#include "keel/train/config/foreign_remarks.h"

#include <algorithm>
#include <functional>

#include "keel/core/strings.h"
#include "keel/data/row_prompt.h"
#include "keel/train/config/foreign_names.h"
#include "keel/train/config/foreign_schedule.h"

namespace keel {
namespace {

// Of the loss -------------------------------------------------------------------------------------------------------

/// Whether one of the names has a value that does something.
bool is_used(const ConfigTree& tree, const Names& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    const Json* value = said(tree, name);
    return value != nullptr && *value != false && *value != 0 && *value != "none";
  });
}

constexpr const char* kFiltered = "algorithm.filter_groups.enable";

bool names_function(const ConfigTree& tree, const Names& functions) {
  const Json* value = said(tree, "reward_funcs");
  if (value == nullptr) return false;
  const Json list = value->is_array() ? *value : Json::array({*value});
  return std::any_of(list.begin(), list.end(), [&](const Json& name) { return contains(functions, word_of(name)); });
}

/// Whether TRL evaluates while it trains.
bool evaluates_at(const ConfigTree& tree, const char* strategy) {
  return !contains({"", "no", "false"}, word_at(tree, strategy));
}

/// Whether verl's actor has another schedule, warm-up or weight decay than its critic has where nothing is said of it.
bool differs_from_the_critics(const ConfigTree& tree) {
  const Json* decay = said(tree, kVerlOptim + "weight_decay");
  return moves_the_actors_rate(tree) || (decay != nullptr && *decay != 0.01);
}

struct Remark {
  std::string program;
  std::function<bool(const ConfigTree& tree)> holds;
  std::string text;
  bool of_evaluation = false;
};

const std::vector<Remark>& remarks() {
  static const Names kByTokens = {"bnpo", "dapo", "cispo", "vespo"};  // TRL's losses that are means over tokens
  static const Names kBySequences = {"sapo", "geo_mean"};
  static const std::vector<Remark> kRemarks = {
      {"TRL",
       [](const ConfigTree& tree) {
         const Json* corrected = said(tree, "use_bias_correction_kl");
         return is_used(tree, {"beta"}) && (corrected == nullptr || *corrected == true);
       },
       "beta: TRL also multiplies each token's KL by its ratio (use_bias_correction_kl), Keel does not"},
      {"TRL",
       [](const ConfigTree& tree) {
         return is_used(tree, {"entropy_coef"}) && !contains(kByTokens, word_at(tree, "loss_type"));
       },
       "entropy_coef: TRL takes the mean of the entropy over all tokens whatever loss_type is, Keel averages it as the "
       "loss does (objective.aggregation); a coefficient of another size may be needed"},
      {"TRL",
       [](const ConfigTree& tree) {
         return is_used(tree, {"steps_per_generation", "generation_batch_size"}) &&
                contains(kByTokens, word_at(tree, "loss_type").empty() ? "dapo" : word_at(tree, "loss_type"));
       },
       "loss_type: TRL divides every update of a batch of completions by the batch's tokens and the number of its "
       "updates, Keel by the update's own tokens: the same on average"},
      {"TRL",
       [](const ConfigTree& tree) {
         const Json* parts = said(tree, "gradient_accumulation_steps");
         return word_at(tree, "loss_type") == "bnpo" && parts != nullptr && *parts != 1;
       },
       "loss_type bnpo: TRL averages over the tokens of each micro-batch and then over those of an update, Keel over "
       "all tokens of the update"},
      {"TRL",
       [](const ConfigTree& tree) {
         const Json* temperature = said(tree, "temperature");
         return temperature != nullptr && *temperature != 1 && said(tree, "eval.temperature") == nullptr;
       },
       "temperature: TRL evaluates at it too, Keel at eval.temperature",
       /*of_evaluation=*/true},
      {"TRL",
       [](const ConfigTree& tree) {
         const std::string loss = word_at(tree, "loss_type");
         return is_used(tree, {"mask_truncated_completions"}) && !loss.empty() && !contains(kByTokens, loss);
       },
       "mask_truncated_completions: with this loss_type TRL divides by all completions, Keel by those that are not cut "
       "off, so that the gradient is larger here the more are; max_grad_norm may clip more of it"},
      {"TRL",
       [](const ConfigTree& tree) {
         const bool evaluates = evaluates_at(tree, "eval_strategy") || evaluates_at(tree, "evaluation_strategy");
         return evaluates && is_used(tree, {"dataset_name", "data.files"}) &&
                !is_used(tree, {"data.eval_files", "data.held_out"});
       },
       "eval_strategy: TRL evaluates on the data set's test split, and stops where there is none; here nothing is "
       "evaluated without data.eval_files or data.held_out, and neither is set"},
      {"TRL",
       [](const ConfigTree& tree) {
         return contains({"epoch", "best"}, word_at(tree, "save_strategy")) ||
                contains({"epoch", "best"}, word_at(tree, "eval_strategy"));
       },
       "save_strategy, eval_strategy: passes over the data are not counted here; checkpoint.every and eval.every count "
       "rollout batches"},
      {"TRL",
       [](const ConfigTree& tree) {
         return names_function(tree, {"accuracy_reward", "reasoning_accuracy_reward"});
       },
       "reward_funcs: TRL's accuracy_reward reads an answer in \\boxed{} or in LaTeX behind words such as \"the answer "
       "is\", gives 0 for any other, and leaves out rows whose solution it cannot read; math reads any final answer "
       "and "
       "asks for no form. To keep TRL's, set reward.functions to python:FILE.py, a file with the line `from "
       "trl.rewards "
       "import accuracy_reward as reward`"},
      {"TRL", [](const ConfigTree& tree) { return names_function(tree, {"accuracy"}); },
       "reward_funcs: open-r1's accuracy reads an answer in \\boxed{} or in LaTeX, gives 0 for any other, and leaves "
       "out "
       "rows whose solution it cannot read; math reads any final answer and asks for no form. To keep open-r1's, set "
       "reward.functions to python:FILE.py, a file with the line `from open_r1.rewards import accuracy_reward as "
       "reward`"},
      {"TRL",
       [](const ConfigTree& tree) {
         return said(tree, "num_processes") == nullptr &&
                is_used(tree, {"per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation"});
       },
       "num_processes is taken for 1: batches are those of one GPU; a recipe that is started on more needs "
       "num_processes=N behind it"},
      {"TRL", [](const ConfigTree& tree) { return is_used(tree, {"max_prompt_length"}); },
       "max_prompt_length: TRL's versions that had it cut longer prompts from the left, Keel leaves them out and "
       "counts them",
       /*of_evaluation=*/true},
      {"TRL", [](const ConfigTree& tree) { return is_used(tree, {"load_best_model_at_end"}); },
       "load_best_model_at_end: a run stands for its newest checkpoint all the same; RUN/checkpoints/best is the best "
       "one, and a model wherever one is named"},
      {"TRL",
       [](const ConfigTree& tree) {
         return is_used(tree, {"load_best_model_at_end"}) && said(tree, "metric_for_best_model") == nullptr &&
                said(tree, "checkpoint.best_metric") == nullptr;
       },
       "metric_for_best_model: TRL's default is eval_loss, of which less is better, Keel's eval/accuracy or "
       "eval/reward, of which more is"},
      {"verl",
       [](const ConfigTree& tree) {
         return contains(kBySequences, word_at(tree, kLossMode)) &&
                is_used(tree, {"actor_rollout_ref.actor.use_kl_loss", "actor_rollout_ref.actor.entropy_coeff"});
       },
       "verl averages the KL and the entropy beside this loss by loss_agg_mode (token-mean where it is not set), Keel "
       "as the loss itself, which is seq-mean-token-mean"},
      {"verl",
       [](const ConfigTree& tree) {
         return word_at(tree, kLossMode) == "gspo" && word_at(tree, kLossAggMode) != "seq-mean-token-mean";
       },
       "loss_mode gspo: verl 0.9.1, which is meant here, averages by loss_agg_mode (token-mean where it is not set); "
       "verl 0.7.1 to 0.9.0 always average as seq-mean-token-mean: set loss_agg_mode to it for theirs"},
      {"verl",
       [](const ConfigTree& tree) {
         return contains({"", "gae"}, word_at(tree, kAdvEstimator)) && differs_from_the_critics(tree);
       },
       "actor_rollout_ref.actor.optim: the critic follows the policy's schedule, warm-up and weight decay (section "
       "optimizer), verl's has its own (critic.optim): a constant rate, no warm-up and weight decay 0.01 where nothing "
       "is said"},
      {"verl", [](const ConfigTree& tree) { return is_used(tree, {kFiltered}); },
       "algorithm.filter_groups: verl ends with an error where max_num_gen_batches did not fill a step, Keel makes it "
       "with the groups that there are"},
      {"OpenRLHF", [](const ConfigTree& tree) { return said(tree, "init_kl_coef") == nullptr; },
       "OpenRLHF also takes 0.01 times the KL to the starting policy off the rewards, Keel does not "
       "(reference.kl_in_reward does)"},
      {"OpenRLHF", [](const ConfigTree& tree) { return is_used(tree, {"dynamic_filtering"}); },
       "dynamic_filtering: OpenRLHF keeps groups whose mean reward is between 0 and 1 "
       "(dynamic_filtering_reward_range), "
       "Keel those whose rewards differ: the same where rewards are 0 and 1"}};
  return kRemarks;
}

struct Need {
  std::string name, value;  // "set": any that is one
};

bool is_met(const ConfigTree& tree, const Need& need) {
  const std::string word = word_at(tree, need.name);
  return need.value == "set" ? !word.empty() : word == need.value;
}

/// What verl reads only beside something else, which by default is not so.
void note_unread(const ConfigTree& tree, std::vector<std::string>& notes) {
  const std::string algorithm = "algorithm.", kl = algorithm + "kl_ctrl.", groups = algorithm + "filter_groups.";
  const Need in_reward = {algorithm + "use_kl_in_reward", "true"}, adaptive = {kl + "type", "adaptive"},
             filtered = {kFiltered, "true"};
  std::vector<std::pair<std::string, std::vector<Need>>> parts = {{algorithm + "kl_penalty", {in_reward}},
                                                                  {kl + "kl_coef", {in_reward}},
                                                                  {kl + "type", {in_reward}},
                                                                  {kl + "target_kl", {in_reward, adaptive}},
                                                                  {kl + "horizon", {in_reward, adaptive}},
                                                                  {groups + "metric", {filtered}},
                                                                  {groups + "max_num_gen_batches", {filtered}}};
  for (const std::string& section : kVerlOverlong)
    for (const char* part : {".len", ".penalty_factor"})
      parts.push_back({section + part, {{section + ".enable", "true"}}});
  for (const std::string& section : kVerlRewardFunction)
    parts.push_back({section + ".name", {{section + ".path", "set"}}});
  for (const auto& [name, needs] : parts) {
    const auto unmet = std::find_if(needs.begin(), needs.end(), [&](const Need& need) { return !is_met(tree, need); });
    if (said(tree, name) != nullptr && unmet != needs.end())
      notes.push_back(name + " does nothing: verl reads it only where " + unmet->name + " is " + unmet->value);
  }
}

/// A critic's settings, which verl reads beside gae alone.
void note_unread_of_critic(const ConfigTree& tree, const OptionTable& table, std::vector<std::string>& notes) {
  const Names of_critic = {"critic.optim.lr", "algorithm.gamma", "algorithm.lam", "critic.cliprange_value",
                           "trainer.critic_warmup"};
  for (const Alias& alias : table.aliases()) {
    const Json* value = contains(of_critic, alias.name) ? said(tree, alias.name) : nullptr;
    const bool is_off = value != nullptr && alias.name == "trainer.critic_warmup" && *value == 0;
    if (value != nullptr && !is_off && !sets_something(alias, *value, tree, table))
      notes.push_back(alias.name + " does nothing: verl reads it only where " + kAdvEstimator + " is gae");
  }
}

// Of all else -------------------------------------------------------------------------------------------------------

/// A default of another program's that Keel does not take over.
struct OtherDefault {
  std::string program, name, value;
  std::string ours;            // our setting for it, if there is one
  std::string otherwise = {};  // what Keel does, where the value of our setting does not say it
  std::string only_with = {};  // a name that must be in use for it to matter
  Json taken = nullptr;        // what an import writes down, in the program's own unit; null: it cannot
  bool noted = true;           // by a run: not what it is asked for itself
};

const std::string kOneUpdate = "the whole batch at once", kCriticRate = "10 times optimizer.lr";

// verl 0.9.1 (trainer/config), TRL 1.16.0 (GRPOConfig, ModelConfig; PPOConfig of its last version that had one),
// OpenRLHF 0.8 (cli/train_ppo_ray.py).
const std::vector<OtherDefault>& other_defaults() {
  static const std::vector<OtherDefault> kDefaults = {
      {"verl", "trainer.total_epochs", "30 passes over the data", "train.steps", "", "", 30},
      {"verl", "data.train_batch_size", "1024", "train.prompts_per_step", "", "", 1024},
      {"verl", "actor_rollout_ref.rollout.n", "1", "rollout.samples_per_prompt", "", "", 1},
      {"verl", "actor_rollout_ref.actor.ppo_mini_batch_size", "256 prompts", "train.sequences_per_update", kOneUpdate,
       "", 256},
      {"verl", "actor_rollout_ref.actor.optim.weight_decay", "0.01", "optimizer.weight_decay", "", "", 0.01},
      {"verl", "data.max_response_length", "512", "rollout.max_new_tokens", "", "", 512, false},
      {"verl", "actor_rollout_ref.rollout.val_kwargs.temperature", "0, greedy", "eval.temperature", "", "", 0},
      {"verl", "critic.optim.lr", "1e-5", "critic.lr", kCriticRate, "critic.body", 1e-5},
      {"verl", "algorithm.filter_groups.max_num_gen_batches", "0, no limit", "rollout.max_batches", "", kFiltered},
      {"verl", "trainer.max_actor_ckpt_to_keep", "null, all of them", "checkpoint.keep"},
      {"TRL", "num_train_epochs", "3 passes over the data", "train.steps", "", "", 3},
      {"TRL", "lr_scheduler_type", "linear, down to 0 at the last step", "optimizer.schedule", "", "", "linear"},
      {"TRL", "per_device_train_batch_size", "8 completions for each GPU", "train.prompts_per_step"},
      {"TRL", "per_device_train_batch_size", "8", "train.sequences_per_update", "", "", 8, false},
      {"TRL", "max_completion_length", "512", "rollout.max_new_tokens", "", "", 512, false},
      {"TRL", "steps_per_generation", "generation_batch_size / 8 updates on one GPU", "train.sequences_per_update",
       kOneUpdate, "generation_batch_size"},
      {"TRL", "num_generations_eval", "as num_generations", "eval.samples"},
      {"TRL", "save_total_limit", "null, all of them", "checkpoint.keep"},
      {"TRL's PPO", "num_train_epochs", "3 passes over the data", "train.steps"},
      {"TRL's PPO", "lr_scheduler_type", "linear, down to 0 at the last step", "optimizer.schedule"},
      {"TRL's PPO", "learning_rate", "3e-6", "optimizer.lr"},
      {"TRL's PPO", "num_ppo_epochs", "4", "train.epochs"},
      {"TRL's PPO", "temperature", "0.7", "rollout.temperature"},
      {"OpenRLHF", "num_episodes", "1 pass over the data", "train.steps"},
      {"OpenRLHF", "lr_scheduler", "cosine_with_min_lr after a warm-up of 3 %", "optimizer.schedule"},
      {"OpenRLHF", "adam_betas", "0.9, 0.95", "optimizer.beta2"},
      {"OpenRLHF", "rollout_batch_size", "1024", "train.prompts_per_step"},
      {"OpenRLHF", "n_samples_per_prompt", "1", "rollout.samples_per_prompt"},
      {"OpenRLHF", "train_batch_size", "128", "train.sequences_per_update", kOneUpdate},
      {"OpenRLHF", "eval_temperature", "0.6", "eval.temperature"},
      {"OpenRLHF", "critic_learning_rate", "9e-6", "critic.lr", kCriticRate, "critic.body"},
      {"OpenRLHF", "eval_n_samples_per_prompt", "4", "eval.samples"}};
  return kDefaults;
}

/// verl has a judge for each data_source it knows (utils/reward_score), and no other default; TRL has none, open-r1's
/// GRPOScriptArguments have three.
void note_judges(const std::string& program, const ConfigTree& tree, const OptionTable& table,
                 std::vector<std::string>& notes) {
  if (!is_set(tree, table, "data.files") || is_set(tree, table, "reward.functions")) return;
  if (program == "TRL")
    return notes.push_back(
        "reward_funcs is not said (a Python file gives them to GRPOTrainer itself, and is not read; open-r1's default "
        "is accuracy, format and tag_count): Keel judges every row by math; reward.functions chooses another");
  notes.push_back(
      "reward: without a custom_reward_function verl judges a row by its data_source (openai/gsm8k: the number behind "
      "####; lighteval/MATH: what is boxed; math_dapo and aime: 1 or -1, by \"Answer:\"; apps and taco: by running "
      "it), Keel every row by math, which is 1 or 0 and asks for no form; reward.functions chooses another");
}

/// A text is passed on as it is, which whoever wrote "false" in quotes hardly meant.
void note_texts_for_values(const std::string& program, const ConfigTree& tree, const OptionTable& table,
                           std::vector<std::string>& notes) {
  for (const Alias& alias : table.aliases()) {
    const Json* value = alias.target == "data.template_words" ? said(tree, alias.name) : nullptr;
    if (value == nullptr || !value->is_object()) continue;
    DataOptions options;
    options.template_words = alias.converter(*value, tree, table).get<Names>();
    for (const std::string& word : texts_for_values(options))
      notes.push_back(alias.name + ": " + word + " is a text, which a chat template takes for true, in " + program +
                      " as here; where the value is meant, write it without quotes");
  }
}

/// Both take full batches alone: TRL's sampler leaves out what does not fill one (RepeatSampler, whatever
/// dataloader_drop_last is), verl's loader has drop_last.
void note_passes(const std::string& program, const ConfigTree& tree, const OptionTable& table,
                 std::vector<std::string>& notes) {
  const char* name = program == "TRL" ? "num_train_epochs" : program == "verl" ? "trainer.total_epochs" : nullptr;
  if (name == nullptr || said(tree, name) == nullptr || !is_set(tree, table, "train.data_epochs")) return;
  notes.push_back(
      std::string(name) + ": where the rows of a pass do not fill its last batch, " + program +
      " leaves that batch out of every pass" + (program == "TRL" ? ", whatever dataloader_drop_last is" : "") +
      ": rows / train.prompts_per_step steps a pass, rounded down; Keel joins the passes, leaves out no row "
      "and rounds the steps of all passes together up");
}

bool matters_unsaid(const OtherDefault& entry, const std::string& program, const ConfigTree& tree,
                    const OptionTable& table) {
  const bool unsaid = said(tree, entry.name) == nullptr && (entry.ours.empty() || !is_set(tree, table, entry.ours)) &&
                      (entry.ours != "train.steps" || !is_set(tree, table, "train.data_epochs"));
  return entry.program == program && unsaid && (entry.only_with.empty() || is_used(tree, {entry.only_with}));
}

std::string defaults_not_taken(const std::string& program, const ConfigTree& tree, const OptionTable& table,
                               Purpose purpose) {
  Names texts;
  for (const OtherDefault& entry : other_defaults()) {
    const bool told = entry.noted && (purpose == Purpose::kTraining || entry.ours.starts_with("eval."));
    if (!told || !matters_unsaid(entry, program, tree, table)) continue;
    const std::string here =
        entry.otherwise.empty() ? entry.ours + " " + word_of(table.get(entry.ours)) : entry.otherwise;
    texts.push_back(entry.name + " " + entry.value + " (here: " + here + ")");
  }
  return joined(texts, "; ");
}

}  // namespace

std::vector<std::pair<std::string, Json>> other_defaults_of(const std::string& program, const ConfigTree& tree,
                                                            const OptionTable& table) {
  std::vector<std::pair<std::string, Json>> defaults;
  const bool has_passes = is_set(tree, table, "data.files");  // a built-in task has no end
  for (const OtherDefault& entry : other_defaults())
    if (!entry.taken.is_null() && matters_unsaid(entry, program, tree, table) &&
        (has_passes || entry.ours != "train.steps"))
      defaults.emplace_back(entry.name, entry.taken);
  return defaults;
}

void add_foreign_remarks(const std::string& program, const ConfigTree& tree, const OptionTable& table, Purpose purpose,
                         std::vector<std::string>& notes) {
  const bool all = purpose == Purpose::kTraining;
  for (const Remark& remark : remarks())
    if (remark.program == program && (all || remark.of_evaluation) && remark.holds(tree)) notes.push_back(remark.text);
  if (program == "verl" && all) {
    note_unread(tree, notes);
    note_unread_of_critic(tree, table, notes);
  }
  if (all) note_passes(program, tree, table, notes);
  note_texts_for_values(program, tree, table, notes);
  if (program == "verl" || program == "TRL") note_judges(program, tree, table, notes);
  if (const std::string rest = defaults_not_taken(program, tree, table, purpose); !rest.empty())
    notes.push_back("not as " + program + " would, where nothing is said: " + rest);
}

}  // namespace keel
