#pragma once

#include <span>
#include <string>

#include "keel/core/json.h"
#include "keel/model/network/model_config.h"

namespace keel {

/// A config.json under the eyes of a family: values by key, with errors that name the file. A key that is null counts
/// as absent, as in Hugging Face's own files.
class ConfigReader {
 public:
  ConfigReader(const Json& json, std::string place) : json_(json), place_(std::move(place)) {}

  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  bool absent(const char* key) const { return !json_.contains(key); }
  int64_t integer(const char* key) const;
  int64_t integer(const char* key, int64_t otherwise) const { return has(key) ? integer(key) : otherwise; }
  double number(const char* key) const;
  double number(const char* key, double otherwise) const { return has(key) ? number(key) : otherwise; }
  /// For keys whose null means something: `absent` where the key is missing, 0 where it is null.
  double number_or_none(const char* key, double absent) const { return json_.contains(key) ? number(key, 0) : absent; }
  /// The same of whole numbers.
  int64_t integer_or_none(const char* key, int64_t absent) const {
    return json_.contains(key) ? integer(key, 0) : absent;
  }
  /// For keys whose 0 counts as absent too.
  double number_or(const char* key, double otherwise) const { return number(key, 0) != 0 ? number(key) : otherwise; }
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, const std::string& otherwise) const;
  ConfigReader section(const char* key) const;
  const Json& json() const { return json_; }
  const std::string& place() const { return place_; }

  /// rope_theta and rope_scaling, or rope_parameters as newer files write them.
  Rope rope() const;
  /// The same from a tree of these parameters, where families keep several; `theta` is for one that says none.
  Rope rope_from(const Json& parameters, const std::string& place, double theta) const;
  /// The function of the MLP's gate.
  Activation activation(const char* key, Activation otherwise) const;
  /// layer_types where the file has them; else the rule, from a layer's number to whether it slides.
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
  std::string place_;
};

/// An architecture: its names in config.json, and what that file says beyond the common sizes. One file each under
/// families/; `read` is called with the sizes filled in.
struct Family {
  const char* model_type;
  const char* architecture;
  void (*read)(const ConfigReader& reader, ModelConfig& config);
};

extern const Family kLlama, kMistral, kQwen2, kQwen3, kGemma2, kGemma3;

std::span<const Family* const> families();

}  // namespace keel
