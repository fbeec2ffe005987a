#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "keel/objective/regions/region_helpers.h"

namespace keel {

/// SPO (arXiv 2401.16025): J = r A - |A|/(2 eps) (r - 1)^2, g = r A (1 - sign(A)(r - 1)/eps).
struct Spo {
  double eps = 0.2;
  TokenDecision operator()(const LossInputs& policy) const;
  void visit(const ParameterVisitor& visitor) { visitor("eps", eps); }
  Requirements requirements() const { return {}; }
};

/// DRPO (arXiv 2606.09821): J = r A - |A|/(2 delta) mu (r - 1)^2, g = r A (1 - sign(A)(pi - mu)/delta). The weight
/// falls to 0 at the boundary and turns round beyond it. The published delta of 12.5 leaves the weight within 8 % of 1
/// (|pi - mu| is at most 1), so our default is 0.5.
///
/// With a divergence D of the whole distribution the step from mu is made of the sampled token's own, the binary
/// divergence B of the same kind, and of what the rest moved, as far as the token took part in it:
///   g = r A (1 - sign(A) s/delta), s = sign(pi - mu) (B + c (D - B)), c = |pi - mu|/max(pi, mu).
/// s lies between B and D and goes through 0 with pi - mu, so that the weight is continuous where pi passes mu,
/// whatever the rest of the distribution does. For the binary total variation, D = B, it is the published weight. This
/// form is ours: no paper writes it.
struct Drpo {
  double delta = 0.5, k = kDefaultTopK;
  Divergence divergence = Divergence::kBinaryTv;
  TopKSupport support = TopKSupport::kUnion;
  TokenDecision operator()(const LossInputs& policy) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("delta", delta), visitor("k", k, NumberRange::kTopK);
    visitor("divergence", divergence), visitor("support", support);
  }
  Requirements requirements() const { return divergence_requirements(divergence, k); }
  std::optional<InvalidParameter> check_parameters() const { return check_divergence(divergence); }
};

/// Mask-DRPO: r A inside |pi - mu| <= delta, DRPO's weight outside.
struct MaskDrpo {
  double delta = 0.15;
  TokenDecision operator()(const LossInputs& policy) const;
  void visit(const ParameterVisitor& visitor) { visitor("delta", delta); }
  Requirements requirements() const { return {}; }
};

/// DRPO's ablation without |A| in the penalty: g = r (A - (pi - mu)/delta).
struct DrpoNoAbsAdvantage {
  double delta = 0.5;
  TokenDecision operator()(const LossInputs& policy) const;
  void visit(const ParameterVisitor& visitor) { visitor("delta", delta); }
  Requirements requirements() const { return {}; }
};

/// The regions of this family; a new one is added here and becomes an alternative of TrustRegion.
using DrpoFamily = std::variant<Spo, Drpo, MaskDrpo, DrpoNoAbsAdvantage>;
std::vector<MethodRow<DrpoFamily>> drpo_rows();

}  // namespace keel
