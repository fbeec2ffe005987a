#include "libs/mathverify/extract.h"

#include <algorithm>
#include <cctype>

#include "libs/mathverify/parse/boxes.h"
#include "libs/mathverify/parse/characters.h"

namespace keel {
namespace {

using math::trimmed;

constexpr size_t kMaxFormula = 4000;

std::string_view first_line(std::string_view text) { return trimmed(text.substr(0, text.find('\n'))); }

bool is_word_at(std::string_view text, size_t at, std::string_view lower) {
  if (text.size() < at + lower.size()) return false;
  for (size_t i = 0; i < lower.size(); ++i)
    if ((text[at + i] | 0x20) != lower[i]) return false;
  return true;
}

/// Returns the first sentence: "$5$" of "$5$. I hope it is correct."
std::string_view first_sentence(std::string_view text) {
  bool in_formula = false;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '$') {
      in_formula = !in_formula;
    } else if (text[i] == '.' && text[i + 1] == ' ' && !in_formula) {
      const bool abbreviated = i >= 2 && text[i - 2] == '.';  // a.m.
      if (!abbreviated) return text.substr(0, i);
    } else if ((text[i] & 0x80) != 0 && text.substr(i).starts_with("\u3002")) {  // Chinese full stop
      return text.substr(0, i);
    }
  }
  return text;
}

/// The formula in \[...\] or $$...$$ at the start of a text; it may span several lines.
std::optional<std::string_view> leading_display_formula(std::string_view text) {
  for (const auto& [open, close] : {std::pair<std::string_view, std::string_view>{"\\[", "\\]"}, {"$$", "$$"}}) {
    if (!text.starts_with(open)) continue;
    const size_t end = text.find(close, open.size());
    if (end != std::string_view::npos) return trimmed(text.substr(open.size(), end - open.size()));
  }
  return std::nullopt;
}

/// The formula in \[...\] or $$...$$ at the end of a text.
std::optional<std::string_view> trailing_display_formula(std::string_view text) {
  if (text.ends_with('.')) text.remove_suffix(1);
  for (const auto& [open, close] : {std::pair<std::string_view, std::string_view>{"\\[", "\\]"}, {"$$", "$$"}}) {
    if (!text.ends_with(close) || text.size() < open.size() + close.size()) continue;
    text.remove_suffix(close.size());
    const size_t begin = text.rfind(open);
    if (begin != std::string_view::npos) return trimmed(text.substr(begin + open.size()));
  }
  return std::nullopt;
}

constexpr std::string_view kCueSeparators = " \t\n\r*:";

bool is_cue_separator(std::string_view text, size_t at) {
  return at < text.size() && kCueSeparators.find(text[at]) != std::string_view::npos;
}

/// End of the Chinese words for "answer is" at `at`; 0 if there are none.
size_t end_of_chinese_cue(std::string_view text, size_t at) {
  constexpr std::string_view kAnswer = "\u7B54\u6848";
  if (!text.substr(at).starts_with(kAnswer)) return 0;
  size_t next = at + kAnswer.size();
  bool has_cue = false;
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view word : {"\u662F", "\u4E3A", "\uFF1A", ":", " "}) {  // is, is, :
      if (!text.substr(next).starts_with(word)) continue;
      next += word.size();
      has_cue |= word != " ";
      found = true;
    }
  }
  return has_cue ? next : 0;
}

