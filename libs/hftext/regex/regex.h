#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace keel::text {

/// The steps that searches in one text may take together: a tokenizer's file comes from others, and an expression such
/// as a*b takes time by the square of a text, "a+a+b" by its cube. Counted, not timed: a text that is refused is so
/// everywhere.
class RegexBudget {
 public:
  /// So many, and some for each byte that is granted.
  explicit RegexBudget(size_t steps = 200'000'000) : left_(steps) {}  // two seconds at most
  /// For `bytes` more that are searched. Expressions of real tokenizers take about five steps for each.
  void grant(size_t bytes) { left_ += kStepsPerByte * bytes; }
  size_t& left() { return left_; }

 private:
  static constexpr size_t kStepsPerByte = 100;  // a microsecond at most
  size_t left_;
};

/// A compiled regular expression: a simple one matches by itself, others by PCRE2 with UTF, Unicode properties and JIT.
/// Copies share it; safe to use from several threads.
class Regex {
 public:
  /// In Oniguruma's dialect (regex_dialect.h). `place` names the pattern in errors.
  static Regex compile(std::string_view pattern, const std::string& place);
  /// In PCRE2's own dialect, for patterns of ours.
  static Regex compile_pcre2(const std::string& pattern, const std::string& place);

  struct Match {
    size_t begin = 0, end = 0;
  };
  /// The first match at or after byte `from`, which is at the start of a character of the valid UTF-8 `text`. An Error
  /// when the budget, which was granted the text, is used up.
  std::optional<Match> find(std::string_view text, size_t from, RegexBudget& budget) const;
  /// The first match, when there is no other to look for.
  std::optional<Match> find(std::string_view text) const;

 private:
  struct Code;
  std::optional<Match> find_simple(std::string_view text, size_t from, RegexBudget& budget) const;
  [[noreturn]] void give_up(std::string_view text, const std::string& why) const;
  std::shared_ptr<const Code> code_;
};

}  // namespace keel::text
