// Parses LaTeX commands and functions.

#include <algorithm>

#include "libs/mathverify/parse/parser_class.h"

namespace keel::math {
namespace {

constexpr std::string_view kGreek[] = {
    "alpha", "beta",   "gamma",   "delta", "epsilon", "varepsilon", "zeta",  "eta",   "theta",  "vartheta",
    "iota",  "kappa",  "lambda",  "mu",    "nu",      "xi",         "rho",   "sigma", "tau",    "upsilon",
    "phi",   "varphi", "chi",     "psi",   "omega",   "Gamma",      "Delta", "Theta", "Lambda", "Xi",
    "Pi",    "Sigma",  "Upsilon", "Phi",   "Psi",     "Omega",      "ell"};

bool is_greek(std::string_view name) {
  return std::find(std::begin(kGreek), std::end(kGreek), name) != std::end(kGreek);
}

std::string canonical_function(const std::string& name) {
  if (name == "arcsin") return "asin";
  if (name == "arccos") return "acos";
  if (name == "arctan") return "atan";
  if (name == "lg") return "log";
  return name;
}

std::string inverse_of(const std::string& name) {
  if (name == "sin" || name == "cos" || name == "tan") return "a" + name;
  throw Undecided{};
}

}  // namespace

/// Parses the argument of \frac or \sqrt: braces or, as in TeX, a single digit or letter (\frac12).
NodePointer Parser::latex_argument() {
  if (take_symbol("{")) return enclosed("}");
  Token& token = tokens_[std::min(at_, tokens_.size() - 1)];
  if (token.kind == Token::Kind::kNumber && token.is_plain_integer && token.text.size() > 1) {
    NodePointer digit = node(Kind::kNumber, token.text.substr(0, 1));
    digit->value = Rational(token.text[0] - '0');
    digit->is_plain_integer = true;
    token.text.erase(0, 1);
    token.value = Rational(Integer::from_digits(token.text));
    token.space_before = false;
    return digit;
  }
  if (token.kind == Token::Kind::kWord && token.text.size() > 1) {
    const std::string first = token.text.substr(0, 1);
    token.text.erase(0, 1);
    if (token.text.size() == 1) token.kind = Token::Kind::kLetter;
    return letters(first);
  }
  return primary();
}

NodePointer Parser::fraction(const std::string& name) {
  NodePointer numerator = latex_argument();
  NodePointer denominator = latex_argument();
  if (name.ends_with("binom")) return parent(Kind::kFunction, "binomial", std::move(numerator), std::move(denominator));
  return parent(Kind::kQuotient, "", std::move(numerator), std::move(denominator));
}

NodePointer Parser::square_root(bool is_latex) {
  NodePointer degree;
  if (is_latex && take_symbol("[")) degree = enclosed("]");
  NodePointer inner;
  if (peek().is("{"))
    inner = latex_argument();
  else if (is_latex && !peek().is("("))
    inner = latex_argument();
  else
    inner = primary();  // sqrt(12), sqrt 12
  if (inner->kind == Kind::kList || inner->kind == Kind::kGroup) throw Undecided{};
  NodePointer result = parent(Kind::kFunction, "root", std::move(inner));
  if (degree) result->children.push_back(std::move(degree));
  return result;
}

/// Without parentheses, the argument is the following product up to the next function: sin 2x cos x.
NodePointer Parser::function_argument() {
  const Level level(depth_);
  if (peek().is("(") || peek().is("[") || peek().is("{")) return primary();
  NodePointer product = take_symbol("-") ? parent(Kind::kNegative, "", factor()) : factor();
  while (starts_factor()) {
    const bool is_function = (peek().kind == Token::Kind::kWord || peek().kind == Token::Kind::kCommand) &&
                             is_function_name(peek().text) && peek().text != "pi" && peek().text != "sqrt";
    if (is_function || peek().is("(") || peek().is("|") || peek().kind == Token::Kind::kNumber) break;
    product = parent(Kind::kProduct, "", std::move(product), factor());
  }
  if (peek().is("/") && peek(1).kind == Token::Kind::kNumber) {
    ++at_;
    product = parent(Kind::kQuotient, "", std::move(product), factor());
  }
  return product;
}

NodePointer Parser::function(std::string name) {
  const Level level(depth_);
  NodePointer base, power;
  const bool has_base = name == "log" && tokens_[at_ - 1].kind == Token::Kind::kWord && !peek().space_before &&
                        (peek().text == "2" || peek().text == "10") && peek(1).is("(");
  if (has_base) base = number();  // log2(8)
  name = canonical_function(name);
  while (peek().is("_") || peek().is("^")) {
    if (take_symbol("_")) {
      base = latex_argument();
    } else {
      ++at_;
      power = exponent();
    }
  }
  const bool takes_list = name == "gcd" || name == "lcm" || name == "max" || name == "min" || name == "binom";
  NodePointer argument;
  if (takes_list) {
    if (!peek().is("(") && !peek().is_command("{") && !peek().is("{")) throw Undecided{};
    argument = primary();
    if (argument->kind != Kind::kGroup && argument->kind != Kind::kSet) throw Undecided{};
    argument->kind = Kind::kFunction;
    argument->name = name == "binom" ? "binomial" : name;
    return argument;
  }
  argument = function_argument();
  if (argument->kind == Kind::kGroup && name == "log" && argument->children.size() == 2)  // log(8, 2)
    throw Undecided{};
  if (name == "cbrt") {
    NodePointer three = node(Kind::kNumber, "3");
    three->value = Rational(3);
    return parent(Kind::kFunction, "root", std::move(argument), std::move(three));
  }
  const bool is_inverse = power && power->kind == Kind::kNegative && power->children[0]->kind == Kind::kNumber &&
                          power->children[0]->value.is_one();
  if (is_inverse) {
    name = inverse_of(name);
    power.reset();
  }
  NodePointer result = parent(Kind::kFunction, name, std::move(argument));
  if (base) {
    if (name != "log") throw Undecided{};
    result->children.push_back(std::move(base));
  }
  return power ? parent(Kind::kPower, "", std::move(result), std::move(power)) : std::move(result);
}

NodePointer Parser::matrix(const std::string& environment) {
  const bool known = environment == "pmatrix" || environment == "bmatrix" || environment == "matrix" ||
                     environment == "Bmatrix" || environment == "smallmatrix" || environment == "array" ||
                     environment == "vmatrix";
  if (!known) throw Undecided{};
  if (environment == "array") {
    expect("{");
    while (!peek().is("}") && peek().kind != Token::Kind::kEnd) ++at_;
    expect("}");
  }
  NodePointer result = node(Kind::kMatrix);
  size_t columns = 0, in_row = 0;
  while (!peek().is_command("end:" + environment)) {
    result->children.push_back(statement());
    ++in_row;
    if (take_symbol("&")) continue;
    if (columns != 0 && columns != in_row) throw Undecided{};
    columns = in_row;
    in_row = 0;
    if (!take_symbol("\\\\") && !peek().is_command("end:" + environment)) throw Undecided{};
  }
  ++at_;
  if (in_row != 0 || columns == 0) throw Undecided{};
  result->columns = columns;
  return environment == "vmatrix" ? parent(Kind::kFunction, "det", std::move(result)) : std::move(result);
}

/// Parses \overline{AB} and \vec{v} as a single name.
NodePointer Parser::decorated(const std::string& name) {
  const bool braced = take_symbol("{");
  std::string inner;
  do {
    const Token token = take();
    const bool is_dotless = token.is_command("imath") || token.is_command("jmath");
    if (token.kind != Token::Kind::kLetter && token.kind != Token::Kind::kWord && token.kind != Token::Kind::kNumber &&
        !is_dotless)
      throw Undecided{};
    inner += is_dotless ? token.text.substr(0, 1) : token.text;
  } while (braced && !peek().is("}"));
  if (braced) expect("}");
  if (inner == "i") return node(Kind::kConstant, "i");  // the unit vectors, written like \mathbf{i}
  if (inner == "j" || inner == "k") return node(Kind::kVariable, inner);
  return node(Kind::kVariable, name + "(" + inner + ")");
}

/// Parses \sum_{k=1}^{10} k^2; the term is the following product.
NodePointer Parser::big_operator(const std::string& name) {
  expect("_");
  expect("{");
  const Token counter = take();
  if (counter.kind != Token::Kind::kLetter) throw Undecided{};
  expect("=");
  NodePointer low = enclosed("}");
  expect("^");
  NodePointer high = latex_argument();
  NodePointer term = product();
  return parent(Kind::kFunction, name, std::move(term), node(Kind::kVariable, counter.text), std::move(low),
                std::move(high));
}

NodePointer Parser::command() {
  const std::string name = take().text;
  if (name == "frac" || name == "dfrac" || name == "tfrac" || name == "cfrac" || name == "binom" || name == "tbinom" ||
      name == "dbinom")
    return fraction(name);
  if (name == "sqrt") return square_root(/*is_latex=*/true);
  if (name == "pi") return node(Kind::kConstant, "pi");
  if (name == "infty") return node(Kind::kConstant, "infinity");
  if (name == "imath") return node(Kind::kConstant, "i");
  if (name == "emptyset" || name == "varnothing") return node(Kind::kEmptySet);
  if (name == "{") return set_body("}");
  if (name == "lbrace") return set_body("rbrace");
  if (name == "langle") {
    NodePointer inner = enclosed("rangle");
    if (inner->kind != Kind::kList) throw Undecided{};
    inner->kind = Kind::kGroup;
    inner->name = "<>";
    return inner;
  }
  if (name == "sum" || name == "prod") return big_operator(name);
  if (name == "det") {
    NodePointer inner = primary();
    if (inner->kind != Kind::kMatrix) throw Undecided{};
    return parent(Kind::kFunction, "det", std::move(inner));
  }
  if (name == "lfloor") return parent(Kind::kFunction, "floor", enclosed("rfloor"));
  if (name == "lceil") return parent(Kind::kFunction, "ceil", enclosed("rceil"));
  if (name == "lvert") return parent(Kind::kFunction, "abs", enclosed("rvert"));
  if (name == "R" || name == "Reals") return node(Kind::kReals);
  if (name == "mathbb") {
    const bool braced = take_symbol("{");
    const std::string set = take().text;
    if (braced) expect("}");
    if (set == "R") return node(Kind::kReals);
    if (set != "Z" && set != "N" && set != "Q" && set != "C") throw Undecided{};
    return parent(Kind::kSet, "numbers", node(Kind::kVariable, "\\mathbb " + set));
  }
  if (name == "angle") {
    std::string inner;
    while (peek().kind == Token::Kind::kLetter || peek().kind == Token::Kind::kWord) inner += take().text;
    return node(Kind::kVariable, "angle(" + inner + ")");
  }
  if (name == "overline" || name == "vec" || name == "overrightarrow" || name == "hat" || name == "bar" ||
      name == "tilde" || name == "widehat")
    return decorated(name);
  if (name == "boxed" || name == "fbox" || name == "mathcal" || name == "ensuremath") {
    expect("{");
    return enclosed("}");
  }
  if (name.starts_with("begin:")) return matrix(name.substr(6));
  if (is_function_name(name)) return function(name);
  if (is_greek(name)) {
    std::string variable = name;
    if (take_symbol("_")) variable += "_" + subscript();
    while (take_symbol("'")) variable += "'";
    return node(Kind::kVariable, variable);
  }
  throw Undecided{};
}

}  // namespace keel::math
