#include "keel/data/schema.h"

#include <gtest/gtest.h>

#include "tests/data/data_support.h"

namespace keel {
namespace {

Row row_of(const char* text) { return {Json::parse(text), "f:1"}; }

struct Dialect {
  const char *row, *sentence, *prompt, *answer, *source;
};

// One row of each program, as its documentation shows it.
const Dialect kDialects[] = {
    {R"({"prompt": "The sky is", "ground_truth": "blue"})",
     "read as: TRL; answer from ground_truth, prompt from prompt (a text)", R"("The sky is")", R"("blue")", ""},
    {R"({"prompt": [{"role": "user", "content": "2+2?"}], "solution": "4"})",
     "read as: TRL; answer from solution, prompt from prompt (a conversation)",
     R"([{"role": "user", "content": "2+2?"}])", R"("4")", ""},
    {R"({"prompt": "Say something."})", "read as: TRL; no answer, prompt from prompt (a text)", R"("Say something.")",
     "null", ""},
    {R"({"data_source": "openai/gsm8k", "prompt": [{"role": "user", "content": "q"}], "ability": "math",
         "reward_model": {"style": "rule", "ground_truth": "72"}, "extra_info": {"split": "train", "index": 0}})",
     "read as: verl; answer from reward_model.ground_truth, prompt from prompt (a conversation), source from "
     "data_source",
     R"([{"role": "user", "content": "q"}])", R"("72")", "openai/gsm8k"},
    {R"({"data_source": "d", "prompt": [{"role": "user", "content": "q"}], "env_class": "gsm8k",
         "reward_spec": {"method": "rule", "ground_truth": "5"}, "extra_info": {}})",
     "read as: SkyRL; answer from reward_spec.ground_truth, prompt from prompt (a conversation), source from "
     "data_source",
     R"([{"role": "user", "content": "q"}])", R"("5")", "d"},
    {R"({"prompt": [{"role": "user", "content": "q"}], "label": "34", "metadata": {"k": 1}})",
     "read as: slime; answer from label, prompt from prompt (a conversation)", R"([{"role": "user", "content": "q"}])",
     R"("34")", ""},
    {R"({"input": "q", "label": "7"})", "read as: OpenRLHF; answer from label, prompt from input (a text)", R"("q")",
     R"("7")", ""},
    {R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "ground_truth": ["9"],
         "dataset": "math"})",
     "read as: open-instruct; answer from ground_truth, prompt from messages (a conversation), source from dataset",
     R"([{"role": "user", "content": "q"}])", R"(["9"])", "math"},
    {R"({"question": "How many?", "answer": "1000 + 234 = <<1000+234=1234>>\n#### 1,234"})",
     "read as: GSM8K; answer from answer (behind ####), prompt from question (a text)", R"("How many?")", R"("1234")",
     ""},
    {R"({"problem": "p", "solution": "so \\boxed{3}", "level": 5})",
     "read as: problem and answer; answer from solution, prompt from problem (a text)", R"("p")", R"("so \\boxed{3}")",
     ""},
};

TEST(Schema, RecognisesTheRowsOfOtherPrograms) {
  for (const Dialect& dialect : kDialects) {
    const Columns columns = recognise(row_of(dialect.row), {});
    EXPECT_EQ(columns.sentence(), dialect.sentence);
    const Example example = example_of(row_of(dialect.row), columns);
    EXPECT_EQ(example.prompt, Json::parse(dialect.prompt)) << dialect.sentence;
    EXPECT_EQ(example.answer, Json::parse(dialect.answer)) << dialect.sentence;
    EXPECT_EQ(example.source, dialect.source) << dialect.sentence;
    Json others = row_of(dialect.row).value;
    others.erase(columns.prompt);
    EXPECT_EQ(example.extra, others) << dialect.sentence;
  }
}

