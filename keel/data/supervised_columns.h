#pragma once

#include "keel/data/schema.h"

namespace keel {

/// Rows to be imitated: a conversation; a prompt with its completion, each a text or messages; or a text. Of an Example
/// the prompt is the first or all there is, and the answer is the completion; null: the prompt is a whole conversation,
/// or a text that is learned whole. DataOptions::answer_key names the completion's column, text_key that of texts.
extern const RowReading kSupervisedRows;

}  // namespace keel
