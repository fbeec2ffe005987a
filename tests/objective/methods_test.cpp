#include "keel/objective/methods.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "keel/core/options/options.h"
#include "keel/objective/advantage.h"
#include "keel/objective/aggregation.h"
#include "keel/objective/regions/region_parameters.h"
#include "tests/support/errors.h"

namespace keel {
namespace {

using Field = std::optional<double> ObjectiveOptions::*;

/// The option that sets each parameter.
const std::map<std::string, std::pair<std::string, Field>> kOptionOf{
    {"delta", {"delta", &ObjectiveOptions::delta}},
    {"low", {"delta_low", &ObjectiveOptions::delta_low}},
    {"high", {"delta_high", &ObjectiveOptions::delta_high}},
    {"ratio_cap", {"ratio_cap", &ObjectiveOptions::ratio_cap}}};

std::map<std::string, double> parameter_map(const TrustRegion& region) {
  std::map<std::string, double> result;
  for (const auto& [name, value] : number_parameters(region)) result[name] = value;
  return result;
}

TEST(Methods, HaveUniqueNamesAndDescriptions) {
  std::set<std::string> names;
  for (const Method& row : methods()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " is in the table twice";
    for (const std::string& text : {row.name, row.summary, row.equation, row.source})
      EXPECT_FALSE(text.empty()) << row.name;
  }
  for (const char* name : {"dppo_tv", "dppo_kl", "grpo", "grpo_clip_higher", "pg_is"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(Methods, UseAdvantagesAndAggregationsThatExist) {
  const std::vector<double> rewards{0, 1};
  const std::vector<int64_t> groups{0, 0}, valid{2, 3};
  for (const Method& row : methods()) {
    if (row.advantage != "gae") {  // needs a critic
      EXPECT_EQ(sequence_advantages(row.advantage, rewards, groups, std::vector<int64_t>{3, 1}).size(), 2u) << row.name;
    }
    EXPECT_EQ(sequence_weights(row.aggregation, valid, 8).size(), 2u) << row.name;
  }
}

TEST(Methods, HaveTheThresholdsOfThePapers) {
  const auto of = [](const char* name) { return parameter_map(make_region(name, Json::object())); };
  EXPECT_EQ(of("dppo_tv").at("low"), 0.2);  // arXiv 2602.04879, table of section 7
  EXPECT_EQ(of("dppo_tv").at("high"), 0.2);
  EXPECT_EQ(of("dppo_tv").at("ratio_cap"), 5);
  EXPECT_EQ(of("dppo_kl").at("low"), 0.05);
  EXPECT_EQ(of("dppo_kl").at("high"), 0.05);
  EXPECT_EQ(of("dppo_kl").at("ratio_cap"), 5);
  EXPECT_EQ(of("grpo").at("high"), 0.2);  // arXiv 1707.06347, table 1
  EXPECT_EQ(of("grpo_clip_higher").at("low"), 0.2);
  EXPECT_EQ(of("grpo_clip_higher").at("high"), 0.28);  // arXiv 2503.14476, section 4.1
  EXPECT_EQ(of("dppo_topk_tv").at("high"), 0.2);       // arXiv 2602.04879, appendix F
  EXPECT_EQ(of("minirl_tis").at("ratio_cap"), 3);      // arXiv 2602.04879, appendix C
  EXPECT_EQ(of("spo").at("eps"), 0.2);                 // arXiv 2401.16025
  EXPECT_EQ(of("gspo").at("low"), 3e-4);               // arXiv 2507.18071
  EXPECT_EQ(of("gspo").at("high"), 4e-4);
  EXPECT_EQ(of("m2po").at("budget"), 0.04);           // arXiv 2510.01161
  EXPECT_EQ(of("drpo").at("delta"), 0.5);             // default of Keel: see drpo.h
  EXPECT_EQ(of("cispo").at("low"), kUnlimited);       // arXiv 2506.13585: no lower bound
  EXPECT_EQ(of("grpo_relax_both").at("alpha"), 0.1);  // arXiv 2602.04879, section 6
  EXPECT_EQ(of("grpo_relax_both").at("high"), 0.28);
}

/// A value that is consistent with all defaults: 0.3125, except for upper bounds of ratios.
double possible_value(const std::string& parameter) {
  const bool upper =
      parameter == "dual" || parameter == "gap_high" || parameter == "gate_high" || parameter == "sigma_high" || parameter == "horizon";
  return parameter == "k" ? 3 : upper ? 3.125 : 0.3125;
}

TEST(MakeObjective, SetsEveryParameterOfEveryMethodAndNoOther) {
  int set = 0;
  for (const Method& row : methods()) {
    const std::map<std::string, double> defaults = parameter_map(row.region);
    for (const auto& [name, value] : defaults) {
      if (name == "k" && requirements(row.region).top_k == 0) continue;  // has no effect
      ObjectiveOptions options{.method = row.name};
      std::map<std::string, double> want = defaults;
      want[name] = possible_value(name);
      options.parameters = {name + "=" + std::to_string(want[name])};
      EXPECT_EQ(parameter_map(make_objective(options, 1).method.region), want) << row.name << "." << name;
      if (!kOptionOf.contains(name)) continue;
      options.parameters = {};
      options.*kOptionOf.at(name).second = want[name];
      EXPECT_EQ(parameter_map(make_objective(options, 1).method.region), want) << row.name << "." << name;
      ++set;
    }
  }
  EXPECT_GT(set, 20);
}

TEST(MakeObjective, RejectsAParameterThatTheMethodDoesNotHave) {
  int refused = 0;
  for (const Method& row : methods()) {
    for (const auto& [name, option] : kOptionOf) {
      if (parameter_map(row.region).contains(name)) continue;
      if (name == "delta" && parameter_map(row.region).contains("low")) continue;  // sets both
      ObjectiveOptions options{.method = row.name};
      options.*option.second = 0.5;
      EXPECT_THAT(error_of(2, [&] { make_objective(options, 1); }),
                  AllOf(HasSubstr("objective." + option.first), HasSubstr(row.name)));
      ++refused;
    }
  }
  EXPECT_GE(refused, 4);  // gspo and spo have no ratio_cap, pg_is has no thresholds
}

TEST(MakeObjective, AcceptsEnumNamesNoneAndNullAsParameterValues) {
  ObjectiveOptions options{.method = "dppo_tv"};
  options.parameters = {" divergence = binary_kl", "high=null", "C=none"};
  const Objective objective = make_objective(options, 1);
  const Dppo& region = std::get<Dppo>(objective.method.region);
  EXPECT_EQ(region.divergence, Divergence::kBinaryKl);
  EXPECT_EQ(region.high, kUnlimited);
  EXPECT_EQ(region.ratio_cap, kUnlimited);
  EXPECT_EQ(region.low, 0.2);
  options.parameters = {"low=0.1", "low=0.2"};
  EXPECT_THAT(error_of(2, [&] { make_objective(options, 1); }), HasSubstr("keep one"));
  for (const char* wrong :
       {"width=1", "low=0", "low=-1", "ratio_cap=wide", "divergence=js", "divergence=0", "ratio_cap"}) {
    options.parameters = {wrong};
    const std::string message = error_of(2, [&] { make_objective(options, 1); }), name(wrong);
    EXPECT_THAT(message, HasSubstr(name.substr(0, name.find('='))));
  }
}

TEST(MakeObjective, AcceptsAnAnchorIfTheMethodSupportsIt) {
  ObjectiveOptions options{.method = "dppo_tv"};
  options.anchor = "recomputed";
  EXPECT_EQ(std::get<Dppo>(make_objective(options, 1).method.region).anchor, Anchor::kRecomputed);
  EXPECT_TRUE(make_objective(options, 1).requirements().recomputed_logp);
  options.parameters = {"anchor=behavior"};
  EXPECT_THAT(error_of(2, [&] { make_objective(options, 1); }), HasSubstr("objective.anchor"));
  options.parameters = {};
  options.method = "drpo";
  EXPECT_THAT(error_of(2, [&] { make_objective(options, 1); }), HasSubstr("one anchor only"));
}

TEST(MakeObjective, AcceptsEveryMethod) {
  for (const Method& row : methods()) EXPECT_EQ(make_objective({.method = row.name}, 1).method.name, row.name);
}

TEST(MakeObjective, RequiresValuesForGae) {
  EXPECT_FALSE(make_objective({.method = "ppo"}, 1).requirements().value);
  EXPECT_TRUE(make_objective({.method = "ppo_gae"}, 1).requirements().value);
  EXPECT_FALSE(make_objective({.method = "ppo_gae", .advantage = "grpo"}, 1).requirements().value);
  for (const Method& row : methods()) {
    const ObjectiveOptions options{.method = row.name, .advantage = "gae"};
    if (requirements(row.region).scope == Scope::kSequence) {
      EXPECT_THAT(error_of(2, [&] { make_objective(options, 1); }), HasSubstr("decides per sequence"));
    } else {
      EXPECT_TRUE(make_objective(options, 1).requirements().value) << row.name;
    }
  }
}

TEST(MakeObjective, RejectsSettingsWithoutEffect) {
  const auto refusal = [](const ObjectiveOptions& options) { return error_of(2, [&] { make_objective(options, 1); }); };
  const auto expect_words = [](const std::string& message, std::initializer_list<const char*> words) {
    for (const char* word : words) EXPECT_THAT(message, HasSubstr(word));
  };
  expect_words(refusal({.method = "dppo_tv", .delta = 0.3, .delta_low = 0.1, .delta_high = 0.2}),
               {"objective.delta is 0.3", "delta_low, 0.1", "delta_high, 0.2", "Remove one"});
  // ds_v32 has low, high and delta.
  const Objective three = make_objective({.method = "ds_v32", .delta = 0.3, .delta_low = 0.1, .delta_high = 0.2}, 1);
  EXPECT_EQ(parameter_map(three.method.region).at("delta"), 0.3);
  expect_words(refusal({.method = "grpo", .horizon = 12}), {"objective.horizon is 12", "seq_mean_token_mean", "grpo"});
  expect_words(refusal({.method = "dppo_tv", .aggregation = "token_mean", .horizon = 12}), {"horizon", "token_mean"});
  EXPECT_EQ(make_objective({.method = "dppo_tv", .horizon = 12}, 1).length_divisor, 12);
  expect_words(refusal({.method = "dppo_tv", .delta_low = 0.1, .parameters = {"low=0.2"}}),
               {"low=0.2", "objective.delta_low", "keep one"});
  expect_words(refusal({.method = "dppo_tv", .ratio_cap = 3, .parameters = {"C=2"}}), {"C=2", "objective.ratio_cap"});
  expect_words(refusal({.method = "gspo", .advantage = "gae"}), {"objective.advantage", "gae", "gspo", "group_mean"});
}

struct Refused {
  ObjectiveOptions options;
  std::vector<const char*> words;
};

TEST(MakeObjective, RejectsContradictoryParametersAndNamesTheKey) {
  const auto by_name = [](const char* method, std::vector<std::string> parameters) {
    ObjectiveOptions options{.method = method};
    options.parameters = std::move(parameters);
    return options;
  };
  const auto with_anchor = [](const char* method) {
    ObjectiveOptions options{.method = method};
    options.anchor = "recomputed";
    return options;
  };
  const std::vector<Refused> cases{
      {by_name("cppo", {"quantile=1.5"}), {"objective.parameters", "quantile", "from 0 to 1"}},
      {by_name("cppo", {"w_min=1.1"}), {"objective.parameters", "w_min", "from 0 to 1"}},
      {by_name("cppo", {"delta_b=0.1", "delta_b_max=0.05"}), {"objective.parameters", "delta_b is 0.1", "0.05"}},
      {by_name("cppo", {"horizon=2", "w_min=0"}), {"objective.parameters", "horizon is 2", "12 tokens"}},
      {by_name("mis", {"gap_low=4"}), {"objective.parameters", "gap_low is 4", "gap_high is 3"}},
      {by_name("icepop_direct", {"ratio_high=0.1"}), {"objective.parameters", "ratio_low is 0.2", "ratio_high is 0.1"}},
      {by_name("maspo", {"sigma=20"}), {"objective.parameters", "sigma is 20", "sigma_high is 10"}},
      {by_name("maspo", {"factor_high=0.05"}), {"objective.parameters", "factor_low is 0.1"}},
      {by_name("ppo", {"dual=0.5"}), {"objective.parameters", "dual", "from 1 to 1e20"}},
      {by_name("pg_tis", {"C=2", "ratio_cap=3"}), {"objective.parameters", "ratio_cap=3", "keep one"}},
      {by_name("dppo_tv", {"divergence=k3"}), {"objective.parameters", "divergence is k3", "binary_tv"}},
      {by_name("drpo", {"divergence=k1"}), {"objective.parameters", "divergence is k1"}},
      {by_name("dppo_tv", {"k=8"}), {"objective.parameters", "k is 8", "topk_tv"}},
      {by_name("trm_max", {"k=8"}), {"objective.parameters", "k is 8", "topk_tv"}},
      {by_name("dppo_kl", {"support=replace_last"}), {"objective.parameters", "support is replace_last", "topk_tv"}},
      {by_name("drpo", {"support=replace_last"}), {"objective.parameters", "support is replace_last", "or no support"}},
      {by_name("dppo_topk_tv", {"k=0"}), {"objective.parameters", "k", "from 1 to 128"}},
      {by_name("dppo_topk_tv", {"k=129"}), {"objective.parameters", "129", "from 1 to 128"}},
      {by_name("drpo_topk_kl", {"k=2.5"}), {"objective.parameters", "2.5", "whole number"}},
      {by_name("dppo_topk_tv", {"k=null"}), {"objective.parameters", "none", "whole number"}},
      {by_name("grpo_relax_low", {"alpha=1.5"}), {"objective.parameters", "alpha", "from 0 to 1"}},
      {by_name("dro", {"beta=1e300"}), {"objective.parameters", "beta", "1e+300", "to 1e20"}},
      {with_anchor("dppo_topk_kl"), {"objective.anchor", "topk_kl", "binary_tv"}},
      {{.method = "dppo_tv", .delta = 2.0}, {"objective.delta", "low is 2", "at most 1", "none"}},
      {{.method = "dppo_tv", .delta_high = 1.5}, {"objective.delta_high", "high is 1.5", "at most 1"}},
      {{.method = "minimal_mask", .delta = 2.0}, {"objective.delta", "at most 1"}},
      {{.method = "drpo", .delta = 1e300}, {"objective.delta", "1e+300", "1e-20 to 1e20"}},
      {{.method = "drpo", .delta = 1e-40}, {"objective.delta", "1e-40", "above 0"}}};
  for (const Refused& one : cases) {
    const std::string message = error_of(2, [&] { make_objective(one.options, 12); });
    for (const char* word : one.words) EXPECT_THAT(message, HasSubstr(word));
  }
  EXPECT_NO_THROW(make_objective(by_name("dppo_topk_tv", {"support=replace_last", "k=8"}), 12));
  EXPECT_NO_THROW(make_objective(by_name("drpo", {"divergence=topk_tv", "support=replace_last"}), 12));
  EXPECT_EQ(parameter_map(make_objective({.method = "drpo", .delta = 12.5}, 1).method.region).at("delta"), 12.5);
  EXPECT_EQ(parameter_map(make_objective({.method = "dppo_kl", .delta = 2.0}, 1).method.region).at("low"), 2);
  make_objective(by_name("trm_max", {"divergence=k3"}), 1);
  make_objective(by_name("cppo", {"horizon=12", "w_min=0"}), 12);
}

TEST(MakeObjective, SuggestsASettingInPlaceOfAnUnsupportedOne) {
  const std::map<std::string, const char*> working{{"spo", "objective.parameters='[\"eps=0.5\"]'"},
                                                   {"tvpo", "objective.parameters='[\"clip=0.5\"]'"},
                                                   {"m2po", "objective.parameters='[\"budget=0.5\"]'"},
                                                   {"ipo", "objective.parameters='[\"threshold=0.5\"]'"},
                                                   {"dro", "objective.parameters='[\"beta=0.5\"]'"},
                                                   {"pg", "it has none. Remove"},
                                                   {"pg_is", "it has: ratio_cap. Remove"}};
  for (const auto& [method, hint] : working) {
    EXPECT_THAT(error_of(2, [&] { make_objective({.method = method, .delta = 0.5}, 1); }),
                AllOf(HasSubstr(hint), HasSubstr("objective.delta is 0.5")));
  }
  const std::string cap = error_of(2, [] { make_objective({.method = "gspo", .ratio_cap = 3.0}, 1); });
  EXPECT_THAT(cap, Not(HasSubstr("objective.parameters")));  // no parameter replaces a ratio cap
  const Objective one_sided = make_objective({.method = "up_grpo", .delta = 0.5}, 1);  // has only low
  EXPECT_EQ(parameter_map(one_sided.method.region).at("low"), 0.5);
}

TEST(MakeObjective, AcceptsTheMethodNamesOfThePapers) {
  EXPECT_EQ(make_objective({.method = "ppo_clip"}, 1).method.name, "ppo");
  EXPECT_EQ(make_objective({.method = "dppo_binary_tv"}, 1).method.name, "dppo_tv");
  EXPECT_EQ(make_objective({.method = "dppo_binary_kl"}, 1).method.name, "dppo_kl");
  // verl names of methods with other defaults are suggested, not accepted.
  EXPECT_THAT(error_of(2, [] { make_objective({.method = "vanilla"}, 1); }), HasSubstr("did you mean ppo?"));
  EXPECT_THAT(error_of(2, [] { make_objective({.method = "geo_mean"}, 1); }), HasSubstr("did you mean gmpo?"));
}

TEST(MakeObjective, AdaptsOnlyThresholdsOfMasks) {
  ObjectiveOptions options{.method = "dppo_tv", .parameters = {"target_kept=0.99"}};
  EXPECT_EQ(make_objective(options, 1).target_kept, 0.99);
  for (const char* method : {"drpo", "pg_is", "up_grpo", "m2po", "cispo"}) {  // delta, none, only low, budget, a clip
    options.method = method;
    EXPECT_THAT(error_of(2, [&] { make_objective(options, 1); }),
                AllOf(HasSubstr("objective.parameters has target_kept=0.99"), HasSubstr(method)));
  }
  options.method = "dppo_tv";
  options.parameters = {"low=null", "target_kept=0.99"};  // an infinite threshold cannot adapt
  EXPECT_THAT(error_of(2, [&] { make_objective(options, 1); }), HasSubstr("a finite number above 0"));
}

TEST(MakeObjective, RequiresReferenceLogProbsOnlyWithAReferenceKl) {
  EXPECT_FALSE(make_objective({}, 1).requirements().reference_logp);
  EXPECT_FALSE(make_objective({}, 1, {.kl_coefficient = 0, .estimator = "k1"}).requirements().reference_logp);
  const Objective pulled = make_objective({}, 1, {.kl_coefficient = 0.1, .estimator = "k2"});
  EXPECT_TRUE(pulled.requirements().reference_logp);
  EXPECT_EQ(pulled.kl_estimator, KlEstimator::kK2);
}

TEST(MakeRegion, RejectsUnknownMethodsParametersAndEnumNames) {
  EXPECT_THAT(error_of(2, [] { make_region("dpo", Json::object()); }), HasSubstr("\"dpo\""));
  EXPECT_THAT(error_of(2, [] { make_region("spo", {{"delta", 1}}); }), HasSubstr("it has: eps"));
  EXPECT_THAT(error_of(2, [] { make_region("spo", {{"eps", "wide"}}); }), HasSubstr("a number"));
  EXPECT_THAT(error_of(2, [] { make_region("tvpo", {{"scope", "token"}}); }), HasSubstr("group, batch"));
  EXPECT_THAT(error_of(2, [] { make_region("pg", {{"low", 1}}); }), HasSubstr("it has none"));
  EXPECT_THAT(error_of(2, [] { make_region("pg_tis", {{"C", 1}, {"ratio_cap", 2}}); }), HasSubstr("keep one"));
  EXPECT_EQ(std::get<Topr>(make_region("topr", {{"length_normalized", false}})).length_normalized, Switch::kOff);
}

TEST(Requirements, RequestTheTopKOfTheParameters) {
  for (const char* method : {"dppo_topk_tv", "dppo_topk_kl", "drpo_topk_tv", "drpo_topk_kl"}) {
    EXPECT_EQ(requirements(make_region(method, Json::object())).top_k, 20) << method;
    for (const int64_t k : {1, 7, 64}) EXPECT_EQ(requirements(make_region(method, {{"k", k}})).top_k, k) << method;
  }
  for (const char* method : {"trm_max", "trm_avg", "dppo_kl", "drpo"})
    EXPECT_EQ(requirements(make_region(method, {{"k", 7}, {"divergence", "topk_kl"}})).top_k, 7) << method;
  EXPECT_EQ(make_objective({.method = "dppo_topk_tv", .parameters = {"k=7"}}, 1).requirements().top_k, 7);
}

TEST(MakeRegion, AcceptsEveryEnumNameOfEveryRegion) {
  int checked = 0;
  for (const Method& row : methods()) {
    for (const auto& [name, word] : choice_parameters(row.region)) {
      TrustRegion region = make_region(row.name, {{name, word}});
      EXPECT_EQ(choice_parameters(region), choice_parameters(row.region)) << row.name << "." << name;
      ++checked;
    }
  }
  EXPECT_GT(checked, 30);
}

TEST(Requirements, DependOnTheEnumParametersOfARegion) {
  int anchors = 0, divergences = 0, levels = 0;
  for (const Method& row : methods()) {
    for (const auto& [name, word] : choice_parameters(row.region)) {
      const auto with = [&, parameter = name](const char* value) {
        Json words{{parameter, value}};
        const bool from_the_sampler =
            row.name.find("topk") != std::string::npos || row.name.find("full") != std::string::npos;
        if (parameter == "anchor" && from_the_sampler)
          words["divergence"] = "binary_tv";  // others support only one anchor
        return requirements(make_region(row.name, words));
      };
      if (name == "anchor") {
        EXPECT_TRUE(with("recomputed").recomputed_logp) << row.name;
        EXPECT_FALSE(with("behavior").recomputed_logp) << row.name;
        ++anchors;
      } else if (name == "divergence") {
        EXPECT_EQ(with("topk_kl").top_k, 20) << row.name;  // arXiv 2602.04879, appendix F.3
        EXPECT_TRUE(with("full_tv").hidden_states) << row.name;
        EXPECT_EQ(with("binary_tv").top_k, 0) << row.name;
        EXPECT_FALSE(with("binary_tv").hidden_states) << row.name;
        ++divergences;
      } else if (name == "level") {
        EXPECT_EQ(with("sequence").scope, Scope::kSequence) << row.name;
        EXPECT_EQ(with("token").scope, Scope::kToken) << row.name;
        ++levels;
      }
    }
  }
  EXPECT_GE(anchors, 10);
  EXPECT_GE(divergences, 6 + 5 + 2);  // DPPO, DRPO, TRM and newer methods
  EXPECT_GE(levels, 3);
}

TEST(Methods, IncludeEveryRegion) {
  std::set<size_t> regions;
  for (const Method& row : methods()) regions.insert(row.region.index());
  EXPECT_EQ(regions.size(), std::variant_size_v<TrustRegion>);
}

TEST(MakeObjective, SetsBothThresholdsByDeltaUnlessANarrowerKeyIsSet) {
  const Objective both = make_objective({.method = "dppo_tv", .delta = 0.5}, 1);
  EXPECT_EQ(parameter_map(both.method.region).at("low"), 0.5);
  EXPECT_EQ(parameter_map(both.method.region).at("high"), 0.5);
  const Objective one = make_objective({.method = "dppo_tv", .delta = 0.5, .delta_high = 0.25}, 1);
  EXPECT_EQ(parameter_map(one.method.region).at("low"), 0.5);
  EXPECT_EQ(parameter_map(one.method.region).at("high"), 0.25);
}

TEST(MakeObjective, UsesTheDefaultsOfTheMethodUnlessOverridden) {
  const Objective plain = make_objective({.method = "grpo"}, 96);
  EXPECT_EQ(plain.method.advantage, "grpo");
  EXPECT_EQ(plain.method.aggregation, "seq_mean_token_mean");
  EXPECT_EQ(plain.length_divisor, 96);
  ObjectiveOptions options{.method = "grpo"};
  options.advantage = "group_mean";
  options.aggregation = "seq_mean_token_sum_norm";
  options.horizon = 12;
  const Objective changed = make_objective(options, 96);
  EXPECT_EQ(changed.method.advantage, "group_mean");
  EXPECT_EQ(changed.method.aggregation, "seq_mean_token_sum_norm");
  EXPECT_EQ(changed.length_divisor, 12);
}

TEST(MakeObjective, RejectsAnUnknownMethod) {
  EXPECT_THAT(error_of(2, [] { make_objective({.method = "dpo"}, 1); }), HasSubstr("\"dpo\""));
}

// TRPO, VAPO and OPO are different methods, and the next five learn from preferences.
TEST(MakeObjective, DoesNotSuggestADifferentMethodForAKnownOne) {
  for (const char* other : {"trpo", "vapo", "opo", "dpo", "DPO", "kto", "orpo", "rpo", "xpo", "bspo"}) {
    EXPECT_THAT(error_of(2, [&] { make_objective({.method = other}, 1); }),
                AllOf(Not(HasSubstr("did you mean")), HasSubstr("`keel methods`")));
  }
  for (const auto& [slip, meant] : {std::pair("gpro", "grpo"), {"GRPO", "grpo"}, {"gsp", "gspo"}, {"ggrpo", "grpo"}})
    EXPECT_THAT(error_of(2, [&, slip = slip] { make_objective({.method = slip}, 1); }),
                HasSubstr("did you mean " + std::string(meant) + "?"))
        << slip;
}

TEST(MakeObjective, SuggestsTheNearestMethod) {
  EXPECT_THAT(error_of(2, [] { make_objective({.method = "dpo_tv"}, 1); }), HasSubstr("did you mean dppo_tv"));
}

TEST(ObjectiveOptions, HaveValidDefaults) {
  ObjectiveOptions options;
  OptionTable table;
  table.section("objective", "", options);
  EXPECT_NO_THROW(table.load({}));
}

}  // namespace
}  // namespace keel
