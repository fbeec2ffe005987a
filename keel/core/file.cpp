#include "keel/core/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <vector>

#include "keel/core/error.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

std::string words(int error) { return std::generic_category().message(error); }

/// Calls again while a signal interrupts.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

[[noreturn]] void fail_to_read(const fs::path& path, int error) {
  const char* way_out = error == ENOENT || error == ENOTDIR ? "check the path"
                        : error == EACCES || error == EPERM ? "change its permissions or run as a user who may read it"
                        : error == EISDIR                   ? "give a file, not a folder"
                                                            : "check the disk and the path";
  fail(ExitCode::kBadInput, "cannot read ", path, ": ", words(error), "; ", way_out);
}

[[noreturn]] void fail_to_write(std::string_view action, const fs::path& path, int error) {
  ExitCode code = ExitCode::kBadConfiguration;
  const char* way_out = "choose another path";
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      way_out = "change the permissions or choose a folder that may be written to";
      break;
    case ENOENT:
    case ENOTDIR:
      way_out = "create the folder first or correct the path";
      break;
    case EEXIST:
    case ENOTEMPTY:
      way_out = "remove what is there or choose another name";
      break;
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case EXDEV:
    case EINVAL:
      break;
    case ENOSPC:
    case EDQUOT:
      code = ExitCode::kHealthGuard;
      way_out = "free some space or choose a folder on another disk";
      break;
    case EFBIG:
      code = ExitCode::kHealthGuard;
      way_out = "raise the file-size limit (ulimit -f) or choose another filesystem";
      break;
    default:  // EIO, ENOMEM, EMFILE, ESTALE ...: the machine's condition, not the user's path
      code = ExitCode::kHealthGuard;
      way_out = "check the disk and the system log";
  }
  fail(code, "cannot ", action, " ", path, ": ", words(error), "; ", way_out);
}

/// Writes everything; returns 0 or the error number.
int write_all(int descriptor, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = uninterrupted([&] { return ::write(descriptor, bytes, size); });
    if (written < 0) return errno;
    if (written == 0) return EIO;  // never for a regular file; without this the loop would not end
    bytes += written;
    size -= static_cast<size_t>(written);
  }
  return 0;
}

/// Reads up to `size` bytes at `offset`, fewer only at the end of the file; returns -1 on an error.
int64_t read_all_at(int descriptor, char* bytes, uint64_t size, uint64_t offset) {
  uint64_t done = 0;
  while (done < size) {
    const ssize_t got = uninterrupted(
        [&] { return ::pread(descriptor, bytes + done, size - done, static_cast<off_t>(offset + done)); });
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<uint64_t>(got);
  }
  return static_cast<int64_t>(done);
}

int sync_descriptor(int descriptor) {
  return uninterrupted([&] { return ::fsync(descriptor); }) == 0 ? 0 : errno;
}

int cut_descriptor(int descriptor, uint64_t size) {
  return uninterrupted([&] { return ::ftruncate(descriptor, static_cast<off_t>(size)); }) == 0 ? 0 : errno;
}

FileHandle open_file(const fs::path& path, int flags) {
  return FileHandle(uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); }));
}

fs::path without_trailing_slash(const fs::path& path) {
  return path.has_filename() || !path.has_relative_path() ? path : path.parent_path();
}

fs::path folder_of(const fs::path& path) {
  const fs::path parent = without_trailing_slash(path).parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

/// The length of the part that ends with the file's last newline.
uint64_t size_of_whole_lines(int descriptor, uint64_t size, const fs::path& path) {
  std::vector<char> block(64 * 1024);
  while (size > 0) {
    const uint64_t length = std::min<uint64_t>(size, block.size());
    if (read_all_at(descriptor, block.data(), length, size - length) != static_cast<int64_t>(length)) {
      fail_to_write("read the end of", path, errno == 0 ? EIO : errno);
    }
    const size_t newline = std::string_view(block.data(), length).rfind('\n');
    if (newline != std::string_view::npos) return size - length + newline + 1;
    size -= length;
  }
  return 0;
}

}  // namespace

int FileHandle::close() {
  if (!is_open()) return 0;
  // Linux has released the descriptor even when close() was interrupted, so closing again could close another's file.
  return ::close(std::exchange(descriptor_, -1)) == 0 || errno == EINTR ? 0 : errno;
}

InputFile InputFile::open(const fs::path& path) {
  InputFile file;
  file.path_ = path;
  file.handle_ = open_file(path, O_RDONLY | O_NONBLOCK);  // a named pipe must be refused below, not waited for
  struct stat status {};
  if (!file.handle_.is_open() || ::fstat(file.handle_.get(), &status) != 0) fail_to_read(path, errno);
  if (S_ISDIR(status.st_mode)) fail_to_read(path, EISDIR);
  if (!S_ISREG(status.st_mode))
    fail(ExitCode::kBadInput, "cannot read ", path, ": it is not a regular file; give a file");
  file.size_ = static_cast<uint64_t>(status.st_size);
  return file;
}

