// Any bytes as a file of JSON lines: every row is refused with a place or read, and what is read can be told apart into
// prompt, answer and the rest. No LibTorch.

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
          keel::example_of(parsed, keel::recognise(parsed, {}, kind));
        } catch (const keel::BadRow&) {
        }
      }
    } catch (const keel::BadRow&) {
    }
  });
  if (row != file.rows()) std::abort();
  return 0;
}
