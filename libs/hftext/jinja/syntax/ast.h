#pragma once

// Syntax tree of a template. The parser creates it, scopes.cpp resolves variables, and then it is constant.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libs/hftext/jinja/objects/operator.h"
#include "libs/hftext/jinja/objects/value.h"

namespace keel::jinja {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using StatementPtr = std::unique_ptr<Statement>;
using Body = std::vector<StatementPtr>;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr unpacked_positional, unpacked_named;  // *expression, **expression
};

/// A variable: `slot` of the function that is `levels_up` levels further out.
struct VariableRef {
  int levels_up = 0;
  int slot = -1;
};

enum class ExpressionKind : uint8_t {
  kConstant,
  kName,
  kNamespaceRef,  // name.attribute as a target of set
  kTuple,
  kList,
  kDict,  // children: key, value, key, value ...
  kUnary,
  kBinary,
  kAnd,
  kOr,
  kNot,
  kCompare,  // children: operands; operators between them
  kConcat,
  kConditional,  // children: condition, value, value otherwise (or null)
  kAttribute,
  kItem,   // children: object, index
  kSlice,  // children: object, start, stop, step (or null)
  kCall,
  kFilter,  // child: input; null inside a filter block
  kTest,
};

struct Expression {
  ExpressionKind kind;
  int line;
  int depth = 1;          // height of this subtree
  std::string name;       // of a variable, attribute, filter or test
  std::string attribute;  // of a namespace
  Value constant;
  std::vector<Operator> operators;
  std::vector<ExpressionPtr> children;
  CallArguments arguments;
  VariableRef variable;
};

enum class StatementKind : uint8_t {
  kOutput,
  kFor,
  kIf,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kGeneration,
  kFilterBlock,
  kWith,
  kBreak,
  kContinue,
};

/// Initialisation of a variable when its frame is entered.
struct VariableLoad {
  enum class From : uint8_t { kNothing, kContext, kOuter };
  int slot;
  From from;
  std::string name;   // in the context
  VariableRef outer;  // the variable of the same name further out
};

struct Statement {
  StatementKind kind;
  int line;
  std::vector<ExpressionPtr> expressions;  // what is printed, tested, iterated or assigned
  ExpressionPtr target;                    // of for and set
  Body body, else_body;
  std::vector<StatementPtr> elifs;  // of kIf: the further conditions, each a kIf

  // for
  ExpressionPtr test, test_target;  // the condition, and the target again with the condition's own variables
  bool recursive = false;
  int loop_slot = -1;  // of the variable `loop`

  // macro and call block; `expressions` holds the defaults
  std::string name;
  std::vector<std::string> parameters;
  std::vector<int> parameter_slots;
  int caller_slot = -1, kwargs_slot = -1, varargs_slot = -1;  // -1 if the body does not use them
  VariableRef variable;                                       // where the macro is stored

  std::vector<ExpressionPtr> targets;  // of with

  // Slots and initialisation of variables, set by scopes.cpp.
  std::vector<VariableLoad> loads, else_loads, test_loads;
  int slots = 0, test_slots = 0;  // of a macro, recursive loop or loop condition, which are functions
};

struct TemplateTree {
  Body body;
  std::vector<VariableLoad> loads;
  int slots = 0;
};

}  // namespace keel::jinja