/// End of "answer is", "answer:", "answer =" or "Ans." at `at`; 0 if there is none.
size_t end_of_answer_cue(std::string_view text, size_t at) {
  const bool is_short = !is_word_at(text, at, "answer");
  if (is_short && !(is_word_at(text, at, "ans") && (at == 0 || std::isspace(static_cast<unsigned char>(text[at - 1])))))
    return 0;
  constexpr size_t kMaxSeparators = 8;
  const size_t word_end = at + std::string_view(is_short ? "ans" : "answer").size();
  size_t next = word_end;
  bool has_cue = false;
  if (is_short && next < text.size() && text[next] == '.') {
    ++next;
    has_cue = true;
  }
  for (; is_cue_separator(text, next) && next < word_end + kMaxSeparators; ++next) has_cue |= text[next] == ':';
  if (is_word_at(text, next, "is") && is_cue_separator(text, next + 2)) {
    next += 2;
    has_cue = true;
  } else if (next < text.size() && text[next] == '=') {
    ++next;
    has_cue = true;
  }
  const std::string_view rest = text.substr(std::min(next, text.size()));
  has_cue |= rest.starts_with("$") || rest.starts_with("\\(") || rest.starts_with("\\[");
  if (!has_cue) return 0;
  while (is_cue_separator(text, next) || (next < text.size() && text[next] == '}')) ++next;  // \text{The answer is } 5
  return next;
}

/// Strips prose around an answer: "about 5", "5, not 6", "5!" and "5..." become 5.
std::string_view strip_prose(std::string_view text) {
  for (const std::string_view word :
       {"approximately ", "about ", "exactly ", "simply ", "just ", "therefore ", "thus ", "then ", "indeed "})
    if (is_word_at(text, 0, word)) text.remove_prefix(word.size());
  for (const std::string_view tail : {", not ", ", rather than ", ", instead of ", " because ", ", since ", " since "})
    if (const size_t at = text.find(tail); at != std::string_view::npos) text = text.substr(0, at);
  const std::string_view without_period = text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
  for (const std::string_view tail : {", as required", ", as desired", ", as needed", ", as claimed", ", as expected"})
    if (without_period.ends_with(tail)) text = without_period.substr(0, without_period.size() - tail.size());
  std::string_view without_punctuation = text;
  while (!without_punctuation.empty() &&
         std::string_view("!?.").find(without_punctuation.back()) != std::string_view::npos)
    without_punctuation.remove_suffix(1);
  const bool is_number =
      !without_punctuation.empty() && without_punctuation.find_first_not_of("0123456789-+$*") == std::string_view::npos;
  return is_number || text.ends_with("?") ? without_punctuation : text;
}

/// Returns the rest of the sentence after the last "answer is" or "answer:". Scans backwards in linear time.
std::optional<std::string_view> text_after_answer_cue(std::string_view text) {
  for (size_t at = text.size(); at-- > 0;) {
    const bool is_latin = (text[at] | 0x20) == 'a';
    if (!is_latin && (text[at] & 0x80) == 0) continue;
    const size_t next = is_latin ? end_of_answer_cue(text, at) : end_of_chinese_cue(text, at);
    if (next == 0) continue;
    const std::string_view rest = trimmed(text.substr(next));
    if (const std::optional<std::string_view> formula = leading_display_formula(rest)) return formula;
    const std::string_view sentence = strip_prose(trimmed(first_sentence(first_line(rest))));
    if (sentence.empty()) return std::nullopt;
    return sentence;
  }
  return std::nullopt;
}

/// Strips emphasis, quotes and a final period.
std::string_view strip_markup(std::string_view text) {
  for (size_t before = text.size() + 1; text.size() < before;) {
    before = text.size();
    text = trimmed(text);
    if (text.size() > 4 && text.starts_with("**") && text.ends_with("**")) text = text.substr(2, text.size() - 4);
    if (text.ends_with("**")) text.remove_suffix(2);
    for (const std::string_view emphasis : {"__", "*", "_"}) {
      const size_t size = emphasis.size();
      if (text.size() > 2 * size && text.starts_with(emphasis) && text.ends_with(emphasis) &&
          text.substr(size, text.size() - 2 * size).find(emphasis) == std::string_view::npos)
        text = text.substr(size, text.size() - 2 * size);
    }
    while (text.ends_with("\\\\")) text.remove_suffix(2);
    if (text.ends_with(".") && !text.ends_with("..") && !text.ends_with(". .")) text.remove_suffix(1);
    for (const char quote : {'`', '\'', '"'})
      if (text.size() > 2 && text.front() == quote && text.back() == quote) text = text.substr(1, text.size() - 2);
    for (const std::string_view arrow : {"=>", "->", "="})  // "= 5"
      if (text.starts_with(arrow)) text.remove_prefix(arrow.size());
  }
  return trimmed(text);
}

