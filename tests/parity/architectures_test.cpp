// Keel's half of the comparison with Hugging Face transformers (architectures_parity_test.py makes the folders, runs
// this, then judges): logits and gradients of every folder for packed sequences, and the folder as Keel saves it.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "keel/core/files/file.h"
#include "keel/model/folder/model_folder.h"
#include "keel/model/formats/safetensors/safetensors.h"
#include "keel/model/network/packed_forward.h"
#include "keel/train/start/logprob_check.h"

namespace keel {
namespace {

/// Sequences one after another, without padding.
struct Packed {
  Tensor tokens, positions;
  std::vector<Segment> segments;
};

Packed pack_sequences(const Tensor& tokens, const Tensor& lengths, const Tensor& first_positions) {
  Packed packed{tokens, {}, {}};
  std::vector<Tensor> positions;
  int64_t begin = 0;
  for (int64_t s = 0; s < lengths.size(0); ++s) {
    const int64_t length = lengths[s].item<int64_t>();
    packed.segments.push_back({.begin = begin, .length = length});
    positions.push_back(at::arange(length, at::kLong) + first_positions[s]);
    begin += length;
  }
  packed.positions = at::cat(positions);
  return packed;
}

/// Computes all tokens as in training.
Tensor logits_of(const CausalLm& model, const Packed& packed) {
  const at::NoGradGuard no_grad;
  const Tensor hidden = packed_hidden_states(model, packed.tokens, packed.positions, packed.segments);
  return apply_softcap(model.weights().head().linear_to_float32(hidden), model.config().logit_softcap);
}

/// d/dparameters of the sum of -log p of every token's successor, through the head that training uses.
void accumulate_next_token_gradients(const CausalLm& model, const Packed& packed) {
  std::vector<int64_t> rows, next;
  for (const Segment& segment : packed.segments) {
    for (int64_t i = 0; i + 1 < segment.length; ++i) {
      rows.push_back(segment.begin + i);
      next.push_back(segment.begin + i + 1);
    }
  }
  const Tensor hidden = packed_hidden_states(model, packed.tokens, packed.positions, packed.segments)
                            .index_select(0, at::tensor(rows, at::kLong));
  const Tensor targets = packed.tokens.index_select(0, at::tensor(next, at::kLong));
  hidden.backward(model.lm_head(1.0).backward(hidden.detach(), targets, Scope::kToken,
                                              [](const TokenStats& stats, int64_t, int64_t) -> HeadCoefficients {
                                                return {at::ones_like(stats.logp), {}};
                                              }));
}

/// Words enough for the vocabulary; only ids matter here.
Tokenizer any_tokenizer(int64_t words) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < words; ++i) names.push_back("w" + std::to_string(i));
  return Tokenizer::word_level(names, {.pad = "", .bos = "", .eos = "w0"});
}

/// The likeliest continuations [sequences, kGreedyTokens] of the packed sequences, all decoded together.
Tensor greedy_tokens(const ModelWeights& model, const Tokenizer& tokenizer, const Packed& packed) {
  constexpr int64_t kGreedyTokens = 20;
  std::vector<Prompt> prompts(packed.segments.size());
  for (size_t s = 0; s < prompts.size(); ++s) {
    prompts[s].id = s;
    for (int64_t i = 0; i < packed.segments[s].length; ++i)
      prompts[s].tokens.push_back(packed.tokens[packed.segments[s].begin + i].item<int32_t>());
  }
  std::vector<Tensor> rows;
  for (const Rollout& rollout :
       RolloutEngine(SamplingModel({model}), tokenizer)
           .generate(prompts, {.temperature = 0, .max_new_tokens = kGreedyTokens, .stop_at_eos = false}))
    rows.push_back(at::tensor(rollout.tokens.ids, at::kLong));
  return at::stack(rows);
}

TEST(ArchitectureParity, ComputesWhatTransformersJudges) {
  const char* folder = std::getenv("KEEL_PARITY_FOLDER");
  if (folder == nullptr) GTEST_SKIP() << "KEEL_PARITY_FOLDER is not set; architectures_parity_test.py sets it";
  for (const std::string& name : list_directory(folder)) {
    SCOPED_TRACE(name);
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    const ModelFolder opened = ModelFolder::open(path);
    const ModelWeights model = ModelWeights::load(opened.config, opened.weights(), {at::kCPU});
    const SafetensorsFile input = SafetensorsFile::open(path / "input.safetensors");
    const Packed packed = pack_sequences(input.read("tokens"), input.read("lengths"), input.read("first_positions"));

    std::vector<std::pair<std::string, Tensor>> output = {{"logits", logits_of(model, packed)}};
    const GradientSinks gradients(model.network());
    accumulate_next_token_gradients(model, packed);
    for (const auto& [weight_name, weight] : model.network())
      output.emplace_back("gradient." + weight_name, weight.sink()->sum());
    ModelWeights narrow = ModelWeights::from_tensors(opened.config, model.parameters(), at::kCPU, name);
    narrow.set_compute_type(at::kBFloat16);
    output.emplace_back("logits.bfloat16", logits_of(narrow, packed));
    const Tokenizer tokenizer = any_tokenizer(opened.config.vocab_size);
    output.emplace_back("greedy", greedy_tokens(model, tokenizer, packed));
    write_safetensors(path / "output.safetensors", output, {});

    create_directories(path / "saved");
    write_model_folder(path / "saved", model, tokenizer, opened.generation, opened.dtypes);

    // Decoding with a key-value cache must say what training says, whatever windows and caps there are.
    std::vector<Prompt> prompts(3);
    for (size_t p = 0; p < prompts.size(); ++p) {
      prompts[p].id = p;
      for (size_t i = 0; i < 3 + 5 * p; ++i)
        prompts[p].tokens.push_back(static_cast<int32_t>((7 * i + p) % opened.config.vocab_size));
    }
    const LogprobCheck check =
        check_sampler_matches_trainer({model}, model, tokenizer, prompts,
                                      {.samples_per_prompt = 2, .max_new_tokens = 24, .stop_at_eos = false}, 4096);
    EXPECT_LT(check.max_difference, 5e-5);
    EXPECT_EQ(check.tokens, 3 * 2 * 24);
    require_logprobs_match(
        check_sampler_matches_trainer({narrow}, narrow, tokenizer, prompts,
                                      {.samples_per_prompt = 2, .max_new_tokens = 24, .stop_at_eos = false}, 4096),
        /*limit=*/0, narrow.compute_type());
  }
}

}  // namespace
}  // namespace keel
