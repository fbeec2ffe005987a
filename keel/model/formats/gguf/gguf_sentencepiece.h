#pragma once

// SentencePiece's BPE has a score per token and joins the pair whose result scores best; tokenizer.json has a list of
// merges. No LibTorch in here.

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

constexpr size_t kMaxTokenMerges = size_t{1} << 21;  // far above every real tokenizer's

/// Every way to make a token out of two others, by falling score; then, as transformers does it, by the lengths of the
/// parts. `tokens` are by id; one that `ids` does not have takes no part. Nothing where there are more than
/// kMaxTokenMerges.
std::optional<std::vector<TokenMerge>> merges_from_scores(std::span<const std::string_view> tokens, const TokenIds& ids,
                                                          std::span<const double> scores);

struct TokenScores {
  std::vector<double> scores;  // by id
  std::string fault;           // why no scores stand for these merges; empty: they do
};

/// The way back: scores for which the pair that is joined first is the first of `merges`. There are such scores where
/// the list came from SentencePiece, and not where it was trained as a list: a token that two others would make
/// without a merge saying so has no score that prevents it.
TokenScores scores_from_merges(std::span<const std::string_view> tokens, const TokenIds& ids,
                               std::span<const TokenMerge> merges);

}  // namespace keel
