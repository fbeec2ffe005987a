#include "libs/mathverify/algebra/algebra.h"

namespace keel::math {
namespace {

constexpr size_t kMaxLength = 1000;  // a polynomial may have thousands of terms, and roots nest

}  // namespace

void Algebra::print(const Atom& a, std::string& text) const {
  const auto enclosed = [&](const char* open, const Form& inner, const char* close) {
    text += open;
    print(inner, text);
    text += close;
  };
  switch (a.kind) {
    case AtomKind::kImaginary:
      text += "i";
      return;
    case AtomKind::kPi:
      text += "pi";
      return;
    case AtomKind::kVariable:
      text += a.name;
      return;
    case AtomKind::kPrime:
      text += a.integer.to_string();
      return;
    case AtomKind::kUnity:
      text += "(-1)";
      return;
    case AtomKind::kRoot:
      return enclosed("(", a.arguments[0], ")");
    case AtomKind::kAbsolute:
      return enclosed("|", a.arguments[0], "|");
    case AtomKind::kExponential:
      if (!a.arguments.empty())
        enclosed("(", a.arguments[0], ")");
      else
        text += a.integer.is_zero() ? "e" : a.integer.to_string();
      if (!a.unit.empty()) enclosed("^(", Form{Polynomial{{a.unit, Rational(1)}}}, ")");
      return;
    case AtomKind::kFunction: {
      const size_t first = a.name == "apply" ? 1 : 0;  // f(2): the name is the first argument
      if (first == 1)
        print(a.arguments[0], text);
      else
        text += a.name;
      for (size_t i = first; i < a.arguments.size(); ++i) enclosed(i == first ? "(" : ", ", a.arguments[i], "");
      text += ")";
      return;
    }
  }
}

void Algebra::print(const Polynomial& a, std::string& text) const {
  if (a.empty()) text += "0";
  bool first = true;
  for (auto term = a.rbegin(); term != a.rend(); ++term) {
    if (text.size() > kMaxLength) {
      text += " + ...";
      return;
    }
    const bool negative = term->second.sign() < 0;
    text += first ? (negative ? "-" : "") : (negative ? " - " : " + ");
    first = false;
    std::string separator;
    if (term->first.empty() || !term->second.abs().is_one()) {
      text += term->second.abs().to_string();
      separator = "*";
    }
    for (const auto& [id, exponent] : term->first) {
      text += separator;
      separator = "*";
      print(atom(id), text);
      if (exponent == Exponent{1, 1}) continue;
      const Rational value(Integer(exponent.numerator), Integer(exponent.denominator));
      const bool plain = value.is_integer() && value.sign() > 0;
      text += (plain ? "^" : "^(") + value.to_string() + (plain ? "" : ")");
    }
  }
}

void Algebra::print(const Form& a, std::string& text) const {
  if (text.size() > kMaxLength) return;
  const bool whole = is_one(a.denominator);
  if (!whole) text += "(";
  print(a.numerator, text);
  if (whole) return;
  text += ")/(";
  print(a.denominator, text);
  text += ")";
}

std::string Algebra::to_string(const Form& a) const {
  std::string text;
  print(a, text);
  return text;
}

}  // namespace keel::math
