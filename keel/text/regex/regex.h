#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace keel::text {

/// A compiled regular expression: a simple one matches by itself, others by PCRE2 with UTF, Unicode properties, JIT and
/// match limits. Copies share it; safe to use from several threads.
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
  /// when the match limit is reached.
  std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  struct Code;
  std::optional<Match> find_simple(std::string_view text, size_t from) const;
  [[noreturn]] void give_up(std::string_view text, const std::string& why) const;
  std::shared_ptr<const Code> code_;
};

}  // namespace keel::text
