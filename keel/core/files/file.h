#pragma once

// Files that survive a crash, a full disk and a power cut. Every call is checked. An Error names the path, the system's
// message and a fix. Reading fails with kBadInput. Writing fails with kHealthGuard if the machine is at fault (disk
// full, quota, file-size limit, I/O error) and with kBadConfiguration if the path is (missing folder, permission). The
// process must ignore SIGXFSZ (the program does at start-up), so that a write beyond the file-size limit returns EFBIG,
// which is handled here, instead of killing the process.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace keel {

/// Owns a file descriptor and closes it in the destructor.
class FileHandle {
 public:
  FileHandle() = default;
  explicit FileHandle(int descriptor) : descriptor_(descriptor) {}
  FileHandle(FileHandle&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FileHandle() { close(); }

  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  /// Closes now; returns 0 or the error number.
  int close();
  /// Gives up ownership of the descriptor.
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

/// Returns the absolute path without ., .. and a trailing slash. Links are not resolved.
std::string full_path(const std::filesystem::path& path);

/// A regular file for reading at any offset. It is never mapped, so a file that shrinks gives an Error, not a SIGBUS.
class InputFile {
 public:
  static InputFile open(const std::filesystem::path& path);
  const std::filesystem::path& path() const { return path_; }
  /// The size when it was opened.
  uint64_t size() const { return size_; }
  /// Returns whether the file's time or size has changed since it was opened.
  bool was_changed() const;
  /// Fills `to` with the bytes from `offset` on.
  void read_at(uint64_t offset, std::span<std::byte> to) const;
  /// Reads the whole file in pieces of at most 1 MiB.
  void for_each_piece(const std::function<void(std::span<const std::byte>)>& work) const;

 private:
  InputFile() = default;
  std::filesystem::path path_;
  FileHandle handle_;
  uint64_t size_ = 0;
  int64_t modified_ = 0;  // in nanoseconds
};

/// Returns the content of a regular file of at most `max_bytes`.
std::string read_file(const std::filesystem::path& path, uint64_t max_bytes = uint64_t{1} << 30);

/// Returns whether the path exists, and whether it is a folder. Throws an Error (kBadInput) if it cannot be resolved:
/// too long, circular links, no search permission. Unlike std::filesystem, this follows a locked directory that was
/// moved.
bool path_exists(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

/// Determines whether a new file replaces an existing one with its name.
enum class Existing {
  kReplaced,
  kStays,  // creating the new file throws an Error (kBadConfiguration), even if the name appears during the writing
};

/// A file that is written under a partial name and appears under its own at commit(). One writer per path.
class DurableFile {
 public:
  explicit DurableFile(std::filesystem::path path, Existing existing = Existing::kReplaced);
  /// Removes the partial file unless commit() was called.
  ~DurableFile() { discard(); }
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view bytes) { write(std::as_bytes(std::span(bytes))); }
  /// Syncs the file, renames it and syncs the folder. After this the file survives a power cut.
  void commit();

 private:
  void discard() noexcept;
  [[noreturn]] void abandon(std::string_view action, int error);

  std::filesystem::path path_, partial_;
  Existing existing_;
  FileHandle handle_;
};

/// Replaces the file's content. A reader gets the old bytes or the new ones, never a mixture, even after a power cut.
void write_atomically(const std::filesystem::path& path, std::string_view bytes,
                      Existing existing = Existing::kReplaced);

/// A file that one writer appends complete lines or other records to.
class AppendFile {
 public:
  /// Opens or creates the file. Removes an incomplete last line, which a crash leaves. Does not follow links.
  static AppendFile open(const std::filesystem::path& path);
  /// Appends `line` and a newline. After a failure, the file ends with the last complete line.
  void append_line(std::string_view line);
  /// Appends bytes to a new file (open() expects lines). After a failure, none of them are in the file.
  void append(std::string_view bytes);
  /// Waits until everything appended is on the disk.
  void sync();
  /// Returns the size of the file, with which truncate_file() can restore this state.
  uint64_t size() const { return size_; }
  /// Returns whether the path still leads to this file. If not, readers do not get what is appended.
  bool is_at_its_path() const;

 private:
  AppendFile() = default;
  int cut_torn_line();

  std::filesystem::path path_;
  FileHandle handle_;
  uint64_t size_ = 0;
  bool torn_ = false;  // the file may have bytes of a failed line after size_
};

/// Truncates a file to `size` bytes, durably. Throws an Error (kBadInput) if it has fewer.
void truncate_file(const std::filesystem::path& path, uint64_t size);

/// Copies a file atomically and durably.
void copy_durably(const std::filesystem::path& from, const std::filesystem::path& to);

/// Syncs a folder, so that created, renamed and removed names survive a power cut.
void sync_directory(const std::filesystem::path& path);

/// Renames a folder, durably. The new name must be free or an empty folder.
void rename_directory(const std::filesystem::path& from, const std::filesystem::path& to);

/// Renames a file or folder to NAME.other. Does nothing if it does not exist.
void move_aside(const std::filesystem::path& path);

/// Exchanges the names of two folders atomically and durably. Returns false if the filesystem does not support it.
bool exchange_directories(const std::filesystem::path& one, const std::filesystem::path& other);

/// Creates a folder and its parents, durably, unless they exist. It is an object because a function would be ambiguous
/// with std::filesystem::create_directories, which argument-dependent lookup finds for a path.
struct CreateDirectories {
  void operator()(const std::filesystem::path& path) const;
};
inline constexpr CreateDirectories create_directories;

/// Returns the sorted names in a folder.
std::vector<std::string> list_directory(const std::filesystem::path& path);

/// Removes a file or a folder with its content. Removes links without following them. Ignores a missing path.
void remove_tree(const std::filesystem::path& path);

/// Removes a file or a link. Ignores a missing path and a folder.
void remove_file(const std::filesystem::path& path);

/// Removes a folder if it is empty.
void remove_if_empty(const std::filesystem::path& folder);

}  // namespace keel
