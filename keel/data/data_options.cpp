#include "keel/data/data_options.h"

#include "keel/core/options/options.h"

namespace keel {

void RowFiles::describe_files(OptionTable& table) {
  table.add("files", files,
            "Files of rows to train on: JSON lines, JSON lists, CSV (plain, gzip, zstd) or Parquet; names may have * "
            "and ?. Without any, the built-in task.");
  table.add("eval_files", eval_files, "Files of rows for evaluation, in the order in which they stand.");
  table.add("held_out", held_out,
            "Share of the rows of files that is kept for evaluation and never trained on; a row's prompt decides.",
            at_least(0).below(1));
  table.add("prompt_key", prompt_key,
            "Column of the prompt, a text or a conversation; empty: recognised. a.b is b in a.");
}

void DataOptions::describe(OptionTable& table) {
  describe_files(table);
  table.add("answer_key", answer_key, "Column of the answer that the reward compares with; empty: recognised.");
  table.add("source_key", source_key, "Column that names where a row comes from; empty: recognised.");
  table.add("chat", chat,
            "Which prompts go through the model's chat template: auto: conversations, and texts where there is a "
            "system_prompt; always: a text becomes the user's message; never: texts only, as they are.",
            one_of({"auto", "always", "never"}));
  table.add("system_prompt", system_prompt, "Put in front of conversations that have no system message.");
  table.add("chat_template_kwargs", chat_template_kwargs,
            "What else the chat template is told, each as name=value: enable_thinking=false for Qwen3. One that the "
            "template does not know is refused.");
  table.add("max_prompt_tokens", max_prompt_tokens,
            "Longer prompts are left out and counted, never cut; 0 means no limit.", at_least(0));
  table.add("shuffle", shuffle, "Another order in each pass, from run.seed; false: as the rows stand.");
  table.add(
      "bad_rows", bad_rows,
      "What a row that cannot be used does: stop the run, or be skipped and counted. Every row is read before the "
      "run starts; with stop_late and skip_late a bad row is found when it is drawn.",
      one_of({"stop", "skip", "stop_late", "skip_late"}));
}

}  // namespace keel
