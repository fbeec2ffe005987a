#include "libs/mathverify/compare/renaming.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

namespace keel::math {
namespace {

using Kind = Node::Kind;
using Names = std::map<std::string, std::string>;

bool is_equation(const Node& node) {
  return node.kind == Kind::kRelation && node.names.size() == 1 && node.names[0] == "=" &&
         node.children[0]->kind == Kind::kVariable;
}

/// Collects variable names, without the x of "x = n pi", which an answer may omit.
void collect_variables(const Node& node, std::set<std::string>& names) {
  if (node.kind == Kind::kVariable && std::isalpha(static_cast<unsigned char>(node.name[0])) != 0)
    names.insert(node.name);
  const bool is_named = is_equation(node);
  for (size_t i = is_named ? 1 : 0; i < node.children.size(); ++i) collect_variables(*node.children[i], names);
}

NodePointer rename_variables(const Node& node, const Names& names) {
  NodePointer copy = std::make_unique<Node>();
  copy->kind = node.kind;
  const auto found = node.kind == Kind::kVariable ? names.find(node.name) : names.end();
  copy->name = found == names.end() ? node.name : found->second;
  copy->value = node.value;
  copy->is_plain_integer = node.is_plain_integer;
  copy->columns = node.columns;
  copy->names = node.names;
  for (const NodePointer& child : node.children) copy->children.push_back(rename_variables(*child, names));
  return copy;
}

bool is_variable(const Node& node, std::string_view name) { return node.kind == Kind::kVariable && node.name == name; }

bool has_term(const Node& node, std::string_view name) {
  return node.kind == Kind::kSum && std::any_of(node.children.begin(), node.children.end(), [&](const auto& child) {
           return is_variable(*child, name) || has_term(*child, name);
         });
}

/// Accepts C, c and C_1 as in "x^2 + C" and "y = C_1 e^x + C_2". In "a + C", C may be an angle.
bool is_constant_of_integration(const Node& gold, const std::string& name) {
  const bool is_numbered = name.size() > 2 && name[1] == '_' && name.find_first_not_of("0123456789", 2) == name.npos;
  if ((name[0] != 'C' && name[0] != 'c') || (name.size() > 1 && !is_numbered)) return false;
  const bool is_function = is_equation(gold) && gold.children[0]->name == "y";
  const Node& right_side = is_equation(gold) ? *gold.children[1] : gold;
  std::set<std::string> others;
  collect_variables(right_side, others);
  const bool depends = std::any_of(others.begin(), others.end(), [](const std::string& other) {
    return other == "x" || other == "t" || other == "u" || other == "theta";
  });
  return depends && (is_function || has_term(right_side, name));
}

bool has_angle(const Node& node) {
  return node.kind == Kind::kDegree || (node.kind == Kind::kConstant && node.name == "pi") ||
         std::any_of(node.children.begin(), node.children.end(), [](const auto& child) { return has_angle(*child); });
}

/// True if the variable only multiplies pi or degrees: 2 pi n, (2n + 1) pi.
bool counts_periods(const Node& node, std::string_view name, bool in_period = false) {
  if (is_variable(node, name)) return in_period;
  const bool is_product = node.kind == Kind::kProduct ||
                          (node.kind == Kind::kQuotient && has_angle(*node.children[0])) || node.kind == Kind::kDegree;
  const bool is_transparent = is_product || node.kind == Kind::kSum || node.kind == Kind::kNegative ||
                              node.kind == Kind::kQuotient || node.kind == Kind::kPlusMinus ||
                              node.kind == Kind::kList || node.kind == Kind::kRelation || node.kind == Kind::kSet;
  const bool children_in_period = is_transparent && (in_period || (is_product && has_angle(node)));
  return std::all_of(node.children.begin(), node.children.end(), [&](const auto& child) {
    const bool is_membership = child->kind == Kind::kRelation && child->names[0] == "in";
    return is_membership || counts_periods(*child, name, children_in_period);
  });
}

/// True if the list contains "k in Z" for this variable.
bool is_declared_integer(const Node& node, std::string_view name) {
  return node.kind == Kind::kList && std::any_of(node.children.begin(), node.children.end(), [&](const auto& child) {
           return child->kind == Kind::kRelation && child->names[0] == "in" && is_variable(*child->children[0], name);
         });
}

bool is_whole_number(const Node& gold, const std::string& name, const Node& answer, const std::string& other) {
  static constexpr std::string_view kLetters = "knml";
  if (name.size() != 1 || other.size() != 1 || kLetters.find(name) == std::string_view::npos ||
      kLetters.find(other) == std::string_view::npos)
    return false;
  const bool by_gold = is_declared_integer(gold, name), by_answer = is_declared_integer(answer, other);
  if (by_gold && by_answer) return true;
  const bool is_bare = gold.kind == Kind::kProduct || gold.kind == Kind::kQuotient;  // "n pi" may be an area
  return (by_gold || by_answer || !is_bare) && counts_periods(gold, name) && counts_periods(answer, other);
}

}  // namespace

NodePointer rename_to_match(const Node& gold, const Node& answer) {
  std::set<std::string> gold_names, answer_names;
  collect_variables(gold, gold_names);
  collect_variables(answer, answer_names);
  std::vector<std::string> gold_only, answer_only;
  std::set_difference(gold_names.begin(), gold_names.end(), answer_names.begin(), answer_names.end(),
                      std::back_inserter(gold_only));
  std::set_difference(answer_names.begin(), answer_names.end(), gold_names.begin(), gold_names.end(),
                      std::back_inserter(answer_only));
  constexpr size_t kMaxNames = 3;
  if (gold_only.empty() || gold_only.size() != answer_only.size() || gold_only.size() > kMaxNames) return nullptr;
  Names names;
  for (size_t i = 0; i < gold_only.size(); ++i) {  // both are sorted, so C_1 and c_1 have the same index
    const bool is_case =
        gold_only[i].substr(1) == answer_only[i].substr(1) && (gold_only[i][0] ^ answer_only[i][0]) == 0x20;
    const bool is_constant = is_case && is_constant_of_integration(gold, gold_only[i]);
    const bool is_whole = gold_only.size() == 1 && is_whole_number(gold, gold_only[i], answer, answer_only[i]);
    if (!is_constant && !is_whole) return nullptr;
    names[answer_only[i]] = gold_only[i];
  }
  return rename_variables(answer, names);
}

}  // namespace keel::math
