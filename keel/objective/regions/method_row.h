#pragma once

#include <string>

namespace keel {

/// A named row of the table of methods: what people call it, and what it is made of. `Family` is the variant of the
/// regions that it may be made of: those of one family beside their maths, all of them in the table.
template <class Family>
struct MethodRow {
  std::string name;
  std::string sentence;
  std::string equation;  // g, the weight of grad log pi, and what is blocked
  std::string source;
  std::string advantage;    // a word of objective/advantage.h
  std::string aggregation;  // a word of objective/aggregation.h
  Family region;
};

}  // namespace keel
