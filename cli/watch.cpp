#include "keel/watch/watch.h"

#include <memory>

#include "cli/commands.h"

namespace keel::cli {

CommandHandler add_watch(CommandLine& line) {
  struct Arguments {
    std::vector<std::string> runs;
    std::string host;
    std::optional<int64_t> port;
  };
  const auto arguments = std::make_shared<Arguments>();
  Command command = line.add("watch", "Serve a live report of runs to the browser; Ctrl-C stops it");
  command.option("RUN", arguments->runs, "Run folders to show side by side, or folders of runs to choose from")
      .required()
      .folders();
  command.option("--port", arguments->port, "Port (default: the first free port from 8335; 0: any free port)")
      .between(0, 65535);
  command.option("--host", arguments->host,
                 "Address to bind instead of 127.0.0.1; 0.0.0.0: all. With --host, the printed URL contains a token");
  return [arguments] {
    Console console;
    ListenAddress address{.host = arguments->host};
    if (arguments->port) address.port = static_cast<int>(*arguments->port);
    watch(arguments->runs, address, console);
    return ExitCode::kDone;
  };
}

}  // namespace keel::cli
