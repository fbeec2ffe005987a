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
#include "keel/counterfactual/tokens_to_decide.h"
#include "keel/record/tokens/token_column_list.h"

namespace keel {
namespace {

void add(Decisions& to, const TokenRow& row, bool blocked, bool outside) {
  to.blocked.add(row.advantage, blocked);
  to.outside.add(row.advantage, outside);
  if (!outside) return;
  to.mu.add(std::exp(static_cast<double>(row.log_mu)));
  to.entropy.add(row.entropy);
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

/// The texts of tokens by numbers, which every method's counts share.
class Texts {
 public:
  size_t number(const std::string& text) {
    const auto [place, fresh] = numbers_.emplace(text, texts_.size());
    if (fresh) texts_.push_back(text);
    return place->second;
  }
  const std::string& text(size_t number) const { return texts_[number]; }

 private:
  std::unordered_map<std::string, size_t> numbers_;
  std::vector<std::string> texts_;
};

/// One method's answer on its way.
struct Asking {
  MethodAnswer answer;
  WeightSums sums;
  std::vector<TypeDifference> types;  // by the text's number
  std::string refusal;                // empty while it can be asked

  void add_row(const TokenRow& row, size_t text, bool kept, bool outside, float coefficient) {
    const bool run_blocks = !row.kept, blocks = !kept;
    add(answer.decisions, row, blocks, outside);
    answer.both += run_blocks && blocks;
    answer.only_run += run_blocks && !blocks;
    answer.only_method += blocks && !run_blocks;
    const double u = static_cast<double>(row.coefficient) * row.weight,
                 v = static_cast<double>(coefficient) * row.weight;
    sums.add(u, v);
    if (types.size() <= text) types.resize(text + 1);
    TypeDifference& type = types[text];
    ++type.tokens;
    type.blocked_by_run += run_blocks, type.blocked_by_method += blocks, type.outside += outside;
    type.change += std::abs(v - u);
  }

  MethodAnswer finished(const Texts& texts) {
    answer.weight_change = std::sqrt(sums.difference / sums.uu);  // NaN where nothing is learned from
    answer.sum_change = (sums.v - sums.u) / sums.magnitude;
    answer.cosine = std::clamp(sums.uv / std::sqrt(sums.uu * sums.vv), -1.0, 1.0);
    for (size_t i = 0; i < types.size(); ++i) types[i].token = texts.text(i);
    std::ranges::stable_sort(types, [](const TypeDifference& a, const TypeDifference& b) {
      const auto differs = [](const TypeDifference& t) { return std::abs(t.blocked_by_method - t.blocked_by_run); };
      return a.change != b.change ? a.change > b.change : differs(a) > differs(b);
    });
    std::erase_if(types, [](const TypeDifference& t) { return t.tokens == 0; });
    answer.types = std::move(types);
    return std::move(answer);
  }
};

/// What the answers are made of.
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

class Answering {
 public:
  explicit Answering(const TokenQuestion& question) : question_(question) {
    for (const AskedMethod& asked : question.methods) {
      asking_.emplace_back();
      asking_.back().answer.asked = asked;
    }
  }

  void read(const std::filesystem::path& file) {
    TokenReader reader(file, question_.see ? std::vector<std::string>() : needed_columns());
    const StepFacts facts = step_facts(reader.facts(), file.string());
    if (answers_.steps++ == 0) answers_.first_step = facts.step, answers_.method = facts.method;
    if (facts.method != answers_.method)
      fail(ExitCode::kBadInput, file.string(), ": is of the method ", facts.method, ", and the record of step ",
           answers_.first_step, " of ", answers_.method, "; ask for the steps of one method with --steps");
    answers_.last_step = facts.step;
    Scope scope = Scope::kToken;
    for (Asking& each : asking_)
      if (may_ask(each, [&] { require_scope(each.answer.asked, facts); }))
        scope = std::max(scope, requirements(each.answer.asked.region).scope);
    TokenPieces pieces(reader, scope);
    for (std::vector<TokenRow> rows = pieces.next(); !rows.empty(); rows = pieces.next()) add_piece(rows, facts);
  }

  TokenAnswers finished() {
    for (Asking& each : asking_)
      each.refusal.empty() ? answers_.methods.push_back(each.finished(texts_))
                           : answers_.refused.push_back(each.refusal);
    for (auto& [key, type] : own_types_) {
      if (type.outside.held_back == 0) continue;
      type.token = texts_.text(key.first);
      answers_.own_types.push_back(std::move(type));
    }
    std::ranges::stable_sort(answers_.own_types, std::greater(),
                             [](const OwnType& type) { return type.outside.held_back; });
    return std::move(answers_);
  }

 private:
  /// Whether the method can be asked; `ask` fails where it cannot.
  template <class Ask>
  bool may_ask(Asking& each, const Ask& ask) {
    if (!each.refusal.empty()) return false;
    try {
      ask();
      return true;
    } catch (const Error& error) {
      if (!question_.leave_out || error.code() != ExitCode::kBadConfiguration) throw;
      each.refusal = error.what();
      return false;
    }
  }

  void add_piece(const std::vector<TokenRow>& rows, const StepFacts& facts) {
    std::vector<size_t> numbers;
    for (const TokenRow& row : rows) numbers.push_back(texts_.number(row.token));
    for (size_t i = 0; i < rows.size(); ++i) add_own(rows[i], numbers[i]);
    const TokensToDecide tokens(rows, facts);
    std::vector<TokenDecision> decisions;
    for (Asking& each : asking_) {
      TokenDecision decision;
      if (!may_ask(each, [&] { decision = tokens.decided_by(each.answer.asked); })) continue;
      for (Tensor* const values : {&decision.keep, &decision.outside, &decision.coefficient})
        *values = values->contiguous();
      const bool *keep = decision.keep.const_data_ptr<bool>(), *outside = decision.outside.const_data_ptr<bool>();
      const float* coefficient = decision.coefficient.const_data_ptr<float>();
      for (size_t i = 0; i < rows.size(); ++i) each.add_row(rows[i], numbers[i], keep[i], outside[i], coefficient[i]);
      if (question_.see) decisions.push_back(std::move(decision));
    }
    if (question_.see) question_.see(rows, decisions);
  }

  void add_own(const TokenRow& row, size_t text) {
    ++answers_.tokens;
    add(answers_.own, row, !row.kept, row.outside);
    if (row.advantage == 0) return;
    OwnType& type = own_types_[{text, row.advantage > 0}];
    type.positive = row.advantage > 0;
    type.outside.add(row.outside);
    if (!row.outside) return;
    type.mu.add(std::exp(static_cast<double>(row.log_mu)));
    type.entropy.add(row.entropy);
  }

  const TokenQuestion& question_;
  TokenAnswers answers_;
  Texts texts_;
  std::map<std::pair<size_t, bool>, OwnType> own_types_;
  std::vector<Asking> asking_;
};

}  // namespace

void BySign::add(float advantage, bool held) {
  all.add(held);
  if (advantage > 0) positive.add(held);
  if (advantage < 0) negative.add(held);
}

void RunningMean::add(double value) {
  if (!std::isnan(value)) sum += value, ++count;
}

double RunningMean::mean() const {
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
}

TokenAnswers answer(const std::vector<std::filesystem::path>& files, const TokenQuestion& question) {
  Answering answering(question);
  for (const std::filesystem::path& file : files) answering.read(file);
  return answering.finished();
}

}  // namespace keel
