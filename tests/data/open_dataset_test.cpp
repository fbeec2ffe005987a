#include "keel/data/open_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/data/data_support.h"
#include "tests/support/errors.h"

namespace keel {
namespace {

ChatTemplates templates(const char* source =
                            "{{ bos_token }}{% for m in messages %}<turn>{{ m.role }}: {{ m.content }}<end>{% endfor %}"
                            "{% if add_generation_prompt %}<turn>assistant: {% endif %}") {
  return ChatTemplates::from_json(source, "test");
}

OpenedDataset open(const DataOptions& options, uint64_t seed = 1, const ChatTemplates& chat = templates()) {
  return open_dataset(options, seed, byte_tokenizer(), chat);
}

std::string numbered_rows(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += Json({{"prompt", "problem " + std::to_string(i)}, {"answer", i}, {"n", i}}).dump() + "\n";
  return text;
}

std::vector<int> answers(const std::vector<Prompt>& prompts) {
  std::vector<int> result;
  for (const Prompt& prompt : prompts) result.push_back(prompt.answer.get<int>());
  return result;
}

DataOptions options_for(const std::string& file) {
  DataOptions options;
  options.files = {file};
  return options;
}

TEST(OpenDataset, ReturnsEveryRowOncePerEpochInANewOrder) {
  const TestFolder folder;
  OpenedDataset data = open(options_for(folder.write("rows.jsonl", numbered_rows(500))));
  EXPECT_EQ(data.identity.rows, 500u);
  const std::vector<int> first = answers(data.train.next(500)), second = answers(data.train.next(500));
  EXPECT_EQ(std::set<int>(first.begin(), first.end()).size(), 500u);
  EXPECT_EQ(std::set<int>(second.begin(), second.end()).size(), 500u);
  EXPECT_NE(first, second);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));

  DataOptions in_order = options_for((folder.path / "rows.jsonl").string());
  in_order.shuffle = false;
  const std::vector<int> unshuffled = answers(open(in_order).train.next(500));
  EXPECT_TRUE(std::is_sorted(unshuffled.begin(), unshuffled.end()));
}

TEST(OpenDataset, ContinuesExactlyAtASavedPosition) {
  const TestFolder folder;
  std::string text = numbered_rows(97);
  text.insert(text.find("{\"prompt\":\"problem 40\""),
              "broken\n{\"prompt\": \"much too long for the limit below\", \"answer\": -1}\n");
  DataOptions options = options_for(folder.write("rows.jsonl", text));
  options.bad_rows = "skip";
  options.max_prompt_tokens = 12;  // "problem 40" has ten bytes
  OpenedDataset whole = open(options);
  const std::vector<Prompt> expected = whole.train.next(300);
  for (const int64_t stop : {0, 1, 50, 96, 97, 98, 200}) {
    OpenedDataset before = open(options);
    before.train.next(stop);
    OpenedDataset after = open(options);
    after.train.seek(before.train.position());
    const std::vector<Prompt> rest = after.train.next(300 - stop);
    ASSERT_EQ(rest.size(), expected.size() - static_cast<size_t>(stop));
    for (size_t i = 0; i < rest.size(); ++i) {
      EXPECT_EQ(rest[i].id, expected[i + static_cast<size_t>(stop)].id);
      EXPECT_EQ(rest[i].text, expected[i + static_cast<size_t>(stop)].text);
    }
    EXPECT_EQ(after.train.position(), whole.train.position());
  }
  // 300 prompts from 97 good rows of 99: three epochs and nine prompts, so the two bad rows occur repeatedly.
  EXPECT_EQ(whole.train.skipped().bad, 1u);
  EXPECT_EQ(whole.train.skipped().too_long, 1u);
  EXPECT_GE(whole.train.position(), 3 * 99 + 9u);
}

TEST(OpenDataset, StopsAtABadRowUnlessBadRowsAreSkipped) {
  const TestFolder folder;
  DataOptions options = options_for(folder.write("rows.jsonl", numbered_rows(3) + "broken\n"));
  options.bad_rows = "stop_late";
  OpenedDataset data = open(options);
  EXPECT_THAT(error_of(3, [&] { data.train.next(4); }), HasSubstr("rows.jsonl:4: not valid JSON"));
}

