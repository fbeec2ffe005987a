#include "keel/model/formats/gguf/gguf_sentencepiece.h"

#include <algorithm>
#include <tuple>

#include "keel/core/foreign_text.h"

namespace keel {
namespace {

size_t characters(std::string_view utf8) {
  return static_cast<size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

/// A way to make a token, with what decides when it is taken.
struct Candidate {
  double score;
  size_t left_length, right_length;
  TokenMerge merge;
};

/// All ways to make one token, by the ids of the parts.
void add_ways(std::string_view whole, double score, const TokenIds& ids, std::vector<Candidate>& candidates) {
  const size_t length = characters(whole);
  // Tokens that are matched whole are never merged together. The cap keeps a hostile megabyte from costing a year.
  constexpr size_t kMaxMergedCharacters = 256;
  if (length < 2 || length > kMaxMergedCharacters) return;
  std::vector<std::tuple<int64_t, int64_t, Candidate>> ways;
  size_t left_length = 0;
  for (size_t cut = 1; cut < whole.size(); ++cut) {
    if ((whole[cut] & 0xc0) == 0x80) continue;
    ++left_length;
    const TokenMerge merge = {whole.substr(0, cut), whole.substr(cut)};
    const auto left = ids.find(merge.first), right = ids.find(merge.second);
    if (left == ids.end() || right == ids.end()) continue;
    ways.emplace_back(left->second, right->second, Candidate{score, left_length, length - left_length, merge});
  }
  std::sort(ways.begin(), ways.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  for (const auto& [left, right, candidate] : ways) candidates.push_back(candidate);
}

std::string shown(const TokenMerge& merge) { return printable(merge.first) + " and " + printable(merge.second); }

}  // namespace

std::optional<std::vector<TokenMerge>> merges_from_scores(std::span<const std::string_view> tokens, const TokenIds& ids,
                                                          std::span<const double> scores) {
  std::vector<Candidate> candidates;
  for (size_t id = 0; id < tokens.size(); ++id) {
    const auto known = ids.find(tokens[id]);
    if (known == ids.end() || known->second != static_cast<int64_t>(id)) continue;
    add_ways(tokens[id], scores[id], ids, candidates);
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
  // The places of the first and the last way to make each token, in the order of the first.
  struct Made {
    int64_t id;
    size_t first, last;
  };
  std::vector<Made> made;
  std::unordered_map<int64_t, size_t> place_in_made;
  std::string joined;
  for (size_t i = 0; i < merges.size(); ++i) {
    joined.assign(merges[i].first).append(merges[i].second);
    const auto whole = ids.find(joined);
    if (whole == ids.end() || !ids.contains(merges[i].first) || !ids.contains(merges[i].second)) {
      result.fault = "merge " + std::to_string(i) + " joins " + shown(merges[i]) + ", which are not all tokens";
      return result;
    }
    const auto [entry, is_new] = place_in_made.emplace(whole->second, made.size());
    if (is_new)
      made.push_back({whole->second, i, i});
    else
      made[entry->second].last = i;
  }
  // A token's score is the place of its first merge. Tokens whose merges lie between each other's had one score.
  result.scores.assign(tokens.size(), -static_cast<double>(merges.size()) - 1);
  struct Group {
    size_t begin, end, tokens;
  };
  std::vector<Group> groups;
  for (const Made& token : made) {
    if (groups.empty() || token.first >= groups.back().end) groups.push_back({token.first, token.first, 0});
    Group& group = groups.back();
    group.end = std::max(group.end, token.last + 1);
    ++group.tokens;
    result.scores[static_cast<size_t>(token.id)] = -static_cast<double>(group.begin);
  }
  const std::optional<std::vector<TokenMerge>> back = merges_from_scores(tokens, ids, result.scores);
  if (!back || back->size() != merges.size()) {
    result.fault = "its " + std::to_string(merges.size()) +
                   " merges are not all ways to make a token of two others, of " + "which there are " +
                   (back ? std::to_string(back->size()) : "too many");
    return result;
  }
  // The ways to make one token may come in any order: SentencePiece takes the leftmost.
  for (const Group& group : groups) {
    auto ours = back->begin() + static_cast<ptrdiff_t>(group.begin);
    const auto theirs = merges.begin() + static_cast<ptrdiff_t>(group.begin);
    const auto count = static_cast<ptrdiff_t>(group.end - group.begin);
    const bool same =
        group.tokens == 1 ? std::is_permutation(ours, ours + count, theirs) : std::equal(ours, ours + count, theirs);
    if (same) continue;
    result.fault = "no score per token gives the order of its merges from number " + std::to_string(group.begin) +
                   " on, " + shown(merges[group.begin]);
    return result;
  }
  return result;
}

}  // namespace keel
