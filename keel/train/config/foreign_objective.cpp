#include "keel/train/config/foreign_objective.h"

#include <map>

#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/objective/methods.h"
#include "keel/train/config/foreign_names.h"

namespace keel {
namespace {

constexpr const char* kTrlLoss = "loss_type";
constexpr const char* kOpenRlhfLoss = "policy_loss_type";
constexpr const char* kAggregation = "objective.aggregation";  // wins over that of a loss which it stands beside
constexpr const char* kDroBeta = "actor_rollout_ref.actor.policy_loss.dro_beta";

// Losses ------------------------------------------------------------------------------------------------------------

struct TrlLoss {
  std::string method, aggregation;
};

/// The entry of a table of words, or an error that lists them.
template <class Value>
const Value& one_of_words(const std::map<std::string, Value>& table, const Json& value, const std::string& way_out) {
  const auto found = table.find(word_of(value));
  if (found != table.end()) return found->second;
  Names words;
  for (const auto& [word, entry] : table) words.push_back(word);
  fail(ExitCode::kBadConfiguration, "got \"", word_of(value), "\", wanted one of ", joined(words), "; ", way_out);
}

Json verl_loss(const Json& value, const ConfigTree& tree, const OptionTable&) {
  static const std::map<std::string, std::string> kMethods = {
      {"vanilla", "ppo"},   {"dppo_tv", "dppo_tv"}, {"dppo_kl", "dppo_kl"}, {"gspo", "gspo"}, {"sapo", "sapo"},
      {"geo_mean", "gmpo"}, {"cispo", "cispo"},     {"dro", "dro"},         {"gpg", "pg"}};
  const std::string& method = one_of_words(kMethods, value, "or set objective.method; `keel methods` lists them");
  if (method == "dro" && said(tree, kDroBeta) == nullptr)
    fail(ExitCode::kBadConfiguration, "verl's dro has no default of its weight; set ", kDroBeta);
  return method == "ppo" && word_at(tree, kAdvEstimator) == "gae" ? "ppo_gae" : method;
}

Json verl_aggregation(const Json& value, const ConfigTree& tree, const OptionTable&) {
  static const std::map<std::string, std::string> kModes = {{"token-mean", "token_mean"},
                                                            {"seq-mean-token-mean", "seq_mean_token_mean"},
                                                            {"seq-mean-token-sum", "seq_mean_token_sum"},
                                                            {"seq-mean-token-sum-norm", "seq_mean_token_sum_norm"}};
  const std::string& mode = one_of_words(kModes, value, "or set objective.aggregation");
  const std::string loss = word_at(tree, kLossMode);
  const bool averages_itself = !ours_names_the_method(tree, kLossMode) && (loss == "sapo" || loss == "geo_mean");
  if (!averages_itself || mode == "seq_mean_token_mean") return mode;
  const Json *kl = said(tree, "actor_rollout_ref.actor.use_kl_loss"),
             *entropy = said(tree, "actor_rollout_ref.actor.entropy_coeff");
  if ((kl != nullptr && *kl == true) || (entropy != nullptr && *entropy != 0))
    fail(ExitCode::kBadConfiguration, "verl's loss_mode ", loss,
         " always averages as seq-mean-token-mean, and verl reads this only for a KL or an entropy beside it, which "
         "Keel ",
         "averages as the loss; remove it, or set objective.aggregation");
  return kSetsNothing;
}

const TrlLoss& trl_loss(const Json& value) {
  static const std::map<std::string, TrlLoss> kLosses = {{"grpo", {"grpo", "seq_mean_token_mean"}},
                                                         {"bnpo", {"ppo", "token_mean"}},
                                                         {"dr_grpo", {"dr_grpo", "seq_mean_token_sum_norm"}},
                                                         {"dapo", {"dapo", "token_mean"}},
                                                         {"luspo", {"ppo", "seq_mean_token_sum"}},
                                                         {"cispo", {"cispo", "token_mean"}},
                                                         {"sapo", {"sapo", "seq_mean_token_mean"}},
                                                         {"vespo", {"vespo", "token_mean"}}};
  return one_of_words(kLosses, value, "or set objective.method; `keel methods` lists them");
}

Json trl_method(const Json& value, const ConfigTree& tree, const OptionTable&) {
  const std::string method = trl_loss(value).method, level = word_at(tree, kSamplingLevel);
  if (method == "cispo" && said(tree, "epsilon_high") == nullptr && !ours_names_the_method(tree, kTrlLoss))
    fail(ExitCode::kBadConfiguration, "TRL's cispo caps the ratio itself at epsilon_high, whose default there is ",
         "epsilon, 0.2: every token would count a fifth. Set epsilon_high to the cap, 5 for instance");
  if (level != "sequence") return method;
  if (!contains(kTrlClipped, word_of(value)))
    fail(ExitCode::kBadConfiguration, "a ", word_of(value), " with ", kSamplingLevel,
         "=sequence is no method of Keel's; remove ", kSamplingLevel, ", or set objective.method");
  return "gspo";
}

Json trl_aggregation(const Json& value, const ConfigTree& tree, const OptionTable&) {
  const bool ours = ours_names_the_method(tree, kTrlLoss) || said(tree, kAggregation) != nullptr;
  return ours ? kSetsNothing : Json(trl_loss(value).aggregation);
}

/// Read with loss_type.
Json sampling_level(const Json& value, const ConfigTree& tree, const OptionTable&) {
  if (word_of(value) == "token") return kSetsNothing;
  if (word_of(value) != "sequence")
    fail(ExitCode::kBadConfiguration, "got \"", word_of(value), "\", wanted token or sequence");
  if (said(tree, kTrlLoss) == nullptr || ours_names_the_method(tree, kTrlLoss))
    fail(ExitCode::kBadConfiguration, "a method says itself whether it looks at tokens or at sequences; remove it, or ",
         "set objective.method=gspo");
  return kSetsNothing;
}

Json openrlhf_loss(const Json& value, const ConfigTree& tree, const OptionTable&) {
  static const std::map<std::string, std::string> kMethods = {{"ppo", "ppo"}, {"gspo", "gspo"}};
  const std::string& method = one_of_words(kMethods, value, "or set objective.method; `keel methods` lists them");
  return method == "ppo" && word_at(tree, "advantage_estimator") == "gae" ? "ppo_gae" : method;
}

Json openrlhf_aggregation(const Json& value, const ConfigTree& tree, const OptionTable&) {
  if (ours_names_the_method(tree, kOpenRlhfLoss) || said(tree, kAggregation) != nullptr) return kSetsNothing;
  return word_of(value) == "gspo" ? "seq_mean_token_mean" : "token_mean";
}

// Advantages --------------------------------------------------------------------------------------------------------

Json verl_advantage(const Json& value, const ConfigTree& tree, const OptionTable&) {
  static const std::map<std::string, std::string> kWords = {{"gae", "gae"},
                                                            {"grpo", "grpo"},
                                                            {"grpo_vectorized", "grpo"},
                                                            {"rloo", "rloo"},
                                                            {"rloo_vectorized", "rloo"},
                                                            {"reinforce_plus_plus", "reinforce_pp"},
                                                            {"reinforce_plus_plus_baseline", "reinforce_pp_baseline"}};
  const std::string& word = one_of_words(kWords, value, "or set objective.advantage");
  const Json* by_deviation = said(tree, kNormByStd);
  return word == "grpo" && by_deviation != nullptr && *by_deviation == false ? "group_mean" : word;
}

Json verl_norm(const Json& value, const ConfigTree& tree, const OptionTable&) {
  if (!value.is_boolean()) fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted true or false");
  const std::string estimator = word_at(tree, kAdvEstimator);
  if (value == false && estimator != "grpo" && estimator != "grpo_vectorized")  // true is verl's default
    fail(ExitCode::kBadConfiguration, "it changes the advantages of grpo only, and ", kAdvEstimator, " is ",
         estimator.empty() ? "not set" : estimator, "; remove it");
  return kSetsNothing;  // read with adv_estimator
}

Json trl_advantage(const Json& value, const ConfigTree&, const OptionTable&) {
  static const std::map<std::string, std::string> kWords = {
      {"group", "grpo"}, {"true", "grpo"}, {"none", "group_mean"}, {"false", "group_mean"}};
  return one_of_words(kWords, value, "or set objective.advantage: grpo divides by the group's standard deviation");
}

/// What TRL 1.16.0 adds to the standard deviation of a group (grpo_trainer.py).
Json trl_advantage_eps(const Json& value, const ConfigTree& tree, const OptionTable&) {
  constexpr double kTrls = 1e-4;
  const bool ours = said(tree, "objective.advantage") != nullptr || said(tree, "objective.advantage_eps") != nullptr;
  return !ours && contains({"group", "true"}, word_of(value)) ? Json(kTrls) : kSetsNothing;
}

Json openrlhf_advantage(const Json& value, const ConfigTree&, const OptionTable&) {
  static const std::map<std::string, std::string> kWords = {
      {"gae", "gae"},   {"reinforce", "reinforce_pp"}, {"reinforce_baseline", "reinforce_pp_baseline"},
      {"rloo", "rloo"}, {"group_norm", "grpo"},        {"dr_grpo", "group_mean"}};
  return one_of_words(kWords, value, "or set objective.advantage");
}

// Bounds ------------------------------------------------------------------------------------------------------------

/// Who reads a setting: the losses of a program that have it.
struct Readers {
  std::string program, loss;
  Names losses;
};

const TrustRegion& chosen_region(const OptionTable& table) {
  return method_named(table.get("objective.method"), "objective.method is").region;
}

/// Refuses a bound on the ratio for a method of ours that has none, whatever other thresholds it may have.
void require_ratio_clip(const OptionTable& table) {
  if (properties(chosen_region(table)).clips_ratio) return;
  const bool holds_divergence = contains(parameter_names(chosen_region(table)), "divergence");
  fail(ExitCode::kBadConfiguration, "it bounds the ratio pi/mu, and the method ",
       word_of(table.get("objective.method")), holds_divergence ? " holds a divergence" : " has no such bound",
       "; set objective.delta, or choose a method ", "that clips the ratio, such as objective.method=grpo_clip_higher");
}

/// The program's own loss must read the setting; a method of ours must clip the ratio.
void require_reader(const Readers& readers, const ConfigTree& tree, const OptionTable& table) {
  if (said(tree, readers.loss) == nullptr || ours_names_the_method(tree, readers.loss))
    return require_ratio_clip(table);
  const std::string loss = word_at(tree, readers.loss);
  if (!contains(readers.losses, loss))
    fail(ExitCode::kBadConfiguration, readers.program, "'s loss ", loss, " never reads it; remove it");
}

/// Whether a value is the program's default of a setting that its loss does not read: a configuration that a program
/// writes down has all settings, and this one says nothing.
bool is_idle(const Readers& readers, const std::string& name, const Json& value, const ConfigTree& tree) {
  const Json* by_default = default_of(readers.program, name);
  return by_default != nullptr && value == *by_default && said(tree, readers.loss) != nullptr &&
         !ours_names_the_method(tree, readers.loss) && !contains(readers.losses, word_at(tree, readers.loss));
}

AliasConverter unless_idle(std::string name, Readers readers, AliasConverter converter) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable& table) -> Json {
    return is_idle(readers, name, value, tree) ? kSetsNothing : converter(value, tree, table);
  };
}