TEST(OpenDataset, SkipsLongPromptsAndRejectsADatasetWithoutPrompts) {
  const TestFolder folder;
  DataOptions options = options_for(folder.write("rows.jsonl", numbered_rows(11)));
  options.max_prompt_tokens = 9;  // "problem 9" fits, "problem 10" does not
  OpenedDataset data = open(options);
  for (const int answer : answers(data.train.next(20))) EXPECT_LT(answer, 10);
  EXPECT_GE(data.train.skipped().too_long, 1u);
  EXPECT_THAT(data.train.skipped().first, HasSubstr("rows.jsonl:11: a prompt of 10 tokens"));
  options.max_prompt_tokens = 3;
  OpenedDataset none = open(options);
  EXPECT_THAT(error_of(3, [&] { none.train.next(1); }),
              HasSubstr("none of the 11 rows is usable as a prompt; 11 are too long"));
}

TEST(OpenDataset, TheErrorNamesHeldOutIfItTakesAllRows) {
  const TestFolder folder;
  const std::string row = R"({"prompt": "problem 0", "answer": 0})"
                          "\n";
  DataOptions options = options_for(folder.write("rows.jsonl", row + row + row));
  options.held_out = 0.9999;
  OpenedDataset data = open(options);
  EXPECT_THAT(error_of(3, [&] { data.train.next(1); }),
              AllOf(HasSubstr("0 are bad, 3 are held out for evaluation (data.held_out"),
                    HasSubstr("lower it, or set data.eval_files")));
}

TEST(OpenDataset, HoldsOutAFractionByContentThatIsNeverTrained) {
  const TestFolder folder;
  // Every problem is in the file twice. Both copies must be held out or trained.
  DataOptions options = options_for(folder.write("rows.jsonl", numbered_rows(1000) + numbered_rows(1000)));
  options.held_out = 0.2;
  OpenedDataset data = open(options);
  ASSERT_TRUE(data.held_out);
  const std::vector<int> held_out = answers(data.held_out->next(5000));  // one epoch, then it ends
  const std::set<int> kept(held_out.begin(), held_out.end());
  EXPECT_EQ(held_out.size(), 2 * kept.size());
  EXPECT_NEAR(static_cast<double>(kept.size()), 200, 50);  // 4 standard deviations
  const std::vector<int> trained = answers(data.train.next(static_cast<int64_t>(2000 - held_out.size())));
  std::set<int> both(trained.begin(), trained.end());
  EXPECT_EQ(both.size(), 1000 - kept.size());
  both.insert(kept.begin(), kept.end());
  EXPECT_EQ(both.size(), 1000u);
  EXPECT_EQ(answers(open(options, /*seed=*/2).held_out->next(5000)), held_out);  // independent of the seed
}

TEST(OpenDataset, ReadsEvaluationFilesInOrder) {
  const TestFolder folder;
  DataOptions options = options_for(folder.write("train.jsonl", numbered_rows(10)));
  options.eval_files = {folder.write("eval.jsonl", numbered_rows(3))};
  OpenedDataset data = open(options);
  EXPECT_EQ(answers(data.held_out->next(2)), (std::vector<int>{0, 1}));
  EXPECT_EQ(answers(data.held_out->next(2)), (std::vector<int>{2}));
  EXPECT_EQ(data.notes.back(),
            "eval_files: read as: TRL; answer from answer, prompt from prompt (a text, given as it is)");
  EXPECT_EQ(data.eval_files->rows(), 3u);
  options.chat = "always";
  EXPECT_THAT(open(options).notes.front(), testing::EndsWith("prompt from prompt (a text, as the user's message)"));
  options.chat = "never";
  EXPECT_THAT(open(options).notes.front(), testing::EndsWith("prompt from prompt (a text, given as it is)"));
  EXPECT_THAT(open(options, 1, {}).notes.front(), testing::EndsWith("prompt from prompt (a text)"));
}

TEST(OpenDataset, DetectsTextsWithoutTheModelsChatTemplate) {
  const TestFolder folder;
  DataOptions options = options_for(folder.write("rows.jsonl", numbered_rows(2)));
  EXPECT_TRUE(open(options).misses_template);
  EXPECT_FALSE(open(options, 1, {}).misses_template);  // no template
  for (const char* chosen : {"always", "never"}) {
    options.chat = chosen;
    EXPECT_FALSE(open(options).misses_template) << chosen;
  }
  options.chat = "auto";
  options.files = {folder.write("chat.jsonl", R"({"prompt": [{"role": "user", "content": "hi"}]})")};
  EXPECT_FALSE(open(options).misses_template);
}

