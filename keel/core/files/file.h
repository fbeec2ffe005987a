#pragma once

// Files that survive a crash, a full disk and a power cut. Every call is checked; an Error names the path, the system's
// words and the way out. Reading fails with kBadInput. Writing fails with kHealthGuard where the machine is at fault
// (disk full, quota, file-size limit, I/O error) and with kBadConfiguration where the path is (missing folder,
// permission). A process must ignore SIGXFSZ (the program does at start-up): only then does a write beyond the
// file-size limit return EFBIG, which is handled here, instead of killing the process.

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

/// Owns one file descriptor and closes it at the end.
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
  /// Lets go of the descriptor, which someone else closes.
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

/// The path from the root folder on, without . and .. in it and without a slash at its end; links stay.
std::string full_path(const std::filesystem::path& path);

/// A regular file read at chosen places, never mapped: a file that shrinks gives an Error, not a SIGBUS.
class InputFile {
 public:
  static InputFile open(const std::filesystem::path& path);
  const std::filesystem::path& path() const { return path_; }
  /// The size when it was opened.
  uint64_t size() const { return size_; }
  /// Whether its time or size is another than when it was opened.
  bool was_changed() const;
  /// Fills all of `to` with the bytes from `offset` on.
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

/// The whole of a regular file of at most `max_bytes`.
std::string read_file(const std::filesystem::path& path, uint64_t max_bytes = uint64_t{1} << 30);

/// Whether there is something of this name, and whether it is a folder. A name that cannot be looked up (too long,
/// links in a circle, a folder that may not be searched) is an Error (kBadInput), where std::filesystem has an
/// exception of its own. (Nor would it follow a locked directory that was moved.)
bool path_exists(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

/// What becomes of that which has the name of a new file already.
enum class Existing {
  kReplaced,
  kStays,  // the new file is an Error (kBadConfiguration), also where the name is taken while it is written
};

/// A file that appears under its name whole or not at all: it grows under a partial name until commit(). One writer
/// per path.
class DurableFile {
 public:
  explicit DurableFile(std::filesystem::path path, Existing existing = Existing::kReplaced);
  /// Removes the partial file unless commit() was called.
  ~DurableFile() { discard(); }
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view bytes) { write(std::as_bytes(std::span(bytes))); }
  /// Syncs the file, gives it its name and syncs the folder; after this it survives a power cut.
  void commit();

 private:
  void discard() noexcept;
  [[noreturn]] void abandon(std::string_view action, int error);

  std::filesystem::path path_, partial_;
  Existing existing_;
  FileHandle handle_;
};

/// Replaces the file's content so that a reader, even after a power cut, sees the old bytes or the new, never a
/// mixture.
void write_atomically(const std::filesystem::path& path, std::string_view bytes,
                      Existing existing = Existing::kReplaced);

/// A growing file of whole lines, or of records of another kind, for one writer.
class AppendFile {
 public:
  /// Opens or creates; a last line without its newline was torn by a crash and is cut off. A link is not followed.
  static AppendFile open(const std::filesystem::path& path);
  /// Adds `line` and a newline; on failure the file ends with the last whole line again.
  void append_line(std::string_view line);
  /// Adds bytes as they are, to a file that is new: open() takes what it finds for lines. On failure none are added.
  void append(std::string_view bytes);
  /// Returns when everything appended is on the disk.
  void sync();
  /// Bytes in the file; what cut_to_size() takes to come back to this moment.
  uint64_t size() const { return size_; }
  /// Whether it is still found under its name: if not, what is appended reaches nobody.
  bool has_its_name() const;

 private:
  AppendFile() = default;
  int cut_torn_line();

  std::filesystem::path path_;
  FileHandle handle_;
  uint64_t size_ = 0;
  bool torn_ = false;  // bytes of a failed line may lie beyond size_
};

/// Cuts a file back to its first `size` bytes, durably; a file that has fewer is an Error (kBadInput).
void cut_to_size(const std::filesystem::path& path, uint64_t size);

/// Writes a copy of a file, which appears whole or not at all.
void copy_durably(const std::filesystem::path& from, const std::filesystem::path& to);

/// Makes created, renamed and removed names in a folder survive a power cut.
void sync_directory(const std::filesystem::path& path);

/// Gives a folder another name, durably; the new name must be free or an empty folder.
void rename_directory(const std::filesystem::path& from, const std::filesystem::path& to);

/// Renames a file or folder, whatever it is, to NAME.other; one that does not exist is fine.
void move_aside(const std::filesystem::path& path);

/// Exchanges the names of two folders in one move, durably; false where the filesystem cannot.
bool exchange_directories(const std::filesystem::path& one, const std::filesystem::path& other);

/// Creates a folder and those above it, durably; a folder that exists is fine. An object rather than a function: for a
/// path argument the compiler would find std::filesystem's function of this name as well and call the choice ambiguous.
struct CreateDirectories {
  void operator()(const std::filesystem::path& path) const;
};
inline constexpr CreateDirectories create_directories;

/// The names in a folder, sorted.
std::vector<std::string> list_directory(const std::filesystem::path& path);

/// Removes a file or a folder with all it holds (links are removed, not followed); one that does not exist is fine.
void remove_tree(const std::filesystem::path& path);

/// Removes a file or a link; one that does not exist is fine, and a folder stays.
void remove_file(const std::filesystem::path& path);

/// Removes a folder that is empty; any other stays.
void remove_if_empty(const std::filesystem::path& folder);

}  // namespace keel
