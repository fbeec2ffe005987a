#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <string_view>

#include "cli/commands.h"
#include "cli/json_lines.h"
#include "keel/core/console.h"
#include "libs/mathverify/verifier.h"

namespace keel::cli {
namespace {

struct VerifyArguments {
  std::string gold, answer, batch;
  Argument gold_option, answer_option;
};

/// Counts the significant digits of the shortest decimal that parses to this number.
int64_t count_digits(const Json& number) {
  const std::string text = number.dump();
  const auto mantissa = std::string_view(text).substr(0, text.find('e'));
  const size_t first = mantissa.find_first_of("123456789");
  return first == mantissa.npos ? 0 : std::ranges::count_if(mantissa.substr(first), [](char c) { return c != '.'; });
}

/// Checks that a row has a gold answer and an answer.
void check_row(const JsonLine& line) {
  for (const char* key : {"gold", "answer"}) {
    if (!line.value.contains(key))
      fail(ExitCode::kBadInput, line.location, ": the row has no \"", key, "\"; add it, as a string");
    const Json& value = line.value[key];
    if (!value.is_string() && !value.is_number())
      fail(ExitCode::kBadInput, line.location, ": \"", key, "\" is ", value.type_name(), "; expected a string");
    if (value.is_number_float() && count_digits(value) > std::numeric_limits<double>::digits10)
      fail(ExitCode::kBadInput, line.location, ": \"", key, "\" is a number with more digits than a double holds (got ",
           value.dump(), "). Fix: write it as a string");
  }
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

ExitCode verify_batch(const std::string& path) {
  for_each_line(path, 0, [](JsonLine& line) {
    check_row(line);
    line.value["correct"] = verify_math(text_of(line.value["gold"]), text_of(line.value["answer"])).correct;
  });
  return ExitCode::kDone;
}

}  // namespace

CommandHandler add_verify(CommandLine& line) {
  const auto arguments = std::make_shared<VerifyArguments>();
  Command command = line.add("verify", "Check whether a math answer equals the gold answer");
  arguments->gold_option = command.option("--gold", arguments->gold, "Reference answer or solution");
  arguments->answer_option = command.option("--answer", arguments->answer, "Answer or completion to check");
  command
      .option("--batch", arguments->batch,
              "JSONL file of {gold, answer}, printed with \"correct\"; - is standard input")
      .files();
  return [arguments] {
    const bool has_gold = arguments->gold_option.given(), has_answer = arguments->answer_option.given();
    if (!arguments->batch.empty()) {
      if (has_gold || has_answer)
        fail(ExitCode::kBadConfiguration,
             "verify: --batch reads gold answers from its file; remove --gold and --answer");
      return verify_batch(arguments->batch);
    }
    if (!has_gold || !has_answer)
      fail(ExitCode::kBadConfiguration, "verify: ", has_gold ? "--answer" : "--gold",
           " is missing; set --gold and --answer, or --batch FILE");
    const MathVerdict verdict = verify_math(arguments->gold, arguments->answer);
    std::printf("%s\ngold    %s\nanswer  %s\n", verdict.correct ? "correct" : "wrong",
                escape_controls(verdict.gold).c_str(), escape_controls(verdict.answer).c_str());
    return verdict.correct ? ExitCode::kDone : ExitCode::kCheckFailed;
  };
}

}  // namespace keel::cli
