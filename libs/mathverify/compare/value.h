#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libs/mathverify/algebra/algebra.h"
#include "libs/mathverify/parse/parser.h"
#include "libs/mathverify/parse/units.h"

namespace keel::math {

/// One end of a piece of the real line; no value is an infinite end, which is open.
struct Endpoint {
  std::optional<Form> value;
  bool is_open = true;
};

/// A subset of the reals: pieces from left to right that do not touch. A point is a piece closed at both ends.
struct Piece {
  Endpoint low, high;
};
using RealSet = std::vector<Piece>;

/// What an answer says.
struct Value {
  enum class Kind {
    kScalar,
    kInfinity,  // form is 1 or -1
    kGroup,     // items in brackets, in order
    kSet,       // items without order or repetition
    kList,      // items without order: "2, 3"
    kReals,     // reals
    kMatrix,    // items row by row
    kRatio,     // items
    kEquation,  // form = 0; no subject
    kCompared,  // form < 0, <= 0 or != 0, where `brackets` is the sign
  };
  Kind kind = Kind::kScalar;
  Form form{};
  bool is_percent = false, is_time = false;
  bool is_number_set = false;  // the integers, and such
  bool is_either = false;      // a list of alternatives: "2 or 3", +- 2
  std::optional<Unit> unit{};
  std::string brackets{};
  std::vector<Value> items{};
  size_t columns = 0;
  RealSet reals{};
  std::string subject{};           // x in "x = 5", "x > 5", "x in (1, 2)"
  std::optional<Form> equation{};  // "y = 2x + 1" as 2x + 1 - y
};

/// Turns parsed answers into values; the algebra is shared by the two sides of a comparison.
class Evaluator {
 public:
  explicit Evaluator(Algebra& algebra) : algebra_(algebra) {}
  Value evaluate(const Node& node);
  std::string to_string(const Value& value) const;
  /// A pair in brackets read as an interval, or points read as a set; nothing if it is neither.
  std::optional<RealSet> as_reals(const Value& value);
  bool equal(const RealSet& a, const RealSet& b);
  /// What "x > 1, x < 3" and "(1, 2] and [3, 4)" come to, beside a set of reals; nothing if that is open.
  std::optional<RealSet> as_one_set(const Value& list);

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
  Value other_than(const Form& a, const std::vector<Value>& excluded);
  Value solved(const Form& difference, const std::string& sign);  // inequality.cpp
  Value solved_absolute(const Value& general, int absolute, const Form& bound, bool is_below);
  Value solved_square(const Value& general, int variable, const Form& a, const Form& b, const Form& c);
  Value group(const Node& node);
  Value listed(const Node& node);
  Value elsewhere_filled_in(Value pieces);
  Value ratio(const Node& node);
  Value combined(const Node& node);
  Value builder(const Node& node);
  Value united(const Node& node);
  Value matrix(const Node& node);  // matrix.cpp
  Value scaled(Value matrix, const Form& factor);
  Value transposed(const Value& matrix);
  Form determinant(const Node& node);
  Form repeated(const Node& node);
  static bool has_matrix(const Node& node);
  std::optional<Value> added_up(const Value& list);
  Value joined(const Node& node, Value list);
  std::optional<std::string> subject_of(const Node& node);
  std::optional<int> compare(const Form& a, const Form& b) { return algebra_.sign(algebra_.subtract(a, b)); }
  int compare_ends(const Endpoint& a, const Endpoint& b, bool a_is_low, bool b_is_low);
  RealSet normalized(RealSet pieces);
  RealSet intersection(const RealSet& a, const RealSet& b);
  RealSet complement(const RealSet& a);

  Algebra& algebra_;
  int plus_minus_ = 0;  // the sign that +- stands for at the moment; 0 outside
  bool in_angle_ = false;
  std::map<std::string, Rational> counters_{};  // of the sums and products being worked out
};

/// Whether the two say the same, as far as it can be proven.
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
  Form without_inverses(const Form& a);
  bool same_kind(const Value& gold, const Value& answer);
  bool different_kinds(const Value& gold, const Value& answer);
  std::optional<std::vector<Value>> assigned(const Value& value);
  bool may_be_either(const Value& list, const Value& either);
  std::optional<Value> with_letter_as_unit(const Value& value);
  std::optional<std::vector<Value>> coordinates(const Form& form);
  bool along_axes(std::vector<Value> vector, const std::vector<Value>& items);
  bool times(const Value& gold, const Value& answer);

  Algebra& algebra_;
  Evaluator& evaluator_;
};

}  // namespace keel::math
