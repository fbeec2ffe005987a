#include "keel/record/report/region_boundary.h"

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <set>

namespace keel {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
using Bound = std::function<double(double mu)>;  // the pi beyond which tokens are blocked; NaN: none

/// Returns points that are dense on both a linear and a logarithmic axis.
std::set<double> make_mu_grid() {
  std::set<double> grid;
  for (int i = -64; i <= 0; ++i) grid.insert(std::pow(10.0, i / 8.0));
  for (int i = 1; i <= 50; ++i) grid.insert(i / 50.0);
  return grid;
}

double limit_or_none(const Json& parameters, const char* name) {
  const auto found = parameters.find(name);
  return found != parameters.end() && found->is_number() ? found->get<double>() : kNoLimit;
}

std::string text_or_empty(const Json& parameters, const char* name) {
  const auto found = parameters.find(name);
  return found != parameters.end() && found->is_string() ? found->get<std::string>() : "";
}

/// mu log(mu/pi) + (1 - mu) log((1 - mu)/(1 - pi)).
double binary_kl(double mu, double pi) {
  const double other = mu < 1 ? (1 - mu) * (std::log1p(-mu) - std::log1p(-pi)) : 0;
  return mu * std::log(mu / pi) + other;
}

/// Finds by bisection the pi above or below mu with KL divergence `threshold`.
double kl_bound(double mu, double threshold, bool above) {
  double inside = mu, outside = above ? 1 : 0;
  if (above && mu >= 1) return NAN;
  for (int i = 0; i < 80; ++i) {
    const double middle = (inside + outside) / 2;
    (binary_kl(mu, middle) > threshold ? outside : inside) = middle;
  }
  return outside;
}

/// Collects curves, clipped to probabilities between 0 and 1.
class Curves {
 public:
  void add(bool positive, bool above, const Bound& bound, double from_mu = 0) {
    static const std::set<double> grid = make_mu_grid();
    std::set<double> mus = grid;
    // A bound that reaches 0 needs more points there on a logarithmic axis.
    if (const double zero = -bound(0); !above && zero > 0 && zero < 1)
      for (int i = -24; i < 0; ++i) mus.insert(zero + std::pow(10.0, i / 4.0));
    BoundaryCurve curve{positive, above, {}};
    for (const double mu : mus) {
      const double pi = bound(mu);
      if (mu <= 1 && mu >= from_mu && pi > 0 && pi < 1) curve.points.push_back({mu, pi});
    }
    if (!curve.points.empty()) curves_.push_back(std::move(curve));
  }
  void add_difference_limits(double low, double high) {
    add(true, true, [=](double mu) { return mu + high; });
    add(false, false, [=](double mu) { return mu - low; });
  }
  void add_kl_limits(double low, double high) {
    add(true, true, [=](double mu) { return std::isinf(high) ? NAN : kl_bound(mu, high, true); });
    add(false, false, [=](double mu) { return std::isinf(low) ? NAN : kl_bound(mu, low, false); });
  }
  /// Limits pi to at most `factor` times mu. Tokens with mu below `min_mu` are not limited.
  void add_upper_clip(double factor, double min_mu = 0) {
    add(
        true, true, [=](double mu) { return mu * factor; }, min_mu);
  }
  /// The same with a lower limit.
  void add_lower_clip(double factor, double min_mu = 0) {
    add(
        false, false, [=](double mu) { return mu * factor; }, min_mu);
  }
  std::vector<BoundaryCurve> take() { return std::move(curves_); }

