#pragma once

#include <string>
#include <vector>

#include "keel/core/options/options.h"

namespace keel {

// What the readers of other programs' names share.

using Names = std::vector<std::string>;

bool contains(const Names& names, const std::string& name);

/// The paths of all that is said in a tree, in its order.
void add_leaves(const Json& node, const std::string& path, Names& leaves);

/// What a configuration says under a name; nullptr for null too, which leaves a thing to the defaults.
const Json* said(const ConfigTree& tree, const std::string& name);

/// A string as it is, anything else as JSON.
std::string word_of(const Json& value);
/// The word under a name; empty where nothing is said.
std::string word_at(const ConfigTree& tree, const std::string& name);

/// A converter: the same value, and nothing for null.
Json unless_null(const Json& value, const ConfigTree& tree, const OptionTable& table);
/// A converter: a name, as a list of one, or a list of names, and nothing for null.
Json list_of_names(const Json& value, const ConfigTree& tree, const OptionTable& table);
/// Of a name that a newer one replaced: nothing where it is null, or where the newer name says the same beside it, as
/// in what a program wrote down itself. Where the two differ, both are taken, which is told as a contradiction.
AliasConverter unless_said_by(std::string newer_name);

/// TRL's dataset_name: one of the Hub's or a local path, of which we read files, as those of section `data` or `sft`.
AliasConverter files_of_dataset(std::string section);

/// Whether a value under another program's name gives our setting one.
bool sets_something(const Alias& alias, const Json& value, const ConfigTree& tree, const OptionTable& table);
/// Whether a configuration gives a setting of ours a value, under whatever name, and does not merely have a name that
/// could.
bool is_set(const ConfigTree& tree, const OptionTable& table, const std::string& ours);

bool on_command_line(const ConfigTree& tree, const std::string& name);

/// The program, TRL or verl, that a file is a recipe of: one with names of its and none of Keel's own. Empty: neither.
std::string recipe_of(const ConfigTree& tree, const OptionTable& table);

/// A count under another program's name that a product of three cannot carry out of 63 bits; an Error for anything
/// else.
int64_t count_at(const ConfigTree& tree, const std::string& name, int64_t by_default);

/// Whether passes over the data are typed beside a file, and no steps: they win over those of the file.
bool passes_are_typed(const ConfigTree& tree);

/// Whether objective.method names the method, and not another program's `loss`: the command line wins over the file.
bool ours_names_the_method(const ConfigTree& tree, const std::string& loss);

/// Names of one program that are no settings of ours and have one reason; values that change nothing are accepted
/// without a word.
struct ForeignGroup {
  const char* source;
  Fate fate;
  std::string reason;
  std::vector<Json> harmless;
  std::string section;             // that all names stand in; empty: the top
  std::vector<const char*> names;  // with everything below them
};
void refuse_groups(OptionTable& table, const std::vector<ForeignGroup>& groups);
inline const std::string kDevices = "a run has one device, and divides nothing among several; remove it";
inline const std::string kSampler = "Keel samples itself, with the network that it trains; remove it";
inline const std::string kLogged = "every step is in metrics.jsonl of run.dir; remove it";
inline const std::string kKernels = "the kernels are Keel's own, and nothing about them is to be chosen; remove it";
inline const std::string kNotHere =
    "there is no such thing here, and without it something else would be trained; remove it";

// What all of TRL's trainers have: names that mean a setting of ours in whatever phase, and such as mean none.
void add_trainer_aliases(OptionTable& table);
void add_left_out_of_trainers(OptionTable& table);
/// The latter, and what GRPOConfig has beside it.
void add_left_out_of_trl(OptionTable& table);

// verl 0.9.1, trainer/config/ppo_trainer.yaml and what it includes.
inline constexpr const char* kLossMode = "actor_rollout_ref.actor.policy_loss.loss_mode";
inline constexpr const char* kAdvEstimator = "algorithm.adv_estimator";
inline constexpr const char* kNormByStd = "algorithm.norm_adv_by_std_in_grpo";
inline constexpr const char* kLossAggMode = "actor_rollout_ref.actor.loss_agg_mode";
inline constexpr const char* kClipRatio = "actor_rollout_ref.actor.clip_ratio";
inline constexpr const char* kClipRatioLow = "actor_rollout_ref.actor.clip_ratio_low";
inline constexpr const char* kClipRatioHigh = "actor_rollout_ref.actor.clip_ratio_high";
inline constexpr const char* kClipRatioC = "actor_rollout_ref.actor.clip_ratio_c";
inline constexpr const char* kTauPositive = "actor_rollout_ref.actor.tau_pos";
inline constexpr const char* kTauNegative = "actor_rollout_ref.actor.tau_neg";
// The sections of DAPO's soft penalty, in its recipe and in verl since; those of a reward function, before 0.9 and
// since.
inline const Names kVerlOverlong = {"reward_model.overlong_buffer", "reward_model.reward_kwargs.overlong_buffer_cfg",
                                    "reward.reward_kwargs.overlong_buffer_cfg"};
inline const Names kVerlRewardFunction = {"custom_reward_function", "reward.custom_reward_function"};
inline const Names kVerlBounded = {"vanilla", "dppo_tv", "dppo_kl", "gspo", "geo_mean", "cispo"};
inline const Names kVerlWithC = {"vanilla", "dppo_tv", "dppo_kl"};

// TRL 1.16.0: the classes of its trainers' arguments, and GRPOConfig's own names.
inline constexpr const char *kGrpoArguments = "GRPOConfig", *kSftArguments = "SFTConfig";
/// PEFT's: true, where its arguments stand beside the others.
inline constexpr const char* kPeftArguments = "LoraConfig";
inline constexpr const char *kPerDevice = "per_device_train_batch_size", *kAccumulation = "gradient_accumulation_steps",
                            *kProcesses = "num_processes";
/// The source of names that SFTConfig alone has, which `keel import` reads.
inline constexpr const char* kSupervisedTrl = "TRL's SFTConfig";
inline constexpr const char* kSamplingLevel = "importance_sampling_level";
inline const Names kTrlClipped = {"grpo", "bnpo", "dr_grpo", "dapo", "luspo"};

}  // namespace keel
