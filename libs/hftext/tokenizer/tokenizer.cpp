#include "libs/hftext/tokenizer/tokenizer.h"

#include <array>
#include <utility>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"
#include "keel/core/untrusted_text.h"
#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/tokenizer/added_tokens.h"
#include "libs/hftext/tokenizer/decoder.h"
#include "libs/hftext/tokenizer/normalizer.h"
#include "libs/hftext/tokenizer/post_processor.h"
#include "libs/hftext/tokenizer/pre_tokenizer.h"
#include "libs/hftext/tokenizer/token_model.h"
#include "libs/hftext/tokenizer/tokenizer_file.h"
#include "libs/hftext/tokenizer/tokenizer_roles.h"

namespace keel {
namespace {

using namespace keel::text;

constexpr const char* kTokenizerFile = "tokenizer.json";
constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kSpecialTokensMapFile = "special_tokens_map.json";
// The last four are not read here but kept for other programs (llama.cpp's converter reads tokenizer.model).
constexpr std::array kOtherFiles = {kConfigFile,          kSpecialTokensMapFile, "chat_template.jinja",
                                    "chat_template.json", "added_tokens.json",   "vocab.json",
                                    "merges.txt",         "tokenizer.model"};
constexpr uint64_t kMaxTokenizerBytes = uint64_t{256} << 20, kMaxOtherBytes = uint64_t{64} << 20;

Json optional_json(const std::map<std::string, std::string>& files, const char* name, const std::string& location) {
  const auto found = files.find(name);
  return found == files.end() ? Json::object()
                              : parse_json_file(found->second, location + ": " + name, {.repeated_keys = false});
}

void check_top_level(const StrictObject& tree) {
  tree.allow_keys({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                   "decoder", "model"});
  if (tree.has("version") && tree.string("version") != "1.0") tree.fail_value("version", "1.0");
  // transformers saves these if it has truncated or padded a text; they are ignored here.
  for (const char* key : {"truncation", "padding"}) {
    if (tree.has(key) && !tree.at(key).is_object()) tree.fail_value(key, "an object or null");
  }
}

}  // namespace

struct Tokenizer::Parts {
  Parts(TokenizerFile& file, const StrictObject& tree, const std::string& where)
      : location(where),
        normalizer(Normalizer::from_json(tree.at("normalizer"), tree.location() + ": normalizer")),
        pre_tokenizer(PreTokenizer::from_json(tree.at("pre_tokenizer"), tree.location() + ": pre_tokenizer")),
        model(Model::from_file(file, pre_tokenizer.ends_with_byte_level(), tree.location())),
        added(AddedTokens::from_json(tree.at("added_tokens"), model.tokens(), tree.location() + ": added_tokens")),
        post_processor(
            PostProcessor::from_json(tree.at("post_processor"), size(), tree.location() + ": post_processor")),
        decoder(Decoder::from_json(tree.at("decoder"), tree.location() + ": decoder")) {}

  int64_t size() const { return model.tokens().size() + static_cast<int64_t>(added.extra().size()); }
  std::optional<int32_t> id_of(std::string_view token) const;
  void read_roles(const Json& config, const Json& special_tokens_map);
  void check_added_tokens_decoder(const StrictObject& config) const;
  void encode_part(std::string_view part, size_t begin, const EncodeOptions& options, RegexBudget& budget,
                   std::vector<int32_t>& ids) const;
  void encode_piece(const Piece& piece, RegexBudget& budget, std::vector<int32_t>& ids) const;

