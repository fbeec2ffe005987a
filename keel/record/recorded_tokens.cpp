#include "keel/record/recorded_tokens.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <ranges>
#include <set>
#include <unordered_map>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/random.h"
#include "keel/record/tokens/token_reader.h"

namespace keel {
namespace {

constexpr int64_t kMaxUpdates = 4096;      // of a step; later ones are counted as the last
constexpr size_t kMaxListed = 20;          // rows of a table of blocked tokens
constexpr size_t kMaxLargest = 10;         // rows of the table of mismatches
constexpr size_t kMaxThresholds = 8;       // lines in a chart
constexpr size_t kMaxCompletion = 20'000;  // rows of one completion; further tokens are only counted
constexpr size_t kMaxTextBytes = 200;      // of one token
constexpr size_t kMaxTextsBytes = 1'500'000;
constexpr size_t kMaxPromptBytes = 3000, kMaxPromptsBytes = 400'000;

struct ShownColumn {
  const char* name;
  float TokenRow::*member;
};
// Columns for the details of a token. The page computes ratio, mu and pi from the logarithms.
constexpr std::array<ShownColumn, 10> kShownColumns{{{"log_mu", &TokenRow::log_mu},
                                                     {"log_pi", &TokenRow::log_pi},
                                                     {"divergence", &TokenRow::divergence},
                                                     {"threshold", &TokenRow::threshold},
                                                     {"advantage", &TokenRow::advantage},
                                                     {"coefficient", &TokenRow::coefficient},
                                                     {"weight", &TokenRow::weight},
                                                     {"entropy", &TokenRow::entropy},
                                                     {"log_recomputed", &TokenRow::log_recomputed},
                                                     {"log_reference", &TokenRow::log_reference}}};
const std::vector<std::string> kReadColumns{"step",      "update",    "prompt",      "rollout",        "position",
                                            "token_id",  "token",     "log_mu",      "log_pi",         "divergence",
                                            "threshold", "advantage", "coefficient", "weight",         "kept",
                                            "outside",   "entropy",   "reward",      "log_recomputed", "log_reference"};

/// |exp(a) - exp(b)|, computed as max * (1 - e^-|a-b|) without cancellation.
double probability_difference(double log_a, double log_b) {
  return std::exp(std::max(log_a, log_b)) * -std::expm1(-std::fabs(log_a - log_b));
}

/// Escapes and shortens a text for display.
std::string display_text(const std::string& text, size_t bytes) {
  return escape_controls(shorten(text, bytes), Newlines::kKeep);
}

/// Returns a maximum length per text: `length`, halved until all texts fit into `bytes`.
template <class Texts>
size_t find_length_limit(const Texts& texts, size_t length, size_t bytes) {
  constexpr size_t kMinLength = 12;
  const auto total = [&] {
    size_t sum = 0;
    for (const std::string& text : texts) sum += std::min(text.size(), length);
    return sum;
  };
  while (length > kMinLength && total() > bytes) length /= 2;
  return length;
}

}  // namespace

/// Accumulates statistics of all rows, and the rows of selected completions.
class LiveTokenRecords::Accumulator {
 public:
  explicit Accumulator(size_t max_rows) : max_rows_(max_rows) {
    for (const ShownColumn& column : kShownColumns) out_.rows.columns.push_back({column.name});
  }

  /// Starts a file with `rows` rows. A larger total may reduce the selected completions of all files.
  void begin_file(const std::filesystem::path& file, const Json& metadata, int64_t rows) {
    rows_ += static_cast<size_t>(rows);
    if (out_.rows.text.size() > 2 * max_rows_) drop_unselected();
    const auto value_of = [&](const char* name) { return metadata.contains(name) ? metadata[name] : Json(); };
    RecordedStep step;
    step.file = file;
    if (const Json value = value_of("step"); value.is_number_integer()) step.step = value.get<int64_t>();
    if (const Json value = value_of("method"); value.is_string()) step.method = value.get<std::string>();
    step.parameters = value_of("parameters");
    step.whole_batch = value_of("whole_batch") == true;
    prompts_of_file_.clear();
    if (const Json texts = value_of("prompts"); texts.is_object())  // older files have none
      for (const auto& [id, text] : texts.items()) prompts_of_file_.emplace(id, text.get<std::string>());
    out_.steps.push_back(std::move(step));
    has_completion_ = false;
  }

  void add(const TokenRow& row) {
    RecordedStep& step = out_.steps.back();
    ++step.rows;
    ++out_.tokens;
    out_.blocked += !row.kept;
    out_.outside += row.outside;
    if (row.advantage > 0 || row.advantage < 0) count_by_sign(row, row.advantage > 0 ? 0 : 1, step);
    out_.divergences.add(row.divergence, !row.kept);
    if (std::isfinite(row.threshold) && thresholds_.size() < kMaxThresholds) thresholds_.insert(row.threshold);
    add_mismatch(row);
    add_to_completion(row);
  }

