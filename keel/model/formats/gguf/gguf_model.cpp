#include "keel/model/formats/gguf/gguf_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <set>

#include "keel/core/error.h"
#include "keel/core/foreign_text.h"
#include "keel/core/strings.h"
#include "keel/model/formats/gguf/gguf_rope.h"

namespace keel {
namespace {

enum class Bias { kIfThere, kQueryKeyValue };

/// What differs between the architectures.
struct Architecture {
  std::string_view name;  // general.architecture and model_type alike
  const char* class_name;
  Bias bias;               // of the attention
  bool interleaved_heads;  // queries and keys were reordered for ggml's older way to rotate pairs
  bool query_key_norm;
};
constexpr std::array<Architecture, 3> kArchitectures = {
    {{"llama", "LlamaForCausalLM", Bias::kIfThere, true, false},
     {"qwen2", "Qwen2ForCausalLM", Bias::kQueryKeyValue, false, false},
     {"qwen3", "Qwen3ForCausalLM", Bias::kIfThere, false, true}}};

constexpr const char* kRopeFactors = "rope_freqs.weight";

std::string shape_text(const std::vector<int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return "[" + joined(sizes) + "]";
}

/// Reads the metadata of one file into a config.json and the list of its parameters.
class ModelReader {
 public:
  explicit ModelReader(const GgufFile& file) : file_(file), metadata_(file.metadata()) {
    const std::string name = metadata_.required_text("general.architecture");
    const auto* found =
        std::find_if(kArchitectures.begin(), kArchitectures.end(), [&](const auto& a) { return a.name == name; });
    if (found == kArchitectures.end()) {
      std::vector<std::string> known;
      for (const Architecture& each : kArchitectures) known.emplace_back(each.name);
      refuse("general.architecture is ", printable(name), "; known are ", joined(known));
    }
    architecture_ = *found;
    check_supported();
    read_sizes();
  }

  Json config() const {
    const bool is_llama = architecture_.name == "llama";
    Json config = {{"architectures", {architecture_.class_name}},
                   {"attention_dropout", 0.0},
                   {"dtype", "float32"},
                   {"head_dim", head_dim_},
                   {"hidden_act", "silu"},
                   {"hidden_size", hidden_},
                   {"initializer_range", 0.02},
                   {"intermediate_size", intermediate_},
                   {"max_position_embeddings", context_},
                   {"model_type", architecture_.name},
                   {"num_attention_heads", heads_},
                   {"num_hidden_layers", layers_},
                   {"num_key_value_heads", kv_heads_},
                   {"rms_norm_eps", metadata_.required_number(key("attention.layer_norm_rms_epsilon"))},
                   {"rope_scaling", rope_scaling()},
                   {"rope_theta", rope_theta()},
                   {"tie_word_embeddings", !file_.contains("output.weight")},
                   {"torch_dtype", "float32"},  // the older spelling of dtype
                   {"use_cache", true},
                   {"vocab_size", vocabulary_}};
    // Qwen2 has no such switch: queries, keys and values always have a bias, the output never.
    if (architecture_.bias == Bias::kIfThere) config["attention_bias"] = attention_bias_;
    if (is_llama) config["mlp_bias"] = mlp_bias_;
    if (!is_llama) config["use_sliding_window"] = false;
    for (const auto& [role, source] : {std::pair{"bos_token_id", "bos_token_id"},
                                       {"eos_token_id", "eos_token_id"},
                                       {"pad_token_id", "padding_token_id"}}) {
      if (const auto id = metadata_.integer(std::string("tokenizer.ggml.") + source)) config[role] = *id;
    }
    return config;
  }

  std::vector<GgufParameter> parameters() const {
    std::vector<GgufParameter> list;
    list.push_back({"model.embed_tokens.weight", "token_embd.weight", {vocabulary_, hidden_}});
    for (int64_t layer = 0; layer < layers_; ++layer) add_layer(list, layer);
    list.push_back({"model.norm.weight", "output_norm.weight", {hidden_}});
    if (file_.contains("output.weight")) list.push_back({"lm_head.weight", "output.weight", {vocabulary_, hidden_}});
    return list;
  }

