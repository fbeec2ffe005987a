#include "keel/train/config/config.h"

namespace keel {

void RunOptions::describe(OptionTable& table) {
  table.add("dir", dir, "Folder of the run: metrics, samples, checkpoints, report.", not_empty());
  table.add("seed", seed, "Seed of everything random: weights, problems, sampling, shuffling.");
  table.add("device", device, "Where tensors live.", one_of({"cpu", "cuda"}));
  table.add(
      "precision", precision,
      "What the network computes in; its weights are trained and saved from float32 in any case. auto is bf16 on a "
      "GPU and float32 on a CPU, where bf16 and fp16 are slow. fp16 has its loss scaled.",
      one_of({"auto", "float32", "bf16", "fp16"}));
  table.add(
      "deterministic", deterministic,
      "On a GPU: gradients that several tokens give to one row, and those of attention, are added up in one order, so "
      "that two runs have the same bits, which takes longer. On a CPU they always are.");
  table.add("threads", threads, "CPU threads; 0 means one per core. Bitwise equality needs the same number.",
            at_least(0).at_most(1024));
}

constexpr double kMostDataEpochs = 1e6;

void SftOptions::describe(OptionTable& table) {
  describe_files(table);
  table.add("completion_key", answer_key, "Column of what is to be said; empty: recognised.");
  table.add("text_key", text_key,
            "Column of texts that are learned whole and as they are, in place of the two before.");
  table.add("loss_on", loss_on,
            "Which tokens of a row are learned: what the assistant says, with the token that ends it; all that stands "
            "behind the prompt, and of rows without one all, as in TRL (completion); or all. Of a text it is all.",
            one_of({"assistant", "completion", "all"}));
  table.add("max_tokens", max_tokens,
            "Longer rows are left out and counted, never cut; 0 means as many as the model has positions.",
            at_least(0));
  table.add("steps", steps,
            "Supervised updates, on demonstrations of the task at most this many; 0 skips them. With files and "
            "neither steps nor data_epochs it is one pass.",
            at_least(0));
  table.add(
      "data_epochs", data_epochs,
      "Passes over the rows of files, in place of steps: those that are left when they are split and filtered; "
      "also a part of one. An update may take the end of one pass and the beginning of the next; the last one has "
      "the rows that are left.",
      above(0).at_most(kMostDataEpochs));
  table.add("batch", batch, "Rows or demonstrations per update.", at_least(1).at_most(1 << 16));
  table.add("lr", lr,
            "Learning rate; null means 2e-5 on files, 2e-4 there with an adapter, and 3e-3 on the task's noise-free "
            "demonstrations, for the tiny networks that are made for it.",
            at_least(0));
  optimizer.describe_shared(table);
  table.add("eval_every", eval_every,
            "Updates between measurements of the loss on eval_files or held_out, beside those before the first update "
            "and after the last; 0 means only these.",
            at_least(0));
  table.add("stop_loss", stop_loss,
            "Noise-free demonstrations end when the loss's moving average (0.95) is below this; 0 means never.",
            at_least(0));
  table.add("noisy_steps", noisy_steps, "The last updates, on noisy demonstrations; they count towards steps.",
            at_least(0));
  table.add("noisy_lr", noisy_lr, "Learning rates at the first and at the last noisy update; linear in between.",
            at_least(0));
}

void TrainOptions::describe(OptionTable& table) {
  table.add("steps", steps, "RL steps; each samples one batch of rollouts and makes all its updates.", at_least(0));
  table.add(
      "data_epochs", data_epochs,
      "Passes over the training prompts, in place of steps, also a part of one. The steps are those times the "
      "prompts that are left in data.files when it is split and filtered, divided by prompts_per_step and rounded "
      "up, so that the last step may begin another pass; with rollout.dynamic_sampling, which passes over prompts, "
      "they see more of them.",
      above(0).at_most(kMostDataEpochs));
  table.add("prompts_per_step", prompts_per_step, "Prompts in a rollout batch.", at_least(1).at_most(1 << 24));
  table.add("sequences_per_update", sequences_per_update,
            "Completions in one optimizer update; 0 means the whole rollout batch.", at_least(0));
  table.add("shuffle", shuffle,
            "What an update's completions are drawn from, in an order that run.seed decides: whole prompts, each with "
            "all its completions, so that a prompt is computed once for them; or single rollouts.",
            one_of({"prompts", "rollouts"}));
  table.add("epochs", epochs, "Passes over a rollout batch; those over the data are data_epochs.",
            at_least(1).at_most(1 << 16));
  table.add("tokens_per_batch", tokens_per_batch,
            "Packed tokens in one forward and backward; bounds memory and changes no gradient.", at_least(1));
  table.add("mask_truncated", mask_truncated,
            "Whether completions that were cut off at the longest length are left out of the updates; their rewards "
            "count in the advantages of the others all the same.");
  table.add("recompute_activations", recompute_activations,
            "Whether a backward pass computes each layer again from its input, so that only the inputs are kept: less "
            "memory for about a third more work, and the same gradients.");
}

void HealthOptions::describe(OptionTable& table) {
  table.add(
      "on_alarm", on_alarm,
      "What an alarm does, after 20 RL steps in a row with a sign of trouble (docs/reliability.md lists them): it "
      "warns, or the run is saved and stops (exit code 4).",
      one_of({"warn", "stop"}));
}

void CheckpointOptions::describe(OptionTable& table) {
  table.add("every", every, "Steps between checkpoints; 0 saves only between the phases and at the end.", at_least(0));
  table.add("keep", keep, "Newest checkpoints that are kept.", at_least(1));
  table.add("best_metric", best_metric,
            "Keeps the checkpoint of the best evaluation as well, as checkpoints/best, by a key of evaluation rows of "
            "which more is better, such as eval/pass@4; auto is eval/accuracy or eval/reward. none keeps no such one.",
            not_empty());
  table.add("background", background,
            "Writes checkpoints from a copy in memory while the next step goes on; where the copy has no room, or "
            "with false, the run waits for the disk.");
}

void RecordOptions::describe(OptionTable& table) {
  table.add("samples_per_step", samples_per_step,
            "Completions per step that go to samples.jsonl with every token's numbers.", at_least(0));
  table.add("certificate_every", certificate_every,
            "RL steps between certificates of improvement in metrics.jsonl, from the first step on; each costs one "
            "forward pass over the step's completions. 0 means none.",
            at_least(0));
  table.add("tensorboard", tensorboard,
            "Also writes the numbers of metrics.jsonl to RUN/tensorboard, for `tensorboard --logdir RUN`.");
  table.add("wandb", wandb,
            "Sends every row of metrics.jsonl to Weights & Biases, through the package wandb of reward.python "
            "(WANDB_MODE, WANDB_PROJECT and the like apply).");
  table.add("mlflow", mlflow,
            "Sends every row of metrics.jsonl to MLflow, through the package mlflow of reward.python "
            "(MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME apply).");
  table.add(
      "tokens", tokens,
      "What RUN/tokens has of the decisions on tokens, in Parquet files (docs/tokens.md): nothing; of every tenth "
      "step, from the first on, a sample of 16 completions or all; or all completions of every step.",
      one_of({"none", "sample", "all", "every_step"}));
}

}  // namespace keel