  /// Records an error of a file. `file_begun`: begin_file() was called for it.
  void add_damage(const std::string& what, bool file_begun) {
    const bool has_rows = file_begun && out_.steps.back().rows > 0;
    if (file_begun) out_.steps.back().is_complete = false;
    out_.damage.push_back(what + (has_rows ? " (earlier rows are shown)" : ""));
  }

  RecordedTokens tokens() {
    drop_unselected();
    RecordedTokens out = out_;
    for (size_t sign = 0; sign < 2; ++sign) {
      out.most_blocked[sign] = most_affected(sums_by_sign_[sign], &TokenSums::blocked);
      out.most_outside[sign] = most_affected(sums_by_sign_[sign], &TokenSums::outside);
    }
    out.thresholds.assign(thresholds_.begin(), thresholds_.end());
    out.mismatch = mismatch();
    out.rows.texts = shortened_texts();
    add_prompts(out.rows);
    std::erase_if(out.rows.columns, [](const RecordedRows::Column& column) {
      return std::ranges::all_of(column.values, [](float value) { return std::isnan(value); });
    });
    out.was_read = true;
    return out;
  }

 private:
  /// Sums for a vocabulary token with one sign of advantage.
  struct TokenSums {
    std::string text;
    int64_t total = 0;
    struct Totals {
      int64_t count = 0, entropies = 0;
      double mu = 0, entropy = 0;
    } blocked, outside;
  };

  using TokenSumsById = std::unordered_map<int32_t, TokenSums>;

  static void add_to(TokenSums::Totals& totals, const TokenRow& row) {
    ++totals.count;
    totals.mu += std::exp(double{row.log_mu});
    if (!std::isfinite(row.entropy)) return;
    ++totals.entropies;
    totals.entropy += row.entropy;
  }

  static std::vector<AffectedToken> most_affected(const TokenSumsById& sums_by_id, TokenSums::Totals TokenSums::*kind) {
    std::vector<std::pair<int32_t, const TokenSums*>> affected;
    for (const auto& [id, token_sums] : sums_by_id)
      if ((token_sums.*kind).count > 0) affected.emplace_back(id, &token_sums);
    const auto precedes = [&](const auto& a, const auto& b) {
      const int64_t first = (a.second->*kind).count, second = (b.second->*kind).count;
      return first != second ? first > second : a.first < b.first;
    };
    const size_t count = std::min(affected.size(), kMaxListed);
    std::partial_sort(affected.begin(), affected.begin() + static_cast<long>(count), affected.end(), precedes);
    std::vector<AffectedToken> result;
    for (size_t i = 0; i < count; ++i) {
      const TokenSums& token_sums = *affected[i].second;
      const TokenSums::Totals& totals = token_sums.*kind;
      result.push_back({token_sums.text, token_sums.total, totals.count, totals.mu / static_cast<double>(totals.count),
                        totals.entropies > 0 ? totals.entropy / static_cast<double>(totals.entropies)
                                             : std::numeric_limits<double>::quiet_NaN()});
    }
    return result;
  }

  void count_by_sign(const TokenRow& row, size_t sign, RecordedStep& step) {
    const auto update = static_cast<size_t>(std::clamp<int64_t>(row.update, 0, kMaxUpdates - 1));
    if (out_.by_update.size() <= update) out_.by_update.resize(update + 1);
    for (TokenCounts* counts : {&step.counts[sign], &out_.by_update[update][sign]}) {
      ++counts->tokens;
      counts->blocked += !row.kept;
      counts->outside += row.outside;
    }
    TokenSums& token_sums = sums_by_sign_[sign][row.token_id];
    if (token_sums.total++ == 0) token_sums.text = display_text(row.token, kMaxTextBytes);
    if (!row.kept) add_to(token_sums.blocked, row);
    if (row.outside) add_to(token_sums.outside, row);
  }

  void add_mismatch(const TokenRow& row) {
    const bool recomputed = std::isfinite(row.log_recomputed);
    if (recomputed) record_mismatch(recomputed_, row, row.log_recomputed);
    if (row.update == 0) record_mismatch(first_update_, row, row.log_pi);
  }

