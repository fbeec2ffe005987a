#pragma once

namespace sandbox {

/// Runs a reward program of the user's and keeps hold of everything it starts: a process that left its parent, group
/// and session becomes a child of this one. When the program ends, or descriptor 3, a socket, is closed at its other
/// end (which happens by itself when the caller is killed), all of them are killed. Ends as the program ended.
///
/// Writes to descriptor 3 first: an int, 0 or the error number of a program that could not be started.
[[noreturn]] void supervise(char** command);

}  // namespace sandbox
