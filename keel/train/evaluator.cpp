#include "keel/train/evaluator.h"

#include <algorithm>

#include "keel/core/interrupt.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/train/config/evaluation_request.h"
#include "keel/train/open_run.h"

namespace keel {
namespace {

constexpr int64_t kSamples = 3;  // of each evaluation in samples.jsonl

}  // namespace

Evaluator::Evaluator(const Config& config, const LoadedModel& policy, PromptSources& prompt_sources, TrainState& state,
                     RunLog& log, RunWatcher& watcher)
    : config_(config),
      policy_(policy),
      prompt_sources_(prompt_sources),
      state_(state),
      log_(log),
      watcher_(watcher),
      best_metric_(config.has_rl() ? best_metric_key(config.checkpoint.best_metric, prompt_sources) : "") {}

bool Evaluator::due() const {
  if (config_.eval.prompts == 0 || state_.rl.last_evaluation == state_.step()) return false;
  const int64_t done = state_.rl.steps, every = config_.eval.every;
  return done == 0 || done >= config_.train.steps || (every > 0 && done % every == 0);
}

bool Evaluator::evaluate_if_due(const Trainer& trainer) {
  if (!due()) return false;
  const HeldOutPrompts held_out = this->held_out();
  const std::vector<Prompt>& prompts = held_out.prompts;
  if (prompts.empty()) return false;  // the files have no held-out part
  watcher_.collecting = true;
  log_.progress("evaluating on " + std::to_string(prompts.size()) + " held-out prompts");
  Stopwatch watch(policy_.model.device());
  const RolloutEngine engine(SamplingModel(trainer.sampler_weights()), policy_.tokenizer);
  const Evaluation result =
      evaluate(engine, prompts, prompt_sources_.reward(), evaluation_request(config_, policy_, state_.updates),
               stop_requested, &watcher_.meters->training);
  const double seconds = watch.lap();
  watcher_.collecting = false;
  if (result.count < static_cast<int64_t>(prompts.size()))
    return false;  // stop requested: a resumed run evaluates again
  log_.scored(result.scores, result.rollouts.size(), state_.step(), config_.reward.on_error);
  state_.rl.last_evaluation = state_.step();
  Json metrics = Json::object();
  write_evaluation(result, metrics);
  if (held_out.skipped.too_long > 0) {
    metrics["eval/too_long"] = held_out.skipped.too_long;
    metrics["eval/max_prompt_tokens"] = prompt_sources_.prompt_limit();
  }
  if (held_out.skipped.bad > 0) metrics["eval/bad_rows"] = held_out.skipped.bad;
  if (const std::string extent = held_out.extent(); !extent.empty()) metrics["eval/extent"] = extent;
  watcher_.add_metrics("eval", metrics);
  for (int64_t i = 0; i < std::min(kSamples, result.count); ++i) {
    const int64_t first = i * config_.eval.samples;
    Json sample = sample_row("eval", state_.step(), prompts[i], result.rollouts[first], policy_.tokenizer);
    if (!result.verdicts[first].reward) sample["reward"] = nullptr;
    watcher_.add_sample(sample);
  }
  log_.evaluation(result, held_out, state_.step(), seconds);
  return config_.checkpoint.keeps_best() && update_best(metrics);
}

/// Returns whether the evaluation is better than all previous ones.
bool Evaluator::update_best(const Json& metrics) {
  if (!metrics.contains(best_metric_))
    log_.warning("step " + std::to_string(state_.step()) + ": this evaluation has no " + best_metric_ +
                 " (checkpoint.best_metric), so it cannot become the best");
  if (!state_.update_best(metrics, best_metric_)) return false;
  log_.best(*state_.best);
  return true;
}

void Evaluator::measure_loss_if_due(SftTrainer& trainer, Demonstrations& demonstrations) {
  const int64_t done = state_.sft.steps, every = config_.sft.eval_every;
  const bool due = done == 0 || trainer.done(state_) || (every > 0 && done % every == 0);
  if (!due || state_.sft.last_evaluation == state_.step()) return;
  if (demonstrations.held_out()) log_.progress("measuring the loss on held-out rows");
  watcher_.collecting = true;
  const std::optional<SftEvalLoss> measured = trainer.held_out_loss();
  watcher_.collecting = false;
  if (!measured) return;
  state_.sft.last_evaluation = state_.step();
  watcher_.add_metrics("eval", metrics_row(*measured));
  log_.sft_eval_loss(*measured, state_.step(), demonstrations.describe_skipped(demonstrations.held_out()->skipped()));
}

}  // namespace keel
