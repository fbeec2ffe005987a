#include "keel/train/config/foreign_schedule.h"

#include <algorithm>
#include <map>

#include "keel/core/error.h"
#include "keel/train/config/config.h"
#include "keel/train/config/foreign_names.h"

namespace keel {
namespace {

constexpr const char *kTrlSchedule = "lr_scheduler_type", *kTrlWarmup = "warmup_steps",
                     *kTrlFloor = "lr_scheduler_kwargs.min_lr", *kTrlFloorRate = "lr_scheduler_kwargs.min_lr_rate";
const std::string kVerlWarmup = kVerlOptim + "lr_warmup_steps";
const Names kVerlCurve = {kVerlWarmup, kVerlOptim + "lr_warmup_steps_ratio", kVerlOptim + "lr_scheduler_type",
                          kVerlOptim + "warmup_style"};

constexpr const char* kSchedulePer = "optimizer.schedule_per";

bool is_above_zero(const Json* value) { return value != nullptr && value->is_number() && *value > 0; }

/// transformers' words, which TRL and OpenRLHF have, and verl two of them.
Json schedule_word(const Json& value, const ConfigTree&, const OptionTable&) {
  static const std::map<std::string, std::string> kWords = {{"constant", "constant"},
                                                            {"constant_with_warmup", "constant"},
                                                            {"linear", "linear"},
                                                            {"cosine", "cosine"},
                                                            {"cosine_with_min_lr", "cosine"}};
  if (value.is_null()) return kSetsNothing;
  const auto found = kWords.find(word_of(value));
  if (found != kWords.end()) return found->second;
  fail(ExitCode::kBadConfiguration, "got \"", word_of(value),
       "\", and Keel has no such schedule: wanted constant, linear or cosine, so give it one of these");
}

AliasConverter trl_schedule(std::string section) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable& table) -> Json {
    if (word_of(value) == "cosine_with_min_lr" && !is_set(tree, table, section + ".min_lr_ratio"))
      fail(ExitCode::kBadConfiguration, "got cosine_with_min_lr, whose end is not said; set ", kTrlFloorRate, " or ",
           kTrlFloor, ", or ", section, ".min_lr_ratio");
    return schedule_word(value, tree, table);
  };
}

/// transformers' constant has no warm-up, whatever is said about one; constant_with_warmup has.
bool trl_warms_up(const ConfigTree& tree) { return word_at(tree, kTrlSchedule) != "constant"; }

/// A number of updates or, since transformers 5, a share of them, which is below 1.
bool is_share(const Json& value) { return value.is_number() && value > 0 && value < 1; }

Json trl_warmup_updates(const Json& value, const ConfigTree& tree, const OptionTable&) {
  if (!trl_warms_up(tree) || is_share(value)) return kSetsNothing;
  return value.is_number_float() ? Json(static_cast<int64_t>(value.get<double>())) : value;
}

Json trl_warmup_share(const Json& value, const ConfigTree& tree, const OptionTable&) {
  return trl_warms_up(tree) && is_share(value) ? value : kSetsNothing;
}

Json trl_warmup_ratio(const Json& value, const ConfigTree& tree, const OptionTable&) {
  return trl_warms_up(tree) && !value.is_null() && !is_above_zero(said(tree, kTrlWarmup)) ? value : kSetsNothing;
}

/// A rate, as a share of the one that it falls from.
AliasConverter trl_floor(std::string section) {
  return [=](const Json& value, const ConfigTree&, const OptionTable& table) -> Json {
    const Json rate = table.get(section + ".lr");
    const double lr = rate.is_number() ? rate.get<double>() : 0;
    if (!value.is_number()) return value.is_null() ? kSetsNothing : value;
    if (lr <= 0 || value.get<double>() > lr)
      fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted at most the learning rate, ", lr);
    return value.get<double>() / lr;
  };
}

/// verl's schedule moves once for every rollout batch.
Json verl_warmup(const Json& value, const ConfigTree&, const OptionTable& table) {
  if (value.is_null() || (value.is_number() && value <= 0)) return kSetsNothing;  // lr_warmup_steps_ratio says it
  if (!value.is_number_integer()) return value;
  constexpr double kMost = 1e15;
  const auto number = [&](const char* path) { return table.get(path).get<double>(); };
  const double of_update = number("train.sequences_per_update"),
               completions = number("train.prompts_per_step") * number("rollout.samples_per_prompt"),
               updates = value.get<double>() * number("train.epochs") * (of_update > 0 ? completions / of_update : 1);
  if (updates > kMost)
    fail(ExitCode::kBadConfiguration, "got ", value.dump(), " batches, which are ", updates, " updates; lower it");
  return static_cast<int64_t>(updates);
}

Json verl_warmup_ratio(const Json& value, const ConfigTree& tree, const OptionTable&) {
  return value.is_null() || is_above_zero(said(tree, kVerlWarmup)) ? kSetsNothing : value;
}

