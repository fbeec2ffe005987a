#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "keel/core/json.h"

namespace keel {

/// A method with parameters, and its weight w as the papers write it: the coefficient is w A.
struct WrittenWeight {
  std::string method;
  Json params;
  std::function<double(double pi, double mu, bool positive)> weight;
};

/// The binary KL(mu || pi).
inline double written_binary_kl(double pi, double mu) {
  return mu * std::log(mu / pi) + (1 - mu) * std::log((1 - mu) / (1 - pi));
}

/// Every method that score centering accepts, with thresholds that block some tokens of written_policies().
inline std::vector<WrittenWeight> written_weights() {
  const auto clip = [](double low, double high, double dual = INFINITY, double cap = INFINITY) {
    return [=](double pi, double mu, bool positive) {
      const double r = pi / mu;
      const bool blocked = positive ? r > 1 + high : r < 1 - low || r > dual;
      return blocked ? 0 : std::min(r, cap);
    };
  };
  const auto relaxed = [=](bool high_side, bool low_side) {
    return [=](double pi, double mu, bool positive) {
      return mu < 0.1 && (positive ? high_side : low_side) ? pi / mu : clip(0.2, 0.28)(pi, mu, positive);
    };
  };
  const auto moves_away = [](double pi, double mu, bool positive) { return positive ? pi > mu : pi < mu; };
  const Json asymmetric = {{"low", 0.05}, {"high", 0.1}};
  return {
      {"pg", {}, [](double, double, bool) { return 1.0; }},
      {"pg_is", {}, [](double pi, double mu, bool) { return pi / mu; }},
      {"pg_tis", {{"C", 1.5}}, [](double pi, double mu, bool) { return std::min(pi / mu, 1.5); }},
      {"cispo", {{"high", 0.28}}, [](double pi, double mu, bool) { return std::min(pi / mu, 1.28); }},
      {"cispo",
       {{"low", 0.2}, {"high", 0.28}},
       [](double pi, double mu, bool) { return std::clamp(pi / mu, 0.8, 1.28); }},
      {"grpo", {{"low", 0.2}, {"high", 0.2}}, clip(0.2, 0.2)},
      {"grpo", {{"low", 0.2}, {"high", 0.2}, {"dual", 1.5}, {"C", 1.1}}, clip(0.2, 0.2, 1.5, 1.1)},
      {"grpo_clip_higher", {}, clip(0.2, 0.28)},
      {"dr_grpo", {}, clip(0.2, 0.2)},
      {"dapo", {}, clip(0.2, 0.28)},
      {"ppo", {}, clip(0.2, 0.2)},
      {"ppo_gae", {}, clip(0.2, 0.2)},
      {"grpo_relax_high", {}, relaxed(true, false)},
      {"grpo_relax_low", {}, relaxed(false, true)},
      {"grpo_relax_both", {}, relaxed(true, true)},
      {"aspo",
       {{"C", 1.4}},
       [=](double pi, double mu, bool positive) {
         return positive ? (pi / mu > 1.28 ? 0 : std::min(mu / pi, 1.4))
                         : clip(0.2, 0.28, INFINITY, 1.4)(pi, mu, false);
       }},
      {"up_grpo",
       {},
       [=](double pi, double mu, bool positive) { return positive ? 1 : clip(0.2, 0, 3)(pi, mu, false); }},
      {"icepop_direct",
       {{"ratio_low", 0.7}, {"ratio_high", 1.6}},
       [](double pi, double mu, bool) { return pi / mu < 0.7 || pi / mu > 1.6 ? 0 : pi / mu; }},
      {"dppo_tv",
       {{"low", 0.05}, {"high", 0.1}, {"C", 5}},
       [=](double pi, double mu, bool positive) {
         const bool blocked = moves_away(pi, mu, positive) && std::abs(pi - mu) > (positive ? 0.1 : 0.05);
         return blocked ? 0 : std::min(pi / mu, 5.0);
       }},
      {"dppo_kl",
       {{"low", 0.01}, {"high", 0.02}, {"C", 5}},
       [=](double pi, double mu, bool positive) {
         const bool blocked = moves_away(pi, mu, positive) && written_binary_kl(pi, mu) > (positive ? 0.02 : 0.01);
         return blocked ? 0 : std::min(pi / mu, 5.0);
       }},
      {"minimal_mask",
       {{"delta", 0.05}},
       [](double pi, double mu, bool positive) { return !positive && mu - pi >= 0.05 ? 0 : pi / mu; }},
      {"ipo",
       {{"threshold", 0.05}, {"tau", 0}},
       [](double pi, double mu, bool) { return std::abs(pi - mu) > 0.05 ? 0 : pi / mu; }},
      {"prime_rl_2026_09",
       {{"threshold", 0.05}, {"C", 1.2}},
       [](double pi, double mu, bool) { return std::abs(pi - mu) > 0.05 ? 0 : std::min(pi / mu, 1.2); }},
      {"prime_rl_default",
       {{"low", 0.05}, {"high", 0.1}, {"tau", 0}},
       [=](double pi, double mu, bool positive) {
         return moves_away(pi, mu, positive) && std::abs(pi - mu) > (positive ? 0.1 : 0.05) ? 0 : pi / mu;
       }},
      {"drpo",
       {{"delta", 0.1}},
       [](double pi, double mu, bool positive) { return pi / mu * (1 - (positive ? 1 : -1) * (pi - mu) / 0.1); }},
      {"drpo",
       {{"delta", 0.1}, {"C", 1.2}},
       [](double pi, double mu, bool positive) {
         return std::min(pi / mu, 1.2) * (1 - (positive ? 1 : -1) * (pi - mu) / 0.1);
       }},
      {"mask_drpo",
       {{"delta", 0.05}, {"C", 1.2}},
       [](double pi, double mu, bool positive) {
         const double factor = 1 - (positive ? 1 : -1) * (pi - mu) / 0.05;
         return std::min(pi / mu, 1.2) * (std::abs(pi - mu) <= 0.05 ? 1 : factor);
       }},
      {"spo",
       {{"eps", 0.2}},
       [](double pi, double mu, bool positive) { return pi / mu * (1 - (positive ? 1 : -1) * (pi / mu - 1) / 0.2); }},
      {"sapo",
       {},
       [](double pi, double mu, bool positive) {
         const double x = (positive ? 1 : 1.05) * (pi / mu - 1), sigmoid = 1 / (1 + std::exp(-x));
         return 4 * pi / mu * sigmoid * (1 - sigmoid);
       }},
      {"dgpo",
       {},
       [](double pi, double mu, bool positive) {
         const double r = pi / mu;
         if (positive && r > 1.28) return std::sqrt(r) * std::sqrt(1.28);
         return !positive && r < 0.8 ? r * r / 0.8 : r;
       }},
  };
}

/// w of every token [N, V] from probabilities and the sign of each row's advantage.
inline at::Tensor written_rows(const WrittenWeight& written, const at::Tensor& pi, const at::Tensor& mu,
                               const at::Tensor& advantages) {
  at::Tensor weights = at::empty_like(pi);
  const auto p = pi.accessor<double, 2>(), q = mu.accessor<double, 2>();
  auto w = weights.accessor<double, 2>();
  for (int64_t i = 0; i < pi.size(0); ++i) {
    const bool positive = advantages[i].item<double>() > 0;
    for (int64_t v = 0; v < pi.size(1); ++v) w[i][v] = written.weight(p[i][v], q[i][v], positive);
  }
  return weights;
}

}  // namespace keel
