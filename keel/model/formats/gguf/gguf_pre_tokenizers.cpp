#include "keel/model/formats/gguf/gguf_pre_tokenizers.h"

#include <algorithm>
#include <array>

namespace keel {
namespace {

constexpr const char* kLlama3Words = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                                     R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Words = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                                    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekkenWords = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
                                     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
                                     R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::array<GgufPreTokenizer, 15> kPreTokenizers = {{
    {.name = "gpt-2"},
    {.name = "default"},
    {.name = "phi-2"},
    {.name = "smollm", .single_digits = true},
    {.name = "starcoder", .single_digits = true},
    {.name = "refact", .single_digits = true},
    {.name = "llama-bpe", .pattern = kLlama3Words, .ignore_merges = true, .add_bos = true},
    {.name = "llama3", .pattern = kLlama3Words, .ignore_merges = true, .add_bos = true},
    {.name = "llama-v3", .pattern = kLlama3Words, .ignore_merges = true, .add_bos = true},
    {.name = "falcon3", .pattern = kLlama3Words, .ignore_merges = true, .add_bos = true},
    {.name = "smaug-bpe", .pattern = kLlama3Words},
    {.name = "qwen2", .pattern = kQwen2Words, .nfc = true},
    {.name = "deepseek-r1-qwen", .pattern = kQwen2Words, .nfc = true},
    {.name = "megrez", .pattern = kQwen2Words, .nfc = true},
    {.name = "tekken", .pattern = kTekkenWords, .ignore_merges = true, .add_bos = true},
}};

void add_steps(const Json& part, std::vector<Json>& steps) {
  if (!part.is_object()) return;
  for (const char* list : {"normalizers", "pretokenizers"}) {
    if (!part.contains(list) || !part[list].is_array()) continue;
    for (const Json& step : part[list]) add_steps(step, steps);
    return;
  }
  Json step = part;
  step.erase("trim_offsets");
  if (step.value("type", Json()) == "ByteLevel" && !step.contains("use_regex")) step["use_regex"] = true;
  steps.push_back(std::move(step));
}

}  // namespace

std::span<const GgufPreTokenizer> gguf_pre_tokenizers() { return kPreTokenizers; }

std::vector<Json> tokenizer_steps(const Json& part) {
  std::vector<Json> steps;
  add_steps(part, steps);
  return steps;
}

bool has_steps(const Json& part, const std::vector<Json>& steps) {
  const std::vector<Json> found = tokenizer_steps(part);
  const auto sorted = [](const Json& step) { return nlohmann::json(step); };  // ignores the order of members
  return std::equal(found.begin(), found.end(), steps.begin(), steps.end(),
                    [&](const Json& one, const Json& other) { return sorted(one) == sorted(other); });
}

const GgufPreTokenizer* find_pre_tokenizer(const Json& tokenizer) {
  const Json normalizer = tokenizer.value("normalizer", Json());
  const Json& model = tokenizer["model"];
  const Json flag = model.value("ignore_merges", Json());
  const bool ignore_merges = flag.is_boolean() && flag.get<bool>();
  for (const bool exact : {true, false}) {
    for (const GgufPreTokenizer& candidate : kPreTokenizers) {
      const bool same_normalizer = has_steps(normalizer, tokenizer_steps(candidate.normalizer())) ||
                                   (!exact && tokenizer_steps(normalizer).empty());
      if (same_normalizer && candidate.ignore_merges == ignore_merges &&
          has_steps(tokenizer.value("pre_tokenizer", Json()), tokenizer_steps(candidate.pre_tokenizer(false))))
        return &candidate;
    }
  }
  return nullptr;
}

Json GgufPreTokenizer::normalizer() const { return nfc ? Json{{"type", "NFC"}} : Json(); }

Json GgufPreTokenizer::pre_tokenizer(bool add_prefix_space) const {
  const Json bytes = {{"type", "ByteLevel"},
                      {"add_prefix_space", add_prefix_space},
                      {"trim_offsets", true},
                      {"use_regex", pattern == nullptr}};
  if (pattern == nullptr && !single_digits) return bytes;
  const Json first =
      single_digits
          ? Json{{"type", "Digits"}, {"individual_digits", true}}
          : Json{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({first, bytes})}};
}

}  // namespace keel
