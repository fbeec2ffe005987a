#include "keel/record/tokens/token_reader.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "keel/core/error.h"
#include "keel/core/random.h"
#include "keel/record/tokens/token_file.h"
#include "tests/support/effort.h"
#include "tests/support/errors.h"
#include "tests/support/test_folder.h"

namespace keel {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr float TokenRow::*kNumbers[] = {&TokenRow::log_mu,
                                         &TokenRow::log_pi,
                                         &TokenRow::log_other_mu,
                                         &TokenRow::log_other_pi,
                                         &TokenRow::log_recomputed,
                                         &TokenRow::log_other_recomputed,
                                         &TokenRow::log_reference,
                                         &TokenRow::topk_tv,
                                         &TokenRow::topk_kl,
                                         &TokenRow::topk_tv_replace_last,
                                         &TokenRow::topk_kl_replace_last,
                                         &TokenRow::full_tv,
                                         &TokenRow::full_kl,
                                         &TokenRow::divergence,
                                         &TokenRow::threshold,
                                         &TokenRow::ratio,
                                         &TokenRow::advantage,
                                         &TokenRow::coefficient,
                                         &TokenRow::weight,
                                         &TokenRow::entropy,
                                         &TokenRow::entropy_mu,
                                         &TokenRow::choices};

bool can_read() {
  try {
    require_token_files();
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Rows that differ in every member; some numbers are unknown, infinite or below what float32 has at full precision.
std::vector<TokenRow> some_rows(int64_t step, int count) {
  std::vector<TokenRow> rows;
  for (int i = 0; i < count; ++i) {
    TokenRow row;
    row.step = step, row.update = i / 40, row.prompt = 7'000'000'000 + i, row.group = i % 3, row.rollout = i / 10;
    row.policy_version = i / 2, row.position = i % 10, row.token_id = 3 * i;
    row.token = i % 4 == 0 ? "" : i % 4 == 1 ? " \xc3\xa9\xe2\x82\xac" : std::string("a\0b", 3) + std::to_string(i);
    float value = -0.125f * static_cast<float>(i + 1);
    for (const auto member : kNumbers) row.*member = value *= 1.1f;
    for (const auto& [other, logp] : {std::pair{&TokenRow::log_other_mu, &TokenRow::log_mu},
                                      {&TokenRow::log_other_pi, &TokenRow::log_pi},
                                      {&TokenRow::log_other_recomputed, &TokenRow::log_recomputed}})
      row.*other = std::log1p(-std::exp(row.*logp));
    for (const auto tv : {&TokenRow::topk_tv, &TokenRow::topk_tv_replace_last, &TokenRow::full_tv})
      row.*tv = std::exp(row.*tv);
    for (const auto kl : {&TokenRow::topk_kl, &TokenRow::topk_kl_replace_last, &TokenRow::full_kl})
      row.*kl = -(row.*kl);
    if (i % 5 == 0) row.log_recomputed = row.topk_kl = row.entropy = TokenRow::kUnknown;
    for (const auto size : {&TokenRow::ratio, &TokenRow::entropy, &TokenRow::entropy_mu}) row.*size = -(row.*size);
    if (i % 7 == 0) row.divergence = kInfinity, row.coefficient = -0.0f, row.weight = 1e-42f;
    row.outside = i % 2 == 0, row.kept = !row.outside || i % 3 != 0, row.reward = 1.0 / (i + 3);
    rows.push_back(row);
  }
  return rows;
}

/// Writes a file of these rows in row groups of `part` rows.
std::filesystem::path file_of(const std::filesystem::path& folder, std::span<const TokenRow> rows, size_t part,
                              const Json& more = Json::object()) {
  TokenFile file(folder, rows[0].step);
  for (size_t i = 0; i < rows.size(); i += part) file.add(rows.subspan(i, std::min(part, rows.size() - i)));
  Json facts = {{"step", rows[0].step}, {"method", "dppo_tv"}};
  facts.update(more);
  file.commit(facts);
  return folder / TokenFile::name(rows[0].step);
}

std::vector<TokenRow> all_rows(TokenReader reader) {
  std::vector<TokenRow> rows;
  for (std::vector<TokenRow> some = reader.next(); !some.empty(); some = reader.next())
    rows.insert(rows.end(), some.begin(), some.end());
  return rows;
}

/// All members of a row, bitwise.
std::string bits_of(const TokenRow& r) {
  std::string text = str_cat(r.step, " ", r.update, " ", r.prompt, " ", r.group, " ", r.rollout, " ", r.policy_version,
                             " ", r.position, " ", r.token_id, " [", r.token, "] ", r.kept, " ", r.outside);
  for (const auto member : kNumbers) {
    const float number = r.*member;
    text += " " + (std::isnan(number) ? "unknown" : std::to_string(std::bit_cast<uint32_t>(number)));
  }
  return text + " " + std::to_string(std::bit_cast<uint64_t>(r.reward));
}

void expect_same(std::span<const TokenRow> got, std::span<const TokenRow> wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(bits_of(got[i]), bits_of(wanted[i])) << i;
}

class TokenReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_read()) GTEST_SKIP() << "built without Arrow";
  }
  const TestFolder made_;
};

