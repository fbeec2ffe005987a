#include "keel/model/formats/gguf/gguf_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "keel/core/files/file.h"
#include "keel/model/folder/convert_folder.h"
#include "keel/model/formats/gguf/gguf_rope.h"
#include "keel/model/formats/safetensors/safetensors.h"
#include "tests/support/errors.h"
#include "tests/support/gguf_bytes.h"

namespace keel {
namespace {

namespace fs = std::filesystem;
using namespace gguf_bytes;
using Keys = std::vector<std::string>;

class GgufModelTest : public testing::Test {
 protected:
  GgufModelTest() : path_(testing::TempDir() + "keel_model_" + std::to_string(::getpid()) + ".gguf") {}
  ~GgufModelTest() override {
    fs::remove(path_);
    remove_tree(folder());
  }
  fs::path folder() const { return path_.string() + ".folder"; }

  GgufModel open(const File& file) const {
    std::ofstream(path_, std::ios::binary) << file.bytes();
    return GgufModel::open(path_);
  }
  GgufTokenizer tokenizer(const Keys& keys) const {
    File file;
    file.keys = keys;
    std::ofstream(path_, std::ios::binary) << file.bytes();
    return tokenizer_from_gguf(GgufFile::open(path_).metadata());
  }

  fs::path path_;
};

Keys byte_level_keys() {
  return {text_key("tokenizer.ggml.model", "gpt2"),
          text_key("tokenizer.ggml.pre", "smollm"),
          texts_key("tokenizer.ggml.tokens", {"a", "b", "ab", "<|end|>", "<think>", "[PAD5]"}),
          list_key<int32_t>("tokenizer.ggml.token_type", 5, {1, 1, 1, 3, 4, 5}),
          texts_key("tokenizer.ggml.merges", {"a b"}),
          u32_key("tokenizer.ggml.eos_token_id", 3)};
}

std::vector<float> counted(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

/// One layer, width 4, one head of 4, six tokens.
File tiny_llama(const Keys& more = {}) {
  File file;
  file.keys = {text_key("general.architecture", "llama"),
               u32_key("llama.block_count", 1),
               u32_key("llama.context_length", 16),
               u32_key("llama.embedding_length", 4),
               u32_key("llama.feed_forward_length", 3),
               u32_key("llama.attention.head_count", 1),
               f32_key("llama.attention.layer_norm_rms_epsilon", 1e-5f)};
  for (const Keys& keys : {more, byte_level_keys()}) file.keys.insert(file.keys.end(), keys.begin(), keys.end());
  const auto add = [&](const std::string& name, uint64_t columns, uint64_t rows) {
    file.add(name, rows > 0 ? std::vector<uint64_t>{columns, rows} : std::vector<uint64_t>{columns},
             counted(columns * std::max<uint64_t>(rows, 1)));
  };
  add("token_embd.weight", 4, 6);
  add("blk.0.attn_norm.weight", 4, 0);
  for (const char* name : {"q", "k", "v", "output"}) add(std::string("blk.0.attn_") + name + ".weight", 4, 4);
  add("blk.0.ffn_norm.weight", 4, 0);
  add("blk.0.ffn_gate.weight", 4, 3);
  add("blk.0.ffn_up.weight", 4, 3);
  add("blk.0.ffn_down.weight", 3, 4);
  add("output_norm.weight", 4, 0);
  return file;
}

void replace_key(File& file, const std::string& name, const std::string& entry) {
  for (std::string& each : file.keys)
    if (each.starts_with(text(name))) each = entry;
}

TEST_F(GgufModelTest, TheConfigurationMatchesTheHuggingFaceFolder) {
  const Json config = open(tiny_llama({f32_key("llama.rope.freq_base", 1e5f)})).config();
  EXPECT_EQ(config["architectures"], Json::array({"LlamaForCausalLM"}));
  EXPECT_EQ(config["model_type"], "llama");
  EXPECT_EQ(config["hidden_size"], 4);
  EXPECT_EQ(config["intermediate_size"], 3);
  EXPECT_EQ(config["num_key_value_heads"], 1);
  EXPECT_EQ(config["head_dim"], 4);
  EXPECT_EQ(config["vocab_size"], 6);
  EXPECT_EQ(config["rms_norm_eps"], 1e-5);
  EXPECT_EQ(config["rope_theta"], 1e5);
  EXPECT_EQ(config["rope_scaling"], Json());
  EXPECT_EQ(config["tie_word_embeddings"], true);
  EXPECT_EQ(config["eos_token_id"], 3);
}

// As in llama.cpp (llama-model.cpp): a factor without a type is linear, rope.scale_linear is its older
// name, the type none disables it; yarn multiplies attn_factor by 0.1 ln(factor) + 1.
TEST_F(GgufModelTest, RopeScalingMatchesLlamaCpp) {
  const auto scaling = [&](const Keys& keys) { return open(tiny_llama(keys)).config()["rope_scaling"]; };
  const auto number = [](const char* name, float value) {
    std::string key = "llama.rope.";
    key += name;
    return f32_key(key, value);
  };
  const std::string linear = text_key("llama.rope.scaling.type", "linear"),
                    none = text_key("llama.rope.scaling.type", "none"),
                    yarn = text_key("llama.rope.scaling.type", "yarn");
  const Json by_four = {{"rope_type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(scaling({linear, number("scaling.factor", 4)}), by_four);
  EXPECT_EQ(scaling({number("scaling.factor", 4)}), by_four);
  EXPECT_EQ(scaling({number("scale_linear", 4)}), by_four);
  EXPECT_EQ(scaling({number("scaling.factor", 4), number("scale_linear", 8)}), by_four);
  EXPECT_EQ(scaling({none, number("scaling.factor", 4)}), Json());
  EXPECT_EQ(scaling({number("scale_linear", 1)}), Json());
  EXPECT_EQ(scaling({linear}), Json());
  EXPECT_EQ(scaling({yarn, number("scaling.factor", 4), u32_key("llama.rope.scaling.original_context_length", 8)}),
            (Json{{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 8}}));
  const Json tuned = scaling({yarn, number("scaling.factor", 4), number("scaling.yarn_beta_fast", 16),
                              number("scaling.yarn_beta_slow", 2), number("scaling.attn_factor", 2)});
  EXPECT_EQ(tuned["beta_fast"], 16.0);
  EXPECT_EQ(tuned["beta_slow"], 2.0);
  EXPECT_NEAR(tuned["attention_factor"].get<double>(), 2 * 1.1386294361, 1e-9);  // 0.1 ln 4 = 0.1386294361
}

// The converter writes the rows of a head as 0, half, 1, half + 1, ...
TEST_F(GgufModelTest, QueryAndKeyRowsOfLlamaAreReordered) {
  const GgufModel model = open(tiny_llama());
  const Tensor stored = at::arange(16, at::kFloat).view({4, 4});
  const Tensor wanted = at::stack({stored[0], stored[2], stored[1], stored[3]});
  EXPECT_TRUE(at::equal(model.read("model.layers.0.self_attn.q_proj.weight"), wanted));
  EXPECT_TRUE(at::equal(model.read("model.layers.0.self_attn.k_proj.weight"), wanted));
  EXPECT_TRUE(at::equal(model.read("model.layers.0.self_attn.v_proj.weight"), stored));
  EXPECT_EQ(model.parameter_count(), 24 + 4 + 64 + 4 + 36 + 4);
}

TEST_F(GgufModelTest, MissingExtraAndMisshapenTensorsAreNamed) {
  struct Case {
    std::string what, message;
    std::function<void(File&)> change;
  };
  const auto size = [](const char* name, uint32_t value) {
    return [=](File& file) { replace_key(file, name, u32_key(name, value)); };
  };
  for (const auto& [what, message, change] : std::vector<Case>{
           {"missing tensor", "has no tensor \"blk.1.attn_norm.weight\"; expected one of shape [4]",
            size("llama.block_count", 2)},
           {"wrong shape", "\"blk.0.ffn_gate.weight\" has the shape [3, 4]; expected [5, 4]",
            size("llama.feed_forward_length", 5)},
           {"extra tensor",
            "tensor \"blk.0.ffn_gate_exps.weight\" of shape [2] does not belong to a model of 1 llama layers",
            [](File& f) {
              f.add("blk.0.ffn_gate_exps.weight", {2}, {0, 0});
            }},
           {"architecture", "general.architecture is \"gpt2\"; known are llama, qwen2, qwen3",
            [](File& f) { replace_key(f, "general.architecture", text_key("general.architecture", "gpt2")); }},
           {"no architecture", "has no key \"general.architecture\"",
            [](File& f) { replace_key(f, "general.architecture", text_key("x", "llama")); }},
           {"no size", "has no key \"llama.embedding_length\"",
            [](File& f) { replace_key(f, "llama.embedding_length", u32_key("x", 4)); }},
           {"size of 0", "llama.attention.head_count is 0; expected 1 to", size("llama.attention.head_count", 0)},
           {"more layers than tensors", "block_count is 1000, but the file has only 11 tensors",
            size("llama.block_count", 1000)},
           {"odd heads", "is not divisible by 3 heads", size("llama.attention.head_count", 3)},
           {"experts", "it has experts", [](File& f) { f.keys.push_back(u32_key("llama.expert_count", 8)); }},
           {"a window", "it has a sliding window",
            [](File& f) { f.keys.push_back(u32_key("llama.attention.sliding_window", 8)); }},
           {"a part", "one of several split files", [](File& f) { f.keys.push_back(u32_key("split.count", 2)); }},
           {"half rotated", "4 per value, and rotate 2",
            [](File& f) { f.keys.push_back(u32_key("llama.rope.dimension_count", 2)); }},
           {"layers that differ", "llama.attention.head_count_kv differs between layers",
            [](File& f) {
              f.keys.push_back(list_key<uint32_t>("llama.attention.head_count_kv", 4, {1, 0}));
            }},
           {"unknown scaling", "rope.scaling.type is \"odd\"; known: none, linear, yarn",
            [](File& f) {
              f.keys.push_back(text_key("llama.rope.scaling.type", "odd"));
              f.keys.push_back(f32_key("llama.rope.scaling.factor", 2));
            }},
           {"yarn without a factor", "llama.rope.scaling.factor is 0; yarn needs",
            [](File& f) { f.keys.push_back(text_key("llama.rope.scaling.type", "yarn")); }},
           {"negative factor", "llama.rope.scaling.factor is -2; expected a number above 0",
            [](File& f) { f.keys.push_back(f32_key("llama.rope.scaling.factor", -2)); }},
           {"strength without yarn", "llama.rope.scaling.attn_factor is 2; expected 1",
            [](File& f) { f.keys.push_back(f32_key("llama.rope.scaling.attn_factor", 2)); }},
           {"yarn's other way", "llama.rope.scaling.yarn_ext_factor is 0; only 1 is supported",
            [](File& f) {
              f.keys.push_back(text_key("llama.rope.scaling.type", "yarn"));
              f.keys.push_back(f32_key("llama.rope.scaling.factor", 2));
              f.keys.push_back(f32_key("llama.rope.scaling.yarn_ext_factor", 0));
            }},
           {"unknown key of rope", "the key \"llama.rope.scaling.alpha\" is unknown",
            [](File& f) { f.keys.push_back(f32_key("llama.rope.scaling.alpha", 1000)); }},
           {"rope stretched twice", "frequency factors (rope_freqs.weight) and linear rope scaling",
            [](File& f) {
              f.keys.push_back(f32_key("llama.rope.scale_linear", 2));
              f.add("rope_freqs.weight", {2}, {1, 1});
            }},
           {"rope factors of another shape", "\"rope_freqs.weight\" has the shape [3]; expected [2]",
            [](File& f) {
              f.add("rope_freqs.weight", {3}, {1, 1, 1});
            }},
           {"rope factors of no known kind", "do not match the RoPE scaling of Llama 3",
            [](File& f) {
              f.add("rope_freqs.weight", {2}, {8, 2});
            }},
       }) {
    File file = tiny_llama();
    change(file);
    const std::string error = error_of(3, [&] { open(file); });
    EXPECT_THAT(error, HasSubstr(message)) << what;
    EXPECT_THAT(error, HasSubstr(path_.filename().string())) << what;
  }
}

// 1 / ((1 - s) / 8 + s) with s = (8192 / wavelength - 1) / 3, as in Llama 3.1: for theta 500000 and 64 frequencies the
// wavelength of frequency 29 is 2 pi 500000^(29/64) = 2401.738, s is 0.803621 and the factor 1.207484.
TEST(GgufRope, Llama3ScalingIsRecoveredFromItsFactors) {
  std::vector<float> factors;
  for (int i = 0; i < 64; ++i) {
    const double wave = 2 * M_PI * std::pow(500000.0, i / 64.0), turns = 8192 / wave, s = (turns - 1) / 3;
    factors.push_back(static_cast<float>(turns > 4 ? 1 : turns < 1 ? 8 : 1 / ((1 - s) / 8 + s)));
  }
  EXPECT_NEAR(factors[29], 1.207484, 1e-6);
  const Json scaling = llama3_rope_scaling(factors, 500000, 8192, "here");
  EXPECT_EQ(scaling.dump(),
            "{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
            "\"original_max_position_embeddings\":8192}");
  EXPECT_EQ(llama3_rope_scaling(std::vector<float>(64, 1.0f), 500000, 8192, "here"), Json());
  factors[29] *= 1.1f;
  EXPECT_THAT(error_of(3, [&] { llama3_rope_scaling(factors, 500000, 8192, "here"); }), HasSubstr("here"));
}

TEST_F(GgufModelTest, AByteLevelTokenizerIsConvertedToItsFiles) {
  Keys keys = byte_level_keys();
  keys.push_back(text_key("tokenizer.chat_template", "{{ x }}"));
  const GgufTokenizer made = tokenizer(keys);
  EXPECT_EQ(made.eos, 3);
  EXPECT_EQ(made.stop_ids, std::vector<int64_t>{3});
  EXPECT_EQ(made.tokenizer["model"]["vocab"].dump(), R"({"a":0,"b":1,"ab":2,"<|end|>":3,"<think>":4})");
  EXPECT_EQ(made.tokenizer["model"]["merges"].dump(), R"([["a","b"]])");
  EXPECT_EQ(made.tokenizer["pre_tokenizer"]["pretokenizers"][0].dump(),
            R"({"type":"Digits","individual_digits":true})");
  ASSERT_EQ(made.tokenizer["added_tokens"].size(), 2u);
  EXPECT_EQ(made.tokenizer["added_tokens"][0]["special"], true);
  EXPECT_EQ(made.tokenizer["added_tokens"][1]["special"], false);
  EXPECT_EQ(made.tokenizer["post_processor"], Json());
  EXPECT_EQ(made.tokenizer_config["eos_token"], "<|end|>");
  EXPECT_EQ(made.tokenizer_config["chat_template"], "{{ x }}");
}

// SentencePiece: "ab" scores above "bc", so it is merged first; "abc" has two possible merges.
TEST_F(GgufModelTest, MergesAreOrderedByDecreasingScore) {
  const Keys keys = {text_key("tokenizer.ggml.model", "llama"),
                     texts_key("tokenizer.ggml.tokens", {"<unk>", "<s>", "abc", "bc", "ab", "a", "b", "c"}),
                     list_key<float>("tokenizer.ggml.scores", 6, {0, 0, -3, -2, -1, -4, -5, -6}),
                     list_key<int32_t>("tokenizer.ggml.token_type", 5, {2, 3, 1, 1, 1, 1, 1, 1}),
                     u32_key("tokenizer.ggml.bos_token_id", 1)};
  const GgufTokenizer made = tokenizer(keys);
  EXPECT_EQ(made.tokenizer["model"]["merges"].dump(), R"([["a","b"],["b","c"],["ab","c"],["a","bc"]])");
  EXPECT_EQ(made.tokenizer["model"]["byte_fallback"], true);
  // llama.cpp adds <s> by default.
  EXPECT_EQ(made.tokenizer["post_processor"]["single"].dump(),
            R"([{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}])");
}

TEST_F(GgufModelTest, AnInconsistentTokenizerIsRejectedByName) {
  struct Case {
    std::string key, entry, message;
  };
  const auto ids = [](uint32_t id) { return u32_key("tokenizer.ggml.eos_token_id", id); };
  for (const auto& [key_name, entry, message] : std::vector<Case>{
           {"tokenizer.ggml.model", text_key("tokenizer.ggml.model", "bert"),
            "is \"bert\"; known are \"gpt2\" and \"llama\""},
           {"tokenizer.ggml.model", text_key("tokenizer.ggml.modal", "gpt2"), "has no key \"tokenizer.ggml.model\""},
           {"tokenizer.ggml.model", text_key("tokenizer.ggml.model", "llama"), ""},
           {"tokenizer.ggml.pre", text_key("tokenizer.ggml.pre", "new"),
            "tokenizer.ggml.pre is \"new\"; known are gpt-2"},
           {"tokenizer.ggml.tokens", u32_key("tokenizer.ggml.tokens", 1), "tokens is not a list of strings"},
           {"tokenizer.ggml.tokens", texts_key("tokenizer.ggml.tokens", {}), "it has no tokenizer.ggml.tokens"},
           {"tokenizer.ggml.tokens", texts_key("tokenizer.ggml.tokens", {"a"}),
            "has 6 elements; expected one per token, 1"},
           {"tokenizer.ggml.tokens", texts_key("tokenizer.ggml.tokens", {"a", "b", "ab", "a", "c", "d"}),
            "the token \"a\" has two ids, 0 and 3"},
           {"tokenizer.ggml.token_type", texts_key("tokenizer.ggml.token_type", {"a"}),
            "token_type is not a list of whole numbers"},
           {"tokenizer.ggml.token_type", list_key<float>("tokenizer.ggml.token_type", 6, {-4e37f, 1, 1, 3, 4, 5}),
            "token_type is not a list of whole numbers"},
           {"tokenizer.ggml.merges", texts_key("tokenizer.ggml.merges", {"ab"}),
            "merge 0 is \"ab\"; expected two tokens"},
           {"tokenizer.ggml.merges", texts_key("tokenizer.ggml.merges", {""}), "merge 0 is \"\"; expected two tokens"},
           {"tokenizer.ggml.merges", texts_key("tokenizer.ggml.merges", {"a "}),
            "merge 0 is \"a \"; expected two tokens"},
           {"tokenizer.ggml.merges", texts_key("tokenizer.ggml.merges", {"a b", "a x"}), "needs the token \"x\""},
           {"tokenizer.ggml.merges", texts_key("tokenizer.ggml.merges", {"b a"}), "needs the token \"ba\""},
           {"tokenizer.ggml.merges", u32_key("x", 1), "it has no tokenizer.ggml.merges"},
           {"tokenizer.ggml.eos_token_id", ids(6), "eos_token_id is 6; expected the id of a token, 0 to 5"},
           {"tokenizer.ggml.eos_token_id", ids(~0u), "eos_token_id is 4294967295"},
           {"tokenizer.ggml.eos_token_id", key("tokenizer.ggml.eos_token_id", 5, number(int32_t{-1})),
            "is -1; expected"},
       }) {
    File file;
    file.keys = byte_level_keys();
    replace_key(file, key_name, entry);
    if (message.empty()) {
      EXPECT_NO_THROW(tokenizer(file.keys));
      continue;
    }
    const std::string error = error_of(3, [&] { tokenizer(file.keys); });
    EXPECT_THAT(error, HasSubstr(message)) << key_name;
  }
}

TEST_F(GgufModelTest, SmallListsDoNotExpandWithoutLimit) {
  std::vector<std::string> tokens;
  for (int i = 0; i < 65'537; ++i) tokens.push_back("t" + std::to_string(i));
  const Keys special = {text_key("tokenizer.ggml.model", "gpt2"), texts_key("tokenizer.ggml.tokens", tokens),
                        texts_key("tokenizer.ggml.merges", {}),
                        list_key("tokenizer.ggml.token_type", 5, std::vector<int32_t>(tokens.size(), 3))};
  EXPECT_THAT(error_of(3, [&] { tokenizer(special); }), HasSubstr("more than 65536 tokens have the type"));

  // All repetitions of up to 256 of one letter, and of two: each has as many possible merges as split points.
  tokens.clear();
  for (size_t a = 0; a <= 256; ++a) {
    for (size_t b = a == 0 ? 1 : 0; a + b <= 256; ++b) tokens.push_back(std::string(a, 'a') + std::string(b, 'b'));
  }
  const Keys scored = {text_key("tokenizer.ggml.model", "llama"), texts_key("tokenizer.ggml.tokens", tokens),
                       list_key("tokenizer.ggml.scores", 6, std::vector<float>(tokens.size(), 0))};
  EXPECT_THAT(error_of(3, [&] { tokenizer(scored); }), HasSubstr("more than 2097152 merges"));
}

TEST_F(GgufModelTest, TheFolderIsWrittenAtomically) {
  const GgufModel model = open(tiny_llama());
  write_gguf_as_folder(model, folder(), at::kBFloat16);
  EXPECT_EQ(list_directory(folder()), (Keys{"config.json", "generation_config.json", "model.safetensors",
                                            "tokenizer.json", "tokenizer_config.json"}));
  EXPECT_EQ(Json::parse(read_file(folder() / "config.json"))["dtype"], "bfloat16");
  EXPECT_EQ(Json::parse(read_file(folder() / "generation_config.json"))["eos_token_id"], 3);
  const SafetensorsFile written = SafetensorsFile::open(folder() / "model.safetensors");
  EXPECT_EQ(written.read("model.norm.weight").scalar_type(), at::kBFloat16);
  EXPECT_EQ(written.metadata().at("format"), "pt");

  EXPECT_THAT(error_of(2, [&] { write_gguf_as_folder(model, folder(), at::kFloat); }),
              HasSubstr("it exists and is not empty"));
  remove_tree(folder());
  File without_tokens = tiny_llama();
  replace_key(without_tokens, "tokenizer.ggml.model", u32_key("x", 1));
  const GgufModel no_tokenizer = open(without_tokens);
  error_of(3, [&] { write_gguf_as_folder(no_tokenizer, folder(), at::kFloat); });
  EXPECT_FALSE(fs::exists(folder()));
  EXPECT_FALSE(fs::exists(folder().string() + ".partial"));

  File large = tiny_llama();
  large.data.replace(0, 4, number(1e6f));
  const GgufModel beyond_half = open(large);
  EXPECT_THAT(error_of(3, [&] { write_gguf_as_folder(beyond_half, folder(), at::kHalf); }),
              HasSubstr("model.embed_tokens.weight has values above"));
  EXPECT_FALSE(fs::exists(folder()));
  EXPECT_FALSE(fs::exists(folder().string() + ".partial"));
}

}  // namespace
}  // namespace keel
