#include "keel/record/tools/mlflow.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

constexpr size_t kLongestParameter = 6000;  // bytes that MLflow takes

int64_t milliseconds(double seconds) { return std::llround(seconds * 1000); }

/// A text in double quotes means the same in YAML as in JSON.
std::string yaml_text(const std::string& text) { return json_line(Json(text)); }

std::string file_uri(const std::filesystem::path& path) {
  std::string uri = "file://";
  for (const char c : full_path(path)) {
    constexpr std::string_view kHex = "0123456789ABCDEF", kPlain = "/-._~";
    const auto byte = static_cast<unsigned char>(c);
    if (is_letter(c) || is_digit(c) || kPlain.find(c) != std::string_view::npos)
      uri += c;
    else
      uri += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return uri;
}

/// Cut where a character begins.
std::string parameter_text(const Json& value) {
  std::string text = value.is_string() ? value.get<std::string>() : json_line(value);
  if (text.size() <= kLongestParameter) return text;
  size_t end = kLongestParameter;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

/// With what MLflow has in names, as a path that is no other's.
std::string allowed_name(const std::string& name) {
  constexpr std::string_view kMarks = "_-. :";
  std::string result, part;
  for (size_t i = 0; i <= name.size(); ++i) {
    if (i < name.size() && name[i] != '/') {
      const bool allowed = is_letter(name[i]) || is_digit(name[i]) || kMarks.find(name[i]) != std::string_view::npos;
      part += name[i] == '@' ? "_at_" : std::string(1, allowed ? name[i] : '_');
      continue;
    }
    // Nothing, . and .. would lead elsewhere.
    if (part.find_first_not_of('.') == std::string::npos) part = std::string(std::max<size_t>(part.size(), 1), '_');
    result += (result.empty() ? "" : "/") + part;
    part.clear();
  }
  return result;
}

}  // namespace

std::map<std::string, std::string> mlflow_names(const std::set<std::string>& names) {
  std::set<std::string> taken;  // by files, and by the folders that these are in
  for (const std::string& name : names) {
    const std::string path = allowed_name(name);
    for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1))
      taken.insert(path.substr(0, slash));
  }
  std::map<std::string, std::string> result;
  for (const std::string& name : names) {
    std::string path = allowed_name(name);
    while (!taken.insert(path).second) path += '_';
    result[name] = path;
  }
  return result;
}

std::string mlflow_experiment(const ExportedRun& run, const std::filesystem::path& folder) {
  const std::string created = std::to_string(milliseconds(run.begin()));
  return "artifact_location: " + yaml_text(file_uri(folder)) + "\ncreation_time: " + created + "\nexperiment_id: '" +
         kMlflowExperiment + "'\nlast_update_time: " + created + "\nlifecycle_stage: active\nname: keel\n";
}

std::map<std::string, std::string> mlflow_run(const ExportedRun& run, const std::filesystem::path& folder) {
  // mlflow/protos/service.proto, RunStatus: RUNNING, FINISHED, KILLED.
  const bool running = run.standing == RunStanding::kRunning;
  const std::string status = running ? "1" : run.standing == RunStanding::kFinished ? "3" : "5";
  std::map<std::string, std::string> files;
  files["meta.yaml"] =
      "artifact_uri: " + yaml_text(file_uri(folder / "artifacts")) +
      "\ndeleted_time: null\nend_time: " + (running ? "null" : std::to_string(milliseconds(run.end()))) +
      "\nentry_point_name: ''\nexperiment_id: '" + kMlflowExperiment +
      "'\nlifecycle_stage: active\nrun_id: " + yaml_text(run.id) + "\nrun_name: " + yaml_text(run.name) +
      "\nrun_uuid: " + yaml_text(run.id) + "\nsource_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: " +
      std::to_string(milliseconds(run.begin())) + "\nstatus: " + status + "\ntags: []\nuser_id: ''\n";
  files["tags/mlflow.runName"] = run.name;
  files["tags/mlflow.source.name"] = "keel";
  std::set<std::string> settings, metrics;
  for (const auto& [path, value] : run.settings.items()) settings.insert(path);
  for (const ExportedStep& step : run.steps)
    for (const auto& [name, value] : step.values) metrics.insert(name);
  const auto parameter_names = mlflow_names(settings), metric_names = mlflow_names(metrics);
  for (const auto& [path, value] : run.settings.items())
    files["params/" + parameter_names.at(path)] = parameter_text(value);
  for (const ExportedStep& step : run.steps)
    for (const auto& [name, value] : step.values)
      if (name != kClockMetric)
        files["metrics/" + metric_names.at(name)] += std::to_string(milliseconds(step.time)) + " " +
                                                     exact_number(value) + " " + std::to_string(step.step) + "\n";
  if (!run.config.empty()) files["artifacts/config.yaml"] = run.config;
  return files;
}

}  // namespace keel
