#include "keel/compat/conversions.h"

// The keys of verl 0.9.1 (verl/trainer/config/ppo_trainer.yaml and its includes) and of earlier versions.

namespace keel::compat {
namespace {

/// -1 means never or no limit.
Json skip_negative(const Json& value) { return value.is_null() || value == -1 ? kNoValue : value; }
Json to_shuffle(const Json& value) { return value == true ? Json("rollouts") : kNoValue; }

constexpr const char* kDefaults = R"({
  "data.train_batch_size": 1024, "data.max_prompt_length": 512, "data.max_response_length": 512,
  "data.truncation": "error", "trainer.total_epochs": 30,
  "actor_rollout_ref.model.lora_alpha": 16, "actor_rollout_ref.model.target_modules": "all-linear",
  "actor_rollout_ref.rollout.n": 1, "actor_rollout_ref.rollout.val_kwargs.temperature": 0,
  "actor_rollout_ref.actor.ppo_mini_batch_size": 256, "actor_rollout_ref.actor.ppo_epochs": 1,
  "actor_rollout_ref.actor.shuffle": false,
  "actor_rollout_ref.actor.policy_loss.loss_mode": "vanilla", "actor_rollout_ref.actor.loss_agg_mode": "token-mean",
  "actor_rollout_ref.actor.clip_ratio": 0.2, "actor_rollout_ref.actor.clip_ratio_low": 0.2,
  "actor_rollout_ref.actor.clip_ratio_high": 0.2, "actor_rollout_ref.actor.clip_ratio_c": 3.0,
  "actor_rollout_ref.actor.tau_pos": 1.0, "actor_rollout_ref.actor.tau_neg": 1.05,
  "actor_rollout_ref.actor.entropy_coeff": 0, "actor_rollout_ref.actor.use_kl_loss": false,
  "actor_rollout_ref.actor.kl_loss_coef": 0.001,
  "actor_rollout_ref.actor.optim.lr": 1e-6, "actor_rollout_ref.actor.optim.weight_decay": 0.01,
  "actor_rollout_ref.actor.optim.betas": [0.9, 0.999], "actor_rollout_ref.actor.optim.clip_grad": 1.0,
  "actor_rollout_ref.actor.optim.lr_scheduler_type": "constant", "actor_rollout_ref.actor.optim.min_lr_ratio": 0.0,
  "algorithm.adv_estimator": "gae", "algorithm.norm_adv_by_std_in_grpo": true,
  "algorithm.gamma": 1.0, "algorithm.lam": 1.0,
  "algorithm.use_kl_in_reward": false, "algorithm.kl_ctrl.type": "fixed",
  "algorithm.kl_ctrl.kl_coef": 0.001, "algorithm.kl_ctrl.horizon": 10000, "algorithm.kl_ctrl.target_kl": 0.1,
  "algorithm.filter_groups.enable": false, "algorithm.filter_groups.metric": "reward",
  "critic.optim.lr": 1e-5, "critic.cliprange_value": 0.5, "trainer.critic_warmup": 0,
  "reward.reward_manager.name": "naive"
})";

constexpr const char* kUnsupportedInVerl = "not supported, and it would change the training";
constexpr const char* kModelFolder = "configuration, tokenizer, template and weights come from the model folder";
constexpr const char* kNoPreprocessing = "rows of data.files are not preprocessed";
constexpr const char* kCorrections =
    "Keel samples with the trained weights; the methods tis, mis and icepop correct a quantized sampler";
constexpr const char* kStale = "set rollout.staleness for rollouts of an older policy";
constexpr const char* kModelReward = "reward models are servers: set reward.functions to the URL, http://...";

