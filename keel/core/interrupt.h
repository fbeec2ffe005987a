#pragma once

#include <poll.h>

#include <exception>
#include <span>

namespace keel {

/// Installs the signal handlers. SIGINT, SIGTERM, SIGHUP (unless ignored, as under nohup), and the scheduler's SIGUSR1
/// and SIGXCPU request a stop; a second signal ends the program at once. SIGXFSZ is ignored, so that the file-size
/// limit is an error. A program that has not stopped after a few seconds ends as by end_interrupted(). After
/// wait_for_saving() it continues instead, but no longer blocks on the readers of its output.
void install_signal_handlers();

/// Restores the default SIGPIPE for a program that only prints: a closed pipe (`keel inspect ... | head -1`) ends it
/// silently. Before this call, SIGPIPE is ignored.
void exit_on_closed_pipe();

/// Returns whether the descriptor is a pipe without a reader.
bool is_closed_pipe(int descriptor);

/// Marks the start of a command that creates no run. After this call a stopped program keeps its complete files and
/// exits with 75. Before it, and before set_resumable(), nothing has been written, and the signal itself ends the
/// program.
void begin_command();

/// Lets a stopped run take as long as it needs to save its state.
void wait_for_saving();

/// Marks that a checkpoint exists. A stopped run then exits with 75.
void set_resumable();

/// Returns whether a stop was requested. Callers check it between steps.
bool stop_requested();

/// Thrown after a stop request, to abandon the current work. It is not an Error: nothing failed, so no handler reports,
/// counts or retries it.
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

/// Throws Interrupted if a stop was requested.
void throw_if_stopped();

/// Calls poll(2) and throws Interrupted as soon as a stop is requested. Without files, it sleeps. Thread-safe.
int poll_unless_stopped(std::span<pollfd> files, int milliseconds);

/// Ends a stopped program and prints the reason on standard error: with exit code 75, or by the signal itself if
/// nothing has begun.
[[noreturn]] void end_interrupted();

}  // namespace keel
