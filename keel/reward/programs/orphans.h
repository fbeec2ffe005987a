#pragma once

// A reward program can kill the process that keeps hold of all that it starts (sandbox/supervisor.h). What it had
// started then falls to the nearest ancestor that takes in orphans, which is this process: a child of it that it did
// not start is such an orphan, and is ended.

#include <sys/types.h>

#include <functional>

namespace keel {

/// Starts a child and remembers that it is no orphan. `start` gives its number, or -1.
pid_t start_child(const std::function<pid_t()>& start);

/// Waits for the end of a child that start_child started, collects it and forgets it.
void reap_child(pid_t child);

/// From now on what our children leave behind falls to us.
void become_subreaper();

/// Kills and collects all orphans that there are, and what they leave behind in turn.
void end_orphans();

}  // namespace keel