void InputFile::read_at(uint64_t offset, std::span<std::byte> to) const {
  const int64_t got = read_all_at(handle_.get(), reinterpret_cast<char*>(to.data()), to.size(), offset);
  if (got < 0) fail_to_read(path_, errno);
  if (static_cast<uint64_t>(got) != to.size()) {
    fail(ExitCode::kBadInput, "cannot read ", path_, ": wanted ", to.size(), " bytes at ", offset, ", but it ends at ",
         offset + static_cast<uint64_t>(got), " (it had ", size_,
         " bytes when it was opened); do not change files that are being read");
  }
}

std::string read_file(const fs::path& path, uint64_t max_bytes) {
  const FileHandle handle = open_file(path, O_RDONLY);
  struct stat status {};
  if (!handle.is_open() || ::fstat(handle.get(), &status) != 0) fail_to_read(path, errno);
  const uint64_t expected = S_ISREG(status.st_mode) ? static_cast<uint64_t>(status.st_size) : 0;
  const auto refuse_above = [&](uint64_t size) {
    if (size <= max_bytes) return;
    fail(ExitCode::kBadInput, "cannot read ", path, ": it has ", expected > max_bytes ? "" : "at least ", size,
         " bytes; at most ", max_bytes, " are accepted here; check that this is the right file");
  };
  refuse_above(expected);

  std::string bytes;
  // One byte more than expected finds the end without growing; pipes and /proc files do not tell their size.
  for (size_t step = std::max<size_t>(expected + 1, 64 * 1024);; step = 64 * 1024) {
    const size_t before = bytes.size();
    bytes.resize(before + step);
    const ssize_t got = uninterrupted([&] { return ::read(handle.get(), bytes.data() + before, step); });
    if (got < 0) fail_to_read(path, errno);
    bytes.resize(before + static_cast<size_t>(got));
    refuse_above(bytes.size());
    if (got == 0) return bytes;
  }
}

DurableFile::DurableFile(fs::path path) : path_(std::move(path)), partial_(path_.string() + ".partial") {
  struct stat status {};
  // Renaming onto /dev/null would replace the device by a file.
  if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    fail(ExitCode::kBadConfiguration, "cannot write ", path_, ": ",
         S_ISDIR(status.st_mode) ? "a folder" : "a special file", " has that name; choose another name");
  }
  ::unlink(partial_.c_str());  // left by a killed process; O_EXCL then makes sure that no link is written through
  handle_ = open_file(partial_, O_WRONLY | O_CREAT | O_EXCL);
  if (!handle_.is_open()) fail_to_write("write", path_, errno);
}

