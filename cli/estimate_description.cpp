#include "cli/estimate_description.h"

#include <cmath>

#include "cli/description_parts.h"
#include "cli/run_description.h"
#include "keel/core/console.h"
#include "keel/train/start/planned_steps.h"

namespace keel::cli {
namespace {

constexpr const char* kEstimateNote = "estimated from sizes and this machine's speed";

/// Measurements of the held-out loss; 0 if no row is held out.
int64_t loss_evaluations(const RunSizes& sizes) {
  return sizes.supervised->held_out_tokens > 0 ? num_loss_evaluations(sizes.config.sft) : 0;
}

double supervised_seconds(const RunSizes& sizes, const TimeEstimate& time) {
  return static_cast<double>(sizes.config.sft.steps) * time.update +
         static_cast<double>(loss_evaluations(sizes)) * time.evaluation;
}

}  // namespace

std::string describe_rollout(const RolloutPlan& plan, int64_t longest_prompt) {
  return entry("rollout",
               format_count(plan.training) + (plan.training == 1 ? " sequence" : " sequences") + " at a time" +
                   (plan.evaluation > plan.training ? " (" + format_count(plan.evaluation) + " in evaluations)" : "") +
                   ", at most " + format_bytes(plan.kv_cache_bytes) + " of KV cache with prompts of up to " +
                   format_count(longest_prompt) + " tokens" +
                   (plan.kept_bytes == 0 ? ""
                                         : "\nup to " + format_bytes(plan.kept_bytes) +
                                               " of host memory per step for the token sets of truncated sampling"));
}

std::string describe_resource(const Resource& resource) {
  return entry(resource.name, "about " + format_bytes(resource.needed) + "; " + resource.location + " has " +
                                  format_bytes(resource.available) + " available: " + resource.verdict() + "\n" +
                                  resource.parts);
}

std::string describe_supervised_time(const RunSizes& sizes, const DeviceSpeed& speed) {
  const TimeEstimate time = estimate_sft_time(sizes, speed);
  const int64_t measured = loss_evaluations(sizes);
  return entry("time", "an update of about " + format_duration(time.update) + " here, " +
                           (measured == 0 ? ""
                                          : counted(measured, "measurement") + " of the loss at about " +
                                                format_duration(time.evaluation) + " each, ") +
                           "all about " + format_duration(supervised_seconds(sizes, time)) + "\nassuming rows of " +
                           format_count(std::llround(sizes.supervised->mean_tokens_per_row)) +
                           " tokens, the mean of the first rows; " + kEstimateNote);
}

std::string describe_time(const RunSizes& sizes, const Requirements& needs, const DeviceSpeed& speed) {
  const Config& config = sizes.config;
  const TimeEstimate time = estimate_time(sizes, needs, speed);
  const double step = time.rollout + time.update;
  const int64_t evaluations = time.evaluation > 0 ? 1 + remaining_evaluations(config, 0) : 0;
  return entry("time",
               "a step of about " + format_duration(step) + " here (rollout " + format_duration(time.rollout) +
                   ", update " + format_duration(time.update) + "), all " + std::to_string(config.train.steps) +
                   " about " + format_duration(step * static_cast<double>(config.train.steps)) +
                   (evaluations == 0 ? ""
                                     : "; " + counted(evaluations, "evaluation") + " about " +
                                           format_duration(time.evaluation * static_cast<double>(evaluations))) +
                   (sizes.supervised ? "; the supervised updates before about " +
                                           format_duration(supervised_seconds(sizes, estimate_sft_time(sizes, speed)))
                    : config.sft.steps > 0 ? "; and supervised updates"
                                           : "") +
                   "\nassuming completions of full length, prompts of " +
                   format_count(std::llround(sizes.prompts.mean)) + " tokens and rewards that take no time; " +
                   kEstimateNote);
}

}  // namespace keel::cli
