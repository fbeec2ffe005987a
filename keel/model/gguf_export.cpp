#include "keel/model/gguf_export.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/core/untrusted_text.h"
#include "keel/model/formats/gguf/gguf_architecture.h"
#include "keel/model/formats/gguf/gguf_keys.h"
#include "keel/model/formats/gguf/gguf_tokenizer_writer.h"
#include "keel/model/formats/gguf/gguf_writer.h"
#include "keel/model/network/rope.h"
#include "libs/hftext/tokenizer/tokenizer_file.h"

namespace keel {
namespace {

using Bias = GgufArchitecture::Bias;

template <class... Parts>
[[noreturn]] void reject_export(const std::string& location, const Parts&... parts) {
  fail(ExitCode::kBadInput, location, ": this model cannot be written to a GGUF file: ", parts...,
       "; write a Hugging Face folder instead (OUT without .gguf)");
}

const GgufArchitecture& find_architecture(const ModelConfig& config, const std::string& location) {
  // GGUF stores Mistral as llama; gguf_context_length() handles its sliding window.
  const std::string type = config.model_type == "mistral" ? "llama" : config.model_type;
  std::vector<std::string> known = {"mistral"};
  for (const GgufArchitecture& each : gguf_architectures()) {
    if (each.model_type == type) return each;
    known.emplace_back(each.model_type);
  }
  reject_export(location, "GGUF export does not support the family ", config.model_type,
                "; supported: ", joined(known));
}

GgufShape gguf_shape(const ModelConfig& c) {
  return {.vocabulary = c.vocab_size,
          .layers = c.num_hidden_layers,
          .hidden = c.hidden_size,
          .intermediate = c.intermediate_size,
          .heads = c.num_attention_heads,
          .kv_heads = c.num_key_value_heads,
          .head_dim = c.head_dim,
          .attention_bias = c.attention_bias,
          .mlp_bias = c.mlp_bias,
          .tied = c.tie_word_embeddings};
}

/// Checks the properties that GGUF fixes for an architecture.
void check_representable(const ModelConfig& c, const GgufArchitecture& architecture, const std::string& location) {
  const bool gemma2 = architecture.name == "gemma2", llama = architecture.name == "llama";
  const auto require = [&](bool holds, const auto&... fault) {
    if (!holds) reject_export(location, "GGUF requires for ", architecture.name, " models ", fault...);
  };
  require(c.activation == (architecture.is_gemma ? Activation::kGeluTanh : Activation::kSilu), "the activation ",
          architecture.is_gemma ? "gelu_pytorch_tanh" : "silu", ", but this model has another");
  require(!c.attention_bias || architecture.bias != Bias::kNone, "no attention biases, but this model has them");
  require(!c.output_bias || llama, "no bias on the attention output, but this model has one");
  require(!c.mlp_bias || llama, "no MLP biases, but this model has them");
  require(!gemma2 || c.tie_word_embeddings, "a tied LM head, but that of this model is not tied");
  require(!gemma2 || (c.attention_softcap > 0 && c.logit_softcap > 0),
          "attn_logit_softcapping and final_logit_softcapping, but this model has none");
  require(architecture.name != "qwen2" || c.head_dim * c.num_attention_heads == c.hidden_size,
          "heads * head_dim = hidden_size = ", c.hidden_size, ", but this model has ", c.num_attention_heads,
          " heads of width ", c.head_dim);
  if (architecture.is_gemma) {
    const auto scalar = static_cast<double>(gguf_query_scalar(architecture, gguf_shape(c)));
    require(std::abs(c.attention_scale * std::sqrt(scalar) - 1) < 1e-6, "a query_pre_attn_scalar of ", scalar,
            ", but that of this model is ", 1 / (c.attention_scale * c.attention_scale));
  }
}

/// The period of the sliding-window layers, if their pattern is periodic.
std::optional<int64_t> sliding_period(const ModelConfig& c, int64_t preferred) {
  const auto fits = [&](int64_t period) {
    for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer)
      if (c.is_sliding(layer) != (layer % period < period - 1)) return false;
    return true;
  };
  if (fits(preferred)) return preferred;
  for (int64_t period = 1; period <= c.num_hidden_layers + 1; ++period)
    if (fits(period)) return period;
  return std::nullopt;
}

void add_window(const ModelConfig& c, const GgufArchitecture& architecture, const std::string& location,
                GgufWriter& writer) {
  if (architecture.sliding_period == 0) return;
  const std::optional<int64_t> period = sliding_period(c, architecture.sliding_period);
  if (!period)
    reject_export(
        location,
        "the sliding-window layers (layer_types) are not periodic; in GGUF the last layer of each period has ",
        "full attention");
  writer.add_count(architecture.key(gguf::kSlidingWindow), c.sliding_window);
  // Older readers do not support this key and use the default period.
  if (*period != architecture.sliding_period) writer.add_count(architecture.key(gguf::kSlidingPattern), *period);
}

void add_rope(const ModelConfig& c, const GgufArchitecture& architecture, const std::string& location,
              GgufWriter& writer) {
  const Rope& rope = c.rope;
  using Scaling = Rope::Scaling;
  const auto key = [&](const char* name) { return architecture.rope_key(name); };
  writer.add_count(key(gguf::kRopeDimensions), c.head_dim);
  writer.add_number(key(gguf::kRopeBase), rope.theta);
  if (c.sliding_rope) {
    writer.add_number(key(gguf::kRopeBaseSliding), c.sliding_rope->theta);
    if (c.sliding_rope->scaling != Scaling::kNone ||
        (rope.scaling != Scaling::kNone && rope.scaling != Scaling::kLinear))
      reject_export(location, "its rope scaling; GGUF supports only linear scaling of the full-attention layers");
  }
  if (rope.scaling == Scaling::kLinear) {
    writer.add_text(key(gguf::kRopeType), "linear");
    writer.add_number(key(gguf::kRopeFactor), rope.factor);
  }
  if (rope.scaling == Scaling::kLlama3) {
    if (architecture.name != "llama")
      reject_export(location, "GGUF does not support its rope scaling llama3 for ", architecture.name, " models");
    writer.add_count(key(gguf::kRopeOriginal), static_cast<int64_t>(rope.original_positions));
    Rope plain{.theta = rope.theta};
    const Tensor factors = inverse_frequencies(plain, c.head_dim) / inverse_frequencies(rope, c.head_dim);
    writer.add_tensor(gguf::kRopeFactors, {c.head_dim / 2}, *find_gguf_format("F32"), [factors] { return factors; });
  }
  if (rope.scaling == Scaling::kYarn) {
    if (!rope.truncate) reject_export(location, "its yarn has truncate=false, which GGUF does not support");
    writer.add_text(key(gguf::kRopeType), "yarn");
    writer.add_number(key(gguf::kRopeFactor), rope.factor);
    writer.add_count(key(gguf::kRopeOriginal), static_cast<int64_t>(rope.original_positions));
    writer.add_number(key(gguf::kYarnBetaFast), rope.beta_fast);
    writer.add_number(key(gguf::kYarnBetaSlow), rope.beta_slow);
    // The default attention factor needs no key.
    const double default_factor = rope.factor <= 1 ? 1 : 0.1 * std::log(rope.factor) + 1;
    if (std::abs(rope.attention_factor / default_factor - 1) > 1e-9)
      writer.add_number(key(gguf::kRopeStrength), rope.attention_factor / default_factor);
  }
}

void add_model(const ModelConfig& c, const GgufArchitecture& architecture, const std::string& location,
               GgufWriter& writer) {
  const auto key = [&](const char* name) { return architecture.key(name); };
  writer.add_count(key("vocab_size"), c.vocab_size);
  writer.add_count(key(gguf::kContextLength), gguf_context_length(c, location));
  writer.add_count(key(gguf::kEmbeddingLength), c.hidden_size);
  writer.add_count(key(gguf::kBlockCount), c.num_hidden_layers);
  writer.add_count(key(gguf::kFeedForwardLength), c.intermediate_size);
  writer.add_count(key(gguf::kHeadCount), c.num_attention_heads);
  writer.add_count(key(gguf::kHeadCountKv), c.num_key_value_heads);
  writer.add_count(key(gguf::kKeyLength), c.head_dim);
  writer.add_count(key(gguf::kValueLength), c.head_dim);
  writer.add_number(key(gguf::kNormEpsilon), c.rms_norm_eps);
  if (c.attention_softcap > 0) writer.add_number(key(gguf::kAttentionCap), c.attention_softcap);
  if (c.logit_softcap > 0) writer.add_number(key(gguf::kLogitCap), c.logit_softcap);
  add_window(c, architecture, location, writer);
  add_rope(c, architecture, location, writer);
}

Tensor convert_for_gguf(const GgufParameter& parameter, const Tensor& weight, const GgufFormat& format,
                        const std::string& location) {
  Tensor values = weight.detach().to(at::kCPU, at::kFloat).contiguous();
  if (!(values.abs().max().item<float>() <= format.max))
    fail(ExitCode::kBadInput, location, ": parameter ", parameter.name, " has values above the maximum of ",
         format.name, " (", format.max, "); use --dtype bfloat16 or float32");
  if (parameter.plus_one) values = values + 1;
  if (parameter.interleaved_heads == 0) return values;
  std::vector<int64_t> rows(static_cast<size_t>(parameter.shape.front()));
  for (size_t row = 0; row < rows.size(); ++row)
    rows[static_cast<size_t>(parameter.file_row(static_cast<int64_t>(row)))] = static_cast<int64_t>(row);
  return values.index_select(0, at::tensor(rows));
}

bool has_whole_blocks(const GgufParameter& parameter, const GgufFormat& format) {
  return parameter.shape.back() % format.block_elements == 0;
}

void add_weights(const ModelWeights& model, const GgufArchitecture& architecture, const GgufFormat& format,
                 const std::string& location, GgufWriter& writer) {
  std::map<std::string, Tensor> weights;
  for (const NamedTensor& weight : model.parameters()) weights.emplace(weight.name, weight.value);
  for (const GgufParameter& parameter : gguf_parameters(architecture, gguf_shape(model.config()))) {
    const GgufFormat& chosen = parameter.shape.size() == 1           ? *find_gguf_format("F32")
                               : has_whole_blocks(parameter, format) ? format
                                                                     : *find_gguf_format("F16");
    writer.add_tensor(parameter.source, parameter.shape, chosen, [=, &chosen, weight = weights.at(parameter.name)] {
      return convert_for_gguf(parameter, weight, chosen, location);
    });
  }
}

/// Sets whether the tokenizer adds bos before and eos after a text. GGUF supports no other added tokens.
void set_added_tokens(const Tokenizer& tokenizer, const std::string& location, ExportTokenizer& exported) {
  std::vector<int32_t> ids = tokenizer.encode("", {.add_special_tokens = true});
  if (tokenizer.bos_id() && !ids.empty() && ids.front() == *tokenizer.bos_id()) {
    exported.add_bos = true;
    ids.erase(ids.begin());
  }
  if (tokenizer.eos_id() && !ids.empty() && ids.back() == *tokenizer.eos_id()) {
    exported.add_eos = true;
    ids.pop_back();
  }
  if (!ids.empty())
    reject_export(location, "its tokenizer adds other tokens to a text than bos_token before and eos_token after it");
}

/// The stop tokens, by GGUF key.
struct StopTokens {
  std::optional<int64_t> eos, turn, message;
  std::vector<std::string> lost;  // texts of the stop tokens without a key
};

StopTokens find_stop_tokens(const LoadedModel& loaded) {
  const Tokenizer& tokenizer = loaded.tokenizer;
  StopTokens stop_tokens{.eos = tokenizer.eos_id(), .turn = {}, .message = {}, .lost = {}};
  if (!stop_tokens.eos && !loaded.stop_ids.empty()) stop_tokens.eos = loaded.stop_ids.front();
  const std::string chat_template = loaded.templates.empty() ? "" : loaded.templates.choose(false).source();
  std::vector<int32_t> others;
  for (const int32_t id : loaded.stop_ids) {
    if (id == stop_tokens.eos) continue;
    const std::string text = tokenizer.decode(std::span(&id, 1), false);
    if (!stop_tokens.turn && !text.empty() && chat_template.find(text) != std::string::npos)
      stop_tokens.turn = id;  // the chat template writes the end-of-turn token
    else
      others.push_back(id);
  }
  // Readers stop at the token of any of these keys.
  for (const int32_t id : others) {
    if (!stop_tokens.message)
      stop_tokens.message = id;
    else if (!stop_tokens.turn)
      stop_tokens.turn = id;
    else
      stop_tokens.lost.push_back(tokenizer.decode(std::span(&id, 1), false));
  }
  return stop_tokens;
}

ExportTokenizer make_export_tokenizer(const LoadedModel& loaded, const std::string& location) {
  const Tokenizer& tokenizer = loaded.tokenizer;
  const StopTokens stop_tokens = find_stop_tokens(loaded);
  text::TokenizerFile file = text::parse_tokenizer_file(tokenizer.files().at("tokenizer.json"), location);
  ExportTokenizer exported{.tokenizer = std::move(file.tree),
                           .vocabulary = std::move(file.vocabulary),
                           .merges = std::move(file.merges),
                           .embeddings = loaded.model.config().vocab_size,
                           .bos = tokenizer.bos_id(),
                           .eos = stop_tokens.eos,
                           .pad = tokenizer.pad_id(),
                           .end_of_turn = stop_tokens.turn,
                           .end_of_message = stop_tokens.message};
  set_added_tokens(tokenizer, location, exported);
  if (!loaded.templates.empty()) exported.chat_template = loaded.templates.choose(false).source();
  return exported;
}

/// The value of general.file_type for a format; as in the llama.cpp converter, also if some tensors are F16.
int64_t file_type(const GgufFormat& format) {
  return format.name == "F32" ? 0 : format.name == "F16" ? 1 : format.name == "Q8_0" ? 7 : 32;
}

}  // namespace

