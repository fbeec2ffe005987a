#include "keel/core/files/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <vector>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/files/directory_path.h"
#include "keel/core/files/failed_call.h"
#include "keel/core/files/retry_on_eintr.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

const char* special_file_type(mode_t mode) { return S_ISFIFO(mode) ? "pipe" : S_ISSOCK(mode) ? "socket" : "device"; }

/// Writes all bytes. Returns 0 or the error number.
int write_all(int descriptor, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = retry_on_eintr([&] { return ::write(descriptor, bytes, size); });
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
    const ssize_t count = retry_on_eintr(
        [&] { return ::pread(descriptor, bytes + done, size - done, static_cast<off_t>(offset + done)); });
    if (count < 0) return -1;
    if (count == 0) break;
    done += static_cast<uint64_t>(count);
  }
  return static_cast<int64_t>(done);
}

int sync_descriptor(int descriptor) {
  return retry_on_eintr([&] { return ::fsync(descriptor); }) == 0 ? 0 : errno;
}

int truncate_descriptor(int descriptor, uint64_t size) {
  return retry_on_eintr([&] { return ::ftruncate(descriptor, static_cast<off_t>(size)); }) == 0 ? 0 : errno;
}

FileHandle open_file(const fs::path& path, int flags) {
  const DirectoryPath resolved = directory_path(path);
  return FileHandle(
      retry_on_eintr([&] { return ::openat(resolved.directory, resolved.name.c_str(), flags | O_CLOEXEC, 0666); }));
}

/// Fills in the path's status. Returns 0 or the error number. `flags` may be AT_SYMLINK_NOFOLLOW.
int get_status(const fs::path& path, struct stat& status, int flags = 0) {
  const DirectoryPath resolved = directory_path(path);
  return ::fstatat(resolved.directory, resolved.name.c_str(), &status, flags) == 0 ? 0 : errno;
}

/// Returns whether the path exists, even as a dangling link.
bool entry_exists(const fs::path& path) {
  struct stat status {};
  return get_status(path, status, AT_SYMLINK_NOFOLLOW) == 0;
}

/// Returns the path of the directory entry, for removing or renaming. A locked directory's own handle cannot do that.
DirectoryPath entry_path(const fs::path& path) {
  const DirectoryPath resolved = directory_path(path);
  return resolved.name == "." ? DirectoryPath{AT_FDCWD, path.native()} : resolved;
}

int remove_name(const fs::path& path, int flags = 0) {
  const DirectoryPath resolved = entry_path(path);
  return ::unlinkat(resolved.directory, resolved.name.c_str(), flags) == 0 ? 0 : errno;
}

int rename_to(const fs::path& from, const fs::path& to, unsigned flags = 0) {
  const DirectoryPath source = entry_path(from), target = entry_path(to);
  const bool done =
      flags == 0
          ? ::renameat(source.directory, source.name.c_str(), target.directory, target.name.c_str()) == 0
          : ::renameat2(source.directory, source.name.c_str(), target.directory, target.name.c_str(), flags) == 0;
  return done ? 0 : errno;
}

fs::path without_trailing_slash(const fs::path& path) {
  return path.has_filename() || !path.has_relative_path() ? path : path.parent_path();
}

