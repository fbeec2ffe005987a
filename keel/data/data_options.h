#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace keel {

class OptionTable;

/// Which rows of which files, and the columns that hold what is read; sections `data` and `sft` have them.
struct RowFiles {
  std::vector<std::string> files;
  std::vector<std::string> eval_files;
  double held_out = 0;
  std::string prompt_key;
  std::string answer_key;  // in section sft completion_key
  std::string text_key;    // in section sft alone
  void describe_files(OptionTable& table);
};

/// Section `data`: prompts out of files. Without files a run trains on the built-in task.
struct DataOptions : RowFiles {
  std::string source_key;
  std::string chat = "auto";
  std::string system_prompt;
  bool special_tokens = true;
  std::string date = "2024-07-26";
  std::vector<std::string> template_words;
  int64_t max_prompt_tokens = 0;
  bool shuffle = true;
  std::string bad_rows = "stop";
  bool check = true;
  void describe(OptionTable& table);
};

}  // namespace keel
