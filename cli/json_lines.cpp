#include "cli/json_lines.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <mutex>
#include <set>
#include <span>

#include "keel/core/error.h"
#include "keel/core/interrupt.h"
#include "keel/core/json_file.h"
#include "keel/core/parallel.h"

namespace keel::cli {
namespace {

constexpr size_t kMaxLine = size_t{64} << 20, kBatchLines = 1024, kBatchBytes = size_t{64} << 20;

Json read_row(const std::string& line, const std::string& place) {
  std::set<std::string> keys;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1 && !keys.insert(parsed.get<std::string>()).second)
      fail(ExitCode::kBadInput, place, ": the key ", parsed.dump(), " stands twice in this row; keep one of them");
    return true;
  };
  Json row;
  try {
    row = Json::parse(line, watch);
  } catch (const Json::exception& error) {
    fail(ExitCode::kBadInput, place, ": not valid JSON (", error.what(), "); wanted one object per line");
  }
  if (!row.is_object()) fail(ExitCode::kBadInput, place, ": got ", row.type_name(), "; wanted an object");
  return row;
}

void print_rows(std::span<const JsonLine> lines) {
  if (lines.empty()) return;
  for (const JsonLine& line : lines) {
    const std::string out = json_line(line.value);
    std::fwrite(out.data(), 1, out.size(), stdout);
    std::fputc('\n', stdout);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    fail(ExitCode::kHealthGuard, "standard output: writing failed; free space where it goes and run again");
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

void for_each_line(const std::string& path, size_t threads, const std::function<void(JsonLine& line)>& work) {
  std::ifstream file;
  const bool is_standard_input = path == "-";
  if (!is_standard_input) {
    file.open(path, std::ios::binary);
    if (!file && path.find('=') != std::string::npos)
      fail(ExitCode::kBadInput, path, ": this is a setting, not a file; the file of rows comes first, or - for ",
           "standard input");
    if (!file)
      fail(ExitCode::kBadInput, path,
           ": cannot be opened; check the path and its permissions, or use - for standard input");
  }
  std::istream& input = is_standard_input ? std::cin : file;
  const std::string name = is_standard_input ? "standard input" : path;
  std::vector<JsonLine> lines;
  size_t bytes = 0;
  std::string line;
  for (uint64_t number = 1; std::getline(input, line); ++number) {
    const std::string place = name + ":" + std::to_string(number);
    if (line.size() > kMaxLine)
      fail(ExitCode::kBadInput, place, ": the line has ", line.size(), " bytes; at most ", kMaxLine, " are read");
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      lines.push_back({read_row(line, place), number, place});
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
  if (input.bad()) fail(ExitCode::kBadInput, name, ": reading failed; the rows before it were judged");
}

}  // namespace keel::cli
