#pragma once

#include "keel/data/schema.h"

namespace keel {

/// Rows to be imitated: a conversation, or a prompt with its completion, each a text or messages. Of an Example the
/// prompt is the first or all there is, and the answer is the completion; null: the prompt is a whole conversation.
/// DataOptions::answer_key names the completion's column.
extern const RowReading kSupervisedRows;

}  // namespace keel
