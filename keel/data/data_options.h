#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace keel {

class OptionTable;

/// The date that chat templates get: fixed, so that runs are reproducible.
inline constexpr const char* kTemplateDate = "2024-07-26";

/// Data files and their columns; part of the sections `data` and `sft`.
struct RowFiles {
  std::vector<std::string> files;
  std::vector<std::string> eval_files;
  double held_out = 0;
  std::string prompt_key;
  std::string answer_key;  // completion_key in section sft
  std::string text_key;    // section sft only
  void describe_files(OptionTable& table);
};

/// Section `data`: prompts from files. Without files a run trains on the built-in task.
struct DataOptions : RowFiles {
  std::string source_key;
  std::string chat = "auto";
  std::string system_prompt;
  std::vector<std::string> chat_template_kwargs;
  int64_t max_prompt_tokens = 0;
  bool shuffle = true;
  std::string bad_rows = "stop";

  bool skips_bad_rows() const { return bad_rows.starts_with("skip"); }
  bool reads_rows_late() const { return bad_rows.ends_with("_late"); }
  void describe(OptionTable& table);
};

}  // namespace keel
