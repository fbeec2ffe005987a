#pragma once

#include <cstdint>

#include "keel/record/recorded_tokens.h"

namespace keel {

inline constexpr int64_t kAskedTokens = 100'000;     // by a report: some seconds, however long the run was
inline constexpr int64_t kAskedTokensLive = 20'000;  // by a page that is made again and again

/// Puts into a run's token records what other methods and thresholds would have made of them: what `keel tokens` and
/// `keel advise` say of the newest steps that have at most so many tokens together.
void add_counterfactuals(RecordedTokens& tokens, int64_t most = kAskedTokens);

}  // namespace keel
