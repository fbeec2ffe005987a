#include "keel/task/worked_task.h"

#include "keel/core/error.h"
#include "keel/task/character_tokenizer.h"
#include "keel/task/final_answer.h"

namespace keel {
namespace {

constexpr const char* kInstruction = "\nEnd with \"####\" and the answer.\n";
constexpr const char* kMark = "#### ";
constexpr uint32_t kHeldOutPart = 8;
constexpr int kMaxDraws = 2000;  // each is held out with probability 1/8; only a broken hash can reach this

Problem problem_of(const Worked& worked) { return {worked.question + kInstruction, worked.answer}; }

}  // namespace

Split split_of(std::string_view identity) {
  // Changing the key would move problems between the splits of published numbers.
  constexpr uint32_t kKey0 = 0x6B65656C, kKey1 = 0x73706C74;
  PhiloxBlock state = {{0, 0, 0, static_cast<uint32_t>(identity.size())}};
  for (const char c : identity) {
    state.word[2] ^= static_cast<unsigned char>(c);
    state = philox(state, kKey0, kKey1);
  }
  return state.word[0] % kHeldOutPart == 0 ? Split::kHeldOut : Split::kTrain;
}

WorkedTask::WorkedTask(int64_t completion_limit, std::vector<std::string> phrases)
    : completion_limit_(completion_limit), phrases_(std::move(phrases)) {
  phrases_.insert(phrases_.end(), {kInstruction, kMark});
}

Worked WorkedTask::draw(Draws& draws, Split split) const {
  for (int attempt = 0; attempt < kMaxDraws; ++attempt) {
    Worked worked = draw(draws);
    if (split_of(worked.identity) == split) return worked;
  }
  fail(ExitCode::kInternal, "no problem of this split in ", kMaxDraws, " draws");
}

Problem WorkedTask::problem(uint64_t seed, uint64_t index, Split split) const {
  Draws draws(seed, Stream::kTaskProblems, index);
  return problem_of(draw(draws, split));
}

Demonstration WorkedTask::demonstrate(uint64_t seed, uint64_t index, bool) const {
  Draws draws(seed, Stream::kDemonstrations, index);
  const Worked worked = draw(draws, Split::kTrain);
  std::string completion;
  for (const std::string& step : worked.steps) completion += written(step, '\n');
  completion += written(kMark, worked.result, kStopWord);
  return {problem_of(worked), completion};
}

double WorkedTask::check(const Problem& problem, std::string_view completion) const {
  return accepts(problem.answer, final_answer(completion)) ? 1 : 0;
}

std::string WorkedTask::answer(std::string_view completion) const { return normal_form(final_answer(completion)); }

Tokenizer WorkedTask::tokenizer() const { return character_tokenizer(phrases_); }

void check_difficulty(int64_t difficulty) {
  if (difficulty < 1 || difficulty > WorkedTask::kMaxDifficulty)
    fail(ExitCode::kBadConfiguration, "task.difficulty is ", difficulty, "; wanted 1 to ", WorkedTask::kMaxDifficulty);
}

bool is_integer(const Json& answer, std::string_view text) {
  const std::optional<int64_t> value = literal_integer(text);
  return value && answer.is_number_integer() && answer.get<int64_t>() == *value;
}

std::string IntegerTask::normal_form(std::string_view text) const {
  const std::optional<int64_t> value = literal_integer(text);
  return value ? std::to_string(*value) : std::string(text);
}

int64_t between(Draws& draws, int64_t low, int64_t high) {
  return low + draws.below(static_cast<uint32_t>(high - low + 1));
}

std::string draw_word(Draws& draws, int64_t syllables) {
  constexpr std::string_view kConsonants = "bdfglmnprst", kVowels = "aeiou";
  std::string word;
  for (int64_t i = 0; i < syllables; ++i) {
    word += kConsonants[draws.below(kConsonants.size())];
    word += kVowels[draws.below(kVowels.size())];
  }
  return word;
}

std::string calculation(int64_t left, char op, int64_t right, int64_t result) {
  return written(left, " ", op, " ", right, " = ", result);
}

std::string then_list(const std::vector<std::string>& steps) {
  std::string text;
  for (const std::string& step : steps) text += written(text.empty() ? "" : ", then ", step);
  return text;
}

}  // namespace keel
