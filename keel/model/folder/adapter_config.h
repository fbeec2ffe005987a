#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/json.h"
#include "keel/model/network/lora_options.h"
#include "libs/hftext/regex/regex.h"

namespace keel {

/// The fix for unsupported adapters.
inline constexpr const char* kMergeFirst =
    "merge the adapter with PEFT: PeftModel.from_pretrained(model, "
    "ADAPTER).merge_and_unload().save_pretrained(FOLDER), "
    "and load that folder after copying the tokenizer files into it";

/// The adapter_config.json of a LoRA adapter, interpreted as in PEFT: target layers, ranks and scales. Layers are
/// identified by full names such as model.layers.0.self_attn.q_proj.
class AdapterConfig {
 public:
  /// Fails (exit code 3) for unsupported features that would change the result (DoRA, modules_to_save, biases, ...).
  AdapterConfig(Json json, const std::string& location);

  bool targets(const std::string& layer) const;
  int64_t rank(const std::string& layer) const;
  /// alpha / rank, or alpha / sqrt(rank) when stabilised (arXiv 2312.03732).
  double scale(const std::string& layer) const;
  const Json& json() const { return json_; }

 private:
  /// Matches layers by names, name suffixes, or a regular expression for full names.
  struct Names {
    std::vector<std::string> suffixes;
    std::optional<text::Regex> pattern;
    bool contain(const std::string& layer) const;
  };
  template <class Number>
  using Overrides = std::vector<std::pair<text::Regex, Number>>;
  template <class Number>
  using Check = Number (AdapterConfig::*)(const char* key, const Json& value) const;

  Names read_names(const char* key) const;
  template <class Number>
  Overrides<Number> read_overrides(const char* key, Check<Number> check) const;
  int64_t checked_rank(const char* key, const Json& value) const;
  double checked_alpha(const char* key, const Json& value) const;
  void read_layers();
  [[noreturn]] void reject(const char* key) const;

  Json json_;
  std::string location_;
  Names target_, excluded_;
  bool all_linear_ = false;
  std::vector<int64_t> blocks_;  // layers_to_transform; empty: all
  std::vector<text::Regex> block_patterns_;
  int64_t rank_ = 0;
  double alpha_ = 0;
  bool rank_stabilized_ = false;
  Overrides<int64_t> rank_overrides_;
  Overrides<double> alpha_overrides_;
};

/// The adapter_config.json of an adapter with these options, as PEFT writes it.
Json to_adapter_json(const LoraOptions& options);

}  // namespace keel
