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

/// Concatenates the alternatives of several variants into one variant.
template <class... Families>
struct ConcatVariants;
template <class... Regions>
struct ConcatVariants<std::variant<Regions...>> {
  using type = std::variant<Regions...>;
};
template <class... Regions, class... Others, class... Families>
struct ConcatVariants<std::variant<Regions...>, std::variant<Others...>, Families...>
    : ConcatVariants<std::variant<Regions..., Others...>, Families...> {};

/// A variant of all policy losses. Each has parameters, requirements(), and operator() from LossInputs to
/// TokenDecision. It masks or reweights tokens outside a trust region; some have none (policy_gradient.h). Each family
/// is one pair of files with its formulas and its methods. Conventions: tests/goldens/README.md.
using TrustRegion = ConcatVariants<PolicyGradientFamily, RatioClipFamily, DppoFamily, DrpoFamily, SoftFamily,
                                   RolloutCorrectionFamily, SequenceLevelFamily, CppoFamily, BatchLevelFamily>::type;

/// The inputs that the region needs besides log pi, log mu and the advantage, and its properties.
Requirements requirements(const TrustRegion& region);
RegionProperties properties(const TrustRegion& region);

/// Computes the coefficient of grad log pi of every token. Fails (exit code 70) if a required input is missing.
TokenDecision token_coefficients(const TrustRegion& region, const LossInputs& inputs);

}  // namespace keel