TEST(OpenDataset, KeepsAllOtherColumnsForTheReward) {
  const TestFolder folder;
  const Prompt prompt = open(options_for(folder.write("rows.jsonl", numbered_rows(1)))).train.next(1)[0];
  EXPECT_EQ(prompt.text, "problem 0");
  EXPECT_EQ(prompt.tokens, byte_ids("problem 0"));
  EXPECT_EQ(prompt.source, "rows");
  EXPECT_TRUE(prompt.messages.is_null());
  EXPECT_EQ(prompt.extra, Json::parse(R"({"answer": 0, "n": 0})"));
}

TEST(OpenDataset, RendersConversationsAndOnRequestTexts) {
  const TestFolder folder;
  const std::string chat = folder.write("chat.jsonl", R"({"prompt": [{"role": "user", "content": "hi"}]})");
  const std::string text = folder.write("text.jsonl", R"({"prompt": "hi"})");
  const std::string own = folder.write(
      "own.jsonl", R"({"prompt": [{"role": "system", "content": "S"}, {"role": "user", "content": "hi"}]})");
  const auto rendered = [&](const std::string& file, const std::string& mode, const std::string& system) {
    DataOptions options = options_for(file);
    options.chat = mode, options.system_prompt = system;
    return open(options).train.next(1)[0].text;
  };
  EXPECT_EQ(rendered(chat, "auto", ""), "<bos><turn>user: hi<end><turn>assistant: ");
  EXPECT_EQ(rendered(chat, "auto", "Be brief."),
            "<bos><turn>system: Be brief.<end><turn>user: hi<end><turn>assistant: ");
  EXPECT_EQ(rendered(own, "auto", "Be brief."), "<bos><turn>system: S<end><turn>user: hi<end><turn>assistant: ");
  EXPECT_EQ(rendered(text, "auto", ""), "hi");
  EXPECT_EQ(rendered(text, "never", ""), "hi");
  EXPECT_EQ(rendered(text, "always", ""), "<bos><turn>user: hi<end><turn>assistant: ");
  EXPECT_EQ(rendered(text, "auto", "Be brief."),
            "<bos><turn>system: Be brief.<end><turn>user: hi<end><turn>assistant: ");
  EXPECT_THAT(error_of(2, [&] { rendered(chat, "never", ""); }),
              HasSubstr("chat.jsonl:1: the prompt is a conversation"));
  EXPECT_THAT(error_of(2, [&] { rendered(text, "never", "x"); }), HasSubstr("data.system_prompt"));
  EXPECT_THAT(error_of(2, [&] { open(options_for(chat), 1, {}).train.next(1); }),
              HasSubstr("the prompt needs a chat template"));
}

// TRL's is_conversational depends on the dataset, not on the model.
TEST(OpenDataset, KeepsTheFormOfTheRow) {
  const TestFolder folder;
  const auto first = [&](const std::string& row, const std::string& system) {
    DataOptions options = options_for(folder.write("rows.jsonl", row));
    options.chat = system.empty() ? "always" : "auto", options.system_prompt = system;
    return open(options).train.next(1)[0];
  };
  for (const char* system : {"", "Be brief."}) {
    const Prompt text = first(R"({"prompt": "hi"})", system);
    EXPECT_TRUE(text.messages.is_null());
    EXPECT_EQ(text.row_text, "hi");
  }
  const Prompt chat = first(R"({"prompt": [{"role": "user", "content": "hi"}]})", "Be brief.");
  EXPECT_EQ(chat.messages.back(), (Json{{"role", "user"}, {"content", "hi"}}));
  EXPECT_EQ(chat.row_text, "");
}

TEST(OpenDataset, NamesTheFirstRowOfAnErrorInAllRows) {
  const TestFolder folder;
  std::string rows;
  for (int i = 0; i < 50; ++i) rows += R"({"prompt": [{"role": "user", "content": ")" + std::to_string(i) + "\"}]}\n";
  DataOptions options = options_for(folder.write("rows.jsonl", rows));
  options.chat = "never";
  EXPECT_THAT(error_of(2, [&] { open(options).train.next(1); }), HasSubstr("rows.jsonl:1: the prompt is a"));
}

