#include "cli/token_output.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/record/tokens/token_file.h"
#include "keel/record/tokens/token_reader.h"
#include "keel/record/tools/csv.h"

namespace keel::cli {
namespace {

struct StepRange {
  int64_t first = 0, last = std::numeric_limits<int64_t>::max();
};

/// "9:12", "9:", ":12" or "9".
StepRange step_range(const std::string& text) {
  const auto parse_step = [&](const std::string& digits, int64_t fallback) {
    int64_t value = fallback;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() && !digits.empty()) value = -1;
    if (value < 0 || end != digits.data() + digits.size())
      fail(ExitCode::kBadConfiguration, "--steps is \"", text,
           "\"; expected the first and the last step, such as 100:200, 100:, :200 or 100");
    return value;
  };
  const size_t colon = text.find(':');
  StepRange range;
  range.first = parse_step(text.substr(0, colon), range.first);
  range.last = colon == std::string::npos ? range.first : parse_step(text.substr(colon + 1), range.last);
  if (range.first > range.last)
    fail(ExitCode::kBadConfiguration, "--steps is \"", text, "\", which ends before it begins");
  return range;
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json fractions_of(const BySign& by_sign) {
  return {{"all", by_sign.all.fraction()},
          {"positive", by_sign.positive.fraction()},
          {"negative", by_sign.negative.fraction()}};
}

}  // namespace

void RecordArguments::add_to(Command& command) {
  command.option("RUN", run, "Folder of a run with token records (record.tokens)").required().folders();
  command.option("--steps", steps, "First and last step: 100:200, 100:, :200 or 100 (default: all)");
  const Argument to_json = command.flag("--json", json, "Print one JSON object");
  command.flag("--csv", csv, "Print CSV").excludes(to_json);
}

std::vector<std::filesystem::path> RecordArguments::files() const {
  const std::vector<std::filesystem::path> all_files = token_files(run);
  if (all_files.empty()) fail(ExitCode::kBadInput, no_token_files(run));
  if (steps.empty()) return all_files;
  const auto step = [](const std::filesystem::path& file) { return TokenFile::parse_step(file.filename().string()); };
  const StepRange range = step_range(steps);
  std::vector<std::filesystem::path> chosen;
  for (const std::filesystem::path& file : all_files)
    if (step(file) >= range.first && step(file) <= range.last) chosen.push_back(file);
  if (chosen.empty())
    fail(ExitCode::kBadConfiguration, "--steps is ", steps, ", and ", run, " has records of ", all_files.size(),
         " steps from ", step(all_files.front()), " to ", step(all_files.back()), ", none of them in this range");
  return chosen;
}

std::string describe_records(const std::string& run, const TokenComparison& comparison) {
  const std::string steps = comparison.steps == 1 ? "step " + std::to_string(comparison.first_step)
                                                  : std::to_string(comparison.steps) + " steps, " +
                                                        std::to_string(comparison.first_step) + " to " +
                                                        std::to_string(comparison.last_step);
  return run + ": " + comparison.method + ", " + format_count(comparison.tokens) +
         " recorded tokens (one row per update) of " + steps +
         (comparison.centering == "none"
              ? ""
              : "\n  Coefficients are those of the sampled token. What objective.centering=" + comparison.centering +
                    " subtracts is not recorded.");
}

Json json_of(const Decisions& decisions) {
  return {{"tokens", decisions.blocked.all.tokens},
          {"positive", decisions.blocked.positive.tokens},
          {"negative", decisions.blocked.negative.tokens},
          {"held_back", fractions_of(decisions.blocked)},
          {"outside", fractions_of(decisions.outside)},
          {"outside_mu", number_or_null(decisions.mu.mean())},
          {"outside_entropy", number_or_null(decisions.entropy.mean())}};
}

Json json_of(const MethodComparison& comparison, size_t max_token_types) {
  Json parameter_values = Json::object();
  for (const auto& [name, value] : number_parameters(comparison.spec.region))
    parameter_values[name] = number_or_null(value);
  for (const auto& [name, choice] : choice_parameters(comparison.spec.region)) parameter_values[name] = choice;
  Json types = Json::array();
  for (const TokenTypeDifference& type : comparison.types) {
    if (types.size() == max_token_types || (type.change == 0 && type.blocked_by_run == type.blocked_by_method)) break;
    types.push_back({{"token", type.token},
                     {"tokens", type.tokens},
                     {"held_back_by_run", type.blocked_by_run},
                     {"held_back", type.blocked_by_method},
                     {"change", type.change}});
  }
  Json json = {{"name", comparison.spec.name}, {"method", comparison.spec.method}, {"parameters", parameter_values}};
  json.update(json_of(comparison.decisions));
  json.update({{"held_back_by_both", comparison.both},
               {"held_back_by_run_only", comparison.only_run},
               {"held_back_by_method_only", comparison.only_method},
               {"weight_change", number_or_null(comparison.weight_change)},
               {"sum_change", number_or_null(comparison.sum_change)},
               {"cosine", number_or_null(comparison.cosine)},
               {"types", types}});
  return json;
}

std::string csv_number(double value) { return std::isfinite(value) ? shortest_exact(value) : ""; }

std::string csv_fields(const Decisions& decisions) {
  std::string text = std::to_string(decisions.blocked.all.tokens);
  for (const double number :
       {decisions.blocked.all.fraction(), decisions.blocked.positive.fraction(), decisions.blocked.negative.fraction(),
        decisions.outside.all.fraction(), decisions.outside.positive.fraction(), decisions.outside.negative.fraction(),
        decisions.mu.mean(), decisions.entropy.mean()})
    text += "," + csv_number(number);
  return text;
}

}  // namespace keel::cli
