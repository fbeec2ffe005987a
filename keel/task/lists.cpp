#include "keel/task/lists.h"

#include <algorithm>

#include "keel/task/final_answer.h"

namespace keel {
namespace {

constexpr std::array<ListsTask::Level, WorkedTask::kMaxDifficulty> kListLevels = {{
    {.operations = 1, .fewest_numbers = 3, .most_numbers = 4, .largest = 9, .completion = 48},
    {.operations = 1, .fewest_numbers = 4, .most_numbers = 6, .largest = 20, .completion = 80},
    {.operations = 2, .fewest_numbers = 4, .most_numbers = 6, .largest = 20, .completion = 140},
    {.operations = 3, .fewest_numbers = 5, .most_numbers = 7, .largest = 50, .completion = 250},
    {.operations = 5, .fewest_numbers = 6, .most_numbers = 9, .largest = 99, .completion = 520},
}};

constexpr const char* kReverseList = "reverse it";
constexpr const char* kSortList = "sort it from smallest to largest";
constexpr const char* kTotals = "replace every number by the sum of it and all numbers before it";
constexpr const char* kDouble = "double every number";
constexpr const char* kOdd = "keep only the odd numbers";
constexpr const char* kUnique = "remove numbers that occurred before";
constexpr const char* kAdd = "add ";
constexpr const char* kToEvery = " to every number";
constexpr const char* kDropOfList = "drop the first ";
constexpr const char* kNumbers = " numbers";
constexpr uint32_t kListKinds = 8;
constexpr size_t kShortestList = 2;  // numbers that are always left; five of the operations keep them all

using List = std::vector<int64_t>;

std::string text_of(const List& list) {
  std::string text = "[";
  for (size_t i = 0; i < list.size(); ++i) text += written(i == 0 ? "" : ", ", list[i]);
  return text + "]";
}

/// Applies operation number `kind` to the list and says what it does.
std::string apply(uint32_t kind, List& list, Draws& draws) {
  const int64_t number = between(draws, 2, 9);
  switch (kind) {
    case 0:
      std::reverse(list.begin(), list.end());
      return kReverseList;
    case 1:
      std::sort(list.begin(), list.end());
      return kSortList;
    case 2:
      for (size_t i = 1; i < list.size(); ++i) list[i] += list[i - 1];
      return kTotals;
    case 3:
      for (int64_t& value : list) value *= 2;
      return kDouble;
    case 4:
      for (int64_t& value : list) value += number;
      return written(kAdd, number, kToEvery);
    case 5:
      std::erase_if(list, [](int64_t value) { return value % 2 == 0; });
      return kOdd;
    case 6: {
      List unique;
      for (const int64_t value : list)
        if (std::find(unique.begin(), unique.end(), value) == unique.end()) unique.push_back(value);
      list = unique;
      return kUnique;
    }
    default: {
      const size_t some = 2 + static_cast<size_t>(number) % 2;
      list.erase(list.begin(), list.begin() + static_cast<long>(std::min(some, list.size())));
      return written(kDropOfList, some, kNumbers);
    }
  }
}

}  // namespace

ListsTask::ListsTask(const TaskOptions& options)
    : WorkedTask(level_at(kListLevels, options.difficulty).completion,
                 {"Start with the list [", "]: ", ". What is the result?", ", then ", ", ", "] -> [", kReverseList, kSortList,
                  kTotals, kDouble, kOdd, kUnique, kAdd, kToEvery, kDropOfList, kNumbers}),
      level_(level_at(kListLevels, options.difficulty)) {}

Worked ListsTask::draw(Draws& draws) const {
  List list(static_cast<size_t>(between(draws, level_.fewest_numbers, level_.most_numbers)));
  for (int64_t& value : list) value = between(draws, 0, level_.largest);
  if (draws.below(2) == 0) list.back() = list[draws.below(static_cast<uint32_t>(list.size()))];  // for kUnique
  const std::string start = text_of(list);
  std::vector<std::string> operations;
  std::array<bool, kListKinds> used = {};
  Worked worked;
  while (static_cast<int64_t>(operations.size()) < level_.operations) {
    const uint32_t kind = draws.below(kListKinds);
    List next = list;
    const std::string operation = apply(kind, next, draws);
    if (used[kind] || next.size() < kShortestList) continue;
    used[kind] = true;
    operations.push_back(operation);
    worked.steps.push_back(written(text_of(list), " -> ", text_of(next)));
    list = next;
  }
  worked.identity = written(start, ": ", then_list(operations));
  worked.question = written("Start with the list ", worked.identity, ". What is the result?");
  worked.answer = list;
  worked.result = text_of(list);
  return worked;
}

bool ListsTask::accepts(const Json& answer, std::string_view text) const {
  if (!answer.is_array()) return false;
  const std::optional<List> values = literal_list(text, answer.size());
  return values && Json(*values) == answer;
}

std::string ListsTask::normal_form(std::string_view text) const {
  constexpr size_t kLongest = 1000;
  const std::optional<List> values = literal_list(text, kLongest);
  return values ? Json(*values).dump() : std::string(text);
}

}  // namespace keel
