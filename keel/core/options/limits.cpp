#include "keel/core/options/limits.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "keel/core/strings.h"

namespace keel {
namespace {

std::string number_text(double number) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

}  // namespace

Limits::Limits() = default;
Limits::Limits(const Limits& other) = default;
Limits::Limits(Limits&& other) noexcept = default;
Limits& Limits::operator=(const Limits& other) = default;
Limits& Limits::operator=(Limits&& other) noexcept = default;
Limits::~Limits() = default;

Limits Limits::at_least(double bound, std::string reason) const {
  Limits limits = *this;
  limits.lower_ = Bound{bound, true, std::move(reason)};
  return limits;
}

Limits Limits::above(double bound, std::string reason) const {
  Limits limits = *this;
  limits.lower_ = Bound{bound, false, std::move(reason)};
  return limits;
}

Limits Limits::at_most(double bound) const {
  Limits limits = *this;
  limits.upper_ = Bound{bound, true};
  return limits;
}

Limits Limits::below(double bound) const {
  Limits limits = *this;
  limits.upper_ = Bound{bound, false};
  return limits;
}

Limits Limits::one_of(std::vector<std::string> choices) const {
  Limits limits = *this;
  limits.choices_ = std::move(choices);
  return limits;
}

Limits Limits::not_empty() const {
  Limits limits = *this;
  limits.not_empty_ = true;
  return limits;
}

Limits Limits::or_none() const {
  Limits limits = *this;
  limits.allow_none_ = true;
  return limits;
}

Limits Limits::of_elements() const {
  Limits limits = *this;
  limits.not_empty_ = false;
  return limits;
}

bool Limits::allow(double number) const {
  if (lower_ && (lower_->included ? number < lower_->value : number <= lower_->value)) return false;
  if (upper_ && (upper_->included ? number > upper_->value : number >= upper_->value)) return false;
  return true;
}

bool Limits::allow(const std::string& text) const {
  return choices_.empty() || std::find(choices_.begin(), choices_.end(), text) != choices_.end();
}

std::string Limits::reason_if_too_low(double number) const {
  const bool too_low = lower_ && (lower_->included ? number < lower_->value : number <= lower_->value);
  return too_low ? lower_->reason : "";
}

std::string Limits::bounds_text() const {
  std::string text;
  if (lower_) text = (lower_->included ? "at least " : "above ") + number_text(lower_->value);
  if (lower_ && upper_) text += " and ";
  if (upper_) text += (upper_->included ? "at most " : "below ") + number_text(upper_->value);
  if (allow_none_) text += ", none (no limit)";
  return text;
}

std::string Limits::choices_text() const { return choices_.empty() ? "" : "one of " + joined(choices_); }

Limits at_least(double bound, std::string reason) { return Limits().at_least(bound, std::move(reason)); }
Limits above(double bound, std::string reason) { return Limits().above(bound, std::move(reason)); }
Limits at_most(double bound) { return Limits().at_most(bound); }
Limits below(double bound) { return Limits().below(bound); }
Limits one_of(std::vector<std::string> choices) { return Limits().one_of(std::move(choices)); }
Limits not_empty() { return Limits().not_empty(); }

}  // namespace keel
