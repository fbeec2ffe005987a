// The memory for reading a file does not depend on its size.

#include <gtest/gtest.h>

#include <fstream>

#include "keel/data/open_dataset.h"
#include "tests/data/data_support.h"

namespace keel {
namespace {

/// Returns the peak memory of the process in MB since start_peak().
double peak_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  return 0;
}

bool start_peak() { return static_cast<bool>(std::ofstream("/proc/self/clear_refs") << "5" << std::flush); }

TEST(Streaming, MemoryDoesNotGrowWithTheFile) {
  const char* variable = std::getenv("KEEL_STREAMING_MB");  // 2048: test a file of 2 GB
  const uint64_t megabytes = variable != nullptr ? std::stoull(variable) : 64;
  const TestFolder folder;
  const std::string path = (folder.path / "large.jsonl").string();
  {
    std::ofstream out(path, std::ios::binary);
    const std::string padding(900, 'x');
    for (uint64_t i = 0; i < megabytes * 1024; ++i)
      out << R"({"prompt": "number )" << i << R"(", "answer": )" << i << R"(, "note": ")" << padding << "\"}\n";
  }
  if (!start_peak()) GTEST_SKIP() << "the system does not let a process reset its peak memory";
  const double before = peak_megabytes();
  DataOptions options;
  options.files = {path};
  OpenedDataset data = open_dataset(options, 1, byte_tokenizer(), {});
  EXPECT_EQ(data.identity.rows, megabytes * 1024);
  for (int i = 0; i < 20; ++i)
    for (const Prompt& prompt : data.train.next(100))
      ASSERT_EQ(prompt.text, "number " + std::to_string(prompt.answer.get<uint64_t>()));
  EXPECT_LT(peak_megabytes() - before, 16);
}

}  // namespace
}  // namespace keel
