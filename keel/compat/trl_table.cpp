#include "keel/compat/conversions.h"
#include "keel/core/error.h"
#include "keel/core/options/config_tree.h"
#include "keel/core/strings.h"

namespace keel::compat {
namespace {

Json max_completion(const Json& value) {
  if (value.is_null())
    fail(ExitCode::kBadConfiguration, "null (no limit) is not supported. Fix: add rollout.max_new_tokens=N");
  return value;
}

Json null_to_no_limit(const Json& value) { return value.is_null() ? Json(1e9) : value; }

Json null_to_zero(const Json& value) { return value.is_null() ? Json(0) : value; }

/// Accepts a dataset_name that is a local file.
Json dataset_files(const Json& value) {
  if (value.is_null()) return kNoValue;
  const std::string name = as_text(value);
  for (const char* ending : {".jsonl", ".json", ".csv", ".parquet", ".gz", ".zst"})
    if (name.ends_with(ending)) return Json::array({name});
  fail(ExitCode::kBadConfiguration, "got ", value.dump(),
       ", a data set of the Hub, but Keel reads files. Fix: save it as ",
       ".parquet or .jsonl, and set dataset_name=FILE");
}

/// Collects the files of a mixture.
Json mixture_files(const Json& value) {
  if (value.is_null() || value == Json::array()) return kNoValue;
  Json files = Json::array();
  for (const Json& part : value.is_array() ? value : Json::array({value})) {
    if (!part.is_object() || !part.contains("data_files"))
      fail(ExitCode::kBadConfiguration, "got ", part.dump(), ", expected data_files. Fix: set sft.files=[...]");
    for (const auto& [key, entry] : part.items())
      if (key != "data_files" && key != "path" && !entry.is_null() && !(key == "split" && entry == "train"))
        fail(ExitCode::kBadConfiguration, "unsupported ", key, " ", entry.dump(), ". Fix: set sft.files=[...]");
    const Json names = to_list(part["data_files"]);
    files.insert(files.end(), names.begin(), names.end());
  }
  return files;
}

Json row_order(const Json& value) {
  if (value.is_null() || value == "random") return kNoValue;
  return look_up("sequential=false random=true", value) == "true";
}

constexpr const char* kUnsupported = "not supported, and ignoring it would change the training";
constexpr const char* kPlainLora = "Keel supports only plain LoRA adapters (section lora)";

constexpr const char* kTrainerDefaults =
    R"({"lora_r": 16, "lora_alpha": 32, "lora_dropout": 0.05, "lr_scheduler_type": "linear", "num_train_epochs": 3,
    "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "num_processes": 1, "logging_steps": 10})";

/// Keys of all TRL trainers: TrainingArguments of transformers, ModelConfig, ScriptArguments, LoraConfig.
void add_trainer_rows(KeyTable& t) {
  t.maps("output_dir", "run.dir");
  t.maps("seed", "run.seed");
  t.maps("full_determinism", "run.deterministic");
  t.maps("use_cpu", "run.device", [](const Json& value) { return value == true ? Json("cpu") : kNoValue; });
  t.maps("model model_name_or_path", "model.path");
  t.maps("activation_checkpointing gradient_checkpointing", "train.recompute_activations", skip_null);
  t.maps("save_total_limit", "checkpoint.keep", skip_null);

  t.refuses(
      "load_in_8bit load_in_4bit use_dora lora_modules_to_save modules_to_save lora_target_parameters "
      "neftune_noise_alpha label_smoothing_factor chat_template chat_template_path group_by_length "
      "auto_find_batch_size optim_args optim_target_modules lr_scheduler_kwargs",
      kUnsupported, "[false, 0, {}, []]");
  t.refuses("lr_scheduler_kwargs.num_cycles", "Keel's cosine schedule is half a period", "[0.5]");
  t.refuses("model_revision", "models are local folders. Fix: set model.path to the folder", R"(["main"])");
  t.refuses("init_lora_weights inference_mode", kPlainLora, "[true, false]");
  t.refuses("peft_type megatron_core qalora_group_size", kPlainLora, R"(["LORA", "megatron.core", 16])");
  t.refuses(
      "bias layers_to_transform layers_pattern rank_pattern alpha_pattern fan_in_fan_out exclude_modules "
      "base_model_name_or_path auto_mapping megatron_config trainable_token_indices loftq_config eva_config "
      "corda_config lora_ga_config velora_config alora_invocation_tokens use_qalora monteclora_config "
      "layer_replication runtime_config lora_bias target_parameters use_bdlora arrow_config kasa_config "
      "ensure_weight_tying",
      kPlainLora, R"(["none", false, {}, {"ephemeral_gpu_offload": false}])");
  t.ignores(
      "push_to_hub hub_model_id hub_strategy hub_token hub_private_repo hub_always_push hub_revision "
      "hub_model_revision push_to_hub_revision logging_strategy logging_first_step logging_dir "
      "logging_nan_inf_filter log_level log_level_replica log_on_each_node disable_tqdm include_tokens_per_second "
      "include_num_input_tokens_seen project trackio_space_id trackio_bucket_id trackio_static_space_id "
      "skip_memory_metrics wandb_entity wandb_project wandb_run_group callbacks benchmarks run_name");
  t.ignores(
      "ddp_backend ddp_bucket_cap_mb ddp_broadcast_buffers ddp_find_unused_parameters ddp_timeout "
      "ddp_static_graph average_tokens_across_devices eval_use_gather_object debug fsdp fsdp_config deepspeed "
      "accelerator_config accelerate_config parallelism_config num_machines machine_rank no_cuda env "
      "local_rank torch_empty_cache_steps dataloader_num_workers dataloader_pin_memory dataloader_prefetch_factor "
      "dataloader_persistent_workers dataloader_multiprocessing_context dataloader_in_order dataloader_drop_last "
      "liger_kernel_config torch_compile torch_compile_backend torch_compile_mode tf32 bf16_full_eval "
      "fp16_full_eval pad_to_multiple_of use_liger_kernel attn_implementation save_safetensors dataset_config "
      "dataset_configs dataset_train_split dataset_test_split dataset_streaming streaming do_train do_predict "
      "do_eval overwrite_output_dir resume_from_checkpoint ignore_data_skip save_on_each_node "
      "enable_jit_checkpoint restore_callback_states_from_checkpoint save_only_model "
      "gradient_checkpointing_kwargs activation_checkpointing_kwargs eval_on_start eval_delay "
      "eval_accumulation_steps prediction_loss_only batch_eval_metrics eval_do_concat_batches include_for_metrics "
      "per_device_eval_batch_size bnb_4bit_quant_type use_bnb_nested_quant bnb_4bit_quant_storage "
      "router_aux_loss_coef ignore_bias_buffers lora_task_type task_type peft_version length_column_name data_seed "
      "trust_remote_code use_cache remove_unused_columns label_names model_init_kwargs");
}

KeyTable grpo_table() {
  KeyTable t("TRL");
  add_trainer_rows(t);
  add_grpo_rules(t);
  t.maps("learning_rate", "optimizer.lr");
  t.maps("adam_beta1", "optimizer.beta1");
  t.maps("adam_beta2", "optimizer.beta2");
  t.maps("adam_epsilon", "optimizer.eps");
  t.maps("weight_decay", "optimizer.weight_decay");
  t.maps("max_grad_norm", "optimizer.max_grad_norm", null_to_no_limit, "null disables clipping");
  t.maps("optim", "optimizer.moments", to_moments, "adamw_8bit is 8bit");
  t.maps("num_generations", "rollout.samples_per_prompt");
  t.maps("max_completion_length", "rollout.max_new_tokens", max_completion);
  t.maps("temperature", "rollout.temperature");
  t.maps("num_iterations", "train.epochs");
  t.maps("mask_truncated_completions", "train.mask_truncated");
  t.maps("beta", "reference.kl_coefficient");
  t.maps("entropy_coef", "objective.entropy_coefficient");
  t.maps("dataset_name", "data.files", dataset_files, "a list of files");
  t.maps("dataset_prompt_column", "data.prompt_key", skip_null);
  t.maps("system_prompt", "data.system_prompt", skip_null);
  t.maps("top_p", "rollout.top_p", skip_null);
  t.maps("top_k", "rollout.top_k", negative_to_zero, "-1 is 0, all tokens");
  t.maps("min_p", "rollout.min_p", skip_null);
  t.maps("shuffle_dataset", "data.shuffle", skip_null);
  t.maps("chat_template_kwargs", "data.chat_template_kwargs", to_assignments, "each as name=value");
  t.maps("max_prompt_length", "data.max_prompt_tokens", skip_null, "longer prompts are skipped");
  t.defaults(R"({"learning_rate": 1e-6, "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8, "weight_decay": 0,
      "max_grad_norm": 1.0, "num_generations": 8, "max_completion_length": 512, "temperature": 1.0, "num_iterations": 1,
      "beta": 0, "entropy_coef": 0, "loss_type": "dapo", "importance_sampling_level": "token", "epsilon": 0.2,
      "scale_rewards": "group", "sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05, "vespo_k_pos": 2.0,
      "vespo_lambda_pos": 3.0, "vespo_k_neg": 3.0, "vespo_lambda_neg": 2.0, "use_bias_correction_kl": true,
      "multi_objective_aggregation": "sum_then_normalize"})");

