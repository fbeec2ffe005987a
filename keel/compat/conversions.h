#pragma once

#include <functional>

#include "keel/compat/key_table.h"

namespace keel::compat {

/// One value becomes a list of one.
Json list_of_one(const Json& value);
/// null says nothing.
Json unless_null(const Json& value);
/// A mapping of template arguments becomes ["name=value", ...]. The mapping may be JSON in a text.
Json template_arguments(const Json& value);
/// bfloat16, bf16, float16, fp16, half, float32, fp32, float; auto and null set nothing.
Json precision_name(const Json& value);
/// The words of AdamW become float32 or 8bit; any other optimizer is an error.
Json adamw_moments(const Json& value);
/// constant, constant_with_warmup, linear, cosine, cosine_with_min_lr; any other schedule is an error.
Json schedule_word(const Json& value);
/// "all-linear" becomes all our names; one name becomes a list of one.
Json adapter_layers(const Json& value);
/// kl, k1, mse, k2, low_var_kl, k3.
Json kl_estimator(const Json& value);
/// One tool or a list: tensorboard is record.tensorboard; of the others a remark says how to get there.
void set_tools(Import& recipe, const std::string& key);
/// A count of ours; 1 for anything else, which the check of the configuration tells.
int64_t count_of(const Import& recipe, const char* target);
/// Our word of "theirs=ours theirs=ours ..."; an Error lists theirs.
std::string one_of(const char* words, const Json& value);
/// The same of a key; empty, with an error about the key, if there is none.
std::string translated(Import& recipe, const std::string& key, const char* words);
/// The converted value of a key; discarded, with an error about the key, if there is none.
Json converted(Import& recipe, const std::string& key, const std::function<Json(const Json& value)>& conversion);
/// Sets a warm-up of ours from a key that is a share of the run.
void set_warmup_share(Import& recipe, const std::string& target, const std::string& key);

}  // namespace keel::compat
