#include "keel/counterfactual/comparison.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/counterfactual/recorded_token_batch.h"
#include "keel/record/tokens/token_column_list.h"

namespace keel {
namespace {

void add(Decisions& decisions, const TokenRow& row, bool blocked, bool outside) {
  decisions.blocked.add(row.advantage, blocked);
  decisions.outside.add(row.advantage, outside);
  if (!outside) return;
  decisions.mu.add(std::exp(static_cast<double>(row.log_mu)));
  decisions.entropy.add(row.entropy);
}

/// Sums of u and v, the run's and the method's coefficient times weight.
struct WeightSums {
  double uu = 0, vv = 0, uv = 0, difference = 0, u = 0, v = 0, magnitude = 0;

  void add(double run, double method) {
    uu += run * run, vv += method * method, uv += run * method;
    difference += (method - run) * (method - run);
    u += run, v += method, magnitude += std::abs(run);
  }
};

/// Interns token texts: assigns an index to each distinct text.
class TokenTexts {
 public:
  size_t index_of(const std::string& text) {
    const auto [found, inserted] = indices_.emplace(text, texts_.size());
    if (inserted) texts_.push_back(text);
    return found->second;
  }
  const std::string& text(size_t index) const { return texts_[index]; }

 private:
  std::unordered_map<std::string, size_t> indices_;
  std::vector<std::string> texts_;
};

/// Accumulates the comparison of one method.
struct MethodAccumulator {
  MethodComparison comparison;
  WeightSums sums;
  std::vector<TokenTypeDifference> types;  // by text index
  std::string refusal;                     // empty while it can be evaluated

  void add_row(const TokenRow& row, size_t text_index, bool kept, bool outside, float coefficient) {
    const bool run_blocks = !row.kept, blocks = !kept;
    add(comparison.decisions, row, blocks, outside);
    comparison.both += run_blocks && blocks;
    comparison.only_run += run_blocks && !blocks;
    comparison.only_method += blocks && !run_blocks;
    const double u = static_cast<double>(row.coefficient) * row.weight,
                 v = static_cast<double>(coefficient) * row.weight;
    sums.add(u, v);
    if (types.size() <= text_index) types.resize(text_index + 1);
    TokenTypeDifference& type = types[text_index];
    ++type.tokens;
    type.blocked_by_run += run_blocks, type.blocked_by_method += blocks, type.outside += outside;
    type.change += std::abs(v - u);
  }

  MethodComparison finish(const TokenTexts& texts) {
    comparison.weight_change = std::sqrt(sums.difference / sums.uu);  // NaN if all coefficients of the run are 0
    comparison.sum_change = (sums.v - sums.u) / sums.magnitude;
    comparison.cosine = std::clamp(sums.uv / std::sqrt(sums.uu * sums.vv), -1.0, 1.0);
    for (size_t i = 0; i < types.size(); ++i) types[i].token = texts.text(i);
    if (comparison.weight_change < 1e-6)  // the recorded coefficients are float32
      for (TokenTypeDifference& type : types) type.change = 0;
    std::ranges::stable_sort(types, [](const TokenTypeDifference& a, const TokenTypeDifference& b) {
      const auto count_change = [](const TokenTypeDifference& type) {
        return std::abs(type.blocked_by_method - type.blocked_by_run);
      };
      return a.change != b.change ? a.change > b.change : count_change(a) > count_change(b);
    });
    std::erase_if(types, [](const TokenTypeDifference& type) { return type.tokens == 0; });
    comparison.types = std::move(types);
    return std::move(comparison);
  }
};

/// The columns that the comparison reads.
const std::vector<std::string>& needed_columns() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for_each_token_column([&](const char* name, auto, bool) { all.emplace_back(name); });
    for (const char* other : {"step", "prompt", "policy_version", "position", "token_id", "divergence", "threshold",
                              "ratio", "entropy_mu", "reward"})
      std::erase(all, other);
    return all;
  }();
  return names;
}

class Comparer {
 public:
  explicit Comparer(const ComparisonRequest& request) : request_(request) {
    for (const MethodSpec& spec : request.methods) {
      methods_.emplace_back();
      methods_.back().comparison.spec = spec;
    }
  }

