#include "keel/record/report.h"

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/record/html.h"
#include "keel/record/report_parts.h"

namespace keel {
namespace {

std::string names(const std::vector<RunData>& runs) {
  std::string out;
  for (const RunData& run : runs) out += (out.empty() ? "" : ", ") + run.name;
  return out;
}

/// What was run, as far as the configuration names it.
std::string facts_of(const RunData& run) {
  std::string out;
  const auto add = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    out += "<li>" + std::string(name) + " <b>" + escape_foreign(shorten(value, 80)) + "</b></li>";
  };
  add("method", setting(run, {"objective.method", "objective.name"}));
  add("task", setting(run, {"task.name", "task.kind", "data.path", "data.train"}));
  add("model", setting(run, {"model.path", "model.name"}));
  add("layers", setting(run, {"model.layers", "model.num_hidden_layers"}));
  add("hidden size", setting(run, {"model.hidden_size", "model.hidden", "model.width"}));
  const std::string parameters = setting(run, {"model.parameters"});
  const bool digits =
      !parameters.empty() && parameters.size() < 16 && parameters.find_first_not_of("0123456789") == std::string::npos;
  add("parameters", digits ? format_count(std::stoll(parameters)) : parameters);
  add("seed", setting(run, {"run.seed", "train.seed"}));
  return out.empty() ? "" : "<ul class=\"chips\">" + out + "</ul>";
}

std::string header(const std::vector<RunData>& runs) {
  std::string out = "<header><p class=\"eyebrow\">Keel · run report</p><h1>" +
                    (runs.size() == 1 ? escape_foreign(runs[0].name)
                                      : format_count(static_cast<int64_t>(runs.size())) + " runs side by side") +
                    "</h1>";
  return out + (runs.size() == 1 ? facts_of(runs[0]) : "") + "</header>";
}

std::string configuration(const RunData& run, bool named) {
  if (run.config.empty()) return "";
  return "<details class=\"config\"><summary>Configuration" + (named ? " of " + escape_foreign(run.name) : "") +
         "</summary><pre>" + escape_foreign(shorten(run.config, 40000)) + "</pre></details>";
}

std::string one_run(const RunData& run) {
  return headline_tiles(run) + chart_sections({run}) + samples_section(run, 8, true) + numbers_table(run) +
         configuration(run, false);
}

std::string several_runs(const std::vector<RunData>& runs) {
  std::string out = comparison_table(runs) + differing_settings(runs) + chart_sections(runs);
  std::string folded;
  for (const RunData& run : runs) folded += samples_section(run, 3, false) + configuration(run, true);
  return out + (folded.empty() ? "" : "<section><h2>Run by run</h2>" + folded + "</section>");
}

}  // namespace

std::string render_report(const std::vector<RunData>& runs) {
  if (runs.empty()) fail(ExitCode::kBadInput, "report: got no runs; give at least one run folder");
  // Nothing is fetched from anywhere; the page keeps working in an archive and inside a mail.
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
         "script-src 'unsafe-inline'\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
         "<meta name=\"color-scheme\" content=\"light dark\"><title>" +
         escape_foreign(shorten(names(runs), 120)) + " · Keel</title><style>" + report_style() +
         "</style></head><body><main>" + header(runs) + (runs.size() == 1 ? one_run(runs[0]) : several_runs(runs)) +
         "<footer>π: the policy being trained. μ: the policy that sampled the tokens.</footer></main><script>" +
         report_script() + "</script></body></html>\n";
}

}  // namespace keel
