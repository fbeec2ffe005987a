#pragma once

namespace keel {

/// From here on SIGINT, SIGTERM and SIGUSR1 (a scheduler's early notice) ask the program to save and stop, a second one
/// ends it at once with the documented exit code, and a file-size limit is an error, not a death (SIGXFSZ).
void install_signal_handlers();

/// Whether someone asked to stop. Read between steps.
bool stop_requested();

}  // namespace keel
