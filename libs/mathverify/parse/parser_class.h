#pragma once

// The recursive descent of parse_math, split over parser.cpp (from lists down to products), unit_words.cpp (units and
// subjects of values), primary.cpp (factors of a product) and commands.cpp (LaTeX).

#include <utility>
#include <vector>

#include "libs/mathverify/parse/lexer.h"
#include "libs/mathverify/parse/node.h"

namespace keel::math {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens);
  NodePointer parse_all();

 private:
  using Kind = Node::Kind;
  /// Limits nesting, so that no answer can exhaust the stack.
  struct Level {
    explicit Level(int& depth) : depth_(depth) {
      if (++depth_ > kMaxDepth) throw Undecided{};
    }
    ~Level() { --depth_; }
    static constexpr int kMaxDepth = 60;
    int& depth_;
  };

  // parser.cpp
  NodePointer list();
  NodePointer statement();
  NodePointer case_piece(NodePointer value);
  static NodePointer attach_cases(NodePointer list);
  NodePointer relation_side();
  NodePointer set_expression();
  NodePointer ratio();
  NodePointer sum();
  NodePointer product();
  NodePointer implicit_product(NodePointer left);
  void drop_premises();
  void drop_evaluated_expression();
  void drop_parenthesised_remark();
  bool is_prose() const;
  bool at_open_end() const;
  bool at_times_ten() const;
  bool at_combinations(const Node& left) const;
  bool at_separator() const;
  std::string take_separator();
  std::string relation() const;
  void take_relation();
  bool starts_factor() const;
  bool take_percent();

  // unit_words.cpp
  NodePointer attach_unit(NodePointer value);
  NodePointer congruence(NodePointer value);
  NodePointer quantity();
  NodePointer money();
  NodePointer subject();
  std::string unit_power();
  std::string name_until_close(size_t from, size_t& after) const;
  bool at_letter_unit() const;

  // primary.cpp
  NodePointer factor();
  NodePointer postfix(NodePointer base);
  NodePointer attach_arc_minutes(NodePointer degrees);
  NodePointer exponent();
  NodePointer primary();
  NodePointer number();
  NodePointer letter();
  NodePointer labelled_point(const std::string& name);
  NodePointer word();
  NodePointer command();
  NodePointer bracket();
  NodePointer angle_bracket();
  NodePointer application(const std::string& head);
  std::string function_power();
  NodePointer braces();
  NodePointer set_body(std::string_view close);
  NodePointer bars();
  NodePointer fraction(const std::string& name);
  NodePointer latex_argument();
  NodePointer square_root(bool is_latex);
  NodePointer function(std::string name);
  NodePointer function_argument();
  NodePointer matrix(const std::string& environment);
  NodePointer big_operator(const std::string& name);
  NodePointer decorated(const std::string& name);
  NodePointer letters(const std::string& run);
  NodePointer enclosed(std::string_view close);
  std::string subscript();
  bool can_be_product(const std::string& word) const;

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token take() { return tokens_[std::min(at_++, tokens_.size() - 1)]; }
  bool take_symbol(std::string_view symbol);
  bool take_command(std::string_view name);
  void expect(std::string_view symbol_or_command);
  bool at_close(std::string_view close) const;

  static NodePointer node(Kind kind, std::string name = {});
  template <class... Children>
  static NodePointer parent(Kind kind, std::string name, Children... children) {
    NodePointer result = node(kind, std::move(name));
    (result->children.push_back(std::move(children)), ...);
    return result;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0, bars_ = 0, sets_ = 0, angles_ = 0;
  bool is_single_word_ = false;  // the answer is one word: a name rather than a product of letters
};

bool is_function_name(std::string_view word);

}  // namespace keel::math
