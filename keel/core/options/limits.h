#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace keel {

/// Constraints on an option's value, written as above(0).at_most(100). Bounds and choices apply to every element of a
/// list, not_empty to the list itself.
class Limits {
 public:
  // Defined in limits.cpp, so that they are not inlined at every option.
  Limits();
  Limits(const Limits& other);
  Limits(Limits&& other) noexcept;
  Limits& operator=(const Limits& other);
  Limits& operator=(Limits&& other) noexcept;
  ~Limits();

  /// `reason` is added to the error for a number that is too low. It includes a fix.
  Limits at_least(double bound, std::string reason = "") const;
  Limits above(double bound, std::string reason = "") const;
  Limits at_most(double bound) const;
  Limits below(double bound) const;
  Limits one_of(std::vector<std::string> choices) const;
  Limits not_empty() const;
  /// Accepts the word none for an infinite number.
  Limits or_none() const;

  /// Returns the limits of each element of a list with these limits.
  Limits of_elements() const;

  bool allow(double number) const;
  bool allow(const std::string& text) const;
  bool allow_size(size_t size) const { return size > 0 || !not_empty_; }

  /// Returns `reason` of the lower bound if the number is too low, else an empty string.
  std::string reason_if_too_low(double number) const;

  bool has_bounds() const { return lower_ || upper_; }
  bool has_lower_bound() const { return lower_.has_value(); }
  bool is_not_empty() const { return not_empty_; }
  bool allow_none() const { return allow_none_; }
  const std::vector<std::string>& choices() const { return choices_; }

  /// Returns "above 0 and at most 100"; empty without bounds.
  std::string bounds_text() const;
  /// Returns "one of exact, fp8"; empty without choices.
  std::string choices_text() const;

 private:
  struct Bound {
    double value;
    bool included;
    std::string reason = "";
  };
  std::optional<Bound> lower_, upper_;
  std::vector<std::string> choices_;
  bool not_empty_ = false, allow_none_ = false;
};

Limits at_least(double bound, std::string reason = "");
Limits above(double bound, std::string reason = "");
Limits at_most(double bound);
Limits below(double bound);
Limits one_of(std::vector<std::string> choices);
Limits not_empty();

}  // namespace keel