/// One side's bound of the ratio: "low" or "high".
AliasConverter bound(Readers readers, std::string side) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable& table) -> Json {
    if (value.is_null()) return kSetsNothing;
    require_reader(readers, tree, table);
    if (!contains(parameter_names(chosen_region(table)), side))
      fail(ExitCode::kBadConfiguration, "the method ", word_of(table.get("objective.method")), " has no bound \"", side,
           "\"; remove it");
    return value;
  };
}

/// A bound for both sides: of each that has no name of its own in the configuration and that the method has.
AliasConverter shared_bound(Readers readers, std::string side, std::string own_name = "") {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable& table) -> Json {
    if (value.is_null() || (!own_name.empty() && said(tree, own_name) != nullptr)) return kSetsNothing;
    require_reader(readers, tree, table);
    const Names names = parameter_names(chosen_region(table));
    const bool elsewhere = !contains(names, side) && contains(names, side == "low" ? "high" : "low");
    return elsewhere ? kSetsNothing : bound(readers, side)(value, tree, table);
  };
}

/// OpenRLHF has both in a list.
AliasConverter bound_of_two(Readers readers, size_t place) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable& table) -> Json {
    if (value.is_null()) return kSetsNothing;
    if (!value.is_array() || value.size() != 2)
      fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted a list of the lower and the upper bound");
    return bound(readers, place == 0 ? "low" : "high")(value[place], tree, table);
  };
}

