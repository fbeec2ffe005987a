#include "keel/core/error.h"

namespace keel {

void throw_error(ExitCode code, std::initializer_list<WrittenPart> parts) {
  throw Error(code, written_together(parts));
}

}  // namespace keel
