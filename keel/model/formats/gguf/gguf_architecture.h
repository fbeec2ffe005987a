#pragma once

// The architectures of GGUF files that are read and written: what differs between them, and what their tensors are
// called here and there.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace keel {

struct GgufArchitecture {
  enum class Bias { kNone, kIfThere, kQueryKeyValue };

  std::string_view name;                // general.architecture
  const char *model_type, *class_name;  // config.json
  Bias bias;                            // of the attention
  bool interleaved_heads;               // queries and keys were reordered for ggml's older way to rotate pairs
  bool query_key_norm;
  bool is_gemma;               // norms after attention and MLP too, all stored with 1 added
  int64_t sliding_period = 0;  // the last layer of each so many attends to all, the others slide; 0: none ever slides
  /// Where there are so many layers, Gemma's scores are divided by the root of hidden / heads, not of the head's width:
  /// a file does not say it, and whoever reads one knows its largest model by this number.
  int64_t layers_of_largest = 0;

  std::string key(const char* name_after_dot) const { return std::string(name) + "." + name_after_dot; }
  std::string rope_key(const char* name_after_rope) const { return key("rope.") + name_after_rope; }
};

std::span<const GgufArchitecture> gguf_architectures();

/// What decides which tensors there are.
struct GgufShape {
  int64_t vocabulary = 0, layers = 0, hidden = 0, intermediate = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool attention_bias = false, mlp_bias = false, tied = false;
};

/// What is under the root that Gemma's attention scores are divided by.
int64_t gguf_query_scalar(const GgufArchitecture& architecture, const GgufShape& shape);

/// One parameter under its Hugging Face name, and where it comes from.
struct GgufParameter {
  std::string name, source;    // "model.norm.weight", "output_norm.weight"
  std::vector<int64_t> shape;  // as in torch
  /// Above 0: the rows of each of so many heads are interleaved in the file (llama's queries and keys).
  int64_t interleaved_heads = 0;
  bool plus_one = false;  // the file holds the parameter plus 1

  /// Which row of the file holds a row of the parameter.
  int64_t row_in_file(int64_t row) const;
};

/// All of a model, in the order in which files have them; without lm_head.weight where it is tied to the embedding.
std::vector<GgufParameter> gguf_parameters(const GgufArchitecture& architecture, const GgufShape& shape);

}  // namespace keel
