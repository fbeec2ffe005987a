#include "keel/record/tools/tracker_bridge.h"

#include <utility>

#include "keel/core/embed.h"
#include "keel/core/error.h"
#include "keel/core/json_reader.h"
#include "keel/core/shell_words.h"

// The build defines KEEL_TRACKER_BRIDGE, the path of bridge.py.
KEEL_EMBED(keel_tracker_bridge, KEEL_TRACKER_BRIDGE);

namespace keel {
namespace {

constexpr double kOpenSeconds = 300, kRowSeconds = 60, kEndSeconds = 300, kStopSeconds = 20;

}  // namespace

TrackerBridge::TrackerBridge(std::string tool, const std::string& python, const std::string& setting)
    : tool_(std::move(tool)),
      python_(python),
      setting_(setting),
      process_({.command = {python, "-c", std::string(keel_tracker_bridge_begin, keel_tracker_bridge_end), tool_}}) {
  const Json reply = request("", kOpenSeconds);
  if (reply.contains("missing"))
    fail(ExitCode::kBadConfiguration, setting_, ": Python package ", tool_, " is missing (", python_, ": ",
         reply.value("error", ""), "). Fix: ", shell_word(python_), " -m pip install ", tool_);
  if (const auto failure = failure_in(reply)) fail(ExitCode::kBadConfiguration, setting_, ": ", *failure);
}

TrackerBridge::~TrackerBridge() {
  if (is_open_) request("{\"end\":\"stopped\"}\n", kStopSeconds, /*is_last=*/true);
}

void TrackerBridge::open(const Json& run) {
  const Json reply = request(run.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n", kOpenSeconds);
  if (reply.contains("exists"))
    fail(ExitCode::kBadConfiguration, reply.value("exists", ""),
         " is an earlier export of this run; choose another folder, or replace it with --overwrite");
  if (const auto failure = failure_in(reply)) fail(ExitCode::kBadConfiguration, setting_, ": ", *failure);
  target_ = reply.value("target", "");
  is_open_ = true;
}

std::optional<std::string> TrackerBridge::add(std::string_view row) {
  return is_open_ ? failure_in(request(std::string(row) + "\n", kRowSeconds)) : std::nullopt;
}

std::optional<std::string> TrackerBridge::end(const std::string& status) {
  if (!is_open_) return std::nullopt;
  const auto failure = failure_in(request("{\"end\":\"" + status + "\"}\n", kEndSeconds, /*is_last=*/true));
  is_open_ = false;
  return failure;
}

/// Sends a line and returns the reply. Interrupts do not stop it, so that the last rows arrive.
Json TrackerBridge::request(std::string_view line, double seconds, bool is_last) {
  const ExchangeResult result = process_.exchange(
      {.input = line, .close_input = is_last, .deadline = seconds_from_now(seconds), .interruptible = !is_open_});
  const std::string output = std::exchange(process_.output(), "");
  const Json reply = try_parse_json(output.substr(0, output.find('\n'))).value_or(Json());
  if (reply.is_object()) return reply;
  const std::string problem = result == ExchangeResult::kTimeout
                                  ? "did not answer in time"
                                  : "exited unexpectedly (" + process_.exit_status() + ")";
  return {{"error", "the bridge to " + tool_ + " " + problem}};
}

std::optional<std::string> TrackerBridge::failure_in(const Json& reply) {
  if (!reply.contains("error")) return std::nullopt;
  is_open_ = false;
  return tool_ + ": " + reply["error"].get<std::string>();
}

}  // namespace keel
