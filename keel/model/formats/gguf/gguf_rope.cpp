#include "keel/model/formats/gguf/gguf_rope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/untrusted_text.h"
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

/// The divisor of the frequency with this wavelength: 1 for short ones, `factor` for long ones, and in between such
/// that the frequency is interpolated linearly.
double divisor(double wavelength, const Scaling& s) {
  const double rotations = s.original_context / wavelength;
  if (rotations > s.high) return 1;
  if (rotations < s.low) return s.factor;
  const double smooth = (rotations - s.low) / (s.high - s.low);
  return 1 / ((1 - smooth) / s.factor + smooth);
}

bool matches(const Scaling& scaling, std::span<const float> factors, double rope_theta) {
  for (size_t i = 0; i < factors.size(); ++i) {
    const double expected = divisor(wavelength(i, factors.size(), rope_theta), scaling);
    if (!(std::abs(expected - factors[i]) <= 1e-3 * expected)) return false;  // the writer computes in float32
  }
  return true;
}

/// Rounds to two decimals if the change is small.
double rounded(double value) {
  const double result = std::round(value * 100) / 100;
  return std::abs(result - value) < 1e-3 * value ? result : value;
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
           " is unknown and could change the rotary embedding; use the Hugging Face folder");
  }
}

}  // namespace

Json gguf_rope_scaling(const GgufMetadata& metadata, const std::string& architecture) {
  const std::string prefix = architecture + ".rope.";
  check_known_keys(metadata, prefix);
  const auto number = [&](const char* name) { return metadata.number(prefix + name); };
  const auto reject = [&](const char* name, const auto& value, const char* expected) {
    fail(ExitCode::kBadInput, metadata.path().string(), ": ", prefix, name, " is ", value, "; ", expected);
  };
  const std::string type = metadata.text(prefix + gguf::kRopeType).value_or("linear");
  if (type != "none" && type != "linear" && type != "yarn")
    reject(gguf::kRopeType, printable(type), "known: none, linear, yarn");
  const double attention_factor =
      number(gguf::kRopeStrength).value_or(1) * number("scaling.yarn_attn_factor").value_or(1);
  if (type != "yarn" && attention_factor != 1) reject(gguf::kRopeStrength, attention_factor, "expected 1 without yarn");
  if (type == "none") return {};
  // Files without a type can have a factor, also with an older name; 0 means none.
  const double factor = number(gguf::kRopeFactor).value_or(number("scale_linear").value_or(0));
  if (factor < 0) reject(gguf::kRopeFactor, factor, "expected a number above 0");
  if (type == "linear") {
    if (factor == 0 || factor == 1) return {};
    return {{"rope_type", "linear"}, {"factor", factor}};
  }
  if (factor == 0) reject(gguf::kRopeFactor, factor, "yarn needs a number above 0");
  if (const double extrapolated = number("scaling.yarn_ext_factor").value_or(1); extrapolated != 1)
    reject("scaling.yarn_ext_factor", extrapolated, "only 1 is supported");
  Json scaling = {{"rope_type", "yarn"}, {"factor", factor}};
  if (const auto original = metadata.integer(prefix + gguf::kRopeOriginal).value_or(0); original > 0)
    scaling["original_max_position_embeddings"] = original;
  if (const auto fast = number(gguf::kYarnBetaFast)) scaling["beta_fast"] = *fast;
  if (const auto slow = number(gguf::kYarnBetaSlow)) scaling["beta_slow"] = *slow;
  if (attention_factor != 1)
    scaling["attention_factor"] = attention_factor * (factor <= 1 ? 1 : 0.1 * std::log(factor) + 1);
  return scaling;
}

Json llama3_rope_scaling(std::span<const float> factors, double rope_theta, double original_context,
                         const std::string& location) {
  if (std::all_of(factors.begin(), factors.end(), [](float f) { return f == 1.0f; })) return {};
  const double factor = rounded(*std::max_element(factors.begin(), factors.end()));
  std::vector<Scaling> candidates = {{factor, 1, 4, original_context}};
  // In the interpolated range `smooth` is linear in the number of rotations: two points determine low and high.
  std::vector<std::pair<double, double>> points;
  for (size_t i = 0; i < factors.size() && factor > 1; ++i) {
    if (factors[i] <= 1.001f || factors[i] >= factor * 0.999) continue;
    points.emplace_back(original_context / wavelength(i, factors.size(), rope_theta),
                        (1.0 / factors[i] - 1 / factor) / (1 - 1 / factor));
  }
  if (points.size() >= 2) {
    const auto [rotations_a, smooth_a] = points.front();
    const auto [rotations_b, smooth_b] = points.back();
    const double width = (rotations_a - rotations_b) / (smooth_a - smooth_b), low = rotations_a - smooth_a * width;
    candidates.push_back({factor, rounded(low), rounded(low + width), original_context});
    candidates.push_back({factor, low, low + width, original_context});
  }
  for (const Scaling& candidate : candidates) {
    const bool valid = std::isfinite(candidate.factor) && candidate.factor > 1 && original_context >= 1 &&
                       std::isfinite(candidate.high) && candidate.low > 0 && candidate.high > candidate.low;
    if (!valid || !matches(candidate, factors, rope_theta)) continue;
    return {{"rope_type", "llama3"},
            {"factor", candidate.factor},
            {"low_freq_factor", candidate.low},
            {"high_freq_factor", candidate.high},
            {"original_max_position_embeddings", static_cast<int64_t>(candidate.original_context)}};
  }
  fail(ExitCode::kBadInput, location, ": the frequency factors in rope_freqs.weight (from ", factors.front(), " to ",
       factors.back(),
       ") do not match the RoPE scaling of Llama 3, the only supported one; use the Hugging Face folder");
}

}  // namespace keel
