#include "keel/objective/regions.h"

#include <array>
#include <cmath>
#include <map>
#include <sstream>

#include "keel/core/error.h"
#include "keel/core/nearest.h"
#include "keel/objective/methods.h"

namespace keel {
namespace {

/// Shows every parameter to one of the two functions.
template <class Number, class Word>
void for_each_parameter(TrustRegion& region, Number number, Word word) {
  const ParameterVisitor visitor{number, word};
  std::visit([&](auto& r) { r.visit(visitor); }, region);
}

template <class Region, class... Others>
constexpr bool is_among(std::tuple<Others...>*) {
  return (std::is_same_v<Region, Others> || ...);
}

std::string listed(Words words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

/// Beyond these a threshold, its inverse or their product with a ratio leaves float32.
constexpr double kLeast = 1e-20, kMost = 1e20;

struct Range {
  double least, most;
  const char* wanted;
};

Range range_of(Limit limit) {
  switch (limit) {
    case Limit::kPositive:
      return {kLeast, kMost, "a number above 0 (1e-20 to 1e20)"};
    case Limit::kFromZero:
      return {0, kMost, "a number from 0 on (to 1e20)"};
    case Limit::kFromZeroToOne:
      return {0, 1, "a number from 0 to 1"};
    case Limit::kFromOne:
      return {1, kMost, "a number from 1 on (to 1e20)"};
    case Limit::kTokenCount:
      return {1, 64, "a whole number from 1 to 64"};
  }
  fail(ExitCode::kInternal, "no such limit: ", static_cast<int>(limit));
}

/// `now` is the parameter's value so far. Null means "no limit": of a threshold or a cap, and of what has none yet, but
/// not of a weight or a lower bound, which would swallow everything else, nor of a count.
double number_from(const Json& value, Limit limit, double now, const std::string& place) {
  const Range range = range_of(limit);
  const bool count = limit == Limit::kTokenCount, may_be_null = !count && (range.least > 0 || now == kUnlimited);
  const char* or_null = may_be_null ? ", or null (None) for no limit" : "";
  if (value.is_null() && may_be_null) return kUnlimited;
  if (value.is_null()) fail(ExitCode::kBadConfiguration, place, " is null (None); wanted ", range.wanted);
  if (!value.is_number())
    fail(ExitCode::kBadConfiguration, place, " is ", value.dump(), "; wanted ", range.wanted, or_null);
  const double number = value.get<double>();
  if (!(number >= range.least && number <= range.most) || (count && number != std::floor(number)))
    fail(ExitCode::kBadConfiguration, place, " is ", number, "; wanted ", range.wanted, or_null);
  return number;
}

int place_from(const Json& value, Words words, const std::string& place) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();  // true is "true"
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == text) return static_cast<int>(i);
  fail(ExitCode::kBadConfiguration, place, " is ", value.dump(), "; known: ", listed(words));
}

std::string shown(double number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

/// A lower bound above the upper one leaves nothing between them.
std::optional<Contradiction> crossed_bounds(const std::map<std::string, double>& numbers) {
  constexpr std::array<std::pair<const char*, const char*>, 5> kBounds{{{"gap_low", "gap_high"},
                                                                        {"ratio_low", "ratio_high"},
                                                                        {"sigma", "sigma_high"},
                                                                        {"factor_low", "factor_high"},
                                                                        {"delta_b", "delta_b_max"}}};
  for (const auto& [low, high] : kBounds) {
    if (!numbers.contains(low) || !numbers.contains(high) || numbers.at(low) <= numbers.at(high)) continue;
    return Contradiction{low, std::string(low) + " is " + shown(numbers.at(low)) + " and " + high + " is " +
                                  shown(numbers.at(high)) + "; wanted " + low + " at most " + high};
  }
  return {};
}

/// The thresholds of a mask on a total variation. (DRPO's delta is a slope: any size of it is felt.)
std::vector<std::string> tv_thresholds(const TrustRegion& region) {
  if (const auto* r = std::get_if<Dppo>(&region); r && is_total_variation(r->divergence)) return {"low", "high"};
  if (std::holds_alternative<PrimeRlDefault>(region)) return {"low", "high"};
  if (std::holds_alternative<MinimalMask>(region)) return {"delta"};
  if (std::holds_alternative<Ipo>(region)) return {"threshold"};
  if (const auto* r = std::get_if<TrmMax>(&region); r && is_total_variation(r->divergence)) return {"delta"};
  if (const auto* r = std::get_if<TrmAvg>(&region); r && is_total_variation(r->divergence)) return {"delta"};
  return {};
}

/// A K that nothing would read.
std::optional<Contradiction> unread_k(const TrustRegion& region, const std::map<std::string, double>& numbers) {
  if (!numbers.contains("k") || numbers.at("k") == kPapersTopK || requirements(region).top_k > 0) return {};
  return Contradiction{"k", "k is " + shown(numbers.at("k")) +
                                ", but the divergence is not over the sampler's k likeliest tokens; wanted the "
                                "divergence topk_tv or topk_kl, or no k"};
}

/// What these regions cannot measure.
std::optional<Contradiction> unmeasurable(const TrustRegion& region) {
  const auto* dppo = std::get_if<Dppo>(&region);
  const auto* drpo = std::get_if<Drpo>(&region);
  if (!dppo && !drpo) return {};
  const Divergence divergence = dppo ? dppo->divergence : drpo->divergence;
  const std::string word(words_of(divergence)[static_cast<size_t>(divergence)]);
  if (divergence == Divergence::kK1 || divergence == Divergence::kK2 || divergence == Divergence::kK3)
    return Contradiction{"divergence", "divergence is " + word +
                                           ", which is a function of the ratio and no distance of one token; wanted "
                                           "binary_tv, binary_kl, topk_tv, topk_kl, full_tv or full_kl"};
  if (dppo && dppo->anchor == Anchor::kRecomputed && divergence != Divergence::kBinaryTv &&
      divergence != Divergence::kBinaryKl)
    return Contradiction{"anchor", "anchor is recomputed, but " + word +
                                       " is measured from the sampler's distribution; wanted the anchor behavior, or "
                                       "the divergence binary_tv or binary_kl"};
  return {};
}

}  // namespace

std::optional<Contradiction> contradiction(const TrustRegion& region) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : parameters(region)) numbers[name] = value;
  if (const auto found = crossed_bounds(numbers)) return found;
  if (const auto found = unread_k(region, numbers)) return found;
  for (const std::string& name : tv_thresholds(region))
    if (numbers.at(name) > 1 && numbers.at(name) != kUnlimited)
      return Contradiction{name, name + " is " + shown(numbers.at(name)) +
                                     ", but a total variation is at most 1, so that nothing would be held back; wanted "
                                     "at most 1, or null (None) for no limit"};
  return unmeasurable(region);
}

