#include "libs/mathverify/parse/parser.h"

#include <algorithm>

#include "libs/mathverify/parse/parser_class.h"
#include "libs/mathverify/parse/units.h"

namespace keel::math {

Parser::Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  if (tokens_.size() > 1 && tokens_[tokens_.size() - 2].is(".")) tokens_.erase(tokens_.end() - 2);
  drop_premises();
  drop_parenthesised_remark();
  size_t words = 0, others = 0;
  for (const Token& token : tokens_) {
    const bool is_name = token.kind == Token::Kind::kWord || token.kind == Token::Kind::kText;
    words += is_name;
    others += !is_name && token.kind != Token::Kind::kEnd && !token.is("(") && !token.is(")");
  }
  is_single_word_ = words > 0 && others == 0;
  if (is_prose()) throw Undecided{};
  // "B A C" is an order of three things, not a product.
  const auto is_capital = [](const Token& token) {
    return token.kind == Token::Kind::kLetter && token.text[0] >= 'A' && token.text[0] <= 'Z';
  };
  if (tokens_.size() > 3 && std::all_of(tokens_.begin(), tokens_.end() - 1, is_capital)) throw Undecided{};
}

/// Keeps the last part of "x^2 = 4 \implies x = \pm 2".
void Parser::drop_premises() {
  if (tokens_[0].is_command("approx") || tokens_[0].is_command("to")) tokens_.erase(tokens_.begin());
  drop_evaluated_expression();
  static constexpr std::string_view kArrows[] = {"therefore", "implies", "Rightarrow", "Longrightarrow", "because"};
  for (size_t i = tokens_.size(); i-- > 0;) {
    const bool is_arrow = tokens_[i].kind == Token::Kind::kCommand &&
                          std::find(std::begin(kArrows), std::end(kArrows), tokens_[i].text) != std::end(kArrows);
    if (!is_arrow) continue;
    tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return;
  }
}

/// Keeps the result of "\int_0^1 x^2 dx = 1/3".
void Parser::drop_evaluated_expression() {
  if (!tokens_[0].is_command("int") && !tokens_[0].is_command("lim")) return;
  int depth = 0;
  size_t last = 0;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    depth += tokens_[i].is("{") + tokens_[i].is("(") - tokens_[i].is("}") - tokens_[i].is(")");
    if (depth == 0 && tokens_[i].is("=")) last = i;
  }
  if (last > 0) tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(last) + 1);
}

/// Drops final words in parentheses, "5 (five)" or "x = 5 (the only solution)", unless they may change the meaning.
void Parser::drop_parenthesised_remark() {
  if (tokens_.size() < 5 || !tokens_[tokens_.size() - 2].is(")")) return;
  if (tokens_[tokens_.size() - 3].is_spelled && tokens_[tokens_.size() - 4].is("(")) {
    if (tokens_[tokens_.size() - 5].value != tokens_[tokens_.size() - 3].value) throw Undecided{};
    tokens_.erase(tokens_.end() - 4, tokens_.end() - 1);
    return;
  }
  size_t open = tokens_.size() - 3;
  while (open > 0 && !tokens_[open].is("(")) --open;
  if (open > 0 && tokens_[open + 1].kind == Token::Kind::kWord && tokens_[open + 1].text == "or") {  // 1/2 (or 0.5)
    tokens_.erase(tokens_.end() - 2);
    tokens_.erase(tokens_.begin() + static_cast<std::ptrdiff_t>(open));
    return;
  }
  static constexpr std::string_view kRounding[] = {"approx", "approximately", "about", "roughly"};
  if (open > 0 &&
      std::find(std::begin(kRounding), std::end(kRounding), tokens_[open + 1].text) != std::end(kRounding)) {
    tokens_.erase(tokens_.begin() + static_cast<std::ptrdiff_t>(open), tokens_.end() - 1);
    return;
  }
  open = tokens_.size() - 3;
  std::string words;
  for (; open > 0 && !tokens_[open].is("("); --open) {
    const Token& token = tokens_[open];
    const bool is_name = token.kind == Token::Kind::kWord || token.kind == Token::Kind::kText;
    if (!is_name || token.text.size() < 3 || is_function_name(token.text)) return;
    words += token.text + " ";
  }
  if (open == 0 || words.empty()) return;
  const Token& before = tokens_[open - 1];
  if (before.kind != Token::Kind::kNumber && !before.is("}") && !before.is(")")) return;
  parse_unit(words);  // Undecided for "not", "or more"
  tokens_.erase(tokens_.begin() + static_cast<std::ptrdiff_t>(open), tokens_.end() - 1);
}

