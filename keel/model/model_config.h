#pragma once

#include <cstdint>
#include <string>

#include "keel/core/json.h"

namespace keel {

class OptionTable;

/// The shape of a network made from nothing; the section `model` of a configuration.
struct ModelOptions {
  int64_t hidden_size = 64;
  int64_t layers = 2;
  int64_t heads = 4;
  int64_t kv_heads = 0;
  int64_t intermediate_size = 0;
  bool tie_embeddings = false;
  double rope_theta = 1e4;
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  int64_t max_positions = 2048;

  void describe(OptionTable& table);
};

/// A network's shape as Hugging Face's config.json writes it.
struct ModelConfig {
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  double rope_theta = 1e4;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;

  int64_t parameter_count() const;
};

/// Fills in what the options leave open and refuses impossible shapes (exit code 2).
ModelConfig model_config(const ModelOptions& options, int64_t vocab_size);

/// config.json of a Llama model; `special` holds bos_token_id, eos_token_id and pad_token_id where they exist.
Json to_config_json(const ModelConfig& config, const Json& special);

/// Reads a config.json; `place` names the file in errors (exit code 3).
ModelConfig from_config_json(const Json& json, const std::string& place);

}  // namespace keel
