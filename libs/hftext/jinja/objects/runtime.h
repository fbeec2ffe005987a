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

/// Owns the values of one rendering, counts what it uses and knows the line it is at.
class Runtime {
 public:
  Runtime(const std::string& place, const TemplateLimits& limits, const std::optional<std::tm>& now)
      : now_(now), place_(place), limits_(limits) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// An Error that names the template and the line.
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    keel::fail(ExitCode::kBadInput, place_, ":", line, ": ", parts...);
  }
  /// The Error for using an undefined value.
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
  /// A text of the template or of the language itself.
  Value literal(std::string bytes) { return text(TracedText(std::move(bytes))); }
  Value list(std::vector<Value> items) { return sequence(ObjectKind::kList, std::move(items)); }
  Value tuple(std::vector<Value> items) { return sequence(ObjectKind::kTuple, std::move(items)); }
  Value generator(std::function<bool(Value&)> step) { return make<Generator>(std::move(step)); }
  Value undefined(std::string words);

  /// Counts work; an Error when there was too much of it.
  void step(size_t count = 1) {
    if (count > static_cast<size_t>(limits_.steps - steps_)) fail_steps();
    steps_ += static_cast<int64_t>(count);
  }
  // Work on the bytes of a text counts by what it takes: to copy or compare them, to search them, to look each
  // character up in a table or to write it anew.
  void step_copy(size_t bytes) { step(bytes / 64); }
  void step_search(size_t bytes) { step(bytes / 16); }
  void step_characters(size_t bytes) { step(bytes / 2); }
  /// To be called before a text of this size is made.
  void check_text(size_t bytes) const {
    if (bytes > limits_.output_bytes) fail_text(bytes);
  }
  void check_text(const TracedText& text) const { check_text(text.size() + text.range_bytes()); }
  /// Counts memory that is kept until the end of the rendering.
  void charge(size_t bytes) {
    kept_ += bytes;
    if (kept_ + alive_ > limits_.memory_bytes) fail_memory();
  }

  /// Held while something that may contain itself is evaluated.
  class Deeper {
   public:
    explicit Deeper(Runtime& runtime) : runtime_(runtime) {
      if (++runtime_.depth_ > runtime_.limits_.depth) {
        --runtime_.depth_;
        runtime_.fail_depth();
      }
    }
    ~Deeper() { --runtime_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

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
  std::string place_;
  TemplateLimits limits_;
  int64_t steps_ = 0;
  int depth_ = 0;
  size_t kept_ = 0;   // bytes of objects
  size_t alive_ = 0;  // bytes of texts; they count themselves out, so that it must outlive objects_
  std::vector<std::unique_ptr<Object>> objects_;
  std::vector<std::unique_ptr<UndefinedReason>> reasons_;
};

}  // namespace keel::jinja