void add_settings(KeyTable& t) {
  t.maps("actor_rollout_ref.model.path", "model.path");
  t.maps("actor_rollout_ref.model.enable_gradient_checkpointing", "train.recompute_activations");
  t.maps("trainer.default_local_dir", "run.dir");
  t.maps("trainer.device", "run.device", [](const Json& value) { return value == "cuda" ? kNoValue : value; });
  t.maps("trainer.save_freq", "checkpoint.every", negative_to_zero, "-1 is 0, never");
  t.maps("trainer.test_freq", "eval.every", negative_to_zero, "-1 is 0, never");
  t.maps("trainer.max_actor_ckpt_to_keep", "checkpoint.keep", skip_null);
  t.maps("data.train_files", "data.files", to_list);
  t.maps("data.val_files", "data.eval_files", to_list);
  t.maps("data.prompt_key", "data.prompt_key");
  t.maps("data.reward_fn_key", "data.source_key");
  t.maps("data.shuffle", "data.shuffle");
  t.maps("data.seed", "run.seed", skip_null);
  t.maps("data.apply_chat_template_kwargs", "data.chat_template_kwargs", to_assignments, "each as name=value");
  t.maps("data.max_response_length", "rollout.max_new_tokens");
  t.maps("data.val_max_samples", "eval.prompts", skip_negative, "-1 is all");
  t.maps("data.train_batch_size", "train.prompts_per_step");
  t.maps("actor_rollout_ref.rollout.n", "rollout.samples_per_prompt");
  t.maps("actor_rollout_ref.rollout.temperature", "rollout.temperature");
  t.maps("actor_rollout_ref.rollout.top_p", "rollout.top_p");
  t.maps("actor_rollout_ref.rollout.top_k", "rollout.top_k", negative_to_zero, "-1 is 0, all tokens");
  t.maps("actor_rollout_ref.rollout.val_kwargs.n", "eval.samples");
  t.maps("actor_rollout_ref.rollout.val_kwargs.temperature", "eval.temperature");
  t.maps("actor_rollout_ref.rollout.val_kwargs.top_p", "eval.top_p");
  t.maps("actor_rollout_ref.rollout.val_kwargs.top_k", "eval.top_k", negative_to_zero, "-1 is 0, all tokens");
  t.maps(
      "actor_rollout_ref.rollout.dtype actor_rollout_ref.actor.fsdp_config.{dtype mixed_precision.param_dtype} "
      "actor_rollout_ref.model.torch_dtype",
      "run.precision", to_precision);
  t.maps("actor_rollout_ref.actor.fsdp_config.full_determinism", "run.deterministic");
  t.maps("actor_rollout_ref.actor.ppo_epochs", "train.epochs");
  t.maps("actor_rollout_ref.actor.shuffle", "train.shuffle", to_shuffle, "true is rollouts");
  t.maps("actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "train.tokens_per_batch");
  t.maps("actor_rollout_ref.actor.entropy_coeff", "objective.entropy_coefficient");
  t.maps("actor_rollout_ref.actor.kl_loss_type", "reference.estimator", kl_estimator);
  t.maps("algorithm.kl_penalty", "reference.kl_in_reward_estimator", kl_estimator);
  t.maps("actor_rollout_ref.actor.loss_scale_factor", "objective.horizon", skip_null);
  t.maps("actor_rollout_ref.actor.optim.lr", "optimizer.lr");
  t.maps("actor_rollout_ref.actor.optim.weight_decay", "optimizer.weight_decay");
  t.maps("actor_rollout_ref.actor.optim.optimizer", "optimizer.moments", to_moments, "AdamW8bit is 8bit");
}

void add_refusals(KeyTable& t) {
  t.refuses("actor_rollout_ref.rollout.do_sample", "training completions are always sampled", "[true]");
  t.refuses("actor_rollout_ref.rollout.{quantization quantization_config_file}", "set rollout.weights",
            R"(["none", false])");
  t.refuses(
      "actor_rollout_ref.rollout.{ignore_eos over_sample_rate skip_rollout enable_rollout_routing_replay "
      "multi_turn.enable agent.agent_loop_config_path agent.custom_async_server.path} "
      "actor_rollout_ref.rollout.qat.enable actor_rollout_ref.actor.{qat.enable fsdp_config.qat.enable} "
      "actor_rollout_ref.model.mtp.enable "
      "algorithm.use_pf_ppo distillation.enabled skip.{rollout.enable rollout_tq.enable async_rollout.enable} "
      "trainer.val_only trainer.v1.sampler.custom_sampler.path "
      "sandbox_fusion.url reward_model.sandbox_fusion.url reward.sandbox_fusion.url",
      kUnsupportedInVerl, "[false, 0]");
  t.refuses("actor_rollout_ref.rollout.{repetition_penalty agent.default_agent_loop}", kUnsupportedInVerl,
            R"([1, "single_turn_agent"])");
  t.refuses("actor_rollout_ref.actor.router_replay.mode actor_rollout_ref.ref.router_replay.mode", kUnsupportedInVerl,
            R"(["disabled"])");
  t.refuses("actor_rollout_ref.ref.model", "the reference is the initial policy of RL");
  t.refuses("critic.grad_clip", "the gradients of critic and policy share a limit", "[1.0]");
  t.refuses("actor_rollout_ref.model.override_config", kModelFolder, "[{}]");
  t.refuses("actor_rollout_ref.model.override_config.{attention_dropout embd_pdrop resid_pdrop}",
            "only lora.dropout is supported", "[0]");
  t.refuses("actor_rollout_ref.model.{hf_config_path tokenizer_path custom_chat_template} data.tokenizer",
            kModelFolder);
  t.refuses("actor_rollout_ref.model.lora_adapter_path", "set lora.adapter");
  t.refuses("actor_rollout_ref.model.exclude_modules", "list the layers in target_modules instead", "[[]]");
  t.refuses("actor_rollout_ref.model.lora.rank", "set lora_rank; this key is for verl's Megatron engine", "[0]");
  t.refuses("actor_rollout_ref.actor.optim", "only the optimizer settings of the verl FSDP engine are supported");
  t.refuses("actor_rollout_ref.actor.optim.override_optimizer_config", "set the keys of section optimizer", "[{}]");
  t.refuses("actor_rollout_ref.actor.optim.num_cycles", "Keel's cosine schedule is half a period", "[0.5]");
  t.refuses("actor_rollout_ref.actor.optim.zero_indexed_step", "schedules count from 0", "[true]");
  t.refuses("actor_rollout_ref.actor.optim.optimizer_impl", "the optimizer is Keel's own AdamW",
            R"(["torch.optim", "torchao.optim", "bitsandbytes.optim"])");
  t.refuses("algorithm.rollout_correction.{rollout_is rollout_rs loss_type use_policy_gradient}", kCorrections,
            R"(["ppo_clip", "null", "None", false])");
  t.refuses("keel", "it selects a Hydra file. Fix: run verl with --cfg job --resolve, and import its output");
  t.refuses("trainer.v1.trainer_mode", kStale, R"(["sync"])");
  t.refuses("async_training", kStale, "[0, false]");
  t.refuses("data.train_max_samples", kNoPreprocessing, "[-1]");
  t.refuses("data.{custom_cls.path sampler.class_path datagen.path tool_config_path function_tool_path}",
            kNoPreprocessing);
  t.refuses("reward_model.{enable path} reward.reward_model.enable", kModelReward, "[false]");
  t.refuses("reward.reward_manager.source reward_manager.source reward_model.reward_loop_source",
            "set reward.functions", R"(["register"])");
}

/// Keys that affect only placement, speed and logs, or that matter only with a rejected value.
void add_ignored(KeyTable& t) {
  t.ignores(
      "hydra model_engine ray_kwargs ray_init transfer_queue global_profiler npu_profile distillation skip "
      "sandbox_fusion reward_manager.module reward.{num_workers sandbox_fusion reward_model reward_manager.module} "
      "reward_model");
  t.ignores("actor_rollout_ref.{hybrid_engine nccl_timeout}");
  t.ignores(
      "actor_rollout_ref.actor.{strategy fsdp_config megatron veomni torchtitan automodel profiler profile checkpoint "
      "rollout_n data_loader_seed freeze_vision_tower router_replay qat use_dynamic_bsz ppo_micro_batch_size "
      "ppo_micro_batch_size_per_gpu log_prob_micro_batch_size_per_gpu ulysses_sequence_parallel_size "
      "use_fused_kernels use_torch_compile use_remove_padding use_prefix_grouper use_rollout_log_probs "
      "entropy_from_logits_with_chunking entropy_from_logits_chunk_size entropy_checkpointing pad_to_length "
      "calculate_entropy calculate_sum_pi_squared sum_pi_squared_checkpointing} "
      "actor_rollout_ref.actor.policy_loss.{run clip_cov_ratio clip_cov_lb clip_cov_ub kl_cov_ratio ppo_kl_coef} "
      "actor_rollout_ref.actor.optim.total_training_steps");
  t.ignores(
      "actor_rollout_ref.ref.{strategy rollout_n use_torch_compile log_prob_micro_batch_size "
      "log_prob_micro_batch_size_per_gpu log_prob_use_dynamic_bsz log_prob_max_token_len_per_gpu profiler profile "
      "fsdp_config megatron veomni torchtitan automodel optim ulysses_sequence_parallel_size pad_to_length "
      "router_replay entropy_from_logits_with_chunking entropy_from_logits_chunk_size entropy_checkpointing "
      "use_remove_padding}");
  t.ignores(
      "actor_rollout_ref.rollout.{name mode nnodes n_gpus_per_node seed full_determinism gpu_memory_utilization "
      "enforce_eager cudagraph_capture_sizes free_cache_engine tensor_model_parallel_size data_parallel_size "
      "expert_parallel_size pipeline_model_parallel_size max_num_batched_tokens max_model_len max_num_seqs "
      "enable_chunked_prefill enable_prefix_caching logprobs_mode scheduling_policy load_format layered_summon "
      "log_prob_micro_batch_size log_prob_micro_batch_size_per_gpu log_prob_use_dynamic_bsz "
      "log_prob_max_token_len_per_gpu disable_log_stats multi_stage_wake_up engine_kwargs val_kwargs.do_sample "
      "router_config_path multi_turn calculate_log_probs agent checkpoint_engine trace skip_tokenizer_init "
      "skip_dump_dir moe_load_balance_metrics_interval profiler prometheus mtp qat disaggregation limit_images "
      "update_weights_bucket_megabytes}");
  t.ignores(
      "actor_rollout_ref.model.{use_shm trust_remote_code external_lib enable_activation_offload use_remove_padding "
      "use_liger use_fused_kernels fused_kernel_options tiled_mlp mtp lora override_config.attn_implementation}");
  t.ignores(
      "data.{use_shm val_batch_size return_raw_input_ids return_raw_chat return_full_prompt dataloader_num_workers "
      "validation_shuffle filter_overlong_prompts filter_overlong_prompts_workers image_patch_size image_key video_key "
      "audio_key trust_remote_code custom_cls sampler datagen return_multi_modal_inputs mm_processor_kwargs}");
  t.ignores("algorithm.{rollout_correction pf_ppo filter_groups.max_inflight_gen_batches}");
  t.ignores(
      "critic.{strategy fsdp megatron veomni torchtitan profiler profile checkpoint model rollout_n data_loader_seed "
      "nccl_timeout ppo_micro_batch_size ppo_micro_batch_size_per_gpu use_dynamic_bsz ppo_max_token_len_per_gpu "
      "forward_micro_batch_size forward_micro_batch_size_per_gpu forward_max_token_len_per_gpu loss_scale_factor "
      "ulysses_sequence_parallel_size optim.total_training_steps}");
  t.ignores(
      "trainer.{balance_batch project_name experiment_name log_val_generations rollout_data_dir validation_data_dir "
      "nnodes n_gpus_per_node esi_redundant_time resume_mode resume_from_path checkpoint_callback_class v1 use_v1 "
      "val_before_train default_hdfs_dir del_local_ckpt_after_load remove_previous_ckpt_in_save npu_profile "
      "max_critic_ckpt_to_keep ray_wait_register_center_timeout use_legacy_worker_impl profile_steps}");
}

}  // namespace

const KeyTable& verl_table() {
  static const KeyTable kTable = [] {
    KeyTable t("verl");
    add_settings(t);
    add_verl_rules(t);
    add_refusals(t);
    add_ignored(t);
    t.defaults(kDefaults);
    return t;
  }();
  return kTable;
}

}  // namespace keel::compat