  t.refuses("greater_is_better", "the best checkpoint has the maximum of checkpoint.best_metric", "[true]");
  t.refuses("off_policy_mask_threshold", "set objective.method=ds_v32, which has this mask");
  t.refuses("top_entropy_quantile", "no method of Keel masks tokens by entropy", "[1]");
  t.refuses("max_staleness", "the sampler of Keel lags by a fixed number of steps: set rollout.staleness=N", "[0]");
  t.refuses("repetition_penalty", "a penalty changes the distribution that the ratios refer to", "[1]");
  t.refuses("generation_kwargs", "set rollout.temperature, rollout.max_new_tokens and rollout.stop_strings", "[{}]");
  t.refuses("sync_ref_model", "the reference is always the initial policy of RL", "[false]");
  t.refuses("max_tool_calling_iterations", "tool calls are not supported", "[0]");
  t.refuses("use_adaptive_entropy", "the entropy coefficient is constant (entropy_coef)", "[false]");
  t.refuses("missing_eos_penalty", "set reward.overlong_buffer, or add stopped to reward.functions");
  t.refuses("vllm_structured_outputs_regex vllm_guided_decoding_regex reward_model_name_or_path", kUnsupported,
            "[false, {}]");
  t.refuses("RLOOConfig", "TRL's RLOO uses the ratio of whole completions, which Keel does not support");
  t.ignores(
      "use_vllm vllm_importance_sampling_correction vllm_mode vllm_model_impl vllm_enable_sleep_mode "
      "vllm_server_base_url vllm_server_host vllm_server_port vllm_server_timeout vllm_group_port "
      "vllm_gpu_memory_utilization vllm_max_model_length vllm_max_model_len vllm_tensor_parallel_size vllm_device "
      "vllm_dtype vllm_enable_prefix_caching use_transformers_paged use_transformers_continuous_batching "
      "transformers_continuous_batching_config cache_implementation remote_gen_model_url "
      "vllm_importance_sampling_mode vllm_importance_sampling_cap vllm_importance_sampling_clip_max "
      "vllm_importance_sampling_clip_min ref_model_mixup_alpha ref_model_sync_steps use_liger_loss log_completions "
      "log_completions_hub_repo num_completions_to_print log_unique_prompts log_multimodal "
      "wandb_log_unique_prompts ds3_gather_for_generation cast_lm_head_to_fp32 entropy_coef_min entropy_coef_max "
      "entropy_coef_delta entropy_target train_sampling_strategy");
  t.defaults(kTrainerDefaults);
  return t;
}

KeyTable sft_table() {
  KeyTable t("TRL SFT");
  add_trainer_rows(t);
  add_sft_rules(t);
  t.maps("learning_rate", "sft.lr");
  t.maps("adam_beta2", "sft.beta2");
  t.maps("weight_decay", "sft.weight_decay");
  t.maps("max_grad_norm", "sft.max_grad_norm", null_to_no_limit, "null disables clipping");
  t.maps("max_length", "sft.max_tokens", null_to_zero, "null is 0, no limit");
  t.maps("dataset_name", "sft.files", dataset_files, "a list of files");
  t.maps("datasets", "sft.files", mixture_files, "their data_files");
  t.maps("test_split_size", "sft.held_out", skip_null);
  t.maps("train_sampling_strategy", "data.shuffle", row_order, "sequential is false");
  t.defaults(
      R"({"learning_rate": 2e-5, "adam_beta2": 0.999, "weight_decay": 0, "max_grad_norm": 1.0, "max_length": 1024,
      "dataset_text_field": "text", "assistant_only_loss": false})");
  t.refuses("optim", "SFT uses AdamW with float32 moments", R"(["adamw_torch", "adamw_torch_fused", "adamw_hf"])");
  t.refuses("packing_strategy", "packing is not supported. Fix: set packing to false", R"(["bfd"])");
  t.refuses("eos_token", "set it in the model's generation_config.json and tokenizer_config.json",
            R"(["<EOS_TOKEN>"])");
  t.refuses("dataset_kwargs", "rows are not preprocessed", R"([{}, {"skip_prepare_dataset": false}])");
  t.refuses("loss_type", "the loss is the negative log-likelihood", R"(["nll", "chunked_nll"])");
  t.refuses("load_best_model_at_end", "SFT keeps its newest checkpoint", "[false]");
  t.refuses("adam_beta1", "beta1 of SFT is 0.9", "[0.9]");
  t.refuses("adam_epsilon", "eps of SFT is 1e-8", "[1e-8]");
  t.ignores(
      "padding_free eval_packing pad_token truncation_mode activation_offloading dataset_num_proc shuffle_dataset "
      "metric_for_best_model greater_is_better system_prompt");
  t.defaults(kTrainerDefaults);
  return t;
}

}  // namespace

const KeyTable& trl_grpo_table() {
  static const KeyTable kTable = grpo_table();
  return kTable;
}

const KeyTable& trl_sft_table() {
  static const KeyTable kTable = sft_table();
  return kTable;
}

}  // namespace keel::compat
