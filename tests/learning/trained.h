#pragma once

#include <gtest/gtest.h>

#include "keel/record/run_data.h"
#include "keel/train/run.h"
#include "tests/support/test_folder.h"

namespace keel {

/// Accuracy on held-out problems before and after RL, and all that the run wrote down.
struct Trained {
  double before, after;
  RunData run;
};

/// Trains from the start to the end, in a folder of its own.
inline Trained trained(Config config) {
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
