#include "keel/train/config/config.h"

namespace keel {

void add_removed_settings(OptionTable&) {}

}  // namespace keel
