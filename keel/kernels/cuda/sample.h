#pragma once

#include <cstdint>

#include "keel/kernels/active_sequences.h"
#include "keel/kernels/row_math.h"

namespace keel::cuda {

struct SampleRequest {
  const float* logits;  // [rows, vocab]
  int64_t rows, vocab;
  double temperature;
  uint64_t seed;
  const int64_t *rollout_ids, *positions;  // [rows]
  int64_t top_k;                           // 0 to kMaxTopK
};

struct SampleResults {
  int64_t* tokens;                         // [rows]
  float *logps, *other_logps, *entropies;  // [rows]
  int64_t* topk_ids;                       // [rows, top_k], most likely first
  float* topk_logps;                       // [rows, top_k]
};

constexpr int64_t kMaxTopK = 128;

/// Bytes of device memory that sample_tokens() needs as workspace.
int64_t sample_workspace_bytes(int64_t rows, int64_t vocab, int64_t top_k);

/// Samples a token for each row, with its log-probabilities, the entropy and the top_k most likely tokens; reads every
/// logit once. keel::cpu::sample_tokens on device pointers, on `stream` (a cudaStream_t). Returns a CUDA error code or
/// 0.
int sample_tokens(const SampleRequest& request, const SampleResults& results, void* workspace, void* stream);

/// keel::cpu::add_logit_noise on device pointers, on `stream` (a cudaStream_t). Returns a CUDA error code or 0.
int add_logit_noise(float* logits, int64_t rows, int64_t vocab, double deviation, uint64_t seed,
                    const int64_t* rollout_ids, const int64_t* positions, void* stream);

/// advance_row() for every row. All pointers are device pointers. Returns a CUDA error code or 0.
int advance_rows(const ActiveSequencePointers& batch, const NextTokenPointers& sampled, void* stream);

}  // namespace keel::cuda
