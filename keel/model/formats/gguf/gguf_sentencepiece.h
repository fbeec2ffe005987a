#pragma once

// Converts between token scores (SentencePiece BPE merges the pair whose result has the highest score) and the list of
// merges of tokenizer.json. It does not use LibTorch.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace keel {

using TokenIds = std::unordered_map<std::string_view, int64_t>;
using TokenMerge = std::pair<std::string_view, std::string_view>;

constexpr size_t kMaxTokenMerges = size_t{1} << 21;  // far above real tokenizers

/// All merges of two tokens into another token, by decreasing score and then, as in transformers, by the lengths of the
/// parts. `tokens` are by id; tokens that are not in `ids` are ignored. Returns nullopt above kMaxTokenMerges.
std::optional<std::vector<TokenMerge>> merges_from_scores(std::span<const std::string_view> tokens, const TokenIds& ids,
                                                          std::span<const double> scores);

struct TokenScores {
  std::vector<double> scores;  // by id
  std::string error;           // why no scores give these merges; empty: success
};

/// The inverse: scores that give the same merge order as `merges`. They exist for merges that come from SentencePiece.
/// In general they do not: scores cannot exclude a possible merge of two tokens that is missing in the list.
TokenScores scores_from_merges(std::span<const std::string_view> tokens, const TokenIds& ids,
                               std::span<const TokenMerge> merges);

}  // namespace keel
