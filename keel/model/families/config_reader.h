#pragma once

#include <span>
#include <string>

#include "keel/core/json.h"
#include "keel/model/network/model_config.h"

namespace keel {

/// Typed access to the keys of a config.json, with errors that name the file. As in transformers, null counts as
/// absent.
class ConfigReader {
 public:
  ConfigReader(const Json& json, std::string location) : json_(json), location_(std::move(location)) {}

  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  bool absent(const char* key) const { return !json_.contains(key); }
  int64_t integer(const char* key) const;
  int64_t integer(const char* key, int64_t fallback) const { return has(key) ? integer(key) : fallback; }
  double number(const char* key) const;
  double number(const char* key, double fallback) const { return has(key) ? number(key) : fallback; }
  /// For keys where null means 0: returns `absent` if the key is missing, 0 if it is null.
  double nullable_number(const char* key, double absent) const { return json_.contains(key) ? number(key, 0) : absent; }
  int64_t nullable_integer(const char* key, int64_t absent) const {
    return json_.contains(key) ? integer(key, 0) : absent;
  }
  /// For keys where 0 counts as absent.
  double nonzero_number(const char* key, double fallback) const { return number(key, 0) != 0 ? number(key) : fallback; }
  bool flag(const char* key, bool fallback) const;
  std::string text(const char* key, const std::string& fallback) const;
  ConfigReader section(const char* key) const;
  const Json& json() const { return json_; }
  const std::string& location() const { return location_; }

  /// Parses rope_theta and rope_scaling, or rope_parameters in newer files.
  Rope rope() const;
  /// Parses one set of RoPE parameters, for families with several; `theta` is the default of rope_theta.
  Rope rope_from(const Json& parameters, const std::string& location, double theta) const;
  /// The activation function of the MLP gate.
  Activation activation(const char* key, Activation fallback) const;
  /// Returns whether each layer uses the sliding window: from layer_types if present, else rule(layer index).
  template <class Rule>
  std::vector<bool> sliding_layers(int64_t layers, Rule rule) const {
    if (has("layer_types")) return layer_types(layers);
    std::vector<bool> result;
    for (int64_t i = 0; i < layers; ++i) result.push_back(rule(i));
    return result;
  }

 private:
  std::vector<bool> layer_types(int64_t layers) const;

  const Json& json_;
  std::string location_;
};

/// A model family: its names in config.json, and `read`, which parses the keys besides the common sizes. Each family
/// has a file in families/.
struct Family {
  const char* model_type;
  const char* architecture;
  void (*read)(const ConfigReader& reader, ModelConfig& config);
};

extern const Family kLlama, kMistral, kQwen2, kQwen3, kGemma2, kGemma3;

std::span<const Family* const> families();

}  // namespace keel