  void read(const std::filesystem::path& file) {
    TokenReader reader(file, request_.on_decisions ? std::vector<std::string>() : needed_columns());
    const StepFacts facts = step_facts(reader.metadata(), file.string());
    if (result_.steps++ == 0)
      result_.first_step = facts.step, result_.method = facts.method, result_.centering = facts.centering;
    if (facts.method != result_.method)
      fail(ExitCode::kBadInput, file.string(), ": its method is ", facts.method, ", but that of step ",
           result_.first_step, " is ", result_.method, ". Fix: choose steps of one method with --steps");
    result_.last_step = facts.step;
    Scope scope = Scope::kToken;
    for (MethodAccumulator& method : methods_)
      if (try_evaluate(method, [&] { require_scope(method.comparison.spec, facts); }))
        scope = std::max(scope, requirements(method.comparison.spec.region).scope);
    TokenBatches batches(reader, scope);
    for (std::vector<TokenRow> rows = batches.next(); !rows.empty(); rows = batches.next()) add_batch(rows, facts);
  }

  TokenComparison finish() {
    for (MethodAccumulator& method : methods_)
      if (method.refusal.empty())
        result_.methods.push_back(method.finish(texts_));
      else
        result_.refused.push_back(method.refusal);
    for (auto& [key, type] : run_types_) {
      if (type.outside.count == 0) continue;
      type.token = texts_.text(key.first);
      result_.run_types.push_back(std::move(type));
    }
    std::ranges::stable_sort(result_.run_types, std::greater(),
                             [](const RunTokenType& type) { return type.outside.count; });
    return std::move(result_);
  }

 private:
  /// Runs `evaluate`. If the method cannot be evaluated, records the reason and returns false (with skip_unsupported),
  /// or throws.
  template <class Evaluate>
  bool try_evaluate(MethodAccumulator& method, const Evaluate& evaluate) {
    if (!method.refusal.empty()) return false;
    try {
      evaluate();
      return true;
    } catch (const Error& error) {
      if (!request_.skip_unsupported || error.code() != ExitCode::kBadConfiguration) throw;
      method.refusal = error.what();
      return false;
    }
  }

  void add_batch(const std::vector<TokenRow>& rows, const StepFacts& facts) {
    std::vector<size_t> indices;
    for (const TokenRow& row : rows) indices.push_back(texts_.index_of(row.token));
    for (size_t i = 0; i < rows.size(); ++i) add_run_decision(rows[i], indices[i]);
    const RecordedTokenBatch tokens(rows, facts);
    std::vector<TokenDecision> decisions;
    for (MethodAccumulator& method : methods_) {
      TokenDecision decision;
      if (!try_evaluate(method, [&] { decision = tokens.decide(method.comparison.spec); })) continue;
      for (Tensor* const values : {&decision.keep, &decision.outside, &decision.coefficient})
        *values = values->contiguous();
      const bool *keep = decision.keep.const_data_ptr<bool>(), *outside = decision.outside.const_data_ptr<bool>();
      const float* coefficient = decision.coefficient.const_data_ptr<float>();
      for (size_t i = 0; i < rows.size(); ++i) method.add_row(rows[i], indices[i], keep[i], outside[i], coefficient[i]);
      if (request_.on_decisions) decisions.push_back(std::move(decision));
    }
    if (request_.on_decisions) request_.on_decisions(rows, decisions);
  }

  void add_run_decision(const TokenRow& row, size_t text_index) {
    ++result_.tokens;
    add(result_.run_decisions, row, !row.kept, row.outside);
    result_.choices.add(row.choices);
    if (!std::isnan(row.choices)) result_.more_choices.add(row.choices > 1);
    if (row.advantage == 0) return;
    RunTokenType& type = run_types_[{text_index, row.advantage > 0}];
    type.positive = row.advantage > 0;
    type.outside.add(row.outside);
    if (!row.outside) return;
    type.mu.add(std::exp(static_cast<double>(row.log_mu)));
    type.entropy.add(row.entropy);
  }

  const ComparisonRequest& request_;
  TokenComparison result_;
  TokenTexts texts_;
  std::map<std::pair<size_t, bool>, RunTokenType> run_types_;
  std::vector<MethodAccumulator> methods_;
};

}  // namespace

void BySign::add(float advantage, bool counted) {
  all.add(counted);
  if (advantage > 0) positive.add(counted);
  if (advantage < 0) negative.add(counted);
}

void RunningMean::add(double value) {
  if (!std::isnan(value)) sum += value, ++count;
}

double RunningMean::mean() const {
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
}

TokenComparison compare_methods(const std::vector<std::filesystem::path>& files, const ComparisonRequest& request) {
  Comparer comparer(request);
  for (const std::filesystem::path& file : files) comparer.read(file);
  return comparer.finish();
}

}  // namespace keel
