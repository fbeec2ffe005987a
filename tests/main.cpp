#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>

namespace {

/// The filter that names every test whose source lies in `folder` or below, for instance "tests/core"; empty when there
/// is none.
std::string tests_in(std::string_view folder) {
  std::string filter;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      const std::string source = "/" + std::filesystem::path(test.file()).parent_path().string() + "/";
      if (source.find("/" + std::string(folder) + "/") == source.npos) continue;
      filter += std::string(filter.empty() ? "" : ":") + suite.name() + "." + test.name();
    }
  }
  return filter;
}

}  // namespace

/// keel_tests [--folder=tests/core] [--gtest_...]: loading LibTorch takes a while, so that one process runs a whole
/// folder.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string_view argument = argc > 1 ? argv[1] : "";
  const std::string_view option = "--folder=";
  if (argument.starts_with(option)) {
    const std::string filter = tests_in(argument.substr(option.size()));
    if (filter.empty()) {
      std::cerr << argument << ": no test of this program lies there\n";
      return 1;
    }
    testing::GTEST_FLAG(filter) = filter;
  } else if (argc > 1) {
    std::cerr << argument << " is not an option; there are --folder=tests/NAME and those of GoogleTest\n";
    return 2;
  }
  return RUN_ALL_TESTS();
}