/// True for "We find that x < 3", but not for "5 miles per hour".
bool Parser::is_prose() const {
  constexpr size_t kMinWords = 3;
  size_t words = 0;
  for (const Token& token : tokens_)
    words +=
        token.kind == Token::Kind::kWord && token.text != "and" && token.text != "or" && !is_function_name(token.text);
  return tokens_[0].kind == Token::Kind::kWord && !is_function_name(tokens_[0].text) && words >= kMinWords;
}

NodePointer Parser::node(Kind kind, std::string name) {
  NodePointer result = std::make_unique<Node>();
  result->kind = kind;
  result->name = std::move(name);
  return result;
}

bool Parser::take_symbol(std::string_view symbol) {
  if (!peek().is(symbol)) return false;
  ++at_;
  return true;
}

bool Parser::take_command(std::string_view name) {
  if (!peek().is_command(name)) return false;
  ++at_;
  return true;
}

bool Parser::at_close(std::string_view close) const { return peek().is(close) || peek().is_command(close); }

void Parser::expect(std::string_view symbol_or_command) {
  if (!at_close(symbol_or_command)) throw Undecided{};
  ++at_;
}

NodePointer Parser::parse_all() {
  NodePointer result = list();
  if (take_command("over")) result = parent(Kind::kQuotient, "", std::move(result), list());
  if (peek().kind != Token::Kind::kEnd) throw Undecided{};
  return result;
}

bool Parser::at_separator() const {
  const Token& token = peek();
  if (token.is(",") || token.is(";")) return true;
  if (token.is_command("\\") || token.is_command("newline")) return true;
  const bool is_word = token.kind == Token::Kind::kWord || token.kind == Token::Kind::kText;
  return (is_word && (token.text == "and" || token.text == "or")) || token.is_command("lor") ||
         token.is_command("land") || token.is_command("vee") || token.is_command("wedge");
}

/// Takes a separator, or a comma with a word (", and"). Returns ",", "and", "or", or empty if there is none.
std::string Parser::take_separator() {
  if (!at_separator()) return "";
  Token token = take();
  if (token.kind == Token::Kind::kSymbol && at_separator() && peek().kind != Token::Kind::kSymbol) token = take();
  if (token.text == "or" || token.text == "lor" || token.text == "vee") return "or";
  return token.text == "and" || token.text == "land" || token.text == "wedge" ? "and" : ",";
}

NodePointer Parser::list() {
  const Level level(depth_);
  NodePointer first = statement();
  if (!at_separator()) return first;
  NodePointer result = parent(Kind::kList, "", std::move(first));
  while (true) {
    const std::string separator = take_separator();
    if (separator.empty() || peek().kind == Token::Kind::kEnd) break;  // a trailing comma is allowed
    result->names.push_back(separator);
    result->children.push_back(statement());
  }
  if (result->children.size() == 1) return std::move(result->children[0]);
  return attach_cases(std::move(result));
}

/// Parses the condition after "&&": "x > 0", "if x > 0", "otherwise".
NodePointer Parser::case_piece(NodePointer value) {
  const auto take_word = [&](std::initializer_list<std::string_view> words) {
    const bool is_name = peek().kind == Token::Kind::kWord || peek().kind == Token::Kind::kText;
    const bool found = is_name && std::find(words.begin(), words.end(), peek().text) != words.end();
    if (found) ++at_;
    return found;
  };
  NodePointer result = parent(Kind::kPiece, "", std::move(value));
  if (take_word({"otherwise", "else", "elsewhere"})) return result;
  take_word({"if", "for", "when", "where"});
  result->children.push_back(statement());
  return result;
}