TEST(Schema, TakesTheConfiguredColumnsFirst) {
  DataOptions options;
  options.prompt_key = "task.text", options.answer_key = "task.a.b", options.source_key = "from";
  const Row row = row_of(R"({"prompt": "no", "answer": "no", "task": {"text": "yes", "a": {"b": 3}}, "from": 7})");
  const Columns columns = recognise(row, options);
  EXPECT_EQ(columns.sentence(), "read as: TRL; answer from task.a.b, prompt from task.text (a text), source from from");
  const Example example = example_of(row, columns);
  EXPECT_EQ(example.prompt, "yes");
  EXPECT_EQ(example.answer, 3);
  EXPECT_EQ(example.source, "7");
  options.prompt_key = "a.b";  // a column of that very name
  EXPECT_EQ(recognise(row_of(R"({"a.b": "x"})"), options).prompt, "a.b");
}

TEST(Schema, AnExplicitAnswerColumnIsTakenAsItIs) {
  DataOptions options;
  options.answer_key = "answer";
  const Row row = row_of(R"({"question": "q", "answer": "x\n#### 5"})");
  EXPECT_EQ(example_of(row, recognise(row, options)).answer, "x\n#### 5");
}

TEST(Schema, AListOfOneTextIsThatSource) {
  const auto source = [](const char* text) {
    const Row row = row_of(text);
    return example_of(row, recognise(row, {})).source;
  };
  EXPECT_EQ(source(R"({"messages": [{"role": "user", "content": "q"}], "ground_truth": ["9"], "dataset": ["math"]})"),
            "math");
  EXPECT_EQ(source(R"({"prompt": "q", "source": ["a", "b"]})"), R"(["a","b"])");
}

TEST(Schema, BytesOfAParquetFileThatAreNoTextAreNotCalledNull) {
  const Row row{Json{{"prompt", nullptr}}, "rows.parquet, row group 1, row 1 (both from 1)"};
  EXPECT_NE(bad_row_of([&] {
              required_column(row, "prompt", "data", "prompt_key");
            }).find("column \"prompt\" is null, or bytes that are no text; "),
            std::string::npos);
}

TEST(Schema, SaysWhatARowLacks) {
  const auto refusal = [](const char* first, const char* row) {
    const Columns columns = recognise(row_of(first), {});
    return bad_row_of([&] { example_of(row_of(row), columns); });
  };
  const char* plain = R"({"prompt": "p", "answer": "a"})";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {bad_row_of([] { recognise(row_of(R"({"text": "x", "n": 1})"), {}); }),
       "no known schema: the row has \"text\", \"n\"; set data.prompt_key"},
      {refusal(plain, R"({"answer": "a"})"), "column \"prompt\" is missing; the row has \"answer\""},
      {refusal(plain, R"({"prompt": null, "answer": "a"})"), "column \"prompt\" is null; "},
      {bad_row_of([] { recognise(row_of(R"({"prompt": null, "answer": "a"})"), {}); }), "column \"prompt\" is null"},
      {bad_row_of([] { recognise(row_of(R"({"question": null, "problem": null})"), {}); }), "\"problem\" is null"},
      {refusal(plain, R"({"prompt": " \n", "answer": "a"})"), "the prompt is empty"},
      {refusal(plain, R"({"prompt": 3, "answer": "a"})"), "neither a text nor a list of messages but number"},
      {refusal(plain, R"({"prompt": [], "answer": "a"})"), "empty conversation"},
      {refusal(plain, R"({"prompt": ["x"], "answer": "a"})"), "message 1 of the prompt is no object but string"},
      {refusal(plain, R"({"prompt": [{"role": "user"}], "answer": "a"})"), "message 1 of the prompt has no content"},
      {refusal(plain, R"({"prompt": [{"role": "user", "content": [{"type": "image"}]}], "answer": "a"})"),
       "content that is no text but array"},
      {refusal(plain, R"({"prompt": [{"role": "assistant", "content": "x"}], "answer": "a"})"),
       "ends with the assistant's words"},
      {refusal(R"({"question": "q", "answer": "#### 1"})", R"({"question": "q", "answer": "1"})"), "has no \"####\""}};
  for (const auto& [got, wanted] : cases) {
    EXPECT_TRUE(got.starts_with("f:1: ")) << got;
    EXPECT_NE(got.find(wanted), std::string::npos) << got;
  }
  DataOptions options;
  options.prompt_key = "question";
  EXPECT_NE(bad_row_of([&] {
              recognise(row_of(R"({"q": "x"})"), options);
            }).find("column \"question\" is missing; the row has \"q\""),
            std::string::npos);
}

TEST(Schema, RefusesAConversationThatAProgramWroteDownAsAText) {
  const Columns columns = recognise(row_of(R"({"prompt": "p", "answer": "a"})"), {});
  for (const char* text :
       {R"({"role": "user", "content": "q"})", "{'role': 'user', 'content': 'q'}",
        R"([ {"content": "q", "role": "user"} ])", "array([{'role': 'user', 'content': 'q'}], dtype=object)"}) {
    const Json row = {{"prompt", text}, {"answer", "a"}};
    EXPECT_NE(bad_row_of([&] { example_of(row_of(row.dump().c_str()), columns); }).find("written as a text"),
              std::string::npos)
        << text;
  }
  const Json plain = {{"prompt", "{x: the role of content in {x}}"}, {"answer", "a"}};
  EXPECT_EQ(example_of(row_of(plain.dump().c_str()), columns).prompt, plain["prompt"]);
}

TEST(Schema, RefusesRowsWhosePromptWouldBeHalfOfIt) {
  const char* alpaca = R"({"instruction": "do", "input": "ctx", "output": "3", "answer": "3"})";
  EXPECT_NE(bad_row_of([&] { example_of(row_of(alpaca), recognise(row_of(alpaca), {})); }).find("instruction"),
            std::string::npos);
  DataOptions options;
  options.prompt_key = "instruction";
  EXPECT_EQ(example_of(row_of(alpaca), recognise(row_of(alpaca), options)).prompt, "do");
  const char* none = R"({"input": "q", "instruction": null, "answer": "3"})";
  EXPECT_EQ(example_of(row_of(none), recognise(row_of(none), {})).prompt, "q");
}

// cais/mmlu, SQuAD, TRL's and verl's images, and rows of tools and system messages.
TEST(Schema, RefusesRowsThatHaveMoreOfTheQuestionBesideThePrompt) {
  const auto refusal = [](const char* row) {
    return bad_row_of([&] { example_of(row_of(row), recognise(row_of(row), {})); });
  };
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"({"question": "Which gas?", "subject": "bio", "choices": ["O2", "CO2"], "answer": 1})", "\"choices\""},
      {R"({"question": "Which gas?", "options": {"A": "O2", "B": "CO2"}, "answer": "B"})", "\"options\""},
      {R"({"Question": "Which gas?", "Options": [1, 2], "Answer": "B"})", "\"Options\""},
      {R"({"context": "There are 3 birds.", "question": "How many?", "answer": "3"})", "\"context\""},
      {R"({"system": "Answer in French.", "prompt": "How many?", "answer": "3"})", "\"system\""},
      {R"({"prompt": [{"role": "user", "content": "q"}], "tools": [{"name": "add"}], "answer": "3"})", "\"tools\""},
      {R"({"prompt": [{"role": "user", "content": "q"}], "functions": [{"name": "add"}], "answer": "3"})",
       "\"functions\""},
      // Two columns of which either may be the prompt; LLaMA-Factory's earlier turns.
      {R"({"prompt": "Translate to French:", "input": "cheese", "answer": "fromage"})", "\"input\""},
      {R"({"Question": "Sort these.", "Input": "3 1 2", "answer": "1 2 3"})", "\"Input\""},
      {R"({"problem": "Sort these.", "instruction": "Be brief.", "answer": "1"})", "\"instruction\""},
      {R"({"question": "How many?", "prompt": "Answer in French: how many?", "answer": "#### 3"})", "\"prompt\""},
      // SVAMP, C-Eval, MedMCQA.
      {R"({"Body": "A pack costs 76 dollars.", "Question": "How much?", "Answer": "51.0", "Type": "Subtraction"})",
       "\"Body\""},
      {R"({"question": "Which is prime?", "A": "4", "B": "7", "C": "9", "D": "8", "answer": "B"})", "\"A\""},
      {R"({"question": "Which is prime?", "A": 4, "B": 7, "C": 9, "D": 8, "answer": "B"})", "\"A\""},
      {R"({"question": "Which is prime?", "opa": "4", "opb": "7", "answer": "B"})", "\"opa\""},
      {R"({"question": "Which is prime?", "Option A": "4", "Option B": "7", "answer": "B"})", "\"Option A\""},
      {R"({"question": "Which is prime?", "answerA": "4", "answerB": "7", "answer": "B"})", "\"answerA\""},
      {R"({"question": "Who won?", "contexts": ["In 1998 France won"], "answer": "France"})", "\"contexts\""},
      {R"({"question": "Is it so?", "premises": ["All men are mortal"], "answer": "yes"})", "\"premises\""},
      {R"({"prompt": "Answer this question", "query": "How many?", "answer": "3"})", "\"query\""},
      {R"({"question": "Which is prime?", "option_a": "4", "option_b": "7", "answer": "B"})", "\"option_a\""},
      {R"({"prompt": "And then?", "history": [["How many?", "Three."]], "answer": "3"})", "\"history\""},
      {R"({"prompt": "How many?", "images": ["a.png"], "answer": "3"})", "Keel reads texts only"},
      {R"({"prompt": "a.png", "image": {"path": "a.png"}, "answer": "3"})", "Keel reads texts only"}};
  for (const auto& [row, part] : cases) {
    EXPECT_NE(refusal(row).find(part), std::string::npos) << row;
    EXPECT_NE(refusal(row).find("data.prompt_key="), std::string::npos) << row;
    DataOptions options;
    options.prompt_key = recognise(row_of(row), {}).prompt;
    EXPECT_NO_THROW(example_of(row_of(row), recognise(row_of(row), options))) << row;
  }
  for (
      const char* row :
      {R"({"prompt": "q", "choices": null, "context": "", "tools": [], "images": [], "system": " ", "answer": "3"})",
       R"({"prompt": "q", "image": {"bytes": null, "path": null}, "answer": "3"})",
       R"({"prompt": "Which gas? A: O2 B: CO2", "choices": ["O2", "CO2"], "answer": "B"})",
       R"({"prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "There are 3. How many?"}],
            "system": "Be brief.", "context": "There are 3.", "answer": "3"})",
       R"({"prompt": "What is three plus five?", "a": 3, "b": 5.0, "c": 8, "answer": "8"})",
       R"({"prompt": "What is 2+2 ?", "question": "What\nis 2+2?", "answer": "4"})",
       R"({"prompt": "q", "a": "short for answer", "answer": "8"})",
       R"({"prompt": "Q: How many?\nA:", "question": "How many?", "history": [], "input": "", "answer": "3"})",
       R"({"messages": [{"role": "user", "content": "How many?"}], "input": [{"role": "user", "content": "How many?"}]})",
       R"({"data_source": "d", "prompt": "q", "ability": "math", "reward_model": {"ground_truth": "1"}, "id": 3,
            "extra_info": {"choices": ["a"]}, "level": "5", "type": "algebra", "subject": "math", "solution": "s"})"})
    EXPECT_NO_THROW(example_of(row_of(row), recognise(row_of(row), {}))) << row;
}

