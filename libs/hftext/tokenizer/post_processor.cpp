#include "libs/hftext/tokenizer/post_processor.h"

#include "keel/core/error.h"

namespace keel::text {
namespace {

constexpr size_t kMaxAddedTokens = 4096;  // a file of one megabyte could otherwise add millions

int32_t checked_id(const Json& id, int64_t vocabulary_size, const std::string& location) {
  const bool fits = id.is_number_unsigned() && id.get<uint64_t>() < static_cast<uint64_t>(vocabulary_size);
  if (!fits) {
    fail(ExitCode::kBadInput, location, ": the id ", preview(id), " has no token; it must be 0 to ",
         vocabulary_size - 1);
  }
  return id.get<int32_t>();
}

/// The ids of a special token in a template.
std::vector<int32_t> template_ids(const StrictObject& fields, const std::string& name, int64_t vocabulary_size) {
  const StrictObject all(fields.at("special_tokens"), fields.location() + ".special_tokens");
  const StrictObject token(all.at(name.c_str()), all.location() + "." + preview_text(name));
  token.allow_keys({"id", "ids", "tokens"});
  if (!token.at("ids").is_array()) token.fail_value("ids", "an array of ids");
  std::vector<int32_t> ids;
  for (const Json& id : token.at("ids")) ids.push_back(checked_id(id, vocabulary_size, token.location()));
  return ids;
}

}  // namespace

PostProcessor PostProcessor::from_json(const Json& post_processor, int64_t vocabulary_size,
                                       const std::string& location) {
  PostProcessor result;
  if (!post_processor.is_null()) result.add(StrictObject(post_processor, location), vocabulary_size);
  return result;
}

void PostProcessor::add(const StrictObject& fields, int64_t vocabulary_size) {
  const std::string type = fields.type();
  if (type == "Sequence") {
    fields.allow_keys({"processors"});
    for (const StrictObject& part : fields.list("processors")) add(part, vocabulary_size);
  } else if (type == "ByteLevel") {
    fields.allow_keys(
        {"add_prefix_space", "trim_offsets", "use_regex"});  // only affect offsets, which are not computed
  } else if (type == "TemplateProcessing") {
    add_template(fields, vocabulary_size);
  } else if (type == "BertProcessing") {
    fields.allow_keys({"sep", "cls"});
    add_pair(fields, vocabulary_size);
  } else if (type == "RobertaProcessing") {
    fields.allow_keys({"sep", "cls", "trim_offsets", "add_prefix_space"});
    add_pair(fields, vocabulary_size);
  } else {
    fields.fail_unknown_type("Sequence, TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing");
  }
}

void PostProcessor::add_template(const StrictObject& fields, int64_t vocabulary_size) {
  // The last three are ByteLevel keys without effect here; Command R's file has them.
  fields.allow_keys({"single", "pair", "special_tokens", "add_prefix_space", "trim_offsets", "use_regex"});
  std::vector<int32_t> before, after;
  bool has_sequence = false;
  for (const StrictObject& piece : fields.list("single")) {
    piece.allow_keys({"SpecialToken", "Sequence"});
    const char* kind = piece.has("Sequence") ? "Sequence" : "SpecialToken";
    const StrictObject token(piece.at(kind), piece.location() + "." + kind);
    token.allow_keys({"id", "type_id"});
    const std::string name = token.string("id");
    if (piece.has("Sequence")) {
      if (name != "A" || has_sequence) token.fail_value("id", "A, and once: this version encodes one text at a time");
      has_sequence = true;
      continue;
    }
    const std::vector<int32_t> ids = template_ids(fields, name, vocabulary_size);
    std::vector<int32_t>& side = has_sequence ? after : before;
    if (before.size() + after.size() + ids.size() > kMaxAddedTokens)
      fields.fail_value("single", "at most " + std::to_string(kMaxAddedTokens) + " tokens in total");
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (!has_sequence) fields.fail_value("single", "an array with the sequence A");
  set(std::move(before), std::move(after), fields);
}

/// Parses the form of BERT and RoBERTa: "cls": ["<s>", 0] before, "sep": ["</s>", 2] after.
void PostProcessor::add_pair(const StrictObject& fields, int64_t vocabulary_size) {
  const auto id = [&](const char* key) {
    const Json& value = fields.at(key);
    if (!value.is_array() || value.size() != 2 || !value[0].is_string()) fields.fail_value(key, "a token and its id");
    return checked_id(value[1], vocabulary_size, fields.location() + "." + key);
  };
  set({id("cls")}, {id("sep")}, fields);
}

void PostProcessor::set(std::vector<int32_t> before, std::vector<int32_t> after, const StrictObject& fields) {
  if (!before_.empty() || !after_.empty())
    fields.fail_value("type", "ByteLevel, because an earlier processor already adds tokens");
  before_ = std::move(before);
  after_ = std::move(after);
}

std::vector<int32_t> PostProcessor::apply(const std::vector<int32_t>& ids) const {
  std::vector<int32_t> result = before_;
  result.insert(result.end(), ids.begin(), ids.end());
  result.insert(result.end(), after_.begin(), after_.end());
  return result;
}

}  // namespace keel::text
