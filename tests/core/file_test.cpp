#include "keel/core/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/held_folder.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

/// Every test gets an empty folder of its own.
class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string name = testing::TempDir() + "keel_file_test_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
    fs::permissions(folder_, fs::perms(0755));
  }
  ~FileTest() override { fs::remove_all(folder_); }

  fs::path at(const std::string& name) const { return folder_ / name; }

  static void put(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
  static std::string get(const fs::path& path) {
    std::ostringstream bytes;
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    return bytes.str();
  }
  /// Every file below a folder, by its path from there, with its bytes.
  static std::map<std::string, std::string> read_tree(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      files[fs::relative(entry.path(), folder)] = entry.is_regular_file() ? get(entry.path()) : "";
    return files;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.push_back(entry.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  }

  fs::path folder_;
};

/// "CODE: message" of the Error that `action` throws, "" if it throws none.
std::string error_of(const std::function<void()>& action) {
  try {
    action();
    return "";
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code())) + ": " + error.what();
  }
}

void expect_error(const std::string& got, ExitCode code, const std::vector<std::string>& parts) {
  EXPECT_EQ(got.substr(0, got.find(':')), std::to_string(static_cast<int>(code))) << got;
  for (const std::string& part : parts) EXPECT_NE(got.find(part), std::string::npos) << got << "\nlacks: " << part;
}

/// Runs `action` in a process of its own, where it may change limits and user, and returns what it returned.
std::string in_child(const std::function<std::string()>& action) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string result = action();
    const bool sent = ::write(ends[1], result.data(), result.size()) == static_cast<ssize_t>(result.size());
    ::_exit(sent ? 0 : 1);
  }
  ::close(ends[1]);
  std::string result;
  char buffer[4096];
  for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    result.append(buffer, static_cast<size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return "the child died with status " + std::to_string(status);
  return result;
}

void limit_file_size(rlim_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);  // as the program does
  struct rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) std::abort();
}

/// Permissions do not bind root.
void become_ordinary_user() {
  if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) std::abort();
}

// Whole files
// -----------------------------------------------------------------------------------------------------------

