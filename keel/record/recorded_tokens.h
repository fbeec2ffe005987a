#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "keel/core/json.h"

namespace keel {

/// Tokens of one sign of advantage, and how many of them the trust region dealt with.
struct HeldShare {
  int64_t tokens = 0, blocked = 0, outside = 0;
};
using HeldBySign = std::array<HeldShare, 2>;  // of A > 0, of A < 0

/// What is recorded of a step as a whole.
struct RecordedStep {
  int64_t step = 0, rows = 0;
  std::string method;
  Json parameters;           // of the method, as they were in the step
  bool whole_batch = false;  // all completions that it learned from are recorded
  HeldBySign held = {};
  std::filesystem::path file = {};
  bool is_whole = true;  // all of its rows could be read
};

/// How often numbers of a size came up: eight classes a decade.
struct SizeHistogram {
  static constexpr int kFirstDecade = -10, kLastDecade = 3, kPerDecade = 8;
  static constexpr size_t kClasses = (kLastDecade - kFirstDecade) * kPerDecade;
  std::array<int64_t, kClasses> kept = {}, blocked = {};  // smaller ones than the first decade are in its first class
  int64_t zero = 0, infinite = 0, count = 0;
  double sum = 0, largest = 0;  // of the finite ones

  void add(double value, bool is_blocked = false);
  static double begin_of(size_t place);  // smallest value of a class
};

/// A token of the vocabulary, among those of one sign: how often it was held back, and where.
struct HeldToken {
  std::string text;
  int64_t seen = 0, held = 0;
  double mean_mu = 0, mean_entropy = 0;  // of those that were; NaN where the entropy is not known
};

/// |p - mu| at the weights that sampled: what the sampler says against what the trainer says.
struct RecordedMismatch {
  enum class Source { kNone, kRecomputed, kFirstUpdate } source = Source::kNone;
  SizeHistogram sizes = {};
  struct Token {
    int64_t step = 0, rollout = 0;
    int32_t position = 0;
    std::string text;
    double mu = 0, p = 0;
  };
  std::vector<Token> largest = {};
};

/// A completion in an update; its tokens are `rows` entries of the columns from `first` on.
struct RecordedCompletion {
  int64_t step = 0, update = 0, prompt = 0, rollout = 0;
  double reward = 0;
  size_t first = 0, rows = 0, tokens = 0;  // tokens: that it has, of which a page shows so many rows
  int64_t prompt_text = -1;                // place in RecordedRows::prompts; -1: the text was not recorded
};

/// Whole completions, token by token, as many as a page holds.
struct RecordedRows {
  struct Column {
    std::string name;
    std::vector<float> values = {};  // NaN: not known
  };
  std::vector<RecordedCompletion> completions = {};
  std::vector<Column> columns = {};
  std::vector<uint32_t> text = {};  // place in `texts`
  std::vector<bool> kept = {}, outside = {};
  std::vector<std::string> texts = {};    // distinct, as they may be shown
  std::vector<std::string> prompts = {};  // the same of the completions' prompts
};

/// What a run's token records say: sums over all rows, and the rows of some completions.
struct RecordedTokens {
  bool was_read = false;                 // false: nobody looked
  std::vector<std::string> damage = {};  // files, or rest of files, that could not be read
  std::vector<RecordedStep> steps = {};
  std::vector<HeldBySign> by_update = {};  // over all steps, by the update's place in its step
  int64_t tokens = 0, blocked = 0, outside = 0;
  SizeHistogram divergences = {};
  std::vector<double> thresholds = {};                      // the different ones, at most a few
  std::array<std::vector<HeldToken>, 2> most_blocked = {};  // of A > 0, of A < 0; falling
  std::array<std::vector<HeldToken>, 2> most_outside = {};
  RecordedMismatch mismatch = {};
  RecordedRows rows = {};
  int64_t completions = 0;    // recorded; rows.completions are all of them or some
  int64_t pending_steps = 0;  // records that were not read yet
};

inline constexpr size_t kMaxRecordedRows = 120'000;  // of all runs of a page together

/// Reads the records of a run folder. Damaged files are named and left out; a folder without records gives an empty
/// one. Of more than `most` rows some completions are kept, by their ids: the same ones whoever asks.
RecordedTokens read_recorded_tokens(const std::filesystem::path& run, size_t most = kMaxRecordedRows);

/// The records of a run that goes on: each look reads what came since the last one.
class LiveTokenRecords {
 public:
  LiveTokenRecords(std::filesystem::path run, size_t most);
  ~LiveTokenRecords();
  LiveTokenRecords(LiveTokenRecords&&) noexcept;
  LiveTokenRecords& operator=(LiveTokenRecords&&) noexcept;

  /// Reads the files that came since, until there were so many rows; all of them again where one that was read has
  /// changed or is gone. Whether anything is another than before.
  bool read_new_files(int64_t rows);
  /// What read_recorded_tokens gives for the files that were read.
  RecordedTokens tokens();
  size_t most() const { return most_; }

 private:
  class Digest;
  struct File;
  void begin_again();

  std::filesystem::path run_;
  size_t most_;
  std::unique_ptr<Digest> digest_;
  std::vector<File> read_;
  int64_t to_come_ = 0;
};

}  // namespace keel
