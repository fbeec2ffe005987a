// Keel's half of parquet_test.py, the rows of data files as Keel reads them, and of data_prompts_test.py, their tokens.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "keel/core/error.h"
#include "keel/data/open_dataset.h"
#include "keel/data/rows/row_file.h"

namespace keel {
namespace {

/// For every line FILE<tab>RESULT of KEEL_DATA_LIST: one line per row, {"row"} or {"bad", "rows"}; {"error"} alone
/// where the file is refused. Every thousandth row is also read by its number.
TEST(DataRowsParity, WritesTheRowsOfFiles) {
  const char* list = std::getenv("KEEL_DATA_LIST");
  if (list == nullptr) GTEST_SKIP() << "driven by tests/parity/parquet_test.py";
  std::ifstream files(list);
  for (std::string name, result; std::getline(files, name, '\t') && std::getline(files, result);) {
    std::ofstream out(result);
    try {
      const RowFile file = RowFile::open(name);
      uint64_t number = 0;
      file.for_each(
          [&](const Row& row) {
            out << Json{{"row", row.value}}.dump() << "\n";
            if (number % 1000 == 0) {
              EXPECT_EQ(file.read(number).value, row.value) << row.place;
            }
            ++number;
          },
          [&](const BadRow& bad) {
            out << Json{{"bad", bad.what()}, {"rows", bad.rows()}}.dump() << "\n";
            ++number;
          });
      EXPECT_EQ(number, file.rows());
    } catch (const Error& error) {
      out << Json{{"error", error.what()}}.dump() << "\n";
    }
  }
}

/// For every line FOLDER<tab>FILE<tab>RESULT of KEEL_PROMPTS_LIST: the ids that the tokenizer in the folder makes of the
/// file's prompts, one list per line, in the file's order.
TEST(DataPromptsParity, WritesTheTokensOfPrompts) {
  const char* list = std::getenv("KEEL_PROMPTS_LIST");
  if (list == nullptr) GTEST_SKIP() << "driven by tests/parity/data_prompts_test.py";
  std::ifstream lines(list);
  for (std::string folder, name, result;
       std::getline(lines, folder, '\t') && std::getline(lines, name, '\t') && std::getline(lines, result);) {
    DataOptions options;
    options.files = {name};
    options.shuffle = false;
    OpenedDataset opened = open_dataset(options, /*seed=*/0, Tokenizer::load(folder), {});
    std::ofstream out(result);
    for (const Prompt& prompt : opened.train.next(static_cast<int64_t>(opened.identity.rows)))
      out << Json(prompt.tokens).dump() << "\n";
  }
}

}  // namespace
}  // namespace keel
