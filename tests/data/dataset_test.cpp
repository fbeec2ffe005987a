#include "keel/data/dataset.h"

#include <gtest/gtest.h>

#include "tests/data/data_support.h"
#include "tests/support/errors.h"

namespace keel {
namespace {

std::string row(const std::string& prompt, int answer) {
  return Json({{"prompt", prompt}, {"answer", answer}}).dump() + "\n";
}

DataOptions with(const std::string& bad_rows) {
  DataOptions options;
  options.bad_rows = bad_rows;
  return options;
}

TEST(Dataset, ConcatenatesItsFiles) {
  const TestFolder folder;
  folder.write("b-1.jsonl", row("p0", 0) + row("p1", 1));
  folder.write("b-2.jsonl", "");
  folder.write("b-3.jsonl", row("p2", 2) + row("p3", 3));
  const std::string last = folder.write("a.jsonl", R"({"question": "p4", "answer": "so\n#### 4"})");
  const Dataset dataset = Dataset::open({(folder.path / "b-?.jsonl").string(), last}, {});
  ASSERT_EQ(dataset.rows(), 5u);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(dataset.read(i).prompt, "p" + std::to_string(i));
  EXPECT_EQ(dataset.read(4).answer, "4");
  EXPECT_EQ(dataset.read(0).source, "b-1");
  EXPECT_EQ(dataset.notes(), (std::vector<std::string>{
                                 "read as: TRL; answer from answer, prompt from prompt (a text)",
                                 "read as: question and answer; answer from answer (after ####), prompt from question "
                                 "(a text)"}));
}

TEST(Dataset, DistinguishesFilesOfOneNameByTheirFolders) {
  const TestFolder folder;
  std::vector<std::string> names;
  for (const char* name : {"gsm8k", "math", "more/math"}) {
    create_directories(folder.path / name);
    names.push_back(folder.write(name + std::string("/test.jsonl"), row("p", 1)));
  }
  names.push_back(folder.write("gsm8k/train.jsonl", row("p", 1)));
  names.push_back(names[0]);  // the same file is the same source
  const Dataset dataset = Dataset::open(names, {});
  const std::string name = folder.path.filename().string();
  const std::vector<std::string> expected = {"gsm8k/test", name + "/math/test", "more/math/test", "train",
                                             "gsm8k/test"};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(dataset.read(i).source, expected[i]);
  EXPECT_EQ(dataset.files_after(3), (std::vector<std::string>{names[3], names[0]}));
}

TEST(Dataset, StopsAtABadRowOrSkipsAndCountsIt) {
  const TestFolder folder;
  const std::string path =
      folder.write("rows.jsonl", row("a", 1) + "{\"prompt\": \n" + row("b", 2) + "\n{\"answer\": 1}\n");
  EXPECT_THAT(error_of(3, [&] { Dataset::open({path}, with("stop")); }), HasSubstr(path + ":2: not valid JSON"));

  const Dataset dataset = Dataset::open({path}, with("skip"));
  EXPECT_EQ(dataset.rows(), 4u);
  EXPECT_EQ(dataset.read(2).prompt, "b");
  EXPECT_TRUE(bad_row_of([&] { dataset.read(3); }).starts_with(path + ":5: column \"prompt\" is missing"));
  ASSERT_EQ(dataset.notes().size(), 2u);
  EXPECT_TRUE(dataset.notes()[1].starts_with("2 bad rows are skipped; the first: " + path + ":2: "))
      << dataset.notes()[1];
}

TEST(Dataset, TheErrorForAMissingPromptKeyListsTheColumns) {
  const TestFolder folder;
  const std::string path = folder.write("rows.jsonl", row("a", 1) + row("b", 2));
  for (const char* policy : {"stop", "skip"}) {
    DataOptions options = with(policy);
    options.prompt_key = "promt";
    EXPECT_THAT(error_of(3, [&] { Dataset::open({path}, options); }),
                HasSubstr(path + ":1: column \"promt\" is missing; the row has \"prompt\", \"answer\""));
    if (options.bad_rows == "stop") continue;
    options.bad_rows = "skip_late";
    EXPECT_TRUE(bad_row_of([&] {
                  Dataset::open({path}, options).read(1);
                }).starts_with(path + ":2: column \"promt\" is missing; the row has \"prompt\""));
  }
}

TEST(Dataset, EveryRowHasTheColumnsOfAllRowsOfItsFile) {
  const TestFolder folder;
  const std::string ragged = folder.write("ragged.jsonl",
                                          "{\"prompt\": \"a\", \"x\": 1}\n"
                                          "{\"prompt\": \"b\", \"y\": [2]}\n");
  const std::string other = folder.write("other.jsonl", "{\"question\": \"c\", \"z\": 3}\n");
  const Dataset dataset = Dataset::open({ragged, other}, with("stop"));
  EXPECT_EQ(dataset.read(0).extra, (Json{{"x", 1}, {"y", nullptr}}));
  EXPECT_EQ(dataset.read(1).extra, (Json{{"y", {2}}, {"x", nullptr}}));
  EXPECT_EQ(dataset.read(2).extra, (Json{{"z", 3}}));  // its file has other columns
}

TEST(Dataset, TheAnswerColumnMayFirstAppearInALaterRow) {
  const TestFolder folder;
  const std::string path = folder.write("rows.jsonl",
                                        "{\"question\": \"a\"}\n{\"question\": \"b\", \"solution\": \"2\"}\n"
                                        "{\"question\": \"c\", \"source\": \"s\", \"answer\": \"3\"}\n");
  const Dataset dataset = Dataset::open({path}, with("stop"));
  EXPECT_EQ(dataset.notes(),
            (std::vector<std::string>{"read as: question and answer; answer from solution, prompt from question "
                                      "(a text), source from source"}));
  EXPECT_TRUE(dataset.read(0).answer.is_null());
  EXPECT_EQ(dataset.read(1).answer, "2");
  EXPECT_EQ(dataset.read(2).source, "s");
}

TEST(Dataset, ANullOrMissingSourceDefaultsToTheFileName) {
  const TestFolder folder;
  const std::string path = folder.write("rows.jsonl",
                                        "{\"prompt\": \"a\", \"data_source\": null}\n"
                                        "{\"prompt\": \"b\", \"data_source\": \"s\"}\n"
                                        "{\"prompt\": \"c\"}\n");
  const Dataset dataset = Dataset::open({path}, with("stop"));
  EXPECT_EQ(dataset.read(0).source, "rows");
  EXPECT_EQ(dataset.read(1).source, "s");
  EXPECT_EQ(dataset.read(2).source, "rows");
  DataOptions named = with("stop");
  named.source_key = "data_source";
  EXPECT_THAT(error_of(3, [&] { Dataset::open({path}, named); }), HasSubstr("column \"data_source\" is null"));
}

TEST(Dataset, WithoutACheckAtTheStartReadingABadRowThrows) {
  const TestFolder folder;
  const std::string path = folder.write("rows.jsonl", row("a", 1) + "nonsense\n");
  const Dataset dataset = Dataset::open({path}, with("stop_late"));
  EXPECT_EQ(dataset.read(0).prompt, "a");
  EXPECT_TRUE(bad_row_of([&] { dataset.read(1); }).starts_with(path + ":2: not valid JSON"));
}

TEST(Dataset, StopsAtATruncatedFileOrReadsItsCompleteRows) {
  if (!has_arrow()) GTEST_SKIP() << "built without Arrow";
  const TestFolder folder;
  const std::string path = folder.write("rows.jsonl.gz", two_gzip_members().substr(0, 50));
  EXPECT_THAT(error_of(3, [&] { Dataset::open({path}, with("stop")); }),
              HasSubstr(path + ":2: the gzip file is truncated"));
  const Dataset dataset = Dataset::open({path}, with("skip"));
  EXPECT_EQ(dataset.read(0).prompt, "a");
  EXPECT_TRUE(
      dataset.notes()[1].starts_with("1 bad row is skipped; the first: " + path + ":2: the gzip file is truncated"));
}

/// The file has two rows and a truncated third one, compressed by Python's zlib.compressobj with a flush between them.
TEST(Dataset, ARowThatIsTruncatedWithItsFileIsBad) {
  if (!has_arrow()) GTEST_SKIP() << "built without Arrow";
  const TestFolder folder;
  const std::string path =
      folder.write("rows.jsonl.gz", bytes_of_hex("1f8b0800000000000203aa562a28cacf2d2851b2524a54d2514acc2b2e4f2d52b232a"
                                                 "ce5aa46c82421c918a1c824436400000000ffff"));
  EXPECT_THAT(error_of(3, [&] { Dataset::open({path}, with("stop")); }),
              HasSubstr(path + ":3: the gzip file is truncated"));
  const Dataset dataset = Dataset::open({path}, with("skip"));
  EXPECT_EQ(dataset.rows(), 3u);  // two rows and the truncated one
  EXPECT_EQ(dataset.read(1).prompt, "b");
  EXPECT_TRUE(bad_row_of([&] { dataset.read(2); }).starts_with(path + ":3: the gzip file is truncated"));
  EXPECT_TRUE(dataset.notes()[1].starts_with("1 bad row is skipped; ")) << dataset.notes()[1];
}

TEST(Dataset, ARowWithoutTheAnswerThatTheRewardNeedsIsBad) {
  const TestFolder folder;
  const std::string path = folder.write("rows.jsonl", row("a", 1) + "{\"prompt\": \"b\"}\n" + row("c", 3));
  const AnswerCheck check = [](const Json& answer, const std::string& source) {
    EXPECT_EQ(source, "rows");
    return answer.is_null() ? "it has no answer" : "";
  };
  const std::string problem = path + ":2: it has no answer; the answer is column \"answer\". Fix: correct it";
  EXPECT_THAT(error_of(3, [&] { Dataset::open({path}, with("stop"), check); }), HasSubstr(problem));
  const Dataset skipping = Dataset::open({path}, with("skip"), check);
  EXPECT_TRUE(skipping.notes()[1].starts_with("1 bad row is skipped; the first: " + problem));
  const Dataset unchecked = Dataset::open({path}, with("stop_late"), check);
  EXPECT_EQ(unchecked.read(2).prompt, "c");
  EXPECT_TRUE(bad_row_of([&] { unchecked.read(1); }).starts_with(problem));
  const std::string bare = folder.write("bare.jsonl", "{\"prompt\": \"b\"}\n");
  EXPECT_THAT(
      error_of(3, [&] { Dataset::open({bare}, with("stop"), [](const Json&, const std::string&) { return "no"; }); }),
      HasSubstr(bare + ":1: no; no column was recognised as the answer. Fix: set data.answer_key"));
}

TEST(Dataset, ListsTheSourcesIfAllRowsWereRead) {
  const TestFolder folder;
  folder.write("a.jsonl", R"({"prompt": "p", "data_source": "x"})"
                          "\n"
                          R"({"prompt": "q", "data_source": "y"})");
  folder.write("b.jsonl", R"({"prompt": "p"})");
  const std::vector<std::string> names = {(folder.path / "*.jsonl").string()};
  EXPECT_EQ(Dataset::open(names, {}).sources(), (std::set<std::string>{"b", "x", "y"}));
  EXPECT_EQ(Dataset::open(names, with("stop_late")).sources(), std::nullopt);
}

TEST(Dataset, RejectsInputWithoutUsableRows) {
  const TestFolder folder;
  const std::string empty = folder.write("empty.jsonl", "\n\n");
  EXPECT_THAT(error_of(3, [&] { Dataset::open({empty}, {}); }), HasSubstr("the data set is empty"));
  EXPECT_THAT(error_of(3, [&] { Dataset::open({folder.path.string() + "/*.json"}, {}); }),
              HasSubstr("no file matches"));
  EXPECT_THAT(error_of(3, [&] { Dataset::open({folder.path.string() + "/gone.jsonl"}, {}); }), HasSubstr("gone.jsonl"));
  EXPECT_THAT(error_of(3, [&] { Dataset::open({folder.path.string()}, {}); }),
              HasSubstr("is a folder. Fix: name its files"));
  const std::string bad = folder.write("bad.jsonl", "x\ny\n");
  EXPECT_THAT(error_of(3, [&] { Dataset::open({bad}, with("skip")); }),
              HasSubstr("none of the 2 rows can be used; the first: " + bad + ":1"));
}

TEST(Dataset, TheFingerprintChangesWithAFile) {
  const TestFolder folder;
  const auto fingerprint = [&](const std::string& text) {
    return Dataset::open({folder.write("rows.jsonl", text)}, {}).fingerprint();
  };
  const std::string before = fingerprint(row("a", 1) + row("b", 2));
  EXPECT_EQ(fingerprint(row("a", 1) + row("b", 2)), before);
  EXPECT_NE(fingerprint(row("a", 1) + row("b", 2) + row("c", 3)), before);
  EXPECT_NE(fingerprint(row("a", 1) + row("b", 3)), before);  // with the same length

  // One byte at several positions of a large file.
  std::string large;
  for (int i = 1000; i < 9000; ++i) large += row("problem " + std::to_string(i) + std::string(100, 'x'), i);
  const std::string whole = fingerprint(large);
  for (const size_t at : {size_t{20}, large.size() / 3, large.size() / 2, large.size() - 50}) {
    std::string changed = large;
    changed[changed.find('x', at)] = 'y';
    EXPECT_NE(fingerprint(changed), whole) << at;
  }
}

}  // namespace
}  // namespace keel
