#include "keel/data/prompt_stream.h"

#include "keel/core/error.h"
#include "keel/core/interrupt.h"

namespace keel {

std::vector<Prompt> PromptStream::next(int64_t count) {
  std::vector<Prompt> prompts;
  uint64_t skipped_in_a_row = 0;
  while (static_cast<int64_t>(prompts.size()) < count && (repeats_ || position_ < pass_)) {
    std::variant<Prompt, SkippedRow> found = prompt_at_(position_);
    ++position_;
    if (Prompt* prompt = std::get_if<Prompt>(&found)) {
      prompts.push_back(std::move(*prompt));
      skipped_in_a_row = 0;
    } else {
      this->count(std::get<SkippedRow>(found));
      if (++skipped_in_a_row >= pass_ && repeats_ && pass_ > 0 && position_ % pass_ == 0) refuse_empty_pass();
    }
  }
  return prompts;
}

uint64_t PromptStream::prompts_per_pass() const {
  uint64_t prompts = 0;
  for (uint64_t position = 0; position < pass_; ++position) {
    throw_if_stopped();
    prompts += std::holds_alternative<Prompt>(prompt_at_(position)) ? 1 : 0;
  }
  return prompts;
}

void PromptStream::count(const SkippedRow& row) {
  if (row.why == SkippedRow::Why::kOtherSplit) {
    skipped_.other_split += row.rows;
    return;
  }
  (row.why == SkippedRow::Why::kBad ? skipped_.bad : skipped_.too_long) += row.rows;
  if (skipped_.first.empty()) skipped_.first = row.reason;
}

void PromptStream::refuse_empty_pass() const {
  const std::string kept = skipped_.other_split == 0
                               ? ""
                               : ", " + std::to_string(skipped_.other_split) +
                                     " are kept for evaluation (data.held_out, by the prompt, so that rows of one "
                                     "prompt stay together); lower it, or name data.eval_files in its place";
  fail(ExitCode::kBadInput, "none of the ", pass_, " rows gives a prompt; ", skipped_.too_long, " are too long, ",
       skipped_.bad, " are bad", kept, skipped_.first.empty() ? "" : "; the first: ", skipped_.first);
}

}  // namespace keel
