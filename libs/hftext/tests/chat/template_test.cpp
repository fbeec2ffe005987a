#include "libs/hftext/chat/chat_template.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "tests/support/test_folder.h"

namespace keel {
namespace {

const Json& messages() {
  static const Json tree = Json::parse(R"([
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "größe 🙂"},
    {"role": "assistant", "content": "ok",
     "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, true, null]}}}]}])");
  return tree;
}

const Json& variables() {
  static const Json tree = Json::parse(R"({
    "s": "some Text", "n": 3, "x": 2.5, "l": [3, 1, 2], "d": {"b": 1, "a": "two"}, "z": null,
    "bos_token": "<s>", "eos_token": "</s>", "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    "add_generation_prompt": true})");
  return tree;
}

RenderOptions at_fixed_time() {
  std::tm time{};
  time.tm_year = 126, time.tm_mon = 2, time.tm_mday = 7, time.tm_hour = 9, time.tm_min = 5, time.tm_sec = 2;
  return {.now = time};
}

std::string render(const std::string& source) {
  return ChatTemplate::parse(source, "t").render(messages(), variables(), at_fixed_time()).text;
}

std::string error_of(const std::string& source, const RenderOptions& options = at_fixed_time()) {
  try {
    return "no error, but: " +
           ChatTemplate::parse(source, "t").render(messages(), variables(), options).text.substr(0, 80);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
}

struct Row {
  std::string source, expected;
};

// Rendered by transformers with jinja2 3.1.6 from the messages and variables above.
const Row kRendered[] = {
    // Whitespace
    {"  {% if true %}\n  a\n  {% endif %}\nb\n", "  a\nb"},
    {"a  {%- if true -%}  b  {%- endif -%}  c", "abc"},
    {"a\n  {%+ if true +%}\nb{% endif %}\n", "a\n  \nb"},
    {"x {# note #}\ny {#- gone -#} z", "x yz"},
    {"{% raw %}{{ n }}\n{% endraw %}\n|", "{{ n }}\n|"},
    {"{{ n }}\n{{ n -}}\n 4", "3\n34"},
    {"a\r\nb\rc\n", "a\nb\nc"},
    {"  {{ n }}  {% set q = 1 %}\n  {{ q }}\n\n", "  3    1\n"},
    // Numbers
    {"{{ 9223372036854775807 % -5 }} {{ (-9223372036854775807 - 1) % 5 }} {{ (-9223372036854775807 - 1) % -1 }}",
     "-3 2 0"},
    {"{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}", "3 -4 -2 3.5 1024 0.5"},
    {"{{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e15 }} {{ 1.0 }} {{ 1e-5 }} {{ 0.0001 }} {{ 123456789.125 }}",
     "0.30000000000000004 1e+16 1000000000000000.0 1.0 1e-05 0.0001 123456789.125"},
    {"{{ 2.5|round }} {{ 3.5|round|int }} {{ 2.675|round(2) }} {{ 1234|round(-2) }} {{ 2.1|round(0, 'ceil') }}",
     "2.0 4 2.67 1200 3.0"},
    {"{{ '12'|int }} {{ '3.9'|int }} {{ 'x'|int(5) }} {{ '0x1f'|int(0, 16) }} {{ '1e3'|float }}", "12 3 5 31 1000.0"},
    {"{{ true + 1 }} {{ 1 == 1.0 }} {{ 1 == true }} {{ -7.5 // 2 }} {{ -7.5 % 2 }}", "2 True True -4.0 0.5"},
    {"{{ 1_000 + 0x1f + 0b11 + 0o17 }}", "1049"},
    // Printing
    {"{{ [1, 'a', none, true, 2.0] }} {{ {'k': (1,)} }} {{ \"it's\" }} {{ [\"it's\", 'say \"x\"', 'a\\n\\t\\\\'] }}",
     "[1, 'a', None, True, 2.0] {'k': (1,)} it's [\"it's\", 'say \"x\"', 'a\\n\\t\\\\']"},
    {"{{ z }} {{ missing }} {{ true }} {{ ['é', '\\u200b', '\\x07', '🙂'] }}",
     "None  True ['é', '\\u200b', '\\x07', '🙂']"},
    {"{{ range(3) }} {{ d.items() }} {{ d.keys() }} {{ () }} {{ (1, 2) }}",
     "range(0, 3) dict_items([('b', 1), ('a', 'two')]) dict_keys(['b', 'a']) () (1, 2)"},
    {"{{ namespace(a=1) }} {{ '<b>'|e }} {{ ['<b>'|safe] }}", "<Namespace {'a': 1}> &lt;b&gt; [Markup('<b>')]"},
    // Strings
    {"{{ 'größe'[1:4] }} {{ 'größe'[::-1] }} {{ 'größe'|length }} {{ '🙂x'[0] }} {{ 'abc'[-1] }}",
     "röß eßörg 5 🙂 c"},
    {"{{ ' a b '.strip() }}|{{ 'a,b,,c'.split(',') }}|{{ ' a  b '.split() }}|{{ 'a b c'.rsplit(' ', 1) }}|{{ "
     "'xxaxx'.strip('x') }}",
     "a b|['a', 'b', '', 'c']|['a', 'b']|['a b', 'c']|a"},
    {"{{ 'straße'.upper() }} {{ 'ΑΣ'.lower() }} {{ \"they're bill's\".title() }} {{ \"they're-x\"|title }} {{ "
     "'hELLO'.capitalize() }}",
     "STRASSE ας They'Re Bill'S They're-X Hello"},
    {"{{ 'abcabc'.replace('b', 'X', 1) }} {{ 'abc'.find('c') }} {{ 'abc'.startswith(('x', 'a')) }} {{ "
     "'abab'.count('ab') }}",
     "aXcabc 2 True 2"},
    {"{{ '%s is %05.2f and %d%%' % ('x', 3.14159, 42) }} {{ '{} {1}'.format if false else 'ok' }} {{ "
     "'{:>5}|{:<4}|{:^5}|{!r}'.format('a', 1, 2, 'q') }}",
     "x is 03.14 and 42% ok     a|1   |  2  |'q'"},
    {"{{ 'a\\nb\\n'|indent(2) }}|{{ 'a\\n\\nb'|indent(1, true, true) }}", "a\n  b\n| a\n \n b"},
    {"{{ 'a' ~ 1 ~ none ~ [2] }} {{ 'ab' * 2 }} {{ 'x' in 'xyz' }} {{ 'a' < 'b' }}", "a1None[2] abab True True"},
    {"{{ 'a-b-c'.partition('-') }} {{ 'x'.center(5, '*') }} {{ '7'.zfill(3) }} {{ '-'.join(['a', 'b']) }} {{ "
     "'a\\x85b\\u2028c'.splitlines() }}",
     "('a', '-', 'b-c') **x** 007 a-b ['a', 'b', 'c']"},
    // Filters
    {"{{ d|tojson }} {{ l|tojson(indent=2) }} {{ 'é<\"'|tojson }} {{ 'é🙂'|tojson(ensure_ascii=true) }} {{ {'b': "
     "1, "
     "'a': []}|tojson(indent=1, sort_keys=true) }}",
     "{\"b\": 1, \"a\": \"two\"} [\n  3,\n  1,\n  2\n] \"é<\\\"\" \"\\u00e9\\ud83d\\ude42\" {\n \"a\": [],\n \"b\": "
     "1\n}"},
    {"{{ l|sort }} {{ l|sort(reverse=true) }} {{ ['b', 'A', 'a']|sort }} {{ d|dictsort }} {{ ['b', 'A', "
     "'a']|unique|list }}",
     "[1, 2, 3] [3, 2, 1] ['A', 'a', 'b'] [('a', 'two'), ('b', 1)] ['b', 'A']"},
    {"{{ messages|map(attribute='role')|join(', ') }} {{ messages|selectattr('tool_calls', 'defined')|list|length }} "
     "{{ messages|rejectattr('role', 'equalto', 'user')|map(attribute='content')|list }}",
     "system, user, assistant 1 ['Be brief.', 'ok']"},
    {"{{ l|first }} {{ l|last }} {{ l|min }} {{ l|max }} {{ l|sum }} {{ [1, 2, 3, 4, 5]|batch(2, 0)|list }} {{ [1, 2, "
     "3, 4, 5]|slice(2)|list }}",
     "3 2 1 3 6 [[1, 2], [3, 4], [5, 0]] [[1, 2, 3], [4, 5]]"},
    {"{{ missing|default('x') }} {{ ''|default('x') }} {{ ''|default('x', true) }} {{ z|d('y') }}", "x  x None"},
    {"{% for g in [{'k': 'b', 'v': 1}, {'k': 'a', 'v': 2}, {'k': 'B', 'v': 3}]|groupby('k') %}{{ g.grouper }}={{ "
     "g.list|map(attribute='v')|list }};{% endfor %}",
     "a=[2];b=[1, 3];"},
    {"{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9, true) }} {{ 'a b'|urlencode }} {{ 'some "
     "words here'|wordcount }}",
     "foo... foo ba... a%20b 3"},
    {"{{ [1, 2, 3]|select('odd')|list }} {{ [1, 2, 3]|reject('gt', 1)|list }} {{ [0, 1]|select|list }} {{ 'abc'|list "
     "}} {{ 'abc'|reverse }}",
     "[1, 3] [1] [1] ['a', 'b', 'c'] cba"},
    {"{{ l|map('string')|join }} {{ ('<a>'|safe) + '<b>' }} {{ '%s-%s'|format(1, 'x') }} {{ [[1, 2], "
     "[3]]|map('length')|sum }}",
     "312 <a>&lt;b&gt; 1-x 3"},
    // Tests
    {"{{ n is number }} {{ s is string }} {{ d is mapping }} {{ l is iterable }} {{ d is sequence }} {{ z is none }} "
     "{{ missing is defined }} {{ n is odd }} {{ n is divisibleby 3 }}",
     "True True True True True True False True True"},
    {"{{ n is not string }} {{ 'A' is upper }} {{ 1.0 is float }} {{ true is boolean }} {{ true is integer }} {{ 1 is "
     "sameas 1 }} {{ 2 is in [1, 2] }} {{ range is callable }}",
     "True True True True False True True True"},
    {"{{ messages|selectattr('role', '==', 'x') and 'a generator is true' }}", "a generator is true"},
    // Loops
    {"{% for m in messages %}{{ loop.index }}/{{ loop.length }}{{ ',' if not loop.last }}{% endfor %}", "1/3,2/3,3/3"},
    {"{% for i in [] %}x{% else %}none{% endfor %} {% for i in l if i > 1 %}{{ loop.index0 }}:{{ i }} {% endfor %}",
     "none 0:3 1:2 "},
    {"{% for k, v in d.items() %}{{ k }}={{ v }} {{ loop.previtem }}|{{ loop.nextitem }};{% endfor %}",
     "b=1 |('a', 'two');a=two ('b', 1)|;"},
    {"{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% "
     "endfor %}",
     "0134"},
    {"{% set ns = namespace(t=0) %}{% for i in l %}{% set ns.t = ns.t + i %}{% set t = i %}{% endfor %}{{ ns.t }} {{ t "
     "is defined }}",
     "6 False"},
    {"{% for i in [1, [2, [3]]] recursive %}{{ loop.depth }}{{ loop(i) if i is iterable else i }} {% endfor %}",
     "11 122 233   "},
    {"{% for i in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i > 1) }}{{ loop.revindex }} {% endfor %}",
     "aTrue3 bTrue2 aTrue1 "},
    {"{% for i in l %}{% for j in 'ab' %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}", "121 122 123 "},
    // Scopes
    {"{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}{% for i in [1] %}{% set x = 3 %}{% endfor %}{{ x "
     "}}",
     "22"},
    {"{% set s %}{{ s }}!{% endset %}[{{ s }}]", "[!]"},
    {"{% macro f(a, b='B', c=a) %}{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1) }} {{ f(1, 2, 3, "
     "4, k=5) }} {{ f(b=0, a=9) }}",
     "1B1(){} 123(4,){'k': 5} 909(){}"},
    {"{% macro w() %}<{{ caller('y') }}>{% endmacro %}{% call(q) w() %}{{ q }}{{ n }}{% endcall %}", "<y3>"},
    {"{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }} {% filter upper %}x{{ s }}{% endfilter %}",
     "3False XSOME TEXT"},
    {"{% macro f() %}{{ v }}{% endmacro %}{% set v = 1 %}{{ f() }}{% set v = 2 %}{{ f() }}", "12"},
    {"{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "3210"},
    {"{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set j = joiner() %}{{ j() }}x{{ j() }}y {% set c = cycler('o', 'e') %}{{ "
     "c.next() }}{{ c.next() }}{{ c.next() }}",
     "12 x, y oeo"},
    // Lookup
    {"{{ d.a }} {{ d['b'] }} {{ d.missing }} {{ messages[0]['role'] }} {{ messages[-1].tool_calls[0].function.name }} "
     "{{ d.items is callable }}",
     "two 1  system f True"},
    {"{{ d.get('q', 'dflt') }} {{ l[1:] }} {{ l[::-1] }} {{ l[9] is defined }} {{ d.update is defined }} {{ 'abc'.0 }} "
     "{{ l.0 }}",
     "dflt [1, 2] [2, 1, 3] False False a 3"},
    {"{{ 'yes' if tools else 'no' }} {{ documents is none }} {{ add_generation_prompt }} {{ 1 if false }}|",
     "yes True True |"},
    {"{{ not z and s }} {{ z or n }} {{ 1 < 2 < 3 }} {{ 3 not in l }} {{ strftime_now('%d %b %Y') }}",
     "some Text 3 True False 07 Mar 2026"},
};

TEST(ChatTemplate, RendersAsTransformersDoes) {
  for (const Row& row : kRendered) {
    try {
      EXPECT_EQ(render(row.source), row.expected) << row.source;
    } catch (const Error& error) {
      ADD_FAILURE() << row.source << ": " << error.what();
    }
  }
}

// Invalid templates and failing operations: the message begins with the location and the line.
const Row kInvalid[] = {
    {"a\n{% if x %}", "t:2: the template ends where {% endif %} was expected"},
    {"{% endif %}", "t:1: unknown tag 'endif'"},
    {"{% for x in l %}{% endif %}{% endfor %}", "t:1: unknown or misplaced tag 'endif'; {% else %} was expected"},
    {"{{ 'open }}", "t:1: a string has no end"},
    {"{# open", "t:1: a comment {# has no end #}"},
    {"{% raw %} x", "t:1: {% raw %} has no {% endraw %}"},
    {"{{ (1 }}", "t:1: unexpected '}', expected ')'"},
    {"{{ 1 2 }}", "t:1: expected '}}', got a number"},
    {"{{ }}", "t:1: expected an expression, got '}}'"},
    {"{{ x ! y }}", "t:1: unexpected character '!' inside a tag"},
    {"{% include 'a' %}", "t:1: {% include %} is not supported"},
    {"{% import 'a' as b %}", "t:1: {% import %} is not supported"},
    {"{% extends 'a' %}", "t:1: {% extends %} is not supported"},
    {"{% block a %}{% endblock %}", "t:1: {% block %} is not supported"},
    {"{% break %}", "t:1: {% break %} is outside of a loop"},
    {"{% for x in l %}{% macro f() %}{% continue %}{% endmacro %}{% endfor %}", "{% continue %} is outside of a loop"},
    {"{% set 1 = 2 %}", "t:1: only names can be assigned to"},
    {"{% for x in l %}{% set loop = 1 %}{% endfor %}", "'loop' is the loop's own variable"},
    {"{{ x|nofilter }}", "t:1: no filter is called 'nofilter'"},
    {"{{ x is notest }}", "t:1: no test is called 'notest'"},
    {"{% macro f(a=1, b) %}{% endmacro %}", "t:1: the parameter 'b' needs a default"},
    {"{{ f(a=1, a=2) }}", "t:1: the argument 'a' is given twice"},
    {"{{ '\\ud800' }}", "is not a Unicode character"},
    {"{{ 99999999999999999999 }}", "does not fit into 64 bits"},
    {"\xFF", "the template is not valid UTF-8 at byte 0"},
    {"{{ missing.x }}", "t:1: 'missing' is undefined"},
    {"{{ d.nope.x }}", "t:1: 'dict object' has no attribute 'nope'"},
    {"\n\n{{ missing + 1 }}", "t:3: 'missing' is undefined"},
    {"{{ none[1:] }}", "t:1: a None cannot be sliced"},
    {"{% for x in 5 %}{% endfor %}", "t:1: a int cannot be iterated"},
    {"{{ 'a' + 1 }}", "t:1: '+' is not defined between str and int"},
    {"{{ 1 / 0 }}", "t:1: '/' by zero"},
    {"{{ 9223372036854775807 + 1 }}", "the result of '+' does not fit into 64 bits"},
    {"{{ 2 ** 64 }}", "the result of '**' does not fit into 64 bits"},
    {"{{ [1, 'a']|sort }}", "'<' is not defined between"},
    {"{{ d.update({'x': 1}) }}", "is unsafe"},
    {"{{ l.append(1) }}", "is unsafe"},
    {"{{ ''.__class__.__mro__ }}", "is unsafe"},
    {"{% set d.x = 1 %}", "'d' is not a namespace"},
    {"{% set ns = namespace() %}{% set ns._x = 1 %}", "begins with '_'"},
    {"{{ missing|tojson }}", "t:1: 'missing' is undefined"},
    {"{{ range|tojson }}", "a function cannot be written as JSON"},
    {"{{ raise_exception('roles must alternate') }}",
     "t:1: the template refuses this conversation: roles must alternate"},
    {"{% set a, b = [1] %}", "not enough values to unpack"},
    {"{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "the macro 'f' takes at most 1 arguments, got 2"},
    {"{{ n() }}", "a int cannot be called"},
    {"{% for i in l %}{{ loop(l) }}{% endfor %}", "needs a loop marked as recursive"},
};

TEST(ChatTemplate, ReportsLocationLineAndReasonOfAnError) {
  for (const Row& row : kInvalid) {
    const std::string error = error_of(row.source);
    EXPECT_NE(error.find(row.expected), std::string::npos) << row.source << "\n  " << error;
    EXPECT_EQ(error.substr(0, 1), "t") << error;
  }
}

// Each would run forever, or exhaust memory or the stack.
const Row kUnlimited[] = {
    {"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", "steps and was stopped"},
    {"{% for i in range(1000000000) %}{% endfor %}", "at most 100000 are allowed"},
    {"{{ range(-9223372036854775807, 9223372036854775807) }}", "at most 100000 are allowed"},
    {"{{ 'x' * 1000000000000 }}", "more than the 1048576 allowed"},
    {"{{ [1] * 1000000000000 }}", "allowed"},
    {"{{ 'x'.ljust(1000000000000) }}", "more than the 1048576 allowed"},
    {"{{ '%1000000000d' % 1 }}", "more than the 1048576 allowed"},
    {"{{ '{:1000000000}'.format(1) }}", "more than the 1048576 allowed"},
    {"{{ 'x'|center(1000000000000) }}", "more than the 1048576 allowed"},
    {"{{ l|tojson(indent=1000000000000) }}", "more than the 1048576 allowed"},
    {"{{ l|batch(1000000000000, 0)|list }}", "was stopped"},
    {"{{ l|slice(1000000000000)|list }}", "allowed"},
    {"{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
     "1048576 allowed"},
    {"{% set ns = namespace(s='x'*1000) %}{% for i in range(99999) %}{% set ns.s = ns.s.replace('x', 'xx') %}{% endfor "
     "%}",
     "steps and was stopped"},
    {"{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = ns.l + [i] %}{% endfor %}", "allowed"},
    {"{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
     "800 deep"},
    {"{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = ns.l|map('string') %}{% endfor %}{{ "
     "ns.l|list }}",
     "800 deep"},
    {"{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}", "800 deep"},
    {"{% set ns = namespace(t=()) %}{% for i in range(9999) %}{% set ns.t = (ns.t,) %}{% endfor %}{{ d[ns.t] }}",
     "800 deep"},
    {"{% set ns = namespace(t=()) %}{% for i in range(99) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}{{ d[ns.t] }}",
     "steps and was stopped"},
    {"{% set ns = namespace(t=()) %}{% for i in range(99) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}{{ ns.t|string }}",
     "allowed"},
    {"{% set t = 'ü' * 99999 %}{% for i in range(99999) %}{{ t[i] == t[-1] }}{% endfor %}", "steps and was stopped"},
    {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "800 deep"},
    {"{% for i in l recursive %}{{ loop(l) }}{% endfor %}", "800 deep"},
    {"{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", "steps and was stopped"},
};

TEST(ChatTemplate, StopsAtTheLimitsOfStepsMemoryAndDepth) {
  RenderOptions options = at_fixed_time();  // smaller than the defaults, to save time
  options.limits.steps = 1'000'000, options.limits.output_bytes = 1 << 20, options.limits.memory_bytes = 16 << 20;
  for (const Row& row : kUnlimited) {
    const std::string error = error_of(row.source, options);
    EXPECT_NE(error.find(row.expected), std::string::npos) << row.source << "\n  " << error;
  }
}

std::string repeated(const std::string& text, size_t times) {
  std::string result;
  for (size_t i = 0; i < times; ++i) result += text;
  return result;
}

TEST(ChatTemplate, RejectsDeepNestingWithoutOverflowingTheStack) {
  constexpr size_t kDeep = 50'000;
  for (const std::string& source :
       {"{{ " + repeated("(", kDeep) + "1" + repeated(")", kDeep) + " }}",
        "{{ " + repeated("[", kDeep) + repeated("]", kDeep) + " }}", "{{ " + repeated("not ", kDeep) + "1 }}",
        "{{ " + repeated("-", kDeep) + "1 }}", "{{ 1" + repeated("+1", kDeep) + " }}",
        "{{ x" + repeated(".x", kDeep) + " }}", "{{ x" + repeated("|list", kDeep) + " }}",
        "{{ x" + repeated("[0]", kDeep) + " }}", "{{ 1" + repeated(" if 1 else 1", kDeep) + " }}",
        repeated("{% if 1 %}", kDeep), repeated("{% for x in l %}", kDeep),
        "{{ " + repeated("{1:", kDeep) + repeated("}", kDeep) + " }}",
        "{{ " + repeated("f(", kDeep) + repeated(")", kDeep) + " }}"}) {
    EXPECT_NE(error_of(source).find("deep"), std::string::npos) << source.substr(0, 40) << ": " << error_of(source);
  }
}

TEST(ChatTemplate, RejectsMoreNamesThanTheLimit) {
  std::string call = "{{ f(", macro = "{% macro f(", sets;
  for (int i = 0; i < 100'000; ++i) {
    const std::string name = "a" + std::to_string(i);
    if (i < 60'000) call += name + "=1,", macro += name + ",";
    if (i < 20'000) sets += "{%set " + name + "=1%}{%if a%}b{%endif%}";
  }
  EXPECT_NE(error_of(call + ") }}").find("more than 500 named arguments"), std::string::npos);
  EXPECT_NE(error_of(macro + ") %}{% endmacro %}").find("more than 500 parameters"), std::string::npos);
  EXPECT_NE(error_of(sets).find("more than 500 variables"), std::string::npos) << error_of(sets);
  EXPECT_NE(error_of(std::string(kMaxTemplateBytes + 1, 'x')).find("at most 1048576 are read"), std::string::npos);
}

TEST(ChatTemplate, RespectsSmallerLimits) {
  RenderOptions options = at_fixed_time();
  options.limits.output_bytes = 10;
  EXPECT_NE(error_of("{{ 'x' * 11 }}", options).find("the 10 allowed"), std::string::npos);
  options.limits = {.steps = 50};
  EXPECT_NE(error_of("{% for i in range(99) %}{% endfor %}", options).find("more than 50 steps"), std::string::npos);
}

TEST(ChatTemplate, NeedsATimeOnlyForStrftimeNow) {
  EXPECT_NE(error_of("{{ strftime_now('%Y') }}", {}).find("none was given"), std::string::npos);
  EXPECT_EQ(error_of("{{ n }}", {}), "no error, but: 3");
}

TEST(ChatTemplate, ReportsTheBytesOfGenerationBlocks) {
  const RenderedChat chat =
      ChatTemplate::parse(
          "{% for m in messages %}<ü>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}é{% endgeneration %}"
          "{% else %}{{ m.content }}{% endif %}{% endfor %}",
          "t")
          .render(messages(), variables());
  EXPECT_EQ(chat.text, "<ü>Be brief.<ü>größe 🙂<ü>oké");
  ASSERT_EQ(chat.generated.size(), 1u);
  const auto [begin, end] = chat.generated[0];
  EXPECT_EQ(chat.text.substr(begin, end - begin), "oké");
}

TEST(ChatTemplate, DefinesToolsDocumentsAndThePromptFlagByDefault) {
  const ChatTemplate parsed = ChatTemplate::parse("{{ tools }} {{ documents }} {{ add_generation_prompt }}", "t");
  EXPECT_EQ(parsed.render(messages()).text, "None None False");
}

TEST(ChatTemplate, ReadsReasoningUnderItsOtherNames) {
  const ChatTemplate parsed = ChatTemplate::parse("{{ messages[0].reasoning_content }}", "t");
  EXPECT_EQ(parsed.render(Json::parse(R"([{"role": "assistant", "reasoning": "hm"}])")).text, "hm");
}

TEST(ChatTemplate, RejectsInvalidConversations) {
  const ChatTemplate parsed = ChatTemplate::parse("x", "t");
  for (const char* bad : {"[]", "{}", "null", "[1]", "[[]]"})
    EXPECT_THROW(parsed.render(Json::parse(bad)), Error) << bad;
  for (const char* bad :
       {"[]", "{\"tools\": 1}", "{\"tools\": [1]}", "{\"messages\": []}", "{\"x\": 18446744073709551615}"}) {
    EXPECT_THROW(parsed.render(messages(), Json::parse(bad)), Error) << bad;
  }
}

TEST(ChatTemplates, FilesOverrideTheConfiguration) {
  const TestFolder folder;
  create_directories(folder.path / "additional_chat_templates");
  EXPECT_TRUE(ChatTemplates::load(folder.path).empty());
  EXPECT_THROW(ChatTemplates::load(folder.path).choose(false), Error);
  folder.write("tokenizer_config.json", R"({"chat_template": "one"})");
  EXPECT_EQ(ChatTemplates::load(folder.path).choose(true).source(), "one");
  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]})");
  EXPECT_EQ(ChatTemplates::load(folder.path).choose(false).source(), "d");
  EXPECT_EQ(ChatTemplates::load(folder.path).choose(true).source(), "t");
  folder.write("chat_template.jinja", "file");
  EXPECT_EQ(ChatTemplates::load(folder.path).choose(true).source(), "file");
  folder.write("additional_chat_templates/tool_use.jinja", "extra");
  EXPECT_EQ(ChatTemplates::load(folder.path).choose(true).source(), "extra");
  EXPECT_EQ(ChatTemplates::load(folder.path).choose(false).source(), "file");
}

TEST(ChatTemplates, RejectInvalidConfigurations) {
  for (const char* bad : {"1", "[1]", "[{}]", "[{\"name\": 1, \"template\": \"\"}]", "\"{{\"", "{\"a\": 1}"}) {
    EXPECT_THROW(ChatTemplates::from_json(Json::parse(bad), "config"), Error) << bad;
  }
}

}  // namespace
}  // namespace keel
