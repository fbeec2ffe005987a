#pragma once

namespace keel {

/// From here on SIGINT, SIGTERM and SIGUSR1 (a scheduler's early notice) ask the program to save and stop, a second one
/// ends it at once, and a file-size limit is an error, not a death (SIGXFSZ). Ended at once, the exit code says that
/// the run can be resumed (75) once set_resumable() was called; before, the signal ends the process as it would any
/// other.
void install_signal_handlers();

/// There is a checkpoint from now on.
void set_resumable();

/// Whether someone asked to stop. Read between steps.
bool stop_requested();

}  // namespace keel
