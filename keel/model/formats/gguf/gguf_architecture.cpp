#include "keel/model/formats/gguf/gguf_architecture.h"

#include <array>
#include <tuple>

namespace keel {
namespace {

using Bias = GgufArchitecture::Bias;

// name, model_type, class_name, bias, interleaved_heads, query_key_norm, is_gemma, sliding_period, layers_of_largest
constexpr std::array<GgufArchitecture, 5> kArchitectures = {
    {{"llama", "llama", "LlamaForCausalLM", Bias::kOptional, true, false, false},
     {"qwen2", "qwen2", "Qwen2ForCausalLM", Bias::kQueryKeyValue, false, false, false},
     {"qwen3", "qwen3", "Qwen3ForCausalLM", Bias::kOptional, false, true, false},
     {"gemma2", "gemma2", "Gemma2ForCausalLM", Bias::kNone, false, false, true, 2, 46},
     {"gemma3", "gemma3_text", "Gemma3ForCausalLM", Bias::kNone, false, true, true, 6, 62}}};

void add_layer(std::vector<GgufParameter>& list, int64_t layer, const GgufArchitecture& architecture,
               const GgufShape& shape) {
  const std::string from = "blk." + std::to_string(layer) + ".", to = "model.layers." + std::to_string(layer) + ".";
  const auto add = [&](const std::string& name, const std::string& source, std::vector<int64_t> sizes,
                       int64_t interleaved_heads = 0) {
    const bool norm = name.ends_with("norm.weight");
    list.push_back({to + name, from + source, std::move(sizes), interleaved_heads, norm && architecture.is_gemma});
  };
  const int64_t hidden = shape.hidden, intermediate = shape.intermediate;
  const int64_t queries = shape.heads * shape.head_dim, keys = shape.kv_heads * shape.head_dim;
  const int64_t query_heads = architecture.interleaved_heads ? shape.heads : 0;
  const int64_t key_heads = architecture.interleaved_heads ? shape.kv_heads : 0;
  add("input_layernorm.weight", "attn_norm.weight", {hidden});
  add("self_attn.q_proj.weight", "attn_q.weight", {queries, hidden}, query_heads);
  add("self_attn.k_proj.weight", "attn_k.weight", {keys, hidden}, key_heads);
  add("self_attn.v_proj.weight", "attn_v.weight", {keys, hidden});
  add("self_attn.o_proj.weight", "attn_output.weight", {hidden, queries});
  if (shape.attention_bias) {
    add("self_attn.q_proj.bias", "attn_q.bias", {queries}, query_heads);
    add("self_attn.k_proj.bias", "attn_k.bias", {keys}, key_heads);
    add("self_attn.v_proj.bias", "attn_v.bias", {keys});
    if (architecture.bias != Bias::kQueryKeyValue) add("self_attn.o_proj.bias", "attn_output.bias", {hidden});
  }
  if (architecture.query_key_norm) {
    add("self_attn.q_norm.weight", "attn_q_norm.weight", {shape.head_dim});
    add("self_attn.k_norm.weight", "attn_k_norm.weight", {shape.head_dim});
  }
  if (architecture.is_gemma) {
    add("post_attention_layernorm.weight", "post_attention_norm.weight", {hidden});
    add("pre_feedforward_layernorm.weight", "ffn_norm.weight", {hidden});
    add("post_feedforward_layernorm.weight", "post_ffw_norm.weight", {hidden});
  } else {
    add("post_attention_layernorm.weight", "ffn_norm.weight", {hidden});
  }
  for (const auto& [name, source, rows, columns] : {std::tuple{"gate_proj", "ffn_gate", intermediate, hidden},
                                                    {"up_proj", "ffn_up", intermediate, hidden},
                                                    {"down_proj", "ffn_down", hidden, intermediate}}) {
    add(std::string("mlp.") + name + ".weight", std::string(source) + ".weight", {rows, columns});
    if (shape.mlp_bias) add(std::string("mlp.") + name + ".bias", std::string(source) + ".bias", {rows});
  }
}

}  // namespace

std::span<const GgufArchitecture> gguf_architectures() { return kArchitectures; }

int64_t gguf_query_scalar(const GgufArchitecture& architecture, const GgufShape& shape) {
  return shape.layers == architecture.layers_of_largest ? shape.hidden / shape.heads : shape.head_dim;
}

int64_t GgufParameter::file_row(int64_t row) const {
  if (interleaved_heads == 0) return row;
  // In the file the order of the rows of a head is 0, half, 1, half + 1, ...
  const int64_t half = shape.front() / interleaved_heads / 2;
  const int64_t head = row / (2 * half), pair = row % half, side = row / half % 2;
  return head * 2 * half + pair * 2 + side;
}

std::vector<GgufParameter> gguf_parameters(const GgufArchitecture& architecture, const GgufShape& shape) {
  std::vector<GgufParameter> list;
  list.push_back({"model.embed_tokens.weight", "token_embd.weight", {shape.vocabulary, shape.hidden}});
  for (int64_t layer = 0; layer < shape.layers; ++layer) add_layer(list, layer, architecture, shape);
  list.push_back({"model.norm.weight", "output_norm.weight", {shape.hidden}, 0, architecture.is_gemma});
  if (!shape.tied) list.push_back({"lm_head.weight", "output.weight", {shape.vocabulary, shape.hidden}});
  return list;
}

}  // namespace keel