 private:
  std::string key(const char* name) const { return std::string(architecture_.name) + "." + name; }

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(ExitCode::kBadInput, file_.path(), " cannot be used as a model: ", parts...);
  }

  void check_supported() const {
    if (metadata_.integer("split.count").value_or(1) > 1) {
      refuse("it is one of several parts (split.count); join them first: llama-gguf-split --merge");
    }
    if (metadata_.integer(key("expert_count")).value_or(0) > 0)
      refuse("it has experts (expert_count); wanted a dense model");
    const int64_t window = metadata_.integer(key("attention.sliding_window")).value_or(0);
    if (window > 0 && window < metadata_.integer(key("context_length")).value_or(0)) {
      refuse("it attends through a sliding window, which is not read from GGUF; use the model's own folder");
    }
  }

  /// A size that some files give per layer; it must be the same for all.
  int64_t size(const char* name, std::optional<int64_t> otherwise = std::nullopt) const {
    constexpr int64_t kMost = int64_t{1} << 24;
    const std::string full = key(name);
    const Json* value = metadata_.find(full);
    int64_t result = 0;
    if (value != nullptr && value->is_array()) {
      const bool same = !value->empty() && (*value)[0].is_number_integer() &&
                        std::all_of(value->begin(), value->end(), [&](const Json& v) { return v == (*value)[0]; });
      if (!same) refuse(full, " differs between layers; only models of equal layers are known");
      result = (*value)[0].get<int64_t>();
    } else {
      result = otherwise && value == nullptr ? *otherwise : metadata_.required_integer(full);
    }
    if (result < 1 || result > kMost) refuse(full, " is ", result, "; wanted 1 to ", kMost);
    return result;
  }

  void read_sizes() {
    const GgufTensor* embedding = file_.find("token_embd.weight");
    if (embedding == nullptr) refuse("it has no tensor \"token_embd.weight\"; is it a whole model?");
    vocabulary_ = embedding->shape.front();
    layers_ = size("block_count");
    if (static_cast<size_t>(layers_) > file_.tensors().size()) {
      refuse(key("block_count"), " is ", layers_, ", but the file has only ", file_.tensors().size(), " tensors");
    }
    hidden_ = size("embedding_length");
    intermediate_ = size("feed_forward_length");
    context_ = size("context_length");
    heads_ = size("attention.head_count");
    kv_heads_ = size("attention.head_count_kv", heads_);
    if (heads_ % kv_heads_ != 0) refuse(heads_, " heads cannot share ", kv_heads_, " key-value heads evenly");
    read_head_size();
    attention_bias_ = architecture_.bias == Bias::kQueryKeyValue || file_.contains("blk.0.attn_q.bias");
    mlp_bias_ = architecture_.name == "llama" && file_.contains("blk.0.ffn_gate.bias");
    const auto tokens = metadata_.find("tokenizer.ggml.tokens");
    if (tokens != nullptr && tokens->is_array() && static_cast<int64_t>(tokens->size()) > vocabulary_) {
      refuse("it has ", tokens->size(), " tokens, but embeddings for only ", vocabulary_);
    }
  }

  void read_head_size() {
    if (hidden_ % heads_ != 0 && metadata_.find(key("attention.key_length")) == nullptr) {
      refuse(key("embedding_length"), " is ", hidden_, ", which ", heads_, " heads do not divide");
    }
    head_dim_ = size("attention.key_length", hidden_ / heads_);
    const int64_t values = size("attention.value_length", head_dim_), rotated = size("rope.dimension_count", head_dim_);
    if (values != head_dim_ || rotated != head_dim_ || head_dim_ % 2 != 0) {
      refuse("its heads have ", head_dim_, " numbers per key, ", values, " per value, and rotate ", rotated,
             "; wanted three times the same even number");
    }
  }

