#include "keel/core/error.h"

namespace keel {

void throw_error(ExitCode code, std::initializer_list<StrCatPart> parts) { throw Error(code, concatenate(parts)); }

}  // namespace keel