std::string parameter_name(const std::string& name) { return name == "C" || name == "c" ? "ratio_cap" : name; }

void set_parameter(TrustRegion& region, const std::string& method, const std::string& name, const Json& value) {
  const std::string wanted = parameter_name(name), place = method + "'s parameter \"" + name + "\"";
  bool found = false;
  for_each_parameter(
      region,
      [&](std::string_view each, double& target, Limit limit) {
        if (each == wanted) found = true, target = number_from(value, limit, target, place);
      },
      [&](std::string_view each, int& target, Words words) {
        if (each == wanted) found = true, target = place_from(value, words, place);
      });
  if (found) return;
  std::string known;
  for (const std::string& each : parameter_names(region)) known += (known.empty() ? "" : ", ") + each;
  const std::optional<std::string> near = nearest_name(name, parameter_names(region));
  fail(ExitCode::kBadConfiguration, "the method ", method, " has no parameter \"", name, "\"; ",
       near ? "did you mean " + *near + "? " : "", known.empty() ? "it has none" : "it has: " + known);
}

TrustRegion make_region(const std::string& method, const Json& parameters) {
  TrustRegion region = method_named(method, "no method").region;
  std::map<std::string, std::string> given;
  for (const auto& [name, value] : parameters.items()) {
    const auto [first, fresh] = given.emplace(parameter_name(name), name);
    if (!fresh)
      fail(ExitCode::kBadConfiguration, method, "'s parameters \"", first->second, "\" and \"", name,
           "\" are the same one; keep one of them");
    set_parameter(region, method, name, value);
  }
  if (const auto found = contradiction(region)) fail(ExitCode::kBadConfiguration, method, ": ", found->reason);
  return region;
}

bool clips_ratio(const TrustRegion& region) {
  using Clips = decltype(std::tuple_cat(std::declval<RatioClipFamily>(), std::declval<CorrectionFamily>(),
                                        std::declval<std::tuple<Cispo, Gspo, Gmpo, Dgpo, DsV32>>()));
  return std::visit([](const auto& r) { return is_among<std::decay_t<decltype(r)>>(static_cast<Clips*>(nullptr)); },
                    region);
}

std::vector<std::string> parameter_names(const TrustRegion& region) {
  std::vector<std::string> names;
  TrustRegion copy = region;
  for_each_parameter(
      copy, [&](std::string_view name, double&, Limit) { names.emplace_back(name); },
      [&](std::string_view name, int&, Words) { names.emplace_back(name); });
  return names;
}

std::vector<std::pair<std::string, double>> parameters(const TrustRegion& region) {
  std::vector<std::pair<std::string, double>> result;
  TrustRegion copy = region;
  for_each_parameter(
      copy, [&](std::string_view name, double& value, Limit) { result.emplace_back(name, value); },
      [](std::string_view, int&, Words) {});
  return result;
}

std::vector<std::pair<std::string, std::string>> word_parameters(const TrustRegion& region) {
  std::vector<std::pair<std::string, std::string>> result;
  TrustRegion copy = region;
  for_each_parameter(
      copy, [](std::string_view, double&, Limit) {},
      [&](std::string_view name, int& place, Words words) { result.emplace_back(name, words[place]); });
  return result;
}

}  // namespace keel
