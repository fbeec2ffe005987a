#include "keel/data/open_dataset.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <unordered_set>

#include "keel/core/error.h"
#include "keel/core/files/hash.h"
#include "keel/data/dataset.h"
#include "keel/data/row_order.h"
#include "keel/data/row_prompt.h"

namespace keel {
namespace {

enum class RowSplit { kAll, kTraining, kHeldOut };

/// Decides by a hash of the question, so that equal questions stay together and the split does not depend on the seed.
bool is_held_out(const Json& question, double fraction) { return crc32c(question.dump()) < fraction * 0x1p32; }

/// Returns what decides whether a row is held out: the prompt, or a conversation up to the first assistant message.
Json held_out_key(const Example& example, RowKind kind) {
  if (kind == RowKind::kPrompts || !example.answer.is_null() || !example.prompt.is_array()) return example.prompt;
  const auto reply = std::find_if(example.prompt.begin(), example.prompt.end(),
                                  [](const Json& message) { return message["role"] == "assistant"; });
  return Json(Json::array_t(example.prompt.begin(), reply));
}

/// Converts a row to an item of the stream.
template <class Item>
struct RowEncoder {
  RowKind kind;
  const RowPrompts* prompts;                                       // kept alive by `encode`
  std::function<Item(Example example, uint64_t position)> encode;  // may throw BadRow
  std::function<size_t(const Item&)> length;                       // in tokens
  StreamNames names = {};

  bool supervised() const { return kind == RowKind::kSupervised; }
  bool misses_template(const Example& example) const {
    return (!supervised() || example.answer.is_string()) && prompts->misses_template(example);
  }
  bool is_chat(const Example& example) const {
    return (supervised() && example.answer.is_array()) || prompts->is_chat(example.prompt, example.place);
  }
};

template <class Item>
struct RowSource {
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<const RowEncoder<Item>> encoder;
  DataOptions options;
  std::optional<uint64_t> shuffle_seed;
  RowSplit part = RowSplit::kAll;
  std::string limit_name;

  std::variant<Item, SkippedRow> at(uint64_t position) const {
    try {
      Example example = dataset->read(row_at(position));
      const auto held_out = [&] { return is_held_out(held_out_key(example, encoder->kind), options.held_out); };
      if (part != RowSplit::kAll && held_out() != (part == RowSplit::kHeldOut))
        return SkippedRow{SkippedRow::Why::kOtherSplit, ""};
      const std::string place = example.place;
      Item item = encoder->encode(std::move(example), position);
      const size_t length = encoder->length(item), limit = static_cast<size_t>(options.max_prompt_tokens);
      if (limit == 0 || length <= limit) return item;
      return SkippedRow{SkippedRow::Why::kTooLong, place + ": " + encoder->names.item + " of " +
                                                       std::to_string(length) + " tokens; " + limit_name + " is " +
                                                       std::to_string(limit)};
    } catch (const BadRow& bad) {
      if (!options.skips_bad_rows()) fail(ExitCode::kBadInput, bad.what());
      return SkippedRow{SkippedRow::Why::kBad, bad.what(), bad.rows()};
    }
  }

