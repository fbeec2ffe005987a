// Evaluates sums and products with matrices.

#include <algorithm>

#include "libs/mathverify/compare/value.h"

namespace keel::math {
namespace {

using Kind = Node::Kind;

}  // namespace

bool Evaluator::has_matrix(const Node& node) {
  if (node.kind == Kind::kMatrix) return true;
  if (node.kind == Kind::kPower) return has_matrix(*node.children[0]);
  const bool is_arithmetic = node.kind == Kind::kSum || node.kind == Kind::kNegative || node.kind == Kind::kProduct ||
                             node.kind == Kind::kQuotient;
  return is_arithmetic &&
         std::any_of(node.children.begin(), node.children.end(), [](const auto& child) { return has_matrix(*child); });
}

Form Evaluator::determinant(const Node& node) {
  const Value matrix = value(*node.children[0]);
  const size_t size = matrix.columns;
  constexpr size_t kMaxSize = 5;
  if (matrix.items.size() != size * size || size > kMaxSize) throw Undecided{};
  const auto minor = [&](const auto& self, size_t row, std::vector<size_t> columns) -> Form {
    if (columns.empty()) return algebra_.number(Rational(1));
    Form sum;
    for (size_t i = 0; i < columns.size(); ++i) {
      std::vector<size_t> rest = columns;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      const Form term = algebra_.multiply(matrix.items[row * size + columns[i]].form, self(self, row + 1, rest));
      sum = algebra_.add(sum, algebra_.scale(term, Rational(i % 2 == 0 ? 1 : -1)));
    }
    return sum;
  };
  std::vector<size_t> columns(size);
  for (size_t i = 0; i < size; ++i) columns[i] = i;
  return minor(minor, 0, std::move(columns));
}

Value Evaluator::transpose(const Value& matrix) {
  Value result{.kind = Value::Kind::kMatrix, .columns = matrix.items.size() / matrix.columns};
  for (size_t column = 0; column < matrix.columns; ++column)
    for (size_t row = 0; row < result.columns; ++row)
      result.items.push_back(matrix.items[row * matrix.columns + column]);
  return result;
}

Value Evaluator::scale(Value matrix, const Form& factor) {
  for (Value& cell : matrix.items) cell.form = algebra_.multiply(cell.form, factor);
  return matrix;
}

Value Evaluator::matrix(const Node& node) {
  if (node.kind == Kind::kMatrix) return value(node);
  if (!has_matrix(node)) throw Undecided{};
  if (node.kind == Kind::kNegative) return scale(matrix(*node.children[0]), algebra_.number(Rational(-1)));
  if (node.kind == Kind::kSum) {
    Value sum = matrix(*node.children[0]);
    for (size_t i = 1; i < node.children.size(); ++i) {
      const Value next = matrix(*node.children[i]);
      if (next.columns != sum.columns || next.items.size() != sum.items.size()) throw Undecided{};
      for (size_t k = 0; k < sum.items.size(); ++k)
        sum.items[k].form = algebra_.add(sum.items[k].form, next.items[k].form);
    }
    return sum;
  }
  const Node &first = *node.children[0], &second = *node.children[1];
  if (node.kind == Kind::kPower) {
    if (second.kind != Kind::kVariable || second.name != "T") throw Undecided{};
    return transpose(matrix(first));
  }
  if (node.kind == Kind::kQuotient) {
    if (has_matrix(second)) throw Undecided{};
    return scale(matrix(first), algebra_.invert(scalar(second)));
  }
  if (!has_matrix(first)) return scale(matrix(second), scalar(first));
  if (!has_matrix(second)) return scale(matrix(first), scalar(second));
  const Value a = matrix(first), b = matrix(second);
  const size_t inner = a.columns, rows = a.items.size() / inner;
  if (b.items.size() / b.columns != inner) throw Undecided{};
  Value product{.kind = Value::Kind::kMatrix, .columns = b.columns};
  for (size_t row = 0; row < rows; ++row)
    for (size_t column = 0; column < b.columns; ++column) {
      Form sum;
      for (size_t k = 0; k < inner; ++k)
        sum = algebra_.add(sum, algebra_.multiply(a.items[row * inner + k].form, b.items[k * b.columns + column].form));
      product.items.push_back({.form = sum});
    }
  return product;
}

}  // namespace keel::math
