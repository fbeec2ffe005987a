#pragma once

#include <cstdint>

#include "keel/kernels/active_sequences.h"
#include "keel/kernels/row_math.h"

namespace keel::cuda {

/// What is drawn from, and how.
struct DrawRequest {
  const float* logits;  // [rows, vocab]
  int64_t rows, vocab;
  double temperature;
  uint64_t seed;
  const int64_t *rollout_ids, *positions;  // [rows]
  int64_t top_k;                           // 0 to kMostLikeliest
};

/// What comes of it.
struct DrawnRows {
  int64_t* tokens;                         // [rows]
  float *logps, *other_logps, *entropies;  // [rows]
  int64_t* topk_ids;                       // [rows, top_k], the likeliest first
  float* topk_logps;                       // [rows, top_k]
};

constexpr int64_t kMostLikeliest = 64;

/// Room that a draw needs beside its results.
int64_t draw_workspace_bytes(int64_t rows, int64_t vocab, int64_t top_k);

/// A token of each row, what its distribution says of it, and the likeliest tokens, with one look at every logit:
/// keel::cpu::draw_tokens on device pointers, on `stream` (a cudaStream_t). Returns a CUDA error code, 0 for none.
int draw_tokens(const DrawRequest& request, const DrawnRows& drawn, void* workspace, void* stream);

/// keel::cpu::add_logit_noise on device pointers, on `stream` (a cudaStream_t). Returns a CUDA error code, 0 for none.
int add_logit_noise(float* logits, int64_t rows, int64_t vocab, double deviation, uint64_t seed,
                    const int64_t* rollout_ids, const int64_t* positions, void* stream);

/// advance_row for every row; all pointers are the device's. Returns a CUDA error code, 0 for none.
int advance_rows(const ActiveSequencePointers& running, const NextTokenPointers& drawn, void* stream);

}  // namespace keel::cuda
