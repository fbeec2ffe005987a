#pragma once

#include <string>
#include <vector>

#include "keel/core/requirements.h"
#include "keel/counterfactual/method_spec.h"
#include "keel/counterfactual/step_facts.h"
#include "keel/record/tokens/token_reader.h"

namespace keel {

/// Reads a record in batches on which a method can decide: whole sequences, or exactly one update.
class TokenBatches {
 public:
  TokenBatches(TokenReader& reader, Scope scope) : reader_(reader), scope_(scope) {}
  /// Empty at the end.
  std::vector<TokenRow> next();

 private:
  TokenReader& reader_;
  Scope scope_;
  std::vector<TokenRow> pending_;  // rows of a sequence or an update that may be incomplete
  bool ended_ = false;
};

/// Recorded rows as the inputs of an objective. Tensors that were not recorded are undefined.
class RecordedTokenBatch {
 public:
  /// `rows` are whole sequences in order. Both must outlive the batch.
  RecordedTokenBatch(const std::vector<TokenRow>& rows, const StepFacts& facts);

  /// Returns the method's decisions, including the run's reference KL, bitwise as training would compute them. A method
  /// that needs an unrecorded column is an error (exit code 2) that names the fix.
  TokenDecision decide(const MethodSpec& spec) const;

 private:
  Tensor column(float TokenRow::*member) const;  // undefined if a value is NaN
  Tensor require_column(const MethodSpec& spec, float TokenRow::*member, const char* name,
                        const std::string& fix) const;
  Tensor recorded_divergence(const MethodSpec& spec) const;

  const std::vector<TokenRow>& rows_;
  const StepFacts& facts_;
  LossInputs policy_;
  mutable bool is_checked_ = false;  // policy_ is checked for methods without further columns
};

/// A method whose scope exceeds what was recorded of the step is an error (exit code 2).
void require_scope(const MethodSpec& spec, const StepFacts& facts);

}  // namespace keel
