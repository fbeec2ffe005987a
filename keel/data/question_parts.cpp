#include "keel/data/question_parts.h"

#include <algorithm>

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

/// Whether everything that a value says stands in a text; a value that says nothing does.
bool is_said_in(const std::string& text, const Json& value) {
  if (value.is_object() && value.contains("role") && value.contains("content"))
    return is_said_in(text, value["content"]);
  if (value.is_structured())
    return std::all_of(value.begin(), value.end(), [&](const Json& part) { return is_said_in(text, part); });
  if (value.is_string()) return text.find(trimmed(value.get_ref<const std::string&>())) != std::string::npos;
  return !value.is_number() || text.find(value.dump()) != std::string::npos;
}

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

/// All texts in a value, one after the other.
std::string texts_in(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>() + "\n";
  std::string text;
  if (value.is_structured())
    for (const Json& part : value) text += texts_in(part);
  return text;
}

bool has_several_words(std::string_view text) { return trimmed(text).find(' ') != std::string_view::npos; }

}  // namespace

std::optional<QuestionPart> part_left_out(const Json& row, const Json& prompt, const std::set<std::string>& read) {
  const std::string said = texts_in(prompt);
  int64_t choices = 0;
  for (const auto& [column, value] : row.items()) choices += !value.is_null() && is_of_a_choice(lower_case(column));
  for (const auto& [column, value] : row.items()) {
    if (read.contains(column)) continue;
    const std::string name = lower_case(column);
    if ((is_part(name) || (choices > 1 && is_of_a_choice(name))) && !is_said_in(said, value))
      return QuestionPart{column};
    if (kMedia.contains(name) && !is_said_in("", value)) return QuestionPart{column, /*is_text=*/false};
  }
  return std::nullopt;
}

std::vector<std::string> unseen_texts(const Json& row, const Json& said, const std::set<std::string>& read) {
  const std::string text = texts_in(said);
  std::vector<std::string> unseen;
  for (const auto& [column, value] : row.items())
    if (!read.contains(column) && !kBeside.contains(column) && has_several_words(texts_in(value)) &&
        !is_said_in(text, value))
      unseen.push_back(column);
  return unseen;
}

}  // namespace keel