 private:
  std::vector<BoundaryCurve> curves_;
};

RegionBoundary no_boundary(const std::string& why) { return {{}, "No boundary is drawn: " + why + "."}; }

constexpr const char* kWholeDistribution =
    "the method measures the whole distribution at a position, not only the sampled token";
constexpr const char* kAgainstRecomputed = "the method measures against the recomputed probability, not against μ";

bool is_one_of(const std::string& name, const std::set<std::string>& names) { return names.contains(name); }

/// DPPO and DRPO: limits on the change of probability.
std::optional<RegionBoundary> divergence_boundary(const std::string& method, const Json& parameters) {
  const bool dppo = method.starts_with("dppo_") || method == "prime_rl_default";
  const bool drpo = method.starts_with("drpo") || method == "mask_drpo";
  const bool ipo = method == "ipo" || method == "prime_rl_2026_09";
  if (!dppo && !drpo && !ipo && method != "minimal_mask") return std::nullopt;
  if (text_or_empty(parameters, "anchor") == "recomputed") return no_boundary(kAgainstRecomputed);
  const std::string divergence = text_or_empty(parameters, "divergence");
  Curves curves;
  if (method == "minimal_mask") {
    curves.add_difference_limits(limit_or_none(parameters, "delta"), kNoLimit);
    return RegionBoundary{curves.take(), "Only A < 0: blocked where μ − π reaches delta."};
  }
  if (ipo || method == "drpo_no_abs_advantage") {
    const double width = limit_or_none(parameters, ipo ? "threshold" : "delta");
    for (const bool positive : {true, false}) {
      curves.add(positive, true, [=](double mu) { return mu + width; });
      curves.add(positive, false, [=](double mu) { return mu - width; });
    }
    return RegionBoundary{curves.take(), ipo ? "Blocked where |π − μ| is above the threshold."
                                             : "The lines are |π − μ| = delta; nothing is blocked."};
  }
  const double low = limit_or_none(parameters, dppo ? "low" : "delta"),
               high = limit_or_none(parameters, dppo ? "high" : "delta");
  const std::string beyond = dppo ? "Blocked where an update leads away from μ and " : "Nothing is blocked: where ";
  const std::string then = dppo ? " is above the threshold." : " is above delta, the weight changes its sign.";
  if (divergence.empty() || divergence == "binary_tv") {
    curves.add_difference_limits(low, high);
    return RegionBoundary{curves.take(), beyond + "|π − μ|" + then};
  }
  if (is_one_of(divergence, {"topk_tv", "topk_kl", "full_tv", "full_kl"})) return no_boundary(kWholeDistribution);
  if (divergence != "binary_kl") return std::nullopt;
  curves.add_kl_limits(low, high);
  return RegionBoundary{curves.take(), beyond + "KL(μ‖π) of the sampled token" + then};
}

/// Clips of pi/mu.
std::optional<RegionBoundary> ratio_boundary(const std::string& method, const Json& parameters) {
  static const std::set<std::string> clips{"grpo", "grpo_clip_higher", "dr_grpo", "dapo",
                                           "ppo",  "ppo_gae",          "aspo",    "dgpo"};
  static const std::set<std::string> other_clips{"spo", "gmpo", "up_grpo", "icepop_direct"};
  const bool relaxed = method.starts_with("grpo_relax_");
  if (!is_one_of(method, clips) && !is_one_of(method, other_clips) && !relaxed) return std::nullopt;
  if (text_or_empty(parameters, "anchor") == "recomputed") return no_boundary(kAgainstRecomputed);
  const double low = limit_or_none(parameters, "low"), high = limit_or_none(parameters, "high"),
               dual = limit_or_none(parameters, "dual");
  Curves curves;
  std::string caption = "Blocked where π/μ leaves the clip in the direction of the update.";
  if (method == "spo") {
    curves.add_upper_clip(1 + limit_or_none(parameters, "eps"));
    curves.add_lower_clip(1 - limit_or_none(parameters, "eps"));
    caption = "Nothing is blocked: where |π/μ − 1| is above eps, the weight changes its sign.";
  } else if (method == "gmpo") {
    curves.add_upper_clip(std::exp(high));
    curves.add_lower_clip(std::exp(-low));
  } else if (method == "icepop_direct") {
    for (const bool positive : {true, false}) {
      curves.add(positive, true, [=, top = limit_or_none(parameters, "ratio_high")](double mu) { return mu * top; });
      curves.add(positive, false,
                 [=, bottom = limit_or_none(parameters, "ratio_low")](double mu) { return mu * bottom; });
    }
    caption = "Blocked where π/μ is outside of the interval.";
  } else {
    const double min_mu = relaxed ? limit_or_none(parameters, "alpha") : 0;
    const std::string side = text_or_empty(parameters, "relaxed");
    if (method != "up_grpo") curves.add_upper_clip(1 + high, side == "low" ? 0 : min_mu);
    curves.add_lower_clip(1 - low, side == "high" ? 0 : min_mu);
    curves.add(false, true, [=](double mu) { return mu * dual; });
    if (relaxed) caption += " Rare tokens are not clipped.";
    if (method == "up_grpo") caption = "Only A < 0: blocked where π/μ leaves the clip.";
    if (method == "dgpo") caption = "Nothing is blocked: where π/μ leaves the clip, the weight decays.";
  }
  return RegionBoundary{curves.take(), caption};
}

}  // namespace

RegionBoundary region_boundary(const std::string& method, const Json& parameters) {
  const Json known = parameters.is_object() ? parameters : Json::object();
  if (auto found = divergence_boundary(method, known)) return *found;
  if (auto found = ratio_boundary(method, known)) return *found;
  static const std::set<std::string> against_recomputed{"minirl", "minirl_tis", "tis", "mis", "icepop", "openrlhf"};
  static const std::set<std::string> by_sequence{"gspo", "vespo", "topr", "ds_v32", "trm_max", "trm_avg", "cppo"};
  static const std::set<std::string> by_update{"m2po", "tvpo"};
  static const std::set<std::string> without_region{"pg",         "pg_is",      "pg_tis", "cispo", "dro",
                                                    "tv_penalty", "k3_penalty", "sapo",   "maspo"};
  if (is_one_of(method, against_recomputed)) return no_boundary(kAgainstRecomputed);
  if (is_one_of(method, by_sequence))
    return no_boundary("the method decides on whole sequences, not on a token by its μ and π");
  if (is_one_of(method, by_update)) return no_boundary("the method decides on all tokens of an update together");
  if (is_one_of(method, without_region)) return no_boundary("the method has no region; it weights every token");
  return no_boundary("none is implemented for the method");
}

}  // namespace keel
