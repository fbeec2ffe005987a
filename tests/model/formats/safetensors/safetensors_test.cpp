#include "keel/model/formats/safetensors/safetensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "keel/core/error.h"
#include "tests/support/errors.h"
#include "tests/support/weight_file_test.h"

namespace keel {
namespace {

namespace fs = std::filesystem;
using Metadata = std::map<std::string, std::string>;

class SafetensorsTest : public WeightFileTest<SafetensorsFile> {
 protected:
  SafetensorsTest() : WeightFileTest(".safetensors") {}
};

std::string length_bytes(uint64_t length) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[static_cast<size_t>(i)] = static_cast<char>(length >> (8 * i));
  return bytes;
}

/// A file with this header and this many bytes of data.
std::string file_of(const std::string& header, size_t data_bytes) {
  return length_bytes(header.size()) + header + std::string(data_bytes, '\0');
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

/// A valid file with one tensor of two F32; each case has one difference.
std::string good_with(const std::string& more) {
  return file_of("{" + entry("a", "F32", "[2]", "[0,8]") + more + "}", 8);
}
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets, size_t data = 8) {
  return file_of("{" + entry("a", dtype, shape, offsets) + "}", data);
}
std::string named(const std::string& name) { return file_of("{" + entry(name, "F32", "[2]", "[0,8]") + "}", 8); }

std::vector<Reject> framing_faults() {
  const std::string good = "{" + entry("a", "F32", "[2]", "[0,8]") + "}";
  return {
      {"empty file", "", "it has 0 bytes"},
      {"seven bytes", "1234567", "it has 7 bytes"},
      {"header length above the cap", length_bytes(100'000'001) + good, "claims 100000001 bytes; at most 100000000"},
      {"header length 2^64-1", length_bytes(~0ull) + good, "claims 18446744073709551615 bytes"},
      {"header length past the end", length_bytes(99'999'999) + "{}", "claims 99999999 bytes, but only 2 follow"},
      {"header one byte short", length_bytes(good.size() + 1) + good, "bytes, but only"},
      {"header of length 0", length_bytes(0), "does not begin with {"},
      {"header of spaces", file_of("    ", 0), "does not begin with {"},
      {"header that is not UTF-8", named("a\xff"), "not UTF-8"},
      {"overlong UTF-8", named("a\xc0\xaf"), "not UTF-8"},
      {"overlong UTF-8 in three bytes", named("a\xe0\x80\xaf"), "not UTF-8"},
      {"surrogate in UTF-8", named("a\xed\xa0\x80"), "not UTF-8"},
      {"UTF-8 above U+10FFFF", named("a\xf4\x90\x80\x80"), "not UTF-8"},
      {"UTF-8 cut short at the end", file_of("{\"\xe2\x82", 0), "not UTF-8"},
      {"not JSON", file_of("{hello}", 0), "not JSON"},
      {"truncated JSON", file_of("{\"a\":{\"dtype\":\"F32\"", 0), "cut short"},
      {"text after the JSON", file_of(good + "x", 8), "not JSON"},
      {"two headers", file_of("{}{}", 0), "not JSON"},
      {"a comment", file_of("{/* */}", 0), "not JSON"},
      {"a trailing comma", file_of("{" + entry("a", "F32", "[2]", "[0,8]") + ",}", 8), "not JSON"},
      {"a lone surrogate", named("a\\ud800"), "not JSON"},
      {"a number too large for a double", one("F32", "[1e999]", "[0,8]"), "not JSON"},
      {"NUL padding", file_of(good + std::string(5, '\0'), 8), "holds a NUL"},
      {"a byte-order mark", file_of("\xef\xbb\xbf" + good, 8), "does not begin with {"},
      {"a list for a header", file_of("[]", 0), "does not begin with {"},
      {"a text for a header", file_of("\"a\"", 0), "does not begin with {"},
  };
}

std::vector<Reject> layout_faults() {
  std::string aliases;
  for (int i = 0; i < 10; ++i) aliases += (i > 0 ? "," : "") + entry("t" + std::to_string(i), "F32", "[4]", "[0,16]");
  return {
      {"end before begin", one("F32", "[2]", "[8,0]"), "ends at 0, before it begins at 8"},
      {"first tensor not at 0", one("F32", "[1]", "[4,8]"), "begins at 4, after a gap; expected 0"},
      {"a gap", good_with("," + entry("b", "F32", "[1]", "[12,16]")), "begins at 12, after a gap; expected 8"},
      {"an overlap", good_with("," + entry("b", "F32", "[2]", "[4,12]")), "begins at 4, inside the one before it"},
      {"ten tensors on the same bytes", file_of("{" + aliases + "}", 16), "begins at 0, inside the one before it"},
      {"an empty tensor inside another", good_with("," + entry("b", "F32", "[0]", "[4,4]")), "inside the one before"},
      {"bytes after the last tensor", one("F32", "[2]", "[0,8]", 9), "1 bytes follow the last tensor"},
      {"data without a tensor", file_of("{}", 3), "3 bytes follow the last tensor"},
      {"missing bytes", one("F32", "[2]", "[0,8]", 7), "1 bytes are missing"},
      {"a terabyte in a small file", one("U8", "[1099511627776]", "[0,1099511627776]"), "bytes are missing"},
      {"offsets near 2^64", one("U8", "[1]", "[18446744073709551614,18446744073709551615]"), "after a gap"},
      {"span unlike the shape", one("F32", "[3]", "[0,8]"), "spans 8 bytes, but its shape and dtype need 12"},
      {"span unlike the dtype", one("F16", "[2]", "[0,8]"), "spans 8 bytes, but its shape and dtype need 4"},
      {"span of an empty tensor", one("F32", "[2,0]", "[0,8]"), "spans 8 bytes, but its shape and dtype need 0"},
      {"shape product wraps to 0", one("F32", "[4294967296,4294967296]", "[0,0]", 0), "overflows"},
      {"shape product wraps to 8", one("U8", "[2305843009213693953,8]", "[0,8]"), "overflows"},
      {"product times item size wraps", one("F32", "[2,9223372036854775807]", "[0,8]"), "overflows"},
      {"bytes just above 2^63-1", one("F64", "[1152921504606846976]", "[0,8]"), "overflows"},
      {"overflow hidden by a zero", one("F32", "[4294967296,4294967296,0]", "[0,0]", 0), "overflows"},
      {"dimension 2^64-2", one("F32", "[2,18446744073709551614]", "[0,8]"),
       "18446744073709551614; expected whole numbers"},
      {"dimension 2^63", one("U8", "[9223372036854775808]", "[0,8]"), "9223372036854775808; expected whole numbers"},
      {"dimension 2^64", one("U8", "[18446744073709551616]", "[0,8]"), "expected whole numbers from 0 to 2^63-1"},
      {"negative dimension", one("F32", "[-2]", "[0,8]"), "the negative number -2"},
      {"minus zero", one("F32", "[-0]", "[0,8]"), "negative number"},
      {"two negative dimensions", one("F32", "[-1,-2]", "[0,8]"), "the negative number -1"},
      {"float dimension", one("F32", "[2.0]", "[0,8]"), "expected whole numbers"},
      {"exponent dimension", one("F32", "[2e0]", "[0,8]"), "expected whole numbers"},
      {"leading zero", one("F32", "[02]", "[0,8]"), "not JSON"},
      {"text dimension", one("F32", "[\"2\"]", "[0,8]"), "holds the string \"2\""},
      {"negative offset", one("F32", "[2]", "[-8,0]"), "data_offsets holds the negative number"},
      {"float offset", one("F32", "[2]", "[0,8.0]"), "data_offsets holds the number"},
      {"one offset", one("F32", "[2]", "[0]"), "needs two numbers; got 1"},
      {"no offset", one("F32", "[2]", "[]"), "needs two numbers; got 0"},
      {"three offsets", one("F32", "[2]", "[0,8,8]"), "expected two whole numbers"},
      {"rank 9", one("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), "more than 8 dimensions"},
  };
}

std::vector<Reject> content_faults() {
  const std::string good_field = "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]";
  const auto fields = [](const std::string& inside) { return file_of("{\"a\":{" + inside + "}}", 8); };
  return {
      {"sub-byte dtype off a byte", one("F4", "[15]", "[0,8]"), "has the dtype \"F4\", which is not supported"},
      {"unknown dtype", one("F7", "[2]", "[0,8]"),
       "has the dtype \"F7\", which is not supported; expected one of F64 F32"},
      {"lower-case dtype", one("f32", "[2]", "[0,8]"), "which is not supported"},
      {"number for a dtype", fields("\"dtype\":32,\"shape\":[2],\"data_offsets\":[0,8]"), "dtype holds the number 32"},
      {"list for a dtype", fields("\"dtype\":[\"F32\"]"), "dtype holds a list; expected a string"},
      {"number for a shape", fields("\"dtype\":\"F32\",\"shape\":2"), "shape holds the number 2; expected a list"},
      {"null for a shape", fields("\"dtype\":\"F32\",\"shape\":null"), "shape holds null"},
      {"boolean in a shape", one("F32", "[true]", "[0,8]"), "shape holds a boolean"},
      {"list in a shape", one("F32", "[[2]]", "[0,8]"), "shape holds a list"},
      {"object in a shape", one("F32", "[{}]", "[0,8]"), "shape holds an object"},
      {"object for offsets", one("F32", "[2]", "{}"), "data_offsets holds an object"},
      {"no dtype", fields("\"shape\":[2],\"data_offsets\":[0,8]"), "has no dtype"},
      {"no shape", fields("\"dtype\":\"F32\",\"data_offsets\":[0,8]"), "has no shape"},
      {"no offsets", fields("\"dtype\":\"F32\",\"shape\":[2]"), "has no data_offsets"},
      {"unknown field", fields(good_field + ",\"stride\":[1]"), "unknown field \"stride\""},
      {"number for a tensor", file_of("{\"a\":1}", 0), "the entry \"a\" holds the number 1; expected an object"},
      {"null for a tensor", file_of("{\"a\":null}", 0), "holds null; expected an object"},
      {"list for a tensor", file_of("{\"a\":[]}", 0), "holds a list; expected an object"},
      {"metadata value a number", good_with(",\"__metadata__\":{\"k\":1}"), "metadata key \"k\" holds the number 1"},
      {"metadata value null", good_with(",\"__metadata__\":{\"k\":null}"),
       "metadata key \"k\" holds null; expected a string"},
      {"metadata value an object", good_with(",\"__metadata__\":{\"k\":{}}"), "holds an object; expected a string"},
      {"metadata a text", good_with(",\"__metadata__\":\"x\""), "holds the string \"x\"; expected an object"},
      {"same tensor twice", good_with("," + entry("a", "F32", "[0]", "[8,8]")), "the tensor \"a\" appears twice"},
      {"same tensor twice, escaped", good_with("," + entry("\\u0061", "F32", "[0]", "[8,8]")), "\"a\" appears twice"},
      {"same field twice", fields(good_field + ",\"dtype\":\"F32\""), "\"a\", dtype appears twice"},
      {"metadata twice", good_with(",\"__metadata__\":{},\"__metadata__\":{}"), "\"__metadata__\" appears twice"},
      {"metadata key twice", good_with(",\"__metadata__\":{\"k\":\"\",\"k\":\"\"}"),
       "metadata key \"k\" appears twice"},
      {"100,000 nested lists", file_of("{\"a\":" + repeated("[", 100'000), 0), "holds a list; expected an object"},
      {"100,000 nested objects", file_of(repeated("{\"a\":", 100'000), 0), "unknown field \"a\""},
      {"nested lists in a shape", one("F32", repeated("[", 100'000), "[0,8]"), "shape holds a list"},
      {"empty name", named(""), "the tensor name \"\" is empty"},
      {"slash in a name", named("a/b"), "holds a slash"},
      {"backslash in a name", named("a\\\\b"), "holds a slash"},
      {"parent folder in a name", named(".."), "holds \"..\""},
      {"NUL in a name", named("a\\u0000b"), "holds a control character"},
      {"raw NUL in a name", named(std::string("a\0b", 3)), "holds a NUL"},
      {"escape character in a name", named("a\\u001b[31m"), "\"a\\u001b[31m\" holds a control character"},
      {"a name of a megabyte", named(std::string(1 << 20, 'n')), "(1048576 bytes) is longer than 1024 bytes"},
  };
}

TEST_F(SafetensorsTest, EveryFaultIsRejectedByName) {
  expect_refused_by_name({framing_faults(), layout_faults(), content_faults()});
}

TEST_F(SafetensorsTest, TheValidBaseFileIsAccepted) {
  put(good_with(",\"__metadata__\":{\"k\":\"v\"}"));
  EXPECT_EQ(refusal(), "");
}

TEST_F(SafetensorsTest, UnusualButValidFilesAreAccepted) {
  expect_accepted({
      {"no tensors", file_of("{}", 0)},
      {"whitespace around the header", file_of(" \n\t{" + entry("a", "F32", "[2]", "[0,8]") + "}\r\n  ", 8)},
      {"fields in another order", file_of("{\"a\":{\"data_offsets\":[0,8],\"shape\":[2],\"dtype\":\"F32\"}}", 8)},
      {"a scalar", one("F64", "[]", "[0,8]")},
      {"an empty tensor", one("F32", "[0,7]", "[0,0]", 0)},
      {"an empty tensor between others",
       good_with("," + entry("b", "F32", "[0]", "[8,8]") + "," + entry("c", "F32", "[3,0]", "[8,8]"))},
      {"tensors listed in another order than their bytes",
       file_of("{" + entry("b", "F32", "[1]", "[4,8]") + "," + entry("a", "F32", "[1]", "[0,4]") + "}", 8)},
      {"rank 8", one("F32", "[1,1,1,1,1,1,1,2]", "[0,8]")},
      {"a name in another script", named("\xe5\xb1\xa4.0.\xf0\x9f\x99\x82")},
      {"empty metadata", good_with(",\"__metadata__\":{}")},
  });
}

TEST_F(SafetensorsTest, AMissingFileIsNamed) { expect_a_missing_file_to_be_named(); }

// Bytes written down by hand from the formats' definitions (IEEE 754, bfloat16, OCP FP8), all for the value 1.5 or 1.
TEST_F(SafetensorsTest, EveryDtypeIsReadFromItsBytes) {
  struct Case {
    std::string dtype, bytes;
    at::ScalarType wanted;
    double value;
  };
  const auto raw = [](std::initializer_list<int> list) {
    std::string bytes;
    for (const int byte : list) bytes.push_back(static_cast<char>(byte));
    return bytes;
  };
  for (const auto& [dtype, bytes, wanted, value] :
       std::vector<Case>{{"F64", raw({0, 0, 0, 0, 0, 0, 0xf8, 0x3f}), at::kDouble, 1.5},
                         {"F32", raw({0, 0, 0xc0, 0x3f}), at::kFloat, 1.5},
                         {"F16", raw({0, 0x3e}), at::kHalf, 1.5},
                         {"BF16", raw({0xc0, 0x3f}), at::kBFloat16, 1.5},
                         {"F8_E4M3", raw({0x3c}), at::kFloat8_e4m3fn, 1.5},
                         {"F8_E5M2", raw({0x3e}), at::kFloat8_e5m2, 1.5},
                         {"I64", raw({0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), at::kLong, -2},
                         {"I32", raw({0x01, 0x02, 0, 0}), at::kInt, 513},
                         {"I16", raw({0xff, 0xff}), at::kShort, -1},
                         {"I8", raw({0x80}), at::kChar, -128},
                         {"U8", raw({0x80}), at::kByte, 128},
                         {"BOOL", raw({1}), at::kBool, 1}}) {
    const std::string header = "{" + entry("x", dtype, "[]", "[0," + std::to_string(bytes.size()) + "]") + "}";
    put(length_bytes(header.size()) + header + bytes);
    const Tensor tensor = SafetensorsFile::open(path_).read("x");
    EXPECT_EQ(tensor.scalar_type(), wanted) << dtype;
    EXPECT_EQ(tensor.dim(), 0) << dtype;
    EXPECT_EQ(tensor.to(at::kDouble).item<double>(), value) << dtype;
  }
}

TEST_F(SafetensorsTest, TensorsAreDescribedInTheOrderOfTheirBytes) {
  const std::string header = "{\"__metadata__\":{\"format\":\"pt\"}," + entry("b", "I16", "[2]", "[8,12]") + "," +
                             entry("a", "I32", "[2,1]", "[0,8]") + "}";
  put(length_bytes(header.size()) + header + std::string("\1\0\0\0\2\0\0\0\3\0\4\0", 12));
  const SafetensorsFile file = SafetensorsFile::open(path_);
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}}));
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[0].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(file.tensors()[1].name, "b");
  EXPECT_EQ(file.tensors()[1].begin, 8u);
  EXPECT_EQ(file.tensors()[1].end, 12u);
  EXPECT_TRUE(at::equal(file.read("a"), at::tensor({1, 2}, at::kInt).view({2, 1})));
  EXPECT_TRUE(at::equal(file.read("b"), at::tensor({3, 4}, at::kShort)));
  EXPECT_TRUE(file.contains("a"));
  EXPECT_FALSE(file.contains("c"));
  EXPECT_FALSE(file.contains("__metadata__"));
}

TEST_F(SafetensorsTest, AMissingTensorIsNamed) {
  put(good_with(""));
  try {
    SafetensorsFile::open(path_).read("model.norm.weight");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(std::string(error.what()), HasSubstr("model.norm.weight"));
    EXPECT_THAT(std::string(error.what()), HasSubstr(path_.filename().string()));
  }
}

TEST_F(SafetensorsTest, AFileThatShrinksAfterOpeningIsAnError) {
  put(good_with(""));
  const SafetensorsFile file = SafetensorsFile::open(path_);
  fs::resize_file(path_, fs::file_size(path_) - 4);
  EXPECT_THROW(file.read("a"), Error);
}

TEST_F(SafetensorsTest, ABoolThatIsNeitherZeroNorOneIsRejected) {
  const std::string header = "{" + entry("x", "BOOL", "[2]", "[0,2]") + "}";
  put(length_bytes(header.size()) + header + "\x01\x02");
  const SafetensorsFile file = SafetensorsFile::open(path_);
  EXPECT_THROW(file.read("x"), Error);
}

TEST_F(SafetensorsTest, ADamagedHeaderByteIsAtMostAnError) {
  write_safetensors(path_, {{"w", at::ones({3, 2})}, {"b", at::ones({3}, at::kBFloat16)}}, {{"format", "pt"}});
  const std::string good = read_file(path_);
  const size_t header_end = good.size() - 30;
  std::mt19937 generator(4);
  int refused = 0;
  for (size_t place = 0; place < header_end; ++place) {
    for (int trial = 0; trial < 12; ++trial) {
      std::string bad = good;
      const int change = trial < 8 ? 1 << trial : static_cast<int>(generator() % 255) + 1;
      bad[place] = static_cast<char>(bad[place] ^ change);
      put(bad);
      try {
        const SafetensorsFile file = SafetensorsFile::open(path_);
        uint64_t bytes = 0;
        for (const TensorInfo& info : file.tensors()) bytes += file.read(info.name).nbytes();
        EXPECT_EQ(bytes, 30u);  // what is accepted covers exactly the data that is there
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, static_cast<int>(header_end) * 6);
}

// Writing
// ---------------------------------------------------------------------------------------------------------------

// The bytes that the reference implementation writes for the same tensors.
TEST_F(SafetensorsTest, TheWriterProducesTheExpectedBytes) {
  write_safetensors(path_,
                    {{"b", at::tensor({1, 2, 3}, at::kChar)}, {"c", at::tensor({1.5f})}, {"a", at::tensor({-2.0f})}},
                    {{"format", "pt"}});
  const std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
      "\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},"
      "\"b\":{\"dtype\":\"I8\",\"shape\":[3],\"data_offsets\":[8,11]}}";
  std::string padded = header;
  while (padded.size() % 8 != 0) padded += ' ';
  EXPECT_NE(padded, header);
  EXPECT_EQ(read_file(path_), length_bytes(padded.size()) + padded + std::string("\0\0\0\xc0\0\0\xc0\x3f\1\2\3", 11));
}

TEST_F(SafetensorsTest, EveryDtypeAndShapeIsReadBackAsWritten) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  const Tensor numbers = at::arange(24, at::kDouble) - 5;
  for (const auto dtype : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                           at::kChar, at::kByte, at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    const std::string name = c10::toString(dtype);
    tensors.emplace_back(name, numbers.abs().to(dtype).view({2, 3, 4}));
    tensors.emplace_back(name + ".scalar", at::full({}, 3, at::kDouble).to(dtype));
    tensors.emplace_back(name + ".empty", at::empty({2, 0, 5}, dtype));
  }
  tensors.emplace_back("Bool", numbers > 3);
  tensors.emplace_back("non-finite", at::tensor({std::numeric_limits<float>::infinity(), -0.0f, std::nanf("")}));
  const Metadata metadata = {{"format", "pt"}, {"quote \" and \n line", "\xe5\xb1\xa4 \\ \x01"}};
  write_safetensors(path_, tensors, metadata);

  const SafetensorsFile file = SafetensorsFile::open(path_);
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(file.tensors().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor back = file.read(name);
    EXPECT_EQ(back.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(back.sizes(), tensor.sizes()) << name;
    ASSERT_EQ(back.nbytes(), tensor.nbytes()) << name;
    if (tensor.numel() == 0) continue;
    EXPECT_EQ(std::memcmp(back.const_data_ptr(), tensor.const_data_ptr(), tensor.nbytes()), 0) << name;
  }
  // Each tensor is aligned to its own elements, counted from the beginning of the file.
  const uint64_t data_begin = fs::file_size(path_) - file.tensors().back().end;
  for (const TensorInfo& info : file.tensors()) {
    EXPECT_EQ((data_begin + info.begin) % c10::elementSize(info.dtype), 0u) << info.name;
  }
}

TEST_F(SafetensorsTest, ViewsAndTensorsWithGradientsAreWrittenAsTheirValues) {
  const Tensor base = at::arange(6, at::kFloat).view({2, 3});
  Tensor parameter = base.clone();
  parameter.requires_grad_(true);
  write_safetensors(path_, {{"t", base.t()}, {"row", base[1]}, {"spread", at::ones({1}).expand({4})}, {"p", parameter}},
                    {});
  const SafetensorsFile file = SafetensorsFile::open(path_);
  EXPECT_TRUE(at::equal(file.read("t"), at::tensor({0.f, 3.f, 1.f, 4.f, 2.f, 5.f}).view({3, 2})));
  EXPECT_TRUE(at::equal(file.read("row"), at::tensor({3.f, 4.f, 5.f})));
  EXPECT_TRUE(at::equal(file.read("spread"), at::tensor({1.f, 1.f, 1.f, 1.f})));
  EXPECT_TRUE(at::equal(file.read("p"), base));
  EXPECT_FALSE(file.read("p").requires_grad());
}

TEST_F(SafetensorsTest, TheBytesDoNotDependOnTheOrderOfTheTensors) {
  const Tensor x = at::arange(3, at::kFloat), y = at::arange(5, at::kLong);
  write_safetensors(path_, {{"x", x}, {"y", y}, {"z", x}}, {});
  const std::string bytes = read_file(path_);
  write_safetensors(path_, {{"z", x}, {"y", y}, {"x", x}}, {});
  EXPECT_EQ(read_file(path_), bytes);
}

TEST_F(SafetensorsTest, AFileWithoutTensorsIsValid) {
  write_safetensors(path_, {}, {});
  EXPECT_EQ(read_file(path_), length_bytes(8) + "{}      ");
  EXPECT_TRUE(SafetensorsFile::open(path_).tensors().empty());
}

TEST_F(SafetensorsTest, AFiniteNumberBeyondFloat16IsAnErrorAndTheOldFileStays) {
  put("old");
  const float inf = std::numeric_limits<float>::infinity();
  const auto write = [&](float value, at::ScalarType dtype) {
    write_safetensors(path_, {{"fits", at::ones({2})}, {"wide", at::tensor({1.0f, value})}}, {}, dtype);
    return SafetensorsFile::open(path_).read_float32("wide")[1].item<float>();
  };
  for (const float value : {65520.0f, -1e5f}) {  // 65520 is the least that rounds to infinity
    const std::string message = error_of(4, [&] { write(value, at::kHalf); });
    for (const char* part : {"\"wide\"", "float16", "keel convert"}) EXPECT_THAT(message, HasSubstr(part));
    EXPECT_EQ(read_file(path_), "old");
    EXPECT_FALSE(fs::exists(path_.string() + ".partial"));
  }
  EXPECT_EQ(write(65519.0f, at::kHalf), 65504.0f);
  EXPECT_EQ(write(-inf, at::kHalf), -inf);  // it was no number before either
  EXPECT_EQ(write(131072.0f, at::kBFloat16), 131072.0f);
}

TEST_F(SafetensorsTest, AnUnreadableTensorIsNotWrittenAndTheOldFileStays) {
  put("old");
  struct Case {
    std::vector<std::pair<std::string, Tensor>> tensors;
    Metadata metadata;
    std::string message;
  };
  const Tensor x = at::ones({2});
  for (const auto& [tensors, metadata, message] :
       std::vector<Case>{{{{"x", x}, {"x", x}}, {}, "two tensors have the name \"x\""},
                         {{{"a/b", x}}, {}, "holds a slash"},
                         {{{"__metadata__", x}}, {}, "is reserved"},
                         {{{"x", Tensor()}}, {}, "is undefined"},
                         {{{"x", at::ones({2}, at::kComplexFloat)}}, {}, "has the dtype ComplexFloat"},
                         {{{"x", x.view({1, 1, 1, 1, 1, 1, 1, 1, 2})}}, {}, "more than 8 dimensions"},
                         {{{"x", x}}, {{"k", "\xff"}}, "is not UTF-8"},
                         {{{"x", x}}, {{"k", std::string(100'000'000, 'v')}}, "readers accept at most 100000000"}}) {
    try {
      write_safetensors(path_, tensors, metadata);
      ADD_FAILURE() << "no error, expected: " << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kInternal);
      EXPECT_THAT(std::string(error.what()), HasSubstr(message));
      EXPECT_THAT(std::string(error.what()), HasSubstr(path_.filename().string()));
    }
  }
  EXPECT_EQ(read_file(path_), "old");
  EXPECT_FALSE(fs::exists(path_.string() + ".partial"));
}

}  // namespace
}  // namespace keel