/// f(x) = cases: applies the left side of the first piece to all pieces.
NodePointer Parser::attach_cases(NodePointer list) {
  const auto is_piece = [](const NodePointer& each) { return each->kind == Kind::kPiece; };
  if (std::none_of(list->children.begin(), list->children.end(), is_piece)) return list;
  if (!std::all_of(list->children.begin(), list->children.end(), is_piece)) throw Undecided{};
  NodePointer& first = list->children[0]->children[0];
  if (first->kind != Kind::kRelation) return list;
  if (first->names.size() != 1 || first->names[0] != "=") throw Undecided{};
  NodePointer left_side = std::move(first->children[0]), value = std::move(first->children[1]);
  first = std::move(value);
  NodePointer result = parent(Kind::kRelation, "", std::move(left_side), std::move(list));
  result->names.push_back("=");
  return result;
}

std::string Parser::relation() const {
  const Token& token = peek();
  if (token.is(">") && angles_ > 0) return "";  // the end of <1, 2>
  if (token.kind == Token::Kind::kSymbol && (token.text == "=" || token.text == "<" || token.text == ">"))
    return token.text;
  if (token.kind != Token::Kind::kCommand) return "";
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"lt", "<"},    {"gt", ">"},    {"le", "<="},       {"leq", "<="}, {"leqslant", "<="},
      {"ge", ">="},   {"geq", ">="},  {"geqslant", ">="}, {"ne", "!="},  {"neq", "!="},
      {"leqq", "<="}, {"geqq", ">="}, {"approx", "~"},    {"in", "in"},  {"equiv", "="}};
  for (const auto& [name, sign] : kNames)
    if (token.text == name) return std::string(sign);
  return "";
}

void Parser::take_relation() { ++at_; }

NodePointer Parser::statement() {
  const Level level(depth_);
  NodePointer first = relation_side();
  if (take_symbol("&&")) return case_piece(std::move(first));
  if (relation().empty()) return first;
  NodePointer result = parent(Kind::kRelation, "", std::move(first));
  while (true) {
    std::string sign = relation();
    if (sign.empty()) return take_symbol("&&") ? case_piece(std::move(result)) : std::move(result);
    take_relation();
    if (sign == "<" && take_symbol("=")) sign = "<=";
    if (sign == ">" && take_symbol("=")) sign = ">=";
    result->names.push_back(sign);
    result->children.push_back(relation_side());
  }
}

NodePointer Parser::set_expression() {
  NodePointer left = ratio();
  while (true) {
    const bool is_bracket = left->kind == Kind::kGroup || left->kind == Kind::kSet || left->kind == Kind::kUnion;
    const bool plain_union = is_bracket && ((peek().kind == Token::Kind::kLetter && peek().text == "U") ||
                                            (peek().kind == Token::Kind::kWord && peek().text == "union"));
    Kind kind = Kind::kUnion;
    if (take_command("cap"))
      kind = Kind::kIntersection;
    else if (take_command("setminus") || take_command("backslash"))
      kind = Kind::kDifference;
    else if (plain_union)
      ++at_;
    else if (!take_command("cup"))
      return left;
    left = parent(kind, "", std::move(left), ratio());
  }
}

NodePointer Parser::ratio() {
  NodePointer first = sum();
  const bool is_range = peek().text == "to" && peek(1).kind == Token::Kind::kNumber && !peek().is_command("to");
  if (is_range && first->kind == Kind::kNumber) {  // 3 to 4
    ++at_;
    return parent(Kind::kRatio, "to", std::move(first), sum());
  }
  if (!(peek().is(":") || peek().is_command("colon")) || sets_ > 0) return first;
  NodePointer result = parent(Kind::kRatio, "", std::move(first));
  while (take_symbol(":") || take_command("colon")) result->children.push_back(sum());
  return result;
}

