#pragma once

#include <array>
#include <functional>
#include <span>
#include <string_view>
#include <type_traits>

namespace keel {

// Parameters of a region that are words. `choices_of` lists each type's, in the order of its values.

/// Whom a ratio or a divergence is measured against: the sampler, or the trainer's own recomputation of its log-probs.
enum class Anchor { kBehavior, kRecomputed };
/// Whether a correction looks at one token or at the product over its sequence.
enum class Level { kToken, kSequence };
/// Over which sequences an average runs.
enum class AverageOver { kGroup, kBatch };
/// How far pi is from mu: divergence.h has the definitions.
enum class Divergence { kBinaryTv, kBinaryKl, kTopKTv, kTopKKl, kFullTv, kFullKl, kK1, kK2, kK3 };
/// Which tokens a top-K divergence looks at when the sampled one is not among the K: K + 1, or the last one gives way.
enum class TopKSupport { kUnion, kReplaceLast };
/// On which side a ratio clip is lifted for rare tokens: where it would stop a rise, a fall, or both.
enum class Side { kHigh, kLow, kBoth };
enum class Switch { kOff, kOn };

using Choices = std::span<const std::string_view>;

namespace words {
inline constexpr std::array<std::string_view, 2> kAnchor{"behavior", "recomputed"};
inline constexpr std::array<std::string_view, 2> kLevel{"token", "sequence"};
inline constexpr std::array<std::string_view, 2> kAverageOver{"group", "batch"};
inline constexpr std::array<std::string_view, 9> kDivergence{"binary_tv", "binary_kl", "topk_tv", "topk_kl", "full_tv",
                                                             "full_kl",   "k1",        "k2",      "k3"};
inline constexpr std::array<std::string_view, 2> kTopKSupport{"union", "replace_last"};
inline constexpr std::array<std::string_view, 3> kSide{"high", "low", "both"};
inline constexpr std::array<std::string_view, 2> kSwitch{"false", "true"};
}  // namespace words

inline Choices choices_of(Anchor) { return words::kAnchor; }
inline Choices choices_of(Level) { return words::kLevel; }
inline Choices choices_of(AverageOver) { return words::kAverageOver; }
inline Choices choices_of(Divergence) { return words::kDivergence; }
inline Choices choices_of(TopKSupport) { return words::kTopKSupport; }
inline Choices choices_of(Side) { return words::kSide; }
inline Choices choices_of(Switch) { return words::kSwitch; }

/// What a number may be. At 0 a threshold, a divisor or a cap leaves nothing of the method; other numbers are switched
/// off by it. A share is from 0 to 1; below 1 the cap of a ratio would hold back tokens that have not moved. A number
/// of tokens is whole, and at most 64: the sampler sends that many for every token it draws.
enum class NumberRange { kPositive, kNonNegative, kUnitInterval, kAtLeastOne, kTopK };

/// Called with the name and the value of each of a region's parameters; a word is its place among the words it may be.
struct ParameterVisitor {
  std::function<void(std::string_view name, double& value, NumberRange limit)> number;
  std::function<void(std::string_view name, int& place, Choices words)> word;

  void operator()(std::string_view name, double& value, NumberRange limit = NumberRange::kPositive) const {
    number(name, value, limit);
  }

  template <class Enum>
  requires std::is_enum_v<Enum>
  void operator()(std::string_view name, Enum& value) const {
    int place = static_cast<int>(value);
    word(name, place, choices_of(value));
    value = static_cast<Enum>(place);
  }
};

}  // namespace keel
