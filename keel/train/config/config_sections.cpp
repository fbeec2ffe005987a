#include "keel/train/config/config.h"

namespace keel {

void RunOptions::describe(OptionTable& table) {
  table.add("dir", dir, "Run folder: metrics, samples, checkpoints, report.", not_empty());
  table.add("seed", seed, "Random seed of weights, problems, sampling and shuffling.");
  table.add("device", device, "Device of all tensors. auto is the GPU if this build can use one, else the CPU.",
            one_of({"auto", "cpu", "cuda"}));
  table.add("precision", precision,
            "Compute dtype of the network; its master weights are trained and saved in float32 in any case. auto "
            "is bf16 on a GPU and float32 on a CPU, where bf16 and fp16 are slow. fp16 uses loss scaling.",
            one_of({"auto", "float32", "bf16", "fp16"}));
  table.add("deterministic", deterministic,
            "On a GPU, sums embedding and attention gradients in a fixed order, so that two runs are bitwise "
            "equal; slower. Runs on a CPU always are.");
  table.add("threads", threads, "CPU threads; 0 means one per core. Bitwise equal runs need the same number.",
            at_least(0).at_most(1024));
}

constexpr double kMaxDataEpochs = 1e6;

void SftOptions::describe(OptionTable& table) {
  describe_files(table);
  table.add("completion_key", answer_key, "Column of the completion. Empty: detected.");
  table.add("text_key", text_key,
            "Column of plain text, which is trained on in full and without a chat template; replaces prompt_key "
            "and completion_key.");
  table.add("loss_on", loss_on,
            "Tokens that count in the loss: assistant, the assistant's messages and their end tokens; "
            "completion, all tokens after the prompt, or the whole row if it has no prompt, as in TRL; or all. "
            "For text_key always all.",
            one_of({"assistant", "completion", "all"}));
  table.add("max_tokens", max_tokens,
            "Maximum tokens in a row; longer rows are skipped and counted, never truncated. 0 means the model's "
            "maximum positions.",
            at_least(0));
  table.add("steps", steps,
            "Supervised updates; for a task's demonstrations a maximum. 0 skips the phase; with files and "
            "neither steps nor data_epochs set, it is one epoch.",
            at_least(0));
  table.add("data_epochs", data_epochs,
            "Epochs over the rows of files that remain after splitting and filtering, instead of steps; may be a "
            "fraction. A batch may span two epochs; the last one has the remaining rows.",
            above(0).at_most(kMaxDataEpochs));
  table.add("batch", batch, "Rows or demonstrations per update.", at_least(1).at_most(1 << 16));
  table.add("lr", lr,
            "Learning rate; null means 2e-5 on files, 2e-4 on files with an adapter, and 3e-3 on noise-free "
            "demonstrations of the task, which train tiny networks.",
            at_least(0));
  optimizer.describe_shared(table);
  table.add("eval_every", eval_every,
            "Updates between measurements of the loss on eval_files or held_out. It is also measured before the "
            "first update and after the last; 0 means only then.",
            at_least(0));
  table.add("stop_loss", stop_loss,
            "Training on noise-free demonstrations ends when the moving average (0.95) of the loss is below "
            "this; 0 means never.",
            at_least(0));
  table.add("noisy_steps", noisy_steps,
            "Number of updates on noisy demonstrations at the end; they count towards steps.", at_least(0));
  table.add("noisy_lr", noisy_lr, "Learning rates at the first and at the last noisy update; linear in between.",
            at_least(0));
}

void TrainOptions::describe(OptionTable& table) {
  table.add("steps", steps, "RL steps; each samples one batch of rollouts and makes all its updates.", at_least(0));
  table.add("data_epochs", data_epochs,
            "Epochs over the training prompts, instead of steps; may be a fraction. The number of steps is this, "
            "times the prompts of data.files that remain after splitting and filtering, divided by "
            "prompts_per_step and rounded up; the last step may begin another epoch. rollout.dynamic_sampling "
            "drops prompts, so its steps read more.",
            above(0).at_most(kMaxDataEpochs));
  table.add("prompts_per_step", prompts_per_step, "Prompts in a rollout batch.", at_least(1).at_most(1 << 24));
  table.add("sequences_per_update", sequences_per_update,
            "Completions in one optimizer update (mini-batch); 0 means the whole rollout batch.", at_least(0));
  table.add("shuffle", shuffle,
            "What is shuffled between updates, in an order that run.seed determines: prompts, each with all its "
            "completions, so that a prompt is computed once for all of them; or single rollouts.",
            one_of({"prompts", "rollouts"}));
  table.add("epochs", epochs, "Epochs over a rollout batch; data_epochs counts those over the data.",
            at_least(1).at_most(1 << 16));
  table.add("tokens_per_batch", tokens_per_batch,
            "Packed tokens in one micro-batch; bounds memory and changes no gradient.", at_least(1));
  table.add("mask_truncated", mask_truncated,
            "Excludes completions that reached the maximum length from the updates; their rewards still count in "
            "the advantages of the others.");
  table.add("recompute_activations", recompute_activations,
            "Activation checkpointing: the backward pass computes each layer again from its input. Takes less "
            "memory and about a third more work, and gives the same gradients.");
}

void HealthOptions::describe(OptionTable& table) {
  table.add("on_alarm", on_alarm,
            "What to do after 20 RL steps in a row with a warning sign (docs/reliability.md lists them): warn, "
            "or stop, which saves the run and exits with code 4.",
            one_of({"warn", "stop"}));
}

void CheckpointOptions::describe(OptionTable& table) {
  table.add("every", every, "Steps between checkpoints; 0 saves only between the phases and at the end.", at_least(0));
  table.add("keep", keep, "Number of newest checkpoints to keep.", at_least(1));
  table.add("best_metric", best_metric,
            "Evaluation metric, higher is better, whose best checkpoint is also kept, as checkpoints/best; for "
            "example eval/pass@4. auto is eval/accuracy or eval/reward; none keeps no best checkpoint.",
            not_empty());
  table.add("background", background,
            "Writes checkpoints from a copy in memory while the next step runs. Without memory for the copy, or "
            "with false, the run waits for the disk.");
}

void RecordOptions::describe(OptionTable& table) {
  table.add("samples_per_step", samples_per_step,
            "Completions per step in samples.jsonl, with the values of every token.", at_least(0));
  table.add("certificate_every", certificate_every,
            "RL steps between improvement certificates in metrics.jsonl, starting at the first step; each costs "
            "one forward pass over the completions of the step. 0 means none.",
            at_least(0));
  table.add("tensorboard", tensorboard,
            "Also writes the metrics of metrics.jsonl to RUN/tensorboard, for `tensorboard --logdir RUN`.");
  table.add("wandb", wandb,
            "Sends every row of metrics.jsonl to Weights & Biases, through the package wandb of reward.python "
            "(WANDB_MODE, WANDB_PROJECT and similar variables apply).");
  table.add("mlflow", mlflow,
            "Sends every row of metrics.jsonl to MLflow, through the package mlflow of reward.python "
            "(MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME apply).");
  table.add("tokens", tokens,
            "Token records to write to RUN/tokens, as Parquet files (docs/tokens.md): none; 16 sampled "
            "completions of every tenth step, from the first on (sample); all completions of these steps (all) "
            "or of every step (every_step).",
            one_of({"none", "sample", "all", "every_step"}));
}

}  // namespace keel
