#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "keel/objective/regions/loss_inputs.h"
#include "tests/support/goldens.h"

namespace keel {

/// A full batch of batches.json, including masked tokens with extreme values.
inline LossInputs golden_inputs(const Json& batch, at::ScalarType type) {
  const auto floats = [&](const char* name) { return at::tensor(numbers(batch.at(name)), at::kDouble).to(type); };
  const auto matrix = [&](const char* name) {
    std::vector<Tensor> rows;
    for (const Json& row : batch.at(name)) rows.push_back(at::tensor(numbers(row), at::kDouble).to(type));
    return at::stack(rows);
  };
  const auto flags = [&](const char* name) {
    return at::tensor(batch.at(name).get<std::vector<int64_t>>(), at::kLong).to(at::kBool);
  };
  LossInputs inputs{floats("logp"), floats("behavior_logp"), floats("advantages")};
  inputs.mask = flags("mask");
  inputs.lengths = batch.at("lengths").get<std::vector<int64_t>>();
  inputs.groups = batch.at("groups").get<std::vector<int64_t>>();
  inputs.old_logp = floats("old_logp");
  if (batch.contains("K")) {
    inputs.topk_behavior_logp = matrix("topk_behavior_logp");
    inputs.topk_logp = matrix("topk_logp");
    inputs.sampled_in_topk = flags("sampled_in_topk");
  }
  return inputs;
}

inline const Json& golden_batch_json(const Json& batches, const std::string& name) {
  for (const Json& batch : batches.at("batches"))
    if (batch.at("name") == name) return batch;
  throw std::runtime_error("batches.json has no batch " + name);
}

/// Calls check(method, case, batch) for every case of weights.json.
template <class Check>
void for_each_golden_case(Check check) {
  const Json weights = golden("weights.json"), batches = golden("batches.json");
  for (const Json& row : weights.at("methods")) {
    const std::string method = row.at("method");
    for (const Json& one : row.at("cases")) {
      SCOPED_TRACE(method + " " + one.at("batch").get<std::string>() + " " + one.at("params").dump());
      check(method, one, golden_batch_json(batches, one.at("batch")));
    }
  }
}

}  // namespace keel
