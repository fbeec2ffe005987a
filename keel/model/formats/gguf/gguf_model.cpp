#include "keel/model/formats/gguf/gguf_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/core/untrusted_text.h"
#include "keel/model/formats/gguf/gguf_keys.h"
#include "keel/model/formats/gguf/gguf_rope.h"

namespace keel {
namespace {

using Bias = GgufArchitecture::Bias;

std::string shape_text(const std::vector<int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return "[" + joined(sizes) + "]";
}

/// Converts the metadata of a file to a config.json and a list of parameters.
class ModelReader {
 public:
  explicit ModelReader(const GgufFile& file) : file_(file), metadata_(file.metadata()) {
    const std::string name = metadata_.required_text(gguf::kArchitecture);
    const std::span<const GgufArchitecture> known = gguf_architectures();
    const auto found = std::find_if(known.begin(), known.end(), [&](const auto& a) { return a.name == name; });
    if (found == known.end()) {
      std::vector<std::string> names;
      for (const GgufArchitecture& each : known) names.emplace_back(each.name);
      reject(gguf::kArchitecture, " is ", printable(name), "; known are ", joined(names));
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
                   {"head_dim", shape_.head_dim},
                   {"hidden_act", "silu"},
                   {"hidden_size", shape_.hidden},
                   {"initializer_range", 0.02},
                   {"intermediate_size", shape_.intermediate},
                   {"max_position_embeddings", context_},
                   {"model_type", architecture_.model_type},
                   {"num_attention_heads", shape_.heads},
                   {"num_hidden_layers", shape_.layers},
                   {"num_key_value_heads", shape_.kv_heads},
                   {"rms_norm_eps", metadata_.required_number(key(gguf::kNormEpsilon))},
                   {"rope_scaling", rope_scaling()},
                   {"rope_theta", rope_theta()},
                   {"tie_word_embeddings", shape_.tied},
                   {"torch_dtype", "float32"},  // the older name of dtype
                   {"use_cache", true},
                   {"vocab_size", shape_.vocabulary}};
    // Qwen2 does not have this key: queries, keys and values always have a bias, the output never.
    if (architecture_.bias != Bias::kQueryKeyValue) config["attention_bias"] = shape_.attention_bias;
    if (is_llama) config["mlp_bias"] = shape_.mlp_bias;
    if (architecture_.is_gemma) add_gemma(config);
    if (!is_llama && !architecture_.is_gemma) config["use_sliding_window"] = false;
    for (const auto& [role, source] :
         {std::pair{"bos_token_id", gguf::kBos}, {"eos_token_id", gguf::kEos}, {"pad_token_id", gguf::kPad}}) {
      if (const auto id = metadata_.integer(source)) config[role] = *id;
    }
    return config;
  }

  std::vector<GgufParameter> parameters() const { return gguf_parameters(architecture_, shape_); }

 private:
  std::string key(const char* name) const { return architecture_.key(name); }

  template <class... Parts>
  [[noreturn]] void reject(const Parts&... parts) const {
    fail(ExitCode::kBadInput, file_.path(), " cannot be used as a model: ", parts...);
  }

  void check_supported() const {
    if (metadata_.integer("split.count").value_or(1) > 1) {
      reject("it is one of several split files (split.count); merge them first: llama-gguf-split --merge");
    }
    if (metadata_.integer(key("expert_count")).value_or(0) > 0)
      reject("it has experts (expert_count); expected a dense model");
    const int64_t window = metadata_.integer(key(gguf::kSlidingWindow)).value_or(0);
    if (architecture_.sliding_period == 0 && window > 0 &&
        window < metadata_.integer(key(gguf::kContextLength)).value_or(0)) {
      reject(
          "it has a sliding window, which is not supported for this architecture in GGUF; use the Hugging Face folder");
    }
  }

  /// Reads a size. Some files store it per layer; it must be the same for all layers.
  int64_t size(const char* name, std::optional<int64_t> fallback = std::nullopt) const {
    constexpr int64_t kMax = int64_t{1} << 24;
    const std::string full_key = key(name);
    const Json* value = metadata_.find(full_key);
    int64_t result = 0;
    if (value != nullptr && value->is_array()) {
      const bool same = !value->empty() && (*value)[0].is_number_integer() &&
                        std::all_of(value->begin(), value->end(), [&](const Json& v) { return v == (*value)[0]; });
      if (!same) reject(full_key, " differs between layers, which is not supported");
      result = (*value)[0].get<int64_t>();
    } else {
      result = fallback && value == nullptr ? *fallback : metadata_.required_integer(full_key);
    }
    if (result < 1 || result > kMax) reject(full_key, " is ", result, "; expected 1 to ", kMax);
    return result;
  }

