#include "keel/record/report/report.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>

#include "cli/commands.h"
#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/replaceable.h"
#include "keel/record/report/health.h"
#include "keel/record/report/learning_curve_svg.h"
#include "keel/record/run_data.h"
#include "keel/train/checkpoint/checkpoint.h"

namespace keel::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::string output, curve;
};

/// Names runs by their folders if their names are equal.
void disambiguate_names(std::vector<RunData>& runs, const std::vector<std::string>& folders) {
  std::map<std::string, int> count;
  for (const RunData& run : runs) ++count[run.name];
  for (size_t i = 0; i < runs.size(); ++i)
    if (count[runs[i].name] > 1) runs[i].name = folders[i];
}

/// Rejects the same run twice.
void require_distinct_runs(const std::vector<std::string>& folders) {
  std::map<std::filesystem::path, std::string> seen;
  for (const std::string& folder : folders) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::weakly_canonical(folder, error);
    if (error) continue;  // reported when the run is read
    const auto [first, is_new] = seen.emplace(path, folder);
    if (!is_new)
      fail(ExitCode::kBadConfiguration, "RUN: ", folder, " is the same run as ", first->second, "; name each run once");
  }
}

/// Rejects a learning curve with the path of the report.
void require_distinct_outputs(const std::filesystem::path& report, const std::filesystem::path& curve) {
  if (curve.empty()) return;
  std::error_code ignored;
  if (std::filesystem::weakly_canonical(report, ignored) == std::filesystem::weakly_canonical(curve, ignored))
    fail(ExitCode::kBadConfiguration, "--curve: ", curve.string(), " is where the report goes; give it another name");
}

/// Allows overwriting only a file that begins like the new one: an earlier report.
void require_earlier_report(const std::filesystem::path& path, const std::string& text) {
  require_replaceable(path, "report", [&](const std::filesystem::path& existing) {
    constexpr size_t kHeadBytes = 80;
    const InputFile file = InputFile::open(existing);
    std::string head(std::min<uint64_t>(file.size(), kHeadBytes), '\0');
    file.read_at(0, std::as_writable_bytes(std::span(head)));
    return head == text.substr(0, kHeadBytes);
  });
}

}  // namespace

CommandHandler add_report(CommandLine& line) {
  const auto arguments = std::make_shared<ReportArguments>();
  Command command = line.add("report", "Write report.html for one run, or several side by side");
  command.option("RUN", arguments->runs, "Run folders").required().folders();
  command.option("-o,--output", arguments->output, "Output file (default: report.html in the first run's folder)")
      .files();
  command.option("--curve", arguments->curve, "Also write the learning curve of the first run as SVG").files();
  return [arguments] {
    require_distinct_runs(arguments->runs);
    std::vector<RunData> runs = read_for_report({arguments->runs.begin(), arguments->runs.end()});
    Console messages(stderr);
    for (const std::string& folder : arguments->runs)
      for (const std::string& change : find_changed_rows(folder))
        messages.warning(change + "; the report shows the changed rows");
    for (const RunData& run : runs)
      for (const std::string& damage : run.recorded.damage) messages.warning(damage + "; the report leaves it out");
    disambiguate_names(runs, arguments->runs);
    for (const RunData& run : runs)
      if (const auto fall = check_health(run).evaluation_fall) messages.warning(run.name + ": " + describe(*fall));
    const std::filesystem::path output = arguments->output.empty()
                                             ? std::filesystem::path(arguments->runs[0]) / "report.html"
                                             : std::filesystem::path(arguments->output);
    require_distinct_outputs(output, arguments->curve);
    const std::string page = render_report(runs), curve = arguments->curve.empty() ? "" : learning_curve_svg(runs[0]);
    if (!arguments->output.empty()) require_earlier_report(output, page);
    if (!curve.empty()) require_earlier_report(arguments->curve, curve);
    write_atomically(output, page);
    Console().line(output.string());
    if (!curve.empty()) write_atomically(arguments->curve, curve);
    return ExitCode::kDone;
  };
}

}  // namespace keel::cli
