#include "cli/run_training.h"

#include <cmath>
#include <cstdio>
#include <map>

#include "keel/core/device.h"
#include "keel/core/file.h"
#include "keel/core/interrupt.h"
#include "keel/record/report.h"
#include "keel/record/run_data.h"
#include "keel/record/terminal_chart.h"
#include "keel/task/tasks.h"
#include "keel/train/critic_training.h"
#include "keel/train/starting_model.h"
#include "keel/train/trainer.h"

namespace keel::cli {
namespace {

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

std::string evaluation_line(const char* label, const EvalPoint& eval) {
  char text[120];
  std::snprintf(text, sizeof(text), "  %-7s %.3f   95 %% interval [%.3f, %.3f]   %ld held-out prompts", label,
                eval.mean, eval.low, eval.high, static_cast<long>(eval.count));
  return text;
}

/// The reward of a built-in task is a share of right answers; functions of the user's may give any number.
void print_curve(const RunData& run, const Config& config, Console& console) {
  std::vector<double> rewards;
  for (const ChartPoint& point : metric_curve(run, "rl", "reward/mean")) rewards.push_back(point.y);
  if (rewards.size() < 2) return;
  console.line();
  const bool is_share = config.data.files.empty() && config.reward.functions.empty();
  const auto [least, most] = std::minmax_element(rewards.begin(), rewards.end());
  console.line(terminal_chart(
      rewards, {.width = std::min(console.width(), 90),
                .title = is_share ? "reward (share of correct completions) over RL steps" : "reward over RL steps",
                .y_min = is_share ? 0 : std::min(*least, 0.0),
                .y_max = is_share ? 1 : std::max(*most, 1.0),
                .ascii = !terminal_has_utf8()}));
}

void print_samples(const RunData& run, bool right_or_wrong, Console& console) {
  console.heading("Three completions of held-out prompts, after training");
  int shown = 0;
  for (auto sample = run.samples.rbegin(); sample != run.samples.rend() && shown < 3; ++sample) {
    if (sample->phase != "eval") continue;
    console.line("  " + console.paint(Paint::kDim, escape_controls(sample->prompt)));
    const std::string verdict = std::isnan(sample->reward) ? console.paint(Paint::kDim, "not judged")
                                : !right_or_wrong          ? "reward " + short_number(sample->reward)
                                : sample->reward > 0       ? console.paint(Paint::kGreen, "correct")
                                                           : console.paint(Paint::kRed, "wrong");
    console.line("  " + escape_controls(sample->completion) + "   " + verdict);
    ++shown;
  }
}

void print_result(const Config& config, const std::filesystem::path& checkpoint, Console& console) {
  const RunData run = read_run(config.run.dir);
  const RunSummary summary = summarize(run);
  print_curve(run, config, console);
  if (summary.before && summary.after) {
    console.heading(summary.after->is_accuracy ? "Accuracy" : "Held-out reward");
    console.line(evaluation_line("before", *summary.before));
    console.line(evaluation_line("after", *summary.after));
    print_samples(run, summary.after->is_accuracy, console);
  }
  const std::string dir = config.run.dir;
  console.heading("Written");
  console.line("  " + dir + "/report.html     open it in a browser: curves, and every token shaded by its coefficient");
  console.line("  " + dir + "/metrics.jsonl   one line per step");
  console.line("  " + checkpoint.string() + "   a Hugging Face model folder");
}

/// What is added to the method's coefficient, and what moves its thresholds.
std::string explain_additions(const Objective& objective, const Config& config) {
  std::string text;
  if (objective.kl_coefficient > 0)
    text += "  reference   the policy when RL starts, " + short_number(objective.kl_coefficient) + " x KL by " +
            config.reference.estimator + "\n";
  if (objective.entropy_coefficient != 0)
    text += (objective.entropy_coefficient > 0 ? "  entropy     bonus of " : "  entropy     malus of ") +
            short_number(std::abs(objective.entropy_coefficient)) + "\n";
  if (objective.adapt_target_kept)
    text += "  thresholds  move to keep " + short_number(100 * *objective.adapt_target_kept) +
            " % of the tokens inside, rate " + short_number(objective.adapt_rate) + "\n";
  return text;
}

std::string explain_critic(const Config& config, const ModelConfig& shape) {
  const CriticOptions& critic = config.critic;
  if (!critic.exists()) return "";
  const int64_t lm_head = shape.tie_word_embeddings ? 0 : shape.vocab_size * shape.hidden_size;
  const int64_t body = critic.own_body() ? shape.parameter_count() - lm_head : 0;
  std::string text =
      "  critic      a value head on " +
      std::string(critic.own_body() ? "a body of its own, which starts as the policy's" : "the policy's body") + ": " +
      format_count(body + shape.hidden_size + 1) + " parameters more, learning rate " +
      short_number(critic_optimizer_options(critic, config.optimizer).lr) + "\n";
  text += "              GAE with gamma " + short_number(critic.gamma) + ", lambda " + short_number(critic.lambda) +
          (critic.whiten ? ", advantages whitened" : ", advantages as they are") + "; values clipped at " +
          (critic.value_clip ? short_number(*critic.value_clip) : "nothing") + "\n";
  if (critic.warmup_steps > 0)
    text += "              the policy waits " + std::to_string(critic.warmup_steps) + " steps for it\n";
  return text;
}

std::string explain_scope(Scope scope) {
  switch (scope) {
    case Scope::kToken:
      return "6 N H V (coefficients need only their own token)";
    case Scope::kSequence:
      return "8 N H V (coefficients need whole sequences: statistics first, then gradients)";
    case Scope::kBatch:
      break;
  }
  return "8 N H V and one more forward of the body (coefficients need the whole update)";
}

}  // namespace

void apply_overrides(ConfigTree& tree, const std::vector<std::string>& assignments) {
  // `model: PATH` says model.path, and must leave room for the section's other keys.
  if (tree.value.contains("model") && tree.value["model"].is_string()) {
    tree.value["model"] = {{"path", tree.value["model"]}};
    tree.lines["model.path"] = tree.lines["model"];
  }
  std::map<std::string, std::string> given;
  for (std::string assignment : assignments) {
    if (assignment.starts_with("model=") && !assignment.starts_with("model={")) assignment.insert(5, ".path");
    apply_override(tree, assignment);
    const size_t begin = assignment.find_first_not_of(' ');
    const std::string key = assignment.substr(begin, assignment.find_first_of(" =", begin) - begin);
    const auto [earlier, fresh] = given.emplace(key, assignment);
    if (!fresh)
      fail(ExitCode::kBadConfiguration, "command line: ", key, " is set twice, by ", earlier->second, " and by ",
           assignment, "; keep one of them");
  }
}

std::string explain(const Config& config) {
  const ModelConfig shape = starting_shape(config);
  const int64_t limit = longest_completion(config);
  const Objective objective = make_objective(config.objective, static_cast<double>(limit), config.reference);
  std::string text = "  model       " + (config.model.path.empty() ? "" : config.model.path + ", ") +
                     std::to_string(shape.num_hidden_layers) + " layers, width " + std::to_string(shape.hidden_size) +
                     ", vocabulary " + std::to_string(shape.vocab_size) + ": " + format_count(shape.parameter_count()) +
                     " parameters, float32, " + config.run.device + "\n";
  if (!config.lora.adapter.empty()) text += "  adapter     goes on from " + config.lora.adapter + "\n";
  if (config.lora.rank > 0)
    text += "  adapter     rank " + std::to_string(config.lora.rank) + ", scale " + short_number(config.lora.scale()) +
            ", on " + std::to_string(config.lora.target_modules.size()) + " linear layers of every block\n";
  text += (config.data.files.empty() ? "  task        " + config.task.name
                                     : "  data        " + std::to_string(config.data.files.size()) + " files") +
          ", completions of at most " + std::to_string(limit) + " tokens\n";
  text += "  step        " + std::to_string(config.train.prompts_per_step) + " prompts x " +
          std::to_string(config.rollout.samples_per_prompt) +
          " samples = " + std::to_string(config.rollouts_per_step()) + " completions; " +
          std::to_string(config.updates_per_step()) + " updates of " + std::to_string(config.sequences_per_update()) +
          " completions\n";
  text += "  method      " + objective.method.name + ": " + objective.method.equation + "\n";
  for (const auto& [name, value] : parameters(objective.method.region))
    text += "              " + name + " = " + (std::isinf(value) ? "none" : short_number(value)) + "\n";
  for (const auto& [name, word] : word_parameters(objective.method.region))
    text += "              " + name + " = " + word + "\n";
  text += "  anchor      the sampler's own log-probabilities" +
          std::string(objective.requirements().recomputed_logp ? " and the trainer's recomputation of them" : "") +
          ", temperature " + short_number(config.rollout.temperature) + ", full support\n";
  text += "  sampler     " +
          std::string(config.rollout.weights == "exact" ? "the model's own weights"
                                                        : "a copy of the weights rounded to fp8") +
          "\n";
  text += "  advantage   " + objective.method.advantage + "; aggregation " + objective.method.aggregation +
          (objective.method.aggregation == "seq_mean_token_sum_norm" ? " by " + short_number(objective.horizon) : "") +
          "\n";
  text += explain_critic(config, shape);
  text += explain_additions(objective, config);
  text += "  head cost   " + explain_scope(objective.requirements().scope) + "\n";
  text += "  run folder  " + config.run.dir;
  return text;
}

ExitCode run_training(const Config& config, StartMode mode, Console& console) {
  wait_for_saving();
  const bool changed_data = mode == StartMode::kResumeOnChangedData;
  const std::unique_ptr<Trainer> trainer = mode == StartMode::kResume || changed_data
                                               ? Trainer::resume(config, console, changed_data)
                                               : Trainer::start(config, mode == StartMode::kReplace, console);
  const ExitCode code = trainer->run();
  if (code != ExitCode::kDone) return code;
  const std::filesystem::path report = std::filesystem::path(config.run.dir) / "report.html";
  write_atomically(report, render_report({read_run(config.run.dir)}));
  print_result(config, trainer->last_checkpoint(), console);
  return code;
}

}  // namespace keel::cli
