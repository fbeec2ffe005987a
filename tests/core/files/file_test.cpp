#include "keel/core/files/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "keel/core/files/failed_call.h"
#include "keel/core/files/locked_directory.h"
#include "keel/core/files/atomic_directory.h"
#include "tests/core/files/file_test.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

TEST_F(FileTest, AtomicallyWrittenBytesAreReadBack) {
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

TEST_F(FileTest, AReaderGetsTheOldOrTheNewBytesNeverAMixture) {
  write_atomically(at("f"), std::string(50'000, 'a'));
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; i < 40; ++i) write_atomically(at("f"), std::string(50'000, i % 2 == 0 ? 'b' : 'a'));
    done = true;
  });
  int reads = 0;
  while (!done || reads == 0) {
    const std::string bytes = read_file(at("f"));
    ASSERT_EQ(bytes.size(), 50'000u);
    ASSERT_EQ(bytes.find_first_not_of(bytes[0]), std::string::npos);
    ++reads;
  }
  writer.join();
}

TEST_F(FileTest, AWriteBeyondTheFileSizeLimitKeepsTheOldFileAndLeavesNoPartialOne) {
  put(at("f"), "old");
  const std::string got = in_child([&] {
    limit_file_size(10'000);
    return error_of([&] { write_atomically(at("f"), std::string(20'000, 'x')); });
  });
  expect_error(got, ExitCode::kHealthGuard, {at("f"), "File too large", "ulimit -f"});
  EXPECT_EQ(get(at("f")), "old");
  EXPECT_EQ(names(), std::vector<std::string>{"f"});
}

TEST_F(FileTest, AKilledWriterKeepsTheOldFileAndTheNextWriterOfALockedFolderCleansUp) {
  put(at("f"), "old");
  in_child([&]() -> std::string {
    DurableFile file(at("f"));
    file.write("half of the n");
    ::_exit(0);
  });
  EXPECT_EQ(get(at("f")), "old");
  EXPECT_EQ(names(), (std::vector<std::string>{"f", "f.partial"}));
  const auto directory = LockedDirectory::lock(folder_);
  write_atomically(at("f"), "new");
  EXPECT_EQ(get(at("f")), "new");
  EXPECT_EQ(names(), std::vector<std::string>{"f"});
  fs::create_directories(at("f.partial/precious"));
  write_atomically(at("f"), "newer");
  EXPECT_EQ(get(at("f")), "newer");
  EXPECT_EQ(names(), (std::vector<std::string>{"f", "f.partial"}));
  EXPECT_TRUE(fs::exists(at("f.partial/precious")));
}

TEST_F(FileTest, AUsersFileWithThePartialNameIsKept) {
  put(at("f.partial"), "precious");
  fs::create_directories(at("d.partial/precious"));
  write_atomically(at("f"), "new");
  write_directory_atomically(at("d"), [](const fs::path& partial) { write_atomically(partial / "a", "b"); });
  EXPECT_EQ(get(at("f")), "new");
  EXPECT_EQ(get(at("f.partial")), "precious");
  EXPECT_EQ(get(at("d/a")), "b");
  EXPECT_EQ(names(), (std::vector<std::string>{"d", "d.partial", "f", "f.partial"}));
  EXPECT_TRUE(fs::exists(at("d.partial/precious")));
}

TEST_F(FileTest, MoveAsideChoosesAFreeName) {
  fs::create_symlink("circle", at("f"));
  put(at("f.other"), "mine");
  move_aside(at("f"));
  move_aside(at("f"));  // does nothing: the path no longer exists
  EXPECT_EQ(names(), (std::vector<std::string>{"f.other", "f.other2"}));
  EXPECT_EQ(get(at("f.other")), "mine");
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

TEST_F(FileTest, MissingDescriptorsOrMemoryAreNotReportedAsADiskError) {
  for (const auto& [error, fix] : {std::pair{EMFILE, "ulimit -n"}, {ENFILE, "fs.file-max"}, {ENOMEM, "memory"}}) {
    const int number = error;
    expect_error(error_of([&] { fail_to_write("open the folder", at("f"), number); }), ExitCode::kHealthGuard,
                 {at("f"), fix});
  }
  expect_error(error_of([&] { fail_to_read(at("f"), EMFILE); }), ExitCode::kBadInput, {at("f"), "ulimit -n"});
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

TEST_F(FileTest, WritingDoesNotFollowALinkAtThePartialName) {
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

TEST_F(FileTest, AFileOpenedWithStaysNeverReplacesAnother) {
  {
    DurableFile file(at("f"), Existing::kStays);
    file.write("new");
    put(at("f"), "precious");  // while it is written
    expect_error(error_of([&] { file.commit(); }), ExitCode::kBadConfiguration, {at("f"), "File exists"});
  }
  expect_error(error_of([&] { DurableFile(at("f"), Existing::kStays); }), ExitCode::kBadConfiguration, {at("f")});
  EXPECT_EQ(get(at("f")), "precious");
  fs::create_symlink("nothing", at("link"));
  expect_error(error_of([&] { write_atomically(at("link"), "x", Existing::kStays); }), ExitCode::kBadConfiguration,
               {at("link")});
  EXPECT_EQ(names(), (std::vector<std::string>{"f", "link"}));
  write_atomically(at("g"), "x", Existing::kStays);
  EXPECT_EQ(get(at("g")), "x");
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

TEST_F(FileTest, IrregularFilesAreRejectedWithoutReading) {
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  fs::create_symlink(at("pipe"), at("link"));
  for (const auto& [path, kind] : {std::pair{at("pipe"), "a pipe"},
                                   {at("link"), "a pipe"},
                                   {fs::path("/dev/zero"), "a device"},
                                   {fs::path("/dev/null"), "a device"}})
    expect_error(error_of([&] { read_file(path); }), ExitCode::kBadInput, {path, kind, "give a file"});
  // Files in /proc have size 0, although reading them may never end: nothing is read.
  EXPECT_EQ(read_file("/proc/self/status"), "");
}

TEST_F(FileTest, APathThatCannotBeResolvedIsBadInput) {
  put(at("f"), "x");
  EXPECT_TRUE(path_exists(at("f")) && path_exists(folder_) && is_folder(folder_));
  EXPECT_FALSE(is_folder(at("f")) || path_exists(at("none")) || is_folder(at("none")) || path_exists(at("f") / "x"));
  fs::create_symlink(at("circle"), at("circle"));
  const std::string name(300, 'n'), path = "/" + std::string(100'000, 'p');
  for (const fs::path& wrong : {at(name), fs::path(path), at("circle")})
    for (const auto& query : {path_exists, is_folder}) {
      const std::string got = error_of([&] { query(wrong); });
      expect_error(got, ExitCode::kBadInput, {"cannot read"});
      EXPECT_LT(got.size(), 1000u);
    }
  expect_error(error_of([&] { read_file(at(name)); }), ExitCode::kBadInput, {"File name too long", "shorter names"});
}

TEST_F(FileTest, AnInputFileDetectsAChange) {
  put(at("f"), "0123456789");
  const InputFile file = InputFile::open(at("f"));
  EXPECT_FALSE(file.was_changed());
  const timespec times[2] = {{1, 0}, {1, 0}};
  ::utimensat(AT_FDCWD, at("f").c_str(), times, 0);
  EXPECT_TRUE(file.was_changed());
}

TEST_F(FileTest, AnInputFileReadsAtAnyOffsetAndDetectsTruncation) {
  put(at("f"), "0123456789");
  const InputFile file = InputFile::open(at("f"));
  EXPECT_EQ(file.size(), 10u);
  std::string piece(4, ' ');
  file.read_at(3, std::as_writable_bytes(std::span(piece)));
  EXPECT_EQ(piece, "3456");
  fs::resize_file(at("f"), 5);
  const auto read = [&] { file.read_at(3, std::as_writable_bytes(std::span(piece))); };
  expect_error(error_of(read), ExitCode::kBadInput, {at("f"), "the file ends at 5", "it had 10"});
}

TEST_F(FileTest, AnInputFileDoesNotWaitForANamedPipe) {
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  expect_error(error_of([&] { InputFile::open(at("pipe")); }), ExitCode::kBadInput, {at("pipe"), "not a regular file"});
}

TEST_F(FileTest, AppendingLinesUpdatesTheSize) {
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

TEST_F(FileTest, OpeningRemovesATornLastLine) {
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

TEST_F(FileTest, ALineWithANewlineIsRejected) {
  AppendFile file = AppendFile::open(at("log"));
  expect_error(error_of([&] { file.append_line("a\nb"); }), ExitCode::kInternal, {at("log"), "newline"});
  EXPECT_EQ(get(at("log")), "");
}

TEST_F(FileTest, ALineThatDoesNotFitIsRemovedAndLaterLinesFollowTheLastCompleteOne) {
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

TEST_F(FileTest, AppendingToAnInvalidPathIsAConfigurationError) {
  expect_error(error_of([&] { AppendFile::open(at("no/log")); }), ExitCode::kBadConfiguration, {at("no/log")});
  expect_error(error_of([&] { AppendFile::open(folder_); }), ExitCode::kBadConfiguration, {folder_});
}

TEST_F(FileTest, TruncateFileRestoresAnEarlierSizeAndNeverExtendsTheFile) {
  AppendFile file = AppendFile::open(at("log"));
  file.append_line("one");
  const uint64_t moment = file.size();
  file.append_line("two");
  truncate_file(at("log"), moment);
  EXPECT_EQ(get(at("log")), "one\n");
  expect_error(error_of([&] { truncate_file(at("log"), 100); }), ExitCode::kBadInput, {at("log"), "100", "only 4"});
  EXPECT_EQ(get(at("log")), "one\n");
  expect_error(error_of([&] { truncate_file(at("no"), 0); }), ExitCode::kBadConfiguration, {at("no")});
}

TEST_F(FileTest, AnAppendFileDetectsThatItsPathLeadsElsewhere) {
  AppendFile file = AppendFile::open(at("log"));
  EXPECT_TRUE(file.is_at_its_path());
  fs::remove(at("log"));
  EXPECT_FALSE(file.is_at_its_path());
  put(at("log"), "another\n");
  EXPECT_FALSE(file.is_at_its_path());
  file.append_line("two");
  EXPECT_EQ(get(at("log")), "another\n");
}

TEST_F(FileTest, AnAppendFileDoesNotFollowALink) {
  put(at("precious"), "mine");
  fs::create_symlink("precious", at("log"));
  expect_error(error_of([&] { AppendFile::open(at("log")); }), ExitCode::kBadConfiguration, {at("log")});
  EXPECT_EQ(get(at("precious")), "mine");
}

}  // namespace
}  // namespace keel
