#include "keel/task/expression.h"

#include <string>
#include <utility>

namespace keel {
namespace {

constexpr size_t kMaxLength = 1000;
constexpr int kMaxDepth = 50;
constexpr int64_t kLargestNumber = 1'000'000;

struct Fraction {
  int64_t numerator, denominator;
};

using MaybeFraction = std::optional<Fraction>;

MaybeFraction reduced(__int128 numerator, __int128 denominator) {
  constexpr __int128 kLimit = INT64_MAX;
  if (denominator == 0) return std::nullopt;
  if (denominator < 0) numerator = -numerator, denominator = -denominator;
  __int128 a = numerator < 0 ? -numerator : numerator, b = denominator;
  while (b != 0) a = std::exchange(b, a % b);
  numerator /= a, denominator /= a;
  if (numerator > kLimit || numerator < -kLimit || denominator > kLimit) return std::nullopt;
  return Fraction{static_cast<int64_t>(numerator), static_cast<int64_t>(denominator)};
}

MaybeFraction combined(char op, Fraction left, Fraction right) {
  const __int128 a = left.numerator, b = left.denominator, c = right.numerator, d = right.denominator;
  switch (op) {
    case '+':
    case '-':  // products have 126 bits, so their sum fits
      return reduced(op == '+' ? a * d + c * b : a * d - c * b, b * d);
    case '*':
      return reduced(a * c, b * d);
    default:
      return reduced(a * d, b * c);
  }
}

/// Recursive descent over plain ASCII.
class Parser {
 public:
  Parser(std::string_view text, size_t most_numbers, std::vector<int64_t>& numbers)
      : text_(text), most_numbers_(most_numbers), numbers_(numbers) {}

  MaybeFraction whole() {
    const MaybeFraction value = chain("+-", 0);
    return value && at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  /// Operands joined by the operators; those of a sum are products.
  MaybeFraction chain(std::string_view operators, int depth) {
    const auto operand = [&] { return operators == "+-" ? chain("*/", depth) : primary(depth); };
    MaybeFraction value = operand();
    while (value && at_ < text_.size() && operators.find(text_[at_]) != std::string_view::npos) {
      const char op = text_[at_++];
      const MaybeFraction right = operand();
      if (!right) return std::nullopt;
      value = combined(op, *value, *right);
    }
    return value;
  }

  MaybeFraction primary(int depth) {
    skip_spaces();
    if (at_ == text_.size() || depth > kMaxDepth) return std::nullopt;
    if (text_[at_] != '(') return number();
    ++at_;
    const MaybeFraction value = chain("+-", depth + 1);
    if (!value || at_ == text_.size() || text_[at_] != ')') return std::nullopt;
    ++at_;
    skip_spaces();
    return value;
  }

  MaybeFraction number() {
    const size_t begin = at_;
    int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = value * 10 + (text_[at_] - '0');
      if (value > kLargestNumber) return std::nullopt;
    }
    const bool leading_zero = at_ - begin > 1 && text_[begin] == '0';
    if (at_ == begin || leading_zero || numbers_.size() == most_numbers_) return std::nullopt;
    numbers_.push_back(value);
    skip_spaces();
    return Fraction{value, 1};
  }

  std::string_view text_;
  size_t most_numbers_, at_ = 0;
  std::vector<int64_t>& numbers_;
};

/// The signs of print as those of a keyboard.
std::string plain_signs(std::string_view text) {
  struct Sign {
    std::string_view printed;
    char plain;
  };
  constexpr Sign kSigns[] = {{"\\times", '*'}, {"\\cdot", '*'}, {"\\div", '/'}, {"\\left(", '('}, {"\\right)", ')'},
                             {"×", '*'},       {"·", '*'},      {"÷", '/'},     {"−", '-'}};
  std::string plain;
  while (!text.empty()) {
    Sign found = {text.substr(0, 1), text[0]};
    for (const Sign& sign : kSigns)
      if (text.starts_with(sign.printed)) found = sign;
    plain += found.plain;
    text.remove_prefix(found.printed.size());
  }
  return plain;
}

}  // namespace

std::optional<ExpressionValue> evaluate_expression(std::string_view text, size_t most_numbers) {
  if (text.size() > kMaxLength) return std::nullopt;
  ExpressionValue value;
  const std::string plain = plain_signs(text);
  const MaybeFraction result = Parser(plain, most_numbers, value.numbers).whole();
  if (!result) return std::nullopt;
  value.numerator = result->numerator;
  value.denominator = result->denominator;
  return value;
}

}  // namespace keel
