#include "keel/train/config/config.h"

namespace keel {

/// Names what to use instead of each removed setting. The values in brackets are the constants that replace them.
void add_removed_settings(OptionTable& t) {
  constexpr const char* kShape =
      "was removed. Fix: remove it, or use model.random_weights=true with a model.path whose config.json sets it";
  constexpr const char* kProgram = "was removed. Fix: set it in reward.functions, as code:seconds=20,memory_mib=1024";
  constexpr const char* kAlarm = "was removed. Fix: remove it; docs/reliability.md lists the alarms";
  t.refuse("model.kv_heads", kShape);
  t.refuse("model.intermediate_size", kShape);
  t.refuse("model.tie_embeddings", kShape);
  t.refuse("model.rope_theta", kShape);
  t.refuse("model.rms_norm_eps", kShape);
  t.refuse("data.special_tokens",
           "was removed (true). Fix: set data.chat=always, which keeps special tokens in texts as text");
  t.refuse("data.template_words", "was renamed. Fix: use data.chat_template_kwargs");
  t.refuse(
      "data.date",
      "was removed (2024-07-26). Fix: remove it, or set a variable of the template with data.chat_template_kwargs");
  t.refuse("data.check", "was removed. Fix: set data.bad_rows to stop_late or skip_late, which read rows late");
  t.refuse("task.difficulty", "was removed. Fix: set it in the name: task.name=countdown_3");
  t.refuse("sft.warmup_ratio", "was removed. Fix: set sft.warmup_updates below 1, a fraction of the run");
  t.refuse("sft.noisy_lr_end", "was removed. Fix: set both learning rates: sft.noisy_lr=[0.001, 0.0003]");
  t.refuse("rollout.mismatch_limit", "was removed (0.0001 in float32, 0.01 in bf16 and fp16). Fix: remove it");
  t.refuse("reward.http_retries", "was removed (3). Fix: remove it; set reward.on_error to decide what a failure does");
  t.refuse("reward.code_seconds", kProgram);
  t.refuse("reward.code_memory_mib", kProgram);
  t.refuse("reward.code_processes", "was removed (8). Fix: remove it");
  t.refuse("objective.adapt_target_kept", "was removed. Fix: set target_kept=N in objective.parameters");
  t.refuse("objective.adapt_rate", "was removed (1). Fix: remove it");
  t.refuse("critic.loss_weight", "was removed (0.1 of a shared body). Fix: remove it, or set critic.lr");
  t.refuse("critic.whiten", "was removed (true). Fix: remove it");
  t.refuse("optimizer.warmup_ratio", "was removed. Fix: set optimizer.warmup_updates below 1, a fraction of the run");
  t.refuse("train.max_skipped_updates", "was removed (3). Fix: remove it");
  t.refuse("health.steps", kAlarm);
  t.refuse("health.min_entropy", kAlarm);
  t.refuse("health.min_reward_share", kAlarm);
  t.refuse("health.max_mismatch", kAlarm);
  t.refuse("eval.min_p", "was removed (0). Fix: set eval.top_p or eval.top_k");
  t.refuse("eval.ks", "was removed (1, 2, 4, ... up to eval.samples). Fix: set eval.samples");
  t.refuse("checkpoint.keep_best", "was removed. Fix: set checkpoint.best_metric=auto");
  t.refuse("checkpoint.dtype", "was removed (that of model.path). Fix: `keel convert RUN FOLDER --dtype bfloat16`");
  t.refuse("record.print_every", "was removed (10). Fix: remove it; log.txt has every step");
  t.refuse("record.tokens_every", "was removed (10). Fix: set record.tokens=every_step to record every step");
  t.refuse("record.tokens_rollouts", "was removed (16). Fix: set record.tokens=all to record all completions");
}

}  // namespace keel
