#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace keel::text {

/// Limits the steps of all searches in one text. Tokenizer files are untrusted: matching a*b can take quadratic time,
/// "a+a+b" cubic time. Counting steps instead of time makes the result the same on every machine.
class RegexBudget {
 public:
  /// Starts with `steps`; grant() adds more.
  explicit RegexBudget(size_t steps = 200'000'000) : steps_left_(steps) {}  // two seconds at most
  /// Adds steps for `bytes` of searched text. Expressions of real tokenizers take about five steps per byte.
  void grant(size_t bytes) { steps_left_ += kStepsPerByte * bytes; }
  size_t& steps_left() { return steps_left_; }

 private:
  static constexpr size_t kStepsPerByte = 100;  // a microsecond at most
  size_t steps_left_;
};

/// A compiled regular expression. Simple ones use SimpleRegex, others PCRE2 with UTF, Unicode properties and JIT.
/// Copies share the compiled code; safe to use from several threads.
class Regex {
 public:
  /// Compiles Oniguruma's dialect (regex_dialect.h). `location` names the pattern in errors.
  static Regex compile(std::string_view pattern, const std::string& location);
  /// Compiles PCRE2's dialect, for patterns written in Keel's code.
  static Regex compile_pcre2(const std::string& pattern, const std::string& location);

  struct Match {
    size_t begin = 0, end = 0;
  };
  /// The first match at or after the character at byte `from` of valid UTF-8. Throws an Error if the budget is used up.
  std::optional<Match> find(std::string_view text, size_t from, RegexBudget& budget) const;
  /// The first match in `text`, with a budget of its own.
  std::optional<Match> find(std::string_view text) const;

 private:
  struct Code;
  std::optional<Match> find_simple(std::string_view text, size_t from, RegexBudget& budget) const;
  [[noreturn]] void fail_search(std::string_view text, const std::string& why) const;
  std::shared_ptr<const Code> code_;
};

}  // namespace keel::text
