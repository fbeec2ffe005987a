#pragma once

#include <map>
#include <span>
#include <vector>

#include "keel/core/json.h"
#include "keel/core/prompt.h"
#include "keel/core/tensor/rollout.h"
#include "keel/objective/regions/trust_region.h"
#include "keel/train/update/packing.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

/// Remembers what was decided about every token of a few chosen rollouts, for samples.jsonl. It owns the notes.
class SampleRecorder {
 public:
  /// Chooses up to `count` rollouts: those with a non-zero advantage first, in order.
  SampleRecorder(std::span<const std::vector<float>> advantages, int64_t count);

  /// Notes the decisions on the targets [begin, begin + n) of a batch; `rollouts[s]` is the rollout of sequence s. What
  /// is noted last (the last epoch) stays.
  void add(const PackedBatch& batch, std::span<const int64_t> rollouts, int64_t begin, const LossInputs& policy,
           const TokenDecision& decision);

  /// One row per chosen rollout.
  std::vector<Json> rows(int64_t step, std::span<const Prompt> prompts, std::span<const Rollout> rollouts,
                         std::span<const std::vector<float>> advantages, const Tokenizer& tokenizer) const;

 private:
  struct Notes {
    std::vector<float> logp, coefficient, divergence, threshold;
    std::vector<bool> keep;
  };
  std::map<int64_t, Notes> notes_;  // by rollout
};

/// Files hold text alone: bytes that are a part of a character are written as \xe2.
std::string escape_invalid_utf8(std::string_view bytes);

/// The completion's tokens as they read in the text, in UTF-8: bytes that are a part of a character are \xe2. A model's
/// output layer may be wider than its vocabulary: an id without a token is shown by its number.
std::vector<std::string> token_texts(const Prompt& prompt, const Rollout& rollout, const Tokenizer& tokenizer);

/// The same of one token, as it reads within a text.
std::string token_text(const Tokenizer& tokenizer, int32_t id);

/// What samples.jsonl says of any completion; per-token numbers are added by SampleRecorder.
Json sample_row(const char* phase, int64_t step, const Prompt& prompt, const Rollout& rollout,
                const Tokenizer& tokenizer);

}  // namespace keel
