#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "keel/core/data_identity.h"
#include "keel/data/data_options.h"
#include "keel/data/dataset.h"
#include "keel/data/prompt_stream.h"
#include "keel/data/supervised_rows.h"
#include "libs/hftext/chat/chat_template.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

/// What the rows of files give, to train and to evaluate on.
template <class Item>
struct OpenedRows {
  RowStream<Item> train;                         // endless, a pass over all rows after the other
  std::optional<RowStream<Item>> held_out;       // one pass, in the files' order; none without eval_files and held_out
  std::vector<std::string> notes;                // to print: "read as: verl; ..."
  bool misses_template = false;                  // RowPrompts::misses_template()
  std::optional<std::set<std::string>> sources;  // of all rows, those of eval_files too; nothing: not known
  DataIdentity identity;
  std::shared_ptr<const Dataset> eval_files;     // none without
  uint64_t eval_rows_in_training = 0;                       // rows of eval_files whose prompts the training files have as well
};

using OpenedDataset = OpenedRows<Prompt>;

/// The i-th prompt depends on the seed, i and the files alone. Errors: kBadInput for files, kBadConfiguration for
/// options. `limit` says where options.max_prompt_tokens comes from, if not from the configuration.
OpenedDataset open_dataset(const DataOptions& options, uint64_t seed, const Tokenizer& tokenizer,
                           const ChatTemplates& templates, const AnswerCheck& check = {},
                           const std::string& limit = "data.max_prompt_tokens");

/// The same of rows to be imitated; options.answer_key is the completion's column, and max_prompt_tokens the longest
/// sequence.
OpenedRows<SupervisedRow> open_supervised(const DataOptions& options, uint64_t seed, const SupervisedRows& rows,
                                          const std::string& limit = "sft.max_tokens");

}  // namespace keel
