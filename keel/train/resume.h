#pragma once

#include "keel/core/console.h"
#include "keel/train/config/config.h"
#include "keel/train/open_run.h"

namespace keel {

/// What may be other than it was when a run is resumed; without a word it is refused.
struct AcceptedChanges {
  bool data = false;          // rows of the data files, if not their number
  bool damaged_rows = false;  // rows that the run itself has written to metrics.jsonl and samples.jsonl
};

/// The run in config.run.dir goes on from its newest sound checkpoint. Refused is what would not be the same run: other
/// settings, data or base model, and changed rows of its own; that leaves everything as it is.
OpenedRun open_saved_run(const Config& config, const AcceptedChanges& accepted, Console& console);

}  // namespace keel