TEST(Schema, NamesTheTextsThatTheModelIsNotShown) {
  const char* row = R"({"prompt": "How many?", "answer": "51", "remark": "a pack costs 76 dollars", "id": "chal-1",
                        "source": "a source with words", "said": "How many?", "level": 3,
                        "notes": [{"by": "me", "text": "not asked"}], "extra_info": {"split": "the train part"}})";
  EXPECT_EQ(recognise(row_of(row), {}).sentence(),
            "read as: TRL; answer from answer, prompt from prompt (a text), source from source"
            "; texts that the model is not shown: \"remark\", \"notes\"");
  const Json many = {{"prompt", "q"}, {"c1", "one two three"}, {"c2", "one two three"}, {"c3", "one two three"},
                     {"c4", "a b c"}, {"c5", "d e f"},         {"c6", "g h i"},         {"c7", "j k l"}};
  EXPECT_TRUE(recognise(row_of(many.dump().c_str()), {}).sentence().ends_with("\"c6\", ..."));
}

TEST(Schema, LooksForManyPartsOfALongPromptInBoundedTime) {
  Json row = {{"prompt", std::string(1 << 20, 'a')}, {"choices", Json::array()}, {"answer", "b"}};
  for (int i = 0; i < 200000; ++i) row["choices"].push_back(std::string(50, 'a') + "b");
  row["context"] = std::string(1 << 19, 'a') + "b";
  const Row whole{row, "rows.jsonl:1"};
  EXPECT_NE(bad_row_of([&] { example_of(whole, recognise(whole, {})); }), "");
}

