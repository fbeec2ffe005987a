#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/support/goldens.h"

namespace keel {

/// The values of one sequence and the parameters of a method.
struct WrittenTokens {
  std::vector<double> logp, behavior_logp, old_logp, advantages;
  std::vector<bool> keep, valid;
  double tau = std::numeric_limits<double>::infinity();  // of M2PO, which depends on the batch
  Json params = {};

  bool recomputed() const { return params.value("anchor", "") == "recomputed"; }
  double parameter(const char* name, double otherwise = std::numeric_limits<double>::infinity()) const {
    return params.contains(name) && !params.at(name).is_null() ? params.at(name).get<double>() : otherwise;
  }
  double log_ratio(size_t t) const { return logp[t] - (recomputed() ? old_logp : behavior_logp)[t]; }
  double gap_log_ratio(size_t t) const { return old_logp[t] - behavior_logp[t]; }
  size_t size() const { return logp.size(); }
};

inline double held_exp(double x) { return std::exp(std::clamp(x, -20.0, 20.0)); }

template <class Function>
double sum_over_valid(const WrittenTokens& x, Function function) {
  double sum = 0;
  for (size_t t = 0; t < x.size(); ++t)
    if (x.valid[t]) sum += function(t);
  return sum;
}

template <class Function>
double mean_over_valid(const WrittenTokens& x, Function function) {
  return sum_over_valid(x, function) / std::max(sum_over_valid(x, [](size_t) { return 1.0; }), 1.0);
}

/// min(r A, clip(r, 1 - low, 1 + high) A), and at least dual A for A < 0.
inline double clipped_objective(double r, double a, const WrittenTokens& x) {
  const double bounded = std::clamp(r, 1 - x.parameter("low"), 1 + x.parameter("high"));
  const double clipped = std::min(r * a, bounded * a);
  return a < 0 && x.params.contains("dual") ? std::max(clipped, x.parameter("dual") * a) : clipped;
}

/// J of token t as defined in the papers or code; masks are constants.
using WrittenObjective = std::function<double(const WrittenTokens& x, size_t t)>;

inline const std::map<std::string, WrittenObjective>& written_objectives() {
  const auto ratio = [](const WrittenTokens& x, size_t t) { return held_exp(x.log_ratio(t)); };
  const auto difference = [](const WrittenTokens& x, size_t t) {
    return std::exp(x.logp[t]) - std::exp(x.behavior_logp[t]);
  };
  const WrittenObjective masked = [=](const WrittenTokens& x, size_t t) {
    return x.keep[t] ? held_exp(x.logp[t] - x.behavior_logp[t]) * x.advantages[t] : 0.0;
  };
  const WrittenObjective clip = [=](const WrittenTokens& x, size_t t) {
    return clipped_objective(ratio(x, t), x.advantages[t], x);
  };
  const WrittenObjective pulled = [=](const WrittenTokens& x, size_t t) {
    return masked(x, t) - x.parameter("tau") * std::pow(x.log_ratio(t), 2);
  };
  // mu (r - 1)^2 = (pi - mu)(r - 1): pi - mu is not clamped where r is.
  const auto penalty = [=](const WrittenTokens& x, size_t t) {
    return difference(x, t) * (ratio(x, t) - 1) / (2 * x.parameter("delta"));
  };
  const WrittenObjective drpo = [=](const WrittenTokens& x, size_t t) {
    return ratio(x, t) * x.advantages[t] - std::abs(x.advantages[t]) * penalty(x, t);
  };
  const WrittenObjective corrected = [=](const WrittenTokens& x, size_t t) {
    const bool whole = x.params.value("level", "token") == "sequence";
    const double log_gap = whole ? sum_over_valid(x, [&](size_t u) { return x.gap_log_ratio(u); }) : x.gap_log_ratio(t);
    double gap = std::min(held_exp(log_gap), x.parameter("C"));
    if (gap < x.parameter("gap_low", 0) || gap > x.parameter("gap_high")) gap = 0;
    return gap * clipped_objective(held_exp(x.logp[t] - x.old_logp[t]), x.advantages[t], x);
  };
  static const std::map<std::string, WrittenObjective> table{
      {"pg", [](const WrittenTokens& x, size_t t) { return x.advantages[t] * x.logp[t]; }},
      {"pg_is", masked},
      {"ppo_clip", clip},
      {"dapo", clip},
      {"dppo_binary_tv", masked},
      {"dppo_binary_kl", masked},
      {"dppo_topk_tv", masked},
      {"dppo_topk_kl", masked},
      {"minimal_mask", masked},
      {"ipo", pulled},
      {"prime_rl_default", pulled},
      {"spo",
       [=](const WrittenTokens& x, size_t t) {
         const double a = x.advantages[t], r = ratio(x, t);
         return r * a - std::abs(a) / (2 * x.parameter("eps")) * std::pow(r - 1, 2);
       }},
      {"drpo", drpo},
      {"mask_drpo",
       [=](const WrittenTokens& x, size_t t) {
         return std::abs(difference(x, t)) > x.parameter("delta") ? drpo(x, t) : masked(x, t);
       }},
      {"drpo_no_abs_advantage",
       [=](const WrittenTokens& x, size_t t) { return ratio(x, t) * x.advantages[t] - penalty(x, t); }},
      {"tv_penalty",
       [=](const WrittenTokens& x, size_t t) {
         return ratio(x, t) * x.advantages[t] - x.parameter("weight") * std::abs(ratio(x, t) - 1);
       }},
      {"k3_penalty",
       [=](const WrittenTokens& x, size_t t) {
         const double r = ratio(x, t);
         return r * x.advantages[t] - x.parameter("weight") * (r - 1 - x.log_ratio(t));
       }},
      {"sapo",
       [=](const WrittenTokens& x, size_t t) {
         const double tau = x.parameter(x.advantages[t] > 0 ? "tau_positive" : "tau_negative");
         return 4 / tau / (1 + std::exp(-tau * (ratio(x, t) - 1))) * x.advantages[t];
       }},
      {"gspo",
       [](const WrittenTokens& x, size_t t) {
         const double s = held_exp(mean_over_valid(x, [&](size_t u) { return x.log_ratio(u); }));
         return clipped_objective(s, x.advantages[t], x);
       }},
      {"gmpo",
       [](const WrittenTokens& x, size_t t) {
         const double a = x.advantages[t], low = -x.parameter("low"), high = x.parameter("high");
         const double mean = mean_over_valid(
             x, [&](size_t u) { return a > 0 ? std::min(x.log_ratio(u), high) : std::max(x.log_ratio(u), low); });
         return held_exp(mean) * a;
       }},
      {"m2po",
       [=](const WrittenTokens& x, size_t t) {
         const double a = x.advantages[t], r = ratio(x, t), bound = std::exp(x.tau);
         return std::min(r * a, std::clamp(r, 1 / bound, bound) * a);
       }},
      {"dro",
       [](const WrittenTokens& x, size_t t) {
         return x.advantages[t] * x.logp[t] - x.parameter("beta") / 2 * std::pow(x.log_ratio(t), 2);
       }},
      {"tis", corrected},
      {"mis", corrected},
      {"icepop", corrected},
      {"ds_v32",
       [=](const WrittenTokens& x, size_t t) {
         const double drift = mean_over_valid(x, [&](size_t u) { return x.behavior_logp[u] - x.logp[u]; });
         return x.advantages[t] < 0 && drift > x.parameter("delta") ? 0.0 : clip(x, t);
       }},
      {"trm_max", masked},
      {"trm_avg", masked}};
  return table;
}

/// J of every token of a golden case; 0 for masked tokens. It uses `keep` of the goldens as the mask, except for clips.
inline std::vector<double> written_objective(const std::string& method, const Json& one, const Json& batch) {
  const auto all = [&](const char* name) { return numbers(batch.at(name)); };
  const std::vector<double> logp = all("logp"), mu = all("behavior_logp"), old = all("old_logp"), a = all("advantages");
  std::vector<double> result;
  size_t begin = 0;
  for (const Json& length : batch.at("lengths")) {
    WrittenTokens x;
    x.params = one.at("params");
    if (const Json tau = one.at("expected").value("tau", Json()); !tau.is_null()) x.tau = tau.get<double>();
    for (size_t t = begin; t < begin + length.get<size_t>(); ++t) {
      x.logp.push_back(logp[t]), x.behavior_logp.push_back(mu[t]), x.old_logp.push_back(old[t]);
      x.advantages.push_back(a[t]);
      x.valid.push_back(batch.at("mask").at(t) == 1);
      x.keep.push_back(!one.at("expected").contains("keep") || one.at("expected").at("keep").at(t) != 0);
    }
    for (size_t t = 0; t < x.size(); ++t) result.push_back(x.valid[t] ? written_objectives().at(method)(x, t) : 0.0);
    begin += x.size();
  }
  return result;
}

}  // namespace keel
