#pragma once

#include <initializer_list>
#include <ostream>
#include <string>
#include <string_view>

namespace keel {

/// A part of a text: whatever a stream takes. Points to what it was made of. Texts of every length and kind are one
/// here, so that the compiler makes a function per type of part and not one that writes to a stream per combination of
/// them.
class WrittenPart {
 public:
  WrittenPart(const char* text) : text_(text) {}
  WrittenPart(const std::string& text) : text_(text) {}
  WrittenPart(std::string_view text) : text_(text) {}
  template <class T>
  WrittenPart(const T& value)
      : value_(&value), write_([](std::ostream& out, const void* held) { out << *static_cast<const T*>(held); }) {}

  void write(std::ostream& out) const { value_ == nullptr ? void(out << text_) : write_(out, value_); }

 private:
  std::string_view text_;
  const void* value_ = nullptr;
  void (*write_)(std::ostream&, const void*) = nullptr;
};

std::string written_together(std::initializer_list<WrittenPart> parts);

/// The parts written one after the other.
template <class... Parts>
std::string written(const Parts&... parts) {
  return written_together({parts...});
}

}  // namespace keel
