#include "keel/task/strings.h"

#include <algorithm>

namespace keel {
namespace {

constexpr std::array<StringsTask::Level, WorkedTask::kMaxDifficulty> kStringLevels = {{
    {.operations = 1, .fewest_syllables = 2, .most_syllables = 3, .completion = 44},
    {.operations = 1, .fewest_syllables = 3, .most_syllables = 5, .completion = 70},
    {.operations = 2, .fewest_syllables = 3, .most_syllables = 5, .completion = 120},
    {.operations = 3, .fewest_syllables = 4, .most_syllables = 6, .completion = 200},
    {.operations = 5, .fewest_syllables = 5, .most_syllables = 8, .completion = 420},
}};

constexpr const char* kReverseString = "reverse it";
constexpr const char* kSortString = "sort its letters alphabetically";
constexpr const char* kTwice = "write every letter twice";
constexpr const char* kSwap = "swap its first and last letters";
constexpr const char* kRemove = "remove every \"";
constexpr const char* kReplace = "replace every \"";
constexpr const char* kWith = "\" with \"";
constexpr const char* kDropOfString = "drop the first ";
constexpr const char* kMove = "move the first ";
constexpr const char* kLetters = " letters";
constexpr const char* kToTheEnd = " letters to the end";
constexpr uint32_t kStringKinds = 8;
constexpr size_t kShortestString = 3;  // letters that are always left; operations without drop and remove keep them

/// Applies operation number `kind` to the word and says what it does.
std::string apply(uint32_t kind, std::string& word, Draws& draws) {
  const char letter = word[draws.below(static_cast<uint32_t>(word.size()))];
  const int64_t some = between(draws, 2, std::min<int64_t>(4, static_cast<int64_t>(word.size()) - 1));
  switch (kind) {
    case 0:
      std::reverse(word.begin(), word.end());
      return kReverseString;
    case 1:
      std::sort(word.begin(), word.end());
      return kSortString;
    case 2: {
      std::string doubled;
      for (const char c : word) doubled.append(2, c);
      word = doubled;
      return kTwice;
    }
    case 3:
      std::swap(word.front(), word.back());
      return kSwap;
    case 4:
      std::erase(word, letter);
      return written(kRemove, letter, "\"");
    case 5: {
      const char other = static_cast<char>('a' + (letter - 'a' + 1 + draws.below(25)) % 26);
      std::replace(word.begin(), word.end(), letter, other);
      return written(kReplace, letter, kWith, other, "\"");
    }
    case 6:
      word.erase(0, static_cast<size_t>(some));
      return written(kDropOfString, some, kLetters);
    default:
      std::rotate(word.begin(), word.begin() + some, word.end());
      return written(kMove, some, kToTheEnd);
  }
}

}  // namespace

StringsTask::StringsTask(const TaskOptions& options)
    : WorkedTask(level_at(kStringLevels, options.difficulty).completion,
                 {"Start with \"", "\": ", ". What is the result?", ", then ", " -> ", kReverseString, kSortString, kTwice, kSwap,
                  kRemove, kReplace, kWith, kDropOfString, kMove, kLetters, kToTheEnd}),
      level_(level_at(kStringLevels, options.difficulty)) {}

Worked StringsTask::draw(Draws& draws) const {
  std::string word = draw_word(draws, between(draws, level_.fewest_syllables, level_.most_syllables));
  const std::string start = word;
  std::vector<std::string> operations;
  std::array<bool, kStringKinds> used = {};
  Worked worked;
  while (static_cast<int64_t>(operations.size()) < level_.operations) {
    const uint32_t kind = draws.below(kStringKinds);
    std::string next = word;
    const std::string operation = apply(kind, next, draws);
    if (used[kind] || next.size() < kShortestString) continue;
    used[kind] = true;
    operations.push_back(operation);
    worked.steps.push_back(written(word, " -> ", next));
    word = next;
  }
  worked.identity = written(start, ": ", then_list(operations));
  worked.question = written("Start with \"", start, "\": ", then_list(operations), ". What is the result?");
  worked.answer = word;
  worked.result = word;
  return worked;
}

bool StringsTask::accepts(const Json& answer, std::string_view text) const {
  return answer.is_string() && answer.get_ref<const std::string&>() == text;
}

}  // namespace keel