fs::path parent_folder(const fs::path& path) {
  const fs::path parent = without_trailing_slash(path).parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

/// Returns the mode of the file that a path leads to; 0 if there is none.
mode_t file_mode(const fs::path& path) {
  struct stat status {};
  const int error = get_status(path, status);
  if (error == 0) return status.st_mode;
  if (error != ENOENT && error != ENOTDIR) fail_to_read(path, error);
  return 0;
}

/// Returns the length of the file up to its last newline.
uint64_t size_of_complete_lines(int descriptor, uint64_t size, const fs::path& path) {
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

std::string full_path(const fs::path& path) {
  return without_trailing_slash(fs::absolute(path).lexically_normal()).string();
}

InputFile InputFile::open(const fs::path& path) {
  InputFile file;
  file.path_ = path;
  file.handle_ = open_file(path, O_RDONLY | O_NONBLOCK);  // opening a named pipe must not block; it is rejected below
  struct stat status {};
  if (!file.handle_.is_open() || ::fstat(file.handle_.get(), &status) != 0) fail_to_read(path, errno);
  if (S_ISDIR(status.st_mode)) fail_to_read(path, EISDIR);
  if (!S_ISREG(status.st_mode))
    fail(ExitCode::kBadInput, "cannot read ", path, ": it is not a regular file, but a ",
         special_file_type(status.st_mode), "; give a file");
  file.size_ = static_cast<uint64_t>(status.st_size);
  file.modified_ = nanoseconds(status.st_mtim);
  return file;
}

bool InputFile::was_changed() const {
  struct stat status {};
  if (::fstat(handle_.get(), &status) != 0) fail_to_read(path_, errno);
  return static_cast<uint64_t>(status.st_size) != size_ || nanoseconds(status.st_mtim) != modified_;
}

void InputFile::read_at(uint64_t offset, std::span<std::byte> to) const {
  const int64_t count = read_all_at(handle_.get(), reinterpret_cast<char*>(to.data()), to.size(), offset);
  if (count < 0) fail_to_read(path_, errno);
  if (static_cast<uint64_t>(count) != to.size()) {
    fail(ExitCode::kBadInput, "cannot read ", path_, ": expected ", to.size(), " bytes at ", offset,
         ", but the file ends at ", offset + static_cast<uint64_t>(count), " (it had ", size_,
         " bytes when it was opened); do not change files that are being read");
  }
}

void InputFile::for_each_piece(const std::function<void(std::span<const std::byte>)>& work) const {
  std::vector<std::byte> block(1 << 20);
  for (uint64_t offset = 0; offset < size_; offset += block.size()) {
    const std::span<std::byte> piece(block.data(), std::min<uint64_t>(block.size(), size_ - offset));
    read_at(offset, piece);
    work(piece);
  }
}

std::string read_file(const fs::path& path, uint64_t max_bytes) {
  const InputFile file = InputFile::open(path);
  if (file.size() > max_bytes)
    fail(ExitCode::kBadInput, "cannot read ", path, ": it has ", file.size(), " bytes; at most ", max_bytes,
         " are accepted here; check that this is the right file");
  std::string bytes(file.size(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

bool path_exists(const fs::path& path) { return file_mode(path) != 0; }
bool is_folder(const fs::path& path) { return S_ISDIR(file_mode(path)); }

fs::path free_partial_name(const fs::path& path) {
  const std::string partial = path.string() + ".partial";
  if (!entry_exists(partial) || (directory_path(path).directory != AT_FDCWD && remove_name(partial) == 0))
    return partial;
  const std::string prefix = partial + "-" + std::to_string(::getpid()) + "-";
  int number = 1;
  while (entry_exists(prefix + std::to_string(number))) ++number;
  return prefix + std::to_string(number);
}

DurableFile::DurableFile(fs::path path, Existing existing) : path_(std::move(path)), existing_(existing) {
  struct stat status {};
  if (existing_ == Existing::kStays && entry_exists(path_))
    fail_to_write("write", path_, EEXIST);  // dangling links included
  // Renaming onto /dev/null would replace the device by a file. Renaming onto /dev/stdout would replace the link.
  std::error_code ignored;
  const bool is_stream = fs::read_symlink(path_, ignored).string().starts_with("/proc/");
  if (get_status(path_, status) == 0 && (is_stream || !S_ISREG(status.st_mode))) {
    fail(ExitCode::kBadConfiguration, "cannot write ", path_, ": ",
         S_ISDIR(status.st_mode) ? "a folder" : "a special file", " has that name; choose another name");
  }
  const fs::path partial = free_partial_name(path_);
  handle_ = open_file(partial, O_WRONLY | O_CREAT | O_EXCL);  // does not write through links
  if (!handle_.is_open()) fail_to_write("write", path_, errno);
  partial_ = partial;
}

void DurableFile::write(std::span<const std::byte> bytes) {
  if (!handle_.is_open()) fail(ExitCode::kInternal, "write to ", path_, " after it was committed or had failed");
  const int error = write_all(handle_.get(), reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (error != 0) abandon("write", error);
}

void DurableFile::commit() {
  if (!handle_.is_open()) fail(ExitCode::kInternal, "commit of ", path_, " after it was committed or had failed");
  // A failed fsync is final: the kernel may have dropped the unwritten pages, so that a retry would wrongly succeed.
  if (const int error = sync_descriptor(handle_.get()); error != 0) abandon("sync", error);
  if (const int error = handle_.close(); error != 0) abandon("close", error);
  int error = rename_to(partial_, path_, existing_ == Existing::kStays ? RENAME_NOREPLACE : 0);
  if (existing_ == Existing::kStays && error == EINVAL)  // some network filesystems do not support the flag
    error = entry_exists(path_) ? EEXIST : rename_to(partial_, path_);
  if (error != 0) abandon("rename the partial file to", error);
  partial_.clear();
  sync_directory(parent_folder(path_));
}

void DurableFile::discard() noexcept {
  handle_.close();
  if (!partial_.empty()) remove_name(partial_);
  partial_.clear();
}

void DurableFile::abandon(std::string_view action, int error) {
  discard();
  fail_to_write(action, path_, error);
}

void write_atomically(const fs::path& path, std::string_view bytes, Existing existing) {
  DurableFile file(path, existing);
  file.write(bytes);
  file.commit();
}

AppendFile AppendFile::open(const fs::path& path) {
  AppendFile file;
  file.path_ = path;
  file.handle_ = open_file(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW);
  struct stat status {};
  if (!file.handle_.is_open() || ::fstat(file.handle_.get(), &status) != 0) fail_to_write("open", path, errno);
  if (!S_ISREG(status.st_mode)) {
    fail(ExitCode::kBadConfiguration, "cannot append to ", path, ": it is not a regular file; choose another name");
  }
  const auto size = static_cast<uint64_t>(status.st_size);
  file.size_ = size_of_complete_lines(file.handle_.get(), size, path);
  file.torn_ = file.size_ != size;
  if (const int error = file.cut_torn_line(); error != 0) fail_to_write("cut the torn last line of", path, error);
  sync_directory(parent_folder(path));
  return file;
}

void AppendFile::append_line(std::string_view line) {
  if (line.find('\n') != std::string_view::npos) {
    fail(ExitCode::kInternal, "a line for ", path_, " holds a newline; escape it");
  }
  std::string bytes;
  bytes.reserve(line.size() + 1);
  bytes.append(line).push_back('\n');
  append(bytes);
}

void AppendFile::append(std::string_view bytes) {
  // Retry a truncation that failed before, so that a line never follows half of another.
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

bool AppendFile::is_at_its_path() const {
  struct stat named {
  }, open{};
  return get_status(path_, named) == 0 && ::fstat(handle_.get(), &open) == 0 && named.st_dev == open.st_dev &&
         named.st_ino == open.st_ino;
}

int AppendFile::cut_torn_line() {
  const int error = torn_ ? truncate_descriptor(handle_.get(), size_) : 0;
  if (error == 0) torn_ = false;
  return error;
}

void copy_durably(const fs::path& from, const fs::path& to) {
  DurableFile copy(to);
  InputFile::open(from).for_each_piece([&](std::span<const std::byte> piece) { copy.write(piece); });
  copy.commit();
}

void truncate_file(const fs::path& path, uint64_t size) {
  const FileHandle handle = open_file(path, O_WRONLY);
  struct stat status {};
  if (!handle.is_open() || ::fstat(handle.get(), &status) != 0) fail_to_write("cut", path, errno);
  const auto actual_size = static_cast<uint64_t>(status.st_size);
  if (actual_size < size) {
    fail(ExitCode::kBadInput, "cannot cut ", path, " to ", size, " bytes: it has only ", actual_size,
         "; recorded bytes are missing, so restore the file or start a new run");
  }
  if (const int error = truncate_descriptor(handle.get(), size); error != 0) fail_to_write("cut", path, error);
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
  if (const int error = rename_to(from, to); error != 0) fail_to_write("rename " + from.string() + " to", to, error);
  const fs::path source = parent_folder(from), target = parent_folder(to);
  sync_directory(target);
  if (source != target) sync_directory(source);
}

void move_aside(const fs::path& path) {
  if (!entry_exists(path)) return;
  const std::string name = path.string() + ".other";
  fs::path aside = name;
  for (int number = 2; entry_exists(aside); ++number) aside = name + std::to_string(number);
  if (const int error = rename_to(path, aside); error != 0)
    fail_to_write("rename " + path.string() + " to", aside, error);
  sync_directory(parent_folder(path));
}

bool exchange_directories(const fs::path& one, const fs::path& other) {
  if (rename_to(one, other, RENAME_EXCHANGE) != 0) return false;
  sync_directory(parent_folder(other));
  return true;
}

void CreateDirectories::operator()(const fs::path& path) const {
  const bool is_redirected = directory_path(path).directory != AT_FDCWD;
  fs::path folder;
  for (const fs::path& part : path) {
    folder /= part;
    // A moved locked directory no longer has the parents in this path.
    if (is_redirected && directory_path(folder).directory == AT_FDCWD) continue;
    struct stat status {};
    const int status_error = get_status(folder, status);
    if (status_error == 0 && !S_ISDIR(status.st_mode)) {
      fail(ExitCode::kBadConfiguration, "cannot create the folder ", path, ": a file is in the way at ", folder,
           "; remove it or choose another folder");
    }
    if (status_error == 0) continue;
    if (status_error != ENOENT) fail_to_write("create the folder", folder, status_error);
    const DirectoryPath resolved = directory_path(folder);
    const int error = ::mkdirat(resolved.directory, resolved.name.c_str(), 0777) == 0 ? 0 : errno;
    // Another process may have created the same folder at the same time.
    const bool exists = error == 0 || (error == EEXIST && get_status(folder, status) == 0 && S_ISDIR(status.st_mode));
    if (!exists) fail_to_write("create the folder", folder, error);
    sync_directory(parent_folder(folder));
  }
}

// list_directory and remove_tree use POSIX calls. Torch packages built with another standard library export parts of
// std::filesystem, and their remove_all and directory iterators crash when they are bound in place of ours.
std::vector<std::string> list_directory(const fs::path& path) {
  FileHandle handle = open_file(path, O_RDONLY | O_DIRECTORY);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(handle.is_open() ? fdopendir(handle.get()) : nullptr, closedir);
  if (folder == nullptr) fail_to_read(path, errno);
  handle.release();  // the stream closes it
  std::vector<std::string> names;
  errno = 0;  // readdir() reports the end and an error both as null; only errno distinguishes them
  while (const dirent* entry = readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) fail_to_read(path, errno);
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

/// Removes a file, a link (without following it) or a folder with its content. Ignores a missing path.
void remove_entry(const fs::path& path) {
  struct stat status = {};
  int error = get_status(path, status, AT_SYMLINK_NOFOLLOW);
  if (error == ENOENT) return;
  if (error != 0) fail_to_write("remove", path, error);
  if (S_ISDIR(status.st_mode))
    for (const std::string& name : list_directory(path)) remove_entry(path / name);
  error = remove_name(path, S_ISDIR(status.st_mode) ? AT_REMOVEDIR : 0);
  if (error != 0 && error != ENOENT) fail_to_write("remove", path, error);
}

}  // namespace

void remove_tree(const fs::path& path) {
  if (path.empty() || !path.has_relative_path()) {
    fail(ExitCode::kInternal, "refused to remove ", path, ": expected a path below the root folder");
  }
  remove_entry(without_trailing_slash(path));
}

void remove_file(const fs::path& path) {
  const int error = remove_name(path);
  if (error != 0 && error != ENOENT && error != ENOTDIR && error != EISDIR) fail_to_write("remove", path, error);
}

void remove_if_empty(const fs::path& folder) {
  const int error = remove_name(without_trailing_slash(folder), AT_REMOVEDIR);
  if (error != 0 && error != ENOTEMPTY && error != EEXIST && error != ENOENT && error != ENOTDIR)
    fail_to_write("remove", folder, error);
}

}  // namespace keel
