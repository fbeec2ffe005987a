#include "keel/core/written.h"

#include <sstream>

namespace keel {

std::string written_together(std::initializer_list<WrittenPart> parts) {
  std::ostringstream text;
  for (const WrittenPart& part : parts) part.write(text);
  return text.str();
}

}  // namespace keel
