#include "keel/core/json_reader.h"
#include "keel/train/config/config.h"
#include "keel/train/config/foreign_names.h"

namespace keel {
namespace {

const std::string kEvaluations = "evaluations are those of section eval, or sft; remove it";
const std::string kOneRecomputation = "there is one way of it, train.recompute_activations; remove it";

// TRL 1.16.0: what its trainers inherit (TrainingArguments of transformers, ModelConfig, ScriptArguments), PEFT's
// LoraConfig, and what recipes of open-r1 have beside them.
const std::vector<ForeignGroup>& trainer_groups() {
  using enum Fate;
  static const std::vector<ForeignGroup> kGroups = {
      {"TRL",
       kDropped,
       "nothing is uploaded: a run's folder holds Hugging Face folders; remove it",
       {false, nullptr},
       "",
       {"push_to_hub", "hub_model_id", "hub_strategy", "hub_token", "hub_private_repo", "hub_always_push",
        "hub_revision", "hub_model_revision", "push_to_hub_revision"}},
      {"TRL",
       kDropped,
       kLogged,
       {false, nullptr},
       "",
       {"logging_strategy",
        "logging_first_step",
        "logging_dir",
        "logging_nan_inf_filter",
        "log_level",
        "log_level_replica",
        "log_on_each_node",
        "disable_tqdm",
        "include_tokens_per_second",
        "include_num_input_tokens_seen",
        "project",
        "trackio_space_id",
        "trackio_bucket_id",
        "trackio_static_space_id",
        "skip_memory_metrics",
        "wandb_entity",
        "wandb_project",
        "wandb_run_group",
        "callbacks",
        "benchmarks"}},
      {"TRL",
       kDropped,
       kDevices,
       {false, nullptr},
       "",
       {"ddp_backend",
        "ddp_bucket_cap_mb",
        "ddp_broadcast_buffers",
        "ddp_find_unused_parameters",
        "ddp_timeout",
        "ddp_static_graph",
        "average_tokens_across_devices",
        "eval_use_gather_object",
        "debug",
        "fsdp",
        "fsdp_config",
        "deepspeed",
        "accelerator_config",
        "parallelism_config",
        "num_machines",
        "machine_rank",
        "use_cpu",
        "no_cuda",
        "env",
        "torch_empty_cache_steps",
        "dataloader_num_workers",
        "dataloader_pin_memory",
        "dataloader_prefetch_factor",
        "dataloader_persistent_workers",
        "dataloader_multiprocessing_context",
        "dataloader_in_order"}},
      {"TRL",
       kDropped,
       "a run has one device; the processes that it says (8 in TRL's own) multiply the batch: set num_processes to "
       "them",
       {nullptr},
       "",
       {"accelerate_config"}},
      {"TRL",
       kByNature,
       kKernels,
       {false, nullptr},
       "",
       {"liger_kernel_config", "torch_compile", "torch_compile_backend", "torch_compile_mode", "tf32", "bf16_full_eval",
        "fp16_full_eval", "pad_to_multiple_of"}},
      {"TRL", kByNature, "the loss is computed by Keel's own kernels; remove it", {false}, "", {"use_liger_kernel"}},
      {"TRL", kByNature, "attention is Keel's own; remove it", {}, "", {"attn_implementation"}},
      {"TRL", kByNature, "weights are saved as safetensors; remove it", {true}, "", {"save_safetensors"}},
      {"TRL",
       kDropped,
       "the rows are those of data.files, or sft.files, and for evaluations of eval_files beside them; remove it",
       {nullptr},
       "",
       {"dataset_config", "dataset_configs", "dataset_train_split", "dataset_test_split", "dataset_streaming",
        "streaming"}},
      {"TRL",
       kDropped,
       "`keel train` says itself whether a run is new, goes on (--resume) or replaces one (--overwrite); "
       "remove it",
       {false, nullptr},
       "",
       {"do_train", "do_eval", "do_predict", "overwrite_output_dir", "resume_from_checkpoint", "ignore_data_skip",
        "save_on_each_node", "enable_jit_checkpoint", "restore_callback_states_from_checkpoint"}},
      {"TRL", kDropped, "a checkpoint holds what --resume needs as well; remove it", {false}, "", {"save_only_model"}},
      {"TRL",
       kDropped,
       kOneRecomputation,
       {nullptr},
       "",
       {"gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"}},
      {"TRL", kDropped, "a run is its folder; set run.dir", {nullptr}, "", {"run_name"}},
      {"TRL",
       kDropped,
       kEvaluations,
       {false, nullptr, 0},
       "",
       {"eval_on_start", "eval_delay", "eval_accumulation_steps", "prediction_loss_only", "batch_eval_metrics",
        "eval_do_concat_batches", "include_for_metrics"}},
      {"TRL",
       kDropped,
       "it is read only beside a setting that is off; remove it",
       {nullptr},
       "",
       {"bnb_4bit_quant_type", "use_bnb_nested_quant", "bnb_4bit_quant_storage", "router_aux_loss_coef",
        "ignore_bias_buffers"}},
      {"TRL", kDropped, "an adapter is a language model's; remove it", {"CAUSAL_LM"}, "", {"lora_task_type", "task_type"}},
      {"TRL", kDropped, "data.shuffle says in which order rows are taken; remove it", {}, "", {"length_column_name"}},
      {"TRL",
       kDropped,
       "passes over the rows are joined, and none is left out; remove it",
       {false, nullptr},
       "",
       {"dataloader_drop_last"}},
      {"TRL", kDropped, "everything random follows from run.seed; remove it", {nullptr}, "", {"data_seed"}},
      {"TRL",
       kDropped,
       "no code of a model's is run, and no cache is kept while it is trained; remove it",
       {false},
       "",
       {"trust_remote_code", "use_cache"}},
      {"TRL",
       kRefused,
       "a model is a folder or what the local cache has of it; name the folder in model.path",
       {"main", nullptr},
       "",
       {"model_revision"}},
      {"TRL",
       kRefused,
       kNotHere,
       {false, nullptr, 0, Json::object(), Json::array()},
       "",
       {"load_in_8bit", "load_in_4bit", "use_dora", "lora_modules_to_save", "modules_to_save", "lora_target_parameters",
        "neftune_noise_alpha", "label_smoothing_factor", "chat_template", "chat_template_path", "group_by_length",
        "auto_find_batch_size", "optim_args", "optim_target_modules", "model_init_kwargs"}}};
  return kGroups;
}

/// PEFT 0.21.2, LoraConfig: in its own section or beside GRPOConfig's names, where what recipes call lora_... has the same
/// names in both.
void refuse_other_adapters(OptionTable& table, const std::string& section) {
  using enum Fate;
  const std::string plain = "adapters are plain ones (section lora); remove it";
  refuse_groups(
      table,
      {{"TRL", kDropped, "it says which program wrote the file; remove it", {nullptr}, section, {"peft_version"}},
       {"TRL", kRefused, plain, {true, false, nullptr}, section, {"init_lora_weights", "inference_mode"}},
       {"TRL", kRefused, plain, {"LORA", "megatron.core", 16}, section, {"peft_type", "megatron_core", "qalora_group_size"}},
       {"TRL",
        kRefused,
        plain,
        {"none", false, nullptr, Json::object(), Json({{"ephemeral_gpu_offload", false}})},
        section,
        {"bias",
         "layers_to_transform",
         "layers_pattern",
         "rank_pattern",
         "alpha_pattern",
         "fan_in_fan_out",
         "exclude_modules",
         "base_model_name_or_path",
         "revision",
         "auto_mapping",
         "megatron_config",
         "trainable_token_indices",
         "loftq_config",
         "eva_config",
         "corda_config",
         "lora_ga_config",
         "velora_config",
         "alora_invocation_tokens",
         "use_qalora",
         "monteclora_config",
         "layer_replication",
         "runtime_config",
         "lora_bias",
         "target_parameters",
         "use_bdlora",
         "arrow_config",
         "kasa_config",
         "ensure_weight_tying"}}});
}

/// And GRPOConfig.
const std::vector<ForeignGroup>& grpo_groups() {
  using enum Fate;
  static const std::vector<ForeignGroup> kGroups = {
      {kSupervisedTrl,
       kRefused,
       "it is of supervised fine-tuning: `keel import RECIPE -o keel.yaml` makes a configuration for `keel sft`",
       {},
       "",
       {"packing", "packing_strategy", "padding_free", "eval_packing", "pad_token", "eos_token", "max_length",
        "truncation_mode", "assistant_only_loss", "completion_only_loss", "dataset_text_field", "dataset_kwargs",
        "dataset_num_proc", "activation_offloading", "datasets", "test_split_size", "SFTConfig"}},
      {"TRL",
       kDropped,
       "nothing is uploaded: a run's folder holds Hugging Face folders; remove it",
       {nullptr},
       "",
       {"log_completions_hub_repo"}},
      {"TRL",
       kDropped,
       kLogged,
       {false, nullptr},
       "",
       {"num_completions_to_print", "log_unique_prompts", "log_multimodal", "wandb_log_unique_prompts"}},
      {"TRL", kDropped, kDevices, {false, nullptr}, "", {"ds3_gather_for_generation"}},
      {"TRL",
       kDropped,
       kSampler,
       {false, nullptr},
       "",
       {"vllm_mode",
        "vllm_model_impl",
        "vllm_enable_sleep_mode",
        "vllm_server_base_url",
        "vllm_server_host",
        "vllm_server_port",
        "vllm_server_timeout",
        "vllm_group_port",
        "vllm_gpu_memory_utilization",
        "vllm_max_model_length",
        "vllm_max_model_len",
        "vllm_tensor_parallel_size",
        "vllm_device",
        "vllm_dtype",
        "vllm_enable_prefix_caching",
        "use_transformers_paged",
        "use_transformers_continuous_batching",
        "transformers_continuous_batching_config",
        "cache_implementation",
        "remote_gen_model_url",
        "vllm_importance_sampling_mode",
        "vllm_importance_sampling_cap",
        "vllm_importance_sampling_clip_max",
        "vllm_importance_sampling_clip_min"}},
      {"TRL", kByNature, kKernels, {false, nullptr}, "", {"cast_lm_head_to_fp32"}},
      {"TRL",
       kByNature,
       "a reward function gets every column of a row; remove it",
       {false},
       "",
       {"remove_unused_columns", "label_names"}},
      {"TRL",
       kDropped,
       "it is read only beside a setting that is off; remove it",
       {nullptr},
       "",
       {"entropy_coef_min", "entropy_coef_max", "entropy_coef_delta", "entropy_target"}},
      {"TRL",
       kDropped,
       "data.shuffle says in which order rows are taken; remove it",
       {},
       "",
       {"train_sampling_strategy"}},
      {"TRL",
       kRefused,
       kNotHere,
       {false, nullptr, 0, Json::object(), Json::array()},
       "",
       {"vllm_structured_outputs_regex", "vllm_guided_decoding_regex", "reward_model_name_or_path"}},
      {"TRL",
       kRefused,
       "TRL's RLOO weighs whole completions by the ratio of their summed log-probabilities, which is no "
       "method of Keel's; objective.advantage=rloo has its advantages beside the clip of single tokens",
       {},
       "",
       {"RLOOConfig"}}};
  return kGroups;
}

/// What its trainers have for the names above where nothing is said, unless that is null or off: it writes down all of
/// them, and they change nothing.
const Json& trl_defaults() {
  static const Json kDefaults = parse_json(R"({
    "accelerator_config": {"dispatch_batches": null, "even_batches": true, "gradient_accumulation_kwargs": null,
                           "non_blocking": false, "split_batches": false, "use_seedable_sampler": true},
    "average_tokens_across_devices": true, "dataloader_in_order": true, "dataloader_num_workers": 0,
    "dataloader_pin_memory": true, "ddp_timeout": 1800, "debug": [], "ds3_gather_for_generation": true,
    "entropy_coef_delta": 0.005, "entropy_coef_max": 1, "entropy_coef_min": 0, "entropy_target": 0.2,
    "eval_do_concat_batches": true, "hub_strategy": "every_save", "hub_token": "<HUB_TOKEN>", "include_for_metrics": [],
    "include_num_input_tokens_seen": "no", "length_column_name": "length", "log_level": "passive",
    "log_level_replica": "warning", "log_multimodal": true, "log_on_each_node": true, "logging_nan_inf_filter": true,
    "logging_strategy": "steps", "project": "huggingface", "skip_memory_metrics": true,
    "train_sampling_strategy": "random", "vllm_gpu_memory_utilization": 0.3, "vllm_group_port": 51216,
    "vllm_importance_sampling_clip_max": 3, "vllm_importance_sampling_mode": "sequence_mask", "vllm_mode": "colocate",
    "vllm_model_impl": "vllm", "vllm_server_host": "0.0.0.0", "vllm_server_port": 8000, "vllm_server_timeout": 240,
    "vllm_tensor_parallel_size": 1})");
  return kDefaults;
}

}  // namespace

void refuse_groups(OptionTable& table, const std::vector<ForeignGroup>& groups) {
  for (const ForeignGroup& group : groups)
    for (const char* name : group.names) {
      std::vector<Json> harmless = group.harmless;
      if (const auto unsaid = trl_defaults().find(group.section + name); unsaid != trl_defaults().end())
        harmless.push_back(*unsaid);
      table.refuse(group.section + name, group.source, group.reason, harmless, group.fate);
    }
}

void add_left_out_of_trainers(OptionTable& table) {
  refuse_groups(table, trainer_groups());
  refuse_other_adapters(table, "LoraConfig.");
  refuse_other_adapters(table, "");
}

void add_left_out_of_trl(OptionTable& table) {
  add_left_out_of_trainers(table);
  refuse_groups(table, grpo_groups());
}

}  // namespace keel
