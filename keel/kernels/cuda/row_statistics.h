#pragma once

#include <cstdint>

#include "keel/kernels/float_type.h"
#include "keel/kernels/row_math.h"

// The functions of keel/kernels/cpu/row_statistics.h on device pointers, on `stream` (a cudaStream_t). Each returns a
// CUDA error code or 0. The log-prob of a token outside the vocabulary is NaN.

namespace keel::cuda {

/// Bytes of device memory that normalize_rows() needs as workspace.
int64_t normalize_workspace_bytes(int64_t rows, int64_t vocab);

int normalize_rows(const float* logits, int64_t rows, int64_t vocab, double inverse_temperature,
                   RowNormalizer* normalizers, void* workspace, void* stream);

int token_log_probabilities(const float* logits, const RowNormalizer* normalizers, int64_t rows, int64_t vocab,
                            double inverse_temperature, const int64_t* ids, int64_t count, float* logps,
                            float* other_logps, void* stream);

int row_divergences(const float* logits, const RowNormalizer* normalizers, const float* behavior_logits,
                    const RowNormalizer* behavior_normalizers, int64_t rows, int64_t vocab, double inverse_temperature,
                    float* total_variations, float* kls, void* stream);

int weighted_masses(const float* logits, const RowNormalizer* normalizers, int64_t rows, int64_t vocab,
                    double inverse_temperature, const ScoreMasses& centering, float* totals, void* stream);

/// The largest ScoreMasses::count of logits_to_gradients().
constexpr int64_t kMaxListed = 1024;

/// The gradients have dtype `type`. A row of gradients starts where its row of logits did.
int logits_to_gradients(float* logits, const RowNormalizer* normalizers, int64_t rows, int64_t vocab,
                        double inverse_temperature, const LogitLoss& loss, FloatType type, void* stream);

}  // namespace keel::cuda
