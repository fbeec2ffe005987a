#include "keel/model/formats/gguf/gguf_rope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/foreign_text.h"
#include "keel/model/formats/gguf/gguf_keys.h"

namespace keel {
namespace {

struct Scaling {
  double factor, low, high, original_context;
};

/// Wavelength of frequency i, in tokens.
double wavelength(size_t i, size_t frequencies, double rope_theta) {
  return 2 * std::numbers::pi * std::pow(rope_theta, static_cast<double>(i) / static_cast<double>(frequencies));
}

/// By what the frequency of this wavelength is divided: 1 for short waves, `factor` for long ones, and in between so
/// that the frequency itself goes linearly from one to the other.
double divisor(double wave, const Scaling& s) {
  const double turns = s.original_context / wave;
  if (turns > s.high) return 1;
  if (turns < s.low) return s.factor;
  const double smooth = (turns - s.low) / (s.high - s.low);
  return 1 / ((1 - smooth) / s.factor + smooth);
}

bool explains(const Scaling& scaling, std::span<const float> factors, double rope_theta) {
  for (size_t i = 0; i < factors.size(); ++i) {
    const double expected = divisor(wavelength(i, factors.size(), rope_theta), scaling);
    if (!(std::abs(expected - factors[i]) <= 1e-3 * expected)) return false;  // float32 arithmetic on their side
  }
  return true;
}

/// The nearest number with few digits, where it is near.
double rounded(double value) {
  const double coarse = std::round(value * 100) / 100;
  return std::abs(coarse - value) < 1e-3 * value ? coarse : value;
}

void check_known_keys(const GgufMetadata& metadata, const std::string& prefix) {
  constexpr std::array kKnown = {gguf::kRopeBase,     gguf::kRopeDimensions,      gguf::kRopeType,
                                 gguf::kRopeFactor,   gguf::kRopeOriginal,        gguf::kRopeStrength,
                                 gguf::kYarnBetaFast, gguf::kYarnBetaSlow,        "scale_linear",
                                 "scaling.finetuned", "scaling.yarn_attn_factor", "scaling.yarn_ext_factor"};
  for (const auto& [key, value] : metadata.tree().items()) {
    if (!key.starts_with(prefix) || key == std::string("gemma3.rope.") + gguf::kRopeBaseSliding) continue;
    if (std::find(kKnown.begin(), kKnown.end(), key.substr(prefix.size())) == kKnown.end())
      fail(ExitCode::kBadInput, metadata.path().string(), ": the key ", printable(key),
           " is not known, and it could change how positions turn queries and keys; use the model's own folder");
  }
}

}  // namespace

Json gguf_rope_scaling(const GgufMetadata& metadata, const std::string& architecture) {
  const std::string prefix = architecture + ".rope.";
  check_known_keys(metadata, prefix);
  const auto number = [&](const char* name) { return metadata.number(prefix + name); };
  const auto refuse = [&](const char* name, const auto& value, const char* wanted) {
    fail(ExitCode::kBadInput, metadata.path().string(), ": ", prefix, name, " is ", value, "; ", wanted);
  };
  const std::string type = metadata.text(prefix + gguf::kRopeType).value_or("linear");
  if (type != "none" && type != "linear" && type != "yarn")
    refuse(gguf::kRopeType, printable(type), "known are none, linear, yarn");
  const double strength = number(gguf::kRopeStrength).value_or(1) * number("scaling.yarn_attn_factor").value_or(1);
  if (type != "yarn" && strength != 1) refuse(gguf::kRopeStrength, strength, "expected 1 where there is no yarn");
  if (type == "none") return {};
  // A factor needs no type, and has an older name; 0 means none.
  const double factor = number(gguf::kRopeFactor).value_or(number("scale_linear").value_or(0));
  if (factor < 0) refuse(gguf::kRopeFactor, factor, "expected a number above 0");
  if (type == "linear") {
    if (factor == 0 || factor == 1) return {};
    return {{"rope_type", "linear"}, {"factor", factor}};
  }
  if (factor == 0) refuse(gguf::kRopeFactor, factor, "yarn needs a number above 0");
  if (const double extrapolated = number("scaling.yarn_ext_factor").value_or(1); extrapolated != 1)
    refuse("scaling.yarn_ext_factor", extrapolated, "known is 1");
  Json scaling = {{"rope_type", "yarn"}, {"factor", factor}};
  if (const auto original = metadata.integer(prefix + gguf::kRopeOriginal).value_or(0); original > 0)
    scaling["original_max_position_embeddings"] = original;
  if (const auto fast = number(gguf::kYarnBetaFast)) scaling["beta_fast"] = *fast;
  if (const auto slow = number(gguf::kYarnBetaSlow)) scaling["beta_slow"] = *slow;
  if (strength != 1) scaling["attention_factor"] = strength * (factor <= 1 ? 1 : 0.1 * std::log(factor) + 1);
  return scaling;
}

Json llama3_rope_scaling(std::span<const float> factors, double rope_theta, double original_context,
                         const std::string& place) {
  if (std::all_of(factors.begin(), factors.end(), [](float f) { return f == 1.0f; })) return {};
  const double factor = rounded(*std::max_element(factors.begin(), factors.end()));
  std::vector<Scaling> guesses = {{factor, 1, 4, original_context}};
  // Between the two ends `smooth` is a line in the number of turns; two points on it give the ends.
  std::vector<std::pair<double, double>> line;
  for (size_t i = 0; i < factors.size() && factor > 1; ++i) {
    if (factors[i] <= 1.001f || factors[i] >= factor * 0.999) continue;
    line.emplace_back(original_context / wavelength(i, factors.size(), rope_theta),
                      (1.0 / factors[i] - 1 / factor) / (1 - 1 / factor));
  }
  if (line.size() >= 2) {
    const auto [turns_a, smooth_a] = line.front();
    const auto [turns_b, smooth_b] = line.back();
    const double width = (turns_a - turns_b) / (smooth_a - smooth_b), low = turns_a - smooth_a * width;
    guesses.push_back({factor, rounded(low), rounded(low + width), original_context});
    guesses.push_back({factor, low, low + width, original_context});
  }
  for (const Scaling& guess : guesses) {
    const bool sound = std::isfinite(guess.factor) && guess.factor > 1 && original_context >= 1 &&
                       std::isfinite(guess.high) && guess.low > 0 && guess.high > guess.low;
    if (!sound || !explains(guess, factors, rope_theta)) continue;
    return {{"rope_type", "llama3"},
            {"factor", guess.factor},
            {"low_freq_factor", guess.low},
            {"high_freq_factor", guess.high},
            {"original_max_position_embeddings", static_cast<int64_t>(guess.original_context)}};
  }
  fail(ExitCode::kBadInput, place, ": the frequency factors in rope_freqs.weight (from ", factors.front(), " to ",
       factors.back(), ") are not those of Llama 3's rope scaling, the only one known; use the model's own folder");
}

}  // namespace keel