  void read_sizes() {
    const GgufTensor* embedding = file_.find("token_embd.weight");
    if (embedding == nullptr) reject("it has no tensor \"token_embd.weight\"; is the model complete?");
    shape_.vocabulary = embedding->shape.front();
    shape_.layers = size(gguf::kBlockCount);
    if (static_cast<size_t>(shape_.layers) > file_.tensors().size()) {
      reject(key(gguf::kBlockCount), " is ", shape_.layers, ", but the file has only ", file_.tensors().size(),
             " tensors");
    }
    shape_.hidden = size(gguf::kEmbeddingLength);
    shape_.intermediate = size(gguf::kFeedForwardLength);
    context_ = size(gguf::kContextLength);
    shape_.heads = size(gguf::kHeadCount);
    shape_.kv_heads = size(gguf::kHeadCountKv, shape_.heads);
    if (shape_.heads % shape_.kv_heads != 0)
      reject(shape_.heads, " heads cannot share ", shape_.kv_heads, " key-value heads evenly");
    read_head_size();
    shape_.attention_bias = architecture_.bias == Bias::kQueryKeyValue ||
                            (architecture_.bias == Bias::kOptional && file_.contains("blk.0.attn_q.bias"));
    shape_.tied = !file_.contains("output.weight");
    shape_.mlp_bias = architecture_.name == "llama" && file_.contains("blk.0.ffn_gate.bias");
    const auto tokens = metadata_.find(gguf::kTokens);
    if (tokens != nullptr && tokens->is_array() && static_cast<int64_t>(tokens->size()) > shape_.vocabulary) {
      reject("it has ", tokens->size(), " tokens, but embeddings for only ", shape_.vocabulary);
    }
  }

  void read_head_size() {
    if (shape_.hidden % shape_.heads != 0 && metadata_.find(key(gguf::kKeyLength)) == nullptr) {
      reject(key(gguf::kEmbeddingLength), " is ", shape_.hidden, ", which is not divisible by ", shape_.heads,
             " heads");
    }
    shape_.head_dim = size(gguf::kKeyLength, shape_.hidden / shape_.heads);
    const int64_t values = size(gguf::kValueLength, shape_.head_dim),
                  rotated = size((std::string("rope.") + gguf::kRopeDimensions).c_str(), shape_.head_dim);
    if (values != shape_.head_dim || rotated != shape_.head_dim || shape_.head_dim % 2 != 0) {
      reject("its heads have ", shape_.head_dim, " elements per key, ", values, " per value, and rotate ", rotated,
             "; expected the same even number for all three");
    }
  }

  double rope_theta(const char* name = gguf::kRopeBase) const {
    const std::string full_key = architecture_.rope_key(name);
    const double theta = metadata_.number(full_key).value_or(10000.0);
    if (theta <= 1) reject(full_key, " is ", theta, "; expected a number above 1");
    return theta;
  }

  /// The layer_types from the default period of the architecture, another period, or a list.
  Json layer_types() const {
    int64_t period = architecture_.sliding_period;
    const Json* pattern = metadata_.find(key(gguf::kSlidingPattern));
    const bool listed = pattern != nullptr && pattern->is_array();
    if (pattern != nullptr && !listed) period = metadata_.required_integer(key(gguf::kSlidingPattern));
    const auto count = static_cast<size_t>(shape_.layers);
    const auto is_flag = [](const Json& v) { return v.is_boolean(); };
    if (period < 0 || (listed && (pattern->size() != count || !std::all_of(pattern->begin(), pattern->end(), is_flag))))
      reject(key(gguf::kSlidingPattern), " is neither a period nor a boolean for each of the ", count, " layers");
    Json types = Json::array();
    for (int64_t layer = 0; layer < shape_.layers; ++layer) {
      const bool sliding =
          listed ? (*pattern)[static_cast<size_t>(layer)].get<bool>() : period == 0 || layer % period < period - 1;
      types.push_back(window() > 0 && sliding ? "sliding_attention" : "full_attention");
    }
    return types;
  }

  /// The sliding window; the default is 4096 for Gemma 2, none for Gemma 3.
  int64_t window() const {
    return metadata_.integer(key(gguf::kSlidingWindow)).value_or(architecture_.name == "gemma2" ? 4096 : 0);
  }