TEST(Schema, AsksWhichIsTheAnswerWhereALabelStandsBesideIt) {
  const char* both = R"({"prompt": "What is 1+1?", "answer": "2", "label": "algebra"})";
  const auto refusal = [](const char* first, const char* row) {
    return bad_row_of([&] { example_of(row_of(row), recognise(row_of(first), {})); });
  };
  const char *other = R"({"input": "q", "label": 1, "answer": "2"})", *one = R"({"prompt": "q", "label": "2"})";
  for (const auto& [first, row] : {std::pair{both, both}, {other, other}, {one, both}})
    EXPECT_NE(refusal(first, row).find("data.answer_key=answer or data.answer_key=label"), std::string::npos) << row;
  DataOptions options;
  options.answer_key = "answer";
  EXPECT_EQ(recognise(row_of(both), options).answer, "answer");
  EXPECT_NE(refusal(one, R"({"prompt": "q", "label": "algebra", "Answer": "2"})"), "");
  EXPECT_EQ(example_of(row_of(R"({"prompt": "q", "label": 2, "answer": "2"})"), recognise(row_of(one), {})).answer, 2);
  EXPECT_EQ(recognise(row_of(R"({"prompt": "q", "label": "2", "answer": null})"), {}).answer, "label");
  EXPECT_EQ(recognise(row_of(R"({"prompt": "q", "label": "2", "answer": "2"})"), {}).answer, "label");
  EXPECT_EQ(recognise(row_of(R"({"problem": "q", "label": "easy", "answer": "2"})"), {}).answer, "answer");
}

