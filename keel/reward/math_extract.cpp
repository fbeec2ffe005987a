#include <algorithm>
#include <cctype>
#include <vector>

#include "keel/reward/math_verifier.h"

namespace keel {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view first_line(std::string_view text) { return trimmed(text.substr(0, text.find('\n'))); }

/// The content of the last balanced \boxed{} or \fbox{}. One pass: every open brace remembers whether a box began
/// there, so that a megabyte of boxes is still read once.
std::optional<std::string_view> last_box(std::string_view text) {
  std::vector<size_t> open;  // places of open braces; the lowest bit says whether a box began
  std::optional<std::string_view> last;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      bool is_box = false;
      for (const std::string_view command : {"\\boxed", "\\fbox"}) {
        if (!text.substr(i).starts_with(command)) continue;
        size_t brace = i + command.size();
        while (brace < text.size() && (text[brace] == ' ' || text[brace] == '\n')) ++brace;
        if (brace >= text.size() || text[brace] != '{') continue;
        open.push_back(brace << 1 | 1);
        i = brace;
        is_box = true;
        break;
      }
      if (!is_box) ++i;  // \{ and \} do not count
    } else if (text[i] == '{') {
      open.push_back(i << 1);
    } else if (text[i] == '}' && !open.empty()) {
      const size_t place = open.back() >> 1;
      const bool is_box = open.back() & 1;
      open.pop_back();
      // Of nested boxes the outer one counts: it closes last.
      if (is_box) last = text.substr(place + 1, i - place - 1);
    }
  }
  return last;
}

bool is_word_at(std::string_view text, size_t at, std::string_view lower) {
  if (text.size() < at + lower.size()) return false;
  for (size_t i = 0; i < lower.size(); ++i)
    if ((text[at + i] | 0x20) != lower[i]) return false;
  return true;
}

/// Up to the full stop that ends the first sentence: "$5$. I hope it is correct." says 5.
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
    }
  }
  return text;
}

/// What follows the last "answer is" or "answer:", to the end of its line. Read from the end, each place once.
std::optional<std::string_view> after_answer_words(std::string_view text) {
  constexpr std::string_view kAnswer = "answer", kLayout = " \t\n\r*:";
  for (size_t at = text.size(); at-- > 0;) {
    if (!is_word_at(text, at, kAnswer)) continue;
    size_t next = at + kAnswer.size();
    bool introduced = false;
    for (; next < text.size() && next < at + kAnswer.size() + 8 && kLayout.find(text[next]) != std::string_view::npos;
         ++next)
      introduced |= text[next] == ':';
    if (is_word_at(text, next, "is") && next + 2 < text.size() &&
        kLayout.find(text[next + 2]) != std::string_view::npos) {
      next += 2;
      introduced = true;
    } else if (next < text.size() && text[next] == '=') {
      ++next;
      introduced = true;
    }
    if (!introduced) continue;
    while (next < text.size() && kLayout.find(text[next]) != std::string_view::npos) ++next;
    const std::string_view rest = trimmed(first_sentence(first_line(text.substr(next))));
    if (rest.empty()) return std::nullopt;
    return rest;
  }
  return std::nullopt;
}

/// Without bold, code quotes and the full stop around it.
std::string_view without_marks(std::string_view text) {
  for (size_t before = text.size() + 1; text.size() < before;) {
    before = text.size();
    text = trimmed(text);
    if (text.size() > 4 && text.starts_with("**") && text.ends_with("**")) text = text.substr(2, text.size() - 4);
    if (text.ends_with("**")) text.remove_suffix(2);
    if (text.ends_with(".") && !text.ends_with("..") && !text.ends_with(". .")) text.remove_suffix(1);
    if (text.size() > 2 && text.starts_with("`") && text.ends_with("`")) text = text.substr(1, text.size() - 2);
  }
  return trimmed(text);
}

std::optional<std::string> answer_or_nothing(std::string_view text) {
  text = without_marks(text);
  if (text.empty()) return std::nullopt;
  return std::string(text);
}

}  // namespace

std::optional<std::string> extract_math_answer(std::string_view completion) {
  if (const std::optional<std::string_view> box = last_box(completion)) return answer_or_nothing(*box);
  if (const size_t mark = completion.rfind("####"); mark != std::string_view::npos)
    return answer_or_nothing(first_line(trimmed(completion.substr(mark + 4))));
  if (const size_t close = completion.rfind("</answer>"); close != std::string_view::npos)
    if (const size_t open = completion.substr(0, close).rfind("<answer>"); open != std::string_view::npos)
      return answer_or_nothing(completion.substr(open + 8, close - open - 8));
  if (const std::optional<std::string_view> rest = after_answer_words(completion)) return answer_or_nothing(*rest);
  const std::string_view all = trimmed(completion);
  if (all.empty()) return std::nullopt;
  // A formula of several lines, such as a matrix, is one answer.
  if (all.find("\\begin{") != std::string_view::npos && all.size() < 4000 &&
      (all.starts_with("\\") || all.starts_with("$") || all.starts_with("[")))
    return answer_or_nothing(all);
  const size_t newline = all.rfind('\n');
  return answer_or_nothing(newline == std::string_view::npos ? all : all.substr(newline + 1));
}

}  // namespace keel
