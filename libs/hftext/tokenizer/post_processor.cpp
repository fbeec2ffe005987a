#include "libs/hftext/tokenizer/post_processor.h"

#include <limits>

#include "keel/core/error.h"

namespace keel::text {
namespace {

constexpr size_t kMostAdded = 4096;  // tokens around a text; a file of a megabyte could ask for millions

int32_t checked_id(const Json& id, int64_t tokens, const std::string& place) {
  const bool fits = id.is_number_unsigned() && id.get<uint64_t>() < static_cast<uint64_t>(tokens);
  if (!fits) {
    fail(ExitCode::kBadInput, place, ": the id ", shown(id), " has no token; it must be 0 to ", tokens - 1);
  }
  return id.get<int32_t>();
}

/// The ids that a template's special token stands for.
std::vector<int32_t> template_ids(const Component& fields, const std::string& name, int64_t tokens) {
  const Component all(fields.at("special_tokens"), fields.place() + ".special_tokens");
  const Component token(all.at(name.c_str()), all.place() + "." + shown_text(name));
  token.only({"id", "ids", "tokens"});
  if (!token.at("ids").is_array()) token.refuse("ids", "an array of ids");
  std::vector<int32_t> ids;
  for (const Json& id : token.at("ids")) ids.push_back(checked_id(id, tokens, token.place()));
  return ids;
}

}  // namespace

PostProcessor PostProcessor::from_json(const Json& post_processor, int64_t tokens, const std::string& place) {
  PostProcessor result;
  if (!post_processor.is_null()) result.add(Component(post_processor, place), tokens);
  return result;
}

void PostProcessor::add(const Component& fields, int64_t tokens) {
  const std::string type = fields.type();
  if (type == "Sequence") {
    fields.only({"processors"});
    for (const Component& part : fields.list("processors")) add(part, tokens);
  } else if (type == "ByteLevel") {
    fields.only({"add_prefix_space", "trim_offsets", "use_regex"});  // about offsets, which nobody asks for here
  } else if (type == "TemplateProcessing") {
    add_template(fields, tokens);
  } else if (type == "BertProcessing") {
    fields.only({"sep", "cls"});
    add_pair(fields, tokens);
  } else if (type == "RobertaProcessing") {
    fields.only({"sep", "cls", "trim_offsets", "add_prefix_space"});
    add_pair(fields, tokens);
  } else {
    fields.refuse_type("Sequence, TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing");
  }
}

void PostProcessor::add_template(const Component& fields, int64_t tokens) {
  // The last three are a ByteLevel's and mean nothing here; Command R has them.
  fields.only({"single", "pair", "special_tokens", "add_prefix_space", "trim_offsets", "use_regex"});
  std::vector<int32_t> before, after;
  bool seen = false;
  for (const Component& piece : fields.list("single")) {
    piece.only({"SpecialToken", "Sequence"});
    const char* kind = piece.has("Sequence") ? "Sequence" : "SpecialToken";
    const Component token(piece.at(kind), piece.place() + "." + kind);
    token.only({"id", "type_id"});
    const std::string name = token.string("id");
    if (piece.has("Sequence")) {
      if (name != "A" || seen) token.refuse("id", "A, and once: this version encodes one text at a time");
      seen = true;
      continue;
    }
    const std::vector<int32_t> ids = template_ids(fields, name, tokens);
    std::vector<int32_t>& side = seen ? after : before;
    if (before.size() + after.size() + ids.size() > kMostAdded)
      fields.refuse("single", "at most " + std::to_string(kMostAdded) + " tokens in all");
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (!seen) fields.refuse("single", "an array with the sequence A");
  set(std::move(before), std::move(after), fields);
}

/// BERT's and RoBERTa's form: "cls": ["<s>", 0] before, "sep": ["</s>", 2] after.
void PostProcessor::add_pair(const Component& fields, int64_t tokens) {
  const auto id = [&](const char* key) {
    const Json& value = fields.at(key);
    if (!value.is_array() || value.size() != 2 || !value[0].is_string()) fields.refuse(key, "a token and its id");
    return checked_id(value[1], tokens, fields.place() + "." + key);
  };
  set({id("cls")}, {id("sep")}, fields);
}

void PostProcessor::set(std::vector<int32_t> before, std::vector<int32_t> after, const Component& fields) {
  if (!before_.empty() || !after_.empty())
    fields.refuse("type", "ByteLevel, as an earlier processor adds tokens already");
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
