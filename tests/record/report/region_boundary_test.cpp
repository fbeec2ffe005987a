#include "keel/record/report/region_boundary.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "keel/objective/methods.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

/// Interpolates a curve at mu.
double pi_at(const BoundaryCurve& curve, double mu) {
  for (size_t i = 1; i < curve.points.size(); ++i) {
    const ChartPoint &a = curve.points[i - 1], &b = curve.points[i];
    if (a.x <= mu && mu <= b.x) return a.y + (b.y - a.y) * (mu - a.x) / (b.x - a.x);
  }
  return NAN;
}

const BoundaryCurve& curve_of(const RegionBoundary& boundary, bool positive) {
  for (const BoundaryCurve& curve : boundary.curves)
    if (curve.positive == positive) return curve;
  throw std::runtime_error("no such curve");
}

/// The parameters as in token records.
Json parameters_of(const TrustRegion& region) {
  Json values = Json::object();
  for (const auto& [name, value] : number_parameters(region)) values[name] = std::isinf(value) ? Json() : Json(value);
  for (const auto& [name, word] : choice_parameters(region)) values[name] = word;
  return values;
}

struct Place {
  double mu, pi;
  bool beyond;
};

/// Returns tokens on both sides of the curves, at a distance from their interpolation.
std::vector<Place> tokens_near(const RegionBoundary& boundary, bool positive) {
  std::vector<Place> places;
  for (const double mu : {0.004, 0.03, 0.2, 0.5, 0.74, 0.97}) {
    for (double pi = 0.0005; pi < 1; pi *= 1.17) {
      bool beyond = false, near = false;
      for (const BoundaryCurve& curve : boundary.curves) {
        const double edge = curve.positive == positive ? pi_at(curve, mu) : NAN;
        if (std::isnan(edge)) continue;
        near = near || std::fabs(pi / edge - 1) < 0.02 || std::fabs(pi - edge) < 0.002;
        beyond = beyond || (curve.masks_above ? pi > edge : pi < edge);
      }
      if (!near) places.push_back({mu, pi, beyond});
    }
  }
  return places;
}

// docs/methods.md, "The picture": at mu = 0.01 PPO's window for a rise ends at 0.012, DPPO's at 0.078 (KL) or 0.21
// (TV); at mu = 0.99 PPO lets a token fall to 0.792, DPPO to 0.79 (TV) or 0.922 (KL).
TEST(RegionBoundary, MatchesTheMethodsPage) {
  const RegionBoundary tv = region_boundary("dppo_tv", {{"low", 0.2}, {"high", 0.2}, {"divergence", "binary_tv"}});
  const RegionBoundary kl = region_boundary("dppo_kl", {{"low", 0.05}, {"high", 0.05}, {"divergence", "binary_kl"}});
  const RegionBoundary ppo = region_boundary("ppo", {{"low", 0.2}, {"high", 0.2}, {"dual", nullptr}});
  EXPECT_NEAR(pi_at(curve_of(tv, true), 0.01), 0.21, 1e-6);
  EXPECT_NEAR(pi_at(curve_of(kl, true), 0.01), 0.078, 5e-4);
  EXPECT_NEAR(pi_at(curve_of(ppo, true), 0.01), 0.012, 1e-6);
  EXPECT_NEAR(pi_at(curve_of(tv, false), 0.99), 0.79, 1e-6);
  // 0.98 log(0.98/0.90143) + 0.02 log(0.02/0.09857) = 0.0500
  EXPECT_NEAR(pi_at(curve_of(kl, false), 0.98), 0.90143, 1e-4);
  EXPECT_NEAR(pi_at(curve_of(ppo, false), 0.99), 0.792, 1e-6);
  EXPECT_EQ(ppo.curves.size(), 2u);  // no dual clip
  EXPECT_TRUE(curve_of(tv, true).masks_above);
  EXPECT_FALSE(curve_of(tv, false).masks_above);
}

