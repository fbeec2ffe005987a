#pragma once

#include <poll.h>

#include <exception>
#include <span>

namespace keel {

/// From here on SIGINT, SIGTERM, SIGHUP (unless it was ignored, as by nohup), SIGUSR1 and SIGXCPU (a scheduler's early
/// notices) ask the program to stop, a second one ends it at once, and a file-size limit is an error, not a death
/// (SIGXFSZ). What has not stopped by itself a few seconds after it was asked ends as end_interrupted() does; where
/// wait_for_saving() was called it goes on to its end, but waits no longer for readers of its output.
void install_signal_handlers();

/// For a program that has nothing to do but print: a reader that is gone (`keel inspect ... | head -1`) ends it without
/// a word, as any other. Before, SIGPIPE is ignored.
void exit_on_closed_pipe();

/// Whether this is the end of a pipe that has no reader any more.
bool is_closed_pipe(int descriptor);

/// A command that makes no run begins: stopped from now on it leaves what is whole, and ends with 75. Before, and as
/// long as there is no run to resume, nothing was written and the program ends by the signal, as any other would.
void begin_command();

/// There is something to be saved: asked to stop, the run has the time that this takes.
void wait_for_saving();

/// There is a checkpoint from now on, and the exit code of a run that was stopped says so (75).
void set_resumable();

/// Whether someone asked to stop. Read between steps.
bool stop_requested();

/// Someone asked to stop, and what was being done was given up. Not an Error: nothing failed, so nothing is to be
/// reported, counted or tried again on the way to whoever saves.
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

/// Throws Interrupted when someone asked to stop.
void throw_if_stopped();

/// poll(2), on any thread, that ends with Interrupted as soon as someone asks to stop. Without files, a pause.
int poll_unless_stopped(std::span<pollfd> files, int milliseconds);

/// Ends the program that was stopped before it was done: with 75, or, where nothing has begun, by the signal itself.
/// Says so on standard error.
[[noreturn]] void end_interrupted();

}  // namespace keel