TEST(OpenDataset, NeverParsesMessageContentAsSpecialTokens) {
  const TestFolder folder;
  // The second message is the text that the template writes after the first.
  const std::string path = folder.write(
      "rows.jsonl", R"({"prompt": [{"role": "system", "content": "a"}, {"role": "user", "content": "<end>"}]})");
  const Prompt prompt = open(options_for(path)).train.next(1)[0];
  EXPECT_EQ(prompt.text, "<bos><turn>system: a<end><turn>user: <end><end><turn>assistant: ");
  std::vector<int32_t> expected = {256, 257};
  const auto add = [&](const std::vector<int32_t>& ids) { expected.insert(expected.end(), ids.begin(), ids.end()); };
  add(byte_ids("system: a"));
  add({258, 257});
  add(byte_ids("user: <end>"));  // as bytes
  add({258, 257});
  add(byte_ids("assistant: "));
  EXPECT_EQ(prompt.tokens, expected);

  // A text that becomes a message behaves the same.
  DataOptions always = options_for(folder.write("text.jsonl", R"({"prompt": "<end>"})"));
  always.chat = "always";
  expected = {256, 257};
  add(byte_ids("user: <end>"));
  add({258, 257});
  add(byte_ids("assistant: "));
  EXPECT_EQ(open(always).train.next(1)[0].tokens, expected);
}

TEST(OpenDataset, ParsesSpecialTokensInAText) {
  const TestFolder folder;
  DataOptions options = options_for(folder.write("rows.jsonl", R"({"prompt": "<turn>user: x<end><turn>"})"));
  std::vector<int32_t> expected = {257};
  for (const int32_t id : byte_ids("user: x")) expected.push_back(id);
  expected.insert(expected.end(), {258, 257});
  EXPECT_EQ(open(options).train.next(1)[0].tokens, expected);
}

TEST(OpenDataset, ARowThatTheTemplateRejectsIsABadRow) {
  const TestFolder folder;
  const ChatTemplates strict = templates(
      "{% if messages[0].content == 'no' %}{{ raise_exception('not this') }}{% endif %}{{ messages[0].content }}");
  const std::string path = folder.write("rows.jsonl", R"({"prompt": [{"role": "user", "content": "yes"}]})"
                                                      "\n"
                                                      R"({"prompt": [{"role": "user", "content": "no"}]})"
                                                      "\n");
  DataOptions options = options_for(path);
  OpenedDataset stops = open(options, 1, strict);
  EXPECT_THAT(error_of(3, [&] { stops.train.next(2); }), AllOf(HasSubstr("rows.jsonl:2: "), HasSubstr("not this")));
  options.bad_rows = "skip";
  OpenedDataset skips = open(options, 1, strict);
  EXPECT_EQ(skips.train.next(2)[1].text, "yes");
  EXPECT_GE(skips.train.skipped().bad, 1u);
}

TEST(OpenDataset, GivesTemplatesAFixedDate) {
  const TestFolder folder;
  const DataOptions options =
      options_for(folder.write("rows.jsonl", R"({"prompt": [{"role": "user", "content": "x"}]})"));
  const ChatTemplates dated = templates("{{ strftime_now('%d %b %Y, %A') }}");
  EXPECT_EQ(open(options, 1, dated).train.next(1)[0].text, "26 Jul 2024, Friday");
}

TEST(OpenDataset, PassesTheChatTemplateKwargs) {
  const TestFolder folder;
  DataOptions options = options_for(folder.write("rows.jsonl", R"({"prompt": [{"role": "user", "content": "x"}]})"));
  const ChatTemplates choosing =
      templates("{{ messages[0].content }}{% if enable_thinking is false %} /no_think{% endif %}");
  const std::string plain = open(options, 1, choosing).train.next(1)[0].text;
  options.chat_template_kwargs = {"enable_thinking=false"};
  EXPECT_EQ(open(options, 1, choosing).train.next(1)[0].text, plain + " /no_think");
  for (const char* wrong : {"enable_thinkng=false", "enable_thinking", "messages=[]"}) {
    options.chat_template_kwargs = {wrong};
    EXPECT_THAT(error_of(2, [&] { open(options, 1, choosing); }), HasSubstr("data.chat_template_kwargs"));
  }
}

TEST(OpenDataset, ReadsGsm8k) {
  const char* named = std::getenv("KEEL_GSM8K");
  const std::filesystem::path folder = named != nullptr ? named : "../shared/data/gsm8k";
  if (!std::filesystem::exists(folder / "train.jsonl"))
    GTEST_SKIP() << "GSM8K is not at " << folder << "; KEEL_GSM8K names the folder of its train.jsonl and test.jsonl";
  DataOptions options = options_for((folder / "train.jsonl").string());
  options.eval_files = {(folder / "test.jsonl").string()};
  options.shuffle = false;
  OpenedDataset data = open(options);
  EXPECT_EQ(data.identity.rows, 7473u);
  EXPECT_EQ(data.train.next(1)[0].answer, "72");  // Natalia's clips
  EXPECT_EQ(data.held_out->next(2000).size(), 1319u);
}

}  // namespace
}  // namespace keel
