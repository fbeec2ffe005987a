// Keel's half of the comparison with Hugging Face transformers (logits_parity_test.py runs this, then judges): model
// folders and, for each, token ids with the logits Keel computes for them.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "keel/core/files/file.h"
#include "keel/model/folder/model_folder.h"
#include "keel/model/formats/safetensors/safetensors.h"
#include "keel/model/network/causal_lm.h"
#include "keel/model/network/packed_forward.h"
#include "keel/task/task_table.h"

namespace keel {
namespace {

Tensor all_logits(const ModelWeights& model, const Tensor& tokens) {
  const int64_t length = tokens.size(0);
  return model.head().linear_to_float32(
      packed_hidden_states(CausalLm(model), tokens, at::arange(length, at::kLong), {{.begin = 0, .length = length}}));
}

TEST(LogitsParity, WritesFoldersForTransformersToJudge) {
  const char* folder = std::getenv("KEEL_PARITY_FOLDER");
  if (folder == nullptr) GTEST_SKIP() << "KEEL_PARITY_FOLDER is not set; logits_parity_test.py sets it";
  const Tokenizer tokenizer = make_task({})->tokenizer();
  const std::vector<ModelOptions> shapes = {
      {},
      {.hidden_size = 96, .layers = 3, .heads = 6, .kv_heads = 2, .tie_embeddings = true, .rope_theta = 5e5},
      {.hidden_size = 60, .layers = 1, .heads = 3, .kv_heads = 1, .intermediate_size = 50, .rms_norm_eps = 1e-5},
      {.hidden_size = 32, .layers = 4, .heads = 2, .initializer_range = 0.2, .max_positions = 512}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    const ModelWeights model = ModelWeights::random(model_config(shapes[i], tokenizer.size()), i, {at::kCPU});
    const std::filesystem::path path = std::filesystem::path(folder) / ("shape" + std::to_string(i));
    create_directories(path);
    write_model_folder(path, model, tokenizer, Json::object(), at::kFloat);
    const Tensor tokens = (at::arange(300, at::kLong) * 7 + at::arange(300, at::kLong).pow(2)) % tokenizer.size();
    std::vector<std::pair<std::string, Tensor>> expected = {{"tokens", tokens}};
    for (const auto& [name, type] :
         {std::pair{"float32", at::kFloat}, {"bfloat16", at::kBFloat16}, {"float16", at::kHalf}}) {
      ModelWeights computing = ModelWeights::from_tensors(model.config(), model.parameters(), at::kCPU, "a copy");
      computing.set_compute_type(type);
      expected.emplace_back(name, all_logits(computing, tokens));
    }
    write_safetensors(path / "expected.safetensors", expected, {});
  }
}

}  // namespace
}  // namespace keel
