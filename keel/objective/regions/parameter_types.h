#pragma once

#include <array>
#include <functional>
#include <span>
#include <string_view>
#include <type_traits>

namespace keel {

// Enum parameters of regions. `choices_of` lists the names of the values of each type, in order.

/// The log-probs that a ratio or divergence is measured against: those of the sampler, or those that the trainer
/// recomputes at the sampling weights.
enum class Anchor { kBehavior, kRecomputed };
/// Whether a correction weight is per token or the product over the sequence.
enum class Level { kToken, kSequence };
enum class AverageOver { kGroup, kBatch };
/// A measure of the distance between pi and mu; divergence.h has the definitions.
enum class Divergence { kBinaryTv, kBinaryKl, kTopKTv, kTopKKl, kFullTv, kFullKl, kK1, kK2, kK3 };
/// How a top-K divergence includes a sampled token outside the K: as token K + 1, or in place of the last one.
enum class TopKSupport { kUnion, kReplaceLast };
/// The side on which a ratio clip does not apply to rare tokens: the upper bound, the lower bound, or both.
enum class Side { kHigh, kLow, kBoth };
enum class Switch { kOff, kOn };
/// What a gate on old/mu measures: the ratio itself, or the binary KL divergence or total variation of the token.
enum class GateMeasure { kRatio, kBinaryKl, kTv };
/// What a gate does with weights outside of its interval: block the token, or clip the weight.
enum class GateMode { kMask, kClip };

using Choices = std::span<const std::string_view>;

namespace choices {
inline constexpr std::array<std::string_view, 2> kAnchor{"behavior", "recomputed"};
inline constexpr std::array<std::string_view, 2> kLevel{"token", "sequence"};
inline constexpr std::array<std::string_view, 2> kAverageOver{"group", "batch"};
inline constexpr std::array<std::string_view, 9> kDivergence{"binary_tv", "binary_kl", "topk_tv", "topk_kl", "full_tv",
                                                             "full_kl",   "k1",        "k2",      "k3"};
inline constexpr std::array<std::string_view, 2> kTopKSupport{"union", "replace_last"};
inline constexpr std::array<std::string_view, 3> kSide{"high", "low", "both"};
inline constexpr std::array<std::string_view, 2> kSwitch{"false", "true"};
inline constexpr std::array<std::string_view, 3> kGateMeasure{"ratio", "binary_kl", "tv"};
inline constexpr std::array<std::string_view, 2> kGateMode{"mask", "clip"};
}  // namespace choices

inline Choices choices_of(Anchor) { return choices::kAnchor; }
inline Choices choices_of(Level) { return choices::kLevel; }
inline Choices choices_of(AverageOver) { return choices::kAverageOver; }
inline Choices choices_of(Divergence) { return choices::kDivergence; }
inline Choices choices_of(TopKSupport) { return choices::kTopKSupport; }
inline Choices choices_of(Side) { return choices::kSide; }
inline Choices choices_of(Switch) { return choices::kSwitch; }
inline Choices choices_of(GateMeasure) { return choices::kGateMeasure; }
inline Choices choices_of(GateMode) { return choices::kGateMode; }

/// The valid range of a number. Thresholds, divisors and `ratio_cap` are positive; numbers that 0 switches off are
/// non-negative. The dual clip is at least 1, since a lower one would clip tokens whose ratio is 1. kTopK is an integer
/// up to 128, the maximum that the sampler records per token.
enum class NumberRange { kPositive, kNonNegative, kUnitInterval, kAtLeastOne, kTopK };

/// Called with the name and value of each parameter of a region. An enum is passed as its index among its choices.
struct ParameterVisitor {
  std::function<void(std::string_view name, double& value, NumberRange range)> number;
  std::function<void(std::string_view name, int& index, Choices choices)> choice;

  void operator()(std::string_view name, double& value, NumberRange range = NumberRange::kPositive) const {
    number(name, value, range);
  }

  template <class Enum>
  requires std::is_enum_v<Enum>
  void operator()(std::string_view name, Enum& value) const {
    int index = static_cast<int>(value);
    choice(name, index, choices_of(value));
    value = static_cast<Enum>(index);
  }
};

}  // namespace keel
