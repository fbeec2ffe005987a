#include "keel/data/prompt_stream.h"

#include "keel/core/error.h"
#include "keel/core/interrupt.h"

namespace keel {

namespace {

void add(const SkippedRow& row, SkippedCounts& counts) {
  if (row.why == SkippedRow::Why::kOtherSplit) {
    counts.other_split += row.rows;
    return;
  }
  (row.why == SkippedRow::Why::kBad ? counts.bad : counts.too_long) += row.rows;
  if (counts.first.empty()) counts.first = row.reason;
}

}  // namespace

std::vector<Prompt> PromptStream::next(int64_t count) {
  std::vector<Prompt> prompts;
  SkippedCounts skipped_here;
  uint64_t skipped_in_a_row = 0;
  while (static_cast<int64_t>(prompts.size()) < count && (repeats_ || position_ < pass_)) {
    const bool first_pass = pass_ == 0 || position_ < pass_;
    std::variant<Prompt, SkippedRow> found = prompt_at_(position_);
    ++position_;
    if (Prompt* prompt = std::get_if<Prompt>(&found)) {
      prompts.push_back(std::move(*prompt));
      skipped_in_a_row = 0;
    } else {
      add(std::get<SkippedRow>(found), skipped_here);
      if (first_pass) add(std::get<SkippedRow>(found), skipped_);
      if (++skipped_in_a_row >= pass_ && repeats_ && pass_ > 0 && position_ % pass_ == 0)
        refuse_empty_pass(skipped_here);
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

void PromptStream::refuse_empty_pass(const SkippedCounts& skipped) const {
  const std::string kept = skipped.other_split == 0
                               ? ""
                               : ", " + std::to_string(skipped.other_split) +
                                     " are kept for evaluation (data.held_out, by the prompt, so that rows of one "
                                     "prompt stay together); lower it, or name data.eval_files in its place";
  fail(ExitCode::kBadInput, "none of the ", pass_, " rows gives a prompt; ", skipped.too_long, " are too long, ",
       skipped.bad, " are bad", kept, skipped.first.empty() ? "" : "; the first: ", skipped.first);
}

}  // namespace keel
