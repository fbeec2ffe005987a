// Gemma 2 and Gemma 3 (text): four norms per layer, scaled embeddings, and alternating sliding-window and full
// attention. Gemma 2 has attention and logit softcaps. Gemma 3 has query and key norms, and another RoPE base in
// sliding layers.
#include <cmath>

#include "keel/model/families/config_reader.h"

namespace keel {
namespace {

constexpr const char* kFull = "full_attention";

void read_gemma(const ConfigReader& r, ModelConfig& c) {
  c.head_dim = r.integer("head_dim", 256);
  c.tie_word_embeddings = r.flag("tie_word_embeddings", true);
  c.activation = r.activation("hidden_activation", Activation::kGeluTanh);  // hidden_act is ignored
  if (r.absent("num_key_value_heads")) c.num_key_value_heads = 4;
  c.attention_bias = c.output_bias = r.flag("attention_bias", false);
  c.attention_scale = 1 / std::sqrt(r.number("query_pre_attn_scalar", 256));
  c.norm_plus_one = c.norm_after = c.scaled_embedding = true;
  if (r.flag("use_bidirectional_attention", false))
    fail(ExitCode::kBadInput, r.location(),
         ": use_bidirectional_attention is true; such a model is an encoder and cannot generate");
}

void read_gemma2(const ConfigReader& r, ModelConfig& c) {
  read_gemma(r, c);
  c.rope = r.rope();
  c.attention_softcap = r.nullable_number("attn_logit_softcapping", 50);
  c.logit_softcap = r.nullable_number("final_logit_softcapping", 30);
  c.sliding_window = r.integer("sliding_window", 4096);
  c.sliding = r.sliding_layers(c.num_hidden_layers, [](int64_t layer) { return layer % 2 == 0; });
}

/// The RoPE of one kind of layers, from rope_parameters. As in transformers, the older rope_scaling applies only to
/// full attention, and only its key "rope_type" counts, not "type".
Rope read_rope(const ConfigReader& r, const std::string& layers, double theta) {
  Json parameters = {{"rope_type", "default"}};
  if (r.has("rope_parameters") && r.section("rope_parameters").has(layers.c_str()))
    parameters = r.section("rope_parameters").section(layers.c_str()).json();
  if (r.has("rope_scaling") && layers == kFull) parameters.update(r.section("rope_scaling").json());
  parameters.erase("truncate");  // ignored here by transformers
  return r.rope_from(parameters, r.location() + ": rope_parameters: " + layers, theta);
}

void read_gemma3(const ConfigReader& r, ModelConfig& c) {
  read_gemma(r, c);
  c.rope = read_rope(r, kFull, r.number("rope_theta", 1e6));
  c.sliding_rope = read_rope(r, "sliding_attention", r.number("rope_local_base_freq", 1e4));
  c.logit_softcap = r.nullable_number("final_logit_softcapping", 0);  // attn_logit_softcapping is ignored
  c.query_key_norm = true;
  c.sliding_window = r.integer("sliding_window", 4096);
  const int64_t period = r.integer("sliding_window_pattern", 6);
  if (period < 1)
    fail(ExitCode::kBadInput, r.location(), ": sliding_window_pattern is ", period, "; expected at least 1");
  c.sliding = r.sliding_layers(c.num_hidden_layers, [&](int64_t layer) { return (layer + 1) % period != 0; });
}

}  // namespace

const Family kGemma2{"gemma2", "Gemma2ForCausalLM", read_gemma2};
const Family kGemma3{"gemma3_text", "Gemma3ForCausalLM", read_gemma3};

}  // namespace keel
