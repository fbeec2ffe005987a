#include "libs/hftext/jinja/objects/convert.h"
#include "libs/hftext/jinja/objects/operators.h"
#include "libs/hftext/jinja/renderer.h"

namespace keel::jinja {

Value Renderer::evaluate(const Expression& node) {
  const Runtime::NestingGuard guard(runtime_);
  runtime_.line = node.line;
  runtime_.step();
  switch (node.kind) {
    case ExpressionKind::kConstant:
      return node.constant;
    case ExpressionKind::kName:
      return evaluate_name(node);
    case ExpressionKind::kTuple:
    case ExpressionKind::kList:
      return evaluate_sequence(node);
    case ExpressionKind::kDict:
      return evaluate_dict(node);
    case ExpressionKind::kUnary:
      return unary(runtime_, node.operators[0], evaluate(*node.children[0]));
    case ExpressionKind::kBinary: {
      const Value left = evaluate(*node.children[0]), right = evaluate(*node.children[1]);
      return binary(runtime_, node.operators[0], left, right);
    }
    case ExpressionKind::kAnd: {
      Value left = evaluate(*node.children[0]);
      return is_true(left) ? evaluate(*node.children[1]) : left;
    }
    case ExpressionKind::kOr: {
      Value left = evaluate(*node.children[0]);
      return is_true(left) ? left : evaluate(*node.children[1]);
    }
    case ExpressionKind::kNot:
      return !is_true(evaluate(*node.children[0]));
    case ExpressionKind::kCompare:
      return evaluate_comparison(node);
    case ExpressionKind::kConcat:
      return evaluate_concat(node);
    case ExpressionKind::kConditional:
      return evaluate_conditional(node);
    case ExpressionKind::kAttribute:
      return get_attribute(runtime_, evaluate(*node.children[0]), node.name);
    case ExpressionKind::kItem: {
      const Value object = evaluate(*node.children[0]), key = evaluate(*node.children[1]);
      return get_item(runtime_, object, key);
    }
    case ExpressionKind::kSlice:
      return evaluate_slice(node);
    case ExpressionKind::kCall:
      return evaluate_call(node);
    case ExpressionKind::kFilter:
      return evaluate_filter(node, nullptr);
    case ExpressionKind::kTest: {
      const Value input = evaluate(*node.children[0]);
      return call_test(runtime_, node.name, input, evaluate_arguments(node.arguments));
    }
    case ExpressionKind::kNamespaceRef:
      break;
  }
  runtime_.fail("internal: an assignment target was evaluated");
}

Value Renderer::evaluate_name(const Expression& node) {
  const std::optional<Value>& value = slot(node.variable);
  return value ? *value : runtime_.undefined("'" + node.name + "' is undefined");
}

Value Renderer::evaluate_sequence(const Expression& node) {
  std::vector<Value> items;
  items.reserve(node.children.size());
  for (const ExpressionPtr& child : node.children) items.push_back(evaluate(*child));
  return node.kind == ExpressionKind::kList ? runtime_.list(std::move(items)) : runtime_.tuple(std::move(items));
}

Value Renderer::evaluate_dict(const Expression& node) {
  auto* dict = runtime_.make<Dict>();
  for (size_t i = 0; i < node.children.size(); i += 2) {
    const Value key = evaluate(*node.children[i]);
    dict->set(runtime_, key, evaluate(*node.children[i + 1]));
  }
  return dict;
}

bool Renderer::evaluate_comparison(const Expression& node) {
  Value left = evaluate(*node.children[0]);
  for (size_t i = 0; i < node.operators.size(); ++i) {
    Value right = evaluate(*node.children[i + 1]);
    if (!compare(runtime_, node.operators[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Renderer::evaluate_concat(const Expression& node) {
  TracedText text;
  std::vector<Value> parts;
  for (const ExpressionPtr& child : node.children) parts.push_back(evaluate(*child));
  for (const Value& part : parts) {
    if (part.is_text()) {
      text.append(part.traced());
    } else {
      text.append(to_text(runtime_, part));
    }
    runtime_.check_text(text);
  }
  return runtime_.text(std::move(text));
}

Value Renderer::evaluate_conditional(const Expression& node) {
  if (is_true(evaluate(*node.children[0]))) return evaluate(*node.children[1]);
  if (node.children[2]) return evaluate(*node.children[2]);
  return runtime_.undefined("the condition of an inline `if` is false and it has no `else`");
}

Value Renderer::evaluate_slice(const Expression& node) {
  Value parts[4];
  for (size_t i = 0; i < 4; ++i) parts[i] = node.children[i] ? evaluate(*node.children[i]) : Value(None{});
  return get_slice(runtime_, parts[0], parts[1], parts[2], parts[3]);
}

Arguments Renderer::evaluate_arguments(const CallArguments& call) {
  Arguments arguments;
  for (const ExpressionPtr& argument : call.positional) arguments.positional.push_back(evaluate(*argument));
  for (const auto& [name, argument] : call.named) arguments.named.emplace_back(name, evaluate(*argument));
  if (call.unpacked_positional) {
    const std::vector<Value> more = to_vector(runtime_, evaluate(*call.unpacked_positional));
    arguments.positional.insert(arguments.positional.end(), more.begin(), more.end());
  }
  if (!call.unpacked_named) return arguments;
  const Value more = evaluate(*call.unpacked_named);
  const auto* dict = more.as<Dict>();
  if (dict == nullptr) runtime_.fail("the argument after ** in a call is ", type_name(more), "; it must be a dict");
  for (const auto& [key, value] : dict->items) {
    if (!key.is_text())
      runtime_.fail("a key of the dict after ** in a call is ", type_name(key), "; it must be a string");
    runtime_.step(1 + arguments.named.size() / 8);
    for (const auto& [name, given] : arguments.named) {
      if (name == key.text()) runtime_.fail("the argument '", name, "' is given twice in one call");
    }
    arguments.named.emplace_back(key.text(), value);
    arguments.untrusted_names |= key.traced().has_untrusted();
  }
  return arguments;
}

Value Renderer::evaluate_filter(const Expression& node, const Value* block) {
  // Inside a filter block the innermost filter has no input of its own.
  Value input;
  if (node.children[0]) {
    input = node.children[0]->kind == ExpressionKind::kFilter ? evaluate_filter(*node.children[0], block)
                                                              : evaluate(*node.children[0]);
  } else {
    input = *block;
  }
  const Arguments arguments = evaluate_arguments(node.arguments);
  runtime_.line = node.line;
  return call_filter(runtime_, node.name, input, arguments);
}

Value Renderer::evaluate_call(const Expression& node, const Value* caller) {
  const Expression& callee = *node.children[0];
  // Calls a method directly, without creating a method value.
  if (callee.kind == ExpressionKind::kAttribute && caller == nullptr) {
    const Value object = evaluate(*callee.children[0]);
    if (has_method(object, callee.name)) {
      const Arguments arguments = evaluate_arguments(node.arguments);
      runtime_.line = node.line;
      return call_method(runtime_, object, callee.name, arguments);
    }
    const Value function = get_attribute(runtime_, object, callee.name);
    return call(function, evaluate_arguments(node.arguments));
  }
  const Value function = evaluate(callee);
  Arguments arguments = evaluate_arguments(node.arguments);
  if (caller != nullptr) {
    for (const auto& [name, value] : arguments.named) {
      if (name == "caller") runtime_.fail("the argument 'caller' is given twice in one call");
    }
    arguments.named.emplace_back("caller", *caller);
  }
  runtime_.line = node.line;
  return call(function, std::move(arguments));
}

Value Renderer::call(const Value& callee, Arguments arguments) {
  if (callee.is_undefined()) runtime_.fail_undefined(callee);
  if (const auto* macro = callee.as<Macro>()) return call_macro(*macro, std::move(arguments));
  if (const auto* method = callee.as<Method>()) return call_method(runtime_, method->self, method->name, arguments);
  if (const auto* function = callee.as<Function>()) return call_function(runtime_, function->name, arguments);
  if (auto* joiner = callee.as<Joiner>()) {
    if (!arguments.positional.empty() || !arguments.named.empty()) runtime_.fail("a joiner takes no arguments");
    return std::exchange(joiner->used, true) ? joiner->separator : runtime_.literal("");
  }
  if (const auto* loop = callee.as<Loop>()) {
    if (!loop->node->recursive) runtime_.fail("loop(...) needs a loop marked as recursive: {% for ... recursive %}");
    if (arguments.positional.size() != 1 || !arguments.named.empty()) runtime_.fail("loop(...) takes one argument");
    return runtime_.text(render_recursive_loop(*loop->node, arguments.positional[0], loop->scope, loop->depth + 1));
  }
  runtime_.fail("a ", type_name(callee), " cannot be called");
}

Macro* Renderer::make_macro(const Statement& node) {
  return runtime_.make<Macro>(&node, scope_,
                              MacroSignature{.name = node.name,
                                             .parameters = node.parameters,
                                             .catches_named = node.kwargs_slot >= 0,
                                             .catches_positional = node.varargs_slot >= 0,
                                             .uses_caller = node.caller_slot >= 0});
}

Value Renderer::call_macro(const Macro& macro, Arguments arguments) {
  const Runtime::NestingGuard guard(runtime_);
  const int line = runtime_.line;
  const ScopeGuard scope_guard(*this, runtime_.make<Scope>(macro.scope, macro.node->slots));
  runtime_.charge(static_cast<size_t>(macro.node->slots) * sizeof(std::optional<Value>));
  bind_macro(macro, std::move(arguments));
  Capture capture(*this);
  run(macro.node->body);
  runtime_.line = line;
  return runtime_.text(std::move(capture.text));
}

void Renderer::bind_macro(const Macro& macro, Arguments arguments) {
  const Statement& node = *macro.node;
  const std::string name = node.name.empty() ? "the call block" : "the macro '" + node.name + "'";
  const size_t count = node.parameters.size();
  std::vector<Value>& given = arguments.positional;
  const auto take_named = [&](const std::string& parameter) {
    std::optional<Value> found;
    for (size_t i = 0; i < arguments.named.size() && !found; ++i) {
      if (arguments.named[i].first != parameter) continue;
      found = arguments.named[i].second;
      arguments.named.erase(arguments.named.begin() + static_cast<long>(i));
    }
    return found;
  };
  std::vector<std::optional<Value>> values(given.begin(),
                                           given.begin() + static_cast<long>(std::min(count, given.size())));
  while (values.size() < count) values.push_back(take_named(node.parameters[values.size()]));
  std::optional<Value> caller;
  if (node.caller_slot >= 0) {
    caller = take_named("caller");
    if (!caller || caller->is_none()) caller = runtime_.undefined("no caller is defined");
  }
  if (node.kwargs_slot < 0 && !arguments.named.empty()) {
    runtime_.fail(name, " has no parameter '", arguments.named[0].first, "'");
  }
  if (node.varargs_slot < 0 && given.size() > count) {
    runtime_.fail(name, " takes at most ", count, " arguments, got ", given.size());
  }
  enter(node.loads);
  const auto slot_at = [&](int index) -> std::optional<Value>& { return scope_->slots[static_cast<size_t>(index)]; };
  for (size_t i = 0; i < count; ++i) slot_at(node.parameter_slots[i]) = values[i];
  if (node.caller_slot >= 0) slot_at(node.caller_slot) = caller;
  if (node.kwargs_slot >= 0) {
    auto* dict = runtime_.make<Dict>();
    for (const auto& [key, value] : arguments.named) dict->set(runtime_, name_of(runtime_, arguments, key), value);
    slot_at(node.kwargs_slot) = Value(dict);
  }
  if (node.varargs_slot >= 0) {
    const auto rest = given.begin() + static_cast<long>(std::min(count, given.size()));
    slot_at(node.varargs_slot) = runtime_.tuple(std::vector<Value>(rest, given.end()));
  }
  const size_t first_default = count - node.expressions.size();
  for (size_t i = 0; i < count; ++i) {
    std::optional<Value>& value = slot_at(node.parameter_slots[i]);
    if (value) continue;
    Value substitute = i < first_default ? runtime_.undefined("parameter '" + node.parameters[i] + "' was not provided")
                                         : evaluate(*node.expressions[i - first_default]);
    slot_at(node.parameter_slots[i]) = std::move(substitute);
  }
}

}  // namespace keel::jinja
