#pragma once

namespace keel {

/// From here on SIGINT, SIGTERM and SIGUSR1 (a scheduler's early notice) ask the program to stop, a second one ends it
/// at once, and a file-size limit is an error, not a death (SIGXFSZ). What has not stopped by itself a few seconds
/// after it was asked ends with the exit code kInterrupted, unless wait_for_saving() was called. Ended at once, the
/// exit code says that the run can be resumed (75) once set_resumable() was called; before, the signal ends the process
/// as it would any other.
void install_signal_handlers();

/// For a program that has nothing to do but print: a reader that is gone (`keel inspect ... | head -1`) ends it without
/// a word, as any other. Before, SIGPIPE is ignored.
void end_when_nobody_reads();

/// Whether this is the end of a pipe that has no reader any more.
bool nobody_reads(int descriptor);

/// There is a run to be saved: asked to stop, it has the time that its step takes.
void wait_for_saving();

/// There is a checkpoint from now on.
void set_resumable();

/// Whether someone asked to stop. Read between steps.
bool stop_requested();

}  // namespace keel
