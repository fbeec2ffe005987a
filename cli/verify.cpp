#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>

#include "cli/commands.h"
#include "keel/core/json.h"
#include "keel/reward/math_verifier.h"

namespace keel::cli {
namespace {

struct Arguments {
  std::string gold, answer, batch;
  const CLI::Option *gold_option = nullptr, *answer_option = nullptr;
};

constexpr size_t kMaxLine = size_t{64} << 20;

/// One row of a batch; every way it can be bad names the place.
Json read_row(const std::string& line, const std::string& place) {
  std::set<std::string> keys;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1 && !keys.insert(parsed.get<std::string>()).second)
      fail(ExitCode::kBadInput, place, ": the key ", parsed.dump(), " stands twice in this row; keep one of them");
    return true;
  };
  Json row;
  try {
    row = Json::parse(line, watch);
  } catch (const Json::exception& error) {
    fail(ExitCode::kBadInput, place, ": not valid JSON (", error.what(),
         "); wanted one object per line, {\"gold\": ..., \"answer\": ...}");
  }
  if (!row.is_object())
    fail(ExitCode::kBadInput, place, ": got ", row.type_name(), "; wanted an object with \"gold\" and \"answer\"");
  for (const char* key : {"gold", "answer"}) {
    if (!row.contains(key)) fail(ExitCode::kBadInput, place, ": the row has no \"", key, "\"; add it, as a string");
    if (!row[key].is_string() && !row[key].is_number())
      fail(ExitCode::kBadInput, place, ": \"", key, "\" is ", row[key].type_name(), "; wanted a string");
  }
  return row;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

ExitCode verify_batch(const std::string& path) {
  std::ifstream file;
  const bool is_standard_input = path == "-";
  if (!is_standard_input) {
    file.open(path, std::ios::binary);
    if (!file)
      fail(ExitCode::kBadInput, path,
           ": cannot be opened; check the path and its permissions, or use - for standard input");
  }
  std::istream& input = is_standard_input ? std::cin : file;
  const std::string name = is_standard_input ? "standard input" : path;
  std::string line;
  for (size_t number = 1; std::getline(input, line); ++number) {
    const std::string place = name + ":" + std::to_string(number);
    if (line.size() > kMaxLine)
      fail(ExitCode::kBadInput, place, ": the line has ", line.size(), " bytes; at most ", kMaxLine, " are read");
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Json row = read_row(line, place);
    row["correct"] = verify_math(text_of(row["gold"]), text_of(row["answer"])).correct;
    const std::string out = row.dump();
    std::fwrite(out.data(), 1, out.size(), stdout);
    std::fputc('\n', stdout);
  }
  if (input.bad()) fail(ExitCode::kBadInput, name, ": reading failed; the rows before it were judged");
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    fail(ExitCode::kHealthGuard, "standard output: writing failed; free space where it goes and run again");
  return ExitCode::kDone;
}

}  // namespace

Action add_verify(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("verify", "The math verifier: does an answer say the same as the gold one?");
  arguments->gold_option = command->add_option("--gold", arguments->gold, "The reference answer or solution");
  arguments->answer_option = command->add_option("--answer", arguments->answer, "The answer or completion to judge");
  command->add_option("--batch", arguments->batch,
                      "JSONL rows {gold, answer}; printed with \"correct\"; - is standard input");
  return [arguments] {
    const bool has_gold = arguments->gold_option->count() > 0, has_answer = arguments->answer_option->count() > 0;
    if (!arguments->batch.empty()) {
      if (has_gold || has_answer)
        fail(ExitCode::kBadConfiguration, "verify: --batch brings its own gold answers; leave out --gold and --answer");
      return verify_batch(arguments->batch);
    }
    if (!has_gold || !has_answer)
      fail(ExitCode::kBadConfiguration, "verify: ", has_gold ? "--answer" : "--gold",
           " is missing; give --gold and --answer, or --batch FILE");
    const MathVerdict verdict = verify_math(arguments->gold, arguments->answer);
    std::printf("%s\ngold    %s\nanswer  %s\n", verdict.correct ? "correct" : "wrong", verdict.gold.c_str(),
                verdict.answer.c_str());
    return verdict.correct ? ExitCode::kDone : ExitCode::kAnsweredNo;
  };
}

}  // namespace keel::cli
