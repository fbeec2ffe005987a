#include "keel/data/open_dataset.h"

#include <memory>

#include "keel/core/error.h"
#include "keel/core/files/hash.h"
#include "keel/data/dataset.h"
#include "keel/data/row_order.h"
#include "keel/data/row_prompt.h"

namespace keel {
namespace {

enum class Part { kAll, kTraining, kHeldOut };

/// Whether a row is kept for evaluation: decided by its prompt alone, so that copies of it stay together and every seed
/// has the same ones.
bool is_held_out(const Json& prompt, double share) { return crc32c(prompt.dump()) < share * 4294967296.0; }

struct RowSource {
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<const RowPrompts> prompts;
  DataOptions options;
  std::optional<uint64_t> shuffle_seed;
  Part part = Part::kAll;
  std::string limit_name;

  std::variant<Prompt, SkippedRow> at(uint64_t position) const {
    try {
      Example example = dataset->read(row_at(position));
      if (part != Part::kAll && is_held_out(example.prompt, options.held_out) != (part == Part::kHeldOut))
        return SkippedRow{SkippedRow::Why::kOtherSplit, ""};
      const std::string place = example.place;
      Prompt prompt = prompts->prompt(std::move(example), position);
      const size_t length = prompt.tokens.size(), limit = static_cast<size_t>(options.max_prompt_tokens);
      if (limit == 0 || length <= limit) return prompt;
      return SkippedRow{SkippedRow::Why::kTooLong, place + ": a prompt of " + std::to_string(length) + " tokens; " +
                                                       limit_name + " is " + std::to_string(limit)};
    } catch (const BadRow& bad) {
      if (options.bad_rows != "skip") fail(ExitCode::kBadInput, bad.what());
      return SkippedRow{SkippedRow::Why::kBad, bad.what(), bad.rows()};
    }
  }

  uint64_t row_at(uint64_t position) const {
    const uint64_t rows = dataset->rows(), index = position % rows;
    return shuffle_seed ? shuffled_row(*shuffle_seed, position / rows, index, rows) : index;
  }
};

PromptStream stream_of(RowSource source, bool repeats) {
  const uint64_t rows = source.dataset->rows();
  const auto shared = std::make_shared<const RowSource>(std::move(source));
  return PromptStream([shared](uint64_t position) { return shared->at(position); }, rows, repeats);
}

/// Of a fault that all rows have the first row is told, and not the one that happens to be drawn first.
void try_first_row(const RowSource& source) {
  RowSource in_order = source;
  in_order.shuffle_seed = std::nullopt, in_order.part = Part::kAll;
  if (source.options.check) in_order.at(0);
}

/// As the first row does, if it can be read.
bool misses_template(const Dataset& dataset, const RowPrompts& prompts) {
  try {
    return prompts.misses_template(dataset.read(0));
  } catch (const BadRow&) {  // is told where it is met
    return false;
  }
}

}  // namespace

OpenedDataset open_dataset(const DataOptions& options, uint64_t seed, const Tokenizer& tokenizer,
                           const ChatTemplates& templates, const AnswerCheck& check, const std::string& limit) {
  if (options.files.empty()) fail(ExitCode::kBadConfiguration, "data.files is empty; name at least one file");
  if (options.held_out > 0 && !options.eval_files.empty())
    fail(ExitCode::kBadConfiguration, "data.held_out and data.eval_files both say what to evaluate on; drop one");
  const auto prompts = std::make_shared<const RowPrompts>(PromptEncoder(tokenizer, templates), options);
  const std::optional<uint64_t> shuffle_seed = options.shuffle ? std::optional(seed) : std::nullopt;
  const bool splits = options.held_out > 0;

  const std::string text = prompts->word_of_text();
  const auto dataset = std::make_shared<const Dataset>(Dataset::open(options.files, options, check, text));
  const RowSource training{dataset, prompts, options, shuffle_seed, splits ? Part::kTraining : Part::kAll, limit};
  try_first_row(training);
  OpenedDataset opened{.train = stream_of(training, true),
                       .held_out = std::nullopt,
                       .rows = dataset->rows(),
                       .notes = dataset->notes(),
                       .misses_template = misses_template(*dataset, *prompts),
                       .sources = dataset->sources(),
                       .fingerprint = dataset->fingerprint(),
                       .eval_fingerprint = "",
                       .eval_files = nullptr};
  if (splits) opened.held_out = stream_of({dataset, prompts, options, std::nullopt, Part::kHeldOut, limit}, false);
  if (!options.eval_files.empty()) {
    const bool same = options.eval_files == options.files;
    const auto evaluation =
        same ? dataset : std::make_shared<const Dataset>(Dataset::open(options.eval_files, options, check, text));
    opened.eval_files = evaluation;
    opened.eval_fingerprint = evaluation->fingerprint();
    for (const std::string& note : evaluation->notes())
      if (!same) opened.notes.push_back("eval_files: " + note);
    if (opened.sources && evaluation->sources())
      opened.sources->insert(evaluation->sources()->begin(), evaluation->sources()->end());
    opened.held_out = stream_of({evaluation, prompts, options, std::nullopt, Part::kAll, limit}, false);
  }
  return opened;
}

}  // namespace keel
