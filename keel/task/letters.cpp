#include "keel/task/letters.h"

namespace keel {
namespace {

constexpr std::array<LettersTask::Level, WorkedTask::kMaxDifficulty> kLettersLevels = {{
    {.words = 1, .fewest_syllables = 2, .most_syllables = 3, .completion = 28},
    {.words = 1, .fewest_syllables = 4, .most_syllables = 5, .completion = 44},
    {.words = 2, .fewest_syllables = 3, .most_syllables = 4, .completion = 66},
    {.words = 3, .fewest_syllables = 3, .most_syllables = 5, .completion = 120},
    {.words = 5, .fewest_syllables = 3, .most_syllables = 6, .completion = 240},
}};

constexpr uint32_t kAbsentPart = 8;  // one question in eight is about a letter of the alphabet, which may not be there

}  // namespace

LettersTask::LettersTask(const TaskOptions& options)
    : IntegerTask(level_at(kLettersLevels, options.difficulty).completion,
                  {"How many times does the letter \"", "\" appear in \"", "\"?"}),
      level_(level_at(kLettersLevels, options.difficulty)) {}

Worked LettersTask::draw(Draws& draws) const {
  std::string letters, text;
  for (int64_t i = 0; i < level_.words; ++i) {
    const std::string word = draw_word(draws, between(draws, level_.fewest_syllables, level_.most_syllables));
    letters += word;
    text += written(i == 0 ? "" : " ", word);
  }
  const char letter = draws.below(kAbsentPart) == 0 ? static_cast<char>('a' + draws.below(26))
                                                    : letters[draws.below(static_cast<uint32_t>(letters.size()))];
  Worked worked;
  int64_t count = 0;
  std::string spelled;
  for (const char c : letters) {
    count += c == letter ? 1 : 0;
    spelled += written(spelled.empty() ? "" : " ", c, count);
  }
  worked.question = written("How many times does the letter \"", letter, "\" appear in \"", text, "\"?");
  worked.identity = written(letter, " ", text);
  worked.steps = {spelled};
  worked.answer = count;
  worked.result = std::to_string(count);
  return worked;
}

}  // namespace keel
