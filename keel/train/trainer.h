#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/prompt.h"
#include "keel/evaluation/evaluation.h"
#include "keel/record/run_folder.h"
#include "keel/reward/score.h"
#include "keel/train/checkpoint/checkpoint.h"
#include "keel/train/checkpoint/state.h"
#include "keel/train/config/config.h"
#include "keel/train/start/problems.h"
#include "keel/train/update/adaptive_thresholds.h"
#include "keel/train/update/critic_training.h"
#include "keel/train/update/optimizer.h"
#include "keel/train/update/policy_tokens.h"

namespace keel {

/// One run: warm-up, evaluation, RL, evaluation. READ trainer.cpp FIRST: Trainer::step is the data path.
class Trainer {
 public:
  /// A new run in config.run.dir; an existing one is refused unless `replace`.
  static std::unique_ptr<Trainer> start(const Config& config, bool replace, Console& console);

  /// What may be other than it was when a run is resumed; without a word it is refused.
  struct Accepted {
    bool changed_data = false;  // rows of the data files, if not their number
    bool damaged_rows = false;  // rows that the run itself has written to metrics.jsonl and samples.jsonl
  };

  /// The run in config.run.dir goes on from its newest sound checkpoint.
  static std::unique_ptr<Trainer> resume(const Config& config, Console& console, Accepted accepted);
  static std::unique_ptr<Trainer> resume(const Config& config, Console& console) { return resume(config, console, {}); }

  /// Runs to the end (kDone) or until someone asks to stop (kInterrupted); both leave a checkpoint.
  ExitCode run();

  /// One RL step: a rollout batch and all its updates. Returns its row of metrics. Interrupted when someone asks to stop
  /// before its first update; the step then has not happened.
  Json step();

  /// One supervised update of the warm-up. Returns its row of metrics.
  Json sft_step();

  const CausalLm& model() const { return policy_.model; }
  const Objective& objective() const { return objective_; }  // its thresholds as they are now
  const Problems& problems() const { return problems_; }
  const Critic* critic() const { return critic_ ? &critic_->critic() : nullptr; }  // where there is one, in RL
  const CausalLm* reference() const { return reference_ ? &*reference_ : nullptr; }  // where the objective asks for it
  const std::optional<Evaluation>& first_evaluation() const { return first_evaluation_; }
  const std::optional<Evaluation>& last_evaluation() const { return last_evaluation_; }
  const std::filesystem::path& last_checkpoint() const { return last_checkpoint_; }

 private:
  Trainer(const Config& config, LoadedModel policy, Problems problems, RunFolder folder, TrainState state,
          Console& console);

  ExitCode run_phases();
  std::vector<Prompt> next_prompts(Json& row);
  std::vector<Rollout> sample_and_score(const std::vector<Prompt>& prompts, Json& row);
  std::vector<std::vector<int64_t>> minibatches(int64_t epoch) const;
  void apply_update(double lr, Json& row);
  bool update_policy(double lr, GradientNorms& norms, Json& row);
  void update_policy_and_critic(bool policy_learns, GradientNorms& norms, Json& row);
  void count_update(bool sound);
  void note_scores(const ScoreReport& report, size_t completions);
  void self_test();
  void evaluate_if_due();
  void tell_evaluation(const Evaluation& result, const std::string& left_out);
  bool evaluation_due() const;
  void finish_sft_step();
  void begin_phase(Phase phase);
  void keep_reference();
  void begin_critic(std::optional<Critic> saved);
  void adapt_thresholds(Json& row);
  void add_certificate(const ScoredRollouts& scored, Json& row) const;
  void record_step(Json row, const char* phase, double seconds);
  void save();
  void write_checkpoint();
  void write_to_folder(const std::function<void()>& write);
  void look_after_folder();
  [[noreturn]] void end_without_folder(const FolderLost& loss);
  void require_finite_weights() const;
  const char* lr_option() const;
  bool saved_for_interrupt();
  ExitCode run_to_the_end();
  void tell_at_the_end();
  SamplingRequest sampling_request() const;

  Config config_;
  Console& console_;
  at::Device device_;
  Objective objective_;
  Thresholds first_thresholds_;  // of an adaptive trust region, as configured
  LoadedModel policy_;
  Problems problems_;
  std::optional<CausalLm> reference_;  // the policy when RL started, where the objective asks for it
  std::optional<Optimizer> optimizer_;
  std::optional<CriticTraining> critic_;  // from the start of RL on, where the advantage asks for it
  RunFolder folder_;
  TrainState state_;
  bool told_of_skipped_ = false;   // the first row that gave no prompt
  SkippedCounts passed_over_;      // rows of the training data that gave none, since the run was started or resumed
  ScoreTally tally_;               // since the run was started or resumed
  bool told_of_left_out_ = false;  // rows of the evaluation that gave none
  double checkpoint_seconds_ = 0;  // of the last save, reported with the next step
  std::optional<Evaluation> first_evaluation_, last_evaluation_;
  std::filesystem::path last_checkpoint_;
};

}  // namespace keel
