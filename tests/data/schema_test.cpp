#include "keel/data/schema.h"

#include <gmock/gmock.h>

#include "tests/data/data_support.h"

namespace keel {
namespace {

constexpr RowKind kSft = RowKind::kSupervised;

Row row_of(const std::string& text) { return {Json::parse(text), "f:1"}; }

Columns find_columns(const std::string& row, const DataOptions& options = {}, RowKind kind = RowKind::kPrompts) {
  return detect_columns(row_of(row), options, kind);
}

Example read(const std::string& row, const DataOptions& options = {}, RowKind kind = RowKind::kPrompts) {
  return make_example(row_of(row), find_columns(row, options, kind));
}

std::string schema_refusal(const std::string& row, const DataOptions& options = {}, RowKind kind = RowKind::kPrompts) {
  return bad_row_of([&] { read(row, options, kind); });
}

DataOptions keys(const std::string& prompt, const std::string& answer = "", const std::string& source = "") {
  DataOptions options;
  options.prompt_key = prompt, options.answer_key = answer, options.source_key = source;
  return options;
}

const std::string kChat = R"([{"role": "user", "content": "q"}])";

struct RowForm {
  RowKind kind;
  DataOptions options;
  std::string row, note, prompt, answer, source;
};

// One row of each form, from the documentation of its program.
const RowForm kRowForms[] = {
    {{},
     {},
     R"({"prompt": "The sky is", "ground_truth": "blue"})",
     "TRL; answer from ground_truth, prompt from prompt (a text)",
     R"("The sky is")",
     R"("blue")",
     ""},
    {{},
     {},
     R"({"prompt": )" + kChat + R"(, "solution": "4", "answer": null})",
     "TRL; answer from solution, prompt from prompt (a conversation)",
     kChat,
     R"("4")",
     ""},
    {{},
     {},
     R"({"prompt": "p", "source": ["math"]})",
     "TRL; no answer, prompt from prompt (a text), source from source",
     R"("p")",
     "null",
     "math"},
    {{},
     {},
     R"({"data_source": "openai/gsm8k", "prompt": )" + kChat + R"(, "ability": "math",
         "reward_model": {"style": "rule", "ground_truth": "72"}, "extra_info": {"index": 0}})",
     "verl; answer from reward_model.ground_truth, prompt from prompt (a conversation), source from data_source",
     kChat,
     R"("72")",
     "openai/gsm8k"},
    {{},
     {},
     R"({"question": "q", "answer": "1000 + 234 = <<1000+234=1234>>\n#### 1,234"})",
     "question and answer; answer from answer (after ####), prompt from question (a text)",
     R"("q")",
     R"("1234")",
     ""},
    {{},
     {},
     R"({"problem": "p", "solution": "so \\boxed{3}", "level": 5})",
     "question and answer; answer from solution, prompt from problem (a text)",
     R"("p")",
     R"("so \\boxed{3}")",
     ""},
    {{},
     keys("question"),
     R"({"question": "q", "answer": "long", "reward_model": {"ground_truth": "72"}})",
     "verl; answer from reward_model.ground_truth, prompt from question (a text)",
     R"("q")",
     R"("72")",
     ""},
    {{},
     keys("", "answer"),
     R"({"question": "q", "answer": "x\n#### 5"})",
     "question and answer; answer from answer, prompt from question (a text)",
     R"("q")",
     R"("x\n#### 5")",
     ""},
    {{},
     keys("task.text", "task.a.b", "from"),
     R"({"prompt": "no", "answer": "no", "task": {"text": "yes", "a": {"b": 3}}, "from": 7})",
     "TRL; answer from task.a.b, prompt from task.text (a text), source from from",
     R"("yes")",
     "3",
     "7"},
    {{},
     keys("a.b"),
     R"({"a.b": "x"})",
     "the configured columns; no answer, prompt from a.b (a text)",
     R"("x")",
     "null",
     ""},
    {kSft, {}, R"({"messages": )" + kChat + "}", "a conversation, from messages", kChat, "null", ""},
    {kSft,
     {},
     R"({"prompt": "p", "completion": "c"})",
     "prompt and completion; completion from completion, prompt from prompt (a text)",
     R"("p")",
     R"("c")",
     ""},
    {kSft, keys("question", "answer"), R"({"question": "q", "answer": "x\n#### 5"})",
     "the configured columns; completion from answer, prompt from question (a text)", R"("q")", R"("x\n#### 5")", ""},
};

TEST(Schema, RecognisesTheDocumentedFormsAndTheConfiguredColumns) {
  for (const RowForm& form : kRowForms) {
    const Columns columns = find_columns(form.row, form.options, form.kind);
    EXPECT_EQ(columns.note(), "read as: " + form.note);
    const Example example = read(form.row, form.options, form.kind);
    EXPECT_EQ(example.prompt, Json::parse(form.prompt)) << form.note;
    EXPECT_EQ(example.answer, Json::parse(form.answer)) << form.note;
    EXPECT_EQ(example.source, form.source) << form.note;
    Json others = row_of(form.row).value;
    others.erase(columns.prompt);
    EXPECT_EQ(example.extra, others) << form.note;
  }
}

TEST(Schema, NamesTheLineTheProblemAndTheKeyToSet) {
  const auto chat = [](const std::string& messages) { return R"({"prompt": )" + messages + "}"; };
  DataOptions text_key;
  text_key.text_key = "story";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {schema_refusal(R"({"text": "x", "n": 1})"), R"(the row has "text", "n" (expected prompt, question or problem))"},
      {schema_refusal(R"({"text": "x", "n": 1})"), "Fix: set data.prompt_key"},
      {schema_refusal(R"({"input": "q", "label": "7"})"), "no known schema"},
      {schema_refusal(R"({"messages": )" + kChat + "}"), "no known schema"},
      {schema_refusal(R"({"q": "x"})", keys("question")),
       R"(column "question" is missing; the row has "q". Fix: set data.prompt_key)"},
      {schema_refusal(R"({"prompt": null})"), R"(column "prompt" is null; )"},
      {schema_refusal(R"({"prompt": "p"})", keys("", "answer")), R"(column "answer" is missing)"},
      {schema_refusal(R"({"prompt": "p", "answer": null})", keys("", "answer")), R"(column "answer" is null)"},
      {schema_refusal(R"({"prompt": "p", "from": null})", keys("", "", "from")), R"(column "from" is null)"},
      {schema_refusal(R"({"prompt": " \n", "answer": "a"})"), "the prompt (prompt) is empty"},
      {schema_refusal(R"({"prompt": 3})"), "neither a text nor a list of messages but number"},
      {schema_refusal(chat("[]")), "empty conversation"},
      {schema_refusal(chat(R"(["x"])")), "message 1 of the prompt (prompt) is not an object but string"},
      {schema_refusal(chat(R"([{"role": "user"}])")), "message 1 of the prompt (prompt) has no content"},
      {schema_refusal(chat(R"([{"role": "user", "content": [{"type": "image"}]}])")),
       "content that is not a text but array"},
      {schema_refusal(chat(R"([{"role": "assistant", "content": "x"}])")), "ends with an assistant message"},
      {schema_refusal(R"({"prompt": "q", "images": ["a.png"]})"), "Keel reads only texts"},
      {schema_refusal(R"({"prompt": "q", "Image": {"path": "a.png"}})", keys("prompt")), "Fix: remove the column"},
      {schema_refusal(R"({"prompt": "q", "chat_template_kwargs": {"a": 1}})", keys("prompt")),
       "data.chat_template_kwargs"},
      {schema_refusal(R"({"messages": )" + kChat + R"(, "images": ["a.png"]})", {}, kSft), "Keel reads only texts"},
      {schema_refusal(R"({"messages": )" + kChat + R"(, "functions": [{}]})", {}, kSft),
       "write the functions as tools"},
      {schema_refusal(R"({"prompt": "q", "answer": "2", "solution": "3"})"),
       "answer_key=solution or data.answer_key=answer"},
      {schema_refusal(R"({"problem": "q", "answer": "2", "solution": "3"})"),
       "answer_key=answer or data.answer_key=solution"},
      {schema_refusal(R"({"question": "a", "answer": "b"})", {}, kSft), "set sft.prompt_key and sft.completion_key"},
      {schema_refusal(R"({"text": "a"})", {}, kSft), "expected messages, or prompt and completion"},
      {schema_refusal(R"({"prompt": "a"})", {}, kSft), "no known schema"},
      {schema_refusal(R"({"prompt": "a", "completion": "nan"})", {}, kSft), "which usually means that there is none"},
      {schema_refusal(R"({"story": "a"})", keys("story"), kSft), "sft.text_key=story trains on the whole text"},
      {schema_refusal(R"({"story": )" + kChat + "}", text_key, kSft),
       "sft.prompt_key=story reads it as a conversation"},
  };
  for (const auto& [got, expected] : cases) {
    EXPECT_TRUE(got.starts_with("f:1: ")) << got;
    EXPECT_THAT(got, testing::HasSubstr(expected));
  }
  const Columns gsm8k = find_columns(R"({"question": "q", "answer": "#### 1"})");
  const Row bare = row_of(R"({"question": "q", "answer": "1"})");
  EXPECT_THAT(bad_row_of([&] { make_example(bare, gsm8k); }), testing::HasSubstr("has no \"####\""));
  const Row parquet{Json{{"prompt", nullptr}}, "rows.parquet, row group 1, row 1 (both from 1)"};
  EXPECT_THAT(bad_row_of([&] { make_example(parquet, detect_columns(parquet, {})); }),
              testing::HasSubstr("null, or bytes that are not text; "));
}

TEST(Schema, RejectsAConversationThatWasSavedAsAString) {
  for (const char* text :
       {R"({"role": "user", "content": "q"})", "{'role': 'user', 'content': 'q'}",
        R"([ {"content": "q", "role": "user"} ])", "array([{'role': 'user', 'content': 'q'}], dtype=object)"}) {
    EXPECT_THAT(schema_refusal(Json{{"prompt", text}}.dump()), testing::HasSubstr("written as a text")) << text;
    const std::string pair = Json{{"prompt", "p"}, {"completion", text}}.dump();
    EXPECT_THAT(schema_refusal(pair, {}, kSft), testing::HasSubstr("written as a text")) << text;
    EXPECT_EQ(read(pair, keys("", "completion"), kSft).answer, text);  // a completion may have this form
  }
  EXPECT_EQ(read(R"({"prompt": "{x: the role of content in {x}}"})").prompt, "{x: the role of content in {x}}");
}

TEST(Schema, AcceptsUnsupportedColumnsThatAreEmptyAndAmbiguousOnesThatAgreeOrAreConfigured) {
  for (const char* row :
       {R"({"prompt": "q", "images": [], "image": {"bytes": null, "path": null}, "video": "", "audio": null})",
        R"({"prompt": "q", "answer": "2", "ground_truth": 2, "solution": null})",
        R"({"prompt": "q", "answer": "2", "label": "algebra", "choices": ["1", "2"]})"})
    EXPECT_NO_THROW(read(row)) << row;
  EXPECT_NO_THROW(read(R"({"prompt": "q", "functions": "f"})"));
  EXPECT_EQ(read(R"({"prompt": "q", "answer": "2", "solution": "3"})", keys("", "solution")).answer, "3");
  EXPECT_EQ(read(R"({"prompt": "q", "answer": "nan"})").answer, nullptr);
  EXPECT_EQ(read(R"({"prompt": "q", "answer": "nan"})", keys("", "answer")).answer, "nan");
  EXPECT_EQ(read(R"({"prompt": [{"role": "user", "content": "q", "name": null, "tool_calls": null}]})").prompt,
            Json::parse(kChat));
}

TEST(Schema, ListsUnusedTextColumns) {
  const std::string row = R"({"prompt": "How many?", "answer": "51", "context": "a pack", "id": "chal-1", "empty": " ",
      "source": "here", "level": 3, "notes": [{"by": "me"}], "choices": {"A": "51"}, "none": null})";
  Columns columns = find_columns(row);
  columns.add_row(read(row).extra);
  columns.add_row(Json{{"id", "again"}, {"later", "only in another row"}});
  EXPECT_EQ(columns.note(),
            "read as: TRL; answer from answer, prompt from prompt (a text), source from source; unused text columns: "
            "\"context\", \"id\", \"notes\", \"choices\", \"later\"");
}

}  // namespace
}  // namespace keel
