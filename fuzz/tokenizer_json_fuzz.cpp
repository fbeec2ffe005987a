// Any bytes as tokenizer.json and a text: loading, encoding and decoding give a result or an Error, in bounded time and
// memory. Build and run: fuzz/README.md.
//
// The input is the text, a NUL byte and the file. A file that is not an object is wrapped into one, to reach the
// components.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "keel/core/error.h"
#include "keel/core/untrusted_text.h"
#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void use(const keel::Tokenizer& tokenizer, std::string_view text) {
  for (const bool special : {false, true}) {
    const std::vector<int32_t> ids = tokenizer.encode(text, {.add_special_tokens = special, .parse_special = special});
    for (const int32_t id : ids) require(id >= 0 && id < tokenizer.size());
    require(!keel::first_bad_utf8(tokenizer.decode(ids, !special)));
  }
  const keel::ByteRange all[] = {{0, text.size()}};
  if (!text.empty())
    require(tokenizer.encode(text, {.parse_special = true, .untrusted = all}) == tokenizer.encode(text));
  std::vector<int32_t> everything;
  for (int32_t id = -1; id <= tokenizer.size() && id < 300; ++id) everything.push_back(id);
  require(!keel::first_bad_utf8(tokenizer.decode(everything)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  if (zero == std::string_view::npos) return 0;
  const std::string_view text = input.substr(0, zero);
  std::string file(input.substr(zero + 1));
  if (!file.starts_with("{")) {
    file = R"({"model":{"type":"BPE","unk_token":"a","byte_fallback":true,"vocab":{"a":0,"b":1,"ab":2," ":3,"e":4,)"
           R"("\u0120":5,"\u0120a":6,"<0xC3>":7,"<0xA9>":8},"merges":["a b",["\u0120","a"]]},)" +
           file + "}";
  }
  try {
    use(keel::Tokenizer::from_files({{"tokenizer.json", file}}, "fuzz"), text);
  } catch (const keel::Error&) {
  }
  return 0;
}
