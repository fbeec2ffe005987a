#pragma once

#include <variant>

#include "keel/objective/regions/batch_level.h"
#include "keel/objective/regions/cppo.h"
#include "keel/objective/regions/dppo.h"
#include "keel/objective/regions/drpo.h"
#include "keel/objective/regions/policy_gradient.h"
#include "keel/objective/regions/ratio_clip.h"
#include "keel/objective/regions/rollout_correction.h"
#include "keel/objective/regions/sequence_level.h"
#include "keel/objective/regions/soft.h"

namespace keel {

/// One variant of all the alternatives that the families have.
template <class... Families>
struct Joined;
template <class... Regions>
struct Joined<std::variant<Regions...>> {
  using type = std::variant<Regions...>;
};
template <class... Regions, class... Others, class... Families>
struct Joined<std::variant<Regions...>, std::variant<Others...>, Families...>
    : Joined<std::variant<Regions..., Others...>, Families...> {};

/// Every region. Each is a set of parameters, a function from tokens to decisions, and what it needs to be told. Their
/// maths and their rows in the table of methods stand together, one pair of files per family. Conventions:
/// tests/goldens/README.md.
using TrustRegion = Joined<PolicyGradientFamily, RatioClipFamily, DppoFamily, DrpoFamily, SoftFamily,
                           RolloutCorrectionFamily, SequenceLevelFamily, CppoFamily, BatchLevelFamily>::type;

/// What the region needs to know beyond log pi, log mu and the advantage.
Requirements requirements(const TrustRegion& region);

/// What the region says of itself.
RegionProperties properties(const TrustRegion& region);

/// The coefficient of grad log pi for every token. Fails (exit code 70) when the policy lacks what the region requires.
TokenDecision token_coefficients(const TrustRegion& region, const LossInputs& policy);

}  // namespace keel
