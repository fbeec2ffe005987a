#include "keel/record/report/report.h"

#include <algorithm>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/strings.h"
#include "keel/record/charts/html.h"
#include "keel/record/report/embedded_tokens.h"
#include "keel/record/report/report_parts.h"

namespace keel {
namespace {

std::string join_names(const std::vector<RunData>& runs) {
  std::string out;
  for (const RunData& run : runs) out += (out.empty() ? "" : ", ") + run.name;
  return out;
}

/// "1,234" for "1234".
std::string format_if_count(const std::string& number) {
  const bool is_count =
      !number.empty() && number.size() < 16 && number.find_first_not_of("0123456789") == std::string::npos;
  return is_count ? format_count(std::stoll(number)) : number;
}

/// Describes the evaluation of checkpoints/best: the first one with the maximum.
std::string best_evaluation(const RunData& run) {
  const std::string metric = setting(run, "checkpoint.best_metric");
  const MetricRow* best = nullptr;
  std::string key;
  for (const MetricRow& row : run.metrics) {
    const std::string name = metric != "auto"                       ? metric
                             : row.values.contains("eval/accuracy") ? "eval/accuracy"
                                                                    : "eval/reward";
    const auto value = row.values.find(name);
    if (row.phase != "eval" || value == row.values.end()) continue;
    if (best != nullptr && value->second <= best->values.find(key)->second) continue;
    best = &row;
    key = name;
  }
  return best == nullptr ? "none yet" : "step " + format_count(best->step) + ", by " + key;
}

/// Describes how the sampler differs from the trained policy; empty if it does not.
std::string sampler_differences(const RunData& run) {
  const std::string weights = setting(run, "rollout.weights"), noise = setting(run, "rollout.logit_noise");
  std::vector<std::string> parts;
  if (!weights.empty() && weights != "exact") parts.push_back(weights + " weights");
  if (!noise.empty() && noise != "0" && noise != "0.0") parts.push_back("logit noise " + noise);
  if (const std::string staleness = staleness_text(run); !staleness.empty()) parts.push_back(staleness);
  return joined(parts);
}

/// Lists the main settings: model, data and rewards, or the built-in task and its network.
std::string main_settings(const RunData& run) {
  std::string out;
  const auto add = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    out += "<li>" + std::string(name) + " <b>" + escape_untrusted(shorten(value, 160)) + "</b></li>";
  };
  add("method", setting(run, "objective.method"));
  add("low threshold", setting(run, "objective.delta_low"));
  add("high threshold", setting(run, "objective.delta_high"));
  add("task", setting(run, "task.name"));
  add("SFT data", setting(run, "sft.files"));
  add("data", setting(run, "data.files"));
  add("reward", setting(run, "reward.functions"));
  add("weights", setting(run, "reward.weights"));
  const auto is_enabled = [&](const char* path) {
    const std::string value = setting(run, path);
    return !value.empty() && value != "0" && value != "false";
  };
  if (is_enabled("reward.overlong_buffer"))
    add("overlong penalty",
        setting(run, "reward.overlong_penalty") + " in the last " + setting(run, "reward.overlong_buffer") + " tokens");
  if (is_enabled("rollout.dynamic_sampling"))
    add("groups of equal rewards", "dropped, at most " + setting(run, "rollout.max_batches") + " batches per step");
  if (is_enabled("train.mask_truncated")) add("truncated completions", "excluded from updates");
  add("sampler", sampler_differences(run));
  if (setting(run, "optimizer.moments") == "8bit") add("moments", "in 8 bits");
  if (const std::string metric = setting(run, "checkpoint.best_metric"); !metric.empty() && metric != "none")
    add("best checkpoint", best_evaluation(run));
  add("model", setting(run, "model.path"));
  if (is_enabled("model.random_weights")) add("model weights", "random");
  add("family", setting(run, "model.type"));
  add("layers", setting(run, "model.layers"));
  add("hidden size", setting(run, "model.hidden_size"));
  add("vocabulary", format_if_count(setting(run, "model.vocabulary")));
  add("parameters", format_if_count(setting(run, "model.parameters")));
  add("adapter", setting(run, "lora.adapter"));
  add("LoRA parameters", format_if_count(setting(run, "lora.parameters")));
  add("seed", setting(run, "run.seed"));
  return out.empty() ? "" : "<ul class=\"chips\">" + out + "</ul>";
}

std::string header(const std::vector<RunData>& runs) {
  std::string out = "<header><p class=\"eyebrow\">Keel · run report</p><h1>" +
                    (runs.size() == 1 ? escape_untrusted(runs[0].name)
                                      : format_count(static_cast<int64_t>(runs.size())) + " runs side by side") +
                    "</h1>";
  if (runs.size() == 1) out += main_settings(runs[0]);
  for (const RunData& run : runs)
    for (const std::string& change : run.changes)
      out += "<p class=\"note\">" + (runs.size() == 1 ? "" : escape_untrusted(run.name) + ": ") +
             "Evaluations before and after this change are not comparable: " + escape_untrusted(shorten(change, 400)) +
             "</p>";
  return out + "</header>";
}

std::string configuration(const RunData& run, bool show_run_name) {
  if (run.config.empty()) return "";
  return "<details class=\"config\"><summary>Configuration" +
         (show_run_name ? " of " + escape_untrusted(run.name) : "") + "</summary><pre>" +
         escape_untrusted(shorten(run.config, 40000)) + "</pre></details>";
}

/// Returns whether the run has SFT but no RL.
bool is_sft_only(const RunData& run) { return !run.used.empty() && !run.used.contains("objective.method"); }

struct Tab {
  const char* id;
  const char* name;
  std::string html;
};

std::string first_page(const std::vector<RunData>& runs) {
  if (runs.size() > 1) return comparison_table(runs) + differing_settings(runs) + chart_sections(runs);
  const RunData& run = runs[0];
  const bool has_no_step = summarize(run).rl_steps == 0 && !is_sft_only(run);
  return headline_tiles(run) + health_line(run) +
         (has_no_step ? "<p class=\"note\">The run has no RL steps yet.</p>" : "") + chart_sections(runs);
}

std::string samples_page(const std::vector<RunData>& runs) {
  if (runs.size() == 1) return samples_section(runs[0], 8, true);
  std::string sections;
  for (const RunData& run : runs) sections += samples_section(run, 3, false);
  return sections.empty() ? "" : "<section><h2>Samples, run by run</h2>" + sections + "</section>";
}

std::string numbers_page(const std::vector<RunData>& runs) {
  if (runs.size() == 1) return numbers_table(runs[0]) + configuration(runs[0], false);
  std::string sections;
  for (const RunData& run : runs) sections += configuration(run, true);
  return sections.empty() ? "" : "<section><h2>Configurations</h2>" + sections + "</section>";
}

std::vector<Tab> make_tabs(const std::vector<RunData>& runs) {
  const bool has_rl = std::ranges::any_of(runs, [](const RunData& run) { return summarize(run).rl_steps > 0; });
  std::vector<Tab> pages{{"overview", "Overview", first_page(runs)}};
  if (has_rl) {
    pages.push_back({"trust-region", "Trust region", trust_region_page(runs)});
    pages.push_back({"mismatch", "Mismatch", mismatch_page(runs)});
    pages.push_back({"health", "Health", health_page(runs)});
  }
  pages.push_back({"samples", "Samples", samples_page(runs)});
  pages.push_back({"numbers", runs.size() == 1 ? "Numbers" : "Configurations", numbers_page(runs)});
  std::erase_if(pages, [](const Tab& page) { return page.html.empty(); });
  return pages;
}

std::string page_body(const std::vector<RunData>& runs) {
  const std::vector<Tab> pages = make_tabs(runs);
  std::string links, html;
  for (const Tab& page : pages) {
    links += "<a href=\"#" + std::string(page.id) + "\">" + page.name + "</a>";
    html += "<section class=\"page\" id=\"" + std::string(page.id) + "\">" + page.html + "</section>";
  }
  return header(runs) + (pages.size() > 1 ? "<nav class=\"pages\" aria-label=\"Pages\">" + links + "</nav>" : "") +
         html;
}

/// Embeds token records as JSON for the page's script.
std::string embedded_records(const std::vector<RunData>& runs) {
  std::string out;
  for (size_t i = 0; i < runs.size(); ++i)
    if (runs[i].recorded.tokens > 0)
      out += "<script type=\"application/json\" id=\"records-" + std::to_string(i) + "-data\">" +
             embedded_tokens(runs[i].recorded) + "</script>";
  return out;
}

}  // namespace

