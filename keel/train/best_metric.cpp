#include "keel/train/best_metric.h"

#include "keel/core/error.h"
#include "keel/evaluation/evaluation.h"

namespace keel {

std::string best_metric_key(const std::string& metric, const Problems& problems) {
  if (metric != "auto") return metric;
  return std::string("eval/") + mean_name(problems.reward().right_or_wrong());
}

void require_best_metric(const Config& config, const Problems& problems) {
  const std::string &metric = config.checkpoint.best_metric, mean = best_metric_key("auto", problems);
  const bool is_mean = metric == "eval/accuracy" || metric == "eval/reward";
  if (config.checkpoint.keep_best && is_mean && metric != mean)
    fail(ExitCode::kBadConfiguration, "checkpoint.best_metric is ", metric, ", but the mean of this run's rewards is ",
         "called otherwise; wanted ", mean, ", or auto");
}

}  // namespace keel