  void add_gemma(Json& config) const {
    const bool is_gemma2 = architecture_.name == "gemma2";
    config.erase("hidden_act");
    config["hidden_activation"] = "gelu_pytorch_tanh";
    config["query_pre_attn_scalar"] = gguf_query_scalar(architecture_, shape_);
    config["sliding_window"] = std::max<int64_t>(window(), 1);
    config["layer_types"] = layer_types();
    const auto cap = [&](const char* name, double fallback) {
      const double value = metadata_.number(key(name)).value_or(fallback);
      return value == 0 ? Json() : Json(value);
    };
    config["attn_logit_softcapping"] = is_gemma2 ? cap(gguf::kAttentionCap, 50) : Json();
    config["final_logit_softcapping"] = cap(gguf::kLogitCap, is_gemma2 ? 30 : 0);
    if (is_gemma2) return;
    config["rope_local_base_freq"] = rope_theta(gguf::kRopeBaseSliding);
    if (config["rope_scaling"].is_object() && config["rope_scaling"]["rope_type"] != "linear")
      reject("its rope scaling is ", config["rope_scaling"]["rope_type"].get<std::string>(),
             "; expected linear or none in a model whose sliding layers have another RoPE base");
  }

  Json rope_scaling() const {
    const Json scaling = gguf_rope_scaling(metadata_, std::string(architecture_.name));
    if (file_.contains(gguf::kRopeFactors)) {
      if (!scaling.is_null())
        reject("it has frequency factors (", gguf::kRopeFactors, ") and ", scaling["rope_type"].get<std::string>(),
               " rope scaling; expected one of them");
      // The original context length of Llama 3 is 8192; its GGUF files do not contain it.
      const int64_t original = metadata_.integer(architecture_.rope_key(gguf::kRopeOriginal)).value_or(8192);
      const GgufTensor& tensor = *file_.find(gguf::kRopeFactors);
      if (tensor.shape != std::vector<int64_t>{shape_.head_dim / 2}) {
        reject("tensor \"", gguf::kRopeFactors, "\" has the shape ", shape_text(tensor.shape), "; expected ",
               shape_text({shape_.head_dim / 2}));
      }
      std::vector<float> factors(static_cast<size_t>(shape_.head_dim / 2));
      file_.read_into(gguf::kRopeFactors, factors);
      return llama3_rope_scaling(factors, rope_theta(), static_cast<double>(original), file_.path().string());
    }
    return scaling;
  }

  const GgufFile& file_;
  const GgufMetadata& metadata_;
  GgufArchitecture architecture_{};
  GgufShape shape_;
  int64_t context_ = 0;
};

}  // namespace

GgufModel::GgufModel(GgufFile file) : file_(std::move(file)) {
  const ModelReader reader(file_);
  config_ = reader.config();
  parameters_ = reader.parameters();
  check_parameters();
}

void GgufModel::check_parameters() const {
  std::set<std::string_view> expected = {gguf::kRopeFactors};
  for (const GgufParameter& parameter : parameters_) {
    expected.insert(parameter.source);
    const GgufTensor* tensor = file_.find(parameter.source);
    if (tensor == nullptr) {
      fail(ExitCode::kBadInput, file_.path(), " has no tensor \"", parameter.source, "\"; expected one of shape ",
           shape_text(parameter.shape), "; is the file complete?");
    }
    if (tensor->shape != parameter.shape) {
      fail(ExitCode::kBadInput, file_.path(), ": tensor \"", parameter.source, "\" has the shape ",
           shape_text(tensor->shape), "; expected ", shape_text(parameter.shape), " from the metadata");
    }
  }
  for (const GgufTensor& tensor : file_.tensors()) {
    if (expected.contains(tensor.name)) continue;
    fail(ExitCode::kBadInput, file_.path(), ": tensor ", printable(tensor.name), " of shape ", shape_text(tensor.shape),
         " does not belong to a model of ", config_["num_hidden_layers"].get<int64_t>(), " ",
         config_["model_type"].get<std::string>(), " layers; this kind of model is not supported");
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
  if (parameter.interleaved_heads > 0) {
    // Copies the matrix to reorder its rows.
    std::vector<float> rows(to.size());
    file_.read_into(parameter.source, rows);
    const auto row_count = static_cast<size_t>(parameter.shape.front()), columns = rows.size() / row_count;
    for (size_t row = 0; row < row_count; ++row) {
      const auto from = static_cast<size_t>(parameter.file_row(static_cast<int64_t>(row)));
      std::copy_n(rows.data() + from * columns, columns, to.data() + row * columns);
    }
  } else {
    file_.read_into(parameter.source, to);
  }
  if (parameter.plus_one)
    for (float& value : to) value -= 1;
}

Json GgufModel::generation() const {
  const GgufTokenizer files = tokenizer();
  const std::vector<int64_t>& stop_ids = files.stop_ids;
  Json json = Json::object();
  for (const char* key : {"bos_token_id", "pad_token_id"})
    if (config_.contains(key)) json[key] = config_[key];
  if (stop_ids.size() == 1) json["eos_token_id"] = stop_ids[0];
  if (stop_ids.size() > 1) json["eos_token_id"] = stop_ids;
  return json;
}

}  // namespace keel
