#include "keel/data/data_options.h"

#include "keel/core/options/options.h"

namespace keel {

void RowFiles::describe_files(OptionTable& table) {
  table.add("files", files,
            "Training files: JSON lines, JSON lists, CSV (plain, gzip, zstd) or Parquet; names may contain * and ?. "
            "Empty: the built-in task.");
  table.add("eval_files", eval_files, "Evaluation files, read in order.");
  table.add("held_out", held_out,
            "Fraction of the rows of `files` that is held out for evaluation, chosen by a hash of the prompt.",
            at_least(0).below(1));
  table.add("prompt_key", prompt_key,
            "Column of the prompt, a text or a conversation. Empty: detected. a.b is the field b of column a.");
}

void DataOptions::describe(OptionTable& table) {
  describe_files(table);
  table.add("answer_key", answer_key, "Column of the reference answer for the reward. Empty: detected.");
  table.add("source_key", source_key, "Column with the name of a row's data source. Empty: detected.");
  table.add(
      "chat", chat,
      "Which prompts go through the model's chat template. auto: conversations, and texts if system_prompt is set. "
      "always: texts too, as the user's message. never: none; prompts must be texts.",
      one_of({"auto", "always", "never"}));
  table.add("system_prompt", system_prompt, "System message for conversations without one.");
  table.add("chat_template_kwargs", chat_template_kwargs,
            "Variables of the chat template, each as name=value: enable_thinking=false for Qwen3. A variable that the "
            "template does not use is an error.");
  table.add("max_prompt_tokens", max_prompt_tokens,
            "Prompts with more tokens are skipped and counted, never cut. 0: no limit.", at_least(0));
  table.add("shuffle", shuffle, "Shuffle the rows in each epoch, with run.seed. false: keep the order of the files.");
  table.add("bad_rows", bad_rows,
            "What to do with unusable rows: stop the run, or skip and count them. Every row is checked before the run "
            "starts; stop_late and skip_late check a row when it is drawn.",
            one_of({"stop", "skip", "stop_late", "skip_late"}));
}

}  // namespace keel
