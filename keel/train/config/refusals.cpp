#include "keel/train/config/config.h"

namespace keel {
namespace {

// Ways out that several names share.
constexpr const char* kNameFunctions =
    "functions are named in reward.functions: \"python:FILE.py:FUNCTION\" for your own, or a built-in one";
constexpr const char* kSetSteps = "Keel counts rollout batches; set train.steps";
constexpr const char* kManager = "which signature a function has is read off it; set reward.functions";
constexpr const char* kIntoFunction =
    "a function gets the row and the completion and no other arguments; write them into the function, and remove it";
constexpr const char* kLongest = "a completion has at most rollout.max_new_tokens; set that, and remove it";
constexpr const char* kLoggedAnyway = "every step is in metrics.jsonl of run.dir; remove it";
constexpr const char* kSetWeights =
    "set rollout.weights: fp8 rounds the weights of the linear layers, fp8_full what goes into them and the keys and "
    "values too; docs/mismatch.md has them all";
constexpr const char* kNoTruncation =
    "truncated sampling changes the support of mu, so ratios would be biased; remove it (eval.top_k, eval.top_p and "
    "eval.min_p are "
    "those of evaluations)";
constexpr const char* kOneDevice = "a run has one device; set run.device";
constexpr const char* kNoShards = "a run has one device, and divides nothing among several; remove it";
constexpr const char* kSetFolder = "a run is its folder; set run.dir";
constexpr const char* kMicroBatches =
    "micro-batches are cut by tokens and change no gradient; set train.tokens_per_batch";
constexpr const char* kCorrections =
    "Keel samples with the weights that it trains; objective.method=tis, mis or icepop corrects a rounded sampler";

constexpr const char* kBehind =
    "it is a share of samples that may be stale, whichever they are; set rollout.staleness, the steps that the sampler "
    "is behind, exactly";
constexpr const char* kBeside =
    "set rollout.staleness, the steps that the sampler is behind; 1 samples beside the training";
constexpr const char* kAdapterFolder = "set lora.adapter, the folder of an adapter to go on from";
constexpr const char* kOwnSampler = "Keel samples itself; remove it";
constexpr const char* kNoCov = "no method here clips by covariance; remove it, and choose one with objective.method";
constexpr const char* kBounds =
    "a bound of the ratio belongs to a method that clips it, such as objective.method=grpo: choose one, and set "
    "objective.delta, or objective.delta_low and objective.delta_high, which for other methods bound a divergence";
constexpr const char* kFixedReference = "the reference stays the policy that RL starts from; remove it";
constexpr const char* kNoLiger = "the loss is computed by Keel's own kernels; remove it";
constexpr const char* kRank = "set lora.rank, the adapter's, where 0 trains all weights";
constexpr const char* kCriticUpdates =
    "a critic is trained in the policy's updates, of train.epochs and train.sequences_per_update; remove it";
constexpr const char* kSizes =
    "set train.prompts_per_step, the prompts of a batch, and train.sequences_per_update, the completions of an update";
constexpr const char* kReference =
    "the reference is the policy when RL starts; remove it, and set reference.kl_coefficient for a pull to it";

struct Refused {
  const char* name;
  const char* reason;
  std::vector<Json> harmless = {};  // values that change nothing
  Fate fate = Fate::kRefused;
};

constexpr Fate kDropped = Fate::kDropped, kByNature = Fate::kByNature;

const std::vector<Refused>& of_trl() {
  static const std::vector<Refused> kTable = {
      {"greater_is_better",
       "of what checkpoint.best_metric can name more is better; remove it, and name another measure",
       {true, nullptr}},
      {"missing_eos_penalty",
       "set reward.overlong_buffer for a penalty that grows with length, or add stopped to reward.functions",
       {nullptr}},
      {"whiten_rewards", "rewards are never whitened, advantages are (critic.whiten); remove it", {false}},
      {"use_vllm", "Keel samples itself, rollout.max_sequences completions at once; remove it", {false}, kByNature},
      {"use_bias_correction_kl",
       "Keel's KL to the reference is not multiplied by the ratio; remove it (reference.estimator says how it is "
       "estimated)",
       {true, false},  // true is TRL's default, and is remarked on where there is such a KL
       kDropped},
      {"off_policy_mask_threshold",
       "the method ds_v32 has this mask; set objective.method=ds_v32 and its delta through objective.parameters",
       {nullptr}},
      {"top_entropy_quantile", "no method here leaves tokens out by their entropy; remove it", {1}},
      {"vllm_importance_sampling_correction", kCorrections, {true, false}, kByNature},
      {"per_device_eval_batch_size", "evaluations are sampled rollout.max_sequences at once; remove it", {8}, kDropped},
      {"disable_dropout", "there is no dropout here but lora.dropout; remove it", {true, false}, kByNature},
      {"multi_objective_aggregation",
       "the reward is the weighted sum of reward.functions; remove it",
       {"sum_then_normalize"}},
      {"max_staleness",
       "TRL throws away what is older than so many updates; here nothing is thrown away, since the sampler is behind "
       "by "
       "a fixed number of steps: set rollout.staleness",
       {0}},
      {"top_p", kNoTruncation, {1}},
      {"top_k", kNoTruncation, {0, -1, nullptr}},
      {"min_p", kNoTruncation, {0, nullptr}},
      {"sync_ref_model", kFixedReference, {false}},
      {"ref_model_mixup_alpha", kFixedReference, {0.6}, kDropped},
      {"ref_model_sync_steps", kFixedReference, {512}, kDropped},
      {"use_liger_loss", kNoLiger, {false}, kByNature},
      {"repetition_penalty",
       "a penalty would make mu another distribution than the model's, so ratios would be biased; remove it",
       {1}},
      {"generation_kwargs",
       "completions are sampled from the model's own distribution; set rollout.temperature, rollout.max_new_tokens and "
       "rollout.stop_strings, and remove it",
       {Json::object(), nullptr}},
      {"max_tool_calling_iterations", "completions call no tools; remove it", {nullptr, 0}, kDropped},
      {"use_adaptive_entropy",
       "the entropy's weight is constant; remove it, and set objective.entropy_coefficient",
       {false}},
      {"log_completions",
       "completions are in samples.jsonl of run.dir (record.samples_per_step); remove it",
       {true, false},
       kDropped}};
  return kTable;
}

const std::vector<Refused>& of_verl() {
  static const std::vector<Refused> kTable = {
      {"reward_fn", kNameFunctions},
      {"reward_model.reward_manager", kManager, {"naive", "dapo", nullptr}},
      {"reward.reward_manager.name", kManager, {"naive", "dapo"}},
      {"custom_reward_function.reward_kwargs", kIntoFunction, {Json::object(), nullptr}},
      {"reward.custom_reward_function.reward_kwargs", kIntoFunction, {Json::object(), nullptr}},
      {"reward_model.overlong_buffer.log", kLoggedAnyway, {true, false}, kDropped},
      {"reward_model.reward_kwargs.overlong_buffer_cfg.log", kLoggedAnyway, {true, false}, kDropped},
      {"reward.reward_kwargs.overlong_buffer_cfg.log", kLoggedAnyway, {true, false}, kDropped},
      {"reward_model.enable",
       "a reward model is a server; set reward.functions to its address, http://...",
       {false, nullptr}},
      {"trainer.n_gpus_per_node", kOneDevice, {1}, kDropped},
      {"trainer.nnodes", kOneDevice, {1}, kDropped},
      {"trainer.project_name", kSetFolder, {}, kDropped},
      {"trainer.experiment_name", kSetFolder, {}, kDropped},
      {"data.val_batch_size",
       "verl evaluates all rows, so many at a time; here rollout.max_sequences bounds what is sampled at once: remove "
       "it",
       {nullptr},
       kDropped},
      {"data.filter_overlong_prompts",
       "prompts that are longer than data.max_prompt_tokens are always left out, and counted; remove it",
       {true},
       kByNature},
      {"data.truncation",
       "Keel never cuts a prompt; one that is longer than data.max_prompt_tokens is left out and counted; remove it",
       {"error"},
       kDropped},
      {"async_training.staleness_threshold", kBehind, {0}},
      {"async_training.partial_rollout",
       "every completion is finished before the step that learns from it; set it to false, or remove it",
       {false}},
      {"actor_rollout_ref.actor.fsdp_config.model_dtype",
       "it is the type of the weights that the optimizer changes, which is float32 here; set run.precision for what is "
       "computed in, or remove it",
       {"fp32", "float32"},
       kDropped},
      {"actor_rollout_ref.rollout.name", kOwnSampler, {}, kByNature},
      {"actor_rollout_ref.rollout.mode", kOwnSampler, {"sync", "async"}, kDropped},
      {"actor_rollout_ref.rollout.enable_chunked_prefill", kOwnSampler, {true, false}, kDropped},
      {"actor_rollout_ref.rollout.log_prob_use_dynamic_bsz", kMicroBatches, {true, false}, kDropped},
      {"actor_rollout_ref.ref.log_prob_use_dynamic_bsz", kMicroBatches, {true, false}, kDropped},
      {"actor_rollout_ref.actor.ulysses_sequence_parallel_size", kOneDevice, {1}, kDropped},
      {"actor_rollout_ref.actor.fsdp_config.param_offload", kNoShards, {false}, kDropped},
      {"actor_rollout_ref.actor.fsdp_config.optimizer_offload", kNoShards, {false}, kDropped},
      {"actor_rollout_ref.actor.optim.optimizer_impl", "the optimizer is Keel's own AdamW; remove it", {"torch.optim"}},
      {"actor_rollout_ref.model.lora_adapter_path", kAdapterFolder, {nullptr}},
      {"actor_rollout_ref.rollout.gpu_memory_utilization",
       "memory is bounded by rollout.max_sequences; remove it",
       {},
       kDropped},
      {"actor_rollout_ref.rollout.tensor_model_parallel_size", kOneDevice, {1}, kDropped},
      {"actor_rollout_ref.rollout.quantization", kSetWeights, {nullptr, "none", false}},
      {"actor_rollout_ref.rollout.top_p", kNoTruncation, {1}},
      {"actor_rollout_ref.rollout.top_k", kNoTruncation, {-1, 0}},
      {"actor_rollout_ref.rollout.do_sample", "completions of training are always sampled; remove it", {true}},
      {"actor_rollout_ref.actor.ppo_micro_batch_size", kMicroBatches, {nullptr}, kDropped},
      {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", kMicroBatches, {nullptr}, kDropped},
      {"actor_rollout_ref.actor.policy_loss.clip_cov_ratio", kNoCov, {0.0002}},
      {"actor_rollout_ref.actor.policy_loss.clip_cov_lb", kNoCov, {1}},
      {"actor_rollout_ref.actor.policy_loss.clip_cov_ub", kNoCov, {5}},
      {"actor_rollout_ref.actor.policy_loss.kl_cov_ratio", kNoCov, {0.0002}},
      {"actor_rollout_ref.actor.log_prob_micro_batch_size_per_gpu", kMicroBatches, {nullptr}, kDropped},
      {"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu", kMicroBatches, {nullptr}, kDropped},
      {"actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu", kMicroBatches, {nullptr}, kDropped},
      {"actor_rollout_ref.actor.use_dynamic_bsz", kMicroBatches, {true, false}, kDropped},
      {"actor_rollout_ref.actor.strategy", kNoShards, {}, kDropped},
      {"actor_rollout_ref.actor.fsdp_config", kNoShards, {}, kDropped},
      {"actor_rollout_ref.ref.fsdp_config", kNoShards, {}, kDropped},
      {"actor_rollout_ref.hybrid_engine", "sampler and trainer are one program here; remove it", {true}, kByNature},
      {"actor_rollout_ref.model.use_remove_padding",
       "sequences are always packed; remove it",
       {true, false},
       kByNature},
      {"trainer.val_before_train",
       "a run is evaluated before and after; eval.prompts=0 leaves both out",
       {true},
       kDropped},
      {"trainer.balance_batch", kNoShards, {true, false}, kDropped},
      {"trainer.resume_mode", "a run is continued by `keel train FILE --resume`; remove it", {"disable"}, kDropped},
      {"critic.optim.weight_decay", "a critic's optimizer is the policy's (optimizer) but for critic.lr; remove it"},
      {"critic.ppo_epochs", kCriticUpdates},
      {"critic.ppo_mini_batch_size", kCriticUpdates},
      {"critic.grad_clip", "a critic's optimizer is the policy's (optimizer) but for critic.lr; remove it"},
      {"critic.enable", "a critic is there where critic.body says so; set that", {nullptr, false}, kDropped},
      {"critic.loss_agg_mode", "the value loss is a mean over all tokens of an update; remove it", {"token-mean"}},
      {"critic.loss_scale_factor", "the value loss is a mean over all tokens of an update; remove it", {nullptr}},
      {"critic.strategy", kNoShards, {}, kDropped},
      {"critic.ppo_micro_batch_size_per_gpu", kMicroBatches, {nullptr}, kDropped},
      {"critic.model.lora_rank", "a critic has no adapter of its own (critic.body); remove it", {0}},
      {"critic.model.enable_gradient_checkpointing",
       "train.recompute_activations holds for the policy and the critic; remove it",
       {true, false}},
      {"actor_rollout_ref.rollout.multi_turn.enable", "a completion is one turn, without tools; remove it", {false}},
      {"reward_model.path", "a reward model is a server; set reward.functions to its address, http://..."}};
  return kTable;
}

const std::vector<Refused>& of_openrlhf() {
  static const std::vector<Refused> kTable = {
      {"prompt_max_len", "set data.max_prompt_tokens: longer prompts are left out and counted, not cut"},
      {"init_kl_coef",
       "set reference.kl_in_reward, which takes the KL off the rewards as verl does, or reference.kl_coefficient for "
       "one in the loss",
       {0}},
      {"max_samples", kSetSteps},
      {"micro_train_batch_size", kMicroBatches},
      {"micro_rollout_batch_size", "completions are sampled rollout.max_sequences at once; set that"},
      {"async_train", kBeside, {false}},
      {"overlong_buffer_len", "set reward.overlong_buffer, the last tokens in which the penalty grows", {nullptr}},
      {"overlong_penalty_factor", "set reward.overlong_penalty, beside reward.overlong_buffer"},
      {"kl_target", "set reference.kl_in_reward_target, beside reference.kl_in_reward", {nullptr}},
      {"kl_horizon", "set reference.kl_in_reward_horizon, beside reference.kl_in_reward_target"},
      {"dynamic_filtering_reward_range",
       "groups are dropped whose rewards are all equal, whatever they are; remove it, and set rollout.dynamic_sampling",
       {Json::array({0, 1})}},
      {"aux_loss_coef", "no loss for balancing experts is added; remove it", {0}},
      {"max_len", "set data.max_prompt_tokens and rollout.max_new_tokens"},
      {"max_epochs", "set train.epochs, the passes over a batch"}};
  return kTable;
}

/// Names that people try, after what they know.
const std::vector<Refused>& of_nobody() {
  static const std::vector<Refused> kTable = {
      {"batch_size", kSizes},
      {"sft.epochs", "set sft.data_epochs, the passes over the rows"},
      {"rollout.batch_size", "set train.prompts_per_step, the prompts of a batch"},
      {"rollout.batch", "set train.prompts_per_step, the prompts of a batch"},
      {"rollout.prompts", "set train.prompts_per_step, the prompts of a batch; eval.prompts is that of evaluations"},
      {"train.staleness", "set rollout.staleness, the steps that the sampler is behind"},
      {"staleness", "set rollout.staleness, the steps that the sampler is behind"},
      {"staleness_threshold", kBehind},
      {"async", kBeside, {false}},
      {"horizon",
       "set reference.kl_in_reward_horizon for the KL that adapts, objective.horizon for the divisor of an "
       "aggregation"},
      {"adap_kl_ctrl",
       "set reference.kl_in_reward_target, the KL that the weight of reference.kl_in_reward keeps to",
       {false}},
      {"rollout.samples", "set rollout.samples_per_prompt, the completions of a prompt"},
      {"max_tokens", "set rollout.max_new_tokens, the longest completion"},
      {"rollout.max_tokens", "set rollout.max_new_tokens, the longest completion"},
      {"rollout.group_size", "set rollout.samples_per_prompt, the completions of a prompt"},
      {"num_samples",
       "set rollout.samples_per_prompt, the completions of a prompt; eval.samples is that of evaluations"},
      {"samples", "set rollout.samples_per_prompt, the completions of a prompt; eval.samples is that of evaluations"},
      {"total_steps", "set train.steps, the rollout batches"},
      {"train.total_steps", "set train.steps, the rollout batches"},
      {"train.batch_size", kSizes},
      {"train.batch", kSizes},
      {"lr", "set optimizer.lr (sft.lr and critic.lr are those of the warm-up and the critic)"},
      {"eps", "set optimizer.eps for AdamW's, objective.delta for a trust region's"},
      {"optimizer.epsilon", "set optimizer.eps"},
      {"betas", "set optimizer.beta1 and optimizer.beta2"},
      {"local_rank", kOneDevice, {-1}},
      {"use_lora", kRank, {false}},
      {"lora.enable", kRank, {false}},
      {"lora.enabled", kRank, {false}},
      {"lora.path", kAdapterFolder},
      {"reward.path", kNameFunctions},
      {"reward.math", kNameFunctions},
      {"checkpoint.path", "checkpoints are kept in run.dir; set that"},
      {"run.dtype", "set run.precision for what is computed in"},
      {"grad_clip", "set optimizer.max_grad_norm"},
      {"clip", kBounds},
      {"objective.clip", kBounds},
      {"objective.eps", kBounds},
      {"objective.epsilon", kBounds},
      {"objective.epsilon_low", kBounds},
      {"objective.epsilon_high", kBounds},
      {"objective.clip_ratio", kBounds},
      {"objective.clip_ratio_low", kBounds},
      {"objective.clip_ratio_high", kBounds},
      {"objective.name", "set objective.method"},
      {"policy", "set model.path for the model, objective.method for the method"},
      {"value_coef", "set critic.loss_weight"},
      {"reference.path", kReference},
      {"reference.model", kReference},
      {"critic.path", "a critic starts as a copy of the policy, or reads the policy's states; set critic.body"},
      {"model.name", "set model.path"},
      {"model.dtype", "set run.precision for what is computed in, or checkpoint.dtype for what is saved"},
      {"rollout.dtype",
       "set run.precision, which sampler and trainer share, or rollout.weights for a copy that is rounded"},
      {"run.name", kSetFolder},
      {"reward.name", "set reward.functions"},
      {"checkpoint.steps", "set checkpoint.every"},
      {"checkpoint.save", "set checkpoint.every"},
      {"checkpoint.save_every", "set checkpoint.every"},
      {"data.path", "set data.files, the files to train on"},
      {"data.prompts", "set data.files, the files to train on"},
      {"data.test_files", "set data.eval_files, the files to evaluate on"},
      {"eval.files", "set data.eval_files, the files to evaluate on"},
      {"eval.data", "set data.eval_files, the files to evaluate on"},
      {"eval.steps", "set eval.every, the steps between evaluations"},
      {"eval.max_new_tokens", "evaluations have the limit of training; set rollout.max_new_tokens"},
      {"data.train", "set data.files, the files to train on"},
      {"lora.r", "set lora.rank"},
      {"eval.n", "set eval.samples, the completions for each prompt"},
      {"rollout.quantization", kSetWeights, {nullptr, "none", false}},
      {"train.agreement_limit", "set rollout.mismatch_limit, which bounds |pi - mu| instead of a difference of log p"},
      {"rollout.top_p", kNoTruncation, {1}},
      {"rollout.top_k", kNoTruncation, {-1, 0}},
      {"rollout.min_p", kNoTruncation, {0}}};
  return kTable;
}

}  // namespace

void add_refusals(OptionTable& table) {
  const auto add = [&](const char* source, const std::vector<Refused>& rows) {
    for (const Refused& row : rows) table.refuse(row.name, source, row.reason, row.harmless, row.fate);
  };
  add("TRL", of_trl());
  add("verl", of_verl());
  add("OpenRLHF", of_openrlhf());
  add("", of_nobody());
  add_left_out(table);
}

}  // namespace keel
