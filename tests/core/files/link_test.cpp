#include "keel/core/files/link.h"

#include "keel/core/files/free_space.h"
#include "tests/core/files/file_test.h"

namespace keel {
namespace {

using LinkTest = FileTest;
using Names = std::vector<std::string>;

TEST_F(LinkTest, IsReplacedWithoutLeavingOtherFiles) {
  EXPECT_EQ(link_target(at("best")), std::nullopt);
  for (const char* target : {"one", "two", "two"}) {
    put(at(target), target);
    point_link(at("best"), target);
    EXPECT_EQ(std::filesystem::read_symlink(at("best")), target);
    EXPECT_EQ(link_target(at("best")), target);
    EXPECT_EQ(get(at("best")), target);
  }
  EXPECT_EQ(names(), (Names{"best", "one", "two"}));
}

TEST_F(LinkTest, AFileWithItsNameIsMovedAside) {
  put(at("best"), "mine");
  EXPECT_EQ(link_target(at("best")), std::nullopt);
  point_link(at("best"), "one");
  EXPECT_EQ(get(at("best.other")), "mine");
  EXPECT_EQ(names(), (Names{"best", "best.other"}));
}

TEST_F(LinkTest, TheErrorNamesAMissingFolder) {
  expect_error(error_of([&] { point_link(at("no/best"), "one"); }), ExitCode::kBadConfiguration,
               {at("no/best").string(), "No such file or directory"});
}

using FreeSpaceTest = FileTest;

TEST_F(FreeSpaceTest, TheErrorHasTheNeededAndTheFreeSpace) {
  const std::filesystem::space_info disk = std::filesystem::space(folder_);
  require_free_space(folder_, disk.available / 2);
  const uint64_t exbibyte = uint64_t{1} << 60;  // more than any disk has
  expect_error(
      error_of([&] { require_free_space(folder_, exbibyte); }), ExitCode::kHealthGuard,
      {folder_.string(), "No space left on device", "needs 1048576.0 TiB and the disk has ", "free some space"});
  require_free_space(at("missing"), exbibyte);  // the first write will fail
}

}  // namespace
}  // namespace keel