Page report_page(const std::vector<RunData>& runs) {
  if (runs.empty()) fail(ExitCode::kBadInput, "report: no runs given; expected at least one run folder");
  return {.title = join_names(runs),
          .body = page_body(runs) +
                  "<footer>π: the policy being trained. μ: the policy that sampled the tokens.</footer>" +
                  embedded_records(runs),
          .style = report_style(),
          .script = report_script()};
}

std::string render_report(const std::vector<RunData>& runs) { return page_html(report_page(runs)); }

std::vector<RunData> read_for_report(const std::vector<std::filesystem::path>& folders) {
  std::vector<RunData> runs;
  for (const std::filesystem::path& folder : folders) {
    runs.push_back(read_run(folder));
    runs.back().recorded = read_recorded_tokens(folder, kMaxRecordedRows / folders.size());
    count_rl_steps_from_one(runs.back());
  }
  return runs;
}

RunData write_report(const std::filesystem::path& folder) {
  std::vector<RunData> runs = read_for_report({folder});
  write_atomically(folder / "report.html", render_report(runs));
  return std::move(runs[0]);
}

RunData write_report_without_tokens(const std::filesystem::path& folder) {
  std::vector<RunData> runs{read_run(folder)};
  count_rl_steps_from_one(runs[0]);
  write_atomically(folder / "report.html", render_report(runs));
  return std::move(runs[0]);
}

}  // namespace keel