  static void record_mismatch(RecordedMismatch& mismatch, const TokenRow& row, float log_p) {
    const double size = probability_difference(log_p, row.log_mu);
    if (std::isnan(size)) return;
    mismatch.differences.add(size);
    const auto larger = [](const RecordedMismatch::Token& a, const RecordedMismatch::Token& b) {
      return std::fabs(a.p - a.mu) > std::fabs(b.p - b.mu);
    };
    RecordedMismatch::Token token{
        row.step, row.rollout, row.position, "", std::exp(double{row.log_mu}), std::exp(double{log_p})};
    if (mismatch.largest.size() == kMaxLargest && !larger(token, mismatch.largest.back())) return;
    token.text = display_text(row.token, kMaxTextBytes);
    mismatch.largest.insert(std::ranges::upper_bound(mismatch.largest, token, larger), std::move(token));
    if (mismatch.largest.size() > kMaxLargest) mismatch.largest.pop_back();
  }

  RecordedMismatch mismatch() const {
    using Source = RecordedMismatch::Source;
    const bool is_recomputed = recomputed_.differences.count > 0;
    RecordedMismatch best = is_recomputed ? recomputed_ : first_update_;
    if (best.differences.count > 0) best.source = is_recomputed ? Source::kRecomputed : Source::kFirstUpdate;
    return best;
  }

  /// Returns whether the page includes a completion. The fraction of completions falls with the number of rows.
  bool is_selected(int64_t rollout) const {
    if (rows_ <= max_rows_) return true;
    const double fraction = static_cast<double>(max_rows_) / static_cast<double>(rows_);
    return RandomSequence(0, Stream::kTokenRecords, static_cast<uint64_t>(rollout)).uniform() < fraction;
  }

  /// Removes completions that were selected while there were fewer rows.
  void drop_unselected() {
    RecordedRows& rows = out_.rows;
    std::vector<const std::string*> text_at(texts_.size());
    for (const auto& [text, index] : texts_) text_at[index] = &text;
    std::unordered_map<std::string, uint32_t> texts;
    std::vector<RecordedCompletion> completions;
    size_t to = 0;
    for (RecordedCompletion completion : rows.completions) {
      if (!is_selected(completion.rollout)) continue;
      const size_t first = std::exchange(completion.first, to);
      for (size_t from = first; from < first + completion.rows; ++from, ++to) {
        for (RecordedRows::Column& column : rows.columns) column.values[to] = column.values[from];
        rows.kept[to] = rows.kept[from];
        rows.outside[to] = rows.outside[from];
        rows.text[to] = texts.emplace(*text_at[rows.text[from]], static_cast<uint32_t>(texts.size())).first->second;
      }
      completions.push_back(completion);
    }
    for (RecordedRows::Column& column : rows.columns) column.values.resize(to);
    rows.kept.resize(to);
    rows.outside.resize(to);
    rows.text.resize(to);
    rows.completions = std::move(completions);
    texts_ = std::move(texts);
    std::set<PromptKey> used;
    for (const RecordedCompletion& completion : rows.completions) used.emplace(completion.step, completion.prompt);
    std::erase_if(prompts_, [&](const auto& prompt) { return !used.contains(prompt.first); });
  }

  void begin_completion(const TokenRow& row) {
    out_.rows.completions.push_back(
        {row.step, row.update, row.prompt, row.rollout, row.reward, out_.rows.text.size(), 0, 0});
    if (const auto text = prompts_of_file_.find(std::to_string(row.prompt)); text != prompts_of_file_.end())
      prompts_.emplace(PromptKey(row.step, row.prompt), text->second);
  }

  void add_to_completion(const TokenRow& row) {
    if (!has_completion_ || row.rollout != rollout_ || row.update != update_) {
      has_completion_ = true;
      rollout_ = row.rollout;
      update_ = row.update;
      ++out_.completions;
      is_selected_ = is_selected(rollout_);
      if (is_selected_) begin_completion(row);
    }
    if (!is_selected_) return;
    RecordedCompletion& completion = out_.rows.completions.back();
    ++completion.tokens;
    if (completion.rows == kMaxCompletion) return;
    ++completion.rows;
    for (size_t c = 0; c < kShownColumns.size(); ++c)
      out_.rows.columns[c].values.push_back(row.*kShownColumns[c].member);
    out_.rows.kept.push_back(row.kept);
    out_.rows.outside.push_back(row.outside);
    out_.rows.text.push_back(texts_.emplace(row.token, static_cast<uint32_t>(texts_.size())).first->second);
  }

  std::vector<std::string> shortened_texts() const {
    const size_t length = find_length_limit(std::views::keys(texts_), kMaxTextBytes, kMaxTextsBytes);
    std::vector<std::string> shortened(texts_.size());
    for (const auto& [text, index] : texts_) shortened[index] = display_text(text, length);
    return shortened;
  }