TEST_F(TokenReaderTest, ReadsTheRowsThatWereWritten) {
  const std::vector<TokenRow> rows = some_rows(12, 100);
  const std::filesystem::path file = file_of(made_.path, rows, 33);
  TokenReader reader(file);
  EXPECT_EQ(reader.rows(), 100);
  EXPECT_EQ(reader.metadata().at("method"), "dppo_tv");
  expect_same(all_rows(std::move(reader)), rows);
}

TEST_F(TokenReaderTest, ReadsSomeColumns) {
  const std::vector<TokenRow> rows = some_rows(12, 100);
  const std::filesystem::path file = file_of(made_.path, rows, 33);
  const std::vector<TokenRow> some = all_rows(TokenReader(file, {"kept", "token"}));
  ASSERT_EQ(some.size(), rows.size());
  for (size_t i = 0; i < some.size(); ++i) {
    TokenRow wanted;
    wanted.kept = rows[i].kept, wanted.token = rows[i].token;
    ASSERT_EQ(bits_of(some[i]), bits_of(wanted));
  }
}

TEST_F(TokenReaderTest, ReadsManyRowsInBatches) {
  std::vector<TokenRow> rows(40'000);
  for (size_t i = 0; i < rows.size(); ++i) rows[i].step = 3, rows[i].rollout = static_cast<int64_t>(i);
  TokenReader reader(file_of(made_.path, rows, rows.size()), {"step", "rollout"});
  int64_t next = 0;
  for (std::vector<TokenRow> some = reader.next(); !some.empty(); some = reader.next()) {
    EXPECT_LE(some.size(), 16'384u);
    for (const TokenRow& row : some) ASSERT_EQ(row.rollout, next++);
  }
  EXPECT_EQ(next, 40'000);
}

TEST_F(TokenReaderTest, RejectsRowsOutOfOrder) {
  const std::vector<TokenRow> rows = some_rows(12, 100);
  for (const auto& [first, second] : {std::pair{3, 4}, {0, 10}, {45, 5}}) {  // tokens, completions, updates
    std::vector<TokenRow> mixed = rows;
    std::swap(mixed[static_cast<size_t>(first)], mixed[static_cast<size_t>(second)]);
    EXPECT_THAT(error_of(3, [&] { all_rows(TokenReader(file_of(made_.path, mixed, 33))); }),
                HasSubstr("is out of order"));
  }
}

TEST_F(TokenReaderTest, ReadsAFileWithoutRows) {
  TokenFile file(made_.path, 5);
  file.commit({{"step", 5}});
  EXPECT_TRUE(all_rows(TokenReader(made_.path / TokenFile::name(5))).empty());
}

TEST_F(TokenReaderTest, RejectsDamagedRecords) {
  const std::string file = file_of(made_.path, some_rows(12, 10), 10).string();
  const std::string bytes = read_file(file);
  error_of(3, [&] { TokenReader{made_.path / "none.parquet"}; });
  error_of(3, [&] { TokenReader{made_.path}; });
  const auto refused = [&](const std::string& name, const std::string& content, const std::string& why) {
    EXPECT_THAT(error_of(3, [&] { TokenReader{made_.write(name, content)}; }), HasSubstr(why));
  };
  const auto changed = [&](std::string_view from, std::string_view to) {
    std::string other = bytes;
    const size_t at = other.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return other.replace(at, from.size(), to);
  };
  refused("step-00000012.parquet.partial", bytes, "is being written; wait for the end of the step");
  refused("step-00000013.parquet", bytes, "its name has step 13, keel.step has 12");
  refused("any.parquet", "", "damaged token record");
  refused("any.parquet", "no Parquet file at all", "damaged token record");
  refused("any.parquet",
          changed("keel.format\x18\x01"
                  "1",
                  "keel.format\x18\x01"
                  "2"),
          "format \"2\" (expected 1)");
  refused("any.parquet", changed("keel.format", "Keel.format"), "no keel.format");
  refused("any.parquet", changed("{\"step\"", "[\"step\""), "is not a JSON object");
}

/// Parquet pages have checksums for their values, but not for their headers and the footer.
TEST_F(TokenReaderTest, TruncatedOrChangedFilesAreRejectedOrReadTheSame) {
  const std::vector<TokenRow> rows = some_rows(12, 60);
  const std::string bytes = read_file(file_of(made_.path, rows, 30));
  const auto read = [&](const std::string& content) -> std::optional<std::vector<TokenRow>> {
    try {
      return all_rows(TokenReader(made_.write("damaged.parquet", content)));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput) << error.what();
      return {};
    }
  };
  const size_t stride = count<size_t>(29, 1);
  for (size_t size = 0; size < bytes.size(); size += stride)
    ASSERT_FALSE(read(bytes.substr(0, size))) << size << " of " << bytes.size() << " bytes";
  RandomSequence draws(1, Stream::kTokenRecords, 0);
  int refused = 0, changed = 0;
  const int flips = count(600, 20'000);
  for (int i = 0; i < flips; ++i) {
    std::string other = bytes;
    const uint32_t at = draws.below(static_cast<uint32_t>(bytes.size())), bit = draws.below(8);
    other[at] = static_cast<char>(other[at] ^ (1 << bit));
    const std::optional<std::vector<TokenRow>> got = read(other);
    if (!got) {
      ++refused;
      continue;
    }
    bool same = got->size() == rows.size();
    for (size_t r = 0; same && r < rows.size(); ++r) same = bits_of((*got)[r]) == bits_of(rows[r]);
    if (!same) ++changed;
  }
  EXPECT_GT(refused, flips / 3);
  EXPECT_LE(changed, flips / 2000);
}

TEST(TokenFiles, AreSortedByStep) {
  const TestFolder made;
  const std::filesystem::path run = made.path;
  EXPECT_TRUE(token_files(run).empty());
  EXPECT_THAT(no_token_files(run), HasSubstr("has no token records (tokens/step-*.parquet)"));
  EXPECT_THAT(no_token_files(run / "none"), HasSubstr("no such folder"));
  create_directories(run / "tokens");
  made.write("tokens/step-00000011.parquet.partial", "");
  EXPECT_TRUE(token_files(run).empty());
  EXPECT_THAT(no_token_files(run), HasSubstr("is being written; wait"));
  for (const char* name : {"step-100000000.parquet", "step-00000010.parquet", "step-00000009.parquet", "mine.parquet"})
    made.write("tokens/" + std::string(name), "");
  EXPECT_EQ(token_files(run), (std::vector<std::filesystem::path>{run / "tokens/step-00000009.parquet",
                                                                  run / "tokens/step-00000010.parquet",
                                                                  run / "tokens/step-100000000.parquet"}));
}

}  // namespace
}  // namespace keel
