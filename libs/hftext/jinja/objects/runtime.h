#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/error.h"
#include "libs/hftext/jinja/objects/template_limits.h"
#include "libs/hftext/jinja/objects/value.h"

namespace keel::jinja {

/// State of one rendering: owns its values, enforces its limits and tracks the current line.
class Runtime {
 public:
  Runtime(const std::string& location, const TemplateLimits& limits, const std::optional<std::tm>& now)
      : now_(now), location_(location), limits_(limits) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Throws an Error with the template and the line.
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    keel::fail(ExitCode::kBadInput, location_, ":", line, ": ", parts...);
  }
  /// Throws the Error for using an undefined value.
  [[noreturn]] void fail_undefined(const Value& value) const;

  template <class T, class... Arguments>
  T* make(Arguments&&... arguments) {
    charge(sizeof(T));
    auto object = std::make_unique<T>(std::forward<Arguments>(arguments)...);
    T* result = object.get();
    objects_.push_back(std::move(object));
    return result;
  }
  Value text(TracedText text, bool markup = false);
  /// A trusted string, from the template or a built-in.
  Value literal(std::string bytes) { return text(TracedText(std::move(bytes))); }
  Value list(std::vector<Value> items) { return sequence(ObjectKind::kList, std::move(items)); }
  Value tuple(std::vector<Value> items) { return sequence(ObjectKind::kTuple, std::move(items)); }
  Value generator(std::function<bool(Value&)> step) { return make<Generator>(std::move(step)); }
  Value undefined(std::string message);

  /// Counts steps of work; throws an Error above the limit.
  void step(size_t count = 1) {
    if (count > static_cast<size_t>(limits_.steps - steps_)) fail_steps();
    steps_ += static_cast<int64_t>(count);
  }
  // Cost of string operations in steps: copying or comparing, searching, and per-character conversion.
  void step_copy(size_t bytes) { step(bytes / 64); }
  void step_search(size_t bytes) { step(bytes / 16); }
  void step_characters(size_t bytes) { step(bytes / 2); }
  /// Call before creating a string of this size.
  void check_text(size_t bytes) const {
    if (bytes > limits_.output_bytes) fail_text(bytes);
  }
  void check_text(const TracedText& text) const { check_text(text.size() + text.range_bytes()); }
  /// Counts memory that is kept until the rendering ends.
  void charge(size_t bytes) {
    object_bytes_ += bytes;
    if (object_bytes_ + text_bytes_ > limits_.memory_bytes) fail_memory();
  }

  /// Counts nesting while a recursive construct is evaluated.
  class NestingGuard {
   public:
    explicit NestingGuard(Runtime& runtime) : runtime_(runtime) {
      if (++runtime_.depth_ > runtime_.limits_.depth) {
        --runtime_.depth_;
        runtime_.fail_depth();
      }
    }
    ~NestingGuard() { --runtime_.depth_; }
    NestingGuard(const NestingGuard&) = delete;
    NestingGuard& operator=(const NestingGuard&) = delete;

   private:
    Runtime& runtime_;
  };

  const std::optional<std::tm>& now() const { return now_; }

  int line = 1;

 private:
  Value sequence(ObjectKind kind, std::vector<Value> items) {
    charge(items.capacity() * sizeof(Value));
    return make<Sequence>(kind, std::move(items));
  }
  [[noreturn]] void fail_steps() const;
  [[noreturn]] void fail_text(size_t bytes) const;
  [[noreturn]] void fail_memory() const;
  [[noreturn]] void fail_depth() const;

  std::optional<std::tm> now_;
  std::string location_;
  TemplateLimits limits_;
  int64_t steps_ = 0;
  int depth_ = 0;
  size_t object_bytes_ = 0;
  size_t text_bytes_ = 0;  // bytes of live texts; their destructors subtract, so this must outlive objects_
  std::vector<std::unique_ptr<Object>> objects_;
  std::vector<std::unique_ptr<UndefinedReason>> reasons_;
};

}  // namespace keel::jinja
