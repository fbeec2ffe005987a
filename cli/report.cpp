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
#include "keel/record/report/learning_curve_svg.h"
#include "keel/record/run_data.h"
#include "keel/train/checkpoint/checkpoint.h"

namespace keel::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::string output, curve;
};

/// Runs of one name in several folders are told apart by their folders.
void name_apart(std::vector<RunData>& runs, const std::vector<std::string>& folders) {
  std::map<std::string, int> count;
  for (const RunData& run : runs) ++count[run.name];
  for (size_t i = 0; i < runs.size(); ++i)
    if (count[runs[i].name] > 1) runs[i].name = folders[i];
}

/// A run beside itself would look like two that agree.
void require_apart(const std::vector<std::string>& folders) {
  std::map<std::filesystem::path, std::string> seen;
  for (const std::string& folder : folders) {
    std::error_code unseen;
    const std::filesystem::path place = std::filesystem::weakly_canonical(folder, unseen);
    if (unseen) continue;  // reading it will tell
    const auto [first, fresh] = seen.emplace(place, folder);
    if (!fresh)
      fail(ExitCode::kBadConfiguration, "RUN: ", folder, " is the same run as ", first->second, "; name each run once");
  }
}

/// A picture in the place of the report would lose one of them.
void require_free_names(const std::filesystem::path& report, const std::filesystem::path& curve) {
  if (curve.empty()) return;
  std::error_code unseen;
  if (std::filesystem::weakly_canonical(report, unseen) == std::filesystem::weakly_canonical(curve, unseen))
    fail(ExitCode::kBadConfiguration, "--curve: ", curve.string(), " is where the report goes; give it another name");
}

/// What an earlier command wrote begins as what is to be written now.
void require_earlier_or_none(const std::filesystem::path& path, const std::string& text) {
  require_replaceable(path, "report", [&](const std::filesystem::path& there) {
    constexpr size_t kBeginning = 80;
    const InputFile file = InputFile::open(there);
    std::string beginning(std::min<uint64_t>(file.size(), kBeginning), '\0');
    file.read_at(0, std::as_writable_bytes(std::span(beginning)));
    return beginning == text.substr(0, kBeginning);
  });
}

}  // namespace

CommandHandler add_report(CommandLine& line) {
  const auto arguments = std::make_shared<ReportArguments>();
  Command command = line.add("report", "report.html for one run, or several side by side");
  command.option("RUN", arguments->runs, "Run folders").required().folders();
  command.option("-o,--output", arguments->output, "Where to write it (default: report.html in the first run's folder)")
      .files();
  command.option("--curve", arguments->curve, "Also write the first run's learning curve as an SVG picture").files();
  return [arguments] {
    require_apart(arguments->runs);
    std::vector<RunData> runs = read_for_report({arguments->runs.begin(), arguments->runs.end()});
    Console messages(stderr);
    for (const std::string& folder : arguments->runs)
      for (const std::string& change : find_changed_rows(folder))
        messages.warning(change + "; the report shows the rows as they are now");
    for (const RunData& run : runs)
      for (const std::string& damage : run.recorded.damage) messages.warning(damage + "; the report goes without it");
    name_apart(runs, arguments->runs);
    const std::filesystem::path output = arguments->output.empty()
                                             ? std::filesystem::path(arguments->runs[0]) / "report.html"
                                             : std::filesystem::path(arguments->output);
    require_free_names(output, arguments->curve);
    const std::string page = render_report(runs), curve = arguments->curve.empty() ? "" : learning_curve_svg(runs[0]);
    if (!arguments->output.empty()) require_earlier_or_none(output, page);
    if (!curve.empty()) require_earlier_or_none(arguments->curve, curve);
    write_atomically(output, page);
    Console().line(output.string());
    if (!curve.empty()) write_atomically(arguments->curve, curve);
    return ExitCode::kDone;
  };
}

}  // namespace keel::cli
