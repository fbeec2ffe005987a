#include "keel/counterfactual/advice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/counterfactual/step_facts.h"
#include "keel/record/tokens/token_reader.h"

namespace keel {
namespace {

std::vector<std::string> thresholds_of(const AskedMethod& asked) {
  const std::vector<std::string> names = threshold_parameters(asked.region);
  if (names.empty() || !properties(asked.region).has_boundary)
    fail(ExitCode::kBadConfiguration, asked.name, ": has no threshold to advise on",
         names.empty() ? " (delta, threshold, eps, or low and high)" : ": it leaves no token outside",
         "; give another with --method, such as dppo_tv, drpo or grpo");
  return names;
}

double number_of(const TrustRegion& region, const std::string& parameter) {
  for (const auto& [name, value] : number_parameters(region))
    if (name == parameter) return value;
  fail(ExitCode::kInternal, "no parameter ", parameter);
}

/// Without what a sum in binary leaves behind its digits.
double rounded(double value, int digits) {
  const double scale = std::pow(10.0, digits - 1 - static_cast<int>(std::floor(std::log10(value) + 1e-9)));
  return std::round(value * scale) / scale;
}

/// Whether the method takes it: a total variation is at most 1.
bool is_threshold(const AskedMethod& asked, double value) {
  try {
    with_threshold(asked, value);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

double threshold_of(const AskedMethod& asked) {
  double threshold = std::numeric_limits<double>::infinity();
  for (const std::string& name : thresholds_of(asked))
    if (const double value = number_of(asked.region, name); std::isfinite(value)) threshold = value;
  return threshold;
}

AskedMethod with_threshold(const AskedMethod& asked, double value) {
  AskedMethod result = asked;
  const std::vector<std::string> names = thresholds_of(asked);
  const double own = threshold_of(asked);
  std::string set;
  for (const std::string& name : names) {
    const double now = number_of(asked.region, name);
    if (std::isinf(now) && std::isfinite(own)) {  // no limit on that side, and the other one moves
      set += str_cat(set.empty() ? "" : ",", name, "=null");
      continue;
    }
    const double each = now == own ? value : rounded(value * (now / own), 3);
    set_parameter(result.region, asked.method, name, each);
    set += str_cat(set.empty() ? "" : ",", name, "=", each);
  }
  result.name = asked.method + ":" + set;
  if (const auto found = check_parameters(result.region))
    fail(ExitCode::kBadConfiguration, asked.method, ": ", found->reason);
  return result;
}

std::vector<double> thresholds_for(const AskedMethod& asked, int in_decade) {
  std::vector<double> values;
  for (int decade = -4; decade < 2; ++decade)
    for (int i = 0; i < in_decade; ++i) {
      const int digits = in_decade == 3 ? 1 : 2;
      const double value = rounded(std::pow(10.0, decade + static_cast<double>(i) / in_decade), digits);
      if (is_threshold(asked, value)) values.push_back(value);
    }
  return values;
}

Advice advise(const std::vector<std::filesystem::path>& files, const AskedMethod& asked,
              const std::vector<double>& thresholds, double target) {
  Advice advice{.answers = {}, .thresholds = thresholds, .shown = {}, .target = target};
  std::vector<double> all = thresholds_for(asked, 10);
  TokenQuestion question;
  for (const double value : thresholds) question.methods.push_back(with_threshold(asked, value));
  for (const double value : all) question.methods.push_back(with_threshold(asked, value));
  advice.answers = answer(files, question);
  std::vector<MethodAnswer>& answers = advice.answers.methods;
  double nearest = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const double share = answers[thresholds.size() + i].decisions.outside.all.share();
    if (share <= 0 || (advice.best && std::abs(share - target) >= nearest)) continue;
    advice.best = all[i], advice.best_share = share;
    nearest = std::abs(share - target);
  }
  answers.resize(thresholds.size());
  advice.shown = std::move(answers);
  answers.clear();
  return advice;
}

AskedMethod method_of_run(const std::filesystem::path& file) {
  const StepFacts facts = step_facts(TokenReader(file).facts(), file.string());
  return {facts.method, facts.method, facts.region};
}

std::vector<const TypeDifference*> most_often_outside(const MethodAnswer& answer) {
  std::vector<const TypeDifference*> types;
  for (const TypeDifference& type : answer.types)
    if (type.outside > 0) types.push_back(&type);
  std::ranges::stable_sort(types, std::greater(), &TypeDifference::outside);
  types.resize(std::min<size_t>(types.size(), 3));
  return types;
}

std::string setting_for(const AskedMethod& asked, double threshold) {
  static const std::vector<std::pair<std::string, std::string>> kKeys = {{"delta", "delta"},
                                                                         {"low", "delta_low"},
                                                                         {"high", "delta_high"},
                                                                         {"ratio_cap", "ratio_cap"},
                                                                         {"anchor", "anchor"}};
  const TrustRegion chosen = with_threshold(asked, threshold).region, own = find_method(asked.method, "").region;
  const std::vector<std::string> thresholds = thresholds_of(asked);
  // What the configuration says and the method does not have, or has by another name, would contradict it.
  std::map<std::string, std::string> by_key;
  for (const auto& [name, key] : kKeys) by_key[name] = "null";
  std::vector<std::string> others;
  const auto add = [&](const std::string& name, const std::string& value, bool by_name) {
    if (std::ranges::find(kKeys, name, &std::pair<std::string, std::string>::first) != kKeys.end() && !by_name)
      by_key[name] = value;
    else
      others.push_back(name + "=" + value);
  };
  for (const auto& [name, value] : number_parameters(chosen))
    if (std::ranges::find(thresholds, name) != thresholds.end() || value != number_of(own, name))
      add(name, std::isinf(value) ? "null" : str_cat(value), /*by_name=*/std::isinf(value));
  const auto own_words = choice_parameters(own);
  for (const auto& [name, word] : choice_parameters(chosen))
    if (std::ranges::find(own_words, std::pair(name, word)) == own_words.end()) add(name, word, false);
  std::string settings = "objective.method=" + asked.method;
  for (const auto& [name, key] : kKeys) settings += " objective." + key + "=" + by_key[name];
  return settings + " 'objective.parameters=[" + joined(others, ",") + "]'";
}

}  // namespace keel
