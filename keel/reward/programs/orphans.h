#pragma once

// A reward program can kill its supervisor (sandbox/supervisor.h). The kernel then reparents the program's descendants
// to the nearest subreaper, which is this process. Children that this process did not start are such orphans.

#include <sys/types.h>

#include <functional>

namespace keel {

/// Starts a child and registers it as not an orphan. `start` returns its pid, or -1.
pid_t start_child(const std::function<pid_t()>& start);

/// Waits for a child of start_child, reaps and unregisters it.
void reap_child(pid_t child);

/// Makes this process the subreaper of orphaned descendants.
void become_subreaper();

/// Kills and reaps all orphans, and their descendants.
void kill_all_orphans();

}  // namespace keel