NodePointer Parser::sum() {
  const Level level(depth_);
  NodePointer left;
  if (take_symbol("-")) {
    left = parent(Kind::kNegative, "", product());
  } else if (peek().is_command("pm") || peek().is_command("mp")) {
    const std::string sign = take().text;
    left = parent(Kind::kPlusMinus, sign, product());
  } else {
    take_symbol("+");
    if (take_symbol("-")) {  // "+-": one of two values, as people type it
      left = parent(Kind::kPlusMinus, "pm", product());
    } else {
      left = product();
    }
  }
  while (true) {
    if (take_symbol("+")) {
      NodePointer right = take_symbol("-") ? parent(Kind::kNegative, "", product()) : product();
      left = parent(Kind::kSum, "", std::move(left), std::move(right));
    } else if (take_symbol("-")) {
      NodePointer right = product();
      left = parent(Kind::kSum, "", std::move(left), parent(Kind::kNegative, "", std::move(right)));
    } else if (peek().is_command("pm") || peek().is_command("mp")) {
      const std::string sign = take().text;
      left = parent(Kind::kPlusMinus, sign, std::move(left), product());
    } else {
      return left;
    }
  }
}

/// True if the next token begins an implicit factor.
bool Parser::starts_factor() const {
  const Token& token = peek();
  switch (token.kind) {
    case Token::Kind::kNumber:
      return true;
    case Token::Kind::kLetter:
      if (at_letter_unit()) return false;
      return token.text != "U" || !(peek(1).is("(") || peek(1).is("[") || peek(1).is_command("{"));
    case Token::Kind::kText:
      return token.text == "cis";
    case Token::Kind::kWord: {
      const bool needs_bracket = token.text == "min" || token.text == "max";  // "5 min" is a time
      if (needs_bracket && !peek(1).is("(") && !peek(1).is("{") && !peek(1).is_command("{")) return false;
      return can_be_product(token.text) || is_function_name(token.text);
    }
    case Token::Kind::kSymbol: {
      const bool is_mod = peek(1).text == "mod" && token.is("(");
      return (token.is("(") && !is_mod) || token.is("{") || (token.is("[") && !at_open_end()) ||
             (token.is("|") && bars_ == 0 && sets_ == 0);
    }
    case Token::Kind::kCommand: {
      static constexpr std::string_view kNoFactor[] = {
          "cdot",   "times", "div",   "ast",    "pm",   "mp",       "cup",  "cap",   "setminus", "backslash",
          "leqq",   "geqq",  "notin", "le",     "leq",  "leqslant", "ge",   "geq",   "geqslant", "ne",
          "neq",    "lt",    "gt",    "approx", "in",   "equiv",    "mid",  "colon", "}",        "rangle",
          "rfloor", "rceil", "rvert", "rVert",  "land", "lor",      "vee",  "wedge", "to",       "circ",
          "degree", "%",     "\\",    "choose", "over", "newline",  "pmod", "bmod",  "ldots",    "$",
          "&",      "_",     "#",     "rbrace", "mod",  "Omega"};
      return std::find(std::begin(kNoFactor), std::end(kNoFactor), token.text) == std::end(kNoFactor) &&
             !token.text.starts_with("end:");
    }
    default:
      return false;
  }
}

/// True at the bracket that ends ]3, 4[, which does not begin a factor.
bool Parser::at_open_end() const {
  const Token& next = peek(1);
  return next.kind == Token::Kind::kEnd || next.is_command("cup") || next.is_command("cap") ||
         next.is_command("setminus") || next.is(",") || next.is(";") || next.is("]") ||
         (next.kind == Token::Kind::kLetter && next.text == "U") || next.kind == Token::Kind::kText;
}

bool Parser::take_percent() {
  const Token& token = peek();
  if (token.kind == Token::Kind::kWord && token.text == "per" && peek(1).text == "cent") {
    at_ += 2;
    return true;
  }
  const bool is_word = (token.kind == Token::Kind::kWord || token.kind == Token::Kind::kText) &&
                       (token.text == "percent" || token.text == "pct" || token.text == "percentage");
  if (!is_word && !token.is("%")) return false;
  ++at_;
  return true;
}

