#include "cli/json_lines.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <mutex>
#include <span>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/files/json_file.h"
#include "keel/core/files/line_reader.h"
#include "keel/core/files/system_call.h"
#include "keel/core/interrupt.h"
#include "keel/core/parallel.h"

namespace keel::cli {
namespace {

constexpr size_t kMaxLine = size_t{64} << 20, kBatchLines = 1024, kBatchBytes = size_t{64} << 20;

Json read_row(const std::string& line, const std::string& place, bool keeps_digits) {
  Json row;
  try {
    row = parse_json(line, {.depth = kDataDepth, .repeated_keys = false, .exact = !keeps_digits});
  } catch (const JsonFault& fault) {
    fail(ExitCode::kBadInput, place, ": ", fault.what(), "; wanted one object per line");
  }
  if (!row.is_object()) fail(ExitCode::kBadInput, place, ": got ", row.type_name(), "; wanted an object");
  return row;
}

struct Member {
  std::string key;
  size_t begin = 0, end = 0;  // of its value
  bool is_spaced = false;     // behind the colon
};

/// Walks over one object that is known to be valid JSON.
class MemberReader {
 public:
  explicit MemberReader(std::string_view row) : row_(row) {}

  std::vector<Member> run() {
    std::vector<Member> members;
    at_ = row_.find('{') + 1;
    for (skip_space(); row_[at_] != '}'; skip_space()) {
      if (row_[at_] == ',') ++at_, skip_space();
      const size_t key = at_;
      skip_value();
      Member member{.key = parse_json(row_.substr(key, at_ - key)).get<std::string>()};
      skip_space();
      const size_t colon = at_++;
      skip_space();
      member.begin = at_;
      member.is_spaced = member.begin > colon + 1;
      skip_value();
      member.end = at_;
      members.push_back(std::move(member));
    }
    return members;
  }

 private:
  void skip_space() {
    while (at_ < row_.size() && std::string_view(" \t\r\n").find(row_[at_]) != std::string_view::npos) ++at_;
  }

  void skip_string() {
    for (++at_; row_[at_] != '"'; ++at_) at_ += row_[at_] == '\\';
    ++at_;
  }

  void skip_value() {
    size_t depth = 0;
    do {
      const char c = row_[at_];
      if (c == '"') {
        skip_string();
      } else if (c == '{' || c == '[') {
        ++depth, ++at_;
      } else if (c == '}' || c == ']') {
        --depth, ++at_;
      } else {
        at_ = std::min(row_.find_first_of(depth == 0 ? ",}] \t\r" : "\"{}[]", at_), row_.size());
      }
    } while (depth > 0);
  }

  std::string_view row_;
  size_t at_ = 0;
};

void print_rows(std::span<const JsonLine> lines) {
  if (lines.empty()) return;
  for (const JsonLine& line : lines) {
    std::string out = line.out.empty() ? json_line(line.value) : line.out;
    if (isatty(STDOUT_FILENO)) out = escape_json_controls(out);
    std::fwrite(out.data(), 1, out.size(), stdout);
    std::fputc('\n', stdout);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    fail(ExitCode::kHealthGuard, "standard output: writing failed; free space where it goes and run again");
}

/// A file, a pipe that has a name, or standard input ("-").
FileHandle open_input(const std::string& path) {
  if (path == "-") return FileHandle(::dup(STDIN_FILENO));
  std::error_code unseen;  // of a path that leads nowhere, which opening it finds
  const std::filesystem::file_status status = std::filesystem::status(path, unseen);
  if (std::filesystem::is_character_file(status) || std::filesystem::is_block_file(status))
    fail(ExitCode::kBadInput, path, ": is a device; give a file or a pipe, or use - for standard input");
  FileHandle file(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
  if (!file.is_open() && path.find('=') != std::string::npos)
    fail(ExitCode::kBadInput, path, ": this is a setting, not a file; the file of rows comes first, or - for ",
         "standard input");
  if (!file.is_open())
    fail(ExitCode::kBadInput, path,
         ": cannot be opened; check the path and its permissions, or use - for standard input");
  return file;
}

/// Works on all lines at once and prints each as soon as those before it are done, up to the first that failed: who is
/// stopped while one takes long has the others.
void finish_batch(std::vector<JsonLine>& lines, size_t threads, const std::function<void(JsonLine& line)>& work) {
  std::vector<std::exception_ptr> failures(lines.size());
  std::vector<bool> done(lines.size());
  size_t printed = 0;
  std::mutex mutex;
  const auto finished = [&](size_t i) {
    const std::scoped_lock lock(mutex);
    done[i] = true;
    const size_t begin = printed;
    while (printed < lines.size() && done[printed] && !failures[printed]) ++printed;
    print_rows(std::span(lines).subspan(begin, printed - begin));
  };
  parallel_for(lines.size(), threads, [&](size_t i) {
    try {
      if (stop_requested()) fail(ExitCode::kInterrupted, "stopped before ", lines[i].place);
      work(lines[i]);
    } catch (...) {
      failures[i] = std::current_exception();
    }
    finished(i);
  });
  const auto failed = std::find_if(failures.begin(), failures.end(), [](const auto& failure) { return bool(failure); });
  if (failed != failures.end()) std::rethrow_exception(*failed);
  lines.clear();
}

}  // namespace

std::string_view member_text(std::string_view row, std::string_view key) {
  for (const Member& member : MemberReader(row).run())
    if (member.key == key) return row.substr(member.begin, member.end - member.begin);
  return {};
}

std::string with_member(std::string_view row, std::string_view key, std::string_view value) {
  const std::vector<Member> members = MemberReader(row).run();
  std::string result(row);
  for (const Member& member : members)
    if (member.key == key) return result.replace(member.begin, member.end - member.begin, value);
  const bool is_spaced = !members.empty() && members.back().is_spaced;
  std::string addition = (members.empty() ? "" : is_spaced ? ", " : ",") + Json(key).dump() + (is_spaced ? ": " : ":");
  const size_t end = members.empty() ? result.find('{') + 1 : members.back().end;
  return result.insert(end, (addition += value));
}

void for_each_line(const std::string& path, size_t threads, bool keeps_digits,
                   const std::function<void(JsonLine& line)>& work) {
  const std::string name = path == "-" ? "standard input" : path;
  LineReader input = LineReader::of(open_input(path), name);
  std::vector<JsonLine> lines;
  size_t bytes = 0;
  std::string line;
  const auto has_line = [&] {
    try {
      return input.next(line, kMaxLine);
    } catch (const Error&) {
      finish_batch(lines, threads, work);  // the rows before are judged
      throw;
    }
  };
  for (uint64_t number = 1; has_line(); ++number) {
    const std::string place = name + ":" + std::to_string(number);
    if (line.size() > kMaxLine)
      fail(ExitCode::kBadInput, place, ": the line has more than ", kMaxLine, " bytes; no more are read");
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      lines.push_back({.value = read_row(line, place, keeps_digits), .number = number, .place = place, .text = line});
    } catch (const Error&) {
      finish_batch(lines, threads, work);  // the rows before a bad one are judged
      throw;
    }
    bytes += line.size();
    if (lines.size() < kBatchLines && bytes < kBatchBytes) continue;
    finish_batch(lines, threads, work);
    bytes = 0;
  }
  finish_batch(lines, threads, work);
}

}  // namespace keel::cli
