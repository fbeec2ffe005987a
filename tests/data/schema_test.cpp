#include "keel/data/schema.h"

#include <gmock/gmock.h>

#include "keel/core/files/json_file.h"
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

/// A case of schema_rows.json: a row, the keys that are set, and the kind of row.
struct RowCase {
  explicit RowCase(const Json& json)
      : row(json.at("row").dump()), kind(json.contains("kind") ? kSft : RowKind::kPrompts) {
    const Json set = json.value("options", Json::object());
    options = keys(set.value("prompt_key", ""), set.value("answer_key", ""), set.value("source_key", ""));
    options.text_key = set.value("text_key", "");
  }
  std::string row;
  RowKind kind;
  DataOptions options;
};

Json schema_rows() { return read_json_file("tests/data/schema_rows.json"); }

// Has one row of each form, from the documentation of its program.
TEST(Schema, RecognisesTheDocumentedFormsAndTheConfiguredColumns) {
  const Json rows = schema_rows();
  for (const Json& form : rows.at("forms")) {
    const RowCase given(form);
    const std::string note = form.at("note");
    const Columns columns = find_columns(given.row, given.options, given.kind);
    EXPECT_EQ(columns.note(), "read as: " + note);
    const Example example = read(given.row, given.options, given.kind);
    EXPECT_EQ(example.prompt, form.at("prompt")) << note;
    EXPECT_EQ(example.answer, form.at("answer")) << note;
    EXPECT_EQ(example.source, form.at("source").get<std::string>()) << note;
    Json others = row_of(given.row).value;
    others.erase(columns.prompt);
    EXPECT_EQ(example.extra, others) << note;
  }
}

TEST(Schema, NamesTheLineTheProblemAndTheKeyToSet) {
  const Json rows = schema_rows();
  for (const Json& one : rows.at("errors")) {
    const RowCase given(one);
    const std::string got = schema_refusal(given.row, given.options, given.kind);
    EXPECT_TRUE(got.starts_with("f:1: ")) << got;
    EXPECT_THAT(got, testing::HasSubstr(one.at("error").get<std::string>()));
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
            Json::parse(R"([{"role": "user", "content": "q"}])"));
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
