#include "keel/data/row_stream.h"

#include "keel/core/error.h"

namespace keel {

void SkippedCounts::add(const SkippedRow& row) {
  if (row.why == SkippedRow::Why::kOtherSplit) {
    other_split += row.rows;
    return;
  }
  (row.why == SkippedRow::Why::kBad ? bad : too_long) += row.rows;
  if (first.empty()) first = row.reason;
}

void refuse_empty_pass(uint64_t pass, const SkippedCounts& skipped, const RowWords& words) {
  const std::string kept = skipped.other_split == 0
                               ? ""
                               : ", " + std::to_string(skipped.other_split) + " are held out for evaluation (" +
                                     words.section + ".held_out, chosen by the prompt). Fix: lower it, or set " +
                                     words.section + ".eval_files instead";
  fail(ExitCode::kBadInput, "none of the ", pass, " rows is usable as ", words.item, "; ", skipped.too_long,
       " are too long, ", skipped.bad, " are bad", kept, skipped.first.empty() ? "" : "; the first: ", skipped.first);
}

}  // namespace keel
