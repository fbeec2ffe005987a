#include "libs/hftext/jinja/renderer.h"

#include <algorithm>

#include "libs/hftext/jinja/objects/convert.h"
#include "libs/hftext/jinja/objects/python_str.h"

namespace keel::jinja {

bool Loop::next(Value& item) {
  if (lookahead) {
    item = *std::exchange(lookahead, std::nullopt);
  } else if (!cursor.next(item)) {
    return false;
  }
  ++index;
  previous = std::move(current);
  current = item;
  return true;
}

const std::optional<Value>& Loop::peek() {
  Value item;
  if (!lookahead && cursor.next(item)) lookahead = std::move(item);
  return lookahead;
}

int64_t Loop::length(Runtime& runtime) {
  if (known_length) return *known_length;
  if (const std::optional<size_t> size = jinja::length(iterable)) {
    known_length = static_cast<int64_t>(*size);
  } else {
    std::vector<Value> rest = to_vector(runtime, iterable);
    known_length = static_cast<int64_t>(rest.size()) + index + 1 + lookahead.has_value();
    cursor = Cursor(runtime, runtime.list(std::move(rest)));
  }
  return *known_length;
}

Renderer::Renderer(Runtime& runtime, const TemplateTree& tree, Variables variables)
    : runtime_(runtime), tree_(tree), variables_(std::move(variables)) {}

TracedText Renderer::render() {
  const ScopeGuard scope_guard(*this, runtime_.make<Scope>(nullptr, tree_.slots));
  enter(tree_.loads);
  run(tree_.body);
  return std::move(root_);
}

std::vector<std::pair<size_t, size_t>> Renderer::generation_spans(const std::string& text) const {
  std::vector<std::pair<size_t, size_t>> result = spans_;
  std::vector<size_t*> offsets;
  for (auto& [begin, end] : result) offsets.insert(offsets.end(), {&begin, &end});
  std::sort(offsets.begin(), offsets.end(), [](const size_t* a, const size_t* b) { return *a < *b; });
  size_t characters = 0, bytes = 0;  // one pass over the text
  for (size_t* offset : offsets) {
    bytes += byte_of_code_point(std::string_view(text).substr(bytes), *offset - characters);
    characters = std::exchange(*offset, bytes);
  }
  return result;
}

void Renderer::enter(const std::vector<VariableLoad>& loads) {
  runtime_.step(loads.size());
  for (const VariableLoad& load : loads) {
    std::optional<Value>& to = scope_->slots[static_cast<size_t>(load.slot)];
    if (load.from == VariableLoad::From::kNothing) {
      to.reset();
    } else if (load.from == VariableLoad::From::kOuter) {
      to = slot(load.outer);
    } else {
      const auto variable = variables_.find(load.name);
      to = variable != variables_.end() ? std::optional<Value>(variable->second) : std::nullopt;
    }
  }
}

void Renderer::write(const Value& value) {
  if (value.is_text()) return write(value.traced());
  write(to_text(runtime_, value));
}

void Renderer::write(const TracedText& text) {
  runtime_.check_text(output_->size() + text.size() + output_->range_bytes() + text.range_bytes());
  runtime_.step_copy(text.size() + text.range_bytes());
  output_->append(text);
}

Renderer::Flow Renderer::run(const Body& body) {
  const Runtime::NestingGuard guard(runtime_);
  for (const StatementPtr& statement : body) {
    if (const Flow flow = run(*statement); flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Renderer::Flow Renderer::run(const Statement& node) {
  runtime_.line = node.line;
  runtime_.step();
  switch (node.kind) {
    case StatementKind::kOutput:
      run_output(node);
      break;
    case StatementKind::kIf:
      return run_if(node);
    case StatementKind::kFor:
      return run_for(node);
    case StatementKind::kSet:
      run_set(node);
      break;
    case StatementKind::kMacro:
      slot(node.variable) = Value(make_macro(node));
      break;
    case StatementKind::kCallBlock:
      run_call_block(node);
      break;
    case StatementKind::kGeneration:
      run_generation(node);
      break;
    case StatementKind::kSetBlock:
    case StatementKind::kFilterBlock:
    case StatementKind::kWith:
      return run_block(node);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

void Renderer::run_output(const Statement& node) {
  for (const ExpressionPtr& expression : node.expressions) {
    if (expression->kind == ExpressionKind::kConstant && expression->constant.is_text()) {
      write(expression->constant);
    } else {
      write(evaluate(*expression));
    }
  }
}

Renderer::Flow Renderer::run_if(const Statement& node) {
  if (is_true(evaluate(*node.expressions[0]))) return run(node.body);
  for (const StatementPtr& elif : node.elifs) {
    if (is_true(evaluate(*elif->expressions[0]))) return run(elif->body);
  }
  return run(node.else_body);
}

void Renderer::run_set(const Statement& node) {
  check_namespaces(*node.target);
  assign(*node.target, evaluate(*node.expressions[0]));
}

Renderer::Flow Renderer::run_block(const Statement& node) {
  enter(node.loads);
  if (node.kind == StatementKind::kWith) {
    for (size_t i = 0; i < node.targets.size(); ++i) assign(*node.targets[i], evaluate(*node.expressions[i]));
    return run(node.body);
  }
  Value result;
  {
    Capture capture(*this);
    // {% break %} discards the block's text, as in Jinja's generated code.
    if (const Flow flow = run(node.body); flow != Flow::kNext) return flow;
    result = runtime_.text(std::move(capture.text));
  }
  if (node.expressions[0]) result = evaluate_filter(*node.expressions[0], &result);
  if (node.kind == StatementKind::kFilterBlock) {
    write(result);
  } else {
    check_namespaces(*node.target);
    assign(*node.target, result);
  }
  return Flow::kNext;
}

/// The items of a loop that pass its condition, tested lazily.
Value Renderer::loop_items(const Statement& node, const Value& items) {
  if (!node.test) return items;
  auto* test_scope = runtime_.make<Scope>(scope_, node.test_slots);
  const auto cursor = std::make_shared<Cursor>(runtime_, items);
  const auto entered = std::make_shared<bool>(false);
  return runtime_.generator([this, &node, test_scope, cursor, entered](Value& item) {
    const ScopeGuard scope_guard(*this, test_scope);
    if (!std::exchange(*entered, true)) enter(node.test_loads);
    while (cursor->next(item)) {
      assign(*node.test_target, item);
      if (!is_true(evaluate(*node.test))) continue;
      item = value_of_target(*node.test_target);
      return true;
    }
    return false;
  });
}

Renderer::Flow Renderer::run_for(const Statement& node) {
  const Value items = evaluate(*node.expressions[0]);
  if (node.recursive) {
    write(render_recursive_loop(node, items, scope_, 0));
    return Flow::kNext;
  }
  return run_loop(*runtime_.make<Loop>(runtime_, &node, loop_items(node, items), scope_, 0));
}

/// Runs the loop. A {% break %} or {% continue %} in the else branch applies to the enclosing loop.
Renderer::Flow Renderer::run_loop(Loop& loop) {
  const Statement& node = *loop.node;
  bool completed_iteration = false;
  Value item;
  while (loop.next(item)) {
    scope_->slots[static_cast<size_t>(node.loop_slot)] = Value(&loop);
    assign(*node.target, item);
    enter(node.loads);
    const Flow flow = run(node.body);
    // Jinja sets this flag at the end of the body, so an iteration that is left early does not count.
    completed_iteration = completed_iteration || flow == Flow::kNext;
    if (flow == Flow::kBreak) break;
  }
  if (completed_iteration || node.else_body.empty()) return Flow::kNext;
  enter(node.else_loads);
  return run(node.else_body);
}

TracedText Renderer::render_recursive_loop(const Statement& node, Value items, Scope* outer, int64_t depth) {
  const Runtime::NestingGuard guard(runtime_);
  Value filtered_items;
  {
    const ScopeGuard outer_guard(*this, outer);
    filtered_items = loop_items(node, items);
  }
  const ScopeGuard scope_guard(*this, runtime_.make<Scope>(outer, node.slots));
  Capture capture(*this);
  run_loop(*runtime_.make<Loop>(runtime_, &node, filtered_items, outer, depth));
  return std::move(capture.text);
}

void Renderer::run_call_block(const Statement& node) {
  const Value caller = make_macro(node);
  write(evaluate_call(*node.target, &caller));
}

void Renderer::run_generation(const Statement& node) {
  const Value text = call_macro(*make_macro(node), {});
  // Counts characters of root_ as transformers does, even if the block is inside a macro or capture.
  const std::string_view new_text = std::string_view(root_.bytes()).substr(counted_bytes_);
  counted_characters_ += code_point_count(new_text);
  counted_bytes_ += new_text.size();
  spans_.emplace_back(counted_characters_, counted_characters_ + text.text_ref()->length);
  write(text);
}

std::optional<Value>& Renderer::slot(const VariableRef& variable) {
  Scope* scope = scope_;
  for (int i = 0; i < variable.levels_up; ++i) scope = scope->outer;
  return scope->slots[static_cast<size_t>(variable.slot)];
}

void Renderer::check_namespaces(const Expression& target) {
  if (target.kind == ExpressionKind::kNamespaceRef) {
    const std::optional<Value>& value = slot(target.variable);
    if (!value || !value->is(ObjectKind::kNamespace)) {
      runtime_.fail("'", target.name, "' is not a namespace, so '", target.name, ".", target.attribute,
                    "' cannot be set; make it with {% set ", target.name, " = namespace() %}");
    }
  }
  for (const ExpressionPtr& child : target.children) check_namespaces(*child);
}

void Renderer::assign(const Expression& target, const Value& value) {
  if (target.kind == ExpressionKind::kName) {
    slot(target.variable) = value;
    return;
  }
  if (target.kind == ExpressionKind::kNamespaceRef) {
    if (target.attribute.starts_with('_')) {
      runtime_.fail("the attribute '", target.attribute, "' of a namespace begins with '_'; rename it");
    }
    auto* space = slot(target.variable)->as<Namespace>();
    if (space == nullptr) runtime_.fail("'", target.name, "' is no longer a namespace");
    return space->attributes.set(runtime_, runtime_.literal(target.attribute), value);
  }
  const Runtime::NestingGuard guard(runtime_);
  std::vector<Value> items;
  Value item;
  for (Cursor cursor(runtime_, value); items.size() <= target.children.size() && cursor.next(item);) {
    items.push_back(item);
  }
  if (items.size() != target.children.size()) {
    runtime_.fail(items.size() > target.children.size() ? "too many" : "not enough", " values to unpack into ",
                  target.children.size(), " names");
  }
  for (size_t i = 0; i < items.size(); ++i) assign(*target.children[i], items[i]);
}

Value Renderer::value_of_target(const Expression& target) {
  if (target.kind == ExpressionKind::kName) return *slot(target.variable);
  std::vector<Value> items;
  for (const ExpressionPtr& child : target.children) items.push_back(value_of_target(*child));
  return runtime_.tuple(std::move(items));
}

}  // namespace keel::jinja
