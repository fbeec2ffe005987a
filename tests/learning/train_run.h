#pragma once

#include <gtest/gtest.h>

#include "keel/record/run_data.h"
#include "keel/train/run.h"
#include "tests/support/test_folder.h"

namespace keel {

/// Held-out accuracy before and after RL, and the run's metrics.
struct TrainedRun {
  double before, after;
  RunData run;
};

/// Trains a whole run in its own folder.
inline TrainedRun train_run(Config config) {
  const TestFolder folder;
  config.run.dir = (folder.path / "run").string();
  config.checkpoint.every = 0;
  Console console(stderr);
  EXPECT_EQ(Run::start(config, /*replace=*/false, console)->run(), ExitCode::kDone);
  const RunData run = read_run(config.run.dir);
  const RunSummary summary = summarize(run);
  return {summary.before.value().mean, summary.after.value().mean, run};
}

}  // namespace keel
