// The tests print the untrusted bytes of rendered texts in brackets.

#include <gtest/gtest.h>

#include "keel/core/error.h"
#include "libs/hftext/chat/chat_template.h"

namespace keel {
namespace {

std::string render_with_brackets(const std::string& source) {
  const Json messages = Json::parse(R"([{"role": "user", "content": "a b", "list": ["p", "q"], "map": {"k": "v"}},
                                        {"role": "tool", "content": " größe "}])");
  const Json extra = {{"bos_token", "<s>"}, {"tools", {{{"name", "f"}}}}};
  const RenderedChat chat =
      ChatTemplate::parse("{% set c = messages[0].content %}{% set d = messages[1].content %}" + source, "t")
          .render(messages, extra);
  std::string result;
  size_t printed = 0;
  for (const auto& [begin, end] : chat.untrusted) {
    result += chat.text.substr(printed, begin - printed) + "[" + chat.text.substr(begin, end - begin) + "]";
    printed = end;
  }
  return result + chat.text.substr(printed);
}

TEST(TracedTemplate, TracksTheBytesOfMessages) {
  const std::pair<const char*, const char*> rows[] = {
      {"x{{ c }}y", "x[a b]y"},
      {"{{ bos_token }}{{ messages[0].role }}{{ tools[0].name }}", "<s>user[f]"},
      {"{{ 'x' ~ c ~ 1 }}{{ 'x' + c + 'y' }}", "x[a b]1x[a b]y"},
      {"{% set t %}<{{ c }}>{% endset %}{{ t }}", "<[a b]>"},
      {"{% macro m(t) %}<{{ t }}{{ caller() }}>{% endmacro %}{% call m(c) %}-{{ d }}{% endcall %}",
       "<[a b]-[ größe ]>"},
      {"{% filter trim %} x{{ c }} {% endfilter %}", "x[a b]"},
      {"{% generation %}x{{ c }}{% endgeneration %}", "x[a b]"},
      {"{{ ['x', c, 'y']|join('-') }}{{ '-'.join(['x', c]) }}", "x-[a b]-yx-[a b]"},
      {"{{ [1, 2]|join(c) }}", "1[a b]2"},
      {"{{ ('x' ~ c ~ 'y')[1:] }}{{ ('x' ~ c)[:2] }}{{ ('x' ~ c)[0] }}{{ ('x' ~ c)|reverse }}", "[a b]yx[a]x[b a]x"},
      {"{{ ('ü' ~ d ~ 'ü')[2:-2] }}{{ (d ~ 'ü')[::-2] }}{{ (d ~ 'ü')[5] }}", "[größe]ü[eöge]"},
      {"{{ (' x' ~ d)|trim }}|{{ ('x' ~ d).strip('x ') }}|{{ (d ~ ' x ').rstrip() }}", "x[ größe]|[größe]|[ größe ] x"},
      {"{% for w in ('x ' ~ c ~ ' y').split() %}{{ w }},{% endfor %}", "x,[a],[b],y,"},
      {"{% for w in ('x' ~ c ~ 'y').rsplit(' ', 1) %}{{ w }},{% endfor %}", "x[a],[b]y,"},
      {"{{ ('x' ~ c).partition('a ')|join('/') }}", "x/[a ]/[b]"},
      {"{{ ('x' ~ c)|replace('a', 'A') }}{{ 'xyx'.replace('y', c) }}{{ 'xy'.replace('', '-') }}", "xA[ b]x[a b]x-x-y-"},
      {"{{ '%s-%%%d' % (c, 5) }}{{ '%s'|format(c) }}|{{ '%5s|' % c }}", "[a b]-%5[a b]|[  a b]|"},
      {"{{ '<{}>{{}}'.format(c) }}{{ '<{:4}>'.format(c) }}{{ '{0.k}'.format(messages[0].map) }}",
       "<[a b]>{}<[a b ]>[v]"},
      {"{% for x in 'x' ~ c %}{{ x }}.{% endfor %}", "x.[a].[ ].[b]."},
      {"{{ c|upper }}{{ 'x'|upper }}{{ ('x' ~ c)|title }}", "[A B]X[Xa B]"},
      {"{{ [c] }}{{ ['x'] }}{{ messages[0].list }}", "[['a b']]['x'][['p', 'q']]"},
      {"{{ c|tojson }}{{ {'x': 1}|tojson }}{{ {'x': c}|tojson }}", "[\"a b\"]{\"x\": 1}[{\"x\": \"a b\"}]"},
      {"{{ messages[0].map.items()|list }}|{% for k in messages[0].map %}{{ k }}{% endfor %}", "[[('k', 'v')]]|[k]"},
      {"{% macro m() %}{{ kwargs.keys()|list }}{% endmacro %}{{ m(**messages[0].map) }}{{ m(k=1) }}", "[['k']]['k']"},
      {"{{ c|length }}{{ 'a' in c }}{{ c == 'a b' }}", "3TrueTrue"},
      {"{{ c|indent(1, true) }}{{ 'x\ny'|indent(1) }}{{ c.ljust(5) }}{{ c.center(5, '*') }}",
       " [a b]x\n y[a b]  *[a b]*"},
      {"{{ c|safe + '<' }}{{ '<'|e + c }}|{{ (c ~ '<')|e }}", "[a b]&lt;&lt;[a b]|[a b]&lt;"},
      {"{{ ('x' ~ c) * 2 }}|{{ c|truncate(3) }}{{ ('x ' ~ c ~ 'yyyyyyyyy')|truncate(8) }}",
       "x[a b]x[a b]|[a b]x [a]..."},
      {"{{ c|default('x') }}{{ none|default('x', true) }}{{ c|first }}|{{ c.removeprefix('a') }}", "[a b]x[a]|[ b]"},
      {"{{ messages|map(attribute='content')|join(',') }}", "[a b],[ größe ]"},
  };
  for (const auto& [source, expected] : rows) EXPECT_EQ(render_with_brackets(source), expected) << source;
}

TEST(TracedTemplate, CountsTheMemoryOfRanges) {
  const ChatTemplate parsed =
      ChatTemplate::parse("{% for i in range(3000) %}{{ messages[0].content }}.{% endfor %}", "t");
  const Json messages = Json::parse(R"([{"role": "user", "content": "a"}])");
  RenderOptions options;
  options.limits.output_bytes = 6000 + 3000 * sizeof(ByteRange);
  EXPECT_EQ(parsed.render(messages, Json::object(), options).untrusted.size(), 3000u);
  options.limits.output_bytes -= 100;
  EXPECT_THROW(parsed.render(messages, Json::object(), options), Error);
}

}  // namespace
}  // namespace keel
