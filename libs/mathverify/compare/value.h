#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libs/mathverify/algebra/algebra.h"
#include "libs/mathverify/parse/parser.h"
#include "libs/mathverify/parse/units.h"

namespace keel::math {

/// An endpoint of an interval; without a value it is infinite and open.
struct Endpoint {
  std::optional<Form> value;
  bool is_open = true;
};

/// An interval of a RealSet; a point is closed at both ends. A RealSet is sorted, and its intervals do not touch.
struct Piece {
  Endpoint low, high;
};
using RealSet = std::vector<Piece>;

/// The value of an answer.
struct Value {
  enum class Kind {
    kScalar,
    kInfinity,    // form is 1 or -1
    kGroup,       // ordered items in brackets
    kSet,         // unordered distinct items
    kList,        // unordered items: "2, 3"
    kReals,       // reals
    kMatrix,      // items row by row
    kRatio,       // items
    kEquation,    // form = 0; no subject
    kInequality,  // form < 0, <= 0 or != 0; `brackets` is the sign
  };
  Kind kind = Kind::kScalar;
  Form form{};
  bool is_percent = false, is_time = false;
  bool is_number_set = false;   // such as the integers
  bool is_alternative = false;  // a list of alternatives: "2 or 3", +- 2
  std::optional<Unit> unit{};
  std::string brackets{};
  std::vector<Value> items{};
  size_t columns = 0;
  RealSet reals{};
  std::string subject{};           // x in "x = 5", "x > 5", "x in (1, 2)"
  std::optional<Form> equation{};  // "y = 2x + 1" as 2x + 1 - y
};

/// Evaluates parsed answers to values. Both sides of a comparison share the algebra.
class Evaluator {
 public:
  explicit Evaluator(Algebra& algebra) : algebra_(algebra) {}
  Value evaluate(const Node& node);
  std::string to_string(const Value& value) const;
  /// Interprets a pair in brackets as an interval, or points as a set; nullopt if neither fits.
  std::optional<RealSet> as_reals(const Value& value);
  bool equal(const RealSet& a, const RealSet& b);
  /// Converts lists such as "x > 1, x < 3" and "(1, 2] and [3, 4)" to one set of reals, if the meaning is unambiguous.
  std::optional<RealSet> to_single_set(const Value& list);

 private:
  Value value(const Node& node);
  Form scalar(const Node& node);
  Form function(const Node& node);
  bool is_square_of_variables(const Node& root);
  Form trigonometric(const std::string& name, const Form& a);
  Value relation(const Node& node);
  Value equation(const Node& node, size_t sides);
  Value coordinates(const Node& names, Value values);
  Value inequality(const Node& left, const std::string& sign, const Node& right);
  Value excluding(const Form& a, const std::vector<Value>& excluded);
  Value solve(const Form& difference, const std::string& sign);  // inequality.cpp
  Value solve_absolute(const Value& unsolved, int absolute, const Form& bound, bool is_below);
  Value solve_quadratic(const Value& unsolved, int variable, const Form& a, const Form& b, const Form& c);
  Value group(const Node& node);
  Value list(const Node& node);
  Value fill_in_otherwise(Value pieces);
  Value ratio(const Node& node);
  Value combine_sets(const Node& node);
  Value set_builder(const Node& node);
  Value quantity(const Node& node);
  Value matrix(const Node& node);  // matrix.cpp
  Value scale(Value matrix, const Form& factor);
  Value transpose(const Value& matrix);
  Form determinant(const Node& node);
  Form big_operator(const Node& node);
  static bool has_matrix(const Node& node);
  std::optional<Value> sum_quantities(const Value& list);
  Value combine_relations(const Node& node, Value list);
  std::optional<std::string> subject_of(const Node& node);
  std::optional<int> compare(const Form& a, const Form& b) { return algebra_.sign(algebra_.subtract(a, b)); }
  int compare_endpoints(const Endpoint& a, const Endpoint& b, bool a_is_low, bool b_is_low);
  RealSet normalized(RealSet pieces);
  RealSet intersection(const RealSet& a, const RealSet& b);
  RealSet complement(const RealSet& a);

  Algebra& algebra_;
  int plus_minus_ = 0;  // current sign of +-; 0 outside such an expression
  bool in_angle_ = false;
  std::map<std::string, Rational> counters_{};  // values of the counters of \sum and \prod
};

/// Decides equality of two values; true only if it is proven.
class Comparison {
 public:
  Comparison(Algebra& algebra, Evaluator& evaluator) : algebra_(algebra), evaluator_(evaluator) {}
  bool equal(const Value& gold, const Value& answer);

 private:
  bool scalars(const Value& gold, const Value& answer);
  std::optional<bool> angles(const Value& gold, const Value& answer);
  std::optional<bool> temperatures(const Value& gold, const Value& answer);
  bool unordered(const std::vector<Value>& gold, const std::vector<Value>& answer, bool as_sets);
  bool ordered(const std::vector<Value>& gold, const std::vector<Value>& answer);
  bool ratios(const Value& gold, const Value& answer);
  bool proportional(const Form& a, const Form& b, bool positive_only);
  bool has_inverses(const Polynomial& a) const;
  Form clear_inverses(const Form& a);
  bool same_kind(const Value& gold, const Value& answer);
  bool different_kinds(const Value& gold, const Value& answer);
  std::optional<std::vector<Value>> assigned_values(const Value& value);
  bool may_be_either(const Value& list, const Value& either);
  std::optional<Value> with_letter_as_unit(const Value& value);
  std::optional<std::vector<Value>> coordinates(const Form& form);
  bool along_axes(std::vector<Value> vector, const std::vector<Value>& items);
  bool times(const Value& gold, const Value& answer);

  Algebra& algebra_;
  Evaluator& evaluator_;
};

}  // namespace keel::math
