#include "keel/task/final_answer.h"

#include <optional>

#include "keel/core/strings.h"
#include "libs/mathverify/extract.h"

namespace keel {
namespace {

std::string_view without_stop_token(std::string_view text) {
  text = trimmed(text);
  for (const std::string_view stop : {"<eos>", "</s>", "<end_of_turn>"}) {
    if (text.ends_with(stop)) return trimmed(text.substr(0, text.size() - stop.size()));
  }
  if (const size_t begin = text.rfind("<|"); text.ends_with("|>") && begin != std::string_view::npos)
    return trimmed(text.substr(0, begin));
  return text;
}

/// Removes one pair of delimiters around the whole text, if there is one.
std::string_view unwrap(std::string_view text) {
  struct Delimiters {
    std::string_view open, close;
  };
  constexpr Delimiters kDelimiters[] = {{"$", "$"},       {"\"", "\""},       {"'", "'"},
                                        {"`", "`"},       {"**", "**"},       {"\\(", "\\)"},
                                        {"\\text{", "}"}, {"\\texttt{", "}"}, {"\\mathrm{", "}"}};
  for (const auto& [open, close] : kDelimiters) {
    if (text.size() >= open.size() + close.size() && text.starts_with(open) && text.ends_with(close))
      return trimmed(text.substr(open.size(), text.size() - open.size() - close.size()));
  }
  return text;
}

}  // namespace

std::string final_answer(std::string_view completion) {
  const std::optional<std::string> found = extract_math_answer(without_stop_token(completion));
  std::string_view answer = found ? *found : std::string_view();
  for (size_t before = answer.size() + 1; answer.size() < before;) {
    before = answer.size();
    answer = unwrap(answer);
  }
  return std::string(answer);
}

}  // namespace keel