TEST(Schema, PassesOverAPromptThatIsNullWhereAnotherIsThere) {
  const Row row = row_of(R"({"prompt": null, "messages": [{"role": "user", "content": "q"}], "answer": null})");
  EXPECT_EQ(recognise(row, {}).sentence(),
            "read as: conversation; answer from answer, prompt from messages (a conversation)");
}

TEST(Schema, LeavesRowsWithoutAnAnswerToTheRewardsUnlessItsColumnIsNamed) {
  const Row full = row_of(R"({"prompt": "p", "answer": "a"})"), none = row_of(R"({"prompt": "p"})"),
            null = row_of(R"({"prompt": "p", "answer": null})");
  for (const Row& first : {full, null})
    for (const Row& row : {none, null}) EXPECT_TRUE(example_of(row, recognise(first, {})).answer.is_null());
  EXPECT_EQ(example_of(full, recognise(null, {})).answer, "a");
  DataOptions options;
  options.answer_key = "answer";
  const Columns columns = recognise(full, options);
  EXPECT_NE(bad_row_of([&] { example_of(none, columns); }).find("column \"answer\" is missing"), std::string::npos);
  EXPECT_NE(bad_row_of([&] { example_of(null, columns); }).find("column \"answer\" is null"), std::string::npos);
}

TEST(Schema, LeavesOutTheFieldsOfAMessageThatAreNull) {
  const Row row = row_of(R"({"prompt": [{"role": "user", "content": "q", "name": null, "tool_calls": null}]})");
  EXPECT_EQ(example_of(row, recognise(row, {})).prompt, Json::parse(R"([{"role": "user", "content": "q"}])"));
}

}  // namespace
}  // namespace keel
