#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace keel {

class OptionTable;

/// Section `data`: prompts out of files. Without files a run trains on the built-in task.
struct DataOptions {
  std::vector<std::string> files;
  std::vector<std::string> eval_files;
  double held_out = 0;
  std::string prompt_key, answer_key, source_key;
  std::string text_key;  // of rows to be imitated, which section sft names
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
