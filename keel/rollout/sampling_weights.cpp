#include "keel/rollout/sampling_weights.h"

#include <ATen/ATen.h>

#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/rollout/rounding.h"

namespace keel {
namespace {

template <at::ScalarType type>
Tensor unscaled(const Tensor& x) {
  return round_to_type(x, type);
}

template <at::ScalarType type>
Tensor scaled_by_row(const Tensor& x) {  // a row is an output channel of a weight, or a token of activations
  return round_rows_to_float8(x, type);
}

template <int bits>
Tensor to_integers(const Tensor& x) {
  return round_to_integers(x, bits);
}

constexpr auto kBf16 = unscaled<at::kBFloat16>, kFp16 = unscaled<at::kHalf>;
constexpr auto kE4m3 = unscaled<at::kFloat8_e4m3fn>, kE5m2 = unscaled<at::kFloat8_e5m2>;
constexpr auto kE4m3Rows = scaled_by_row<at::kFloat8_e4m3fn>, kE5m2Rows = scaled_by_row<at::kFloat8_e5m2>;

}  // namespace

const std::vector<SamplingPrecision>& sampling_precisions() {
  static const std::vector<SamplingPrecision> kAll = {
      {"exact", "the model's own weights", {}},
      {"bf16", "weights, activations, keys and values rounded to bf16", {kBf16, kBf16, kBf16}},
      {"fp16", "weights, activations, keys and values rounded to fp16", {kFp16, kFp16, kFp16}},
      {"fp8", "a copy of the weights rounded to fp8 (e4m3, a scale per output channel)", {kE4m3Rows}},
      {"fp8_full",
       "weights rounded to fp8 (e4m3, a scale per output channel), activations too (a scale per token), keys and "
       "values too",
       {kE4m3Rows, kE4m3Rows, kE4m3}},
      {"fp8_e5m2_full",
       "weights rounded to fp8 (e4m3, a scale per output channel), activations to e5m2 (a scale per token), keys and "
       "values to e5m2",
       {kE4m3Rows, kE5m2Rows, kE5m2}},
      {"nvfp4",
       "a copy of the weights rounded to NVFP4 (e2m1, an e4m3 scale per 16 inputs, one scale per tensor)",
       {round_to_nvfp4}},
      {"int8",
       "a copy of the weights rounded to 8-bit integers (-127 to 127, a scale per output channel)",
       {to_integers<8>}},
      {"int4",
       "a copy of the weights rounded to 4-bit integers (-7 to 7, a scale per output channel)",
       {to_integers<4>}},
      {"int3",
       "a copy of the weights rounded to 3-bit integers (-3 to 3, a scale per output channel)",
       {to_integers<3>}}};
  return kAll;
}

const SamplingPrecision& sampling_precision(const std::string& name) {
  std::vector<std::string> known;
  for (const SamplingPrecision& precision : sampling_precisions()) {
    if (precision.name == name) return precision;
    known.push_back(precision.name);
  }
  fail(ExitCode::kBadConfiguration, "rollout.weights is \"", name, "\"; known: ", joined(known));
}

SamplingModel sampling_model(const SamplerWeights& weights, const std::string& precision) {
  return {weights, sampling_precision(precision).rounding};
}

}  // namespace keel
