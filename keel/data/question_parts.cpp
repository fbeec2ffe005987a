#include "keel/data/question_parts.h"

#include <algorithm>
#include <cstring>

#include "keel/core/strings.h"

namespace keel {
namespace {

/// Columns that are a part of the question, in whoever's rows, or that others take for the prompt: they would be asked
/// for and never shown. Without the s of several.
const std::set<std::string> kParts = {
    "article", "body",       "candidate", "choice",      "context", "document",  "ending",        "fact",    "function",
    "history", "hypothesis", "input",     "instruction", "option",  "paragraph", "passage",       "premise", "problem",
    "prompt",  "query",      "question",  "story",       "support", "system",    "system_prompt", "table",   "tool"};
/// What programs keep beside the question on purpose.
const std::set<std::string> kBeside = {"reward_model", "reward_spec", "extra_info", "metadata"};
const std::set<std::string> kMedia = {"image", "images", "video", "videos", "audio", "audios"};

std::string without_blanks(std::string text) {
  std::erase_if(text, [](unsigned char c) { return c <= ' '; });
  return text;
}

/// All texts in a value, one after the other.
void add_texts(const Json& value, std::string& text) {
  if (value.is_string()) text += value.get_ref<const std::string&>() + "\n";
  if (value.is_structured())
    for (const Json& part : value) add_texts(part, text);
}

std::string texts_in(const Json& value) {
  std::string text;
  add_texts(value, text);
  return text;
}

/// What prompt and answer say; blanks do not count.
class Said {
 public:
  explicit Said(const Json& value) : text_(without_blanks(texts_in(value))) {}

  /// Whether everything that a value says stands there; a value that says nothing does.
  bool has(const Json& value) {
    if (value.is_object() && value.contains("role") && value.contains("content")) return has(value["content"]);
    if (value.is_structured())
      return std::all_of(value.begin(), value.end(), [&](const Json& part) { return has(part); });
    if (value.is_string()) return has_text(without_blanks(value));
    return !value.is_number() || has_text(value.dump());
  }

 private:
  bool has_text(const std::string& text) {
    if (text.empty()) return true;
    left_ -= static_cast<int64_t>(text_.size());
    return left_ > 0 && memmem(text_.data(), text_.size(), text.data(), text.size()) != nullptr;  // in linear time
  }

  std::string text_;
  int64_t left_ = int64_t{1} << 31;  // bytes to be looked through; what is not found within them does not stand there
};

bool is_part(std::string name) {
  if (kParts.contains(name)) return true;
  if (name.ends_with('s')) name.pop_back();
  return kParts.contains(name);
}

/// A, option_a, "Option A", opa, choice1, answerA: the columns of files that have one for every choice.
bool is_of_a_choice(std::string name) {
  static const std::set<std::string> kNumbered = {"option", "choice", "op", "ending", "sol"};
  std::erase_if(name, [](char c) { return c == '_' || c == ' ' || c == '-'; });
  if (name.empty()) return false;
  const char last = name.back();
  name.pop_back();
  if (last >= 'a' && last <= 'e') return name.empty() || name == "answer" || kNumbered.contains(name);
  return last >= '0' && last <= '5' && kNumbered.contains(name);  // answer1, answer2: several right ones
}

bool has_several_words(std::string_view text) { return trimmed(text).find(' ') != std::string_view::npos; }

}  // namespace

std::optional<QuestionPart> part_left_out(const Json& row, const Json& prompt, const std::set<std::string>& read) {
  Said said(prompt), nothing(nullptr);
  const bool letter = std::any_of(read.begin(), read.end(), [&](const std::string& column) {
    const auto answer = row.find(column);
    return answer != row.end() && answer->is_string() && answer->get_ref<const std::string&>().size() == 1 &&
           is_letter(answer->get_ref<const std::string&>()[0]);
  });
  // Numbers are those of the problem, unless it is answered by a letter.
  const auto is_choice = [&](const std::string& column, const Json& value) {
    return (value.is_string() || (letter && !value.is_null())) && is_of_a_choice(lower_case(column));
  };
  int64_t choices = 0;
  for (const auto& [column, value] : row.items()) choices += is_choice(column, value);
  for (const auto& [column, value] : row.items()) {
    if (read.contains(column)) continue;
    const std::string name = lower_case(column);
    if ((is_part(name) || (choices > 1 && is_choice(column, value))) && !said.has(value)) return QuestionPart{column};
    if (kMedia.contains(name) && !nothing.has(value)) return QuestionPart{column, /*is_text=*/false};
  }
  return std::nullopt;
}

std::vector<std::string> unseen_texts(const Json& row, const Json& texts, const std::set<std::string>& read) {
  Said said(texts);
  std::vector<std::string> unseen;
  for (const auto& [column, value] : row.items())
    if (!read.contains(column) && !kBeside.contains(column) && has_several_words(texts_in(value)) && !said.has(value))
      unseen.push_back(column);
  return unseen;
}

}  // namespace keel