/// Several names say that the rate moves: the first that is there gives it.
AliasConverter verl_moves_by_steps(std::string mine) {
  return [=](const Json&, const ConfigTree& tree, const OptionTable&) -> Json {
    const auto first = std::find_if(kVerlCurve.begin(), kVerlCurve.end(),
                                    [&](const std::string& name) { return said(tree, name) != nullptr; });
    const bool mine_gives_it = first != kVerlCurve.end() && *first == mine;
    return mine_gives_it && moves_the_actors_rate(tree) && said(tree, kSchedulePer) == nullptr ? Json("step")
                                                                                               : kSetsNothing;
  };
}

/// OpenRLHF's cosine_with_min_lr ends at a tenth of the rate.
Json openrlhf_floor(const Json& value, const ConfigTree& tree, const OptionTable&) {
  constexpr double kItsShare = 0.1;
  const bool falls_to_it = value == "cosine_with_min_lr" && said(tree, "optimizer.min_lr_ratio") == nullptr;
  return falls_to_it ? Json(kItsShare) : kSetsNothing;
}

/// A number of steps wins over one of passes there as well, unless it is the passes that were typed.
AliasConverter passes(std::string name, std::string steps = "train.steps") {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable& table) -> Json {
    const bool typed = on_command_line(tree, name) && passes_are_typed(tree);
    return value.is_null() || (is_set(tree, table, steps) && !typed) ? kSetsNothing : value;
  };
}

const std::string kScheduleWords = "constant_with_warmup is constant, cosine_with_min_lr is cosine",
                  kNothingBeside = "nothing beside ";
constexpr const char* kHalfWave = "cosine falls once, by half a wave; remove it";

}  // namespace

bool moves_the_actors_rate(const ConfigTree& tree) {
  return std::any_of(kVerlCurve.begin(), kVerlCurve.end(), [&](const std::string& name) {
    const Json* value = said(tree, name);
    return is_above_zero(value) || (value != nullptr && value->is_string() && *value != "constant");
  });
}

void add_trl_schedule(OptionTable& t, const std::string& section, const std::string& length) {
  const std::string floor = section + ".min_lr_ratio", ratio = section + ".warmup_ratio";
  const std::string no_warmup = kNothingBeside + "lr_scheduler_type=constant, which has no warm-up there";
  t.alias(kTrlSchedule, section + ".schedule", "TRL", trl_schedule(section), kScheduleWords);
  t.alias(kTrlWarmup, section + ".warmup_updates", "TRL", trl_warmup_updates, "where it is at least 1; " + no_warmup);
  t.alias(kTrlWarmup, ratio, "TRL", trl_warmup_share, "where it is below 1; " + no_warmup);
  t.alias("warmup_ratio", ratio, "TRL", trl_warmup_ratio, kNothingBeside + "warmup_steps; " + no_warmup);
  t.alias(kTrlFloorRate, floor, "TRL", unless_null, "the same number");
  t.alias(kTrlFloor, floor, "TRL", trl_floor(section), "divided by the learning rate");
  t.refuse("lr_scheduler_kwargs.num_cycles", "TRL", kHalfWave, {0.5});
  t.refuse("lr_scheduler_kwargs", "TRL", "schedules have min_lr and min_lr_rate and no other words here; remove it",
           {nullptr, Json::object()});
  t.alias("num_train_epochs", length + ".data_epochs", "TRL", passes("num_train_epochs", length + ".steps"),
          "nothing where " + length + ".steps is set");
}

void add_schedule_aliases(OptionTable& t) {
  const std::string schedule = "optimizer.schedule", updates = "optimizer.warmup_updates",
                    ratio = "optimizer.warmup_ratio", floor = "optimizer.min_lr_ratio", epochs = "train.data_epochs",
                    with_steps = "nothing where train.steps is set";
  add_trl_schedule(t, "optimizer", "train");

  const std::string& verl = kVerlOptim;
  for (const std::string& name : kVerlCurve)
    t.alias(name, kSchedulePer, "verl", verl_moves_by_steps(name), "step, where the learning rate moves");
  for (const char* name : {"lr_scheduler_type", "warmup_style"})
    t.alias(verl + name, schedule, "verl", schedule_word, kScheduleWords);
  t.alias(kVerlWarmup, updates, "verl", verl_warmup, "times the updates of a step");
  t.alias(verl + "lr_warmup_steps_ratio", ratio, "verl", verl_warmup_ratio, kNothingBeside + "lr_warmup_steps");
  t.alias(verl + "min_lr_ratio", floor, "verl", unless_null, "the same number");
  t.refuse(verl + "num_cycles", "verl", kHalfWave, {0.5});
  t.alias("trainer.total_epochs", epochs, "verl", passes("trainer.total_epochs"), with_steps);

  t.alias("lr_scheduler", schedule, "OpenRLHF", schedule_word, kScheduleWords);
  t.alias("lr_scheduler", floor, "OpenRLHF", openrlhf_floor, "0.1 for cosine_with_min_lr");
  t.alias("lr_warmup_ratio", ratio, "OpenRLHF");
  t.alias("num_episodes", epochs, "OpenRLHF", passes("num_episodes"), with_steps);
}

}  // namespace keel
