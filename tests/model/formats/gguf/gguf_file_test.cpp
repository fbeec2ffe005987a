#include "keel/model/formats/gguf/gguf_file.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "keel/core/error.h"
#include "tests/support/gguf_bytes.h"
#include "tests/support/weight_file_test.h"

namespace keel {
namespace {

namespace fs = std::filesystem;
using namespace gguf_bytes;

class GgufTest : public WeightFileTest<GgufFile> {
 protected:
  GgufTest() : WeightFileTest(".gguf") {}
};

/// A valid file with one key and one tensor of two F32; each case has one difference.
File good() {
  File file;
  file.keys = {text_key("general.architecture", "llama")};
  file.add("a", {2}, {1.5f, -2.0f});
  return file;
}
std::string with_key(const std::string& more) {
  File file = good();
  file.keys.push_back(more);
  return file.bytes();
}
std::string with_tensor(const std::string& info, size_t data_bytes = 8) {
  File file = good();
  file.tensors = {info};
  file.data.assign(data_bytes, '\0');
  return file.bytes();
}
std::string of_version(uint32_t version) {
  File file = good();
  file.version = version;
  return file.bytes();
}
std::string with_alignment(const std::string& entry, uint64_t alignment = 32) {
  File file = good();
  file.keys.push_back(entry);
  file.alignment = alignment;
  return file.bytes();
}
std::string nested_lists(int depth) {
  std::string bytes;
  for (int i = 0; i < depth; ++i) bytes += u32(9) + u64(1);
  return key("k", 9, bytes + u32(0) + u64(1) + "x");
}
File two_tensors(uint64_t second_offset) {
  File file = good();
  file.tensors.push_back(tensor("b", {2}, 0, second_offset));
  file.data.assign(32 + 8, '\0');
  return file;
}

std::vector<Reject> framing_faults() {
  File bad_magic = good();
  bad_magic.magic = "GGML";
  const std::string bytes = good().bytes();
  return {
      {"an empty file", "", "it ends at byte 0, inside the magic number"},
      {"another magic number", bad_magic.bytes(), "begins with \"GGML\"; expected \"GGUF\""},
      {"version 0", of_version(0), "version is 0; versions 2 and 3 are supported"},
      {"version 1", of_version(1), "version is 1; versions 2 and 3 are supported"},
      {"version 4", of_version(4), "version is 4; versions 2 and 3 are supported"},
      {"big-endian", of_version(3u << 24), "bytes of a big-endian file"},
      {"2^64-1 tensors", good().bytes(~0ull, 1), "claims 18446744073709551615 tensors; at most 65536"},
      {"more tensors than bytes", good().bytes(60'000, 1), "claims 60000 tensors, but only"},
      {"one tensor more than there is", good().bytes(2, 1), "the name of tensor 1"},
      {"2^63 keys", good().bytes(1, 1ull << 63), "claims 9223372036854775808 keys; at most 65536"},
      {"more keys than bytes", good().bytes(1, 50'000), "claims 50000 keys, but only"},
      {"one byte of data missing", bytes.substr(0, bytes.size() - 1),
       "ends at 8 of the data, of which the file holds only 7"},
      {"no data", bytes.substr(0, bytes.size() - 8), "of which the file holds only 0 bytes"},
      {"bytes after the last tensor", bytes + std::string(57, 'x'), "33 bytes follow the last tensor"},
  };
}

std::vector<Reject> key_faults() {
  const std::string past_end = u64(1 << 20);
  return {
      {"key of 2^64-1 bytes", with_key(u64(~0ull) + "k"), "key 1 claims 18446744073709551615 bytes; at most 65535"},
      {"key past the end", with_key(u64(60'000) + "k"), "inside key 1, which needs 60000 bytes"},
      {"empty key", with_key(u32_key("", 1)), "key 1 is empty"},
      {"control character in a key", with_key(u32_key("a\x1b[31m", 1)), "\"a\\u001b[31m\", has characters other"},
      {"space in a key", with_key(u32_key("a b", 1)), "visible ASCII"},
      {"key that is not UTF-8", with_key(u32_key("a\xff", 1)), "key 1 is not UTF-8 at its byte 1"},
      {"same key twice", with_key(u32_key("general.architecture", 1)), "key \"general.architecture\" appears twice"},
      {"value type 13", with_key(key("k", 13, "xxxxxxxx")), "value of \"k\" has the type 13; expected 0 to 12"},
      {"value type 2^32-1", with_key(key("k", ~0u, "xxxxxxxx")), "has the type 4294967295"},
      {"boolean of 2", with_key(key("k", 7, "\x02")), "is a boolean of 2; expected 0 or 1"},
      {"text of 2^64-1 bytes", with_key(key("k", 8, u64(~0ull))),
       "claims 18446744073709551615 bytes; at most 16777216"},
      {"text past the end", with_key(key("k", 8, past_end)), "inside the value of \"k\", which needs 1048576 bytes"},
      {"text that is not UTF-8", with_key(text_key("k", "\xc0\xaf")), "value of \"k\" is not UTF-8 at its byte 0"},
      {"surrogate in a text", with_key(text_key("k", "a\xed\xa0\x80")), "is not UTF-8 at its byte 1"},
      {"list of type 13", with_key(key("k", 9, u32(13) + u64(1) + "x")), "elements of the type 13"},
      {"list of 2^64-1", with_key(key("k", 9, u32(0) + u64(~0ull))), "claims 18446744073709551615 elements; at most"},
      {"list of 2^22+1", with_key(key("k", 9, u32(0) + u64((1 << 22) + 1))),
       "claims 4194305 elements; at most 4194304"},
      {"list past the end", with_key(key("k", 9, u32(10) + u64(1000))), "1000 elements, but only"},
      {"list of empty lists past the end", with_key(key("k", 9, u32(9) + u64(100))), "100 elements, but only"},
      {"boolean of 2 in a list", with_key(key("k", 9, u32(7) + u64(1) + "\x02")), "is a boolean of 2"},
      {"lists in five lists", with_key(nested_lists(4)), "is nested in more than 4 lists"},
      {"10,000 nested lists", with_key(nested_lists(10'000)), "is nested in more than 4 lists"},
      {"alignment of another type", with_alignment(key("general.alignment", 10, u64(32))), "value type 10; expected 4"},
      {"alignment a text", with_alignment(text_key("general.alignment", "32")), "value type 8; expected 4"},
      {"alignment 0", with_alignment(u32_key("general.alignment", 0)),
       "general.alignment is 0; expected a power of two"},
      {"alignment 48", with_alignment(u32_key("general.alignment", 48)), "is 48; expected a power of two from 8"},
      {"alignment 4", with_alignment(u32_key("general.alignment", 4)), "is 4; expected a power of two from 8"},
      {"alignment 2^31", with_alignment(u32_key("general.alignment", 1u << 31)),
       "expected a power of two from 8 to 1048576"},
  };
}

std::vector<Reject> tensor_faults() {
  File inconsistent = two_tensors(32);
  inconsistent.keys.push_back(u32_key("general.alignment", 64));
  File same_name = two_tensors(32);
  same_name.tensors[1] = tensor("a", {2}, 0, 32);
  const auto named = [](const std::string& name) { return with_tensor(tensor(name, {2}, 0, 0)); };
  const auto shaped = [](const std::vector<uint64_t>& shape, uint32_t type) {
    return with_tensor(tensor("a", shape, type, 0));
  };
  return {
      {"name of 2^64-1 bytes", with_tensor(u64(~0ull) + tensor("a", {2}, 0, 0)),
       "tensor 0 claims 18446744073709551615"},
      {"name of 65 bytes", named(std::string(65, 'n')), "claims 65 bytes; at most 64"},
      {"empty name", named(""), "the name of tensor 0, \"\", is empty"},
      {"slash in a name", named("a/b"), "holds a slash"},
      {"parent folder in a name", named("../b"), "holds a slash"},
      {"two dots in a name", named("a..b"), "holds \"..\""},
      {"NUL in a name", named(std::string("a\0b", 3)), "holds a control character"},
      {"name that is not UTF-8", named("a\xff"), "is not UTF-8"},
      {"no dimension", shaped({}, 0), "tensor \"a\" has 0 dimensions; expected 1 to 4"},
      {"five dimensions", shaped({1, 1, 1, 1, 2}, 0), "has 5 dimensions; expected 1 to 4"},
      {"2^32-1 dimensions", with_tensor(text("a") + u32(~0u) + u64(2)), "has 4294967295 dimensions"},
      {"dimension of 0", shaped({2, 0}, 0), "has a dimension of 0; expected 1 to 2^63-1"},
      {"dimension of 2^63", shaped({1ull << 63}, 0), "has a dimension of 9223372036854775808"},
      {"dimension of -1", shaped({2, ~0ull}, 0), "has a dimension of 18446744073709551615"},
      {"elements wrap to 0", shaped({1ull << 32, 1ull << 32}, 0), "number of elements of tensor \"a\" overflows"},
      {"elements wrap to 2", shaped({(1ull << 62) + 1, 2, 2}, 0), "number of elements of tensor \"a\" overflows"},
      {"elements of 2^63", shaped({1ull << 31, 1ull << 32}, 2), "number of elements of tensor \"a\" overflows"},
      {"bytes of 2^63", shaped({1ull << 61}, 0), "the size of tensor \"a\" overflows"},
      {"a terabyte in a small file", shaped({1ull << 38}, 0), "of which the file holds only 8 bytes"},
      {"2^62 elements of half a byte", shaped({1ull << 62}, 2), "of which the file holds only 8 bytes"},
      {"row that is no whole block", shaped({33}, 8), "rows of 33 elements; Q8_0 comes in blocks of 32"},
      {"rows that are blocks only together", shaped({16, 2}, 2), "rows of 16 elements; Q4_0 comes in blocks of 32"},
      {"type that was removed", shaped({32}, 4),
       "has the type 4 (type 4), which is not supported; expected one of F32 F16"},
      {"type that is not read", shaped({256}, 16),
       "has the type 16 (IQ2_XXS), which is not supported; expected one of F32 F16 BF16 "
       "Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K: use a file of the model in one of them"},
      {"type 2^32-1", shaped({2}, ~0u), "has the type 4294967295"},
      {"offset off the alignment", with_tensor(tensor("a", {2}, 0, 8)),
       "begins at 8 of the data, which is not a multiple"},
      {"first tensor not at 0", with_tensor(tensor("a", {2}, 0, 32), 40),
       "begins at 32 of the data, after a gap; expected 0"},
      {"offset near 2^64", with_tensor(tensor("a", {8}, 0, ~0ull - 31)), "and its end overflows"},
      {"end near 2^64", with_tensor(tensor("a", {2}, 0, ~0ull - 31)), "after a gap; expected 0"},
      {"a gap", two_tensors(64).bytes(), "begins at 64 of the data, after a gap; expected 32"},
      {"an overlap", two_tensors(0).bytes(), "begins at 0 of the data, inside the one before it; expected 32"},
      {"tensors of another alignment", inconsistent.bytes(),
       "begins at 32 of the data, which is not a multiple of the "
       "alignment 64"},
      {"same name twice", same_name.bytes(), "the tensor \"a\" appears twice"},
  };
}

TEST_F(GgufTest, EveryFaultIsRejectedByName) {
  expect_refused_by_name({framing_faults(), key_faults(), tensor_faults()});
}

TEST_F(GgufTest, TheElementLimitCoversAllLists) {
  File file = good();
  file.keys.push_back(key("k", 9, u32(0) + u64(1 << 22) + std::string(1 << 22, 'x')));
  put(file.bytes());
  EXPECT_EQ(refusal(), "");
  file.keys.push_back(key("l", 9, u32(0) + u64(1) + "x"));
  put(file.bytes());
  EXPECT_THAT(refusal(), testing::HasSubstr("the list \"l\" claims 1 elements; at most 4194304 are accepted in all"));
}

TEST_F(GgufTest, ATruncatedFileIsRejected) {
  File file = good();
  file.keys.push_back(texts_key("list", {"one", "two"}));
  const std::string whole = file.bytes();
  put(whole);
  ASSERT_EQ(refusal(), "");
  for (size_t length = 0; length < whole.size(); ++length) {
    put(whole.substr(0, length));
    EXPECT_NE(refusal(), "") << length;
  }
}

TEST_F(GgufTest, UnusualButValidFilesAreAccepted) {
  File wide = good(), other_order = two_tensors(0), unpadded = good(), many = good();
  wide.keys.push_back(u32_key("general.alignment", 1024));
  wide.alignment = 1024;
  other_order.tensors[0] = tensor("a", {2}, 0, 32);
  unpadded.data += std::string(24, '\0');
  for (int i = 0; i < 1000; ++i) many.keys.push_back(u32_key("k" + std::to_string(i), 1));
  expect_accepted({
      {"version 2", of_version(2)},
      {"an alignment of 1024", wide.bytes()},
      {"tensors in another order than their bytes", other_order.bytes()},
      {"padding after the last tensor", unpadded.bytes()},
      {"a thousand keys", many.bytes()},
      {"no tensors", File{.keys = {text_key("k", "")}, .tensors = {}, .data = ""}.bytes()},
      {"lists in four lists", with_key(nested_lists(3))},
      {"a tensor name in another script", with_tensor(tensor("\xe5\xb1\xa4", {2}, 0, 0))},
      {"an empty list", with_key(key("k", 9, u32(8) + u64(0)))},
  });
}

TEST_F(GgufTest, AMissingFileIsNamed) { expect_a_missing_file_to_be_named(); }

TEST_F(GgufTest, EveryValueTypeIsRead) {
  File file = good();
  file.keys = {key("u8", 0, "\xff"),
               key("i8", 1, "\xff"),
               key("u16", 2, number(uint16_t{65535})),
               key("i16", 3, number(int16_t{-2})),
               u32_key("u32", ~0u),
               key("i32", 5, number(int32_t{-3})),
               f32_key("f32", 1e-5f),
               bool_key("bool", true),
               text_key("text", "h\xc3\xa9"),
               key("u64", 10, u64(~0ull)),
               key("i64", 11, number(int64_t{-4})),
               key("f64", 12, number(0.1)),
               list_key<int16_t>("list", 3, {-1, 2}),
               texts_key("texts", {"a", ""}),
               key("lists", 9, u32(9) + u64(2) + u32(0) + u64(1) + "\x07" + u32(7) + u64(0)),
               f32_key("infinite", std::numeric_limits<float>::infinity())};
  put(file.bytes());
  const GgufFile open = GgufFile::open(path_);
  const GgufMetadata& metadata = open.metadata();
  Json tree = metadata.tree();
  tree.erase("infinite");
  EXPECT_EQ(tree.dump(),
            "{\"u8\":255,\"i8\":-1,\"u16\":65535,\"i16\":-2,\"u32\":4294967295,\"i32\":-3,\"f32\":1e-05,"
            "\"bool\":true,\"text\":\"h\xc3\xa9\",\"u64\":18446744073709551615,\"i64\":-4,\"f64\":0.1,"
            "\"list\":[-1,2],\"texts\":[\"a\",\"\"],\"lists\":[[7],[]]}");
  EXPECT_EQ(metadata.integer("u32"), 4294967295);
  EXPECT_EQ(metadata.integer("missing"), std::nullopt);
  EXPECT_EQ(metadata.number("f32"), 1e-5);
  EXPECT_EQ(metadata.flag("bool"), true);
  EXPECT_EQ(metadata.text("text"), "h\xc3\xa9");
  EXPECT_EQ(open.version(), 3u);

  const auto message_of = [](const auto& action) {
    try {
      action();
      return std::string("no error");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const auto expect = [&](const std::string& message, const std::string& part) {
    EXPECT_THAT(message, testing::HasSubstr(part));
  };
  expect(message_of([&] { metadata.integer("u64"); }), "is 18446744073709551615; expected a whole number below 2^63");
  expect(message_of([&] { metadata.integer("f64"); }), "the key \"f64\" is 0.1; expected a whole number");
  expect(message_of([&] { metadata.number("infinite"); }), "expected a finite number");
  expect(message_of([&] { metadata.flag("u8"); }), "is 255; expected true or false");
  expect(message_of([&] { metadata.text("texts"); }), "is a list of 2; expected a string");
  expect(message_of([&] { metadata.required_integer("missing"); }), "has no key \"missing\"");
}

TEST_F(GgufTest, ATensorHasTheShapeOfPyTorch) {
  File file = good();
  file.add("m", {3, 2}, {0, 1, 2, 3, 4, 5});
  put(file.bytes());
  const GgufFile open = GgufFile::open(path_);
  EXPECT_TRUE(at::equal(open.read("m"), at::arange(6, at::kFloat).view({2, 3})));
  EXPECT_TRUE(at::equal(open.read("a"), at::tensor({1.5f, -2.0f})));
  std::vector<float> room(6);
  open.read_into("m", room);
  EXPECT_EQ(room, (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_THROW(open.read_into("m", std::span(room).first(5)), Error);
  EXPECT_THROW(open.read("n"), Error);
}

TEST_F(GgufTest, AFileThatShrinksWhileItIsReadIsAnError) {
  put(good().bytes());
  const GgufFile open = GgufFile::open(path_);
  fs::resize_file(path_, good().bytes().size() - 1);
  EXPECT_THROW(open.read("a"), Error);
}

}  // namespace
}  // namespace keel