  std::string location;
  std::map<std::string, std::string> files;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Model model;
  AddedTokens added;
  PostProcessor post_processor;
  Decoder decoder;
  std::optional<int32_t> pad_id, bos_id, eos_id;
};

Tokenizer Tokenizer::word_level(const std::vector<std::string>& words, const SpecialTokens& special) {
  const std::string location = "word-level vocabulary";
  std::map<std::string, std::string> roles;
  if (!special.pad.empty()) roles["pad_token"] = special.pad;
  if (!special.bos.empty()) roles["bos_token"] = special.bos;
  if (!special.eos.empty()) roles["eos_token"] = special.eos;
  return from_files(word_level_files(words, roles, location), location);
}

Tokenizer Tokenizer::from_json(const Json& tokenizer_json, const Json& tokenizer_config, std::string location) {
  const Json roles = roles_json(read_roles(tokenizer_config, Json::object(), location));
  return from_files({{kTokenizerFile, tokenizer_json.dump(2) + "\n"},
                     {kConfigFile, tokenizer_config.dump(2) + "\n"},
                     {kSpecialTokensMapFile, roles.dump(2) + "\n"}},
                    std::move(location));
}

Tokenizer Tokenizer::load(const std::filesystem::path& folder) {
  if (!path_exists(folder / kTokenizerFile))
    fail(ExitCode::kBadInput, folder.string(), ": no ", kTokenizerFile,
         "; make it from the folder's other files with transformers: AutoTokenizer.from_pretrained(FOLDER)",
         ".save_pretrained(FOLDER)");
  std::map<std::string, std::string> files = {{kTokenizerFile, read_file(folder / kTokenizerFile, kMaxTokenizerBytes)}};
  for (const char* name : kOtherFiles) {
    if (path_exists(folder / name)) files[name] = read_file(folder / name, kMaxOtherBytes);
  }
  return from_files(std::move(files), folder.string());
}

Tokenizer Tokenizer::from_files(std::map<std::string, std::string> files, std::string location) {
  const std::string file_location = location + ": " + kTokenizerFile;
  const auto tokenizer_json = files.find(kTokenizerFile);
  if (tokenizer_json == files.end()) fail(ExitCode::kBadInput, file_location, " is missing; a tokenizer needs it");
  TokenizerFile file = parse_tokenizer_file(tokenizer_json->second, file_location);
  const StrictObject tree(file.tree, file_location);
  check_top_level(tree);
  auto parts = std::make_shared<Parts>(file, tree, location);
  parts->read_roles(optional_json(files, kConfigFile, location), optional_json(files, kSpecialTokensMapFile, location));
  parts->added.build_tries(parts->normalizer, file_location + ": added_tokens");
  parts->files = std::move(files);
  return Tokenizer(std::move(parts));
}

void Tokenizer::Parts::read_roles(const Json& config, const Json& special_tokens_map) {
  for (const auto& [role, token] : text::read_roles(config, special_tokens_map, location)) {
    const std::optional<int32_t> id = id_of(token);
    if (!id) {
      fail(ExitCode::kBadInput, location, ": ", kConfigFile, ": the ", role, " \"", preview_text(token),
           "\" is not in the vocabulary of ", kTokenizerFile, "; add it there, or set ", role, " to null");
    }
    added.add_special(token, *id);  // as transformers does for role tokens
    if (role == "pad_token") pad_id = id;
    if (role == "bos_token") bos_id = id;
    if (role == "eos_token") eos_id = id;
  }
  const StrictObject fields(config, location + ": " + kConfigFile);
  if (fields.has("added_tokens_decoder")) check_added_tokens_decoder(fields);
}

/// Fails if the list has a token or id that tokenizer.json does not have: transformers would give it a new id.
void Tokenizer::Parts::check_added_tokens_decoder(const StrictObject& config) const {
  const Json& list = config.at("added_tokens_decoder");
  if (!list.is_object()) config.fail_value("added_tokens_decoder", "an object from id to token");
  for (const auto& [id, token] : list.items()) {
    const std::string content =
        StrictObject(token, config.location() + ": added_tokens_decoder." + preview_text(id)).string("content");
    const std::optional<int32_t> known = id_of(content);
    if (known && std::to_string(*known) == id) continue;
    fail(ExitCode::kBadInput, config.location(), ": added_tokens_decoder gives the id ", preview_text(id), " to \"",
         preview_text(content), "\", but ", kTokenizerFile, " gives it ", known ? std::to_string(*known) : "none",
         "; make the two files agree");
  }
}

std::optional<int32_t> Tokenizer::Parts::id_of(std::string_view token) const {
  if (const std::optional<int32_t> id = added.find(token)) return id;
  const int32_t id = model.tokens().find(token);
  if (id == TokenTable::kNone) return std::nullopt;
  return id;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (const std::optional<size_t> bad = first_bad_utf8(text)) {
    fail(ExitCode::kBadInput, parts_->location, ": the text to encode is not UTF-8 at byte ", *bad, " of ", text.size(),
         "; convert it, or remove it");
  }
  std::vector<int32_t> ids;
  text::RegexBudget budget;
  parts_->added.split(text, AddedTokens::Stage::kBeforeNormalization, options.parse_special, options.untrusted,
                      [&](std::string_view part, size_t begin, std::optional<int32_t> id) {
                        if (id) return ids.push_back(*id);
                        parts_->encode_part(part, begin, options, budget, ids);
                      });
  return options.add_special_tokens ? parts_->post_processor.apply(ids) : ids;
}

void Tokenizer::Parts::encode_part(std::string_view part, size_t begin, const EncodeOptions& options,
                                   RegexBudget& budget, std::vector<int32_t>& ids) const {
  bool at_text_start = begin == 0 && !options.is_continuation;
  const bool is_continuation = begin == 0 && options.is_continuation;
  ByteRanges untrusted;
  if (added.has_normalized_special()) untrusted = ranges_within(options.untrusted, begin, begin + part.size());
  Normalizer::Result normalized;
  if (!normalizer.empty()) {
    normalized = normalizer.apply(part, budget, untrusted, is_continuation);
    part = normalized.text;
    untrusted = normalized.untrusted();
    at_text_start = at_text_start && normalized.first_size > 0;
  }
  added.split(part, AddedTokens::Stage::kAfterNormalization, options.parse_special, untrusted,
              [&](std::string_view segment, size_t offset, std::optional<int32_t> id) {
                if (id) return ids.push_back(*id);
                encode_piece({segment, at_text_start && offset == 0, is_continuation && offset == 0}, budget, ids);
              });
}

void Tokenizer::Parts::encode_piece(const Piece& piece, RegexBudget& budget, std::vector<int32_t>& ids) const {
  Pieces pieces{.budget = budget, .list = {piece}, .storage = {}};
  pre_tokenizer.apply(pieces, model.takes_bytes());
  model.tokenize(pieces.list, ids);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  StreamingDecoder stream = parts_->decoder.start();
  for (const int32_t id : ids) {
    if (const std::string* text = decoded_token(id, skip_special)) stream.push(*text);
  }
  stream.finish();
  return stream.take();
}

std::vector<std::string> Tokenizer::pieces(std::span<const int32_t> ids, std::optional<int32_t> before) const {
  StreamingDecoder stream = parts_->decoder.start(/*per_token=*/true);
  const auto piece = [&](int32_t id) {
    if (const std::string* text = decoded_token(id, /*skip_special=*/false)) stream.push(*text);
    return stream.take();
  };
  if (before) piece(*before);
  std::vector<std::string> result;
  for (const int32_t id : ids) result.push_back(piece(id));
  return result;
}

const std::string* Tokenizer::find_token(int64_t id) const {
  const TokenTable& tokens = parts_->model.tokens();
  if (tokens.contains(id)) return &tokens[static_cast<int32_t>(id)];
  if (id < 0 || id >= size()) return nullptr;
  return &parts_->added.extra()[static_cast<size_t>(id - tokens.size())];
}

const std::string* Tokenizer::decoded_token(int32_t id, bool skip_special) const {
  const AddedToken* added = parts_->added.at(id);
  if (added == nullptr) return find_token(id);
  return skip_special && added->skipped ? nullptr : &added->decoded;
}

const std::string& Tokenizer::token(int32_t id) const {
  if (const std::string* found = find_token(id)) return *found;
  fail(ExitCode::kBadInput, parts_->location, ": the id ", id, " has no token; ids are 0 to ", size() - 1,
       ": check that model and tokenizer belong together");
}

std::map<std::string, std::string> Tokenizer::files() const { return parts_->files; }
std::optional<int32_t> Tokenizer::id_of(std::string_view token) const { return parts_->id_of(token); }
int64_t Tokenizer::size() const { return parts_->size(); }
std::optional<int32_t> Tokenizer::pad_id() const { return parts_->pad_id; }
std::optional<int32_t> Tokenizer::bos_id() const { return parts_->bos_id; }
std::optional<int32_t> Tokenizer::eos_id() const { return parts_->eos_id; }

}  // namespace keel
