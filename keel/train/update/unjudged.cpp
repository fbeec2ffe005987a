#include "keel/train/update/unjudged.h"

namespace keel {

std::vector<std::optional<int64_t>> leave_out_unjudged(std::vector<Rollout>& rollouts) {
  std::vector<std::optional<int64_t>> now;
  int64_t next = 0;
  for (const Rollout& rollout : rollouts) now.push_back(rollout.judged ? std::optional(next++) : std::nullopt);
  std::erase_if(rollouts, [](const Rollout& rollout) { return !rollout.judged; });
  return now;
}

std::vector<int64_t> places_now(std::span<const int64_t> before, std::span<const std::optional<int64_t>> now) {
  std::vector<int64_t> places;
  for (const int64_t place : before)
    if (now[static_cast<size_t>(place)]) places.push_back(*now[static_cast<size_t>(place)]);
  return places;
}

}  // namespace keel