/// TRL's upper bound, which for cispo is the largest ratio itself.
Json trl_upper_bound(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  if (value.is_null()) return kSetsNothing;
  const bool cap = !ours_names_the_method(tree, kTrlLoss) && word_at(tree, kTrlLoss) == "cispo";
  if (!cap) return bound({"TRL", kTrlLoss, kTrlClipped}, "high")(value, tree, table);
  if (!value.is_number() || value.get<double>() <= 1)
    fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted above 1: TRL's cispo caps the ratio itself at ",
         "epsilon_high, and below 1 every token would count less");
  return value.get<double>() - 1;
}

// Other parameters --------------------------------------------------------------------------------------------------

struct MappedParameter {
  std::string name, parameter;  // the other program's, and ours
};

Json assignment(const std::string& parameter, const Json& value) {
  if (!value.is_number()) fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted a number");
  return parameter + "=" + value.dump();
}

/// A parameter that belongs to one loss of a program's, or to a method of ours that has it.
void require_loss(const Readers& readers, const ConfigTree& tree) {
  if (ours_names_the_method(tree, readers.loss)) return;
  if (!contains(readers.losses, word_at(tree, readers.loss)))
    fail(ExitCode::kBadConfiguration, "it belongs to ", readers.program, "'s loss ", joined(readers.losses, " or "),
         ", which is not what is trained; remove it, or set ", readers.loss);
}

