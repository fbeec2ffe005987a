#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "keel/objective/regions/region_helpers.h"

namespace keel {

/// SPO (arXiv 2401.16025): J = r A - |A|/(2 eps) (r - 1)^2, g = r A (1 - sign(A)(r - 1)/eps).
struct Spo {
  double eps = 0.2;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) { visitor("eps", eps); }
  Requirements requirements() const { return {}; }
};

/// DRPO (arXiv 2606.09821): J = r A - |A|/(2 delta) mu (r - 1)^2, g = r A (1 - sign(A)(pi - mu)/delta). The weight
/// is 0 at the boundary and changes sign beyond it. With the published delta of 12.5 the weight stays within 8 % of 1
/// (|pi - mu| is at most 1), so the default here is 0.5.
///
/// For a divergence D of the whole distribution, the step s combines the binary divergence B of the sampled token with
/// a part of the remaining divergence D - B, in proportion to the relative change c of the token:
///   g = r A (1 - sign(A) s/delta), s = sign(pi - mu) (B + c (D - B)), c = |pi - mu|/max(pi, mu).
/// |s| is between B and D, and s is 0 where pi = mu, so the weight is continuous there. For the binary total variation
/// (D = B) it is the published weight. This generalisation is specific to Keel: no paper defines it.
///
/// A finite `ratio_cap` replaces the factor r by min(r, ratio_cap), also in MaskDrpo and DrpoNoAbsAdvantage. The paper
/// has none.
struct Drpo {
  double delta = 0.5, ratio_cap = kUnlimited, k = kDefaultTopK;
  Divergence divergence = Divergence::kBinaryTv;
  TopKSupport support = TopKSupport::kUnion;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) {
    visitor("delta", delta), visitor("ratio_cap", ratio_cap), visitor("k", k, NumberRange::kTopK);
    visitor("divergence", divergence), visitor("support", support);
  }
  Requirements requirements() const { return divergence_requirements(divergence, k); }
  std::optional<InvalidParameter> check_parameters() const { return check_divergence(divergence); }
};

/// Mask-DRPO: r A where |pi - mu| <= delta, and the DRPO weight outside.
struct MaskDrpo {
  double delta = 0.15, ratio_cap = kUnlimited;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) { visitor("delta", delta), visitor("ratio_cap", ratio_cap); }
  Requirements requirements() const { return {}; }
};

/// Ablation of DRPO without |A| in the penalty: g = r (A - (pi - mu)/delta).
struct DrpoNoAbsAdvantage {
  double delta = 0.5, ratio_cap = kUnlimited;
  TokenDecision operator()(const LossInputs& inputs) const;
  void visit(const ParameterVisitor& visitor) { visitor("delta", delta), visitor("ratio_cap", ratio_cap); }
  Requirements requirements() const { return {}; }
};

/// All regions of this family. Add a new region here: it then becomes an alternative of TrustRegion.
using DrpoFamily = std::variant<Spo, Drpo, MaskDrpo, DrpoNoAbsAdvantage>;
std::vector<MethodRow<DrpoFamily>> drpo_rows();

}  // namespace keel
