#include "keel/model/formats/gguf/gguf_sentencepiece.h"

#include <algorithm>
#include <tuple>

#include "keel/core/untrusted_text.h"

namespace keel {
namespace {

size_t count_characters(std::string_view utf8) {
  return static_cast<size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

/// A possible merge, with its sort keys.
struct Candidate {
  double score;
  size_t left_length, right_length;
  TokenMerge merge;
};

/// Adds all merges into one token, ordered by the ids of the parts.
void add_merges(std::string_view whole, double score, const TokenIds& ids, std::vector<Candidate>& candidates) {
  const size_t length = count_characters(whole);
  // Longer tokens are never results of merges. The limit bounds the time for malicious files.
  constexpr size_t kMaxMergedCharacters = 256;
  if (length < 2 || length > kMaxMergedCharacters) return;
  std::vector<std::tuple<int64_t, int64_t, Candidate>> found;
  size_t left_length = 0;
  for (size_t cut = 1; cut < whole.size(); ++cut) {
    if ((whole[cut] & 0xc0) == 0x80) continue;
    ++left_length;
    const TokenMerge merge = {whole.substr(0, cut), whole.substr(cut)};
    const auto left = ids.find(merge.first), right = ids.find(merge.second);
    if (left == ids.end() || right == ids.end()) continue;
    found.emplace_back(left->second, right->second, Candidate{score, left_length, length - left_length, merge});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  for (const auto& [left, right, candidate] : found) candidates.push_back(candidate);
}

std::string quote_merge(const TokenMerge& merge) { return printable(merge.first) + " and " + printable(merge.second); }

}  // namespace

std::optional<std::vector<TokenMerge>> merges_from_scores(std::span<const std::string_view> tokens, const TokenIds& ids,
                                                          std::span<const double> scores) {
  std::vector<Candidate> candidates;
  for (size_t id = 0; id < tokens.size(); ++id) {
    const auto known = ids.find(tokens[id]);
    if (known == ids.end() || known->second != static_cast<int64_t>(id)) continue;
    add_merges(tokens[id], scores[id], ids, candidates);
    if (candidates.size() > kMaxTokenMerges) return std::nullopt;
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.score, a.left_length, a.right_length) > std::tie(b.score, b.left_length, b.right_length);
  });
  std::vector<TokenMerge> merges;
  merges.reserve(candidates.size());
  for (const Candidate& candidate : candidates) merges.push_back(candidate.merge);
  return merges;
}

TokenScores scores_from_merges(std::span<const std::string_view> tokens, const TokenIds& ids,
                               std::span<const TokenMerge> merges) {
  TokenScores result;
  // The indices of the first and last merge into each token, ordered by the first.
  struct MergedToken {
    int64_t id;
    size_t first, last;
  };
  std::vector<MergedToken> merged_tokens;
  std::unordered_map<int64_t, size_t> index_of_token;
  std::string joined;
  for (size_t i = 0; i < merges.size(); ++i) {
    joined.assign(merges[i].first).append(merges[i].second);
    const auto whole = ids.find(joined);
    if (whole == ids.end() || !ids.contains(merges[i].first) || !ids.contains(merges[i].second)) {
      result.error = "merge " + std::to_string(i) + " joins " + quote_merge(merges[i]) +
                     ", but the parts or the result are not tokens";
      return result;
    }
    const auto [entry, is_new] = index_of_token.emplace(whole->second, merged_tokens.size());
    if (is_new)
      merged_tokens.push_back({whole->second, i, i});
    else
      merged_tokens[entry->second].last = i;
  }
  // The score of a token is the negative index of its first merge. Tokens with interleaved merges share one score.
  result.scores.assign(tokens.size(), -static_cast<double>(merges.size()) - 1);
  struct Group {
    size_t begin, end, tokens;
  };
  std::vector<Group> groups;
  for (const MergedToken& token : merged_tokens) {
    if (groups.empty() || token.first >= groups.back().end) groups.push_back({token.first, token.first, 0});
    Group& group = groups.back();
    group.end = std::max(group.end, token.last + 1);
    ++group.tokens;
    result.scores[static_cast<size_t>(token.id)] = -static_cast<double>(group.begin);
  }
  const std::optional<std::vector<TokenMerge>> restored = merges_from_scores(tokens, ids, result.scores);
  if (!restored || restored->size() != merges.size()) {
    result.error = "its " + std::to_string(merges.size()) +
                   " merges are not all possible merges of two tokens, of which there are " +
                   (restored ? std::to_string(restored->size()) : "too many");
    return result;
  }
  // The order of merges into one token does not matter: SentencePiece merges the leftmost pair.
  for (const Group& group : groups) {
    auto actual = restored->begin() + static_cast<ptrdiff_t>(group.begin);
    const auto expected = merges.begin() + static_cast<ptrdiff_t>(group.begin);
    const auto count = static_cast<ptrdiff_t>(group.end - group.begin);
    const bool same = group.tokens == 1 ? std::is_permutation(actual, actual + count, expected)
                                        : std::equal(actual, actual + count, expected);
    if (same) continue;
    result.error = "no score per token gives the order of its merges from index " + std::to_string(group.begin) +
                   " on, " + quote_merge(merges[group.begin]);
    return result;
  }
  return result;
}

}  // namespace keel
