#include "keel/data/question_parts.h"

#include <algorithm>

#include "keel/core/strings.h"

namespace keel {
namespace {

/// Columns that are a part of the question, in whoever's rows, or that others take for the prompt: they would be asked
/// for and never shown.
const std::set<std::string> kParts = {"article",   "body",    "choices",    "context",       "document",    "endings",
                                      "functions", "history", "hypothesis", "input",         "instruction", "options",
                                      "paragraph", "passage", "premise",    "problem",       "prompt",      "question",
                                      "story",     "support", "system",     "system_prompt", "table",       "tools"};
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

/// A, option_a, opa, choice1: the columns of files that have one for every choice.
bool is_of_a_choice(std::string name) {
  for (const char* begin : {"option", "choice", "op"})
    if (name.starts_with(begin)) {
      name = name.substr(std::string(begin).size());
      break;
    }
  if (name.starts_with('_')) name = name.substr(1);
  return name.size() == 1 && ((name[0] >= 'a' && name[0] <= 'e') || (name[0] >= '0' && name[0] <= '5'));
}

/// All texts in a value, one after the other.
std::string texts_in(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>() + "\n";
  std::string text;
  if (value.is_structured())
    for (const Json& part : value) text += texts_in(part);
  return text;
}

bool has_several_words(std::string_view text) { return std::count(text.begin(), text.end(), ' ') >= 2; }

}  // namespace

std::optional<QuestionPart> part_left_out(const Json& row, const Json& prompt, const std::set<std::string>& read) {
  const std::string said = texts_in(prompt);
  int64_t choices = 0;
  for (const auto& [column, value] : row.items()) choices += !value.is_null() && is_of_a_choice(lower_case(column));
  for (const auto& [column, value] : row.items()) {
    if (read.contains(column)) continue;
    const std::string name = lower_case(column);
    const bool is_part = kParts.contains(name) || (choices > 1 && is_of_a_choice(name));
    if (is_part && !is_said_in(said, value)) return QuestionPart{column};
    if (kMedia.contains(name) && !is_said_in("", value)) return QuestionPart{column, /*is_text=*/false};
  }
  return std::nullopt;
}

std::vector<std::string> unseen_texts(const Json& row, const Json& said, const std::set<std::string>& read) {
  const std::string text = texts_in(said);
  std::vector<std::string> unseen;
  for (const auto& [column, value] : row.items())
    if (!read.contains(column) && value.is_string() && has_several_words(value.get_ref<const std::string&>()) &&
        !is_said_in(text, value))
      unseen.push_back(column);
  return unseen;
}

}  // namespace keel
