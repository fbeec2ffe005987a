#include "keel/task/expression.h"

#include <string>
#include <utility>

namespace keel {
namespace {

constexpr size_t kMaxLength = 1000;
constexpr int kMaxDepth = 50;
constexpr int64_t kMaxNumber = 1'000'000;

struct Fraction {
  int64_t numerator, denominator;
};

using MaybeFraction = std::optional<Fraction>;

MaybeFraction reduce(__int128 numerator, __int128 denominator) {
  constexpr __int128 kLimit = INT64_MAX;
  if (denominator == 0) return std::nullopt;
  if (denominator < 0) numerator = -numerator, denominator = -denominator;
  __int128 a = numerator < 0 ? -numerator : numerator, b = denominator;
  while (b != 0) a = std::exchange(b, a % b);
  numerator /= a, denominator /= a;
  if (numerator > kLimit || numerator < -kLimit || denominator > kLimit) return std::nullopt;
  return Fraction{static_cast<int64_t>(numerator), static_cast<int64_t>(denominator)};
}

MaybeFraction apply(char op, Fraction left, Fraction right) {
  const __int128 a = left.numerator, b = left.denominator, c = right.numerator, d = right.denominator;
  switch (op) {
    case '+':
    case '-':  // products have 126 bits, so their sum fits
      return reduce(op == '+' ? a * d + c * b : a * d - c * b, b * d);
    case '*':
      return reduce(a * c, b * d);
    default:
      return reduce(a * d, b * c);
  }
}

/// Recursive descent over plain ASCII.
class Parser {
 public:
  Parser(std::string_view text, size_t max_numbers, std::vector<int64_t>& numbers)
      : text_(text), max_numbers_(max_numbers), numbers_(numbers) {}

  MaybeFraction parse() {
    const MaybeFraction value = chain("+-", 0);
    return value && position_ == text_.size() ? value : std::nullopt;
  }

 private:
  void skip_spaces() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
  }

  /// Parses operands joined by `operators`; the operands of a sum are products.
  MaybeFraction chain(std::string_view operators, int depth) {
    const auto operand = [&] { return operators == "+-" ? chain("*/", depth) : primary(depth); };
    MaybeFraction value = operand();
    while (value && position_ < text_.size() && operators.find(text_[position_]) != std::string_view::npos) {
      const char op = text_[position_++];
      const MaybeFraction right = operand();
      if (!right) return std::nullopt;
      value = apply(op, *value, *right);
    }
    return value;
  }

  MaybeFraction primary(int depth) {
    skip_spaces();
    if (position_ == text_.size() || depth > kMaxDepth) return std::nullopt;
    if (text_[position_] != '(') return number();
    ++position_;
    const MaybeFraction value = chain("+-", depth + 1);
    if (!value || position_ == text_.size() || text_[position_] != ')') return std::nullopt;
    ++position_;
    skip_spaces();
    return value;
  }

  MaybeFraction number() {
    const size_t begin = position_;
    int64_t value = 0;
    for (; position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9'; ++position_) {
      value = value * 10 + (text_[position_] - '0');
      if (value > kMaxNumber) return std::nullopt;
    }
    const bool leading_zero = position_ - begin > 1 && text_[begin] == '0';
    if (position_ == begin || leading_zero || numbers_.size() == max_numbers_) return std::nullopt;
    numbers_.push_back(value);
    skip_spaces();
    return Fraction{value, 1};
  }

  std::string_view text_;
  size_t max_numbers_, position_ = 0;
  std::vector<int64_t>& numbers_;
};

/// Replaces LaTeX and Unicode operators by ASCII ones.
std::string to_ascii_operators(std::string_view text) {
  struct Sign {
    std::string_view text;
    char ascii;
  };
  constexpr Sign kSigns[] = {{"\\times", '*'}, {"\\cdot", '*'}, {"\\div", '/'}, {"\\left(", '('}, {"\\right)", ')'},
                             {"×", '*'},       {"·", '*'},      {"÷", '/'},     {"−", '-'}};
  std::string ascii;
  while (!text.empty()) {
    Sign found = {text.substr(0, 1), text[0]};
    for (const Sign& sign : kSigns)
      if (text.starts_with(sign.text)) found = sign;
    ascii += found.ascii;
    text.remove_prefix(found.text.size());
  }
  return ascii;
}

}  // namespace

std::optional<ExpressionValue> evaluate_expression(std::string_view text, size_t max_numbers) {
  if (text.size() > kMaxLength) return std::nullopt;
  ExpressionValue value;
  const std::string ascii = to_ascii_operators(text);
  const MaybeFraction result = Parser(ascii, max_numbers, value.numbers).parse();
  if (!result) return std::nullopt;
  value.numerator = result->numerator;
  value.denominator = result->denominator;
  return value;
}

}  // namespace keel
