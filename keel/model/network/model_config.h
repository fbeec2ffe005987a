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

/// Where the network comes from, or the shape of one made from nothing; the section `model` of a configuration.
struct ModelOptions {
  std::string path = "";
  bool random_weights = false;
  int64_t hidden_size = 64;
  int64_t layers = 2;
  int64_t heads = 4;
  // The next five are not settings: benchmarks and tests vary them, runs take other shapes from a folder.
  int64_t kv_heads = 0;           // 0: as many as heads
  int64_t intermediate_size = 0;  // of the SwiGLU layer; 0: 8/3 of hidden_size, rounded down to a multiple of 16
  bool tie_embeddings = false;
  double rope_theta = 1e4;
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  int64_t max_positions = 2048;

  void describe(OptionTable& table);
};

/// How a position turns queries and keys.
struct Rope {
  enum class Scaling { kNone, kLinear, kLlama3, kYarn };
  double theta = 1e4;
  Scaling scaling = Scaling::kNone;
  double factor = 1;
  double original_positions = 0;         // llama3, yarn: what the model was first trained with
  double low_frequency_factor = 1;       // llama3
  double high_frequency_factor = 4;      // llama3
  double beta_fast = 32, beta_slow = 1;  // yarn
  bool truncate = true;                  // yarn: the band's edges are whole dimensions
  double attention_factor = 1;           // yarn: cos and sin are multiplied by it
};

/// A network's shape, in the words of Hugging Face's config.json; a family (families/) reads it from there. The fields
/// after `tie_word_embeddings` are what families differ by.
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
  std::optional<Rope> sliding_rope;  // of layers that slide, where they have their own (Gemma 3)
  bool attention_bias = false;       // of queries, keys and values
  bool output_bias = false;          // of the attention's output
  bool mlp_bias = false;
  bool query_key_norm = false;    // an RMSNorm over each head's queries and keys, before they are turned
  bool norm_plus_one = false;     // Gemma stores a norm's weight minus 1
  bool norm_after = false;        // Gemma norms what attention and MLP put out as well as what they take in
  bool scaled_embedding = false;  // Gemma multiplies embeddings by sqrt(hidden_size)
  double attention_scale = 0;     // 0: 1 / sqrt(head_dim)
  double attention_softcap = 0;   // cap tanh(score / cap); 0: none
  double logit_softcap = 0;
  int64_t sliding_window = 0;    // tokens a sliding layer sees, itself included
  std::vector<bool> sliding;     // per layer; empty: none slides
  Json source = Json::object();  // the config.json it was read from, written back on save

  bool slides(int64_t layer) const { return !sliding.empty() && sliding[layer]; }
  /// What attention scores are multiplied by.
  double score_scale() const;
  /// The padding token's row of the embedding, or -1: as in transformers it starts at 0 and as an input learns nothing.
  int64_t padding_row() const;
  int64_t parameter_count() const;
};

constexpr int64_t kMaxLayers = 1 << 16;  // far above every model's

/// Fills in what the options leave open and refuses impossible shapes (exit code 2).
ModelConfig model_config(const ModelOptions& options, int64_t vocab_size);

/// Fails with `code` unless every size makes sense and fits the others.
void check_shape(const ModelConfig& config, ExitCode code, const std::string& place);

}  // namespace keel
