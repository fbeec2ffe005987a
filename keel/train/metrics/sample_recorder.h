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

/// Records the token decisions of a few chosen rollouts for samples.jsonl.
class SampleRecorder {
 public:
  /// Chooses up to `count` rollouts: those with a non-zero advantage first, in order.
  SampleRecorder(std::span<const std::vector<float>> advantages, int64_t count);

  /// Records the decisions on the targets [begin, begin + n) of a batch; `rollouts[s]` is the rollout of sequence s. A
  /// later epoch replaces the records of an earlier one.
  void add(const PackedBatch& batch, std::span<const int64_t> rollouts, int64_t begin, const LossInputs& policy,
           const TokenDecision& decision);

  /// Returns one row per chosen rollout.
  std::vector<Json> rows(int64_t step, std::span<const Prompt> prompts, std::span<const Rollout> rollouts,
                         std::span<const std::vector<float>> advantages, const Tokenizer& tokenizer) const;

 private:
  struct TokenValues {
    std::vector<float> logp, coefficient, divergence, threshold;
    std::vector<bool> keep;
  };
  std::map<int64_t, TokenValues> recorded_;  // by rollout index
};

/// Writes bytes that are not valid UTF-8 as escapes such as \xe2.
std::string escape_invalid_utf8(std::string_view bytes);

/// Returns the text of each token of the completion, in context, with partial characters escaped as \xe2. An id without
/// a token becomes "<id N>": the output layer may be larger than the vocabulary.
std::vector<std::string> token_texts(const Prompt& prompt, const Rollout& rollout, const Tokenizer& tokenizer);

/// Returns the text of one token as in the middle of a text.
std::string token_text(const Tokenizer& tokenizer, int32_t id);

/// Returns the row of any completion in samples.jsonl; SampleRecorder adds per-token values.
Json sample_row(const char* phase, int64_t step, const Prompt& prompt, const Rollout& rollout,
                const Tokenizer& tokenizer);

}  // namespace keel
