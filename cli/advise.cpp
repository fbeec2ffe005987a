#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/methods.h"
#include "cli/text_table.h"
#include "cli/token_output.h"
#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/files/json_file.h"
#include "keel/counterfactual/advice.h"

namespace keel::cli {
namespace {

struct AdviseArguments {
  RecordArguments records;
  std::string method;
  std::vector<std::string> thresholds;
  std::optional<double> target;
};

MethodSpec method_of(const AdviseArguments& arguments, const std::filesystem::path& file) {
  if (arguments.method.empty()) return method_of_run(file);
  const std::vector<MethodSpec> specs = parse_methods({arguments.method});
  if (specs.size() > 1) fail(ExitCode::kBadConfiguration, "--method names ", specs.size(), " methods; expected one");
  return specs[0];
}

std::vector<double> parse_thresholds(const std::vector<std::string>& texts) {
  std::vector<double> numbers;
  for (const std::string& text : texts)
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      const std::optional<double> number = parse_double(text.substr(begin, end - begin));
      if (!number)
        fail(ExitCode::kBadConfiguration, "--thresholds has \"", text.substr(begin, end - begin),
             "\"; expected numbers separated by commas, as 0.05,0.1,0.2");
      numbers.push_back(*number);
      begin = end + 1;
    }
  std::ranges::sort(numbers);
  return numbers;
}

std::string most_frequent_tokens(const MethodComparison& comparison) {
  std::string text;
  for (const TokenTypeDifference* type : most_often_outside(comparison))
    text += (text.empty() ? "" : " ") + quote_token(type->token) + " " + format_count(type->outside);
  return text;
}

void print_table(const Advice& advice, const MethodSpec& spec, const std::string& run) {
  Console console;
  console.result(describe_records(run, advice.comparison) + "\n\nTokens outside the region for thresholds of " +
                 spec.method + " (current threshold: " + number_or_dash(threshold_of(spec)) + ")");
  std::vector<std::vector<std::string>> rows = {
      {"threshold", "outside", "A > 0", "A < 0", "mean mu", "entropy", "most often"}};
  for (size_t i = 0; i < advice.by_threshold.size(); ++i) {
    const Decisions& decisions = advice.by_threshold[i].decisions;
    rows.push_back({number_or_dash(advice.thresholds[i], 6), percent(decisions.outside.all.fraction()),
                    percent(decisions.outside.positive.fraction()), percent(decisions.outside.negative.fraction()),
                    number_or_dash(decisions.mu.mean()), number_or_dash(decisions.entropy.mean()),
                    most_frequent_tokens(advice.by_threshold[i])});
  }
  console.result(text_table(rows, {6}));
  if (!advice.best)
    return console.result(
        "No threshold leaves a token outside: in every recorded update the policy is close to the one that sampled "
        "the tokens");
  console.result("For " + percent(advice.target) + " outside use this setting (" + percent(advice.best_fraction) +
                 " outside):\n  " + settings_for(spec, *advice.best));
}

void print_json(const Advice& advice, const MethodSpec& spec, const std::string& run) {
  Json json = {{"run", run},
               {"method", spec.method},
               {"threshold", std::isfinite(threshold_of(spec)) ? Json(threshold_of(spec)) : Json()},
               {"tokens", advice.comparison.tokens},
               {"target", advice.target},
               {"recommended", advice.best ? Json(*advice.best) : Json()},
               {"recommended_share", advice.best ? Json(advice.best_fraction) : Json()},
               {"thresholds", Json::array()}};
  for (size_t i = 0; i < advice.by_threshold.size(); ++i) {
    Json row = {{"threshold", advice.thresholds[i]}};
    row.update(json_of(advice.by_threshold[i].decisions));
    json["thresholds"].push_back(row);
  }
  std::puts(escape_json_controls(json_line(json)).c_str());
}

void print_csv(const Advice& advice) {
  std::printf("threshold,%s\r\n", kDecisionFields);
  for (size_t i = 0; i < advice.by_threshold.size(); ++i)
    std::printf("%s,%s\r\n", csv_number(advice.thresholds[i]).c_str(),
                csv_fields(advice.by_threshold[i].decisions).c_str());
}

ExitCode advise_command(const AdviseArguments& arguments) {
  const double target = arguments.target.value_or(kTargetFraction);
  if (!(target > 0 && target < 1))
    fail(ExitCode::kBadConfiguration, "--target is ", target, "; expected a fraction of tokens above 0 and below 1");
  const std::vector<std::filesystem::path> files = arguments.records.files();
  const MethodSpec spec = method_of(arguments, files.back());
  const std::vector<double> thresholds = parse_thresholds(arguments.thresholds);
  const Advice advice =
      advise(files, spec, thresholds.empty() ? candidate_thresholds(spec, /*per_decade=*/3) : thresholds, target);
  if (arguments.records.csv)
    print_csv(advice);
  else if (arguments.records.json)
    print_json(advice, spec, arguments.records.run);
  else
    print_table(advice, spec, arguments.records.run);
  return ExitCode::kDone;
}

}  // namespace

CommandHandler add_advise(CommandLine& line) {
  const auto arguments = std::make_shared<AdviseArguments>();
  Command command = line.add("advise", "Recommend a trust-region threshold from recorded tokens");
  arguments->records.add_to(command);
  command.option("--method", arguments->method, "The method, written as for `keel tokens` (default: the run's)")
      .suggest(method_names());
  command
      .option("--thresholds", arguments->thresholds,
              "Comma-separated thresholds to compare (default: 1, 2 and 5 of every power of ten)")
      .repeatable();
  command.option("--target", arguments->target,
                 "Fraction of tokens that the recommended threshold leaves outside (default: 0.005)");
  return [arguments] { return advise_command(*arguments); };
}

}  // namespace keel::cli
