#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace keel {

class OptionTable;

/// The PPO critic and GAE: the section `critic` of a configuration.
struct CriticOptions {
  std::string body = "none";
  std::optional<double> lr = {};
  std::optional<double> value_clip = 0.2;
  double gamma = 1.0;
  double lambda = 0.95;
  int64_t warmup_steps = 0;

  void describe(OptionTable& table);

  bool enabled() const { return body != "none"; }
  bool has_separate_body() const { return body == "separate"; }
};

}  // namespace keel
