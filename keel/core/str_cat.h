#pragma once

#include <initializer_list>
#include <ostream>
#include <string>
#include <string_view>

namespace keel {

/// One argument of str_cat: any type that a std::ostream prints. Holds a pointer to the argument. Erasing the type here
/// gives the compiler one function per argument type instead of one per combination of types.
class StrCatPart {
 public:
  StrCatPart(const char* text) : text_(text) {}
  StrCatPart(const std::string& text) : text_(text) {}
  StrCatPart(std::string_view text) : text_(text) {}
  template <class T>
  StrCatPart(const T& value)
      : value_(&value), write_([](std::ostream& out, const void* held) { out << *static_cast<const T*>(held); }) {}

  void write(std::ostream& out) const { value_ == nullptr ? void(out << text_) : write_(out, value_); }

 private:
  std::string_view text_;
  const void* value_ = nullptr;
  void (*write_)(std::ostream&, const void*) = nullptr;
};

std::string concatenate(std::initializer_list<StrCatPart> parts);

/// Concatenates the printed arguments.
template <class... Parts>
std::string str_cat(const Parts&... parts) {
  return concatenate({parts...});
}

}  // namespace keel