std::vector<std::string> stop_tokens_lost_in_gguf(const LoadedModel& loaded) { return find_stop_tokens(loaded).lost; }

GgufMatrices gguf_matrices(const ModelConfig& config, const GgufFormat& format, const std::string& location) {
  GgufMatrices matrices;
  for (const GgufParameter& parameter : gguf_parameters(find_architecture(config, location), gguf_shape(config))) {
    if (parameter.shape.size() == 1) continue;
    int64_t elements = 1;
    for (const int64_t size : parameter.shape) elements *= size;
    matrices.elements += elements;
    if (!has_whole_blocks(parameter, format)) matrices.in_f16 += elements;
  }
  return matrices;
}

int64_t gguf_context_length(const ModelConfig& config, const std::string& location) {
  const bool has_sliding_layers = std::count(config.sliding.begin(), config.sliding.end(), true) > 0;
  if (!has_sliding_layers || find_architecture(config, location).sliding_period > 0)
    return config.max_position_embeddings;
  return std::min(config.max_position_embeddings, config.sliding_window);
}

void write_gguf(const LoadedModel& loaded, const std::filesystem::path& path, const GgufFormat& format,
                const std::string& name, const std::string& location) {
  const ModelConfig& config = loaded.model.config();
  const GgufArchitecture& architecture = find_architecture(config, location);
  check_representable(config, architecture, location);
  GgufWriter writer;
  writer.add_text(gguf::kArchitecture, architecture.name);
  writer.add_text("general.type", "model");
  writer.add_text(gguf::kName, name);
  writer.add_count("general.file_type", file_type(format));
  writer.add_count("general.quantization_version", 2);
  add_model(config, architecture, location, writer);
  tokenizer_to_gguf(make_export_tokenizer(loaded, location), location, writer);
  add_weights(loaded.model, architecture, format, location, writer);
  writer.write(path);
}

}  // namespace keel