/// objective.parameters is one list: the first of the names that is there gives all of them.
AliasConverter together(std::vector<MappedParameter> all, size_t mine, Readers readers) {
  return [=](const Json&, const ConfigTree& tree, const OptionTable&) -> Json {
    Json list = Json::array();
    for (size_t i = 0; i < all.size(); ++i) {
      const Json* value = said(tree, all[i].name);
      if (value == nullptr || is_idle(readers, all[i].name, *value, tree)) continue;
      if (list.empty() && i != mine) return kSetsNothing;
      require_loss(readers, tree);
      list.push_back(assignment(all[i].parameter, *value));
    }
    return list.empty() ? kSetsNothing : list;
  };
}

/// The dual clip of a ratio clip.
AliasConverter dual_clip(Readers readers) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable& table) -> Json {
    if (value.is_null()) return kSetsNothing;
    require_reader(readers, tree, table);
    if (!contains(parameter_names(chosen_region(table)), "dual"))
      fail(ExitCode::kBadConfiguration, "it is the dual clip of PPO, and the method ",
           word_of(table.get("objective.method")), " has none; remove it");
    return Json::array({assignment("dual", value)});
  };
}

/// TRL's delta is the dual clip only above the upper bound: below it, it also cuts tokens of positive advantage, and
/// the clipped branch lets those of negative advantage through.
Json trl_dual_clip(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  const Json assigned = dual_clip({"TRL", kTrlLoss, kTrlClipped})(value, tree, table);
  const Json bound = table.get("objective.delta_high");
  if (assigned.is_discarded() || !bound.is_number() || value.get<double>() > 1 + bound.get<double>()) return assigned;
  fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted above 1 + epsilon_high, ",
       Json(1 + bound.get<double>()).dump(), ": below it TRL cuts tokens of positive advantage too, which Keel's dual ",
       "clip does not; raise it, or remove it");
}

/// verl's C is the dual clip of PPO and the cap of the ratio of DPPO.
bool is_dppo(const ConfigTree& tree) {
  return !ours_names_the_method(tree, kLossMode) && word_at(tree, kLossMode).starts_with("dppo");
}

Json verl_dual_clip(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  return is_dppo(tree) ? kSetsNothing : dual_clip({"verl", kLossMode, kVerlWithC})(value, tree, table);
}

Json verl_ratio_cap(const Json& value, const ConfigTree& tree, const OptionTable&) {
  return is_dppo(tree) ? value : kSetsNothing;
}

/// TRL's cispo has no lower bound.
Json trl_lower_bound_of_cispo(const Json& value, const ConfigTree& tree, const OptionTable&) {
  const bool is_cispo = word_of(value) == "cispo" && !ours_names_the_method(tree, kTrlLoss);
  return is_cispo ? Json::array({"low=null"}) : kSetsNothing;
}

void add_together(OptionTable& t, const std::vector<MappedParameter>& all, const char* source, const Readers& readers) {
  for (size_t i = 0; i < all.size(); ++i)
    t.alias(all[i].name, "objective.parameters", source, together(all, i, readers), all[i].parameter + "=VALUE");
}

}  // namespace

