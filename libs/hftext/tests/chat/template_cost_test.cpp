#include <gtest/gtest.h>

#include <ctime>

#include "keel/core/error.h"
#include "libs/hftext/chat/chat_template.h"
#include "tests/support/effort.h"

// Templates and texts are untrusted, so every rendering must terminate. Each expression below is evaluated in an
// endless loop on long texts; it is stopped only if every operation counts its cost.

namespace keel {
namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

constexpr const char* kSetup = R"({%- set a = messages[0].content -%}{#- a quarter of a million times a -#}
{%- set u = messages[1].content -%}{#- and of é -#}
{%- set p = messages[2].content -%}{#- half as many and a b: not in a, and each comparison reads many bytes -#}
{%- set q = messages[3].content -%}{#- the same with the b in front -#}
{%- set digits = messages[4].content -%}
{%- set spaces = messages[5].content -%}
{%- set marks = messages[6].content -%}{#- characters that are escaped -#}
{%- set words = messages[7].content -%}
{%- set many = [0] * 10000 -%}
{%- set long = [a] * 1000 -%}
{%- set chars = ('x',) * 10000 -%}
{%- set d = dict(messages[8]) -%}{#- of ten thousand keys -#}
{%- set ns = namespace(x=a) -%}
)";

const Json& cost_messages() {
  static const Json tree = [] {
    constexpr size_t kSize = 1 << 18;
    const auto repeated = [](const std::string& text) {
      std::string result;
      while (result.size() < kSize) result += text;
      return result;
    };
    const std::string half(kSize / 2, 'a');
    Json list = Json::array();
    for (const std::string& content : {repeated("a"), repeated("\u00e9"), half + "b", "b" + half, repeated("1"),
                                       repeated(" "), repeated("<"), repeated("ab c-")})
      list.push_back({{"role", "user"}, {"content", content}});
    Json::object_t keys = {{"role", "user"}};
    for (int i = 0; i < 10000; ++i) keys.emplace_back("key" + std::to_string(i), i);
    list.push_back(Json(std::move(keys)));
    return list;
  }();
  return tree;
}

const char* const kExpressions[] = {
    // Search
    "p in a", "q in a", "a.find(p)", "a.find(q)", "a.rfind(p)", "a.rfind(q)", "a.count(p)", "a.count('a')",
    "a.count('aa')", "a.count('')", "a.replace(p, 'x')", "a.replace(q, 'x')", "a.replace('a', '')", "a.replace('', '')",
    "a|replace('a', '')", "a.split(p)|length", "a.split('a')|length", "a.rsplit(p)|length", "a.rsplit(q)|length",
    "a.rsplit('a')|length", "a.rsplit('a', 3)|length", "words.split()|length", "words.rsplit()|length",
    "a.partition(p)|length", "a.rpartition(q)|length", "a.splitlines()|length", "a.startswith(p)", "a.endswith(q)",
    "a.startswith(chars)", "u.startswith('x', 5)", "u.find('x', 5)", "a.startswith(('a',) + chars)",
    "a.removeprefix(p)", "a.strip('b')", "''.strip(u)", "a.strip(u)", "spaces.strip()", "spaces|trim", "a is in(p)",
    "p is in(a)", "a.index('a')",
    // Comparison and lookup
    "a == (a ~ '')", "a < (a ~ '')", "long == long[:]", "[a ~ ''] == [a ~ 'b']", "{'x': a}.get(a)", "d.key9999",
    "d['key9999']", "d == dict(d)", "(a, 1) in [(a ~ '', 2)]", "a in long[1:]", "(many + [1]).index(1)",
    "many.count(0)", "long|sort|length", "long|unique|list|length", "long|min|length",
    // Per-character work
    "a.upper()|length", "u.upper()|length", "u|lower|length", "u.swapcase()|length", "words|title|length",
    "u.title()|length", "u.capitalize()|length", "u.isalpha()", "u.isalnum()", "a.isdigit()", "digits.isnumeric()",
    "u.islower()", "a is lower", "words|wordcount", "words.istitle()", "u[5]", "u[5:7]", "u[::-1]|length", "u|length",
    "u is sequence", "u|truncate(9)|length", "a|truncate(9, true)|length", "(digits ~ 'x')|int", "digits|float",
    "words|int", "marks|escape|length", "marks|urlencode|length", "marks|safe|length", "a|tojson|length",
    "[a]|tojson|length", "[a]|string|length", "{'k': u}|string|length", "a.expandtabs()|length", "words|indent|length",
    "words|indent(a)|length", "''|indent(a)|length", "a|reverse|length", "a|list|length", "a|first", "a|last",
    // Creating strings
    "a ~ a", "a + a", "('<'|safe) + marks", "a * 3", "'a' * 50000", "'' * 50000", "'a'.center(50000)|length",
    "''.zfill(50000)|length", "''.join(long)|length", "long|join|length", "(a|e).join([marks])|length", "'%s' % a",
    "'%.0s' % a", "('%.0s' * 1000) % ((a,) * 1000)", "'%.2000f' % 1.1", "'%50000d' % 1", "'{}'.format(a)|length",
    "a.format()|length", "('{key9999}' * 1000).format_map(d)|length", "'{:.2000f}'.format(1e300)|length",
    "'{:>50000}'.format(1)|length", "([1.1] * 1000)|string|length", "([1.1] * 1000)|tojson|length", "dict(d)|length",
    "namespace(**d) is defined", "long|map('upper')|list|length", "many|select('in', many)|list|length",
    "many|select|list|length", "[[[[[[a]]]]]]|string|length", "d|dictsort|length", "d|items|list|length",
    "d|urlencode|length", "strftime_now('%c' * 1000)|length", "ns.x|length", "long|batch(3)|list|length",
    "many|slice(7)|list|length", "many|sum", "([[1]] * 1000)|groupby(0)|length", "a|attr(a) is defined",
    "cycler(*many).next()", "many[:9999]|length"};

std::string cost_error_of(const std::string& body) {
  std::tm time{};
  time.tm_year = 126, time.tm_mday = 1;
  TemplateLimits limits;
  limits.steps = count(300'000, 600'000);  // a thirtieth of the default, so that all cases take seconds
  try {
    ChatTemplate::parse(kSetup + body, "t").render(cost_messages(), Json::object(), {.now = time, .limits = limits});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return std::string(error.what()).substr(0, 300);
  }
  return "no error";
}

/// True for errors about steps, text size or memory, but not for mistakes in the template.
bool is_limit(const std::string& error) {
  return error.find(" steps and was stopped") != std::string::npos || error.find(" bytes") != std::string::npos;
}

/// Limit on CPU seconds, many times what is needed.
const double kMaxSeconds = count(2, 4);

TEST(TemplateCost, CountsEveryOperation) {
  ASSERT_EQ(cost_error_of(""), "no error");  // the initial values are within the limits
  for (const std::string expression : kExpressions) {
    SCOPED_TRACE(expression);
    const double start = cpu_seconds();
    const std::string error = cost_error_of("{%- for i in range(100000) %}{% for j in range(100000) %}{% set x = (" +
                                            expression + ") %}{% endfor %}{% endfor %}");
    const double seconds = cpu_seconds() - start;
    EXPECT_TRUE(is_limit(error)) << error;
    EXPECT_LT(seconds, kMaxSeconds) << error;
  }
}

TEST(TemplateCost, CountsDiscardedOutput) {
  const std::string forever = "{%- for i in range(100000) %}{% for j in range(100000) %}";
  const std::string end = "{% endfor %}{% endfor %}";
  for (const std::string& body :
       {forever + "{% for k in [1] %}{% set x %}{{ a }}{{ a }}{% break %}{% endset %}{% endfor %}" + end,
        "{%- macro m() %}{{ a }}{% endmacro %}" + forever + "{% set x = m() %}" + end,
        "{%- macro m() %}{{ kwargs|length }}{% endmacro %}" + forever + "{% set x = m(**d) %}" + end,
        forever + "{% filter upper %}{{ a }}{% endfilter %}" + end,
        "{{ u }}" + forever + "{% generation %}x{% endgeneration %}" + end}) {
    SCOPED_TRACE(body);
    const double start = cpu_seconds();
    const std::string error = cost_error_of(body);
    EXPECT_TRUE(is_limit(error)) << error;
    EXPECT_LT(cpu_seconds() - start, kMaxSeconds);
  }
}

TEST(TemplateCost, SearchIsLinearAndAgreesWithPython) {
  const std::string text(4 << 20, 'a'), needle(2 << 20, 'a');
  const Json long_ones = Json::array({{{"role", "user"}, {"content", text + "c" + needle + "b"}},
                                      {{"role", "user"}, {"content", needle + "b"}},
                                      {{"role", "user"}, {"content", "c" + needle}}});
  const double start = cpu_seconds();
  const RenderedChat chat =
      ChatTemplate::parse(
          "{%- set t = messages[0].content %}{% set n = messages[1].content %}"
          "{% set m = messages[2].content %}"
          "{{ n in t }} {{ t.find(n) }} {{ t.rfind(n) }} {{ t.find(m) }} {{ t.rfind(m) }} "
          "{{ t.count(n) }} {{ t.split(n)|length }} {{ t.rsplit(n)[1]|length }} "
          "{{ t.rsplit('c', 1)[0]|length }} {{ t.rpartition(m)[2] }} {{ t.replace(m, '')|length }}",
          "t")
          .render(long_ones);
  EXPECT_LT(cpu_seconds() - start, kMaxSeconds);
  EXPECT_EQ(chat.text, "True 4194305 4194305 4194304 4194304 1 2 0 4194304 b 4194305");
}

TEST(TemplateCost, AllowsALongConversation) {
  // A hundred turns of 50 KB each, with the operations of real templates.
  Json chat = Json::array();
  const std::string content = std::string(50000, 'x').append(" \u00e9 ");
  for (int i = 0; i < 100; ++i) chat.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", content}});
  const RenderedChat rendered = ChatTemplate::parse(R"({%- for m in messages %}
{%- set content = m.content %}
{%- if '</think>' in content %}{% set content = content.split('</think>')[-1].lstrip('\n') %}{% endif %}
{%- if content.startswith('<tool_response>') and content.endswith('</tool_response>') %}{% endif %}
{{- '<|im_start|>' + m.role + '\n' + content|trim + '<|im_end|>\n' }}
{%- endfor %})",
                                                    "t")
                                    .render(chat);
  EXPECT_GT(rendered.text.size(), 5'000'000u);
}

}  // namespace
}  // namespace keel
