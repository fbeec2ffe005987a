#include "libs/hftext/jinja/objects/runtime.h"

#include "libs/hftext/jinja/objects/python_str.h"

namespace keel::jinja {

Text::Text(TracedText text, bool is_markup, size_t* live_text_bytes)
    : content(std::move(text)),
      length(code_point_count(content.bytes())),
      markup(is_markup),
      live_bytes(live_text_bytes) {
  if (live_bytes != nullptr) *live_bytes += content.size() + content.range_bytes() + sizeof(Text);
}

Text::~Text() {
  if (live_bytes != nullptr) *live_bytes -= content.size() + content.range_bytes() + sizeof(Text);
}

Value Runtime::text(TracedText text, bool markup) {
  check_text(text);
  step();
  step_copy(text.size() + text.range_bytes());
  Value result(std::make_shared<const Text>(std::move(text), markup, &text_bytes_));
  charge(0);  // checks the limit, since the constructor of Text counts its bytes without a check
  return result;
}

Value Runtime::undefined(std::string message) {
  charge(message.size() + sizeof(UndefinedReason));
  reasons_.push_back(std::make_unique<UndefinedReason>(UndefinedReason{std::move(message)}));
  return Undefined{reasons_.back().get()};
}

void Runtime::fail_undefined(const Value& value) const {
  const UndefinedReason* reason = value.undefined().reason;
  fail(reason == nullptr ? "a value is undefined" : reason->message,
       "; define it, or check it with `is defined` in the template");
}

void Runtime::fail_steps() const {
  fail("the template took more than ", limits_.steps, " steps and was stopped; shorten its loops or the conversation");
}

void Runtime::fail_text(size_t bytes) const {
  fail("the template creates a string of ", bytes, " bytes, more than the ", limits_.output_bytes,
       " allowed; shorten the conversation or fix the template");
}

void Runtime::fail_memory() const {
  fail("the template needs more than the ", limits_.memory_bytes,
       " bytes of memory allowed; shorten the conversation or fix the template");
}

void Runtime::fail_depth() const {
  fail("calls or values are nested more than ", limits_.depth,
       " deep; check for endless recursion in a macro, or a value that contains itself");
}

}  // namespace keel::jinja