TEST_F(FileTest, WhatIsWrittenAtomicallyIsReadBack) {
  for (const std::string& bytes : {std::string(), std::string("a\0b\xff\r\n", 6), std::string(300'000, 'x')}) {
    write_atomically(at("f"), bytes);
    EXPECT_EQ(get(at("f")), bytes);
    EXPECT_EQ(read_file(at("f")), bytes);
  }
  EXPECT_EQ(names(), std::vector<std::string>{"f"});
}

TEST_F(FileTest, ARelativePathWithoutAFolderWorks) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  write_atomically("plain", "x");
  fs::current_path(before);
  EXPECT_EQ(get(at("plain")), "x");
}

TEST_F(FileTest, AReaderSeesTheOldBytesOrTheNewOnesButNoMixture) {
  write_atomically(at("f"), std::string(50'000, 'a'));
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; i < 40; ++i) write_atomically(at("f"), std::string(50'000, i % 2 == 0 ? 'b' : 'a'));
    done = true;
  });
  int looked = 0;
  while (!done || looked == 0) {
    const std::string bytes = read_file(at("f"));
    ASSERT_EQ(bytes.size(), 50'000u);
    ASSERT_EQ(bytes.find_first_not_of(bytes[0]), std::string::npos);
    ++looked;
  }
  writer.join();
}

TEST_F(FileTest, AFileThatOutgrowsTheLimitLeavesTheOldOneAndNoPartialFile) {
  put(at("f"), "old");
  const std::string got = in_child([&] {
    limit_file_size(10'000);
    return error_of([&] { write_atomically(at("f"), std::string(20'000, 'x')); });
  });
  expect_error(got, ExitCode::kHealthGuard, {at("f"), "File too large", "ulimit -f"});
  EXPECT_EQ(get(at("f")), "old");
  EXPECT_EQ(names(), std::vector<std::string>{"f"});
}

TEST_F(FileTest, AWriterThatIsKilledLeavesTheOldFileAndTheNextWriterCleansUp) {
  put(at("f"), "old");
  in_child([&]() -> std::string {
    DurableFile file(at("f"));
    file.write("half of the n");
    ::_exit(0);
  });
  EXPECT_EQ(get(at("f")), "old");
  EXPECT_EQ(names(), (std::vector<std::string>{"f", "f.partial"}));
  write_atomically(at("f"), "new");
  EXPECT_EQ(get(at("f")), "new");
  EXPECT_EQ(names(), std::vector<std::string>{"f"});
}

TEST_F(FileTest, AMissingFolderIsAConfigurationError) {
  expect_error(error_of([&] { write_atomically(at("no/f"), "x"); }), ExitCode::kBadConfiguration,
               {at("no/f"), "No such file or directory", "create the folder"});
}

TEST_F(FileTest, AFolderWithoutPermissionIsAConfigurationError) {
  fs::permissions(folder_, fs::perms(0555));
  const std::string got = in_child([&] {
    become_ordinary_user();
    return error_of([&] { write_atomically(at("f"), "x"); }) + error_of([&] { create_directories(at("d")); });
  });
  fs::permissions(folder_, fs::perms(0755));
  expect_error(got, ExitCode::kBadConfiguration, {at("f"), at("d"), "Permission denied", "change the permissions"});
}

TEST_F(FileTest, AFolderOrADeviceIsNeverReplacedByAFile) {
  fs::create_directory(at("d"));
  expect_error(error_of([&] { write_atomically(at("d"), "x"); }), ExitCode::kBadConfiguration, {at("d"), "a folder"});
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  expect_error(error_of([&] { write_atomically(at("pipe"), "x"); }), ExitCode::kBadConfiguration,
               {at("pipe"), "special"});
  EXPECT_TRUE(fs::is_directory(at("d")));
  EXPECT_TRUE(fs::is_fifo(at("pipe")));
}

TEST_F(FileTest, ALinkInThePlaceOfThePartialFileIsNotWrittenThrough) {
  put(at("victim"), "precious");
  fs::create_symlink(at("victim"), at("f.partial"));
  write_atomically(at("f"), "x");
  EXPECT_EQ(get(at("victim")), "precious");
  EXPECT_FALSE(fs::is_symlink(at("f")));
}

TEST_F(FileTest, ADurableFileAppearsOnlyWhenItIsCommitted) {
  {
    DurableFile file(at("f"));
    file.write("abc");
  }
  EXPECT_TRUE(names().empty());
  DurableFile file(at("f"));
  file.write("abc");
  file.write("def");
  EXPECT_FALSE(fs::exists(at("f")));
  file.commit();
  EXPECT_EQ(get(at("f")), "abcdef");
  EXPECT_EQ(names(), std::vector<std::string>{"f"});
  expect_error(error_of([&] { file.write("more"); }), ExitCode::kInternal, {at("f")});
  expect_error(error_of([&] { file.commit(); }), ExitCode::kInternal, {at("f")});
  EXPECT_EQ(get(at("f")), "abcdef");
}

TEST_F(FileTest, ADurableFileWhoseWriteFailedCannotBeCommitted) {
  const std::string got = in_child([&] {
    limit_file_size(10);
    DurableFile file(at("f"));
    error_of([&] { file.write(std::string(20, 'x')); });
    return error_of([&] { file.commit(); });
  });
  expect_error(got, ExitCode::kInternal, {at("f")});
  EXPECT_TRUE(names().empty());
}

// Reading
// ---------------------------------------------------------------------------------------------------------------

TEST_F(FileTest, ReadingNamesTheFileAndTheReason) {
  expect_error(error_of([&] { read_file(at("no")); }), ExitCode::kBadInput,
               {at("no"), "No such file", "check the path"});
  expect_error(error_of([&] { read_file(folder_); }), ExitCode::kBadInput, {folder_, "Is a directory"});
  expect_error(error_of([&] { InputFile::open(folder_); }), ExitCode::kBadInput, {folder_, "Is a directory"});
  put(at("secret"), "x");
  fs::permissions(at("secret"), fs::perms(0));
  const std::string got = in_child([&] {
    become_ordinary_user();
    return error_of([&] { read_file(at("secret")); });
  });
  expect_error(got, ExitCode::kBadInput, {at("secret"), "Permission denied"});
}

TEST_F(FileTest, ReadingStopsAtTheLargestAcceptedSize) {
  put(at("f"), std::string(1000, 'x'));
  EXPECT_EQ(read_file(at("f"), 1000).size(), 1000u);
  expect_error(error_of([&] { read_file(at("f"), 999); }), ExitCode::kBadInput, {at("f"), "1000", "999"});
}

TEST_F(FileTest, WhatIsNoRegularFileIsRefusedAndNotRead) {
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  fs::create_symlink(at("pipe"), at("link"));
  for (const auto& [path, kind] : {std::pair{at("pipe"), "a pipe"},
                                   {at("link"), "a pipe"},
                                   {fs::path("/dev/zero"), "a device"},
                                   {fs::path("/dev/null"), "a device"}})
    expect_error(error_of([&] { read_file(path); }), ExitCode::kBadInput, {path, kind, "give a file"});
  // The system's own files have no size and can be without end, or wait: nothing is read of them.
  EXPECT_EQ(read_file("/proc/self/status"), "");
}

TEST_F(FileTest, ANameThatCannotBeLookedUpIsBadInput) {
  put(at("f"), "x");
  EXPECT_TRUE(path_exists(at("f")) && path_exists(folder_) && is_folder(folder_));
  EXPECT_FALSE(is_folder(at("f")) || path_exists(at("none")) || is_folder(at("none")) || path_exists(at("f") / "x"));
  fs::create_symlink(at("circle"), at("circle"));
  const std::string name(300, 'n'), path = "/" + std::string(100'000, 'p');
  for (const fs::path& wrong : {at(name), fs::path(path), at("circle")})
    for (const auto& look : {path_exists, is_folder}) {
      const std::string got = error_of([&] { look(wrong); });
      expect_error(got, ExitCode::kBadInput, {"cannot read"});
      EXPECT_LT(got.size(), 1000u);
    }
  expect_error(error_of([&] { read_file(at(name)); }), ExitCode::kBadInput, {"File name too long", "shorter names"});
}

TEST_F(FileTest, AnInputFileKnowsWhenItWasChanged) {
  put(at("f"), "0123456789");
  const InputFile file = InputFile::open(at("f"));
  EXPECT_FALSE(file.was_changed());
  const timespec times[2] = {{1, 0}, {1, 0}};
  ::utimensat(AT_FDCWD, at("f").c_str(), times, 0);
  EXPECT_TRUE(file.was_changed());
}

TEST_F(FileTest, AnInputFileReadsAnyPlaceAndNoticesThatItShrank) {
  put(at("f"), "0123456789");
  const InputFile file = InputFile::open(at("f"));
  EXPECT_EQ(file.size(), 10u);
  std::string piece(4, ' ');
  file.read_at(3, std::as_writable_bytes(std::span(piece)));
  EXPECT_EQ(piece, "3456");
  fs::resize_file(at("f"), 5);
  const auto read = [&] { file.read_at(3, std::as_writable_bytes(std::span(piece))); };
  expect_error(error_of(read), ExitCode::kBadInput, {at("f"), "it ends at 5", "it had 10"});
}

TEST_F(FileTest, AnInputFileDoesNotWaitForANamedPipe) {
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  expect_error(error_of([&] { InputFile::open(at("pipe")); }), ExitCode::kBadInput, {at("pipe"), "not a regular file"});
}

// Growing files
// ---------------------------------------------------------------------------------------------------------

TEST_F(FileTest, LinesAreAppendedAndCounted) {
  AppendFile file = AppendFile::open(at("log"));
  EXPECT_EQ(file.size(), 0u);
  file.append_line("one");
  file.append_line("");
  file.sync();
  EXPECT_EQ(file.size(), 5u);
  AppendFile again = AppendFile::open(at("log"));
  EXPECT_EQ(again.size(), 5u);
  again.append_line("two");
  EXPECT_EQ(get(at("log")), "one\n\ntwo\n");
}

TEST_F(FileTest, ATornLastLineIsCutWhenTheFileIsOpened) {
  const std::string whole = "one\n" + std::string(150'000, 'w') + "\n";
  for (const auto& [bytes, kept] : std::vector<std::pair<std::string, std::string>>{
           {"one\ntw", "one\n"}, {"tw", ""}, {whole + std::string(200'000, 't'), whole}, {whole, whole}}) {
    put(at("log"), bytes);
    AppendFile file = AppendFile::open(at("log"));
    EXPECT_EQ(file.size(), kept.size());
    file.append_line("next");
    EXPECT_EQ(get(at("log")), kept + "next\n");
  }
}

TEST_F(FileTest, ALineThatHoldsANewlineIsRefused) {
  AppendFile file = AppendFile::open(at("log"));
  expect_error(error_of([&] { file.append_line("a\nb"); }), ExitCode::kInternal, {at("log"), "newline"});
  EXPECT_EQ(get(at("log")), "");
}

TEST_F(FileTest, ALineThatDoesNotFitIsTakenBackAndLaterLinesFollowTheLastWholeOne) {
  const std::string got = in_child([&] {
    AppendFile file = AppendFile::open(at("log"));
    file.append_line(std::string(59, 'a'));
    limit_file_size(100);
    const std::string error = error_of([&] { file.append_line(std::string(59, 'b')); });
    if (fs::file_size(at("log")) != 60 || file.size() != 60) return std::string("the torn line is still there");
    limit_file_size(RLIM_INFINITY);
    file.append_line("c");
    return error;
  });
  expect_error(got, ExitCode::kHealthGuard, {at("log"), "File too large"});
  EXPECT_EQ(get(at("log")), std::string(59, 'a') + "\nc\n");
}

TEST_F(FileTest, AppendingWhereNoFileCanBeIsAConfigurationError) {
  expect_error(error_of([&] { AppendFile::open(at("no/log")); }), ExitCode::kBadConfiguration, {at("no/log")});
  expect_error(error_of([&] { AppendFile::open(folder_); }), ExitCode::kBadConfiguration, {folder_});
}

TEST_F(FileTest, CuttingGivesBackAnEarlierMomentAndNeverInventsBytes) {
  AppendFile file = AppendFile::open(at("log"));
  file.append_line("one");
  const uint64_t moment = file.size();
  file.append_line("two");
  cut_to_size(at("log"), moment);
  EXPECT_EQ(get(at("log")), "one\n");
  expect_error(error_of([&] { cut_to_size(at("log"), 100); }), ExitCode::kBadInput, {at("log"), "100", "only 4"});
  EXPECT_EQ(get(at("log")), "one\n");
  expect_error(error_of([&] { cut_to_size(at("no"), 0); }), ExitCode::kBadConfiguration, {at("no")});
}

// Folders
// ---------------------------------------------------------------------------------------------------------------

TEST_F(FileTest, FoldersAreCreatedWithThoseAboveThem) {
  create_directories(at("a/b/c"));
  create_directories(at("a/b/c"));
  create_directories(at("a/d/"));
  create_directories(at("a/./e/../g"));
  EXPECT_TRUE(fs::is_directory(at("a/b/c")));
  EXPECT_TRUE(fs::is_directory(at("a/d")));
  EXPECT_TRUE(fs::is_directory(at("a/g")));
}

TEST_F(FileTest, AFileInTheWayOfAFolderIsNamed) {
  put(at("a"), "x");
  expect_error(error_of([&] { create_directories(at("a/b")); }), ExitCode::kBadConfiguration,
               {at("a/b"), "a file is in the way at \"" + at("a").string() + "\""});
  EXPECT_EQ(get(at("a")), "x");
}

TEST_F(FileTest, AFolderIsRenamedOnlyToAFreeName) {
  create_directories(at("step.tmp"));
  put(at("step.tmp/f"), "x");
  rename_directory(at("step.tmp"), at("step"));
  EXPECT_EQ(get(at("step/f")), "x");
  EXPECT_FALSE(fs::exists(at("step.tmp")));
  create_directories(at("other"));
  expect_error(error_of([&] { rename_directory(at("other"), at("step")); }), ExitCode::kBadConfiguration,
               {at("other"), at("step"), "Directory not empty", "remove what is there"});
  EXPECT_EQ(get(at("step/f")), "x");
  expect_error(error_of([&] { rename_directory(at("no"), at("x")); }), ExitCode::kBadConfiguration, {at("no")});
}

TEST_F(FileTest, ATreeIsRemovedWithoutFollowingLinks) {
  create_directories(at("kept"));
  put(at("kept/f"), "x");
  create_directories(at("tree/deep/er"));
  put(at("tree/deep/f"), "y");
  fs::create_directory_symlink(at("kept"), at("tree/link"));
  remove_tree(at("tree"));
  EXPECT_EQ(names(), std::vector<std::string>{"kept"});
  EXPECT_EQ(get(at("kept/f")), "x");
  remove_tree(at("tree"));
}

TEST_F(FileTest, TwoFoldersExchangeTheirNames) {
  for (const char* name : {"one", "two"}) {
    create_directories(at(name));
    put(at(name) / "f", name);
  }
  if (!exchange_directories(at("one"), at("two"))) GTEST_SKIP() << "not on this filesystem";
  EXPECT_EQ(get(at("one/f")), "two");
  EXPECT_EQ(get(at("two/f")), "one");
  EXPECT_FALSE(exchange_directories(at("one"), at("three")));
}

TEST_F(FileTest, AGrowingFileThatLostItsNameKeepsItsBytes) {
  AppendFile file = AppendFile::open(at("log"));
  file.append_line("one");
  EXPECT_TRUE(file.has_its_name());
  fs::remove(at("log"));
  EXPECT_FALSE(file.has_its_name());
  put(at("log"), "another\n");
  EXPECT_FALSE(file.has_its_name());
  file.append_line("two");
  file.copy_to(at("copy"));
  EXPECT_EQ(get(at("copy")), "one\ntwo\n");
  EXPECT_EQ(get(at("log")), "another\n");
}

TEST_F(FileTest, AFolderIsClaimedOnceAndAgainWhenItIsLetGoOf) {
  create_directories(at("run"));
  std::optional<HeldFolder> held = HeldFolder::claim(at("run"));
  ASSERT_TRUE(held);
  EXPECT_FALSE(HeldFolder::claim(at("run")));
  EXPECT_TRUE(held->is_at_its_path());
  EXPECT_EQ(held->whereabouts(), fs::canonical(at("run")));
  held.reset();
  EXPECT_TRUE(HeldFolder::claim(at("run")));
  expect_error(error_of([&] { HeldFolder::claim(at("none")); }), ExitCode::kBadConfiguration, {at("none")});
}

TEST_F(FileTest, WhatHasTheNameOfAHeldFolderIsNotTouched) {
  create_directories(at("run/old"));
  put(at("run/old/f"), "mine");
  const HeldFolder held = *HeldFolder::claim(at("run"));
  fs::rename(at("run"), at("moved"));
  create_directories(at("elsewhere/old"));
  put(at("elsewhere/old/f"), "theirs");
  put(at("elsewhere/log"), "theirs\n");
  fs::rename(at("elsewhere"), at("run"));
  EXPECT_FALSE(held.is_at_its_path());
  EXPECT_EQ(held.whereabouts(), fs::canonical(at("moved")));
  const auto theirs = [&] { return read_tree(at("run")); };
  const auto before = theirs();

  write_atomically(at("run/new"), "mine");
  create_directories(at("run/folder/deep"));
  AppendFile::open(at("run/log")).append_line("mine");
  cut_to_size(at("run/log"), 0);
  rename_directory(at("run/folder"), at("run/renamed"));
  EXPECT_EQ(read_file(at("run/old/f")), "mine");
  EXPECT_EQ(InputFile::open(at("run/old/f")).size(), 4u);
  EXPECT_EQ(list_directory(at("run")), (std::vector<std::string>{"log", "new", "old", "renamed"}));
  remove_tree(at("run/old"));
  EXPECT_EQ(theirs(), before);
  EXPECT_EQ(list_directory(at("moved")), (std::vector<std::string>{"log", "new", "renamed"}));
  EXPECT_EQ(get(at("moved/new")), "mine");

  write_atomically(at("run.rescued"), "x");  // begins like the held one, and is another
  EXPECT_EQ(get(at("run.rescued")), "x");
}

TEST_F(FileTest, AHeldFolderThatWasRemovedIsNotMadeAnew) {
  create_directories(at("run"));
  const HeldFolder held = *HeldFolder::claim(at("run"));
  fs::remove(at("run"));
  EXPECT_FALSE(held.is_at_its_path());
  EXPECT_EQ(held.whereabouts(), std::nullopt);
  EXPECT_NE(error_of([&] { create_directories(at("run/checkpoints")); }), "");
  EXPECT_NE(error_of([&] { write_atomically(at("run/file"), "x"); }), "");
  EXPECT_FALSE(fs::exists(at("run")));
}

TEST_F(FileTest, FullPathsHaveNoDotsAndNoSlashAtTheirEnd) {
  EXPECT_EQ(full_path("/a/./b/../c/"), "/a/c");
  EXPECT_EQ(full_path("/"), "/");
  EXPECT_EQ(full_path("x"), (fs::current_path() / "x").string());
}

TEST_F(FileTest, TheRootFolderIsNeverRemoved) {
  expect_error(error_of([] { remove_tree(""); }), ExitCode::kInternal, {"refused"});
  // In a child without rights and with no folder of its own, should the guard ever be lost.
  const std::string got = in_child([] {
    become_ordinary_user();
    return error_of([] { remove_tree("/"); });
  });
  expect_error(got, ExitCode::kInternal, {"refused"});
}

}  // namespace
}  // namespace keel