  double rope_theta() const {
    const double theta = metadata_.number(key("rope.freq_base")).value_or(10000.0);
    if (theta <= 1) refuse(key("rope.freq_base"), " is ", theta, "; wanted a number above 1");
    return theta;
  }

  Json rope_scaling() const {
    const Json stretched = gguf_rope_scaling(metadata_, std::string(architecture_.name));
    if (file_.contains(kRopeFactors)) {
      if (!stretched.is_null())
        refuse("it has frequency factors (", kRopeFactors, ") and ", stretched["rope_type"].get<std::string>(),
               " rope scaling; wanted one of them");
      // Llama 3 was trained for 8192 before it was stretched, and its GGUF files do not say so.
      const int64_t original = metadata_.integer(key("rope.scaling.original_context_length")).value_or(8192);
      const GgufTensor& tensor = *file_.find(kRopeFactors);
      if (tensor.shape != std::vector<int64_t>{head_dim_ / 2}) {
        refuse("tensor \"", kRopeFactors, "\" has the shape ", shape_text(tensor.shape), "; wanted ",
               shape_text({head_dim_ / 2}));
      }
      std::vector<float> factors(static_cast<size_t>(head_dim_ / 2));
      file_.read_into(kRopeFactors, factors);
      return llama3_rope_scaling(factors, rope_theta(), static_cast<double>(original), file_.path().string());
    }
    return stretched;
  }

  void add_layer(std::vector<GgufParameter>& list, int64_t layer) const {
    const std::string from = "blk." + std::to_string(layer) + ".", to = "model.layers." + std::to_string(layer) + ".";
    const auto add = [&](const std::string& name, const std::string& source, std::vector<int64_t> shape,
                         int64_t interleaved_heads = 0) {
      list.push_back({to + name, from + source, std::move(shape), interleaved_heads});
    };
    const int64_t queries = heads_ * head_dim_, keys = kv_heads_ * head_dim_;
    const int64_t query_heads = architecture_.interleaved_heads ? heads_ : 0;
    const int64_t key_heads = architecture_.interleaved_heads ? kv_heads_ : 0;
    add("input_layernorm.weight", "attn_norm.weight", {hidden_});
    add("self_attn.q_proj.weight", "attn_q.weight", {queries, hidden_}, query_heads);
    add("self_attn.k_proj.weight", "attn_k.weight", {keys, hidden_}, key_heads);
    add("self_attn.v_proj.weight", "attn_v.weight", {keys, hidden_});
    add("self_attn.o_proj.weight", "attn_output.weight", {hidden_, queries});
    if (attention_bias_) {
      add("self_attn.q_proj.bias", "attn_q.bias", {queries}, query_heads);
      add("self_attn.k_proj.bias", "attn_k.bias", {keys}, key_heads);
      add("self_attn.v_proj.bias", "attn_v.bias", {keys});
      if (architecture_.bias != Bias::kQueryKeyValue) add("self_attn.o_proj.bias", "attn_output.bias", {hidden_});
    }
    if (architecture_.query_key_norm) {
      add("self_attn.q_norm.weight", "attn_q_norm.weight", {head_dim_});
      add("self_attn.k_norm.weight", "attn_k_norm.weight", {head_dim_});
    }
    add("post_attention_layernorm.weight", "ffn_norm.weight", {hidden_});
    for (const auto& [name, source, rows, columns] : {std::tuple{"gate_proj", "ffn_gate", intermediate_, hidden_},
                                                      {"up_proj", "ffn_up", intermediate_, hidden_},
                                                      {"down_proj", "ffn_down", hidden_, intermediate_}}) {
      add(std::string("mlp.") + name + ".weight", std::string(source) + ".weight", {rows, columns});
      if (mlp_bias_) add(std::string("mlp.") + name + ".bias", std::string(source) + ".bias", {rows});
    }
  }

  const GgufFile& file_;
  const GgufMetadata& metadata_;
  Architecture architecture_{};
  int64_t vocabulary_ = 0, layers_ = 0, hidden_ = 0, intermediate_ = 0, context_ = 0;
  int64_t heads_ = 0, kv_heads_ = 0, head_dim_ = 0;
  bool attention_bias_ = false, mlp_bias_ = false;
};

}  // namespace

