#include "cli/token_answers.h"

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
  const auto number = [&](const std::string& digits, int64_t fallback) {
    int64_t value = fallback;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() && !digits.empty()) value = -1;
    if (value < 0 || end != digits.data() + digits.size())
      fail(ExitCode::kBadConfiguration, "--steps is \"", text,
           "\"; expected the first and the last step, such as 100:200, 100:, ", ":200 or 100");
    return value;
  };
  const size_t colon = text.find(':');
  StepRange range;
  range.first = number(text.substr(0, colon), range.first);
  range.last = colon == std::string::npos ? range.first : number(text.substr(colon + 1), range.last);
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
  const std::vector<std::filesystem::path> all = token_files(run);
  if (all.empty()) fail(ExitCode::kBadInput, no_token_files(run));
  if (steps.empty()) return all;
  const auto step = [](const std::filesystem::path& file) { return TokenFile::parse_step(file.filename().string()); };
  const StepRange range = step_range(steps);
  std::vector<std::filesystem::path> chosen;
  for (const std::filesystem::path& file : all)
    if (step(file) >= range.first && step(file) <= range.last) chosen.push_back(file);
  if (chosen.empty())
    fail(ExitCode::kBadConfiguration, "--steps is ", steps, ", and ", run, " has records of ", all.size(),
         " steps from ", step(all.front()), " to ", step(all.back()), ", none of them in this range");
  return chosen;
}

std::string describe_records(const std::string& run, const TokenComparison& a) {
  const std::string steps = a.steps == 1 ? "step " + std::to_string(a.first_step)
                                         : std::to_string(a.steps) + " steps, " + std::to_string(a.first_step) +
                                               " to " + std::to_string(a.last_step);
  return run + ": " + a.method + ", " + format_count(a.tokens) + " recorded tokens (one row per update) of " + steps;
}

Json json_of(const Decisions& d) {
  return {{"tokens", d.blocked.all.tokens},
          {"positive", d.blocked.positive.tokens},
          {"negative", d.blocked.negative.tokens},
          {"held_back", fractions_of(d.blocked)},
          {"outside", fractions_of(d.outside)},
          {"outside_mu", number_or_null(d.mu.mean())},
          {"outside_entropy", number_or_null(d.entropy.mean())}};
}

Json json_of(const MethodComparison& a, size_t max_token_types) {
  Json parameter_values = Json::object();
  for (const auto& [name, value] : number_parameters(a.spec.region)) parameter_values[name] = number_or_null(value);
  for (const auto& [name, word] : choice_parameters(a.spec.region)) parameter_values[name] = word;
  Json types = Json::array();
  for (const TokenTypeDifference& type : a.types) {
    if (types.size() == max_token_types || (type.change == 0 && type.blocked_by_run == type.blocked_by_method)) break;
    types.push_back({{"token", type.token},
                     {"tokens", type.tokens},
                     {"held_back_by_run", type.blocked_by_run},
                     {"held_back", type.blocked_by_method},
                     {"change", type.change}});
  }
  Json json = {{"name", a.spec.name}, {"method", a.spec.method}, {"parameters", parameter_values}};
  json.update(json_of(a.decisions));
  json.update({{"held_back_by_both", a.both},
               {"held_back_by_run_only", a.only_run},
               {"held_back_by_method_only", a.only_method},
               {"weight_change", number_or_null(a.weight_change)},
               {"sum_change", number_or_null(a.sum_change)},
               {"cosine", number_or_null(a.cosine)},
               {"types", types}});
  return json;
}

std::string csv_number(double value) { return std::isfinite(value) ? shortest_exact(value) : ""; }

std::string csv_fields(const Decisions& d) {
  std::string text = std::to_string(d.blocked.all.tokens);
  for (const double number : {d.blocked.all.fraction(), d.blocked.positive.fraction(), d.blocked.negative.fraction(),
                              d.outside.all.fraction(), d.outside.positive.fraction(), d.outside.negative.fraction(),
                              d.mu.mean(), d.entropy.mean()})
    text += "," + csv_number(number);
  return text;
}

}  // namespace keel::cli
