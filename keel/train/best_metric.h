#pragma once

#include <string>

#include "keel/train/config/config.h"
#include "keel/train/start/problems.h"

namespace keel {

/// The key of evaluation rows that a checkpoint.best_metric stands for: `auto` is that of the mean.
std::string best_metric_key(const std::string& metric, const Problems& problems);

/// With checkpoint.keep_best, the mean of rewards by a name that it does not have in this run is refused (exit code 2);
/// whether other keys are any evaluation's the configuration knows alone.
void require_best_metric(const Config& config, const Problems& problems);

}  // namespace keel