GgufModel::GgufModel(GgufFile file) : file_(std::move(file)) {
  const ModelReader reader(file_);
  config_ = reader.config();
  parameters_ = reader.parameters();
  check_parameters();
}

void GgufModel::check_parameters() const {
  std::set<std::string_view> wanted = {kRopeFactors};
  for (const GgufParameter& parameter : parameters_) {
    wanted.insert(parameter.source);
    const GgufTensor* tensor = file_.find(parameter.source);
    if (tensor == nullptr) {
      fail(ExitCode::kBadInput, file_.path(), " has no tensor \"", parameter.source, "\"; wanted one of shape ",
           shape_text(parameter.shape), "; is the file whole?");
    }
    if (tensor->shape != parameter.shape) {
      fail(ExitCode::kBadInput, file_.path(), ": tensor \"", parameter.source, "\" has the shape ",
           shape_text(tensor->shape), "; wanted ", shape_text(parameter.shape), " from the metadata");
    }
  }
  for (const GgufTensor& tensor : file_.tensors()) {
    if (wanted.contains(tensor.name)) continue;
    fail(ExitCode::kBadInput, file_.path(), ": tensor ", printable(tensor.name), " of shape ", shape_text(tensor.shape),
         " has no place in a model of ", config_["num_hidden_layers"].get<int64_t>(), " ",
         config_["model_type"].get<std::string>(), " layers; this kind of model is not known");
  }
}

int64_t GgufModel::parameter_count() const {
  int64_t count = 0;
  for (const GgufParameter& parameter : parameters_) count += file_.find(parameter.source)->elements();
  return count;
}

const GgufParameter& GgufModel::at(std::string_view name) const {
  const auto found =
      std::find_if(parameters_.begin(), parameters_.end(), [&](const auto& p) { return p.name == name; });
  if (found == parameters_.end()) {
    fail(ExitCode::kBadInput, file_.path(), " has no parameter ", printable(name), " among its ", parameters_.size(),
         "; check that the file belongs to this model");
  }
  return *found;
}

Tensor GgufModel::read(std::string_view name) const { return read(at(name)); }
void GgufModel::read_into(std::string_view name, std::span<float> to) const { read_into(at(name), to); }

Tensor GgufModel::read(const GgufParameter& parameter) const {
  const Tensor tensor = at::empty(parameter.shape, at::kFloat);
  read_into(parameter, std::span(tensor.mutable_data_ptr<float>(), static_cast<size_t>(tensor.numel())));
  return tensor;
}

void GgufModel::read_into(const GgufParameter& parameter, std::span<float> to) const {
  if (parameter.interleaved_heads == 0) return file_.read_into(parameter.source, to);
  // In the file the rows of a head go 0, half, 1, half + 1, ...; one matrix at a time is copied to sort them.
  std::vector<float> rows(to.size());
  file_.read_into(parameter.source, rows);
  const auto row_count = static_cast<size_t>(parameter.shape.front()), columns = rows.size() / row_count;
  const size_t half = row_count / static_cast<size_t>(parameter.interleaved_heads) / 2;
  for (size_t row = 0; row < row_count; ++row) {
    const size_t head = row / (2 * half), pair = row % half, side = row / half % 2;
    const float* from = rows.data() + (head * 2 * half + pair * 2 + side) * columns;
    std::copy_n(from, columns, to.data() + row * columns);
  }
}

Json GgufModel::generation() const {
  const GgufTokenizer files = tokenizer();
  const std::vector<int64_t> ends(files.ends.begin(), files.ends.end());
  Json json = Json::object();
  for (const char* key : {"bos_token_id", "pad_token_id"})
    if (config_.contains(key)) json[key] = config_[key];
  if (ends.size() == 1) json["eos_token_id"] = ends[0];
  if (ends.size() > 1) json["eos_token_id"] = ends;
  return json;
}

}  // namespace keel
