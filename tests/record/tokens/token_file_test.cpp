#include "keel/record/tokens/token_file.h"

#include <gtest/gtest.h>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "tests/support/test_folder.h"

namespace keel {
namespace {

TEST(TokenFile, NamesSortByStepAndParse) {
  EXPECT_EQ(TokenFile::name(7), "step-00000007.parquet");
  EXPECT_EQ(TokenFile::parse_step("step-00000007.parquet"), 7);
  EXPECT_EQ(TokenFile::parse_step("step-123456789.parquet"), 123456789);
  EXPECT_EQ(TokenFile::parse_step("step-00000007.parquet.partial"), 7);
  for (const char* other : {"step-7.parquet", "step-00000007.parquet.bak", "step-0000000x.parquet", "step-00000007", "",
                            "step--0000007.parquet", "step-99999999999999999999.parquet", "my step-00000007.parquet"})
    EXPECT_EQ(TokenFile::parse_step(other), -1) << other;
}

TEST(TokenFile, IsWrittenAtomically) {
  try {
    require_token_files();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const TestFolder made;
  const std::filesystem::path folder = made.path / "run" / "tokens";
  const std::vector<TokenRow> rows(3);
  {
    TokenFile given_up(folder, 1);
    given_up.add(rows);
    EXPECT_FALSE(path_exists(folder / TokenFile::name(1)));
  }
  EXPECT_EQ(list_directory(folder), std::vector<std::string>());
  TokenFile file(folder, 2);
  file.add(rows);
  file.add({});
  file.commit({{"method", "dppo_tv"}});
  EXPECT_EQ(list_directory(folder), std::vector<std::string>{TokenFile::name(2)});
  const std::string bytes = read_file(folder / TokenFile::name(2));
  EXPECT_TRUE(bytes.starts_with("PAR1") && bytes.ends_with("PAR1"));
}

}  // namespace
}  // namespace keel
