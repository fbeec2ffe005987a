#pragma once

#include <string>

namespace keel {

class OptionTable;
struct ConfigTree;

/// Where verl's actor has its optimizer.
inline const std::string kVerlOptim = "actor_rollout_ref.actor.optim.";

/// Whether the learning rate of verl's actor rises or falls, which it does once a step.
bool moves_the_actors_rate(const ConfigTree& tree);

/// TRL's names of the learning rate's schedule, in `section` of ours, and of passes over the data, in `length`.
void add_trl_schedule(OptionTable& table, const std::string& section, const std::string& length);

/// The other programs' names of the learning rate's schedule and of a run's length in passes over the data. To be added
/// after those that say how many updates a step has.
void add_schedule_aliases(OptionTable& table);

}  // namespace keel
