#include "keel/train/config/foreign_adapter.h"

#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/options/yaml_text.h"
#include "keel/model/network/lora_options.h"
#include "keel/train/config/foreign_names.h"

namespace keel {
namespace {

/// TRL has an adapter only where it is asked for one, whatever is said about it: by use_peft of its ModelConfig, or by
/// a LoraConfig, whose rank has a name that nothing else has.
constexpr const char *kUsePeft = "use_peft", *kPeftRank = "r";

bool is_peft_config(const ConfigTree& tree) {
  return said(tree, kPeftArguments) != nullptr || (said(tree, kUsePeft) == nullptr && said(tree, kPeftRank) != nullptr);
}

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

// Defaults ----------------------------------------------------------------------------------------------------------

/// A part of an adapter of which nothing is said.
struct AdapterDefault {
  std::string asked_by;  // the name that asks for the adapter
  std::string ours;
  std::string whose, name;  // who has the default, and under which name
  Json value;
  Names said_by;  // names that say it
};

const std::vector<AdapterDefault>& adapter_defaults() {
  const Json of_llama = Json::array({"q_proj", "v_proj"});
  const Names rank = {"lora_r", kPeftRank, "lora.rank"}, alpha = {"lora_alpha", "lora.alpha"},
              dropout = {"lora_dropout", "lora.dropout"},
              layers = {"lora_target_modules", "target_modules", "lora.target_modules"};
  static const std::vector<AdapterDefault> kDefaults = {
      {kUsePeft, "lora.rank", "TRL", "lora_r", 16, rank},
      {kUsePeft, "lora.alpha", "TRL", "lora_alpha", 32, alpha},
      {kUsePeft, "lora.target_modules", "PEFT", "target_modules", of_llama, layers},
      {kUsePeft, "lora.dropout", "TRL", "lora_dropout", 0.05, dropout},
      {kPeftArguments, "lora.rank", "PEFT", kPeftRank, 8, rank},
      {kPeftArguments, "lora.alpha", "PEFT", "lora_alpha", 8, alpha},
      {kPeftArguments, "lora.target_modules", "PEFT", "target_modules", of_llama, layers},
      {kPeftRank, "lora.alpha", "PEFT", "lora_alpha", 8, alpha},
      {kPeftRank, "lora.target_modules", "PEFT", "target_modules", of_llama, layers}};
  return kDefaults;
}

/// Beside use_peft, a default holds unless the part has a value, here or there.
AliasConverter default_of_adapter(Names said_by, Json by_default) {
  said_by.insert(said_by.end(), {"lora.adapter", kPeftArguments});  // which say it themselves
  return [=](const Json& value, const ConfigTree& tree, const OptionTable&) -> Json {
    if (!value.is_boolean()) fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted true or false");
    if (value == false && said(tree, kPeftArguments) != nullptr)
      fail(ExitCode::kBadConfiguration, "got false, which trains all weights, but there is a ", kPeftArguments,
           ", which asks for an adapter; remove one of the two");
    for (const char* key : {"lora.rank", "lora.adapter"})
      if (const Json* other = said(tree, key); value == false && other != nullptr && *other != 0 && *other != "")
        fail(ExitCode::kBadConfiguration, "got false, which trains all weights, but ", key, " is ", word_of(*other),
             "; remove one of the two");
    return !value.get<bool>() || is_said(tree, said_by) ? kSetsNothing : by_default;
  };
}

/// Beside a LoraConfig, or where its rank is all that says that there is an adapter.
AliasConverter default_of_peft(const std::string& asked_by, Names said_by, Json by_default) {
  if (asked_by == kPeftRank) said_by.insert(said_by.end(), {kUsePeft, kPeftArguments});  // whose defaults hold
  return [=](const Json&, const ConfigTree& tree, const OptionTable&) -> Json {
    return is_said(tree, said_by) ? kSetsNothing : by_default;
  };
}

AliasConverter converter_of(const AdapterDefault& part) {
  if (part.asked_by != kUsePeft) return default_of_peft(part.asked_by, part.said_by, part.value);
  const AliasConverter unless_off = default_of_adapter(part.said_by, part.value);
  if (part.ours != "lora.dropout") return unless_off;
  return [=](const Json& value, const ConfigTree& tree, const OptionTable& table) {
    return dropout_is_off(tree) ? kSetsNothing : unless_off(value, tree, table);
  };
}

// -------------------------------------------------------------------------------------------------------------------

/// A list of names or one, and PEFT's word for every linear layer.
Json target_modules(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  const Json list = list_of_names(value, tree, table);
  return list == Json::array({"all-linear"}) ? Json(LoraOptions().target_modules) : list;
}

const std::string kWithRank = "where lora_rank is above 0";

}  // namespace

std::string default_of_trl_adapter(const std::string& name, const std::string& ours) {
  for (const AdapterDefault& part : adapter_defaults())
    if (part.asked_by == name && part.ours == ours) return part.whose + "'s default of " + part.name;
  return "";
}

void add_trl_adapter(OptionTable& t) {
  const std::string with_peft = "where use_peft is true, or r is said; nothing where use_peft is false",
                    or_rank = "; OpenRLHF's, " + kWithRank;
  for (const AdapterDefault& part : adapter_defaults())
    t.alias(part.asked_by, part.ours, "TRL", converter_of(part),
            yaml_inline(part.value) + ", " + part.whose + "'s default, without " + part.name);
  t.alias("lora_r", "lora.rank", "TRL", of_the_adapter(rank_of_adapter), with_peft);
  t.alias(kPeftRank, "lora.rank", "TRL", of_the_adapter(rank_of_adapter), "of PEFT's LoraConfig");
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
