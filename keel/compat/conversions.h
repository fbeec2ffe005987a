#pragma once

#include <functional>

#include "keel/compat/key_table.h"

namespace keel::compat {

/// Converts a single value to a list.
Json to_list(const Json& value);
/// Converts null to no value.
Json skip_null(const Json& value);
Json negative_to_zero(const Json& value);
/// Converts a mapping to ["name=value", ...]. The mapping may be JSON in a string.
Json to_assignments(const Json& value);
/// bfloat16, bf16, float16, fp16, half, float32, fp32, float; auto and null set nothing.
Json to_precision(const Json& value);
/// Converts the names of AdamW to float32 or 8bit. Other optimizers are an error.
Json to_moments(const Json& value);
/// Accepts constant, constant_with_warmup, linear, cosine and cosine_with_min_lr.
Json to_schedule(const Json& value);
/// Converts "all-linear" to all target modules of Keel, and a single name to a list.
Json to_target_modules(const Json& value);
/// kl, k1, mse, k2, low_var_kl, k3.
Json kl_estimator(const Json& value);
/// Handles a tracker or a list of them: sets record.tensorboard, adds a remark for others.
void set_trackers(Import& recipe, const std::string& key);
/// Returns a positive Keel setting, or 1 for invalid values, which the validation reports.
int64_t keel_count(const Import& recipe, const char* target);
/// Looks a value up in "name=keel_name name=keel_name ...". Throws an Error with all names if it is missing.
std::string look_up(const char* pairs, const Json& value);
/// Looks the value of a key up in the same way. Adds an error about the key and returns "" if it is missing.
std::string translate(Import& recipe, const std::string& key, const char* pairs);
/// Converts the value of a key. Adds an error about the key and returns kNoValue if that fails.
Json convert_key(Import& recipe, const std::string& key, const std::function<Json(const Json& value)>& conversion);
/// Sets a warm-up setting from a key that is a fraction of the run.
void set_warmup_fraction(Import& recipe, const std::string& target, const std::string& key);

}  // namespace keel::compat
