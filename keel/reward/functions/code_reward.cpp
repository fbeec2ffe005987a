#include "keel/reward/functions/code_reward.h"

#include <charconv>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "keel/core/error.h"
#include "keel/core/json_reader.h"
#include "keel/reward/functions/code_checks.h"

namespace keel {
namespace {

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// What a text holds as JSON; null where it is code.
Json json_in(const std::string& text) {
  try {
    return parse_json(text, {.depth = kDataDepth, .exact = true});
  } catch (const JsonFault& fault) {
    if (fault.is_depth()) throw std::invalid_argument(std::string("the tests are ") + fault.what());
    if (fault.is_inexact()) throw std::invalid_argument(std::string("in the tests ") + fault.what());
    return nullptr;
  }
}

/// An input may be one text or its lines.
std::string dialog_text(const Json& value) {
  if (!value.is_array()) return text_of(value);
  std::string text;
  for (const Json& line : value) text += text_of(line) + "\n";
  return text;
}

void read_pairs(const Json& answer, CodeTests& tests) {
  const Json &inputs = answer.at("inputs"), &outputs = answer.at("outputs");
  if (!inputs.is_array() || !outputs.is_array() || inputs.size() != outputs.size())
    throw std::invalid_argument("\"inputs\" and \"outputs\" are not two lists of the same length");
  const Json name = answer.value("fn_name", Json());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (name.is_string())
      tests.checks.push_back({{"call", name}, {"arguments", inputs[i]}, {"want", outputs[i]}});
    else
      tests.dialogs.push_back({dialog_text(inputs[i]), dialog_text(outputs[i])});
  }
}

void read_object(const Json& answer, CodeTests& tests) {
  if (answer.contains("inputs") && answer.contains("outputs")) return read_pairs(answer, tests);
  if (answer.contains("input") && answer.contains("output")) {
    tests.dialogs.push_back({dialog_text(answer["input"]), dialog_text(answer["output"])});
  } else if (answer.contains("assert_case")) {
    for (const Json& code : answer["assert_case"]) tests.checks.push_back({{"code", text_of(code)}});
  } else if (answer.contains("test") && answer.contains("entry_point")) {
    tests.checks.push_back({{"code", text_of(answer["test"])}, {"entry", text_of(answer["entry_point"])}});
  } else {
    throw std::invalid_argument(
        "the tests have neither inputs and outputs, input and output, assert_case, nor test "
        "and entry_point");
  }
}

/// A number with a decimal point or an exponent; whole numbers are compared as text.
std::optional<double> decimal(const std::string& word) {
  if (word.find_first_of(".eE") == std::string::npos) return std::nullopt;
  double value = 0;
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || rest != word.data() + word.size()) return std::nullopt;
  return value;
}

bool same_word(const std::string& got, const std::string& want) {
  if (got == want) return true;
  const std::optional<double> number = decimal(want);
  if (!number) return false;
  double value = 0;
  const char *begin = got.data() + (got.starts_with('+') ? 1 : 0), *end = got.data() + got.size();
  const auto [rest, error] = std::from_chars(begin, end, value);
  return error == std::errc() && rest == end && std::abs(value - *number) <= 1e-6 * std::max(1.0, std::abs(*number));
}

/// The words of every line that has some.
std::vector<std::vector<std::string>> words_of(std::string_view text) {
  std::vector<std::vector<std::string>> lines;
  std::istringstream input{std::string(text)};
  for (std::string line; std::getline(input, line);) {
    std::istringstream in_line(line);
    std::vector<std::string> words;
    for (std::string word; in_line >> word;) words.push_back(word);
    if (!words.empty()) lines.push_back(std::move(words));
  }
  return lines;
}

class CodeReward final : public Reward {
 public:
  CodeReward(const std::string& python, const SandboxLimits& limits, bool fraction)
      : sandbox_(python, limits), fraction_(fraction) {}

