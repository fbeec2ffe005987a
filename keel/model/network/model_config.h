#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/json.h"
#include "keel/kernels/activation.h"

namespace keel {

class OptionTable;

/// The configuration section `model`: the source of the network, or the shape of a new random one.
struct ModelOptions {
  std::string path = "";
  bool random_weights = false;
  int64_t hidden_size = 64;
  int64_t layers = 2;
  int64_t heads = 4;
  // The next five are not settings: only benchmarks and tests change them.
  int64_t kv_heads = 0;           // 0: same as heads
  int64_t intermediate_size = 0;  // MLP width; 0: 8/3 of hidden_size, rounded down to a multiple of 16
  bool tie_embeddings = false;
  double rope_theta = 1e4;
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  int64_t max_positions = 2048;

  void describe(OptionTable& table);
};

/// Rotary position embedding (RoPE).
struct Rope {
  enum class Scaling { kNone, kLinear, kLlama3, kYarn };
  double theta = 1e4;
  Scaling scaling = Scaling::kNone;
  double factor = 1;
  double original_positions = 0;         // llama3, yarn: context length of pre-training
  double low_frequency_factor = 1;       // llama3
  double high_frequency_factor = 4;      // llama3
  double beta_fast = 32, beta_slow = 1;  // yarn
  bool truncate = true;                  // yarn: the correction range is rounded to whole dimensions
  double attention_factor = 1;           // yarn: scale of cos and sin
};

/// The shape of a network, with the names of Hugging Face's config.json. A family (families/) parses it. Families
/// differ only in the fields after `tie_word_embeddings`.
struct ModelConfig {
  std::string model_type = "llama";
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;

  Activation activation = Activation::kSilu;
  Rope rope;
  std::optional<Rope> sliding_rope;  // of sliding-window layers, if different (Gemma 3)
  bool attention_bias = false;       // on queries, keys and values
  bool output_bias = false;          // on the attention output
  bool mlp_bias = false;
  bool query_key_norm = false;    // RMSNorm over the queries and keys of each head, before RoPE
  bool norm_plus_one = false;     // Gemma stores norm weights minus 1
  bool norm_after = false;        // Gemma normalises the outputs of attention and MLP, too
  bool scaled_embedding = false;  // Gemma multiplies embeddings by sqrt(hidden_size)
  double attention_scale = 0;     // 0: 1 / sqrt(head_dim)
  double attention_softcap = 0;   // cap tanh(score / cap); 0: off
  double logit_softcap = 0;
  int64_t sliding_window = 0;    // window of sliding layers in tokens, including the query
  std::vector<bool> sliding;     // per layer: uses the sliding window; empty: no layer does
  Json source = Json::object();  // the original config.json, written back on save

  bool is_sliding(int64_t layer) const { return !sliding.empty() && sliding[layer]; }
  /// The scale of attention scores.
  double score_scale() const;
  /// The embedding row of the padding token, or -1. As in transformers, it is initialised to 0 and gets no input
  /// gradient.
  int64_t padding_row() const;
  int64_t parameter_count() const;
};

constexpr int64_t kMaxLayers = 1 << 16;  // far above any real model

/// Derives the shape from the options. Fails (exit code 2) for invalid shapes.
ModelConfig model_config(const ModelOptions& options, int64_t vocab_size);

/// Fails with `code` unless all sizes are valid and consistent.
void check_shape(const ModelConfig& config, ExitCode code, const std::string& location);

}  // namespace keel
