#include "keel/task/final_answer.h"

#include <algorithm>
#include <cctype>

#include "keel/core/strings.h"
#include "libs/mathverify/extract.h"

namespace keel {
namespace {

constexpr size_t kMaxDigits = 18;  // fit into 64 bits

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

/// Takes an integer off the front.
std::optional<int64_t> take_integer(std::string_view& text) {
  bool negative = false;
  for (const std::string_view minus : {"-", "\u2212"}) {
    if (negative || !text.starts_with(minus)) continue;
    negative = true;
    text.remove_prefix(minus.size());
  }
  if (text.size() > 1 && text[0] == '0' && is_digit(text[1])) return std::nullopt;
  int64_t value = 0;
  size_t digits = 0;
  for (; !text.empty() && is_digit(text.front()); text.remove_prefix(1)) {
    if (++digits > kMaxDigits) return std::nullopt;
    value = value * 10 + (text.front() - '0');
  }
  if (digits == 0) return std::nullopt;
  return negative ? -value : value;
}

/// Without the commas that group thousands; the same text where they do not.
std::string without_groups(std::string_view text) {
  const size_t sign = text.starts_with('-') ? 1 : 0, size = text.size() - sign;
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool in_place = i > sign && (text.size() - i) % 4 == 0;
    if (in_place != (text[i] == ',')) return std::string(text);
    if (text[i] != ',') plain += text[i];
  }
  return size % 4 == 0 ? std::string(text) : plain;
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

std::optional<int64_t> literal_integer(std::string_view answer) {
  if (const size_t equals = answer.find('='); equals != std::string_view::npos) {
    const std::string_view left = trimmed(answer.substr(0, equals));
    const bool variable = left.size() == 1 && is_letter(left[0]);
    if (!variable && std::any_of(left.begin(), left.end(), is_letter)) return std::nullopt;
    answer = answer.substr(equals + 1);
  }
  const std::string plain = without_groups(trimmed(answer));
  answer = plain;
  const std::optional<int64_t> value = take_integer(answer);
  return answer.empty() ? value : std::nullopt;
}

std::optional<std::vector<int64_t>> literal_list(std::string_view answer, size_t limit) {
  if (answer.starts_with('[') && answer.ends_with(']')) answer = trimmed(answer.substr(1, answer.size() - 2));
  std::vector<int64_t> values;
  while (!answer.empty() && values.size() < limit) {
    const std::optional<int64_t> value = take_integer(answer);
    if (!value) return std::nullopt;
    values.push_back(*value);
    const std::string_view rest = trimmed(answer);
    if (rest.empty()) return values;
    const bool comma = rest.starts_with(',');
    if (!comma && rest.size() == answer.size()) return std::nullopt;  // nothing between two numbers
    answer = trimmed(rest.substr(comma ? 1 : 0));
  }
  return std::nullopt;
}

}  // namespace keel
