#include "cli/description_parts.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "cli/run_description.h"
#include "keel/core/console.h"
#include "keel/core/strings.h"
#include "keel/core/tensor/precision.h"

namespace keel::cli {

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

std::string counted(int64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

constexpr size_t kIndent = 14;

std::string entry(const std::string& name, const std::string& text) {
  std::string out = "  " + name + std::string(kIndent - 2 - name.size(), ' ');
  for (const char c : text) out += c == '\n' ? "\n" + std::string(kIndent, ' ') : std::string(1, c);
  return out + "\n";
}

std::string wrap_entries(const std::string& entries, const Console& console) {
  if (!console.terminal()) return entries;
  std::string out, line;
  for (size_t start = 0; start <= entries.size();) {
    const size_t end = std::min(entries.find('\n', start), entries.size());
    line = entries.substr(start, end - start);
    start = end + 1;
    while (display_width(line) > console.width()) {
      size_t blank = std::min(line.rfind(' ', static_cast<size_t>(console.width())), line.size());
      while (blank > kIndent && display_width(line.substr(0, blank)) > console.width())
        blank = line.rfind(' ', blank - 1);
      if (blank <= kIndent || blank == line.size()) break;  // a word longer than the line
      out += line.substr(0, blank) + "\n";
      line = std::string(kIndent, ' ') + line.substr(blank + 1);
    }
    out += line + (start <= entries.size() ? "\n" : "");
  }
  return out;
}

namespace {

/// Describes an adapter from its adapter_config.json.
std::string describe_adapter(const Json& file) {
  const Json layers = file.value("target_modules", Json());
  return "rank " + file.value("r", Json()).dump() + ", alpha " + file.value("lora_alpha", Json()).dump() +
         (file.value("use_rslora", Json()) == true ? ", rank-stabilised" : "") + ", on " +
         (layers.is_array() ? joined(layers.get<std::vector<std::string>>()) : layers.dump());
}

std::string describe_dropout(const LoraOptions& lora) {
  return lora.dropout > 0 ? ", dropout " + short_number(lora.dropout) : "";
}

}  // namespace

std::string describe_model(const Config& config, const ModelConfig& shape, const Json& adapter, at::ScalarType type,
                           const std::string& device) {
  const ModelOptions& model = config.model;
  const std::string origin = model.path.empty()     ? "random initialisation"
                             : model.random_weights ? model.path + ", with random weights"
                                                    : model.path;
  std::string text = entry("model", origin + "\n" + shape.model_type + ", " + std::to_string(shape.num_hidden_layers) +
                                        " layers, width " + std::to_string(shape.hidden_size) + ", vocabulary " +
                                        std::to_string(shape.vocab_size) + ": " +
                                        format_count(shape.parameter_count()) + " parameters, " + precision_name(type) +
                                        (is_narrow(type) ? " with float32 masters, " : ", ") + device);
  if (!config.lora.adapter.empty())
    text += entry("adapter", "continues " + config.lora.adapter + "\n" + describe_adapter(adapter) +
                                 describe_dropout(config.lora));
  if (config.lora.rank > 0)
    text += entry("adapter", "rank " + std::to_string(config.lora.rank) + ", scale " +
                                 short_number(config.lora.scale()) + ", on " +
                                 counted(static_cast<int64_t>(config.lora.target_modules.size()), "linear layer") +
                                 " per block" + describe_dropout(config.lora));
  return text;
}

std::string describe_saving(const Config& config, at::ScalarType saved_as) {
  if (saved_as == at::kFloat || config.lora.used()) return "";
  return entry("saved as", dtype_name(saved_as) + ", the dtype of model.path; the float32 weights are in " +
                               "optimizer.safetensors (`keel convert RUN FOLDER --dtype float32`)");
}

std::string describe_advantage(const Objective& objective) {
  const Method& method = objective.method;
  const bool by_horizon = method.aggregation == "seq_mean_token_sum_norm",
             has_custom_eps = method.advantage == "grpo" && objective.advantage_eps != kAdvantageEps;
  return entry("advantage", method.advantage + "; aggregation " + method.aggregation +
                                (by_horizon ? " by " + short_number(objective.length_divisor) : "") +
                                (has_custom_eps ? "; " + short_number(objective.advantage_eps) +
                                                      " added to the group's standard deviation"
                                                : ""));
}

std::string describe_rate(const OptimizerOptions& optimizer, double updates, double updates_per_step) {
  const std::string rate = "learning rate " + short_number(optimizer.lr);
  const std::string step_note = optimizer.schedule_per == "step" && optimizer.lr_varies() && updates_per_step > 1
                                    ? ", adjusted once per step"
                                    : "";
  constexpr double kMaxCount = 1e15;  // larger counts are printed in exponent notation
  const double warmup = optimizer.num_warmup_updates(updates, updates_per_step);
  const std::string warmup_note = warmup < 1 ? ", no warm-up"
                                  : warmup < kMaxCount
                                      ? " after a warm-up of " + counted(static_cast<int64_t>(warmup), "update")
                                      : " after a warm-up of " + short_number(warmup) + " updates";
  if (updates > 0 && updates <= warmup)
    return rate + warmup_note + ", but the run has only " + short_number(updates) + ": it ends at " +
           short_number(optimizer.lr_at(updates - 1, updates, updates_per_step)) + step_note;
  if (optimizer.schedule == "constant") return rate + warmup_note + step_note;
  return rate + warmup_note + ", then " + optimizer.schedule + " down to " +
         short_number(optimizer.min_lr_ratio * optimizer.lr) + " at update " + short_number(updates) + step_note;
}

namespace {

/// Describes the number of rows in an update; the last one may have fewer.
std::string describe_update_rows(const SftOptions& sft, const Demonstrations& demonstrations) {
  const std::string full = counted(sft.batch, "row");
  if (!sft.data_epochs) return full;
  const int64_t planned = demonstrations.planned_rows();
  if (sft.steps == 1) return counted(std::min(planned, sft.batch), "row");
  return planned == sft.steps * sft.batch ? full : "at most " + full + ", " + std::to_string(planned) + " in all";
}

}  // namespace

std::string describe_supervised(const Config& config, const Demonstrations& demonstrations) {
  const SftOptions& sft = config.sft;
  if (!demonstrations.from_files()) return "";
  std::string rows = joined(sft.files) + "\n" + counted(static_cast<int64_t>(demonstrations.data().rows), "row");
  for (const std::string& note : demonstrations.notes()) rows += "\n" + note;
  if (const std::string skipped = demonstrations.describe_skipped(demonstrations.skipped()); !skipped.empty())
    rows += "\n" + skipped;
  rows += std::string("\nloss on ") +
          (sft.loss_on == "all"          ? "all tokens"
           : sft.loss_on == "completion" ? "completions, and on all tokens of rows without a prompt"
                                         : "assistant messages") +
          ", rows of at most " + counted(demonstrations.max_row_tokens(), "token");
  std::string text = entry("sft data", rows);
  if (!sft.eval_files.empty()) text += entry("loss on", joined(sft.eval_files));
  if (sft.held_out > 0) text += entry("loss on", short_number(100 * sft.held_out) + " % of the rows, held out");
  std::string length = counted(sft.steps, "supervised update") + " of " + describe_update_rows(sft, demonstrations);
  if (sft.data_epochs)
    length += " (sft.data_epochs " + short_number(*sft.data_epochs) + " over " +
              counted(static_cast<int64_t>(demonstrations.rows_per_epoch()), "row") + ")";
  const OptimizerOptions optimizer = config.sft_optimizer();
  return text +
         entry("updates", length + "\n" + describe_rate(optimizer, static_cast<double>(sft.steps)) +
                              (sft.lr ? "" : " (sft.lr is not set)") + ", " +
                              (optimizer.weight_decay > 0 ? "weight decay " + short_number(optimizer.weight_decay)
                                                          : std::string("no weight decay")) +
                              ", gradients clipped at " + short_number(optimizer.max_grad_norm));
}

}  // namespace keel::cli