void DurableFile::write(std::span<const std::byte> bytes) {
  if (!handle_.is_open()) fail(ExitCode::kInternal, "write to ", path_, " after it was committed or had failed");
  const int error = write_all(handle_.get(), reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (error != 0) abandon("write", error);
}

void DurableFile::commit() {
  if (!handle_.is_open()) fail(ExitCode::kInternal, "commit of ", path_, " after it was committed or had failed");
  // A failed fsync is final: the kernel may have dropped the unwritten pages, so that trying again would seem to work.
  if (const int error = sync_descriptor(handle_.get()); error != 0) abandon("sync", error);
  if (const int error = handle_.close(); error != 0) abandon("close", error);
  if (::rename(partial_.c_str(), path_.c_str()) != 0) abandon("rename the partial file to", errno);
  partial_.clear();
  sync_directory(folder_of(path_));
}

void DurableFile::discard() noexcept {
  handle_.close();
  if (!partial_.empty()) ::unlink(partial_.c_str());
  partial_.clear();
}

void DurableFile::abandon(std::string_view action, int error) {
  discard();
  fail_to_write(action, path_, error);
}

void write_atomically(const fs::path& path, std::string_view bytes) {
  DurableFile file(path);
  file.write(bytes);
  file.commit();
}

AppendFile AppendFile::open(const fs::path& path) {
  AppendFile file;
  file.path_ = path;
  file.handle_ = open_file(path, O_RDWR | O_CREAT | O_APPEND);
  struct stat status {};
  if (!file.handle_.is_open() || ::fstat(file.handle_.get(), &status) != 0) fail_to_write("open", path, errno);
  if (!S_ISREG(status.st_mode)) {
    fail(ExitCode::kBadConfiguration, "cannot append to ", path, ": it is not a regular file; choose another name");
  }
  const auto size = static_cast<uint64_t>(status.st_size);
  file.size_ = size_of_whole_lines(file.handle_.get(), size, path);
  file.torn_ = file.size_ != size;
  if (const int error = file.cut_torn_line(); error != 0) fail_to_write("cut the torn last line of", path, error);
  sync_directory(folder_of(path));
  return file;
}

void AppendFile::append_line(std::string_view line) {
  if (line.find('\n') != std::string_view::npos) {
    fail(ExitCode::kInternal, "a line for ", path_, " holds a newline; escape it");
  }
  std::string bytes;
  bytes.reserve(line.size() + 1);
  bytes.append(line).push_back('\n');
  // A cut that failed before is tried again, so that a line never follows half of another.
  int error = cut_torn_line();
  if (error == 0) {
    error = write_all(handle_.get(), bytes.data(), bytes.size());
    torn_ = error != 0;
  }
  if (error != 0) {
    cut_torn_line();
    fail_to_write("append to", path_, error);
  }
  size_ += bytes.size();
}

void AppendFile::sync() {
  if (const int error = sync_descriptor(handle_.get()); error != 0) fail_to_write("sync", path_, error);
}

int AppendFile::cut_torn_line() {
  const int error = torn_ ? cut_descriptor(handle_.get(), size_) : 0;
  if (error == 0) torn_ = false;
  return error;
}

void cut_to_size(const fs::path& path, uint64_t size) {
  const FileHandle handle = open_file(path, O_WRONLY);
  struct stat status {};
  if (!handle.is_open() || ::fstat(handle.get(), &status) != 0) fail_to_write("cut", path, errno);
  const auto has = static_cast<uint64_t>(status.st_size);
  if (has < size) {
    fail(ExitCode::kBadInput, "cannot cut ", path, " to ", size, " bytes: it has only ", has,
         "; bytes that were recorded are missing, so restore the file or start a new run");
  }
  if (const int error = cut_descriptor(handle.get(), size); error != 0) fail_to_write("cut", path, error);
  if (const int error = sync_descriptor(handle.get()); error != 0) fail_to_write("sync", path, error);
}

void sync_directory(const fs::path& path) {
  const FileHandle handle = open_file(path, O_RDONLY | O_DIRECTORY);
  if (!handle.is_open()) fail_to_write("open the folder", path, errno);
  const int error = sync_descriptor(handle.get());
  // EINVAL: some network filesystems cannot sync a folder; their names are durable once rename() has returned.
  if (error != 0 && error != EINVAL) fail_to_write("sync the folder", path, error);
}

void rename_directory(const fs::path& from, const fs::path& to) {
  sync_directory(from);
  if (::rename(from.c_str(), to.c_str()) != 0) fail_to_write("rename " + from.string() + " to", to, errno);
  const fs::path source = folder_of(from), target = folder_of(to);
  sync_directory(target);
  if (source != target) sync_directory(source);
}

void CreateDirectories::operator()(const fs::path& path) const {
  fs::path folder;
  for (const fs::path& part : path) {
    folder /= part;
    struct stat status {};
    const int missing = ::stat(folder.c_str(), &status) == 0 ? 0 : errno;
    if (missing == 0 && !S_ISDIR(status.st_mode)) {
      fail(ExitCode::kBadConfiguration, "cannot create the folder ", path, ": a file is in the way at ", folder,
           "; remove it or choose another folder");
    }
    if (missing == 0) continue;
    if (missing != ENOENT) fail_to_write("create the folder", folder, missing);
    const bool made = ::mkdir(folder.c_str(), 0777) == 0;
    // Another process may have made the same folder at the same time.
    if (!made && !(errno == EEXIST && fs::is_directory(folder))) fail_to_write("create the folder", folder, errno);
    sync_directory(folder_of(folder));
  }
}

std::optional<FileHandle> lock_directory(const fs::path& path) {
  FileHandle handle(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!handle.is_open()) fail_to_write("open the folder", path, errno);
  if (::flock(handle.get(), LOCK_EX | LOCK_NB) == 0) return handle;
  if (errno == EWOULDBLOCK) return std::nullopt;
  return handle;  // a filesystem without locks: better unguarded than refused
}

// By POSIX calls, here and in remove_tree: torch packages built with another standard library export parts of
// std::filesystem, and their remove_all and directory iterators, bound in place of ours, crash.
std::vector<std::string> list_directory(const fs::path& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()), closedir);
  if (folder == nullptr) fail_to_read(path, errno);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

/// Removes what `name` in `folder` (a path, for errors) is; a link is removed, not followed.
void remove_entry(const fs::path& path) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return;
    fail_to_write("remove", path, errno);
  }
  if (S_ISDIR(status.st_mode))
    for (const std::string& name : list_directory(path)) remove_entry(path / name);
  const int failed = S_ISDIR(status.st_mode) ? rmdir(path.c_str()) : unlink(path.c_str());
  if (failed != 0 && errno != ENOENT) fail_to_write("remove", path, errno);
}

}  // namespace

void remove_tree(const fs::path& path) {
  if (path.empty() || !path.has_relative_path()) {
    fail(ExitCode::kInternal, "refused to remove ", path, ": wanted a path below the root folder");
  }
  remove_entry(without_trailing_slash(path));
}

}  // namespace keel
