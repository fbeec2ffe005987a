#include "keel/core/options/config_tree.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "keel/core/error.h"
#include "keel/core/options/read_config.h"
#include "keel/core/random.h"

namespace keel {
namespace {

/// Returns the message of the configuration error that `action` throws. Fails the test without one.
template <class Action>
std::string config_error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadConfiguration) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

std::string yaml_error(const std::string& text) {
  return config_error_of([&] { parse_config(text, "run.yaml"); });
}

std::string json_error(const std::string& text) {
  return config_error_of([&] { parse_config(text, "run.json"); });
}

Json json_value(const std::string& text) { return parse_config(text, "run.json").value; }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Yaml : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_read_yaml()) GTEST_SKIP() << "built without yaml-cpp";
  }
};

/// A file that is removed at the end of the test.
struct TemporaryFile {
  explicit TemporaryFile(const std::string& name, const std::string& text)
      : path(std::filesystem::temp_directory_path() / (std::to_string(getpid()) + "-" + name)) {
    std::ofstream(path, std::ios::binary) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
  std::filesystem::path path;
};

struct ScalarCase {
  const char* text;
  Json value;
};

/// Scalars from section 10.3.2 of the YAML 1.2.2 specification and from typical configurations.
const std::vector<ScalarCase>& core_schema() {
  static const std::vector<ScalarCase> cases{
      {"null", nullptr}, {"~", nullptr}, {"Null", nullptr}, {"", nullptr}, {"true", true}, {"True", true},
      {"FALSE", false}, {"0", 0}, {"7", 7}, {"-3", -3}, {"+12", 12}, {"0o14", 12}, {"0xC", 12}, {"1.5", 1.5},
      {".5", 0.5}, {"3.", 3.0}, {"1e-6", 1e-6}, {"1E4", 1e4}, {"-2.5e+3", -2500.0}, {"+12.3", 12.3}, {"yes", "yes"},
      {"no", "no"}, {"on", "on"}, {"off", "off"}, {"tRuE", "tRuE"}, {"1_000", "1_000"}, {"1e", "1e"}, {"e5", "e5"},
      {".", "."}, {"-", "-"}, {"+", "+"}, {"1.2.3", "1.2.3"}, {"12:30", "12:30"}, {"0x", "0x"}, {"0o8", "0o8"},
      {"3 apples", "3 apples"}, {"-.5", -0.5}, {"inf", "inf"}, {"nan", "nan"}, {"0xfg", "0xfg"},
      {"9223372036854775807", int64_t{9223372036854775807}},
      {"-9223372036854775808", std::numeric_limits<int64_t>::min()},
      {"18446744073709551615", uint64_t{18446744073709551615u}}};
  return cases;
}

// In PyYAML (YAML 1.1), 010 is 8 and 08 is a string.
TEST(Override, RejectsANumberThatYamlVersionsReadDifferently) {
  ConfigTree tree;
  for (const char* text : {"010", "-0017", "08", "[1, 010]"})
    EXPECT_THAT(config_error_of([&] { apply_override(tree, "key=" + std::string(text)); }),
                testing::HasSubstr("without the leading zero"))
        << text;
  for (const auto& [text, value] : {std::pair{"00", 0.0}, {"-0", 0.0}, {"0.5", 0.5}, {"0e3", 0.0}}) {
    apply_override(tree, "key=" + std::string(text));
    EXPECT_EQ(tree.value.at("key").get<double>(), value) << text;
  }
}

TEST_F(Yaml, TypesUnquotedScalarsByTheCoreSchema) {
  for (const ScalarCase& c : core_schema()) {
    if (std::string(c.text) == "-") continue;  // YAML reads this as a list with one empty element
    const Json value = parse_config("key: " + std::string(c.text), "run.yaml").value.at("key");
    EXPECT_EQ(value, c.value) << c.text;
    EXPECT_EQ(value.is_number_float(), c.value.is_number_float()) << c.text;
  }
}

TEST(Override, TypesUnquotedScalarsAsYamlDoes) {
  for (const ScalarCase& c : core_schema()) {
    ConfigTree tree;
    apply_override(tree, "key=" + std::string(c.text));
    EXPECT_EQ(tree.value.at("key"), c.value) << c.text;
    EXPECT_EQ(tree.value.at("key").is_number_float(), c.value.is_number_float()) << c.text;
  }
}

TEST(Override, KeepsTheSpacesOfAStringThatTheShellQuoted) {
  ConfigTree tree;
  for (const char* typed : {"text=Answer: ", "number= 3 ", "quoted= \"a \" ", "none= "}) apply_override(tree, typed);
  EXPECT_EQ(tree.value, Json::parse(R"({"text": "Answer: ", "number": 3, "quoted": "a ", "none": null})"));
}

TEST_F(Yaml, ReadsQuotedAndBlockScalarsAsStrings) {
  const Json value =
      parse_config("a: '3'\nb: \"true\"\nc: |\n  12\nd: >-\n  null\ne: ''\nf: 'it''s'\n", "run.yaml").value;
  EXPECT_EQ(value, Json::parse(R"({"a":"3","b":"true","c":"12\n","d":"null","e":"","f":"it's"})"));
}

TEST_F(Yaml, RejectsNumbersThatFitNoOption) {
  EXPECT_EQ(yaml_error("a: 1\nb: .inf"), "run.yaml:2: got .inf, expected a finite number");
  EXPECT_EQ(yaml_error("b: -.INF"), "run.yaml:1: got -.INF, expected a finite number");
  EXPECT_EQ(yaml_error("b: .NaN"), "run.yaml:1: got .NaN, expected a finite number");
  EXPECT_EQ(yaml_error("b: 1e999"), "run.yaml:1: got 1e999, expected a number that fits 64-bit floating point");
  EXPECT_EQ(yaml_error("b: 18446744073709551616"),
            "run.yaml:1: got 18446744073709551616, expected an integer that fits 64 bits");
}

TEST_F(Yaml, IgnoresATabAfterAScalar) {
  EXPECT_EQ(parse_config("a: 3\t\nb: 4\t# four", "run.yaml").value, Json::parse(R"({"a":3,"b":4})"));
}

TEST_F(Yaml, GivesEveryPathItsLine) {
  const ConfigTree tree = parse_config(
      "# a comment\n"
      "rollout:\n"
      "  temperature: 0.7\n"
      "\n"
      "  stop:\n"
      "    - one\n"
      "    - two\n"
      "  flow: {a: 1,\n"
      "         b: [1, 2,\n"
      "             3]}\n"
      "text: |\n"
      "  line\n"
      "  line\n"
      "last: 1\n",
      "run.yaml");
  const std::map<std::string, int> expected{{"rollout", 2},
                                            {"rollout.temperature", 3},
                                            {"rollout.stop", 5},
                                            {"rollout.stop.0", 6},
                                            {"rollout.stop.1", 7},
                                            {"rollout.flow", 8},
                                            {"rollout.flow.a", 8},
                                            {"rollout.flow.b", 9},
                                            {"rollout.flow.b.0", 9},
                                            {"rollout.flow.b.1", 9},
                                            {"rollout.flow.b.2", 10},
                                            {"text", 11},
                                            {"last", 14}};
  EXPECT_EQ(tree.lines, expected);
  EXPECT_EQ(tree.file, "run.yaml");
  EXPECT_EQ(location_of(tree, "rollout.stop.1"), "run.yaml:7");
}

TEST_F(Yaml, KeepsTheOrderOfKeys) {
  EXPECT_EQ(parse_config("z: 1\na: 2\nm: 3\n", "run.yaml").value.dump(), R"({"z":1,"a":2,"m":3})");
}

TEST_F(Yaml, CountsLinesInFilesFromWindowsAndSkipsTheByteOrderMark) {
  const ConfigTree tree = parse_config(
      "\xEF\xBB\xBF"
      "a: 1\r\nb: two\r\n",
      "run.yaml");
  EXPECT_EQ(tree.value, Json::parse(R"({"a":1,"b":"two"})"));
  EXPECT_EQ(tree.lines.at("b"), 2);
}

TEST_F(Yaml, RejectsADuplicateKeyAndNamesBothLines) {
  EXPECT_EQ(yaml_error("a:\n  b: 1\n  c: 2\n  b: 1\n"),
            "run.yaml:4: a.b: duplicate key; it is already on line 2, keep one of them");
  EXPECT_EQ(yaml_error("a: {}\n\na: {}\n"), "run.yaml:3: a: duplicate key; it is already on line 1, keep one of them");
}

TEST_F(Yaml, AllowsTheSameKeyInTwoElementsOfAList) {
  EXPECT_EQ(parse_config("a:\n  - b: 1\n  - b: 2\n", "run.yaml").lines.at("a.1.b"), 3);
}

TEST_F(Yaml, RejectsKeysThatAreNotNames) {
  EXPECT_TRUE(contains(yaml_error("a.b: 1"), "run.yaml:1: the key \"a.b\" has a dot in it; write a as a section"));
  EXPECT_TRUE(contains(yaml_error("x: 1\n'': 1"), "run.yaml:2: a key is empty"));
  EXPECT_TRUE(contains(yaml_error("x: 1\n~: 1"), "run.yaml:2: a key is empty"));
  EXPECT_TRUE(contains(yaml_error("x: 1\n? [a]\n: 1"), "run.yaml:2: a key must be a name"));
  EXPECT_TRUE(contains(yaml_error("x: {{ name }}"), "run.yaml:1: a key must be a name"));
}

TEST_F(Yaml, NamesTheLineOfASyntaxError) {
  EXPECT_TRUE(contains(yaml_error("a: 1\nb: c: d\n"), "run.yaml:2: not valid YAML: "));
  EXPECT_TRUE(contains(yaml_error("a: [1, 2\nb: 3\n"), "not valid YAML: "));
  EXPECT_TRUE(contains(yaml_error("a: 1\n  b: 2\n"), "run.yaml:2: "));
  EXPECT_TRUE(contains(yaml_error("a:\n    b: 1\n  c: 2\n"), "run.yaml:3: "));
}

TEST_F(Yaml, RejectsAnUnclosedQuoteAndALeadingPercentSign) {
  for (const std::string quote : {"'", "\""}) {
    for (const std::string rest : {"", "\n", "  ", "open\n", "open\nc: 2\n", "open\nc: 2\n\n  "}) {
      const std::string text = "a: 1\nb: " + quote + rest;
      EXPECT_TRUE(contains(yaml_error(text), "not valid YAML: a quote is never closed")) << text;
    }
  }
  EXPECT_EQ(yaml_error("a: 1\n%b: 2\n"), "run.yaml:2: YAML directives (%) are not read; remove the line");
}

TEST_F(Yaml, RejectsTabsInTheIndentation) {
  EXPECT_EQ(yaml_error("a:\n\tb: 1\n"), "run.yaml:2: a tab in the indentation; use spaces");
  EXPECT_EQ(yaml_error("a:\n  b: 1\n \tc: 1\n"), "run.yaml:3: a tab in the indentation; use spaces");
}

TEST_F(Yaml, RejectsAnchorsAliasesAndTags) {
  EXPECT_TRUE(contains(yaml_error("x: 1\na: &here 3"), "run.yaml:2: YAML anchors and aliases"));
  EXPECT_TRUE(contains(yaml_error("a: &here {x: 1}"), "run.yaml:1: YAML anchors and aliases"));
  EXPECT_TRUE(contains(yaml_error("a: *here"), "run.yaml:1: "));
  EXPECT_TRUE(contains(yaml_error("x: 1\na: !!str 3"), "run.yaml:2: YAML tags (tag:yaml.org,2002:str) are not read"));
  EXPECT_TRUE(contains(yaml_error("a: !custom [3]"), "run.yaml:1: YAML tags (!custom) are not read"));
  EXPECT_TRUE(contains(yaml_error("a: ! [3]"), "run.yaml:1: YAML tags (!) are not read"));
}

TEST_F(Yaml, RejectsAllButOneMapping) {
  EXPECT_EQ(yaml_error(""), "run.yaml: is empty; write at least one section");
  EXPECT_EQ(yaml_error("# only a comment\n"), "run.yaml: is empty; write at least one section");
  EXPECT_TRUE(contains(yaml_error("- a\n- b\n"), "run.yaml: got a list, expected a mapping"));
  EXPECT_TRUE(contains(yaml_error("key:value\n"), "run.yaml: got a single value, expected a mapping"));
  EXPECT_TRUE(contains(yaml_error("a: 1\n---\nb: 2\n"), "the document ends before this line"));
  EXPECT_TRUE(contains(yaml_error("{a: 1}\nb: 2\n"), "run.yaml:2: "));
  EXPECT_EQ(parse_config("---\na: 1\n...\n", "run.yaml").value, Json::parse(R"({"a":1})"));
}

TEST_F(Yaml, RejectsInvalidBytesAndLargeFiles) {
  EXPECT_EQ(yaml_error("a: 1\nb: \xff\n"), "run.yaml:2: not UTF-8; save it as UTF-8");
  EXPECT_TRUE(contains(yaml_error(std::string("a: 1\n\x04"
                                              "b: 2\n")),
                       "run.yaml:2: a control character (code 4)"));
  EXPECT_TRUE(contains(yaml_error(std::string("a\0:\0", 4)), "run.yaml:1: a control character (code 0)"));
  EXPECT_TRUE(contains(yaml_error("a: " + std::string(1 << 20, 'x')), "larger than 1 MiB"));
}

TEST_F(Yaml, AllowsSixtyFourLevelsAndNoMore) {
  const auto nested = [](int levels) {  // a mapping and nested lists
    return "a: " + std::string(static_cast<size_t>(levels - 1), '[') +
           std::string(static_cast<size_t>(levels - 1), ']');
  };
  EXPECT_EQ(parse_config(nested(64), "run.yaml").lines.size(), 63u);
  EXPECT_EQ(yaml_error(nested(65)), "run.yaml:1: nested deeper than 64 levels");
  EXPECT_EQ(yaml_error(nested(100000)), "run.yaml:1: nested deeper than 64 levels");
}

TEST_F(Yaml, ReturnsATreeOrAnErrorForAnyText) {
  const std::string alphabet = "ab:-# \n\n[]{},'\"|>&*!%@~?.01\\\t";
  RandomSequence draws(1, Stream::kShuffle, 0);
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (uint32_t n = draws.below(24); n > 0; --n)
      text += alphabet[draws.below(static_cast<uint32_t>(alphabet.size()))];
    try {
      EXPECT_TRUE(parse_config(text, "run.yaml").value.is_object()) << text;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("run.yaml")) << text;
    }
  }
}

TEST(YamlText, IsRejectedInABuildThatReadsOnlyJson) {
  if (can_read_yaml()) GTEST_SKIP() << "built with yaml-cpp";
  EXPECT_TRUE(contains(yaml_error("a: 1"), "this build reads JSON only; install libyaml-cpp-dev and rebuild"));
}

TEST(JsonConfig, GivesEveryPathItsLine) {
  const ConfigTree tree = parse_config(
      "{\n"
      "  \"a\": 1,\n"
      "  \"b\": {\"c\":\n"
      "     true},\n"
      "  \"list\": [\n"
      "    1\n"
      "    ,2,\n"
      "    -3.5\n"
      "  ], \"last\"\n"
      "  : \"x\\ny\"}\n",
      "run.json");
  const std::map<std::string, int> expected{{"a", 2},      {"b", 3},      {"b.c", 3},    {"list", 5},
                                            {"list.0", 6}, {"list.1", 7}, {"list.2", 8}, {"last", 9}};
  EXPECT_EQ(tree.lines, expected);
  EXPECT_EQ(tree.value.dump(), R"({"a":1,"b":{"c":true},"list":[1,2,-3.5],"last":"x\ny"})");
}

TEST(JsonConfig, IsStrict) {
  EXPECT_TRUE(contains(json_error("{\"a\": 1,\n}"), "run.json:2: not valid JSON: column 1: syntax error"));
  EXPECT_TRUE(contains(json_error("{\"a\": 1}\n// comment"), "run.json:2: not valid JSON: "));
  EXPECT_TRUE(contains(json_error("{\"a\": 1} {}"), "run.json:1: not valid JSON: "));
  EXPECT_TRUE(contains(json_error("{\"a\": NaN}"), "run.json:1: not valid JSON: "));
  EXPECT_TRUE(contains(json_error("{\n\n\"a\": 1e999}"), "run.json:3: not valid JSON: number overflow"));
  EXPECT_TRUE(contains(json_error("{\"a\": 18446744073709551616}"), "expected an integer that fits 64 bits"));
  EXPECT_TRUE(contains(json_error("[1]"), "got a list, expected a mapping"));
  EXPECT_TRUE(contains(json_error(""), "not valid JSON"));
  EXPECT_TRUE(contains(json_error("null"), "is empty"));
  EXPECT_TRUE(contains(json_error("{\"a.b\": 1}"), "has a dot in it"));
  EXPECT_EQ(json_error("{\"a\": {\"b\": 1,\n\"b\": 2}}"),
            "run.json:2: a.b: duplicate key; it is already on line 1, keep one of them");
  EXPECT_TRUE(contains(json_error("{\"a\":" + std::string(64, '[') + std::string(64, ']') + "}"), "deeper than 64"));
}

TEST(JsonConfig, KeepsLargeIntegersExact) {
  EXPECT_EQ(json_value("{\"seed\": 18446744073709551615}").at("seed").get<uint64_t>(), 18446744073709551615u);
  EXPECT_EQ(json_value("{\"n\": -9223372036854775808}").at("n").get<int64_t>(), std::numeric_limits<int64_t>::min());
}

TEST(ReadConfig, ReadsAFileAndNamesIt) {
  const TemporaryFile file("run.json", "{\"a\":\n {\"b\": 3}}");
  const ConfigTree tree = read_config(file.path);
  EXPECT_EQ(tree.value.at("a").at("b"), 3);
  EXPECT_EQ(location_of(tree, "a.b"), file.path.string() + ":2");
}

TEST(ReadConfig, NamesTheProblemOfAFile) {
  EXPECT_EQ(config_error_of([] { read_config("no/such/run.yaml"); }),
            "no/such/run.yaml: cannot be opened; does the file exist?");
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  EXPECT_EQ(config_error_of([&] { read_config(folder); }),
            folder.string() + ": is a folder; give a configuration file");
  const TemporaryFile large("large.json", "{\"a\": \"" + std::string(2 << 20, 'x') + "\"}");
  EXPECT_TRUE(contains(config_error_of([&] { read_config(large.path); }), "larger than 1 MiB"));
}

std::string tree_override_error(const std::string& assignment) {
  ConfigTree tree = parse_config("{\"rollout\":\n{\"temperature\": 1, \"stop\": [\"x\"]}}", "run.json");
  return config_error_of([&] { apply_override(tree, assignment); });
}

TEST(Override, ReplacesAValueAndItsLine) {
  ConfigTree tree = parse_config("{\"rollout\": {\"temperature\": 1, \"top_k\": 5}}", "run.json");
  apply_override(tree, "rollout.temperature=0.5");
  apply_override(tree, "rollout.temperature=0.7");
  EXPECT_EQ(tree.value, Json::parse(R"({"rollout": {"temperature": 0.7, "top_k": 5}})"));
  EXPECT_EQ(location_of(tree, "rollout.temperature"), "command line");
  EXPECT_EQ(location_of(tree, "rollout.top_k"), "run.json:1");
}

TEST(Override, CreatesMissingSections) {
  ConfigTree tree = parse_config("{\"empty\": null}", "run.json");
  apply_override(tree, "a.b.c=x=y");
  apply_override(tree, "empty.d=x");
  EXPECT_EQ(tree.value, Json::parse(R"({"empty": {"d": "x"}, "a": {"b": {"c": "x=y"}}})"));
  EXPECT_EQ(location_of(tree, "a.b"), "command line");
  EXPECT_EQ(location_of(tree, "empty"), "run.json:1");
}

TEST(Override, ReadsQuotedStringsListsAndMappings) {
  ConfigTree tree;
  apply_override(tree, R"(a="3")");
  apply_override(tree, R"(b='it''s')");
  apply_override(tree, R"(c=["x", 1.5, null])");
  apply_override(tree, R"(d={"e": {"f": true}})");
  EXPECT_EQ(tree.value, Json::parse(R"({"a":"3","b":"it's","c":["x",1.5,null],"d":{"e":{"f":true}}})"));
  EXPECT_EQ(location_of(tree, "d.e.f"), "command line");
  EXPECT_EQ(location_of(tree, "c.1"), "command line");
}

TEST(Override, ReadsListsWithoutQuotesAsYamlDoes) {
  ConfigTree tree;
  apply_override(tree, "a=[rows.jsonl]");
  apply_override(tree, "b=[ math , tags:think, 1.5,true ,null]");
  apply_override(tree, "c=[]");
  EXPECT_EQ(tree.value, Json::parse(R"({"a":["rows.jsonl"],"b":["math","tags:think",1.5,true,null],"c":[]})"));
  EXPECT_EQ(location_of(tree, "b.1"), "command line");
  EXPECT_TRUE(contains(tree_override_error("a=[x.jsonl"), "command line: a=[x.jsonl: the list is not closed"));
  EXPECT_EQ(tree_override_error("a=[x,,y]"), "command line: a=[x,,y]: an element of the list is empty");
}

TEST(Override, ErasesTheLinesOfReplacedValues) {
  ConfigTree tree = parse_config("{\"list\":\n[1,\n2], \"listing\": 1}", "run.json");
  apply_override(tree, "list=[7]");
  const std::map<std::string, int> expected{{"list", 0}, {"list.0", 0}, {"listing", 3}};
  EXPECT_EQ(tree.lines, expected);
}

TEST(Override, NamesTheProblemOfAnAssignment) {
  EXPECT_EQ(tree_override_error("rollout.temperature"), "command line: rollout.temperature: expected key=value");
  for (const char* hydra : {"+a.b=3", "++a.b=3", "~a.b=3"}) EXPECT_TRUE(contains(tree_override_error(hydra), "Hydra"));
  EXPECT_TRUE(contains(tree_override_error("=3"), "command line: =3: a part of the key is empty"));
  EXPECT_TRUE(contains(tree_override_error("a..b=3"), "command line: a..b=3: a part of the key is empty"));
  EXPECT_TRUE(contains(tree_override_error("a.=3"), "a part of the key is empty"));
  EXPECT_TRUE(contains(tree_override_error("a=[1,"), "command line: a=[1,: the list is not closed"));
  EXPECT_TRUE(contains(tree_override_error("a={\"b\":1,"), "command line: a={\"b\":1,: not valid JSON: "));
  EXPECT_TRUE(contains(tree_override_error("a={\"b\":1,}"), "unexpected '}'"));
  EXPECT_TRUE(contains(tree_override_error("a={\"b\":1e999}"), "number overflow parsing '1e999'"));
  EXPECT_TRUE(contains(tree_override_error("a={b: 1}"), "; write a mapping as JSON, with its keys and strings in double"));
  EXPECT_TRUE(contains(tree_override_error("a={\"b\":1,\"b\":2}"), "b: duplicate key"));
  EXPECT_EQ(tree_override_error("a='x"), "command line: a='x: the closing quote is missing");
  EXPECT_TRUE(contains(tree_override_error("a='x'y'"), "a single quote inside single quotes is written ''"));
  EXPECT_EQ(tree_override_error("a=.inf"), "command line: a=.inf: got .inf, expected a finite number");
  EXPECT_EQ(tree_override_error("a=\xc3("), "command line: a=\xc3(: not UTF-8; save it as UTF-8");
  EXPECT_EQ(tree_override_error("rollout.temperature.x=1"),
            "command line: rollout.temperature.x=1: rollout.temperature is not a section: it is 1 (run.json:2)");
  EXPECT_TRUE(
      contains(tree_override_error("rollout.stop.0=y"), "rollout.stop is not a section: it is [x] (run.json:2)"));
}

TEST(FindValue, FollowsKeysAndIndices) {
  const ConfigTree tree = parse_config(R"({"a": {"b": [1, {"c": 2}]}})", "run.json");
  EXPECT_EQ(*find_value(tree, "a.b.1.c"), 2);
  EXPECT_EQ(find_value(tree, "a.b.2"), nullptr);
  EXPECT_EQ(find_value(tree, "a.b.-1"), nullptr);
  EXPECT_EQ(find_value(tree, "a.x"), nullptr);
  EXPECT_EQ(find_value(tree, "a.b.0.c"), nullptr);
}

}  // namespace
}  // namespace keel
