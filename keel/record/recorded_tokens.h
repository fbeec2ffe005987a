#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "keel/core/json.h"

namespace keel {

/// Counts of tokens, of those that the trust region blocks, and of those outside of it.
struct TokenCounts {
  int64_t tokens = 0, blocked = 0, outside = 0;
};
using CountsBySign = std::array<TokenCounts, 2>;  // A > 0, A < 0

/// A recorded step.
struct RecordedStep {
  int64_t step = 0, rows = 0;
  std::string method;
  Json parameters;           // of the method in this step
  bool whole_batch = false;  // all completions of the step are recorded
  CountsBySign counts = {};
  std::filesystem::path file = {};
  bool is_complete = true;  // all rows were readable
};

/// A histogram with eight logarithmic bins per decade.
struct LogHistogram {
  static constexpr int kFirstDecade = -10, kLastDecade = 3, kPerDecade = 8;
  static constexpr size_t kBins = (kLastDecade - kFirstDecade) * kPerDecade;
  std::array<int64_t, kBins> kept = {}, blocked = {};  // smaller values are in the first bin
  int64_t zero = 0, infinite = 0, count = 0;
  double sum = 0, largest = 0;  // of finite values

  void add(double value, bool is_blocked = false);
  static double lower_edge(size_t index);  // smallest value of a bin
};

/// A vocabulary token with one sign of advantage, and how often it was blocked or outside of the region.
struct AffectedToken {
  std::string text;
  int64_t total = 0, affected = 0;
  double mean_mu = 0, mean_entropy = 0;  // of the affected ones; NaN if unknown
};

/// |p - mu| between trainer and sampler at the sampling weights.
struct RecordedMismatch {
  enum class Source { kNone, kRecomputed, kFirstUpdate } source = Source::kNone;
  LogHistogram differences = {};
  struct Token {
    int64_t step = 0, rollout = 0;
    int32_t position = 0;
    std::string text;
    double mu = 0, p = 0;
  };
  std::vector<Token> largest = {};
};

/// A completion in an update. Its tokens are `rows` entries of the columns, starting at `first`.
struct RecordedCompletion {
  int64_t step = 0, update = 0, prompt = 0, rollout = 0;
  double reward = 0;
  size_t first = 0, rows = 0, tokens = 0;  // a page shows `rows` of `tokens` tokens
  int64_t prompt_index = -1;               // index in RecordedRows::prompts; -1: not recorded
};

/// Completions with all tokens, as many as fit on a page.
struct RecordedRows {
  struct Column {
    std::string name;
    std::vector<float> values = {};  // NaN: unknown
  };
  std::vector<RecordedCompletion> completions = {};
  std::vector<Column> columns = {};
  std::vector<uint32_t> text = {};  // index in `texts`
  std::vector<bool> kept = {}, outside = {};
  std::vector<std::string> texts = {};    // distinct, escaped for display
  std::vector<std::string> prompts = {};  // likewise for the prompts
};

/// Token records of a run: statistics of all rows, and the rows of some completions.
struct RecordedTokens {
  bool was_read = false;                 // false: the records were not read
  std::vector<std::string> damage = {};  // errors of unreadable files
  std::vector<RecordedStep> steps = {};
  std::vector<CountsBySign> by_update = {};  // over all steps, by the update's index in its step
  int64_t tokens = 0, blocked = 0, outside = 0;
  LogHistogram divergences = {};
  std::vector<double> thresholds = {};                          // distinct values, at most a few
  std::array<std::vector<AffectedToken>, 2> most_blocked = {};  // A > 0, A < 0; most frequent first
  std::array<std::vector<AffectedToken>, 2> most_outside = {};
  RecordedMismatch mismatch = {};
  RecordedRows rows = {};
  int64_t completions = 0;    // all recorded ones; rows.completions has some of them
  int64_t pending_steps = 0;  // records not read yet
};

inline constexpr size_t kMaxRecordedRows = 120'000;  // for all runs of a page

/// Reads the records of a run folder; empty if it has none. Reports damaged files in `damage` and skips them. If there
/// are more than `max_rows` rows, keeps a subset of completions that depends only on their ids.
RecordedTokens read_recorded_tokens(const std::filesystem::path& run, size_t max_rows = kMaxRecordedRows);

/// Reads the records of a running run incrementally.
class LiveTokenRecords {
 public:
  LiveTokenRecords(std::filesystem::path run, size_t max_rows);
  ~LiveTokenRecords();
  LiveTokenRecords(LiveTokenRecords&&) noexcept;
  LiveTokenRecords& operator=(LiveTokenRecords&&) noexcept;

  /// Reads new files until they have `rows` rows. Starts again if a file that was read has changed or is missing.
  /// Returns whether anything changed.
  bool read_new_files(int64_t rows);
  /// Like read_recorded_tokens(), for the files read so far.
  RecordedTokens tokens();
  size_t max_rows() const { return max_rows_; }

 private:
  class Accumulator;
  struct File;
  void reset();

  std::filesystem::path run_;
  size_t max_rows_;
  std::unique_ptr<Accumulator> accumulator_;
  std::vector<File> read_files_;
  int64_t pending_files_ = 0;
};

}  // namespace keel
