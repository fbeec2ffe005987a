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

void refuse_empty_pass(uint64_t pass, const SkippedCounts& skipped, const StreamNames& names) {
  const std::string held_out = skipped.other_split == 0
                                   ? ""
                                   : ", " + std::to_string(skipped.other_split) + " are held out for evaluation (" +
                                         names.section + ".held_out, chosen by the prompt). Fix: lower it, or set " +
                                         names.section + ".eval_files instead";
  fail(ExitCode::kBadInput, "none of the ", pass, " rows is usable as ", names.item, "; ", skipped.too_long,
       " are too long, ", skipped.bad, " are bad", held_out,
       skipped.first.empty() ? "" : "; the first: ", skipped.first);
}

}  // namespace keel
