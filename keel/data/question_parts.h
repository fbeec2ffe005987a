#pragma once

// A prompt is one column. What else belongs to the question must be in it, or be left out by the user's own word.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "keel/core/json.h"

namespace keel {

struct QuestionPart {
  std::string column;
  bool is_text = true;  // or a picture, a film, a sound
};

/// A column of the row, none of those in `read`, that is a part of the question and that the prompt does not say.
std::optional<QuestionPart> part_left_out(const Json& row, const Json& prompt, const std::set<std::string>& read);

/// Columns, none of those in `read`, with texts of several words that `texts` (prompt and answer) do not have: no list
/// of names knows all parts of questions, so that the user is told.
std::vector<std::string> unseen_texts(const Json& row, const Json& texts, const std::set<std::string>& read);

}  // namespace keel
