#pragma once

#include <tuple>
#include <utility>
#include <variant>

#include "keel/objective/batch.h"
#include "keel/objective/correction.h"
#include "keel/objective/dppo.h"
#include "keel/objective/drpo.h"
#include "keel/objective/policy_gradient.h"
#include "keel/objective/ratio_clip.h"
#include "keel/objective/sequence.h"
#include "keel/objective/soft.h"
#include "keel/objective/token_policy.h"

namespace keel {

/// One variant of all the alternatives that the families list.
template <class Tuple>
struct VariantOf;
template <class... Regions>
struct VariantOf<std::tuple<Regions...>> {
  using type = std::variant<Regions...>;
};

/// Every region. Each is a set of parameters, a function from tokens to decisions, and what it needs to be told. Their
/// maths and their rows in the table of methods stand together, one pair of files per family. Conventions:
/// tests/goldens/README.md.
using TrustRegion = VariantOf<decltype(std::tuple_cat(
    std::declval<PolicyGradientFamily>(), std::declval<RatioClipFamily>(), std::declval<DppoFamily>(),
    std::declval<DrpoFamily>(), std::declval<SoftFamily>(), std::declval<CorrectionFamily>(),
    std::declval<SequenceFamily>(), std::declval<BatchFamily>()))>::type;

/// What the region needs to know beyond log pi, log mu and the advantage.
Requirements requirements(const TrustRegion& region);

/// The coefficient that multiplies grad log pi, and why, for every token. Fails (exit code 70) when the policy lacks
/// something that the region requires.
TokenDecision token_coefficients(const TrustRegion& region, const TokenPolicy& policy);

}  // namespace keel
