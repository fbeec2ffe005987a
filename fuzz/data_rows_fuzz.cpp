// Any bytes as a JSONL file: every row is read or rejected with its line, and valid rows are split into prompt, answer
// and other columns. Needs no LibTorch.

#include <cstdlib>

#include "fuzz/memory_file.h"
#include "keel/data/rows/line_file.h"
#include "keel/data/rows/row_json.h"
#include "keel/data/schema.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  keel::fuzz::set_input(data, size);
  const keel::LineFile file = keel::LineFile::open("input");
  uint64_t row = 0;
  file.for_each([&](const keel::TextLine& line) {
    if (file.read(row++).text != line.text) std::abort();
    try {
      const keel::Row parsed{keel::parse_row(line.text, "input"), "input"};
      for (const keel::RowKind kind : {keel::RowKind::kPrompts, keel::RowKind::kSupervised}) {
        try {
          keel::make_example(parsed, keel::detect_columns(parsed, {}, kind));
        } catch (const keel::BadRow&) {
        }
      }
    } catch (const keel::BadRow&) {
    }
  });
  if (row != file.rows()) std::abort();
  return 0;
}
