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
  Command command = line.add("watch", "The report of runs in a browser, live while they go on; Ctrl-C ends it");
  command.option("RUN", arguments->runs, "Run folders, side by side; or folders of runs, to choose from")
      .required()
      .folders();
  command.option("--port", arguments->port, "Port (default: the first free one from 8335 on; 0: any free one)")
      .between(0, 65535);
  command.option("--host", arguments->host,
                 "Address to serve on instead of 127.0.0.1, or 0.0.0.0 for all; the printed address then has a token");
  return [arguments] {
    Console console;
    WatchPlace place{.host = arguments->host};
    if (arguments->port) place.port = static_cast<int>(*arguments->port);
    watch(arguments->runs, place, console);
    return ExitCode::kDone;
  };
}

}  // namespace keel::cli
