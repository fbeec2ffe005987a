#include "keel/core/tensor/stopwatch.h"
#include "keel/core/written.h"
#include "keel/train/run.h"

namespace keel {

/// False when someone asked to stop.
bool Run::warm_up() {
  bool due = false;
  while (true) {
    measure_loss_if_due();
    if (warm_up_->done(state_)) begin(config_.has_rl() ? Phase::kRl : Phase::kDone);
    note_finished_save();
    if (saved_for_interrupt()) return false;
    if (state_.phase != Phase::kSft) break;
    if (due) save(Saving::kBesideSteps);
    warm_up_step();
    due = checkpoint_due();
  }
  save();
  return true;
}

/// On rows that are kept for it: before the first update, after the last, and every so many between.
void Run::measure_loss_if_due() {
  const int64_t done = state_.sft.steps, every = config_.sft.eval_every;
  const bool due = done == 0 || warm_up_->done(state_) || (every > 0 && done % every == 0);
  if (!due || state_.sft.last_evaluation == state_.step()) return;
  if (demonstrations_.held_out()) console_.progress("measuring the loss on held-out rows");
  watcher_.drawing = true;
  const std::optional<SupervisedLoss> measured = warm_up_->held_out_loss();
  watcher_.drawing = false;
  if (!measured) return;
  state_.sft.last_evaluation = state_.step();
  Json row = row_of("eval");
  row.update(step_row(*measured));
  add_metrics(row);
  log_.supervised_loss(*measured, state_.step(),
                       demonstrations_.left_out_sentence(demonstrations_.held_out()->skipped()));
}

void Run::warm_up_step() {
  Stopwatch watch(policy_.model.device());
  const uint64_t first = state_.sft.position;
  watcher_.drawing = true;
  const std::vector<SupervisedSequence> sequences = demonstrations_.next(state_.sft);
  watcher_.drawing = false;
  watcher_.learned_from = demonstrations_.from_files()
                              ? written("rows ", first, " to ", state_.sft.position, " in the order of sft.files")
                              : written("demonstrations of warm-up step ", state_.sft.steps);
  const WarmUpNumbers numbers = warm_up_->step(sequences, state_, watcher_);
  const double seconds = watch.lap();
  record_step("sft", step_row(numbers), seconds);
  log_.warm_up_step(numbers, state_.sft.steps, config_.sft.steps, seconds);
  log_.supervised_rows_passed_over(demonstrations_.skipped());
  if (const auto warning = warm_up_->choose_demonstrations(state_)) console_.warning(*warning);
}

}  // namespace keel