/// True at the x of 1.5 x 10^3.
bool Parser::at_times_ten() const {
  return peek().kind == Token::Kind::kLetter && peek().text == "x" && peek().space_before && peek(1).text == "10" &&
         peek(2).is("^") && tokens_[at_ - 1].kind == Token::Kind::kNumber;
}

/// True at the C of 6C3 and {}_6 C_3, and at the P of 6P3.
bool Parser::at_combinations(const Node& left) const {
  const bool is_c = peek().kind == Token::Kind::kLetter && (peek().text == "C" || peek().text == "P");
  const Token& lower = peek(peek(1).is("_") ? 2 : 1);
  return is_c && left.kind == Kind::kNumber && left.is_plain_integer && !peek().space_before && !lower.space_before &&
         (lower.kind == Token::Kind::kNumber || (peek(1).is("_") && lower.is("{")));
}

/// Parses implicit products and mixed numbers: 2x, 1 1/2, 3!3!.
NodePointer Parser::implicit_product(NodePointer left) {
  const bool was_integer = left->kind == Kind::kNumber && left->is_plain_integer;
  const bool spaced = peek().space_before, is_number = peek().kind == Token::Kind::kNumber;
  const Token& before = tokens_[at_ - 1];  // 3!3! and i4 are products
  const bool may_multiply =
      is_number && (before.is("!") || (before.kind == Token::Kind::kLetter && before.text == "i"));
  if (is_number && !may_multiply && !(was_integer && spaced)) throw Undecided{};  // "2 3"; but "1 1/2" is mixed
  NodePointer right = factor();
  if (is_number && !may_multiply) {
    if (!right->is_plain_integer || !take_symbol("/")) throw Undecided{};
    NodePointer denominator = factor();
    if (denominator->kind != Kind::kNumber || !denominator->is_plain_integer) throw Undecided{};
    right = parent(Kind::kQuotient, "", std::move(right), std::move(denominator));
  }
  const bool is_fraction = right->kind == Kind::kQuotient && right->children[0]->kind == Kind::kNumber &&
                           right->children[0]->is_plain_integer && right->children[1]->kind == Kind::kNumber &&
                           right->children[1]->is_plain_integer &&
                           right->children[0]->value < right->children[1]->value;
  if (is_number && !may_multiply && !is_fraction) throw Undecided{};
  return parent(was_integer && is_fraction ? Kind::kSum : Kind::kProduct, "", std::move(left), std::move(right));
}

NodePointer Parser::product() {
  const Level level(depth_);
  NodePointer left = factor();
  while (true) {
    if (take_symbol("*") || take_command("cdot") || take_command("times") || take_command("ast")) {
      left = parent(Kind::kProduct, "", std::move(left), factor());
    } else if (take_symbol("/") || take_command("div")) {
      left = parent(Kind::kQuotient, "", std::move(left), factor());
    } else if ((peek().kind == Token::Kind::kWord || peek().kind == Token::Kind::kText) && peek().text == "choose") {
      ++at_;
      left = parent(Kind::kFunction, "binomial", std::move(left), factor());
    } else if (at_times_ten()) {
      ++at_;
      left = parent(Kind::kProduct, "", std::move(left), factor());
    } else if (at_combinations(*left)) {
      const std::string name = peek().text == "C" ? "binomial" : "permutation";
      at_ += peek(1).is("_") ? 2 : 1;
      left = parent(Kind::kFunction, name, std::move(left), latex_argument());
    } else if (starts_factor()) {
      left = implicit_product(std::move(left));
    } else if (take_percent()) {  // applies to the whole product: 1/2%, 33 1/3%
      left = parent(Kind::kPercent, "", std::move(left));
    } else {
      return left;
    }
  }
}

NodePointer parse_math(std::vector<Token> tokens) { return Parser(std::move(tokens)).parse_all(); }

}  // namespace keel::math
