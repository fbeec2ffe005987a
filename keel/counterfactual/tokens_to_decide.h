#pragma once

#include <string>
#include <vector>

#include "keel/core/requirements.h"
#include "keel/counterfactual/asked_method.h"
#include "keel/counterfactual/step_facts.h"
#include "keel/record/tokens/token_reader.h"

namespace keel {

/// The rows of a record in pieces that can be judged alone: some whole sequences, or exactly one update.
class TokenPieces {
 public:
  TokenPieces(TokenReader& reader, Scope scope) : reader_(reader), scope_(scope) {}
  /// None at the end.
  std::vector<TokenRow> next();

 private:
  TokenReader& reader_;
  Scope scope_;
  std::vector<TokenRow> held_;  // rows of sequences or an update that may go on
  bool ended_ = false;
};

/// Rows as the objective takes them. What the rows do not know is undefined.
class TokensToDecide {
 public:
  /// Whole sequences, one after the other; both must outlive it.
  TokensToDecide(const std::vector<TokenRow>& rows, const StepFacts& facts);

  /// What the method decides about them, the pull to the run's reference included, with the bits that training would
  /// compute. Refuses (exit code 2), with the way out, a method that needs what is not recorded.
  TokenDecision decided_by(const AskedMethod& asked) const;

 private:
  Tensor column(float TokenRow::*member) const;
  Tensor needed(const AskedMethod& asked, float TokenRow::*member, const char* name, const std::string& way_out) const;
  Tensor recorded_divergence(const AskedMethod& asked) const;

  const std::vector<TokenRow>& rows_;
  const StepFacts& facts_;
  LossInputs policy_;
  mutable bool is_checked_ = false;  // policy_, for methods that need no more
};

/// Refuses (exit code 2) a method whose scope goes beyond what was recorded of the step.
void require_scope(const AskedMethod& asked, const StepFacts& facts);

}  // namespace keel