  uint64_t row_at(uint64_t position) const {
    const uint64_t rows = dataset->rows(), index = position % rows;
    return shuffle_seed ? shuffled_row(*shuffle_seed, position / rows, index, rows) : index;
  }
};

template <class Item>
RowStream<Item> make_stream(RowSource<Item> source, bool repeats) {
  const uint64_t rows = source.dataset->rows();
  const StreamNames names = source.encoder->names;
  const auto shared = std::make_shared<const RowSource<Item>>(std::move(source));
  return RowStream<Item>([shared](uint64_t position) { return shared->at(position); }, rows, repeats, names);
}

/// Encodes row 0, so that an error that all rows have names the first row and not a random one.
template <class Item>
void check_first_row(const RowSource<Item>& source) {
  RowSource<Item> in_order = source;
  in_order.shuffle_seed = std::nullopt, in_order.part = RowSplit::kAll;
  if (!source.options.reads_rows_late()) in_order.at(0);
}

/// Returns whether the predicate holds for the first readable row of any file.
bool any_first_row(const Dataset& dataset, const std::function<bool(const Example&)>& predicate) {
  const std::vector<uint64_t> rows = dataset.first_rows();
  return std::any_of(rows.begin(), rows.end(), [&](uint64_t row) {
    try {
      return predicate(dataset.read(row));
    } catch (const BadRow&) {  // reported when the row is drawn
      return false;
    }
  });
}

template <class Item>
OpenedRows<Item> open_rows(const DataOptions& options, uint64_t seed, RowEncoder<Item> row_encoder,
                           const AnswerCheck& check, const std::string& limit) {
  const std::string& section = row_encoder.names.section;
  if (options.files.empty()) fail(ExitCode::kBadConfiguration, section, ".files is empty. Fix: name at least one file");
  const auto encoder = std::make_shared<const RowEncoder<Item>>(std::move(row_encoder));
  const std::optional<uint64_t> shuffle_seed = options.shuffle ? std::optional(seed) : std::nullopt;
  const bool splits = options.held_out > 0;

  const auto open = [&](const std::vector<std::string>& files) {
    return std::make_shared<const Dataset>(
        Dataset::open(files, options, check, encoder->prompts->text_description(), encoder->kind));
  };
  const auto dataset = open(options.files);
  const RowSource<Item> training{dataset, encoder, options, shuffle_seed, splits ? RowSplit::kTraining : RowSplit::kAll,
                                 limit};
  check_first_row(training);
  OpenedRows<Item> opened{.train = make_stream(training, true),
                          .held_out = std::nullopt,
                          .notes = dataset->notes(),
                          .misses_template = any_first_row(
                              *dataset, [&](const Example& example) { return encoder->misses_template(example); }),
                          .sources = dataset->sources(),
                          .identity = {.train = dataset->fingerprint(), .rows = dataset->rows()},
                          .eval_files = nullptr};
  const bool uses_template = any_first_row(*dataset, [&](const Example& example) { return encoder->is_chat(example); });
  if (const std::string note = encoder->prompts->template_note(uses_template); !note.empty())
    opened.notes.push_back(note);
  if (splits)
    opened.held_out =
        make_stream(RowSource<Item>{dataset, encoder, options, std::nullopt, RowSplit::kHeldOut, limit}, false);
  if (!options.eval_files.empty()) {
    const bool same = options.eval_files == options.files;
    const auto evaluation = same ? dataset : open(options.eval_files);
    opened.eval_files = evaluation;
    opened.identity.eval = evaluation->fingerprint();
    const std::unordered_set<size_t> training_hashes(dataset->prompt_hashes().begin(), dataset->prompt_hashes().end());
    for (const size_t hash : evaluation->prompt_hashes())
      opened.eval_rows_in_training += training_hashes.contains(hash) ? 1 : 0;
    for (const std::string& note : evaluation->notes())
      if (!same) opened.notes.push_back("eval_files: " + note);
    if (opened.sources && evaluation->sources())
      opened.sources->insert(evaluation->sources()->begin(), evaluation->sources()->end());
    opened.held_out =
        make_stream(RowSource<Item>{evaluation, encoder, options, std::nullopt, RowSplit::kAll, limit}, false);
  }
  return opened;
}

}  // namespace

OpenedDataset open_dataset(const DataOptions& options, uint64_t seed, const Tokenizer& tokenizer,
                           const ChatTemplates& templates, const AnswerCheck& check, const std::string& limit) {
  const auto prompts = std::make_shared<const RowPrompts>(PromptEncoder(tokenizer, templates), options);
  const auto encode = [prompts](Example example, uint64_t position) {
    return prompts->prompt(std::move(example), position);
  };
  const auto length = [](const Prompt& prompt) { return prompt.tokens.size(); };
  return open_rows<Prompt>(options, seed, {RowKind::kPrompts, prompts.get(), encode, length}, check, limit);
}

OpenedRows<SupervisedRow> open_supervised(const DataOptions& options, uint64_t seed, const SupervisedRows& given,
                                          const std::string& limit) {
  const auto rows = std::make_shared<const SupervisedRows>(given);
  const auto encode = [rows](const Example& example, uint64_t) { return rows->row(example); };
  const auto length = [](const SupervisedRow& row) { return row.max_length(); };
  return open_rows<SupervisedRow>(
      options, seed, {RowKind::kSupervised, &rows->prompts(), encode, length, {.item = "a sequence", .section = "sft"}},
      {}, limit);
}

}  // namespace keel
