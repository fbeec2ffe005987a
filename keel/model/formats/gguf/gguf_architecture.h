#pragma once

// The supported architectures of GGUF files: their differences, and their tensor names in GGUF and Hugging Face files.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace keel {

struct GgufArchitecture {
  enum class Bias { kNone, kOptional, kQueryKeyValue };

  std::string_view name;                // general.architecture
  const char *model_type, *class_name;  // config.json
  Bias bias;                            // of the attention
  bool interleaved_heads;               // query and key rows are reordered for the interleaved RoPE of ggml
  bool query_key_norm;
  bool is_gemma;               // norms also after attention and MLP; all norm weights are stored plus 1
  int64_t sliding_period = 0;  // the last layer of each period has full attention, others slide; 0: no sliding
  /// Gemma models with this number of layers scale attention by 1 / sqrt(hidden / heads) instead of 1 / sqrt(head_dim).
  /// The file does not contain this, so readers recognise the largest model by its number of layers.
  int64_t layers_of_largest = 0;

  std::string key(const char* name_after_dot) const { return std::string(name) + "." + name_after_dot; }
  std::string rope_key(const char* name_after_rope) const { return key("rope.") + name_after_rope; }
};

std::span<const GgufArchitecture> gguf_architectures();

/// The sizes that determine the tensors.
struct GgufShape {
  int64_t vocabulary = 0, layers = 0, hidden = 0, intermediate = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool attention_bias = false, mlp_bias = false, tied = false;
};

/// The query_pre_attn_scalar of Gemma: attention scores are divided by its square root.
int64_t gguf_query_scalar(const GgufArchitecture& architecture, const GgufShape& shape);

/// A parameter: its Hugging Face name and its tensor in the file.
struct GgufParameter {
  std::string name, source;    // "model.norm.weight", "output_norm.weight"
  std::vector<int64_t> shape;  // as in torch
  /// If above 0: the number of heads whose rows are interleaved in the file (queries and keys of llama).
  int64_t interleaved_heads = 0;
  bool plus_one = false;  // the file holds the parameter plus 1

  /// The row in the file of a row of the parameter.
  int64_t file_row(int64_t row) const;
};

/// All parameters of a model in file order, without lm_head.weight if it is tied to the embedding.
std::vector<GgufParameter> gguf_parameters(const GgufArchitecture& architecture, const GgufShape& shape);

}  // namespace keel
