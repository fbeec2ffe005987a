#include "keel/train/metrics/blocked_tokens.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "keel/train/metrics/sample_notes.h"

namespace keel {

void BlockedTokens::add(const DecidedTokens& t, int64_t vocabulary) {
  const at::NoGradGuard no_grad;
  const Tensor ids = t.batch.targets.narrow(0, t.begin, t.policy.logp.size(0)), blocked = t.decision.keep.logical_not();
  if (!counts_.defined()) counts_ = at::zeros({2, vocabulary}, ids.options());
  const Tensor& advantages = t.policy.advantages;
  counts_[0].index_add_(0, ids, blocked.logical_and(advantages > 0).to(at::kLong));
  counts_[1].index_add_(0, ids, blocked.logical_and(advantages < 0).to(at::kLong));
}

std::vector<BlockedToken> BlockedTokens::most(const Tokenizer& tokenizer) const {
  constexpr size_t kMost = 10;
  std::vector<BlockedToken> tokens;
  if (!counts_.defined()) return tokens;
  const Tensor counts = counts_.cpu();
  const int64_t size = counts.size(1);
  const int64_t* positive = counts.const_data_ptr<int64_t>();
  for (int64_t id = 0; id < size; ++id)
    if (positive[id] + positive[size + id] > 0)
      tokens.push_back({static_cast<int32_t>(id), "", positive[id], positive[size + id]});
  std::stable_sort(tokens.begin(), tokens.end(), [](const BlockedToken& a, const BlockedToken& b) {
    return a.positive + a.negative > b.positive + b.negative;
  });
  tokens.resize(std::min(tokens.size(), kMost));
  for (BlockedToken& token : tokens) token.text = token_text(tokenizer, token.id);
  return tokens;
}

Json to_json(const std::vector<BlockedToken>& tokens) {
  Json rows = Json::array();
  for (const BlockedToken& token : tokens)
    rows.push_back(
        {{"id", token.id}, {"text", token.text}, {"positive", token.positive}, {"negative", token.negative}});
  return rows;
}

}  // namespace keel
