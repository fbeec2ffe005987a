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

/// Without one pair of marks around the whole text; the same text when there is none.
std::string_view unwrapped(std::string_view text) {
  struct Marks {
    std::string_view open, close;
  };
  constexpr Marks kMarks[] = {{"$", "$"},     {"\"", "\""},     {"'", "'"},         {"`", "`"},        {"**", "**"},
                              {"\\(", "\\)"}, {"\\text{", "}"}, {"\\texttt{", "}"}, {"\\mathrm{", "}"}};
  for (const auto& [open, close] : kMarks) {
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
    answer = unwrapped(answer);
  }
  return std::string(answer);
}

}  // namespace keel
