// Parses units after a value, a currency before it, and the subject of an equation.

#include <algorithm>

#include "libs/mathverify/parse/parser_class.h"
#include "libs/mathverify/parse/units.h"

namespace keel::math {
namespace {

bool is_name(const Token& token) { return token.kind == Token::Kind::kWord || token.kind == Token::Kind::kText; }

bool is_capital(const Token& token) {
  return token.kind == Token::Kind::kLetter && token.text[0] >= 'A' && token.text[0] <= 'Z';
}

bool is_capital_word(const Token& token) {
  return is_name(token) &&
         std::all_of(token.text.begin(), token.text.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

/// The currency of a word before a number; empty if it is not one.
std::string currency_of(const Token& token) {
  static constexpr std::pair<std::string_view, std::string_view> kCurrencies[] = {
      {"sterling", "sterling"}, {"GBP", "sterling"}, {"euro", "euro"}, {"EUR", "euro"},    {"yen", "yen"},
      {"USD", "dollar"},        {"US", "dollar"},    {"Rs", "rupee"},  {"rupee", "rupee"}, {"INR", "rupee"}};
  if (is_name(token))
    for (const auto& [name, currency] : kCurrencies)
      if (token.text == name) return std::string(currency);
  return "";
}

}  // namespace

/// True at a unit of one letter, as in "5 m", "5 m/s^2", "5 N". After a number it needs a space or \text, and nothing
/// but units may follow: "5 m + 2" has a variable.
bool Parser::at_letter_unit() const {
  const Token& token = peek();
  if (token.kind != Token::Kind::kLetter || at_ == 0) return false;
  const Token& before = tokens_[at_ - 1];
  const bool follows_number = before.kind == Token::Kind::kNumber && token.space_before;
  const bool follows_value = token.is_upright && (before.is("}") || before.is(")") || before.is_command("pi") ||
                                                  before.is_command("circ") || before.kind == Token::Kind::kNumber);
  const std::string_view letters = token.is_upright ? "mgshLlNJWVAKCFT" : "mgshLNJWV";
  if ((!follows_number && !follows_value) || letters.find(token.text[0]) == std::string_view::npos) return false;
  size_t next = 1;
  for (bool is_unit_part = true; is_unit_part;) {
    const Token& each = peek(next);
    const bool is_power = each.is("^") || each.is("{") || each.is("}") || each.is("-");
    const bool is_count = each.kind == Token::Kind::kNumber && !each.space_before && next > 1;
    const bool is_letter =
        each.kind == Token::Kind::kLetter && std::string_view("mgshLlNJWVAK").find(each.text) != std::string_view::npos;
    is_unit_part = is_power || is_count || is_letter || each.is("/") || each.is_command("cdot") ||
                   (each.kind == Token::Kind::kWord && is_unit_symbol(each.text));
    next += is_unit_part;
  }
  const Token& end = peek(next);
  return end.kind == Token::Kind::kEnd || end.kind == Token::Kind::kNumber || is_name(end) || end.is(",") ||
         end.is(";") || end.is(")") || end.is("]") || end.is("=") || end.is_command("$");
}

/// Parses "mod 7", "(mod 7)" or \pmod 7; the modulus is treated as a unit.
NodePointer Parser::congruence(NodePointer value) {
  const auto is_mod = [](const Token& token) { return is_name(token) && token.text == "mod"; };
  const bool bracketed = peek().is("(") && (is_mod(peek(1)) || peek(1).is_command("mod"));
  if (bracketed) ++at_;
  NodePointer modulus;
  if (take_command("pmod") || take_command("bmod")) {
    modulus = latex_argument();
  } else if (take_command("mod") || is_mod(peek())) {
    at_ += is_mod(peek());
    modulus = factor();
  } else {
    return value;
  }
  if (bracketed) expect(")");
  if (modulus->kind != Kind::kNumber || !modulus->is_plain_integer) throw Undecided{};
  if (value->kind == Kind::kNumber && value->value >= modulus->value) throw Undecided{};  // 10 mod 7 is not reduced
  std::string words = "congruence";
  for (const char digit : modulus->name) words += static_cast<char>('a' + (digit - '0'));
  return parent(Kind::kUnit, words, std::move(value));
}

/// Parses ^2, ^{2} or ^{-1} after a unit.
std::string Parser::unit_power() {
  std::string power = "^";
  const bool braced = take_symbol("{");
  if (take_symbol("-")) power += "-";
  if (peek().kind != Token::Kind::kNumber) throw Undecided{};
  power += take().text;
  if (braced) expect("}");
  return power;
}

/// Attaches the words after a value, up to the next separator, as its unit.
NodePointer Parser::attach_unit(NodePointer value) {
  value = congruence(std::move(value));
  if (value->kind == Kind::kUnit) return value;
  std::string words;
  while (!at_separator()) {
    const Token& token = peek();
    const bool first = words.empty();
    if (is_name(token) || at_letter_unit() || (!first && token.kind == Token::Kind::kLetter)) {
      words += " " + take().text;
    } else if (!first && token.is("/")) {
      words += take().text;
    } else if (!first && (token.is(".") || token.is_command("cdot"))) {
      words += " ";
      ++at_;
    } else if (!first && take_symbol("^")) {
      words += unit_power();
    } else if (!first && !token.space_before && (token.text == "2" || token.text == "3") &&
               is_unit_symbol(tokens_[at_ - 1].text)) {  // cm2
      words += "^" + take().text;
    } else if (token.is_command("Omega") && at_ > 0 && tokens_[at_ - 1].kind == Token::Kind::kNumber) {
      words += " ohm";
      ++at_;
    } else {
      break;
    }
  }
  if (words.empty()) return value;
  return parent(Kind::kUnit, words, std::move(value));
}

/// Parses "1 hour 30 minutes", whose parts add up.
NodePointer Parser::quantity() {
  const bool has_number = peek().kind == Token::Kind::kNumber;
  NodePointer first = attach_unit(set_expression());
  if (!has_number || first->kind != Kind::kUnit || peek().kind != Token::Kind::kNumber) return first;
  NodePointer parts = parent(Kind::kList, "compound", std::move(first));
  while (peek().kind == Token::Kind::kNumber) {
    parts->names.push_back("and");
    parts->children.push_back(attach_unit(factor()));
    if (parts->children.back()->kind != Kind::kUnit) throw Undecided{};
  }
  return parts;
}

/// Parses an amount with a leading currency; nullptr if there is none.
NodePointer Parser::money() {
  const bool negative = peek().is("-") && peek(1).is_command("$");
  std::string currency = currency_of(peek());
  const bool has_sign = peek(negative ? 1 : 0).is_command("$");
  if (!has_sign && currency.empty()) return nullptr;
  if (has_sign) {
    currency = "dollar";
    at_ += negative ? 2 : 1;
  } else {
    size_t next = 1;
    while (peek(next).is(".") || peek(next).is_command("$")) ++next;
    if (peek(next).kind != Token::Kind::kNumber) return nullptr;
    at_ += next;
  }
  NodePointer amount = set_expression();
  if (negative) amount = parent(Kind::kNegative, "", std::move(amount));
  amount = attach_unit(std::move(amount));
  return amount->kind == Kind::kUnit ? std::move(amount) : parent(Kind::kUnit, currency, std::move(amount));
}

/// Joins the tokens up to the closing bracket into a name; empty if there is none nearby.
std::string Parser::name_until_close(size_t from, size_t& after) const {
  constexpr size_t kMaxName = 30;
  std::string name;
  int depth = 1;
  for (size_t i = from; i < from + kMaxName; ++i) {
    const Token& token = peek(i);
    if (token.kind == Token::Kind::kEnd) return "";
    depth += token.is("(") - token.is(")");
    if (depth == 0) {
      after = i + 1;
      return name;
    }
    name += token.kind == Token::Kind::kCommand ? "\\" + token.text : token.text;
  }
  return "";
}

/// Parses a left side of an equation that is not a formula: a word, P(X = 2), |AB|, [ABC], m\angle A.
NodePointer Parser::subject() {
  const auto named = [&](std::string name, size_t length) {
    at_ += length;
    return node(Kind::kVariable, std::move(name));
  };
  const bool is_product = peek().kind == Token::Kind::kWord && peek().text.size() <= 3 &&
                          peek().text.find_first_not_of("abckmnpqrstuvwxyz") == std::string::npos;  // xy = 1
  if (is_name(peek()) && !is_product && !is_function_name(peek().text) && peek(1).is("=") && at_ == 0)
    return named("\"" + peek().text + "\"", 1);
  const bool is_length = peek().is("|") && is_capital_word(peek(1)) && peek(2).is("|") && peek(3).is("=");
  if (is_length) return named(peek(1).text, 3);
  const bool is_area = peek().is("[") && is_capital_word(peek(1)) && peek(2).is("]") && peek(3).is("=");
  if (is_area) return named("[" + peek(1).text + "]", 3);
  if (peek().kind == Token::Kind::kLetter && peek().text == "m" && peek(1).is_command("angle")) ++at_;
  if (peek().is_command("Pr") && peek(1).is("=")) return named("Pr", 1);
  if (!peek(1).is("(")) return nullptr;
  const std::string head = peek().text;
  const bool is_statistic = peek().is_command("Pr") || (is_name(peek()) && (head == "Var" || head == "Pr"));
  const bool is_function = is_capital(peek()) && std::string_view("CXYZ").find(head) == std::string_view::npos;
  const bool is_count = head == "n" && is_capital(peek(2));  // n(A \cup B)
  const bool is_simple = peek(2).kind == Token::Kind::kLetter || peek(2).kind == Token::Kind::kNumber;
  const bool is_small = peek().kind == Token::Kind::kLetter && is_simple && peek(3).is(")") &&
                        (std::string_view("npqrsuv").find(head) != std::string_view::npos ||
                         (peek(2).text == "n" && std::string_view("abcd").find(head) != std::string_view::npos));
  if (!is_statistic && !is_function && !is_small && !is_count) return nullptr;
  size_t after = 0;
  const std::string inner = name_until_close(2, after);
  if (inner.empty() || !(peek(after).is("=") || peek(after).is_command("approx"))) return nullptr;
  return named(head + "(" + inner + ")", after);
}

/// Parses a value with its unit, or the subject of an equation.
NodePointer Parser::relation_side() {
  if (NodePointer subject_node = subject()) return subject_node;
  if (NodePointer amount = money()) return amount;
  return quantity();
}

}  // namespace keel::math