void add_objective_aliases(OptionTable& t) {
  const std::string low = "objective.delta_low", high = "objective.delta_high", others = "objective.parameters";
  const std::string ratio_only = "for a loss that clips the ratio";

  const Readers trl{"TRL", kTrlLoss, kTrlClipped}, trl_ppo{"TRL", "objective.method", {}};
  t.alias(kTrlLoss, "objective.method", "TRL", trl_method, "the row of that loss; gspo at the level of sequences");
  t.alias(kTrlLoss, "objective.aggregation", "TRL", trl_aggregation, "as that loss averages");
  t.alias(kTrlLoss, others, "TRL", trl_lower_bound_of_cispo, "low=null for cispo");
  t.alias(kSamplingLevel, "objective.method", "TRL", sampling_level, "see loss_type");
  t.alias("scale_rewards", "objective.advantage", "TRL", trl_advantage, "group is grpo, none is group_mean");
  t.alias("scale_rewards", "objective.advantage_eps", "TRL", trl_advantage_eps,
          "1e-4 for group, which TRL adds to the standard deviation");
  t.alias("epsilon", low, "TRL", unless_idle("epsilon", trl, shared_bound(trl, "low")), ratio_only);
  t.alias("epsilon", high, "TRL", unless_idle("epsilon", trl, shared_bound(trl, "high", "epsilon_high")),
          ratio_only + ", without epsilon_high");
  t.alias("epsilon_high", high, "TRL", trl_upper_bound, ratio_only + "; less 1 for cispo");
  t.alias("delta", others, "TRL", trl_dual_clip, "dual=VALUE, " + ratio_only + "; above 1 + epsilon_high");
  add_together(t, {{"sapo_temperature_pos", "tau_positive"}, {"sapo_temperature_neg", "tau_negative"}}, "TRL",
               {"TRL", kTrlLoss, {"sapo"}});
  add_together(t,
               {{"vespo_k_pos", "k_positive"},
                {"vespo_lambda_pos", "lambda_positive"},
                {"vespo_k_neg", "k_negative"},
                {"vespo_lambda_neg", "lambda_negative"}},
               "TRL", {"TRL", kTrlLoss, {"vespo"}});
  t.alias("cliprange", low, "TRL", shared_bound(trl_ppo, "low"), ratio_only);
  t.alias("cliprange", high, "TRL", shared_bound(trl_ppo, "high"), ratio_only);

  const Readers verl{"verl", kLossMode, kVerlBounded};
  const std::string as_verl = ratio_only + ", and as verl does for its dppo_tv and dppo_kl";
  t.alias(kLossMode, "objective.method", "verl", verl_loss,
          "vanilla is ppo (ppo_gae beside gae), geo_mean is gmpo, gpg is pg");
  t.alias(kAdvEstimator, "objective.advantage", "verl", verl_advantage,
          "reinforce_plus_plus is reinforce_pp, and so with _baseline");
  t.alias(kNormByStd, "objective.advantage", "verl", verl_norm, "false makes grpo group_mean");
  t.alias(kLossAggMode, "objective.aggregation", "verl", verl_aggregation,
          "with _ for -; nothing for sapo and geo_mean, which average by sequences");
  t.alias("actor_rollout_ref.actor.loss_scale_factor", "objective.horizon", "verl", unless_null, "the same number");
  t.alias(kClipRatio, low, "verl", shared_bound(verl, "low", kClipRatioLow), as_verl);
  t.alias(kClipRatio, high, "verl", shared_bound(verl, "high", kClipRatioHigh), as_verl);
  t.alias(kClipRatioLow, low, "verl", bound(verl, "low"), as_verl);
  t.alias(kClipRatioHigh, high, "verl", bound(verl, "high"), as_verl);
  t.alias(kClipRatioC, others, "verl", verl_dual_clip, "dual=VALUE, " + ratio_only);
  t.alias(kClipRatioC, "objective.ratio_cap", "verl", verl_ratio_cap, "for verl's dppo_tv and dppo_kl");
  add_together(t, {{kTauPositive, "tau_positive"}, {kTauNegative, "tau_negative"}}, "verl",
               {"verl", kLossMode, {"sapo"}});
  add_together(t, {{kDroBeta, "beta"}}, "verl", {"verl", kLossMode, {"dro"}});

  const Readers openrlhf{"OpenRLHF", kOpenRlhfLoss, {"ppo", "gspo"}};
  t.alias(kOpenRlhfLoss, "objective.method", "OpenRLHF", openrlhf_loss, "ppo is ppo_gae beside gae");
  t.alias(kOpenRlhfLoss, "objective.aggregation", "OpenRLHF", openrlhf_aggregation, "as that loss averages");
  t.alias("advantage_estimator", "objective.advantage", "OpenRLHF", openrlhf_advantage,
          "group_norm is grpo, dr_grpo is group_mean, reinforce is reinforce_pp, and so with _baseline");
  t.alias("eps_clip", low, "OpenRLHF", shared_bound(openrlhf, "low", "eps_clip_low_high"), ratio_only);
  t.alias("eps_clip", high, "OpenRLHF", shared_bound(openrlhf, "high", "eps_clip_low_high"), ratio_only);
  t.alias("eps_clip_low_high", low, "OpenRLHF", bound_of_two(openrlhf, 0), "the first");
  t.alias("eps_clip_low_high", high, "OpenRLHF", bound_of_two(openrlhf, 1), "the second");
  t.alias("dual_clip", others, "OpenRLHF", dual_clip({"OpenRLHF", kOpenRlhfLoss, {"ppo"}}), "dual=VALUE");
}

}  // namespace keel
