#include "keel/train/config/foreign_adapter.h"

#include <algorithm>

#include "keel/core/error.h"
#include "keel/model/network/lora_options.h"
#include "keel/train/config/foreign_names.h"

namespace keel {
namespace {

/// TRL has an adapter only where it is asked for one, whatever is said about it: by use_peft of its ModelConfig, or by
/// a LoraConfig, whose rank has a name that nothing else has.
constexpr const char *kUsePeft = "use_peft", *kPeftRank = "r";

bool is_peft_config(const ConfigTree& tree) { return said(tree, kUsePeft) == nullptr && said(tree, kPeftRank) != nullptr; }

AliasConverter of_the_adapter(AliasConverter converter = nullptr) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable& table) -> Json {
    const Json* used = said(tree, kUsePeft);
    if (used == nullptr && !is_peft_config(tree))
      fail(ExitCode::kBadConfiguration, "TRL reads it only where ", kUsePeft,
           " is true, and its default is false: all ",
           "weights are trained; set that too, or set lora.rank and the other keys of lora");
    if (used != nullptr && *used == false) return kSetsNothing;
    return converter ? converter(value, tree, table) : value;
  };
}

Json rank_of_adapter(const Json& value, const ConfigTree&, const OptionTable&) {
  if (value == 0)
    fail(ExitCode::kBadConfiguration, "got 0, but an adapter has a rank of at least 1; raise it, or set ", kUsePeft,
         " to false to train all weights");
  return value;
}

/// verl and OpenRLHF have an adapter where its rank is above 0.
constexpr const char *kVerlRank = "actor_rollout_ref.model.lora_rank", *kOpenRlhfRank = "lora_rank";

AliasConverter of_rank(std::string rank, AliasConverter converter = nullptr) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable& table) -> Json {
    const Json* used = said(tree, rank);
    if (used == nullptr)
      fail(ExitCode::kBadConfiguration, "it is about an adapter, and ", rank, " is not set, whose default is 0: all ",
           "weights are trained; set ", rank, ", or remove this");
    if (*used == 0) return kSetsNothing;
    return converter ? converter(value, tree, table) : value;
  };
}

/// For a name of TRL's and of OpenRLHF's.
AliasConverter of_either_adapter(AliasConverter converter = nullptr) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable& table) -> Json {
    const bool has_rank = said(tree, kOpenRlhfRank) != nullptr;
    return (has_rank ? of_rank(kOpenRlhfRank, converter) : of_the_adapter(converter))(value, tree, table);
  };
}

/// TRL can switch all dropout off.
bool dropout_is_off(const ConfigTree& tree) {
  const Json* off = said(tree, "disable_dropout");
  return off != nullptr && *off == true;
}

Json dropout_of_adapter(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  return dropout_is_off(tree) ? kSetsNothing : of_either_adapter()(value, tree, table);
}

bool is_said(const ConfigTree& tree, const Names& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return said(tree, name) != nullptr; });
}

/// TRL's default of a part of its adapter, which it has unless the part has a value, here or there.
AliasConverter default_of_adapter(Names said_by, Json by_default) {
  said_by.push_back("lora.adapter");  // which says it itself
  return [=](const Json& value, const ConfigTree& tree, const OptionTable&) -> Json {
    if (!value.is_boolean()) fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted true or false");
    for (const char* key : {"lora.rank", "lora.adapter"})
      if (const Json* other = said(tree, key); value == false && other != nullptr && *other != 0 && *other != "")
        fail(ExitCode::kBadConfiguration, "got false, which trains all weights, but ", key, " is ", word_of(*other),
             "; remove one of the two");
    return !value.get<bool>() || is_said(tree, said_by) ? kSetsNothing : by_default;
  };
}

Json default_dropout_of_adapter(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  return dropout_is_off(tree) ? kSetsNothing
                              : default_of_adapter({"lora_dropout", "lora.dropout"}, 0.05)(value, tree, table);
}

/// PEFT's default of a part, where a LoraConfig's rank is all that says that there is an adapter.
AliasConverter default_of_peft(Names said_by, Json by_default) {
  said_by.push_back(kUsePeft);  // whose defaults hold
  return [=](const Json&, const ConfigTree& tree, const OptionTable&) -> Json {
    return is_said(tree, said_by) ? kSetsNothing : by_default;
  };
}

/// A list of names or one, and PEFT's word for every linear layer.
Json target_modules(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  const Json list = list_of_names(value, tree, table);
  return list == Json::array({"all-linear"}) ? Json(LoraOptions().target_modules) : list;
}

const std::string kWithRank = "where lora_rank is above 0";

}  // namespace

void add_trl_adapter(OptionTable& t) {
  const Json of_llama = Json::array({"q_proj", "v_proj"});  // PEFT's, where nothing is said
  const std::string with_peft = "where use_peft is true, or r is said; nothing where use_peft is false",
                    or_rank = "; OpenRLHF's, " + kWithRank;
  const Names rank = {"lora_r", kPeftRank, "lora.rank"}, alpha = {"lora_alpha", "lora.alpha"},
              layers = {"lora_target_modules", "target_modules", "lora.target_modules"};
  t.alias(kUsePeft, "lora.rank", "TRL", default_of_adapter(rank, 16), "true without lora_r is 16");
  t.alias(kUsePeft, "lora.alpha", "TRL", default_of_adapter(alpha, 32), "true without lora_alpha is 32");
  t.alias(kUsePeft, "lora.target_modules", "TRL", default_of_adapter(layers, of_llama),
          "true without lora_target_modules is PEFT's default, q_proj and v_proj");
  t.alias(kUsePeft, "lora.dropout", "TRL", default_dropout_of_adapter, "true without lora_dropout is 0.05");
  t.alias("lora_r", "lora.rank", "TRL", of_the_adapter(rank_of_adapter), with_peft);
  t.alias(kPeftRank, "lora.rank", "TRL", of_the_adapter(rank_of_adapter), "of PEFT's LoraConfig");
  t.alias(kPeftRank, "lora.alpha", "TRL", default_of_peft(alpha, 8), "8, PEFT's default, without lora_alpha");
  t.alias(kPeftRank, "lora.target_modules", "TRL", default_of_peft(layers, of_llama),
          "q_proj and v_proj, PEFT's default, without target_modules");
  t.alias("lora_alpha", "lora.alpha", "TRL", of_either_adapter(), with_peft + or_rank);
  t.alias("lora_target_modules", "lora.target_modules", "TRL", of_the_adapter(target_modules), with_peft);
  t.alias("target_modules", "lora.target_modules", "TRL", of_either_adapter(target_modules),
          "of PEFT's LoraConfig, " + with_peft + or_rank);
  t.alias("lora_dropout", "lora.dropout", "TRL", dropout_of_adapter, with_peft + ", or disable_dropout true" + or_rank);
  t.alias("use_rslora", "lora.rank_stabilized", "TRL", of_the_adapter(), with_peft);
}

void add_adapter_aliases(OptionTable& t) {
  t.alias(kVerlRank, "lora.rank", "verl");
  t.alias("actor_rollout_ref.model.lora_alpha", "lora.alpha", "verl", of_rank(kVerlRank), kWithRank);
  t.alias("actor_rollout_ref.model.target_modules", "lora.target_modules", "verl", of_rank(kVerlRank, target_modules),
          kWithRank);
  t.alias(kOpenRlhfRank, "lora.rank", "OpenRLHF");
}

}  // namespace keel
