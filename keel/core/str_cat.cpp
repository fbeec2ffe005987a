#include "keel/core/str_cat.h"

#include <sstream>

namespace keel {

std::string concatenate(std::initializer_list<StrCatPart> parts) {
  std::ostringstream text;
  for (const StrCatPart& part : parts) part.write(text);
  return text.str();
}

}  // namespace keel
