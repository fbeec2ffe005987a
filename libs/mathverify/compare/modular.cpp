#include "libs/mathverify/compare/modular.h"

#include <map>

namespace keel::math {
namespace {

constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;
constexpr int kPoints = 4;
constexpr double kMaxDegree = 1 << 30;

uint64_t multiply(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b % kPrime);
}

uint64_t power(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1, base = multiply(base, base))
    if (exponent & 1) result = multiply(result, base);
  return result;
}

/// The inverse modulo the prime, by Fermat's little theorem.
uint64_t modular_inverse(uint64_t value) { return power(value, kPrime - 2); }

uint64_t reduce(const Integer& value) {
  const uint64_t magnitude = static_cast<uint64_t>(
      Integer::divide_floor(value.abs(), Integer(static_cast<int64_t>(kPrime))).second.to_int64());
  return value.is_negative() && magnitude != 0 ? kPrime - magnitude : magnitude;
}

/// splitmix64; the points depend on the expressions, so an answer cannot be crafted for them.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

uint64_t hash_of(const Node& node) {
  uint64_t hash = mix(static_cast<uint64_t>(node.kind));
  for (const char c : node.name) hash = mix(hash ^ static_cast<uint8_t>(c));
  for (const auto& child : node.children) hash = mix(hash ^ hash_of(*child));
  return hash;
}

/// A value and an upper bound on the degree of its rational function.
struct Residue {
  uint64_t value;
  double degree;
};

class Evaluation {
 public:
  Evaluation(uint64_t seed, Budget& budget) : seed_(seed), budget_(budget) {}

  Residue evaluate(const Node& node) {
    budget_.charge(100);
    const auto child = [&](size_t i) { return evaluate(*node.children[i]); };
    Residue result{0, 0};
    switch (node.kind) {
      case Node::Kind::kNumber: {
        const uint64_t denominator = reduce(node.value.denominator());
        if (denominator == 0) throw Undecided{};
        result.value = multiply(reduce(node.value.numerator()), modular_inverse(denominator));
        break;
      }
      case Node::Kind::kVariable: {
        uint64_t hash = seed_;
        for (const char c : node.name) hash = mix(hash ^ static_cast<uint8_t>(c));
        result = {hash % kPrime, 1};
        break;
      }
      case Node::Kind::kSum:
        for (size_t i = 0; i < node.children.size(); ++i) {
          const Residue term = child(i);
          result = {(result.value + term.value) % kPrime, result.degree + term.degree};
        }
        break;
      case Node::Kind::kNegative:
        result = child(0);
        result.value = result.value == 0 ? 0 : kPrime - result.value;
        break;
      case Node::Kind::kProduct: {
        const Residue a = child(0), b = child(1);
        result = {multiply(a.value, b.value), a.degree + b.degree};
        break;
      }
      case Node::Kind::kQuotient: {
        const Residue a = child(0), b = child(1);
        if (b.value == 0) throw Undecided{};
        result = {multiply(a.value, modular_inverse(b.value)), a.degree + b.degree};
        break;
      }
      case Node::Kind::kPower: {
        const Node* exponent = node.children[1].get();
        while (exponent->kind == Node::Kind::kSum && exponent->children.size() == 1)
          exponent = exponent->children[0].get();
        if (exponent->kind != Node::Kind::kNumber || !exponent->value.is_integer() || exponent->value.sign() < 0 ||
            exponent->value.numerator().bits() > 30)
          throw Undecided{};
        const Residue base = child(0);
        const uint64_t count = static_cast<uint64_t>(exponent->value.numerator().to_int64());
        if (base.value == 0 && count == 0) throw Undecided{};
        // Constants count too: 2^k and 2^(k + order of 2) agree modulo the prime.
        result = {power(base.value, count), std::max(base.degree, 1.0) * static_cast<double>(count)};
        break;
      }
      default:
        throw Undecided{};
    }
    if (result.degree > kMaxDegree) throw Undecided{};
    return result;
  }

 private:
  uint64_t seed_;
  Budget& budget_;
};

bool has_variable(const Node& node) {
  if (node.kind == Node::Kind::kVariable) return true;
  for (const auto& child : node.children)
    if (has_variable(*child)) return true;
  return false;
}

}  // namespace

bool polynomials_agree(const Node& a, const Node& b, Budget& budget) {
  // The test needs variables to choose random points for.
  if (!has_variable(a) || !has_variable(b)) return false;
  const uint64_t seed = mix(hash_of(a) ^ (hash_of(b) << 1));
  try {
    for (int point = 0; point < kPoints; ++point) {
      Evaluation evaluation(mix(seed + static_cast<uint64_t>(point)), budget);
      if (evaluation.evaluate(a).value != evaluation.evaluate(b).value) return false;
    }
    return true;
  } catch (const Undecided&) {
    return false;
  }
}

}  // namespace keel::math