  void add_prompts(RecordedRows& rows) const {
    const size_t length = find_length_limit(std::views::values(prompts_), kMaxPromptBytes, kMaxPromptsBytes);
    std::map<PromptKey, int64_t> indices;
    for (const auto& [key, text] : prompts_) {
      indices.emplace(key, std::ssize(rows.prompts));
      rows.prompts.push_back(display_text(text, length));
    }
    for (RecordedCompletion& completion : rows.completions)
      if (const auto found = indices.find({completion.step, completion.prompt}); found != indices.end())
        completion.prompt_index = found->second;
  }

  RecordedTokens out_;
  size_t max_rows_, rows_ = 0;  // of a page; of all files
  std::array<TokenSumsById, 2> sums_by_sign_;
  std::set<double> thresholds_;
  RecordedMismatch recomputed_, first_update_;
  std::unordered_map<std::string, uint32_t> texts_;
  using PromptKey = std::pair<int64_t, int64_t>;  // step and id
  std::map<PromptKey, std::string> prompts_;      // of selected completions
  std::unordered_map<std::string, std::string> prompts_of_file_;
  bool has_completion_ = false, is_selected_ = false;
  int64_t rollout_ = 0, update_ = 0;
};

/// The record of a step with its size and time when it was read.
struct LiveTokenRecords::File {
  std::filesystem::path path;
  uintmax_t size = 0;
  std::filesystem::file_time_type modified = {};
  bool operator==(const File&) const = default;

  static File at(const std::filesystem::path& path) {
    std::error_code ignored;  // reading a removed file fails later
    return {path, std::filesystem::file_size(path, ignored), std::filesystem::last_write_time(path, ignored)};
  }

  /// Adds the rows and errors of the file. Returns the number of rows.
  int64_t read_into(Accumulator& accumulator) const {
    bool file_begun = false;
    int64_t count = 0;
    try {
      TokenReader reader(path, kReadColumns);
      count = reader.rows();
      accumulator.begin_file(path, reader.metadata(), count);
      file_begun = true;
      for (std::vector<TokenRow> rows = reader.next(); !rows.empty(); rows = reader.next())
        for (const TokenRow& row : rows) accumulator.add(row);
    } catch (const Error& error) {
      if (error.code() == ExitCode::kHealthGuard) throw;
      accumulator.add_damage(error.what(), file_begun);
    }
    return count;
  }
};

LiveTokenRecords::LiveTokenRecords(std::filesystem::path run, size_t max_rows)
    : run_(std::move(run)), max_rows_(max_rows) {
  reset();
}
LiveTokenRecords::~LiveTokenRecords() = default;
LiveTokenRecords::LiveTokenRecords(LiveTokenRecords&&) noexcept = default;
LiveTokenRecords& LiveTokenRecords::operator=(LiveTokenRecords&&) noexcept = default;

void LiveTokenRecords::reset() {
  accumulator_ = std::make_unique<Accumulator>(max_rows_);
  read_files_.clear();
}

bool LiveTokenRecords::read_new_files(int64_t rows) {
  std::vector<File> files;
  for (const std::filesystem::path& path : token_files(run_)) files.push_back(File::at(path));
  bool changed =
      files.size() < read_files_.size() || !std::equal(read_files_.begin(), read_files_.end(), files.begin());
  if (changed) reset();
  try {
    for (; rows > 0 && read_files_.size() < files.size(); changed = true) {
      rows -= files[read_files_.size()].read_into(*accumulator_);
      read_files_.push_back(files[read_files_.size()]);
    }
  } catch (...) {
    reset();  // the current file was added partially
    throw;
  }
  pending_files_ = static_cast<int64_t>(files.size() - read_files_.size());
  return changed;
}

RecordedTokens LiveTokenRecords::tokens() {
  RecordedTokens tokens = accumulator_->tokens();
  tokens.pending_steps = pending_files_;
  return tokens;
}

RecordedTokens read_recorded_tokens(const std::filesystem::path& run, size_t max_rows) {
  LiveTokenRecords records(run, max_rows);
  records.read_new_files(std::numeric_limits<int64_t>::max());
  return records.tokens();
}

void LogHistogram::add(double value, bool is_blocked) {
  if (std::isnan(value)) return;
  ++count;
  if (std::isinf(value)) {
    ++infinite;
    return;
  }
  sum += value;
  largest = std::max(largest, value);
  if (value <= 0) {
    ++zero;
    return;
  }
  const double bin = std::floor((std::log10(value) - kFirstDecade) * kPerDecade);
  ++(is_blocked ? blocked : kept)[static_cast<size_t>(std::clamp(bin, 0.0, static_cast<double>(kBins - 1)))];
}

double LogHistogram::lower_edge(size_t index) {
  return std::pow(10.0, kFirstDecade + static_cast<double>(index) / kPerDecade);
}

}  // namespace keel