/// Strips GSM8K's calculator annotations: "9 * 2 = $<<9*2=18>>18".
std::string strip_calculator_notes(std::string_view text) {
  std::string result;
  while (true) {
    const size_t open = text.find("<<"), close = text.find(">>", open);
    if (open == std::string_view::npos || close == std::string_view::npos) break;
    result += text.substr(0, open);
    text.remove_prefix(close + 2);
  }
  return result += text;
}

/// Strips bold from "5 + 7 = **12**" but keeps the power 2**10.
std::string strip_bold(std::string text) {
  constexpr std::string_view kBold = "**";
  for (size_t open = text.find(kBold); open != std::string::npos; open = text.find(kBold, open)) {
    const size_t close = text.find(kBold, open + 3);
    const bool begins = open == 0 || text[open - 1] == ' ' || text[open - 1] == '(';
    if (close == std::string::npos) break;
    if (!begins || text[open + 2] == ' ') {
      open += kBold.size();
      continue;
    }
    text.erase(close, kBold.size());
    text.erase(open, kBold.size());
  }
  return text;
}

std::optional<std::string> clean_answer(std::string_view text) {
  const std::string plain = text.size() > kMaxFormula ? std::string(text) : strip_bold(std::string(text));
  text = strip_markup(plain);
  if (text.empty()) return std::nullopt;
  return strip_calculator_notes(text);
}

std::string_view strip_code_fence(std::string_view text) {
  while (text.ends_with("```")) {
    text.remove_suffix(3);
    text = trimmed(text);
  }
  return text;
}

/// Returns the text after </think>, if it is not empty.
std::string_view strip_thinking(std::string_view text) {
  constexpr std::string_view kEnd = "</think>";
  const size_t end = text.rfind(kEnd);
  if (end == std::string_view::npos) return text;
  const std::string_view rest = text.substr(end + kEnd.size());
  return trimmed(rest).empty() ? text : rest;
}

}  // namespace

std::optional<std::string> extract_math_answer(std::string_view completion) {
  completion = strip_thinking(completion);
  if (const std::optional<std::string> box = math::last_boxed_answer(completion)) {
    const std::optional<std::string_view> rest = text_after_answer_cue(*box);  // \boxed{\text{Answer: } 5}
    return clean_answer(rest ? *rest : std::string_view(*box));
  }
  constexpr std::string_view kMark = "####", kOpeningTag = "<answer>";
  if (const size_t mark = completion.rfind(kMark); mark != std::string_view::npos)
    return clean_answer(first_line(trimmed(completion.substr(mark + kMark.size()))));
  if (const size_t close = completion.rfind("</answer>"); close != std::string_view::npos)
    if (const size_t open = completion.substr(0, close).rfind(kOpeningTag); open != std::string_view::npos) {
      const size_t begin = open + kOpeningTag.size();
      return clean_answer(completion.substr(begin, close - begin));
    }
  if (const std::optional<std::string_view> rest = text_after_answer_cue(completion)) return clean_answer(*rest);
  const std::string_view all = strip_code_fence(trimmed(completion));
  if (all.empty()) return std::nullopt;
  // A multi-line formula, such as a matrix, is one answer.
  if (all.find("\\begin{") != std::string_view::npos && all.size() < kMaxFormula &&
      (all.starts_with("\\") || all.starts_with("$") || all.starts_with("[")))
    return clean_answer(all);
  if (all.starts_with("[[") && all.ends_with("]]")) return clean_answer(all);
  const size_t newline = all.rfind('\n');
  if (newline != std::string_view::npos)
    if (const std::optional<std::string_view> formula = trailing_display_formula(all)) return clean_answer(*formula);
  return clean_answer(newline == std::string_view::npos ? all : all.substr(newline + 1));
}

}  // namespace keel
