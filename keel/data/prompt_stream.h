#pragma once

#include "keel/core/prompt.h"
#include "keel/data/row_stream.h"

namespace keel {

using PromptStream = RowStream<Prompt>;

}  // namespace keel
