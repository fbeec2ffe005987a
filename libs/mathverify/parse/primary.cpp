#include <algorithm>
#include <cctype>

#include "libs/mathverify/parse/characters.h"
#include "libs/mathverify/parse/parser_class.h"
#include "libs/mathverify/parse/units.h"

namespace keel::math {
namespace {

constexpr std::string_view kFunctions[] = {
    "sin",  "cos",  "tan",   "cot",  "sec", "csc",      "arcsin", "arccos", "arctan", "asin",     "acos", "atan",
    "sinh", "cosh", "tanh",  "ln",   "log", "lg",       "exp",    "sqrt",   "cbrt",   "abs",      "gcd",  "lcm",
    "max",  "min",  "floor", "ceil", "pi",  "infinity", "inf",    "binom",  "cis",    "factorial"};
// Two-letter words, if they are the whole answer.
constexpr std::string_view kShortWords[] = {"no", "on", "is", "si", "it", "ti", "an", "na", "at", "ta", "am", "ma",
                                            "be", "by", "do", "od", "go", "og", "he", "eh", "hi", "ih", "if", "in",
                                            "ni", "me", "em", "my", "of", "or", "so", "os", "to", "ot", "up", "pu",
                                            "us", "su", "we", "as", "sa", "ok", "ko", "ab", "ba"};
}  // namespace

bool is_function_name(std::string_view word) { return is_one_of(word, kFunctions); }

/// True for "xy", which is x times y; false for "cat". When in doubt it is a word, which is compared as text; a wrong
/// product would make anagrams equal.
bool Parser::can_be_product(const std::string& run) const {
  if (is_function_name(run)) return true;
  if (run.starts_with("pi") && run.size() <= 4) return true;
  for (const std::string_view name : {"sin", "cos", "tan", "ln", "log"})
    if (run.starts_with(name) && run.size() == name.size() + 1) return true;
  for (const std::string_view each :
       {"of", "is", "it", "so", "he", "we", "to", "So", "It", "He", "We", "If", "In", "At"})
    if (!is_single_word_ && run == each) return false;
  if (run.size() > 3 || run == "and" || run == "or" || run == "per" || run == "mod" || run == "am" || run == "AM" ||
      run == "pm" || run == "PM")
    return false;
  const bool follows_number = at_ > 0 && tokens_[at_ - 1].kind == Token::Kind::kNumber;
  const auto is_repetition = [](const Token& token) { return token.is_command("sum") || token.is_command("prod"); };
  const Token& before = tokens_[at_ > 0 ? at_ - 1 : 0];
  const bool follows_value =  // \sqrt{5} cm, 48\pi cm; but \sum_{j=1}^{2} kj
      at_ > 0 && peek().space_before && (before.is("}") || before.is(")") || before.is_command("pi")) &&
      std::none_of(tokens_.begin(), tokens_.end(), is_repetition);
  if ((follows_number || follows_value || (at_ > 0 && peek().is_upright)) && is_unit_symbol(run)) return false;
  for (const std::string_view each : {"Ans", "USD", "pct", "sq", "cu"})
    if (run == each) return false;
  const bool has_capital = std::any_of(run.begin(), run.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  if (is_single_word_ && has_capital) return false;  // NO is not O times N
  if (!is_single_word_) return run.size() == 2 || run.find_first_of("aeiou") == std::string::npos || run == "abc";
  if (run.size() == 2) return !is_one_of(run, kShortWords) || run == "ab" || run == "ba";
  return run.find_first_not_of("xyzwuvtpqrsnmk") == std::string::npos;
}

NodePointer Parser::factor() {
  const Level level(depth_);
  if (take_symbol("-")) return parent(Kind::kNegative, "", factor());  // 2 * -3
  if (take_symbol("+")) return factor();
  return postfix(primary());
}

NodePointer Parser::postfix(NodePointer base) {
  while (true) {
    const bool is_enclosed_number = base->kind == Kind::kSum && base->children.size() == 1 &&
                                    base->children[0]->kind == Kind::kNumber && base->children[0]->is_plain_integer;
    if (is_enclosed_number && peek().is("_")) {  // (1011)_2
      ++at_;
      const std::string base_name = subscript();
      const std::vector<Token> based = tokenize(base->children[0]->name + "_{" + base_name + "}");
      if (based.size() != 2 || !based[0].is_based) throw Undecided{};
      base->children[0]->value = based[0].value;
      base->children[0]->is_plain_integer = false;
    } else if (base->kind == Kind::kNumber && peek().kind == Token::Kind::kWord && peek().text == "factorial") {
      ++at_;
      base = parent(Kind::kFunction, "factorial", std::move(base));
    } else if (peek().is("!")) {
      ++at_;
      if (peek().is("!")) throw Undecided{};  // double factorials
      base = parent(Kind::kFunction, "factorial", std::move(base));
    } else if (take_command("degree") ||
               (peek().kind == Token::Kind::kWord && (peek().text == "degrees" || peek().text == "degree") && ++at_)) {
      base = parent(Kind::kDegree, "", std::move(base));
    } else if (peek().kind == Token::Kind::kText && (peek().text == "degrees" || peek().text == "degree")) {
      ++at_;
      base = parent(Kind::kDegree, "", std::move(base));
    } else if (peek().is("^")) {
      ++at_;
      const bool braced =
          peek().is("{") && (peek(1).is_command("circ") || peek(1).is_command("degree")) && peek(2).is("}");
      if (braced || peek().is_command("circ") || peek().is_command("degree")) {
        at_ += braced ? 3 : 1;
        base = parent(Kind::kDegree, "", attach_arc_minutes(std::move(base)));
        continue;
      }
      // 7^{th}
      const bool braced_word = peek().is("{") && peek(2).is("}");
      const Token& suffix = peek(braced_word ? 1 : 0);
      if ((suffix.kind == Token::Kind::kText || suffix.kind == Token::Kind::kWord) &&
          (suffix.text == "th" || suffix.text == "st" || suffix.text == "nd" || suffix.text == "rd")) {
        at_ += braced_word ? 3 : 1;
        continue;
      }
      base = parent(Kind::kPower, "", std::move(base), exponent());
    } else if (peek().kind == Token::Kind::kWord && base->kind == Kind::kNumber && !peek().space_before &&
               (peek().text == "th" || peek().text == "st" || peek().text == "nd" || peek().text == "rd")) {
      ++at_;
    } else {
      return base;
    }
  }
}

/// Parses the 15' of 30^\circ 15'.
NodePointer Parser::attach_arc_minutes(NodePointer degrees) {
  if (peek().kind != Token::Kind::kNumber || !peek(1).is("'") || peek(2).is("'")) return degrees;
  NodePointer minutes = number(), sixty = node(Kind::kNumber, "60");
  ++at_;
  sixty->value = Rational(60);
  return parent(Kind::kSum, "", std::move(degrees), parent(Kind::kQuotient, "", std::move(minutes), std::move(sixty)));
}

/// Parses 2^{10}, 2^10, 2^(10), 2^-1, 2^x^2.
NodePointer Parser::exponent() {
  const Level level(depth_);
  if (take_symbol("-")) return parent(Kind::kNegative, "", exponent());
  // As in TeX, e^xy is e^x times y, but pi and sin in e^pi and 2^sin are names.
  const bool is_letters = peek().kind == Token::Kind::kWord && can_be_product(peek().text) &&
                          !is_function_name(peek().text) && !peek().text.starts_with("pi");
  NodePointer base = is_letters ? latex_argument() : peek().is("{") ? (++at_, enclosed("}")) : primary();
  if (!is_letters && take_symbol("^")) return parent(Kind::kPower, "", std::move(base), exponent());
  return base;
}

NodePointer Parser::enclosed(std::string_view close) {
  NodePointer inner = list();
  expect(close);
  return inner;
}

NodePointer Parser::primary() {
  const Level level(depth_);
  const Token& token = peek();
  switch (token.kind) {
    case Token::Kind::kNumber:
      return number();
    case Token::Kind::kLetter:
      return letter();
    case Token::Kind::kWord:
      return word();
    case Token::Kind::kText:
      return word();
    case Token::Kind::kCommand:
      return command();
    case Token::Kind::kSymbol:
      if (token.is("(") || token.is("[") || token.is("]")) return bracket();
      if (token.is("<")) return angle_bracket();
      if (token.is("{")) return braces();
      if (token.is("|")) return bars();
      throw Undecided{};
    default:
      throw Undecided{};
  }
}

NodePointer Parser::number() {
  const Token token = take();
  NodePointer result = node(Kind::kNumber, token.text);
  result->value = token.value;
  result->is_plain_integer = token.is_plain_integer;
  return result;
}

std::string Parser::subscript() {
  std::string name;
  const bool braced = take_symbol("{");
  do {
    const Token token = take();
    const bool fits = token.kind == Token::Kind::kNumber || token.kind == Token::Kind::kLetter ||
                      token.kind == Token::Kind::kWord || token.kind == Token::Kind::kText || token.is("+") ||
                      token.is("-") || token.is(",");
    if (!fits) throw Undecided{};
    name += token.text;
  } while (braced && !peek().is("}"));
  if (braced) expect("}");
  return name;
}

NodePointer Parser::letter() {
  std::string name = take().text;
  const bool binomial = name == "C" && peek().is("(");
  if (binomial) {  // C(5, 2)
    const size_t start = at_++;
    NodePointer inner = list();
    expect(")");
    if (inner->kind == Kind::kList && inner->children.size() == 2)
      return parent(Kind::kFunction, "binomial", std::move(inner->children[0]), std::move(inner->children[1]));
    at_ = start;
  }
  if (name == "e" || name == "i") return node(Kind::kConstant, name);
  if (NodePointer point = labelled_point(name)) return point;
  if (name == "C" && peek().is("_") && (peek(2).is("^") || (peek(1).is("{") && peek(4).is("^")))) {  // C_6^3, C_{10}^3
    ++at_;
    NodePointer upper = latex_argument();
    expect("^");
    return parent(Kind::kFunction, "binomial", std::move(upper), latex_argument());
  }
  if (take_symbol("_")) name += "_" + subscript();
  while (take_symbol("'")) name += "'";
  if (std::string_view("fghFGH").find(name[0]) != std::string_view::npos)
    if (NodePointer value = application(name)) return value;
  return node(Kind::kVariable, name);
}

/// Parses A(2, -1), a named point.
NodePointer Parser::labelled_point(const std::string& name) {
  const bool is_label = name[0] >= 'A' && name[0] <= 'Z' && name != "C" && peek().is("(") && !peek().space_before;
  if (!is_label) return nullptr;
  const size_t start = at_;
  NodePointer inner = bracket();
  if (inner->kind == Kind::kGroup && inner->name == "()") {
    NodePointer point = parent(Kind::kRelation, "", node(Kind::kVariable, name), std::move(inner));
    point->names.push_back("=");
    return point;
  }
  at_ = start;
  return nullptr;
}

/// Takes the inverse or iterate of f^{-1}(x) as "^-1". Takes nothing and returns empty if no argument follows.
std::string Parser::function_power() {
  const size_t start = at_;
  if (!take_symbol("^")) return "";
  const bool braced = take_symbol("{");
  std::string power = "^";
  if (take_symbol("-")) power += "-";
  if (peek().kind == Token::Kind::kNumber) power += take().text;
  if ((!braced || take_symbol("}")) && peek().is("(") && power.size() > 1) return power;
  at_ = start;
  return "";
}

/// Parses f(2), a function value and not a product, so f(2x) is not 2f(x). Letters that are often quantities (h, F)
/// need a plausible argument.
NodePointer Parser::application(const std::string& head) {
  const size_t start = at_;
  const std::string power = function_power();
  if (!peek().is("(")) return nullptr;
  const Token& first = peek(1);
  const bool is_argument = first.kind == Token::Kind::kNumber || first.text == "x" || first.text == "t" ||
                           first.text == "n" || first.is("-");
  if (head[0] != 'f' && head[0] != 'g' && !is_argument) {
    at_ = start;
    return nullptr;
  }
  ++at_;
  NodePointer result = parent(Kind::kFunction, "apply", node(Kind::kVariable, head + power));
  NodePointer inner = list();
  expect(")");
  if (inner->kind != Kind::kList)
    result->children.push_back(std::move(inner));
  else
    for (NodePointer& each : inner->children) result->children.push_back(std::move(each));
  return result;
}

NodePointer Parser::letters(const std::string& run) {
  NodePointer result;
  for (const char c : run) {
    const std::string name(1, c);
    NodePointer each = node(c == 'e' || c == 'i' ? Kind::kConstant : Kind::kVariable, name);
    result = result ? parent(Kind::kProduct, "", std::move(result), std::move(each)) : std::move(each);
  }
  if (take_symbol("_")) {  // xy_1: the subscript belongs to the last letter
    NodePointer& last = result->kind == Kind::kProduct ? result->children[1] : result;
    last->kind = Kind::kVariable;
    last->name += "_" + subscript();
  }
  if (peek().is("^") && run.size() > 1) {  // xy^2: the exponent, too
    ++at_;
    NodePointer last = std::move(result->children[1]);
    result->children[1] = parent(Kind::kPower, "", std::move(last), exponent());
  }
  return result;
}

NodePointer Parser::word() {
  const Token token = take();
  const std::string& name = token.text;
  if (name == "pi") return node(Kind::kConstant, "pi");
  if (name == "infinity" || name == "inf" || name == "Infinity" || name == "oo")
    return node(Kind::kConstant, "infinity");
  if (name == "sqrt") return square_root(/*is_latex=*/false);
  if (is_function_name(name)) return function(name);
  if (token.kind == Token::Kind::kText) throw Undecided{};
  --at_;
  if (!can_be_product(name)) throw Undecided{};
  ++at_;
  if (name.starts_with("pi")) {
    NodePointer rest = letters(name.substr(2));
    return parent(Kind::kProduct, "", node(Kind::kConstant, "pi"), std::move(rest));
  }
  for (const std::string_view prefix : {"sin", "cos", "tan", "ln", "log"})
    if (name.starts_with(prefix) && name.size() == prefix.size() + 1)
      return parent(Kind::kFunction, std::string(prefix), letters(name.substr(prefix.size())));
  return letters(name);
}

/// Parses the vector <1, 2, 3>.
NodePointer Parser::angle_bracket() {
  expect("<");
  ++angles_;
  NodePointer inner = list();
  --angles_;
  expect(">");
  if (inner->kind != Kind::kList) throw Undecided{};
  inner->kind = Kind::kGroup;
  inner->name = "<>";
  return inner;
}

/// Parses (x), (1, 2), [1, 2), ]1, 2[ and [[1, 2], [3, 4]].
NodePointer Parser::bracket() {
  const bool is_french = peek().is("]");
  const std::string open = is_french ? "(" : peek().text;
  ++at_;
  const int bars = std::exchange(bars_, 0), sets = std::exchange(sets_, 0);
  if (take_symbol(open == "(" ? ")" : "]")) throw Undecided{};
  NodePointer inner = list();
  bars_ = bars;
  sets_ = sets;
  Token close = take();
  const bool ends_french = close.is("[") && (is_french || open == "[");
  if (ends_french) close.text = ")";
  if (!close.is(")") && !close.is("]")) throw Undecided{};
  if ((is_french || ends_french) && inner->kind != Kind::kList) throw Undecided{};
  if (inner->kind != Kind::kList) {
    if (open + close.text == "()")
      return inner->kind == Kind::kNumber || inner->kind == Kind::kQuotient ? parent(Kind::kSum, "", std::move(inner))
                                                                            : std::move(inner);
    if (open + close.text != "[]") throw Undecided{};
    if (inner->kind != Kind::kGroup) return inner;
    NodePointer list_of_rows = parent(Kind::kGroup, "[]", std::move(inner));
    return list_of_rows;
  }
  inner->kind = Kind::kGroup;
  inner->name = open + close.text;
  return inner;
}

/// Braces group in LaTeX; with commas inside they mean a set.
NodePointer Parser::braces() {
  expect("{");
  const bool is_builder = peek().kind == Token::Kind::kLetter && (peek(1).is("|") || peek(1).is(":"));
  if (is_builder) return set_body("}");  // {x | x > 2}
  if (take_symbol("}")) {
    if (take_symbol("_") || take_symbol("^")) {  // {}_5 C_2
      NodePointer upper = latex_argument();
      if (!at_combinations(*upper)) throw Undecided{};
      return upper;
    }
    return node(Kind::kEmptySet);
  }
  NodePointer inner = list();
  if (peek().is_command("choose") || peek().is_command("over")) {
    const bool choose = take().text == "choose";
    NodePointer lower = list();
    inner = choose ? parent(Kind::kFunction, "binomial", std::move(inner), std::move(lower))
                   : parent(Kind::kQuotient, "", std::move(inner), std::move(lower));
  }
  expect("}");
  if (inner->kind == Kind::kList) inner->kind = Kind::kSet;
  return inner;
}

NodePointer Parser::set_body(std::string_view close) {
  if (at_close(close)) {
    ++at_;
    return node(Kind::kEmptySet);
  }
  const int bars = std::exchange(bars_, 0);
  ++sets_;
  NodePointer inner = list();
  --sets_;
  bars_ = bars;
  NodePointer result;
  if (take_symbol("|") || take_symbol(":") || take_command("mid") || take_command("colon")) {
    NodePointer condition = list();
    result = parent(Kind::kBuilder, "", std::move(inner), std::move(condition));
  } else if (inner->kind == Kind::kList) {
    inner->kind = Kind::kSet;
    result = std::move(inner);
  } else {
    result = parent(Kind::kSet, "", std::move(inner));
  }
  expect(close);
  return result;
}

NodePointer Parser::bars() {
  expect("|");
  ++bars_;
  NodePointer inner = sum();
  --bars_;
  expect("|");
  return parent(Kind::kFunction, "abs", std::move(inner));
}

}  // namespace keel::math
