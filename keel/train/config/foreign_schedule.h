#pragma once

namespace keel {

class OptionTable;

/// The other programs' names of the learning rate's schedule and of a run's length in passes over the data. To be added
/// after those that say how many updates a step has.
void add_schedule_aliases(OptionTable& table);

}  // namespace keel
