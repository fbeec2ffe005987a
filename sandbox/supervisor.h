#pragma once

namespace sandbox {

/// Runs a user's reward program as a child subreaper, so that all its descendants remain below this process. Kills them
/// when the program ends or the other end of descriptor 3, a socket, is closed (also by the death of the caller). Exits
/// with the status of the program.
///
/// Writes an int to descriptor 3 first: 0, or the errno of a program that could not be started.
[[noreturn]] void supervise(char** command);

}  // namespace sandbox
