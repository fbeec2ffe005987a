#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/json.h"
#include "libs/hftext/tokenizer/strict_object.h"

namespace keel::text {

/// The "post_processor" of tokenizer.json for a single text: tokens added before and after it.
class PostProcessor {
 public:
  /// Null means no added tokens. Ids must be below `vocabulary_size`.
  static PostProcessor from_json(const Json& post_processor, int64_t vocabulary_size, const std::string& location);

  std::vector<int32_t> apply(const std::vector<int32_t>& ids) const;

 private:
  void add(const StrictObject& fields, int64_t vocabulary_size);
  void add_template(const StrictObject& fields, int64_t vocabulary_size);
  void add_pair(const StrictObject& fields, int64_t vocabulary_size);
  void set(std::vector<int32_t> before, std::vector<int32_t> after, const StrictObject& fields);

  std::vector<int32_t> before_, after_;
};

}  // namespace keel::text
