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

/// Opened data files: streams to train and evaluate on.
template <class Item>
struct OpenedRows {
  RowStream<Item> train;                         // endless: epoch after epoch
  std::optional<RowStream<Item>> held_out;       // one pass in file order; none without eval_files and held_out
  std::vector<std::string> notes;                // to print: "read as: verl; ..."
  bool misses_template = false;                  // RowPrompts::misses_template()
  std::optional<std::set<std::string>> sources;  // of all rows, including eval_files; none if unknown
  DataIdentity identity;
  std::shared_ptr<const Dataset> eval_files;  // null without eval_files
  uint64_t eval_rows_in_training = 0;         // rows of eval_files whose prompts are also in the training files
};

using OpenedDataset = OpenedRows<Prompt>;

/// Prompt i depends only on the seed, i and the files. Errors: kBadInput for files, kBadConfiguration for options.
/// `limit` names the setting of options.max_prompt_tokens in messages.
OpenedDataset open_dataset(const DataOptions& options, uint64_t seed, const Tokenizer& tokenizer,
                           const ChatTemplates& templates, const AnswerCheck& check = {},
                           const std::string& limit = "data.max_prompt_tokens");

/// Opens supervised rows: options.answer_key is the completion's column, max_prompt_tokens the maximum sequence length.
OpenedRows<SupervisedRow> open_supervised(const DataOptions& options, uint64_t seed, const SupervisedRows& rows,
                                          const std::string& limit = "sft.max_tokens");

}  // namespace keel
