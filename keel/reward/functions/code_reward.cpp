#include "keel/reward/functions/code_reward.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "keel/core/error.h"
#include "keel/core/json_reader.h"
#include "keel/reward/functions/code_checks.h"

namespace keel {
namespace {

std::string text_or_json(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// Parses the text as JSON; returns null if it is code.
Json parse_if_json(const std::string& text) {
  try {
    return parse_json(text, {.depth = kDataDepth, .exact = true});
  } catch (const JsonParseError& error) {
    if (error.is_depth()) throw std::invalid_argument(std::string("the tests are ") + error.what());
    if (error.is_inexact()) throw std::invalid_argument(std::string("in the tests ") + error.what());
    return nullptr;
  }
}

/// Returns an input or output, which is one text or a list of its lines.
std::string io_text(const Json& value) {
  if (!value.is_array()) return text_or_json(value);
  std::string text;
  for (const Json& line : value) text += text_or_json(line) + "\n";
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
      tests.io_tests.push_back({io_text(inputs[i]), io_text(outputs[i])});
  }
}

void read_object(const Json& answer, CodeTests& tests) {
  if (answer.contains("inputs") && answer.contains("outputs")) return read_pairs(answer, tests);
  if (answer.contains("input") && answer.contains("output")) {
    tests.io_tests.push_back({io_text(answer["input"]), io_text(answer["output"])});
  } else if (answer.contains("assert_case")) {
    for (const Json& code : answer["assert_case"]) tests.checks.push_back({{"code", text_or_json(code)}});
  } else if (answer.contains("test") && answer.contains("entry_point")) {
    tests.checks.push_back({{"code", text_or_json(answer["test"])}, {"entry", text_or_json(answer["entry_point"])}});
  } else {
    throw std::invalid_argument(
        "the tests have neither inputs and outputs, input and output, assert_case, nor test "
        "and entry_point");
  }
}

/// Parses a number with a decimal point or an exponent; integers are compared as text.
std::optional<double> parse_decimal(const std::string& word) {
  if (word.find_first_of(".eE") == std::string::npos) return std::nullopt;
  double value = 0;
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || rest != word.data() + word.size()) return std::nullopt;
  return value;
}

bool same_word(const std::string& got, const std::string& expected) {
  if (got == expected) return true;
  const std::optional<double> number = parse_decimal(expected);
  if (!number) return false;
  double value = 0;
  const char *begin = got.data() + (got.starts_with('+') ? 1 : 0), *end = got.data() + got.size();
  const auto [rest, error] = std::from_chars(begin, end, value);
  return error == std::errc() && rest == end && std::abs(value - *number) <= 1e-6 * std::max(1.0, std::abs(*number));
}

/// Splits the non-empty lines into words.
std::vector<std::vector<std::string>> split_words(std::string_view text) {
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
  /// `note` is the reason for a score below 1. Throws std::invalid_argument if the tests are invalid.
  double score_tests(const CodeTests& tests, const std::string& program, std::string& note) const {
    size_t passed = 0;
    if (!tests.checks.empty()) {
      CheckReport report = run_checks(sandbox_, program, tests.checks);
      if (!report.fault.empty()) throw std::invalid_argument(report.fault);
      passed = report.passed;
      note = std::move(report.note);
    }
    if (!fraction_ && passed < tests.checks.size()) return 0;
    for (const CodeTests::InputOutput& test : tests.io_tests) {
      const SandboxRun run = sandbox_.run(program, test.input);
      const bool is_correct = run.succeeded() && same_output(run.output, test.output);
      if (!is_correct && !fraction_) return 0;
      passed += is_correct ? 1 : 0;
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
    const Json inner = parse_if_json(answer.get<std::string>());
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

/// The indentation of a fence; 0 if other text precedes it on its line.
size_t indent_of(std::string_view text, size_t fence) {
  const size_t line = text.find_last_of('\n', fence) + 1;  // 0 on the first
  return text.substr(line, fence - line).find_first_not_of(" \t") == std::string_view::npos ? fence - line : 0;
}

/// Finds the closing fence of a block. A fence with deeper indentation, such as in a docstring, is part of the block.
size_t find_closing_fence(std::string_view text, size_t opening, size_t from) {
  size_t end = text.find(kFence, from);
  while (end != std::string_view::npos && indent_of(text, end) > indent_of(text, opening) + 3)
    end = text.find(kFence, end + kFence.size());
  return end;
}

}  // namespace

std::string extract_program(std::string_view completion) {
  std::string_view program = completion;
  for (size_t opening = completion.find(kFence); opening != std::string_view::npos;) {
    const size_t line = completion.find('\n', opening);
    if (line == std::string_view::npos) break;
    const size_t end = find_closing_fence(completion, opening, line);
    program = completion.substr(line + 1, end == std::string_view::npos ? end : end - line - 1);
    if (end == std::string_view::npos) break;
    opening = completion.find(kFence, end + kFence.size());
  }
  return std::string(program);
}

bool same_output(std::string_view got, std::string_view expected) {
  const auto got_lines = split_words(got), expected_lines = split_words(expected);
  const auto same_line = [](const auto& a, const auto& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_word);
  };
  return std::ranges::equal(got_lines, expected_lines, same_line);
}

std::unique_ptr<Reward> code_reward(const std::string& python, const SandboxLimits& limits, bool fraction) {
  return std::make_unique<CodeReward>(python, limits, fraction);
}

}  // namespace keel
