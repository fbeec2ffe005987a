#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libs/mathverify/arithmetic/rational.h"

namespace keel::math {

struct Node {
  enum class Kind {
    kNumber,
    kVariable,  // name
    kConstant,  // pi, e, i, infinity
    kSum,
    kNegative,
    kProduct,
    kQuotient,
    kPower,
    kFunction,   // name(children); "log" may have its base as second child
    kPlusMinus,  // a +- b; one child: +- a
    kDegree,
    kPercent,
    kGroup,  // items in brackets; name is the two brackets, "()" for a pair or an open interval
    kSet,
    kBuilder,   // {child 0 : child 1}
    kList,      // items without brackets
    kMatrix,    // row by row; `columns` wide
    kRelation,  // children with names[i] between child i and i + 1: = < <= > >= != ~ in
    kUnion,
    kIntersection,
    kDifference,
    kRatio,  // 3:2:1 or 11:30
    kUnit,   // child, name is the words after it
    kEmptySet,
    kReals,
    kPiece,  // child 0 where child 1 holds, or otherwise
  };
  Kind kind{};
  std::string name{};
  Rational value{};
  bool is_plain_integer = false;  // a kNumber that is only digits
  size_t columns = 0;
  std::vector<std::string> names{};
  std::vector<std::unique_ptr<Node>> children{};
};

using NodePointer = std::unique_ptr<Node>;

}  // namespace keel::math
