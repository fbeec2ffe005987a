// Any bytes as the reply of a reward server or program, and as the tests in a prompt's answer: every completion gets a
// reward, none, or an error. Build and run: fuzz/README.md.
//
// The first byte is the number of completions.

#include <cstdint>
#include <cstdlib>
#include <stdexcept>

#include "keel/reward/functions/code_checks.h"
#include "keel/reward/functions/code_reward.h"
#include "keel/reward/functions/program_reward.h"
#include "keel/reward/programs/http_response.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

class Replies final : public keel::Channel {
 public:
  explicit Replies(std::string reply) : reply_(std::move(reply)) {}
  void exchange(const std::string&, const Accept& accept) override { accept(reply_); }

 private:
  std::string reply_;
};

void judge(const std::string& reply, size_t count) {
  const keel::Prompt prompt{};
  const std::vector<keel::RewardSample> samples(
      count, keel::RewardSample{.prompt = prompt, .completion = "x", .with_special_tokens = "x", .tokens = {}});
  const keel::Scores scores = keel::ProgramReward(std::make_unique<Replies>(reply))(samples);
  require(scores.rewards.size() == count);
  for (const auto& [place, reason] : scores.failures) require(place < count && !reason.empty());
}

void answer(std::string_view bytes, size_t count) {
  keel::HttpResponse response(1 << 20);
  try {
    const size_t half = bytes.size() / 2;
    if (!response.add(bytes.substr(0, half)) && !response.add(bytes.substr(half))) response.end();
    judge(response.body(), count);
  } catch (const keel::ChannelError&) {
  }
}

}  // namespace

namespace keel {

// Replaces the functions that start programs.
PythonSandbox::PythonSandbox(const std::string&, const SandboxLimits&) { std::abort(); }
SandboxRun PythonSandbox::run(std::string_view, std::string_view, double) const { std::abort(); }
CheckReport run_checks(const PythonSandbox&, std::string_view, const std::vector<Json>&) { std::abort(); }

}  // namespace keel

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t count = data[0] % 4 + 1;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  judge(text, count);
  answer(text, count);
  try {
    keel::read_code_tests(text);
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
