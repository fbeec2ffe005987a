#pragma once

// Exact algebra for the math verifier. An expression becomes a quotient of two polynomials with rational coefficients
// in *atoms*: variables, pi, i, fractional powers of primes, roots of polynomials, exponentials, logarithms. Equal
// expressions of school mathematics nearly always get equal polynomials, and equal polynomials always mean equal
// expressions. Expressions are equal only if proven so.

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libs/mathverify/arithmetic/rational.h"

namespace keel::math {

/// Counts work in steps of about one nanosecond and throws Undecided above the limit.
class Budget {
 public:
  explicit Budget(uint64_t limit) : limit_(limit) {}
  void charge(uint64_t steps) {
    used_ += steps;
    if (used_ > limit_) throw Undecided{};
  }
  /// Counts work without checking the limit.
  void record(uint64_t steps) { used_ += steps; }
  uint64_t used() const { return used_; }

 private:
  uint64_t limit_, used_ = 0;
};

/// A small fraction in lowest terms: the exponent of an atom.
struct Exponent {
  int64_t numerator = 0, denominator = 1;

  static Exponent of(int64_t numerator, int64_t denominator);  // throws Undecided if too large
  static Exponent of(const Rational& value);
  bool is_integer() const { return denominator == 1; }
  int64_t floor() const;
  Exponent operator+(const Exponent& other) const;
  Exponent operator*(const Exponent& other) const;
  auto operator<=>(const Exponent&) const = default;  // an order for maps, not the numeric order
};

/// A product of powers of atoms, sorted by atom, without zero exponents. Empty means 1.
using Monomial = std::vector<std::pair<int, Exponent>>;

/// A sum of monomials with non-zero coefficients. Empty means 0.
using Polynomial = std::map<Monomial, Rational>;

inline bool is_one(const Polynomial& a) {
  return a.size() == 1 && a.begin()->first.empty() && a.begin()->second.is_one();
}

/// A quotient of polynomials. The denominator is 1 or has several terms.
struct Form {
  Polynomial numerator;
  Polynomial denominator = {{Monomial{}, Rational(1)}};
};

enum class AtomKind {
  kImaginary,    // i; its powers are reduced with i^2 = -1
  kPi,           //
  kVariable,     // by name
  kPrime,        // an integer above 1, prime where it could be factored; exponents in (0, 1)
  kUnity,        // e^(i pi), for exponents in (0, 1) that are not multiples of 1/12
  kRoot,         // the polynomial in `arguments`, which is real (not negative under even roots); exponents in (0, 1)
  kAbsolute,     // |argument|, exponent 1
  kExponential,  // base ^ unit: base is e (no arguments), an integer, or arguments[0]
  kFunction,     // name(arguments), an uninterpreted function
};

struct Atom {
  AtomKind kind{};
  std::string name{};
  Integer integer{};  // of kPrime and of kExponential with an integer as base
  std::vector<Form> arguments{};
  Monomial unit{};                                    // of kExponential
  bool has_variables = false, has_imaginary = false;  // anywhere inside; set by Algebra
};

/// Arithmetic of one comparison. It owns the atoms, which both sides share, and charges the budget. Unrepresentable
/// results throw Undecided.
class Algebra {
 public:
  explicit Algebra(Budget& budget) : budget_(budget) {}

  const Atom& atom(int id) const { return atoms_[static_cast<size_t>(id)]; }
  Budget& budget() { return budget_; }

  Form number(const Rational& value) const;
  Form imaginary() { return single(intern(Atom{AtomKind::kImaginary})); }
  Form pi() { return single(intern(Atom{AtomKind::kPi})); }
  Form euler() { return exponential({}, Monomial{}, Exponent{1, 1}); }
  Form variable(const std::string& name) { return single(intern(Atom{AtomKind::kVariable, name})); }
  Form function(const std::string& name, std::vector<Form> arguments);

  Form add(const Form& a, const Form& b);
  Form subtract(const Form& a, const Form& b) { return add(a, scale(b, Rational(-1))); }
  Form scale(const Form& a, const Rational& factor);
  Form multiply(const Form& a, const Form& b);
  Form invert(const Form& a);
  Form divide(const Form& a, const Form& b) { return multiply(a, invert(b)); }
  Form power(const Form& base, const Form& exponent);
  Form integer_power(const Form& base, int64_t exponent);
  /// The real root if it exists; i times a root for square roots of negative numbers.
  Form root(const Form& a, int64_t degree);
  Form absolute(const Form& a);

  // functions.cpp
  Form logarithm(const Form& a);
  Form sine(const Form& a);
  Form cosine(const Form& a);
  Form inverse_trigonometric(const std::string& name, const Form& a);  // asin, acos, atan
  Form factorial(const Form& a);
  Form binomial(const Form& n, const Form& k);
  Form floor(const Form& a, bool up);
  Form greatest_common_divisor(const Form& a, const Form& b, bool least_common_multiple);

  std::optional<Rational> as_rational(const Form& a) const;
  bool has_variables(const Polynomial& a) const;
  bool has_variables(const Form& a) const { return has_variables(a.numerator) || has_variables(a.denominator); }
  bool contains_imaginary(const Polynomial& a) const;
  /// True only when proven.
  bool equal(const Form& a, const Form& b);
  bool is_zero(const Polynomial& a);
  /// -1, 0 or 1 for a real constant; nullopt if it has variables, is not real, or cannot be decided.
  std::optional<int> sign(const Form& a);
  /// For display only; long texts are truncated.
  std::string to_string(const Form& a) const;

 private:
  friend class Numeric;

  Form single(int id, Exponent exponent = {1, 1}) const;  // a power of one atom
  int intern(Atom candidate);  // the id of an equal atom; adds it if it is new
  bool same(const Atom& a, const Atom& b);
  Form exponential(const Atom& base, const Monomial& unit, Exponent exponent);
  Polynomial multiply(const Polynomial& a, const Polynomial& b);
  Polynomial add(const Polynomial& a, const Polynomial& b, const Rational& factor);
  void add_reduced(Polynomial& to, Monomial monomial, Rational coefficient);
  void add_term(Polynomial& to, const Monomial& monomial, const Rational& coefficient);
  Form normalized(Polynomial numerator, Polynomial denominator);
  Form rational_power(const Rational& base, Exponent exponent);
  Form symbolic_factorial(const Form& a);
  Form huge_power(const Rational& base, const Form& exponent);
  std::optional<Form> cancel_logarithm(const Atom& base, const Monomial& unit, Exponent exponent);
  Form symbolic_power(const Form& base, const Form& exponent);
  Form monomial_root(const Monomial& monomial, int64_t degree);
  Form polynomial_root(Polynomial a, int64_t degree);
  std::vector<std::pair<Integer, int64_t>> factors(Integer value);
  Form root_of_unity(Exponent turns);  // e^(i pi turns)
  Form exponential_i(const Form& a);
  bool is_positive(int id);
  bool is_algebraic_zero(const Polynomial& a);
  Polynomial conjugate(const Polynomial& a);
  void print(const Form& a, std::string& text) const;
  void print(const Polynomial& a, std::string& text) const;
  void print(const Atom& a, std::string& text) const;
  Form primitive(const Polynomial& a, Rational& content, bool positive_lead);

  Budget& budget_;
  std::deque<Atom> atoms_;  // references stay valid while it grows
};

}  // namespace keel::math