  Scores operator()(std::span<const RewardSample> samples) const override {
    Scores scores{.rewards = std::vector<std::optional<double>>(samples.size()), .failures = {}};
    for (size_t i = 0; i < samples.size(); ++i) {
      try {
        std::string note;
        scores.rewards[i] =
            score_tests(read_code_tests(samples[i].prompt.answer), extract_program(samples[i].completion), note);
        if (!note.empty()) scores.notes[i] = note;
      } catch (const std::invalid_argument& error) {
        scores.failures[i] = error.what();
      } catch (const Error& error) {
        scores.failures[i] = error.what();
      }
    }
    return scores;
  }

  std::string answer_error(const Json& answer) const override {
    try {
      read_code_tests(answer);
      return "";
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  }

  std::optional<FinalAnswer> answer(const RewardSample& sample) const override {
    return FinalAnswer{.text = extract_program(sample.completion)};
  }
  bool is_binary() const override { return !fraction_; }

 private:
  /// `note` says why it is not 1. A std::invalid_argument says why the tests cannot be judged by.
  double score_tests(const CodeTests& tests, const std::string& program, std::string& note) const {
    size_t passed = 0;
    if (!tests.checks.empty()) {
      CheckReport report = run_checks(sandbox_, program, tests.checks);
      if (!report.fault.empty()) throw std::invalid_argument(report.fault);
      passed = report.passed;
      note = std::move(report.note);
    }
    if (!fraction_ && passed < tests.checks.size()) return 0;
    for (const CodeTests::Dialog& dialog : tests.dialogs) {
      const SandboxRun run = sandbox_.run(program, dialog.input);
      const bool good = run.succeeded() && same_output(run.output, dialog.output);
      if (!good && !fraction_) return 0;
      passed += good ? 1 : 0;
    }
    return static_cast<double>(passed) / static_cast<double>(tests.size());
  }

  PythonSandbox sandbox_;
  bool fraction_;
};

}  // namespace

CodeTests read_code_tests(const Json& answer) {
  CodeTests tests;
  if (answer.is_string()) {
    const Json inner = json_in(answer.get<std::string>());
    if (inner.is_structured()) return read_code_tests(inner);
    tests.checks.push_back({{"code", answer}});
  } else if (answer.is_object()) {
    read_object(answer, tests);
  } else if (answer.is_array()) {
    for (const Json& test : answer) {
      if (test.is_string())
        tests.checks.push_back({{"code", test}});
      else if (test.is_object())
        read_object(test, tests);
      else
        throw std::invalid_argument(std::string("a test is ") + test.type_name() + "; expected a text or an object");
    }
  }
  if (tests.size() == 0) throw std::invalid_argument("the prompt's answer holds no tests");
  return tests;
}

namespace {

constexpr std::string_view kFence = "```";

/// The spaces before a fence that has only these before it on its line.
size_t indent_of(std::string_view text, size_t fence) {
  const size_t line = text.find_last_of('\n', fence) + 1;  // 0 on the first
  return text.substr(line, fence - line).find_first_not_of(" \t") == std::string_view::npos ? fence - line : 0;
}

/// Where the fence is that ends a block; one that stands further in, as in the text of a function, is part of it.
size_t closing_fence(std::string_view text, size_t opening, size_t from) {
  size_t end = text.find(kFence, from);
  while (end != std::string_view::npos && indent_of(text, end) > indent_of(text, opening) + 3)
    end = text.find(kFence, end + kFence.size());
  return end;
}

}  // namespace

std::string extract_program(std::string_view completion) {
  std::string_view found = completion;
  for (size_t at = completion.find(kFence); at != std::string_view::npos;) {
    const size_t line = completion.find('\n', at);
    if (line == std::string_view::npos) break;
    const size_t end = closing_fence(completion, at, line);
    found = completion.substr(line + 1, end == std::string_view::npos ? end : end - line - 1);
    if (end == std::string_view::npos) break;
    at = completion.find(kFence, end + kFence.size());
  }
  return std::string(found);
}

bool same_output(std::string_view got, std::string_view want) {
  const auto ours = words_of(got), theirs = words_of(want);
  return std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(), [](const auto& a, const auto& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_word);
  });
}

std::unique_ptr<Reward> code_reward(const std::string& python, const SandboxLimits& limits, bool fraction) {
  return std::make_unique<CodeReward>(python, limits, fraction);
}

}  // namespace keel
