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
#include "keel/core/files/retry_on_eintr.h"
#include "keel/core/interrupt.h"
#include "keel/core/parallel.h"

namespace keel::cli {
namespace {

constexpr size_t kMaxLine = size_t{64} << 20, kBatchLines = 1024, kBatchBytes = size_t{64} << 20;

Json read_row(const std::string& line, const std::string& location) {
  Json row;
  try {
    row = parse_json(line, {.depth = kDataDepth, .repeated_keys = false, .exact = true});
  } catch (const JsonParseError& error) {
    fail(ExitCode::kBadInput, location, ": ", error.what(), "; expected one object per line");
  }
  if (!row.is_object()) fail(ExitCode::kBadInput, location, ": got ", row.type_name(), "; expected an object");
  return row;
}

void print_rows(std::span<const JsonLine> lines) {
  if (lines.empty()) return;
  for (const JsonLine& line : lines) {
    std::string out = json_line(line.value);
    if (isatty(STDOUT_FILENO)) out = escape_json_controls(out);
    std::fwrite(out.data(), 1, out.size(), stdout);
    std::fputc('\n', stdout);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    fail(ExitCode::kHealthGuard, "standard output: writing failed; free space where it goes and run again");
}

/// Opens a file, a named pipe, or standard input ("-").
FileHandle open_input(const std::string& path) {
  if (path == "-") return FileHandle(::dup(STDIN_FILENO));
  std::error_code ignored;  // open() reports a missing file
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_character_file(status) || std::filesystem::is_block_file(status))
    fail(ExitCode::kBadInput, path, ": is a device; use a file or a pipe, or - for standard input");
  FileHandle file(retry_on_eintr([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
  if (!file.is_open() && path.find('=') != std::string::npos)
    fail(ExitCode::kBadInput, path, ": is a setting, not a file; put the file first, or - for standard input");
  if (!file.is_open())
    fail(ExitCode::kBadInput, path,
         ": cannot be opened; check the path and its permissions, or use - for standard input");
  return file;
}

/// Processes the lines in parallel and prints each as soon as all before it are done, up to the first failure.
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
      if (stop_requested()) fail(ExitCode::kInterrupted, "stopped before ", lines[i].location);
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

void for_each_line(const std::string& path, size_t threads, const std::function<void(JsonLine& line)>& work) {
  const std::string name = path == "-" ? "standard input" : path;
  LineReader input = LineReader::of(open_input(path), name);
  std::vector<JsonLine> lines;
  size_t bytes = 0;
  std::string line;
  const auto read_line = [&] {
    try {
      return input.next(line, kMaxLine);
    } catch (const Error&) {
      finish_batch(lines, threads, work);  // processes the rows before the error
      throw;
    }
  };
  for (uint64_t number = 1; read_line(); ++number) {
    const std::string location = name + ":" + std::to_string(number);
    if (line.size() > kMaxLine)
      fail(ExitCode::kBadInput, location, ": the line has more than ", kMaxLine, " bytes, the maximum");
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      lines.push_back({.value = read_row(line, location), .number = number, .location = location});
    } catch (const Error&) {
      finish_batch(lines, threads, work);  // processes the rows before the invalid one
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
