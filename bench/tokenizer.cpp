// Encoding and decoding speed of a tokenizer on one core.
//
//   build/bench/bin/tokenizer [FOLDER [TEXT...]]
//
// FOLDER contains a tokenizer.json (default: GPT-2's, installed by tests/parity/tokenizer_parity_test.py). TEXT are
// files to encode line by line, like prompts (default: this program's source). bench/tokenizer_peer.py compares it with
// the Python package.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace {

/// Processor seconds of this process, which other programs affect less than wall time.
double now() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::vector<std::string> lines_of(const std::string& path) {
  const std::string text = keel::read_file(path);
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    lines.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return lines;
}

/// Seconds of the fastest of several calls that take at least a second in total.
template <class Work>
double fastest(const Work& work) {
  double best = 1e9, total = 0;
  for (int runs = 0; runs < 3 || total < 1; ++runs) {
    const double start = now();
    work();
    const double seconds = now() - start;
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

void measure(const keel::Tokenizer& tokenizer, const std::string& path) {
  const std::vector<std::string> lines = lines_of(path);
  std::vector<std::vector<int32_t>> ids(lines.size());
  const double encoding = fastest([&] {
    for (size_t i = 0; i < lines.size(); ++i) ids[i] = tokenizer.encode(lines[i]);
  });
  size_t bytes = 0, tokens = 0, decoded = 0;
  const double decoding = fastest([&] {
    decoded = 0;
    for (const auto& line : ids) decoded += tokenizer.decode(line).size();
  });
  for (size_t i = 0; i < lines.size(); ++i) bytes += lines[i].size(), tokens += ids[i].size();
  const double megabytes = static_cast<double>(bytes) / 1e6;
  std::printf("%s: %.2f MB, %zu lines, %zu tokens: encode %.1f MB/s, decode %.1f MB/s\n", path.c_str(), megabytes,
              lines.size(), tokens, megabytes / encoding, static_cast<double>(decoded) / 1e6 / decoding);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string folder = argc > 1 ? argv[1] : ".deps/peers/tokenizers/gpt2";
    if (argc <= 1 && !std::filesystem::exists(folder)) {
      std::printf("no tokenizer in %s; name a folder with a tokenizer.json\n", folder.c_str());
      return 0;
    }
    const double start = now();
    const keel::Tokenizer tokenizer = keel::Tokenizer::load(folder);
    std::printf("%s: %lld tokens, loaded in %.2f s\n", folder.c_str(), static_cast<long long>(tokenizer.size()),
                now() - start);
    if (argc <= 2) measure(tokenizer, "bench/tokenizer.cpp");
    for (int i = 2; i < argc; ++i) measure(tokenizer, argv[i]);
    return 0;
  } catch (const keel::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