/// Compares every method with its curves: it blocks tokens (or, if soft, finds them outside and leading away) on one
/// side only.
TEST(RegionBoundary, MatchesTheDecisionsOfEveryMethod) {
  std::set<std::string> drawn;
  for (const Method& method : methods()) {
    const RegionBoundary boundary = region_boundary(method.name, parameters_of(method.region));
    EXPECT_FALSE(boundary.caption.empty()) << method.name;
    if (boundary.curves.empty()) {
      EXPECT_TRUE(boundary.caption.starts_with("No boundary is drawn: ")) << method.name;
      EXPECT_THAT(boundary.caption, testing::Not(testing::HasSubstr("none is implemented")))
          << "add " << method.name << " to region_boundary.cpp";
      continue;
    }
    drawn.insert(method.name);
    const bool soft = boundary.caption.find("othing is blocked") != std::string::npos;
    for (const bool positive : {true, false}) {
      const std::vector<Place> places = tokens_near(boundary, positive);
      std::vector<double> log_mu, log_pi;
      for (const Place& place : places) log_mu.push_back(std::log(place.mu)), log_pi.push_back(std::log(place.pi));
      LossInputs policy{at::tensor(log_pi, at::kDouble), at::tensor(log_mu, at::kDouble),
                        at::full({static_cast<int64_t>(places.size())}, positive ? 1.0 : -1.0, at::kDouble)};
      policy.lengths.assign(places.size(), 1);
      const TokenDecision decision = token_coefficients(method.region, policy);
      const std::vector<double> keep = to_vector(decision.keep);
      const std::vector<double> outside = to_vector(decision.outside.defined() ? decision.outside : decision.keep);
      for (size_t i = 0; i < places.size(); ++i) {
        const bool leads_away = positive ? places[i].pi > places[i].mu : places[i].pi < places[i].mu;
        const bool both_ways = method.name == "drpo_no_abs_advantage";
        const bool held = soft ? outside[i] != 0 && (leads_away || both_ways) : keep[i] == 0;
        ASSERT_EQ(held, places[i].beyond)
            << method.name << (positive ? " A > 0" : " A < 0") << " mu " << places[i].mu << " pi " << places[i].pi;
      }
    }
  }
  EXPECT_EQ(drawn, (std::set<std::string>{"aspo",
                                          "dapo",
                                          "dgpo",
                                          "dppo_kl",
                                          "dppo_tv",
                                          "dr_grpo",
                                          "drpo",
                                          "drpo_no_abs_advantage",
                                          "gmpo",
                                          "grpo",
                                          "grpo_clip_higher",
                                          "grpo_relax_both",
                                          "grpo_relax_high",
                                          "grpo_relax_low",
                                          "icepop_direct",
                                          "ipo",
                                          "mask_drpo",
                                          "minimal_mask",
                                          "ppo",
                                          "ppo_gae",
                                          "prime_rl_2026_09",
                                          "prime_rl_default",
                                          "spo",
                                          "up_grpo"}));
}

TEST(RegionBoundary, ExplainsAMissingBoundary) {
  const auto words = [](const char* method, const Json& parameters = Json::object()) {
    return region_boundary(method, parameters).caption;
  };
  EXPECT_THAT(words("dppo_topk_tv", {{"divergence", "topk_tv"}, {"low", 0.2}}),
              testing::HasSubstr("whole distribution"));
  EXPECT_THAT(words("dppo_tv", {{"divergence", "binary_tv"}, {"low", 0.2}, {"anchor", "recomputed"}}),
              testing::HasSubstr("recomputed"));
  EXPECT_THAT(words("gspo"), testing::HasSubstr("whole sequences"));
  EXPECT_THAT(words("pg"), testing::HasSubstr("no region"));
  EXPECT_THAT(words("somebody's own"), testing::HasSubstr("none is implemented"));
  EXPECT_TRUE(region_boundary("dppo_tv", Json()).curves.empty());  // a record without parameters
}

}  // namespace
}  // namespace keel
